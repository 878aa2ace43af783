//! Commands that ran several times: how the work is started, called and looked at, and the figures measured last.

use super::checks::Outcome;
use super::commands::{self, Purpose};
use super::text;
use std::collections::{HashMap, HashSet};

/// Maximum length of a command that is remembered, in characters.
const COMMAND_CHARS_MAX: usize = 240;

/// Maximum number of subjects, the newest.
const HANDLED_MAX: usize = 600;

/// Verbs of commands that end a subject.
const ENDS: [&str; 8] = ["close", "delete", "remove", "rm", "uninstall", "resolve", "stop", "kill"];

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
    pub(super) purpose: Purpose,
    pub(super) at: i64,
}

/// What a command did last with a subject: an entry of a tracker, a service, a package, a branch.
#[derive(Debug, Clone)]
pub(super) struct HandledSubject {
    /// The command without its subjects.
    pub(super) command: String,
    pub(super) subject: String,
    /// True if it ended it.
    pub(super) ends: bool,
    pub(super) at: i64,
}

/// The commands of a history.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// The changes of subjects, in order.
    handled: Vec<HandledSubject>,
    /// In the order of their first run.
    pub(super) all: Vec<Run>,
    by_command: HashMap<String, usize>,
}

impl Runs {
    /// Counts the parts of a command line with its outcome.
    pub(super) fn count(&mut self, parts: &[(&str, Purpose)], outcome: Outcome, output: &str, at: i64) {
        let relevant = parts.iter().filter(|(_, purpose)| *purpose != Purpose::Inspect);
        for (part, purpose) in relevant {
            let command = text::clip(&commands::shown(part), COMMAND_CHARS_MAX);
            if *purpose == Purpose::Change && outcome == Outcome::Passed {
                self.handle(&command, at);
            }
            let next = self.all.len();
            let position = *self.by_command.entry(command.clone()).or_insert(next);
            if position == next {
                let (failure, figure) = (String::new(), String::new());
                let purpose = *purpose;
                self.all.push(Run { command, count: 0, failed: 0, passes: false, failure, figure, purpose, at });
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

    /// What each program did last with each subject, the newest ones, in order.
    pub(super) fn handled(&self) -> Vec<&HandledSubject> {
        let mut seen = HashSet::new();
        let newest = self.handled.iter().rev();
        let last = newest.filter(|one| seen.insert((one.command.split(' ').next(), &one.subject)));
        let mut last: Vec<&HandledSubject> = last.take(HANDLED_MAX).collect();
        last.reverse();
        last
    }

    /// Keeps what a command changed.
    fn handle(&mut self, command: &str, at: i64) {
        let words: Vec<&str> = command.split_whitespace().collect();
        let is_subject = |at: &usize| {
            let word = words[*at];
            let is_name = word.chars().skip(1).any(|letter| letter.is_ascii_digit() || "._-".contains(letter));
            // What follows a flag is its value.
            let is_free = *at > 1 && !words[*at - 1].starts_with("--") && !word.starts_with('-');
            is_name && is_free && !word.contains(['/', '=', '"', '\'', '$', '*'])
        };
        let (subjects, others): (Vec<usize>, Vec<usize>) = (0..words.len()).partition(is_subject);
        let others: Vec<&str> = others.into_iter().map(|at| words[at]).collect();
        for subject in subjects.into_iter().map(|at| words[at]) {
            let ends = others.iter().any(|word| ENDS.contains(word));
            self.handled.push(HandledSubject { command: others.join(" "), subject: subject.to_owned(), ends, at });
        }
    }
}
