//! Statements on a SQLite connection: values in, rows out. Statements are prepared once for each connection.

use crate::store::error::{DiskFailure, Error, Result};
use crate::store::write_state::WriteState;
use bytes::Bytes;
use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use std::borrow::Cow;
use std::marker::PhantomData;
use std::rc::Rc;

/// Bytes of a page of the database. Rows with bodies of about a kibibyte stay on one page of the database.
pub(crate) const PAGE_BYTES: u32 = 4_096;

pub(crate) use rusqlite::Connection;

/// A statement with the values of its parameters `?1`, `?2` and so on, or of its `?`, in order.
#[must_use]
pub(crate) struct Query<'q> {
    sql: &'q str,
    values: Vec<Parameter<'q>>,
}

/// A statement.
pub(crate) fn query(sql: &str) -> Query<'_> {
    Query { sql, values: Vec::new() }
}

impl<'q> Query<'q> {
    /// Adds the value of the next parameter.
    pub(crate) fn bind(mut self, value: impl IntoValue<'q>) -> Self {
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
    pub(crate) fn for_each(self, conn: &Connection, mut each: impl FnMut(Row) -> bool) -> Result<()> {
        let mut statement = conn.prepare_cached(self.sql)?;
        for (index, value) in (1..).zip(&self.values) {
            statement.raw_bind_parameter(index, value)?;
        }
        let columns: Rc<[String]> = statement.column_names().into_iter().map(str::to_owned).collect();
        let ends_early = statement.readonly();
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            let values: rusqlite::Result<_> = (0..columns.len()).map(|index| row.get(index)).collect();
            if !each(Row { columns: Rc::clone(&columns), values: values? }) {
                break;
            }
        }
        if !ends_early {
            while rows.next()?.is_some() {}
        }
        Ok(())
    }

    /// All rows. The statement must bound their number.
    pub(crate) fn all(self, conn: &Connection) -> Result<Vec<Row>> {
        let mut all = Vec::new();
        self.for_each(conn, |row| {
            all.push(row);
            true
        })?;
        Ok(all)
    }

    /// The first row, if there is one.
    pub(crate) fn optional(self, conn: &Connection) -> Result<Option<Row>> {
        let mut first = None;
        self.for_each(conn, |row| {
            first = Some(row);
            false
        })?;
        Ok(first)
    }

    /// The first row of a statement that always has one.
    pub(crate) fn one(self, conn: &Connection) -> Result<Row> {
        self.optional(conn)?.ok_or(Error::Bug("a statement that always has a row returned none"))
    }

    /// Runs a statement without rows, whose number of changed rows does not matter.
    pub(crate) fn run(self, conn: &Connection) -> Result<()> {
        self.changed(conn).map(drop)
    }

    /// Runs a statement without rows. Returns the number of rows that it changed.
    pub(crate) fn changed(self, conn: &Connection) -> Result<usize> {
        let mut statement = conn.prepare_cached(self.sql)?;
        for (index, value) in (1..).zip(&self.values) {
            statement.raw_bind_parameter(index, value)?;
        }
        Ok(statement.raw_execute()?)
    }
}

/// A statement whose rows have one column of interest, the first.
#[must_use]
pub(crate) struct Scalar<'q, T> {
    query: Query<'q>,
    value: PhantomData<T>,
}

/// The bound of a page by descending keys: below the last key of the page before, if there was one.
pub(crate) fn below(key: Option<i64>) -> i64 {
    key.unwrap_or(i64::MAX)
}

/// A statement of which only the first column is read.
pub(crate) fn scalar<T>(sql: &str) -> Scalar<'_, T> {
    Scalar { query: query(sql), value: PhantomData }
}

impl<'q, T: for<'r> FromValue<'r>> Scalar<'q, T> {
    /// Adds the value of the next parameter.
    pub(crate) fn bind(self, value: impl IntoValue<'q>) -> Self {
        Self { query: self.query.bind(value), ..self }
    }

