//! OpenAI's Chat Completions.

use super::format::{Format, arguments, text_block};
use super::kept;
use super::prepared::{Content, Piece, PreparedMessage};
use super::reading::{self, Result, Unreadable, object, opaque, required, text_part};
use super::written::{Refusal, RefusalKind, WrittenMessage, WrittenView, media_refusal};
use crate::compose::{ObjectWriter, base64_text, list, string_in};
use crate::raw::{self, Object, quote};
use longhand_model::ids::MessageId;
use longhand_model::message::{FinishReason, NewFinish, NewMessage, Role};
use longhand_model::part::{Media, MediaSource, NewPart, PartBody, ResultStatus};
use longhand_model::usage::Usage;
use serde_json::value::RawValue;

const FORMAT: Format = Format::OpenAiChat;
/// Members of an assistant's message that have its reasoning as text, in the formats of compatible providers.
const REASONING: [&str; 2] = ["reasoning_content", "reasoning"];
/// Members of an assistant's message that say nothing if they are empty.
const READ: [&str; 6] = ["role", "content", "tool_calls", "refusal", "function_call", "annotations"];

pub(super) fn write(messages: &[PreparedMessage<'_>]) -> std::result::Result<WrittenView, Refusal> {
    let mut written = WrittenView::default();
    // Media of results, which a message of a tool cannot have: they follow as the user's once all calls are answered.
    let mut attached: Vec<(String, Option<MessageId>)> = Vec::new();
    for message in messages {
        if message.role != Role::Tool {
            flush(&mut written, &mut attached);
        }
        match message.role {
            Role::Tool => results(message, &mut written, &mut attached)?,
            Role::Assistant => written.messages.push(request_message(message, assistant(message)?)),
            Role::User | Role::System => written.messages.push(request_message(message, speaker(message)?)),
        }
    }
    flush(&mut written, &mut attached);
    Ok(written)
}

fn request_message(message: &PreparedMessage<'_>, json: String) -> WrittenMessage {
    WrittenMessage { json, sources: message.source.into_iter().collect() }
}

fn flush(written: &mut WrittenView, attached: &mut Vec<(String, Option<MessageId>)>) {
    let (blocks, sources): (Vec<_>, Vec<_>) = std::mem::take(attached).into_iter().unzip();
    if !blocks.is_empty() {
        let json = ObjectWriter::default().text("role", "user").json("content", list(&blocks)).end();
        let mut sources: Vec<_> = sources.into_iter().flatten().collect();
        sources.dedup();
        written.messages.push(WrittenMessage { json, sources });
    }
}

fn results(
    message: &PreparedMessage<'_>,
    written: &mut WrittenView,
    attached: &mut Vec<(String, Option<MessageId>)>,
) -> std::result::Result<(), Refusal> {
    for piece in &message.pieces {
        let Content::Result { result, answered } = &piece.content else { continue };
        let json = ObjectWriter::default()
            .text("role", "tool")
            .text("tool_call_id", &answered.id)
            .text("content", &result.output)
            .end();
        written.messages.push(request_message(message, json));
        for (index, media) in result.attachments.iter().enumerate() {
            if index == 0 {
                attached.push((text_block(&format!("[Media of the result of call {}]", answered.id)), message.source));
            }
            attached.push((media_block(message, piece, media)?, message.source));
        }
    }
    Ok(())
}

/// A message of the user or of the system.
fn speaker(message: &PreparedMessage<'_>) -> std::result::Result<String, Refusal> {
    let own = string_in(message.kept, "role");
    let role = match message.role {
        Role::System => own.unwrap_or_else(|| "system".to_owned()),
        Role::User | Role::Assistant | Role::Tool => "user".to_owned(),
    };
    let mut blocks = Vec::new();
    for piece in &message.pieces {
        blocks.push(match &piece.content {
            Content::Text(text) => kept_or(piece, &["text"], &quote(text), || text_block(text)),
            Content::Media(_) if message.role == Role::System => {
                return Err(message.refusal(FORMAT, piece.part, RefusalKind::MediaOfRole { role: "system" }));
            }
            Content::Media(media) => media_block(message, piece, media)?,
            Content::Own(block) => (*block).to_owned(),
            // A view has calls and results in messages of their own, and reasoning is left out by name before.
            Content::Reasoning(_) | Content::Call { .. } | Content::Result { .. } => {
                let role = if message.role == Role::System { "system" } else { "user" };
                return Err(message.refusal(FORMAT, piece.part, RefusalKind::PartOfRole { role }));
            }
        });
    }
    let content = match message.pieces.as_slice() {
        [Piece { content: Content::Text(text), kept: None, .. }] => quote(text),
        _ => list(&blocks),
    };
    Ok(ObjectWriter::default()
        .text("role", &role)
        .json("content", content)
        .members(message.kept, &["role", "content", "reply"])
        .end())
}

fn assistant(message: &PreparedMessage<'_>) -> std::result::Result<String, Refusal> {
    let (mut blocks, mut plain, mut calls, mut members) = (Vec::new(), true, Vec::new(), Vec::new());
    for piece in &message.pieces {
        match &piece.content {
            Content::Text(text) => {
                plain &= piece.kept.is_none();
                let block = kept_or(piece, &["text"], &quote(text), || text_block(text));
                blocks.push(kept::filled(&block, &["refusal"], &quote(text)));
            }
            // The block is the member's name.
            Content::Reasoning(text) => {
                let name = piece.kept.as_deref().and_then(|kept| string_in(Some(kept), "member"));
                members.extend(name.map(|name| (name, quote(text))));
            }
            Content::Call { call, id } => calls.push(match &piece.kept {
                Some(kept) => {
                    let arguments = quote(&arguments(&call.input_json));
                    let block = kept::filled(kept, &["function", "arguments"], &arguments);
                    let block = kept::filled(&block, &["custom", "input"], &quote(&call.input_json));
                    kept::with_values(&block, &[(&["id"], &quote(id))])
                }
                None => call_block(id, &call.tool, &arguments(&call.input_json)),
            }),
            Content::Own(block) if string_in(Some(block), "type").is_some() => {
                plain = false;
                blocks.push((*block).to_owned());
            }
            // Members of the message.
            Content::Own(block) => {
                let given = Object::parse(block, 1);
                let more = given
                    .iter()
                    .flat_map(|given| given.members())
                    .map(|(name, value)| (name.to_owned(), value.get().to_owned()));
                members.extend(more.collect::<Vec<_>>());
            }
            Content::Media(_) => {
                return Err(message.refusal(FORMAT, piece.part, RefusalKind::MediaOfRole { role: "assistant" }));
            }
            Content::Result { .. } => {}
        }
    }
    let mut texts = message.pieces.iter().filter_map(|piece| match &piece.content {
        Content::Text(text) => Some(*text),
        _ => None,
    });
    let content = match blocks.len() {
        0 if calls.is_empty() => quote(""),
        0 => "null".to_owned(),
        1 if plain => quote(texts.next().unwrap_or_default()),
        _ => list(&blocks),
    };
    let mut json = ObjectWriter::default().text("role", "assistant").json("content", content);
    if !calls.is_empty() {
        json = json.json("tool_calls", list(&calls));
    }
    for (name, value) in members {
        json = json.json(&name, value);
    }
    Ok(json.members(message.kept, &["role", "content", "reply"]).end())
}

fn kept_or(piece: &Piece<'_>, path: kept::Path<'_>, content: &str, plain: impl FnOnce() -> String) -> String {
    match &piece.kept {
        Some(kept) => kept::filled(kept, path, content),
        None => plain(),
    }
}

fn call_block(id: &str, tool: &str, arguments: &str) -> String {
    let function = ObjectWriter::default().text("name", tool).text("arguments", arguments).end();
    ObjectWriter::default().text("id", id).text("type", "function").json("function", function).end()
}

fn media_block(
    message: &PreparedMessage<'_>,
    piece: &Piece<'_>,
    media: &Media,
) -> std::result::Result<String, Refusal> {
    if let (Some(kept), Content::Media(_)) = (&piece.kept, &piece.content) {
        let (address, bytes) = match &media.source {
            MediaSource::Bytes(bytes) => (data_url(&media.mime_type, bytes), base64_text(bytes)),
            MediaSource::Uri(uri) => (uri.clone(), String::new()),
        };
        let filled = kept::filled(kept, path_of("image_url"), &quote(&address));
        let filled = kept::filled(&filled, path_of("file"), &quote(&address));
        return Ok(kept::filled(&filled, path_of("input_audio"), &quote(&bytes)));
    }
    let block = plain_media_block(media);
    block.ok_or_else(|| message.refusal(FORMAT, piece.part, media_refusal(media)))
}

pub(super) fn data_url(mime_type: &str, bytes: &[u8]) -> String {
    format!("data:{mime_type};base64,{}", base64_text(bytes))
}

/// The place of the content in a block of media.
fn path_of(kind: &str) -> kept::Path<'static> {
    match kind {
        "image_url" => &["image_url", "url"],
        "input_audio" => &["input_audio", "data"],
        _ => &["file", "file_data"],
    }
}

