//! The open connections, and what their clients have not taken yet.

use super::delivery::CutOff;
use crate::limits;
use crate::traffic::Traffic;
use futures::task::AtomicWaker;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
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
    open: Arc<OpenConnections>,
}

#[derive(Default)]
struct OpenConnections {
    connections: Mutex<HashMap<u64, ConnectionEntry>>,
    /// The newest number of a connection or of its last use.
    newest: AtomicU64,
}

struct ConnectionEntry {
    idle_since: Arc<AtomicU64>,
    connection: Weak<Connection>,
    /// Cancelled once it makes way for another one. It is watched until it has ended, and no longer counted.
    close: CancellationToken,
    /// Cancelled if it does not even wait for its calls.
    abort: CancellationToken,
    holder: Holder,
}

/// Whose a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    /// The owner's, on the Unix socket.
    Owner,
    /// On TCP, of somebody who has proven who it is.
    Proven,
    /// On TCP, of somebody of whom nothing is known, at an address or in a network.
    Stranger(IpAddr),
}

impl Holder {
    /// A stranger at an address. In IPv6, whoever has one address has all of its network.
    pub(super) fn stranger(address: IpAddr) -> Self {
        Self::Stranger(match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        })
    }

    fn is_stranger(self) -> bool {
        matches!(self, Self::Stranger(_))
    }
}

/// An open connection, until it is dropped.
pub(super) struct Connection {
    id: u64,
    open: Arc<OpenConnections>,
    /// Number of its last use, rising with time; zero while it has calls.
    idle_since: Arc<AtomicU64>,
    traffic: Arc<Traffic>,
    begun: Instant,
    /// Cancelled to make way for another connection.
    close: CancellationToken,
    /// Cancelled when the client takes nothing.
    abort: CancellationToken,
    received_bytes: AtomicUsize,
    /// Milliseconds since the connection began at which bytes came.
    received_ms: AtomicU64,
    /// Pieces that came since its last request began, and when that was.
    pieces: AtomicU64,
    asked_ms: AtomicU64,
    /// True once its client has proven who it is.
    is_proven: AtomicBool,
    calls: Mutex<Calls>,
    /// Notified when the last request whose answer has not begun is answered.
    worked: Notify,
    /// Woken when a call or an answer ends.
    answered: AtomicWaker,
    unwritten: UnwrittenBytes,
}

#[derive(Default)]
struct Calls {
    /// Number of requests whose answers have not begun.
    working: usize,
    /// Answers that are not sent whole, by their numbers.
    answers: HashMap<u64, Weak<dyn WatchedAnswer>>,
    /// Number of those whose length is known.
    whole: usize,
    next: u64,
}

/// An answer, as the watch over its connection sees it.
pub(super) trait WatchedAnswer: Send + Sync + 'static {
    /// Cuts the answer off if it stands still for this time, or others need its memory. True if what was handed over
    /// keeps memory that others need, so that only the end of the connection frees it.
    fn check(&self, stall: Duration, now_ms: u64) -> bool;

    /// Lets go of everything that was not handed over.
    fn cut_off(&self, why: CutOff);
}

/// Bytes given to the protocol that are not written to the socket, and the time of the last that was.
#[derive(Debug, Default)]
pub(super) struct UnwrittenBytes {
    bytes: AtomicUsize,
    /// Milliseconds since the connection began.
    moved_ms: AtomicU64,
}

