//! Content blocks that all agents have: text, reasoning, media, and opaque blocks of a provider.

use super::draft::{MessageDraft, MovedValuePlace};
use super::raw;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use longhand_model::limits;
use longhand_model::part::{Answers, Media, MediaSource, Opaque, PartBody, ResultStatus, ToolCall, ToolResult};
use serde_json::value::RawValue;

/// Adds a text part, if the value is a string.
pub(super) fn text(draft: &mut MessageDraft<'_>, value: &RawValue, pointer: String) -> Option<usize> {
    text_part(draft, value, pointer, PartBody::Text)
}

/// Adds a reasoning part, if the value is a string.
pub(super) fn reasoning(draft: &mut MessageDraft<'_>, value: &RawValue, pointer: String) -> Option<usize> {
    text_part(draft, value, pointer, PartBody::Reasoning)
}

fn text_part(
    draft: &mut MessageDraft<'_>,
    value: &RawValue,
    pointer: String,
    body: fn(String) -> PartBody,
) -> Option<usize> {
    let text = raw::text(value)?;
    let part = draft.push(body(text.text));
    if text.exact {
        draft.move_out(value, pointer, part, MovedValuePlace::Body);
    }
    Some(part)
}

/// Adds an opaque block, which is returned to its provider unchanged.
pub(super) fn opaque(
    draft: &mut MessageDraft<'_>,
    provider: &str,
    kind: &str,
    block: &RawValue,
    pointer: String,
) -> usize {
    let data = block.get().as_bytes().to_vec();
    let body = Opaque { provider: provider.to_owned(), kind: kind.to_owned(), data };
    let part = draft.push(PartBody::Opaque(body));
    draft.move_out(block, pointer, part, MovedValuePlace::Body);
    part
}

/// Adds a tool call with its input as the model wrote it.
pub(super) fn call(
    draft: &mut MessageDraft<'_>,
    call_id: String,
    tool: String,
    input: Option<&RawValue>,
    pointer: String,
) -> usize {
    let input_json = input.map_or("{}", RawValue::get).to_owned();
    let part = draft.push(PartBody::ToolCall(ToolCall { call_id, tool, input_json, ..ToolCall::default() }));
    if let Some(input) = input {
        draft.move_out(input, pointer, part, MovedValuePlace::Body);
    }
    part
}

/// Media with a type and a name that the protocol can hold.
pub(super) fn media(mime_type: String, name: String, source: MediaSource) -> Option<Media> {
    let fits = (1..=limits::NAME_BYTES_MAX).contains(&mime_type.len()) && name.len() <= limits::MEDIA_NAME_BYTES_MAX;
    let valid = fits && !mime_type.contains('\0');
    valid.then_some(Media { mime_type, name, source })
}

/// The bytes of media that are in the transcript; none if they are not valid base64.
pub(super) fn media_bytes(data: &RawValue) -> Option<MediaSource> {
    let text = raw::text(data)?;
    // Strict decoding: accepted text is encoded to the same text again.
    STANDARD.decode(text.text).ok().map(MediaSource::Bytes)
}

/// Adds a media part; `bytes` is the value of its bytes and the pointer to it.
pub(super) fn attach(draft: &mut MessageDraft<'_>, media: Media, bytes: Option<(&RawValue, String)>) -> usize {
    let part = draft.push(PartBody::Media(media));
    if let Some((value, pointer)) = bytes {
        draft.move_out(value, pointer, part, MovedValuePlace::Body);
    }
    part
}

/// One item of a tool's output.
pub(super) enum Output<'a> {
    /// A text, and the pointer to it.
    Text(&'a RawValue, String),
    /// Media, the value of their bytes, and the pointer to it.
    Media(Media, Option<(&'a RawValue, String)>),
    /// Another value, which is shown as JSON.
    Other(&'a RawValue),
}

/// Adds a tool result; its texts are joined by line feeds.
pub(super) fn result(
    draft: &mut MessageDraft<'_>,
    call_id: String,
    status: ResultStatus,
    outputs: Vec<Output<'_>>,
) -> usize {
    let mut texts = Vec::new();
    let mut moved = Vec::new();
    let mut attachments = Vec::new();
    let mut only_text = None;
    for output in outputs {
        match output {
            Output::Text(value, pointer) => {
                let text = raw::text(value);
                only_text = text.as_ref().is_some_and(|text| text.exact).then_some((value, pointer));
                texts.push(text.map_or_else(|| value.get().to_owned(), |text| text.text));
            }
            Output::Other(value) => texts.push(value.get().to_owned()),
            Output::Media(media, bytes) => {
                if let Some((value, pointer)) = bytes {
                    moved.push((value, pointer, MovedValuePlace::Attachment(attachments.len())));
                }
                attachments.push(media);
            }
        }
    }
    // If there are several texts, none of them equals the output, so that all stay in the rest of the line.
    if let (Some((value, pointer)), [_]) = (only_text, texts.as_slice()) {
        moved.push((value, pointer, MovedValuePlace::Body));
    }
    let output = texts.join("\n");
    let body = ToolResult {
        call_id,
        status,
        output,
        attachments,
        start_time: None,
        end_time: None,
        answers: Answers::Nearest,
    };
    let part = draft.push(PartBody::ToolResult(body));
    for (value, pointer, kept) in moved {
        draft.move_out(value, pointer, part, kept);
    }
    part
}
