//! Delta frames of open messages.

use crate::model::draft::DraftKind;
use crate::model::ids::{MessageId, PartId};
use crate::store::SessionKey;

/// Text of a draft, as it comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftDelta {
    /// The session.
    pub session: SessionKey,
    /// The open message.
    pub message: MessageId,
    /// The draft.
    pub part: PartId,
    /// What the draft becomes.
    pub kind: DraftKind,
    /// Bytes of the draft before this text.
    pub offset: i64,
    /// The text.
    pub delta: String,
}
