//! The record of a history: requests, attempts, findings and changes, each with its last state.
//!
//! The history is read once, in order, on top of the facts from an earlier summary. Facts are kept by their subject (a
//! check, a line of a file, an item, a list of tasks), so that the newest fact about a subject counts. Positions (`at`)
//! are indexes of messages; those of facts from an earlier summary are negative.

use super::checks::{BACKGROUND, Check, Checks, Outcome};
use super::commands::{self, Purpose};
use super::files::Files;
use super::items::{self, Item, Items};
use super::text::{self, Lead};
use super::tools::{self, Kind, Progress, ToolUse};
use super::words;
use longhand_core::model::message::{MessageKind, Role};
use longhand_core::model::part::{Marker, NOTE, PartBody, ResultStatus, ToolResult};
use longhand_core::model::view::SourceMessage;
use longhand_core::policy::Topic;
use longhand_core::policy::calls::Calls;
use regex::Regex;
use std::collections::{HashSet, VecDeque};
use std::sync::LazyLock;

/// Label of a question that the user answered.
pub(super) const ASKED: &str = "Asked “";

/// Maximum number of commands to remember since a commit, and of wishes for one piece of work, the newest.
const RECENT_MAX: usize = 64;

/// Maximum number of documents with rules to keep.
const DOCUMENTS_MAX: usize = 12;

/// Maximum number of sentences in the text before a step; a longer text is an answer.
const STEP_SENTENCES_MAX: usize = 4;

/// Maximum length of the text of a step, in characters.
const STEP_CHARS_MAX: usize = 360;

/// Maximum number of values of the user to remember.
const VALUES_MAX: usize = 1_000;

/// Maximum size of a message that is read whole, in bytes. Of a longer one only the beginning and the end are a
/// person's own words.
const PASTED_BYTES: usize = 3_000;

/// A question to the user with its answer, as agents print them.
static ANSWER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#""([^"]+)"="([^"]*)""#).expect("a fixed pattern"));

/// A unit of work: from a request to the next one, or to a commit.
#[derive(Debug, Clone, Default)]
pub(super) struct Task {
    /// The request in the user's words; empty for work after a commit.
    pub(super) request: String,
    /// Position of its start.
    pub(super) at: i64,
    /// The model's text at its end.
    pub(super) answer: String,
    /// The commit at its end.
    pub(super) commit: Option<Commit>,
}

/// A commit.
#[derive(Debug, Clone)]
pub(super) struct Commit {
    /// Position of the commit.
    pub(super) at: i64,
    /// Its short id; empty if it was not printed.
    pub(super) id: String,
    /// Its branch; empty if it was not printed.
    pub(super) branch: String,
    /// The first line of its message.
    pub(super) subject: String,
}

/// Calls that the model made together, with its reason for them.
#[derive(Debug, Clone, Default)]
pub(super) struct Step {
    /// Position of the step.
    pub(super) at: i64,
    /// The task it belongs to.
    pub(super) task: usize,
    /// The model's text before it.
    pub(super) words: String,
    /// The topic of that text, if it states a reason or a finding.
    pub(super) topic: Option<Topic>,
}

/// A statement that holds until it is revoked.
#[derive(Debug, Clone)]
pub(super) struct Note {
    /// Its topic.
    pub(super) topic: Topic,
    /// Its text.
    pub(super) words: String,
    /// Position of the statement.
    pub(super) at: i64,
    /// True if the summarizer composed it, false if it is a quotation.
    pub(super) is_ours: bool,
    /// Its importance, relative to other notes.
    pub(super) worth: f64,
}

