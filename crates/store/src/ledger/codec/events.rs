//! Events on disk: one protobuf message for each kind. The tags never change.

use super::columns::{
    DiskFailure, DiskOutcome, DiskRange, DiskUsage, DiskWindow, Number, decode, encode, id_bytes, ranges_from_disk,
    ranges_to_disk, required, uuid,
};
use super::marks::{decode_stance, encode_stance};
use crate::error::{Error, Result};
use crate::model::compaction::{CompactionKind, Level, Trigger};
use crate::model::event::{EventBody, EventKind, Rewrite, RewriteOf};
use crate::model::ids::{CompactionId, MessageId, PartId, SessionId};
use crate::model::message::{FinishReason, MessageKind, Role};
use crate::model::time::Timestamp;

#[derive(Clone, PartialEq, prost::Message)]
struct DiskSessionCreated {
    #[prost(string, tag = "1")]
    title: String,
    #[prost(string, tag = "2")]
    preset: String,
    #[prost(bytes = "vec", optional, tag = "3")]
    parent: Option<Vec<u8>>,
}

/// Fields that did not change are absent.
#[derive(Clone, PartialEq, prost::Message)]
struct DiskSessionUpdated {
    #[prost(string, optional, tag = "1")]
    title: Option<String>,
    #[prost(string, optional, tag = "2")]
    metadata_json: Option<String>,
    #[prost(message, optional, tag = "3")]
    window: Option<DiskWindow>,
}

