//! Commands that ran several times: how the work is started, called and looked at, and the figures measured last.

use super::commands::{self, Purpose};
use super::text;
use std::collections::{HashMap, HashSet};

/// Maximum length of a command that is remembered, in characters; and maximum numbers, the newest, of subjects, of
/// failures that are followed, and of commands that ended one.
const COMMAND_CHARS_MAX: usize = 240;
const HANDLED_MAX: usize = 600;
const FAILING_MAX: usize = 20;
const FIXES_MAX: usize = 2;

/// Verbs of commands that end a subject.
const ENDS: [&str; 8] = ["close", "delete", "remove", "rm", "uninstall", "resolve", "stop", "kill"];

#[derive(Debug, Clone, Default)]
pub(super) struct Run {
    pub(super) command: String,
    /// Number of its runs, and of those that failed. It has none if somebody stopped each of them.
    pub(super) count: usize,
    pub(super) failed: usize,
    pub(super) passes: bool,
    /// True if it changed subjects, and is told with them.
    pub(super) has_subjects: bool,
    pub(super) failure: String,
    /// The line with a figure that it printed last.
    pub(super) figure: String,
    pub(super) purpose: Purpose,
    pub(super) at: i64,
}

/// What a command did last with a subject: an entry of a tracker, a service, a package, a branch.
#[derive(Debug, Clone)]
pub(super) struct HandledSubject {
    pub(super) command: String,
    pub(super) subject: String,
    pub(super) ends: bool,
    pub(super) at: i64,
}

/// A failure that ended without an edit, by other commands.
#[derive(Debug, Clone)]
pub(super) struct Fix {
    pub(super) command: String,
    pub(super) failure: String,
    /// The first commands that passed before it passed too.
    pub(super) by: Vec<String>,
    pub(super) at: i64,
}

#[derive(Debug, Default)]
pub(super) struct Runs {
    /// What other commands ended, and the failures that nothing ended so far.
    pub(super) fixes: Vec<Fix>,
    failing: Vec<Fix>,
    /// The changes of subjects, in order.
    handled: Vec<HandledSubject>,
    pub(super) all: Vec<Run>,
    by_command: HashMap<String, usize>,
}

impl Runs {
    /// Counts the relevant parts of a command line with its outcome, and the line that states its failure.
    pub(super) fn count(&mut self, parts: &[(&str, Purpose)], failure: Option<&str>, output: &str, at: i64) {
        for (part, purpose) in parts {
            let has_subjects = *purpose == Purpose::Change && failure.is_none() && self.handle(part, at);
            let run = self.run(part, *purpose);
            (run.count, run.at, run.passes, run.has_subjects) = (run.count + 1, at, failure.is_none(), has_subjects);
            if let Some(failure) = failure {
                run.failed += 1;
                run.failure = text::clip(failure, 160);
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

    /// Keeps that somebody stopped a command, unless one of its runs came to its end.
    pub(super) fn stop(&mut self, part: &str, purpose: Purpose, at: i64) {
        let run = self.run(part, purpose);
        run.at = if run.count == 0 { at } else { run.at };
    }

    fn run(&mut self, part: &str, purpose: Purpose) -> &mut Run {
        let command = text::clip(&commands::shown(part), COMMAND_CHARS_MAX);
        let next = self.all.len();
        let position = *self.by_command.entry(command.clone()).or_insert(next);
        if position == next {
            self.all.push(Run { command, purpose, ..Run::default() });
        }
        &mut self.all[position]
    }

    /// Forgets failures of checks: an edit may end them.
    pub(super) fn edited(&mut self) {
        self.failing.retain(|failing| commands::purpose(&failing.command) != Purpose::Verify);
    }

    /// Follows a failure until its command passes.
    pub(super) fn follow(&mut self, part: &str, folder: &str, failure: Option<&str>, at: i64) {
        let shown = text::clip(&commands::shown(part), COMMAND_CHARS_MAX / 2);
        let command = if folder.is_empty() { shown } else { format!("{shown} in {folder}") };
        let known = self.failing.iter().position(|failing| failing.command == command);
        match (failure, known) {
            (Some(failure), None) => {
                let failure = text::clip(failure, 160);
                self.failing.push(Fix { command, failure, by: Vec::new(), at });
                let surplus = self.failing.len().saturating_sub(FAILING_MAX);
                self.failing.drain(..surplus);
            }
            (Some(_), Some(known)) => self.failing[known].by.clear(),
            (None, known) => {
                let fix = known.map(|known| self.failing.remove(known));
                self.fixes.extend(fix.filter(|fix| !fix.by.is_empty()));
                let open = self.failing.iter_mut().filter(|failing| failing.by.len() < FIXES_MAX);
                open.for_each(|failing| failing.by.push(command.clone()));
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

    /// Keeps the subjects that a command changed; false if it has none.
    fn handle(&mut self, part: &str, at: i64) -> bool {
        let command = text::clip(&commands::shown(part), COMMAND_CHARS_MAX);
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
        let ends = others.iter().any(|word| ENDS.contains(word));
        for subject in subjects.iter().map(|at| words[*at].to_owned()) {
            self.handled.push(HandledSubject { command: others.join(" "), subject, ends, at });
        }
        !subjects.is_empty()
    }
}
