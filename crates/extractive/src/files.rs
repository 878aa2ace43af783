//! Changed files: their new lines, as far as these are still there.
//!
//! An edit states the removed and the added text. A line that a later edit removes no longer holds.

use super::text;
use super::tools::{FileEffect, Kind};
use std::collections::{HashMap, HashSet};

/// Maximum numbers of new lines, and of settings, kept of a file, the newest: no summary quotes more; maximum length of
/// a quoted line, in characters; and minimum number of words in a phrase that people read, among code.
const LINES_MAX: usize = 80;
const LINE_CHARS_MAX: usize = 150;
const PHRASE_WORDS_MIN: usize = 4;

#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) step: usize,
}

impl Line {
    /// Its importance: names of programs, exact values and, among code, words that people read; 0 for other long lines.
    pub(super) fn importance(&self, is_code: bool) -> usize {
        // A comment is no state.
        if ["//", "/*", "* ", "<!--", "#"].iter().any(|mark| self.text.starts_with(mark)) {
            return 0;
        }
        let is_phrase = |words: &str| words.split(' ').filter(|word| is_plain(word)).count() >= PHRASE_WORDS_MIN;
        let is_read = is_code && self.text.split(['"', '\'', '<', '>', '{', '}', '(', ')', '=']).any(is_phrase);
        let is_exact = self.text.contains(['"', '\'', '#', '=', ':']) || self.text.bytes().any(|b| b.is_ascii_digit());
        let is_name = |word: &&str| {
            let inner = word.trim_matches(['_', '.']);
            inner.contains(['_', '.']) || inner.chars().skip(1).any(char::is_uppercase)
        };
        let words = self.text.split(|letter: char| !letter.is_alphanumeric() && !"_.".contains(letter));
        let exact = usize::from(is_exact && self.text.chars().count() <= LINE_CHARS_MAX / 2);
        2 * words.filter(is_name).count() + exact + 6 * usize::from(is_read)
    }
}

/// True for a word of a language, and not of a program.
fn is_plain(word: &str) -> bool {
    let word = word.trim_end_matches(['.', ',', '!', '?', ':']);
    word.len() > 1 && word.chars().all(|letter| letter.is_lowercase())
        || word.chars().all(char::is_alphabetic) && word.len() > 3
}

/// A setting whose value changed: a name and a short value on one line.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) at: i64,
}

#[derive(Debug, Clone, Default)]
pub(super) struct File {
    pub(super) path: String,
    pub(super) settings: Vec<Setting>,
    pub(super) lines: Vec<Line>,
    pub(super) changed_at: Option<i64>,
    pub(super) is_new: bool,
    /// True if it was deleted or restored after its last change.
    pub(super) is_gone: bool,
    /// Position of its deletion, if it is not there.
    pub(super) deleted_at: Option<i64>,
}

impl File {
    pub(super) fn is_code(&self) -> bool {
        !["md", "mdx", "txt", "rst", "adoc"].iter().any(|ending| self.path.ends_with(&format!(".{ending}")))
    }

    /// Keeps the values that a change set. Those of a whole text replace all; of a name twice there none is known.
    fn set(&mut self, touch: &FileEffect, at: i64) {
        let (removed, added) = (settings(&touch.removed), settings(&touch.added));
        let stays = |name: &str| match (removed.get(name), added.get(name)) {
            (None, None) => touch.kind != Kind::Write,
            (None | Some(Some(_)), Some(Some(_))) => true,
            (Some(_), None) | (_, Some(None)) | (Some(None), Some(_)) => false,
        };
        self.settings.retain(|one| stays(&one.name));
        for setting in &mut self.settings {
            let value = added.get(setting.name.as_str()).copied().flatten();
            if let Some(value) = value.filter(|value| *value != setting.value) {
                (setting.value, setting.at) = (value.to_owned(), at);
            }
        }
        let values = added.iter().filter_map(|(name, value)| Some((*name, removed.get(name).copied()??, (*value)?)));
        let changed = values.filter(|(_, before, value)| before != value).map(|(name, _, value)| (name, value));
        let mut changed: Vec<(&str, &str)> = changed.collect();
        changed.sort_unstable();
        for (name, value) in changed {
            if self.settings.iter().all(|one| one.name != name) {
                self.settings.push(Setting { name: name.to_owned(), value: value.to_owned(), at });
            }
        }
        let surplus = self.settings.len().saturating_sub(LINES_MAX);
        self.settings.drain(..surplus);
    }
}

/// The settings in a text, each with its value if it is there once.
fn settings(text: &str) -> HashMap<&str, Option<&str>> {
    let mut found: HashMap<&str, Option<&str>> = HashMap::new();
    for (name, value) in text.lines().filter_map(setting) {
        found.entry(name).and_modify(|value| *value = None).or_insert(Some(value));
    }
    found
}

