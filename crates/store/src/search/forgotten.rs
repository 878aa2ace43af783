//! What the index is to forget.

use crate::ledger::head::SessionKey;
use crate::model::Revision;
use crate::model::compaction::RevisionRange;
use std::sync::Arc;

/// What was erased of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Erased {
    /// The session's tenant.
    pub(super) tenant: Arc<str>,
    /// The session.
    pub(super) owner: SessionKey,
    /// What of it.
    pub(super) what: Forgotten,
}

/// The part of a session's own rows that is to be forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Forgotten {
    /// Messages, by their revisions.
    Messages(RevisionRange),
    /// A part, by the revision of its message and its number in it.
    Part(Revision, u16),
}
