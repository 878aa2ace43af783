//! Events of runs, prompts and approvals on disk. The tags never change.

use super::columns::{Number as _, decode, encode as to_bytes, id_bytes, uuid};
use crate::error::{Error, Result};
use crate::model::approval::ApprovalEndReason;
use crate::model::event::{EventBody, EventKind, InterruptedCall};
use crate::model::ids::{ApprovalId, MessageId, PromptId, RunId};
use crate::model::prompt::Delivery;
use crate::model::run::RunEndReason;

/// A run began, or was asked to stop.
#[derive(Clone, PartialEq, prost::Message)]
struct DiskRun {
    #[prost(bytes = "vec", tag = "1")]
    run: Vec<u8>,
    #[prost(int64, tag = "2")]
    epoch: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskRunEnded {
    #[prost(bytes = "vec", tag = "1")]
    run: Vec<u8>,
    #[prost(int64, tag = "2")]
    epoch: i64,
    #[prost(int32, tag = "3")]
    reason: i32,
    #[prost(string, tag = "4")]
    failure: String,
    #[prost(message, repeated, tag = "5")]
    interrupted: Vec<DiskCallName>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskCallName {
    #[prost(bytes = "vec", tag = "1")]
    message: Vec<u8>,
    #[prost(string, tag = "2")]
    call_id: String,
}

/// An event of a prompt; each kind has some of the fields.
#[derive(Clone, PartialEq, prost::Message)]
struct DiskPrompt {
    #[prost(bytes = "vec", tag = "1")]
    prompt: Vec<u8>,
    #[prost(int32, tag = "2")]
    delivery: i32,
    #[prost(bytes = "vec", optional, tag = "3")]
    before: Option<Vec<u8>>,
    #[prost(int64, tag = "4")]
    epoch: i64,
}

/// An event of an approval; each kind has some of the fields.
#[derive(Clone, PartialEq, prost::Message)]
struct DiskApproval {
    #[prost(bytes = "vec", tag = "1")]
    approval: Vec<u8>,
    #[prost(int64, optional, tag = "2")]
    epoch: Option<i64>,
    #[prost(int32, tag = "3")]
    reason: i32,
    #[prost(string, optional, tag = "4")]
    choice: Option<String>,
}

/// The bytes of `event.body`; none for an event of another kind.
pub(super) fn encode(body: &EventBody) -> Option<Vec<u8>> {
    let prompt = |prompt: &PromptId| DiskPrompt { prompt: id_bytes(prompt.0), ..DiskPrompt::default() };
    let approval = |approval: &ApprovalId| DiskApproval { approval: id_bytes(approval.0), ..DiskApproval::default() };
    Some(match body {
        EventBody::RunStarted { run, epoch } | EventBody::RunCancelRequested { run, epoch } => {
            to_bytes(&DiskRun { run: id_bytes(run.0), epoch: *epoch })
        }
        EventBody::RunEnded { run, epoch, reason, failure, interrupted } => {
            let name = |call: &InterruptedCall| DiskCallName {
                message: id_bytes(call.message.0),
                call_id: call.call_id.clone(),
            };
            to_bytes(&DiskRunEnded {
                run: id_bytes(run.0),
                epoch: *epoch,
                reason: reason.number(),
                failure: failure.clone(),
                interrupted: interrupted.iter().map(name).collect(),
            })
        }
        EventBody::PromptSubmitted { prompt: id, delivery } => {
            to_bytes(&DiskPrompt { delivery: delivery.number(), ..prompt(id) })
        }
        EventBody::PromptMoved { prompt: id, before } => {
            to_bytes(&DiskPrompt { before: before.map(|before| id_bytes(before.0)), ..prompt(id) })
        }
        EventBody::PromptTaken { prompt: id, epoch } => to_bytes(&DiskPrompt { epoch: *epoch, ..prompt(id) }),
        EventBody::PromptWithdrawn { prompt: id } => to_bytes(&prompt(id)),
        EventBody::ApprovalRequested { approval: id, epoch } => {
            to_bytes(&DiskApproval { epoch: *epoch, ..approval(id) })
        }
        EventBody::ApprovalEnded { approval: id, reason, choice } => {
            to_bytes(&DiskApproval { reason: reason.number(), choice: choice.clone(), ..approval(id) })
        }
        _ => return None,
    })
}

/// Decodes the bytes of `event.body`.
pub(super) fn decode_body(kind: EventKind, bytes: &[u8]) -> Result<EventBody> {
    Ok(match kind {
        EventKind::RunStarted => {
            let DiskRun { run, epoch } = decode("event", bytes)?;
            EventBody::RunStarted { run: RunId(uuid(&run)?), epoch }
        }
        EventKind::RunCancelRequested => {
            let DiskRun { run, epoch } = decode("event", bytes)?;
            EventBody::RunCancelRequested { run: RunId(uuid(&run)?), epoch }
        }
        EventKind::RunEnded => {
            let DiskRunEnded { run, epoch, reason, failure, interrupted } = decode("event", bytes)?;
            let call = |DiskCallName { message, call_id }: DiskCallName| {
                Ok(InterruptedCall { message: MessageId(uuid(&message)?), call_id })
            };
            EventBody::RunEnded {
                run: RunId(uuid(&run)?),
                epoch,
                reason: RunEndReason::from_number(reason)?,
                failure,
                interrupted: interrupted.into_iter().map(call).collect::<Result<_>>()?,
            }
        }
        EventKind::PromptSubmitted | EventKind::PromptMoved | EventKind::PromptTaken | EventKind::PromptWithdrawn => {
            let DiskPrompt { prompt, delivery, before, epoch } = decode("event", bytes)?;
            let prompt = PromptId(uuid(&prompt)?);
            match kind {
                EventKind::PromptSubmitted => {
                    EventBody::PromptSubmitted { prompt, delivery: Delivery::from_number(delivery)? }
                }
                EventKind::PromptMoved => {
                    let before = before.map(|before| uuid(&before).map(PromptId)).transpose()?;
                    EventBody::PromptMoved { prompt, before }
                }
                EventKind::PromptTaken => EventBody::PromptTaken { prompt, epoch },
                _ => EventBody::PromptWithdrawn { prompt },
            }
        }
        EventKind::ApprovalRequested => {
            let DiskApproval { approval, epoch, .. } = decode("event", bytes)?;
            EventBody::ApprovalRequested { approval: ApprovalId(uuid(&approval)?), epoch }
        }
        EventKind::ApprovalEnded => {
            let DiskApproval { approval, reason, choice, .. } = decode("event", bytes)?;
            let reason = ApprovalEndReason::from_number(reason)?;
            EventBody::ApprovalEnded { approval: ApprovalId(uuid(&approval)?), reason, choice }
        }
        other => return Err(Error::corrupt("event", format_args!("{other:?} is of no run"))),
    })
}
