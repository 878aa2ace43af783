//! The writer of pi session files, version 3.
//!
//! Entries form a tree: what a rewind left out stays as an abandoned branch. The last entry is the current position, so
//! that a session which ends with a rewind gets one more entry after the target.

mod entries;
mod kind;

use super::lines::{self, Lines};
use super::session::{FileLine, Message, Report, Session, speaker};
use crate::Format;
use crate::compose::{ObjectWriter, digits, relink};
use crate::raw::Object;
use kind::Kind;
use longhand_model::message::{MessageKind, MessageState};
use std::collections::{HashMap, HashSet};

/// The version of the files.
const VERSION: u32 = 3;
/// The first version whose entries have ids.
const VERSION_WITH_IDS: i64 = 2;

pub(super) fn lines(session: &Session) -> (Vec<FileLine>, Report) {
    let restored = lines::restore(session, Format::Pi);
    let version = restored.of.values().flatten().filter_map(|line| header_version(&line.text)).next();
    let written = Writer::new(session, restored).write();
    let is_mixed = written.1.verbatim > 0 && written.0.iter().any(|line| !line.is_verbatim);
    if is_mixed && version.is_some_and(|version| version < VERSION_WITH_IDS) {
        // Entries without ids cannot have new ones after them.
        let mut writer = Writer::new(session, Lines::default());
        writer.report.note("lines of a file of version 1, which were composed anew");
        return writer.write();
    }
    written
}

/// The version of the file, if the line is its header.
fn header_version(line: &str) -> Option<i64> {
    let object = Object::parse(line, 1).ok()?;
    crate::pi::is_header(&object).then(|| object.count("version").max(1))
}

/// An entry on the path to the current position.
#[derive(Debug, Clone)]
struct OnPath {
    id: String,
    rewound_at: Option<i64>,
}

struct Writer<'a> {
    session: &'a Session,
    restored: Lines,
    report: Report,
    out: Vec<FileLine>,
    /// Entries from the root to the current position.
    path: Vec<OnPath>,
    ids: HashSet<String>,
    /// The entries of each message, by its id.
    entries_of: HashMap<String, Vec<(String, Kind)>>,
    /// The entries of the file that each message came from, by its id.
    entries_in_file: HashMap<&'a str, Vec<String>>,
    /// The ids of entries that an edit in the file targets, with the revision of its record.
    edited_in_file: HashMap<String, i64>,
    /// True if a rewind left any message out.
    has_rewinds: bool,
    /// The last entry that was written was composed.
    after_composed: bool,
}

impl<'a> Writer<'a> {
    fn new(session: &'a Session, restored: Lines) -> Self {
        let mut writer = Self {
            session,
            restored,
            report: Report::default(),
            out: Vec::new(),
            path: Vec::new(),
            ids: HashSet::new(),
            entries_of: HashMap::new(),
            entries_in_file: HashMap::new(),
            edited_in_file: HashMap::new(),
            has_rewinds: session.messages.iter().any(|message| message.rewound_at().is_some()),
            after_composed: false,
        };
        for (index, lines) in &writer.restored.of {
            for object in lines.iter().filter_map(|line| Object::parse(&line.text, 1).ok()) {
                writer.ids.extend(object.id("id"));
                let own = writer.entries_in_file.entry(&session.messages[*index].id).or_default();
                own.extend(object.id("id"));
                if object.string("type") == "context_edit" {
                    let revision = session.messages[*index].revision;
                    let newest = writer.edited_in_file.entry(object.string("targetId")).or_default();
                    *newest = revision.max(*newest);
                }
            }
        }
        writer
    }

    fn write(mut self) -> (Vec<FileLine>, Report) {
        let has_header = self.restored.of.values().flatten().any(|line| header_version(&line.text).is_some());
        if !has_header {
            self.header();
        }
        let mut omissions = self.omissions();
        let mut run: Vec<(usize, lines::Line)> = Vec::new();
        for (index, message) in self.session.messages.iter().enumerate() {
            if let Some(own) = self.restored.of.get(&index).filter(|_| self.is_as_imported(index, message)) {
                run.extend(own.iter().map(|line| (index, line.clone())));
                continue;
            }
            if self.restored.pieces.contains(&index) {
                continue;
            }
            if self.is_composed(index, message) {
                self.verbatim(std::mem::take(&mut run));
                self.leave_out(&mut omissions, message.revision);
                self.compose(index, message);
            }
        }
        self.verbatim(run);
        self.leave_out(&mut omissions, i64::MAX);
        self.turn_back(i64::MAX);
        self.end(has_header);
        self.report.note_marks(self.session);
        (self.out, self.report)
    }

