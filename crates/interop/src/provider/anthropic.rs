//! Anthropic's Messages.

use super::format::{Format, object_input, text_block};
use super::kept;
use super::prepared::{AnsweredCall, Content, Piece, PreparedMessage};
use super::reading::{self, Result, Unreadable, message, object, opaque, required, text_part};
use super::written::{MergedMessages, Refusal, RefusalKind, WrittenView};
use crate::compose::{ObjectWriter, base64, list};
use crate::raw::{self, Object, quote};
use longhand_model::message::{FinishReason, NewFinish, NewMessage, Role};
use longhand_model::part::{Media, MediaSource, NewPart, PartBody, ResultStatus, ToolResult};
use longhand_model::usage::Usage;
use longhand_model::view::ViewKind;
use serde_json::value::RawValue;

const FORMAT: Format = Format::Anthropic;
/// The mark of a place up to which the provider keeps what it read.
const BREAKPOINT: &str = r#"{"type":"ephemeral"}"#;
const CACHE_CONTROL: &str = "cache_control";
const IMAGES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

pub(super) fn write(messages: &[PreparedMessage<'_>]) -> std::result::Result<WrittenView, Refusal> {
    let begin = messages.iter().take_while(|message| message.role == Role::System).count();
    let (system, rest) = messages.split_at(begin);
    let mut blocks = Vec::new();
    for message in system {
        blocks.extend(blocks_of(message)?);
    }
    mark(blocks.last_mut());
    let mut merged = MergedMessages::default();
    for (index, message) in rest.iter().enumerate() {
        let role = match message.role {
            Role::Assistant => "assistant",
            Role::User | Role::Tool => "user",
            Role::System => "system",
        };
        merged.add(role, blocks_of(message)?, message.source);
        if is_end_of_summary(rest, index) {
            mark(merged.last_block());
        }
    }
    let is_reply =
        |message: &&PreparedMessage<'_>| message.role == Role::Assistant && !message.begins_with_compaction();
    if let Some(first) = rest.first().filter(is_reply) {
        return Err(first.refusal(FORMAT, first.pieces[0].part, RefusalKind::NoUserFirst));
    }
    let system_json = (!blocks.is_empty()).then(|| list(&blocks));
    Ok(WrittenView { system_json, messages: merged.end("content"), left_out: Vec::new() })
}

/// True for the last message of a summary: everything up to it stays as it is until the next compaction.
fn is_end_of_summary(messages: &[PreparedMessage<'_>], index: usize) -> bool {
    let is_of_summary = |message: &PreparedMessage<'_>| matches!(message.kind, ViewKind::Summary);
    is_of_summary(&messages[index]) && !messages.get(index + 1).is_some_and(is_of_summary)
}

fn mark(block: Option<&mut String>) {
    if let Some(block) = block {
        *block = kept::with_member(block, CACHE_CONTROL, BREAKPOINT);
    }
}

fn blocks_of(message: &PreparedMessage<'_>) -> std::result::Result<Vec<String>, Refusal> {
    message.pieces.iter().map(|piece| block_of(message, piece)).collect()
}

fn block_of(message: &PreparedMessage<'_>, piece: &Piece<'_>) -> std::result::Result<String, Refusal> {
    let kept = piece.kept.as_deref();
    Ok(match &piece.content {
        Content::Text(text) => match kept {
            Some(kept) => kept::filled(kept, &["text"], &quote(text)),
            None => text_block(text),
        },
        Content::Reasoning(text) => kept::filled(kept.unwrap_or_default(), &["thinking"], &quote(text)),
        Content::Call { call, id } => {
            let input = object_input(&call.input_json);
            match kept {
                Some(kept) => kept::with_values(&kept::filled(kept, &["input"], &input), &[(&["id"], &quote(id))]),
                None => call_block(id, &call.tool, &input),
            }
        }
        Content::Result { result, answered } => match kept {
            Some(kept) => kept_result(kept, result, answered),
            None => result_block(result, &answered.id, |media| {
                media_block(media).ok_or_else(|| refused(message, piece, media))
            })?,
        },
        Content::Media(media) => {
            if message.role == Role::Assistant || message.role == Role::System {
                let role = if message.role == Role::System { "system" } else { "assistant" };
                return Err(message.refusal(FORMAT, piece.part, RefusalKind::MediaOfRole { role }));
            }
            match (kept, &media.source) {
                (Some(kept), MediaSource::Bytes(bytes)) => kept::filled(kept, &["source", "data"], &base64(bytes)),
                (Some(kept), MediaSource::Uri(_)) => kept.to_owned(),
                (None, _) => media_block(media).ok_or_else(|| refused(message, piece, media))?,
            }
        }
        Content::Own(block) => (*block).to_owned(),
    })
}

fn refused(message: &PreparedMessage<'_>, piece: &Piece<'_>, media: &Media) -> Refusal {
    message.refusal(FORMAT, piece.part, super::written::media_refusal(media))
}

fn call_block(id: &str, tool: &str, input: &str) -> String {
    ObjectWriter::default().text("type", "tool_use").text("id", id).text("name", tool).json("input", input).end()
}

fn result_block<E>(
    result: &ToolResult,
    id: &str,
    media: impl Fn(&Media) -> std::result::Result<String, E>,
) -> std::result::Result<String, E> {
    let content = if result.attachments.is_empty() {
        quote(&result.output)
    } else {
        let text = (!result.output.trim().is_empty()).then(|| Ok(text_block(&result.output)));
        let blocks = text.into_iter().chain(result.attachments.iter().map(media));
        list(&blocks.collect::<std::result::Result<Vec<_>, E>>()?)
    };
    let block = ObjectWriter::default().text("type", "tool_result").text("tool_use_id", id).json("content", content);
    Ok(match result.status {
        ResultStatus::Completed => block,
        ResultStatus::Error | ResultStatus::Interrupted => block.value("is_error", true),
    }
    .end())
}

fn kept_result(kept: &str, result: &ToolResult, answered: &AnsweredCall) -> String {
    let output = quote(&result.output);
    let block = kept::filled(&kept::filled(kept, &["content"], &output), &["content", "0", "text"], &output);
    kept::with_values(&block, &[(&["tool_use_id"], &quote(&answered.id))])
}

/// The block of an image or a document; none for other media.
fn media_block(media: &Media) -> Option<String> {
    let mime_type = media.mime_type.as_str();
    let kind = match &media.source {
        MediaSource::Bytes(_) if IMAGES.contains(&mime_type) => "image",
        MediaSource::Uri(_) if mime_type.starts_with("image/") => "image",
        MediaSource::Uri(_) if matches!(mime_type, "application/pdf" | "application/*") => "document",
        MediaSource::Bytes(_) if matches!(mime_type, "application/pdf" | "text/plain") => "document",
        MediaSource::Bytes(_) | MediaSource::Uri(_) => return None,
    };
    let source = ObjectWriter::default();
    let source = match &media.source {
        MediaSource::Uri(uri) => source.text("type", "url").text("url", uri),
        MediaSource::Bytes(bytes) if mime_type == "text/plain" => {
            source.text("type", "text").text("media_type", mime_type).text("data", std::str::from_utf8(bytes).ok()?)
        }
        MediaSource::Bytes(bytes) => {
            source.text("type", "base64").text("media_type", mime_type).json("data", base64(bytes))
        }
    };
    let block = ObjectWriter::default().text("type", kind).json("source", source.end());
    let titled = kind == "document" && !media.name.is_empty();
    Some(if titled { block.text("title", &media.name) } else { block }.end())
}

/// Reads a request, a list of messages, a message, or a reply.
pub(super) fn read(text: &str) -> Result<Vec<NewMessage>> {
    let value: &RawValue = serde_json::from_str(text).map_err(|error| Unreadable::new("json", error))?;
    if raw::list(value).is_some() {
        return reading::not_empty(list_of(value, "json")?);
    }
    let whole = object("json", value.get())?;
    let Some(messages) = whole.get("messages") else {
        return reading::not_empty(read_message("json", value.get())?);
    };
    let mut all = Vec::new();
    if let Some(system) = whole.get("system") {
        all.push(message(FORMAT, Role::System, content("json.system", system)?));
    }
    all.extend(list_of(messages, "json.messages")?);
    reading::not_empty(all)
}

fn list_of(messages: &RawValue, at: &str) -> Result<Vec<NewMessage>> {
    let mut all = Vec::new();
    for (index, message) in reading::list(at, messages)?.into_iter().enumerate() {
        all.extend(read_message(&format!("{at}[{index}]"), message.get())?);
    }
    Ok(all)
}

/// A message. One of the user's with results of tools is two: the results, and what the user says.
fn read_message(at: &str, text: &str) -> Result<Vec<NewMessage>> {
    let given = object(at, text)?;
    let value = given.get("content").ok_or_else(|| Unreadable::new(format_args!("{at}.content"), "is not given"))?;
    let parts = content(&format!("{at}.content"), value)?;
    match required(at, &given, "role")?.as_str() {
        "user" => {
            let is_result = |part: &NewPart| matches!(&*part.body, PartBody::ToolResult(_));
            let (results, rest): (Vec<_>, Vec<_>) = parts.into_iter().partition(is_result);
            Ok(vec![message(FORMAT, Role::Tool, results), message(FORMAT, Role::User, rest)])
        }
        "assistant" => Ok(vec![reply(text, &given, message(FORMAT, Role::Assistant, parts))]),
        "system" => Ok(vec![message(FORMAT, Role::System, parts)]),
        other => Err(Unreadable::new(format_args!("{at}.role"), format_args!("{other} is no role"))),
    }
}

/// A message with what its reply said about it.
fn reply(text: &str, given: &Object<'_>, message: NewMessage) -> NewMessage {
    let stop = given.string("stop_reason");
    let reason = match stop.as_str() {
        "end_turn" | "stop_sequence" => Some(FinishReason::Stop),
        // A turn that a server's tool interrupts goes on with the next request.
        "tool_use" | "pause_turn" => Some(FinishReason::ToolCalls),
        "max_tokens" | "model_context_window_exceeded" => Some(FinishReason::Length),
        "refusal" => Some(FinishReason::ContentFilter),
        super::format::CUT_OFF => Some(FinishReason::Aborted),
        _ => message.finish.as_ref().and_then(|finish| finish.reason),
    };
    let usage = given.object("usage").map(|usage| usage_of(&usage));
    let finish = Some(NewFinish { reason, detail: stop, usage, view: None });
    let metadata_json =
        reading::rest(FORMAT, text, &["type", "role", "content", "model", "stop_reason", "usage", "stop_sequence"]);
    NewMessage { model: given.string("model"), finish, metadata_json, ..message }
}

fn usage_of(usage: &Object<'_>) -> Usage {
    let reasoning = usage.object("output_tokens_details").map_or(0, |details| details.tokens("thinking_tokens"));
    Usage {
        input: usage.tokens("input_tokens"),
        output: (usage.tokens("output_tokens") - reasoning).max(0),
        reasoning,
        cache_read: usage.tokens("cache_read_input_tokens"),
        cache_write: usage.tokens("cache_creation_input_tokens"),
        total: None,
        cost_usd: None,
        cost_is_computed: false,
    }
}

fn content(at: &str, value: &RawValue) -> Result<Vec<NewPart>> {
    if let Some(text) = raw::text(value) {
        return Ok(vec![NewPart::new(PartBody::Text(text.text))]);
    }
    let blocks = reading::list(at, value)?.into_iter().enumerate();
    blocks.map(|(index, block)| part(&format!("{at}[{index}]"), block.get())).collect()
}

fn part(at: &str, block: &str) -> Result<NewPart> {
    let block = reading::without(block, CACHE_CONTROL);
    let given = object(at, &block)?;
    let kind = given.string("type");
    let found = match kind.as_str() {
        "text" => text_part(FORMAT, &block, &["text"], &text_block(&given.string("text")), PartBody::Text),
        "thinking" => text_part(FORMAT, &block, &["thinking"], "", PartBody::Reasoning),
        "tool_use" => {
            let (id, tool) = (required(at, &given, "id")?, required(at, &given, "name")?);
            let input = given.get("input").map_or("{}", RawValue::get);
            let metadata = kept::metadata(FORMAT, &block, &["input"], &call_block(&id, &tool, input));
            // The input of a call that was cut off is text.
            let text = given.text("input").map(|text| text.text);
            Some(reading::call(id, tool, text.unwrap_or_else(|| input.to_owned()), metadata))
        }
        "tool_result" => Some(result(at, &block, &given)?),
        "image" | "document" => media(&given).map(|media| {
            let plain = media_block(&media).unwrap_or_default();
            let metadata_json = kept::metadata(FORMAT, &block, &["source", "data"], &plain);
            NewPart { metadata_json, ..NewPart::new(PartBody::Media(media)) }
        }),
        "" => return Err(Unreadable::new(format_args!("{at}.type"), "is not given")),
        _ => None,
    };
    Ok(found.unwrap_or_else(|| opaque(FORMAT, &kind, &block)))
}

fn result(at: &str, block: &str, given: &Object<'_>) -> Result<NewPart> {
    let id = required(at, given, "tool_use_id")?;
    let status = if given.flag("is_error") { ResultStatus::Error } else { ResultStatus::Completed };
    let (mut texts, mut attachments, mut others) = (Vec::new(), Vec::new(), 0);
    let value = given.get("content");
    let items = value.and_then(raw::list);
    match (value, &items) {
        (_, Some(items)) => {
            for item in items {
                let inner = raw::object(item);
                let is_text = inner.as_ref().is_some_and(|inner| inner.string("type") == "text");
                match inner.as_ref().filter(|_| !is_text).and_then(media) {
                    Some(media) => attachments.push(media),
                    None if is_text => texts.push(inner.map(|inner| inner.string("text")).unwrap_or_default()),
                    None => {
                        others += 1;
                        texts.push(item.get().to_owned());
                    }
                }
            }
        }
        (None, None) => {}
        (Some(value), None) => texts.push(
            raw::text(value)
                .ok_or_else(|| Unreadable::new(format_args!("{at}.content"), "is neither text nor a list"))?
                .text,
        ),
    }
    let is_simple = others == 0 && texts.len() < 2;
    let mut part = reading::result(id.clone(), status, texts.join("\n"), attachments, None);
    let PartBody::ToolResult(body) = &*part.body else { return Ok(part) };
    let plain = result_block(body, &id, |media| media_block(media).ok_or(())).unwrap_or_default();
    // What has media is not kept twice.
    part.metadata_json = reading::fitting(match (is_simple, body.attachments.is_empty()) {
        _ if kept::is_same(block, &plain) => None,
        (false, true) => Some(kept::under(FORMAT, block)),
        (true, true) if items.as_ref().is_some_and(|items| items.len() == 1) => {
            kept::metadata(FORMAT, block, &["content", "0", "text"], &plain)
        }
        (true, true) if items.is_none() => kept::metadata(FORMAT, block, &["content"], &plain),
        _ => None,
    });
    Ok(part)
}

/// The media of an image or a document; none if its source is another one.
fn media(block: &Object<'_>) -> Option<Media> {
    let source = block.object("source")?;
    let kind = block.string("type");
    let name = block.string("title");
    match source.string("type").as_str() {
        "base64" => reading::media(source.string("media_type"), name, &source.string("data")),
        "url" if kind == "image" => reading::media_at("image/*", name, &source.string("url")),
        "url" => reading::media_at("application/pdf", name, &source.string("url")),
        _ => None,
    }
}
