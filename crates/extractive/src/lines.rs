//! Lines for the facts of a record, as candidates for a summary.
//!
//! Each kind of fact has one form, which [`super::previous`] parses. The newest facts have most detail.

use super::checks::{Check, Outcome};
use super::commands::{self, Purpose};
use super::compose::{self, Item, Order};
use super::files::{File, Line};
use super::items::{self, Point};
use super::record::{Commit, Note, Record, Task};
use super::text;
use super::tools::Progress;
use super::words;
use longhand_core::policy::Topic;
use regex::Regex;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::LazyLock;

/// Labels of the first and the newest request.
pub(super) const FIRST: &str = "First request: ";
pub(super) const LATEST: &str = "Latest request: ";
/// Labels of the tasks of a list, by progress.
pub(super) const TODO: &str = "To do: ";
pub(super) const DOING: &str = "Doing: ";
pub(super) const DID: &str = "Did: ";
/// Labels of files with changes that are not committed, or not checked.
pub(super) const UNCOMMITTED: &str = "Not committed: ";
pub(super) const UNCHECKED: &str = "Edited since the last check passed: ";
/// Label of files with changes that are neither committed nor checked.
pub(super) const UNSETTLED: &str = "Not committed, and edited since the last check passed: ";
/// Label of a step: to commit the changes.
const TO_COMMIT: &str = "Commit the changes";
/// Text for changes without any commit.
pub(super) const NO_COMMIT: &str = "No commit was made of these changes";
/// Separator between a program and the last line that it printed.
pub(super) const PRINTED: &str = " printed ";
/// Suffix of a failure that is older than the last edit.
const EDITED_SINCE: &str = " (files were edited since)";
/// Text for work that the user stopped.
pub(super) const STOPPED: &str = "The user stopped it here";
/// Label of the directory that paths are relative to.
pub(super) const ROOT: &str = "Working directory: ";
/// Separator between a file and its new settings.
pub(super) const HOLDS: &str = " now has ";
/// Label of the ids of closed items.
pub(super) const CLOSED: &str = "Closed: ";
/// Label of a quotation that looks like a fact.
pub(super) const SAID: &str = "Said: ";
/// Separator between a request, its result, and the lines of its changes.
pub(super) const ARROW: &str = " → ";
/// Separator between lines of one file.
pub(super) const BETWEEN: &str = " · ";
/// Labels of lines that are derived from other facts, and are not read back.
pub(super) const DERIVED: [&str; 3] = [TO_COMMIT, "No result yet: ", "Go on with: "];

/// Minimum length of a request, an answer, a step or a reason, in characters.
const DETAIL_MIN: usize = 80;

/// Part of the budget for each of the dozen newest tasks, if it is not shortened: a fiftieth; half of it for the next
/// dozen, and so on.
const TASK_PART: usize = 50;

/// Length in characters from which a task is written with its changed lines.
const LINES_FROM: usize = 500;

/// Maximum number of tasks, of steps with reasons, and of notes of each topic, the newest: no summary holds more.
const ENTRIES_MAX: usize = 600;

/// Maximum number of new lines of a file in one place: a file that was written whole can be read again.
const LINES_MAX: usize = 12;

/// Maximum number of changed files.
const FILES_MAX: usize = 60;

/// Maximum length of a note at the smallest budget, in characters.
const NOTE_CHARS_MIN: usize = 320;

/// Share of the budget for the settings in one settings file, in percent; the next one gets a third of it.
const SETTINGS_SHARE: usize = 8;

/// Share of the budget for constraints that goes to the requirements of items, in percent: the current one, the next
/// one, and the later ones. Issues are written for their implementer, and no other source states the requirements.
const DEMANDS_PERCENT: [usize; 3] = [55, 70, 40];

/// Maximum number of programs with the line that they printed.
const PRINTS_MAX: usize = 4;

/// Maximum number of the newest failures, checks and open items.
const CHECKS_MAX: usize = 12;

