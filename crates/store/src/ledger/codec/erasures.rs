//! The event of an erasure on disk. The tags never change.

use super::columns::{
    DiskRange, Number as _, decode, encode as to_bytes, id_bytes, ranges_from_disk, ranges_to_disk, uuid,
};
use crate::error::Result;
use crate::model::event::{ErasedMessage, ErasedTarget, EventBody};
use crate::model::ids::{MessageId, PartId, SessionId};

#[derive(Clone, PartialEq, prost::Message)]
struct DiskErased {
    #[prost(int32, tag = "1")]
    target: i32,
    #[prost(string, tag = "2")]
    reason: String,
    #[prost(bytes = "vec", optional, tag = "3")]
    from: Option<Vec<u8>>,
    #[prost(message, repeated, tag = "4")]
    ranges: Vec<DiskRange>,
    #[prost(message, repeated, tag = "5")]
    messages: Vec<DiskErasedMessage>,
    #[prost(bool, tag = "6")]
    unfinished: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskErasedMessage {
    #[prost(bytes = "vec", tag = "1")]
    message: Vec<u8>,
    /// Numbers of the parts; none for all of them.
    #[prost(int32, repeated, tag = "2")]
    parts: Vec<i32>,
}

/// The bytes of `event.body`; none for an event of another kind.
pub(super) fn encode(body: &EventBody) -> Option<Vec<u8>> {
    let EventBody::Erased { target, reason, from, ranges, messages, unfinished } = body else { return None };
    let message = |erased: &ErasedMessage| DiskErasedMessage {
        message: id_bytes(erased.message.0),
        parts: erased.parts.iter().map(|part| part.number().into()).collect(),
    };
    Some(to_bytes(&DiskErased {
        target: target.number(),
        reason: reason.clone(),
        from: from.map(|id| id_bytes(id.0)),
        ranges: ranges_to_disk(ranges),
        messages: messages.iter().map(message).collect(),
        unfinished: *unfinished,
    }))
}

/// Decodes the bytes of `event.body`.
pub(super) fn decode_body(bytes: &[u8]) -> Result<EventBody> {
    let DiskErased { target, reason, from, ranges, messages, unfinished } = decode("event", bytes)?;
    let message = |erased: DiskErasedMessage| {
        let message = MessageId(uuid(&erased.message)?);
        let part = |number| PartId::in_message(message, u16::try_from(number).unwrap_or(0));
        Ok(ErasedMessage { message, parts: erased.parts.into_iter().map(part).collect() })
    };
    Ok(EventBody::Erased {
        target: ErasedTarget::from_number(target)?,
        reason,
        from: from.map(|id| uuid(&id).map(SessionId)).transpose()?,
        ranges: ranges_from_disk(ranges),
        messages: messages.into_iter().map(message).collect::<Result<_>>()?,
        unfinished,
    })
}
