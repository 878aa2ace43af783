//! The transport: listeners, HTTP connections of version 1.1 and 2, and the bounds of what clients can hold.
//!
//! hyper and h2 speak the protocols, on the Unix socket and on TCP alike. This module bounds what they leave open: the
//! memory of requests and answers, the time for which a client may take nothing, the number of connections. It knows no
//! service: the daemon gives it one service for all requests, and each answer may carry a [`Delivery`] with what
//! has to be known about it besides its bytes.

mod accept;
mod answer;
mod connection;
mod connections;
mod delivery;
mod error;
mod frames;
mod greeting;
mod http2;
mod incoming;
mod io;
mod peer;
mod request;
mod request_body;
mod server;
mod socket;
mod tls;

pub use delivery::{CutOff, Delivery, Trailers};
pub use error::{ListenError, TlsError};
pub use peer::Peer;
pub use request::RequestClass;
pub use request_body::RequestBody;
pub use server::{Admission, ClientStanding, HeadRefusal, Options, Service};
pub use socket::Socket;
pub use tls::{Tls, TlsFiles};

use crate::limits;
use accept::Listener;
use server::Server;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};

/// The listeners and their connections.
pub struct Transport {
    server: Arc<Server>,
}

impl Transport {
    /// A transport without listeners.
    pub fn new(options: Options) -> Self {
        let server = Arc::new(Server::new(options, connections_max()));
        server.tasks.spawn(server.clone().watch());
        Self { server }
    }

    /// Accepts connections on a Unix socket until the daemon stops.
    pub fn listen_unix(&self, listener: UnixListener) {
        self.listen(Listener::Unix(listener));
    }

    /// Accepts connections on a TCP port, of TLS if there is a certificate, until the daemon stops.
    pub fn listen_tcp(&self, listener: TcpListener, tls: Option<Tls>) {
        if let Some(tls) = &tls {
            self.server.tasks.spawn(tls.clone().follow(self.server.options.stopping.clone()));
        }
        self.listen(Listener::Tcp(listener, tls));
    }

    fn listen(&self, listener: Listener) {
        self.server.tasks.spawn(accept::run(listener, self.server.clone()));
    }

    /// Ends all connections: first streams end by themselves, then the daemon stops waiting for clients, and then for
    /// its own work. `stopping` is cancelled before.
    pub async fn close(self) {
        let Self { server } = self;
        server.tasks.close();
        let clients = Duration::from_millis(limits::STOP_CLIENTS_MS);
        let work = Duration::from_millis(limits::DRAIN_MS_MAX);
        if tokio::time::timeout(clients, server.tasks.wait()).await.is_ok() {
            return;
        }
        server.closing.cancel();
        if tokio::time::timeout(work, server.tasks.wait()).await.is_ok() {
            return;
        }
        tracing::warn!("some connections did not end in time and are cut off");
        server.aborting.cancel();
        server.tasks.wait().await;
    }
}

/// A listener on a Unix socket that only its owner can open, and the socket's file.
///
/// # Errors
///
/// For a path that is not what it should be: nothing is replaced except a socket without a listener.
pub async fn bind_unix(path: &Path, data_dir: &Path) -> Result<(UnixListener, Socket), ListenError> {
    socket::listen(path, data_dir).await
}

/// Refuses a path that cannot be listened on, and changes nothing.
pub async fn check_unix(path: &Path, data_dir: &Path) -> Result<(), ListenError> {
    socket::check(path, data_dir).await
}

/// A listener on a TCP address.
pub async fn bind_tcp(address: SocketAddr) -> Result<TcpListener, ListenError> {
    TcpListener::bind(address).await.map_err(|source| ListenError { address: address.to_string(), source })
}

/// Maximum number of connections: the system's limit of descriptors, less those reserved for the store.
fn connections_max() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    // The soft limit is meant for programs with few files, and may be raised up to the hard limit.
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    let descriptors = match rustix::process::setrlimit(rustix::process::Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let descriptors = descriptors.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    descriptors.saturating_sub(limits::DESCRIPTORS_RESERVED).clamp(1, limits::CONNECTIONS_MAX)
}

#[cfg(test)]
mod tests;
