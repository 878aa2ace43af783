//! Views: history as a model should see it.

use super::Revision;
use super::cut::Cut;
use super::ids::{CompactionId, MessageId, PartId};
use super::layout::Place;
use super::message::{FinishReason, Message, Role};
use super::part::PartBody;
use super::time::Timestamp;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A stored message on its way into a view: what the layout chose, with the prune marks that touch it.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceMessage {
    /// The message, with the parts that were closed by the view's revision.
    pub message: SharedMessage,
    /// Why it stands here, when that is not its own place.
    pub place: Option<Place>,
    /// Its parts that a prune mark shortens.
    pub pruned: Vec<Pruned>,
    /// What it weighs, if that was worked out before by the counting of the policy in force. Decisions are the same
    /// without it, but count again.
    pub counts: Option<Arc<Counts>>,
}

/// What a message weighs as it was written, in the units of one way of counting.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// All of it.
    pub whole: i64,
    /// Each of its parts, in their order.
    pub parts: Vec<PartCounts>,
}

/// What a part weighs as it was written, in the units of one way of counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartCounts {
    /// In a message of its own.
    pub alone: i64,
    /// The words of a tool's output, however long views show them; 0 for any other part.
    pub words: i64,
}

/// A message that many lists of a decision hold. Copies are cheap until one is changed.
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
    /// The prune mark in force on one of its parts.
    pub fn pruned_part(&self, part: PartId) -> Option<&Pruned> {
        self.pruned.iter().find(|pruned| pruned.part == part)
    }
}

/// A part that a prune mark shortens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pruned {
    /// The part.
    pub part: PartId,
    /// The reduction that shortened it.
    pub compaction: CompactionId,
    /// What a view shows of it; none for the placeholder of the policy in force.
    pub cut: Option<Cut>,
}

/// A message of a view.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewMessage {
    /// The stored message it shows; none for a message that pairing made.
    pub source: Option<MessageId>,
    /// The revision of that message; zero for a message that pairing made.
    pub revision: Revision,
    /// Who speaks.
    pub role: Role,
    /// What it is doing in the view.
    pub standing: Standing,
    /// What it says.
    pub parts: Vec<ViewPart>,
    /// What else its original carries; none for messages that Longhand made.
    pub carried: Option<Arc<Carried>>,
    /// Whose words a summary's are; none for other messages. It is said beside the words and no part of the view's
    /// hash.
    pub provenance: Option<Arc<Provenance>>,
}

/// What a client said of a message beside its parts: with it a client restores its own objects from a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carried {
    /// The client's own id.
    pub client_id: Option<String>,
    /// Why the reply ended; none for messages that are no replies, and while it is open.
    pub finish_reason: Option<FinishReason>,
    /// The model that wrote it, or empty.
    pub model: String,
    /// The provider of that model, or empty.
    pub provider: String,
    /// When the server got it.
    pub create_time: Timestamp,
    /// When it was written, by the client's clock.
    pub origin_time: Option<Timestamp>,
    /// Who wrote it: the caller's name for itself, or empty.
    pub actor: String,
    /// Free JSON of the client, verbatim.
    pub metadata_json: Option<String>,
}

impl From<&Message> for Carried {
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

/// Whose words a summary's are, and what put them into the view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// The reduction that put the summary there; none for that of a branch.
    pub compaction: Option<CompactionId>,
    /// The summary message.
    pub summary: Option<MessageId>,
    /// Who wrote it.
    pub author: Author,
    /// What that one is called: a summarizer of the configuration with its model, or what a client calls itself; may be
    /// empty for a client.
    pub summarizer: String,
}

/// Who wrote a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// The built-in summarizer, which takes sentences out of the history.
    BuiltIn,
    /// A model that was asked.
    Model,
    /// A client that brought it along, whoever wrote it there.
    Client,
}

/// What a view message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// An original message, whole or shortened.
    Shown,
    /// Introduces the summary.
    Marker,
    /// Stands for covered history.
    Summary,
    /// Made by pairing: the error result of a call that was never answered.
    Paired,
    /// Words that the policy puts into somebody's mouth, such as the acknowledgement of a summary.
    Filler,
    /// Passages of dialogue that the view does not show otherwise, brought back for the last request. Each part names
    /// the part that it is from.
    Retrieved,
    /// Tells what was tried in a branch that a rewind left.
    Branch,
    /// Written by Longhand in a user's place, and recorded: it asks the model to go on, or replays a request without its
    /// media.
    Added,
}

/// A part of a view message.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewPart {
    /// The stored part it shows; none for a part that pairing made. It is the id by which the original can be read.
    pub source: Option<PartId>,
    /// The content that the model sees; the stored part's own if nothing was taken away.
    pub body: Arc<PartBody>,
    /// What was taken away, if anything was.
    pub shortened: Option<Shortened>,
    /// The client's own id of the stored part.
    pub client_id: Option<String>,
    /// The client's free JSON on the stored part, verbatim: among it what a provider signed the words with. It goes with
    /// the words: a part that is shortened has none, unless it is a tool's result, which nobody signs.
    pub metadata_json: Option<String>,
}

impl ViewPart {
    /// A part without what its original carries.
    pub fn new(source: Option<PartId>, body: impl Into<Arc<PartBody>>, shortened: Option<Shortened>) -> Self {
        Self { source, body: body.into(), shortened, client_id: None, metadata_json: None }
    }
}

/// What was taken away from a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortened {
    /// A prune mark replaced the output by a placeholder.
    Pruned {
        /// Characters of the original, in the policy's unit.
        original_length: i64,
    },
    /// The policy cuts long outputs in every view.
    Truncated {
        /// Characters that were left out, in the policy's unit.
        omitted_length: i64,
    },
}

/// A view, whole.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct View {
    /// The messages, in the order the model reads them.
    pub messages: Vec<ViewMessage>,
    /// Tokens, by the policy's estimate.
    pub estimated_tokens: i64,
}
