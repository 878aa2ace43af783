//! The record of a history: tasks, steps, checks and changes, each with its last state.
//!
//! A digest is read once, in order. Facts are kept by their subject (a check, a line of a file, a list of tasks), so
//! that the newest fact about a subject counts. Positions (`at`) are indexes of messages.

use super::checks::{Check, Checks, Outcome};
use super::commands::{self, Purpose};
use super::digest::{Body, Call, Digest};
use super::statements::{self, Turn, is_nudge};
use super::tools::{self, Kind, ToolUse};
use super::{files::Files, runs::Runs, text};
use longhand_model::mark::WordsStance;
use regex::Regex;
use std::collections::HashSet;
use std::sync::LazyLock;

/// Maximum length of the text of a step, in characters.
const STEP_CHARS_MAX: usize = 360;

/// A question to the user with its answer, as agents print them.
static ANSWER: LazyLock<Regex> = LazyLock::new(|| text::pattern(r#""([^"]+)"="([^"]*)""#));

#[derive(Debug, Clone)]
pub(super) struct Commit {
    pub(super) at: i64,
    /// Its short id; empty if it was not printed.
    pub(super) id: String,
    /// Its branch; empty if it was not printed.
    pub(super) branch: String,
    pub(super) subject: String,
}

/// Calls that the model made together, with its reason for them.
#[derive(Debug, Clone, Default)]
pub(super) struct ModelStep {
    pub(super) at: i64,
    pub(super) words: String,
}

/// A question of an agent with the answer of a person, or a person's words in the result of a tool.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    pub(super) at: i64,
    pub(super) question: String,
    pub(super) answer: String,
}

#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) commits: Vec<Commit>,
    pub(super) asked_at: Option<i64>,
    pub(super) steps: Vec<ModelStep>,
    pub(super) files: Files,
    pub(super) checks: Checks,
    /// Commands that ran several times, and figures that were measured.
    pub(super) runs: Runs,
    pub(super) replies: Vec<Reply>,
    pub(super) todos: Vec<tools::Task>,
    pub(super) pushed_at: Option<i64>,
    pub(super) replied_at: Option<i64>,
    pub(super) acted_at: Option<i64>,
    pub(super) length: i64,
    commit_ids: HashSet<String>,
}

impl Record {
    /// The facts of a digest, and its texts.
    pub(super) fn from_digest(digest: &Digest) -> (Self, Vec<Turn>) {
        let texts = statements::turns(digest);
        let mut record = Self { length: digest.length, ..Self::default() };
        let mut turns = texts.iter().peekable();
        for entry in &digest.entries {
            while let Some(turn) = turns.next_if(|turn| turn.at <= entry.at) {
                match turn.typed {
                    true if is_nudge(&turn.text) => {}
                    true => record.asked_at = Some(turn.at),
                    false => record.add_reply(turn.at, &turn.text),
                }
            }
            if let Body::Call(call) = &entry.body {
                let replies = record.replies.len();
                record.act(entry.at, call);
                if digest.words.get(&entry.revision) == Some(&WordsStance::Struck) {
                    record.replies.truncate(replies);
                }
            }
        }
        (record, texts)
    }

    fn add_reply(&mut self, at: i64, words: &str) {
        self.replied_at = Some(at);
        // The last paragraph before a call says what the call is for.
        let lines = text::prose(commands::tail(words, 4 * STEP_CHARS_MAX));
        let last = lines.last().map(|line| text::one_line(&text::plain(line.1))).unwrap_or_default();
        self.steps.push(ModelStep { at, words: text::clip(&last, STEP_CHARS_MAX) });
    }

    /// The current step. After a request or a commit another one begins.
    fn step(&mut self, at: i64) -> usize {
        let began_at = self.asked_at.max(self.commits.last().map(|commit| commit.at));
        if self.steps.last().is_none_or(|step| Some(step.at) <= began_at) {
            self.steps.push(ModelStep { at, ..ModelStep::default() });
        }
        self.steps.len() - 1
    }

    fn act(&mut self, at: i64, entry: &Call) {
        let Call { usage: call, outcome, output } = entry;
        let outcome = *outcome;
        self.acted_at = Some(at);
        let step = self.step(at);
        if !call.tasks.is_empty() {
            self.todos.clone_from(&call.tasks);
        }
        if outcome == Some(Outcome::Failed) && output.contains("doesn't want to proceed") {
            let answer = output.split_once("the user said:").map_or("", |(_, answer)| answer.trim());
            if !answer.is_empty() {
                let answer = text::one_line(&text::spoken(answer));
                self.replies.push(Reply { at, question: String::new(), answer });
            }
            return;
        }
        if outcome == Some(Outcome::Passed) && !output.starts_with("Error") {
            for touch in call.touches.iter().filter(|touch| matches!(touch.kind, Kind::Edit | Kind::Write)) {
                self.runs.edited();
                self.files.change(touch, at, step);
            }
        }
        match &call.command {
            Some(command) => self.run(at, command, outcome, output),
            None if call.kind == Kind::Ask => self.add_answers(at, call, output),
            None => {}
        }
    }