fn plain_media_block(media: &Media) -> Option<String> {
    let mime_type = media.mime_type.as_str();
    let block =
        |kind: &str, value: ObjectWriter| ObjectWriter::default().text("type", kind).json(kind, value.end()).end();
    let value = ObjectWriter::default();
    match &media.source {
        MediaSource::Uri(uri) if mime_type.starts_with("image/") => Some(block("image_url", value.text("url", uri))),
        MediaSource::Bytes(bytes) if mime_type.starts_with("image/") => {
            Some(block("image_url", value.text("url", &data_url(mime_type, bytes))))
        }
        MediaSource::Bytes(bytes) => {
            let sound = match mime_type {
                "audio/wav" | "audio/x-wav" | "audio/wave" => "wav",
                "audio/mpeg" | "audio/mp3" => "mp3",
                "application/pdf" => {
                    let name = if media.name.is_empty() { "document.pdf" } else { &media.name };
                    let value = value.text("filename", name).text("file_data", &data_url(mime_type, bytes));
                    return Some(block("file", value));
                }
                _ => return None,
            };
            Some(block("input_audio", value.text("data", &base64_text(bytes)).text("format", sound)))
        }
        MediaSource::Uri(_) => None,
    }
}

/// Reads a request, a list of messages, a message, or a completion.
pub(super) fn read(text: &str) -> Result<Vec<NewMessage>> {
    let value: &RawValue = serde_json::from_str(text).map_err(|error| Unreadable::new("json", error))?;
    if raw::list(value).is_some() {
        return reading::not_empty(list_of(value, "json")?);
    }
    let whole = object("json", value.get())?;
    if let Some(messages) = whole.get("messages") {
        return reading::not_empty(list_of(messages, "json.messages")?);
    }
    if let Some(choices) = whole.get("choices") {
        let choices = reading::list("json.choices", choices)?;
        let [choice] = choices.as_slice() else {
            return Err(Unreadable::new(
                "json.choices",
                "has more or less than one choice: send the one that was taken",
            ));
        };
        return reading::not_empty(vec![completion(value.get(), &whole, choice.get())?]);
    }
    reading::not_empty(vec![message("json", value.get())?])
}

