//! Error of the scheduler, and the answer of an attempt's task for which the store failed.

use crate::fold::attempt::Answer;
use crate::model::compaction::{Failure, FailureReason};
use crate::store;

/// Error of the scheduler.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// The answer of a task for which the store failed.
pub(super) fn interrupted(error: store::Error) -> Answer<'static> {
    Answer::Interrupted(Failure::new(FailureReason::Store, error.to_string()))
}
