//! Events on disk.

use super::{
    DiskFailure, DiskOutcome, DiskRange, DiskUsage, DiskWindow, Number, decode, encode, id_bytes, ranges_from_disk,
    ranges_to_disk, uuid,
};
use crate::model::compaction::{CompactionKind, Failure, Level, Trigger};
use crate::model::event::{EventBody, EventKind, Rewrite};
use crate::model::ids::{CompactionId, MessageId, PartId, SessionId};
use crate::model::message::{FinishReason, MessageKind, Role};
use crate::model::time::Timestamp;
use crate::store::error::{Error, Result};
use uuid::Uuid;
/// One shape for the small fields of all kinds of event; which are set follows from the kind. Tag 10 was used once.
#[derive(Clone, PartialEq, prost::Message)]
struct DiskEvent {
    #[prost(bytes = "vec", tag = "1")]
    id: Vec<u8>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    ids: Vec<Vec<u8>>,
    #[prost(string, optional, tag = "3")]
    text: Option<String>,
    #[prost(string, optional, tag = "4")]
    other_text: Option<String>,
    #[prost(int64, tag = "5")]
    number: i64,
    #[prost(int64, tag = "6")]
    other_number: i64,
    #[prost(int32, tag = "7")]
    what: i32,
    #[prost(int32, tag = "8")]
    who: i32,
    #[prost(bool, tag = "9")]
    flag: bool,
    #[prost(int64, tag = "11")]
    window_tokens: i64,
    #[prost(message, optional, tag = "12")]
    usage: Option<DiskUsage>,
    #[prost(message, optional, tag = "13")]
    window: Option<DiskWindow>,
    #[prost(message, optional, tag = "14")]
    failure: Option<DiskFailure>,
    #[prost(message, optional, tag = "15")]
    outcome: Option<DiskOutcome>,
    /// The rung of the ladder, from 1; 0 for none.
    #[prost(int32, tag = "16")]
    level: i32,
    #[prost(message, repeated, tag = "17")]
    ranges: Vec<DiskRange>,
}

fn level_number(level: Option<Level>) -> i32 {
    level.map_or(0, Number::number)
}

fn level_from(number: i32) -> Result<Option<Level>> {
    if number == 0 { Ok(None) } else { Level::from_number(number).map(Some) }
}

