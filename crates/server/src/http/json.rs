//! Protocol messages in protobuf's JSON mapping, with errors that name the field.

use super::{protocol, transcoding};
use crate::app::error::excerpt;
use crate::app::{Error, Reason, Result};
use bytes::Bytes;
use prost_reflect::prost::{Message, Name};
use prost_reflect::{DynamicMessage, MessageDescriptor};
use serde::de::IntoDeserializer as _;
use serde_json::Value;

/// What the library says of a field that a message does not have, and of a choice with two values, up to the name.
const NAMING: [(&str, &str); 2] = [
    ("unrecognized field name '", "is no field of the request"),
    ("multiple fields provided for oneof '", "is given twice"),
];

/// Parses a message from a JSON text, which has no more values than any request may have.
///
/// # Errors
///
/// `REQUEST_MALFORMED` if the text is not one JSON object; `INVALID_FIELD` with the field's path for a field that the
/// message does not have or that has another type.
pub(super) fn decode(descriptor: &MessageDescriptor, text: &[u8]) -> Result<DynamicMessage> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let message = read_message(descriptor, &mut deserializer)?;
    deserializer.end().map_err(|cause| json_error(&cause))?;
    Ok(message)
}

/// A message from fields that are JSON values already.
///
/// # Errors
///
/// As [`decode`].
pub(super) fn from_fields(
    descriptor: &MessageDescriptor,
    fields: serde_json::Map<String, Value>,
) -> Result<DynamicMessage> {
    read_message(descriptor, Value::Object(fields).into_deserializer())
}

fn read_message<'de, D>(descriptor: &MessageDescriptor, deserializer: D) -> Result<DynamicMessage>
where
    D: serde::Deserializer<'de, Error = serde_json::Error>,
{
    let mut track = serde_path_to_error::Track::new();
    let deserializer = serde_path_to_error::Deserializer::new(deserializer, &mut track);
    DynamicMessage::deserialize(descriptor.clone(), deserializer).map_err(|cause| {
        let path = track.path();
        let is_root = path.iter().next().is_none();
        match quoted_name(&cause.to_string()) {
            Some((name, why)) if is_root => Error::field(name, why),
            Some((name, why)) => Error::field(format!("{path}.{name}"), why),
            None if is_root || !cause.is_data() => json_error(&cause),
            None => Error::field(path, cause),
        }
    })
}

/// The name in one of those refusals, with our own words for it.
fn quoted_name(cause: &str) -> Option<(String, &'static str)> {
    NAMING.iter().find_map(|(prefix, why)| {
        let (_, rest) = cause.split_once(prefix)?;
        rest.rsplit_once('\'').map(|(name, _)| (name.to_owned(), *why))
    })
}

fn json_error(cause: &serde_json::Error) -> Error {
    Error::new(Reason::RequestMalformed, format!("the body is not one JSON object: {}", excerpt(cause)))
}

/// The JSON text of an encoded message, on one line.
///
/// # Errors
///
/// `INTERNAL` if the message is not one of its type.
pub(super) fn encode(descriptor: &MessageDescriptor, message: Bytes) -> Result<Vec<u8>> {
    if let Some(text) = transcoding::json(descriptor.full_name(), &message) {
        return Ok(text);
    }
    let message = DynamicMessage::decode(descriptor.clone(), message).map_err(Error::internal)?;
    serde_json::to_vec(&message).map_err(Error::internal)
}

/// The JSON text of a message of the protocol, on one line.
///
/// # Errors
///
/// As [`encode`].
pub(super) fn text_of<M: Message + Name>(message: &M) -> Result<String> {
    let name = M::full_name();
    let descriptor = protocol::DESCRIPTORS.get_message_by_name(&name);
    let descriptor = descriptor.ok_or_else(|| Error::internal(format_args!("the protocol has no {name}")))?;
    String::from_utf8(encode(&descriptor, message.encode_to_vec().into())?).map_err(Error::internal)
}

/// A message of the protocol from fields that are JSON values already.
///
/// # Errors
///
/// As [`decode`].
pub(super) fn decode_fields<M: Message + Name + Default>(fields: serde_json::Map<String, Value>) -> Result<M> {
    let name = M::full_name();
    let descriptor = protocol::DESCRIPTORS.get_message_by_name(&name);
    let descriptor = descriptor.ok_or_else(|| Error::internal(format_args!("the protocol has no {name}")))?;
    from_fields(&descriptor, fields)?.transcode_to().map_err(Error::internal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;

    fn refusal(name: &str, text: &str) -> (Reason, Option<String>) {
        let descriptor = protocol::DESCRIPTORS.get_message_by_name(name).expect("a message");
        let error = decode(&descriptor, text.as_bytes()).expect_err("a refusal");
        (error.reason, error.metadata.get("field").cloned())
    }

    #[test]
    fn a_refusal_repeats_no_more_of_a_request_than_is_needed() {
        let descriptor =
            protocol::DESCRIPTORS.get_message_by_name("longhand.v1.AppendMessagesRequest").expect("a message");
        let long = "ä".repeat(1 << 20);
        for text in [
            format!(r#"{{"{long}":1}}"#),
            format!(r#"{{"messages":[{{"{long}":1}}]}}"#),
            format!(r#"{{"messages":"{long}"}}"#),
            format!(r#""{long}""#),
        ] {
            let error = decode(&descriptor, text.as_bytes()).expect_err("a refusal");
            let bytes = error.message.len() + error.metadata.values().map(String::len).sum::<usize>();
            assert!(bytes < 4 * limits::REPEATED_BYTES_MAX, "{:?} has {bytes} bytes", error.reason);
        }
    }

    #[test]
    fn a_refusal_names_the_field() {
        let append = |text| refusal("longhand.v1.AppendMessagesRequest", text);
        let field = |path: &str| (Reason::InvalidField, Some(path.to_owned()));
        assert_eq!(append(r#"{"mesages":[]}"#), field("mesages"));
        assert_eq!(append(r#"{"messages":[{"role":"ROLE_USER"},{"rol":1}]}"#), field("messages[1].rol"));
        assert_eq!(append(r#"{"messages":[{"role":"USER"}]}"#), field("messages[0].role"));
        assert_eq!(
            append(r#"{"messages":[{"parts":[{"text":{"text":7}}]}]}"#),
            field("messages[0].parts[0].text.text")
        );
        assert_eq!(append(r#"{"expectedRevision":1.5}"#), field("expectedRevision"));
        assert_eq!(append(r#"{"messages":[{"originTime":"yesterday"}]}"#), field("messages[0].originTime"));
        assert_eq!(append(r#"{"it's":1}"#), field("it's"));
        assert_eq!(append(r#"{"messages":[{"parts":[{"text":{},"media":{}}]}]}"#), field("messages[0].parts[0].body"));
        for text in ["", "[]", "7", "{", r#"{"messages":[{]}"#, "{} {}", "\u{feff}{}", r#"{"requestId":"\ud800"}"#] {
            assert_eq!(append(text), (Reason::RequestMalformed, None), "{text}");
        }
    }
}
