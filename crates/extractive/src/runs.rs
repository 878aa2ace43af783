//! Commands that ran several times: how the work is started, called and looked at, and the figures measured last.

use super::checks::Outcome;
use super::commands::{self, Purpose};
use super::text;
use std::collections::HashMap;

/// Maximum length of a command that is remembered, in characters.
const COMMAND_CHARS_MAX: usize = 240;

/// A command with its runs.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) command: String,
    /// Number of its runs, and of those that failed.
    pub(super) count: usize,
    pub(super) failed: usize,
    /// True if the last of them passed.
    pub(super) passes: bool,
    /// The line that states its newest failure.
    pub(super) failure: String,
    /// The line with a figure that it printed last.
    pub(super) figure: String,
    /// True if it changes something that is no file of the work: a tracker, a branch, a service, what is installed.
    pub(super) changes: bool,
    pub(super) at: i64,
}

/// The commands of a history.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// In the order of their first run.
    pub(super) all: Vec<Run>,
    by_command: HashMap<String, usize>,
}

impl Runs {
    /// Counts the parts of a command line with its outcome.
    pub(super) fn count(&mut self, parts: &[(&str, Purpose)], outcome: Outcome, output: &str, at: i64) {
        let relevant =
            parts.iter().filter(|(_, purpose)| matches!(purpose, Purpose::Run | Purpose::Change | Purpose::Verify));
        for (part, purpose) in relevant {
            let command = text::clip(&commands::shown(part), COMMAND_CHARS_MAX);
            let next = self.all.len();
            let position = *self.by_command.entry(command.clone()).or_insert(next);
            if position == next {
                let (failure, figure) = (String::new(), String::new());
                let changes = *purpose == Purpose::Change;
                self.all.push(Run { command, count: 0, failed: 0, passes: false, failure, figure, changes, at });
            }
            let run = &mut self.all[position];
            (run.count, run.at, run.passes) = (run.count + 1, at, outcome == Outcome::Passed);
            if outcome == Outcome::Failed {
                run.failed += 1;
                run.failure = text::clip(&commands::deciding(output).unwrap_or_default(), 160);
            }
            let has_number = |line: &&str| {
                line.contains(|letter: char| letter.is_ascii_digit()) && line.contains(char::is_alphabetic)
            };
            let figures = output.lines().rev().take(40).find(has_number).filter(|_| *purpose == Purpose::Run);
            if let Some(line) = figures.filter(|_| parts.len() == 1) {
                run.figure = text::clip(&text::one_line(&text::clean(line)), 160);
            }
        }
    }
}
