//! A connection to a database of either engine. Statements run on it through `statement`.

use super::postgres::client::Client;
use super::sqlite;
use super::value::Parameter;
use crate::error::{Error, Result};
use crate::model::Seq;
use rusqlite::OpenFlags;
use std::path::Path;
use std::time::Duration;

/// A connection, which is used by one thread at a time.
pub enum Connection {
    /// To a file of SQLite.
    Sqlite(rusqlite::Connection),
    /// To a server of PostgreSQL.
    Postgres(Box<Client>),
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
            Self::Postgres(_) => Err(Error::Bug("a step for SQLite's files on a connection to PostgreSQL")),
        }
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
            Self::Postgres(client) => client.execute_batch(statements),
        }
    }

    /// Begins the transaction of a batch of mutations: the only one that writes, from its first statement on.
    pub fn begin_batch(&self) -> Result<()> {
        match self {
            Self::Sqlite(conn) => sqlite::changed(conn, "begin immediate", &[]).map(drop),
            Self::Postgres(client) => {
                // A doubt about something else is nobody's who commits now.
                client.was_doubted();
                client.begin()
            }
        }
    }

    /// Commits a transaction without events.
    fn commit(&self) -> Result<()> {
        match self {
            Self::Sqlite(conn) => sqlite::changed(conn, "commit", &[]).map(drop),
            Self::Postgres(client) => client.commit(None),
        }
    }

    /// Does what can be done before the commit of a batch, behind which the newest event is the one with this number.
    pub fn before_commit(&self, head: Seq) -> Result<()> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(client) => client.before_commit(head),
        }
    }

    /// Commits the transaction of a batch, behind which the newest event is the one with this number.
    pub fn commit_batch(&self, head: Seq) -> Result<()> {
        match self {
            Self::Sqlite(conn) => sqlite::changed(conn, "commit", &[]).map(drop),
            Self::Postgres(client) => client.commit(Some(head)),
        }
    }

    /// True once after a commit that is there and may be lost with its server, although others should have it too.
    pub fn was_doubted(&self) -> bool {
        match self {
            Self::Sqlite(_) => false,
            Self::Postgres(client) => client.was_doubted(),
        }
    }

    /// Notes that the last commit is doubted.
    pub fn doubt(&self) {
        if let Self::Postgres(client) = self {
            client.doubt();
        }
    }

    /// Notes on which server the newest event is, in one transaction with what `change` writes.
    pub fn note_server(&self, change: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        let transaction = self.transaction()?;
        change(&transaction)?;
        if let Self::Postgres(client) = self {
            client.note_server()?;
        }
        transaction.commit()
    }

    /// Gives the lease of a shard back.
    pub fn release(&self) -> Result<()> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(client) => client.release(),
        }
    }

    /// The number of the newest event by the row of the shard that a connection owns.
    pub fn leased_head(&self) -> Option<Seq> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(client) => client.leased_head(),
        }
    }

    /// Sends what was queued, for what follows to find it.
    pub fn send_queued(&self) -> Result<()> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(client) => client.flush(),
        }
    }

    /// Reads the answers to a read with each of these values at once, where statements travel. Each is there once, for the next
    /// query with its values, and all are forgotten with whatever changes something.
    pub fn read_ahead(&self, sql: &'static str, keys: &[Vec<Parameter<'_>>]) -> Result<()> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(client) => client.read_ahead(sql, keys),
        }
    }

    /// Messages to a server that were answered, each after a wait.
    #[doc(hidden)]
    pub fn round_trips(&self) -> u64 {
        match self {
            Self::Sqlite(_) => 0,
            Self::Postgres(client) => client.round_trips(),
        }
    }

    /// True for a connection to SQLite.
    pub fn is_sqlite(&self) -> bool {
        matches!(self, Self::Sqlite(_))
    }

    /// Undoes the transaction.
    pub fn roll_back(&self) -> Result<()> {
        match self {
            Self::Sqlite(conn) => sqlite::changed(conn, "rollback", &[]).map(drop),
            Self::Postgres(client) => client.roll_back(),
        }
    }

    /// Begins a transaction, which is undone unless it is committed.
    pub fn transaction(&self) -> Result<Transaction<'_>> {
        match self {
            Self::Sqlite(conn) => sqlite::changed(conn, "begin", &[]).map(drop)?,
            Self::Postgres(client) => client.begin()?,
        }
        Ok(Transaction { conn: self, is_open: true })
    }

    /// False for a connection that is in a transaction, or lost.
    pub fn is_idle(&self) -> bool {
        match self {
            Self::Sqlite(conn) => conn.is_autocommit(),
            Self::Postgres(client) => client.is_idle(),
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
            Self::Postgres(client) => {
                client.release()?;
                client.close()
            }
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
