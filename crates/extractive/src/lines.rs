//! Lines for the facts of a record and for what was said, as candidates for a summary.
//!
//! Each kind of fact has one form. The newest facts have most detail.

use super::checks::{Check, Outcome};
use super::claims::Judge;
use super::commands::Purpose;
use super::compose::{BETWEEN, Item, Order, Origin, REPLACED};
use super::coverage::Coverage;
use super::files::{File, Setting};
use super::record::{Commit, Record};
use super::runs::{HandledSubject, Run};
use super::statements::{self, Turn, is_nudge};
use super::text;
use super::tools::Progress;
use longhand_core::policy::Topic;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

// Labels and separators of the lines.
const FIRST: &str = "First request: ";
const LATEST: &str = "Latest request: ";
const ASKED: &str = "To “";
pub(super) const ANSWERED: &str = "”, the user said: “";
const TODO: &str = "To do: ";
const DOING: &str = "Doing: ";
const DID: &str = "Did: ";
const UNCOMMITTED: &str = "Not committed: ";
const UNCHECKED: &str = "Edited since the last check passed: ";
const TO_COMMIT: &str = "Commit the changes";
const NO_COMMIT: &str = "No commit was made of these changes";
const EDITED_SINCE: &str = " (files were edited since)";
const ROOT: &str = "Working directory: ";
const SAID: &str = "Said: ";
const DELETED: &str = "Deleted: ";
const RECENT: &str = "Ran last:";
const LAST_WORDS: &str = "The agent said last: ";
const ARROW: &str = " → ";
/// Part of the budget of which the newest step gets a third, the one before it a quarter, and so on, in percent.
const STEPS_PERCENT: usize = 8;

/// Minimum length of a step or a reason, in characters.
const DETAIL_MIN: usize = 80;

/// Maximum number of commits, of steps with reasons, of commands that changed something, and of what an agent said, the newest: no summary holds more.
const ENTRIES_MAX: usize = 600;
const SAID_MAX: usize = 6_000;

/// Maximum number of new lines of a file in one place: a file that was written whole can be read again.
const LINES_MAX: usize = 12;

/// Maximum numbers of changed files, of those that are told with their folders beside the list of all, of the newest checks, and of commands with the number of their runs; and the number of
/// runs from which one counts.
const FILES_MAX: usize = 60;
const PATHS_MAX: usize = 3;
const CHECKS_MAX: usize = 12;
const RUNS_MAX: usize = 12;
const RUNS_MIN: usize = 3;

/// Maximum length of an agent's last words, in characters.
const LAST_WORDS_MAX: usize = 500;

/// Maximum number of the commands that ran last.
const RECENT_MAX: usize = 12;

/// Maximum length of the first line of a printed text as a title, in characters.
const TITLE_CHARS_MAX: usize = 60;

/// Weight of the newest step, above all other states.
const NEWEST_STEP: f64 = 3.0;

/// Weight of the end of a text before a call, relative to the rest of it.
const ANNOUNCED: f64 = 0.3;

/// Weights in coverage: of the newest request, relative to the others; of what an agent said at the end of a turn, and on the
/// way; and of what a tool printed for people, with the maximum number of such texts.
const NEWEST_WEIGHT: f64 = 2.0;
const ANSWER_WEIGHT: f64 = 1.2;
const REMARK_WEIGHT: f64 = 0.5;
const PRINTED_WEIGHT: f64 = 0.5;
const PRINTED_MAX: usize = 120;

/// Returns the lines for a record, for a summary of so many characters.
pub(super) fn lines(record: &Record, turns: &[Turn], printed: &[(i64, &str)], units: usize) -> Vec<Item> {
    let mut by_step: HashMap<usize, Vec<(usize, usize)>> = HashMap::new();
    for (position, file) in record.files.changed.iter().enumerate() {
        for (number, line) in file.lines.iter().enumerate() {
            by_step.entry(line.step).or_default().push((position, number));
        }
    }
    let mut builder = LineBuilder { by_step, ..LineBuilder::new(record, units) };
    builder.typed(turns);
    builder.said(turns);
    builder.printed(printed);
    builder.commits();
    builder.steps();
    builder.checks();
    builder.runs();
    builder.handled();
    builder.newest(turns);
    builder.settings();
    builder.todos();
    builder.position();
    builder.unsettled();
    builder.deletions();
    builder.files();
    builder.items
}

