//! The writers, and the round trip through the readers.

mod documents;
mod files;

use super::*;
use longhand_model::message::{FinishReason, MessageKind, MessageState, NewFinish, Role};
use longhand_model::part::{Answers, NewPart, PartBody, ResultStatus, ToolCall, ToolResult};
use longhand_model::time::Timestamp;

/// A session of these messages.
pub(super) fn session(messages: Vec<Message>) -> Session {
    Session {
        id: "ses_00000000000040008000000000000001".into(),
        title: "A title".into(),
        is_child: false,
        metadata_json: None,
        create_time: Timestamp::from_millis(1_735_787_045_678),
        messages,
        compactions: Vec::new(),
    }
}

pub(super) fn message(revision: i64, role: Role, bodies: Vec<PartBody>) -> Message {
    let finish = match role {
        Role::Assistant => NewFinish { reason: Some(FinishReason::Stop), ..NewFinish::default() },
        _ => NewFinish::default(),
    };
    let is_reply = role == Role::Assistant;
    let name = |name: &str| if is_reply { name.to_owned() } else { String::new() };
    Message {
        id: format!("msg_{revision:032x}"),
        client_id: None,
        revision,
        role,
        kind: MessageKind::Normal,
        part_ids: (0..bodies.len()).map(|part| format!("prt_{revision:016x}{part:016x}")).collect(),
        parts: bodies.into_iter().map(NewPart::new).collect(),
        finish: Some(finish),
        model: name("claude-opus-4-6"),
        provider: name("anthropic"),
        actor: String::new(),
        time: Timestamp::from_millis(1_735_787_045_678 + revision),
        metadata_json: None,
        status: status(MessageState::Active, 0, None),
    }
}

pub(super) fn status(state: MessageState, by_revision: i64, by_message: Option<&str>) -> Status {
    Status { state, by_revision, by_message: by_message.map(str::to_owned), by_compaction: None, is_pinned: false }
}

pub(super) fn text(text: &str) -> PartBody {
    PartBody::Text(text.to_owned())
}

pub(super) fn call(id: &str, input: &str) -> PartBody {
    let call = ToolCall { call_id: id.into(), tool: "bash".into(), input_json: input.into(), ..ToolCall::default() };
    PartBody::ToolCall(call)
}

pub(super) fn result(id: &str, output: &str) -> PartBody {
    PartBody::ToolResult(ToolResult {
        call_id: id.into(),
        answers: Answers::Nearest,
        status: ResultStatus::Completed,
        output: output.into(),
        attachments: Vec::new(),
        start_time: None,
        end_time: None,
    })
}
