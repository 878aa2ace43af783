//! Changed files: their new lines, as far as these are still there.
//!
//! An edit states the removed and the added text. A line that a later edit removes no longer holds.

use super::text;
use super::tools::{FileEffect, Kind};
use std::collections::{HashMap, HashSet};

/// Maximum number of new lines kept of a file, the newest: no summary quotes more.
const LINES_MAX: usize = 80;

/// Maximum length of a quoted line, in characters.
const LINE_CHARS_MAX: usize = 150;

/// A new line of a file.
#[derive(Debug, Clone)]
pub(super) struct Line {
    /// Its text, on one line.
    pub(super) text: String,
    /// The step that added it.
    pub(super) step: usize,
}

impl Line {
    /// Its importance: names of programs and exact values, 0 for other long lines.
    pub(super) fn importance(&self) -> usize {
        // A comment is no state.
        if ["//", "/*", "* ", "<!--"].iter().any(|mark| self.text.starts_with(mark)) {
            return 0;
        }
        let is_exact = self.text.contains(['"', '\'', '#', '=', ':']) || self.text.bytes().any(|b| b.is_ascii_digit());
        let is_name = |word: &&str| {
            let inner = word.trim_matches(['_', '.']);
            inner.contains(['_', '.']) || inner.chars().skip(1).any(char::is_uppercase)
        };
        let words = self.text.split(|letter: char| !letter.is_alphanumeric() && !"_.".contains(letter));
        2 * words.filter(is_name).count() + usize::from(is_exact && self.text.chars().count() <= LINE_CHARS_MAX / 2)
    }
}

/// A changed file.
#[derive(Debug, Clone, Default)]
pub(super) struct File {
    pub(super) path: String,
    /// Its new lines that are still there, in the order in which they were added.
    pub(super) lines: Vec<Line>,
    pub(super) changed_at: Option<i64>,
    pub(super) is_new: bool,
    /// True if it was deleted or restored after its last change.
    pub(super) is_gone: bool,
    /// Position of its deletion, if it is not there.
    pub(super) deleted_at: Option<i64>,
}

/// The files of a history.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// The changed files, in the order of their first change.
    pub(super) changed: Vec<File>,
    by_path: HashMap<String, usize>,
    /// Position of the newest change.
    pub(super) changed_at: Option<i64>,
}

impl Files {
    /// Adds a change.
    pub(super) fn change(&mut self, touch: &FileEffect, at: i64, step: usize) {
        let is_whole = touch.kind == Kind::Write;
        self.changed_at = Some(at);
        let file = self.file(&touch.path);
        file.is_new |= is_whole && file.changed_at.is_none() && !file.is_gone;
        (file.changed_at, file.is_gone, file.deleted_at) = (Some(at), false, None);
        let FileEffect { removed, added, .. } = touch;
        let old: HashSet<String> = removed.lines().map(quoted).collect();
        let new: HashSet<String> = added.lines().map(quoted).collect();
        if is_whole {
            file.lines.retain(|line| new.contains(&line.text));
        } else {
            file.lines.retain(|line| !old.contains(&line.text) || new.contains(&line.text));
        }
        if !removed.trim().is_empty() && !removed.trim().contains('\n') {
            file.lines.retain(|line| !line.text.contains(removed.trim()));
        }
        let mut known: HashSet<String> = file.lines.iter().map(|line| line.text.clone()).collect();
        for line in added.lines().map(quoted) {
            let line = Line { text: line, step };
            if !old.contains(&line.text) && line.importance() > 0 && known.insert(line.text.clone()) {
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
        let found = exact.or_else(|| self.changed.iter().rposition(|file| file.path.ends_with(&ending)));
        let file = match (found, deleted_at) {
            (Some(position), _) => &mut self.changed[position],
            (None, Some(_)) => self.file(path),
            (None, None) => return,
        };
        file.lines.clear();
        (file.is_gone, file.deleted_at) = (true, deleted_at);
    }

    /// The entry of a changed file, created if it is new.
    pub(super) fn file(&mut self, path: &str) -> &mut File {
        let path = text::one_line(&text::clean(path));
        let path = path.strip_prefix("./").unwrap_or(&path);
        let next = self.changed.len();
        let position = *self.by_path.entry(path.to_owned()).or_insert(next);
        if position == next {
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
