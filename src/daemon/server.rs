//! State shared by all connections, and their list.

use crate::app::traffic::Traffic;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
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
    pub(super) closing: CancellationToken,
    /// Cancelled when the daemon stops waiting for anything.
    pub(super) aborting: CancellationToken,
    pub(super) connections: Connections,
    pub(super) tasks: TaskTracker,
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

    /// Closes the connection that has been without a call for the longest time.
    pub(super) fn close_idle(&self) {
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