/// The facts known at the end of a history.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// Tasks, in order.
    pub(super) tasks: Vec<Task>,
    /// Steps, in order.
    pub(super) steps: Vec<Step>,
    /// Changed files.
    pub(super) files: Files,
    /// Checks, each with its last outcome.
    pub(super) checks: Checks,
    /// Items of a tracker.
    pub(super) items: Items,
    /// The user's rules, findings, and statements of an earlier summary that have no other field.
    pub(super) notes: Vec<Note>,
    /// Documents with rules that the user named, or that agents use for rules, by name.
    pub(super) documents: Vec<Item>,
    /// The newest list of tasks.
    pub(super) todos: Vec<tools::Task>,
    /// Position of the last push.
    pub(super) pushed_at: Option<i64>,
    /// The model's last text.
    pub(super) last_reply: String,
    /// Position of that text.
    pub(super) replied_at: Option<i64>,
    /// Position of the last tool call.
    pub(super) acted_at: Option<i64>,
    /// Position at which the user last stopped the model.
    pub(super) stopped_at: Option<i64>,
    /// The last call that the user rejected, with the words before it.
    pub(super) rejected: String,
    /// Calls at the end without a result.
    pub(super) unanswered: Vec<String>,
    /// Number of messages.
    pub(super) length: i64,
    /// The newest request, as an index of `tasks`.
    pub(super) asked: Option<usize>,
    /// The commands that led to the newest commit, in order.
    pub(super) before_commit: Vec<String>,
    /// The commands since the newest commit.
    since_commit: Vec<String>,
    /// True if there was no text of the model and no call since the newest request.
    is_idle: bool,
    /// Names of documents that the user mentioned.
    named: HashSet<String>,
    commit_ids: HashSet<String>,
    /// Names and values with digits in the user's texts.
    pub(super) values: HashSet<String>,
    /// The user's wishes for one piece of work, as indexes of `notes`.
    wishes: VecDeque<usize>,
}