/// A session was archived, or restored.
#[derive(Clone, PartialEq, prost::Message)]
struct DiskNothing {}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskSessionForked {
    #[prost(bytes = "vec", tag = "1")]
    from: Vec<u8>,
    #[prost(int64, tag = "2")]
    at: i64,
    #[prost(int64, optional, tag = "3")]
    after: Option<i64>,
    #[prost(string, tag = "4")]
    title: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskPolicyChanged {
    #[prost(string, tag = "1")]
    preset: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskMessageAppended {
    #[prost(bytes = "vec", tag = "1")]
    message: Vec<u8>,
    #[prost(string, optional, tag = "2")]
    client_id: Option<String>,
    #[prost(int32, tag = "3")]
    role: i32,
    #[prost(int32, tag = "4")]
    kind: i32,
    #[prost(int64, tag = "5")]
    part_count: i64,
    #[prost(bool, tag = "6")]
    sealed: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskPartsClosed {
    #[prost(bytes = "vec", tag = "1")]
    message: Vec<u8>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    parts: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskMessageFinished {
    #[prost(bytes = "vec", tag = "1")]
    message: Vec<u8>,
    #[prost(int32, optional, tag = "2")]
    reason: Option<i32>,
    #[prost(bool, tag = "3")]
    expired: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskUsageRecorded {
    #[prost(bytes = "vec", tag = "1")]
    message: Vec<u8>,
    #[prost(message, optional, tag = "2")]
    usage: Option<DiskUsage>,
    #[prost(message, optional, tag = "3")]
    window: Option<DiskWindow>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskSessionRewound {
    #[prost(int64, tag = "1")]
    after: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskMessageEdited {
    #[prost(bytes = "vec", tag = "1")]
    message: Vec<u8>,
    #[prost(bytes = "vec", optional, tag = "2")]
    replacement: Option<Vec<u8>>,
}

/// A message was pinned, or unpinned.
#[derive(Clone, PartialEq, prost::Message)]
struct DiskPin {
    #[prost(bytes = "vec", tag = "1")]
    message: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskWordsMarked {
    #[prost(bytes = "vec", tag = "1")]
    message: Vec<u8>,
    #[prost(int32, tag = "2")]
    stance: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskCompactionProposed {
    #[prost(bytes = "vec", tag = "1")]
    compaction: Vec<u8>,
    #[prost(int32, tag = "2")]
    kind: i32,
    #[prost(int32, optional, tag = "3")]
    level: Option<i32>,
    #[prost(string, tag = "4")]
    notice: String,
    /// Microseconds since 1970.
    #[prost(int64, tag = "5")]
    until: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskCompactionStarted {
    #[prost(bytes = "vec", tag = "1")]
    compaction: Vec<u8>,
    #[prost(int32, tag = "2")]
    kind: i32,
    #[prost(int32, optional, tag = "3")]
    level: Option<i32>,
    #[prost(int32, tag = "4")]
    trigger: i32,
    #[prost(int64, tag = "5")]
    base: i64,
    #[prost(int64, tag = "6")]
    context_tokens: i64,
    #[prost(int64, tag = "7")]
    window_tokens: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskCompactionRetried {
    #[prost(bytes = "vec", tag = "1")]
    compaction: Vec<u8>,
    #[prost(int64, tag = "2")]
    attempt: i64,
    #[prost(message, optional, tag = "3")]
    failure: Option<DiskFailure>,
}

/// A label was added, or removed.
#[derive(Clone, PartialEq, prost::Message)]
struct DiskLabel {
    #[prost(string, tag = "1")]
    label: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskPartsPruned {
    #[prost(bytes = "vec", tag = "1")]
    compaction: Vec<u8>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    parts: Vec<Vec<u8>>,
    #[prost(message, repeated, tag = "3")]
    omitted: Vec<DiskRange>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskCompacted {
    #[prost(bytes = "vec", tag = "1")]
    compaction: Vec<u8>,
    #[prost(int32, tag = "2")]
    kind: i32,
    #[prost(int32, optional, tag = "3")]
    level: Option<i32>,
    #[prost(int32, tag = "4")]
    trigger: i32,
    #[prost(string, tag = "5")]
    notice: String,
    #[prost(message, optional, tag = "6")]
    outcome: Option<DiskOutcome>,
    #[prost(int64, tag = "7")]
    window_tokens: i64,
}

/// A compaction failed, or was cancelled.
#[derive(Clone, PartialEq, prost::Message)]
struct DiskCompactionEnded {
    #[prost(bytes = "vec", tag = "1")]
    compaction: Vec<u8>,
    #[prost(message, optional, tag = "2")]
    failure: Option<DiskFailure>,
}

/// A compaction was undone, or redone.
#[derive(Clone, PartialEq, prost::Message)]
struct DiskCompactionReversed {
    #[prost(bytes = "vec", tag = "1")]
    compaction: Vec<u8>,
}

/// A rewrite was undone, or redone.
#[derive(Clone, PartialEq, prost::Message)]
struct DiskRewriteReversed {
    #[prost(int64, tag = "1")]
    mark: i64,
    #[prost(bytes = "vec", optional, tag = "2")]
    edited: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "3")]
    words: Option<Vec<u8>>,
}

fn id_list(parts: &[PartId]) -> Vec<Vec<u8>> {
    parts.iter().map(|part| id_bytes(part.0)).collect()
}

fn part_ids(ids: &[Vec<u8>]) -> Result<Vec<PartId>> {
    ids.iter().map(|id| uuid(id).map(PartId)).collect()
}

fn message_id(id: &[u8]) -> Result<MessageId> {
    uuid(id).map(MessageId)
}

fn compaction_id(id: &[u8]) -> Result<CompactionId> {
    uuid(id).map(CompactionId)
}

fn level(number: Option<i32>) -> Result<Option<Level>> {
    number.map(Level::from_number).transpose()
}

/// The bytes of `event.body`.
pub(crate) fn encode_event(body: &EventBody) -> Vec<u8> {
    if let Some(bytes) = super::run_events::encode(body) {
        return bytes;
    }
    if let Some(bytes) = super::erasures::encode(body) {
        return bytes;
    }
    match body {
        EventBody::SessionCreated { title, preset, parent } => encode(&DiskSessionCreated {
            title: title.clone(),
            preset: preset.clone(),
            parent: parent.map(|id| id_bytes(id.0)),
        }),
        EventBody::SessionUpdated { title, metadata_json, window } => encode(&DiskSessionUpdated {
            title: title.clone(),
            metadata_json: metadata_json.clone(),
            window: window.as_ref().map(Into::into),
        }),
        EventBody::LabelAdded { label } | EventBody::LabelRemoved { label } => {
            encode(&DiskLabel { label: label.clone() })
        }
        EventBody::SessionArchived | EventBody::SessionRestored => encode(&DiskNothing {}),
        EventBody::SessionForked { from, at, after, title } => {
            encode(&DiskSessionForked { from: id_bytes(from.0), at: *at, after: *after, title: title.clone() })
        }
        EventBody::PolicyChanged { preset } => encode(&DiskPolicyChanged { preset: preset.clone() }),
        EventBody::MessageAppended { message, client_id, role, kind, part_count, sealed } => {
            encode(&DiskMessageAppended {
                message: id_bytes(message.0),
                client_id: client_id.clone(),
                role: role.number(),
                kind: kind.number(),
                part_count: *part_count,
                sealed: *sealed,
            })
        }
        EventBody::PartsClosed { message, parts } => {
            encode(&DiskPartsClosed { message: id_bytes(message.0), parts: id_list(parts) })
        }
        EventBody::MessageFinished { message, reason, expired } => encode(&DiskMessageFinished {
            message: id_bytes(message.0),
            reason: reason.map(Number::number),
            expired: *expired,
        }),
        EventBody::UsageRecorded { message, usage, window } => encode(&DiskUsageRecorded {
            message: id_bytes(message.0),
            usage: Some((*usage).into()),
            window: Some(window.into()),
        }),
        EventBody::SessionRewound { after } => encode(&DiskSessionRewound { after: *after }),
        EventBody::MessageEdited { message, replacement } => encode(&DiskMessageEdited {
            message: id_bytes(message.0),
            replacement: replacement.map(|replacement| id_bytes(replacement.0)),
        }),
        EventBody::MessagePinned { message } | EventBody::MessageUnpinned { message } => {
            encode(&DiskPin { message: id_bytes(message.0) })
        }
        EventBody::WordsMarked { message, stance } => {
            encode(&DiskWordsMarked { message: id_bytes(message.0), stance: encode_stance(*stance) })
        }
        EventBody::RewriteUndone(rewrite) | EventBody::RewriteRedone(rewrite) => {
            let (edited, words) = match rewrite.of {
                RewriteOf::Rewind => (None, None),
                RewriteOf::Edit(message) => (Some(id_bytes(message.0)), None),
                RewriteOf::Words(message) => (None, Some(id_bytes(message.0))),
            };
            encode(&DiskRewriteReversed { mark: rewrite.mark, edited, words })
        }
        of_compaction => encode_of_compaction(of_compaction),
    }
}

fn encode_of_compaction(body: &EventBody) -> Vec<u8> {
    match body {
        EventBody::CompactionProposed { compaction, kind, level, notice, until } => encode(&DiskCompactionProposed {
            compaction: id_bytes(compaction.0),
            kind: kind.number(),
            level: level.map(Number::number),
            notice: notice.clone(),
            until: until.0,
        }),
        EventBody::CompactionStarted { compaction, level, kind, trigger, base, context_tokens, window_tokens } => {
            encode(&DiskCompactionStarted {
                compaction: id_bytes(compaction.0),
                kind: kind.number(),
                level: level.map(Number::number),
                trigger: trigger.number(),
                base: *base,
                context_tokens: *context_tokens,
                window_tokens: *window_tokens,
            })
        }
        EventBody::CompactionRetried { compaction, attempt, failure } => encode(&DiskCompactionRetried {
            compaction: id_bytes(compaction.0),
            attempt: *attempt,
            failure: Some(failure.into()),
        }),
        EventBody::PartsPruned { compaction, parts, omitted } => encode(&DiskPartsPruned {
            compaction: id_bytes(compaction.0),
            parts: id_list(parts),
            omitted: ranges_to_disk(omitted),
        }),
        EventBody::Compacted { compaction, level, notice, kind, trigger, outcome, window_tokens } => {
            encode(&DiskCompacted {
                compaction: id_bytes(compaction.0),
                kind: kind.number(),
                level: level.map(Number::number),
                trigger: trigger.number(),
                notice: notice.clone(),
                outcome: Some((&**outcome).into()),
                window_tokens: *window_tokens,
            })
        }
        EventBody::CompactionFailed { compaction, failure }
        | EventBody::CompactionCancelled { compaction, failure } => {
            encode(&DiskCompactionEnded { compaction: id_bytes(compaction.0), failure: Some(failure.into()) })
        }
        EventBody::CompactionUndone { compaction } | EventBody::CompactionRedone { compaction } => {
            encode(&DiskCompactionReversed { compaction: id_bytes(compaction.0) })
        }
        other => unreachable!("{other:?} is of no compaction"),
    }
}

/// Decodes the bytes of `event.body`.
pub(crate) fn decode_event(kind: i32, bytes: &[u8]) -> Result<EventBody> {
    let kind =
        EventKind::from_number(kind).ok_or_else(|| Error::corrupt("event", format_args!("unknown kind {kind}")))?;
    Ok(match kind {
        EventKind::SessionCreated => {
            let DiskSessionCreated { title, preset, parent } = event(bytes)?;
            let parent = parent.map(|id| uuid(&id).map(SessionId)).transpose()?;
            EventBody::SessionCreated { title, preset, parent }
        }
        EventKind::SessionUpdated => {
            let DiskSessionUpdated { title, metadata_json, window } = event(bytes)?;
            EventBody::SessionUpdated { title, metadata_json, window: window.map(TryInto::try_into).transpose()? }
        }
        EventKind::SessionArchived => {
            event::<DiskNothing>(bytes)?;
            EventBody::SessionArchived
        }
        EventKind::SessionRestored => {
            event::<DiskNothing>(bytes)?;
            EventBody::SessionRestored
        }
        EventKind::SessionForked => {
            let DiskSessionForked { from, at, after, title } = event(bytes)?;
            EventBody::SessionForked { from: SessionId(uuid(&from)?), at, after, title }
        }
        EventKind::PolicyChanged => EventBody::PolicyChanged { preset: event::<DiskPolicyChanged>(bytes)?.preset },
        EventKind::MessageAppended => {
            let DiskMessageAppended { message, client_id, role, kind, part_count, sealed } = event(bytes)?;
            EventBody::MessageAppended {
                message: message_id(&message)?,
                client_id,
                role: Role::from_number(role)?,
                kind: MessageKind::from_number(kind)?,
                part_count,
                sealed,
            }
        }
        EventKind::PartsClosed => {
            let DiskPartsClosed { message, parts } = event(bytes)?;
            EventBody::PartsClosed { message: message_id(&message)?, parts: part_ids(&parts)? }
        }
        EventKind::MessageFinished => {
            let DiskMessageFinished { message, reason, expired } = event(bytes)?;
            let reason = reason.map(FinishReason::from_number).transpose()?;
            EventBody::MessageFinished { message: message_id(&message)?, reason, expired }
        }
        EventKind::UsageRecorded => {
            let DiskUsageRecorded { message, usage, window } = event(bytes)?;
            EventBody::UsageRecorded {
                message: message_id(&message)?,
                usage: required("event", "usage", usage)?.into(),
                window: required("event", "window", window)?.try_into()?,
            }
        }
        EventKind::SessionRewound => EventBody::SessionRewound { after: event::<DiskSessionRewound>(bytes)?.after },
        EventKind::MessageEdited => {
            let DiskMessageEdited { message, replacement } = event(bytes)?;
            let replacement = replacement.map(|id| message_id(&id)).transpose()?;
            EventBody::MessageEdited { message: message_id(&message)?, replacement }
        }
        EventKind::MessagePinned => EventBody::MessagePinned { message: pin(bytes)? },
        EventKind::MessageUnpinned => EventBody::MessageUnpinned { message: pin(bytes)? },
        EventKind::WordsMarked => {
            let DiskWordsMarked { message, stance } = event(bytes)?;
            EventBody::WordsMarked { message: message_id(&message)?, stance: decode_stance(stance)? }
        }
        EventKind::RewriteUndone => EventBody::RewriteUndone(rewrite(bytes)?),
        EventKind::RewriteRedone => EventBody::RewriteRedone(rewrite(bytes)?),
        EventKind::LabelAdded => EventBody::LabelAdded { label: event::<DiskLabel>(bytes)?.label },
        EventKind::LabelRemoved => EventBody::LabelRemoved { label: event::<DiskLabel>(bytes)?.label },
        EventKind::Erased => super::erasures::decode_body(bytes)?,
        of_run if of_run >= EventKind::RunStarted => super::run_events::decode_body(of_run, bytes)?,
        of_compaction => decode_of_compaction(of_compaction, bytes)?,
    })
}

fn decode_of_compaction(kind: EventKind, bytes: &[u8]) -> Result<EventBody> {
    Ok(match kind {
        EventKind::CompactionProposed => {
            let disk: DiskCompactionProposed = event(bytes)?;
            EventBody::CompactionProposed {
                compaction: compaction_id(&disk.compaction)?,
                kind: CompactionKind::from_number(disk.kind)?,
                level: level(disk.level)?,
                notice: disk.notice,
                until: Timestamp(disk.until),
            }
        }
        EventKind::CompactionStarted => {
            let disk: DiskCompactionStarted = event(bytes)?;
            EventBody::CompactionStarted {
                compaction: compaction_id(&disk.compaction)?,
                level: level(disk.level)?,
                kind: CompactionKind::from_number(disk.kind)?,
                trigger: Trigger::from_number(disk.trigger)?,
                base: disk.base,
                context_tokens: disk.context_tokens,
                window_tokens: disk.window_tokens,
            }
        }
        EventKind::CompactionRetried => {
            let DiskCompactionRetried { compaction, attempt, failure } = event(bytes)?;
            let failure = required("event", "failure", failure)?.try_into()?;
            EventBody::CompactionRetried { compaction: compaction_id(&compaction)?, attempt, failure }
        }
        EventKind::PartsPruned => {
            let DiskPartsPruned { compaction, parts, omitted } = event(bytes)?;
            EventBody::PartsPruned {
                compaction: compaction_id(&compaction)?,
                parts: part_ids(&parts)?,
                omitted: ranges_from_disk(omitted),
            }
        }
        EventKind::Compacted => {
            let disk: DiskCompacted = event(bytes)?;
            EventBody::Compacted {
                compaction: compaction_id(&disk.compaction)?,
                level: level(disk.level)?,
                notice: disk.notice,
                kind: CompactionKind::from_number(disk.kind)?,
                trigger: Trigger::from_number(disk.trigger)?,
                outcome: Box::new(required("event", "outcome", disk.outcome)?.try_into()?),
                window_tokens: disk.window_tokens,
            }
        }
        EventKind::CompactionFailed | EventKind::CompactionCancelled => {
            let DiskCompactionEnded { compaction, failure } = event(bytes)?;
            let compaction = compaction_id(&compaction)?;
            let failure = required("event", "failure", failure)?.try_into()?;
            match kind {
                EventKind::CompactionFailed => EventBody::CompactionFailed { compaction, failure },
                _ => EventBody::CompactionCancelled { compaction, failure },
            }
        }
        EventKind::CompactionUndone => EventBody::CompactionUndone { compaction: reversed(bytes)? },
        EventKind::CompactionRedone => EventBody::CompactionRedone { compaction: reversed(bytes)? },
        other => unreachable!("{other:?} is of no compaction"),
    })
}

fn event<M: prost::Message + Default>(bytes: &[u8]) -> Result<M> {
    decode("event", bytes)
}

fn pin(bytes: &[u8]) -> Result<MessageId> {
    message_id(&event::<DiskPin>(bytes)?.message)
}

fn reversed(bytes: &[u8]) -> Result<CompactionId> {
    compaction_id(&event::<DiskCompactionReversed>(bytes)?.compaction)
}

fn rewrite(bytes: &[u8]) -> Result<Rewrite> {
    let DiskRewriteReversed { mark, edited, words } = event(bytes)?;
    let of = match (edited, words) {
        (Some(message), _) => RewriteOf::Edit(message_id(&message)?),
        (None, Some(message)) => RewriteOf::Words(message_id(&message)?),
        (None, None) => RewriteOf::Rewind,
    };
    Ok(Rewrite { mark, of })
}
