//! JSON into encoded messages.

use super::tables::{Content, Field, Message, Messages, Values};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use prost_reflect::prost::Message as _;
use prost_reflect::prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};
use prost_reflect::{DynamicMessage, MessageDescriptor};
use serde::de::{DeserializeSeed, Deserializer, Error, IntoDeserializer as _, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::str::FromStr;

/// As the library reads it, but for the alphabet of URLs.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Why a text is left to reflection. Nobody reads it.
const DECLINED: &str = "declined";

/// A visitor's words for a value that it does not take.
macro_rules! declining {
    () => {
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(DECLINED)
        }
    };
}

/// An encoded message, and which of its fields were given.
pub(in super::super) struct EncodedFields {
    message: &'static Message,
    buffer: Vec<u8>,
    given: u128,
}

impl EncodedFields {
    pub(super) fn read(message: &'static Message, text: &[u8]) -> Option<Self> {
        let mut buffer = Vec::with_capacity(text.len());
        let mut deserializer = serde_json::Deserializer::from_slice(text);
        let given = Fields { message, buffer: &mut buffer }.deserialize(&mut deserializer).ok()?;
        deserializer.end().ok()?;
        Some(Self { message, buffer, given })
    }

    /// Adds a field that is a text; none if it was given, or is something else.
    pub(in super::super) fn with(mut self, name: &str, text: &str) -> Option<Self> {
        let field = self.message.named(name)?;
        if !matches!(field.content, Content::Text) || field.is_list || self.given & field.excluded != 0 {
            return None;
        }
        self.given |= field.bit;
        put_bytes(field.number, text.as_bytes(), &mut self.buffer);
        Some(self)
    }

    /// The encoded message.
    pub(in super::super) fn into_bytes(self) -> Vec<u8> {
        self.buffer
    }
}

fn put_bytes(number: u32, bytes: &[u8], buffer: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, buffer);
    encode_varint(bytes.len() as u64, buffer);
    buffer.extend_from_slice(bytes);
}

fn put_varint(number: u32, value: i64, buffer: &mut Vec<u8>) {
    encode_key(number, WireType::Varint, buffer);
    encode_varint(value.cast_unsigned(), buffer);
}

/// The fields of a message. The value of the seed are the bits of those that are given.
struct Fields<'a> {
    message: &'static Message,
    buffer: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = u128;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u128, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = u128;

    declining!();

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<u128, A::Error> {
        let mut given = 0;
        while let Some(field) = map.next_key_seed(Name(self.message))? {
            if !map.next_value_seed(Optional { field, buffer: self.buffer })? {
                continue;
            }
            // Of a field that is given twice the last value counts, and a choice has one value.
            if given & field.excluded != 0 {
                return Err(A::Error::custom(DECLINED));
            }
            given |= field.bit;
        }
        Ok(given)
    }
}

/// The name of a field.
struct Name(&'static Message);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = &'static Field;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<&'static Field, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = &'static Field;

    declining!();

    fn visit_str<E: Error>(self, name: &str) -> Result<&'static Field, E> {
        self.0.named(name).ok_or_else(|| E::custom(DECLINED))
    }
}

/// The value of a field, or null for none. The value of the seed is true if there is one.
struct Optional<'a> {
    field: &'static Field,
    buffer: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Optional<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for Optional<'_> {
    type Value = bool;

    declining!();

    fn visit_none<E: Error>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        let Self { field, buffer } = self;
        if field.is_list {
            deserializer.deserialize_seq(Elements { field, buffer })?;
        } else {
            One { field, buffer }.deserialize(deserializer)?;
        }
        Ok(true)
    }
}

/// The elements of a list.
struct Elements<'a> {
    field: &'static Field,
    buffer: &'a mut Vec<u8>,
}

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = ();

    declining!();

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        while elements.next_element_seed(One { field: self.field, buffer: self.buffer })?.is_some() {}
        Ok(())
    }
}

