//! The open connections, and what their clients have not taken yet.

use super::delivery::CutOff;
use crate::limits;
use crate::traffic::Traffic;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Bytes of the shortest greeting of a client: the preface of HTTP/2. Every request of HTTP/1.1 is longer.
const GREETING_BYTES: usize = 24;

/// The open connections.
pub(super) struct Connections {
    most: usize,
    /// Those that are the owner's alone.
    reserved: usize,
    open: Arc<Open>,
}

#[derive(Default)]
struct Open {
    connections: Mutex<HashMap<u64, Entry>>,
    /// The newest number of a connection or of its last use.
    newest: AtomicU64,
}

struct Entry {
    idle_since: Arc<AtomicU64>,
    connection: Weak<Connection>,
    /// Cancelled once it makes way for another one. It is watched until it has ended, and no longer counted.
    close: CancellationToken,
    holder: Holder,
}

/// Whose a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    /// The owner's, on the Unix socket.
    Owner,
    /// Anybody's, on TCP: nothing is known of it before its first request.
    Anybody,
}

/// An open connection, until it is dropped.
pub(super) struct Connection {
    id: u64,
    open: Arc<Open>,
    /// Number of its last use, rising with time; zero while it has calls.
    idle_since: Arc<AtomicU64>,
    traffic: Arc<Traffic>,
    begun: Instant,
    /// Cancelled to make way for another connection.
    close: CancellationToken,
    /// Cancelled when the client takes nothing.
    abort: CancellationToken,
    received_bytes: AtomicUsize,
    calls: Mutex<Calls>,
    /// Notified when the last request whose answer has not begun is answered.
    worked: Notify,
    unwritten: Unwritten,
}

/// The calls of a connection.
#[derive(Default)]
struct Calls {
    /// Number of requests whose answers have not begun.
    working: usize,
    /// Answers that are not sent whole, by their numbers.
    answers: HashMap<u64, Weak<dyn Watched>>,
    next: u64,
}

/// An answer, as the watch over its connection sees it.
pub(super) trait Watched: Send + Sync + 'static {
    /// Cuts the answer off if it stands still for this time, or others need its memory. True if what was handed over
    /// keeps memory that others need, so that only the end of the connection frees it.
    fn check(&self, stall: Duration, now_ms: u64) -> bool;

    /// Lets go of everything that was not handed over.
    fn cut_off(&self, why: CutOff);
}

/// Bytes given to the protocol that are not written to the socket, and the time of the last that was.
#[derive(Debug, Default)]
pub(super) struct Unwritten {
    bytes: AtomicUsize,
    /// Milliseconds since the connection began.
    moved_ms: AtomicU64,
}

