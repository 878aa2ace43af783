//! Views: history as a model should see it.

use super::Revision;
use super::ids::{CompactionId, MessageId, PartId};
use super::layout::Placement;
use super::message::{FinishReason, Message, Role};
use super::part::{Part, PartBody};
use super::time::Timestamp;
use super::truncation::Truncation;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A stored message that a layout selected for a view, with the prune marks on its parts.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceMessage {
    /// The message, with the parts that were closed by the view's revision.
    pub message: SharedMessage,
    /// The reason for its position, if that is not its own position in the history.
    pub placement: Option<Placement>,
    /// Its parts that prune marks shorten.
    pub pruned: Vec<PrunedPart>,
    /// Its estimate, if it was computed before with the counting of the active policy. Decisions are the same without
    /// it, but count again.
    pub counts: Option<Arc<Counts>>,
}

/// The estimate of a message as it was written, in the units of one way of counting.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// The estimate of the whole message.
    pub whole: i64,
    /// The estimates of its parts, in their order.
    pub parts: Vec<PartCounts>,
    /// The number of its parts that were erased.
    pub erased: usize,
}

impl Counts {
    /// True if they are those of parts as these are. Between the count of a message and its use, parts may be erased.
    pub fn are_of(&self, parts: &[Part]) -> bool {
        self.parts.len() == parts.len() && self.erased == parts.iter().filter(|part| part.body.is_erased()).count()
    }
}

/// The estimate of a part as it was written, in the units of one way of counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartCounts {
    /// The estimate of the part in a message of its own.
    pub alone: i64,
    /// The estimate of the text of a tool's output, however long views show it; 0 for any other part.
    pub words: i64,
}

/// A message that several lists of a decision share. Copies are cheap until one is changed.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedMessage(Arc<Message>);

impl From<Message> for SharedMessage {
    fn from(message: Message) -> Self {
        Self(Arc::new(message))
    }
}

impl From<SharedMessage> for Message {
    fn from(shared: SharedMessage) -> Self {
        Arc::unwrap_or_clone(shared.0)
    }
}

impl Deref for SharedMessage {
    type Target = Message;

    fn deref(&self) -> &Message {
        &self.0
    }
}

impl DerefMut for SharedMessage {
    fn deref_mut(&mut self) -> &mut Message {
        Arc::make_mut(&mut self.0)
    }
}

impl SourceMessage {
    /// The active prune mark on one of its parts.
    pub fn pruned_part(&self, part: PartId) -> Option<&PrunedPart> {
        self.pruned.iter().find(|pruned| pruned.part == part)
    }
}

/// A part that a prune mark shortens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrunedPart {
    /// The part.
    pub part: PartId,
    /// The compaction that shortened it.
    pub compaction: CompactionId,
    /// Its shortened form in a view; none for the placeholder of the active policy.
    pub truncation: Option<Truncation>,
}

/// A message of a view.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewMessage {
    /// The stored message that it shows; none for a message that pairing made.
    pub source: Option<MessageId>,
    /// The revision of that message; zero for a message that pairing made.
    pub revision: Revision,
    /// The role.
    pub role: Role,
    /// Its kind in the view.
    pub kind: ViewKind,
    /// The parts.
    pub parts: Vec<ViewPart>,
    /// Fields of its original besides the parts; none for messages that Longhand made.
    pub original_fields: Option<Arc<OriginalFields>>,
    /// The author of a summary; none for other messages. It is reported beside the message and not part of the view's
    /// hash.
    pub provenance: Option<Arc<Provenance>>,
}

impl ViewMessage {
    /// True if it begins with a provider's own compaction, which stands for what came before it.
    pub fn begins_with_compaction(&self) -> bool {
        self.parts.first().is_some_and(|part| part.body.stands_for_history())
    }
}

