//! A session as the writers take it, and what all of them say of its messages.

use longhand_model::message::{FinishReason, MessageKind, MessageState, NewFinish, Role};
use longhand_model::part::{NewPart, PartBody};
use longhand_model::time::Timestamp;
use std::collections::{BTreeMap, HashMap};

/// A session with its history.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// The server's id: `ses_` and 32 hex digits.
    pub id: String,
    /// Title, or empty.
    pub title: String,
    /// True for the session of a sub-agent.
    pub is_child: bool,
    /// Metadata of the client, or none.
    pub metadata_json: Option<String>,
    /// Time of its creation.
    pub create_time: Timestamp,
    /// Its messages in the order of the history, derived ones included.
    pub messages: Vec<Message>,
    /// Its compactions that are done, undone ones included.
    pub compactions: Vec<Compaction>,
}

/// A message of the history.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The server's id: `msg_` and 32 hex digits.
    pub id: String,
    /// The client's own id.
    pub client_id: Option<String>,
    /// Its position in the history.
    pub revision: i64,
    /// Role of the speaker.
    pub role: Role,
    /// Purpose of the message.
    pub kind: MessageKind,
    /// Its closed parts.
    pub parts: Vec<NewPart>,
    /// The server's ids of the parts.
    pub part_ids: Vec<String>,
    /// Details of the seal; none while it is open.
    pub finish: Option<NewFinish>,
    /// The model that wrote it, or empty.
    pub model: String,
    /// Provider of that model, or empty.
    pub provider: String,
    /// The writer, or empty.
    pub actor: String,
    /// Time at which it was written.
    pub time: Timestamp,
    /// Metadata of the client, verbatim.
    pub metadata_json: Option<String>,
    /// What it is to the view.
    pub status: Status,
}

/// What a message is to the conversation and to the view, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The state.
    pub state: MessageState,
    /// Revision of the mark that is the reason; 0 without one.
    pub by_revision: i64,
    /// The message in its place.
    pub by_message: Option<String>,
    /// The compaction that covers it, omits it or replays it.
    pub by_compaction: Option<String>,
    /// True if a pin keeps it in every view.
    pub is_pinned: bool,
}

/// A compaction that is done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Compaction {
    /// The server's id: `cmp_` and 32 hex digits.
    pub id: String,
    /// The summary; none for a compaction without one.
    pub summary_message: Option<String>,
    /// The first message that was kept verbatim beside the summary.
    pub tail_start: Option<String>,
    /// Tokens of the context before it.
    pub tokens_before: i64,
    /// True if a caller requested it by hand.
    pub is_manual: bool,
    /// True if it was undone.
    pub is_undone: bool,
    /// Number of parts that it shortened.
    pub pruned_parts: usize,
}

/// Limits of a form for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Maximum size of the output of a tool and of a record, in bytes; the excess is left out, with a note in its place.
    pub output_bytes: usize,
    /// True to include records.
    pub records: bool,
}

impl Default for Look {
    fn default() -> Self {
        Self { output_bytes: usize::MAX, records: false }
    }
}

/// What became of a session in a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Lines of the file.
    pub lines: usize,
    /// Lines that are the same bytes as in the file that the session was imported from.
    pub verbatim: usize,
    /// What was left out or is different in the file, with the number of times.
    pub notes: BTreeMap<String, usize>,
}

impl Report {
    pub(super) fn note(&mut self, what: impl Into<String>) {
        *self.notes.entry(what.into()).or_default() += 1;
    }

    /// Notes the marks of a session that no file of an agent has: prunes and pins.
    pub(super) fn note_marks(&mut self, session: &Session) {
        for compaction in session.compactions.iter().filter(|compaction| !compaction.is_undone) {
            for _ in 0..compaction.pruned_parts {
                self.note("shortened parts, which are whole in the file");
            }
        }
        for message in session.messages.iter().filter(|message| message.status.is_pinned) {
            self.note(format!("pins of {} messages", speaker(message)));
        }
    }
}

pub(super) struct FileLine {
    pub(super) text: String,
    pub(super) is_verbatim: bool,
}

impl Session {
    /// The compaction whose summary is directly before the message at that index, but for what else it made.
    pub(super) fn compaction_before(&self, index: usize) -> Option<&Compaction> {
        let mut before = self.messages[..index].iter().rev().take_while(|before| before.kind.is_derived());
        before.find_map(|summary| self.compaction_of(summary))
    }

    /// The compaction that a message is the summary of.
    pub(super) fn compaction_of(&self, summary: &Message) -> Option<&Compaction> {
        let mut made = self.compactions.iter();
        made.find(|made| made.summary_message.as_ref() == Some(&summary.id))
    }
}

impl Message {
    /// True for the record of a compaction of its file.
    pub(super) fn is_compaction_record(&self) -> bool {
        self.record().is_some_and(|(kind, _)| matches!(kind, "compaction" | "compact_boundary"))
    }

