//! Conversions to the protocol's types, and of usage from them, that cannot fail: for the doors, and for the command line.

use crate::model::message::{FinishReason, MessageKind, NewFinish, NewMessage, Role};
use crate::model::part::{Media, MediaSource, NewPart, PartBody, ResultStatus, ToolCall, ToolResult};
use crate::model::time::Timestamp;
use crate::model::usage::Usage;
use crate::pb;
use crate::pb::{media_part, part as parts};
use std::sync::Arc;

/// Microseconds per second.
const MICROS: i64 = 1_000_000;

/// A time.
pub fn timestamp(time: Timestamp) -> prost_types::Timestamp {
    let nanos = i32::try_from(time.0.rem_euclid(MICROS) * 1_000).unwrap_or_default();
    prost_types::Timestamp { seconds: time.0.div_euclid(MICROS), nanos }
}

/// The role of a message.
pub fn role(role: Role) -> pb::Role {
    match role {
        Role::User => pb::Role::User,
        Role::Assistant => pb::Role::Assistant,
        Role::Tool => pb::Role::Tool,
        Role::System => pb::Role::System,
    }
}

/// The kind of a message.
pub fn message_kind(kind: MessageKind) -> pb::MessageKind {
    match kind {
        MessageKind::Normal => pb::MessageKind::Normal,
        MessageKind::Record => pb::MessageKind::Record,
        MessageKind::Edit => pb::MessageKind::Edit,
        MessageKind::Summary => pb::MessageKind::Summary,
        MessageKind::Marker => pb::MessageKind::Marker,
        MessageKind::Branch => pb::MessageKind::BranchSummary,
        MessageKind::Continuation => pb::MessageKind::Continuation,
        MessageKind::Replay => pb::MessageKind::Replay,
    }
}

/// The reason of a message's end; unspecified for none.
pub fn finish_reason(reason: Option<FinishReason>) -> pb::FinishReason {
    match reason {
        None => pb::FinishReason::Unspecified,
        Some(FinishReason::Stop) => pb::FinishReason::Stop,
        Some(FinishReason::ToolCalls) => pb::FinishReason::ToolCalls,
        Some(FinishReason::Length) => pb::FinishReason::Length,
        Some(FinishReason::ContentFilter) => pb::FinishReason::ContentFilter,
        Some(FinishReason::Error) => pb::FinishReason::Error,
        Some(FinishReason::Aborted) => pb::FinishReason::Aborted,
    }
}

/// The status of a tool's result.
pub fn result_status(status: ResultStatus) -> pb::ToolResultStatus {
    match status {
        ResultStatus::Completed => pb::ToolResultStatus::Completed,
        ResultStatus::Error => pb::ToolResultStatus::Error,
        ResultStatus::Interrupted => pb::ToolResultStatus::Interrupted,
    }
}

/// The usage of a request.
pub fn usage(usage: Usage) -> pb::Usage {
    pb::Usage {
        input_tokens: usage.input,
        output_tokens: usage.output,
        reasoning_tokens: usage.reasoning,
        cache_read_tokens: usage.cache_read,
        cache_write_tokens: usage.cache_write,
        total_tokens: usage.total,
        cost_micro_usd: usage.cost_micros(),
        cost_is_computed: usage.cost_is_computed,
    }
}

/// The usage that a client reports.
pub fn read_usage(usage: pb::Usage) -> Usage {
    Usage {
        input: usage.input_tokens,
        output: usage.output_tokens,
        reasoning: usage.reasoning_tokens,
        cache_read: usage.cache_read_tokens,
        cache_write: usage.cache_write_tokens,
        total: usage.total_tokens,
        // Costs stay far below 2^53 millionths, up to which the division is exact.
        cost_usd: usage.cost_micro_usd.filter(|_| !usage.cost_is_computed).map(|micros| micros as f64 / 1e6),
        cost_is_computed: false,
    }
}

/// The end of a message that a client writes.
pub fn finish(finish: NewFinish) -> pb::Finish {
    pb::Finish {
        reason: finish_reason(finish.reason).into(),
        detail: finish.detail,
        usage: finish.usage.map(usage),
        view_token: finish.view,
    }
}

