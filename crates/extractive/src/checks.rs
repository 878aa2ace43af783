//! Checks: tests, builds and other commands with a relevant outcome, each with its last one.

use super::commands;
use super::text;
use std::collections::{HashMap, VecDeque};

/// Maximum number of commands that have not passed to remember, the newest.
const OPEN_MAX: usize = 64;

/// Text for a command in the background, before the name under which its output can be requested.
pub(super) const BACKGROUND: &str = "runs in the background as ";

/// The outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It succeeded.
    Passed,
    /// It failed.
    Failed,
    /// It was stopped before its end.
    Stopped,
}

/// A command with its last outcome.
#[derive(Debug, Clone)]
pub(super) struct Check {
    /// The command.
    pub(super) command: String,
    /// The folder it ran in, if that is not the first one.
    pub(super) folder: String,
    /// Its outcome.
    pub(super) outcome: Outcome,
    /// The line of its output that states the outcome, or the last line printed by a program that is no check; may be
    /// empty.
    pub(super) output_line: String,
    /// Position of its last run.
    pub(super) at: i64,
    /// True for a check of the work.
    pub(super) verifies: bool,
}

impl Check {
    /// The command and its folder.
    pub(super) fn named(&self) -> String {
        let command = text::code(&text::clip(&self.command, 140));
        if self.folder.is_empty() { command } else { format!("{command} in {}", text::code(&self.folder)) }
    }

    /// The text for a failure in the past.
    pub(super) fn failure(&self) -> String {
        let detail = text::code(&text::clip(&self.output_line, 160));
        let detail = if self.output_line.is_empty() { String::new() } else { format!(": {detail}") };
        format!("{} failed{detail}", self.named())
    }
}

/// The checks of a history.
#[derive(Debug, Default)]
pub(super) struct Checks {
    /// In the order of their first run.
    pub(super) all: Vec<Check>,
    by_command: HashMap<(String, String), usize>,
    /// Index of the check with the last outcome.
    newest: usize,
    /// Indexes of the newest checks that have not passed.
    open: VecDeque<usize>,
}

impl Checks {
    /// Adds an outcome of a command; returns the failures that it ended, as lessons.
    pub(super) fn end(&mut self, check: Check, output: &str, changed_at: Option<i64>) -> Vec<(String, i64)> {
        let passed = check.outcome == Outcome::Passed;
        let lessons = if passed { self.clear_failures(&check, changed_at) } else { Vec::new() };
        if passed && !check.verifies {
            if !check.output_line.is_empty() {
                self.put(check);
            }
            return lessons;
        }
        let output_line = match check.outcome {
            Outcome::Passed => commands::result(output),
            Outcome::Failed => commands::deciding(output),
            Outcome::Stopped => output.lines().rev().find(|line| !line.trim().is_empty()).map(text::one_line),
        };
        self.put(Check { output_line: text::clip(&output_line.unwrap_or_default(), 240), ..check });
        lessons
    }

    /// Replaces the known state of a check.
    pub(super) fn put(&mut self, check: Check) {
        let next = self.all.len();
        let position = *self.by_command.entry((check.folder.clone(), check.command.clone())).or_insert(next);
        if check.outcome != Outcome::Passed && !self.open.contains(&position) {
            self.open.push_back(position);
            self.open.drain(..self.open.len().saturating_sub(OPEN_MAX));
        }
        self.newest = position;
        if position == next { self.all.push(check) } else { self.all[position] = check }
    }

    /// The newest command in the background with a name that a call asks for.
    pub(super) fn in_background(&self, asks: impl Fn(&str) -> bool) -> Option<String> {
        let mut open = self.open.iter().rev().map(|position| &self.all[*position]);
        let found = open.find(|check| check.output_line.strip_prefix(BACKGROUND).is_some_and(&asks));
        found.map(|check| check.command.clone())
    }

    /// Resolves the failures that a success ends: of the same command, a narrower one, or a list of commands that ends
    /// with it. A failure of another form of the command becomes a lesson.
    fn clear_failures(&mut self, passed: &Check, changed_at: Option<i64>) -> Vec<(String, i64)> {
        let command = passed.command.as_str();
        // `./...` includes everything below.
        let whole = command.strip_suffix("...").unwrap_or("\n");
        let head = |command: &str| command.split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>();
        let helper = self.all.get(self.newest).filter(|check| check.outcome == Outcome::Passed).cloned();
        let mut lessons = Vec::new();
        for position in &self.open {
            let check = &mut self.all[*position];
            let failed = check.command.as_str();
            let is_narrower =
                failed == command || failed.starts_with(&format!("{command} ")) || failed.starts_with(whole);
            let is_settled = check.folder == passed.folder && is_narrower || failed.ends_with(&format!("&& {command}"));
            if !is_settled && (check.verifies || head(failed) != head(command)) {
                continue;
            }
            // If no file was changed, another command made it pass.
            let helper = helper.as_ref().filter(|helper| helper.at > check.at && changed_at < Some(check.at));
            if let Some(helper) = helper.filter(|_| is_settled && check.outcome == Outcome::Failed) {
                lessons.push((format!("{} until {} passed", check.failure(), helper.named()), check.at));
            }
            if !is_settled {
                lessons.push((format!("{}; then {} worked", check.failure(), passed.named()), check.at));
            }
            // A command that only failed once is no check, and a check is known by its last outcome.
            (check.outcome, check.verifies) = (Outcome::Passed, check.verifies && failed == command);
            check.output_line.clear();
        }
        self.open.retain(|position| self.all[*position].outcome != Outcome::Passed);
        lessons
    }

    /// The passed checks of the work, newest first.
    pub(super) fn passed(&self) -> Vec<&Check> {
        let mut passed: Vec<&Check> =
            self.all.iter().filter(|check| check.verifies && check.outcome == Outcome::Passed).collect();
        passed.sort_by_key(|check| std::cmp::Reverse(check.at));
        passed
    }
}