/// The lines of what happened, the most important first, for so many characters.
pub(super) fn outcomes(record: &Record, turns: &[Turn], units: usize) -> Vec<String> {
    let mut builder = LineBuilder::new(record, units);
    builder.unsettled();
    builder.checks();
    builder.commits();
    builder.deletions();
    let is_outcome = |item: &&Item| item.topic != Topic::NextSteps;
    let mut lines: Vec<String> = builder.items.iter().filter(is_outcome).map(|item| item.text.clone()).collect();
    if let Some(last) = turns.iter().rfind(|turn| turn.typed).filter(|turn| !turn.struck) {
        lines.insert(0, format!("Last words of the user: “{}”", inner(&text::clip(&text::one_line(&last.text), 600))));
    }
    lines
}

/// The lines of what people typed under one topic, without labels, for a text of so many characters.
pub(super) fn typed(record: &Record, turns: &[Turn], units: usize) -> Vec<Item> {
    let by_step = HashMap::new();
    let mut builder =
        LineBuilder { record, units, root: None, by_step, judge: Judge::from_record(record), items: Vec::new() };
    builder.typed(turns);
    let bare = |line: String| {
        let label = [FIRST, LATEST].into_iter().find_map(|label| line.strip_prefix(label));
        label.map(str::to_owned).unwrap_or(line)
    };
    let plain = |item: Item| Item { topic: Topic::Goal, text: bare(item.text), ..item };
    builder.items.into_iter().map(plain).collect()
}

struct LineBuilder<'a> {
    record: &'a Record,
    units: usize,
    /// The folder that contains the work.
    root: Option<String>,
    /// The changed lines of each step, by file and index.
    by_step: HashMap<usize, Vec<(usize, usize)>>,
    judge: Judge<'a>,
    items: Vec<Item>,
}

impl<'a> LineBuilder<'a> {
    fn new(record: &'a Record, units: usize) -> Self {
        let (root, judge) = (record.files.root(), Judge::from_record(record));
        Self { record, units, root, by_step: HashMap::new(), judge, items: Vec::new() }
    }

    fn add(&mut self, topic: Topic, text: &str, score: f64, order: Order) {
        self.items.push(Item::new(topic, text, score, order));
    }

    /// Adds what has another state now than before.
    fn state(&mut self, topic: Topic, (head, text): (String, String), score: f64, at: i64) {
        let item = Item::new(topic, &text, score * (0.3 + 0.7 * self.record.recency(at)), Order::at(at));
        self.items.push(Item { head: text::defuse(&head), is_state: true, ..item });
    }

