//! Values in PostgreSQL's binary form.

use super::errors;
use crate::error::{Error, Result};
use longhand_engine::value::{List, Parameter, Value};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgRow, PgTypeInfo, PgValueRef};
use sqlx::{Encode, Postgres, Row as _, Type, TypeInfo as _, ValueRef as _};
use std::borrow::Cow;

/// The numbers of PostgreSQL's own types.
mod types {
    pub(super) const UNSPECIFIED: u32 = 0;
    pub(super) const BOOLEAN: u32 = 16;
    pub(super) const BYTES: u32 = 17;
    pub(super) const INTEGER: u32 = 20;
    pub(super) const SHORT: u32 = 21;
    pub(super) const INTEGER_OF_4: u32 = 23;
    pub(super) const TEXT: u32 = 25;
    /// A sum of integers is one.
    pub(super) const NUMERIC: u32 = 1700;
    pub(super) const NAMES: [u32; 4] = [TEXT, 19, 705, 1043];
}

/// A noncharacter: Unicode reserves it for internal use. It escapes U+0000, which PostgreSQL refuses, and itself.
const ESCAPE: char = '\u{FDD0}';

/// A text as it is stored.
fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    let mut stored = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\0' => stored.extend([ESCAPE, '0']),
            ESCAPE => stored.extend([ESCAPE, '1']),
            character => stored.push(character),
        }
    }
    Cow::Owned(stored)
}

/// The text that was stored.
fn unescaped(stored: &str) -> String {
    if !stored.contains(ESCAPE) {
        return stored.to_owned();
    }
    let mut text = String::with_capacity(stored.len());
    let mut characters = stored.chars();
    while let Some(character) = characters.next() {
        text.push(match character {
            ESCAPE => match characters.next() {
                Some('0') => '\0',
                _ => ESCAPE,
            },
            character => character,
        });
    }
    text
}

/// A value in binary form; none for no value. Its type is that which the server found for the parameter.
pub(super) struct EncodedValue(Option<Vec<u8>>);

impl Type<Postgres> for EncodedValue {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(types::UNSPECIFIED))
    }
}

impl Encode<'_, Postgres> for EncodedValue {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> std::result::Result<IsNull, BoxDynError> {
        Ok(match &self.0 {
            Some(bytes) => {
                buffer.extend_from_slice(bytes);
                IsNull::No
            }
            None => IsNull::Yes,
        })
    }
}

/// A value for a parameter of a type.
pub(super) fn encode(parameter: &Parameter<'_>, kind: &PgTypeInfo) -> Result<EncodedValue> {
    let bytes = match parameter {
        Parameter::Null => return Ok(EncodedValue(None)),
        Parameter::Integer(value) => integer(*value, kind)?,
        Parameter::Text(text) => escaped(text).into_owned().into_bytes(),
        Parameter::Bytes(bytes) => bytes.to_vec(),
        Parameter::List(List::Integers(items)) => {
            array(types::INTEGER, items.iter().map(|item| Some(item.to_be_bytes().to_vec())))
        }
        Parameter::List(List::Texts(items)) => {
            array(types::TEXT, items.iter().map(|item| Some(escaped(item).into_owned().into_bytes())))
        }
        Parameter::List(List::Blobs(items)) => array(types::BYTES, items.iter().map(|item| Some(item.clone()))),
    };
    Ok(EncodedValue(Some(bytes)))
}

fn integer(value: i64, kind: &PgTypeInfo) -> Result<Vec<u8>> {
    let too_large = |_| Error::Database(format!("{value} is too large for a parameter of type {}", kind.name()));
    Ok(match kind.oid().map(|oid| oid.0) {
        Some(types::BOOLEAN) => vec![u8::from(value != 0)],
        Some(types::INTEGER_OF_4) => i32::try_from(value).map_err(too_large)?.to_be_bytes().to_vec(),
        Some(types::SHORT) => i16::try_from(value).map_err(too_large)?.to_be_bytes().to_vec(),
        Some(types::INTEGER) => value.to_be_bytes().to_vec(),
        _ => return Err(Error::Database(format!("a parameter of type {} takes no integer", kind.name()))),
    })
}

/// The name of a type that values have.
pub(super) fn kind_name(kind: &PgTypeInfo) -> Result<&'static str> {
    match kind.oid().map(|oid| oid.0) {
        Some(types::INTEGER) => Ok("bigint"),
        Some(types::TEXT) => Ok("text"),
        Some(types::BYTES) => Ok("bytea"),
        _ => Err(Error::Bug("a parameter has a type that no value has")),
    }
}

/// The values of a column, as an array of its type.
pub(super) fn column<'p>(kind: &str, values: impl Iterator<Item = &'p Parameter<'p>>) -> Result<EncodedValue> {
    let item = match kind {
        "bigint" => types::INTEGER,
        "text" => types::TEXT,
        "bytea" => types::BYTES,
        _ => return Err(Error::Bug("a table has a column of a type that no value has")),
    };
    let values = values.map(|value| match value {
        Parameter::Null => Ok(None),
        Parameter::Integer(value) => Ok(Some(value.to_be_bytes().to_vec())),
        Parameter::Text(text) => Ok(Some(escaped(text).into_owned().into_bytes())),
        Parameter::Bytes(bytes) => Ok(Some(bytes.to_vec())),
        Parameter::List(_) => Err(Error::Bug("a list is no value of a column")),
    });
    let values = values.collect::<Result<Vec<_>>>()?;
    Ok(EncodedValue(Some(array(item, values.into_iter()))))
}

