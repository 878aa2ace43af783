//! Checks of requests, before anything is written.

use super::error::{Error, Result};
use crate::limits;
use crate::model::approval::{Answer, Question};
use crate::model::draft::DraftKind;
use crate::model::ids::client_id_defect;
use crate::model::message::{MessageKind, NewFinish, NewMessage};
use crate::model::part::{Answers, ERASED_MARKER, Media, MediaSource, NewPart, PartBody};
use crate::model::usage::{ModelWindow, Usage, tokens_defect};
use crate::store::{DraftEnd, OpenPart};
use serde_json::value::RawValue;
use std::fmt::Display;

/// Checks a number against its bound.
pub(super) fn bound(what: impl Display, actual: usize, limit: usize) -> Result<()> {
    if actual > limit { Err(Error::limit(what, limit, actual)) } else { Ok(()) }
}

/// Checks a text that is stored as such: no engine's text holds U+0000.
fn text(field: impl Display + Copy, text: &str, limit: usize) -> Result<()> {
    bound(format_args!("bytes of {field}"), text.len(), limit)?;
    if text.contains('\0') { Err(Error::field(field, "has the character U+0000")) } else { Ok(()) }
}

/// Checks a name that a client chose.
pub(super) fn name(field: impl Display + Copy, name: &str) -> Result<()> {
    text(field, name, limits::NAME_BYTES_MAX)
}

/// Checks the name of a principal, a tenant or a project: printable ASCII, so that it can be a header's value.
pub(super) fn access_name(field: impl Display + Copy, name: &str) -> Result<()> {
    bound(format_args!("bytes of {field}"), name.len(), limits::ACCESS_NAME_BYTES_MAX)?;
    if name.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') && name.trim() == name {
        return Ok(());
    }
    Err(Error::field(field, "is not printable ASCII, or begins or ends with a space"))
}

/// Checks a client's own id: a name that is not empty, that people can read, and not in the form of a server's id.
pub(super) fn client_id(field: impl Display + Copy, id: Option<&str>) -> Result<()> {
    let Some(id) = id else { return Ok(()) };
    name(field, id)?;
    client_id_defect(id).map_or(Ok(()), |defect| Err(Error::field(field, defect)))
}

/// Checks free JSON: any JSON text, kept verbatim.
pub(super) fn json(field: impl Display + Copy, text: Option<&str>, limit: usize) -> Result<()> {
    let Some(text) = text else { return Ok(()) };
    bound(format_args!("bytes of {field}"), text.len(), limit)?;
    serde_json::from_str::<&RawValue>(text)
        .map(drop)
        .map_err(|error| Error::field(field, format!("is no JSON: {error}")))
}

/// Checks a session's metadata: a JSON object, kept verbatim.
pub(super) fn object(field: impl Display + Copy, text: Option<&str>, limit: usize) -> Result<()> {
    json(field, text, limit)?;
    match text {
        Some(text) if !text.trim_start().starts_with('{') => Err(Error::field(field, "is no JSON object")),
        _ => Ok(()),
    }
}

/// Checks a session's title.
pub(super) fn title(title: &str) -> Result<()> {
    title_of("title", title)
}

/// Checks a title, or the beginning of one.
pub(super) fn title_of(field: impl Display + Copy, title: &str) -> Result<()> {
    text(field, title, limits::TITLE_BYTES_MAX)
}

/// Checks a label of a session: a name that people can read, and that a list of labels can have without quotes.
pub(super) fn label(field: impl Display + Copy, label: &str) -> Result<()> {
    bound(format_args!("bytes of {field}"), label.len(), limits::LABEL_BYTES_MAX)?;
    if label.is_empty() {
        return Err(Error::field(field, "is empty"));
    }
    let is_refused = |character: char| character.is_control() || character.is_whitespace() || character == ',';
    match label.contains(is_refused) {
        true => Err(Error::field(field, "has white space, a comma or a control character")),
        false => Ok(()),
    }
}

