//! OpenAI's Responses. Each message of this format is an item of the input.

use super::format::{Format, arguments};
use super::kept;
use super::openai_chat::data_url;
use super::prepared::{AnsweredCall, Content, Piece, PreparedMessage};
use super::reading::{self, Result, Unreadable, object, opaque, required, text_part};
use super::written::{Refusal, RefusalKind, WrittenMessage, WrittenView, media_refusal};
use crate::compose::{ObjectWriter, list, string_in};
use crate::raw::{self, Object, quote};
use longhand_model::message::{FinishReason, NewFinish, NewMessage, Role};
use longhand_model::part::{Media, MediaSource, NewPart, PartBody, ResultStatus, ToolResult};
use longhand_model::provider_compaction::WINDOW;
use longhand_model::usage::Usage;
use serde_json::value::RawValue;

const FORMAT: Format = Format::OpenAiResponses;
/// The place of a reasoning item's text; one with several texts is an opaque part.
const SUMMARY: kept::Path<'static> = &["summary", "0", "text"];
/// What the blocks of one message item have beside themselves: the item, with `null` for its content.
const ITEM: &str = "item";
/// What the blocks of a result's media have beside their content, or `null` for one that has nothing.
const MEDIA: &str = "media";

pub(super) fn write(messages: &[PreparedMessage<'_>]) -> std::result::Result<WrittenView, Refusal> {
    let mut written = WrittenView::default();
    for message in messages {
        let mut items = Items::default();
        for piece in &message.pieces {
            add(&mut items, message, piece)?;
        }
        items.flush(message);
        let sources: Vec<_> = message.source.into_iter().collect();
        written.messages.extend(items.done.into_iter().map(|json| WrittenMessage { json, sources: sources.clone() }));
    }
    Ok(written)
}

/// The items of a message: neighbours that can be in one message item are.
#[derive(Default)]
struct Items {
    done: Vec<String>,
    /// The item that the open blocks were in, and the blocks.
    item: Option<String>,
    blocks: Vec<String>,
    /// The text of the only open block that says nothing else.
    plain: Option<String>,
}

impl Items {
    fn block(&mut self, message: &PreparedMessage<'_>, item: Option<String>, block: String, plain: Option<&str>) {
        if self.item != item {
            self.flush(message);
        }
        self.plain = plain.filter(|_| self.blocks.is_empty()).map(ToOwned::to_owned);
        self.item = item;
        self.blocks.push(block);
    }

    fn item(&mut self, message: &PreparedMessage<'_>, item: String) {
        self.flush(message);
        self.done.push(item);
    }

    fn flush(&mut self, message: &PreparedMessage<'_>) {
        let blocks = std::mem::take(&mut self.blocks);
        let plain = self.plain.take();
        let item = self.item.take();
        if blocks.is_empty() {
            return;
        }
        self.done.push(match item {
            Some(item) => kept::filled(&item, &["content"], &list(&blocks)),
            None => {
                let role = string_in(message.kept, "role").filter(|_| message.role == Role::System);
                let role = role.unwrap_or_else(|| role_of(message.role).to_owned());
                let content = plain.map_or_else(|| list(&blocks), |text| quote(&text));
                ObjectWriter::default().text("type", "message").text("role", &role).json("content", content).end()
            }
        });
    }
}

fn role_of(role: Role) -> &'static str {
    match role {
        Role::Assistant => "assistant",
        Role::System => "system",
        Role::User | Role::Tool => "user",
    }
}