pub(crate) fn encode_event(body: &EventBody) -> Vec<u8> {
    let empty = DiskEvent::default();
    let about = |id: Uuid| DiskEvent { id: id_bytes(id), ..DiskEvent::default() };
    let parts = |parts: &[PartId]| parts.iter().map(|part| id_bytes(part.0)).collect();
    let disk = match body {
        EventBody::SessionCreated { title, preset, parent } => DiskEvent {
            id: parent.map(|id| id_bytes(id.0)).unwrap_or_default(),
            text: Some(title.clone()),
            other_text: Some(preset.clone()),
            ..empty
        },
        EventBody::SessionUpdated { title, metadata_json, window } => DiskEvent {
            text: title.clone(),
            other_text: metadata_json.clone(),
            window: window.as_ref().map(Into::into),
            ..empty
        },
        EventBody::SessionArchived | EventBody::SessionRestored => empty,
        EventBody::SessionForked { from, at, after, title } => DiskEvent {
            number: *at,
            flag: after.is_some(),
            other_number: after.unwrap_or_default(),
            text: Some(title.clone()),
            ..about(from.0)
        },
        EventBody::PolicyChanged { preset } => DiskEvent { text: Some(preset.clone()), ..empty },
        EventBody::MessageAppended { message, client_id, role, kind, part_count, sealed } => DiskEvent {
            text: client_id.clone(),
            who: role.number(),
            what: kind.number(),
            number: *part_count,
            flag: *sealed,
            ..about(message.0)
        },
        EventBody::PartsClosed { message, parts: closed } => DiskEvent { ids: parts(closed), ..about(message.0) },
        EventBody::MessageFinished { message, reason, expired } => {
            DiskEvent { what: reason.map_or(0, Number::number), flag: *expired, ..about(message.0) }
        }
        EventBody::UsageRecorded { message, usage, window } => {
            DiskEvent { usage: Some((*usage).into()), window: Some(window.into()), ..about(message.0) }
        }
        EventBody::SessionRewound { after } => DiskEvent { number: *after, ..empty },
        EventBody::MessageEdited { message, replacement } => DiskEvent {
            ids: replacement.iter().map(|replacement| id_bytes(replacement.0)).collect(),
            ..about(message.0)
        },
        EventBody::MessagePinned { message } | EventBody::MessageUnpinned { message } => about(message.0),
        EventBody::CompactionProposed { compaction, kind, level, notice, until } => DiskEvent {
            what: kind.number(),
            level: level_number(*level),
            text: Some(notice.clone()),
            number: until.0,
            ..about(compaction.0)
        },
        EventBody::CompactionStarted { compaction, level, kind, trigger, base, context_tokens, window_tokens } => {
            DiskEvent {
                level: level_number(*level),
                what: kind.number(),
                who: trigger.number(),
                number: *base,
                other_number: *context_tokens,
                window_tokens: *window_tokens,
                ..about(compaction.0)
            }
        }
        EventBody::CompactionRetried { compaction, attempt, failure } => {
            DiskEvent { number: *attempt, failure: Some(failure.into()), ..about(compaction.0) }
        }
        EventBody::PartsPruned { compaction, parts: pruned, omitted } => {
            DiskEvent { ids: parts(pruned), ranges: ranges_to_disk(omitted), ..about(compaction.0) }
        }
        EventBody::Compacted { compaction, level, notice, kind, trigger, outcome, window_tokens } => DiskEvent {
            level: level_number(*level),
            text: (!notice.is_empty()).then(|| notice.clone()),
            what: kind.number(),
            who: trigger.number(),
            outcome: Some((&**outcome).into()),
            window_tokens: *window_tokens,
            ..about(compaction.0)
        },
        EventBody::CompactionFailed { compaction, failure }
        | EventBody::CompactionCancelled { compaction, failure } => {
            DiskEvent { failure: Some(failure.into()), ..about(compaction.0) }
        }
        EventBody::CompactionUndone { compaction } | EventBody::CompactionRedone { compaction } => about(compaction.0),
        EventBody::RewriteUndone(rewrite) | EventBody::RewriteRedone(rewrite) => {
            DiskEvent { id: rewrite.edited.map(|id| id_bytes(id.0)).unwrap_or_default(), number: rewrite.mark, ..empty }
        }
    };
    encode(&disk)
}

