//! The record of a history: what was asked, tried, found and changed, and how each thing stands at the end.
//!
//! The history is read once, in order, on top of what an earlier summary knew. Whatever is known about one thing (a check, a
//! line of a file, an item, a list of tasks) is kept under that thing, so that the last word about it counts.

use super::commands::{self, Purpose};
use super::files::Files;
use super::items::{self, Items, Point};
use super::text;
use super::tools::{self, Kind, Progress, TaskStep, Use};
use super::words;
use crate::model::message::{MessageKind, Role};
use crate::model::part::{PartBody, ResultStatus, ToolResult};
use crate::model::view::SourceMessage;
use crate::policy::Topic;
use crate::policy::calls::Calls;
use std::collections::{HashMap, HashSet, VecDeque};

/// How many failed commands and unread outputs are remembered at a time, the newest.
const OPEN_MAX: usize = 64;

/// How many rules documents are kept.
const DOCUMENTS_MAX: usize = 12;

/// So many sentences are an answer; fewer say why the next step is taken.
const STEP_SENTENCES_MAX: usize = 4;

/// How long the words of a step may be.
const STEP_CHARS_MAX: usize = 360;

/// Something that was worked on: from a request to the next one, or to a commit.
#[derive(Debug, Clone, Default)]
pub(super) struct Task {
    /// The request in the user's words, or empty for what goes on behind a commit.
    pub(super) request: String,
    /// When it began.
    pub(super) at: i64,
    /// What the model said at its end.
    pub(super) answer: String,
    /// What was run and changed something besides files.
    pub(super) ran: Vec<String>,
    /// The commit that it ended in.
    pub(super) commit: Option<Commit>,
}

/// A commit.
#[derive(Debug, Clone)]
pub(super) struct Commit {
    /// When it was made.
    pub(super) at: i64,
    /// Its short id.
    pub(super) id: String,
    /// The branch it is on.
    pub(super) branch: String,
    /// The first line of its message.
    pub(super) subject: String,
}

/// Something the model did at once, and why.
#[derive(Debug, Clone, Default)]
pub(super) struct Step {
    /// When.
    pub(super) at: i64,
    /// The task it belongs to.
    pub(super) task: usize,
    /// The model's words before it.
    pub(super) words: String,
    /// Where these words belong, if they say why something is done, or what was found.
    pub(super) topic: Option<Topic>,
    /// What had failed before.
    pub(super) after: String,
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It did what it was asked.
    Passed,
    /// It failed.
    Failed,
    /// Nobody let it end.
    Stopped,
}

/// A test, a build, a check, or any other command that failed: how it ended last.
#[derive(Debug, Clone)]
pub(super) struct Check {
    /// The command.
    pub(super) command: String,
    /// How it ended.
    pub(super) outcome: Outcome,
    /// The line of its output that says so; may be empty.
    pub(super) says: String,
    /// When.
    pub(super) at: i64,
    /// Whether it tells whether the work is right.
    pub(super) verifies: bool,
}

/// Words that hold until they are taken back.
#[derive(Debug, Clone)]
pub(super) struct Note {
    /// Where they belong.
    pub(super) topic: Topic,
    /// The words.
    pub(super) words: String,
    /// When they were said.
    pub(super) at: i64,
    /// Whether they are put together here, and not somebody's.
    pub(super) is_ours: bool,
}

/// A document with rules that the user pointed to, or that agents keep for rules.
#[derive(Debug, Clone)]
pub(super) struct Document {
    /// The file.
    pub(super) name: String,
    /// Its rules.
    pub(super) points: Vec<Point>,
    /// When it was read.
    pub(super) at: i64,
}

/// What is known at the end of a history.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// What was worked on, in order.
    pub(super) tasks: Vec<Task>,
    /// What was done, in order.
    pub(super) steps: Vec<Step>,
    /// Changed files.
    pub(super) files: Files,
    /// Checks, each with its last outcome.
    pub(super) checks: Vec<Check>,
    /// Items of a tracker.
    pub(super) items: Items,
    /// The user's rules, findings, and what an earlier summary said that is under no other heading.
    pub(super) notes: Vec<Note>,
    /// Documents with rules.
    pub(super) documents: Vec<Document>,
    /// The newest list of tasks.
    pub(super) todos: Vec<tools::Task>,
    /// When something was pushed last.
    pub(super) pushed_at: i64,
    /// The model's last words, and when they were said.
    pub(super) said: (i64, String),
    /// When a tool was called last.
    pub(super) acted_at: i64,
    /// Calls at the end that nothing has answered.
    pub(super) unanswered: Vec<String>,
    /// How many messages there are.
    pub(super) length: i64,
    /// The newest request, by its place among the tasks.
    pub(super) asked: Option<usize>,
    /// What failed since the model last spoke.
    failure: String,
    /// Commands in the background, by the name under which their output can be asked for.
    background: Vec<(String, String)>,
    by_command: HashMap<String, usize>,
    /// The newest checks that have not passed.
    open: VecDeque<usize>,
    /// Documents that the user named.
    named: HashSet<String>,
    commit_ids: HashSet<String>,
}