fn list_of(messages: &RawValue, at: &str) -> Result<Vec<NewMessage>> {
    let mut all: Vec<NewMessage> = Vec::new();
    for (index, given) in reading::list(at, messages)?.into_iter().enumerate() {
        let message = message(&format!("{at}[{index}]"), given.get())?;
        match all.last_mut() {
            // The results of one reply's calls are one message.
            Some(last) if last.role == Role::Tool && message.role == Role::Tool => last.parts.extend(message.parts),
            _ => all.push(message),
        }
    }
    Ok(all)
}

fn completion(text: &str, whole: &Object<'_>, choice: &str) -> Result<NewMessage> {
    let at = "json.choices[0]";
    let choice = object(at, choice)?;
    let given = choice.get("message").ok_or_else(|| Unreadable::new(format_args!("{at}.message"), "is not given"))?;
    let mut message = message(&format!("{at}.message"), given.get())?;
    let detail = choice.string("finish_reason");
    let reason = match detail.as_str() {
        "stop" => Some(reading::reason_by_parts(&message.parts)),
        "tool_calls" | "function_call" => Some(FinishReason::ToolCalls),
        "length" => Some(FinishReason::Length),
        "content_filter" => Some(FinishReason::ContentFilter),
        "error" => Some(FinishReason::Error),
        super::format::CUT_OFF => Some(FinishReason::Aborted),
        _ => message.finish.as_ref().and_then(|finish| finish.reason),
    };
    let usage = whole.object("usage").map(|usage| usage_of(&usage));
    message.finish = Some(NewFinish { reason, detail, usage, view: None });
    message.model = whole.string("model");
    let reply = ObjectWriter::default().members(Some(text), &["object", "choices", "model", "usage"]).end();
    if reply != "{}" {
        let before = kept::of_format(FORMAT, message.metadata_json.as_deref()).unwrap_or("{}").to_owned();
        message.metadata_json = Some(kept::under(FORMAT, &kept::with_member(&before, "reply", &reply)));
    }
    Ok(message)
}

