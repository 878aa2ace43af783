//! A reader on one connection.

use super::connection::Connection;
use super::statement::Query;
use super::value::Row;
use crate::error::Result;

/// A reader on one connection. It counts statements and the rows that they fetch, because a read must cost what it
/// returns.
pub struct Reader<'a> {
    /// What it reads from.
    pub conn: &'a Connection,
    /// Rows that it fetched.
    pub rows: u64,
    /// Statements that it ran.
    pub statements: u64,
}

impl<'a> Reader<'a> {
    /// Reads on this connection.
    pub fn new(conn: &'a Connection) -> Self {
        Self { conn, rows: 0, statements: 0 }
    }

    /// All rows of a query, which the caller has bounded.
    pub fn all(&mut self, query: Query<'_>) -> Result<Vec<Row>> {
        self.statements += 1;
        let rows = query.all(self.conn)?;
        self.rows += rows.len() as u64;
        Ok(rows)
    }

    /// The row of a query that always has one.
    pub fn always(&mut self, query: Query<'_>) -> Result<Row> {
        self.statements += 1;
        self.rows += 1;
        query.one(self.conn)
    }

    /// The first row of a query.
    pub fn one(&mut self, query: Query<'_>) -> Result<Option<Row>> {
        self.statements += 1;
        let row = query.optional(self.conn)?;
        self.rows += u64::from(row.is_some());
        Ok(row)
    }
}
