//! What both kinds of the AI SDK's messages have.

use super::format::Format;
use super::reading;
use crate::raw::Object;
use longhand_model::message::FinishReason;
use longhand_model::part::Media;

pub(super) const FORMAT: Format = Format::AiSdk;

/// The reason that the SDK gives.
pub(super) fn reason(name: &str) -> Option<FinishReason> {
    Some(match name {
        "stop" => FinishReason::Stop,
        "length" => FinishReason::Length,
        "content-filter" => FinishReason::ContentFilter,
        "tool-calls" => FinishReason::ToolCalls,
        "error" => FinishReason::Error,
        super::format::CUT_OFF => FinishReason::Aborted,
        _ => return None,
    })
}

/// The media of a file or an image; none if its data are not in it.
pub(super) fn media(part: &Object<'_>) -> Option<Media> {
    let kind = part.string("type");
    if !matches!(kind.as_str(), "file" | "image" | "file-data" | "file-url" | "image-data" | "image-url" | "media") {
        return None;
    }
    let mime_type = part.id("mediaType").or_else(|| part.id("mimeType"));
    let mime_type =
        mime_type.unwrap_or_else(|| if kind.starts_with("image") { "image/*" } else { "application/*" }.to_owned());
    let name = part.string("filename");
    if let Some(address) = part.id("url") {
        return reading::media_at(&mime_type, name, &address);
    }
    let inner = part.object("data");
    let tagged = inner.as_ref().and_then(|inner| inner.id("data").or_else(|| inner.id("url")));
    let data = tagged.or_else(|| part.id("data")).or_else(|| part.id("image"))?;
    let is_address = ["http:", "https:", "data:", "file:"].iter().any(|scheme| data.starts_with(scheme));
    if is_address { reading::media_at(&mime_type, name, &data) } else { reading::media(mime_type, name, &data) }
}