    /// A path relative to the folder that contains the work.
    fn relative<'p>(&self, path: &'p str) -> &'p str {
        let inside = self.root.as_deref().and_then(|root| path.strip_prefix(root)?.strip_prefix('/'));
        inside.unwrap_or(path)
    }

    fn shown(&self, path: &str) -> String {
        text::code(&self.relative(path).replace('`', "'"))
    }

    /// Adds what people typed: each text whole, and its statements.
    fn typed(&mut self, turns: &[Turn]) {
        let typed: Vec<&Turn> = turns.iter().filter(|turn| turn.typed).collect();
        let latest = typed.iter().rev().find(|turn| !is_nudge(&turn.text)).or(typed.last()).map(|turn| turn.at);
        let first = typed.first().map(|turn| turn.at).filter(|at| Some(*at) != latest);
        let typed: Vec<&Turn> = typed.into_iter().filter(|turn| !turn.struck).collect();
        let mut seen = HashSet::new();
        let (coverage, terms) = Coverage::from_texts(typed.iter().map(|turn| turn.text.as_str()));
        let replaced = coverage.replaced(&terms.iter().collect::<Vec<_>>(), true);
        for (turn, replaced) in typed.iter().zip(replaced).rev() {
            let mark = if replaced { REPLACED } else { "" };
            let text = text::one_line(&turn.text);
            // A short text that only tells an agent to go on says nothing, and is not repeated.
            if is_nudge(&text) && turn.answers.is_none() && !turn.kept && !seen.insert(text.to_lowercase()) {
                continue;
            }
            let (topic, label) = match Some(turn.at) {
                at if at == latest => (Topic::Goal, LATEST),
                at if at == first => (Topic::Goal, FIRST),
                _ => (Topic::Constraints, ""),
            };
            let line = |words: &str, label: &str| match &turn.answers {
                Some(question) => format!("{ASKED}{}{ANSWERED}{}”", inner(question), inner(words)),
                None => format!("{label}“{}”{mark}", inner(words)),
            };
            let score = if label == LATEST || turn.kept { NEWEST_WEIGHT } else { 1.0 };
            let whole = Item::new(topic, &line(&text, label), score, Order::at(turn.at));
            self.items.push(Item { kept: turn.kept, ..whole.said_by(Origin::Typed, &text) });
            for (number, piece) in turn.pieces() {
                let order = Order(turn.at, 1 + number);
                let item = Item::new(topic, &line(&piece, if number == 0 { label } else { "" }), score, order);
                self.items.push(item.said_by(Origin::TypedPiece, &piece));
            }
        }
        for reply in &self.record.replies {
            let text = match reply.question.as_str() {
                "" => format!("“{}”", inner(&reply.answer)),
                question => format!("{ASKED}{}{ANSWERED}{}”", inner(question), inner(&reply.answer)),
            };
            let item = Item::new(Topic::Constraints, &text, 1.0, Order(reply.at, 1));
            self.items.push(item.clone().said_by(Origin::Typed, &reply.answer));
            self.items.push(item.said_by(Origin::TypedPiece, &reply.answer));
        }
    }

    /// Adds a statement that is no fact of ours, and is labelled if it looks like one. What the record contradicts is left
    /// out.
    fn quote(&mut self, topic: Topic, words: &str, weight: f64, order: Order) {
        if self.judge.judge(words).is_none() {
            self.items.push(Item::new(topic, &unlike_facts(words), weight, order).said_by(Origin::Said, words));
        }
    }

    /// Adds the statements of agents.
    fn said(&mut self, turns: &[Turn]) {
        let acts = self.record.acted_at.is_some();
        let said = turns.iter().rev().filter(|turn| !turn.typed);
        let mut left = SAID_MAX;
        for turn in said {
            let weight = if turn.ends_turn || !acts { ANSWER_WEIGHT } else { REMARK_WEIGHT };
            // Where tools change things, what was said long ago is less likely to be so.
            let weight = if acts { weight * (0.25 + 0.75 * self.record.recency(turn.at)) } else { weight };
            // What only announces the lines behind it says nothing without them, and the end of a text before a call announces
            // the call.
            let says = |piece: &(usize, String)| !piece.1.ends_with([':', '：']);
            let mut pieces: Vec<_> = turn.pieces().into_iter().filter(says).take(left).collect();
            left -= pieces.len();
            let announces = (!turn.ends_turn && acts).then(|| pieces.pop()).flatten();
            for (number, piece) in pieces {
                self.quote(Topic::Context, &piece, weight, Order(turn.at, number));
            }
            if let Some((number, piece)) = announces {
                self.quote(Topic::Context, &piece, ANNOUNCED * weight, Order(turn.at, number));
            }
        }
    }

    /// Adds the statements of texts that tools printed, and of summaries by others, under the first line of each. What is
    /// about a finished subject says little.
    fn printed(&mut self, texts: &[(i64, &str)]) {
        let handled = self.record.runs.handled();
        for (at, text) in texts.iter().rev().take(PRINTED_MAX) {
            let title = text::one_line(text.trim_start().lines().next().unwrap_or_default());
            // The headings of a summary are no titles.
            let title = if title.starts_with('#') { String::new() } else { title };
            let ended = handled.iter().filter(|one| one.at > *at && one.ends);
            let is_ended = ended.into_iter().any(|one| title.split_whitespace().any(|word| word == one.subject));
            let weight = PRINTED_WEIGHT * if is_ended { 0.1 } else { 1.0 };
            let head = match title.as_str() {
                "" => String::new(),
                title => text::defuse(&format!("{}:", text::code(&text::clip(title, TITLE_CHARS_MAX)))),
            };
            for (number, piece) in statements::pieces(text) {
                let weight = weight * (0.2 + 0.8 * self.record.recency(*at));
                self.quote(Topic::Context, &piece, weight, Order(*at, number));
                if let Some(item) = self.items.last_mut().filter(|item| item.statement.as_ref() == Some(&piece)) {
                    item.head.clone_from(&head);
                }
            }
        }
    }

    /// Adds commits, the newest first.
    fn commits(&mut self) {
        let record = self.record;
        let commits = record.commits.iter().rev();
        for (rank, commit) in commits.take(ENTRIES_MAX).enumerate() {
            let name = |word: &str, name: &str| match name {
                "" => String::new(),
                name => format!("{word}{}", text::code(name)),
            };
            let (id, branch, pushed) = (name(" ", &commit.id), name(" on ", &commit.branch), self.pushed(commit));
            let line = format!("Commit{id}{branch}{pushed}: {}", text::clip(&commit.subject, 160));
            self.add(Topic::Done, &line, 1.5 / (1.0 + rank as f64 / 8.0), Order::at(commit.at));
        }
    }

    fn pushed(&self, commit: &Commit) -> &'static str {
        match self.record.pushed_at {
            None => "",
            Some(at) if at >= commit.at => ", pushed",
            Some(_) => ", not pushed",
        }
    }

    /// Adds the steps that changed lines, each with its reason: those of the current work, and the ones before it.
    fn steps(&mut self) {
        let current = self.current_from();
        let steps = self.record.steps.iter().enumerate().rev();
        let changing = steps.filter(|(number, _)| self.by_step.contains_key(number));
        for (rank, (number, step)) in changing.take(ENTRIES_MAX).enumerate() {
            let (topic, score) = match number >= current {
                true => (Topic::InProgress, 2.4 / (1.0 + 0.1 * rank as f64)),
                false => (Topic::Decisions, 0.35 + 0.65 * self.record.recency(step.at)),
            };
            let lines = self.lines(number, (self.units * STEPS_PERCENT / 100 / (3 + rank)).max(2 * DETAIL_MIN));
            if !lines.is_empty() {
                let line = with_lines(&unlike_facts(&step.words), &lines);
                // The next reader goes on from the newest one.
                let is_state = rank == 0 && topic == Topic::InProgress;
                let score = if is_state { NEWEST_STEP } else { score };
                self.items.push(Item { is_state, ..Item::new(topic, &line, score, Order::at(step.at)) });
            }
        }
    }

    /// Adds the last outcome of each check.
    fn checks(&mut self) {
        let mut checks: Vec<&Check> = self.record.checks.all.iter().collect();
        checks.retain(|check| check.verifies || check.outcome != Outcome::Passed);
        checks.sort_by_key(|check| Reverse(check.at));
        let changed_at = self.record.files.changed.iter().filter_map(|file| file.changed_at).max();
        let passed_at = self.record.checks.passed().first().map(|check| check.at);
        for (rank, check) in checks.into_iter().take(CHECKS_MAX).enumerate() {
            let aged = 1.0 / (1.0 + rank as f64 / 3.0);
            // If files were edited after a failure and another check passed since, the failure may be fixed.
            let is_older = |at: Option<i64>| at > Some(check.at);
            let is_old = is_older(changed_at) && is_older(passed_at) && check.outcome == Outcome::Failed;
            let since = if is_older(changed_at) { EDITED_SINCE } else { "" };
            let detail = text::code(&text::clip(&check.output_line, 240));
            match check.outcome {
                Outcome::Passed => {
                    let detail = if check.output_line.is_empty() { String::new() } else { format!(" ({detail})") };
                    self.add(Topic::Done, &format!("{} passed{detail}", check.named()), aged, Order::at(check.at));
                }
                Outcome::Failed => {
                    let detail = if check.output_line.is_empty() { String::new() } else { format!(": {detail}") };
                    // A failure that may be fixed blocks nothing.
                    let (topic, score) = if is_old {
                        (Topic::Context, 0.3 * self.record.recency(check.at))
                    } else {
                        (Topic::Blocked, aged)
                    };
                    self.add(topic, &format!("{} failed{detail}{since}", check.named()), score, Order::at(check.at));
                }
            }
        }
    }

    /// Adds commands that ran again and again, and the figures measured last.
    fn runs(&mut self) {
        let mut runs: Vec<_> = self.record.runs.all.iter().collect();
        runs.retain(|run| run.purpose != Purpose::Record && (run.count >= RUNS_MIN || !run.figure.is_empty()));
        runs.sort_by_key(|run| (Reverse(run.count), Reverse(run.at)));
        for (rank, run) in runs.into_iter().take(RUNS_MAX).enumerate() {
            let failed = match run.failed {
                0 => String::new(),
                _ if run.count < RUNS_MIN => String::new(),
                failed if run.failure.is_empty() => format!(", {failed} of them failed"),
                failed => format!(", {failed} of them failed, last with {}", text::code(&run.failure)),
            };
            let now = if run.passes && !failed.is_empty() { "; then it passed" } else { "" };
            let figure = if run.figure.is_empty() {
                String::new()
            } else {
                format!("; last figure: {}", text::code(&run.figure))
            };
            let times = if run.count == 1 { "once".to_owned() } else { format!("{} times", run.count) };
            let line = format!("Ran {times}: {}{failed}{now}{figure}", text::code(&run.command));
            self.add(Topic::Context, &line, 1.2 / (1.0 + rank as f64 / 4.0), Order::at(run.at));
        }
    }

    /// Adds what commands did last with their subjects, and what else they changed.
    fn handled(&mut self) {
        let handled = self.record.runs.handled();
        let mut changes: Vec<&Run> = self.record.runs.all.iter().collect();
        changes.retain(|run| run.purpose == Purpose::Change && run.passes);
        changes.sort_by_key(|run| run.at);
        let surplus = changes.len().saturating_sub(ENTRIES_MAX);
        for run in changes.into_iter().skip(surplus) {
            if handled.iter().all(|one| !run.command.contains(&one.subject)) {
                self.state(Topic::Done, ("Ran".to_owned(), text::code(&run.command)), 0.8, run.at);
            }
        }
        for HandledSubject { command, subject, at, .. } in handled {
            let head = format!("Ran {} on", text::code(command));
            self.state(Topic::Done, (head, text::code(subject)), 1.2, *at);
        }
    }

    /// Adds the commands since the newest request or commit, and the words of an agent after its last call.
    fn newest(&mut self, turns: &[Turn]) {
        let began_at = self.began_at();
        let runs =
            self.record.runs.all.iter().filter(|run| Some(run.at) >= began_at && !run.command.contains(" commit"));
        let mut runs: Vec<&Run> = runs.collect();
        runs.sort_by_key(|run| run.at);
        for run in runs.iter().rev().take(RECENT_MAX) {
            let failed = if run.passes { "" } else { " (failed)" };
            let line = format!("{}{failed}", text::code(&text::clip(&run.command, 100)));
            self.state(Topic::InProgress, (RECENT.to_owned(), line), 1.5, run.at);
        }
        let is_last = |turn: &&Turn| turn.ends_turn && self.record.acted_at.is_some_and(|acted_at| acted_at < turn.at);
        if let Some(turn) = turns.iter().rfind(|turn| !turn.typed).filter(is_last) {
            let words = text::clip(&text::one_line(&text::plain(&turn.text)), LAST_WORDS_MAX);
            if self.judge.judge(&words).is_none() {
                let item = Item::new(Topic::Context, &format!("{LAST_WORDS}{words}"), 2.6, Order::at(turn.at));
                self.items.push(Item { is_state: true, ..item });
            }
        }
    }

    /// Adds the settings that changed, with the values that no longer hold.
    fn settings(&mut self) {
        for file in self.record.files.changed.iter().filter(|file| !file.is_gone) {
            let head = format!("{} now:", self.shown(&file.path));
            for Setting { name, value, before, at } in &file.settings {
                let line = text::code(&format!("{name} = {value}"));
                self.state(Topic::Context, (head.clone(), line), (before.len() * before.len()) as f64, *at);
            }
        }
    }

    /// Adds the newest list of tasks.
    fn todos(&mut self) {
        for (position, task) in (0_i64..).zip(&self.record.todos).take(64) {
            let words = text::clip(&text::one_line(&text::plain(&task.text)), 240);
            let falling = 2.0 - 0.02 * position as f64;
            let order = Order::at(self.record.length + position);
            match task.progress {
                Progress::Pending => self.add(Topic::NextSteps, &format!("{TODO}{words}"), falling, order),
                Progress::Active => self.add(Topic::InProgress, &format!("{DOING}{words}"), falling, order),
                Progress::Done => self.add(Topic::Done, &format!("{DID}{words}"), 0.4 * falling, order),
                Progress::Dropped => {}
            }
        }
    }

    /// Adds the state of the work at the end of the history.
    fn position(&mut self) {
        let record = self.record;
        let is_changing = record.steps.len().checked_sub(1).is_some_and(|last| self.by_step.contains_key(&last));
        let last = record.steps.last().filter(|step| !is_changing && self.is_unfinished() && !step.words.is_empty());
        if let Some(step) = last {
            self.add(Topic::InProgress, &unlike_facts(&step.words), 2.4, Order::at(step.at));
        }
    }

    /// Adds changes that are neither checked nor committed.
    fn unsettled(&mut self) {
        let record = self.record;
        let committed_at = record.commits.last().map(|commit| commit.at);
        let uncommitted = self.changed_since(committed_at);
        let passed = record.checks.passed();
        let unchecked = passed.first().map(|check| self.changed_since(Some(check.at))).unwrap_or_default();
        let has_commits = committed_at.is_some();
        if !has_commits && !uncommitted.is_empty() {
            self.unsettled_line(&format!("{NO_COMMIT}: {uncommitted}"));
        }
        if has_commits && !uncommitted.is_empty() {
            self.unsettled_line(&format!("{UNCOMMITTED}{uncommitted}"));
        }
        if !unchecked.is_empty() {
            self.unsettled_line(&format!("{UNCHECKED}{unchecked}"));
        }
        if has_commits && !uncommitted.is_empty() {
            self.add(Topic::NextSteps, TO_COMMIT, 1.3, Order::at(record.length + 100));
        }
    }

    fn unsettled_line(&mut self, text: &str) {
        let item = Item::new(Topic::InProgress, text, 2.5, Order::STATE);
        self.items.push(Item { is_state: true, ..item });
    }

    /// Adds the deleted files.
    fn deletions(&mut self) {
        let mut deleted: Vec<&File> =
            self.record.files.changed.iter().filter(|file| file.deleted_at.is_some()).collect();
        deleted.sort_by_key(|file| Reverse(file.deleted_at));
        if !deleted.is_empty() {
            let shown: Vec<String> = deleted.iter().take(8).map(|file| self.shown(&file.path)).collect();
            self.add(Topic::Files, &format!("{DELETED}{}", shown.join(", ")), 1.0, Order::LAST);
        }
    }

    /// Adds the files: new and changed ones, by folder.
    fn files(&mut self) {
        if let Some(root) = &self.root {
            let text = format!("{ROOT}{}", text::code(root));
            self.add(Topic::Files, &text, 9.0, Order::FIRST);
        }
        let mut changed: Vec<&File> = self.record.files.changed.iter().filter(|file| !file.is_gone).collect();
        changed.sort_by_key(|file| Reverse(file.changed_at));
        let mut folders: BTreeMap<&str, (usize, Vec<String>)> = BTreeMap::new();
        for (rank, file) in changed.iter().take(FILES_MAX).enumerate() {
            let path = self.relative(&file.path);
            let (folder, base) =
                path.rsplit_once('/').map_or(("./", path), |_| path.split_at(path.rfind('/').unwrap_or(0) + 1));
            let new = if file.is_new { " (new)" } else { "" };
            folders.entry(folder).or_insert((rank, Vec::new())).1.push(format!("{}{new}", text::code(base)));
        }
        let line_of = |folder: &str, bases: &[String]| match bases {
            // The only file of a folder is written as a path.
            [base] => format!("`{}{}", folder.trim_start_matches("./"), &base[1..]),
            _ => format!("{}: {}", text::code(folder), bases.join(", ")),
        };
        for (folder, (rank, bases)) in folders {
            let line = line_of(folder, &bases);
            self.add(Topic::Files, &line, 2.0 / (1.0 + rank as f64 / 8.0), Order::at(rank as i64));
        }
    }

    /// True if the model was in the middle of work when the history ended.
    fn is_unfinished(&self) -> bool {
        let record = self.record;
        let acts = record.acted_at.is_some() && record.acted_at >= record.replied_at;
        acts || record.asked_at > record.replied_at && record.length > 0
    }

    /// The first step of the current work, since the newest request or commit.
    fn current_from(&self) -> usize {
        if !self.is_unfinished() {
            return self.record.steps.len();
        }
        let began_at = self.began_at();
        self.record.steps.partition_point(|step| Some(step.at) <= began_at)
    }

    /// Position of the newest request or commit.
    fn began_at(&self) -> Option<i64> {
        self.record.asked_at.max(self.record.commits.last().map(|commit| commit.at))
    }

    fn changed_since(&self, at: Option<i64>) -> String {
        let files = self.record.files.changed.iter().filter(|file| file.changed_at > at && !file.is_gone);
        let files: Vec<&File> = files.collect();
        let is_few = files.len() <= PATHS_MAX;
        let shown = |file: &File| if is_few { self.shown(&file.path) } else { text::code(text::base_name(&file.path)) };
        let paths: Vec<String> = files.into_iter().map(shown).collect();
        let most = paths.len().saturating_sub(8);
        let more = if most > 0 { format!(" and {most} more") } else { String::new() };
        format!("{}{more}", paths[most..].join(", "))
    }

    /// The lines of a step that still hold, by file, the most important ones that fit in `limit` characters.
    fn lines(&self, step: usize, limit: usize) -> String {
        let files = &self.record.files.changed;
        let positions = self.by_step.get(&step).map_or(&[][..], Vec::as_slice);
        let mut chosen: Vec<(usize, usize)> = positions.to_vec();
        chosen.sort_by_key(|(file, at)| Reverse(files[*file].lines[*at].importance()));
        let mut left = limit.saturating_sub(chosen.first().map_or(0, |(file, _)| self.shown(&files[*file].path).len()));
        chosen.retain(|(file, at)| {
            let cost = files[*file].lines[*at].text.chars().count() + 5;
            let fits = cost <= left;
            left = left.saturating_sub(cost);
            fits
        });
        chosen.truncate(LINES_MAX);
        chosen.sort_unstable();
        let groups = chosen.chunk_by(|left, right| left.0 == right.0).map(|group| {
            let lines: Vec<String> = group.iter().map(|(file, at)| text::code(&files[*file].lines[*at].text)).collect();
            format!("{}: {}", self.shown(&files[group[0].0].path), lines.join(BETWEEN))
        });
        groups.collect::<Vec<_>>().join("; ")
    }
}

/// Labels a quotation that looks like a fact of ours, so that it is not read back as one.
fn unlike_facts(words: &str) -> String {
    const LABELS: [&str; 9] = ["`", "“", "Commit ", FIRST, LATEST, TODO, DOING, DID, DELETED];
    let is_like = LABELS.iter().any(|label| words.starts_with(label));
    if is_like { format!("{SAID}{words}") } else { words.to_owned() }
}

/// A quotation without marks that end it.
fn inner(words: &str) -> String {
    words.replace(['“', '”'], "\"")
}

fn with_lines(words: &str, lines: &str) -> String {
    if words.is_empty() { lines.to_owned() } else { format!("{words}{ARROW}{lines}") }
}
