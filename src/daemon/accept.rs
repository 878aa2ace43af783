//! Accepting connections up to a maximum, and refusing further ones.

use super::connection;
use super::server::Server;
use crate::limits;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// A listener for connections.
pub(super) trait Listener: Send + 'static {
    /// Type of a connection.
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// True if only the daemon's own user can connect.
    const IS_OWNERS: bool;

    /// The next connection.
    fn accept(&self) -> impl Future<Output = io::Result<Self::Io>> + Send;

    /// Writes as many bytes as the connection accepts immediately.
    fn write(connection: &Self::Io, bytes: &[u8]) -> io::Result<usize>;
}

impl Listener for UnixListener {
    type Io = UnixStream;
    const IS_OWNERS: bool = true;

    async fn accept(&self) -> io::Result<UnixStream> {
        Self::accept(self).await.map(|(connection, _)| connection)
    }

    fn write(connection: &UnixStream, bytes: &[u8]) -> io::Result<usize> {
        connection.try_write(bytes)
    }
}

impl Listener for TcpListener {
    type Io = TcpStream;
    const IS_OWNERS: bool = false;

    async fn accept(&self) -> io::Result<TcpStream> {
        let (connection, _) = Self::accept(self).await?;
        connection.set_nodelay(true)?;
        Ok(connection)
    }

    fn write(connection: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
        connection.try_write(bytes)
    }
}

/// Accepts connections until the daemon stops.
pub(super) async fn run<L: Listener>(listener: L, server: Arc<Server>) {
    // The failure is logged when it begins, not for each of possibly many errors.
    let mut fails = false;
    loop {
        let accepted = tokio::select! {
            () = server.stopping.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok(io) => {
                fails = false;
                accept::<L>(&server, io);
            }
            Err(error) if is_exhausted(&error) => {
                server.traffic.failed_accepts.add(1);
                if !fails {
                    tracing::warn!(%error, "no connection can be accepted; the daemon tries again until one can");
                }
                fails = true;
                // An idle connection is closed to free a descriptor. Until then the error would recur in a busy loop.
                server.connections.close_idle();
                tokio::time::sleep(Duration::from_millis(limits::ACCEPT_RETRY_MS)).await;
            }
            // A client that was gone before it was accepted.
            Err(error) => tracing::debug!(%error, "a connection was not accepted"),
        }
    }
}

/// True if the system lacks the resources to accept a connection.
fn is_exhausted(error: &io::Error) -> bool {
    let aborted = [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset, io::ErrorKind::Interrupted];
    !aborted.contains(&error.kind())
}

fn accept<L: Listener>(server: &Arc<Server>, io: L::Io) {
    match server.connections.entry(&server.traffic) {
        Some(entry) => {
            server.tasks.spawn(connection::serve(io, L::IS_OWNERS, entry, server.clone()));
        }
        None => {
            server.traffic.refused_connections.add(1);
            drop(L::write(&io, &refusal()));
        }
    }
}

/// The answer to a refused connection: empty settings, which have to come first, and GOAWAY.
fn refusal() -> Vec<u8> {
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const GO_AWAY: u8 = 7;
    const ENHANCE_YOUR_CALM: u8 = 11;
    const WHY: &[u8] = b"too many connections";
    let mut frames = SETTINGS.to_vec();
    frames.extend([0, 0, 8 + WHY.len() as u8, GO_AWAY, 0, 0, 0, 0, 0]);
    frames.extend([0, 0, 0, 0, 0, 0, 0, ENHANCE_YOUR_CALM]);
    frames.extend(WHY);
    frames
}