pub(crate) fn decode_event(kind: i32, bytes: &[u8]) -> Result<EventBody> {
    let kind =
        EventKind::from_number(kind).ok_or_else(|| Error::corrupt("event", format_args!("unknown kind {kind}")))?;
    let disk: DiskEvent = decode("event", bytes)?;
    let message = || uuid(&disk.id).map(MessageId);
    let compaction = || uuid(&disk.id).map(CompactionId);
    let text = || disk.text.clone().unwrap_or_default();
    let failure = || Failure::try_from(disk.failure.clone().unwrap_or_default());
    let rewrite = || -> Result<Rewrite> {
        let edited = if disk.id.is_empty() { None } else { Some(MessageId(uuid(&disk.id)?)) };
        Ok(Rewrite { mark: disk.number, edited })
    };
    let parts = || disk.ids.iter().map(|id| uuid(id).map(PartId)).collect::<Result<Vec<_>>>();
    Ok(match kind {
        EventKind::SessionCreated => EventBody::SessionCreated {
            title: text(),
            preset: disk.other_text.clone().unwrap_or_default(),
            parent: if disk.id.is_empty() { None } else { Some(SessionId(uuid(&disk.id)?)) },
        },
        EventKind::SessionUpdated => EventBody::SessionUpdated {
            title: disk.text.clone(),
            metadata_json: disk.other_text.clone(),
            window: disk.window.clone().map(Into::into),
        },
        EventKind::SessionArchived => EventBody::SessionArchived,
        EventKind::SessionRestored => EventBody::SessionRestored,
        EventKind::SessionForked => EventBody::SessionForked {
            from: SessionId(uuid(&disk.id)?),
            at: disk.number,
            after: disk.flag.then_some(disk.other_number),
            title: text(),
        },
        EventKind::PolicyChanged => EventBody::PolicyChanged { preset: text() },
        EventKind::MessageAppended => EventBody::MessageAppended {
            message: message()?,
            client_id: disk.text.clone(),
            role: Role::from_number(disk.who)?,
            kind: MessageKind::from_number(disk.what)?,
            part_count: disk.number,
            sealed: disk.flag,
        },
        EventKind::PartsClosed => EventBody::PartsClosed { message: message()?, parts: parts()? },
        EventKind::MessageFinished => EventBody::MessageFinished {
            message: message()?,
            reason: if disk.what == 0 { None } else { Some(FinishReason::from_number(disk.what)?) },
            expired: disk.flag,
        },
        EventKind::UsageRecorded => usage_recorded(message()?, disk.usage, disk.window)?,
        EventKind::SessionRewound => EventBody::SessionRewound { after: disk.number },
        EventKind::MessageEdited => EventBody::MessageEdited {
            message: message()?,
            replacement: disk.ids.first().map(|id| uuid(id)).transpose()?.map(MessageId),
        },
        EventKind::MessagePinned => EventBody::MessagePinned { message: message()? },
        EventKind::MessageUnpinned => EventBody::MessageUnpinned { message: message()? },
        EventKind::CompactionProposed => EventBody::CompactionProposed {
            compaction: compaction()?,
            kind: CompactionKind::from_number(disk.what)?,
            level: level_from(disk.level)?,
            notice: text(),
            until: Timestamp(disk.number),
        },
        EventKind::CompactionStarted => EventBody::CompactionStarted {
            compaction: compaction()?,
            level: level_from(disk.level)?,
            kind: CompactionKind::from_number(disk.what)?,
            trigger: Trigger::from_number(disk.who)?,
            base: disk.number,
            context_tokens: disk.other_number,
            window_tokens: disk.window_tokens,
        },
        EventKind::CompactionRetried => {
            EventBody::CompactionRetried { compaction: compaction()?, attempt: disk.number, failure: failure()? }
        }
        EventKind::PartsPruned => EventBody::PartsPruned {
            compaction: compaction()?,
            parts: parts()?,
            omitted: ranges_from_disk(disk.ranges.clone()),
        },
        EventKind::Compacted => EventBody::Compacted {
            compaction: compaction()?,
            level: level_from(disk.level)?,
            notice: text(),
            kind: CompactionKind::from_number(disk.what)?,
            trigger: Trigger::from_number(disk.who)?,
            outcome: Box::new(disk.outcome.clone().unwrap_or_default().try_into()?),
            window_tokens: disk.window_tokens,
        },
        EventKind::CompactionFailed => EventBody::CompactionFailed { compaction: compaction()?, failure: failure()? },
        EventKind::CompactionCancelled => {
            EventBody::CompactionCancelled { compaction: compaction()?, failure: failure()? }
        }
        EventKind::CompactionUndone => EventBody::CompactionUndone { compaction: compaction()? },
        EventKind::CompactionRedone => EventBody::CompactionRedone { compaction: compaction()? },
        EventKind::RewriteUndone => EventBody::RewriteUndone(rewrite()?),
        EventKind::RewriteRedone => EventBody::RewriteRedone(rewrite()?),
    })
}

fn usage_recorded(message: MessageId, usage: Option<DiskUsage>, window: Option<DiskWindow>) -> Result<EventBody> {
    let (Some(usage), Some(window)) = (usage, window) else {
        return Err(Error::corrupt("event", "usage without figures or without a window"));
    };
    Ok(EventBody::UsageRecorded { message, usage: usage.into(), window: window.into() })
}
