//! What the index is to forget.

use crate::model::Revision;
use crate::model::compaction::RevisionRange;

/// The part of a session's own rows that is to be forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Forgotten {
    /// Messages, by their revisions.
    Messages(RevisionRange),
    /// A part, by the revision of its message and its number in it.
    Part(Revision, u16),
}
