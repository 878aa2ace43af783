//! JSON as it was written: an object's members are slices of its line, so that key order, number forms and unknown
//! members survive, and so that the position of a value in its line is known from its address.

use longhand_model::limits;
use longhand_model::time::Timestamp;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;
use std::ops::Range;

/// The instants of the years 1 to 9999, which the protocol can hold.
const TIMES: Range<Timestamp> = Timestamp(-62_135_596_800_000_000)..Timestamp(253_402_300_800_000_000);

/// A string that was read from JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text {
    /// The string, with invalid Unicode replaced.
    pub(super) text: String,
    /// True if nothing was replaced. JavaScript writes half of a surrogate pair as an escape if a text ends in the
    /// middle of a character, which a Rust string cannot hold.
    pub(super) exact: bool,
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(TextVisitor)
    }
}

struct TextVisitor;

impl Visitor<'_> for TextVisitor {
    type Value = Text;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string")
    }

    fn visit_str<E>(self, text: &str) -> Result<Text, E> {
        Ok(Text { text: text.to_owned(), exact: true })
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Text, E> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Text { text: text.to_owned(), exact: true }),
            Err(_) => Ok(Text { text: String::from_utf8_lossy(&without_halves(bytes)).into_owned(), exact: false }),
        }
    }
}

/// Bytes of a string with U+FFFD in place of each half of a surrogate pair, which has three bytes here.
fn without_halves(bytes: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((first, behind)) = rest.split_first() {
        match rest {
            [0xed, 0xa0..=0xbf, _, behind @ ..] => {
                whole.extend_from_slice("\u{fffd}".as_bytes());
                rest = behind;
            }
            _ => {
                whole.push(*first);
                rest = behind;
            }
        }
    }
    whole
}

/// A JSON object whose members are slices of the text it was read from.
#[derive(Debug, Clone)]
pub(super) struct Object<'a> {
    members: Vec<(String, &'a RawValue)>,
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some((name, value)) = map.next_entry::<Text, &'de RawValue>()? {
            members.push((name.text, value));
        }
        Ok(Object { members })
    }
}

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

impl<'a> Object<'a> {
    /// Parses an object that begins at a column of its line; an error states the problem and its column.
    pub(super) fn parse(text: &'a str, column: usize) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| {
            let words = error.to_string();
            let words = words.rsplit_once(" at line ").map_or(words.as_str(), |(words, _)| words);
            format!("not a JSON object: {words} at column {}", error.column() + column - 1)
        })
    }

    /// All members, in their order.
    pub(super) fn members(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.members.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// The member of that name; of several, the last, as in JavaScript. `null` counts as absent.
    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        let (_, value) = self.members.iter().rev().find(|(member, _)| member == name)?;
        (value.get() != "null").then_some(*value)
    }

    pub(super) fn text(&self, name: &str) -> Option<Text> {
        self.get(name).and_then(text)
    }

    /// The string of that name, or an empty one.
    pub(super) fn string(&self, name: &str) -> String {
        self.text(name).map(|text| text.text).unwrap_or_default()
    }

    /// The string of that name, unless it is absent or empty.
    pub(super) fn id(&self, name: &str) -> Option<String> {
        self.text(name).map(|text| text.text).filter(|text| !text.is_empty())
    }

    pub(super) fn object(&self, name: &str) -> Option<Object<'a>> {
        self.get(name).and_then(object)
    }

    pub(super) fn list(&self, name: &str) -> Option<Vec<&'a RawValue>> {
        self.get(name).and_then(list)
    }

    /// True if the member of that name is `true`.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.get() == "true")
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.get(name).and_then(|value| serde_json::from_str(value.get()).ok())
    }

    /// The number of that name as a count, or zero: fractions are dropped, and negative numbers become zero.
    pub(super) fn count(&self, name: &str) -> i64 {
        // The cast saturates, and a count that large is wrong anyway.
        self.number(name).map_or(0, |number| (number as i64).max(0))
    }

    /// The number of that name as a count of tokens; what no count can be says nothing.
    pub(super) fn tokens(&self, name: &str) -> i64 {
        let count = self.count(name);
        if count > limits::TOKENS_MAX { 0 } else { count }
    }

    /// The instant of that name, from an RFC 3339 text or a number of milliseconds, if it is one that the protocol can
    /// hold.
    pub(super) fn time(&self, name: &str) -> Option<Timestamp> {
        let time = match self.text(name) {
            Some(text) => Timestamp(text.text.parse::<jiff::Timestamp>().ok()?.as_microsecond()),
            None => Timestamp::from_millis(self.number(name)? as i64),
        };
        TIMES.contains(&time).then_some(time)
    }
}

