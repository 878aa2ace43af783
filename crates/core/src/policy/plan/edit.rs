//! Plans changed by a caller: another tail, other messages kept beside the summary.

use super::input::{PlanningInput, SummaryPlan};
use super::sources::{covered, inline, slot};
use super::summary::attached;
use crate::model::ids::MessageId;
use crate::model::layout::Placement;
use crate::model::view::SourceMessage;
use crate::policy::calls::Calls;
use crate::policy::select;

/// The changes to a plan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlanEdit {
    /// The first message that is kept verbatim; none keeps the plan's own.
    pub tail_start: Option<MessageId>,
    /// The covered messages that the view shows nevertheless, beside those before the summarized range; none keeps the
    /// plan's own.
    pub retained: Option<Vec<MessageId>>,
}

/// Returns the plan of a summary with another boundary, made for the same view.
///
/// # Errors
///
/// A sentence fragment with the reason why the plan is not possible. No open message and no running call is ever
/// covered, no call loses its result, and pinned messages stay in the view whatever the plan contains.
pub fn edited(planning: PlanningInput<'_>, plan: &SummaryPlan, edit: &PlanEdit) -> Result<SummaryPlan, &'static str> {
    let inline = [inline(planning.covered), inline(planning.sources)].concat();
    let at = |id: MessageId| inline.iter().position(|source| source.message.id == id);
    let mut plan = plan.clone();
    let end = match edit.tail_start {
        None => plan.covered_count(),
        Some(id) => at(id).ok_or("the message that is to begin the tail does not stand in the view")?,
    };
    let (head, tail) = inline.split_at(end.min(inline.len()));
    let front = plan.front.len();
    if edit.tail_start.is_some() {
        if head.iter().skip(front).all(|source| source.placement == Some(Placement::Retained)) {
            return Err("nothing stands before the tail that a summary could cover");
        }
        if end > select::last_safe_boundary(&inline) {
            return Err("an open message or a running call stands before the tail");
        }
        if Calls::from_messages(&*inline)
            .are_split(|source| head.iter().any(|other| other.message.id == source.message.id))
        {
            return Err("the tail begins between a call and its result");
        }
        plan.covered = covered(planning.layout, head);
        plan.head = head[front..].to_vec();
        plan.attachments = attached(planning.policy, &plan.rules, &plan.head);
        plan.split_turn = Vec::new();
        plan.tail_start = tail.first().map_or(planning.base + 1, slot);
        plan.tail_message = tail.first().map(|source| source.message.id);
        plan.retained.retain(|revision| head.iter().any(|source| source.message.revision == *revision));
    }
    if let Some(retained) = &edit.retained {
        if retained.iter().any(|id| at(*id).is_none_or(|at| at >= end)) {
            return Err("a message that is to be kept does not stand before the tail");
        }
        let (front, head) = head.split_at(front);
        let is_kept = |source: &SourceMessage| retained.contains(&source.message.id);
        if Calls::from_messages(head).are_split(is_kept) {
            return Err("a call and its result are kept together or not at all");
        }
        // Covered messages that are pinned stay anyway, and so do the messages before the summarized range.
        let kept = head.iter().filter(|source| is_kept(source) && !planning.layout.pinned.contains(&slot(source)));
        plan.retained = front.iter().chain(kept).map(|source| source.message.revision).collect();
    }
    Ok(plan)
}
