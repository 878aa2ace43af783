//! Facts from the summary that is replaced.
//!
//! A summary of ours is parsed fact by fact, by the forms in which [`super::lines`] writes them, into the record that
//! then reads the new history; so superseded facts disappear. A model's summary is read line by line, and its sections
//! are recognised by the headings of the rules, or else by the usual words of such headings.

use super::checks::{Check, Outcome};
use super::commands;
use super::items::{Item, Point};
use super::lines::{
    ARROW, CLOSED, DERIVED, DID, DOING, FIRST, HOLDS, LATEST, NO_COMMIT, ROOT, SAID, STOPPED, TODO, UNCHECKED,
    UNCOMMITTED, UNSETTLED,
};
use super::record::{ASKED, Commit, Note, Record, Step, Task};
use super::text::{self, Lead, Line};
use super::tools::{self, Progress};
use super::words;
use longhand_core::policy::{Section, Summary, Topic, files};
use regex::Regex;
use std::sync::LazyLock;

/// Position of the facts from an earlier summary: before all new ones, in their order.
const BASE: i64 = -1_000_000;

/// Maximum number of bytes read of a previous summary. Summaries are far smaller; a larger text is no summary.
const READ_BYTES_MAX: usize = 262_144;

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a fixed pattern")
}

static CHECKED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^`([^`]+)`(?: in `([^`]+)`)? (passed|failed|did not finish|printed)(?:: `([^`]+)`| `([^`]+)`| \(`([^`]+)`\)|: `` (.+) ``| \(`` (.+) ``\))?(?: \(files were edited since.*\))?$",
    )
});
static COMMITTED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^Commit(?: `([^`]+)`)?(?: on `([^`]+)`)?(, pushed|, not pushed)?: (.*)$"));
static ITEM: LazyLock<Regex> = LazyLock::new(|| pattern(r"^`([^`]+)` \((in progress|open)\): (.*)$"));
static DEMANDS: LazyLock<Regex> = LazyLock::new(|| pattern(r"^`([^`]+)` (demands|says): (.*)$"));
static GROUP: LazyLock<Regex> = LazyLock::new(|| pattern(r"`([^`]+[^`/])`: ((?:`[^`]+`(?: · )?)+)"));
static GROUP_OF_POINTS: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(\p{Lu}[\w ]{2,29}|\p{Han}{2,8}): (.+)$"));
static FOLDER: LazyLock<Regex> = LazyLock::new(|| pattern(r"^`([^`]*/)`: ((?:`[^`]+`(?: \(new\))?(?:, )?)+)$"));
static FILE: LazyLock<Regex> = LazyLock::new(|| pattern(r"`([^`]+)`( \(new\))?"));
static ALONE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^`[^`]*[^`/]`(?: \(new\))?$"));
static OURS: LazyLock<Regex> = LazyLock::new(|| pattern(r"^`.+` failed.*(?:; then| until) `"));
/// A code quote.
pub(super) static CODE: LazyLock<Regex> = LazyLock::new(|| pattern(r"`([^`]+)`"));

/// Reads a summary into an empty record. With `goes_on` there is work after it, so that its unfinished tasks are
/// outdated.
pub(super) fn recall(record: &mut Record, summary: &str, rules: &Summary, goes_on: bool) {
    let cleaned = text::clean(commands::head(summary, READ_BYTES_MAX));
    let body = files::strip_tags(conclusion(&cleaned));
    let (at, held) = (BASE, Vec::new());
    let mut reader = Reader { record, root: None, latest: None, at, goes_on, held };
    let lines: Vec<Line<'_>> = text::prose(&body);
    reader.root = lines.iter().find_map(|line| text::plain(line.text).strip_prefix(ROOT).and_then(quoted));
    let mut topic = None;
    for line in &lines {
        if let Some(found) = heading_topic(line, &rules.sections) {
            topic = Some(found);
        } else {
            reader.line(topic.unwrap_or(Topic::Context), line, rules);
        }
    }
    reader.end();
}

/// A summary without the analysis that its writer put before it.
fn conclusion(summary: &str) -> &str {
    let line = |marks: [&str; 2]| {
        let mut at = 0;
        summary.split_inclusive('\n').find_map(|line| {
            at += line.len();
            marks.contains(&line.trim()).then_some(at)
        })
    };
    match (line(["Analysis:", "<analysis>"]), line(["Summary:", "<summary>"])) {
        (Some(thoughts), Some(start)) if thoughts < start => &summary[start..],
        _ => summary,
    }
}

struct Reader<'a> {
    record: &'a mut Record,
    root: Option<String>,
    /// The newest request.
    latest: Option<String>,
    at: i64,
    goes_on: bool,
    /// Text and lines of the unfinished work, for the current task.
    held: Vec<(String, String)>,
}

impl Reader<'_> {
    fn line(&mut self, topic: Topic, line: &Line<'_>, rules: &Summary) {
        let plain = text::plain(line.text);
        let words = plain.trim();
        let bare = words.trim_matches(['(', ')', '.', ' ']).to_lowercase();
        let is_empty = words == rules.filler || matches!(bare.as_str(), "none" | "n/a" | "nothing" | "无");
        if is_empty || words.starts_with('<') && words.ends_with('>') || is_framing(words) {
            return;
        }
        self.at += 1;
        if self.asked(words)
            || self.tracked(words)
            || self.checked(words)
            || self.filed(topic, words)
            || self.listed(topic, line, words)
        {
            return;
        }
        // Text about a file is no list.
        let topic = if topic == Topic::Files && words.contains(' ') { Topic::Context } else { topic };
        // Presets without a section for constraints have them under the goal.
        let binds = matches!(topic, Topic::Constraints | Topic::Goal);
        if binds && (words.starts_with('“') && words.ends_with('”') || words.starts_with(ASKED)) {
            let words = words.trim_matches(['“', '”']);
            if words.starts_with(ASKED) {
                self.note(Topic::Constraints, words);
            } else {
                self.record.add_wish(words.strip_prefix(SAID).unwrap_or(words).to_owned(), self.at);
            }
        } else if matches!(topic, Topic::Decisions | Topic::Context) {
            self.reason(topic, words, line);
        } else if topic == Topic::InProgress && GROUP.is_match(words) {
            let (statement, lines) = words.split_once(ARROW).unwrap_or(("", words));
            self.held.push((statement.to_owned(), lines.to_owned()));
        } else if !self.goes_on
            || !matches!(topic, Topic::InProgress | Topic::NextSteps | Topic::Blocked | Topic::OpenDecisions)
        {
            self.note(topic, words);
        } else if topic == Topic::InProgress
            && !words.starts_with('`')
            && let Some(topic) = text::sentences_of(words).into_iter().find_map(words::topic_of)
        {
            // The work goes on, but its reasons and findings hold.
            self.note(topic, words);
        }
    }

    /// Adds the current task: the newest request, even if other tasks follow it in the summary.
    fn end(&mut self) {
        let known = self.record.tasks.iter().rev().find(|task| !task.request.is_empty());
        let latest = self.latest.take().filter(|latest| !known.is_some_and(|task| begins_alike(&task.request, latest)));
        if self.record.tasks.is_empty() && latest.is_none() && self.held.is_empty() {
            return;
        }
        let asked = self.record.tasks.iter().rposition(|task| !task.request.is_empty());
        self.record.asked = if latest.is_some() { Some(self.record.tasks.len()) } else { asked };
        self.record.tasks.push(Task { request: latest.unwrap_or_default(), at: self.at, ..Task::default() });
        let task = self.record.tasks.len() - 1;
        for (words, lines) in std::mem::take(&mut self.held) {
            let step = self.record.steps.len();
            self.record.steps.push(Step { at: self.at, task, words, ..Step::default() });
            self.recall_lines(&lines, step);
        }
    }

    /// Reads requests with their results, and commits.
    fn asked(&mut self, words: &str) -> bool {
        let at = self.at;
        if let Some(request) = words.strip_prefix(LATEST) {
            self.latest = Some(request.to_owned());
            return true;
        }
        if let Some(request) = words.strip_prefix(FIRST) {
            self.record.tasks.push(Task { request: request.to_owned(), at, ..Task::default() });
            return true;
        }
        if let Some((request, came)) = words.strip_prefix('“').and_then(|rest| rest.split_once(&format!("”{ARROW}")))
        {
            let known =
                self.record.tasks.iter().position(|task| task.commit.is_none() && begins_alike(&task.request, request));
            let number = known.unwrap_or(self.record.tasks.len());
            if number == self.record.tasks.len() {
                self.record.tasks.push(Task { request: request.to_owned(), at, ..Task::default() });
            }
            let came = self.lines(came, number);
            self.record.tasks[number].answer = came;
            return true;
        }
        let Some(found) = COMMITTED.captures(words) else { return false };
        let number = self.record.tasks.len();
        let subject = self.lines(&found[4], number).trim_end_matches(ARROW.trim_end()).trim().to_owned();
        let name = |group| found.get(group).map_or("", |name| name.as_str()).to_owned();
        let commit = Commit { at, id: name(1), branch: name(2), subject };
        if found.get(3).is_some_and(|pushed| pushed.as_str() == ", pushed") {
            self.record.pushed_at = Some(at);
        }
        self.record.tasks.push(Task { at, commit: Some(commit), ..Task::default() });
        true
    }

    /// Removes the lines of files from a text and adds them as a step of a task; returns the rest of the text.
    fn lines(&mut self, words: &str, task: usize) -> String {
        let Some(first) = GROUP.find(words) else { return words.to_owned() };
        let step = self.record.steps.len();
        self.record.steps.push(Step { at: self.at, task, ..Step::default() });
        self.recall_lines(words, step);
        words[..first.start()].trim_end().trim_end_matches(ARROW.trim()).trim_end().to_owned()
    }

    fn recall_lines(&mut self, words: &str, step: usize) {
        for group in GROUP.captures_iter(words) {
            let path = self.path(&group[1]);
            for line in CODE.captures_iter(&group[2]) {
                self.record.files.recall(&path, &line[1], step);
            }
        }
    }

    /// Reads items of a tracker, and the rules of documents and items.
    fn tracked(&mut self, words: &str) -> bool {
        if let Some(found) = ITEM.captures(words) {
            let status = if &found[2] == "open" { Progress::Pending } else { Progress::Active };
            let at = self.at;
            let item = self.record.items.item(&found[1], at);
            (item.status, item.title) = (status, found[3].to_owned());
            return true;
        }
        if let Some(closed) = words.strip_prefix(CLOSED).filter(|rest| rest.starts_with('`')) {
            for found in CODE.captures_iter(closed) {
                let at = self.at;
                self.record.items.item(&found[1], at).status = Progress::Done;
            }
            return true;
        }
        let Some(found) = DEMANDS.captures(words) else { return false };
        let mut group = "";
        let point = |words| {
            let parts = GROUP_OF_POINTS.captures(words).and_then(|found| Some((found.get(1)?, found.get(2)?)));
            let words = parts.map_or(words, |(name, words)| {
                group = name.as_str();
                words.as_str()
            });
            Point { group: group.to_owned(), words: words.to_owned() }
        };
        let points = found[3].split("; ").map(point).collect();
        let (name, at) = (found[1].to_owned(), self.at);
        if &found[2] == "demands" {
            self.record.items.item(&name, at).points = points;
        } else {
            self.record.documents.push(Item { id: name, points, at, ..Item::default() });
        }
        true
    }

    /// Reads checks.
    fn checked(&mut self, words: &str) -> bool {
        let Some(found) = CHECKED.captures(words) else { return false };
        let outcome = match &found[3] {
            "passed" | "printed" => Outcome::Passed,
            "failed" => Outcome::Failed,
            _ => Outcome::Stopped,
        };
        let output_line =
            (4..=8).find_map(|group| found.get(group)).map(|found| found.as_str().to_owned()).unwrap_or_default();
        let command = found[1].to_owned();
        let folder = found.get(2).map_or("", |folder| folder.as_str()).to_owned();
        let last = command.split(" && ").last().unwrap_or_default();
        let verifies = &found[3] == "passed" || commands::purpose(last) == commands::Purpose::Verify;
        self.record.checks.put(Check { command, folder, outcome, output_line, at: self.at, verifies });
        true
    }

    /// Reads files and their state.
    fn filed(&mut self, topic: Topic, words: &str) -> bool {
        let listed = match FOLDER.captures(words) {
            Some(found) => Some((found[1].to_owned(), found.get(2).map_or("", |files| files.as_str()))),
            None if topic == Topic::Files && ALONE.is_match(words) => Some((String::new(), words)),
            None => None,
        };
        if let Some((folder, files)) = listed {
            for file in FILE.captures_iter(files) {
                let path = self.path(&format!("{}{}", folder.trim_start_matches("./"), &file[1]));
                // The newest file comes first, and all of them come before everything else.
                let at = 4 * BASE - self.at;
                let entry = self.record.files.file(&path);
                (entry.is_new, entry.changed_at) = (file.get(2).is_some(), entry.changed_at.max(Some(at)));
            }
            return true;
        }
        if let Some((path, values)) =
            words.split_once(HOLDS).filter(|(path, _)| path.starts_with('`') && path.ends_with('`'))
        {
            self.held.push((String::new(), format!("{path}: {values}")));
            return true;
        }
        // Later than every commit of that summary; unchecked files are also later than every check of it.
        let unsettled = [(UNCOMMITTED, BASE + 500_000), (UNCHECKED, BASE + 600_000), (UNSETTLED, BASE + 600_000)];
        if let Some((mark, at)) = unsettled.into_iter().find(|(mark, _)| words.starts_with(mark)) {
            for found in CODE.captures_iter(&words[mark.len()..]) {
                let path = self.path(&found[1]);
                let file = self.record.files.file(&path);
                file.changed_at = file.changed_at.max(Some(at));
            }
            return true;
        }
        words.starts_with(ROOT)
    }

    /// Reads tasks of a list.
    fn listed(&mut self, topic: Topic, line: &Line<'_>, words: &str) -> bool {
        let marks = [(TODO, Progress::Pending), (DOING, Progress::Active), (DID, Progress::Done)];
        let found = marks.iter().find_map(|(mark, progress)| Some((words.strip_prefix(mark)?, *progress)));
        if let Some((words, progress)) = found {
            self.record.todos.push(tools::Task { text: words.to_owned(), progress });
            return true;
        }
        // These lines are derived again from the facts.
        let is_open = matches!(topic, Topic::InProgress | Topic::NextSteps);
        let is_standalone = line.indent == 0 && is_open;
        let is_derived = words == NO_COMMIT || DERIVED.iter().any(|mark| words.starts_with(mark));
        is_standalone && (is_derived || words.starts_with(STOPPED))
    }

    /// Reads a reason with the lines of its step.
    fn reason(&mut self, topic: Topic, words: &str, line: &Line<'_>) {
        if line.indent >= 2 && line.lead != Lead::Heading || !GROUP.is_match(words) {
            return self.note(topic, words);
        }
        let task = self.record.tasks.len().saturating_sub(1);
        let statement = self.lines(words, task);
        if let Some(step) = self.record.steps.last_mut() {
            (step.words, step.topic) = (statement, Some(topic));
        }
    }

    fn note(&mut self, topic: Topic, words: &str) {
        let is_ours = topic == Topic::Context && OURS.is_match(words) || words.starts_with(ASKED);
        let words = words.strip_prefix(SAID).unwrap_or(words).to_owned();
        self.record.notes.push(Note { topic, words, at: self.at, is_ours, worth: 1.0 });
    }

    fn path(&self, shown: &str) -> String {
        match &self.root {
            Some(root) if !shown.starts_with(['/', '~']) => format!("{root}/{shown}"),
            Some(_) | None => shown.to_owned(),
        }
    }
}

/// True if one request is the shortened form of the other.
fn begins_alike(left: &str, right: &str) -> bool {
    let bare = |statement: &'_ str| {
        let statement = words::bare(statement);
        statement.split(" (`").next().unwrap_or(statement).trim_end_matches('…').to_owned()
    };
    let (left, right) = (bare(left), bare(right));
    !left.is_empty() && !right.is_empty() && (left.starts_with(&right) || right.starts_with(&left))
}