/// Returns the lines for a record, for a summary of this length.
pub(super) fn lines(record: &Record, units: usize) -> Vec<Item> {
    let mut by_step: HashMap<usize, Vec<(usize, usize)>> = HashMap::new();
    for (position, file) in record.files.changed.iter().enumerate() {
        for (number, line) in file.lines.iter().enumerate() {
            by_step.entry(line.step).or_default().push((position, number));
        }
    }
    let mut builder = LineBuilder { record, units, root: record.files.root(), by_step, items: Vec::new() };
    builder.goals();
    builder.notes();
    builder.documents();
    builder.tasks();
    builder.reasons();
    builder.checks();
    builder.tracked();
    builder.todos();
    builder.position();
    builder.unsettled();
    builder.files();
    builder.settings();
    builder.items
}

struct LineBuilder<'a> {
    record: &'a Record,
    units: usize,
    /// The folder that contains the work.
    root: Option<String>,
    /// The changed lines of each step, by file and index.
    by_step: HashMap<usize, Vec<(usize, usize)>>,
    items: Vec<Item>,
}

impl LineBuilder<'_> {
    fn add(&mut self, topic: Topic, text: &str, score: f64, order: Order) {
        self.items.push(Item::new(topic, text, score, order));
    }

    /// The part of the budget for a topic.
    fn share(&self, topic: Topic) -> usize {
        compose::part(topic, self.units)
    }

    /// Length of an entry of a topic by its rank from the newest: a third of the topic's budget for the newest, a
    /// quarter for the one before it, and so on.
    fn detail(&self, topic: Topic, rank: usize) -> usize {
        (self.share(topic) / (3 + rank)).max(DETAIL_MIN)
    }

    /// A path relative to the folder that contains the work.
    fn relative<'p>(&self, path: &'p str) -> &'p str {
        let inside = self.root.as_deref().and_then(|root| path.strip_prefix(root)?.strip_prefix('/'));
        inside.unwrap_or(path)
    }

    fn shown(&self, path: &str) -> String {
        text::code(&self.relative(path).replace('`', "'"))
    }

    /// Adds the first and the newest request.
    fn goals(&mut self) {
        let asked: Vec<&Task> = self.record.tasks.iter().filter(|task| !task.request.is_empty()).collect();
        let quote = (self.units / 12).clamp(240, 1_600);
        let line = |label: &str, task: &Task, quote: usize| {
            let named = self.record.items.named_in(&task.request).filter(|_| !task.request.contains(" (`"));
            let title = named.map(|item| format!(" ({}: {})", text::code(&item.id), item.title)).unwrap_or_default();
            format!("{label}{}{title}", text::clip(&task.request, quote))
        };
        // After a summary that is not ours, the first request is one that it contains.
        let is_later = asked.first().is_some_and(|task| task.at >= 0)
            && self.record.notes.iter().any(|note| note.topic == Topic::Goal);
        if let Some(task) = asked.first().filter(|_| !is_later) {
            self.add(Topic::Goal, &line(FIRST, task, quote / asked.len().min(2)), 9.0, Order::At(task.at));
        }
        if let Some(task) = asked.last().filter(|_| is_later || asked.len() > 1) {
            self.add(Topic::Goal, &line(LATEST, task, quote), 10.0, Order::At(task.at));
        }
    }

    /// Adds the user's constraints, findings and decisions.
    fn notes(&mut self) {
        let mut counts: HashMap<Topic, usize> = HashMap::new();
        for note in self.record.notes.iter().rev().filter(|note| !note.words.is_empty()) {
            let count = counts.entry(note.topic).or_default();
            *count += 1;
            if *count > ENTRIES_MAX {
                continue;
            }
            let aged = self.record.recency(note.at);
            let text = text::clip(&note.words, (self.units / 25).max(NOTE_CHARS_MIN));
            let Note { topic, at, is_ours, worth, .. } = *note;
            // A user's constraint holds until it is revoked.
            let (text, score) = match topic {
                Topic::Constraints if is_ours => (text, worth),
                Topic::Constraints => (format!("“{}”", text.replace('”', "\"")), worth * (0.7 + 0.3 * aged)),
                Topic::Goal => (unlike_facts(text, !is_ours), 8.0),
                _ if at < 0 => (unlike_facts(text, !is_ours), worth * aged),
                _ => (unlike_facts(text, !is_ours), worth * 0.5 * aged),
            };
            self.items.push(Item::new(topic, &text, score, Order::At(at)));
        }
    }

    /// Adds the rules of documents, the newest first.
    fn documents(&mut self) {
        for (rank, document) in self.record.documents.iter().rev().enumerate() {
            let head = format!("{} says: ", self.shown(&document.id));
            self.add_rules(&head, &document.points, 60 / (1 + rank), (1.1, Order::At(document.at)));
        }
    }

    /// Adds the rules of a text, in this percentage of the budget for constraints, or in less.
    fn add_rules(&mut self, head: &str, points: &[Point], percent: usize, (score, order): (f64, Order)) {
        let limit = self.share(Topic::Constraints) * percent / 100;
        let text_at = |limit: usize| format!("{head}{}", items::joined(points, limit.max(DETAIL_MIN)));
        let item = Item::new(Topic::Constraints, &text_at(limit), score, order);
        self.items.push(item.or(&text_at(limit * 3 / 5)).or(&text_at(limit / 3)));
    }

    /// Adds requests with their results, and commits. Each gets a line, and the newest most of the remaining budget.
    fn tasks(&mut self) {
        let record = self.record;
        let current = record.asked.filter(|_| self.is_unfinished());
        let is_listed = |(number, task): &(usize, &Task)| {
            task.commit.is_some() || !task.request.is_empty() && current != Some(*number)
        };
        let entries: Vec<(usize, &Task)> =
            record.tasks.iter().enumerate().rev().filter(is_listed).take(ENTRIES_MAX).collect();
        let share = self.share(Topic::Done);
        // Each gets a part of what the newer ones left, so that the newest few use most of it.
        let part = 1.0 / (1.0 + entries.len().min(6) as f64 / 2.0);
        let mut left = share as f64;
        let mut stated = HashSet::new();
        for (rank, (number, task)) in entries.into_iter().enumerate() {
            let limit = ((part * left) as usize).max(self.units / TASK_PART / (1 + rank / 12));
            left -= part * left;
            let score = 1.5 / (1.0 + rank as f64 / 8.0);
            let score = if task.at < 0 { 0.5 * score } else { score };
            let answer = newest_values(&task.answer, &mut stated);
            let shorter = self.task(number, task, &answer, 0);
            for (position, (text, at)) in self.task(number, task, &answer, limit).into_iter().enumerate() {
                let item = Item::new(Topic::Done, &text, score, Order::At(at));
                self.items.push(shorter.get(position).map_or(item.clone(), |(text, _)| item.or(text)));
            }
        }
    }

    /// The lines for a task in this number of characters: its commit and its request.
    fn task(&self, number: usize, task: &Task, answer: &str, limit: usize) -> Vec<(String, i64)> {
        let mut entries = Vec::new();
        let of_lines = if limit > LINES_FROM { limit * 2 / 5 } else { 0 };
        // The lines of a step with a reason stand beside that.
        let current = self.current_from();
        let is_elsewhere = |step: &usize| *step >= current || self.record.steps[*step].topic.is_some();
        let lines = self.lines(self.steps_of(number).filter(|step| !is_elsewhere(step)), of_lines);
        let is_current = self.record.asked == Some(number) && self.is_unfinished();
        let is_asked = !task.request.is_empty() && !is_current;
        if let Some(commit) = &task.commit {
            let pushed = self.pushed(commit);
            let id = if commit.id.is_empty() { String::new() } else { format!(" {}", text::code(&commit.id)) };
            let branch =
                if commit.branch.is_empty() { String::new() } else { format!(" on {}", text::code(&commit.branch)) };
            let head = format!("Commit{id}{branch}{pushed}: {}", text::clip(&commit.subject, 160));
            entries.push((with_lines(head, &lines), commit.at));
        }
        if !is_asked {
            return entries;
        }
        let request = text::clip(words::bare(&task.request), (limit * 2 / 5).max(DETAIL_MIN)).replace('”', "\"");
        let left = limit.saturating_sub(request.chars().count() + lines.chars().count());
        let gist = words::excerpt(answer, left.max(DETAIL_MIN));
        let mut parts: Vec<String> = [gist].into_iter().filter(|gist| !gist.is_empty()).collect();
        if task.commit.is_none() && !lines.is_empty() {
            parts.push(lines);
        }
        if parts.is_empty() {
            let changed = self.lines(self.steps_of(number), 2 * DETAIL_MIN);
            if changed.is_empty() {
                return entries;
            }
            parts.push(changed);
        }
        entries.push((format!("“{request}”{ARROW}{}", parts.join(ARROW)), task.at));
        entries
    }

    fn pushed(&self, commit: &Commit) -> &'static str {
        match self.record.pushed_at {
            None => "",
            Some(at) if at >= commit.at => ", pushed",
            Some(_) => ", not pushed",
        }
    }

    /// Adds the reasons of steps, with the lines that they changed.
    fn reasons(&mut self) {
        let current = self.current_from();
        let steps = self.record.steps.iter().enumerate().rev().filter(|(number, _)| *number < current);
        let relevant = steps.filter(|(_, step)| step.topic.is_some());
        for (rank, (number, step)) in relevant.take(ENTRIES_MAX).enumerate() {
            let lines = self.lines([number].into_iter(), self.detail(Topic::Decisions, rank));
            let is_decision = step.topic == Some(Topic::Decisions) || !lines.is_empty();
            let topic = if is_decision { Topic::Decisions } else { Topic::Context };
            let worth = if lines.is_empty() { 0.5 } else { 0.8 };
            let aged = if step.at < 0 { 0.25 } else { 0.35 + 0.65 * self.record.recency(step.at) };
            let words = words::settled(&step.words);
            if words.is_empty() {
                continue;
            }
            let statement = unlike_facts(words.clone(), true);
            let item = Item::new(topic, &with_lines(statement, &lines), worth * aged, Order::At(step.at));
            let short = with_lines(
                unlike_facts(text::clip(&words, DETAIL_MIN), true),
                &self.lines([number].into_iter(), DETAIL_MIN * 3 / 2),
            );
            self.items.push(item.or(&short));
        }
    }

    /// Adds the last outcome of each check.
    fn checks(&mut self) {
        let mut checks: Vec<&Check> = self.record.checks.all.iter().collect();
        checks.retain(|check| check.verifies || check.outcome != Outcome::Passed || !check.output_line.is_empty());
        checks.sort_by_key(|check| Reverse(check.at));
        // A later pass of a wider run covers a narrower one.
        let mut wider: Vec<String> = Vec::new();
        checks.retain(|check| {
            let passed = check.verifies && check.outcome == Outcome::Passed;
            let is_covered = passed && wider.iter().any(|command| check.command.starts_with(command));
            if passed && wider.len() < CHECKS_MAX {
                wider.push(format!("{} ", check.command));
            }
            !is_covered
        });
        let (prints, checks): (Vec<&Check>, Vec<&Check>) =
            checks.into_iter().partition(|check| !check.verifies && check.outcome == Outcome::Passed);
        let began_at = self.record.tasks.last().map(|task| task.at);
        for check in prints.into_iter().take(PRINTS_MAX).filter(|check| Some(check.at) >= began_at) {
            let line = format!("{}{PRINTED}{}", check.named(), text::code(&check.output_line));
            self.add(Topic::Context, &line, 0.35 * self.record.recency(check.at), Order::At(check.at));
        }
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
                    self.add(Topic::Done, &format!("{} passed{detail}", check.named()), aged, Order::At(check.at));
                }
                Outcome::Failed | Outcome::Stopped => {
                    let end = if check.outcome == Outcome::Failed { "failed" } else { "did not finish" };
                    let detail = if check.output_line.is_empty() { String::new() } else { format!(": {detail}") };
                    // A failure that may be fixed blocks nothing.
                    let (topic, score) = if is_old {
                        (Topic::Context, 0.3 * self.record.recency(check.at))
                    } else {
                        (Topic::Blocked, aged)
                    };
                    self.add(topic, &format!("{} {end}{detail}{since}", check.named()), score, Order::At(check.at));
                }
            }
        }
    }

    /// Adds the items of a tracker: current and open ones with their requirements, and the closed ones.
    fn tracked(&mut self) {
        let mut items: Vec<&items::Item> = self.record.items.all.iter().filter(|item| !item.id.is_empty()).collect();
        // Of several items in progress the newest is the current one; the others contain it.
        let newest = items.iter().filter(|item| item.status == Progress::Active).map(|item| item.at).max();
        let is_first = |item: &items::Item| item.status == Progress::Active && Some(item.at) == newest;
        items.sort_by_key(|item| (!is_first(item), item.status == Progress::Active, item.id.clone()));
        let closed: Vec<String> =
            items.iter().filter(|item| item.status == Progress::Done).map(|item| text::code(&item.id)).collect();
        if !closed.is_empty() {
            let most = closed.len().saturating_sub(CHECKS_MAX);
            self.add(Topic::Done, &format!("{CLOSED}{}", closed[most..].join(", ")), 1.0, Order::State);
        }
        let open = items.into_iter().filter(|item| item.status != Progress::Done);
        for (rank, item) in open.take(CHECKS_MAX).enumerate() {
            let status = if item.status == Progress::Active { "in progress" } else { "open" };
            let head = format!("{} ({status}): {}", text::code(&item.id), item.title);
            let order = Order::Rank(rank);
            let topic = if item.status == Progress::Active { Topic::InProgress } else { Topic::NextSteps };
            let score = if rank == 0 { 2.65 } else { 1.3 - 0.05 * rank as f64 };
            self.add(topic, &head, score, order);
            if !item.points.is_empty() {
                let percent = DEMANDS_PERCENT[rank.min(DEMANDS_PERCENT.len() - 1)];
                // The requirements of the items in progress and of the next one matter most.
                let score = if rank < 2 { 3.0 - rank as f64 } else { 0.9 - 0.1 * rank as f64 };
                self.add_rules(&format!("{} demands: ", text::code(&item.id)), &item.points, percent, (score, order));
            }
        }
    }

    /// Adds the newest list of tasks.
    fn todos(&mut self) {
        for (position, task) in (0_i64..).zip(&self.record.todos).take(64) {
            let words = text::clip(&text::one_line(&text::plain(&task.text)), 240);
            let falling = 2.0 - 0.02 * position as f64;
            let order = Order::At(self.record.length + position);
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
        let asks = words::question(&record.last_reply).filter(|_| record.acted_at <= record.replied_at);
        let is_answered = record.tasks.last().is_some_and(|task| Some(task.at) > record.replied_at);
        if let Some(question) = asks.filter(|_| !is_answered) {
            self.add(Topic::InProgress, &format!("Asked the user: {question}"), 3.0, Order::Last);
        }
        for call in record.unanswered.iter().rev().take(3) {
            self.add(Topic::InProgress, &format!("No result yet: {call}"), 2.0, Order::State);
        }
        if record.stopped_at.is_some() && record.stopped_at >= record.acted_at.max(record.replied_at) {
            self.add(Topic::InProgress, &format!("{STOPPED}{}", record.rejected), 2.9, Order::Last);
        }
        if !self.is_unfinished() {
            return;
        }
        let asked = record.tasks.iter().rev().find(|task| !task.request.is_empty());
        // An item in progress is itself the next step.
        let has_item = record.items.all.iter().any(|item| item.status == Progress::Active);
        if let Some(task) = asked.filter(|_| !has_item) {
            let line = format!("Go on with: “{}”", text::clip(&task.request, 120));
            self.add(Topic::NextSteps, &line, 1.0, Order::Next);
        }
        let from = self.current_from();
        for (rank, (number, step)) in record.steps.iter().enumerate().skip(from).rev().take(200).enumerate() {
            let detail = self.detail(Topic::InProgress, rank);
            let lines = self.lines([number].into_iter(), detail);
            let words = text::clip(&step.words, detail);
            if !lines.is_empty() || (rank == 0 || step.topic.is_some()) && !words.is_empty() {
                let score = 2.4 / (1.0 + 0.1 * rank as f64);
                self.add(Topic::InProgress, &with_lines(words, &lines), score, Order::At(step.at));
            }
        }
    }

    /// Adds changes that are neither checked nor committed.
    fn unsettled(&mut self) {
        let record = self.record;
        let committed_at = record.committed().map(|commit| commit.at);
        let uncommitted = self.changed_since(committed_at);
        let passed = record.checks.passed();
        let unchecked = passed.first().map(|check| self.changed_since(Some(check.at))).unwrap_or_default();
        let has_commits = committed_at.is_some();
        if !has_commits && !uncommitted.is_empty() {
            self.add(Topic::InProgress, NO_COMMIT, 1.0, Order::State);
        }
        if has_commits && !uncommitted.is_empty() && uncommitted == unchecked {
            self.add(Topic::InProgress, &format!("{UNSETTLED}{uncommitted}"), 2.6, Order::State);
        } else {
            if has_commits && !uncommitted.is_empty() {
                self.add(Topic::InProgress, &format!("{UNCOMMITTED}{uncommitted}"), 2.6, Order::State);
            }
            if !unchecked.is_empty() {
                self.add(Topic::InProgress, &format!("{UNCHECKED}{unchecked}"), 2.5, Order::State);
            }
        }
        // The steps before the newest commit are those before the next one too.
        let later =
            |position: usize, step: &String| record.before_commit[position + 1..].iter().any(|other| other == step);
        let steps = record.before_commit.iter().enumerate().filter(|(position, step)| !later(*position, step));
        let before_commit: Vec<&String> = steps.map(|(_, step)| step).collect();
        let begins = before_commit.iter().position(|step| commands::purpose(step) == Purpose::Verify);
        let before_commit = before_commit.into_iter().skip(begins.unwrap_or(0)).filter(|step| *step != "git commit");
        let before_commit: Vec<String> = before_commit.map(|step| text::code(step)).collect();
        if has_commits && !uncommitted.is_empty() {
            let by_way = if before_commit.is_empty() {
                String::new()
            } else {
                format!(", as before, behind {}", before_commit.join(", "))
            };
            self.add(Topic::NextSteps, &format!("{TO_COMMIT}{by_way}"), 1.3, Order::At(record.length + 100));
        }
    }

    /// Adds the files: new and changed ones, by folder.
    fn files(&mut self) {
        if let Some(root) = &self.root {
            let text = format!("{ROOT}{}", text::code(root));
            self.add(Topic::Files, &text, 9.0, Order::First);
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
            let item = Item::new(Topic::Files, &line, 2.0 / (1.0 + rank as f64 / 8.0), Order::At(rank as i64));
            // The newest files come first.
            let few = |count: usize| line_of(folder, &bases[..bases.len().min(count)]);
            self.items.push(item.or(&few(3)).or(&few(1)));
        }
    }

    /// True if a line has a value that the user named.
    fn is_named(&self, line: &str) -> bool {
        let mut words = line.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| word.len() > 2);
        words.any(|word| self.record.values.contains(&word.to_ascii_lowercase()))
    }

    /// Adds the new lines of settings files, which are the state itself: the file with most values that the user named
    /// comes first, and so do the lines with such values.
    fn settings(&mut self) {
        const ENDINGS: [&str; 9] = [".json", ".yaml", ".yml", ".toml", ".ini", ".env", ".cfg", ".conf", ".properties"];
        let changed = self.record.files.changed.iter().filter(|file| !file.is_gone && !file.lines.is_empty());
        let settings = changed.filter(|file| ENDINGS.iter().any(|end| file.path.ends_with(end)));
        let named = |file: &File| file.lines.iter().filter(|line| self.is_named(&line.text)).count();
        let mut settings: Vec<(usize, &File)> = settings.map(|file| (named(file), file)).collect();
        settings.sort_by_key(|(named, file)| Reverse((*named, file.changed_at)));
        for (rank, (_, file)) in settings.into_iter().take(FILES_MAX).enumerate() {
            let values = self.values(file, self.units * SETTINGS_SHARE / 100 / (1 + 2 * rank));
            if !values.is_empty() {
                let line = format!("{}{HOLDS}{values}", self.shown(&file.path));
                let order = file.changed_at.map_or(Order::First, Order::At);
                self.add(Topic::Context, &line, 2.0 / (1.0 + rank as f64), order);
            }
        }
    }

    fn values(&self, file: &File, limit: usize) -> String {
        let mut left = limit;
        let mut order: Vec<usize> = (0..file.lines.len()).rev().collect();
        order.sort_by_key(|at| !self.is_named(&file.lines[*at].text));
        order.retain(|at| {
            let cost = file.lines[*at].text.chars().count() + 5;
            let fits = cost <= left;
            left = left.saturating_sub(cost);
            fits
        });
        order.sort_unstable();
        order.into_iter().map(|at| text::code(&file.lines[at].text)).collect::<Vec<_>>().join(BETWEEN)
    }

    /// True if the model was in the middle of work when the history ended.
    fn is_unfinished(&self) -> bool {
        let record = self.record;
        let asked_at = record.tasks.last().map(|task| task.at);
        let acts = record.acted_at.is_some() && record.acted_at >= record.replied_at;
        acts || asked_at > record.replied_at && record.length > 0 || words::ends_in_intention(&record.last_reply)
    }

    /// The first step of the current work, since the newest request or commit.
    fn current_from(&self) -> usize {
        if !self.is_unfinished() {
            return self.record.steps.len();
        }
        let last = self.record.tasks.len().saturating_sub(1);
        self.record.steps.partition_point(|step| step.task < last)
    }

    /// The steps of a task, including uncommitted ones after its commit.
    fn steps_of(&self, task: usize) -> Range<usize> {
        let Record { steps, tasks, .. } = self.record;
        let goes_on = tasks[task + 1..].iter().take_while(|next| next.request.is_empty() && next.commit.is_none());
        let last = task + if tasks[task].request.is_empty() { 0 } else { goes_on.count() };
        steps.partition_point(|step| step.task < task)..steps.partition_point(|step| step.task <= last)
    }

    fn changed_since(&self, at: Option<i64>) -> String {
        let files = self.record.files.changed.iter().filter(|file| file.changed_at > at && !file.is_gone);
        let paths: Vec<String> = files.map(|file| self.shown(&file.path)).collect();
        let most = paths.len().saturating_sub(8);
        let more = if most > 0 { format!(" and {most} more") } else { String::new() };
        format!("{}{more}", paths[most..].join(", "))
    }

    /// The lines of some steps that still hold, by file, the most important first, in at most `limit` characters.
    fn lines(&self, steps: impl Iterator<Item = usize>, limit: usize) -> String {
        let positions = steps.filter_map(|step| self.by_step.get(&step)).flatten();
        let line =
            |(file, position): &(usize, usize)| (*file, *position, &self.record.files.changed[*file].lines[*position]);
        let lines = positions.map(line).filter(|(_, _, line)| line.importance() > 0);
        let mut chosen: Vec<(usize, usize, &Line)> = lines.collect();
        chosen.sort_by_key(|(file, position, line)| (*file, Reverse(line.importance()), *position));
        // The most important line of each file comes before the second of any.
        let mut turns: Vec<(usize, usize, usize, &Line)> = Vec::with_capacity(chosen.len());
        for group in chosen.chunk_by(|left, right| left.0 == right.0) {
            let best = group.iter().enumerate().take(LINES_MAX);
            turns.extend(best.map(|(turn, (file, position, line))| (turn, *file, *position, *line)));
        }
        turns.sort_by_key(|(turn, file, _, line)| (*turn, Reverse(line.importance()), Reverse(*file)));
        let mut chosen: Vec<(usize, usize, &Line)> =
            turns.into_iter().map(|(_, file, position, line)| (file, position, line)).collect();
        let mut left = limit;
        let mut named: HashSet<usize> = HashSet::new();
        chosen.retain(|(file, _, line)| {
            let name = if named.contains(file) { 0 } else { self.shown(&self.record.files.changed[*file].path).len() };
            let cost = line.text.chars().count() + 5 + name;
            let fits = cost <= left;
            if fits {
                left -= cost;
                named.insert(*file);
            }
            fits
        });
        chosen.sort_by_key(|(file, position, _)| (*file, *position));
        let groups = chosen.chunk_by(|left, right| left.0 == right.0).map(|group| {
            let lines: Vec<String> = group.iter().map(|(_, _, line)| text::code(&line.text)).collect();
            format!("{}: {}", self.shown(&self.record.files.changed[group[0].0].path), lines.join(BETWEEN))
        });
        groups.collect::<Vec<_>>().join("; ")
    }
}

