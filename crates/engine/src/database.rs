//! What an engine does for a store beside statements: before it is opened, while this process alone may write it, and for
//! its writer and its readers. SQLite's is `file_store`.

use super::connect::Durability;
use super::connection::Connection;
use super::health::Health;
use super::readers::Readers;
use crate::clock::Clock;
use crate::error::{DiskFailure, Error, Result};
use crate::model::Seq;
use crate::write_state::WriteState;
use std::fmt::Debug;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Gives a store a new identity, in a transaction of the caller.
pub type BeginAnew = Box<dyn Fn(&Connection) -> Result<()> + Send>;

/// A place that daemons own by turns, by a lease. All of it blocks, in a thread without a runtime.
pub trait LeasedPlace: Debug + Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// Makes what it needs, and takes the lease, once; none while another owner has it. From then on the lease is renewed
    /// until the store is dropped.
    fn take_lease(&self, owner: String, ttl: Duration) -> Result<Option<Box<dyn HeldStore>>>;

    /// Connects to read what is there, whoever has it, and makes nothing.
    fn look(&self) -> Result<Look>;

    /// Connects to read the store that is set aside.
    fn connect_aside(&self) -> Result<Connection>;
}

/// A look into a place.
pub struct Look {
    /// A connection to what is there.
    pub conn: Connection,
    /// The place, by a name that does not depend on how it was given.
    pub name: String,
    /// Where the store of the place is once it is set aside.
    pub aside: String,
    /// True if a store is set aside there.
    pub has_aside: bool,
}

/// A store, or room for one, that this process alone may write.
pub trait HeldStore: Send {
    /// The connection that writes.
    fn connection(&self) -> &Connection;

    /// Checks what is there, and brings its schema up to date.
    fn prepare(&self, clock: &Clock) -> Result<()>;

    /// Compares the newest event with what the engine knows. A copy of another store, or one that may lack acknowledged
    /// events, gets a new identity.
    fn settle(&self, newest: Seq, begin_anew: &dyn Fn(&Connection) -> Result<()>) -> Result<()>;

    /// Opens what writes and what reads it, with this number of readers. The store is complete.
    fn serve(
        self: Box<Self>,
        readers: usize,
        clock: &Clock,
        health: Arc<Health>,
        begin_anew: BeginAnew,
    ) -> Result<ServedStore>;

    /// What gives back a store that could not be opened.
    fn giving_back(&self) -> Box<dyn FnOnce() -> Result<()> + Send>;

    /// Removes all that is there, within a transaction of the caller.
    fn clear(&self) -> Result<()>;

    /// Moves every commit from the log into the file.
    fn empty_log(&self) -> Result<()>;

    /// The way to verify a copy that was made here.
    fn verified_by(&self) -> VerifiedBy;

    /// Sets the store aside, with a last change, in one step behind which no daemon serves it. Returns what still keeps
    /// daemons out of its place.
    fn set_aside(self: Box<Self>, newest: Seq, change: &dyn Fn(&Connection) -> Result<()>) -> Result<Option<File>>;

    /// Ends with a last change, in one step, what was made here: from now on daemons serve it.
    fn complete(self: Box<Self>, newest: Seq, change: &dyn Fn(&Connection) -> Result<()>) -> Result<()>;
}

/// The way to verify a copy.
pub enum VerifiedBy {
    /// Its file, whose pages are checked too.
    File(PathBuf),
    /// A connection that reads it.
    Readers(Readers),
}

/// A store that is served.
pub struct ServedStore {
    /// For the writer alone.
    pub database: Box<dyn Database>,
    /// For everybody who shares the store.
    pub engine: Arc<dyn Engine>,
    /// The connections that read.
    pub readers: Readers,
}

/// The engine of a store that is served.
pub trait Engine: Send + Sync {
    /// True for a store that another daemon can take; files are this one's until it ends.
    fn is_leased(&self) -> bool;