fn add(items: &mut Items, message: &PreparedMessage<'_>, piece: &Piece<'_>) -> std::result::Result<(), Refusal> {
    let kept = piece.kept.as_deref();
    match &piece.content {
        Content::Text(text) => {
            let item = kept.and_then(|kept| Some(kept::value(kept, &[ITEM])?.get().to_owned()));
            let block = kept.and_then(|kept| Some(kept::value(kept, &["block"])?.get()));
            match (item, block) {
                (Some(item), Some(block)) => {
                    let quoted = quote(text);
                    let block = kept::filled(&kept::filled(block, &["text"], &quoted), &["refusal"], &quoted);
                    items.block(message, Some(item), block, None);
                }
                // The content of the item was the text.
                (Some(item), None) => items.item(message, kept::filled(&item, &["content"], &quote(text))),
                // The input of an assistant's text without an item is plain text: a block would need the item's id.
                _ if message.role == Role::Assistant => {
                    items.flush(message);
                    items.block(message, None, String::new(), Some(text));
                    items.flush(message);
                }
                _ => items.block(message, None, text_block(text), Some(text)),
            }
        }
        Content::Reasoning(text) => {
            items.item(message, kept::filled(kept.unwrap_or_default(), SUMMARY, &quote(text)));
        }
        Content::Call { call, id } => items.item(
            message,
            match kept {
                Some(kept) => {
                    let item = kept::filled(kept, &["arguments"], &quote(&arguments(&call.input_json)));
                    let item = kept::filled(&item, &["input"], &quote(&call.input_json));
                    kept::with_values(&item, &[(&["call_id"], &quote(id))])
                }
                None => call_item(id, &call.tool, &arguments(&call.input_json)),
            },
        ),
        Content::Result { result, answered } => {
            let item = match kept.filter(|kept| kept::value(kept, &[MEDIA]).is_none()) {
                Some(kept) => {
                    let item = kept::filled(kept, &["output"], &quote(&result.output));
                    kept::with_values(&item, &[(&["call_id"], &quote(&answered.id))])
                }
                None => result_item(message, piece, result, answered)?,
            };
            items.item(message, item);
        }
        Content::Media(media) => {
            if message.role == Role::Assistant || message.role == Role::System {
                let role = role_of(message.role);
                return Err(message.refusal(FORMAT, piece.part, RefusalKind::MediaOfRole { role }));
            }
            let block = match kept {
                Some(kept) => kept::filled(kept, path_of(media), &quote(&address(media))),
                None => media_block(media).ok_or_else(|| refused(message, piece, media))?,
            };
            items.block(message, None, block, None);
        }
        // Content of the user's messages, and items.
        Content::Own(block) if string_in(Some(block), "type").is_some_and(|kind| kind.starts_with("input_")) => {
            items.block(message, None, (*block).to_owned(), None);
        }
        // The provider's own window goes back as it is.
        Content::Own(item) => match window_of(item) {
            Some(window) => window.into_iter().for_each(|item| items.item(message, item.get().to_owned())),
            None => items.item(message, (*item).to_owned()),
        },
    }
    Ok(())
}

/// The items of a window that the provider made on demand.
fn window_of(block: &str) -> Option<Vec<&RawValue>> {
    let whole = Object::parse(block, 1).ok().filter(|whole| whole.string("object") == WINDOW)?;
    whole.list("output")
}

fn refused(message: &PreparedMessage<'_>, piece: &Piece<'_>, media: &Media) -> Refusal {
    message.refusal(FORMAT, piece.part, media_refusal(media))
}

fn text_block(text: &str) -> String {
    ObjectWriter::default().text("type", "input_text").text("text", text).end()
}

fn call_item(id: &str, tool: &str, arguments: &str) -> String {
    ObjectWriter::default()
        .text("type", "function_call")
        .text("call_id", id)
        .text("name", tool)
        .text("arguments", arguments)
        .end()
}

fn result_item(
    message: &PreparedMessage<'_>,
    piece: &Piece<'_>,
    result: &ToolResult,
    answered: &AnsweredCall,
) -> std::result::Result<String, Refusal> {
    let output = if result.attachments.is_empty() {
        quote(&result.output)
    } else {
        let text = (!result.output.is_empty()).then(|| text_block(&result.output));
        let mut blocks: Vec<_> = text.into_iter().collect();
        for (index, media) in result.attachments.iter().enumerate() {
            let kept = piece.kept.as_deref().and_then(|kept| kept::value(kept, &[MEDIA, &index.to_string()]));
            blocks.push(match kept.map(RawValue::get).filter(|kept| *kept != "null") {
                Some(kept) => kept::filled(kept, path_of(media), &quote(&address(media))),
                None => media_block(media).ok_or_else(|| refused(message, piece, media))?,
            });
        }
        list(&blocks)
    };
    let kind = string_in(answered.kept.as_deref(), "type");
    Ok(plain_result(kind.as_deref() == Some("custom_tool_call"), &answered.id, &output))
}

fn plain_result(is_custom: bool, id: &str, output: &str) -> String {
    let kind = if is_custom { "custom_tool_call_output" } else { "function_call_output" };
    ObjectWriter::default().text("type", kind).text("call_id", id).json("output", output).end()
}

