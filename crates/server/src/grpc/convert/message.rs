//! Conversion of messages, parts and drafts.

use super::session::window;
use super::{not_given, read_duration, read_enum, read_optional_time};
use crate::app::append::{DraftEnd, DraftName, ListMessages, OpenPart, RewindTo};
use crate::app::formatted::{Format, ProviderContent};
use crate::app::{Error, Reason, Result};
use crate::grpc::wire;
use crate::model::ids::PartId;
use crate::model::message::{
    Finish, FinishReason, GivenView, Message, MessageKind, MessageState, MessageStatus, NewFinish, NewMessage, Role,
};
use crate::model::part::{
    Marker, Media, MediaSource, NewPart, Opaque, Part, PartBody, Record, ReplyStep, ResultStatus, ToolCall, ToolResult,
};
use crate::pb;
use crate::pb::media_part::Source;
use crate::pb::part::Body;
use crate::pb::rewind_session_request::Target as RewindTarget;
use std::fmt::Display;
use std::sync::Arc;

/// A message as it is stored.
pub(in crate::grpc) fn message(message: Message) -> pb::Message {
    let origin = if message.kind.is_derived() { pb::Origin::Derived } else { pb::Origin::Client };
    pb::Message {
        message_id: message.id.to_string(),
        session_id: message.session_id.to_string(),
        client_id: message.client_id,
        revision: message.revision,
        role: wire::role(message.role).into(),
        kind: wire::message_kind(message.kind).into(),
        origin: origin.into(),
        parts: message.parts.into_iter().map(part).collect(),
        sealed_revision: message.sealed_revision,
        given_view: message.finish.view.clone().map(given_view),
        finish: message.sealed_revision.is_some().then(|| finish(message.finish)),
        model: message.model,
        provider: message.provider,
        create_time: Some(wire::timestamp(message.create_time)),
        origin_time: message.origin_time.map(wire::timestamp),
        actor: message.actor,
        metadata_json: message.metadata_json,
        status: None,
    }
}

/// Messages of the history with their statuses, in their order.
pub(in crate::grpc) fn messages(messages: Vec<Message>, statuses: Vec<MessageStatus>) -> Vec<pb::Message> {
    let both = messages.into_iter().zip(statuses);
    both.map(|(given, status)| pb::Message { status: Some(message_status(status)), ..message(given) }).collect()
}

/// The status of a message.
pub(in crate::grpc) fn message_status(status: MessageStatus) -> pb::MessageStatus {
    let state = match status.state {
        MessageState::Unknown => pb::MessageState::Unspecified,
        MessageState::Active => pb::MessageState::Active,
        MessageState::Rewound => pb::MessageState::Rewound,
        MessageState::Edited => pb::MessageState::Edited,
        MessageState::Removed => pb::MessageState::Removed,
        MessageState::Covered => pb::MessageState::Covered,
        MessageState::Omitted => pb::MessageState::Omitted,
        MessageState::Replayed => pb::MessageState::Replayed,
        MessageState::Undone => pb::MessageState::Undone,
        MessageState::Record => pb::MessageState::Record,
        MessageState::Superseded => pb::MessageState::Superseded,
        MessageState::Inactive => pb::MessageState::Inactive,
    };
    pb::MessageStatus {
        state: state.into(),
        by_revision: status.by_revision.unwrap_or_default(),
        by_message_id: status.by_message.map(|id| id.to_string()),
        by_compaction_id: status.by_compaction.map(|id| id.to_string()),
        pinned: status.is_pinned,
    }
}

/// A message to append.
pub(in crate::grpc) fn read_new_message(field: impl Display + Copy, message: pb::NewMessage) -> Result<NewMessage> {
    let finish = match (message.open, message.finish) {
        (true, Some(_)) => return Err(Error::field(format_args!("{field}.finish"), "does not go with open")),
        (true, None) => None,
        (false, finish) => Some(read_finish(format_args!("{field}.finish"), finish)?),
    };
    let open_timeout = message.open_timeout.map(|timeout| read_duration(format_args!("{field}.open_timeout"), timeout));
    let open_timeout_ms =
        open_timeout.transpose()?.map(|timeout| i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX));
    Ok(NewMessage {
        client_id: message.client_id,
        role: read_role(format_args!("{field}.role"), message.role)?,
        kind: read_kind(format_args!("{field}.kind"), message.kind)?,
        parts: read_parts(format_args!("{field}.parts"), message.parts)?,
        finish,
        open_timeout_ms,
        model: message.model,
        provider: message.provider,
        origin_time: read_optional_time(format_args!("{field}.origin_time"), message.origin_time)?,
        metadata_json: message.metadata_json,
        replace_existing: message.replace_existing,
    })
}