/// Checks the name of a directory.
pub(super) fn directory(field: impl Display + Copy, directory: &str) -> Result<()> {
    text(field, directory, limits::DIRECTORY_BYTES_MAX)?;
    if directory.is_empty() { Err(Error::field(field, "is empty")) } else { Ok(()) }
}

/// Checks a condition on metadata, which has a name.
pub(super) fn metadata_term(field: impl Display + Copy, term: &str) -> Result<()> {
    bound(format_args!("bytes of {field}"), term.len(), limits::METADATA_TERM_BYTES_MAX)?;
    if term.is_empty() || term.starts_with('=') { Err(Error::field(field, "has no name")) } else { Ok(()) }
}

/// Checks a model window.
pub(super) fn window(field: impl Display + Copy, window: &ModelWindow) -> Result<()> {
    name(format_args!("{field}.model"), &window.model)?;
    let counts = [
        ("max_context_tokens", Some(window.context)),
        ("max_input_tokens", window.input),
        ("max_output_tokens", window.output),
    ];
    for (part, count) in counts {
        if count.is_some_and(|count| count < 0) {
            return Err(Error::field(format_args!("{field}.{part}"), "is negative"));
        }
    }
    let defect = tokens_defect(window.overhead);
    defect.map_or(Ok(()), |defect| Err(Error::field(format_args!("{field}.overhead_tokens"), defect)))
}

/// Checks the usage of a reply.
pub(super) fn usage(field: impl Display + Copy, usage: &Usage) -> Result<()> {
    usage.defect().map_or(Ok(()), |(part, defect)| Err(Error::field(format_args!("{field}.{part}"), defect)))
}

/// Checks the details of a seal.
pub(super) fn finish(field: impl Display + Copy, finish: &NewFinish) -> Result<()> {
    bound(format_args!("bytes of {field}.detail"), finish.detail.len(), limits::FINISH_DETAIL_BYTES_MAX)?;
    if let Some(given) = &finish.usage {
        usage(format_args!("{field}.usage"), given)?;
    }
    Ok(())
}

fn media_bytes(field: impl Display + Copy, media: &Media) -> Result<usize> {
    if media.mime_type.is_empty() {
        return Err(Error::field(format_args!("{field}.mime_type"), "is empty"));
    }
    name(format_args!("{field}.mime_type"), &media.mime_type)?;
    bound(format_args!("bytes of {field}.name"), media.name.len(), limits::MEDIA_NAME_BYTES_MAX)?;
    Ok(match &media.source {
        MediaSource::Bytes(bytes) => bytes.len(),
        MediaSource::Uri(uri) => uri.len(),
    })
}

fn call_id(field: impl Display + Copy, id: &str) -> Result<()> {
    if id.is_empty() {
        return Err(Error::field(format_args!("{field}.call_id"), "is empty"));
    }
    text(format_args!("{field}.call_id"), id, limits::CALL_ID_BYTES_MAX)
}

/// Checks what a draft becomes.
pub(super) fn draft_kind(kind: &DraftKind) -> Result<()> {
    let call = |id: &str| match id.is_empty() {
        true => Err(Error::field("call_id", "is empty")),
        false => text("call_id", id, limits::CALL_ID_BYTES_MAX),
    };
    match kind {
        DraftKind::Text | DraftKind::Reasoning => Ok(()),
        DraftKind::ToolInput { call_id, tool } => {
            call(call_id)?;
            if tool.is_empty() {
                return Err(Error::field("tool", "is empty"));
            }
            name("tool", tool)
        }
        DraftKind::ToolOutput { call_id, call_message } => {
            call(call_id)?;
            match call_message.as_deref() {
                Some("") => Err(Error::field("call_message_id", "is empty; leave it unset instead")),
                Some(message) => name("call_message_id", message),
                None => Ok(()),
            }
        }
    }
}

