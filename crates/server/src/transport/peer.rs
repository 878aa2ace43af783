//! The other end of a connection.

use std::net::SocketAddr;

/// The client of a connection, in the extensions of each of its requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// A process of the daemon's own user, or of the system's administrator, on the Unix socket.
    Owner,
    /// A client on TCP.
    Tcp {
        /// Its address.
        address: SocketAddr,
        /// True if the connection is one of TLS.
        is_encrypted: bool,
    },
}