fn usage_of(usage: &Object<'_>) -> Usage {
    let prompt = usage.object("prompt_tokens_details");
    let cache_read = prompt.as_ref().map_or(0, |details| details.tokens("cached_tokens"));
    let cache_write = prompt.as_ref().map_or(0, |details| details.tokens("cache_write_tokens"));
    let reasoning = usage.object("completion_tokens_details").map_or(0, |details| details.tokens("reasoning_tokens"));
    Usage {
        input: (usage.tokens("prompt_tokens") - cache_read - cache_write).max(0),
        output: (usage.tokens("completion_tokens") - reasoning).max(0),
        reasoning,
        cache_read,
        cache_write,
        total: Some(usage.tokens("total_tokens")).filter(|total| *total > 0),
        cost_usd: None,
        cost_is_computed: false,
    }
}

fn message(at: &str, text: &str) -> Result<NewMessage> {
    let given = object(at, text)?;
    let role = required(at, &given, "role")?;
    let parts = content(&format!("{at}.content"), given.get("content"))?;
    let with_rest = |role, parts, read: &[&str]| NewMessage {
        metadata_json: reading::rest(FORMAT, text, read),
        ..reading::message(FORMAT, role, parts)
    };
    match role.as_str() {
        "user" => Ok(with_rest(Role::User, parts, &["role", "content"])),
        "system" => Ok(with_rest(Role::System, parts, &["role", "content"])),
        // The role stays in the rest.
        "developer" => Ok(with_rest(Role::System, parts, &["content"])),
        "tool" => {
            let id = required(at, &given, "tool_call_id")?;
            let texts = parts.iter().map(|part| match &*part.body {
                PartBody::Text(text) => text.clone(),
                PartBody::Opaque(block) => String::from_utf8_lossy(&block.data).into_owned(),
                _ => String::new(),
            });
            let output = texts.collect::<Vec<_>>().join("\n");
            let result = reading::result(id, ResultStatus::Completed, output, Vec::new(), None);
            Ok(reading::message(FORMAT, Role::Tool, vec![result]))
        }
        "assistant" => assistant_message(at, &given, parts),
        other => {
            Err(Unreadable::new(format_args!("{at}.role"), format_args!("{other} is no role that has a place here")))
        }
    }
}