impl Record {
    /// Reads messages, oldest first.
    pub(super) fn read<'a>(&mut self, messages: impl IntoIterator<Item = &'a SourceMessage>) {
        let messages: Vec<&SourceMessage> = messages.into_iter().collect();
        let calls = Calls::of(messages.iter().copied());
        let by_call = calls.by_call();
        for (at, source) in (0_i64..).zip(&messages) {
            self.length = at + 1;
            // The summary of an abandoned branch is Longhand's text, not a user's, though its role is user.
            let is_branch = source.message.kind == MessageKind::Branch;
            for part in &source.message.parts {
                match (&*part.body, source.message.role) {
                    (PartBody::Text(words), Role::User) if !is_branch => {
                        self.add_request(at, &text::unmarked(&text::spoken(words)));
                    }
                    (PartBody::Text(words), Role::User | Role::Assistant) => {
                        self.add_reply(at, &text::unmarked(&text::clean(words)));
                    }
                    (PartBody::Marker(marker), Role::User) if marker.name == NOTE => self.note_of_agent(at, marker),
                    (PartBody::ToolCall(call), _) => {
                        let answer = by_call.get(&part.id).map(|answer| answer.result);
                        self.act(at, &call.tool, &tools::understand(&call.tool, &call.input_json), answer);
                    }
                    // Reasoning compares options that are not chosen in the end, system messages come with every view,
                    // and results are read with their calls.
                    _ => {}
                }
            }
        }
    }

    /// Reads a text of the user.
    fn add_request(&mut self, at: i64, words: &str) {
        if !words.chars().any(char::is_alphanumeric) {
            return;
        }
        let named = words.split_whitespace().map(|word| word.trim_matches(|letter: char| !letter.is_alphanumeric()));
        self.named.extend(named.filter(|word| word.contains('.')).map(|word| text::base_name(word).to_lowercase()));
        let values = words.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| word.len() > 2);
        let values = values.filter(|word| word.bytes().any(|letter| letter.is_ascii_digit()));
        self.values.extend(values.map(str::to_ascii_lowercase).take(VALUES_MAX.saturating_sub(self.values.len())));
        let request = words::request_line(words);
        self.add_rules(at, words);
        if !words::is_request(words) {
            return;
        }
        // Several messages in a row are one request.
        if let Some(task) = self.tasks.last_mut().filter(|task| self.is_idle && !task.request.is_empty()) {
            task.request = format!("{} / {request}", task.request);
            return;
        }
        self.drop_fulfilled();
        self.asked = Some(self.tasks.len());
        self.is_idle = true;
        self.tasks.push(Task { request, at, ..Task::default() });
    }

    /// Adds the rules in a user's text.
    fn add_rules(&mut self, at: i64, words: &str) {
        // The middle of a long message is pasted text.
        let words = match words.len() > PASTED_BYTES {
            true => format!("{}\n{}", commands::head(words, PASTED_BYTES / 2), commands::tail(words, PASTED_BYTES / 2)),
            false => words.to_owned(),
        };
        words::each_sentence(&words, |sentence| {
            let length = sentence.chars().count();
            if (8..=400).contains(&length) && words::is_rule(sentence) && !sentence.ends_with([':', '：']) {
                self.add_wish(text::one_line(sentence), at);
            }
            true
        });
    }

    /// Adds a rule or a wish of the user.
    pub(super) fn add_wish(&mut self, words: String, at: i64) {
        if words::is_one_off(&words) {
            self.wishes.push_back(self.notes.len());
            self.wishes.drain(..self.wishes.len().saturating_sub(RECENT_MAX));
        }
        self.note(Topic::Constraints, words, at, 1.0);
    }

    /// Drops the wishes for one piece of work, if files were changed since: the next request follows.
    fn drop_fulfilled(&mut self) {
        let (notes, changed_at) = (&mut self.notes, self.files.changed_at);
        self.wishes.retain(|position| {
            let note = &mut notes[*position];
            let is_fulfilled = changed_at > Some(note.at);
            if is_fulfilled {
                note.words.clear();
            }
            !is_fulfilled
        });
    }

    /// Reads an agent's text with the user's role: the text of a skill has rules, and a notice may state that the user
    /// stopped the model.
    fn note_of_agent(&mut self, at: i64, marker: &Marker) {
        const SKILL: &str = "Base directory for this skill:";
        let words = text::clean(&marker.text);
        if words.trim_start().starts_with("[Request interrupted") {
            self.stopped_at = Some(at);
            self.rejected.clear();
        }
        if words.contains("<task-notification>") && words.contains("<status>completed") {
            self.end_background(at, |name| words.contains(name), &words);
        }
        let asked = self.tasks.last().map_or("", |task| task.request.as_str());
        let name = match words.trim_start().strip_prefix(SKILL) {
            Some(rest) => text::base_name(rest.lines().next().unwrap_or_default().trim()).to_owned(),
            None if asked.starts_with('/') => asked.split([' ', ';']).next().unwrap_or_default().to_owned(),
            None => return,
        };
        let mut points = items::points_of(&words);
        points.retain(|point| words::is_rule(&point.words));
        if !points.is_empty() {
            self.document(Item { id: name, points, at, ..Item::default() });
        }
    }

    /// Reads a text of the model.
    fn add_reply(&mut self, at: i64, words: &str) {
        if !words.chars().any(char::is_alphanumeric) {
            return;
        }
        self.is_idle = false;
        self.task(at);
        let task = self.tasks.len() - 1;
        // Text after a commit still answers the request.
        let asked = self.asked.unwrap_or(task);
        self.tasks[asked].answer = words.to_owned();
        (self.last_reply, self.replied_at) = (words.to_owned(), Some(at));
        let listed = boxes(words);
        if listed.iter().any(|task| task.progress == Progress::Pending) {
            self.todos = listed;
        }
        let mut sentences: Vec<(String, Option<Topic>)> = Vec::new();
        words::each_sentence(words, |sentence| {
            if (16..=400).contains(&sentence.chars().count()) || sentence.chars().any(text::is_wide) {
                sentences.push((text::one_line(sentence), words::topic_of(sentence)));
            }
            true
        });
        if sentences.len() > STEP_SENTENCES_MAX {
            for (words, topic) in sentences {
                if let Some(topic) = topic {
                    self.note(topic, words, at, 1.0);
                }
            }
            self.steps.push(Step { at, task, ..Step::default() });
            return;
        }
        let decides = sentences.iter().any(|(_, topic)| *topic == Some(Topic::Decisions));
        let finds = sentences.iter().any(|(_, topic)| topic.is_some());
        let topic = if decides { Some(Topic::Decisions) } else { finds.then_some(Topic::Context) };
        let statements = sentences.into_iter().map(|(words, _)| words).filter(|words| !words.ends_with(['?', '？']));
        let words = text::clip(&statements.collect::<Vec<_>>().join(" "), STEP_CHARS_MAX);
        self.steps.push(Step { at, task, words, topic });
    }

    fn note(&mut self, topic: Topic, words: String, at: i64, worth: f64) {
        self.notes.push(Note { topic, words, at, is_ours: false, worth });
    }

    /// The current step, created if there is none for the current task.
    fn step(&mut self, at: i64) -> usize {
        self.task(at);
        let task = self.tasks.len() - 1;
        if self.steps.last().is_none_or(|step| step.task != task) {
            self.steps.push(Step { at, task, ..Step::default() });
        }
        self.steps.len() - 1
    }

    /// Creates a task if there is none.
    fn task(&mut self, at: i64) {
        if self.tasks.is_empty() {
            self.tasks.push(Task { at, ..Task::default() });
        }
    }

    /// Reads a tool call with its result.
    fn act(&mut self, at: i64, tool: &str, call: &ToolUse, answer: Option<&ToolResult>) {
        self.acted_at = Some(at);
        self.is_idle = false;
        let step = self.step(at);
        let output = answer.map_or("", |result| result.output.as_str());
        self.keep_tasks(call);
        let path = call.touches.first().map(|touch| text::base_name(&touch.path).to_owned());
        let what = call.command.clone().or(path);
        let what = text::clip(&commands::shown(&what.unwrap_or_else(|| call.about.clone())), 160);
        let what = format!("{tool} {}", text::code(&what));
        let outcome = match answer.map(|result| result.status) {
            None => return self.unanswered.push(what),
            Some(ResultStatus::Completed) => Outcome::Passed,
            Some(ResultStatus::Error) if was_stopped(output) => Outcome::Stopped,
            Some(ResultStatus::Error) => Outcome::Failed,
            Some(ResultStatus::Interrupted) => Outcome::Stopped,
        };
        self.unanswered.clear();
        let is_rejected = outcome == Outcome::Stopped && output.contains("doesn't want to proceed");
        if is_rejected {
            self.stopped_at = Some(at);
            self.rejected = format!(" and rejected {what}");
            // The answer so far was only an announcement of the rejected call.
            if let Some(task) = self.asked.and_then(|asked| self.tasks.get_mut(asked)) {
                task.answer.clear();
            }
            let answer = output.split_once("the user said:").map_or("", |(_, answer)| answer.trim());
            return self.add_request(at, &text::spoken(answer));
        }
        for touch in &call.touches {
            match touch.kind {
                Kind::Edit | Kind::Write if outcome == Outcome::Passed && !output.starts_with("Error") => {
                    self.documents.retain(|document| document.id != touch.path);
                    self.files.change(touch, at, step);
                }
                Kind::Read => {
                    self.read_file(at, &touch.path, output);
                }
                _ => {}
            }
        }
        let has_ended =
            || output.contains("exit_code") || output.contains("exit code") || commands::result(output).is_some();
        let asks = |name: &str| {
            call.awaits.as_deref() == Some(name) || call.command.as_ref().is_some_and(|command| command.contains(name))
        };
        self.end_background(at, |name| asks(name) && has_ended(), output);
        match (&call.command, call.kind) {
            (Some(command), _) => self.run(at, command, outcome, output),
            (None, kind) => self.add_findings(at, tool, kind, call, output),
        }
    }

    /// Adds the findings of a tool that runs no command.
    fn add_findings(&mut self, at: i64, tool: &str, kind: Kind, call: &ToolUse, output: &str) {
        let output = text::clean(commands::head(output, 16_384));
        let note = |topic, words: String, worth| Note { topic, words, at, is_ours: true, worth };
        let asked = |question: &str, answer: &str| {
            let (question, answer) = (text::clip(question, 160), text::clip(answer, 240));
            note(Topic::Constraints, format!("{ASKED}{question}”, the user answered: “{answer}”"), 1.2)
        };
        let about = text::clip(&text::one_line(&text::clean(&call.about)), 120);
        match kind {
            Kind::Ask => {
                let pairs: Vec<Note> = ANSWER.captures_iter(&output).map(|pair| asked(&pair[1], &pair[2])).collect();
                if pairs.is_empty() && !output.trim().is_empty() {
                    self.notes.push(asked(&about, &text::one_line(&output)));
                }
                self.notes.extend(pairs);
            }
            Kind::Fetch => {
                let is_echo = |line: &str| line.contains("{\"") || !about.is_empty() && line.contains(&about);
                let prose: Vec<&str> = output.lines().filter(|line| !is_echo(line)).collect();
                let gist = words::excerpt(&prose.join("\n"), 600);
                if !gist.is_empty() {
                    self.notes.push(note(Topic::Context, format!("{tool} “{about}” says: {gist}"), 0.25));
                }
            }
            _ => {}
        }
        if tool.to_lowercase().contains("plan") && output.contains("approved") {
            self.notes.push(note(Topic::Decisions, "The user approved the plan".to_owned(), 1.0));
        }
    }

    /// Reads the output of a background command that has ended.
    fn end_background(&mut self, at: i64, asks: impl Fn(&str) -> bool, output: &str) {
        if let Some(command) = self.checks.in_background(asks) {
            let outcome = if commands::reports_failure(output) { Outcome::Failed } else { Outcome::Passed };
            self.check(at, &command, "", outcome, output, Purpose::Verify);
        }
    }

    /// Reads a command line with its outcome.
    fn run(&mut self, at: i64, command: &str, outcome: Outcome, output: &str) {
        let parts = commands::simple(command);
        let folder = commands::folder(command).unwrap_or_default();
        let relevant: Vec<(&str, Purpose)> = parts
            .iter()
            .map(|part| (part.as_str(), commands::purpose(part)))
            .filter(|(_, purpose)| *purpose != Purpose::Inspect)
            .collect();
        let verifies = relevant.iter().any(|(_, purpose)| *purpose == Purpose::Verify);
        // A program may print anything; only the output of a check is trusted to report a failure by its text.
        let reports = relevant.iter().any(|(_, purpose)| *purpose != Purpose::Run);
        let hides_failure = outcome == Outcome::Passed && reports && commands::reports_failure(output);
        let outcome = if hides_failure { Outcome::Failed } else { outcome };
        if outcome == Outcome::Passed
            && let Some(name) = output.split("background with ID: ").nth(1)
            && let Some((part, _)) = relevant.first()
        {
            let name = name.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
            self.checks.put(Check {
                command: commands::shown(part),
                folder: String::new(),
                outcome: Outcome::Stopped,
                output_line: format!("{BACKGROUND}{name}"),
                at,
                verifies: true,
            });
            return;
        }
        let mut tracks = false;
        for part in &parts {
            tracks |= outcome == Outcome::Passed && self.items.command(part, output, at);
            self.read_printed_file(at, part, output);
        }
        if !tracks && relevant.is_empty() {
            self.items.listing(output, at);
        }
        if outcome != Outcome::Passed {
            let joined = relevant.iter().map(|(part, _)| *part).collect::<Vec<_>>().join(" && ");
            if !joined.is_empty() {
                let purpose = if verifies { Purpose::Verify } else { Purpose::Change };
                self.check(at, &joined, folder, outcome, output, purpose);
            }
            return;
        }
        for (part, purpose) in relevant {
            if tracks || matches!(purpose, Purpose::Verify | Purpose::Record) {
                let short: Vec<&str> =
                    part.split_whitespace().take(if purpose == Purpose::Verify { 5 } else { 2 }).collect();
                self.since_commit.push(short.join(" "));
                self.since_commit.drain(..self.since_commit.len().saturating_sub(RECENT_MAX));
            }
            self.check(at, part, folder, outcome, output, purpose);
            match purpose {
                Purpose::Record => self.recorded(at, part, output),
                Purpose::Change if !tracks => self.changed(part),
                Purpose::Change | Purpose::Verify | Purpose::Run | Purpose::Inspect => {}
            }
        }
    }

    /// Reads a command that changes something besides the edits of tools.
    fn changed(&mut self, part: &str) {
        let words: Vec<&str> = part.split_whitespace().collect();
        let takes_back = words.first() == Some(&"rm")
            || words.starts_with(&["git", "rm"])
            || words.starts_with(&["git", "checkout"]) && words.contains(&"--")
            || words.starts_with(&["git", "restore"]);
        if takes_back {
            words.iter().skip(1).for_each(|path| self.files.forget(path));
        }
    }

    /// Reads a command that records work: a push, a merge request, a commit.
    fn recorded(&mut self, at: i64, part: &str, output: &str) {
        if commands::pushes(part) {
            self.pushed_at = Some(at);
        }
        // A merge request is identified by its address.
        if let Some(address) =
            output.split_whitespace().find(|word| word.starts_with("https://") && part.contains("create"))
        {
            let shown = text::code(&text::clip(&commands::shown(part), 100));
            let words = format!("Opened {} by {shown}", text::one_line(&text::clean(address)));
            self.notes.push(Note { topic: Topic::Done, words, at, is_ours: true, worth: 1.0 });
        }
        let mut commits = commands::commits(output);
        if commits.is_empty() {
            commits.extend(commands::quiet_commit(part, output).map(|(id, subject)| (String::new(), id, subject)));
        }
        for (branch, id, subject) in commits {
            let name = if id.is_empty() { &subject } else { &id };
            if !self.commit_ids.insert(name.clone()) {
                continue;
            }
            self.before_commit = std::mem::take(&mut self.since_commit);
            if let Some(task) = self.tasks.last_mut() {
                task.commit = Some(Commit { at, id, branch, subject });
            }
            self.tasks.push(Task { at: at + 1, ..Task::default() });
        }
    }

    /// Adds the outcome of a command; the last run counts.
    fn check(&mut self, at: i64, command: &str, folder: &str, outcome: Outcome, output: &str, purpose: Purpose) {
        let (command, folder) = (commands::shown(command), text::one_line(&text::clean(folder)));
        // Of a program that is no check, the last line that it printed is kept.
        let output_line = if purpose == Purpose::Run { commands::last_line(output) } else { None }.unwrap_or_default();
        let verifies = purpose == Purpose::Verify;
        let lessons = self.checks.end(
            Check { command, folder, outcome, output_line, at, verifies },
            output,
            self.files.changed_at,
        );
        for (words, at) in lessons {
            self.notes.push(Note { topic: Topic::Context, words, at, is_ours: true, worth: 0.6 });
        }
    }

    /// Updates the list of tasks.
    fn keep_tasks(&mut self, call: &ToolUse) {
        if !call.tasks.is_empty() {
            self.todos.clone_from(&call.tasks);
        }
        match &call.task_step {
            Some((None, task)) => self.todos.push(task.clone()),
            Some((Some(number), task)) => {
                if let Some(known) = number.checked_sub(1).and_then(|position| self.todos.get_mut(position)) {
                    known.progress = task.progress;
                }
            }
            None => {}
        }
        // A check list that is written to a file is a list of tasks too.
        for touch in call.touches.iter().filter(|touch| touch.added.contains("- [ ]")) {
            self.todos = boxes(&touch.added);
        }
    }

    fn read_printed_file(&mut self, at: i64, part: &str, output: &str) {
        if commands::purpose(part) == Purpose::Inspect
            && let Some(name) = part.split_whitespace().skip(1).find(|word| self.is_document(word))
        {
            self.read_file(at, name, output);
        }
    }

    /// True if a file contains rules: by its name, or because it is prose that the user named.
    fn is_document(&self, path: &str) -> bool {
        const RULES: [&str; 7] =
            ["claude.md", "agents.md", "gemini.md", "contributing.md", "conventions.md", "rules.md", ".cursorrules"];
        let base = text::base_name(path).to_lowercase();
        let is_prose = [".md", ".txt", ".rst", ".adoc"].iter().any(|end| base.ends_with(end));
        RULES.contains(&base.as_str()) || is_prose && self.named.contains(&base)
    }

    /// Reads a file; its rules are added if it is a document.
    fn read_file(&mut self, at: i64, path: &str, output: &str) {
        // A file that is edited is the subject of the work and no source of rules.
        if !self.is_document(path) || self.files.is_changed(path) {
            return;
        }
        let mut points = items::points_of(&text::clean(commands::head(output, 65_536)));
        points.retain(|point| words::is_rule(&point.words));
        if !points.is_empty() {
            self.document(Item { id: path.to_owned(), points, at, ..Item::default() });
        }
    }

    fn document(&mut self, document: Item) {
        self.documents.retain(|known| known.id != document.id);
        self.documents.push(document);
        self.documents.drain(..self.documents.len().saturating_sub(DOCUMENTS_MAX));
    }

    /// The importance of a position by its age: 1 at the end, and halved by each quarter of the history that follows
    /// it. A short history does not age, and facts from an earlier summary count as old.
    pub(super) fn recency(&self, at: i64) -> f64 {
        if at < 0 {
            return 0.2 + 0.001 * (at as f64).max(-100.0);
        }
        let half_life = (self.length as f64 / 4.0).max(12.0);
        0.5_f64.powf((self.length - at - 1) as f64 / half_life)
    }

    /// The newest commit.
    pub(super) fn committed(&self) -> Option<&Commit> {
        self.tasks.iter().filter_map(|task| task.commit.as_ref()).max_by_key(|commit| commit.at)
    }
}

/// True if an error reports that the user or a timeout stopped the tool.
pub(super) fn was_stopped(output: &str) -> bool {
    let head = commands::head(output, 4_000).to_lowercase();
    let tail = commands::tail(output, 400).to_lowercase();
    [head, tail].iter().any(|text| {
        ["aborted", "timed out", "interrupted", "was rejected", "doesn't want to proceed"]
            .iter()
            .any(|words| text.contains(words))
    })
}

/// The tasks of a check list.
pub(super) fn boxes(words: &str) -> Vec<tools::Task> {
    let lines = text::prose(commands::head(words, 16_000));
    let task = |line: text::Line<'_>| {
        let progress = match line.lead {
            Lead::Unchecked => Progress::Pending,
            Lead::Checked => Progress::Done,
            _ => return None,
        };
        Some(tools::Task { text: line.text.to_owned(), progress })
    };
    lines.into_iter().filter_map(task).collect()
}
