//! What readers of all formats need: parts from blocks, messages from parts, and the error.

use super::format::Format;
use super::kept::{self, Path};
use crate::compose::ObjectWriter;
use crate::raw::{self, Object};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use longhand_model::limits;
use longhand_model::message::{FinishReason, NewFinish, NewMessage, Role};
use longhand_model::part::{
    Answers, Media, MediaSource, NewPart, Opaque, PartBody, ResultStatus, ToolCall, ToolResult,
};
use serde_json::value::RawValue;
use std::fmt::Display;

/// A text that is no content of its format, or has something that no message can hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {problem}")]
pub struct Unreadable {
    /// The place in the text, which is `json` itself, such as `json.messages[2].content[0]`.
    pub at: String,
    /// The problem, as a fragment of a sentence.
    pub problem: String,
}

pub(super) type Result<T> = std::result::Result<T, Unreadable>;

impl Unreadable {
    pub(super) fn new(at: impl Display, problem: impl Display) -> Self {
        Self { at: at.to_string(), problem: problem.to_string() }
    }
}

pub(super) fn object<'a>(at: impl Display, text: &'a str) -> Result<Object<'a>> {
    Object::parse(text, 1).map_err(|problem| Unreadable::new(at, problem))
}

/// The items of a list.
pub(super) fn list(at: impl Display, value: &RawValue) -> Result<Vec<&RawValue>> {
    raw::list(value).ok_or_else(|| Unreadable::new(at, "is not a list"))
}

/// A member that must be a text which is not empty.
pub(super) fn required(at: impl Display, object: &Object<'_>, name: &str) -> Result<String> {
    object.id(name).ok_or_else(|| Unreadable::new(format_args!("{at}.{name}"), "is not given"))
}

/// A block without what concerns one request alone.
pub(super) fn without(block: &str, name: &str) -> String {
    match Object::parse(block, 1) {
        Ok(object) if object.members().any(|(member, _)| member == name) => {
            ObjectWriter::default().members(Some(block), &[name]).end()
        }
        _ => block.to_owned(),
    }
}

/// A part whose content is the string at the end of a path. None if there is no string, if it is empty, which no view shows,
/// or if what the block has beside it is too large for a part's metadata.
pub(super) fn text_part(
    format: Format,
    block: &str,
    path: Path<'_>,
    plain: &str,
    body: fn(String) -> PartBody,
) -> Option<NewPart> {
    let text = raw::text(kept::value(block, path)?)?;
    if text.text.is_empty() {
        return None;
    }
    let metadata_json = kept::metadata(format, block, path, plain);
    if metadata_json.as_ref().is_some_and(|metadata| metadata.len() > limits::METADATA_BYTES_MAX) {
        return None;
    }
    Some(NewPart { metadata_json, ..NewPart::new(body(text.text)) })
}

/// A block that is given back as it is.
pub(super) fn opaque(format: Format, kind: &str, block: &str) -> NewPart {
    let kind = limits::name_within(kind).into_owned();
    NewPart::new(PartBody::Opaque(Opaque { provider: format.name().to_owned(), kind, data: block.as_bytes().to_vec() }))
}

pub(super) fn call(call_id: String, tool: String, input_json: String, metadata_json: Option<String>) -> NewPart {
    let body = PartBody::ToolCall(ToolCall { call_id, tool, input_json, ..ToolCall::default() });
    NewPart { metadata_json, ..NewPart::new(body) }
}

/// The result of a tool. What is too large for its metadata is in its text and its attachments alone.
pub(super) fn result(
    call_id: String,
    status: ResultStatus,
    output: String,
    attachments: Vec<Media>,
    metadata_json: Option<String>,
) -> NewPart {
    let body = PartBody::ToolResult(ToolResult {
        call_id,
        answers: Answers::Nearest,
        status,
        output,
        attachments,
        start_time: None,
        end_time: None,
    });
    NewPart { metadata_json: fitting(metadata_json), ..NewPart::new(body) }
}

/// Media from bytes in base64. None if they are not what would be written again.
pub(super) fn media(mime_type: String, name: String, data: &str) -> Option<Media> {
    let bytes = STANDARD.decode(data).ok()?;
    (!mime_type.is_empty()).then_some(Media { mime_type, name, source: MediaSource::Bytes(bytes) })
}

/// Media from an address, which may be one that has the bytes in it.
pub(super) fn media_at(mime_type: &str, name: String, address: &str) -> Option<Media> {
    if let Some((head, data)) = address.strip_prefix("data:").and_then(|rest| rest.split_once(','))
        && let Some(own) = head.strip_suffix(";base64")
    {
        return media(own.to_owned(), name, data);
    }
    let source = MediaSource::Uri(address.to_owned());
    (!mime_type.is_empty() && !address.is_empty()).then(|| Media { mime_type: mime_type.to_owned(), name, source })
}

/// Metadata, unless they are too large.
pub(super) fn fitting(metadata: Option<String>) -> Option<String> {
    metadata.filter(|metadata| metadata.len() <= limits::METADATA_BYTES_MAX)
}

/// A sealed message.
pub(super) fn message(format: Format, role: Role, parts: Vec<NewPart>) -> NewMessage {
    let mut message = NewMessage::sealed(role, parts);
    if role == Role::Assistant {
        message.finish = Some(NewFinish { reason: Some(reason_by_parts(&message.parts)), ..NewFinish::default() });
        format.provider().clone_into(&mut message.provider);
    }
    message
}

/// The reason of a reply that does not say one.
pub(super) fn reason_by_parts(parts: &[NewPart]) -> FinishReason {
    let has_calls = parts.iter().any(|part| matches!(&*part.body, PartBody::ToolCall(_)));
    if has_calls { FinishReason::ToolCalls } else { FinishReason::Stop }
}

/// The metadata of a message: what it had beside its content; none if that is nothing.
pub(super) fn rest(format: Format, message: &str, without: &[&str]) -> Option<String> {
    let object = Object::parse(message, 1).ok()?;
    let has_rest = object.members().any(|(name, value)| !without.contains(&name) && value.get() != "null");
    has_rest.then(|| kept::under(format, &ObjectWriter::default().members(Some(message), without).end()))
}

/// Messages without those that say nothing, and an error if there are none. A reply without content says how it ended.
pub(super) fn not_empty(messages: Vec<NewMessage>) -> Result<Vec<NewMessage>> {
    let says_something = |message: &NewMessage| {
        let ended = |finish: &NewFinish| !finish.detail.is_empty() || finish.usage.is_some();
        !message.parts.is_empty() || message.finish.as_ref().is_some_and(ended)
    };
    let messages: Vec<_> = messages.into_iter().filter(says_something).collect();
    if messages.is_empty() {
        return Err(Unreadable::new("json", "has no message with content"));
    }
    Ok(messages)
}