/// Checks a part, and returns its size in bytes.
fn part(field: impl Display + Copy, kind: MessageKind, part: &NewPart) -> Result<usize> {
    client_id(format_args!("{field}.client_id"), part.client_id.as_deref())?;
    json(format_args!("{field}.metadata_json"), part.metadata_json.as_deref(), limits::METADATA_BYTES_MAX)?;
    let fits = match *part.body {
        PartBody::Record(_) => kind == MessageKind::Record,
        // A record's bytes.
        PartBody::Opaque(_) => true,
        _ => kind != MessageKind::Record,
    };
    if !fits {
        return Err(Error::field(field, "records hold record and opaque parts, and nothing else holds record parts"));
    }
    let bytes = match &*part.body {
        PartBody::Text(text) | PartBody::Reasoning(text) => text.len(),
        PartBody::ToolCall(call) => {
            call_id(format_args!("{field}.tool_call"), &call.call_id)?;
            if call.tool.is_empty() {
                return Err(Error::field(format_args!("{field}.tool_call.tool"), "is empty"));
            }
            name(format_args!("{field}.tool_call.tool"), &call.tool)?;
            call.input_json.len()
        }
        PartBody::ToolResult(result) => {
            call_id(format_args!("{field}.tool_result"), &result.call_id)?;
            if let Answers::In(message) = &result.answers {
                let field = format_args!("{field}.tool_result.call_message_id");
                name(field, message)?;
                if message.is_empty() {
                    return Err(Error::field(field, "is empty; leave it unset instead"));
                }
            }
            let mut bytes = result.output.len();
            bound(format_args!("{field}.tool_result.attachments"), result.attachments.len(), limits::ATTACHMENTS_MAX)?;
            for (index, media) in result.attachments.iter().enumerate() {
                bytes += media_bytes(format_args!("{field}.tool_result.attachments[{index}]"), media)?;
            }
            bytes
        }
        PartBody::Media(media) => media_bytes(format_args!("{field}.media"), media)?,
        PartBody::Marker(marker) if marker.name == ERASED_MARKER => {
            return Err(Error::field(format_args!("{field}.marker.name"), "stands for erased content"));
        }
        PartBody::Marker(marker) => marker.name.len() + marker.text.len(),
        PartBody::Step(step) => {
            if let Some(given) = &step.usage {
                usage(format_args!("{field}.step.usage"), given)?;
            }
            step.finish_reason.len()
        }
        PartBody::Opaque(opaque) => opaque.provider.len() + opaque.kind.len() + opaque.data.len(),
        PartBody::Record(record) => record.kind.len() + record.data.len(),
    };
    Ok(bytes + part.metadata_json.as_ref().map_or(0, String::len))
}

/// Checks the parts of one message, and returns their size in bytes.
pub(super) fn parts(field: impl Display + Copy, kind: MessageKind, parts: &[NewPart]) -> Result<usize> {
    bound(format_args!("{field}.parts"), parts.len(), limits::MESSAGE_PARTS_MAX)?;
    let mut bytes = 0;
    let mut ids = std::collections::HashSet::new();
    for (index, given) in parts.iter().enumerate() {
        let field = format_args!("{field}.parts[{index}]");
        bytes += part(field, kind, given)?;
        if let Some(id) = &given.client_id
            && !ids.insert(id.as_str())
        {
            return Err(Error::field(format_args!("{field}.client_id"), "is there twice"));
        }
    }
    bound(format_args!("bytes of {field}"), bytes, limits::MESSAGE_BYTES_MAX)?;
    Ok(bytes)
}

/// Checks what joins an open message.
pub(super) fn open_parts(given: &[OpenPart]) -> Result<()> {
    let mut whole = Vec::new();
    for part in given {
        match part {
            OpenPart::Whole(part) => whole.push(part.clone()),
            OpenPart::Ended(DraftEnd { metadata_json, .. }) => {
                json("metadata_json", metadata_json.as_deref(), limits::METADATA_BYTES_MAX)?;
            }
        }
    }
    parts("request", MessageKind::Normal, &whole).map(drop)
}

