//! The AI SDK's `UIMessage`s, which its front ends keep.

use super::ai_sdk_parts::{FORMAT, media, reason};
use super::format::CUT_OFF;
use super::kept;
use super::reading::{self, Result, Unreadable, object, required};
use crate::compose::{ObjectWriter, list};
use crate::raw::{self, Object};
use longhand_model::message::{NewFinish, NewMessage, Role};
use longhand_model::part::{NewPart, PartBody, ResultStatus};
use longhand_model::usage::Usage;
use serde_json::value::RawValue;

/// The messages of a message with parts: for each step what the speaker says, and the results of its calls. What no model
/// reads of it, such as sources and data, is in the metadata of the last message that the speaker has.
pub(super) fn message(at: &str, text: &str, given: &Object<'_>, parts: &RawValue) -> Result<Vec<NewMessage>> {
    let role = match required(at, given, "role")?.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        other => return Err(Unreadable::new(format_args!("{at}.role"), format_args!("{other} is no role"))),
    };
    let (mut messages, mut others) = (Vec::new(), Vec::new());
    let (mut said, mut results) = (Vec::new(), Vec::new());
    for (index, part) in reading::list(format_args!("{at}.parts"), parts)?.into_iter().enumerate() {
        let at = format!("{at}.parts[{index}]");
        let inner = object(&at, part.get())?;
        if inner.string("type") == "step-start" {
            step(role, &mut said, &mut results, &mut messages);
            continue;
        }
        let Some(parts) = parts_of(&at, &inner)? else {
            others.push(part.get().to_owned());
            continue;
        };
        for part in parts {
            let is_result = matches!(&*part.body, PartBody::ToolResult(_));
            if is_result { results.push(part) } else { said.push(part) }
        }
    }
    step(role, &mut said, &mut results, &mut messages);
    let finish = given.object("metadata").map(|metadata| metadata.string("finishReason")).unwrap_or_default();
    let finish = given.id("finishReason").unwrap_or(finish);
    if messages.is_empty() && finish == CUT_OFF {
        // Nothing came of it but its beginning.
        let mut message = reading::message(FORMAT, role, Vec::new());
        message.finish = Some(NewFinish { detail: finish.clone(), ..NewFinish::default() });
        messages.push(message);
    }
    if let Some(last) = messages.iter_mut().rev().find(|message| message.role == role) {
        if let Some(end) = &mut last.finish {
            end.reason = reason(&finish).or(end.reason);
        }
        let rest = ObjectWriter::default().members(Some(text), &["role", "parts", "finishReason"]);
        let rest = if others.is_empty() { rest } else { rest.json("parts", list(&others)) };
        last.metadata_json = Some(kept::under(FORMAT, &ObjectWriter::default().json("ui", rest.end()).end()));
    }
    Ok(messages)
}

/// Ends a step: what the speaker says in it, and then the results of its calls.
fn step(role: Role, said: &mut Vec<NewPart>, results: &mut Vec<NewPart>, messages: &mut Vec<NewMessage>) {
    for (role, parts) in [(role, std::mem::take(said)), (Role::Tool, std::mem::take(results))] {
        if !parts.is_empty() {
            messages.push(reading::message(FORMAT, role, parts));
        }
    }
}

/// The parts of a part; none if no model reads it.
fn parts_of(at: &str, part: &Object<'_>) -> Result<Option<Vec<NewPart>>> {
    let kind = required(at, part, "type")?;
    let text = part.string("text");
    let options = part.get("providerMetadata").map(RawValue::get);
    let with_options = |block: ObjectWriter, body: PartBody| {
        let metadata_json = options.map(|options| kept::under(FORMAT, &block.json("providerOptions", options).end()));
        NewPart { metadata_json, ..NewPart::new(body) }
    };
    let named = |kind: &str| ObjectWriter::default().text("type", kind);
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
        let block = ObjectWriter::default().text("type", "tool-call").text("toolCallId", &id).text("toolName", &name);
        kept::under(FORMAT, &block.json("input", "null").json("providerOptions", options).end())
    });
    let mut parts = vec![reading::call(id.clone(), name.clone(), input, metadata)];
    let mut kept = None;
    let (status, output) = match part.string("state").as_str() {
        "output-available" => {
            let output = part.get("output").map_or("null", RawValue::get);
            let text = part.text("output").map(|text| text.text);
            // What is no text is JSON to a model.
            kept = text.is_none().then(|| {
                let value = ObjectWriter::default().text("type", "json").json("value", output).end();
                let block = ObjectWriter::default().text("type", "tool-result").text("toolCallId", &id);
                kept::under(FORMAT, &block.text("toolName", &name).json("output", value).end())
            });
            (ResultStatus::Completed, text.unwrap_or_else(|| output.to_owned()))
        }
        "output-error" => (ResultStatus::Error, part.string("errorText")),
        "output-denied" => {
            let reason = part.object("approval").map(|approval| approval.string("reason")).unwrap_or_default();
            (ResultStatus::Error, if reason.is_empty() { "denied".to_owned() } else { reason })
        }
        _ => return Ok(parts),
    };
    parts.push(reading::result(id, status, output, Vec::new(), kept));
    Ok(parts)
}

/// Usage as the SDK reports it, in its present form and the one before.
pub(super) fn usage_of(usage: &Object<'_>) -> Usage {
    let (input, output) = (usage.object("inputTokenDetails"), usage.object("outputTokenDetails"));
    let cache_read =
        input.as_ref().map_or(0, |input| input.tokens("cacheReadTokens")).max(usage.tokens("cachedInputTokens"));
    let cache_write = input.as_ref().map_or(0, |input| input.tokens("cacheWriteTokens"));
    let reasoning = output.map_or(0, |output| output.tokens("reasoningTokens")).max(usage.tokens("reasoningTokens"));
    Usage {
        input: (usage.tokens("inputTokens") - cache_read - cache_write).max(0),
        output: (usage.tokens("outputTokens") - reasoning).max(0),
        reasoning,
        cache_read,
        cache_write,
        total: Some(usage.tokens("totalTokens")).filter(|total| *total > 0),
        cost_usd: None,
        cost_is_computed: false,
    }
}
