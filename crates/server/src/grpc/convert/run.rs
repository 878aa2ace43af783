//! Conversion of runs, prompts and approvals.

use super::message::{part, read_parts, read_rewind};
use super::{id, read_duration, read_enum};
use crate::app::Result;
use crate::app::prompts::NewPrompt;
use crate::app::run_watch::{RunFrame, RunSignal};
use crate::app::runs::{CancelRun, ListRuns};
use crate::grpc::wire;
use crate::model::approval::{Answer, Approval, ApprovalEnd, ApprovalEndReason, Choice, Question};
use crate::model::event::{EventBody, InterruptedCall};
use crate::model::ids::RunId;
use crate::model::prompt::{Delivery, Prompt, PromptEnd};
use crate::model::run::{Activity, Epoch, Run, RunEndReason, RunEnded, SessionRun};
use crate::pb;
use crate::pb::event::Body;

/// A run.
pub(in crate::grpc) fn run(run: Run) -> pb::Run {
    let Run { id, session_id, epoch, actor, lease_end_time, start_revision, start_time, cancel_revision, end } = run;
    pb::Run {
        run_id: id.to_string(),
        session_id: session_id.to_string(),
        epoch,
        actor,
        start_time: Some(wire::timestamp(start_time)),
        start_revision,
        lease_end_time: lease_end_time.map(wire::timestamp),
        cancel_revision,
        end: end.map(run_end),
    }
}

fn run_end(RunEnded { reason, failure, revision, time }: RunEnded) -> pb::RunEnd {
    let reason = run_end_reason(reason).into();
    pb::RunEnd { reason, failure, end_time: Some(wire::timestamp(time)), end_revision: revision }
}

fn run_end_reason(reason: RunEndReason) -> pb::RunEndReason {
    match reason {
        RunEndReason::Completed => pb::RunEndReason::Completed,
        RunEndReason::Failed => pb::RunEndReason::Failed,
        RunEndReason::Cancelled => pb::RunEndReason::Cancelled,
        RunEndReason::Lost => pb::RunEndReason::Lost,
    }
}

/// What happens in a session.
pub(in crate::grpc) fn session_run(found: SessionRun) -> pb::GetRunResponse {
    let activity = match found.activity() {
        Activity::Idle => pb::Activity::Idle,
        Activity::Running => pb::Activity::Running,
        Activity::Compacting => pb::Activity::Compacting,
        Activity::WaitingForApproval => pb::Activity::WaitingForApproval,
        Activity::Failed => pb::Activity::Failed,
    };
    let SessionRun { session_id: _, run: newest, compaction, approvals, queued_prompts } = found;
    pb::GetRunResponse {
        activity: activity.into(),
        run: newest.map(run),
        compaction_id: id(compaction),
        approval_ids: approvals.iter().map(ToString::to_string).collect(),
        queued_prompt_count: super::count(queued_prompts),
    }
}

/// A request to stop runs.
pub(in crate::grpc) fn read_cancel(request: &pb::CancelRunRequest) -> CancelRun {
    CancelRun { epoch: request.epoch, force: request.force, tree: request.tree }
}

/// A request for a page of runs.
pub(in crate::grpc) fn read_list_runs(request: pb::ListRunsRequest) -> ListRuns {
    let pb::ListRunsRequest { session_id, tree, page_size, page_token } = request;
    ListRuns { session: session_id, tree, page_size: page_size.into(), page_token }
}

/// A prompt.
pub(in crate::grpc) fn prompt(prompt: Prompt) -> pb::Prompt {
    let message = prompt.message();
    let Prompt {
        id: prompt_id,
        session_id,
        delivery: wish,
        actor,
        parts,
        metadata_json,
        create_time,
        submit_revision,
        end,
    } = prompt;
    let end = end.map(|PromptEnd { epoch, revision }| pb::PromptEnd {
        epoch,
        message_id: id(message),
        end_revision: revision,
    });
    pb::Prompt {
        prompt_id: prompt_id.to_string(),
        session_id: session_id.to_string(),
        delivery: delivery(wish).into(),
        actor,
        parts: parts.into_iter().map(part).collect(),
        metadata_json,
        create_time: Some(wire::timestamp(create_time)),
        submit_revision,
        end,
    }
}

fn delivery(delivery: Delivery) -> pb::Delivery {
    match delivery {
        Delivery::Queue => pb::Delivery::Queue,
        Delivery::Steer => pb::Delivery::Steer,
        Delivery::Interrupt => pb::Delivery::Interrupt,
    }
}

/// A prompt to submit.
pub(in crate::grpc) fn read_new_prompt(
    parts: Vec<pb::Part>,
    request: &pb::SubmitPromptRequest,
) -> Result<NewPrompt<'_>> {
    let delivery = match read_enum("delivery", request.delivery)? {
        pb::Delivery::Unspecified | pb::Delivery::Queue => Delivery::Queue,
        pb::Delivery::Steer => Delivery::Steer,
        pb::Delivery::Interrupt => Delivery::Interrupt,
    };
    Ok(NewPrompt {
        parts: read_parts("prompt", parts)?,
        delivery,
        metadata_json: request.metadata_json.clone(),
        rewind: request.rewind.as_ref().map(read_rewind).transpose()?,
        expected_revision: request.expected_revision,
    })
}

/// An approval.
pub(in crate::grpc) fn approval(approval: Approval) -> pb::Approval {
    let Approval { id, session_id, epoch, actor, question: asked, create_time, request_revision, expire_time, end } =
        approval;
    pb::Approval {
        approval_id: id.to_string(),
        session_id: session_id.to_string(),
        epoch,
        actor,
        question: Some(question(asked)),
        create_time: Some(wire::timestamp(create_time)),
        request_revision,
        expire_time: expire_time.map(wire::timestamp),
        end: end.map(approval_end),
    }
}