    fn add_answers(&mut self, at: i64, call: &ToolUse, output: &str) {
        let shown = |words: &str| text::one_line(&text::clean(words));
        let reply = |question: &str, answer: &str| Reply {
            at,
            question: text::clip(&shown(question), 160),
            answer: shown(answer),
        };
        let pairs = ANSWER.captures_iter(output).map(|pair| reply(&pair[1], &pair[2]));
        let pairs: Vec<Reply> = pairs.filter(|reply| !reply.answer.is_empty()).collect();
        if pairs.is_empty() && !output.trim().is_empty() {
            self.replies.push(reply(&call.about, output));
        }
        self.replies.extend(pairs);
    }

    fn run(&mut self, at: i64, command: &str, outcome: Option<Outcome>, output: &str) {
        let parts = commands::simple(command);
        let folder = commands::folder(command).unwrap_or_default();
        let purposes = parts.iter().map(|part| (part.as_str(), commands::purpose(part)));
        let relevant: Vec<(&str, Purpose)> = purposes.filter(|(_, purpose)| *purpose != Purpose::Inspect).collect();
        let verifies = relevant.iter().any(|(_, purpose)| *purpose == Purpose::Verify);
        // A program may print anything; only the output of a check is trusted to report a failure by its text.
        let reports = relevant.iter().any(|(_, purpose)| *purpose != Purpose::Run);
        let hides_failure = reports && commands::reports_failure(output);
        // Of a command in the background no outcome is known.
        let Some(outcome) = outcome.filter(|_| !output.contains("background with ID: ")) else {
            if let ([(part, purpose)], None) = (relevant.as_slice(), outcome) {
                self.runs.stop(part, *purpose, at);
            }
            return relevant.iter().for_each(|(part, _)| self.checks.forget(part, folder));
        };
        let outcome = if hides_failure { Outcome::Failed } else { outcome };
        if let ([(part, purpose)], true) = (relevant.as_slice(), commands::was_stopped(output)) {
            self.runs.stop(part, *purpose, at);
            return self.checks.forget(part, folder);
        }
        let failure = (outcome == Outcome::Failed).then(|| commands::deciding(output).unwrap_or_default());
        self.runs.count(&relevant, failure.as_deref(), output, at);
        if let [(part, _)] = relevant.as_slice() {
            self.runs.follow(part, folder, failure.as_deref(), at);
        }
        if outcome != Outcome::Passed {
            // Of a line with one check that one failed: whatever prepares it is no check.
            let verifying: Vec<&str> =
                relevant.iter().filter(|(_, purpose)| *purpose == Purpose::Verify).map(|(part, _)| *part).collect();
            let (command, purpose) = match verifying.as_slice() {
                [check] => ((*check).to_owned(), Purpose::Verify),
                _ if relevant.is_empty() => return,
                checks => {
                    // Which one failed is not known, so that none of them is known to pass.
                    checks.iter().for_each(|check| self.checks.forget(check, folder));
                    let joined = relevant.iter().map(|(part, _)| *part).collect::<Vec<_>>().join(" && ");
                    (joined, if verifies { Purpose::Verify } else { Purpose::Change })
                }
            };
            return self.check(at, &command, folder, outcome, output, purpose);
        }
        for (part, purpose) in relevant {
            self.check(at, part, folder, outcome, output, purpose);
            match purpose {
                Purpose::Record => self.recorded(at, part, output),
                Purpose::Change => self.changed(at, part),
                Purpose::Verify | Purpose::Run | Purpose::Inspect => {}
            }
        }
    }

    /// Reads a command that changes something besides the edits of tools.
    fn changed(&mut self, at: i64, part: &str) {
        let words: Vec<&str> = part.split_whitespace().collect();
        let takes_back = words.first() == Some(&"rm")
            || words.starts_with(&["git", "rm"])
            || words.starts_with(&["git", "checkout"]) && words.contains(&"--")
            || words.starts_with(&["git", "restore"]);
        if takes_back {
            let deletes = words.contains(&"rm");
            let paths = words.iter().skip(1).filter(|path| !path.starts_with('-') && **path != "rm");
            paths.for_each(|path| self.files.forget(path, deletes.then_some(at)));
        }
    }

    fn recorded(&mut self, at: i64, part: &str, output: &str) {
        if commands::pushes(part) {
            self.pushed_at = Some(at);
        }
        let mut commits = commands::commits(output);
        if commits.is_empty() {
            commits.extend(commands::quiet_commit(part, output).map(|(id, subject)| (String::new(), id, subject)));
        }
        for (branch, id, subject) in commits {
            let name = if id.is_empty() { &subject } else { &id };
            if self.commit_ids.insert(name.clone()) {
                self.commits.push(Commit { at, id, branch, subject });
            }
        }
    }

    fn check(&mut self, at: i64, command: &str, folder: &str, outcome: Outcome, output: &str, purpose: Purpose) {
        let (command, folder) = (commands::shown(command), text::one_line(&text::clean(folder)));
        let verifies = purpose == Purpose::Verify;
        let check = Check { command, folder, outcome, output_line: String::new(), at, verifies };
        self.checks.end(check, output);
    }

    /// The importance of a position by its age: 1 at the end, and half of it a quarter of a long history earlier.
    pub(super) fn recency(&self, at: i64) -> f64 {
        let half_life = (self.length as f64 / 4.0).max(12.0);
        0.5_f64.powf((self.length - at - 1) as f64 / half_life)
    }
}
