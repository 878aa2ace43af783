//! Lines for the facts of a record and for what was said, as candidates for a summary.
//!
//! Each kind of fact has one form. The newest facts have most detail.

use super::checks::{Check, Outcome};
use super::compose::{BETWEEN, Item, Order, Origin, TEXT};
use super::files::{File, Setting};
use super::runs::{HandledSubject, Run};
use super::statements::{self, Turn, is_nudge};
use super::{claims::Judge, commands::Purpose, record::Record, text};
use longhand_core::policy::Topic;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

// Labels of lines that no quotation has.
const FIRST: &str = "First request: ";
const LATEST: &str = "Latest request: ";
const TODO: &str = "To do: ";
const DOING: &str = "Doing: ";
const DID: &str = "Did: ";
const DELETED: &str = "Deleted: ";

/// Part of the budget of which the newest step gets a third, the one before it a quarter, and so on, in percent.
const STEPS_PERCENT: usize = 8;

/// Minimum length of the lines of a step, and of a reason, in characters.
const STEP_CHARS_MIN: usize = 160;
const REASON_CHARS_MIN: usize = 30;

/// The most commits, steps with reasons, commands that changed something, and statements of agents: the newest.
const ENTRIES_MAX: usize = 600;
const SAID_MAX: usize = 6_000;

/// Maximum numbers of new lines of a file in one place, as a file that was written whole can be read again; of changed
/// files, of those that are told with their folders beside the list of all, of the newest checks, and of commands with
/// the number of their runs; and the number of runs from which one counts.
const LINES_MAX: usize = 12;
const FILES_MAX: usize = 60;
const PATHS_MAX: usize = 3;
const CHECKS_MAX: usize = 12;
const RUNS_MAX: usize = 12;
const RUNS_MIN: usize = 3;

/// Weights: of the newest step, above all other states, and of a line that an older one wrote; of what an agent said at
/// the end of a turn, on the way, and at the end of a text before a call, relative to the rest of it; and of what a
/// tool printed for people, with the maximum number of such texts.
const NEWEST_STEP: f64 = 3.0;
const LINE_WEIGHT: f64 = 0.3;
const ANSWER_WEIGHT: f64 = 1.2;
const REMARK_WEIGHT: f64 = 0.5;
const ANNOUNCED: f64 = 0.3;
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
    let mut lines: Vec<String> = builder.items.into_iter().map(|item| item.text).collect();
    if let Some(last) = turns.iter().rfind(|turn| turn.typed).filter(|turn| !turn.struck) {
        lines.insert(0, format!("Last words of the user: “{}”", inner(&text::clip(&text::one_line(&last.text), 600))));
    }
    lines
}

/// The lines of what people typed under one topic, without labels, for a text of so many characters.
pub(super) fn typed(record: &Record, turns: &[Turn], units: usize) -> Vec<Item> {
    let mut builder = LineBuilder::new(record, units);
    builder.typed(turns);
    let bare = |line: &str| line.trim_start_matches(FIRST).trim_start_matches(LATEST).to_owned();
    let plain = |item: Item| Item { topic: Topic::Goal, text: bare(&item.text), ..item };
    builder.items.into_iter().map(plain).collect()
}

