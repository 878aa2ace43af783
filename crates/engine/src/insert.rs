//! Inserts of many rows, which go to the database in as few statements as its parameters allow.

use super::connection::Connection;
use super::statement::query;
use super::value::Parameter;
use crate::error::Result;
use std::sync::OnceLock;

/// Rows of one statement, largest first. A few sizes keep the number of prepared statements small; the largest is within
/// SQLite's limit of 32 766 parameters for any table here.
const SIZES: [usize; 3] = [64, 8, 1];

/// An insert into a table.
pub struct Insert {
    /// The table with its columns, as after `insert into`.
    into: &'static str,
    columns: usize,
    /// The clause for a row whose key exists; empty: that is an error.
    conflict: &'static str,
    /// The statements for `SIZES`.
    texts: OnceLock<[String; SIZES.len()]>,
}

impl Insert {
    /// An insert into a table with this number of columns.
    pub const fn new(into: &'static str, columns: usize, conflict: &'static str) -> Self {
        Self { into, columns, conflict, texts: OnceLock::new() }
    }

    /// The number of its columns.
    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// The statement for this number of rows.
    pub fn text(&self, rows: usize) -> String {
        let Self { into, columns, conflict, .. } = self;
        let row = |row: usize| {
            let parameters: Vec<String> = (1..=*columns).map(|column| format!("?{}", row * columns + column)).collect();
            format!("({})", parameters.join(", "))
        };
        let values: Vec<String> = (0..rows).map(row).collect();
        let conflict = if conflict.is_empty() { String::new() } else { format!(" {conflict}") };
        format!("insert into {into} values {}{conflict}", values.join(", "))
    }

    /// Inserts rows, each with a value for each column.
    pub fn rows<'v>(&self, conn: &Connection, rows: impl IntoIterator<Item = Vec<Parameter<'v>>>) -> Result<()> {
        let mut rows: Vec<Vec<Parameter<'v>>> = rows.into_iter().collect();
        if let Connection::Server(server) = conn {
            return server.insert(self.into, self.conflict, &rows);
        }
        let texts = self.texts.get_or_init(|| SIZES.map(|size| self.text(size)));
        for (text, size) in texts.iter().zip(SIZES) {
            while rows.len() >= size {
                let behind = rows.split_off(size);
                query(text).bind_all(std::mem::replace(&mut rows, behind).into_iter().flatten()).run(conn)?;
            }
        }
        Ok(())
    }
}

/// Runs an update of one row, of the form `update … set … where …` or `delete from … where …`, for each of these values of its parameters. They name
/// different rows.
pub fn run_for_each(conn: &Connection, sql: &'static str, rows: Vec<Vec<Parameter<'_>>>) -> Result<()> {
    if let Connection::Server(server) = conn {
        return server.update(sql, &rows);
    }
    rows.into_iter().try_for_each(|row| query(sql).bind_all(row).run(conn))
}

/// The values of a row.
#[macro_export]
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        vec![$($crate::IntoValue::into_value($value)),*]
    };
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalar;

    #[test]
    fn rows_of_any_number_are_inserted_once_in_their_order() {
        for count in [0, 1, 7, 8, 9, 63, 64, 65, 200] {
            let conn = Connection::open_in_memory().expect("a database");
            conn.execute_batch("create table a (id integer primary key, text text) strict").expect("a table");
            let insert = Insert::new("a (id, text)", 2, "on conflict (id) do nothing");
            for _ in 0..2 {
                let texts: Vec<String> = (0..count).map(|id: i64| id.to_string()).collect();
                insert.rows(&conn, (0..count).zip(&texts).map(|(id, text)| values![id, text])).expect("rows");
            }
            let found: Vec<String> = scalar("select text from a order by id").all(&conn).expect("rows");
            assert_eq!(found, (0..count).map(|id| id.to_string()).collect::<Vec<_>>());
        }
    }
}
