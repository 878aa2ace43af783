//! Encoded messages into JSON.

use super::tables::{Content, Field, Message, Messages};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost_reflect::prost::Message as _;
use prost_reflect::prost::encoding::{WireType, decode_key, decode_varint};
use prost_reflect::prost_types::{Duration, Timestamp};
use std::io::Write as _;

/// Messages inside of others up to which the library decodes.
const DEPTH_MAX: usize = 100;
/// Seconds of the first and the last time that JSON has.
const TIMES: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
/// Seconds of the longest span that JSON has.
const SPAN_MAX: u64 = 315_576_000_000;
const NANOS: i32 = 1_000_000_000;

/// A field as it was encoded: its place among those of its message, and its value.
#[derive(Clone, Copy)]
struct Encoded<'a> {
    place: usize,
    value: Raw<'a>,
}

#[derive(Clone, Copy)]
enum Raw<'a> {
    Varint(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

/// The JSON text of an encoded message; none if it takes reflection.
pub(super) fn json(message: &Message, encoded: &[u8]) -> Option<Vec<u8>> {
    let mut writer = Writer { text: Vec::with_capacity(encoded.len() * 3 / 2 + 64), fields: Vec::new(), depth: 0 };
    writer.message(message, encoded)?;
    Some(writer.text)
}

struct Writer<'a> {
    text: Vec<u8>,
    /// The fields of the messages that are being written, the innermost one's last.
    fields: Vec<Encoded<'a>>,
    depth: usize,
}

impl<'a> Writer<'a> {
    fn message(&mut self, message: &Message, encoded: &'a [u8]) -> Option<()> {
        let begin = self.fields.len();
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        self.split(message, encoded)?;
        self.text.push(b'{');
        let mut at = begin;
        let mut given = 0;
        while let Some(first) = self.fields.get(at).copied() {
            let field = &message.fields[first.place];
            let same = self.fields[at..].iter().take_while(|other| other.place == first.place).count();
            // A choice with two values has the last one, and a message that comes twice is one.
            if given & field.excluded != 0 || (same > 1 && !field.is_list) {
                return None;
            }
            given |= field.bit;
            if field.is_list {
                self.begin(&field.key);
                self.text.push(b'[');
                for element in at..at + same {
                    if element > at {
                        self.text.push(b',');
                    }
                    self.value(field, self.fields[element].value)?;
                }
                self.text.push(b']');
            } else if field.has_presence || !is_default(&field.content, first.value) {
                self.begin(&field.key);
                self.value(field, first.value)?;
            }
            at += same;
        }
        self.text.push(b'}');
        self.fields.truncate(begin);
        self.depth -= 1;
        Some(())
    }

    /// Adds the fields of a message to those that are being written, in the order of their numbers.
    fn split(&mut self, message: &Message, mut encoded: &'a [u8]) -> Option<()> {
        let begin = self.fields.len();
        let mut is_in_order = true;
        while !encoded.is_empty() {
            let (number, wire_type) = decode_key(&mut encoded).ok()?;
            let value = match wire_type {
                WireType::Varint => Raw::Varint(decode_varint(&mut encoded).ok()?),
                WireType::SixtyFourBit => {
                    let (fixed, rest) = encoded.split_first_chunk()?;
                    encoded = rest;
                    Raw::Fixed(u64::from_le_bytes(*fixed))
                }
                WireType::LengthDelimited => {
                    let length = usize::try_from(decode_varint(&mut encoded).ok()?).ok()?;
                    let (bytes, rest) = encoded.split_at_checked(length)?;
                    encoded = rest;
                    Raw::Bytes(bytes)
                }
                _ => return None,
            };
            // What a newer daemon sends is not in the JSON of this one.
            let Some(place) = message.numbered(number) else { continue };
            is_in_order &= self.fields[begin..].last().is_none_or(|last| last.place <= place);
            match (value, &message.fields[place]) {
                (Raw::Bytes(packed), Field { is_list: true, content, .. }) if is_varint(content) => {
                    self.unpack(place, packed)?;
                }
                _ => self.fields.push(Encoded { place, value }),
            }
        }
        if !is_in_order {
            self.fields[begin..].sort_by_key(|field| field.place);
        }
        Some(())
    }

    fn unpack(&mut self, place: usize, mut packed: &'a [u8]) -> Option<()> {
        while !packed.is_empty() {
            let value = Raw::Varint(decode_varint(&mut packed).ok()?);
            self.fields.push(Encoded { place, value });
        }
        Some(())
    }

    /// Begins a field of the object that is being written.
    fn begin(&mut self, key: &str) {
        if self.text.last() != Some(&b'{') {
            self.text.push(b',');
        }
        self.text.extend_from_slice(key.as_bytes());
    }

    fn value(&mut self, field: &Field, value: Raw<'a>) -> Option<()> {
        let text = &mut self.text;
        match (&field.content, value) {
            (Content::Text, Raw::Bytes(bytes)) => serde_json::to_writer(text, std::str::from_utf8(bytes).ok()?).ok(),
            (Content::Bytes, Raw::Bytes(bytes)) => write!(text, "\"{}\"", STANDARD.encode(bytes)).ok(),
            (Content::Bool, Raw::Varint(value)) => write!(text, "{}", value != 0).ok(),
            (Content::Int32, Raw::Varint(value)) => write!(text, "{}", int32(value)).ok(),
            (Content::Int64, Raw::Varint(value)) => write!(text, "\"{}\"", value.cast_signed()).ok(),
            (Content::Double, Raw::Fixed(bits)) => {
                let value = f64::from_bits(bits);
                if value.is_finite() { serde_json::to_writer(text, &value).ok() } else { None }
            }
            (Content::Enum(values), Raw::Varint(value)) => match values.name(int32(value)) {
                Some(name) => write!(text, "\"{name}\"").ok(),
                None => write!(text, "{}", int32(value)).ok(),
            },
            (Content::Timestamp(_), Raw::Bytes(encoded)) => {
                let time = Timestamp::decode(encoded).ok()?;
                let is_of_json = TIMES.contains(&time.seconds) && (0..NANOS).contains(&time.nanos);
                if is_of_json { write!(text, "\"{time}\"").ok() } else { None }
            }
            (Content::Duration(_), Raw::Bytes(encoded)) => {
                let span = Duration::decode(encoded).ok()?;
                let is_of_json = span.seconds.unsigned_abs() <= SPAN_MAX && (0..NANOS).contains(&span.nanos);
                if is_of_json && span.seconds >= 0 { write!(text, "\"{span}\"").ok() } else { None }
            }
            (Content::Message(place), Raw::Bytes(encoded)) => self.message(Messages::at(*place), encoded),
            _ => None,
        }
    }
}

/// True for numbers that a list has one behind the other.
fn is_varint(content: &Content) -> bool {
    matches!(content, Content::Bool | Content::Int32 | Content::Int64 | Content::Enum(_))
}

/// A number that was encoded in ten bytes if it is negative, of which the first four count.
fn int32(value: u64) -> i32 {
    (value as u32).cast_signed()
}

/// True for a value that is not written; not for one of another type, which is none.
fn is_default(content: &Content, value: Raw<'_>) -> bool {
    match (content, value) {
        (Content::Text | Content::Bytes, Raw::Bytes(bytes)) => bytes.is_empty(),
        (Content::Int32 | Content::Enum(_), Raw::Varint(value)) => int32(value) == 0,
        (Content::Bool | Content::Int64, Raw::Varint(value)) => value == 0,
        (Content::Double, Raw::Fixed(bits)) => f64::from_bits(bits) == 0.0,
        _ => false,
    }
}