struct LineBuilder<'a> {
    record: &'a Record,
    units: usize,
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
        for (place, turn) in typed.into_iter().enumerate() {
            let (text, place) = (text::one_line(&turn.text), place * TEXT);
            let (topic, label) = match Some(turn.at) {
                at if at == latest => (Topic::Goal, LATEST),
                at if at == first => (Topic::Goal, FIRST),
                _ => (Topic::Constraints, ""),
            };
            let line = |words: &str, label: &str| match &turn.answers {
                Some(question) => answer(question, words),
                None => format!("{label}“{}”", inner(words)),
            };
            let whole = Item::new(topic, &line(&text, label), 1.0, Order(turn.at, place));
            self.items.push(Item { kept: turn.kept, ..whole.said_by(Origin::Typed, &text) });
            for (number, piece) in statements::pieces(&turn.text) {
                let order = Order(turn.at, place + 1 + number);
                let item = Item::new(topic, &line(&piece, if number == 0 { label } else { "" }), 1.0, order);
                self.items.push(item.said_by(Origin::TypedPiece, &piece));
            }
        }
        for reply in &self.record.replies {
            let text = match reply.question.as_str() {
                "" => format!("“{}”", inner(&reply.answer)),
                question => answer(question, &reply.answer),
            };
            let item = Item::new(Topic::Constraints, &text, 1.0, Order(reply.at, 1));
            self.items.push(item.clone().said_by(Origin::Typed, &reply.answer));
            self.items.push(item.said_by(Origin::TypedPiece, &reply.answer));
        }
    }

    /// Adds a statement that is no fact of ours, labelled if it looks like one, unless the record contradicts it.
    fn quote(&mut self, words: &str, weight: f64, order: Order, head: &str) {
        if self.judge.judge(words).is_none() {
            let item = Item::new(Topic::Context, &unlike_facts(words), weight, order).said_by(Origin::Said, words);
            self.items.push(Item { head: head.to_owned(), ..item });
        }
    }

    fn said(&mut self, turns: &[Turn]) {
        let acts = self.record.acted_at.is_some();
        let said = turns.iter().rev().filter(|turn| !turn.typed);
        let mut left = SAID_MAX;
        for turn in said {
            let weight = if turn.ends_turn || !acts { ANSWER_WEIGHT } else { REMARK_WEIGHT };
            // Where tools change things, what was said long ago is less likely to be so.
            let weight = if acts { weight * (0.25 + 0.75 * self.record.recency(turn.at)) } else { weight };
            // What only announces something says nothing without it, nor does the end of a text before a call.
            let says = |piece: &(usize, String)| !piece.1.ends_with([':', '：']);
            let pieces: Vec<_> = statements::pieces(&turn.text).into_iter().filter(says).take(left).collect();
            left -= pieces.len();
            let last = pieces.len().checked_sub(1).filter(|_| !turn.ends_turn && acts);
            for (position, (number, piece)) in pieces.into_iter().enumerate() {
                let weight = if Some(position) == last { ANNOUNCED * weight } else { weight };
                self.quote(&piece, weight, Order(turn.at, number), "");
            }
        }
    }

    /// Adds what tools printed, and summaries by others, under the first line of each; little of a finished subject.
    fn printed(&mut self, texts: &[(i64, &str)]) {
        let handled = self.record.runs.handled();
        for (at, text) in texts.iter().rev().take(PRINTED_MAX) {
            // The headings of a summary are no titles.
            let title = text.trim_start().lines().next().filter(|line| !line.starts_with('#')).unwrap_or_default();
            let mut ended = handled.iter().filter(|one| one.at > *at && one.ends);
            let is_ended = ended.any(|one| title.split_whitespace().any(|word| word == one.subject));
            let head = text::code(&text::clip(&text::one_line(title), 60));
            let head = if title.is_empty() { String::new() } else { text::defuse(&format!("{head}:")) };
            let weight = PRINTED_WEIGHT * if is_ended { 0.1 } else { 1.0 } * (0.2 + 0.8 * self.record.recency(*at));
            for (number, piece) in statements::pieces(text) {
                self.quote(&piece, weight, Order(*at, number), &head);
            }
        }
    }

    fn commits(&mut self) {
        let record = self.record;
        for (rank, commit) in record.commits.iter().rev().take(ENTRIES_MAX).enumerate() {
            let name = |word: &str, name: &str| match name {
                "" => String::new(),
                name => format!("{word}{}", text::code(name)),
            };
            let pushed = match record.pushed_at {
                None => "",
                Some(at) if at >= commit.at => ", pushed",
                Some(_) => ", not pushed",
            };
            let (id, branch) = (name(" ", &commit.id), name(" on ", &commit.branch));
            let line = format!("Commit{id}{branch}{pushed}: {}", text::clip(&commit.subject, 160));
            self.add(Topic::Done, &line, 1.5 / (1.0 + rank as f64 / 8.0), Order::at(commit.at));
        }
    }

    /// Adds the steps that changed lines, each with its reason: those of the current work with their lines, and the
    /// ones before it, whose lines stand under their files.
    fn steps(&mut self) {
        let current = self.current_from();
        let record = self.record;
        let steps = record.steps.iter().enumerate().rev();
        let (changing, others): (Vec<_>, Vec<_>) = steps.partition(|(number, _)| self.by_step.contains_key(number));
        // The last step says what comes next, although it changed nothing yet.
        let last = others.first().filter(|(number, _)| *number >= current && number + 1 == record.steps.len());
        if let Some((_, step)) = last {
            self.add(Topic::InProgress, &unlike_facts(&step.words), 2.4, Order::at(step.at));
        }
        for (rank, (number, step)) in changing.into_iter().take(ENTRIES_MAX).enumerate() {
            let limit = (self.units * STEPS_PERCENT / 100 / (3 + rank)).max(STEP_CHARS_MIN);
            let words = unlike_facts(&step.words);
            if number < current {
                let score = 0.5 + 0.5 * self.record.recency(step.at);
                // What announces the lines says nothing without them.
                let mut sentences = text::sentences_of(&words);
                sentences.pop_if(|last| last.trim_end().ends_with([':', '：']));
                let reason = sentences.join(" ");
                if reason.chars().count() >= REASON_CHARS_MIN {
                    let item = Item::new(Topic::Decisions, &reason, score, Order::at(step.at));
                    self.items.push(item.said_by(Origin::Fact, &reason));
                }
                for (file, at) in self.chosen_lines(number, 2 * limit) {
                    let file = &record.files.changed[file];
                    let head = text::defuse(&format!("{}:", self.shown(&file.path)));
                    let score = LINE_WEIGHT * (0.3 + 0.7 * self.record.recency(step.at));
                    let item = Item::new(Topic::Files, &text::code(&file.lines[at].text), score, Order(step.at, at));
                    self.items.push(Item { head, ..item });
                }
                continue;
            }
            // The next reader goes on from the newest one.
            let score = if rank == 0 { NEWEST_STEP } else { 2.0 };
            let texts = [words, self.lines(number, limit)].into_iter().filter(|text| !text.is_empty());
            let text = texts.collect::<Vec<_>>().join(" → ");
            let item = Item::new(Topic::InProgress, &text, score, Order::at(step.at));
            self.items.push(Item { is_state: rank == 0, ..item });
        }
    }

    fn checks(&mut self) {
        let mut checks: Vec<&Check> = self.record.checks.all.iter().collect();
        checks.retain(|check| check.verifies || check.outcome != Outcome::Passed);
        checks.sort_by_key(|check| Reverse(check.at));
        let changed_at = self.record.files.changed_at;
        let passed_at = self.record.checks.passed_at();
        for (rank, check) in checks.into_iter().take(CHECKS_MAX).enumerate() {
            let aged = 1.0 / (1.0 + rank as f64 / 3.0);
            let is_older = |at: Option<i64>| at > Some(check.at);
            let since = check.outcome == Outcome::Failed && is_older(changed_at);
            let since = if since { " (files were edited since)" } else { "" };
            // A failure blocks nothing if files were edited after it and another check passed since: it may be fixed.
            let (topic, score) = match check.outcome {
                Outcome::Passed => (Topic::Done, aged),
                Outcome::Failed if !is_older(changed_at) || !is_older(passed_at) => (Topic::Blocked, aged),
                Outcome::Failed => (Topic::Context, 0.3 * self.record.recency(check.at)),
            };
            let item = Item::new(topic, &format!("{}{since}", check.stated()), score, Order::at(check.at));
            // Whether the newest work was checked is a state, although its words are known.
            self.items.push(Item { is_state: rank == 0 && check.outcome == Outcome::Passed, ..item });
        }
    }

    /// Adds commands that ran again and again, and the figures measured last.
    fn runs(&mut self) {
        let mut runs: Vec<_> = self.record.runs.all.iter().collect();
        runs.retain(|run| run.purpose != Purpose::Record && (run.count >= RUNS_MIN || !run.figure.is_empty()));
        runs.sort_by_key(|run| (Reverse(run.count), Reverse(run.at)));
        for fix in self.record.runs.fixes.iter().rev().take(RUNS_MAX) {
            let by: Vec<String> = fix.by.iter().map(|command| text::code(command)).collect();
            let failure =
                if fix.failure.is_empty() { String::new() } else { format!(" ({})", text::code(&fix.failure)) };
            let line = format!("{} failed{failure} until this ran: {}", text::code(&fix.command), by.join(BETWEEN));
            self.add(Topic::Context, &line, 1.2, Order::at(fix.at));
        }
        for run in self.record.runs.all.iter().filter(|run| run.count == 0).rev().take(RUNS_MAX) {
            let line = text::code(&run.command);
            self.state(Topic::InProgress, ("Stopped before its end, and not run since:".to_owned(), line), 1.2, run.at);
        }
        for (rank, run) in runs.into_iter().take(RUNS_MAX).enumerate() {
            let failed = match run.failed {
                0 => String::new(),
                failed if run.failure.is_empty() => format!(", {failed} of them failed"),
                failed => format!(", {failed} of them failed, last with {}", text::code(&run.failure)),
            };
            let now = if run.passes && run.failed > 0 { "; then it passed" } else { "" };
            let figure = format!("; last figure: {}", text::code(&run.figure));
            let figure = if run.figure.is_empty() { "" } else { &figure };
            let times = if run.count == 1 { "once".to_owned() } else { format!("{} times", run.count) };
            let line = format!("Ran {times}: {}{failed}{now}{figure}", text::code(&run.command));
            self.add(Topic::Context, &line, 1.2 / (1.0 + rank as f64 / 4.0), Order::at(run.at));
        }
    }

    /// Adds what commands did last with their subjects, and what else they changed.
    fn handled(&mut self) {
        let mut changes: Vec<&Run> = self.record.runs.all.iter().collect();
        changes.retain(|run| run.purpose == Purpose::Change && run.passes);
        changes.sort_by_key(|run| run.at);
        let surplus = changes.len().saturating_sub(ENTRIES_MAX);
        for run in changes.into_iter().skip(surplus) {
            if !run.has_subjects {
                self.state(Topic::Done, ("Ran".to_owned(), text::code(&run.command)), 0.8, run.at);
            }
        }
        for HandledSubject { command, subject, at, .. } in self.record.runs.handled() {
            let head = format!("Ran {} on", text::code(command));
            self.state(Topic::Done, (head, text::code(subject)), 1.2, *at);
        }
    }

    /// Adds the commands since the newest request or commit, and the words of an agent after its last call.
    fn newest(&mut self, turns: &[Turn]) {
        let began_at = self.began_at();
        let mut runs: Vec<&Run> = self.record.runs.all.iter().filter(|run| run.count > 0).collect();
        runs.retain(|run| Some(run.at) >= began_at && !run.command.contains(" commit"));
        runs.sort_by_key(|run| run.at);
        for run in runs.iter().rev().take(12) {
            let failed = if run.passes { "" } else { " (failed)" };
            let line = format!("{}{failed}", text::code(&text::clip(&run.command, 100)));
            self.state(Topic::InProgress, ("Ran last:".to_owned(), line), 1.5, run.at);
        }
        let is_last = |turn: &&Turn| turn.ends_turn && self.record.acted_at.is_some_and(|acted_at| acted_at < turn.at);
        if let Some(turn) = turns.iter().rfind(|turn| !turn.typed).filter(is_last) {
            let words = text::clip(&text::one_line(&text::plain(&turn.text)), 500);
            if self.judge.judge(&words).is_none() {
                let item = Item::new(Topic::Context, &format!("The agent said last: {words}"), 2.6, Order::at(turn.at));
                self.items.push(Item { is_state: true, ..item });
            }
        }
    }

    fn settings(&mut self) {
        for file in self.record.files.changed.iter().filter(|file| !file.is_gone) {
            let head = format!("{} now:", self.shown(&file.path));
            for Setting { name, value, at } in &file.settings {
                self.state(Topic::Context, (head.clone(), text::code(&format!("{name} = {value}"))), 1.0, *at);
            }
        }
    }

    fn todos(&mut self) {
        for (position, task) in (0_i64..).zip(&self.record.todos).take(64) {
            let words = text::clip(&text::one_line(&text::plain(&task.text)), 240);
            let order = Order::at(self.record.length + position);
            let (label, score) = match task.topic {
                Topic::Done => (DID, 0.8),
                Topic::InProgress => (DOING, 2.0),
                _ => (TODO, 2.0),
            };
            self.add(task.topic, &format!("{label}{words}"), score, order);
        }
    }

    fn unsettled(&mut self) {
        let committed_at = self.record.commits.last().map(|commit| commit.at);
        let checked_at = self.record.checks.passed_at();
        let unchecked = checked_at.map(|at| self.changed_since(Some(at))).unwrap_or_default();
        let label = if committed_at.is_some() { "Not committed" } else { "No commit was made of these changes" };
        let uncommitted = (label, self.changed_since(committed_at));
        for (label, paths) in [uncommitted, ("Edited since the last check passed", unchecked)] {
            if !paths.is_empty() {
                let item = Item::new(Topic::InProgress, &format!("{label}: {paths}"), 2.5, Order::at(i64::MAX));
                self.items.push(Item { is_state: true, ..item });
            }
        }
    }

    fn deletions(&mut self) {
        let mut deleted: Vec<&File> =
            self.record.files.changed.iter().filter(|file| file.deleted_at.is_some()).collect();
        deleted.sort_by_key(|file| Reverse(file.deleted_at));
        if !deleted.is_empty() {
            let shown: Vec<String> = deleted.iter().take(8).map(|file| self.shown(&file.path)).collect();
            self.add(Topic::Files, &format!("{DELETED}{}", shown.join(", ")), 1.0, Order(i64::MAX, 1));
        }
    }

    fn files(&mut self) {
        if let Some(root) = &self.root {
            let text = format!("Working directory: {}", text::code(root));
            self.add(Topic::Files, &text, 9.0, Order::at(i64::MIN));
        }
        let mut changed: Vec<&File> = self.record.files.changed.iter().filter(|file| !file.is_gone).collect();
        changed.sort_by_key(|file| Reverse(file.changed_at));
        let mut folders: BTreeMap<&str, (usize, Vec<String>)> = BTreeMap::new();
        for (rank, file) in changed.iter().take(FILES_MAX).enumerate() {
            let path = self.relative(&file.path);
            let (folder, base) = path.split_at(path.rfind('/').map_or(0, |at| at + 1));
            let new = if file.is_new { " (new)" } else { "" };
            folders.entry(folder).or_insert((rank, Vec::new())).1.push(format!("{}{new}", text::code(base)));
        }
        let line_of = |folder: &str, bases: &[String]| match bases {
            // The only file of a folder is written as a path.
            [base] => format!("`{folder}{}", &base[1..]),
            _ => format!("{}: {}", text::code(if folder.is_empty() { "./" } else { folder }), bases.join(", ")),
        };
        for (folder, (rank, bases)) in folders {
            let line = line_of(folder, &bases);
            self.add(Topic::Files, &line, 2.0 / (1.0 + rank as f64 / 8.0), Order::at(rank as i64));
        }
    }

    /// The first step of the current work, since the newest request or commit; none if the agent ended it.
    fn current_from(&self) -> usize {
        let record = self.record;
        let acts = record.acted_at.is_some() && record.acted_at >= record.replied_at;
        if !acts && record.asked_at <= record.replied_at {
            return record.steps.len();
        }
        let began_at = self.began_at();
        record.steps.partition_point(|step| Some(step.at) <= began_at)
    }

    fn began_at(&self) -> Option<i64> {
        self.record.asked_at.max(self.record.commits.last().map(|commit| commit.at))
    }

    fn changed_since(&self, at: Option<i64>) -> String {
        let files = self.record.files.changed.iter().filter(|file| file.changed_at > at && !file.is_gone);
        let files: Vec<&File> = files.collect();
        let shown = |file: &&File| match files.len() {
            0..=PATHS_MAX => self.shown(&file.path),
            _ => text::code(text::base_name(&file.path)),
        };
        let paths: Vec<String> = files.iter().map(shown).collect();
        let most = paths.len().saturating_sub(8);
        let more = if most > 0 { format!(" and {most} more") } else { String::new() };
        format!("{}{more}", paths[most..].join(", "))
    }

    /// The lines of a step that still hold, by file, the most important ones that fit in `limit` characters.
    fn lines(&self, step: usize, limit: usize) -> String {
        let files = &self.record.files.changed;
        let chosen = self.chosen_lines(step, limit);
        let groups = chosen.chunk_by(|left, right| left.0 == right.0).map(|group| {
            let lines: Vec<String> = group.iter().map(|(file, at)| text::code(&files[*file].lines[*at].text)).collect();
            format!("{}: {}", self.shown(&files[group[0].0].path), lines.join(BETWEEN))
        });
        groups.collect::<Vec<_>>().join("; ")
    }

    /// The same lines as indexes of files and of lines in them.
    fn chosen_lines(&self, step: usize, limit: usize) -> Vec<(usize, usize)> {
        let files = &self.record.files.changed;
        let positions = self.by_step.get(&step).map_or(&[][..], Vec::as_slice);
        let mut chosen: Vec<(usize, usize)> = positions.to_vec();
        chosen.sort_by_key(|(file, at)| Reverse(files[*file].lines[*at].importance(files[*file].is_code())));
        let mut left = limit.saturating_sub(chosen.first().map_or(0, |(file, _)| self.shown(&files[*file].path).len()));
        chosen.retain(|(file, at)| {
            let cost = files[*file].lines[*at].text.chars().count() + 5;
            let fits = cost <= left;
            left = left.saturating_sub(cost);
            fits
        });
        chosen.truncate(LINES_MAX);
        chosen.sort_unstable();
        chosen
    }
}

/// Labels a quotation that looks like a fact of ours, so that it is not read back as one.
fn unlike_facts(words: &str) -> String {
    const LABELS: [&str; 9] = ["`", "“", "Commit ", FIRST, LATEST, TODO, DOING, DID, DELETED];
    let is_like = LABELS.iter().any(|label| words.starts_with(label));
    if is_like { format!("Said: {words}") } else { words.to_owned() }
}

/// A quotation without marks that end it.
fn inner(words: &str) -> String {
    words.replace(['“', '”'], "\"")
}

fn answer(question: &str, words: &str) -> String {
    format!("To “{}”, the user said: “{}”", inner(question), inner(words))
}
