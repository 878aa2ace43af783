//! Values and rows, for every engine.

use crate::error::{Error, Result};
use bytes::Bytes;
use std::borrow::Cow;
use std::rc::Rc;

/// A row with its values, which outlives its statement.
pub struct Row {
    columns: Rc<[String]>,
    values: Vec<Value>,
}

/// The value of a column, as an engine has read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// No value.
    Null,
    /// An integer.
    Integer(i64),
    /// A text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
    /// A value of a type that no column here has.
    Other,
}

impl Row {
    /// A row with the names of its columns.
    pub fn new(columns: &Rc<[String]>, values: Vec<Value>) -> Self {
        Self { columns: Rc::clone(columns), values }
    }

    /// The value of a column, by its number from 0 or its name. A value of another type is corrupt.
    pub fn get<'r, T: FromValue<'r>>(&'r self, column: impl Column) -> Result<T> {
        let index = column.index(&self.columns);
        let value = index.and_then(|index| self.values.get(index));
        value.and_then(T::from_value).ok_or_else(|| {
            let name = index.and_then(|index| self.columns.get(index)).map_or("no such column", String::as_str);
            Error::corrupt("database", format_args!("column {name} has a value of another type"))
        })
    }
}

/// A column of a row: its number from 0, or its name.
pub trait Column {
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
pub trait FromValue<'r>: Sized {
    /// The value; none if it has another type or is out of range.
    fn from_value(value: &'r Value) -> Option<Self>;
}

/// The value of a parameter.
#[derive(Debug)]
pub enum Parameter<'v> {
    /// No value.
    Null,
    /// An integer.
    Integer(i64),
    /// A text.
    Text(Cow<'v, str>),
    /// Bytes.
    Bytes(Cow<'v, [u8]>),
    /// The rows of a list.
    List(List),
}

impl Parameter<'_> {
    /// The value as one of its own; none for a list.
    pub fn cell(&self) -> Option<Cell> {
        Some(match self {
            Self::Null => Cell::Null,
            Self::Integer(value) => Cell::Integer(*value),
            Self::Text(text) => Cell::Text(text.to_string()),
            Self::Bytes(bytes) => Cell::Bytes(bytes.to_vec()),
            Self::List(_) => return None,
        })
    }
}

/// A type that is bound to parameters.
pub trait IntoValue<'v> {
    /// The value.
    fn into_value(self) -> Parameter<'v>;
}

/// A value of any type, for copies of rows that keep what they have.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Cell {
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
            Value::Other => return None,
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

/// The value of a parameter in `rarray(?N)`: a table with a row for each item, and one column, `value`.
#[derive(Debug, Clone)]
pub enum List {
    /// Integers.
    Integers(Vec<i64>),
    /// Texts.
    Texts(Vec<String>),
    /// Values of bytes.
    Blobs(Vec<Vec<u8>>),
}

impl List {
    /// A list of integers.
    pub fn of_integers(items: impl IntoIterator<Item = i64>) -> Self {
        Self::Integers(items.into_iter().collect())
    }

    /// A list of texts.
    pub fn of_texts<'t>(items: impl IntoIterator<Item = &'t str>) -> Self {
        Self::Texts(items.into_iter().map(str::to_owned).collect())
    }

    /// A list of bytes.
    pub fn of_bytes<'b>(items: impl IntoIterator<Item = &'b [u8]>) -> Self {
        Self::Blobs(items.into_iter().map(<[u8]>::to_vec).collect())
    }
}

impl IntoValue<'_> for List {
    fn into_value(self) -> Parameter<'static> {
        Parameter::List(self)
    }
}