/// Checks a message to append, and returns its size in bytes.
pub(super) fn message(field: impl Display + Copy, message: &NewMessage) -> Result<usize> {
    client_id(format_args!("{field}.client_id"), message.client_id.as_deref())?;
    name(format_args!("{field}.model"), &message.model)?;
    name(format_args!("{field}.provider"), &message.provider)?;
    json(format_args!("{field}.metadata_json"), message.metadata_json.as_deref(), limits::METADATA_BYTES_MAX)?;
    if !matches!(message.kind, MessageKind::Normal | MessageKind::Record) {
        return Err(Error::field(format_args!("{field}.kind"), "clients append normal messages and records"));
    }
    if message.kind == MessageKind::Record && message.finish.is_none() {
        return Err(Error::field(format_args!("{field}.open"), "a record is never open"));
    }
    if message.replace_existing {
        let field = format_args!("{field}.replace_existing");
        if message.kind != MessageKind::Record {
            return Err(Error::field(field, "goes with records alone; EditMessage replaces other messages"));
        }
        if message.client_id.is_none() {
            return Err(Error::field(field, "needs the client_id of the record"));
        }
    }
    if let Some(timeout) = message.open_timeout_ms {
        open_timeout(format_args!("{field}.open_timeout"), timeout, message.finish.is_none())?;
    }
    if let Some(given) = &message.finish {
        finish(format_args!("{field}.finish"), given)?;
    }
    let bytes = parts(field, message.kind, &message.parts)?;
    Ok(bytes + message.metadata_json.as_ref().map_or(0, String::len))
}

/// Checks the time without a write after which an open message is sealed.
fn open_timeout(field: impl Display + Copy, timeout_ms: i64, is_open: bool) -> Result<()> {
    let (least, most) = (limits::OPEN_TIMEOUT_MS_MIN, limits::OPEN_TIMEOUT_MS_MAX);
    match is_open {
        false => Err(Error::field(field, "goes with open alone")),
        true if (least..=most).contains(&timeout_ms) => Ok(()),
        true => Err(Error::field(field, format!("is not between {} and {} seconds", least / 1_000, most / 1_000))),
    }
}

/// Checks all messages of one append.
pub(super) fn batch(messages: &[NewMessage]) -> Result<()> {
    if messages.is_empty() {
        return Err(Error::field("messages", "is empty"));
    }
    bound("messages", messages.len(), limits::BATCH_MESSAGES_MAX)?;
    let mut bytes = 0;
    let mut ids = std::collections::HashSet::new();
    for (index, given) in messages.iter().enumerate() {
        let field = format_args!("messages[{index}]");
        bytes += message(field, given)?;
        if let Some(id) = &given.client_id
            && !ids.insert(id.as_str())
        {
            return Err(Error::field(format_args!("{field}.client_id"), "is there twice"));
        }
    }
    bound("bytes of messages", bytes, limits::BATCH_BYTES_MAX)
}

/// Checks instructions for a summarizer.
pub(super) fn instructions(instructions: &str) -> Result<()> {
    text("instructions", instructions, limits::INSTRUCTIONS_BYTES_MAX)
}

/// Checks a summary that a client supplies.
pub(super) fn summary(text: &str) -> Result<()> {
    if text.trim().is_empty() {
        return Err(Error::field("text", "is empty"));
    }
    bound("bytes of text", text.len(), limits::SUMMARY_BYTES_MAX)
}

/// Checks the size of a policy override.
pub(super) fn policy_override(text: &str) -> Result<()> {
    bound("bytes of policy_override_json", text.len(), limits::POLICY_BYTES_MAX)
}

/// Checks the reason for an erasure.
pub(super) fn erase_reason(reason: &str) -> Result<()> {
    if reason.is_empty() {
        return Err(Error::field("reason", "is empty"));
    }
    if reason.len() > limits::ERASE_REASON_BYTES_MAX {
        return Err(Error::field("reason", format_args!("has more than {} bytes", limits::ERASE_REASON_BYTES_MAX)));
    }
    Ok(())
}

/// Checks the words about the failure of a run.
pub(super) fn failure(failure: &str) -> Result<()> {
    text("failure", failure, limits::RUN_FAILURE_BYTES_MAX)
}

