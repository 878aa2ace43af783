//! Messages: the entries of a session's history.

use super::Revision;
use super::ids::{CompactionId, MessageId, SessionId};
use super::part::{NewPart, Part};
use super::time::Timestamp;
use super::usage::{ModelWindow, Usage};

/// The author's role in the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// A person, or a program on a person's behalf.
    User,
    /// The model.
    Assistant,
    /// A tool; its message holds tool results.
    Tool,
    /// Instructions to the model.
    System,
}

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MessageKind {
    /// Part of the conversation, written by a client.
    Normal,
    /// An opaque entry: never in a view, starts no turn.
    Record,
    /// A replacement that a client wrote for an edited message; shown at the position of the original.
    Edit,
    /// A summary of covered ranges of history.
    Summary,
    /// The position of a compaction, with the text that introduces its summary to a model.
    Marker,
    /// The summary of a branch that a rewind abandoned; shown at its own position, after the rewind.
    Branch,
    /// Asks the model, in a user's place, to go on with a turn that a compaction interrupted.
    Continuation,
    /// A request once more, with text in place of its media, because a provider found it too large.
    Replay,
}

impl MessageKind {
    /// True if Longhand derived the message from others. Lists leave out derived messages that are not inline unless
    /// asked.
    pub fn is_derived(self) -> bool {
        matches!(self, Self::Summary | Self::Marker | Self::Branch | Self::Continuation | Self::Replay)
    }

    /// True if views show the message at its own position in the history.
    ///
    /// Messages of the other kinds are in a view only where a layout places them.
    pub fn is_inline(self) -> bool {
        matches!(self, Self::Normal | Self::Branch)
    }
}

/// The reason for which a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// The model was done. Final.
    Stop,
    /// The model waits for tools.
    ToolCalls,
    /// The model ran into its output limit. Final.
    Length,
    /// The provider refused to go on. Final.
    ContentFilter,
    /// The provider or the agent failed. Final.
    Error,
    /// A person or the agent stopped it. Final.
    Aborted,
}

impl FinishReason {
    /// True if the reply ends its turn, as far as the reason shows.
    pub fn is_final(self) -> bool {
        self != Self::ToolCalls
    }
}

/// The view that a model was given for a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenView {
    /// Its revision.
    pub revision: Revision,
    /// Its hash.
    pub hash: [u8; 32],
    /// The window that `GetView` was called with.
    pub window: ModelWindow,
    /// True if it is not the session's own view: it was shortened for the call, or is in another form.
    pub shortened: bool,
}

/// The end of a message as a client reports it: with the token of the view that the model was given.
pub type NewFinish = Finish<Option<String>>;

/// The end of a sealed message. `View` is the known information on the view that the model was given.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Finish<View = Option<GivenView>> {
    /// The reason; none for messages that are not replies.
    pub reason: Option<FinishReason>,
    /// The provider's own text for the reason or for the error.
    pub detail: String,
    /// The token usage and cost of the reply.
    pub usage: Option<Usage>,
    /// The view that the model was given; none if the reply does not name it.
    pub view: View,
}

impl<View> Finish<View> {
    /// The same end with other information on the view.
    pub fn with_view<Other>(self, view: Other) -> Finish<Other> {
        let Self { reason, detail, usage, view: _ } = self;
        Finish { reason, detail, usage, view }
    }

    /// True if this end, as it is stored, is the one that a client sends again: costs may have been computed since.
    pub fn is_as_sent(&self, sent: &Self) -> bool
    where
        View: PartialEq,
    {
        let Self { reason, detail, usage, view } = sent;
        let reported = |usage: &Option<Usage>| usage.map(Usage::as_reported);
        self.reason == *reason
            && self.detail == *detail
            && reported(&self.usage) == reported(usage)
            && self.view == *view
    }
}

impl Finish {
    /// The revision of the view that the model was given.
    pub fn given_revision(&self) -> Option<Revision> {
        self.view.as_ref().map(|view| view.revision)
    }
}

/// A message as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The server's id.
    pub id: MessageId,
    /// The session it was written to; in a fork that may be an ancestor.
    pub session_id: SessionId,
    /// The client's own id, unique in its session but for the versions of a record, which share it.
    pub client_id: Option<String>,
    /// The revision at which it came, which is also its position in the history.
    pub revision: Revision,
    /// The role.
    pub role: Role,
    /// The kind.
    pub kind: MessageKind,
    /// Its closed parts, in order.
    pub parts: Vec<Part>,
    /// The revision at which it was sealed; none while it is open.
    pub sealed_revision: Option<Revision>,
    /// The end; empty while it is open.
    pub finish: Finish,
    /// The model that wrote it, or empty.
    pub model: String,
    /// The provider of that model, or empty.
    pub provider: String,
    /// The time at which the server received it.
    pub create_time: Timestamp,
    /// The time at which it was written, by the client's clock. Decides nothing.
    pub origin_time: Option<Timestamp>,
    /// The writer: the caller's name for itself, or empty.
    pub actor: String,
    /// Free JSON of the client, verbatim.
    pub metadata_json: Option<String>,
    /// For an edit: the message that it replaces.
    pub replaces: Option<ReplacedMessage>,
}