impl Record {
    /// A record of nothing.
    pub(super) fn new() -> Self {
        Self { pushed_at: i64::MIN, said: (i64::MIN, String::new()), acted_at: i64::MIN, ..Self::default() }
    }

    /// Reads messages, oldest first.
    pub(super) fn read<'a>(&mut self, messages: impl IntoIterator<Item = &'a SourceMessage>) {
        let messages: Vec<&SourceMessage> = messages.into_iter().collect();
        let calls = Calls::of(messages.iter().copied());
        let by_call = calls.by_call();
        for (at, source) in (0_i64..).zip(&messages) {
            self.length = at + 1;
            // Longhand's words about an abandoned branch are no user's, though they stand in a user's place.
            let is_branch = source.message.kind == MessageKind::Branch;
            for part in &source.message.parts {
                match (&part.body, source.message.role) {
                    (PartBody::Text(words), Role::User) if !is_branch => self.hear(at, &text::spoken(words)),
                    (PartBody::Text(words), Role::User | Role::Assistant) => self.say(at, &text::clean(words)),
                    (PartBody::ToolCall(call), _) => {
                        let answer = by_call.get(&part.id).map(|answer| answer.result);
                        self.act(at, &call.tool, &tools::understand(&call.tool, &call.input_json), answer);
                    }
                    // Thoughts were not said, standing instructions come with every view, and results are read with
                    // their calls.
                    _ => {}
                }
            }
        }
    }

    /// The user speaks.
    fn hear(&mut self, at: i64, words: &str) {
        if !words.chars().any(char::is_alphanumeric) {
            return;
        }
        words::each_sentence(words, |sentence| {
            let length = sentence.chars().count();
            if (8..=400).contains(&length) && words::is_rule(sentence) && !sentence.ends_with([':', '：']) {
                self.notes.push(Note {
                    topic: Topic::Constraints,
                    words: text::one_line(sentence),
                    at,
                    is_ours: false,
                });
            }
            true
        });
        let named = words.split_whitespace().map(|word| word.trim_matches(|letter: char| !letter.is_alphanumeric()));
        self.named.extend(named.filter(|word| word.contains('.')).map(|word| text::base_name(word).to_lowercase()));
        if words::is_request(words) {
            self.asked = Some(self.tasks.len());
            self.tasks.push(Task { request: words::request_line(words), at, ..Task::default() });
            self.failure.clear();
        }
    }

    /// The model speaks.
    fn say(&mut self, at: i64, words: &str) {
        if !words.chars().any(char::is_alphanumeric) {
            return;
        }
        self.task(at);
        let task = self.tasks.len() - 1;
        // What is said behind a commit still answers the request.
        let asked = self.asked.unwrap_or(task);
        self.tasks[asked].answer = words.to_owned();
        self.said = (at, words.to_owned());
        if let Some(todos) = planned(words) {
            self.todos = todos;
        }
        let mut sentences: Vec<(String, Option<Topic>)> = Vec::new();
        words::each_sentence(words, |sentence| {
            if (16..=400).contains(&sentence.chars().count()) || sentence.chars().any(text::is_wide) {
                sentences.push((text::one_line(sentence), words::sense(sentence)));
            }
            true
        });
        let after = std::mem::take(&mut self.failure);
        if sentences.len() > STEP_SENTENCES_MAX {
            let told = sentences
                .into_iter()
                .filter_map(|(words, topic)| Some(Note { topic: topic?, words, at, is_ours: false }));
            self.notes.extend(told);
            self.steps.push(Step { at, task, after, ..Step::default() });
            return;
        }
        let decides = sentences.iter().any(|(_, topic)| *topic == Some(Topic::Decisions));
        let finds = sentences.iter().any(|(_, topic)| topic.is_some());
        let topic = if decides { Some(Topic::Decisions) } else { finds.then_some(Topic::Context) };
        let said = sentences.into_iter().map(|(words, _)| words).filter(|words| !words.ends_with(['?', '？']));
        let words = text::clip(&said.collect::<Vec<_>>().join(" "), STEP_CHARS_MAX);
        // What fails and what is done about it belong together.
        let topic = topic.or_else(|| (!after.is_empty()).then_some(Topic::Context));
        self.steps.push(Step { at, task, words, topic, after });
    }

    /// The step that goes on.
    fn step(&mut self, at: i64) -> usize {
        self.task(at);
        let task = self.tasks.len() - 1;
        if self.steps.last().is_none_or(|step| step.task != task) {
            self.steps.push(Step { at, task, ..Step::default() });
        }
        self.steps.len() - 1
    }

    /// Sees to it that there is a task.
    fn task(&mut self, at: i64) {
        if self.tasks.is_empty() {
            self.tasks.push(Task { at, ..Task::default() });
        }
    }

    /// A tool is called.
    fn act(&mut self, at: i64, tool: &str, call: &Use, answer: Option<&ToolResult>) {
        self.acted_at = at;
        let step = self.step(at);
        let output = answer.map_or("", |result| result.output.as_str());
        self.keep_tasks(call);
        let outcome = match answer.map(|result| result.status) {
            None => {
                let what = call.command.clone().or_else(|| call.touches.first().map(|touch| touch.path.clone()));
                let what = text::clip(&commands::shown(&what.unwrap_or_else(|| call.about.clone())), 160);
                self.unanswered.push(format!("{tool} {}", text::code(&what)));
                return;
            }
            Some(ResultStatus::Completed) => Outcome::Passed,
            Some(ResultStatus::Error) if was_stopped(output) => Outcome::Stopped,
            Some(ResultStatus::Error) => Outcome::Failed,
            Some(ResultStatus::Interrupted) => Outcome::Stopped,
        };
        self.unanswered.clear();
        for touch in &call.touches {
            match touch.kind {
                Kind::Edit | Kind::Write if outcome == Outcome::Passed && !output.starts_with("Error") => {
                    self.documents.retain(|document| document.name != touch.path);
                    self.files.change(touch, at, step);
                }
                Kind::Read => {
                    self.files.read.insert(text::one_line(&text::clean(&touch.path)), at);
                    self.document(at, &touch.path, output);
                }
                _ => {}
            }
        }
        self.await_background(at, call, output);
        if let Some(command) = &call.command {
            self.run(at, command, outcome, output);
        }
    }

    /// Takes the output of a command in the background in, once it has ended.
    fn await_background(&mut self, at: i64, call: &Use, output: &str) {
        let asks = |name: &String| {
            call.awaits.as_ref() == Some(name) || call.command.as_ref().is_some_and(|command| command.contains(name))
        };
        let Some(place) = self.background.iter().position(|(name, _)| asks(name)) else { return };
        let has_ended =
            output.contains("exit_code") || output.contains("exit code") || commands::result(output).is_some();
        if has_ended {
            let (_, command) = self.background.remove(place);
            let outcome = if commands::tells_failure(output) { Outcome::Failed } else { Outcome::Passed };
            self.check(at, &command, outcome, output, true);
        }
    }

    /// A command was run.
    fn run(&mut self, at: i64, command: &str, outcome: Outcome, output: &str) {
        let parts = commands::simple(command);
        let telling: Vec<(&str, Purpose)> = parts
            .iter()
            .map(|part| (*part, commands::purpose(part)))
            .filter(|(_, purpose)| *purpose != Purpose::Look)
            .collect();
        let verifies = telling.iter().any(|(_, purpose)| *purpose == Purpose::Verify);
        let fails_quietly = outcome == Outcome::Passed && !telling.is_empty() && commands::tells_failure(output);
        let outcome = if fails_quietly { Outcome::Failed } else { outcome };
        if outcome == Outcome::Passed
            && let Some(name) = output.split("background with ID: ").nth(1)
            && let Some((part, _)) = telling.first()
        {
            let name = name.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
            self.background.push((name.to_owned(), (*part).to_owned()));
            self.background.drain(..self.background.len().saturating_sub(OPEN_MAX));
            return;
        }
        let mut tracks = false;
        for part in &parts {
            tracks |= outcome == Outcome::Passed && self.items.command(part, output, at);
            self.document_shown(at, part, output);
        }
        if !tracks && telling.is_empty() {
            self.items.listing(output, at);
        }
        if outcome != Outcome::Passed {
            let joined = telling.iter().map(|(part, _)| *part).collect::<Vec<_>>().join(" && ");
            if !joined.is_empty() {
                self.check(at, &joined, outcome, output, verifies);
            }
            return;
        }
        for (part, purpose) in telling {
            self.check(at, part, outcome, output, purpose == Purpose::Verify);
            match purpose {
                Purpose::Record => self.recorded(at, part, output),
                Purpose::Change if !tracks => self.changed(part),
                Purpose::Change | Purpose::Verify | Purpose::Look => {}
            }
        }
    }

    /// A command that changes something besides what tools write.
    fn changed(&mut self, part: &str) {
        let words: Vec<&str> = part.split_whitespace().collect();
        let takes_back = words.first() == Some(&"rm")
            || words.starts_with(&["git", "rm"])
            || words.starts_with(&["git", "checkout"]) && words.contains(&"--")
            || words.starts_with(&["git", "restore"]);
        if takes_back {
            words.iter().skip(1).for_each(|path| self.files.forget(path));
        }
        if let Some(task) = self.tasks.last_mut() {
            task.ran.push(text::clip(&commands::shown(part), 140));
        }
    }

    /// Work was recorded.
    fn recorded(&mut self, at: i64, part: &str, output: &str) {
        if part.contains(" push") {
            self.pushed_at = at;
        }
        for (branch, id, subject) in commands::commits(output) {
            if !self.commit_ids.insert(id.clone()) {
                continue;
            }
            if let Some(task) = self.tasks.last_mut() {
                task.commit = Some(Commit { at, id, branch, subject });
            }
            self.tasks.push(Task { at: at + 1, ..Task::default() });
        }
    }

    /// A command ended; the last time counts.
    fn check(&mut self, at: i64, command: &str, outcome: Outcome, output: &str, verifies: bool) {
        let command = commands::shown(command);
        if outcome == Outcome::Passed {
            self.settle(&command);
            if !verifies {
                return;
            }
        }
        let says = match outcome {
            Outcome::Passed => commands::result(output),
            Outcome::Failed => commands::deciding(output),
            Outcome::Stopped => output.lines().rev().find(|line| !line.trim().is_empty()).map(text::one_line),
        };
        let says = text::clip(&says.unwrap_or_default(), 240);
        if outcome == Outcome::Failed {
            self.failure = failed(&command, &says);
        }
        let says = if outcome == Outcome::Passed && says.is_empty() { "no error shown".to_owned() } else { says };
        self.put(Check { command, outcome, says, at, verifies });
    }

    /// Puts a check in the place of what was known of it.
    pub(super) fn put(&mut self, check: Check) {
        let next = self.checks.len();
        let place = *self.by_command.entry(check.command.clone()).or_insert(next);
        if check.outcome != Outcome::Passed && !self.open.contains(&place) {
            self.open.push_back(place);
            self.open.drain(..self.open.len().saturating_sub(OPEN_MAX));
        }
        if place == next { self.checks.push(check) } else { self.checks[place] = check }
    }

    /// What a success puts right: the same command, a narrower one, or one that ended in it.
    fn settle(&mut self, command: &str) {
        let is_like = |failed: &str| {
            let mut words = failed.split_whitespace();
            let mut own = command.split_whitespace();
            words.next() == own.next() && words.next() == own.next()
        };
        let mut settled = Vec::new();
        for place in self.open.iter().copied() {
            let check = &self.checks[place];
            let failed = check.command.as_str();
            let ends_in = failed.ends_with(&format!("&& {command}"));
            let is_narrower = failed == command || failed.starts_with(&format!("{command} "));
            if is_narrower || ends_in {
                settled.push((place, false));
            } else if !check.verifies && is_like(failed) {
                settled.push((place, true));
            }
        }
        for (place, is_lesson) in settled {
            let check = &mut self.checks[place];
            if is_lesson {
                let failed = failed(&check.command, &check.says);
                let words = format!("{failed}; then {} worked", text::code(&text::clip(command, 140)));
                self.notes.push(Note { topic: Topic::Context, words, at: check.at, is_ours: true });
            }
            // A command that only failed once is no check, and a check is told by how it ended last.
            (check.outcome, check.verifies) = (Outcome::Passed, check.verifies && check.command == command);
            check.says.clear();
        }
        self.open.retain(|place| self.checks[*place].outcome != Outcome::Passed);
    }

    /// Keeps the list of tasks.
    fn keep_tasks(&mut self, call: &Use) {
        if !call.tasks.is_empty() {
            self.todos.clone_from(&call.tasks);
        }
        match &call.task_step {
            Some(TaskStep::Added(task)) => self.todos.push(task.clone()),
            Some(TaskStep::Moved { number, progress }) => {
                if let Some(task) = number.checked_sub(1).and_then(|place| self.todos.get_mut(place)) {
                    task.progress = *progress;
                }
            }
            None => {}
        }
        // A check list that is written down is a list of tasks too.
        for touch in call.touches.iter().filter(|touch| touch.added.contains("- [ ]")) {
            self.todos = boxes(&touch.added);
        }
    }

    fn document_shown(&mut self, at: i64, part: &str, output: &str) {
        if commands::purpose(part) == Purpose::Look
            && let Some(name) = part.split_whitespace().skip(1).find(|word| self.is_document(word))
        {
            self.document(at, name, output);
        }
    }

    /// Whether a file holds rules: by its name, or because it is prose that the user named.
    fn is_document(&self, path: &str) -> bool {
        const RULES: [&str; 7] =
            ["claude.md", "agents.md", "gemini.md", "contributing.md", "conventions.md", "rules.md", ".cursorrules"];
        let base = text::base_name(path).to_lowercase();
        let is_prose = [".md", ".txt", ".rst", ".adoc"].iter().any(|end| base.ends_with(end));
        RULES.contains(&base.as_str()) || is_prose && self.named.contains(&base)
    }

    fn document(&mut self, at: i64, path: &str, output: &str) {
        // What is edited is what the work is about, not what it goes by.
        if !self.is_document(path) || self.files.is_changed(path) {
            return;
        }
        let text = text::clean(commands::head(output, 65_536));
        let lines: Vec<&str> = text.lines().collect();
        let mut points = items::points(&lines);
        points.retain(|point| words::is_rule(&point.words));
        self.documents.retain(|document| document.name != path);
        if !points.is_empty() {
            self.documents.push(Document { name: path.to_owned(), points, at });
            self.documents.drain(..self.documents.len().saturating_sub(DOCUMENTS_MAX));
        }
    }

    /// How much something at a place still weighs: 1 at the end, half of that for every quarter of the history further
    /// back. A short history does not age, and what only an earlier summary knows is old.
    pub(super) fn recency(&self, at: i64) -> f64 {
        if at < 0 {
            return 0.2 + 0.001 * (at as f64).max(-100.0);
        }
        let half_life = (self.length as f64 / 4.0).max(12.0);
        0.5_f64.powf((self.length - at - 1) as f64 / half_life)
    }

    /// When the newest commit was made.
    pub(super) fn committed_at(&self) -> i64 {
        self.tasks.iter().filter_map(|task| task.commit.as_ref()).map(|commit| commit.at).max().unwrap_or(i64::MIN)
    }

    /// The newest check that passed.
    pub(super) fn last_passed(&self) -> Option<&Check> {
        let passed = self.checks.iter().filter(|check| check.verifies && check.outcome == Outcome::Passed);
        passed.max_by_key(|check| check.at)
    }
}

