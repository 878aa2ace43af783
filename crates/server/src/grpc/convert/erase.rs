//! Erasures on the wire.

use super::{id, not_given, range};
use crate::app::Result;
use crate::app::erase::{EraseAnswer, EraseRequest, EraseTarget, part_target};
use crate::app::retention::{ExpiredSession, RetentionItem, RetentionReason};
use crate::model::event::{ErasedMessage, ErasedTarget, EventBody};
use crate::pb;
use crate::pb::erase_content_request::Target;
use crate::pb::event::Body;

/// A request, and its session.
pub(in crate::grpc) fn read_request(request: pb::EraseContentRequest) -> Result<(String, EraseRequest)> {
    let pb::EraseContentRequest { session_id, target, reason, dry_run, request_id: _, expected_revision, .. } = request;
    let target = match target {
        Some(Target::MessageId(id)) => EraseTarget::Messages(vec![id]),
        Some(Target::MessageSet(pb::MessageSet { message_ids })) => EraseTarget::Messages(message_ids),
        Some(Target::PartId(id)) => part_target(&id)?,
        Some(Target::WholeSession(true)) => EraseTarget::Session,
        Some(Target::WholeSession(false)) => {
            return Err(crate::app::Error::field("whole_session", "is false; leave it unset instead"));
        }
        None => return Err(not_given("target")),
    };
    Ok((session_id, EraseRequest { target, reason, dry_run, expected_revision }))
}

/// The answer, without its durability.
pub(in crate::grpc) fn answer(erased: EraseAnswer) -> pb::EraseContentResponse {
    let EraseAnswer { session, event, sizes, existed, pending_files, sub_agents } = erased;
    let (revision, seq) = event.unwrap_or_default();
    pb::EraseContentResponse {
        session_id: session.to_string(),
        revision,
        seq,
        message_count: sizes.messages,
        part_count: sizes.parts,
        content_bytes: sizes.bytes,
        derived_count: sizes.summaries,
        fork_count: sizes.forks,
        blob_count: sizes.blobs,
        existed,
        pending_files,
        sub_agent_session_ids: sub_agents.iter().map(ToString::to_string).collect(),
        durability: pb::Durability::Unspecified.into(),
    }
}

/// A piece of the report about a pass of retention.
pub(in crate::grpc) fn retention_item(item: RetentionItem) -> pb::apply_retention_response::Item {
    use pb::apply_retention_response::Item;
    match item {
        RetentionItem::Expired(ExpiredSession { session, title, rule, reason, content_bytes }) => {
            let bound = match reason {
                RetentionReason::Age(_) => pb::RetentionBound::Age,
                RetentionReason::Idle(_) => pb::RetentionBound::Idle,
                RetentionReason::Bytes => pb::RetentionBound::Bytes,
            };
            let session_id = session.to_string();
            Item::Session(pb::ExpiredSession { session_id, title, rule, bound: bound.into(), content_bytes })
        }
        RetentionItem::End(summary) => Item::Summary(pb::RetentionSummary {
            examined_count: summary.examined,
            erased_count: summary.erased,
            content_bytes: summary.content_bytes,
            protected_count: summary.protected,
            changed_count: summary.changed,
            clock_unconfirmed: summary.is_clock_unconfirmed,
        }),
    }
}

/// The event of an erasure.
pub(super) fn event(body: EventBody) -> Body {
    let EventBody::Erased { target, reason, from, ranges, messages, unfinished } = body else {
        unreachable!("{body:?} is no erasure")
    };
    let target = match target {
        ErasedTarget::Part => pb::ErasedTarget::Part,
        ErasedTarget::Message => pb::ErasedTarget::Message,
        ErasedTarget::Session => pb::ErasedTarget::Session,
        ErasedTarget::Messages => pb::ErasedTarget::Messages,
    };
    let message = |ErasedMessage { message, parts }| pb::ErasedMessage {
        message_id: message.to_string(),
        part_ids: parts.iter().map(ToString::to_string).collect(),
    };
    Body::Erased(pb::Erased {
        target: target.into(),
        reason,
        source_session_id: id(from),
        ranges: ranges.into_iter().map(range).collect(),
        messages: messages.into_iter().map(message).collect(),
        unfinished,
    })
}
