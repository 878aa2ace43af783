//! How far an index is.

use crate::model::Seq;
use uuid::Uuid;

/// How far an index is in the log of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The public id of the store.
    pub store: Uuid,
    /// The newest event that is in the index; 0 before the first.
    pub seq: Seq,
    /// The hash of that event; empty before the first.
    pub hash: Vec<u8>,
}