/// One value of a field.
struct One<'a> {
    field: &'static Field,
    buffer: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for One<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Self { field, buffer } = self;
        let number = field.number;
        match &field.content {
            Content::Text => deserializer.deserialize_str(Text(|text: &str| {
                put_bytes(number, text.as_bytes(), buffer);
                true
            })),
            Content::Bytes => deserializer.deserialize_str(Text(|text: &str| {
                BASE64.decode(text).map(|bytes| put_bytes(number, &bytes, buffer)).is_ok()
            })),
            Content::Timestamp(time) | Content::Duration(time) => {
                deserializer.deserialize_str(Text(|text: &str| put_time(number, time, text, buffer)))
            }
            Content::Bool => {
                put_varint(number, deserializer.deserialize_bool(Bool)?.into(), buffer);
                Ok(())
            }
            Content::Int32 => {
                put_varint(number, deserializer.deserialize_any(Integer::<i32>::default())?.into(), buffer);
                Ok(())
            }
            Content::Int64 => {
                put_varint(number, deserializer.deserialize_any(Integer::<i64>::default())?, buffer);
                Ok(())
            }
            Content::Double => {
                let value = deserializer.deserialize_any(Double)?;
                // Both zeros are the default.
                if value != 0.0 || field.has_presence || field.is_list {
                    encode_key(number, WireType::SixtyFourBit, buffer);
                    buffer.extend_from_slice(&value.to_le_bytes());
                }
                Ok(())
            }
            Content::Enum(values) => {
                put_varint(number, deserializer.deserialize_any(EnumNumber(values))?.into(), buffer);
                Ok(())
            }
            Content::Message(place) => {
                encode_key(number, WireType::LengthDelimited, buffer);
                let begin = buffer.len();
                Fields { message: Messages::at(*place), buffer }.deserialize(deserializer)?;
                put_length(begin, buffer);
                Ok(())
            }
            Content::Other => Err(D::Error::custom(DECLINED)),
        }
    }
}

/// Writes the length of what stands behind a place in front of it.
fn put_length(begin: usize, buffer: &mut Vec<u8>) {
    let end = buffer.len();
    let length = (end - begin) as u64;
    buffer.resize(end + encoded_len_varint(length), 0);
    buffer.copy_within(begin..end, begin + encoded_len_varint(length));
    encode_varint(length, &mut &mut buffer[begin..]);
}

/// A time or a duration; false if the text is none.
fn put_time(number: u32, kind: &MessageDescriptor, text: &str, buffer: &mut Vec<u8>) -> bool {
    let text: serde::de::value::StrDeserializer<'_, serde::de::value::Error> = text.into_deserializer();
    let time = DynamicMessage::deserialize(kind.clone(), text);
    time.map(|time| put_bytes(number, &time.encode_to_vec(), buffer)).is_ok()
}

/// A text, with what takes it, which says whether it could.
struct Text<F>(F);

impl<F: FnMut(&str) -> bool> Visitor<'_> for Text<F> {
    type Value = ();

    declining!();

    fn visit_str<E: Error>(mut self, text: &str) -> Result<(), E> {
        if self.0(text) { Ok(()) } else { Err(E::custom(DECLINED)) }
    }
}

struct Bool;

impl Visitor<'_> for Bool {
    type Value = bool;

    declining!();

    fn visit_bool<E: Error>(self, value: bool) -> Result<bool, E> {
        Ok(value)
    }
}

/// A whole number, as a number or as a text.
struct Integer<T>(std::marker::PhantomData<T>);

impl<T> Default for Integer<T> {
    fn default() -> Self {
        Self(std::marker::PhantomData)
    }
}

impl<T: FromStr + TryFrom<i64> + TryFrom<u64>> Visitor<'_> for Integer<T> {
    type Value = T;

    declining!();

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(|_| E::custom(DECLINED))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<T, E> {
        value.try_into().map_err(|_| E::custom(DECLINED))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<T, E> {
        value.try_into().map_err(|_| E::custom(DECLINED))
    }
}

struct Double;

impl Visitor<'_> for Double {
    type Value = f64;

    declining!();

    fn visit_f64<E: Error>(self, value: f64) -> Result<f64, E> {
        Ok(value)
    }
}

/// The number of an enum's value, by its name or as it is.
struct EnumNumber(&'static Values);

impl Visitor<'_> for EnumNumber {
    type Value = i32;

    declining!();

    fn visit_str<E: Error>(self, name: &str) -> Result<i32, E> {
        self.0.number(name).ok_or_else(|| E::custom(DECLINED))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<i32, E> {
        value.try_into().map_err(|_| E::custom(DECLINED))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<i32, E> {
        value.try_into().map_err(|_| E::custom(DECLINED))
    }
}