fn address(media: &Media) -> String {
    match &media.source {
        MediaSource::Bytes(bytes) => data_url(&media.mime_type, bytes),
        MediaSource::Uri(uri) => uri.clone(),
    }
}

/// The place of the content in a block of media.
fn path_of(media: &Media) -> kept::Path<'static> {
    match &media.source {
        _ if media.mime_type.starts_with("image/") => &["image_url"],
        MediaSource::Bytes(_) => &["file_data"],
        MediaSource::Uri(_) => &["file_url"],
    }
}

fn media_block(media: &Media) -> Option<String> {
    let block = ObjectWriter::default();
    if media.mime_type.starts_with("image/") {
        let block = block.text("type", "input_image").text("detail", "auto");
        return Some(block.text("image_url", &address(media)).end());
    }
    if ["audio/", "video/"].iter().any(|kind| media.mime_type.starts_with(kind)) {
        return None;
    }
    let block = block.text("type", "input_file");
    Some(
        match &media.source {
            MediaSource::Uri(uri) => block.text("file_url", uri),
            MediaSource::Bytes(_) => {
                let name = if media.name.is_empty() { "document" } else { &media.name };
                block.text("filename", name).text("file_data", &address(media))
            }
        }
        .end(),
    )
}

/// Reads a request, an input, an item, or a response.
pub(super) fn read(text: &str) -> Result<Vec<NewMessage>> {
    let value: &RawValue = serde_json::from_str(text).map_err(|error| Unreadable::new("json", error))?;
    if raw::list(value).is_some() {
        return reading::not_empty(items("json", value)?);
    }
    let whole = object("json", value.get())?;
    if whole.string("object") == WINDOW {
        return reading::not_empty(vec![window(&whole, value.get())]);
    }
    if let Some(output) = whole.get("output").filter(|_| whole.get("type").is_none()) {
        return response(&whole, output);
    }
    let Some(input) = whole.get("input").filter(|_| whole.get("type").is_none()) else {
        return reading::not_empty(items("json", &raw_list(value)?)?);
    };
    let mut all = Vec::new();
    if let Some(text) = whole.text("instructions") {
        all.push(reading::message(FORMAT, Role::System, vec![NewPart::new(PartBody::Text(text.text))]));
    }
    match raw::text(input) {
        Some(text) => all.push(reading::message(FORMAT, Role::User, vec![NewPart::new(PartBody::Text(text.text))])),
        None => all.extend(items("json.input", input)?),
    }
    reading::not_empty(all)
}

/// The answer to a request to compact: it is kept whole, since the messages of the user in it are no new ones.
fn window(whole: &Object<'_>, text: &str) -> NewMessage {
    let mut message = reading::message(FORMAT, Role::Assistant, vec![opaque(FORMAT, WINDOW, text)]);
    let usage = whole.object("usage").map(|usage| usage_of(&usage));
    message.finish = Some(NewFinish { reason: Some(FinishReason::Stop), usage, ..NewFinish::default() });
    message.model = whole.string("model");
    message
}

fn raw_list(item: &RawValue) -> Result<Box<RawValue>> {
    RawValue::from_string(list(&[item.get().to_owned()])).map_err(|error| Unreadable::new("json", error))
}

fn response(whole: &Object<'_>, output: &RawValue) -> Result<Vec<NewMessage>> {
    let mut parts = Vec::new();
    for (index, item) in reading::list("json.output", output)?.into_iter().enumerate() {
        parts.extend(parts_of(&format!("json.output[{index}]"), item.get())?.1);
    }
    let status = whole.string("status");
    let because = whole.object("incomplete_details").map(|details| details.string("reason")).unwrap_or_default();
    let failed = whole.object("error").map(|error| error.string("message")).unwrap_or_default();
    let (reason, detail) = match (status.as_str(), because.as_str()) {
        ("incomplete", "content_filter") => (FinishReason::ContentFilter, because),
        ("incomplete", _) => (FinishReason::Length, because),
        ("failed", _) => (FinishReason::Error, failed),
        ("cancelled" | super::format::CUT_OFF, _) => (FinishReason::Aborted, status),
        _ => (reading::reason_by_parts(&parts), status),
    };
    let usage = whole.object("usage").map(|usage| usage_of(&usage));
    let mut message = reading::message(FORMAT, Role::Assistant, parts);
    message.finish = Some(NewFinish { reason: Some(reason), detail, usage, view: None });
    message.model = whole.string("model");
    // A response repeats its whole request; its id is what it adds.
    let id = whole.id("id").map(|id| ObjectWriter::default().text("id", &id).end());
    message.metadata_json = id.map(|id| kept::under(FORMAT, &ObjectWriter::default().json("reply", id).end()));
    reading::not_empty(vec![message])
}