/// A client's fields of a message besides its parts. A client restores its own objects from them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginalFields {
    /// The client's own id.
    pub client_id: Option<String>,
    /// The reason for which the reply ended; none for messages that are no replies, and while it is open.
    pub finish_reason: Option<FinishReason>,
    /// The model that wrote it, or empty.
    pub model: String,
    /// The provider of that model, or empty.
    pub provider: String,
    /// The time at which the server received it.
    pub create_time: Timestamp,
    /// The time at which it was written, by the client's clock.
    pub origin_time: Option<Timestamp>,
    /// The writer: the caller's name for itself, or empty.
    pub actor: String,
    /// Free JSON of the client, verbatim.
    pub metadata_json: Option<String>,
}

impl From<&Message> for OriginalFields {
    fn from(message: &Message) -> Self {
        Self {
            client_id: message.client_id.clone(),
            finish_reason: message.finish.reason,
            model: message.model.clone(),
            provider: message.provider.clone(),
            create_time: message.create_time,
            origin_time: message.origin_time,
            actor: message.actor.clone(),
            metadata_json: message.metadata_json.clone(),
        }
    }
}

/// The author of a summary, and the compaction that put it into the view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// The compaction that made the summary; none for the summary of a branch.
    pub compaction: Option<CompactionId>,
    /// The summary message.
    pub summary: Option<MessageId>,
    /// The kind of author.
    pub author: Author,
    /// The name of the author: a summarizer of the configuration with its model, or a client's name for itself; may be
    /// empty for a client.
    pub summarizer: String,
}

/// The kind of a summary's author.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// The built-in summarizer, which extracts sentences from the history.
    BuiltIn,
    /// A model that Longhand asked.
    Model,
    /// A client that supplied it, whatever its origin.
    Client,
}

/// The kind of a view message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViewKind {
    /// An original message, whole or shortened.
    Shown,
    /// The introduction of a summary.
    Marker,
    /// A summary, in place of covered history.
    Summary,
    /// Made by pairing: the error result of a call that was never answered.
    Paired,
    /// A text that the policy adds in the name of a role, such as the acknowledgement of a summary.
    Filler,
    /// Passages of dialogue that the view does not show otherwise, brought back for the last request. Each part names
    /// its original part.
    Retrieved,
    /// The summary of a branch that a rewind abandoned.
    Branch,
    /// Written by Longhand in a user's place, and recorded: a continuation, or the replay of a request without its
    /// media.
    Added,
}

/// A part of a view message.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewPart {
    /// The stored part that it shows; none for a part that pairing made. The original can be read by this id.
    pub source: Option<PartId>,
    /// The content that the model sees; the stored part's own if nothing was taken away.
    pub body: Arc<PartBody>,
    /// The kind of shortening; none if the part is whole.
    pub shortened: Option<PartShortening>,
    /// The client's own id of the stored part.
    pub client_id: Option<String>,
    /// The client's free JSON on the stored part, verbatim. A provider's signature of the text may be in it, so a
    /// shortened part has none; results of tools, which no provider signs, keep it.
    pub metadata_json: Option<String>,
}

impl ViewPart {
    /// A part without the client id and metadata of its original.
    pub fn new(source: Option<PartId>, body: impl Into<Arc<PartBody>>, shortened: Option<PartShortening>) -> Self {
        Self { source, body: body.into(), shortened, client_id: None, metadata_json: None }
    }
}

/// The kind of a part's shortening, and its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartShortening {
    /// A prune mark replaced the output by a placeholder.
    Pruned {
        /// Characters of the original, in the policy's unit.
        original_length: i64,
    },
    /// The policy truncates long outputs in every view.
    Truncated {
        /// Characters that were omitted, in the policy's unit.
        omitted_length: i64,
    },
    /// Its content was erased.
    Erased,
}

/// A whole view.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct View {
    /// The messages, in the order the model reads them.
    pub messages: Vec<ViewMessage>,
    /// Tokens, by the policy's estimate.
    pub estimated_tokens: i64,
}
