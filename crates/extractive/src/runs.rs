//! Commands that ran several times: how the work is started, called and looked at, and the figures measured last.

use super::checks::Outcome;
use super::commands::{self, Purpose};
use super::text;
use std::collections::{HashMap, HashSet};

/// Maximum length of a command that is remembered, in characters.
const COMMAND_CHARS_MAX: usize = 240;

/// Maximum number of subjects, the newest.
const HANDLED_MAX: usize = 600;

/// Maximum numbers of failures that are followed, the newest, and of commands that ended one.
const FAILING_MAX: usize = 20;
const FIXES_MAX: usize = 2;

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
    /// True if somebody stopped the last of them, and never one of them passed.
    pub(super) is_stopped: bool,
    /// The line that states its newest failure.
    pub(super) failure: String,
    /// The line with a figure that it printed last.
    pub(super) figure: String,
    pub(super) purpose: Purpose,
    pub(super) at: i64,
}

/// What a command did last with a subject: an entry of a tracker, a service, a package, a branch.
#[derive(Debug, Clone)]
pub(super) struct Handled {
    /// The command without its subjects.
    pub(super) command: String,
    pub(super) subject: String,
    /// True if it ended it.
    pub(super) ends: bool,
    pub(super) at: i64,
}

/// A failure that ended without an edit, by other commands.
#[derive(Debug, Clone)]
pub(super) struct Fix {
    /// The command that failed, with its folder.
    pub(super) command: String,
    /// The line that states the failure.
    pub(super) failure: String,
    /// The first commands that passed before it passed too.
    pub(super) by: Vec<String>,
    pub(super) at: i64,
}

/// The commands of a history.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// What other commands ended, and the failures that nothing ended so far.
    pub(super) fixes: Vec<Fix>,
    failing: Vec<Fix>,
    /// The newest line that a program printed about a subject that it had ended.
    pub(super) printed: HashMap<String, (i64, String)>,
    /// The changes of subjects, in order.
    handled: Vec<Handled>,
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
                let (count, failed, passes, is_stopped) = (0, 0, false, false);
                self.all.push(Run { command, count, failed, passes, is_stopped, failure, figure, purpose, at });
            }
            let run = &mut self.all[position];
            (run.count, run.at, run.passes) = (run.count + 1, at, outcome == Outcome::Passed);
            run.is_stopped = false;
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

    /// Keeps that somebody stopped a command, and that its outcome is not known.
    pub(super) fn stop(&mut self, part: &str, purpose: Purpose, at: i64) {
        self.count(&[(part, purpose)], Outcome::Failed, "", at);
        if let Some(run) = self.all.iter_mut().rfind(|run| run.at == at) {
            (run.count, run.failed, run.is_stopped) = (run.count - 1, run.failed - 1, run.count == 1);
        }
    }

    /// Forgets failures of checks: an edit may end them.
    pub(super) fn edited(&mut self) {
        self.failing.retain(|failing| commands::purpose(&failing.command) != Purpose::Verify);
    }

    /// Follows a failure until its command passes.
    pub(super) fn follow(&mut self, part: &str, folder: &str, outcome: Outcome, output: &str, at: i64) {
        let shown = text::clip(&commands::shown(part), COMMAND_CHARS_MAX / 2);
        let command = if folder.is_empty() { shown } else { format!("{shown} in {folder}") };
        let known = self.failing.iter().position(|failing| failing.command == command);
        match (outcome, known) {
            (Outcome::Failed, None) => {
                let failure = text::clip(&commands::deciding(output).unwrap_or_default(), 160);
                self.failing.push(Fix { command, failure, by: Vec::new(), at });
                let surplus = self.failing.len().saturating_sub(FAILING_MAX);
                self.failing.drain(..surplus);
            }
            (Outcome::Failed, Some(known)) => self.failing[known].by.clear(),
            (Outcome::Passed, known) => {
                let fix = known.map(|known| self.failing.remove(known));
                self.fixes.extend(fix.filter(|fix| !fix.by.is_empty()));
                let open = self.failing.iter_mut().filter(|failing| failing.by.len() < FIXES_MAX);
                open.for_each(|failing| failing.by.push(command.clone()));
            }
        }
    }

    /// Keeps what programs print about the subjects that they ended.
    pub(super) fn print(&mut self, parts: &[String], output: &str, at: i64) {
        const LINES_MAX: usize = 400;
        const WORDS_MAX: usize = 6;
        const LINE_CHARS_MAX: usize = 80;
        let runs = |one: &&Handled| {
            let program = one.command.split(' ').next();
            one.ends && parts.iter().any(|part| part.split_whitespace().next() == program)
        };
        let subjects: HashSet<&str> = self.handled.iter().filter(runs).map(|one| one.subject.as_str()).collect();
        if subjects.is_empty() {
            return;
        }
        let mut printed = Vec::new();
        for line in output.lines().take(LINES_MAX) {
            let mut words = line.split_whitespace().take(WORDS_MAX).map(|word| word.trim_end_matches([':', ',']));
            if let Some(subject) = words.find(|word| subjects.contains(word)) {
                printed
                    .push((subject.to_owned(), (at, text::clip(&text::one_line(&text::clean(line)), LINE_CHARS_MAX))));
            }
        }
        self.printed.extend(printed);
    }

    /// What each program did last with each subject, the newest ones, in order.
    pub(super) fn handled(&self) -> Vec<&Handled> {
        let mut seen = HashSet::new();
        let newest = self.handled.iter().rev();
        let last = newest.filter(|one| seen.insert((one.command.split(' ').next(), &one.subject)));
        let mut last: Vec<&Handled> = last.take(HANDLED_MAX).collect();
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
            self.handled.push(Handled { command: others.join(" "), subject: subject.to_owned(), ends, at });
        }
    }
}
