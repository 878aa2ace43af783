//! Gemini's `generateContent`. Members are read in both of their spellings, and written in that of the interface over HTTP.

use super::format::{Format, SIGNATURE, object_input};
use super::kept;
use super::prepared::{AnsweredCall, Content, Piece, PreparedMessage};
use super::reading::{self, Result, Unreadable, object, opaque, required, text_part};
use super::written::{MergedMessages, Refusal, RefusalKind, WrittenView};
use crate::compose::{ObjectWriter, base64, list};
use crate::raw::{self, Object, quote};
use longhand_model::limits;
use longhand_model::message::{FinishReason, NewFinish, NewMessage, Role};
use longhand_model::part::{Media, MediaSource, NewPart, PartBody, ResultStatus, ToolResult};
use longhand_model::usage::Usage;
use serde_json::value::RawValue;
use std::collections::HashMap;

const FORMAT: Format = Format::Gemini;

pub(super) fn write(messages: &[PreparedMessage<'_>]) -> std::result::Result<WrittenView, Refusal> {
    let begin = messages.iter().take_while(|message| message.role == Role::System).count();
    let (system, rest) = messages.split_at(begin);
    let mut instructions = Vec::new();
    for message in system {
        instructions.extend(parts_of(message)?);
    }
    let mut merged = MergedMessages::default();
    for message in rest {
        let role = match message.role {
            Role::Assistant => "model",
            Role::User | Role::Tool => "user",
            Role::System => return Err(message.refusal(FORMAT, message.pieces[0].part, RefusalKind::LateSystem)),
        };
        merged.add(role, parts_of(message)?, message.source);
    }
    if let Some(first) = rest.first().filter(|message| message.role == Role::Assistant) {
        return Err(first.refusal(FORMAT, first.pieces[0].part, RefusalKind::NoUserFirst));
    }
    let system_json =
        (!instructions.is_empty()).then(|| ObjectWriter::default().json("parts", list(&instructions)).end());
    Ok(WrittenView { system_json, messages: merged.end("parts"), left_out: Vec::new() })
}

fn parts_of(message: &PreparedMessage<'_>) -> std::result::Result<Vec<String>, Refusal> {
    let (mut parts, mut signature) = (Vec::new(), None);
    for piece in &message.pieces {
        if let (Content::Own(block), PartBody::Opaque(opaque)) = (&piece.content, &*piece.part.body)
            && opaque.kind == SIGNATURE
        {
            signature = kept::value(block, &[SIGNATURE]).map(|value| value.get().to_owned());
            continue;
        }
        let part = part_of(message, piece)?;
        parts.push(match signature.take() {
            Some(signature) => kept::with_member(&part, SIGNATURE, &signature),
            None => part,
        });
    }
    Ok(parts)
}

fn part_of(message: &PreparedMessage<'_>, piece: &Piece<'_>) -> std::result::Result<String, Refusal> {
    let kept = piece.kept.as_deref();
    Ok(match &piece.content {
        Content::Text(text) => match kept {
            Some(kept) => kept::filled(kept, &["text"], &quote(text)),
            None => ObjectWriter::default().text("text", text).end(),
        },
        Content::Reasoning(text) => match kept {
            Some(kept) => kept::filled(kept, &["text"], &quote(text)),
            None => ObjectWriter::default().text("text", text).value("thought", true).end(),
        },
        Content::Call { call, id } => {
            let args = object_input(&call.input_json);
            match kept {
                Some(kept) => {
                    let part =
                        CALLS.iter().fold(kept.to_owned(), |part, name| kept::filled(&part, &[name, "args"], &args));
                    CALLS.iter().fold(part, |part, name| kept::with_values(&part, &[(&[name, "id"], &quote(id))]))
                }
                None => call_part(Some(id), &call.tool, &args),
            }
        }
        Content::Result { result, answered } => match kept {
            Some(kept) => RESULTS
                .iter()
                .fold(kept.to_owned(), |part, name| kept::with_values(&part, &[(&[name, "id"], &quote(&answered.id))])),
            None => result_part(result, answered),
        },
        Content::Media(_) if message.role == Role::System => {
            return Err(message.refusal(FORMAT, piece.part, RefusalKind::MediaOfRole { role: "system" }));
        }
        Content::Media(media) => match (kept, &media.source) {
            (Some(kept), MediaSource::Bytes(bytes)) => {
                BYTES.iter().fold(kept.to_owned(), |part, name| kept::filled(&part, &[name, "data"], &base64(bytes)))
            }
            (Some(kept), MediaSource::Uri(_)) => kept.to_owned(),
            (None, _) => media_part(media),
        },
        Content::Own(part) => (*part).to_owned(),
    })
}

const CALLS: [&str; 2] = ["functionCall", "function_call"];
const RESULTS: [&str; 2] = ["functionResponse", "function_response"];
const BYTES: [&str; 2] = ["inlineData", "inline_data"];
const ADDRESSES: [&str; 2] = ["fileData", "file_data"];

fn call_part(id: Option<&str>, tool: &str, args: &str) -> String {
    let call = id.map_or_else(ObjectWriter::default, |id| ObjectWriter::default().text("id", id));
    ObjectWriter::default().json("functionCall", call.text("name", tool).json("args", args).end()).end()
}

fn result_part(result: &ToolResult, answered: &AnsweredCall) -> String {
    // A call that the provider gave no id is answered without one.
    let has_id =
        answered.kept.as_deref().is_none_or(|kept| CALLS.iter().any(|name| kept::value(kept, &[name, "id"]).is_some()));
    let response = ObjectWriter::default();
    let response = if has_id { response.text("id", &answered.id) } else { response };
    let name = if result.status == ResultStatus::Completed { "output" } else { "error" };
    let output = ObjectWriter::default().text(name, &result.output).end();
    let mut response = response.text("name", &answered.tool).json("response", output);
    if !result.attachments.is_empty() {
        response = response.json("parts", list(&result.attachments.iter().map(media_part).collect::<Vec<_>>()));
    }
    ObjectWriter::default().json("functionResponse", response.end()).end()
}

fn media_part(media: &Media) -> String {
    let value = ObjectWriter::default().text("mimeType", &media.mime_type);
    let (name, value) = match &media.source {
        MediaSource::Bytes(bytes) => ("inlineData", value.json("data", base64(bytes))),
        MediaSource::Uri(uri) => ("fileData", value.text("fileUri", uri)),
    };
    ObjectWriter::default().json(name, value.end()).end()
}

/// Reads a request, a list of contents, a content, or a response.
pub(super) fn read(text: &str) -> Result<Vec<NewMessage>> {
    let value: &RawValue = serde_json::from_str(text).map_err(|error| Unreadable::new("json", error))?;
    if raw::list(value).is_some() {
        return reading::not_empty(contents("json", value)?);
    }
    let whole = object("json", value.get())?;
    if let Some(candidates) = whole.get("candidates") {
        return response(value.get(), &whole, candidates);
    }
    let Some(given) = whole.get("contents") else {
        return reading::not_empty(content("json", value.get())?);
    };
    let mut all = Vec::new();
    let system = whole.get("systemInstruction").or_else(|| whole.get("system_instruction"));
    if let Some(system) = system {
        all.push(reading::message(FORMAT, Role::System, parts("json.systemInstruction", system.get())?));
    }
    match raw::text(given) {
        Some(text) => all.push(reading::message(FORMAT, Role::User, vec![NewPart::new(PartBody::Text(text.text))])),
        None => all.extend(contents("json.contents", given)?),
    }
    reading::not_empty(all)
}

fn response(text: &str, whole: &Object<'_>, candidates: &RawValue) -> Result<Vec<NewMessage>> {
    let at = "json.candidates";
    let candidates = reading::list(at, candidates)?;
    let [candidate] = candidates.as_slice() else {
        return Err(Unreadable::new(at, "has more or less than one candidate: send the one that was taken"));
    };
    let candidate = object(format_args!("{at}[0]"), candidate.get())?;
    let parts = match candidate.get("content") {
        Some(content) => parts(&format!("{at}[0].content"), content.get())?,
        None => Vec::new(),
    };
    let detail = candidate.id("finishReason").or_else(|| candidate.id("finish_reason")).unwrap_or_default();
    let reason = match detail.as_str() {
        "STOP" | "" | "FINISH_REASON_UNSPECIFIED" => reading::reason_by_parts(&parts),
        "MAX_TOKENS" => FinishReason::Length,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION"
        | "LANGUAGE" => FinishReason::ContentFilter,
        super::format::CUT_OFF => FinishReason::Aborted,
        _ => FinishReason::Error,
    };
    let usage = whole.object("usageMetadata").or_else(|| whole.object("usage_metadata")).map(|usage| usage_of(&usage));
    let mut message = reading::message(FORMAT, Role::Assistant, parts);
    message.finish = Some(NewFinish { reason: Some(reason), detail, usage, view: None });
    message.model = whole.id("modelVersion").or_else(|| whole.id("model_version")).unwrap_or_default();
    let known = [
        "candidates",
        "usageMetadata",
        "usage_metadata",
        "modelVersion",
        "model_version",
        "sdkHttpResponse",
        "sdk_http_response",
    ];
    let reply = ObjectWriter::default().members(Some(text), &known).end();
    message.metadata_json =
        (reply != "{}").then(|| kept::under(FORMAT, &ObjectWriter::default().json("reply", reply).end()));
    reading::not_empty(vec![message])
}

fn usage_of(usage: &Object<'_>) -> Usage {
    let count = |one: &str, other: &str| usage.tokens(one).max(usage.tokens(other));
    let cache_read = count("cachedContentTokenCount", "cached_content_token_count");
    let prompt = count("promptTokenCount", "prompt_token_count")
        + count("toolUsePromptTokenCount", "tool_use_prompt_token_count");
    Usage {
        input: (prompt - cache_read).clamp(0, limits::TOKENS_MAX),
        output: count("candidatesTokenCount", "candidates_token_count"),
        reasoning: count("thoughtsTokenCount", "thoughts_token_count"),
        cache_read,
        cache_write: 0,
        total: Some(count("totalTokenCount", "total_token_count")).filter(|total| *total > 0),
        cost_usd: None,
        cost_is_computed: false,
    }
}

fn contents(at: &str, value: &RawValue) -> Result<Vec<NewMessage>> {
    let mut all = Vec::new();
    for (index, given) in reading::list(at, value)?.into_iter().enumerate() {
        all.extend(content(&format!("{at}[{index}]"), given.get())?);
    }
    Ok(all)
}

/// A content. One of the user's with responses of functions is two messages: the results, and what the user says.
fn content(at: &str, text: &str) -> Result<Vec<NewMessage>> {
    let given = object(at, text)?;
    let parts = parts(at, text)?;
    match given.string("role").as_str() {
        "model" => Ok(vec![reading::message(FORMAT, Role::Assistant, parts)]),
        "user" | "function" | "" => {
            let is_result = |part: &NewPart| matches!(&*part.body, PartBody::ToolResult(_));
            let (results, rest): (Vec<_>, Vec<_>) = parts.into_iter().partition(is_result);
            Ok(vec![reading::message(FORMAT, Role::Tool, results), reading::message(FORMAT, Role::User, rest)])
        }
        "system" => Ok(vec![reading::message(FORMAT, Role::System, parts)]),
        other => Err(Unreadable::new(format_args!("{at}.role"), format_args!("{other} is no role"))),
    }
}

fn parts(at: &str, content: &str) -> Result<Vec<NewPart>> {
    let value: &RawValue = serde_json::from_str(content).map_err(|error| Unreadable::new(at, error))?;
    if let Some(text) = raw::text(value) {
        return Ok(vec![NewPart::new(PartBody::Text(text.text))]);
    }
    let Some(list) = object(at, content)?.get("parts") else { return Ok(Vec::new()) };
    // Calls without an id, and their responses, are joined by the name and the number in their content.
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut all = Vec::new();
    for (index, part) in reading::list(format_args!("{at}.parts"), list)?.into_iter().enumerate() {
        let made = read_part(&format!("{at}.parts[{index}]"), part.get(), &mut numbers)?;
        all.extend(signature_apart(&made, part.get()));
        all.push(made);
    }
    Ok(all)
}

/// The signature of a call that is too large for its metadata.
fn signature_apart(made: &NewPart, part: &str) -> Option<NewPart> {
    let is_call = matches!(&*made.body, PartBody::ToolCall(_));
    let is_large = made.metadata_json.as_ref().is_some_and(|metadata| metadata.len() > limits::METADATA_BYTES_MAX);
    let signature = [SIGNATURE, "thought_signature"].into_iter().find_map(|name| kept::value(part, &[name]));
    let signature = signature.filter(|_| is_call && is_large)?;
    Some(opaque(FORMAT, SIGNATURE, &ObjectWriter::default().json(SIGNATURE, signature.get()).end()))
}

fn read_part(at: &str, part: &str, numbers: &mut HashMap<String, usize>) -> Result<NewPart> {
    let given = object(at, part)?;
    let named = |names: [&'static str; 2]| names.into_iter().find_map(|name| Some((name, given.object(name)?)));
    let mut id_of = |inner: &Object<'_>, tool: &str| {
        inner.id("id").unwrap_or_else(|| {
            let number = numbers.entry(tool.to_owned()).or_default();
            *number += 1;
            if *number == 1 { tool.to_owned() } else { format!("{tool}#{number}") }
        })
    };
    if let Some((name, inner)) = named(CALLS) {
        let tool = required(format_args!("{at}.{name}"), &inner, "name")?;
        let id = id_of(&inner, &tool);
        let args = inner.get("args").map_or("{}", RawValue::get);
        let plain = call_part(Some(&id), &tool, args);
        let metadata = kept::metadata(FORMAT, part, &[name, "args"], &plain);
        return Ok(reading::call(id, tool, args.to_owned(), metadata));
    }
    if let Some((name, inner)) = named(RESULTS) {
        let tool = required(format_args!("{at}.{name}"), &inner, "name")?;
        let id = id_of(&inner, &tool);
        return Ok(result(part, id, tool, &inner));
    }
    if let Some(media) = media(&given) {
        let path: [kept::Path<'_>; 2] = [&[BYTES[0], "data"], &[BYTES[1], "data"]];
        let path = path.into_iter().find(|path| kept::value(part, path).is_some()).unwrap_or(&[""]);
        let metadata_json = kept::metadata(FORMAT, part, path, &media_part(&media));
        return Ok(NewPart { metadata_json, ..NewPart::new(PartBody::Media(media)) });
    }
    let body = if given.flag("thought") { PartBody::Reasoning } else { PartBody::Text };
    let text = given.string("text");
    let plain = ObjectWriter::default().text("text", &text);
    let plain = if given.flag("thought") { plain.value("thought", true) } else { plain }.end();
    let kind = if given.flag("thought") || given.text("text").is_some() { "thought" } else { kind_of(&given) };
    Ok(text_part(FORMAT, part, &["text"], &plain, body).unwrap_or_else(|| opaque(FORMAT, kind, part)))
}

/// The name of the member that says what a part is.
fn kind_of<'a>(part: &'a Object<'_>) -> &'a str {
    let is_kind = |name: &&str| !matches!(*name, "thought" | "thoughtSignature" | "thought_signature");
    part.members().filter(|(_, value)| value.get() != "null").map(|(name, _)| name).find(is_kind).unwrap_or("thought")
}

fn result(part: &str, id: String, tool: String, inner: &Object<'_>) -> NewPart {
    let response = inner.object("response");
    let text_of = |name: &str| {
        response
            .as_ref()
            .and_then(|response| response.get(name))
            .map(|value| raw::text(value).map_or(value.get().to_owned(), |text| text.text))
    };
    let (status, output) = match (text_of("error"), text_of("output")) {
        (Some(error), _) => (ResultStatus::Error, error),
        (None, Some(output)) => (ResultStatus::Completed, output),
        (None, None) => (ResultStatus::Completed, inner.get("response").map_or("{}", RawValue::get).to_owned()),
    };
    let items = inner.get("parts").and_then(raw::list).unwrap_or_default();
    let attachments: Vec<_> = items.iter().filter_map(|item| media(&raw::object(item)?)).collect();
    let has_media = !attachments.is_empty();
    let mut made = reading::result(id.clone(), status, output, attachments, None);
    let PartBody::ToolResult(body) = &*made.body else { return made };
    let answered = AnsweredCall { id, tool, kept: None };
    // What has media is not kept twice.
    let differs = !has_media && !kept::is_same(part, &result_part(body, &answered));
    made.metadata_json = reading::fitting(differs.then(|| kept::under(FORMAT, part)));
    made
}

fn media(part: &Object<'_>) -> Option<Media> {
    let inner = |names: [&str; 2]| names.into_iter().find_map(|name| part.object(name));
    let type_of = |inner: &Object<'_>| inner.id("mimeType").or_else(|| inner.id("mime_type")).unwrap_or_default();
    let name_of = |inner: &Object<'_>| inner.id("displayName").or_else(|| inner.id("display_name")).unwrap_or_default();
    if let Some(bytes) = inner(BYTES) {
        return reading::media(type_of(&bytes), name_of(&bytes), &bytes.string("data"));
    }
    let address = inner(ADDRESSES)?;
    let uri = address.id("fileUri").or_else(|| address.id("file_uri"))?;
    reading::media_at(&type_of(&address), name_of(&address), &uri)
}
