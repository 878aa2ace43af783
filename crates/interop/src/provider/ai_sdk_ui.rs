//! The AI SDK's `UIMessage`s, which its front ends keep.

use super::ai_sdk::{FORMAT, media, reason};
use super::kept;
use super::reading::{self, Result, Unreadable, object, required};
use crate::compose::{Composed, list};
use crate::raw::{self, Object};
use longhand_core::model::message::{NewMessage, Role};
use longhand_core::model::part::{NewPart, PartBody, ResultStatus};
use longhand_core::model::usage::Usage;
use serde_json::value::RawValue;

/// A message with parts. What no model reads of it, such as sources and data, is in the metadata of the message.
pub(super) fn message(at: &str, text: &str, given: &Object<'_>, parts: &RawValue) -> Result<Vec<NewMessage>> {
    let role = match required(at, given, "role")?.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        other => return Err(Unreadable::new(format_args!("{at}.role"), format_args!("{other} is no role"))),
    };
    let (mut shown, mut others) = (Vec::new(), Vec::new());
    for (index, part) in reading::list(format_args!("{at}.parts"), parts)?.into_iter().enumerate() {
        let at = format!("{at}.parts[{index}]");
        let inner = object(&at, part.get())?;
        match parts_of(&at, &inner)? {
            Some(parts) => shown.extend(parts),
            None => others.push(part.get().to_owned()),
        }
    }
    let finish = given.object("metadata").map(|metadata| metadata.string("finishReason")).unwrap_or_default();
    let finish = given.id("finishReason").unwrap_or(finish);
    let mut message = reading::message(FORMAT, role, shown);
    if let Some(end) = &mut message.finish {
        end.reason = reason(&finish).or(end.reason);
    }
    let rest = Composed::default().members(Some(text), &["role", "parts", "finishReason"]);
    let rest = if others.is_empty() { rest } else { rest.json("parts", list(&others)) };
    message.metadata_json = Some(kept::under(FORMAT, &Composed::default().json("ui", rest.end()).end()));
    Ok(vec![message])
}

/// The parts of a part; none if no model reads it.
fn parts_of(at: &str, part: &Object<'_>) -> Result<Option<Vec<NewPart>>> {
    let kind = required(at, part, "type")?;
    let text = part.string("text");
    let options = part.get("providerMetadata").map(RawValue::get);
    let with_options = |block: Composed, body: PartBody| {
        let metadata_json = options.map(|options| kept::under(FORMAT, &block.json("providerOptions", options).end()));
        NewPart { metadata_json, ..NewPart::new(body) }
    };
    let named = |kind: &str| Composed::default().text("type", kind);
    Ok(Some(match kind.as_str() {
        "text" if !text.is_empty() => vec![with_options(named("text").json("text", "null"), PartBody::Text(text))],
        "reasoning" if text.is_empty() && options.is_some() => {
            let block = named("reasoning").text("text", "").json("providerOptions", options.unwrap_or("{}")).end();
            vec![reading::opaque(FORMAT, &kind, &block)]
        }
        "reasoning" => vec![with_options(named("reasoning").json("text", "null"), PartBody::Reasoning(text))],
        "file" => match media(part) {
            Some(media) => vec![NewPart::new(PartBody::Media(media))],
            None => return Err(Unreadable::new(at, "is a file without data")),
        },
        "dynamic-tool" => tool(at, part, required(at, part, "toolName")?)?,
        kind => match kind.strip_prefix("tool-") {
            Some(name) => tool(at, part, name.to_owned())?,
            None => return Ok(None),
        },
    }))
}

/// A call, with its result if it has one.
fn tool(at: &str, part: &Object<'_>, name: String) -> Result<Vec<NewPart>> {
    let id = required(at, part, "toolCallId")?;
    let input = part.get("input").or_else(|| part.get("rawInput"));
    // The input of a call that was cut off is text.
    let is_cut = part.string("state") == "input-streaming";
    let text = input.filter(|_| is_cut).and_then(raw::text).map(|text| text.text);
    let input = text.unwrap_or_else(|| input.map_or("{}", RawValue::get).to_owned());
    let options = part.get("callProviderMetadata").map(RawValue::get);
    let metadata = options.map(|options| {
        let block = Composed::default().text("type", "tool-call").text("toolCallId", &id).text("toolName", &name);
        kept::under(FORMAT, &block.json("input", "null").json("providerOptions", options).end())
    });
    let mut parts = vec![reading::call(id.clone(), name, input, metadata)];
    let (status, output) = match part.string("state").as_str() {
        "output-available" => {
            let output =
                part.get("output").map(|output| raw::text(output).map_or(output.get().to_owned(), |text| text.text));
            (ResultStatus::Completed, output.unwrap_or_default())
        }
        "output-error" => (ResultStatus::Error, part.string("errorText")),
        "output-denied" => {
            let reason = part.object("approval").map(|approval| approval.string("reason")).unwrap_or_default();
            (ResultStatus::Error, if reason.is_empty() { "denied".to_owned() } else { reason })
        }
        _ => return Ok(parts),
    };
    parts.push(reading::result(id, status, output, Vec::new(), None));
    Ok(parts)
}

/// Usage as the SDK reports it, in its present form and the one before.
pub(super) fn usage_of(usage: &Object<'_>) -> Usage {
    let (input, output) = (usage.object("inputTokenDetails"), usage.object("outputTokenDetails"));
    let cache_read =
        input.as_ref().map_or(0, |input| input.count("cacheReadTokens")).max(usage.count("cachedInputTokens"));
    let cache_write = input.as_ref().map_or(0, |input| input.count("cacheWriteTokens"));
    let reasoning = output.map_or(0, |output| output.count("reasoningTokens")).max(usage.count("reasoningTokens"));
    Usage {
        input: (usage.count("inputTokens") - cache_read - cache_write).max(0),
        output: (usage.count("outputTokens") - reasoning).max(0),
        reasoning,
        cache_read,
        cache_write,
        total: Some(usage.count("totalTokens")).filter(|total| *total > 0),
        cost_usd: None,
    }
}