fn array(item: u32, values: impl Iterator<Item = Option<Vec<u8>>>) -> Vec<u8> {
    let (mut body, mut count, mut has_null) = (Vec::new(), 0_i32, false);
    for value in values {
        count += 1;
        match value {
            Some(value) => {
                // A value of two gibibytes is refused before.
                body.extend_from_slice(&i32::try_from(value.len()).unwrap_or(i32::MAX).to_be_bytes());
                body.extend_from_slice(&value);
            }
            None => {
                has_null = true;
                body.extend_from_slice(&(-1_i32).to_be_bytes());
            }
        }
    }
    let mut bytes = Vec::with_capacity(body.len() + 20);
    let dimensions = i32::from(count > 0);
    for field in [dimensions, i32::from(has_null), item.cast_signed()] {
        bytes.extend_from_slice(&field.to_be_bytes());
    }
    if count > 0 {
        bytes.extend_from_slice(&count.to_be_bytes());
        bytes.extend_from_slice(&1_i32.to_be_bytes());
        bytes.append(&mut body);
    }
    bytes
}

/// The values of a row.
pub(super) fn decode(row: &PgRow) -> Result<Vec<Value>> {
    (0..row.len()).map(|index| value(&row.try_get_raw(index).map_err(errors::engine_error)?)).collect()
}

fn value(value: &PgValueRef<'_>) -> Result<Value> {
    if value.is_null() {
        return Ok(Value::Null);
    }
    let bytes = value.as_bytes().map_err(|error| Error::corrupt("database", error))?;
    let kind = value.type_info().oid().map(|oid| oid.0);
    let number = || match *bytes {
        [a, b, c, d, e, f, g, h] => Some(i64::from_be_bytes([a, b, c, d, e, f, g, h])),
        [a, b, c, d] => Some(i64::from(i32::from_be_bytes([a, b, c, d]))),
        [a, b] => Some(i64::from(i16::from_be_bytes([a, b]))),
        [byte] => Some(i64::from(byte != 0)),
        _ => None,
    };
    Ok(match kind {
        Some(types::INTEGER | types::INTEGER_OF_4 | types::SHORT | types::BOOLEAN) => {
            number().map_or(Value::Other, Value::Integer)
        }
        Some(types::NUMERIC) => whole(bytes).map_or(Value::Other, Value::Integer),
        Some(types::BYTES) => Value::Blob(bytes.to_vec()),
        Some(kind) if types::NAMES.contains(&kind) => {
            let text = std::str::from_utf8(bytes).map_err(|error| Error::corrupt("database", error))?;
            Value::Text(unescaped(text))
        }
        _ => Value::Other,
    })
}

/// A whole number of PostgreSQL's exact kind: digits to the base of 10 000, the weight of the first, and the sign.
fn whole(bytes: &[u8]) -> Option<i64> {
    let fields: Vec<i16> = bytes.chunks_exact(2).map(|field| i16::from_be_bytes([field[0], field[1]])).collect();
    let [_, weight, sign, _, digits @ ..] = fields.as_slice() else { return None };
    if digits.len() > usize::try_from(i64::from(*weight) + 1).ok()? {
        return None;
    }
    let mut value = 0_i64;
    for place in 0..=usize::try_from(*weight).unwrap_or(0) {
        value = value.checked_mul(10_000)?.checked_add(digits.get(place).copied().unwrap_or(0).into())?;
    }
    match sign {
        0 => Some(value),
        0x4000 => Some(-value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_whole_numbers() {
        let bytes = |fields: &[i16]| fields.iter().flat_map(|field| field.to_be_bytes()).collect::<Vec<_>>();
        for (fields, expected) in [
            (&[0, 0, 0, 0][..], Some(0)),
            (&[1, 0, 0, 0, 7], Some(7)),
            (&[1, 1, 0, 0, 3], Some(30_000)),
            (&[2, 1, 0x4000, 0, 12, 3456], Some(-123_456)),
            (&[2, 0, 0, 1, 1, 5000], None),
            (&[0, 0, -0x4000, 0], None),
        ] {
            assert_eq!(whole(&bytes(fields)), expected, "{fields:?}");
        }
    }

    #[test]
    fn every_text_is_stored_and_read_again_as_it_was() {
        for text in ["", "words", "a\0b", "\0", "\u{FDD0}", "\u{FDD0}0", "\u{FDD0}\0\u{FDD0}1é", "0\u{FDD0}\u{FDD0}"] {
            let stored = escaped(text);
            assert!(!stored.contains('\0'));
            assert_eq!(unescaped(&stored), text);
        }
    }
}