fn usage_of(usage: &Object<'_>) -> Usage {
    let input = usage.object("input_tokens_details");
    let cache_read = input.as_ref().map_or(0, |details| details.tokens("cached_tokens"));
    let cache_write = input.as_ref().map_or(0, |details| details.tokens("cache_write_tokens"));
    let reasoning = usage.object("output_tokens_details").map_or(0, |details| details.tokens("reasoning_tokens"));
    Usage {
        input: (usage.tokens("input_tokens") - cache_read - cache_write).max(0),
        output: (usage.tokens("output_tokens") - reasoning).max(0),
        reasoning,
        cache_read,
        cache_write,
        total: Some(usage.tokens("total_tokens")).filter(|total| *total > 0),
        cost_usd: None,
        cost_is_computed: false,
    }
}

/// The messages of items: those of one speaker that follow each other without a message item between are one.
fn items(at: &str, value: &RawValue) -> Result<Vec<NewMessage>> {
    let mut all: Vec<NewMessage> = Vec::new();
    for (index, item) in reading::list(at, value)?.into_iter().enumerate() {
        let (role, parts, metadata_json) = {
            let (role, parts) = parts_of(&format!("{at}[{index}]"), item.get())?;
            let developer = role == Role::System && object(at, item.get())?.string("role") == "developer";
            (role, parts, developer.then(|| kept::under(FORMAT, r#"{"role":"developer"}"#)))
        };
        let joins = matches!(role, Role::Assistant | Role::Tool);
        match all.last_mut().filter(|last| joins && last.role == role) {
            Some(last) => last.parts.extend(parts),
            None => all.push(NewMessage { metadata_json, ..reading::message(FORMAT, role, parts) }),
        }
    }
    for message in all.iter_mut().filter(|message| message.role == Role::Assistant) {
        let reason = Some(reading::reason_by_parts(&message.parts));
        message.finish = Some(NewFinish { reason, ..NewFinish::default() });
    }
    Ok(all)
}

/// The speaker and the parts of an item.
fn parts_of(at: &str, item: &str) -> Result<(Role, Vec<NewPart>)> {
    let given = object(at, item)?;
    let kind = given.string("type");
    let part = match kind.as_str() {
        "message" | "" => return message(at, item, &given),
        "reasoning" => {
            let several = kept::value(item, &["summary", "1"]).is_some();
            let found = (!several).then(|| text_part(FORMAT, item, SUMMARY, "", PartBody::Reasoning)).flatten();
            (Role::Assistant, found.unwrap_or_else(|| opaque(FORMAT, &kind, item)))
        }
        "function_call" | "custom_tool_call" => {
            let (id, tool) = (required(at, &given, "call_id")?, required(at, &given, "name")?);
            let path: kept::Path<'_> = if kind == "function_call" { &["arguments"] } else { &["input"] };
            let input = given.string(path[0]);
            let metadata = kept::metadata(FORMAT, item, path, &call_item(&id, &tool, &input));
            (Role::Assistant, reading::call(id, tool, input, metadata))
        }
        "function_call_output" | "custom_tool_call_output" => (Role::Tool, result(at, item, &given, &kind)?),
        // It asks for a compaction by the one request that it is in.
        "compaction_trigger" => return Ok((Role::Assistant, Vec::new())),
        // What the client answers to the provider's other tools.
        kind if kind.ends_with("_output") || kind == "mcp_approval_response" => {
            (Role::User, opaque(FORMAT, kind, item))
        }
        kind => (Role::Assistant, opaque(FORMAT, kind, item)),
    };
    Ok((part.0, vec![part.1]))
}

fn result(at: &str, item: &str, given: &Object<'_>, kind: &str) -> Result<NewPart> {
    let id = required(at, given, "call_id")?;
    let is_custom = kind == "custom_tool_call_output";
    let output = given.get("output").ok_or_else(|| Unreadable::new(format_args!("{at}.output"), "is not given"))?;
    if let Some(text) = raw::text(output) {
        let metadata = kept::metadata(FORMAT, item, &["output"], &plain_result(is_custom, &id, output.get()));
        return Ok(reading::result(id, ResultStatus::Completed, text.text, Vec::new(), metadata));
    }
    let (mut texts, mut attachments, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    for block in reading::list(format_args!("{at}.output"), output)? {
        let inner = raw::object(block);
        match inner.as_ref().and_then(media) {
            Some(media) => {
                let is_plain = kept::is_same(block.get(), &media_block(&media).unwrap_or_default());
                let beside = || kept::with_values(block.get(), &[(path_of(&media), "null")]);
                kept.push(if is_plain { "null".to_owned() } else { beside() });
                attachments.push(media);
            }
            None => {
                texts.push(inner.and_then(|inner| inner.text("text")).map_or(block.get().to_owned(), |text| text.text))
            }
        }
    }
    let has_more = kept.iter().any(|kept| kept != "null");
    let metadata = has_more.then(|| kept::under(FORMAT, &ObjectWriter::default().json(MEDIA, list(&kept)).end()));
    Ok(reading::result(id, ResultStatus::Completed, texts.join("\n"), attachments, metadata))
}

fn message(at: &str, item: &str, given: &Object<'_>) -> Result<(Role, Vec<NewPart>)> {
    let role = match required(at, given, "role")?.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" | "developer" => Role::System,
        other => return Err(Unreadable::new(format_args!("{at}.role"), format_args!("{other} is no role"))),
    };
    let value = given.get("content").ok_or_else(|| Unreadable::new(format_args!("{at}.content"), "is not given"))?;
    let template = kept::with_values(item, &[(&["content"], "null")]);
    if let Some(text) = raw::text(value) {
        let is_more =
            |(name, value): (&str, &RawValue)| !matches!(name, "type" | "role" | "content") && value.get() != "null";
        let has_more = given.members().any(is_more);
        let metadata_json = has_more.then(|| kept::under(FORMAT, &ObjectWriter::default().json(ITEM, &template).end()));
        return Ok((role, vec![NewPart { metadata_json, ..NewPart::new(PartBody::Text(text.text)) }]));
    }
    let mut parts = Vec::new();
    for (index, block) in reading::list(format_args!("{at}.content"), value)?.into_iter().enumerate() {
        let inner = object(format_args!("{at}.content[{index}]"), block.get())?;
        let kind = inner.string("type");
        if role == Role::Assistant {
            let path: kept::Path<'_> = if kind == "refusal" { &["refusal"] } else { &["text"] };
            // A message whose blocks no part can hold is kept as an item.
            let Some(mut part) = text_part(FORMAT, block.get(), path, "", PartBody::Text) else {
                return Ok((role, vec![opaque(FORMAT, "message", item)]));
            };
            let block = kept::of_format(FORMAT, part.metadata_json.as_deref()).unwrap_or("{}");
            let both = ObjectWriter::default().json(ITEM, &template).json("block", block).end();
            part.metadata_json = Some(kept::under(FORMAT, &both));
            parts.push(part);
            continue;
        }
        let found = match media(&inner) {
            Some(media) => {
                let plain = media_block(&media).unwrap_or_default();
                let metadata_json = kept::metadata(FORMAT, block.get(), path_of(&media), &plain);
                Some(NewPart { metadata_json, ..NewPart::new(PartBody::Media(media)) })
            }
            None => inner
                .text("text")
                .filter(|text| !text.text.is_empty())
                .map(|text| NewPart::new(PartBody::Text(text.text))),
        };
        parts.push(found.unwrap_or_else(|| opaque(FORMAT, &kind, block.get())));
    }
    Ok((role, parts))
}

fn media(block: &Object<'_>) -> Option<Media> {
    match block.string("type").as_str() {
        "input_image" => reading::media_at("image/*", String::new(), &block.string("image_url")),
        "input_file" => match block.id("file_data") {
            Some(data) => reading::media_at("", block.string("filename"), &data),
            None => reading::media_at("application/*", block.string("filename"), &block.string("file_url")),
        },
        _ => None,
    }
}
