//! The writer of Claude Code transcripts, in the form of version 2.1.
//!
//! Rows form a tree by `parentUuid`. An abandoned branch is written where Claude Code would make one: an edited prompt.
//! Edits of messages have no form there: the replacement stands in the place of the original.

mod rows;

use super::lines::{self, Lines};
use super::session::{FileLine, Message, Report, Session};
use crate::Format;
use crate::compose::{ObjectWriter, relink, uuid};
use crate::raw::Object;
use longhand_model::message::{MessageKind, MessageState, Role};
use longhand_model::part::PartBody;
use std::collections::{HashMap, HashSet};

/// The version of Claude Code whose rows are written, unless the session has rows of another one.
const VERSION: &str = "2.1.39";

/// The lines of a transcript.
pub(super) fn lines(session: &Session) -> (Vec<FileLine>, Report) {
    let restored = lines::restore(session, Format::ClaudeCode);
    let envelope = Envelope::from_session(session, &restored);
    let mut writer = Writer {
        session,
        restored,
        envelope,
        report: Report::default(),
        out: Vec::new(),
        path: Vec::new(),
        uuids: HashSet::new(),
        left_out: HashSet::new(),
        rows_of: HashMap::new(),
        has_rewinds: session.messages.iter().any(|message| message.rewound_at().is_some()),
        after_composed: false,
        calls: HashSet::new(),
    };
    writer.write();
    (writer.out, writer.report)
}

/// What all rows have in common.
struct Envelope {
    session_id: String,
    agent_id: Option<String>,
    folder: String,
    version: String,
    git_branch: String,
    is_sidechain: bool,
}

impl Envelope {
    /// As the last row of the file has it.
    fn from_session(session: &Session, restored: &Lines) -> Self {
        let mut rows: Vec<_> = restored.of.values().flatten().collect();
        rows.sort_by_key(|line| std::cmp::Reverse(line.position));
        let rows: Vec<_> = rows.into_iter().filter_map(|line| Object::parse(&line.text, 1).ok()).collect();
        let newest = |name: &str| rows.iter().find_map(|row| row.id(name));
        let metadata = session.metadata_json.as_deref();
        let own = uuid(&session.id);
        Self {
            session_id: newest("sessionId").unwrap_or_else(|| own.clone()),
            agent_id: newest("agentId").or_else(|| session.is_child.then_some(own)),
            folder: newest("cwd")
                .or_else(|| crate::compose::string_in(metadata, "cwd"))
                .unwrap_or_else(|| "/".to_owned()),
            version: newest("version").unwrap_or_else(|| VERSION.to_owned()),
            git_branch: newest("gitBranch").unwrap_or_default(),
            is_sidechain: session.is_child,
        }
    }
}

/// A row on the path to the current position.
#[derive(Debug, Clone)]
struct OnPath {
    uuid: String,
    rewound_at: Option<i64>,
}

struct Writer<'a> {
    session: &'a Session,
    restored: Lines,
    envelope: Envelope,
    report: Report,
    out: Vec<FileLine>,
    path: Vec<OnPath>,
    uuids: HashSet<String>,
    /// Rows of the file that are not written.
    left_out: HashSet<String>,
    /// The first and the last row of each message, by its id.
    rows_of: HashMap<String, (String, String)>,
    /// True if a rewind left any message out.
    has_rewinds: bool,
    after_composed: bool,
    /// The ids of the calls so far.
    calls: HashSet<String>,
}

/// What becomes of a message.
enum Plan<'a> {
    /// It is written, as its own lines if it has any.
    Written,
    /// Another message is written in its place.
    Replaced(&'a Message),
    /// It is left out.
    LeftOut,
}