    /// True for a user's message of an agent's notes, which starts no turn.
    pub(super) fn is_note(&self) -> bool {
        longhand_model::part::are_notes(self.parts.iter().map(|part| &*part.body))
    }

    /// The revision of the rewind that left it out.
    pub(super) fn rewound_at(&self) -> Option<i64> {
        (self.status.state == MessageState::Rewound).then_some(self.status.by_revision)
    }

    /// The record's kind and data, if it is a record.
    pub(super) fn record(&self) -> Option<(&str, &str)> {
        match self.parts.first().map(|part| &*part.body) {
            Some(PartBody::Record(record)) if self.kind == MessageKind::Record => Some((&record.kind, &record.data)),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match &*part.body {
            PartBody::Text(text) => Some(text.as_str()),
            PartBody::Marker(marker) => Some(marker.text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n\n")
    }
}

/// Name of a state, as people read it.
pub(super) fn state_name(state: MessageState) -> &'static str {
    match state {
        MessageState::Unknown => "state unknown",
        MessageState::Active => "active",
        MessageState::Rewound => "rewound",
        MessageState::Edited => "edited",
        MessageState::Removed => "removed",
        MessageState::Covered => "covered",
        MessageState::Omitted => "omitted",
        MessageState::Replayed => "replayed",
        MessageState::Undone => "undone",
        MessageState::Record => "record",
        MessageState::Superseded => "superseded",
        MessageState::Inactive => "inactive",
    }
}

/// Name of a role and of an unusual kind, as people read them.
pub(super) fn speaker(message: &Message) -> String {
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
        Role::System => "system",
    };
    let kind = match message.kind {
        MessageKind::Normal => return role.to_owned(),
        MessageKind::Record => "record",
        MessageKind::Edit => "edit",
        MessageKind::Summary => "summary",
        MessageKind::Marker => "marker",
        MessageKind::Branch => "branch summary",
        MessageKind::Continuation => "continuation",
        MessageKind::Replay => "replay",
    };
    format!("{role} ({kind})")
}

/// The heading of a message without its state.
pub(super) fn heading(message: &Message) -> String {
    let mut heading = format!("#{} {}", message.revision, speaker(message));
    for (before, text) in [(" · ", &message.model), (" · by ", &message.actor)] {
        if !text.is_empty() {
            heading.push_str(before);
            heading.push_str(text);
        }
    }
    let open = if message.finish.is_none() { " · open" } else { "" };
    format!("{heading} · {}{open}", message.time.to_iso_8601())
}

/// The revisions of a session's messages, by id.
pub(super) fn positions(session: &Session) -> HashMap<&str, i64> {
    session.messages.iter().map(|message| (message.id.as_str(), message.revision)).collect()
}

/// What keeps a message out of the view, and by what; none for one that the view shows.
pub(super) fn state_text(positions: &HashMap<&str, i64>, status: &Status) -> Option<String> {
    let pinned = if status.is_pinned { ", pinned" } else { "" };
    if status.state == MessageState::Active {
        return status.is_pinned.then(|| "pinned".to_owned());
    }
    let mut text = state_name(status.state).to_owned();
    if status.by_revision > 0 {
        text.push_str(&format!(" at #{}", status.by_revision));
    }
    if let Some(by) = &status.by_message {
        let position = positions.get(by.as_str());
        let position = position.map_or_else(|| by.clone(), |revision| format!("#{revision} ({by})"));
        text.push_str(&format!(" by {position}"));
    } else if let Some(by) = &status.by_compaction {
        text.push_str(&format!(" by {by}"));
    }
    Some(text + pinned)
}

pub(super) fn reason_name(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::ToolCalls => "tool calls",
        FinishReason::Length => "length",
        FinishReason::ContentFilter => "content filter",
        FinishReason::Error => "error",
        FinishReason::Aborted => "aborted",
    }
}

/// The end of a reply, as people read it; none if there is nothing to say.
pub(super) fn finish_text(message: &Message) -> Option<String> {
    let finish = message.finish.as_ref()?;
    let mut pieces = Vec::new();
    if let Some(reason) = finish.reason {
        pieces.push(reason_name(reason).to_owned());
    }
    if !finish.detail.is_empty() {
        pieces.push(finish.detail.clone());
    }
    if let Some(usage) = finish.usage {
        pieces.push(format!("{} tokens in, {} out", usage.prompt_tokens(), usage.output));
    }
    (!pieces.is_empty()).then(|| pieces.join(" · "))
}

/// The beginning of a text of at most that many bytes, and the number of bytes that it lacks.
pub(super) fn beginning(text: &str, bytes: usize) -> (&str, usize) {
    if text.len() <= bytes {
        return (text, 0);
    }
    let end = text.floor_char_boundary(bytes);
    (&text[..end], text.len() - end)
}
