//! Conversion of transcripts to protocol messages.

use crate::model::message::{FinishReason, MessageKind, NewFinish, NewMessage, Role};
use crate::model::part::{Media, MediaSource, NewPart, PartBody, ResultStatus, ToolCall, ToolResult};
use crate::model::time::Timestamp;
use crate::model::usage::Usage;
use crate::pb;
use crate::pb::part::Body;
use std::sync::Arc;

/// A message to append.
pub(super) fn message(message: NewMessage) -> pb::NewMessage {
    pb::NewMessage {
        client_id: message.client_id,
        role: role(message.role).into(),
        kind: kind(message.kind).into(),
        parts: message.parts.into_iter().map(part).collect(),
        open: message.finish.is_none(),
        finish: message.finish.map(finish),
        model: message.model,
        provider: message.provider,
        origin_time: message.origin_time.map(time),
        open_timeout: None,
        metadata_json: message.metadata_json,
    }
}

fn role(role: Role) -> pb::Role {
    match role {
        Role::User => pb::Role::User,
        Role::Assistant => pb::Role::Assistant,
        Role::Tool => pb::Role::Tool,
        Role::System => pb::Role::System,
    }
}

fn kind(kind: MessageKind) -> pb::MessageKind {
    match kind {
        MessageKind::Normal => pb::MessageKind::Normal,
        MessageKind::Record => pb::MessageKind::Record,
        MessageKind::Edit => pb::MessageKind::Edit,
        MessageKind::Summary => pb::MessageKind::Summary,
        MessageKind::Marker => pb::MessageKind::Marker,
        MessageKind::Branch => pb::MessageKind::Branch,
        MessageKind::Continuation => pb::MessageKind::Continuation,
        MessageKind::Replay => pb::MessageKind::Replay,
    }
}

fn finish(finish: NewFinish) -> pb::Finish {
    pb::Finish {
        reason: finish.reason.map_or(pb::FinishReason::Unspecified, finish_reason).into(),
        detail: finish.detail,
        usage: finish.usage.map(usage),
        view_token: finish.view,
    }
}

fn finish_reason(reason: FinishReason) -> pb::FinishReason {
    match reason {
        FinishReason::Stop => pb::FinishReason::Stop,
        FinishReason::ToolCalls => pb::FinishReason::ToolCalls,
        FinishReason::Length => pb::FinishReason::Length,
        FinishReason::ContentFilter => pb::FinishReason::ContentFilter,
        FinishReason::Error => pb::FinishReason::Error,
        FinishReason::Aborted => pb::FinishReason::Aborted,
    }
}

/// Usage of a reply.
pub(super) fn usage(usage: Usage) -> pb::Usage {
    pb::Usage {
        input_tokens: usage.input,
        output_tokens: usage.output,
        reasoning_tokens: usage.reasoning,
        cache_read_tokens: usage.cache_read,
        cache_write_tokens: usage.cache_write,
        total_tokens: usage.total,
        cost_usd: usage.cost_usd,
    }
}

fn time(time: Timestamp) -> prost_types::Timestamp {
    let nanos = time.0.rem_euclid(1_000_000) * 1_000;
    prost_types::Timestamp { seconds: time.0.div_euclid(1_000_000), nanos: i32::try_from(nanos).unwrap_or_default() }
}

/// A part of a message.
pub(super) fn part(part: NewPart) -> pb::Part {
    pb::Part {
        client_id: part.client_id,
        metadata_json: part.metadata_json,
        body: Some(body(Arc::unwrap_or_clone(part.body))),
        ..pb::Part::default()
    }
}

fn body(body: PartBody) -> Body {
    match body {
        PartBody::Text(text) => Body::Text(pb::TextPart { text }),
        PartBody::Reasoning(text) => Body::Reasoning(pb::ReasoningPart { text }),
        PartBody::ToolCall(call) => Body::ToolCall(tool_call(call)),
        PartBody::ToolResult(result) => Body::ToolResult(tool_result(result)),
        PartBody::Media(media) => Body::Media(self::media(media)),
        PartBody::Marker(marker) => Body::Marker(pb::MarkerPart { name: marker.name, text: marker.text }),
        PartBody::Step(step) => {
            Body::Step(pb::StepPart { finish_reason: step.finish_reason, usage: step.usage.map(usage) })
        }
        PartBody::Opaque(opaque) => {
            Body::Opaque(pb::OpaquePart { provider: opaque.provider, kind: opaque.kind, data: opaque.data })
        }
        PartBody::Record(record) => Body::Record(pb::RecordPart { kind: record.kind, data: record.data }),
    }
}

fn tool_call(call: ToolCall) -> pb::ToolCallPart {
    pb::ToolCallPart {
        call_id: call.call_id,
        tool: call.tool,
        input_json: call.input_json,
        start_time: call.start_time.map(time),
        end_time: call.end_time.map(time),
    }
}

fn tool_result(result: ToolResult) -> pb::ToolResultPart {
    let status = match result.status {
        ResultStatus::Completed => pb::ToolResultStatus::Completed,
        ResultStatus::Error => pb::ToolResultStatus::Error,
        ResultStatus::Interrupted => pb::ToolResultStatus::Interrupted,
    };
    pb::ToolResultPart {
        call_id: result.call_id,
        status: status.into(),
        output: result.output,
        attachments: result.attachments.into_iter().map(media).collect(),
        start_time: result.start_time.map(time),
        end_time: result.end_time.map(time),
        call_message_id: result.answers.message().map(str::to_owned),
    }
}

fn media(media: Media) -> pb::MediaPart {
    let source = match media.source {
        MediaSource::Bytes(data) => pb::media_part::Source::Data(data),
        MediaSource::Uri(uri) => pb::media_part::Source::Uri(uri),
    };
    pb::MediaPart { mime_type: media.mime_type, name: media.name, source: Some(source) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_the_epoch_keep_their_order() {
        for (micros, seconds, nanos) in [(1_500_000, 1, 500_000_000), (0, 0, 0), (-1, -1, 999_999_000)] {
            assert_eq!(time(Timestamp(micros)), prost_types::Timestamp { seconds, nanos });
        }
    }

    #[test]
    fn a_message_without_an_end_is_open() {
        let new = NewMessage {
            client_id: Some("line:3".into()),
            role: Role::Tool,
            kind: MessageKind::Normal,
            parts: vec![NewPart::new(PartBody::Text("hello".into()))],
            finish: None,
            model: "m".into(),
            provider: String::new(),
            origin_time: None,
            open_timeout_ms: None,
            metadata_json: Some("{}".into()),
        };
        let open = message(new.clone());
        assert!(open.open && open.finish.is_none());
        assert_eq!((open.role(), open.kind()), (pb::Role::Tool, pb::MessageKind::Normal));
        let finish =
            NewFinish { reason: Some(FinishReason::Stop), usage: Some(Usage::default()), ..NewFinish::default() };
        let sealed = message(NewMessage { finish: Some(finish), ..new });
        assert!(!sealed.open);
        assert_eq!(sealed.finish.map(|finish| finish.reason()), Some(pb::FinishReason::Stop));
    }
}