/// The messages of an append.
pub(in crate::grpc) fn read_new_messages(messages: Vec<pb::NewMessage>) -> Result<Vec<NewMessage>> {
    let numbered = messages.into_iter().enumerate();
    numbered.map(|(index, message)| read_new_message(format_args!("messages[{index}]"), message)).collect()
}

/// Messages of an append, as a provider's interface has them.
pub(in crate::grpc) fn read_provider_content(given: pb::ProviderContent) -> Result<ProviderContent> {
    let field = "provider_content.format";
    let format = read_format(field, given.format)?.ok_or_else(|| not_given(field))?;
    let pb::ProviderContent { json, view_token, provider, .. } = given;
    Ok(ProviderContent { format, json, view_token, provider })
}

/// A message format; none for Longhand's own.
pub(super) fn read_format(field: impl Display + Copy, number: i32) -> Result<Option<Format>> {
    Ok(match read_enum(field, number)? {
        pb::MessageFormat::Unspecified => None,
        pb::MessageFormat::OpenaiChat => Some(Format::OpenAiChat),
        pb::MessageFormat::OpenaiResponses => Some(Format::OpenAiResponses),
        pb::MessageFormat::Anthropic => Some(Format::Anthropic),
        pb::MessageFormat::Gemini => Some(Format::Gemini),
        pb::MessageFormat::AiSdk => Some(Format::AiSdk),
    })
}

pub(super) fn read_role(field: impl Display + Copy, number: i32) -> Result<Role> {
    match read_enum(field, number)? {
        pb::Role::Unspecified => Err(not_given(field)),
        pb::Role::User => Ok(Role::User),
        pb::Role::Assistant => Ok(Role::Assistant),
        pb::Role::Tool => Ok(Role::Tool),
        pb::Role::System => Ok(Role::System),
    }
}

fn read_kind(field: impl Display + Copy, number: i32) -> Result<MessageKind> {
    Ok(match read_enum(field, number)? {
        pb::MessageKind::Unspecified | pb::MessageKind::Normal => MessageKind::Normal,
        pb::MessageKind::Record => MessageKind::Record,
        pb::MessageKind::Edit => MessageKind::Edit,
        pb::MessageKind::Summary => MessageKind::Summary,
        pb::MessageKind::Marker => MessageKind::Marker,
        pb::MessageKind::BranchSummary => MessageKind::Branch,
        pb::MessageKind::Continuation => MessageKind::Continuation,
        pb::MessageKind::Replay => MessageKind::Replay,
    })
}

fn finish(finish: Finish) -> pb::Finish {
    pb::Finish {
        reason: wire::finish_reason(finish.reason).into(),
        detail: finish.detail,
        usage: finish.usage.map(wire::usage),
        view_token: None,
    }
}

/// The view that a reply answers.
fn given_view(view: GivenView) -> pb::GivenView {
    let GivenView { revision, hash, window: given, shortened } = view;
    pb::GivenView { revision, view_hash: hash.to_vec(), window: Some(window(given)), shortened }
}

/// Details of a seal; without them a message ends without a reason.
pub(in crate::grpc) fn read_finish(field: impl Display + Copy, finish: Option<pb::Finish>) -> Result<NewFinish> {
    let Some(finish) = finish else { return Ok(NewFinish::default()) };
    Ok(NewFinish {
        reason: read_finish_reason(format_args!("{field}.reason"), finish.reason)?,
        detail: finish.detail,
        usage: finish.usage.map(wire::read_usage),
        view: finish.view_token,
    })
}