    /// The values of all rows. The statement must bound their number.
    pub(crate) fn all(self, conn: &Connection) -> Result<Vec<T>> {
        self.query.all(conn)?.iter().map(|row| row.get(0)).collect()
    }

    /// The value of the first row, if there is one.
    pub(crate) fn optional(self, conn: &Connection) -> Result<Option<T>> {
        self.query.optional(conn)?.map(|row| row.get(0)).transpose()
    }

    /// The value of the first row of a statement that always has one.
    pub(crate) fn one(self, conn: &Connection) -> Result<T> {
        self.query.one(conn)?.get(0)
    }
}

/// A row with its values, which outlives its statement.
pub(crate) struct Row {
    columns: Rc<[String]>,
    values: Vec<Value>,
}

impl Row {
    /// The value of a column, by its number from 0 or its name. A value of another type is corrupt.
    pub(crate) fn get<'r, T: FromValue<'r>>(&'r self, column: impl Column) -> Result<T> {
        let index = column.index(&self.columns);
        let value = index.and_then(|index| self.values.get(index));
        value.and_then(T::from_value).ok_or_else(|| {
            let name = index.and_then(|index| self.columns.get(index)).map_or("no such column", String::as_str);
            Error::corrupt("database", format_args!("column {name} has a value of another type"))
        })
    }
}

/// A column of a row: its number from 0, or its name.
pub(crate) trait Column {
    /// The number from 0.
    fn index(&self, columns: &[String]) -> Option<usize>;
}

impl Column for usize {
    fn index(&self, _columns: &[String]) -> Option<usize> {
        Some(*self)
    }
}

impl Column for &str {
    fn index(&self, columns: &[String]) -> Option<usize> {
        columns.iter().position(|column| column == self)
    }
}

/// A type that values of columns are read as.
pub(crate) trait FromValue<'r>: Sized {
    /// The value; none if it has another type or is out of range.
    fn from_value(value: &'r Value) -> Option<Self>;
}

/// The value of a parameter.
pub(crate) enum Parameter<'v> {
    Null,
    Integer(i64),
    Text(Cow<'v, str>),
    Bytes(Cow<'v, [u8]>),
    List(Vec<Value>),
}

impl ToSql for Parameter<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Null => ToSqlOutput::Borrowed(ValueRef::Null),
            Self::Integer(value) => ToSqlOutput::Borrowed(ValueRef::Integer(*value)),
            Self::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Self::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
            Self::List(items) => ToSqlOutput::from_rc(Rc::new(items.clone()), LIST),
        })
    }
}

/// The type that SQLite checks a list for.
const LIST: &std::ffi::CStr = c"rarray";

/// A type that is bound to parameters.
pub(crate) trait IntoValue<'v> {
    /// The value.
    fn into_value(self) -> Parameter<'v>;
}

/// A value of any type, for copies of rows that keep what they have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    /// No value.
    Null,
    /// An integer.
    Integer(i64),
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl FromValue<'_> for Cell {
    fn from_value(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Null => Self::Null,
            Value::Integer(value) => Self::Integer(*value),
            Value::Text(text) => Self::Text(text.clone()),
            Value::Blob(bytes) => Self::Bytes(bytes.clone()),
            Value::Real(_) => return None,
        })
    }
}

impl<'v> IntoValue<'v> for &'v Cell {
    fn into_value(self) -> Parameter<'v> {
        match self {
            Cell::Null => Parameter::Null,
            Cell::Integer(value) => Parameter::Integer(*value),
            Cell::Text(text) => text.into_value(),
            Cell::Bytes(bytes) => bytes.into_value(),
        }
    }
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl FromValue<'_> for $type {
            fn from_value(value: &Value) -> Option<Self> {
                if let Value::Integer(value) = value { Self::try_from(*value).ok() } else { None }
            }
        }

        impl IntoValue<'_> for $type {
            fn into_value(self) -> Parameter<'static> {
                Parameter::Integer(i64::from(self))
            }
        }
    )*};
}

integers!(i64, i32, u32, u16);

