//! The text of a part that an omission can shorten.

use crate::model::part::PartBody;

/// The text of a part that can be truncated.
pub fn text_of(body: &PartBody) -> Option<&str> {
    match body {
        PartBody::Text(text) => Some(text),
        PartBody::ToolResult(result) => Some(&result.output),
        PartBody::Reasoning(_)
        | PartBody::ToolCall(_)
        | PartBody::Media(_)
        | PartBody::Marker(_)
        | PartBody::Step(_)
        | PartBody::Opaque(_)
        | PartBody::Record(_) => None,
    }
}
