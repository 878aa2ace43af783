//! What an index is given.

use crate::model::Revision;
use crate::model::message::Role;
use crate::model::part::PartBody;
use crate::model::session::SessionKey;
use crate::model::time::Timestamp;
use std::sync::Arc;

/// The kind of a part that is searched. The numbers are in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// Text.
    Text = 1,
    /// Reasoning.
    Reasoning = 2,
    /// A tool call: its input.
    ToolCall = 3,
    /// The result of a tool: its output.
    ToolResult = 4,
    /// The name of media.
    Media = 5,
    /// The text of a marker.
    Marker = 6,
    /// A record.
    Record = 7,
}

impl EntryKind {
    /// The kind of a part; none if its content is not searched.
    pub fn from_body(body: &PartBody) -> Option<Self> {
        match body {
            PartBody::Text(_) => Some(Self::Text),
            PartBody::Reasoning(_) => Some(Self::Reasoning),
            PartBody::ToolCall(_) => Some(Self::ToolCall),
            PartBody::ToolResult(_) => Some(Self::ToolResult),
            PartBody::Media(_) => Some(Self::Media),
            PartBody::Marker(_) => Some(Self::Marker),
            PartBody::Record(_) => Some(Self::Record),
            PartBody::Step(_) | PartBody::Opaque(_) => None,
        }
    }
}

/// A closed part, as an index is given it.
#[derive(Debug, Clone)]
pub struct Part {
    /// Its session.
    pub owner: SessionKey,
    /// The session's tenant.
    pub tenant: Arc<str>,
    /// The session, and those that it was forked from or works for, nearest first.
    pub above: Arc<[SessionKey]>,
    /// The revision of its message.
    pub message: Revision,
    /// Its number in the message.
    pub number: u16,
    /// The role of the message.
    pub role: Role,
    /// True if Longhand derived the message.
    pub is_derived: bool,
    /// When it came.
    pub time: Timestamp,
    /// Its kind.
    pub kind: EntryKind,
    /// The content.
    pub body: Arc<PartBody>,
    /// The name of the tool that it calls or answers.
    pub tool: Option<String>,
}