    /// An error if another daemon may own the store by now.
    fn check_owned(&self) -> Result<()>;

    /// The kind of crash that an acknowledged write survives, by the newest settings.
    fn durability(&self) -> Durability;

    /// The names of the files that are cleaned of what was erased.
    fn cleaned_files(&self) -> Vec<String>;

    /// Places that may keep erased bytes for a while and that nothing here can clean.
    fn keeps_erased(&self) -> &'static [&'static str];

    /// Bytes of its files; none if the server has them.
    fn file_bytes(&self) -> Option<i64>;

    /// Bytes of the write-ahead log; 0 if the server has it.
    fn log_bytes(&self) -> i64;

    /// A connection for a copy of the whole store, beside those that read.
    fn connect_for_copy(&self) -> Result<Connection>;
}

/// The database of a store, for its writer. It reports the state of writes to the health that it was opened with. Once
/// that state is final, the only call is `close`.
pub trait Database: Send {
    /// The connection that writes.
    fn connection(&self) -> &Connection;

    /// The time between two checks.
    fn check_interval(&self) -> Duration;

    /// Checks that the store, whose newest event has this number, is still where a restart would find it, and connects again
    /// if the connection was lost.
    fn check(&mut self, newest: Seq);

    /// Begins the transaction of a batch: the only one that writes, from its first statement on.
    fn begin(&self) -> Result<()>;

    /// Commits the transaction of a batch. `before` is the number of the newest event before it, and `newest` the one behind
    /// it. Nothing of it is there after an error, unless that is `Uncertain`. After `Unreachable` there may be a connection
    /// again.
    fn commit(&mut self, before: Seq, newest: Seq) -> Result<()>;

    /// True once after a commit that only one server has, although a standby should have it too.
    fn was_doubted(&self) -> bool;

    /// Undoes a transaction that failed, before which the newest event has this number. Returns the error that describes its
    /// state.
    fn give_up(&mut self, error: Error, before: Seq, was_committing: bool) -> Error;

    /// Does what follows a batch with so many bytes of content.
    fn batch_ended(&mut self, bytes: usize);

    /// Makes one step to take what was erased out of what the store is kept in.
    fn clean(&mut self) -> Result<CleaningProgress>;

    /// Gives free room back to the system: much while `goes_on`, else a little.
    fn shrink(&mut self, goes_on: &dyn Fn() -> bool);

    /// Closes the connection, behind a last check.
    fn close(self: Box<Self>);
}

/// What a step of cleaning has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CleaningProgress {
    /// The next step can follow at once.
    Partly,
    /// A reader still needs what was erased.
    Blocked,
    /// Nothing is left.
    Fully,
    /// This program cannot clean, and what is left stays.
    Unable,
}

/// Records what an error, behind which the transaction was undone, says of the state of writes. Returns the error for those
/// whose writes were in it. SQLite rolls back cleanly if a disk is full or takes no writes: the next commit overwrites the
/// written part of the log. After a failed sync the log may contain the commit, and the result of a later sync proves
/// nothing about it.
pub fn note_failure(health: &Health, error: Error, was_committing: bool, is_read_only: impl FnOnce() -> bool) -> Error {
    let (state, reply_error) = match error {
        Error::Full => (WriteState::StorageFull, Error::Full),
        Error::ReadOnly => (WriteState::StorageReadOnly, Error::ReadOnly),
        Error::Disk(DiskFailure { may_be_of_sync: false, .. }) if is_read_only() => {
            (WriteState::StorageReadOnly, Error::ReadOnly)
        }
        Error::Disk(_) => {
            tracing::error!(%error, "the disk failed");
            let reply_error = if was_committing { Error::Uncertain } else { Error::Stopped(WriteState::DiskFailed) };
            (WriteState::DiskFailed, reply_error)
        }
        Error::Stopped(state) => (state, error),
        _ => return error,
    };
    health.set(state);
    reply_error
}
