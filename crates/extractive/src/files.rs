//! Changed files: their new lines, as far as these are still there.
//!
//! An edit states the removed and the added text. A line that a later edit removes no longer holds.

use super::commands;
use super::text;
use super::tools::{FileEffect, Kind};
use regex::Regex;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// Maximum number of new lines kept of a file, the newest: no summary quotes more.
const LINES_MAX: usize = 80;

/// Maximum number of bytes read of one change.
const CHANGE_BYTES_MAX: usize = 65_536;

/// Maximum length of a quoted line, in characters.
const LINE_CHARS_MAX: usize = 150;

/// Definitions, which show the purpose of a file.
static DEFINES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?x)^\s*(?:(?:pub(?:\([a-z]+\))?|export|default|async|static|public|private|protected|abstract|final|override)\s+)*
        (?:defmodule|defp?|fn|func|function|fun|class|struct|enum|trait|interface|type|const|module|test|describe|it
        |attribute|route|CREATE|ALTER)\b",
    )
    .expect("a fixed pattern")
});

/// A new line of a file.
#[derive(Debug, Clone)]
pub(super) struct Line {
    /// Its text, on one line.
    pub(super) text: String,
    /// The step that added it.
    pub(super) step: usize,
}

impl Line {
    /// Its importance: highest for definitions and exact values, 0 for long lines of code.
    pub(super) fn importance(&self) -> usize {
        let is_prose = self.text.split_whitespace().filter(|word| word.chars().all(char::is_alphabetic)).count() > 2;
        if self.text.chars().count() > LINE_CHARS_MAX / 2 {
            return usize::from(is_prose);
        }
        let is_exact = self.text.contains(['"', '\'', '#', '=', ':']) || self.text.bytes().any(|b| b.is_ascii_digit());
        2 * usize::from(DEFINES.is_match(&self.text) || is_prose) + usize::from(is_exact)
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
        let removed = commands::head(&touch.removed, CHANGE_BYTES_MAX);
        let added = commands::head(&touch.added, CHANGE_BYTES_MAX);
        let old: HashSet<String> = removed.lines().map(quoted).collect();
        let new: HashSet<String> = added.lines().map(quoted).collect();
        if is_whole {
            file.lines.retain(|line| new.contains(&line.text));
        } else {
            file.lines.retain(|line| !old.contains(&line.text) || new.contains(&line.text));
        }
        if !removed.trim().is_empty() && !removed.trim().contains('\n') {
            replace_within(file, removed.trim(), added.trim(), step);
        }
        let mut known: HashSet<String> = file.lines.iter().map(|line| line.text.clone()).collect();
        for line in added.lines().map(quoted) {
            if !old.contains(&line) && says_something(&line) && known.insert(line.clone()) {
                file.lines.push(Line { text: line, step });
            }
        }
        let surplus = file.lines.len().saturating_sub(LINES_MAX);
        file.lines.drain(..surplus);
    }

    /// Removes a file's lines: it was deleted, or restored to its earlier state.
    pub(super) fn forget(&mut self, path: &str, deleted_at: Option<i64>) {
        /// Number of changed files searched by the end of the path, the newest.
        const SEARCH_DEPTH: usize = 256;
        let ending = format!("/{path}");
        let exact = self.by_path.get(path).copied();
        let recent = self.changed.len().saturating_sub(SEARCH_DEPTH)..self.changed.len();
        let found = exact.or_else(|| recent.rev().find(|position| self.changed[*position].path.ends_with(&ending)));
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

/// Replaces a part of the new lines, wherever it occurs.
fn replace_within(file: &mut File, old: &str, new: &str, step: usize) {
    for line in file.lines.iter_mut().filter(|line| line.text.contains(old) && !new.contains('\n')) {
        line.text = text::clip(&line.text.replace(old, new), LINE_CHARS_MAX);
        line.step = step;
    }
    let mut seen = HashSet::new();
    file.lines.retain(|line| seen.insert(line.text.clone()));
}

/// A line in the form in which lines are quoted and compared.
fn quoted(line: &str) -> String {
    let line = text::one_line(&text::clean(line));
    text::clip(line.trim_end_matches([',', ';']), LINE_CHARS_MAX).replace('`', "'")
}

/// True if a line of a file has meaning by itself.
fn says_something(line: &str) -> bool {
    let words = line.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    let is_comment =
        line.starts_with("//") || line.starts_with("/*") || line.starts_with("* ") || line.starts_with("<!--");
    !is_comment && (words.count() > 1 || line.chars().any(text::is_wide))
}
