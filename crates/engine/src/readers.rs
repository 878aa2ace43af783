//! The pool of connections that read. A read is a synchronous function of a connection: it has all its rows before it
//! returns, so that none holds a connection while something else is waited for. Those who wait for one take turns by
//! tenant and access token.

use super::connection::Connection;
use super::figures::{ReadMeter, RunningRead};
use crate::Reader;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::limits;
use crate::turns::{self, Gate, Pass};
use rusqlite::InterruptHandle;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio_util::sync::CancellationToken;

/// Steps of SQLite's machine between two looks whether somebody still waits for a read.
const PROGRESS_STEPS: i32 = 10_000;

type OpenReader = Box<dyn Fn() -> Result<Connection> + Send + Sync>;
/// An error if another daemon may own the store.
pub type CheckOwned = Arc<dyn Fn() -> Result<()> + Send + Sync>;

/// The pool.
pub struct Readers {
    /// One pass for each connection, of the pool or borrowed.
    gate: Arc<Gate>,
    free: Mutex<Vec<Connection>>,
    open: OpenReader,
    /// Rows that were read, and statements that were run for it.
    rows: AtomicU64,
    statements: AtomicU64,
    meter: ReadMeter,
    /// Of a store that daemons own by turns.
    check_owned: Option<CheckOwned>,
}

impl Readers {
    /// Opens this number of connections now: later there may be no file descriptors left.
    pub fn new(count: usize, clock: Clock, open: OpenReader) -> Result<Self> {
        let free = (0..count).map(|_| open()).collect::<Result<Vec<_>>>()?;
        let meter = ReadMeter::new(clock);
        let (rows, statements) = Default::default();
        Ok(Self { gate: Gate::new(count), free: Mutex::new(free), open, rows, statements, meter, check_owned: None })
    }

    /// A pool that connects when it reads.
    pub fn lazy(count: usize, clock: Clock, open: OpenReader) -> Self {
        let (free, rows, statements) = Default::default();
        let (gate, meter) = (Gate::new(count), ReadMeter::new(clock));
        Self { gate, free, open, rows, statements, meter, check_owned: None }
    }

    /// A pool of connections to a server, which reads only what this daemon owns. It connects when it reads.
    pub fn of_owned(count: usize, clock: Clock, open: OpenReader, check_owned: CheckOwned) -> Self {
        Self { check_owned: Some(check_owned), ..Self::lazy(count, clock, open) }
    }

    /// Reads with a free connection. Each statement sees the commits until then. Other tasks of the runtime go on
    /// meanwhile, if it has several threads.
    pub async fn reading<T>(&self, read: impl FnOnce(&mut Reader<'_>) -> Result<T>) -> Result<T> {
        let mut borrowed = self.acquire().await?;
        match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(|| borrowed.read(read)),
            _ => borrowed.read(read),
        }
    }