    fn header(&mut self) {
        let metadata = self.session.metadata_json.as_deref();
        let folder = crate::compose::string_in(metadata, "cwd").unwrap_or_else(|| "/".to_owned());
        let header = ObjectWriter::default()
            .text("type", "session")
            .value("version", VERSION)
            .text("id", &crate::compose::uuid(&self.session.id))
            .text("timestamp", &self.session.create_time.to_iso_8601())
            .text("cwd", &folder);
        self.out.push(FileLine { text: header.end(), is_verbatim: false });
    }

    /// True if a message's lines say what the message is: a compaction's record, unless the compaction was undone.
    fn is_as_imported(&self, index: usize, message: &Message) -> bool {
        let undone = self.session.compaction_before(index).is_some_and(|made| made.is_undone);
        !(undone && message.is_compaction_record())
    }

    /// Notes a message that is not written at its position. True for one that has an entry.
    fn is_composed(&mut self, index: usize, message: &Message) -> bool {
        let what = match (message.kind, message.status.state) {
            (MessageKind::Normal | MessageKind::Branch, _) => return true,
            (MessageKind::Summary, _) => return self.is_kept_summary(message),
            (MessageKind::Edit | MessageKind::Replay, _) => return self.is_kept_edit(message),
            (MessageKind::Continuation, MessageState::Active) => return true,
            (MessageKind::Marker, _) | (MessageKind::Continuation, _) => return false,
            // Its summary is in the file.
            (MessageKind::Record, _)
                if message.is_compaction_record() && self.session.compaction_before(index).is_some() =>
            {
                return false;
            }
            (MessageKind::Record, _) => match message.record() {
                Some((kind, _)) => format!("records of kind {kind}"),
                None => "records".to_owned(),
            },
        };
        self.report.note(what);
        false
    }

    /// True for a summary that pi's context must know: the active one, and those before it.
    fn is_kept_summary(&mut self, summary: &Message) -> bool {
        let made = self.session.compaction_of(summary);
        let active = self.session.messages.iter().rev();
        let mut active = active.filter(|other| other.kind == MessageKind::Summary);
        let newest = active.find(|other| other.status.state == MessageState::Active).map(|active| active.revision);
        let is_kept = made.is_some_and(|made| !made.is_undone) && newest.is_some_and(|at| summary.revision <= at);
        if !is_kept {
            self.report.note("compactions that are undone or void");
            return false;
        }
        // The record of an imported compaction follows its summary.
        let later = self.session.messages.iter().enumerate().filter(|(_, other)| other.revision > summary.revision);
        let is_in_file = later.into_iter().find(|(_, other)| !other.kind.is_derived()).is_some_and(|(index, other)| {
            other.record().is_some_and(|(kind, _)| kind == "compaction") && self.restored.of.contains_key(&index)
        });
        !is_in_file
    }

    /// True for an edit that counts and that no line of the file makes.
    fn is_kept_edit(&mut self, edit: &Message) -> bool {
        let Some(target) = self.target(edit) else {
            self.report.note("edits that a later one replaced or an undo took back");
            return false;
        };
        !self.is_edited_in_file(&target.id, edit.revision)
    }

