//! The messages of a summary as a hook gets them, and those that it returns in their place.
//!
//! Only what a summarizer reads is replaced. The history, the covered range and the view are those of the originals.

use crate::clock::fresh_message_id;
use crate::limits;
use crate::model::Revision;
use crate::model::ids::PartId;
use crate::model::message::{Finish, Message, MessageKind, Role};
use crate::model::part::{Answers, Media, Part, PartBody, ResultStatus, ToolCall, ToolResult};
use crate::model::view::SourceMessage;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A message as a program gets it. Fields may be added.
#[derive(Serialize)]
pub(super) struct GivenMessage {
    message_id: String,
    revision: Revision,
    role: &'static str,
    parts: Vec<HookPart>,
}

/// A message that a program returns: one that it was given, by its id, or one of its own.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReturnedMessage {
    /// The id of a message that stays as it is, with its media.
    message_id: Option<String>,
    /// `user`, `assistant`, `tool` or `system`.
    role: Option<HookRole>,
    #[serde(default)]
    parts: Vec<HookPart>,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum HookRole {
    User,
    Assistant,
    Tool,
    System,
}

/// The content of a part, as marks shorten it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum HookPart {
    Text(String),
    Reasoning(String),
    ToolCall {
        call_id: String,
        tool: String,
        input_json: String,
    },
    ToolResult {
        call_id: String,
        status: HookStatus,
        output: String,
    },
    /// A media item, without its bytes. A program cannot return one: it keeps the message.
    Media {
        mime_type: String,
        name: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum HookStatus {
    Completed,
    Error,
    Interrupted,
}

/// The messages for a program.
pub(super) fn given_messages(sources: &[SourceMessage]) -> Vec<GivenMessage> {
    let message = |source: &SourceMessage| GivenMessage {
        message_id: source.message.id.to_string(),
        revision: source.message.revision,
        role: match source.message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
            Role::System => "system",
        },
        parts: source.message.parts.iter().flat_map(|part| parts(source, part)).collect(),
    };
    sources.iter().map(message).collect()
}

/// A part for a program, followed by its media; nothing if a model reads nothing of it.
fn parts(source: &SourceMessage, part: &Part) -> Vec<HookPart> {
    let pruned = source.pruned_part(part.id);
    let shown = |text: &str| match pruned {
        Some(pruned) => pruned.truncation.as_ref().map_or_else(String::new, |truncation| truncation.apply(text)),
        None => text.to_owned(),
    };
    let media = |media: &Media| HookPart::Media { mime_type: media.mime_type.clone(), name: media.name.clone() };
    match &*part.body {
        PartBody::Text(text) => vec![HookPart::Text(shown(text))],
        PartBody::Reasoning(text) => vec![HookPart::Reasoning(shown(text))],
        PartBody::Marker(marker) => vec![HookPart::Text(marker.text.clone())],
        PartBody::ToolCall(call) => vec![HookPart::ToolCall {
            call_id: call.call_id.clone(),
            tool: call.tool.clone(),
            input_json: shown(&call.input_json),
        }],
        PartBody::ToolResult(result) => {
            let status = match result.status {
                ResultStatus::Completed => HookStatus::Completed,
                ResultStatus::Error => HookStatus::Error,
                ResultStatus::Interrupted => HookStatus::Interrupted,
            };
            let output = shown(&result.output);
            let result_part = HookPart::ToolResult { call_id: result.call_id.clone(), status, output };
            let attachments = result.attachments.iter().filter(|_| pruned.is_none()).map(media);
            std::iter::once(result_part).chain(attachments).collect()
        }
        PartBody::Media(item) if pruned.is_none() => vec![media(item)],
        PartBody::Media(_) | PartBody::Step(_) | PartBody::Opaque(_) | PartBody::Record(_) => Vec::new(),
    }
}