/// Reason of a reply's end; none if unspecified.
pub(super) fn read_finish_reason(field: impl Display + Copy, number: i32) -> Result<Option<FinishReason>> {
    Ok(match read_enum(field, number)? {
        pb::FinishReason::Unspecified => None,
        pb::FinishReason::Stop => Some(FinishReason::Stop),
        pb::FinishReason::ToolCalls => Some(FinishReason::ToolCalls),
        pb::FinishReason::Length => Some(FinishReason::Length),
        pb::FinishReason::ContentFilter => Some(FinishReason::ContentFilter),
        pb::FinishReason::Error => Some(FinishReason::Error),
        pb::FinishReason::Aborted => Some(FinishReason::Aborted),
    })
}

pub(super) fn part(part: Part) -> pb::Part {
    pb::Part {
        part_id: part.id.to_string(),
        client_id: part.client_id,
        revision: part.revision,
        metadata_json: part.metadata_json,
        erased: part.body.is_erased(),
        body: Some(wire::body(Arc::unwrap_or_clone(part.body))),
    }
}

/// The rewind of an append.
pub(in crate::grpc) fn read_rewind(rewind: &pb::Rewind) -> Result<RewindTo<'_>> {
    match &rewind.target {
        Some(pb::rewind::Target::MessageId(id)) => Ok(RewindTo::Message(id)),
        Some(pb::rewind::Target::ToStart(true)) => Ok(RewindTo::Start),
        Some(pb::rewind::Target::ToStart(false)) => {
            Err(Error::field("rewind.to_start", "is false; leave it unset instead"))
        }
        None => Err(not_given("rewind.target")),
    }
}

/// The new end of a conversation that is rewound.
pub(in crate::grpc) fn read_rewind_target(target: Option<&RewindTarget>) -> Result<RewindTo<'_>> {
    match target {
        Some(RewindTarget::MessageId(id)) => Ok(RewindTo::Message(id)),
        Some(RewindTarget::ToStart(true)) => Ok(RewindTo::Start),
        Some(RewindTarget::ToStart(false)) => Err(Error::field("to_start", "is false; leave it unset instead")),
        None => Err(not_given("target")),
    }
}

/// The parts that replace a message: none if it is removed.
pub(in crate::grpc) fn read_replacement(parts: Vec<pb::Part>, remove: bool) -> Result<Vec<NewPart>> {
    match (parts.is_empty(), remove) {
        (true, false) => Err(Error::field("parts", "is empty; a message is removed with remove")),
        (false, true) => Err(Error::field("remove", "does not go with parts")),
        _ => read_parts("parts", parts),
    }
}

/// The parts of a message. Part ids and revisions are assigned by the server and ignored here.
pub(in crate::grpc) fn read_parts(field: impl Display + Copy, parts: Vec<pb::Part>) -> Result<Vec<NewPart>> {
    let numbered = parts.into_iter().enumerate();
    numbered.map(|(index, part)| read_part(format_args!("{field}[{index}]"), part)).collect()
}

pub(super) fn read_part(field: impl Display + Copy, part: pb::Part) -> Result<NewPart> {
    let body = part.body.ok_or_else(|| not_given(format_args!("{field}.body")))?;
    Ok(NewPart {
        client_id: part.client_id,
        body: read_body(field, body)?.into(),
        metadata_json: part.metadata_json,
        received: None,
    })
}

/// Parts for an open message: whole ones, and drafts that close with the text they have.
pub(in crate::grpc) fn read_open_parts(parts: Vec<pb::Part>) -> Result<Vec<OpenPart>> {
    let numbered = parts.into_iter().enumerate();
    numbered.map(|(index, part)| read_open_part(format_args!("parts[{index}]"), part)).collect()
}

fn read_open_part(field: impl Display + Copy, part: pb::Part) -> Result<OpenPart> {
    if part.part_id.is_empty() {
        return read_part(field, part).map(OpenPart::Whole);
    }
    let status = match &part.body {
        None => None,
        Some(Body::ToolResult(result)) if is_status_alone(result) => {
            Some(read_status(format_args!("{field}.tool_result.status"), result.status)?)
        }
        Some(_) => {
            return Err(Error::field(
                format_args!("{field}.body"),
                "does not go with part_id, but for a tool_result's status: a draft closes with its words",
            ));
        }
    };
    if part.client_id.is_some() {
        return Err(Error::field(
            format_args!("{field}.client_id"),
            "does not go with part_id: a draft has its id already",
        ));
    }
    let (id, metadata_json) = (read_draft_id(&part.part_id)?, part.metadata_json);
    Ok(OpenPart::Ended(DraftEnd { draft: DraftName::Id(id), status, metadata_json, received: None }))
}

