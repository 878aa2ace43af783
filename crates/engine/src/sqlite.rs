//! SQLite: statements on its connections, and what its errors mean. Statements are prepared once for each connection.

use super::value::{List, Parameter, Row, Value};
use crate::error::{DiskFailure, Error, Result};
use crate::write_state::WriteState;
use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};
use std::rc::Rc;

/// Bytes of a page of the database. Rows with bodies of about a kibibyte stay on one page of the database.
pub(super) const PAGE_BYTES: u32 = 4_096;

/// Calls `each` with the rows of a statement, as `Query::for_each` says.
pub(super) fn for_each(
    conn: &rusqlite::Connection,
    sql: &str,
    parameters: &[Parameter<'_>],
    mut each: impl FnMut(Row) -> bool,
) -> Result<()> {
    let mut statement = conn.prepare_cached(sql)?;
    for (index, value) in (1..).zip(parameters) {
        statement.raw_bind_parameter(index, value)?;
    }
    let columns: Rc<[String]> = statement.column_names().into_iter().map(str::to_owned).collect();
    let ends_early = statement.readonly();
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        let values: Result<_> = (0..columns.len()).map(|index| read_value(row.get_ref(index)?)).collect();
        if !each(Row::new(&columns, values?)) {
            break;
        }
    }
    if !ends_early {
        while rows.next()?.is_some() {}
    }
    Ok(())
}

/// Runs a statement without rows. Returns the number of rows that it changed.
pub(super) fn changed(conn: &rusqlite::Connection, sql: &str, parameters: &[Parameter<'_>]) -> Result<usize> {
    let mut statement = conn.prepare_cached(sql)?;
    for (index, value) in (1..).zip(parameters) {
        statement.raw_bind_parameter(index, value)?;
    }
    Ok(statement.raw_execute()?)
}

fn read_value(value: ValueRef<'_>) -> Result<Value> {
    Ok(match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => Value::Integer(value),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => Value::Text(text.to_owned()),
            Err(error) => return Err(Error::corrupt("database", error)),
        },
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
        ValueRef::Real(_) => Value::Other,
    })
}

impl ToSql for Parameter<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        use rusqlite::types::Value;
        Ok(match self {
            Self::Null => ToSqlOutput::Borrowed(ValueRef::Null),
            Self::Integer(value) => ToSqlOutput::Borrowed(ValueRef::Integer(*value)),
            Self::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Self::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
            Self::List(list) => {
                let items: Vec<Value> = match list {
                    List::Integers(items) => items.iter().copied().map(Value::Integer).collect(),
                    List::Texts(items) => items.iter().cloned().map(Value::Text).collect(),
                    List::Blobs(items) => items.iter().cloned().map(Value::Blob).collect(),
                };
                ToSqlOutput::from_rc(Rc::new(items), LIST)
            }
        })
    }
}

/// The type that SQLite checks a list for.
const LIST: &std::ffi::CStr = c"rarray";

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        let code = match &error {
            rusqlite::Error::SqliteFailure(error, _) => error.extended_code,
            // A text that is not UTF-8.
            rusqlite::Error::FromSqlConversionFailure(..) | rusqlite::Error::Utf8Error(..) => {
                return Self::corrupt("database", error);
            }
            _ => return Self::Database(error.to_string()),
        };
        match (code, code & 0xff) {
            (codes::READ_ONLY_MOVED, _) => Self::Stopped(WriteState::FilesReplaced),
            // Data that cannot be read is lost for the reader, and nothing was written.
            (codes::IO_READ | codes::IO_SHORT_READ | codes::IO_DATA | codes::IO_CORRUPT_FILE_SYSTEM, _)
            | (_, codes::CORRUPT | codes::NOT_A_DATABASE) => Self::corrupt("database", error),
            (_, codes::BUSY | codes::LOCKED) => Self::Busy("another process has the database locked"),
            (_, codes::READ_ONLY) => Self::ReadOnly,
            (_, codes::IO) => {
                let may_be_of_sync = code != codes::IO_WRITE;
                Self::Disk(DiskFailure { message: error.to_string(), may_be_of_sync })
            }
            (_, codes::FULL) => Self::Full,
            _ => Self::Database(error.to_string()),
        }
    }
}

/// SQLite's result codes: the primary code in the low byte, the extended one above.
mod codes {
    pub(super) const BUSY: i32 = 5;
    pub(super) const LOCKED: i32 = 6;
    pub(super) const READ_ONLY: i32 = 8;
    pub(super) const IO: i32 = 10;
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const FULL: i32 = 13;
    pub(super) const NOT_A_DATABASE: i32 = 26;
    pub(super) const READ_ONLY_MOVED: i32 = 8 | 4 << 8;
    pub(super) const IO_READ: i32 = 10 | 1 << 8;
    pub(super) const IO_SHORT_READ: i32 = 10 | 2 << 8;
    pub(super) const IO_WRITE: i32 = 10 | 3 << 8;
    pub(super) const IO_DATA: i32 = 10 | 32 << 8;
    pub(super) const IO_CORRUPT_FILE_SYSTEM: i32 = 10 | 33 << 8;
}

/// Gives a connection the table of a list.
pub(super) fn add_lists(conn: &rusqlite::Connection) -> Result<()> {
    Ok(rusqlite::vtab::array::load_module(conn)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_of_another_process_is_blamed_on_it_and_not_on_writes_that_wait() {
        let locked = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(codes::BUSY), None);
        assert_eq!(Error::from(locked).to_string(), "the store is busy: another process has the database locked");
    }
}