    /// The message that an edit or a replay replaces, if it is the newest to do so.
    fn target(&self, edit: &Message) -> Option<&'a Message> {
        let originals = self.session.messages.iter().filter(|message| message.kind == MessageKind::Normal);
        originals.into_iter().find(|message| message.status.by_message.as_ref() == Some(&edit.id))
    }

    fn is_edited_in_file(&self, message: &str, revision: i64) -> bool {
        let entries = self.entries_in_file.get(message).into_iter().flatten();
        entries.into_iter().any(|id| self.edited_in_file.get(id).is_some_and(|at| *at >= revision))
    }

    /// The messages that edits or compactions left out, by the revision of that, in reverse order.
    fn omissions(&self) -> Vec<(i64, &'a Message)> {
        let left_out = |message: &&Message| {
            message.kind == MessageKind::Normal
                && matches!(message.status.state, MessageState::Removed | MessageState::Omitted)
        };
        let left_out = self.session.messages.iter().filter(left_out);
        let mut omissions: Vec<_> = left_out.map(|message| (message.status.by_revision, message)).collect();
        omissions.sort_by_key(|(revision, _)| std::cmp::Reverse(*revision));
        omissions
    }

    /// Writes the edits that leave messages out at revisions before this one.
    fn leave_out(&mut self, omissions: &mut Vec<(i64, &Message)>, before: i64) {
        while let Some((revision, message)) = omissions.pop_if(|(revision, _)| *revision < before) {
            if self.is_edited_in_file(&message.id, revision) {
                continue;
            }
            self.turn_back(revision);
            for (id, kind) in self.entries_of.get(&message.id).cloned().unwrap_or_default() {
                if kind.is_editable() && self.path.iter().any(|entry| entry.id == id) {
                    let edit = ObjectWriter::default().text("targetId", &id).json("replacement", "null");
                    let own = self.claim(&format!("{id}.removed"));
                    self.entry("context_edit", own, edit, message, revision);
                } else {
                    self.report.note(format!("removals of {} messages", speaker(message)));
                }
            }
        }
    }

    /// Leaves what a rewind up to this revision took out of the conversation.
    fn turn_back(&mut self, revision: i64) {
        if !self.has_rewinds {
            return;
        }
        let is_left = |entry: &OnPath| entry.rewound_at.is_some_and(|at| at <= revision);
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
            let is_header = object.as_ref().is_some_and(crate::pi::is_header);
            let id = object.as_ref().filter(|_| !is_header).and_then(|object| object.id("id"));
            let Some((object, id)) = object.as_ref().zip(id) else {
                self.report.verbatim += 1;
                self.out.push(FileLine { text: line.text, is_verbatim: true });
                continue;
            };
            self.turn_back(message.revision);
            let parent = self.path.last().map(|entry| entry.id.clone());
            let text = match self.after_composed {
                true => relink(object, &line.text, "parentId", parent.as_deref()),
                false => line.text.clone(),
            };
            let is_verbatim = text == line.text;
            self.report.verbatim += usize::from(is_verbatim);
            self.out.push(FileLine { text, is_verbatim });
            let kind = Kind::from_entry(object);
            self.entries_of.entry(message.id.clone()).or_default().push((id.clone(), kind));
            self.path.push(OnPath { id, rewound_at: message.rewound_at() });
            self.after_composed = false;
        }
    }

    /// An id that no entry has.
    fn claim(&mut self, wanted: &str) -> String {
        let mut id = wanted.to_owned();
        let mut number = 2;
        while !self.ids.insert(id.clone()) {
            id = format!("{wanted}.{number}");
            number += 1;
        }
        id
    }

    /// The id of a message's first entry: the client's, else eight of its digits.
    fn own_id(&mut self, message: &Message) -> String {
        if let Some(own) = message.client_id.clone().filter(|own| !self.ids.contains(own)) {
            return self.claim(&own);
        }
        let digits = digits(&message.id);
        let short = digits.get(digits.len().saturating_sub(8)..).unwrap_or(digits).to_owned();
        if self.ids.contains(&short) { self.claim(digits) } else { self.claim(&short) }
    }

    /// Writes an entry after the current position.
    fn entry(&mut self, kind: &str, id: String, members: ObjectWriter, message: &Message, revision: i64) {
        self.turn_back(revision);
        let parent = self.path.last().map(|entry| entry.id.as_str());
        let entry = ObjectWriter::default()
            .text("type", kind)
            .text("id", &id)
            .nullable("parentId", parent)
            .text("timestamp", &message.time.to_iso_8601())
            .members(Some(&members.end()), &[]);
        self.out.push(FileLine { text: entry.end(), is_verbatim: false });
        let rewound_at = if revision == message.revision { message.rewound_at() } else { None };
        self.path.push(OnPath { id, rewound_at });
        self.after_composed = true;
    }

    /// The last entries: the session's name, and a current position that is not the last entry.
    fn end(&mut self, has_header: bool) {
        let last = self.out.iter().rev().find_map(|line| Object::parse(&line.text, 1).ok()?.id("id"));
        let is_behind = self.path.last().is_none_or(|entry| Some(&entry.id) != last.as_ref());
        let title = &self.session.title;
        let has_entries = !self.entries_of.is_empty();
        let Some(message) = self.session.messages.last().filter(|_| has_entries) else { return };
        if !has_header && !title.is_empty() {
            let id = self.claim("title");
            self.entry("session_info", id, ObjectWriter::default().text("name", title), message, i64::MAX);
        } else if is_behind && (self.after_composed || self.path.is_empty()) {
            let id = self.claim("rewind");
            self.entry("custom", id, ObjectWriter::default().text("customType", "longhand.rewind"), message, i64::MAX);
        }
    }
}