fn assistant_message(at: &str, given: &Object<'_>, content: Vec<NewPart>) -> Result<NewMessage> {
    if given.get("function_call").is_some() {
        let problem = "is the old form of a call, which has no id: send it as tool_calls";
        return Err(Unreadable::new(format_args!("{at}.function_call"), problem));
    }
    let mut parts = Vec::new();
    let mut read: Vec<&str> = READ.to_vec();
    // Some send the same reasoning under both names: each is given back.
    for name in REASONING {
        if let Some(text) = given.text(name).filter(|text| !text.text.is_empty()) {
            let metadata_json = Some(kept::under(FORMAT, &ObjectWriter::default().text("member", name).end()));
            parts.push(NewPart { metadata_json, ..NewPart::new(PartBody::Reasoning(text.text)) });
            read.push(name);
        }
    }
    parts.extend(content);
    if let Some(refusal) = given.text("refusal").filter(|text| !text.text.is_empty()) {
        let metadata_json = Some(kept::under(FORMAT, r#"{"type":"refusal","refusal":null}"#));
        parts.push(NewPart { metadata_json, ..NewPart::new(PartBody::Text(refusal.text)) });
    }
    for (name, value) in given.members().filter(|(name, _)| !read.contains(name)) {
        // A reply that says to have thought nothing has to say so again.
        let is_thought = REASONING.contains(&name) && value.get() == r#""""#;
        if is_thought || !matches!(value.get(), "null" | "[]" | r#""""#) {
            parts.push(opaque(FORMAT, name, &ObjectWriter::default().json(name, value.get()).end()));
        }
    }
    let calls =
        given.get("tool_calls").map(|calls| reading::list(format_args!("{at}.tool_calls"), calls)).transpose()?;
    for (index, block) in calls.unwrap_or_default().into_iter().enumerate() {
        parts.push(call(&format!("{at}.tool_calls[{index}]"), block.get())?);
    }
    Ok(reading::message(FORMAT, Role::Assistant, parts))
}

fn call(at: &str, block: &str) -> Result<NewPart> {
    let given = object(at, block)?;
    let id = required(at, &given, "id")?;
    let (inner, path): (_, kept::Path<'_>) = match given.string("type").as_str() {
        "custom" => (given.object("custom"), &["custom", "input"]),
        _ => (given.object("function"), &["function", "arguments"]),
    };
    let inner = inner.ok_or_else(|| Unreadable::new(format_args!("{at}.function"), "is not given"))?;
    let (tool, arguments) = (required(at, &inner, "name")?, inner.string(path[1]));
    let metadata = kept::metadata(FORMAT, block, path, &call_block(&id, &tool, &arguments));
    Ok(reading::call(id, tool, arguments, metadata))
}

fn content(at: &str, value: Option<&RawValue>) -> Result<Vec<NewPart>> {
    let Some(value) = value else { return Ok(Vec::new()) };
    if let Some(text) = raw::text(value) {
        return Ok((!text.text.is_empty()).then(|| NewPart::new(PartBody::Text(text.text))).into_iter().collect());
    }
    let blocks = reading::list(at, value)?.into_iter().enumerate();
    blocks.map(|(index, block)| part(&format!("{at}[{index}]"), block.get())).collect()
}

fn part(at: &str, block: &str) -> Result<NewPart> {
    let given = object(at, block)?;
    let kind = required(at, &given, "type")?;
    let found = match kind.as_str() {
        "text" => text_part(FORMAT, block, &["text"], &text_block(&given.string("text")), PartBody::Text),
        "refusal" => text_part(FORMAT, block, &["refusal"], "", PartBody::Text),
        _ => media(&given, &kind).map(|media| {
            let plain = plain_media_block(&media).unwrap_or_default();
            let metadata_json = kept::metadata(FORMAT, block, path_of(&kind), &plain);
            NewPart { metadata_json, ..NewPart::new(PartBody::Media(media)) }
        }),
    };
    Ok(found.unwrap_or_else(|| opaque(FORMAT, &kind, block)))
}

fn media(block: &Object<'_>, kind: &str) -> Option<Media> {
    let value = block.object(kind)?;
    match kind {
        "image_url" => reading::media_at("image/*", String::new(), &value.string("url")),
        "input_audio" => {
            let mime_type = if value.string("format") == "mp3" { "audio/mpeg" } else { "audio/wav" };
            reading::media(mime_type.to_owned(), String::new(), &value.string("data"))
        }
        "file" => reading::media_at("", value.string("filename"), &value.string("file_data")),
        _ => None,
    }
}