/// The position of a value in the text that it is a slice of; none if it is of another one.
pub(super) fn span(whole: &str, value: &RawValue) -> Option<Range<usize>> {
    let start = value.get().as_ptr().addr().wrapping_sub(whole.as_ptr().addr());
    let range = start..start.saturating_add(value.get().len());
    whole.get(range.clone()).is_some().then_some(range)
}

/// The string in a value; none if the value is no string.
pub(super) fn text(value: &RawValue) -> Option<Text> {
    serde_json::from_str(value.get()).ok()
}

/// The object in a value; none if the value is no object.
pub(super) fn object(value: &RawValue) -> Option<Object<'_>> {
    serde_json::from_str(value.get()).ok()
}

/// The items of the list in a value; none if the value is no list.
pub(super) fn list(value: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(value.get()).ok()
}

/// A text as a JSON string.
pub(super) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A name as a step of a JSON pointer.
pub(super) fn step(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_keeps_its_members_as_they_were_written() {
        let object = Object::parse(r#" {"b": 9e-06, "a":{"z":1, "y":1.0}, "n":null} "#, 1).unwrap();
        let members: Vec<_> = object.members().map(|(name, value)| (name, value.get())).collect();
        assert_eq!(members, [("b", "9e-06"), ("a", r#"{"z":1, "y":1.0}"#), ("n", "null")]);
        assert!(object.get("n").is_none());
        assert_eq!(object.number("b"), Some(9e-6));
    }

    #[test]
    fn of_several_members_of_one_name_the_last_counts() {
        assert_eq!(Object::parse(r#"{"a":1,"a":2}"#, 1).unwrap().count("a"), 2);
    }

    #[test]
    fn half_of_a_surrogate_pair_is_replaced_and_reported() {
        let object = Object::parse(r#"{"cut":"ab\ud83d","whole":"\ud83d\ude00","\udc00":1}"#, 1).unwrap();
        let truncated = object.text("cut").unwrap();
        assert_eq!(truncated, Text { text: "ab\u{fffd}".into(), exact: false });
        assert_eq!(object.text("whole").unwrap(), Text { text: "😀".into(), exact: true });
    }

    #[test]
    fn a_value_that_is_no_object_is_named_with_its_column() {
        assert_eq!(Object::parse(r#"{"a":}"#, 1).unwrap_err(), "not a JSON object: expected value at column 6");
        assert!(Object::parse("[1]", 1).unwrap_err().contains("expected a JSON object"));
    }

    #[test]
    fn counts_are_never_negative_and_times_have_two_forms() {
        let object =
            Object::parse(r#"{"a":-3,"b":2.0,"c":"x","t":"2025-01-02T03:04:05.678Z","m":1735787045678}"#, 1).unwrap();
        assert_eq!([object.count("a"), object.count("b"), object.count("c"), object.count("d")], [0, 2, 0, 0]);
        assert_eq!(object.time("t"), Some(Timestamp(1_735_787_045_678_000)));
        assert_eq!(object.time("m"), object.time("t"));
        assert_eq!(object.time("c"), None);
    }
}
