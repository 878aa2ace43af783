//! Checks: tests, builds and other commands with a relevant outcome, each with its last one.

use super::{commands, text};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Maximum number of failures that later successes are compared with, the newest.
const OPEN_MAX: usize = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Outcome {
    Passed,
    Failed,
}

#[derive(Debug, Clone)]
pub(super) struct Check {
    pub(super) command: String,
    /// The folder it ran in, if that is not the first one.
    pub(super) folder: String,
    pub(super) outcome: Outcome,
    /// The line of its output that states the outcome, or the last line of a program that is no check; may be empty.
    pub(super) output_line: String,
    pub(super) at: i64,
    pub(super) verifies: bool,
}

impl Check {
    /// The command with its folder, its outcome, and the line of its output that states it.
    pub(super) fn stated(&self) -> String {
        let (command, line) = (text::code(&text::clip(&self.command, 140)), text::code(&self.output_line));
        let folder = if self.folder.is_empty() { String::new() } else { format!(" in {}", text::code(&self.folder)) };
        match (self.outcome, self.output_line.is_empty()) {
            (Outcome::Passed, true) => format!("{command}{folder} passed"),
            (Outcome::Passed, false) => format!("{command}{folder} passed ({line})"),
            (Outcome::Failed, true) => format!("{command}{folder} failed"),
            (Outcome::Failed, false) => format!("{command}{folder} failed: {line}"),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Checks {
    pub(super) all: Vec<Check>,
    by_command: HashMap<(String, String), usize>,
    /// Indexes of the checks that failed last, oldest failure first.
    open: Vec<usize>,
}

impl Checks {
    pub(super) fn end(&mut self, check: Check, output: &str) {
        if check.outcome == Outcome::Passed {
            self.clear_failures(&check);
            if !check.verifies {
                return;
            }
        }
        let output_line = match check.outcome {
            Outcome::Passed => commands::result(output),
            Outcome::Failed => commands::deciding(output),
        };
        let check = Check { output_line: text::clip(&output_line.unwrap_or_default(), 240), ..check };
        let next = self.all.len();
        let position = *self.by_command.entry((check.folder.clone(), check.command.clone())).or_insert(next);
        if check.outcome == Outcome::Failed {
            self.open.retain(|open| *open != position);
            self.open.push(position);
        }
        if position == next {
            self.all.push(check)
        } else {
            self.all[position] = check
        }
        // Whether something ended the oldest of so many is not known.
        if self.open.len() > OPEN_MAX {
            let oldest = &mut self.all[self.open.remove(0)];
            (oldest.outcome, oldest.verifies) = (Outcome::Passed, false);
        }
    }

    /// Forgets that a command passed: it ran again, and its outcome is not known.
    pub(super) fn forget(&mut self, command: &str, folder: &str) {
        let key = (text::one_line(&text::clean(folder)), commands::shown(command));
        if let Some(check) = self.by_command.get(&key).map(|position| &mut self.all[*position]) {
            check.verifies &= check.outcome != Outcome::Passed;
            check.output_line.clear();
        }
    }

    /// Resolves the failures that a success ends: of the same command, a narrower one, or a list of commands that ends
    /// with it; of a command that is no check, in any form.
    fn clear_failures(&mut self, passed: &Check) {
        let command = passed.command.as_str();
        // `./...` includes everything below.
        let whole = command.strip_suffix("...").unwrap_or("\n");
        let head = |command: &str| command.match_indices(' ').nth(1).map_or(command.len(), |(at, _)| at);
        let begins = &command[..head(command)];
        for position in &self.open {
            let check = &mut self.all[*position];
            let failed = check.command.as_str();
            let behind = failed.strip_prefix(command);
            let is_narrower =
                behind.is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')) || failed.starts_with(whole);
            let is_end = failed.strip_suffix(command).is_some_and(|rest| rest.ends_with("&& "));
            let is_settled = check.folder == passed.folder && is_narrower || is_end;
            if is_settled || !check.verifies && failed[..head(failed)] == *begins {
                // A command that only failed once is no check, and a check is known by its last outcome.
                (check.outcome, check.verifies) = (Outcome::Passed, check.verifies && failed == command);
                check.output_line.clear();
            }
        }
        self.open.retain(|position| self.all[*position].outcome != Outcome::Passed);
    }

    pub(super) fn passed_at(&self) -> Option<i64> {
        let passed = self.all.iter().filter(|check| check.verifies && check.outcome == Outcome::Passed);
        passed.map(|check| check.at).max()
    }
}