/// A message that a client writes, without the timeout of an open one.
pub fn new_message(message: NewMessage) -> pb::NewMessage {
    pb::NewMessage {
        client_id: message.client_id,
        role: role(message.role).into(),
        kind: message_kind(message.kind).into(),
        parts: message.parts.into_iter().map(new_part).collect(),
        open: message.finish.is_none(),
        finish: message.finish.map(finish),
        model: message.model,
        provider: message.provider,
        origin_time: message.origin_time.map(timestamp),
        open_timeout: None,
        metadata_json: message.metadata_json,
        replace_existing: message.replace_existing,
    }
}

/// A part that a client writes.
pub fn new_part(part: NewPart) -> pb::Part {
    pb::Part {
        client_id: part.client_id,
        metadata_json: part.metadata_json,
        body: Some(body(Arc::unwrap_or_clone(part.body))),
        ..pb::Part::default()
    }
}

/// The content of a part.
pub fn body(body: PartBody) -> parts::Body {
    match body {
        PartBody::Text(text) => parts::Body::Text(pb::TextPart { text }),
        PartBody::Reasoning(text) => parts::Body::Reasoning(pb::ReasoningPart { text }),
        PartBody::ToolCall(tool_call) => parts::Body::ToolCall(call(tool_call)),
        PartBody::ToolResult(tool_result) => parts::Body::ToolResult(result(tool_result)),
        PartBody::Media(one) => parts::Body::Media(media(one)),
        PartBody::Marker(marker) => parts::Body::Marker(pb::MarkerPart { name: marker.name, text: marker.text }),
        PartBody::Step(step) => {
            parts::Body::Step(pb::StepPart { finish_reason: step.finish_reason, usage: step.usage.map(usage) })
        }
        PartBody::Opaque(opaque) => {
            parts::Body::Opaque(pb::OpaquePart { provider: opaque.provider, kind: opaque.kind, data: opaque.data })
        }
        PartBody::Record(record) => parts::Body::Record(pb::RecordPart { kind: record.kind, data: record.data }),
    }
}

/// A call of a tool.
pub fn call(call: ToolCall) -> pb::ToolCallPart {
    pb::ToolCallPart {
        call_id: call.call_id,
        tool: call.tool,
        input_json: call.input_json,
        start_time: call.start_time.map(timestamp),
        end_time: call.end_time.map(timestamp),
    }
}

/// A result of a tool.
pub fn result(result: ToolResult) -> pb::ToolResultPart {
    pb::ToolResultPart {
        call_id: result.call_id,
        status: result_status(result.status).into(),
        output: result.output,
        attachments: result.attachments.into_iter().map(media).collect(),
        start_time: result.start_time.map(timestamp),
        end_time: result.end_time.map(timestamp),
        call_message_id: result.answers.message().map(str::to_owned),
    }
}

/// A medium.
pub fn media(media: Media) -> pb::MediaPart {
    let source = match media.source {
        MediaSource::Bytes(data) => media_part::Source::Data(data),
        MediaSource::Uri(uri) => media_part::Source::Uri(uri),
    };
    pb::MediaPart { mime_type: media.mime_type, name: media.name, source: Some(source) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_the_epoch_keep_their_order() {
        for (micros, seconds, nanos) in [(1_500_000, 1, 500_000_000), (0, 0, 0), (-1, -1, 999_999_000)] {
            assert_eq!(timestamp(Timestamp(micros)), prost_types::Timestamp { seconds, nanos });
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
            replace_existing: false,
        };
        let open = new_message(new.clone());
        assert!(open.open && open.finish.is_none());
        assert_eq!((open.role(), open.kind()), (pb::Role::Tool, pb::MessageKind::Normal));
        let end = NewFinish { reason: Some(FinishReason::Stop), usage: Some(Usage::default()), ..NewFinish::default() };
        let sealed = new_message(NewMessage { finish: Some(end), ..new });
        assert!(!sealed.open);
        assert_eq!(sealed.finish.map(|finish| finish.reason()), Some(pb::FinishReason::Stop));
    }
}
