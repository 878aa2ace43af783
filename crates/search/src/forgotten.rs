//! What an index is to forget.

use crate::model::Revision;
use crate::model::compaction::RevisionRange;
use crate::model::session::SessionKey;
use std::sync::Arc;

/// What was erased of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErasedRows {
    /// The session's tenant.
    pub tenant: Arc<str>,
    /// The session.
    pub owner: SessionKey,
    /// What of it.
    pub what: ForgottenRows,
}

/// The part of a session's own rows that is to be forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForgottenRows {
    /// Messages, by their revisions.
    Messages(RevisionRange),
    /// A part, by the revision of its message and its number in it.
    Part(Revision, u16),
}

impl ForgottenRows {
    /// True if a part is to be forgotten.
    pub fn has(&self, message: Revision, number: u16) -> bool {
        match self {
            Self::Messages(range) => range.contains(message),
            Self::Part(of, part) => *of == message && *part == number,
        }
    }
}
