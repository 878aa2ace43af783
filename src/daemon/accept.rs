//! Accepting connections up to a maximum, and refusing further ones.

use super::connection;
use crate::app::traffic::Traffic;
use crate::limits;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::Routes;

/// State shared by all connections.
pub(super) struct Server {
    pub(super) routes: Routes,
    pub(super) traffic: Arc<Traffic>,
    /// Time for which a client may take nothing of an answer.
    pub(super) stall: Duration,
    /// Cancelled when new calls are refused and streams end.
    pub(super) stopping: CancellationToken,
    /// Cancelled when the daemon stops waiting for clients.
    pub(super) parting: CancellationToken,
    /// Cancelled when the daemon stops waiting for anything.
    pub(super) ending: CancellationToken,
    pub(super) connections: Connections,
    pub(super) tasks: TaskTracker,
}

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

/// The open connections.
pub(super) struct Connections {
    most: usize,
    open: Arc<Mutex<Open>>,
}

#[derive(Default)]
struct Open {
    connections: HashMap<u64, Entry>,
    next: u64,
}

struct Entry {
    /// Sequence number of its last use, rising with time; none while it has calls.
    idle_since: Option<u64>,
    close: CancellationToken,
}

/// An open connection's entry, until it is dropped.
pub(super) struct ConnectionEntry {
    id: u64,
    open: Arc<Mutex<Open>>,
    traffic: Arc<Traffic>,
    close: CancellationToken,
}

fn locked(open: &Mutex<Open>) -> MutexGuard<'_, Open> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Open {
    fn tick(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Closes the connection that has been without a call for the longest time; false if there is none.
    fn close_idle(&mut self) -> bool {
        let idle = self.connections.iter().filter_map(|(id, entry)| Some((entry.idle_since?, *id))).min();
        let Some((_, id)) = idle else { return false };
        if let Some(entry) = self.connections.remove(&id) {
            entry.close.cancel();
        }
        true
    }
}

impl Connections {
    /// At most this many open connections.
    pub(super) fn new(most: usize) -> Self {
        Self { most, open: Arc::default() }
    }

    /// An entry for a new connection, for which an idle one is closed if necessary; none if all have calls.
    pub(super) fn entry(&self, traffic: &Arc<Traffic>) -> Option<ConnectionEntry> {
        let mut open = locked(&self.open);
        if open.connections.len() >= self.most && !open.close_idle() {
            return None;
        }
        let id = open.tick();
        let close = CancellationToken::new();
        open.connections.insert(id, Entry { idle_since: Some(id), close: close.clone() });
        traffic.connections.add(1);
        Some(ConnectionEntry { id, open: self.open.clone(), traffic: traffic.clone(), close })
    }

    fn close_idle(&self) {
        locked(&self.open).close_idle();
    }
}

impl ConnectionEntry {
    /// Records whether the connection has calls.
    pub(super) fn is_idle(&self, is_idle: bool) {
        let mut open = locked(&self.open);
        let now = open.tick();
        if let Some(entry) = open.connections.get_mut(&self.id) {
            entry.idle_since = is_idle.then_some(now);
        }
    }

    /// Resolves when the connection has to close for another one.
    pub(super) async fn has_to_close(&self) {
        self.close.cancelled().await;
    }
}

impl Drop for ConnectionEntry {
    fn drop(&mut self) {
        locked(&self.open).connections.remove(&self.id);
        self.traffic.connections.add(-1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_that_was_idle_for_the_longest_time_makes_way() {
        let traffic = Arc::new(Traffic::default());
        let connections = Connections::new(2);
        let first = connections.entry(&traffic).expect("a place");
        let second = connections.entry(&traffic).expect("a place");
        first.is_idle(false);
        first.is_idle(true);
        let third = connections.entry(&traffic).expect("a place");
        assert!(second.close.is_cancelled() && !first.close.is_cancelled());
        drop(second);
        first.is_idle(false);
        third.is_idle(false);
        assert!(connections.entry(&traffic).is_none(), "all are in use");
        assert_eq!(traffic.connections.get(), 2);
        drop(third);
        assert!(connections.entry(&traffic).is_some());
    }
}