fn quoted(words: &str) -> Option<String> {
    CODE.captures(words).map(|found| found[1].to_owned())
}

/// True for the text that agents put around a summary.
fn is_framing(words: &str) -> bool {
    const FRAMES: [&str; 4] = [
        "This session is being continued",
        "Please continue the conversation",
        "If you need specific details from before",
        "Continue the conversation from where",
    ];
    FRAMES.iter().any(|frame| words.starts_with(frame)) || matches!(words, "Analysis:" | "Summary:")
}

/// The topic of a heading; none if the line is no heading. A heading over other headings stands for finished work until
/// the next.
pub(super) fn heading_topic(line: &Line<'_>, sections: &[Section]) -> Option<Topic> {
    let plain = text::plain(line.text);
    let words = plain.trim().trim_end_matches([':', '：']).trim();
    // A section may be an element with the heading as its name.
    if let Some(name) = plain.trim().strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) {
        return sections.iter().find(|section| section.heading == name).and_then(|section| section.topic);
    }
    if line.lead == Lead::Heading {
        let known =
            sections.iter().find(|section| section.heading.trim_start_matches('#').trim().eq_ignore_ascii_case(words));
        return Some(match known.map(|section| section.topic) {
            Some(Some(topic)) => topic,
            Some(None) => Topic::Done,
            None => topic_by_words(words).unwrap_or(Topic::Context),
        });
    }
    let is_title = plain.trim().ends_with([':', '：']) && line.indent < 2 && words.chars().count() <= 60;
    if is_title && matches!(line.lead, Lead::Plain | Lead::Number) { topic_by_words(words) } else { None }
}

