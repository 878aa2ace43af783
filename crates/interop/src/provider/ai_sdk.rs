//! The AI SDK: its `ModelMessage`s, and, read alone, its `UIMessage`s.

use super::ai_sdk_parts::{FORMAT, media, reason};
use super::ai_sdk_ui;
use super::format::text_block;
use super::kept;
use super::prepared::{Content, Piece, PreparedMessage};
use super::reading::{self, Result, Unreadable, object, opaque, required, text_part};
use super::written::{Refusal, RefusalKind, WrittenMessage, WrittenView};
use crate::compose::{ObjectWriter, base64, list, string_in};
use crate::raw::{self, Object, quote};
use longhand_model::message::{NewMessage, Role};
use longhand_model::part::{Media, MediaSource, NewPart, PartBody, ResultStatus, ToolResult};
use serde_json::value::RawValue;

/// The answer to a question of a tool, which the client's own message of a tool has.
const APPROVAL: &str = "tool-approval-response";

pub(super) fn write(messages: &[PreparedMessage<'_>]) -> std::result::Result<WrittenView, Refusal> {
    let mut written = WrittenView::default();
    for message in messages {
        // Answers to questions came in a message of a tool, where a view has results alone.
        let (answers, rest): (Vec<&Piece<'_>>, Vec<_>) = message.pieces.iter().partition(|piece| is_approval(piece));
        for (role, pieces) in [(Role::Tool, answers), (message.role, rest)] {
            if !pieces.is_empty() {
                let sources = message.source.into_iter().collect();
                written.messages.push(WrittenMessage { json: content_json(message, role, &pieces)?, sources });
            }
        }
    }
    Ok(written)
}

fn is_approval(piece: &Piece<'_>) -> bool {
    matches!(&piece.content, Content::Own(block) if string_in(Some(block), "type").as_deref() == Some(APPROVAL))
}

fn content_json(
    message: &PreparedMessage<'_>,
    role: Role,
    pieces: &[&Piece<'_>],
) -> std::result::Result<String, Refusal> {
    let name = match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    // Instructions are one text.
    let plain = match role {
        Role::System => {
            let refusal = |piece: &Piece<'_>, kind| message.refusal(FORMAT, piece.part, kind);
            let texts = pieces.iter().map(|piece| match &piece.content {
                Content::Text(text) => Ok(*text),
                Content::Media(_) => Err(refusal(piece, RefusalKind::MediaOfRole { role: "system" })),
                _ => Err(refusal(piece, RefusalKind::PartOfRole { role: "system" })),
            });
            Some(quote(&texts.collect::<std::result::Result<Vec<_>, _>>()?.join("\n\n")))
        }
        Role::User | Role::Assistant | Role::Tool => None,
    };
    let content = match plain {
        Some(plain) => plain,
        None => list(&pieces.iter().map(|piece| part_of(piece)).collect::<Vec<_>>()),
    };
    let own = message.kept.filter(|kept| kept::value(kept, &["ui"]).is_none());
    let json = ObjectWriter::default().text("role", name).json("content", content);
    Ok(json.members(own, &["role", "content"]).end())
}

fn part_of(piece: &Piece<'_>) -> String {
    let kept = piece.kept.as_deref();
    match &piece.content {
        Content::Text(text) => match kept {
            Some(kept) => kept::filled(kept, &["text"], &quote(text)),
            None => text_block(text),
        },
        Content::Reasoning(text) => match kept {
            Some(kept) => kept::filled(kept, &["text"], &quote(text)),
            None => ObjectWriter::default().text("type", "reasoning").text("text", text).end(),
        },
        Content::Call { call, id } => {
            let input = input(&call.input_json);
            match kept {
                Some(kept) => {
                    kept::with_values(&kept::filled(kept, &["input"], &input), &[(&["toolCallId"], &quote(id))])
                }
                None => call_part(id, &call.tool, &input),
            }
        }
        Content::Result { result, answered } => match kept {
            Some(kept) => {
                let filled = kept::filled(kept, &["output", "value"], &quote(&result.output));
                kept::with_values(&filled, &[(&["toolCallId"], &quote(&answered.id))])
            }
            None => result_part(result, &answered.id, &answered.tool),
        },
        Content::Media(media) => match (kept, &media.source) {
            (Some(kept), MediaSource::Bytes(bytes)) => {
                let paths: [kept::Path<'_>; 3] = [&["data", "data"], &["data"], &["image"]];
                paths.into_iter().fold(kept.to_owned(), |block, path| kept::filled(&block, path, &base64(bytes)))
            }
            (Some(kept), MediaSource::Uri(_)) => kept.to_owned(),
            (None, _) => media_part(media),
        },
        Content::Own(block) => (*block).to_owned(),
    }
}

fn call_part(id: &str, tool: &str, input: &str) -> String {
    ObjectWriter::default()
        .text("type", "tool-call")
        .text("toolCallId", id)
        .text("toolName", tool)
        .json("input", input)
        .end()
}

/// The input of a call. Text that is no JSON, such as the input of a call that was interrupted, is in an object.
fn input(input_json: &str) -> String {
    match serde_json::from_str::<&RawValue>(input_json) {
        Ok(value) => value.get().to_owned(),
        Err(_) if input_json.trim().is_empty() => "{}".to_owned(),
        Err(_) => ObjectWriter::default().text(super::format::INVALID_INPUT, input_json).end(),
    }
}

fn result_part(result: &ToolResult, id: &str, tool: &str) -> String {
    let output = if result.attachments.is_empty() {
        let kind = if result.status == ResultStatus::Completed { "text" } else { "error-text" };
        ObjectWriter::default().text("type", kind).text("value", &result.output).end()
    } else {
        let text = (!result.output.is_empty()).then(|| text_block(&result.output));
        let items: Vec<_> = text.into_iter().chain(result.attachments.iter().map(attachment)).collect();
        ObjectWriter::default().text("type", "content").json("value", list(&items)).end()
    };
    ObjectWriter::default()
        .text("type", "tool-result")
        .text("toolCallId", id)
        .text("toolName", tool)
        .json("output", output)
        .end()
}

fn attachment(media: &Media) -> String {
    let item = ObjectWriter::default();
    let item = match &media.source {
        MediaSource::Bytes(bytes) => {
            item.text("type", "file-data").json("data", base64(bytes)).text("mediaType", &media.mime_type)
        }
        MediaSource::Uri(uri) => item.text("type", "file-url").text("url", uri).text("mediaType", &media.mime_type),
    };
    let is_named = !media.name.is_empty() && matches!(media.source, MediaSource::Bytes(_));
    if is_named { item.text("filename", &media.name) } else { item }.end()
}

fn media_part(media: &Media) -> String {
    let part = ObjectWriter::default().text("type", "file");
    let part = match &media.source {
        MediaSource::Bytes(bytes) => part.json("data", base64(bytes)),
        MediaSource::Uri(uri) => part.text("data", uri),
    };
    let part = part.text("mediaType", &media.mime_type);
    if media.name.is_empty() { part } else { part.text("filename", &media.name) }.end()
}

/// Reads a request, a list of messages, a message, or what a call of the SDK returned.
pub(super) fn read(text: &str) -> Result<Vec<NewMessage>> {
    let value: &RawValue = serde_json::from_str(text).map_err(|error| Unreadable::new("json", error))?;
    if raw::list(value).is_some() {
        return reading::not_empty(list_of(value, "json")?);
    }
    let whole = object("json", value.get())?;
    let Some(messages) = whole.get("messages") else {
        return reading::not_empty(message("json", value.get())?);
    };
    let mut all = Vec::new();
    let system = whole.text("system").or_else(|| whole.text("instructions"));
    all.extend(
        system.map(|text| reading::message(FORMAT, Role::System, vec![NewPart::new(PartBody::Text(text.text))])),
    );
    all.extend(list_of(messages, "json.messages")?);
    if let Some(last) = all.last_mut().filter(|message| message.role == Role::Assistant)
        && let Some(finish) = &mut last.finish
    {
        finish.reason = reason(&whole.string("finishReason")).or(finish.reason);
        finish.usage = whole.object("usage").map(|usage| ai_sdk_ui::usage_of(&usage));
    }
    reading::not_empty(all)
}

fn list_of(messages: &RawValue, at: &str) -> Result<Vec<NewMessage>> {
    let mut all = Vec::new();
    for (index, given) in reading::list(at, messages)?.into_iter().enumerate() {
        all.extend(message(&format!("{at}[{index}]"), given.get())?);
    }
    Ok(all)
}

fn message(at: &str, text: &str) -> Result<Vec<NewMessage>> {
    let given = object(at, text)?;
    if let Some(parts) = given.get("parts") {
        return ai_sdk_ui::message(at, text, &given, parts);
    }
    let role = match required(at, &given, "role")?.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        "tool" => Role::Tool,
        other => return Err(Unreadable::new(format_args!("{at}.role"), format_args!("{other} is no role"))),
    };
    let value = given.get("content").ok_or_else(|| Unreadable::new(format_args!("{at}.content"), "is not given"))?;
    let parts = match raw::text(value) {
        Some(text) => vec![NewPart::new(PartBody::Text(text.text))],
        None => {
            let items = reading::list(format_args!("{at}.content"), value)?.into_iter().enumerate();
            let parts = items.map(|(index, item)| part(&format!("{at}.content[{index}]"), item.get()));
            parts.collect::<Result<_>>()?
        }
    };
    let metadata_json = reading::rest(FORMAT, text, &["role", "content"]);
    Ok(vec![NewMessage { metadata_json, ..reading::message(FORMAT, role, parts) }])
}

fn part(at: &str, block: &str) -> Result<NewPart> {
    let given = object(at, block)?;
    let kind = required(at, &given, "type")?;
    // The provider ran the tool: the call and its result stay where they are.
    let is_providers = given.flag("providerExecuted");
    let found = match kind.as_str() {
        "text" => text_part(FORMAT, block, &["text"], &text_block(&given.string("text")), PartBody::Text),
        "reasoning" => {
            let plain = ObjectWriter::default().text("type", "reasoning").text("text", &given.string("text")).end();
            text_part(FORMAT, block, &["text"], &plain, PartBody::Reasoning)
        }
        "tool-call" if !is_providers => {
            let (id, tool) = (required(at, &given, "toolCallId")?, required(at, &given, "toolName")?);
            let input = given.get("input").map_or("{}", RawValue::get);
            let metadata = kept::metadata(FORMAT, block, &["input"], &call_part(&id, &tool, input));
            Some(reading::call(id, tool, input.to_owned(), metadata))
        }
        "tool-result" if at_tool(&given) => Some(result(at, block, &given)?),
        "file" | "image" => media(&given).map(|media| {
            let paths: [kept::Path<'_>; 3] = [&["data", "data"], &["data"], &["image"]];
            let holds =
                |path: &kept::Path<'_>| kept::value(block, path).is_some_and(|value| raw::text(value).is_some());
            let path = paths.into_iter().find(holds).unwrap_or(&[""]);
            let path = if matches!(media.source, MediaSource::Bytes(_)) { path } else { &[""] };
            let metadata_json = kept::metadata(FORMAT, block, path, &media_part(&media));
            NewPart { metadata_json, ..NewPart::new(PartBody::Media(media)) }
        }),
        _ => None,
    };
    Ok(found.unwrap_or_else(|| opaque(FORMAT, &kind, block)))
}

/// True for a result that answers a client's tool.
fn at_tool(given: &Object<'_>) -> bool {
    !given.flag("providerExecuted")
}

fn result(at: &str, block: &str, given: &Object<'_>) -> Result<NewPart> {
    let (id, tool) = (required(at, given, "toolCallId")?, required(at, given, "toolName")?);
    let output = given.object("output");
    let output = output.ok_or_else(|| Unreadable::new(format_args!("{at}.output"), "is not given"))?;
    let kind = output.string("type");
    let is_error = kind.starts_with("error") || kind == "execution-denied";
    let status = if is_error { ResultStatus::Error } else { ResultStatus::Completed };
    let (text, attachments) = match kind.as_str() {
        "content" => content_of(&output),
        "execution-denied" => (output.id("reason").unwrap_or_else(|| "denied".to_owned()), Vec::new()),
        _ => (
            output
                .get("value")
                .map(|value| raw::text(value).map_or(value.get().to_owned(), |text| text.text))
                .unwrap_or_default(),
            Vec::new(),
        ),
    };
    let mut part = reading::result(id.clone(), status, text, attachments, None);
    let PartBody::ToolResult(body) = &*part.body else { return Ok(part) };
    let plain = result_part(body, &id, &tool);
    let is_text = kind == "text" || kind == "error-text";
    // What has media is not kept twice.
    part.metadata_json = reading::fitting(match body.attachments.is_empty() {
        _ if kept::is_same(block, &plain) => None,
        true if is_text => kept::metadata(FORMAT, block, &["output", "value"], &plain),
        true => Some(kept::under(FORMAT, block)),
        false => None,
    });
    Ok(part)
}

/// The texts and the media of an output that is content.
fn content_of(output: &Object<'_>) -> (String, Vec<Media>) {
    let (mut texts, mut attachments) = (Vec::new(), Vec::new());
    for item in output.list("value").unwrap_or_default() {
        let inner = raw::object(item);
        match inner.as_ref().and_then(media) {
            Some(media) => attachments.push(media),
            None => {
                texts.push(inner.and_then(|inner| inner.text("text")).map_or(item.get().to_owned(), |text| text.text))
            }
        }
    }
    (texts.join("\n"), attachments)
}
