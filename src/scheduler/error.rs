//! Error of the scheduler.

use crate::store;

/// Error of the scheduler.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
}