/// The messages in place of `originals`; an error says what cannot be used, without its content.
pub(super) fn replacement_messages(
    field: &str,
    originals: &[SourceMessage],
    returned: &[ReturnedMessage],
) -> Result<Vec<SourceMessage>, String> {
    let Some(first) = originals.first() else {
        return if returned.is_empty() { Ok(Vec::new()) } else { Err(format!("printed {field} where it got none")) };
    };
    if returned.is_empty() {
        return Err(format!("printed an empty list of {field}; it can refuse the compaction instead"));
    }
    let most = originals.len().max(limits::BATCH_MESSAGES_MAX);
    if returned.len() > most {
        return Err(format!("printed {} {field}, over {most}", returned.len()));
    }
    let mut next = 0;
    let mut revision = first.message.revision;
    let mut bytes = 0_usize;
    let mut messages = Vec::with_capacity(returned.len());
    for (index, message) in returned.iter().enumerate() {
        let why = |why: &str| format!("printed {field}[{index}], which {why}");
        let source = match (&message.message_id, message.role) {
            (Some(id), None) if message.parts.is_empty() => {
                let found = originals[next..].iter().position(|source| source.message.id.to_string() == *id);
                let found = found.ok_or_else(|| why("names no message that it got behind the ones before it"))?;
                next += found + 1;
                revision = originals[next - 1].message.revision;
                originals[next - 1].clone()
            }
            (None, Some(role)) => {
                let parts = bodies(&message.parts, &mut bytes).map_err(|reason| why(&reason))?;
                new_message(&first.message, role, revision, parts)
            }
            _ => return Err(why("has neither a message_id alone nor a role with parts")),
        };
        messages.push(source);
    }
    if bytes > limits::BATCH_BYTES_MAX {
        return Err(format!("printed {field} of {bytes} bytes, over {}", limits::BATCH_BYTES_MAX));
    }
    Ok(messages)
}

/// The bodies of a message's parts, within the limits of an append. Adds their size to `bytes`.
fn bodies(parts: &[HookPart], bytes: &mut usize) -> Result<Vec<PartBody>, String> {
    if parts.is_empty() || parts.len() > limits::MESSAGE_PARTS_MAX {
        return Err(format!("has {} parts, not 1 to {}", parts.len(), limits::MESSAGE_PARTS_MAX));
    }
    let mut size = 0;
    let mut bodies = Vec::with_capacity(parts.len());
    for part in parts {
        let name = |field: &str, text: &str, most: usize| match text {
            "" => Err(format!("has an empty {field}")),
            text if text.len() > most => Err(format!("has a {field} of {} bytes, over {most}", text.len())),
            text if text.contains('\0') => Err(format!("has a {field} with the character U+0000")),
            _ => Ok(()),
        };
        let (length, body) = match part {
            HookPart::Text(text) => (text.len(), PartBody::Text(text.clone())),
            HookPart::Reasoning(text) => (text.len(), PartBody::Reasoning(text.clone())),
            HookPart::ToolCall { call_id, tool, input_json } => {
                name("call_id", call_id, limits::CALL_ID_BYTES_MAX)?;
                name("tool", tool, limits::NAME_BYTES_MAX)?;
                let length = input_json.len();
                let (call_id, tool, input_json) = (call_id.clone(), tool.clone(), input_json.clone());
                (length, PartBody::ToolCall(ToolCall { call_id, tool, input_json, ..ToolCall::default() }))
            }
            HookPart::ToolResult { call_id, status, output } => {
                name("call_id", call_id, limits::CALL_ID_BYTES_MAX)?;
                let status = match status {
                    HookStatus::Completed => ResultStatus::Completed,
                    HookStatus::Error => ResultStatus::Error,
                    HookStatus::Interrupted => ResultStatus::Interrupted,
                };
                let result = ToolResult {
                    call_id: call_id.clone(),
                    answers: Answers::Nearest,
                    status,
                    output: output.clone(),
                    attachments: Vec::new(),
                    start_time: None,
                    end_time: None,
                };
                (output.len(), PartBody::ToolResult(result))
            }
            HookPart::Media { .. } => return Err("has media, which only a message that is kept can have".to_owned()),
        };
        size += length;
        bodies.push(body);
    }
    if size > limits::MESSAGE_BYTES_MAX {
        return Err(format!("has {size} bytes, over {}", limits::MESSAGE_BYTES_MAX));
    }
    *bytes += size;
    Ok(bodies)
}

/// A message of a program's own, at the position of the original before it. It is never stored.
fn new_message(like: &Message, role: HookRole, revision: Revision, bodies: Vec<PartBody>) -> SourceMessage {
    let id = fresh_message_id();
    let part = |(number, body): (u16, PartBody)| Part {
        id: PartId::in_message(id, number),
        client_id: None,
        revision,
        body: Arc::new(body),
        metadata_json: None,
    };
    let message = Message {
        id,
        session_id: like.session_id,
        client_id: None,
        revision,
        role: match role {
            HookRole::User => Role::User,
            HookRole::Assistant => Role::Assistant,
            HookRole::Tool => Role::Tool,
            HookRole::System => Role::System,
        },
        // No person typed it, whatever its role.
        kind: MessageKind::Branch,
        parts: (1..).zip(bodies).map(part).collect(),
        sealed_revision: Some(revision),
        finish: Finish::default(),
        model: String::new(),
        provider: String::new(),
        create_time: like.create_time,
        origin_time: None,
        actor: String::new(),
        metadata_json: None,
        replaces: None,
    };
    SourceMessage { message: message.into(), placement: None, pruned: Vec::new(), counts: None }
}
