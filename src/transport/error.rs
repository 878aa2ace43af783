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