/// The topic for the usual words of a heading.
pub(super) fn topic_by_words(heading: &str) -> Option<Topic> {
    const WORDS: &[(Topic, &[&str])] = &[
        (Topic::NextSteps, &["next step", "pending", "to-do", "todo", "remaining", "next move", "下一步", "待办"]),
        (Topic::InProgress, &["in progress", "current work", "active", "ongoing", "进行中", "当前"]),
        (Topic::Blocked, &["blocked", "blocker", "阻塞"]),
        (Topic::Constraints, &["constraint", "preference", "instruction", "约束", "偏好", "要求"]),
        (Topic::OpenDecisions, &["open decision", "待决"]),
        (Topic::Decisions, &["decision", "决策", "决定"]),
        (Topic::Files, &["file", "文件", "artifact"]),
        (Topic::Goal, &["goal", "request", "intent", "objective", "user message", "目标", "任务"]),
        (
            Topic::Context,
            &["context", "concept", "error", "fix", "problem", "knowledge", "discover", "上下文", "错误", "发现"],
        ),
        (Topic::Done, &["done", "completed", "accomplished", "progress", "完成", "进展"]),
    ];
    let heading = heading.to_lowercase();
    WORDS.iter().find(|(_, words)| words.iter().any(|word| heading.contains(word))).map(|(topic, _)| *topic)
}