/// What is said of a command that failed.
pub(super) fn failed(command: &str, says: &str) -> String {
    let command = text::code(&text::clip(command, 140));
    if says.is_empty() { format!("{command} failed") } else { format!("{command} failed: {}", text::code(says)) }
}

/// Whether an error says that somebody or a clock stopped the tool.
fn was_stopped(output: &str) -> bool {
    let head = commands::head(output, 4_000).to_lowercase();
    let tail = commands::tail(output, 400).to_lowercase();
    [head, tail].iter().any(|text| {
        ["aborted", "timed out", "interrupted", "was rejected", "doesn't want to proceed"]
            .iter()
            .any(|words| text.contains(words))
    })
}

/// The tasks of a plan: a check list with something left to do, or a list that is announced as what comes.
fn planned(words: &str) -> Option<Vec<tools::Task>> {
    let listed = boxes(words);
    if listed.iter().any(|task| task.progress == Progress::Pending) {
        return Some(listed);
    }
    let lines = text::prose(commands::head(words, 16_000));
    let start = lines.iter().position(|line| words::announces(line.text))?;
    let points =
        lines[start + 1..].iter().take_while(|line| matches!(line.lead, text::Lead::Number | text::Lead::Bullet));
    let tasks: Vec<tools::Task> = points
        .filter(|line| line.indent < 2)
        .map(|line| tools::Task { text: line.text.to_owned(), progress: Progress::Pending })
        .collect();
    (tasks.len() > 1).then_some(tasks)
}

/// The tasks of a check list.
pub(super) fn boxes(words: &str) -> Vec<tools::Task> {
    let lines = text::prose(commands::head(words, 16_000));
    let task = |line: text::Line<'_>| {
        let progress = match line.lead {
            text::Lead::Unchecked => Progress::Pending,
            text::Lead::Checked => Progress::Done,
            _ => return None,
        };
        Some(tools::Task { text: line.text.to_owned(), progress })
    };
    lines.into_iter().filter_map(task).collect()
}