/// True if a result has a status and nothing else.
fn is_status_alone(result: &pb::ToolResultPart) -> bool {
    *result == pb::ToolResultPart { status: result.status, ..pb::ToolResultPart::default() }
}

pub(super) fn read_draft_id(text: &str) -> Result<PartId> {
    text.parse().map_err(|error| {
        Error::new(Reason::DraftNotFound, format!("there is no draft {text}: {error}")).with("part_id", text)
    })
}

fn read_body(field: impl Display + Copy, body: Body) -> Result<PartBody> {
    Ok(match body {
        Body::Text(part) => PartBody::Text(part.text),
        Body::Reasoning(part) => PartBody::Reasoning(part.text),
        Body::ToolCall(call) => PartBody::ToolCall(ToolCall {
            start_time: read_optional_time(format_args!("{field}.tool_call.start_time"), call.start_time)?,
            end_time: read_optional_time(format_args!("{field}.tool_call.end_time"), call.end_time)?,
            call_id: call.call_id,
            tool: call.tool,
            input_json: call.input_json,
        }),
        Body::ToolResult(result) => PartBody::ToolResult(read_result(format_args!("{field}.tool_result"), result)?),
        Body::Media(part) => PartBody::Media(read_media(format_args!("{field}.media"), part)?),
        Body::Marker(pb::MarkerPart { name, text }) => PartBody::Marker(Marker { name, text }),
        Body::Step(step) => {
            PartBody::Step(ReplyStep { finish_reason: step.finish_reason, usage: step.usage.map(wire::read_usage) })
        }
        Body::Opaque(pb::OpaquePart { provider, kind, data }) => PartBody::Opaque(Opaque { provider, kind, data }),
        Body::Record(pb::RecordPart { kind, data }) => PartBody::Record(Record { kind, data }),
    })
}

fn read_result(field: impl Display + Copy, result: pb::ToolResultPart) -> Result<ToolResult> {
    let numbered = result.attachments.into_iter().enumerate();
    let attachments = numbered
        .map(|(index, media)| read_media(format_args!("{field}.attachments[{index}]"), media))
        .collect::<Result<_>>();
    Ok(ToolResult {
        call_id: result.call_id,
        status: read_status(format_args!("{field}.status"), result.status)?,
        output: result.output,
        attachments: attachments?,
        start_time: read_optional_time(format_args!("{field}.start_time"), result.start_time)?,
        end_time: read_optional_time(format_args!("{field}.end_time"), result.end_time)?,
        answers: result.call_message_id.into(),
    })
}

pub(super) fn read_status(field: impl Display + Copy, number: i32) -> Result<ResultStatus> {
    match read_enum(field, number)? {
        pb::ToolResultStatus::Unspecified => Err(not_given(field)),
        pb::ToolResultStatus::Completed => Ok(ResultStatus::Completed),
        pb::ToolResultStatus::Error => Ok(ResultStatus::Error),
        pb::ToolResultStatus::Interrupted => Ok(ResultStatus::Interrupted),
    }
}

fn read_media(field: impl Display + Copy, media: pb::MediaPart) -> Result<Media> {
    let source = match media.source {
        None => return Err(not_given(format_args!("{field}.source"))),
        Some(Source::Data(bytes)) => MediaSource::Bytes(bytes),
        Some(Source::Uri(uri)) => MediaSource::Uri(uri),
    };
    Ok(Media { mime_type: media.mime_type, name: media.name, source })
}

/// Parameters of a list of messages.
pub(in crate::grpc) fn read_list(request: pb::ListMessagesRequest) -> ListMessages {
    ListMessages {
        page_size: request.page_size.into(),
        page_token: request.page_token,
        reverse: request.reverse,
        as_of: request.as_of_revision,
        derived: request.include_derived,
        records: !request.exclude_records,
        client_id_prefix: request.client_id_prefix,
    }
}

/// The ids of parts.
pub(super) fn part_ids(parts: &[PartId]) -> Vec<String> {
    parts.iter().map(PartId::to_string).collect()
}

#[cfg(test)]
mod tests;
