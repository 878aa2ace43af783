//! Events of runs, prompts and approvals as sentences.

use super::detail::Detail;
use super::output::{count, word};
use crate::pb;
use crate::pb::event::Body;

/// Description of an event, in one line; none for an event of another kind.
pub(super) fn sentence(body: &Body, detail: Detail) -> Option<String> {
    let id = |id: &str| detail.full(id);
    Some(match body {
        Body::RunStarted(started) => format!("run {} started", started.epoch),
        Body::RunCancelRequested(asked) => format!("run {} asked to stop", asked.epoch),
        Body::RunEnded(ended) => run_ended(ended),
        Body::PromptSubmitted(submitted) => {
            let how = match submitted.delivery() {
                pb::Delivery::Unspecified | pb::Delivery::Queue => "waits in the queue",
                pb::Delivery::Steer => "is for the present run",
                pb::Delivery::Interrupt => "interrupts the present run",
            };
            format!("prompt{} {how}", id(&submitted.prompt_id))
        }
        Body::PromptMoved(moved) => {
            let where_to = match &moved.before_prompt_id {
                Some(before) => format!("before{}", detail.full_or(before, "another one")),
                None => "to the end of the queue".to_owned(),
            };
            format!("prompt{} moved {where_to}", id(&moved.prompt_id))
        }
        Body::PromptTaken(taken) => format!("prompt{} taken by run {}", id(&taken.prompt_id), taken.epoch),
        Body::PromptWithdrawn(withdrawn) => format!("prompt{} withdrawn", id(&withdrawn.prompt_id)),
        Body::ApprovalRequested(requested) => {
            let by = requested.epoch.map(|epoch| format!(" by run {epoch}")).unwrap_or_default();
            // An answer needs the id.
            format!("question {} asked{by}", requested.approval_id)
        }
        Body::ApprovalEnded(ended) => approval_ended(ended, detail),
        _ => return None,
    })
}

fn run_ended(ended: &pb::RunEnded) -> String {
    let how = match ended.reason() {
        pb::RunEndReason::Lost => "lost: its agent did not renew its lease".to_owned(),
        pb::RunEndReason::Failed => format!("failed: {}", ended.failure),
        other => word(other.as_str_name(), "RUN_END_REASON_"),
    };
    let calls = match ended.interrupted_calls.len() {
        0 => String::new(),
        calls => format!(", {} interrupted", count(calls as i64, "call")),
    };
    format!("run {} {how}{calls}", ended.epoch)
}

fn approval_ended(ended: &pb::ApprovalEnded, detail: Detail) -> String {
    let id = detail.full(&ended.approval_id);
    let choice = ended.choice.as_deref().map_or_else(|| "with a text".to_owned(), |choice| format!("with {choice:?}"));
    match ended.reason() {
        pb::ApprovalEndReason::Withdrawn => format!("question{id} withdrawn"),
        pb::ApprovalEndReason::Expired => format!("question{id} answered {choice}, since its time was up"),
        pb::ApprovalEndReason::Answered | pb::ApprovalEndReason::Unspecified => {
            format!("question{id} answered {choice}")
        }
    }
}
