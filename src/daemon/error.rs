//! Errors of the daemon.

use crate::config;
use crate::store;
use crate::transport::ListenError;

/// Error that ended the daemon or kept it from starting.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The daemon cannot listen on an address.
    #[error(transparent)]
    Listen(#[from] ListenError),
}