/// The name and the value of a line that sets something: `name: value`, `NAME=value`, `const NAME: usize = value;`.
fn setting(line: &str) -> Option<(&str, &str)> {
    const NAME_CHARS_MAX: usize = 60;
    const VALUE_CHARS_MAX: usize = 48;
    let (left, value) = line.rsplit_once(" = ").or_else(|| line.split_once([':', '=']))?;
    let left = left.split_once(": ").map_or(left, |(left, _)| left);
    let name = left.split_whitespace().next_back()?.trim_matches(['"', '\'']);
    let value = value.split_once("; //").map_or(value, |(value, _)| value);
    let value = value.trim().trim_end_matches([',', ';']).trim_matches(['"', '\'']);
    let is_name = name.starts_with(|letter: char| letter.is_alphabetic() || "_@$".contains(letter))
        && name.chars().all(|letter| letter.is_alphanumeric() || "_-.@$".contains(letter));
    let is_value =
        value.chars().any(char::is_alphanumeric) && !value.contains(['{', '}', '(', ')', '<', '>', '|', '\n']);
    let is_short = name.chars().count() <= NAME_CHARS_MAX && value.chars().count() <= VALUE_CHARS_MAX;
    (is_name && is_value && is_short).then_some((name, value))
}

#[derive(Debug, Default)]
pub(super) struct Files {
    /// The changed files, in the order of their first change.
    pub(super) changed: Vec<File>,
    by_path: HashMap<String, usize>,
    /// The same by base name, newest last.
    by_name: HashMap<String, Vec<usize>>,
    pub(super) changed_at: Option<i64>,
}

impl Files {
    pub(super) fn change(&mut self, touch: &FileEffect, at: i64, step: usize) {
        let is_whole = touch.kind == Kind::Write;
        self.changed_at = Some(at);
        let file = self.file(&touch.path);
        file.is_new |= is_whole && file.changed_at.is_none() && !file.is_gone;
        (file.changed_at, file.is_gone, file.deleted_at) = (Some(at), false, None);
        file.set(touch, at);
        let FileEffect { removed, added, .. } = touch;
        let old: HashSet<String> = removed.lines().map(quoted).collect();
        let new: HashSet<String> = added.lines().map(quoted).collect();
        if is_whole {
            file.lines.retain(|line| new.contains(&line.text));
        } else {
            file.lines.retain(|line| !old.contains(&line.text) || new.contains(&line.text));
        }
        let is_code = file.is_code();
        let mut known: HashSet<String> = file.lines.iter().map(|line| line.text.clone()).collect();
        for line in added.lines().map(quoted) {
            let line = Line { text: line, step };
            if !old.contains(&line.text) && line.importance(is_code) > 0 && known.insert(line.text.clone()) {
                file.lines.push(line);
            }
        }
        let surplus = file.lines.len().saturating_sub(LINES_MAX);
        file.lines.drain(..surplus);
    }

    /// Removes a file's lines: it was deleted, or restored to its earlier state.
    pub(super) fn forget(&mut self, path: &str, deleted_at: Option<i64>) {
        let ending = format!("/{path}");
        let exact = self.by_path.get(path).copied();
        let named = self.by_name.get(text::base_name(path)).map_or(&[][..], Vec::as_slice);
        let inside = || named.iter().rev().copied().find(|at| self.changed[*at].path.ends_with(&ending));
        let found = exact.or_else(inside);
        let file = match (found, deleted_at) {
            (Some(position), _) => &mut self.changed[position],
            (None, Some(_)) => self.file(path),
            (None, None) => return,
        };
        file.lines.clear();
        file.settings.clear();
        (file.is_gone, file.deleted_at) = (true, deleted_at);
    }

    pub(super) fn file(&mut self, path: &str) -> &mut File {
        let path = text::one_line(&text::clean(path));
        let path = path.strip_prefix("./").unwrap_or(&path);
        let next = self.changed.len();
        let position = *self.by_path.entry(path.to_owned()).or_insert(next);
        if position == next {
            self.by_name.entry(text::base_name(path).to_owned()).or_default().push(position);
            self.changed.push(File { path: path.to_owned(), ..File::default() });
        }
        &mut self.changed[position]
    }

    /// The directory that the absolute paths of changed files have in common.
    pub(super) fn root(&self) -> Option<String> {
        let mut absolute = self.changed.iter().map(|file| file.path.as_str()).filter(|path| path.starts_with('/'));
        let first = absolute.next()?;
        let mut root = &first[..first.rfind('/')?];
        for path in absolute {
            // A file elsewhere, in a home or a temporary folder, does not widen the common directory to the root.
            let mut shared = root;
            while !path.strip_prefix(shared).is_some_and(|rest| rest.starts_with('/')) {
                shared = &shared[..shared.rfind('/')?];
            }
            if shared.matches('/').count() >= 2 {
                root = shared;
            }
        }
        (root.matches('/').count() >= 2).then(|| root.to_owned())
    }
}

/// A line in the form in which lines are quoted and compared.
fn quoted(line: &str) -> String {
    let line = text::one_line(&text::clean(line));
    text::clip(line.trim_end_matches([',', ';']), LINE_CHARS_MAX).replace('`', "'")
}