impl UnwrittenBytes {
    /// Records more bytes at a time.
    pub(super) fn add(&self, bytes: usize, now_ms: u64) {
        if self.bytes.fetch_add(bytes, Ordering::Relaxed) == 0 {
            self.moved_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    /// Records that bytes were written at a time.
    pub(super) fn record_written(&self, bytes: usize, now_ms: u64) {
        self.moved_ms.store(now_ms, Ordering::Relaxed);
        self.record_dropped(bytes);
    }

    /// Records that bytes will not be written.
    pub(super) fn record_dropped(&self, bytes: usize) {
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

impl OpenConnections {
    /// A number above all before it.
    fn next(&self) -> u64 {
        self.newest.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// The connections that did not make way.
fn staying_connections(connections: &HashMap<u64, ConnectionEntry>) -> impl Iterator<Item = &ConnectionEntry> {
    connections.values().filter(|entry| !entry.close.is_cancelled())
}

/// Ends the connection of a stranger, to make room: one from this network, else from the network with the most strangers.
/// The one goes whose last call ended first, or that was opened first. False without strangers.
fn evict_stranger(connections: &HashMap<u64, ConnectionEntry>, network: Option<IpAddr>, traffic: &Traffic) -> bool {
    let mut strangers: HashMap<IpAddr, Vec<(u64, &ConnectionEntry)>> = HashMap::new();
    for (id, entry) in connections.iter().filter(|(_, entry)| !entry.close.is_cancelled()) {
        if let Holder::Stranger(from) = entry.holder
            && network.is_none_or(|network| network == from)
        {
            strangers.entry(from).or_default().push((*id, entry));
        }
    }
    let crowd = strangers.into_values().max_by_key(Vec::len).unwrap_or_default();
    let idle_since = |entry: &ConnectionEntry| entry.idle_since.load(Ordering::Relaxed);
    // A newcomer has the time of all that came before it to prove itself.
    let oldest = crowd.into_iter().min_by_key(|(id, entry)| (*id).max(idle_since(entry)));
    let Some((_, entry)) = oldest else { return false };
    entry.close.cancel();
    if idle_since(entry) == 0 {
        entry.abort.cancel();
    }
    traffic.dropped_connections.add(1);
    true
}

/// Closes the longest idle connection, one of the owner's last. False if none is idle.
fn close_idle(connections: &HashMap<u64, ConnectionEntry>, holders: &[Holder]) -> bool {
    let of_holders = staying_connections(connections).filter(|entry| holders.contains(&entry.holder));
    let idle =
        of_holders.map(|entry| (entry.idle_since.load(Ordering::Relaxed), entry)).filter(|(since, _)| *since > 0);
    let Some((_, entry)) = idle.min_by_key(|(since, entry)| (entry.holder == Holder::Owner, *since)) else {
        return false;
    };
    entry.close.cancel();
    true
}

/// Makes room for one more connection; false if all are in use. Strangers make way first, whatever they do.
fn make_room(
    connections: &HashMap<u64, ConnectionEntry>,
    holder: Holder,
    (most, reserved): (usize, usize),
    traffic: &Traffic,
) -> bool {
    let evict = |network| evict_stranger(connections, network, traffic);
    let count = |is_counted: &dyn Fn(Holder) -> bool| {
        staying_connections(connections).filter(|entry| is_counted(entry.holder)).count()
    };
    if holder.is_stranger() {
        let most = most - reserved;
        if let Holder::Stranger(network) = holder
            && count(&|other| other == holder) >= (most / limits::STRANGERS_SHARE).max(1)
        {
            evict(Some(network));
        }
        if count(&|other| other != Holder::Owner) >= most {
            return evict(None) || close_idle(connections, &[Holder::Proven]);
        }
    }
    count(&|_| true) < most || evict(None) || close_idle(connections, &[Holder::Proven, Holder::Owner])
}

impl Connections {
    /// At most this many open connections, some of which are the owner's alone.
    pub(super) fn new(most: usize) -> Self {
        Self { most, reserved: limits::OWNER_CONNECTIONS.min(most / 4), open: Arc::default() }
    }

    /// A new connection, for which an idle one is closed if necessary; none if all that it can be have calls.
    pub(super) fn open(&self, holder: Holder, traffic: &Arc<Traffic>) -> Option<Arc<Connection>> {
        let mut connections = locked(&self.open.connections);
        if !make_room(&connections, holder, (self.most, self.reserved), traffic) {
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
            received_ms: AtomicU64::new(0),
            pieces: AtomicU64::new(0),
            asked_ms: AtomicU64::new(0),
            is_proven: AtomicBool::new(!holder.is_stranger()),
            calls: Mutex::default(),
            worked: Notify::new(),
            answered: AtomicWaker::new(),
            unwritten: UnwrittenBytes::default(),
        });
        let (idle_since, close) = (connection.idle_since.clone(), connection.close.clone());
        let (abort, weak) = (connection.abort.clone(), Arc::downgrade(&connection));
        connections.insert(id, ConnectionEntry { idle_since, connection: weak, close, abort, holder });
        Some(connection)
    }

    /// Ends the connection of a stranger, or closes the one that has been without a call for the longest time.
    pub(super) fn free_one(&self, traffic: &Traffic) {
        let connections = locked(&self.open.connections);
        if !evict_stranger(&connections, None, traffic) {
            close_idle(&connections, &[Holder::Proven, Holder::Owner]);
        }
    }

    /// All open connections.
    pub(super) fn open_connections(&self) -> Vec<Arc<Connection>> {
        locked(&self.open.connections).values().filter_map(|entry| entry.connection.upgrade()).collect()
    }
}

impl Connection {
    /// Milliseconds since the connection began.
    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Records received bytes. False if they are one piece too many of a stranger's request.
    pub(super) fn record_received(&self, bytes: usize) -> bool {
        let now = self.now_ms();
        self.received_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.received_ms.store(now, Ordering::Relaxed);
        if self.is_proven.load(Ordering::Relaxed) {
            return true;
        }
        let pieces = self.pieces.fetch_add(1, Ordering::Relaxed);
        let seconds = now.saturating_sub(self.asked_ms.load(Ordering::Relaxed)) / 1_000;
        let is_fine = pieces < limits::STRANGER_PIECES_MAX + seconds;
        if !is_fine {
            self.traffic.dropped_connections.add(1);
        }
        is_fine
    }

    /// Time since bytes came.
    pub(super) fn silent_for(&self) -> Duration {
        Duration::from_millis(self.now_ms().saturating_sub(self.received_ms.load(Ordering::Relaxed)))
    }

    /// Its client has proven who it is: strangers make way before it.
    pub(super) fn prove(&self) {
        if self.is_proven.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Some(entry) = locked(&self.open.connections).get_mut(&self.id) {
            entry.holder = Holder::Proven;
        }
    }

    /// Bytes of all its answers that are not written.
    pub(super) fn unwritten(&self) -> &UnwrittenBytes {
        &self.unwritten
    }

    /// Begins a request, until the answer to it begins.
    pub(super) fn begin(self: &Arc<Self>) -> WorkingRequest {
        if !self.is_proven.load(Ordering::Relaxed) {
            self.pieces.store(0, Ordering::Relaxed);
            self.asked_ms.store(self.now_ms(), Ordering::Relaxed);
        }
        self.change(|calls| calls.working += 1);
        WorkingRequest(self.clone())
    }

    /// Adds an answer, of a known length or not, until it is removed by its number.
    pub(super) fn add<T: WatchedAnswer>(&self, is_whole: bool, answer: impl FnOnce(u64) -> Arc<T>) -> Arc<T> {
        self.change(|calls| {
            calls.next += 1;
            calls.whole += usize::from(is_whole);
            let answer = answer(calls.next);
            let watched: Weak<T> = Arc::downgrade(&answer);
            calls.answers.insert(calls.next, watched);
            answer
        })
    }

    pub(super) fn remove(&self, answer: u64, is_whole: bool) {
        self.change(|calls| {
            calls.whole -= usize::from(is_whole);
            calls.answers.remove(&answer)
        });
    }

    /// Pending while a client that sends nothing more waits for an answer that has an end.
    pub(super) fn poll_answered(&self, context: &Context<'_>) -> Poll<()> {
        self.answered.register(context.waker());
        let calls = locked(&self.calls);
        if calls.working == 0 && calls.whole == 0 { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Changes the calls, and records whether there are any.
    fn change<T>(&self, change: impl FnOnce(&mut Calls) -> T) -> T {
        let mut calls = locked(&self.calls);
        let changed = change(&mut calls);
        let idle_since = if calls.is_empty() { self.open.next() } else { 0 };
        self.idle_since.store(idle_since, Ordering::Relaxed);
        drop(calls);
        self.answered.wake();
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

    fn answers(&self) -> Vec<Arc<dyn WatchedAnswer>> {
        locked(&self.calls).answers.values().filter_map(Weak::upgrade).collect()
    }

    /// Ends what its client does not take: answers that stand still, and the connection if all of it stands still.
    pub(super) fn check(&self, stall: Duration) {
        let now = self.now_ms();
        if now > limits::HANDSHAKE_MS_MAX && self.received_bytes.load(Ordering::Relaxed) < GREETING_BYTES {
            tracing::debug!("a client did not greet in time");
            return self.drop_client();
        }
        if !self.unwritten.is_pending() {
            return;
        }
        let is_stuck = self.answers().iter().any(|answer| answer.check(stall, now));
        if is_stuck || self.unwritten.stands_still(stall, now) {
            tracing::debug!("a connection ends: its client does not read");
            self.drop_client();
        }
    }

    fn drop_client(&self) {
        if !self.abort.is_cancelled() {
            self.traffic.dropped_connections.add(1);
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
pub(super) struct WorkingRequest(Arc<Connection>);

impl Drop for WorkingRequest {
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

    /// A stranger at one of some addresses.
    fn at(address: u8) -> Holder {
        Holder::stranger([10, 0, 0, address].into())
    }

    struct Test {
        connections: Connections,
        traffic: Arc<Traffic>,
    }

    impl Test {
        fn new(most: usize) -> Self {
            Self { connections: Connections::new(most), traffic: Arc::default() }
        }

        fn open(&self, holder: Holder) -> Option<Arc<Connection>> {
            self.connections.open(holder, &self.traffic)
        }

        /// A connection with a call, which a stranger does not complete.
        fn busy(&self, holder: Holder) -> (WorkingRequest, Arc<Connection>) {
            let connection = self.open(holder).expect("a place");
            (connection.begin(), connection)
        }

        /// A connection with a call of somebody who has proven who it is.
        fn working(&self) -> (WorkingRequest, Arc<Connection>) {
            let (call, connection) = self.busy(at(1));
            connection.prove();
            (call, connection)
        }
    }

    fn makes_way(connection: &Connection) -> bool {
        connection.close.is_cancelled()
    }

    #[test]
    fn the_connection_that_was_idle_for_the_longest_time_makes_way() {
        let test = Test::new(2);
        let first = test.open(Holder::Owner).expect("a place");
        let second = test.open(Holder::Owner).expect("a place");
        drop(first.begin());
        let third = test.open(Holder::Owner).expect("a place");
        assert!(makes_way(&second) && !makes_way(&first));
        drop(second);
        let calls = (first.begin(), third.begin());
        assert!(test.open(Holder::Owner).is_none(), "all are in use");
        assert_eq!(test.traffic.connections.get(), 2);
        drop(calls);
        drop(third);
        assert!(test.open(Holder::Owner).is_some());
    }

    #[test]
    fn others_never_take_the_connections_of_the_owner() {
        let test = Test::new(8);
        let others: Vec<_> = (0..6).map(|_| test.working()).collect();
        assert!(test.open(at(1)).is_none(), "what is left is the owner's");
        let owners = [test.busy(Holder::Owner), test.busy(Holder::Owner)];
        assert!(test.open(Holder::Owner).is_none() && test.open(at(1)).is_none(), "all are in use");
        drop(others);
        let idle = test.open(Holder::Owner).expect("a place");
        let calls: Vec<_> = (0..4).map(|_| test.working()).collect();
        let newer = test.open(at(1)).expect("a place");
        newer.prove();
        assert!(test.open(at(1)).is_some());
        assert!(makes_way(&newer) && !makes_way(&idle), "the owner's goes last");
        drop((owners, calls));
    }

    #[test]
    fn strangers_make_way_first_whatever_they_do() {
        let test = Test::new(40);
        let proven = test.working();
        let resting = test.open(at(1)).expect("a place");
        resting.prove();
        // A stranger alone, and more of another address than it may have.
        let alone = test.busy(at(2));
        let crowd: Vec<_> = (0..9).map(|_| test.busy(at(3))).collect();
        assert_eq!(crowd.iter().filter(|(_, stranger)| makes_way(stranger)).count(), 2, "a share is 7 of 30");
        assert!(makes_way(&crowd[0].1) && makes_way(&crowd[1].1), "the oldest go");
        assert!(crowd[0].1.abort.is_cancelled(), "with what they have begun");
        assert_eq!(test.traffic.dropped_connections.get(), 2);
        // Several addresses take every place.
        let crowds: Vec<_> =
            (4..8).flat_map(|address| (0..6).map(move |_| address)).map(|from| test.busy(at(from))).collect();
        let newcomer = test.working();
        assert!(!makes_way(&proven.1) && !makes_way(&resting) && !makes_way(&alone.1) && !makes_way(&newcomer.1));
        // All who have proven themselves find places until nobody else has one.
        let others: Vec<_> = (0..28).map(|_| test.working()).collect();
        assert!(crowds.iter().chain(&crowd).all(|(_, stranger)| makes_way(stranger)));
        assert!(makes_way(&alone.1) && !makes_way(&proven.1));
        assert!(others.iter().all(|(_, other)| !makes_way(other)));
    }

    #[test]
    fn a_network_of_ipv6_is_one_stranger() {
        let address = |text: &str| Holder::stranger(text.parse().expect("an address"));
        assert_eq!(address("2001:db8::1"), address("2001:db8::ffff:1"));
        assert_ne!(address("2001:db8::1"), address("2001:db8:0:1::1"));
        assert_eq!(address("::ffff:10.0.0.7"), at(7));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stranger_sends_its_request_in_few_pieces() {
        let test = Test::new(8);
        let stranger = test.open(at(1)).expect("a place");
        let most = limits::STRANGER_PIECES_MAX;
        assert!((0..most).all(|_| stranger.record_received(1)) && !stranger.record_received(1));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(stranger.record_received(1), "now and then");
        assert!(!stranger.record_received(1));
        drop(stranger.begin());
        assert!((0..most).all(|_| stranger.record_received(1)) && !stranger.record_received(1), "for each request");
        stranger.prove();
        assert!((0..2 * most).all(|_| stranger.record_received(1)));
        assert_eq!(stranger.silent_for(), Duration::ZERO);
    }
}