fn question(question: Question) -> pb::Question {
    let Question { text, tool, call_id, input_json, choices, accepts_text, default_choice, timeout_ms } = question;
    let seconds_and_nanos = |ms: i64| prost_types::Duration {
        seconds: ms / 1_000,
        nanos: i32::try_from(ms % 1_000 * 1_000_000).unwrap_or_default(),
    };
    pb::Question {
        text,
        tool,
        call_id,
        input_json,
        choices: choices.into_iter().map(|Choice { id, label }| pb::Choice { id, label }).collect(),
        accepts_text,
        default_choice,
        answer_timeout: timeout_ms.map(seconds_and_nanos),
    }
}

fn approval_end(ApprovalEnd { reason, answer, actor, revision, time }: ApprovalEnd) -> pb::ApprovalEnd {
    pb::ApprovalEnd {
        reason: approval_end_reason(reason).into(),
        choice: answer.choice,
        text: answer.text,
        actor,
        end_time: Some(wire::timestamp(time)),
        end_revision: revision,
    }
}

fn approval_end_reason(reason: ApprovalEndReason) -> pb::ApprovalEndReason {
    match reason {
        ApprovalEndReason::Answered => pb::ApprovalEndReason::Answered,
        ApprovalEndReason::Expired => pb::ApprovalEndReason::Expired,
        ApprovalEndReason::Withdrawn => pb::ApprovalEndReason::Withdrawn,
    }
}

/// A question to ask.
pub(in crate::grpc) fn read_question(question: Option<pb::Question>) -> Result<Question> {
    let question = question.ok_or_else(|| super::not_given("question"))?;
    let pb::Question { text, tool, call_id, input_json, choices, accepts_text, default_choice, answer_timeout } =
        question;
    let timeout = answer_timeout.map(|timeout| read_duration("question.answer_timeout", timeout)).transpose()?;
    let timeout_ms = timeout.map(|timeout| i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX));
    let choices = choices.into_iter().map(|pb::Choice { id, label }| Choice { id, label }).collect();
    Ok(Question { text, tool, call_id, input_json, choices, accepts_text, default_choice, timeout_ms })
}

/// An answer.
pub(in crate::grpc) fn read_answer(choice: Option<String>, text: String) -> Answer {
    Answer { choice, text }
}

/// A frame of a run's stream.
pub(in crate::grpc) fn run_frame(RunFrame { cursor, signal }: RunFrame) -> pb::WatchRunResponse {
    use pb::watch_run_response::Frame;
    let frame = match signal {
        RunSignal::Prompt(found) => Frame::Prompt(prompt(*found)),
        RunSignal::Run(found) => Frame::Run(run(*found)),
        RunSignal::Approval(found) => Frame::Approval(approval(*found)),
        RunSignal::Idle => Frame::Progress(pb::WatchProgress {}),
    };
    pb::WatchRunResponse { cursor, frame: Some(frame) }
}

/// An event of a run, a prompt or an approval.
pub(super) fn event(body: EventBody) -> Body {
    match body {
        EventBody::RunStarted { run, epoch } => Body::RunStarted(pb::RunStarted { run_id: run.to_string(), epoch }),
        EventBody::RunCancelRequested { run, epoch } => {
            Body::RunCancelRequested(pb::RunCancelRequested { run_id: run.to_string(), epoch })
        }
        EventBody::RunEnded { run, epoch, reason, failure, interrupted } => {
            Body::RunEnded(run_ended(run, epoch, reason, failure, interrupted))
        }
        EventBody::PromptSubmitted { prompt, delivery: wish } => Body::PromptSubmitted(pb::PromptSubmitted {
            prompt_id: prompt.to_string(),
            delivery: delivery(wish).into(),
        }),
        EventBody::PromptMoved { prompt, before } => {
            Body::PromptMoved(pb::PromptMoved { prompt_id: prompt.to_string(), before_prompt_id: id(before) })
        }
        EventBody::PromptTaken { prompt, epoch } => Body::PromptTaken(pb::PromptTaken {
            prompt_id: prompt.to_string(),
            epoch,
            message_id: prompt.message().to_string(),
        }),
        EventBody::PromptWithdrawn { prompt } => {
            Body::PromptWithdrawn(pb::PromptWithdrawn { prompt_id: prompt.to_string() })
        }
        EventBody::ApprovalRequested { approval, epoch } => {
            Body::ApprovalRequested(pb::ApprovalRequested { approval_id: approval.to_string(), epoch })
        }
        EventBody::ApprovalEnded { approval, reason, choice } => Body::ApprovalEnded(pb::ApprovalEnded {
            approval_id: approval.to_string(),
            reason: approval_end_reason(reason).into(),
            choice,
        }),
        other => unreachable!("{other:?} is of no run"),
    }
}

fn run_ended(
    run: RunId,
    epoch: Epoch,
    reason: RunEndReason,
    failure: String,
    interrupted: Vec<InterruptedCall>,
) -> pb::RunEnded {
    let call = |InterruptedCall { message, call_id }| pb::InterruptedCall { message_id: message.to_string(), call_id };
    pb::RunEnded {
        run_id: run.to_string(),
        epoch,
        reason: run_end_reason(reason).into(),
        failure,
        interrupted_calls: interrupted.into_iter().map(call).collect(),
    }
}