impl Unwritten {
    /// Records more bytes at a time.
    pub(super) fn add(&self, bytes: usize, now_ms: u64) {
        if self.bytes.fetch_add(bytes, Ordering::Relaxed) == 0 {
            self.moved_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    /// Records that bytes were written at a time.
    pub(super) fn written(&self, bytes: usize, now_ms: u64) {
        self.moved_ms.store(now_ms, Ordering::Relaxed);
        self.dropped(bytes);
    }

    /// Records that bytes will not be written.
    pub(super) fn dropped(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// True if bytes wait and none was written for this time.
    pub(super) fn stands_still(&self, wait: Duration, now_ms: u64) -> bool {
        let moved = self.moved_ms.load(Ordering::Relaxed);
        self.is_pending() && u128::from(now_ms.saturating_sub(moved)) >= wait.as_millis()
    }

    /// True if bytes wait.
    pub(super) fn is_pending(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > 0
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Open {
    /// A number above all before it.
    fn next(&self) -> u64 {
        self.newest.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// The connections that did not make way.
fn staying(connections: &HashMap<u64, Entry>) -> impl Iterator<Item = &Entry> {
    connections.values().filter(|entry| !entry.close.is_cancelled())
}

/// Closes the connection that has been without a call for the longest time, one of the owner's only if there is no
/// other; false if there is none.
fn close_idle(connections: &HashMap<u64, Entry>, holders: &[Holder]) -> bool {
    let of_holders = staying(connections).filter(|entry| holders.contains(&entry.holder));
    let idle =
        of_holders.map(|entry| (entry.idle_since.load(Ordering::Relaxed), entry)).filter(|(since, _)| *since > 0);
    let Some((_, entry)) = idle.min_by_key(|(since, entry)| (entry.holder == Holder::Owner, *since)) else {
        return false;
    };
    entry.close.cancel();
    true
}

/// Makes room for one more connection; false if all are in use.
fn make_room(connections: &HashMap<u64, Entry>, holder: Holder, most: usize, reserved: usize) -> bool {
    let others = staying(connections).filter(|entry| entry.holder == Holder::Anybody).count();
    match holder {
        Holder::Anybody if others >= most - reserved => close_idle(connections, &[Holder::Anybody]),
        Holder::Anybody | Holder::Owner if staying(connections).count() >= most => {
            close_idle(connections, &[Holder::Anybody, Holder::Owner])
        }
        Holder::Anybody | Holder::Owner => true,
    }
}

impl Connections {
    /// At most this many open connections, some of which are the owner's alone.
    pub(super) fn new(most: usize) -> Self {
        Self { most, reserved: limits::OWNER_CONNECTIONS.min(most / 4), open: Arc::default() }
    }

    /// A new connection, for which an idle one is closed if necessary; none if all that it can be have calls.
    pub(super) fn open(&self, holder: Holder, traffic: &Arc<Traffic>) -> Option<Arc<Connection>> {
        let mut connections = locked(&self.open.connections);
        if !make_room(&connections, holder, self.most, self.reserved) {
            return None;
        }
        let id = self.open.next();
        traffic.connections.add(1);
        let connection = Arc::new(Connection {
            id,
            open: self.open.clone(),
            idle_since: Arc::new(id.into()),
            traffic: traffic.clone(),
            begun: Instant::now(),
            close: CancellationToken::new(),
            abort: CancellationToken::new(),
            received_bytes: AtomicUsize::new(0),
            calls: Mutex::default(),
            worked: Notify::new(),
            unwritten: Unwritten::default(),
        });
        let (idle_since, close) = (connection.idle_since.clone(), connection.close.clone());
        connections.insert(id, Entry { idle_since, connection: Arc::downgrade(&connection), close, holder });
        Some(connection)
    }

    /// Closes the connection that has been without a call for the longest time.
    pub(super) fn close_idle(&self) {
        close_idle(&locked(&self.open.connections), &[Holder::Anybody, Holder::Owner]);
    }

    /// All open connections.
    pub(super) fn all(&self) -> Vec<Arc<Connection>> {
        locked(&self.open.connections).values().filter_map(|entry| entry.connection.upgrade()).collect()
    }
}

impl Connection {
    /// Milliseconds since the connection began.
    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Records received bytes.
    pub(super) fn received(&self, bytes: usize) {
        self.received_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of all its answers that are not written.
    pub(super) fn unwritten(&self) -> &Unwritten {
        &self.unwritten
    }

    /// Begins a request, until the answer to it begins.
    pub(super) fn begin(self: &Arc<Self>) -> Working {
        self.change(|calls| calls.working += 1);
        Working(self.clone())
    }

    /// Adds an answer, until it is removed by its number.
    pub(super) fn add<T: Watched>(&self, answer: impl FnOnce(u64) -> Arc<T>) -> Arc<T> {
        self.change(|calls| {
            calls.next += 1;
            let answer = answer(calls.next);
            let watched: Weak<T> = Arc::downgrade(&answer);
            calls.answers.insert(calls.next, watched);
            answer
        })
    }

    pub(super) fn remove(&self, answer: u64) {
        self.change(|calls| calls.answers.remove(&answer));
    }

    /// Changes the calls, and records whether there are any.
    fn change<T>(&self, change: impl FnOnce(&mut Calls) -> T) -> T {
        let mut calls = locked(&self.calls);
        let changed = change(&mut calls);
        let idle_since = if calls.is_empty() { self.open.next() } else { 0 };
        self.idle_since.store(idle_since, Ordering::Relaxed);
        changed
    }

    /// True if it has no calls.
    pub(super) fn is_idle(&self) -> bool {
        locked(&self.calls).is_empty()
    }

    /// Resolves when the connection has to close for another one.
    pub(super) async fn has_to_close(&self) {
        self.close.cancelled().await;
    }

    /// Resolves when the connection has to end because its client takes nothing.
    pub(super) async fn aborted(&self) {
        self.abort.cancelled().await;
    }

    /// Resolves once every request has an answer, at least the begin of one.
    pub(super) async fn worked(&self) {
        loop {
            let worked = self.worked.notified();
            if locked(&self.calls).working == 0 {
                return;
            }
            worked.await;
        }
    }

    /// Cuts all its answers off.
    pub(super) fn cut_off(&self, why: CutOff) {
        for answer in self.answers() {
            answer.cut_off(why);
        }
    }

    fn answers(&self) -> Vec<Arc<dyn Watched>> {
        locked(&self.calls).answers.values().filter_map(Weak::upgrade).collect()
    }

    /// Ends what its client does not take: answers that stand still, and the connection if all of it stands still.
    pub(super) fn check(&self, stall: Duration) {
        let now = self.now_ms();
        if now > limits::HANDSHAKE_MS_MAX && self.received_bytes.load(Ordering::Relaxed) < GREETING_BYTES {
            tracing::debug!("a client did not greet in time");
            return self.abort.cancel();
        }
        if !self.unwritten.is_pending() {
            return;
        }
        let is_stuck = self.answers().iter().any(|answer| answer.check(stall, now));
        if is_stuck || self.unwritten.stands_still(stall, now) {
            tracing::info!("a connection ends: its client does not read");
            self.abort.cancel();
        }
    }
}

impl Calls {
    fn is_empty(&self) -> bool {
        self.working == 0 && self.answers.is_empty()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        locked(&self.open.connections).remove(&self.id);
        self.traffic.connections.add(-1);
    }
}

/// A request whose answer has not begun.
pub(super) struct Working(Arc<Connection>);

impl Drop for Working {
    fn drop(&mut self) {
        let is_last = self.0.change(|calls| {
            calls.working -= 1;
            calls.working == 0
        });
        if is_last {
            self.0.worked.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_that_was_idle_for_the_longest_time_makes_way() {
        let traffic = Arc::new(Traffic::default());
        let connections = Connections::new(2);
        let first = connections.open(Holder::Anybody, &traffic).expect("a place");
        let second = connections.open(Holder::Anybody, &traffic).expect("a place");
        drop(first.begin());
        let third = connections.open(Holder::Anybody, &traffic).expect("a place");
        assert!(second.close.is_cancelled() && !first.close.is_cancelled());
        drop(second);
        let calls = (first.begin(), third.begin());
        assert!(connections.open(Holder::Anybody, &traffic).is_none(), "all are in use");
        assert_eq!(traffic.connections.get(), 2);
        drop(calls);
        drop(third);
        assert!(connections.open(Holder::Anybody, &traffic).is_some());
    }

    #[test]
    fn others_never_take_the_connections_of_the_owner() {
        let traffic = Arc::new(Traffic::default());
        let connections = Connections::new(8);
        let open = |holder| connections.open(holder, &traffic);
        let busy = |holder| {
            let connection = open(holder).expect("a place");
            (connection.begin(), connection)
        };
        let others: Vec<_> = (0..6).map(|_| busy(Holder::Anybody)).collect();
        assert!(open(Holder::Anybody).is_none(), "what is left is the owner's");
        let owners = [busy(Holder::Owner), busy(Holder::Owner)];
        assert!(open(Holder::Owner).is_none() && open(Holder::Anybody).is_none(), "all are in use");
        drop(others);
        let idle = open(Holder::Owner).expect("a place");
        let calls: Vec<_> = (0..4).map(|_| busy(Holder::Anybody)).collect();
        let newer = open(Holder::Anybody).expect("a place");
        assert!(open(Holder::Anybody).is_some());
        assert!(newer.close.is_cancelled() && !idle.close.is_cancelled(), "the owner's goes last");
        drop((owners, calls));
    }
}