impl<'a> Writer<'a> {
    fn write(&mut self) {
        let abandoned = self.abandoned();
        let mut plans: Vec<Plan<'a>> = Vec::new();
        for index in 0..self.session.messages.len() {
            let plan = self.plan(index, &abandoned);
            plans.push(plan);
        }
        // What shares a line with a message that is not written as it was is composed, too.
        let mut composed: HashSet<usize> = HashSet::new();
        for users in self.restored.sharing.values() {
            if users.iter().any(|user| !matches!(plans[*user], Plan::Written)) {
                composed.extend(users);
            }
        }
        let mut run: Vec<(usize, lines::Line)> = Vec::new();
        for (index, plan) in plans.iter().enumerate() {
            let message = &self.session.messages[index];
            let own = self.restored.of.get(&index).cloned();
            match (plan, own) {
                (Plan::Written, Some(own)) if !composed.contains(&index) => {
                    self.note_calls(message);
                    run.extend(own.into_iter().map(|line| (index, line)));
                }
                (Plan::Written, _) if self.restored.pieces.contains(&index) => {}
                (Plan::LeftOut, own) => {
                    let rows = own.into_iter().flatten();
                    self.left_out.extend(rows.filter_map(|line| Object::parse(&line.text, 1).ok()?.id("uuid")));
                }
                (Plan::Written, _) => {
                    self.verbatim(std::mem::take(&mut run));
                    self.compose(message, message);
                }
                (Plan::Replaced(by), _) => {
                    self.verbatim(std::mem::take(&mut run));
                    self.compose(message, by);
                }
            }
        }
        self.verbatim(run);
        self.end();
    }

    /// The revisions of rewinds whose messages stay as an abandoned branch: those that replaced a prompt by another.
    fn abandoned(&self) -> HashSet<i64> {
        let messages = &self.session.messages;
        let prompts =
            |message: &Message| message.kind == MessageKind::Normal && message.role == Role::User && !message.is_note();
        let mut first: HashMap<i64, &Message> = HashMap::new();
        for message in messages {
            if let Some(at) = message.rewound_at() {
                first.entry(at).or_insert(message);
            }
        }
        let is_branch = |(at, first): &(i64, &Message)| {
            let mut later = messages.iter().filter(|later| later.revision >= *at && later.kind == MessageKind::Normal);
            // A later rewind may have taken the new prompt out again.
            prompts(first) && later.find(|later| later.rewound_at().is_none()).is_some_and(prompts)
        };
        first.into_iter().filter(is_branch).map(|(at, _)| at).collect()
    }

