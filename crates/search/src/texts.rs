//! The text of a part that is searched.

use crate::limits;
use crate::model::part::PartBody;
use crate::words::Form;

/// The text of a part that is searched and shown, and its form; none for a part that has none. What is too long is cut
/// off.
pub fn text_of(body: &PartBody) -> Option<(&str, Form)> {
    let (text, form) = match body {
        PartBody::Text(text) | PartBody::Reasoning(text) => (text.as_str(), None),
        PartBody::ToolCall(call) => (call.input_json.as_str(), Some(Form::Json)),
        PartBody::ToolResult(result) => (result.output.as_str(), None),
        PartBody::Media(media) => (media.name.as_str(), Some(Form::Plain)),
        PartBody::Marker(marker) => (marker.text.as_str(), None),
        PartBody::Record(record) => (record.data.as_str(), None),
        PartBody::Step(_) | PartBody::Opaque(_) => return None,
    };
    let form = form.unwrap_or_else(|| Form::from_text(text));
    Some((&text[..text.floor_char_boundary(limits::SEARCH_TEXT_BYTES_MAX)], form))
}