impl FromValue<'_> for bool {
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Integer(value) = value { Some(*value != 0) } else { None }
    }
}

impl IntoValue<'_> for bool {
    fn into_value(self) -> Parameter<'static> {
        i64::from(self).into_value()
    }
}

impl<'r> FromValue<'r> for &'r str {
    fn from_value(value: &'r Value) -> Option<Self> {
        if let Value::Text(text) = value { Some(text) } else { None }
    }
}

impl FromValue<'_> for String {
    fn from_value(value: &Value) -> Option<Self> {
        <&str>::from_value(value).map(str::to_owned)
    }
}

impl<'r> FromValue<'r> for &'r [u8] {
    fn from_value(value: &'r Value) -> Option<Self> {
        if let Value::Blob(bytes) = value { Some(bytes) } else { None }
    }
}

impl FromValue<'_> for Vec<u8> {
    fn from_value(value: &Value) -> Option<Self> {
        <&[u8]>::from_value(value).map(<[u8]>::to_vec)
    }
}

impl<'r, T: FromValue<'r>> FromValue<'r> for Option<T> {
    fn from_value(value: &'r Value) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}

impl<'v> IntoValue<'v> for &'v str {
    fn into_value(self) -> Parameter<'v> {
        Parameter::Text(Cow::Borrowed(self))
    }
}

impl<'v> IntoValue<'v> for &'v String {
    fn into_value(self) -> Parameter<'v> {
        self.as_str().into_value()
    }
}

impl IntoValue<'_> for String {
    fn into_value(self) -> Parameter<'static> {
        Parameter::Text(Cow::Owned(self))
    }
}

impl<'v> IntoValue<'v> for &'v [u8] {
    fn into_value(self) -> Parameter<'v> {
        Parameter::Bytes(Cow::Borrowed(self))
    }
}

impl<'v> IntoValue<'v> for &'v Vec<u8> {
    fn into_value(self) -> Parameter<'v> {
        self.as_slice().into_value()
    }
}

impl<'v> IntoValue<'v> for &'v Bytes {
    fn into_value(self) -> Parameter<'v> {
        (**self).into_value()
    }
}

impl<'v, const N: usize> IntoValue<'v> for &'v [u8; N] {
    fn into_value(self) -> Parameter<'v> {
        self.as_slice().into_value()
    }
}

impl IntoValue<'_> for Vec<u8> {
    fn into_value(self) -> Parameter<'static> {
        Parameter::Bytes(Cow::Owned(self))
    }
}

impl<'v, T: IntoValue<'v>> IntoValue<'v> for Option<T> {
    fn into_value(self) -> Parameter<'v> {
        self.map_or(Parameter::Null, T::into_value)
    }
}

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
            (_, codes::BUSY | codes::LOCKED) => Self::Busy,
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

/// The value of a parameter in `rarray(?N)`: a table with a row for each item, and one column, `value`.
#[derive(Clone)]
pub(crate) struct List(Vec<Value>);

impl List {
    /// A list of integers.
    pub(crate) fn of_integers(items: impl IntoIterator<Item = i64>) -> Self {
        Self(items.into_iter().map(Value::Integer).collect())
    }

    /// A list of texts.
    pub(crate) fn of_texts<'t>(items: impl IntoIterator<Item = &'t str>) -> Self {
        Self(items.into_iter().map(|item| Value::Text(item.to_owned())).collect())
    }

    /// A list of bytes.
    pub(crate) fn of_bytes<'b>(items: impl IntoIterator<Item = &'b [u8]>) -> Self {
        Self(items.into_iter().map(|item| Value::Blob(item.to_vec())).collect())
    }
}

impl IntoValue<'_> for List {
    fn into_value(self) -> Parameter<'static> {
        Parameter::List(self.0)
    }
}

/// Gives a connection the table of a list.
pub(crate) fn add_lists(conn: &Connection) -> Result<()> {
    Ok(rusqlite::vtab::array::load_module(conn)?)
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
