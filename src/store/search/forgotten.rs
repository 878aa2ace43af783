//! What the index is to forget.

use crate::model::Revision;

/// The part of the history that is to be forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Forgotten {
    /// All of a session's own rows.
    Session,
    /// A message, by its revision.
    Message(Revision),
    /// A part, by the revision of its message and its number in it.
    Part(Revision, u16),
}
