//! Signatures between the AI SDK's options and the interfaces that it leads to: they are the same bytes in other places.

use super::format::Format;
use super::kept::{of_format, value};
use crate::compose::ObjectWriter;
use crate::raw::text;
use longhand_model::part::PartBody;

/// The block of a part in a format, with `null` in the content's place, by what another format kept of it; none if that has
/// no signature that the format takes.
pub(super) fn block(format: Format, body: &PartBody, metadata: &str) -> Option<String> {
    let kept = |from| of_format(from, Some(metadata));
    let is_reasoning = matches!(body, PartBody::Reasoning(_));
    match format {
        Format::AiSdk => part(body, &options(is_reasoning, kept)?),
        Format::Anthropic if is_reasoning => {
            let signature = string(kept(Format::AiSdk)?, &["providerOptions", "anthropic", "signature"])?;
            Some(thinking(&signature))
        }
        Format::Gemini => {
            let signature = string(kept(Format::AiSdk)?, &["providerOptions", "google", "thoughtSignature"])?;
            let part = match body {
                PartBody::Text(_) => ObjectWriter::default().json("text", "null"),
                PartBody::Reasoning(_) => ObjectWriter::default().json("text", "null").value("thought", true),
                PartBody::ToolCall(call) => {
                    let inner = ObjectWriter::default().text("id", &call.call_id).text("name", &call.tool);
                    ObjectWriter::default().json("functionCall", inner.json("args", "null").end())
                }
                _ => return None,
            };
            Some(part.text("thoughtSignature", &signature).end())
        }
        Format::Anthropic | Format::OpenAiChat | Format::OpenAiResponses => None,
    }
}

/// Anthropic's block of thinking with a signature, and `null` in the content's place.
pub(super) fn thinking(signature: &str) -> String {
    ObjectWriter::default().text("type", "thinking").json("thinking", "null").text("signature", signature).end()
}

/// The options of the AI SDK by what a provider's block had.
fn options<'a>(is_reasoning: bool, kept: impl Fn(Format) -> Option<&'a str>) -> Option<String> {
    let of_one = |name: &str, options: ObjectWriter| ObjectWriter::default().json(name, options.end()).end();
    let anthropic = kept(Format::Anthropic).and_then(|block| string(block, &["signature"]));
    if let Some(signature) = anthropic.filter(|_| is_reasoning) {
        return Some(of_one("anthropic", ObjectWriter::default().text("signature", &signature)));
    }
    if let Some(signature) = kept(Format::Gemini).and_then(|part| string(part, &["thoughtSignature"])) {
        return Some(of_one("google", ObjectWriter::default().text("thoughtSignature", &signature)));
    }
    let item = kept(Format::OpenAiResponses).filter(|_| is_reasoning)?;
    let options = ObjectWriter::default().text("itemId", &string(item, &["id"])?);
    let encrypted = string(item, &["encrypted_content"]);
    Some(of_one("openai", options.nullable("reasoningEncryptedContent", encrypted.as_deref())))
}

/// A part of the AI SDK with options.
fn part(body: &PartBody, options: &str) -> Option<String> {
    let part = ObjectWriter::default();
    let part = match body {
        PartBody::Text(_) => part.text("type", "text").json("text", "null"),
        PartBody::Reasoning(_) => part.text("type", "reasoning").json("text", "null"),
        PartBody::ToolCall(call) => {
            let part = part.text("type", "tool-call").text("toolCallId", &call.call_id);
            part.text("toolName", &call.tool).json("input", "null")
        }
        _ => return None,
    };
    Some(part.json("providerOptions", options).end())
}

fn string(block: &str, path: &[&str]) -> Option<String> {
    text(value(block, path)?).map(|text| text.text)
}
