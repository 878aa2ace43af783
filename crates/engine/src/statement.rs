//! Statements: values in, rows out, on a connection to any engine.

use super::connection::Connection;
use super::sqlite;
use super::value::{FromValue, IntoValue, Parameter, Row};
use crate::error::{Error, Result};
use std::marker::PhantomData;

/// A statement with the values of its parameters `?1`, `?2` and so on, or of its `?`, in order.
#[must_use]
pub struct Query<'q> {
    sql: &'q str,
    values: Vec<Parameter<'q>>,
}

/// A statement.
pub fn query(sql: &str) -> Query<'_> {
    Query { sql, values: Vec::new() }
}

impl<'q> Query<'q> {
    /// Adds the value of the next parameter.
    pub fn bind(mut self, value: impl IntoValue<'q>) -> Self {
        self.values.push(value.into_value());
        self
    }

    /// Adds the values of the next parameters.
    pub(super) fn bind_all(mut self, values: impl IntoIterator<Item = Parameter<'q>>) -> Self {
        self.values.extend(values);
        self
    }

    /// Calls `each` with all rows, until it returns false. Rows before one that cannot be read were given to `each`. A
    /// statement that may write is run to its end in any case: its constraints are checked and its changes are committed
    /// behind its last row, and only then it can fail.
    pub fn for_each(self, conn: &Connection, mut each: impl FnMut(Row) -> bool) -> Result<()> {
        match conn {
            Connection::Sqlite(conn) => sqlite::for_each(conn, self.sql, &self.values, each),
            Connection::Server(server) => server.for_each(self.sql, &self.values, &mut each),
        }
    }

    /// All rows. The statement must bound their number.
    pub fn all(self, conn: &Connection) -> Result<Vec<Row>> {
        let mut all = Vec::new();
        self.for_each(conn, |row| {
            all.push(row);
            true
        })?;
        Ok(all)
    }

    /// The first row, if there is one.
    pub fn optional(self, conn: &Connection) -> Result<Option<Row>> {
        let mut first = None;
        let mut each = |row| {
            first = Some(row);
            false
        };
        match conn {
            Connection::Sqlite(conn) => sqlite::for_each(conn, self.sql, &self.values, each)?,
            Connection::Server(server) => server.first(self.sql, &self.values, &mut each)?,
        }
        Ok(first)
    }

    /// The first row of a statement that always has one.
    pub fn one(self, conn: &Connection) -> Result<Row> {
        self.optional(conn)?.ok_or(Error::Bug("a statement that always has a row returned none"))
    }

    /// Runs a statement without rows, whose number of changed rows does not matter.
    pub fn run(self, conn: &Connection) -> Result<()> {
        self.changed(conn).map(drop)
    }

    /// Runs a statement without rows. Returns the number of rows that it changed.
    pub fn changed(self, conn: &Connection) -> Result<usize> {
        match conn {
            Connection::Sqlite(conn) => sqlite::changed(conn, self.sql, &self.values),
            Connection::Server(server) => server.changed(self.sql, &self.values),
        }
    }
}

/// A statement whose rows have one column of interest, the first.
#[must_use]
pub struct Scalar<'q, T> {
    query: Query<'q>,
    value: PhantomData<T>,
}

/// The bound of a page by descending keys: below the last key of the page before, if there was one.
pub fn below(key: Option<i64>) -> i64 {
    key.unwrap_or(i64::MAX)
}

/// A statement of which only the first column is read.
pub fn scalar<T>(sql: &str) -> Scalar<'_, T> {
    Scalar { query: query(sql), value: PhantomData }
}

impl<'q, T: for<'r> FromValue<'r>> Scalar<'q, T> {
    /// Adds the value of the next parameter.
    pub fn bind(self, value: impl IntoValue<'q>) -> Self {
        Self { query: self.query.bind(value), ..self }
    }

    /// The values of all rows. The statement must bound their number.
    pub fn all(self, conn: &Connection) -> Result<Vec<T>> {
        self.query.all(conn)?.iter().map(|row| row.get(0)).collect()
    }

    /// The value of the first row, if there is one.
    pub fn optional(self, conn: &Connection) -> Result<Option<T>> {
        self.query.optional(conn)?.map(|row| row.get(0)).transpose()
    }

    /// The value of the first row of a statement that always has one.
    pub fn one(self, conn: &Connection) -> Result<T> {
        self.query.one(conn)?.get(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_that_fails_behind_its_row_fails() {
        let conn = Connection::open_in_memory().expect("a database");
        let schema = "pragma foreign_keys = on; create table a (id integer primary key); \
             create table b (id integer primary key, a integer references a (id))";
        conn.execute_batch(schema).expect("tables");
        conn.execute_batch("begin").expect("a transaction");
        let row = query("insert into b (a) values (7) returning id").optional(&conn);
        assert!(matches!(row, Err(Error::Database(_))), "the row that it refers to is not there");
    }

    #[test]
    fn values_of_another_type_are_corrupt() {
        let conn = Connection::open_in_memory().expect("a database");
        let row = query("select 1 as a, 'text' as b, null as c, x'ff' as d").one(&conn).expect("a row");
        assert_eq!(row.get::<i64>("a").expect("a number"), 1);
        assert_eq!(row.get::<Option<&str>>(1).expect("a text"), Some("text"));
        assert_eq!(row.get::<Option<i64>>("c").expect("nothing"), None);
        for wrong in [row.get::<i64>("b").map(drop), row.get::<&str>(3).map(drop), row.get::<i64>("c").map(drop)] {
            assert!(matches!(wrong, Err(Error::Corrupt { .. })), "{wrong:?}");
        }
    }
}
