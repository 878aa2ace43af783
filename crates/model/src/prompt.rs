//! Prompts: messages of users, or results of tools, that wait in a session's queue until a run takes them.

use super::Revision;
use super::ids::{MessageId, PromptId, SessionId};
use super::message::Role;
use super::part::{Part, PartBody};
use super::run::Epoch;
use super::time::Timestamp;

/// A message of a user, or results of tools, in a session's queue.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// Its id.
    pub id: PromptId,
    /// Its session.
    pub session_id: SessionId,
    /// What its sender wishes.
    pub delivery: Delivery,
    /// The sender, by its name for itself; may be empty.
    pub actor: String,
    /// The content.
    pub parts: Vec<Part>,
    /// The client's free JSON, for the message.
    pub metadata_json: Option<String>,
    /// The time at which it came.
    pub create_time: Timestamp,
    /// The revision at which it came.
    pub submit_revision: Revision,
    /// Its end; none while it waits.
    pub end: Option<PromptEnd>,
}

/// What the sender of a prompt wishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// After the present run and the prompts before it.
    Queue,
    /// Into the present run; without one like the first in the queue.
    Steer,
    /// Instead of the present run, which is asked to stop.
    Interrupt,
}

/// The end of a prompt's wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromptEnd {
    /// The run that took it; none if it was withdrawn.
    pub epoch: Option<Epoch>,
    /// The revision of the end.
    pub revision: Revision,
}

impl Prompt {
    /// The role of its message: results of tools are a tool's.
    pub fn role(&self) -> Role {
        let is_result = |part: &Part| matches!(*part.body, PartBody::ToolResult(_));
        if self.parts.iter().any(is_result) { Role::Tool } else { Role::User }
    }

    /// The message that a run made of it.
    pub fn message(&self) -> Option<MessageId> {
        self.end.and_then(|end| end.epoch).map(|_| self.id.message())
    }
}
