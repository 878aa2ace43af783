//! JSON objects that are composed member by member, so that inputs and provider blocks stay as they were written.

use crate::raw::{self, Object, quote};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use longhand_model::part::{Media, MediaSource};
use serde_json::value::RawValue;

/// An object that is being composed.
#[derive(Debug, Clone, Default)]
pub(super) struct ObjectWriter(String);

impl ObjectWriter {
    /// Adds a member whose value is JSON.
    pub(super) fn json(mut self, name: &str, value: impl AsRef<str>) -> Self {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        self.0.push_str(&quote(name));
        self.0.push(':');
        self.0.push_str(value.as_ref());
        self
    }

    /// Adds a member with a text.
    pub(super) fn text(self, name: &str, value: &str) -> Self {
        let quoted = quote(value);
        self.json(name, quoted)
    }

    /// Adds a member with a text, or with `null`.
    pub(super) fn nullable(self, name: &str, value: Option<&str>) -> Self {
        let value = value.map_or_else(|| "null".to_owned(), quote);
        self.json(name, value)
    }

    /// Adds a member with a number or a truth value.
    pub(super) fn value(self, name: &str, value: impl Into<serde_json::Value>) -> Self {
        let value = value.into().to_string();
        self.json(name, value)
    }

    /// Adds the members of an object, without those named.
    pub(super) fn members(mut self, object: Option<&str>, without: &[&str]) -> Self {
        let Some(object) = object.and_then(|object| Object::parse(object, 1).ok()) else { return self };
        for (name, value) in object.members().filter(|(name, _)| !without.contains(name)) {
            self = self.json(name, value.get());
        }
        self
    }

    /// The object.
    pub(super) fn end(self) -> String {
        format!("{{{}}}", self.0)
    }
}

/// A line of a file with another parent, which the member of that name has.
pub(super) fn relink(object: &Object<'_>, line: &str, name: &str, parent: Option<&str>) -> String {
    let found = object.members().find(|(member, _)| *member == name);
    let span = found.and_then(|(_, value)| raw::span(line, value));
    let mut line = line.to_owned();
    if let Some(range) = span {
        line.replace_range(range, &parent.map_or_else(|| "null".to_owned(), quote));
    }
    line
}

/// A list of JSON values.
pub(super) fn list(items: &[String]) -> String {
    format!("[{}]", items.join(","))
}

/// Bytes as a JSON string in base64.
pub(super) fn base64(bytes: &[u8]) -> String {
    quote(&STANDARD.encode(bytes))
}

pub(super) fn base64_text(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The bytes of an image; none for other media, and for an address.
pub(super) fn image(media: &Media) -> Option<&[u8]> {
    match &media.source {
        MediaSource::Bytes(bytes) if media.mime_type.starts_with("image/") => Some(bytes),
        MediaSource::Bytes(_) | MediaSource::Uri(_) => None,
    }
}

/// The input of a call as a JSON object on one line; none if it is none.
pub(super) fn input_object(input: &str) -> Option<String> {
    let is_object = serde_json::from_str::<&RawValue>(input).is_ok() && Object::parse(input, 1).is_ok();
    is_object.then(|| one_line(input))
}

/// JSON on one line: line feeds can only stand between its tokens.
pub(super) fn one_line(json: &str) -> String {
    json.replace(['\n', '\r'], " ")
}

/// The string of that name in an object.
pub(super) fn string_in(object: Option<&str>, name: &str) -> Option<String> {
    Object::parse(object?, 1).ok()?.id(name)
}

/// The signature of reasoning in a part's metadata, from an import or from a block of Anthropic's own.
pub(super) fn signature(metadata: Option<&str>) -> Option<String> {
    let block = |metadata: &str| Object::parse(metadata, 1).ok()?.object("anthropic")?.id("signature");
    string_in(metadata, "signature").or_else(|| metadata.and_then(block))
}

/// The 32 hex digits of a server's id.
pub(super) fn digits(id: &str) -> &str {
    id.split_once('_').map_or(id, |(_, digits)| digits)
}

/// A server's id in the form of a UUID.
pub(super) fn uuid(id: &str) -> String {
    let digits = digits(id);
    if digits.len() != 32 || !digits.is_ascii() {
        return digits.to_owned();
    }
    let ranges = [0..8, 8..12, 12..16, 16..20, 20..32];
    ranges.map(|range| &digits[range]).join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_found_where_imports_and_appends_keep_it() {
        for (metadata, expected) in [
            (r#"{"signature":"a"}"#, Some("a")),
            (r#"{"anthropic":{"type":"thinking","thinking":null,"signature":"b"}}"#, Some("b")),
            (r#"{"gemini":{"signature":"c"}}"#, None),
        ] {
            assert_eq!(signature(Some(metadata)).as_deref(), expected);
        }
    }
}
