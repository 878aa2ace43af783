//! Reads a session over the API, as the writers of `interop` take it.

use crate::cli::compactions;
use crate::grpc::wire;
use crate::interop::export::{Compaction, Message, Session, Status};
use crate::model::message::{FinishReason, MessageKind, MessageState, NewFinish, Role};
use crate::model::part::{Marker, Media, MediaSource, NewPart, Opaque, PartBody, Record, ReplyStep, ResultStatus};
use crate::model::part::{ToolCall, ToolResult};
use crate::model::time::Timestamp;
use crate::pb;
use crate::pb::part::Body;
use longhand_client::Client;

/// Messages requested per page.
const PAGE_SIZE: i32 = 500;

/// A session as of one revision, and the number of sessions of its sub-agents.
pub(super) async fn read_session(client: &Client, session_id: String) -> anyhow::Result<(Session, usize)> {
    let request = pb::GetSessionRequest { session_id: session_id.clone() };
    let session = client.call(request).await?.session.unwrap_or_default();
    let messages = messages(client, &session_id, session.revision).await?;
    let done = compactions::list_all(client, &session_id).await?;
    let compactions = done.into_iter().rev().filter_map(|compaction| done_compaction(compaction, session.revision));
    let compactions = compactions.collect();
    let children = children(client, &session_id).await?;
    let session = Session {
        id: session.session_id,
        title: session.title,
        is_child: session.parent_session_id.is_some(),
        metadata_json: session.metadata_json,
        create_time: instant(session.create_time.as_ref()).unwrap_or_default(),
        messages,
        compactions,
    };
    Ok((session, children))
}

async fn messages(client: &Client, session_id: &str, revision: i64) -> anyhow::Result<Vec<Message>> {
    let request = pb::ListMessagesRequest {
        session_id: session_id.to_owned(),
        page_size: PAGE_SIZE,
        page_token: String::new(),
        reverse: false,
        as_of_revision: Some(revision),
        include_derived: true,
        exclude_records: false,
        client_id_prefix: String::new(),
    };
    let mut messages = Vec::new();
    let mut pages = client.pages(request);
    while let Some(page) = pages.next().await? {
        messages.extend(page.messages.into_iter().map(message));
    }
    Ok(messages)
}

async fn children(client: &Client, session_id: &str) -> anyhow::Result<usize> {
    let request = pb::ListSessionsRequest {
        page_size: 1000,
        page_token: String::new(),
        parent_session_id: Some(session_id.to_owned()),
        include_archived: true,
        ..pb::ListSessionsRequest::default()
    };
    let mut children = 0;
    let mut pages = client.pages(request);
    while let Some(page) = pages.next().await? {
        children += page.sessions.len();
    }
    Ok(children)
}

fn done_compaction(compaction: pb::Compaction, revision: i64) -> Option<Compaction> {
    let outcome = compaction.outcome?;
    Some(Compaction {
        id: compaction.compaction_id,
        summary_message: outcome.summary_message_id,
        tail_start: outcome.tail_start_message_id,
        tokens_before: outcome.context_tokens_before.unwrap_or(outcome.estimated_tokens_before),
        is_manual: compaction.trigger == i32::from(pb::CompactionTrigger::Manual),
        is_undone: compaction.undone_revision.is_some_and(|undone| undone <= revision),
        pruned_parts: usize::try_from(outcome.pruned_count).unwrap_or_default(),
    })
}

fn message(message: pb::Message) -> Message {
    let (role, kind) = (role(message.role()), kind(message.kind()));
    let time = instant(message.origin_time.as_ref()).or_else(|| instant(message.create_time.as_ref()));
    let finish = message.finish.filter(|_| message.sealed_revision.is_some());
    Message {
        id: message.message_id,
        client_id: message.client_id,
        revision: message.revision,
        role,
        kind,
        part_ids: message.parts.iter().map(|part| part.part_id.clone()).collect(),
        parts: message.parts.into_iter().map(part).collect(),
        finish: message.sealed_revision.map(|_| finish.map(end).unwrap_or_default()),
        model: message.model,
        provider: message.provider,
        actor: message.actor,
        time: time.unwrap_or_default(),
        metadata_json: message.metadata_json,
        status: status(message.status.unwrap_or_default()),
    }
}

/// Microseconds are all that the daemon keeps.
fn instant(time: Option<&prost_types::Timestamp>) -> Option<Timestamp> {
    time.map(|time| Timestamp(time.seconds.saturating_mul(1_000_000).saturating_add(i64::from(time.nanos) / 1_000)))
}

fn role(role: pb::Role) -> Role {
    match role {
        pb::Role::Unspecified | pb::Role::System => Role::System,
        pb::Role::User => Role::User,
        pb::Role::Assistant => Role::Assistant,
        pb::Role::Tool => Role::Tool,
    }
}

