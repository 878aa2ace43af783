//! Messages: the entries of a session's history.

use super::Revision;
use super::ids::{MessageId, SessionId};
use super::part::{NewPart, Part};
use super::time::Timestamp;
use super::usage::{ModelWindow, Usage};

/// Who speaks.
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

/// What a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MessageKind {
    /// Part of the conversation, written by a client.
    Normal,
    /// An opaque entry: never in a view, starts no turn.
    Record,
    /// What a client put in the place of an edited message; shown where that one stood.
    Edit,
    /// Stands for covered ranges of history.
    Summary,
    /// Where a compaction cut, with the words that introduce its summary to a model.
    Marker,
    /// Tells what was tried in a branch that a rewind left; stands at its own place, behind the rewind.
    Branch,
    /// Asks the model, in a user's place, to go on with a turn that a compaction interrupted.
    Continuation,
    /// A request once more, with words in place of its media, because a provider found it too large.
    Replay,
}

impl MessageKind {
    /// Whether Longhand made the message out of others. Lists leave those that are not inline out unless asked.
    pub fn is_derived(self) -> bool {
        matches!(self, Self::Summary | Self::Marker | Self::Branch | Self::Continuation | Self::Replay)
    }

    /// Whether the message stands in views at its own place in the history.
    ///
    /// The other kinds are in a view only where a layout puts them.
    pub fn is_inline(self) -> bool {
        matches!(self, Self::Normal | Self::Branch)
    }
}

/// Why a reply ended.
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
    /// Somebody stopped it. Final.
    Aborted,
}

impl FinishReason {
    /// Whether the reply ends its turn, as far as the reply itself can tell.
    pub fn is_final(self) -> bool {
        self != Self::ToolCalls
    }
}

/// The view that a reply was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenView {
    /// Its revision.
    pub revision: Revision,
    /// Its hash.
    pub hash: [u8; 32],
    /// The window that it was asked for with.
    pub window: ModelWindow,
    /// Whether it was shortened for the call, so that it is not the session's own view.
    pub shortened: bool,
}

/// How a message ends, as a client says it: with the token of the view that the reply was given.
pub type NewFinish = Finish<Option<String>>;

/// How a message was sealed. `View` is what is known of the view that the reply was given.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Finish<View = Option<GivenView>> {
    /// Why it ended; none for messages that are not replies.
    pub reason: Option<FinishReason>,
    /// The provider's own words for the reason or for the error.
    pub detail: String,
    /// What the reply cost.
    pub usage: Option<Usage>,
    /// The view that the reply was given; none where it does not say.
    pub view: View,
}

impl<View> Finish<View> {
    /// The same with something else known of the view.
    pub fn with_view<Other>(self, view: Other) -> Finish<Other> {
        let Self { reason, detail, usage, view: _ } = self;
        Finish { reason, detail, usage, view }
    }
}

impl Finish {
    /// The revision of the view that the reply was given.
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
    /// The client's own id, unique in its session.
    pub client_id: Option<String>,
    /// The revision at which it came, which is also its place in the history.
    pub revision: Revision,
    /// Who speaks.
    pub role: Role,
    /// What it is for.
    pub kind: MessageKind,
    /// Its closed parts, in order.
    pub parts: Vec<Part>,
    /// The revision at which it was sealed; none while it is open.
    pub sealed_revision: Option<Revision>,
    /// How it was sealed; empty while it is open.
    pub finish: Finish,
    /// The model that wrote it, or empty.
    pub model: String,
    /// The provider of that model, or empty.
    pub provider: String,
    /// When the server got it.
    pub create_time: Timestamp,
    /// When it was written, by the client's clock. Decides nothing.
    pub origin_time: Option<Timestamp>,
    /// Who wrote it: the caller's name for itself, or empty.
    pub actor: String,
    /// Free JSON of the client, verbatim.
    pub metadata_json: Option<String>,
    /// For an edit: what it replaces.
    pub replaces: Option<Replaced>,
}

impl Message {
    /// Whose calls and results it holds: in an edit they are those of who wrote what it replaces.
    pub fn writer(&self) -> &str {
        self.replaces.as_ref().map_or(&self.actor, |replaced| &replaced.writer)
    }
}

/// What an edit replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replaced {
    /// The message: always the original, also where another edit stood in its place.
    pub message: MessageId,
    /// Who wrote that.
    pub writer: String,
}

/// A message that a client wants to append. `View` is what is known of the view that a reply was given: its token, as long
/// as nobody has checked that.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMessage<View = Option<String>> {
    /// The client's own id, unique in its session, or none. It makes the append idempotent.
    pub client_id: Option<String>,
    /// Who speaks.
    pub role: Role,
    /// `Normal` or `Record`.
    pub kind: MessageKind,
    /// Its first parts.
    pub parts: Vec<NewPart>,
    /// How it ends, or none to leave it open.
    pub finish: Option<Finish<View>>,
    /// The time without a write, in milliseconds, at which a message that is left open is sealed; none for the daemon's
    /// default.
    pub open_timeout_ms: Option<i64>,
    /// The model that wrote it, or empty.
    pub model: String,
    /// The provider of that model, or empty.
    pub provider: String,
    /// When it was written, by the client's clock.
    pub origin_time: Option<Timestamp>,
    /// Free JSON, kept verbatim.
    pub metadata_json: Option<String>,
}

impl<View> NewMessage<View>
where
    Finish<View>: Default,
{
    /// A whole message of the conversation, of which nothing else is said.
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
        }
    }
}

impl NewMessage {
    /// The same with the view that its token stands for.
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
        }
    }
}
