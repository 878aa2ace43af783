//! A connection to a server, as statements and transactions see it. SQLite is a library, and called directly.

use super::value::{Parameter, Row};
use crate::error::Result;
use std::any::Any;

/// A connection to a server, for one thread at a time. Statements are written for SQLite, and the implementation
/// translates them. The index of words is a table of postings, `search (word, row_id)`.
pub trait ServerConnection: Any + Send {
    /// Calls `each` with all rows of a statement, until it returns false; the statement is run to its end.
    fn for_each(&self, sql: &str, values: &[Parameter<'_>], each: &mut dyn FnMut(Row) -> bool) -> Result<()>;

    /// Calls `each` with the first row of a statement.
    fn first(&self, sql: &str, values: &[Parameter<'_>], each: &mut dyn FnMut(Row) -> bool) -> Result<()>;

    /// Runs a statement without rows. Returns the number of rows that it changed.
    fn changed(&self, sql: &str, values: &[Parameter<'_>]) -> Result<usize>;

    /// Runs several statements without parameters, in the server's own dialect.
    fn execute_batch(&self, statements: &str) -> Result<()>;

    /// Makes tables, indexes and triggers.
    fn make_schema(&self, statements: &str) -> Result<()>;

    /// Inserts rows. `into` is what stands behind `insert into`, the table with its columns, and `conflict` the clause for a
    /// row whose key exists. Within a transaction they are sent with what follows.
    fn insert(&self, into: &'static str, conflict: &'static str, rows: &[Vec<Parameter<'_>>]) -> Result<()>;

    /// Runs an update of one row for each of these values. Within a transaction they are sent with what follows.
    fn update(&self, sql: &'static str, rows: &[Vec<Parameter<'_>>]) -> Result<()>;

    /// Sends what was queued, for what follows to find it.
    fn send_queued(&self) -> Result<()>;

    /// Reads the answers to a read with each of these values at once. Each is there once, for the next query with its values,
    /// and all are forgotten with whatever changes something.
    fn read_ahead(&self, sql: &'static str, keys: &[Vec<Parameter<'_>>]) -> Result<()>;

    /// Begins a transaction.
    fn begin(&self) -> Result<()>;

    /// Commits a transaction without events.
    fn commit(&self) -> Result<()>;

    /// Undoes the transaction.
    fn roll_back(&self) -> Result<()>;

    /// False for a connection that is in a transaction, or lost.
    fn is_idle(&self) -> bool;

    /// The statement whose row says whether there is a table of a name.
    fn has_table(&self) -> &'static str;

    /// The statement with the name and the version of the server.
    fn version(&self) -> &'static str;

    /// The statement with the bytes of the tables.
    fn used_bytes(&self) -> &'static str;

    /// Suspends foreign keys and triggers while rows are copied into the database.
    fn begin_copy(&self) -> Result<()>;

    /// Ends a copy: from now on the database protects its rows again.
    fn end_copy(&self) -> Result<()>;

    /// Messages to the server that were answered, each after a wait.
    fn round_trips(&self) -> u64;

    /// Closes the connection.
    fn close(self: Box<Self>) -> Result<()>;
}