impl Message {
    /// The writer of its calls and results. Those of an edit belong to the writer of the original.
    pub fn writer(&self) -> &str {
        self.replaces.as_ref().map_or(&self.actor, |replaced| &replaced.writer)
    }
}

/// The message that an edit replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplacedMessage {
    /// The id of the message: always the original, even if another edit replaced it.
    pub message: MessageId,
    /// The writer of the original.
    pub writer: String,
}

/// What a message of the history is to the conversation and to the view, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageStatus {
    /// The state.
    pub state: MessageState,
    /// The revision of the mark that is the reason, or of the newer version of a record.
    pub by_revision: Option<Revision>,
    /// The message in its place: an edit, a replay, a summary, or the newest version of a record.
    pub by_message: Option<MessageId>,
    /// The compaction that covers it, omits it or replays it.
    pub by_compaction: Option<CompactionId>,
    /// True if a pin keeps it verbatim in every view.
    pub is_pinned: bool,
}

impl MessageStatus {
    /// A state without a reason.
    pub fn from_state(state: MessageState) -> Self {
        Self { state, by_revision: None, by_message: None, by_compaction: None, is_pinned: false }
    }
}

/// What a message of the history is to the conversation and to the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageState {
    /// It is not known, because a row that it follows from is damaged.
    Unknown,
    /// The view shows it, whole or shortened, unless nothing of it is left to show.
    Active,
    /// A rewind left it out of the conversation.
    Rewound,
    /// An edit put another message in its place.
    Edited,
    /// An edit left it out, without another message.
    Removed,
    /// A summary in the view stands for it.
    Covered,
    /// A compaction left it out.
    Omitted,
    /// A replay without its media is in its place.
    Replayed,
    /// It is an edit that was undone.
    Undone,
    /// It is a record, and the newest version of itself.
    Record,
    /// It is a record, and there is a newer version of it.
    Superseded,
    /// It is derived and not in force: a summary, a marker, a continuation or a replay. Or it is the replacement of an
    /// edit whose mark came later.
    Inactive,
}

/// A message that a client wants to append. `View` is the known information on the view that the model was given: its
/// token, as long as that is not verified.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMessage<View = Option<String>> {
    /// The client's own id, unique in its session, or none. It makes the append idempotent.
    pub client_id: Option<String>,
    /// The role.
    pub role: Role,
    /// `Normal` or `Record`.
    pub kind: MessageKind,
    /// Its first parts.
    pub parts: Vec<NewPart>,
    /// Its end; none leaves it open.
    pub finish: Option<Finish<View>>,
    /// Milliseconds without a write after which a message that is left open is sealed; none for the daemon's default.
    pub open_timeout_ms: Option<i64>,
    /// The model that wrote it, or empty.
    pub model: String,
    /// The provider of that model, or empty.
    pub provider: String,
    /// The time at which it was written, by the client's clock.
    pub origin_time: Option<Timestamp>,
    /// Free JSON, kept verbatim.
    pub metadata_json: Option<String>,
    /// True for a record that becomes the newer version of the record with its client id, if there is one.
    pub replace_existing: bool,
}

impl<View> NewMessage<View>
where
    Finish<View>: Default,
{
    /// A sealed message of the conversation, with nothing else set.
    pub fn sealed(role: Role, parts: Vec<NewPart>) -> Self {
        Self {
            client_id: None,
            role,
            kind: MessageKind::Normal,
            parts,
            finish: Some(Finish::default()),
            open_timeout_ms: None,
            model: String::new(),
            provider: String::new(),
            origin_time: None,
            metadata_json: None,
            replace_existing: false,
        }
    }
}

impl NewMessage {
    /// The same message, with the view that its token names.
    pub fn checked(self, view: Option<GivenView>) -> NewMessage<Option<GivenView>> {
        NewMessage {
            client_id: self.client_id,
            role: self.role,
            kind: self.kind,
            parts: self.parts,
            finish: self.finish.map(|finish| finish.with_view(view)),
            open_timeout_ms: self.open_timeout_ms,
            model: self.model,
            provider: self.provider,
            origin_time: self.origin_time,
            metadata_json: self.metadata_json,
            replace_existing: self.replace_existing,
        }
    }
}
