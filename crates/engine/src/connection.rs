//! A connection to a database of any engine. Statements run on it through `statement`.

use super::server::ServerConnection;
use super::sqlite;
use super::value::Parameter;
use crate::error::{Error, Result};
use rusqlite::OpenFlags;
use std::any::Any;
use std::path::Path;
use std::time::Duration;

/// Steps of SQLite's machine between two looks whether a statement is to end.
const INTERRUPT_STEPS: i32 = 10_000;

/// A connection, which is used by one thread at a time.
pub enum Connection {
    /// To a file of SQLite.
    Sqlite(rusqlite::Connection),
    /// To a server.
    Server(Box<dyn ServerConnection>),
}

impl Connection {
    /// Opens a file of SQLite.
    pub fn open_file(path: impl AsRef<Path>, flags: OpenFlags) -> Result<Self> {
        Ok(Self::Sqlite(rusqlite::Connection::open_with_flags(path, flags)?))
    }

    /// Opens a file of SQLite, and makes it if it does not exist.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_file(path, OpenFlags::default())
    }

    /// A database of SQLite in memory, for tests.
    #[doc(hidden)]
    pub fn open_in_memory() -> Result<Self> {
        Ok(Self::Sqlite(rusqlite::Connection::open_in_memory()?))
    }

    /// SQLite's connection, for what only SQLite has.
    pub fn sqlite(&self) -> Result<&rusqlite::Connection> {
        match self {
            Self::Sqlite(conn) => Ok(conn),
            Self::Server(_) => Err(Error::Bug("a step for SQLite's files on a connection to a server")),
        }
    }

    /// The connection to a server of this kind, for what only that has.
    pub fn server<T: ServerConnection>(&self) -> Result<&T> {
        let found = match self {
            Self::Sqlite(_) => None,
            Self::Server(server) => {
                let any: &dyn Any = &**server;
                any.downcast_ref()
            }
        };
        found.ok_or(Error::Bug("a step for a server on another connection"))
    }

    /// Gives a connection to SQLite the table of a list.
    pub fn add_lists(&self) -> Result<()> {
        sqlite::add_lists(self.sqlite()?)
    }

    /// Sets a pragma of SQLite.
    pub fn pragma_update(&self, name: &str, value: impl rusqlite::ToSql) -> Result<()> {
        Ok(self.sqlite()?.pragma_update(None, name, value)?)
    }

    /// Sets how long a statement of SQLite waits for a lock.
    pub fn busy_timeout(&self, wait: Duration) -> Result<()> {
        Ok(self.sqlite()?.busy_timeout(wait)?)
    }

    /// Runs several statements without parameters.
    pub fn execute_batch(&self, statements: &str) -> Result<()> {
        match self {
            Self::Sqlite(conn) => Ok(conn.execute_batch(statements)?),
            Self::Server(server) => server.execute_batch(statements),
        }
    }

    /// Begins a transaction that writes, from its first statement on, on a connection to SQLite.
    pub(super) fn begin_immediate(&self) -> Result<()> {
        sqlite::changed(self.sqlite()?, "begin immediate", &[]).map(drop)
    }

    /// Commits a transaction without events.
    pub(super) fn commit(&self) -> Result<()> {
        match self {
            Self::Sqlite(conn) => sqlite::changed(conn, "commit", &[]).map(drop),
            Self::Server(server) => server.commit(),
        }
    }

    /// Sends what was queued, for what follows to find it.
    pub fn send_queued(&self) -> Result<()> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Server(server) => server.send_queued(),
        }
    }

    /// Reads the answers to a read with each of these values at once, where statements travel. Each is there once, for the next
    /// query with its values, and all are forgotten with whatever changes something.
    pub fn read_ahead(&self, sql: &'static str, keys: &[Vec<Parameter<'_>>]) -> Result<()> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Server(server) => server.read_ahead(sql, keys),
        }
    }

    /// Messages to a server that were answered, each after a wait.
    #[doc(hidden)]
    pub fn round_trips(&self) -> u64 {
        match self {
            Self::Sqlite(_) => 0,
            Self::Server(server) => server.round_trips(),
        }
    }

    /// True if what is read ahead saves time, although more is read then.
    pub fn reads_ahead(&self) -> bool {
        matches!(self, Self::Server(_))
    }

    /// Makes tables, indexes and triggers.
    pub fn make_schema(&self, statements: &str) -> Result<()> {
        match self {
            Self::Sqlite(conn) => Ok(conn.execute_batch(statements)?),
            Self::Server(server) => server.make_schema(statements),
        }
    }

    /// Has a statement of SQLite end with an error once this is true; none runs after that.
    pub fn interrupt_when(&self, is_ended: impl FnMut() -> bool + Send + 'static) -> Result<()> {
        Ok(self.sqlite()?.progress_handler(INTERRUPT_STEPS, Some(is_ended))?)
    }

    /// Undoes the transaction.
    pub fn roll_back(&self) -> Result<()> {
        match self {
            Self::Sqlite(conn) => sqlite::changed(conn, "rollback", &[]).map(drop),
            Self::Server(server) => server.roll_back(),
        }
    }

    /// Begins a transaction, which is undone unless it is committed.
    pub fn transaction(&self) -> Result<Transaction<'_>> {
        match self {
            Self::Sqlite(conn) => sqlite::changed(conn, "begin", &[]).map(drop)?,
            Self::Server(server) => server.begin()?,
        }
        Ok(Transaction { conn: self, is_open: true })
    }

    /// False for a connection that is in a transaction, or lost.
    pub fn is_idle(&self) -> bool {
        match self {
            Self::Sqlite(conn) => conn.is_autocommit(),
            Self::Server(server) => server.is_idle(),
        }
    }

    /// The number of rows that were changed on a connection to SQLite.
    pub fn total_changes(&self) -> Result<u64> {
        Ok(self.sqlite()?.total_changes())
    }

    /// Closes the connection.
    pub fn close(self) -> Result<()> {
        match self {
            Self::Sqlite(conn) => conn.close().map_err(|(_, error)| error.into()),
            Self::Server(server) => server.close(),
        }
    }
}

/// A transaction, which is undone when it is dropped.
pub struct Transaction<'c> {
    conn: &'c Connection,
    is_open: bool,
}

impl Transaction<'_> {
    /// Commits it.
    pub fn commit(mut self) -> Result<()> {
        self.is_open = false;
        self.conn.commit()
    }

    /// Undoes it. One that failed may have ended by itself.
    pub fn roll_back(mut self) -> Result<()> {
        self.is_open = false;
        self.conn.roll_back()
    }
}

impl std::ops::Deref for Transaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.conn
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if self.is_open && !self.conn.is_idle() {
            // Nobody is there for an error, and the connection is used no more if it is left in a transaction.
            drop(self.conn.roll_back());
        }
    }
}
