//! Errors of the daemon.

use crate::app;
use crate::config;
use crate::store;
use crate::transport::{ListenError, TlsError};
use std::path::PathBuf;

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
    /// What daemons know of each other cannot be read.
    #[error("what the daemons of the database know of each other cannot be read: {0}")]
    Cluster(app::Error),
    /// The sessions of tenants cannot be counted.
    #[error("the sessions of tenants cannot be counted: {0}")]
    Quotas(app::Error),
    /// The access tokens cannot be read.
    #[error("the access tokens cannot be read: {0}")]
    AccessTokens(app::Error),
    /// The access log cannot be used.
    #[error("the access log cannot be used: {0}")]
    AccessLog(std::io::Error),
    /// TLS cannot be used.
    #[error("tls: {0}")]
    Tls(#[from] TlsError),
    /// The file with the owner's access token cannot be used.
    #[error("{}: {why}", path.display())]
    OwnerSecret {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}