/// An answer without the lines whose subject a newer answer states anew: a name in code at their beginning, or before a
/// value with digits.
fn newest_values(answer: &str, stated: &mut HashSet<String>) -> String {
    static SUBJECT: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^\W*(?:`([^`]+)`|\w+ `([\w.-]+)`.*`[^`]*\d[^`]*`|`([\w.-]+): )").expect("a fixed pattern")
    });
    let subject = |line: &str| {
        let found = SUBJECT.captures(words::bare(line))?;
        found.get(1).or(found.get(2)).or(found.get(3)).map(|name| name.as_str().to_owned())
    };
    let head = commands::head(answer, 12_000);
    let mut kept: Vec<&str> = Vec::new();
    for line in head.lines() {
        if subject(line).is_none_or(|name| !stated.contains(&name)) {
            kept.push(line);
        } else {
            // The sentence that leads to the list goes with it.
            kept.pop_if(|above| above.trim_end_matches(['*', ' ']).ends_with([':', '：']));
        }
    }
    stated.extend(head.lines().filter_map(subject));
    kept.join("\n")
}

/// Labels a quotation that looks like a fact of ours, so that it is not read back as one.
fn unlike_facts(words: String, are_said: bool) -> String {
    const LABELS: [&str; 10] = [FIRST, LATEST, TODO, DOING, DID, CLOSED, UNCOMMITTED, UNCHECKED, UNSETTLED, "Commit "];
    let is_like = words.starts_with(['`', '“']);
    let is_like = is_like || LABELS.iter().any(|label| words.starts_with(label));
    if are_said && is_like { format!("{SAID}{words}") } else { words }
}

fn with_lines(words: String, lines: &str) -> String {
    match (words.is_empty(), lines.is_empty()) {
        (_, true) => words,
        (true, false) => lines.to_owned(),
        (false, false) => format!("{words}{ARROW}{lines}"),
    }
}