    fn plan(&mut self, index: usize, abandoned: &HashSet<i64>) -> Plan<'a> {
        let message = &self.session.messages[index];
        let status = &message.status;
        let left_out = match (message.kind, status.state) {
            (MessageKind::Record, _) => match message.record() {
                _ if self.restored.pieces.contains(&index) => return Plan::Written,
                _ if message.is_compaction_record()
                    && self.session.compaction_before(index).is_some_and(|made| made.is_undone) =>
                {
                    return Plan::LeftOut;
                }
                _ if self.restored.of.contains_key(&index) => return Plan::Written,
                // Its summary is in the file.
                _ if message.is_compaction_record() && self.session.compaction_before(index).is_some() => {
                    return Plan::LeftOut;
                }
                Some((kind, _)) => format!("records of kind {kind}"),
                None => "records".to_owned(),
            },
            (MessageKind::Edit | MessageKind::Replay, _) => {
                let is_used = self.session.messages.iter().any(|original| {
                    original.kind == MessageKind::Normal && original.status.by_message.as_ref() == Some(&message.id)
                });
                if is_used {
                    return Plan::LeftOut;
                }
                "edits that a later one replaced or an undo took back".to_owned()
            }
            (MessageKind::Summary, _) => return self.plan_summary(index),
            (MessageKind::Marker, _) => return Plan::LeftOut,
            (MessageKind::Continuation, state) if state != MessageState::Active => return Plan::LeftOut,
            (_, MessageState::Rewound) if !abandoned.contains(&status.by_revision) => {
                "messages that a rewind left out".to_owned()
            }
            (_, MessageState::Removed) => "messages that an edit removed".to_owned(),
            (_, MessageState::Omitted) => "messages that a compaction omitted".to_owned(),
            (_, MessageState::Edited | MessageState::Replayed) => {
                let by = self.session.messages.iter().find(|by| Some(&by.id) == status.by_message.as_ref());
                self.report.note("originals of edits, in whose place the replacement stands");
                return by.map_or(Plan::LeftOut, Plan::Replaced);
            }
            (_, _) if message.role == Role::System => "system messages".to_owned(),
            (_, _) => return Plan::Written,
        };
        self.report.note(left_out);
        Plan::LeftOut
    }

    fn plan_summary(&mut self, index: usize) -> Plan<'a> {
        let messages = &self.session.messages;
        let summary = &messages[index];
        let is_active =
            |other: &&Message| other.kind == MessageKind::Summary && other.status.state == MessageState::Active;
        let newest = messages.iter().rev().find(is_active).map(|active| active.revision);
        let made = self.session.compaction_of(summary);
        if made.is_none_or(|made| made.is_undone) || newest.is_none_or(|at| summary.revision > at) {
            self.report.note("compactions that are undone or void");
            return Plan::LeftOut;
        }
        // The record of an imported compaction follows its summary.
        let later = messages.iter().enumerate().skip(index + 1).find(|(_, other)| !other.kind.is_derived());
        let is_in_file = later.is_some_and(|(index, other)| {
            other.record().is_some_and(|(kind, _)| kind == "compact_boundary") && self.restored.of.contains_key(&index)
        });
        if is_in_file { Plan::LeftOut } else { Plan::Written }
    }

    fn note_calls(&mut self, message: &Message) {
        for part in &message.parts {
            if let PartBody::ToolCall(call) = &*part.body {
                self.calls.insert(call.call_id.clone());
            }
        }
    }

    /// Leaves what a rewind up to this revision took out of the conversation.
    fn turn_back(&mut self, revision: i64) {
        if !self.has_rewinds {
            return;
        }
        let is_left = |row: &OnPath| row.rewound_at.is_some_and(|at| at <= revision);
        if let Some(first) = self.path.iter().position(is_left) {
            self.path.truncate(first);
            self.after_composed = true;
        }
    }

    /// Writes lines of the file, in the order that they had there.
    fn verbatim(&mut self, mut run: Vec<(usize, lines::Line)>) {
        run.sort_by_key(|(_, line)| line.position);
        for (index, line) in run {
            let message = &self.session.messages[index];
            let object = Object::parse(&line.text, 1).ok();
            let uuid = object.as_ref().and_then(|object| object.id("uuid"));
            let Some((object, uuid)) = object.as_ref().zip(uuid) else {
                self.report.verbatim += 1;
                self.out.push(FileLine { text: line.text, is_verbatim: true });
                continue;
            };
            self.turn_back(message.revision);
            let parent = object.id("parentUuid");
            let is_lost = parent.as_ref().is_some_and(|parent| self.left_out.contains(parent));
            let behind_composed = self.after_composed && parent.is_some();
            let text = if is_lost || behind_composed {
                relink(object, &line.text, "parentUuid", self.path.last().map(|row| row.uuid.as_str()))
            } else {
                line.text.clone()
            };
            let is_verbatim = text == line.text;
            self.report.verbatim += usize::from(is_verbatim);
            self.out.push(FileLine { text, is_verbatim });
            self.uuids.insert(uuid.clone());
            self.push(message, uuid, message.rewound_at());
            self.after_composed = false;
        }
    }

    fn push(&mut self, message: &Message, uuid: String, rewound_at: Option<i64>) {
        let rows = self.rows_of.entry(message.id.clone()).or_insert_with(|| (uuid.clone(), uuid.clone()));
        rows.1.clone_from(&uuid);
        self.path.push(OnPath { uuid, rewound_at });
    }

    /// An id that no row has.
    fn claim(&mut self, wanted: &str) -> String {
        let mut id = wanted.to_owned();
        let mut number = 2;
        while !self.uuids.insert(id.clone()) {
            id = format!("{wanted}.{number}");
            number += 1;
        }
        id
    }

    /// Notes what the file lacks as a whole.
    fn end(&mut self) {
        let has_rows = !self.rows_of.is_empty();
        let is_composed = self.out.iter().all(|line| !line.is_verbatim);
        if has_rows && is_composed && !self.session.title.is_empty() && !self.session.is_child {
            let title = ObjectWriter::default()
                .text("type", "custom-title")
                .text("customTitle", &self.session.title)
                .text("sessionId", &self.envelope.session_id);
            self.out.push(FileLine { text: title.end(), is_verbatim: false });
        }
        self.report.note_marks(self.session);
    }
}
