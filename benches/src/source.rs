//! Messages in memory, as the store reads them.

use longhand::model::Revision;
use longhand::model::ids::{MessageId, PartId, SessionId};
use longhand::model::message::{Finish, FinishReason, Message, MessageKind, Role};
use longhand::model::part::{Answers, Part, PartBody, ResultStatus, ToolResult};
use longhand::model::time::Timestamp;
use longhand::model::view::SourceMessage;
use uuid::Uuid;

/// The message of this number, from 0 on, of a history.
pub(crate) fn message(number: usize, role: Role, reason: Option<FinishReason>, bodies: Vec<PartBody>) -> SourceMessage {
    let revision = Revision::try_from(number + 1).unwrap_or(Revision::MAX);
    let id = |part: usize| Uuid::from_u128(((number as u128) << 8) + part as u128);
    let part = |(place, body): (usize, PartBody)| Part {
        id: PartId(id(place + 1)),
        client_id: None,
        revision,
        body: body.into(),
        metadata_json: None,
    };
    let message = Message {
        id: MessageId(id(0)),
        session_id: SessionId(Uuid::nil()),
        client_id: None,
        revision,
        role,
        kind: MessageKind::Normal,
        parts: bodies.into_iter().enumerate().map(part).collect(),
        replaces: None,
        sealed_revision: Some(revision),
        finish: Finish { reason, ..Finish::default() },
        model: String::new(),
        provider: String::new(),
        create_time: Timestamp(revision * 1_000_000),
        origin_time: None,
        actor: String::new(),
        metadata_json: None,
    };
    SourceMessage { message: message.into(), placement: None, pruned: Vec::new(), counts: None }
}

/// The result of a call.
pub(crate) fn result(call_id: String, output: String) -> PartBody {
    PartBody::ToolResult(ToolResult {
        call_id,
        status: ResultStatus::Completed,
        output,
        attachments: Vec::new(),
        start_time: None,
        end_time: None,
        answers: Answers::Nearest,
    })
}
