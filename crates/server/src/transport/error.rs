//! Errors of listeners.

/// The daemon cannot listen on an address.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}")]
pub struct ListenError {
    /// The address.
    pub address: String,
    /// The system's error.
    pub source: std::io::Error,
}

/// A file of TLS that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct TlsError {
    /// The file.
    pub path: std::path::PathBuf,
    /// What is wrong with it.
    pub why: String,
}