fn kind(kind: pb::MessageKind) -> MessageKind {
    match kind {
        pb::MessageKind::Unspecified | pb::MessageKind::Normal => MessageKind::Normal,
        pb::MessageKind::Record => MessageKind::Record,
        pb::MessageKind::Edit => MessageKind::Edit,
        pb::MessageKind::Summary => MessageKind::Summary,
        pb::MessageKind::Marker => MessageKind::Marker,
        pb::MessageKind::BranchSummary => MessageKind::Branch,
        pb::MessageKind::Continuation => MessageKind::Continuation,
        pb::MessageKind::Replay => MessageKind::Replay,
    }
}

fn end(finish: pb::Finish) -> NewFinish {
    let reason = match finish.reason() {
        pb::FinishReason::Unspecified => None,
        pb::FinishReason::Stop => Some(FinishReason::Stop),
        pb::FinishReason::ToolCalls => Some(FinishReason::ToolCalls),
        pb::FinishReason::Length => Some(FinishReason::Length),
        pb::FinishReason::ContentFilter => Some(FinishReason::ContentFilter),
        pb::FinishReason::Error => Some(FinishReason::Error),
        pb::FinishReason::Aborted => Some(FinishReason::Aborted),
    };
    NewFinish { reason, detail: finish.detail, usage: finish.usage.map(wire::read_usage), view: None }
}

fn status(status: pb::MessageStatus) -> Status {
    let state = match status.state() {
        pb::MessageState::Unspecified => MessageState::Unknown,
        pb::MessageState::Active => MessageState::Active,
        pb::MessageState::Rewound => MessageState::Rewound,
        pb::MessageState::Edited => MessageState::Edited,
        pb::MessageState::Removed => MessageState::Removed,
        pb::MessageState::Covered => MessageState::Covered,
        pb::MessageState::Omitted => MessageState::Omitted,
        pb::MessageState::Replayed => MessageState::Replayed,
        pb::MessageState::Undone => MessageState::Undone,
        pb::MessageState::Record => MessageState::Record,
        pb::MessageState::Superseded => MessageState::Superseded,
        pb::MessageState::Inactive => MessageState::Inactive,
    };
    Status {
        state,
        by_revision: status.by_revision,
        by_message: status.by_message_id,
        by_compaction: status.by_compaction_id,
        is_pinned: status.pinned,
    }
}

fn part(part: pb::Part) -> NewPart {
    let body = match part.body {
        Some(Body::Text(text)) => PartBody::Text(text.text),
        Some(Body::Reasoning(reasoning)) => PartBody::Reasoning(reasoning.text),
        Some(Body::ToolCall(call)) => PartBody::ToolCall(ToolCall {
            call_id: call.call_id,
            tool: call.tool,
            input_json: call.input_json,
            start_time: instant(call.start_time.as_ref()),
            end_time: instant(call.end_time.as_ref()),
        }),
        Some(Body::ToolResult(result)) => PartBody::ToolResult(tool_result(result)),
        Some(Body::Media(source)) => PartBody::Media(media(source)),
        Some(Body::Marker(marker)) => PartBody::Marker(Marker { name: marker.name, text: marker.text }),
        Some(Body::Step(step)) => {
            PartBody::Step(ReplyStep { finish_reason: step.finish_reason, usage: step.usage.map(wire::read_usage) })
        }
        Some(Body::Opaque(opaque)) => {
            PartBody::Opaque(Opaque { provider: opaque.provider, kind: opaque.kind, data: opaque.data })
        }
        Some(Body::Record(record)) => PartBody::Record(Record { kind: record.kind, data: record.data }),
        // A newer daemon's kind: its name is all that can be told.
        None => PartBody::Opaque(Opaque {
            provider: "longhand".to_owned(),
            kind: "a part unknown to this version".to_owned(),
            data: Vec::new(),
        }),
    };
    NewPart { client_id: part.client_id, body: body.into(), metadata_json: part.metadata_json, received: None }
}

fn tool_result(result: pb::ToolResultPart) -> ToolResult {
    let status = match result.status() {
        pb::ToolResultStatus::Unspecified | pb::ToolResultStatus::Completed => ResultStatus::Completed,
        pb::ToolResultStatus::Error => ResultStatus::Error,
        pb::ToolResultStatus::Interrupted => ResultStatus::Interrupted,
    };
    ToolResult {
        status,
        call_id: result.call_id,
        output: result.output,
        attachments: result.attachments.into_iter().map(media).collect(),
        start_time: instant(result.start_time.as_ref()),
        end_time: instant(result.end_time.as_ref()),
        answers: result.call_message_id.into(),
    }
}

fn media(media: pb::MediaPart) -> Media {
    let source = match media.source {
        Some(pb::media_part::Source::Data(bytes)) => MediaSource::Bytes(bytes),
        Some(pb::media_part::Source::Uri(uri)) => MediaSource::Uri(uri),
        None => MediaSource::default(),
    };
    Media { mime_type: media.mime_type, name: media.name, source }
}