    /// Reads a few rows that an index leads to, in the task's own thread: to let other tasks go on would take longer.
    pub async fn brief<T>(&self, read: impl FnOnce(&mut Reader<'_>) -> Result<T>) -> Result<T> {
        // A round trip to a server would keep the other tasks of the thread waiting.
        if self.check_owned.is_some() {
            return self.reading(read).await;
        }
        self.acquire().await?.read(read)
    }

    /// Reads in one snapshot: later commits are not visible. A read of content takes a row and then its blob, which an erasure
    /// may have taken meanwhile.
    pub async fn snapshot<T>(&self, read: impl FnOnce(&mut Reader<'_>) -> Result<T>) -> Result<T> {
        self.reading(|reader| {
            let transaction = reader.conn.transaction()?;
            let answer = read(reader);
            // A failed transaction may have ended by itself.
            let ended = transaction.roll_back();
            let answer = answer?;
            ended?;
            Ok(answer)
        })
        .await
    }

    /// Reads with a free connection to SQLite what may take long, in a task of its own. It is interrupted if nobody waits for
    /// it any more.
    pub async fn interruptible<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&mut Reader<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let interrupt = Arc::new(Interrupt::default());
        let _left = InterruptOnDrop(Arc::clone(&interrupt));
        let readers = Arc::clone(self);
        let reading = tokio::spawn(async move {
            let mut borrowed = tokio::select! {
                biased;
                () = interrupt.left.cancelled() => return Err(Error::Closed),
                borrowed = readers.acquire() => borrowed?,
            };
            let run = || {
                borrowed.read(|reader| {
                    interrupt.begin(reader.conn.sqlite()?)?;
                    let answer = if interrupt.left.is_cancelled() { Err(Error::Closed) } else { read(reader) };
                    // The connection is another read's from here on.
                    interrupt.end(reader.conn.sqlite()?)?;
                    answer
                })
            };
            match Handle::current().runtime_flavor() {
                RuntimeFlavor::MultiThread => tokio::task::block_in_place(run),
                _ => run(),
            }
        });
        reading.await.map_err(|_| Error::Bug("a read ended in a panic"))?
    }

    /// A connection beside the pool.
    pub fn connect(&self) -> Result<Connection> {
        (self.open)()
    }

    /// Rows that were read since the pool was opened.
    pub fn rows_read(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Statements that were run since the pool was opened.
    pub fn statements_run(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }

    /// Age of the oldest read in progress, in milliseconds; 0 without one.
    pub fn oldest_read_ms(&self) -> i64 {
        self.meter.oldest_ms()
    }

    /// Borrows a connection, when one is free, or the right to open one.
    async fn acquire(&self) -> Result<BorrowedConnection<'_>> {
        let wait = Duration::from_millis(limits::READER_WAIT_MS);
        let pass = tokio::time::timeout(wait, self.gate.pass(&turns::share()))
            .await
            .map_err(|_| Error::Busy("no reader was free in time"))?;
        // The pool is closed when the daemon stops, before its last calls have ended.
        let pass = pass.ok_or(Error::Closed)?;
        let conn = self.free().pop();
        Ok(BorrowedConnection { readers: self, conn, _running: self.meter.begin(), _pass: pass })
    }

    /// Closes the pool and its connections; a borrowed one is closed when it returns.
    pub fn close(&self) {
        self.gate.close();
        self.free().clear();
    }

    fn check_owned(&self) -> Result<()> {
        self.check_owned.as_ref().map_or(Ok(()), |check| check())
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a read that goes on is ended.
#[derive(Default)]
struct Interrupt {
    left: CancellationToken,
    handle: Mutex<Option<InterruptHandle>>,
}

impl Interrupt {
    fn handle(&self) -> MutexGuard<'_, Option<InterruptHandle>> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An interrupt between two statements would be lost, and a virtual table asks no progress handler: so there are both.
    fn begin(&self, conn: &rusqlite::Connection) -> Result<()> {
        *self.handle() = Some(conn.get_interrupt_handle());
        let left = self.left.clone();
        Ok(conn.progress_handler(PROGRESS_STEPS, Some(move || left.is_cancelled()))?)
    }

    fn end(&self, conn: &rusqlite::Connection) -> Result<()> {
        *self.handle() = None;
        Ok(conn.progress_handler(0, None::<fn() -> bool>)?)
    }
}

/// Whoever waits for a read.
struct InterruptOnDrop(Arc<Interrupt>);

impl Drop for InterruptOnDrop {
    fn drop(&mut self) {
        self.0.left.cancel();
        if let Some(handle) = &*self.0.handle() {
            handle.interrupt();
        }
    }
}

/// A borrowed connection. It returns to the pool unless it is left in a transaction, in which every later read would see
/// the same old snapshot.
struct BorrowedConnection<'p> {
    readers: &'p Readers,
    /// None before the first read if none was free: a server may be long in answering, for which the read waits as for its
    /// rows.
    conn: Option<Connection>,
    _running: RunningRead<'p>,
    _pass: Pass<'p>,
}

impl BorrowedConnection<'_> {
    fn read<T>(&mut self, read: impl FnOnce(&mut Reader<'_>) -> Result<T>) -> Result<T> {
        if self.conn.is_none() {
            self.readers.check_owned()?;
            self.conn = Some((self.readers.open)()?);
        }
        let mut reader = Reader::new(self.conn.as_ref().ok_or(Error::Closed)?);
        let answer = read(&mut reader);
        self.readers.rows.fetch_add(reader.rows, Ordering::Relaxed);
        self.readers.statements.fetch_add(reader.statements, Ordering::Relaxed);
        if matches!(answer, Err(Error::Unreachable(_))) {
            // The others were probably lost with it.
            self.readers.free().clear();
        }
        // What was read while the store was owned at its end was the newest state.
        self.readers.check_owned()?;
        answer
    }
}

impl Drop for BorrowedConnection<'_> {
    fn drop(&mut self) {
        if let Some(conn) = self.conn.take()
            && conn.is_idle()
            && !self.readers.gate.is_closed()
        {
            self.readers.free().push(conn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    use crate::turns::{Share, Turns};
    use futures::FutureExt as _;

    fn endless(reader: &Reader<'_>) -> Result<i64> {
        let query = "with recursive n (x) as (select 1 union all select x + 1 from n) select count(*) from n";
        crate::scalar(query).one(reader.conn)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_read_that_nobody_waits_for_frees_its_connection() {
        let readers = Readers::new(1, Clock::default(), Box::new(Connection::open_in_memory)).expect("a connection");
        let readers = Arc::new(readers);
        let (begun, begins) = oneshot::channel();
        let waiting = tokio::spawn({
            let readers = Arc::clone(&readers);
            async move {
                let read = |reader: &mut Reader<'_>| {
                    let _ = begun.send(());
                    endless(reader)
                };
                readers.interruptible(read).await
            }
        });
        begins.await.expect("it runs");
        waiting.abort();
        let read = readers.interruptible(|reader| crate::scalar::<i64>("select 7").one(reader.conn));
        assert_eq!(read.await.expect("the connection is free"), 7);
        // One that has not begun yet never does.
        let held = readers.acquire().await.expect("the connection");
        let second = tokio::spawn({
            let readers = Arc::clone(&readers);
            async move { readers.interruptible(|reader| endless(reader)).await }
        });
        second.abort();
        drop(held);
        assert_eq!(readers.brief(|reader| crate::scalar::<i64>("select 8").one(reader.conn)).await.expect("free"), 8);
    }

    #[tokio::test]
    async fn a_tenant_has_the_next_reader_but_one_whatever_another_one_waits_for() {
        let readers = Readers::lazy(1, Clock::default(), Box::new(|| Err(Error::Closed)));
        let turns = Turns::new(1, 1, 10_000);
        let waiting = |tenant: &str| {
            let turn = turns.begin(&Share::new(tenant.into(), "token".into())).expect("room");
            let mut waiting = Box::pin(turn.take_turns(readers.acquire()));
            assert!((&mut waiting).now_or_never().is_none(), "it waits");
            waiting
        };
        let held = readers.acquire().await.expect("the reader");
        let mut of_loud: Vec<_> = (0..1_000).map(|_| waiting("loud")).collect();
        let of_quiet = waiting("quiet");
        drop(held);
        drop(of_loud.remove(0).now_or_never().expect("its turn"));
        assert!(of_quiet.now_or_never().expect("the next turn").is_ok());
        assert!(of_loud.remove(0).now_or_never().expect("the first one's again").is_ok());
    }
}
