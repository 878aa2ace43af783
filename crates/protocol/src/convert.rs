//! Conversions from the types of `model` that cannot fail, for the daemon and for clients that are built on this library.

use super::{media_part, part, timestamp};
use longhand_model::message::{FinishReason, MessageKind, NewFinish, NewMessage, Role};
use longhand_model::part::{Media, MediaSource, NewPart, PartBody, ResultStatus, ToolCall, ToolResult};
use longhand_model::usage::Usage;
use std::sync::Arc;

impl From<Role> for super::Role {
    fn from(role: Role) -> Self {
        match role {
            Role::User => Self::User,
            Role::Assistant => Self::Assistant,
            Role::Tool => Self::Tool,
            Role::System => Self::System,
        }
    }
}

impl From<MessageKind> for super::MessageKind {
    fn from(kind: MessageKind) -> Self {
        match kind {
            MessageKind::Normal => Self::Normal,
            MessageKind::Record => Self::Record,
            MessageKind::Edit => Self::Edit,
            MessageKind::Summary => Self::Summary,
            MessageKind::Marker => Self::Marker,
            MessageKind::Branch => Self::BranchSummary,
            MessageKind::Continuation => Self::Continuation,
            MessageKind::Replay => Self::Replay,
        }
    }
}

impl From<FinishReason> for super::FinishReason {
    fn from(reason: FinishReason) -> Self {
        match reason {
            FinishReason::Stop => Self::Stop,
            FinishReason::ToolCalls => Self::ToolCalls,
            FinishReason::Length => Self::Length,
            FinishReason::ContentFilter => Self::ContentFilter,
            FinishReason::Error => Self::Error,
            FinishReason::Aborted => Self::Aborted,
        }
    }
}

impl From<Option<FinishReason>> for super::FinishReason {
    fn from(reason: Option<FinishReason>) -> Self {
        reason.map_or(Self::Unspecified, Self::from)
    }
}

impl From<ResultStatus> for super::ToolResultStatus {
    fn from(status: ResultStatus) -> Self {
        match status {
            ResultStatus::Completed => Self::Completed,
            ResultStatus::Error => Self::Error,
            ResultStatus::Interrupted => Self::Interrupted,
        }
    }
}

impl From<Usage> for super::Usage {
    fn from(usage: Usage) -> Self {
        Self {
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
}

impl From<super::Usage> for Usage {
    fn from(usage: super::Usage) -> Self {
        Self {
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
}

impl From<NewFinish> for super::Finish {
    fn from(finish: NewFinish) -> Self {
        Self {
            reason: super::FinishReason::from(finish.reason).into(),
            detail: finish.detail,
            usage: finish.usage.map(Into::into),
            view_token: finish.view,
        }
    }
}

/// Without the timeout of an open message.
impl From<NewMessage> for super::NewMessage {
    fn from(message: NewMessage) -> Self {
        Self {
            client_id: message.client_id,
            role: super::Role::from(message.role).into(),
            kind: super::MessageKind::from(message.kind).into(),
            parts: message.parts.into_iter().map(Into::into).collect(),
            open: message.finish.is_none(),
            finish: message.finish.map(Into::into),
            model: message.model,
            provider: message.provider,
            origin_time: message.origin_time.map(timestamp),
            open_timeout: None,
            metadata_json: message.metadata_json,
            replace_existing: message.replace_existing,
        }
    }
}

impl From<NewPart> for super::Part {
    fn from(part: NewPart) -> Self {
        Self {
            client_id: part.client_id,
            metadata_json: part.metadata_json,
            body: Some(Arc::unwrap_or_clone(part.body).into()),
            ..Self::default()
        }
    }
}

impl From<PartBody> for part::Body {
    fn from(body: PartBody) -> Self {
        match body {
            PartBody::Text(text) => Self::Text(super::TextPart { text }),
            PartBody::Reasoning(text) => Self::Reasoning(super::ReasoningPart { text }),
            PartBody::ToolCall(call) => Self::ToolCall(call.into()),
            PartBody::ToolResult(result) => Self::ToolResult(result.into()),
            PartBody::Media(media) => Self::Media(media.into()),
            PartBody::Marker(marker) => Self::Marker(super::MarkerPart { name: marker.name, text: marker.text }),
            PartBody::Step(step) => {
                Self::Step(super::StepPart { finish_reason: step.finish_reason, usage: step.usage.map(Into::into) })
            }
            PartBody::Opaque(opaque) => {
                Self::Opaque(super::OpaquePart { provider: opaque.provider, kind: opaque.kind, data: opaque.data })
            }
            PartBody::Record(record) => Self::Record(super::RecordPart { kind: record.kind, data: record.data }),
        }
    }
}

impl From<ToolCall> for super::ToolCallPart {
    fn from(call: ToolCall) -> Self {
        Self {
            call_id: call.call_id,
            tool: call.tool,
            input_json: call.input_json,
            start_time: call.start_time.map(timestamp),
            end_time: call.end_time.map(timestamp),
        }
    }
}

impl From<ToolResult> for super::ToolResultPart {
    fn from(result: ToolResult) -> Self {
        Self {
            call_id: result.call_id,
            status: super::ToolResultStatus::from(result.status).into(),
            output: result.output,
            attachments: result.attachments.into_iter().map(Into::into).collect(),
            start_time: result.start_time.map(timestamp),
            end_time: result.end_time.map(timestamp),
            call_message_id: result.answers.message().map(str::to_owned),
        }
    }
}

impl From<Media> for super::MediaPart {
    fn from(media: Media) -> Self {
        let source = match media.source {
            MediaSource::Bytes(data) => media_part::Source::Data(data),
            MediaSource::Uri(uri) => media_part::Source::Uri(uri),
        };
        Self { mime_type: media.mime_type, name: media.name, source: Some(source) }
    }
}

#[cfg(test)]
mod tests {
    use super::super as pb;
    use super::*;
    use longhand_model::time::Timestamp;

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
        let open = pb::NewMessage::from(new.clone());
        assert!(open.open && open.finish.is_none());
        assert_eq!((open.role(), open.kind()), (pb::Role::Tool, pb::MessageKind::Normal));
        let finish =
            NewFinish { reason: Some(FinishReason::Stop), usage: Some(Usage::default()), ..NewFinish::default() };
        let sealed = pb::NewMessage::from(NewMessage { finish: Some(finish), ..new });
        assert!(!sealed.open);
        assert_eq!(sealed.finish.map(|finish| finish.reason()), Some(pb::FinishReason::Stop));
    }
}
