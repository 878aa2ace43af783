//! What a record comes to in words: the lines that compete for the room there is.
//!
//! Each kind of fact has one form, by which [`super::previous`] knows it again. The newest is told in most detail.

use super::compose::{Item, SHARES};
use super::files::{File, Line};
use super::items::{self, Status};
use super::record::{Check, Outcome, Record, Task, failed};
use super::text;
use super::tools::Progress;
use super::words;
use crate::policy::Topic;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// What stands before the first and the newest request.
pub(super) const FIRST: &str = "First request: ";
pub(super) const LATEST: &str = "Latest request: ";
/// What stands before tasks of a list, by how far they are.
pub(super) const TODO: &str = "To do: ";
pub(super) const DOING: &str = "Doing: ";
pub(super) const DID: &str = "Did: ";
/// What stands before files that are changed and not yet committed, or not yet checked.
pub(super) const UNCOMMITTED: &str = "Not committed: ";
pub(super) const UNCHECKED: &str = "Edited since the last check passed: ";
/// What is said where files were changed and nothing was committed.
pub(super) const NO_COMMIT: &str = "No commit was made of these changes";
/// What stands before the directory that paths start from, and files that were only read.
pub(super) const ROOT: &str = "Working directory: ";
pub(super) const READ: &str = "Read: ";
/// What stands before the settings that are new in a file.
pub(super) const HOLDS: &str = " now has ";
/// What stands before the ids of closed items.
pub(super) const CLOSED: &str = "Closed: ";
/// What stands between a failure and what was said about it.
pub(super) const THEN: &str = "; then: ";
/// What stands before words that look like a fact.
pub(super) const SAID: &str = "Said: ";
/// What stands between what was wanted, what came of it, and the lines that stand for it.
pub(super) const ARROW: &str = " → ";
/// What stands between lines of one file.
pub(super) const BETWEEN: &str = " · ";

/// The least that a task, a step or an item is told in, in characters.
const DETAIL_MIN: usize = 110;

/// The least that a request is quoted in: people say in a few words what models need many for.
const REQUEST_MIN: usize = 150;

/// How many tasks are told at all, and how many with the lines that came of them.
const TASKS_MAX: usize = 250;
const DETAILED_MAX: usize = 16;
/// How long an old task's answer may be.
const OLD_CHARS: usize = 70;

/// How many changed files are told.
const FILES_MAX: usize = 60;

/// How many rules and reasons are looked at, the newest of each: no summary holds more.
const NOTES_MAX: usize = 600;

/// The share of the room for the settings in one file, in percent.
const SETTINGS_SHARE: usize = 3;

/// The share of the room for what an item demands that is in work or comes next, in percent: issues are written for whoever
/// does them, and nothing else says what is wanted.
const DEMANDS_SHARE: usize = 16;

/// How many of the newest failures, checks and items to come are told.
const CHECKS_MAX: usize = 12;

/// Tells a record, in the room there is for it.
pub(super) fn tell(record: &Record, room: usize) -> Vec<Item> {
    let mut by_step: HashMap<usize, Vec<(usize, usize)>> = HashMap::new();
    for (place, file) in record.files.changed.iter().enumerate() {
        for (number, line) in file.lines.iter().enumerate() {
            by_step.entry(line.step).or_default().push((place, number));
        }
    }
    let mut teller = Teller { record, room, root: record.files.root(), by_step, items: Vec::new() };
    teller.goals();
    teller.rules();
    teller.tasks();
    teller.reasons();
    teller.checks();
    teller.tracked();
    teller.todos();
    teller.unfinished();
    teller.files();
    teller.items
}

struct Teller<'a> {
    record: &'a Record,
    room: usize,
    root: Option<String>,
    /// The lines that came of each step, by file and place.
    by_step: HashMap<usize, Vec<(usize, usize)>>,
    items: Vec<Item>,
}