/// Checks the content of a prompt.
pub(super) fn prompt(given: &[NewPart], metadata_json: Option<&str>) -> Result<()> {
    if given.is_empty() {
        return Err(Error::field("parts", "is empty"));
    }
    json("metadata_json", metadata_json, limits::METADATA_BYTES_MAX)?;
    let has_results = given.iter().any(|part| matches!(*part.body, PartBody::ToolResult(_)));
    for (index, part) in given.iter().enumerate() {
        let is_right = match &*part.body {
            PartBody::Text(_) | PartBody::Media(_) => !has_results,
            PartBody::ToolResult(_) => true,
            _ => return Err(Error::field(format_args!("parts[{index}]"), "is no text, medium or result of a tool")),
        };
        if !is_right {
            return Err(Error::field(format_args!("parts[{index}]"), "does not go with results of tools"));
        }
    }
    parts("prompt", MessageKind::Normal, given).map(drop)
}

/// Checks the replacement of a message.
pub(super) fn edit(given: &[NewPart], metadata_json: Option<&str>) -> Result<()> {
    json("metadata_json", metadata_json, limits::METADATA_BYTES_MAX)?;
    parts("request", MessageKind::Normal, given).map(drop)
}

/// Checks a question.
pub(super) fn question(question: &Question) -> Result<()> {
    if question.text.trim().is_empty() {
        return Err(Error::field("question.text", "is empty"));
    }
    text("question.text", &question.text, limits::APPROVAL_TEXT_BYTES_MAX)?;
    name("question.tool", &question.tool)?;
    if !question.call_id.is_empty() {
        call_id("question", &question.call_id)?;
    }
    json("question.input_json", question.input_json.as_deref(), limits::APPROVAL_INPUT_BYTES_MAX)?;
    bound("question.choices", question.choices.len(), limits::APPROVAL_CHOICES_MAX)?;
    for (index, choice) in question.choices.iter().enumerate() {
        let field = format!("question.choices[{index}]");
        if choice.id.is_empty() {
            return Err(Error::field(format_args!("{field}.id"), "is empty"));
        }
        name(format_args!("{field}.id"), &choice.id)?;
        name(format_args!("{field}.label"), &choice.label)?;
        if question.choices[..index].iter().any(|before| before.id == choice.id) {
            return Err(Error::field(format_args!("{field}.id"), "is there twice"));
        }
    }
    if question.choices.is_empty() && !question.accepts_text {
        return Err(Error::field("question.choices", "is empty, and no text is accepted"));
    }
    match (question.timeout_ms, &question.default_choice) {
        (None, None) => Ok(()),
        (None, Some(_)) => Err(Error::field("question.default_choice", "goes with answer_timeout alone")),
        (Some(_), None) => {
            Err(Error::field("question.default_choice", "is not given, and the question has an answer_timeout"))
        }
        (Some(timeout), Some(default)) => {
            let (least, most) = (limits::APPROVAL_TIMEOUT_MS_MIN, limits::APPROVAL_TIMEOUT_MS_MAX);
            if !(least..=most).contains(&timeout) {
                return Err(Error::field("question.answer_timeout", "is not between 1 second and 30 days"));
            }
            choice("question.default_choice", question, default)
        }
    }
}

/// Checks that a question has a choice.
fn choice(field: &str, question: &Question, id: &str) -> Result<()> {
    match question.choices.iter().any(|choice| choice.id == id) {
        true => Ok(()),
        false => Err(Error::field(field, "is none of the choices")),
    }
}

/// Checks the answer to a question.
pub(super) fn answer(question: &Question, answer: &Answer) -> Result<()> {
    text("text", &answer.text, limits::APPROVAL_TEXT_BYTES_MAX)?;
    if !answer.text.is_empty() && !question.accepts_text {
        return Err(Error::field("text", "is not accepted by the question"));
    }
    match &answer.choice {
        Some(id) => choice("choice", question, id),
        None if answer.text.is_empty() => Err(Error::field("choice", "is not given, and no text either")),
        None => Ok(()),
    }
}

/// Checks that somebody who says that it is present has a name.
pub(super) fn present(actor: &str) -> Result<()> {
    if actor.is_empty() {
        return Err(Error::field("longhand-actor", "is not given, and nobody would know who types"));
    }
    Ok(())
}