impl Teller<'_> {
    fn add(&mut self, topic: Topic, text: &str, score: f64, order: i64) {
        self.items.push(Item::new(topic, text, score, order));
    }

    /// How long the newest but `rank` of a topic may be: the newest gets a third of the topic's room, the one before it a
    /// quarter, and so on.
    fn detail(&self, topic: Topic, rank: usize) -> usize {
        let share = SHARES.iter().find(|(known, _)| *known == topic).map_or(0, |(_, share)| *share);
        (self.room * share / 100 / (3 + rank)).max(DETAIL_MIN)
    }

    fn shown(&self, path: &str) -> String {
        let inside =
            self.root.as_deref().and_then(|root| path.strip_prefix(root)).and_then(|path| path.strip_prefix('/'));
        text::code(&inside.unwrap_or(path).replace('`', "'"))
    }

    /// The first request, the newest one, and what the items are called that they name.
    fn goals(&mut self) {
        let asked: Vec<&Task> = self.record.tasks.iter().filter(|task| !task.request.is_empty()).collect();
        let quote = (self.room / 14).clamp(120, 1_600);
        let named = |request: &str| {
            let ids =
                request.split_whitespace().map(|word| word.trim_matches(|letter: char| !letter.is_alphanumeric()));
            let found: Vec<String> = ids
                .filter_map(|id| self.record.items.find(id))
                .filter(|item| !item.title.is_empty())
                .map(|item| format!("{}: {}", text::code(&item.id), item.title))
                .collect();
            if found.is_empty() || request.contains(" (`") { String::new() } else { format!(" ({})", found.join("; ")) }
        };
        let line =
            |label: &str, task: &Task| format!("{label}{}{}", text::clip(&task.request, quote), named(&task.request));
        let first = asked.first().map(|task| (line(FIRST, task), task.at));
        let latest = asked.last().filter(|_| asked.len() > 1).map(|task| (line(LATEST, task), task.at));
        if let Some((text, at)) = first {
            self.add(Topic::Goal, &text, 9.0, at);
        }
        if let Some((text, at)) = latest {
            self.add(Topic::Goal, &text, 10.0, at);
        }
    }

    /// The user's rules, and those of documents.
    fn rules(&mut self) {
        let mut counts: HashMap<Topic, usize> = HashMap::new();
        for note in self.record.notes.iter().rev() {
            let count = counts.entry(note.topic).or_default();
            *count += 1;
            if *count > NOTES_MAX {
                continue;
            }
            let aged = self.record.recency(note.at);
            let text = text::clip(&note.words, 320);
            let is_reason = matches!(note.topic, Topic::Decisions | Topic::Context);
            if is_reason && note.at >= 0 && !words::tells(&note.words) {
                continue;
            }
            let (text, score) = match note.topic {
                // What a user insisted on holds until it is taken back.
                Topic::Constraints => (format!("“{}”", text.replace('”', "\"")), 0.7 + 0.3 * aged),
                topic if note.at < 0 => {
                    (unlike_facts(text, !note.is_ours), if topic == Topic::Goal { 8.0 } else { aged })
                }
                _ => (unlike_facts(text, !note.is_ours), 0.5 * aged),
            };
            self.items.push(Item::new(note.topic, &text, score, note.at));
        }
        for (rank, document) in self.record.documents.iter().rev().enumerate() {
            let points = items::told(&document.points, self.detail(Topic::Constraints, rank));
            let text = format!("{} says: {points}", self.shown(&document.name));
            self.add(Topic::Constraints, &text, 0.9, document.at);
        }
    }

    /// What was asked and what came of it, and commits.
    fn tasks(&mut self) {
        let record = self.record;
        for (rank, (number, task)) in record.tasks.iter().enumerate().rev().enumerate() {
            let detail = self.detail(Topic::Done, rank);
            if rank >= TASKS_MAX {
                break;
            }
            let is_old = rank >= DETAILED_MAX;
            let lines = if is_old { 0 } else { detail };
            let lines = self.lines(self.steps_of(number).filter(|step| self.is_untold(*step)), lines);
            let aged = 0.3 + 0.7 * self.record.recency(task.at.max(0));
            let aged = if task.at < 0 { 0.2 } else { aged };
            if let Some(commit) = &task.commit {
                let pushed = if self.record.pushed_at >= commit.at { ", pushed" } else { "" };
                let branch = text::code(&commit.branch);
                let head = format!(
                    "Commit {} on {branch}{pushed}: {}",
                    text::code(&commit.id),
                    text::clip(&commit.subject, 160)
                );
                self.add(Topic::Done, &with_lines(head, &lines), 1.2 * aged + 0.5, commit.at);
            }
            if task.request.is_empty() || record.asked.unwrap_or(number) == number && self.is_unfinished() {
                continue;
            }
            let gist = words::gist(&task.answer, if is_old { OLD_CHARS } else { detail * 2 / 3 });
            let mut parts: Vec<String> = [gist].into_iter().filter(|gist| !gist.is_empty()).collect();
            if !task.ran.is_empty() {
                let ran: Vec<String> = task.ran.iter().rev().take(3).rev().map(|ran| text::code(ran)).collect();
                parts.push(text::clip(&format!("ran {}", ran.join(", ")), detail));
            }
            if task.commit.is_none() && !lines.is_empty() {
                parts.push(lines);
            }
            let request = if is_old { OLD_CHARS * 3 / 2 } else { (detail / 2).max(REQUEST_MIN) };
            let request = text::clip(&task.request, request).replace('”', "\"");
            if parts.is_empty() {
                parts.push("(no answer)".to_owned());
            }
            self.add(Topic::Done, &format!("“{request}”{ARROW}{}", parts.join(ARROW)), aged, task.at);
        }
    }

    /// Why things were done as they were, with the lines that came of it.
    fn reasons(&mut self) {
        let current = self.current_from();
        let steps = self.record.steps.iter().enumerate().rev().filter(|(_, step)| step.topic.is_some());
        for (rank, (number, step)) in steps.take(250).enumerate() {
            if number >= current {
                continue;
            }
            let lines = self.lines([number].into_iter(), self.detail(Topic::Decisions, rank));
            let is_decision = step.topic == Some(Topic::Decisions) || !lines.is_empty();
            let topic = if is_decision { Topic::Decisions } else { Topic::Context };
            let worth = 0.5 + if lines.is_empty() { 0.0 } else { 0.3 } + if step.after.is_empty() { 0.0 } else { 0.2 };
            let aged = if step.at < 0 { 0.25 } else { 0.35 + 0.65 * self.record.recency(step.at) };
            let words = if lines.is_empty() { words::without_intentions(&step.words) } else { step.words.clone() };
            let is_vague = step.at >= 0 && step.after.is_empty() && !words::tells(&words);
            if lines.is_empty() && (is_vague || words.is_empty()) {
                continue;
            }
            let text = with_lines(unlike_facts(said_after(&step.after, &words), step.after.is_empty()), &lines);
            self.items.push(Item::new(topic, &text, worth * aged, step.at));
        }
    }

    /// How each check ended last, and what follows from that.
    fn checks(&mut self) {
        let changed_at = self.record.files.changed.iter().map(|file| file.changed_at).max().unwrap_or(i64::MIN);
        let mut checks: Vec<&Check> = self.record.checks.iter().collect();
        checks.sort_by_key(|check| std::cmp::Reverse(check.at));
        let last_passed = self.record.last_passed().map_or(i64::MIN, |check| check.at);
        let mut told = 0;
        for check in
            checks.into_iter().filter(|check| check.verifies || check.outcome != Outcome::Passed).take(CHECKS_MAX)
        {
            let command = text::code(&text::clip(&check.command, 140));
            let aged = 0.4 + 0.6 * self.record.recency(check.at);
            let stale = if changed_at > check.at { " (files were edited since)" } else { "" };
            match check.outcome {
                Outcome::Passed => {
                    let says =
                        if check.says.is_empty() { String::new() } else { format!(" ({})", text::code(&check.says)) };
                    self.add(Topic::Done, &format!("{command} passed{says}"), 0.9 * aged, check.at);
                }
                Outcome::Failed => {
                    // What has been edited and has passed another check since may have been put right.
                    let is_old = !stale.is_empty() && last_passed > check.at;
                    let score = if is_old { 0.5 * aged } else { aged };
                    self.add(
                        Topic::Blocked,
                        &format!("{}{stale}", failed(&check.command, &check.says)),
                        score,
                        check.at,
                    );
                    if check.verifies && told < 3 && (!is_old || aged > 0.7) {
                        told += 1;
                        let again = format!("Run {command} again: it failed, and files were edited since");
                        let line = if is_old { again } else { format!("Get {command} to pass") };
                        self.add(Topic::NextSteps, &line, aged, check.at);
                    }
                }
                Outcome::Stopped => {
                    let says =
                        if check.says.is_empty() { String::new() } else { format!(": {}", text::code(&check.says)) };
                    self.add(Topic::Blocked, &format!("{command} did not finish{says}"), aged, check.at);
                }
            }
        }
    }

    /// Items of a tracker: what is in work and what is to come with what its text demands, and what is closed.
    fn tracked(&mut self) {
        let mut items: Vec<&items::Item> = self.record.items.all.iter().filter(|item| !item.id.is_empty()).collect();
        // Of several in work the newest is worked on; the others are what it is a part of.
        let newest = |item: &items::Item| if item.status == Status::Active { Reverse(item.at) } else { Reverse(0) };
        items.sort_by_key(|item| (item.status, newest(item), item.id.clone()));
        let closed: Vec<String> =
            items.iter().filter(|item| item.status == Status::Closed).map(|item| text::code(&item.id)).collect();
        if !closed.is_empty() {
            let most = closed.len().saturating_sub(CHECKS_MAX);
            self.add(Topic::Done, &format!("{CLOSED}{}", closed[most..].join(", ")), 1.0, i64::MAX - 1);
        }
        let open = items.into_iter().filter(|item| item.status != Status::Closed);
        let mut seen: HashSet<Status> = HashSet::new();
        for (rank, item) in open.take(CHECKS_MAX).enumerate() {
            let head = format!("{} ({}): {}", text::code(&item.id), item.status.word(), item.title);
            let order = i64::MAX - 2 * CHECKS_MAX as i64 + rank as i64;
            let topic = if item.status == Status::Active { Topic::InProgress } else { Topic::NextSteps };
            self.add(topic, &head, 1.3 - 0.05 * rank as f64, order);
            if !item.points.is_empty() {
                let is_first = seen.insert(item.status);
                let limit = self.room * DEMANDS_SHARE / 100 / if is_first { 1 } else { 2 + rank };
                let points = items::told(&item.points, limit);
                let score = if is_first { 3.0 } else { 2.0 } - 0.1 * rank as f64;
                self.add(Topic::Context, &format!("{} demands: {points}", text::code(&item.id)), score, order);
            }
        }
    }

    /// The newest list of tasks.
    fn todos(&mut self) {
        for (place, task) in (0_i64..).zip(&self.record.todos).take(64) {
            let words = text::clip(&text::one_line(&text::plain(&task.text)), 240);
            let falling = 2.0 - 0.02 * place as f64;
            let order = self.record.length + place;
            match task.progress {
                Progress::Pending => self.add(Topic::NextSteps, &format!("{TODO}{words}"), falling, order),
                Progress::Active => self.add(Topic::InProgress, &format!("{DOING}{words}"), falling, order),
                Progress::Done => self.add(Topic::Done, &format!("{DID}{words}"), 0.4 * falling, order),
                Progress::Dropped => {}
            }
        }
    }

    /// What is in the middle of being done, and what is edited but not yet checked or committed.
    fn unfinished(&mut self) {
        let record = self.record;
        let asks = words::question(&record.said.1).filter(|_| record.acted_at <= record.said.0);
        let is_answered = record.tasks.last().is_some_and(|task| task.at > record.said.0);
        if let Some(question) = asks.filter(|_| !is_answered) {
            self.add(Topic::InProgress, &format!("Asked the user: {question}"), 3.0, i64::MAX);
        }
        if self.is_unfinished() {
            let asked = record.tasks.iter().rev().find(|task| !task.request.is_empty());
            if let Some(task) = asked {
                let line = format!("Working on: {}", text::clip(&task.request, 100));
                self.add(Topic::InProgress, &line, 2.0, i64::MIN);
                let line = format!("Finish and report: “{}”", text::clip(&task.request, 120));
                self.add(Topic::NextSteps, &line, 1.5, record.length - 1);
            }
            let from = self.current_from();
            for (rank, (number, step)) in record.steps.iter().enumerate().skip(from).rev().take(64).enumerate() {
                let detail = self.detail(Topic::InProgress, rank);
                let lines = self.lines([number].into_iter(), detail);
                let words = text::clip(&said_after(&step.after, &step.words), detail);
                if !lines.is_empty() || rank < 2 && !words.is_empty() {
                    self.add(Topic::InProgress, &with_lines(words, &lines), 2.4 - 0.1 * rank as f64, step.at);
                }
            }
        }
        for call in record.unanswered.iter().rev().take(3) {
            self.add(Topic::InProgress, &format!("No result yet: {call}"), 2.0, i64::MAX - 1);
        }
        let committed_at = record.committed_at();
        let uncommitted = self.changed_since(committed_at);
        if committed_at > i64::MIN && !uncommitted.is_empty() {
            self.add(Topic::InProgress, &format!("{UNCOMMITTED}{uncommitted}"), 2.6, i64::MAX - 1);
            self.add(Topic::NextSteps, &format!("Commit {uncommitted}"), 0.8, record.length + 100);
        } else if committed_at == i64::MIN && !uncommitted.is_empty() {
            self.add(Topic::InProgress, NO_COMMIT, 1.0, i64::MAX - 1);
        }
        if let Some(check) = record.last_passed() {
            let unchecked = self.changed_since(check.at);
            if !unchecked.is_empty() {
                let again = self.last_round(check.at).join(", ");
                self.add(Topic::InProgress, &format!("{UNCHECKED}{unchecked}"), 2.5, i64::MAX - 1);
                self.add(Topic::NextSteps, &format!("Run {again} again: files were edited since"), 1.2, record.length);
            }
        }
    }

    /// The files themselves: what is new and what was changed, and the newest that were only read.
    fn files(&mut self) {
        if let Some(root) = &self.root {
            let text = format!("{ROOT}{}", text::code(root));
            self.add(Topic::Files, &text, 9.0, i64::MIN);
        }
        let mut changed: Vec<&File> = self.record.files.changed.iter().filter(|file| !file.is_gone).collect();
        changed.sort_by_key(|file| std::cmp::Reverse(file.changed_at));
        let known: HashSet<&str> = changed.iter().map(|file| file.path.as_str()).collect();
        for file in changed.iter().take(FILES_MAX) {
            let deed = if file.is_new { "new" } else { "edited" };
            let score = 1.0 + self.record.recency(file.changed_at);
            self.add(Topic::Files, &format!("{} — {deed}", self.shown(&file.path)), score, file.changed_at);
            let values = self.values(file);
            if !values.is_empty() {
                self.add(
                    Topic::Context,
                    &format!("{}{HOLDS}{values}", self.shown(&file.path)),
                    0.9 * score,
                    file.changed_at,
                );
            }
        }
        let mut read: Vec<(&String, &i64)> =
            self.record.files.read.iter().filter(|(path, _)| !known.contains(path.as_str())).collect();
        read.sort_by(|left, right| right.1.cmp(left.1).then_with(|| left.0.cmp(right.0)));
        let read: Vec<String> = read.into_iter().take(8).map(|(path, _)| self.shown(path)).collect();
        if !read.is_empty() {
            self.add(Topic::Files, &format!("{READ}{}", read.join(", ")), 0.5, i64::MAX);
        }
    }

    /// The new lines of a file whose lines are settings: they are the state itself.
    fn values(&self, file: &File) -> String {
        const SETTINGS: [&str; 9] = [".json", ".yaml", ".yml", ".toml", ".ini", ".env", ".cfg", ".conf", ".properties"];
        if !SETTINGS.iter().any(|end| file.path.ends_with(end)) {
            return String::new();
        }
        let mut left = self.room * SETTINGS_SHARE / 100;
        let newest = file.lines.iter().rev().take_while(|line| {
            let cost = line.text.chars().count() + 5;
            let fits = cost <= left;
            left = left.saturating_sub(cost);
            fits
        });
        let mut lines: Vec<String> = newest.map(|line| text::code(&line.text)).collect();
        lines.reverse();
        lines.join(BETWEEN)
    }

    /// Whether the model was in the middle of something when the history ended.
    fn is_unfinished(&self) -> bool {
        let record = self.record;
        let asked_at = record.tasks.last().map_or(i64::MIN, |task| task.at);
        let acts = record.acted_at >= record.said.0 && record.acted_at > i64::MIN;
        acts || asked_at > record.said.0 && record.length > 0 || words::ends_in_intention(&record.said.1)
    }

    /// The checks that passed last, the newest three.
    fn last_round(&self, until: i64) -> Vec<String> {
        let passed = self.record.checks.iter().filter(|check| check.verifies && check.outcome == Outcome::Passed);
        let mut passed: Vec<&Check> = passed.filter(|check| check.at <= until).collect();
        passed.sort_by_key(|check| Reverse(check.at));
        passed.iter().take(3).map(|check| text::code(&text::clip(&check.command, 140))).collect()
    }

    /// The first step of what is being done: since the newest request or commit.
    fn current_from(&self) -> usize {
        if !self.is_unfinished() {
            return self.record.steps.len();
        }
        let last = self.record.tasks.len().saturating_sub(1);
        self.record.steps.partition_point(|step| step.task < last)
    }

    /// The steps of a task, with those behind its commit that were not committed.
    fn steps_of(&self, task: usize) -> Range<usize> {
        let Record { steps, tasks, .. } = self.record;
        let goes_on = tasks[task + 1..].iter().take_while(|next| next.request.is_empty() && next.commit.is_none());
        let last = task + if tasks[task].request.is_empty() { 0 } else { goes_on.count() };
        steps.partition_point(|step| step.task < task)..steps.partition_point(|step| step.task <= last)
    }

    /// Whether the lines of a step are told nowhere else.
    fn is_untold(&self, step: usize) -> bool {
        self.record.steps[step].topic.is_none() && step < self.current_from()
    }

    fn changed_since(&self, at: i64) -> String {
        let files = self.record.files.changed.iter().filter(|file| file.changed_at > at && !file.is_gone);
        let paths: Vec<String> = files.map(|file| self.shown(&file.path)).collect();
        let most = paths.len().saturating_sub(8);
        let more = if most > 0 { format!(" and {most} more") } else { String::new() };
        format!("{}{more}", paths[most..].join(", "))
    }

    /// The lines that still stand of some steps, by file, those that say most first, in at most so many characters.
    fn lines(&self, steps: impl Iterator<Item = usize>, limit: usize) -> String {
        let places = steps.filter_map(|step| self.by_step.get(&step)).flatten();
        let line = |(file, place): &(usize, usize)| (*file, *place, &self.record.files.changed[*file].lines[*place]);
        let mut chosen: Vec<(usize, usize, &Line)> = places.map(line).collect();
        chosen.sort_by_key(|(file, place, line)| (std::cmp::Reverse(line.weight()), *file, *place));
        let mut left = limit;
        let mut named: HashSet<usize> = HashSet::new();
        chosen.retain(|(file, _, line)| {
            let name = if named.contains(file) { 0 } else { self.record.files.changed[*file].path.len().min(60) + 6 };
            let cost = line.text.chars().count() + 5 + name;
            let fits = cost <= left;
            if fits {
                left -= cost;
                named.insert(*file);
            }
            fits
        });
        chosen.sort_by_key(|(file, place, _)| (*file, *place));
        let groups = chosen.chunk_by(|left, right| left.0 == right.0).map(|group| {
            let lines: Vec<String> = group.iter().map(|(_, _, line)| text::code(&line.text)).collect();
            format!("{}: {}", self.shown(&self.record.files.changed[group[0].0].path), lines.join(BETWEEN))
        });
        groups.collect::<Vec<_>>().join("; ")
    }
}

/// Words that somebody said, so that they are not taken for a fact of ours by whoever reads the summary back.
fn unlike_facts(words: String, are_said: bool) -> String {
    const LABELS: [&str; 8] = [FIRST, LATEST, TODO, DOING, DID, CLOSED, UNCOMMITTED, UNCHECKED];
    let is_like = words.starts_with(['`', '“']) || words.starts_with("Commit `");
    let is_like = is_like || LABELS.iter().any(|label| words.starts_with(label));
    if are_said && is_like { format!("{SAID}{words}") } else { words }
}

/// What was said in a step, behind what had failed.
fn said_after(after: &str, words: &str) -> String {
    match (after.is_empty(), words.is_empty()) {
        (true, _) => words.to_owned(),
        (false, true) => after.to_owned(),
        (false, false) => format!("{after}{THEN}{words}"),
    }
}

fn with_lines(words: String, lines: &str) -> String {
    match (words.is_empty(), lines.is_empty()) {
        (_, true) => words,
        (true, false) => lines.to_owned(),
        (false, false) => format!("{words}{ARROW}{lines}"),
    }
}
