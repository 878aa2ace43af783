//! The reason for which a view exceeds its window, for every answer that states it.

use super::Fold;
use super::guards::{self, Guards};
use crate::model::compaction::{Compaction, CompactionState};
use crate::model::session::{OverWindow, OverWindowReason};
use crate::policy::plan::PlanningInput;

/// The reason for which a request with the view exceeds the session's window; none if it fits. `current` is the compaction that waits or runs, and `is_due` is true if a decision about the session is pending.
pub fn reason(
    planning: PlanningInput<'_>,
    fold: &Fold,
    guards: &Guards,
    current: Option<&Compaction>,
    is_due: bool,
) -> Option<OverWindow> {
    if fold.fits(planning.window) {
        return None;
    }
    let (reason, message) = match current {
        _ if !planning.policy.trigger.auto => (
            OverWindowReason::AutomaticOff,
            "the policy starts no compaction by itself: compact by hand, or choose another policy".to_owned(),
        ),
        Some(compaction) => of_compaction(compaction),
        None if is_due => (OverWindowReason::Pending, "a decision about the session is pending".to_owned()),
        None if guards.holds_after_undo => (
            OverWindowReason::UndoHold,
            "an undo holds automatic compactions back until the next message of the user".to_owned(),
        ),
        None if guards::last_resort_removals(planning, fold, guards).is_empty() => {
            (OverWindowReason::FixedContent, guards::last_resort_failure(planning, fold, guards).message)
        }
        None => (
            OverWindowReason::LastResortFailed,
            "the last resort failed: it is tried again at the next message of the user, or when the view has grown"
                .to_owned(),
        ),
    };
    let wait_end = current.and_then(|compaction| compaction.proposed_until.or(compaction.next_attempt_time));
    Some(OverWindow { reason, message, wait_end })
}

fn of_compaction(compaction: &Compaction) -> (OverWindowReason, String) {
    let Compaction { id, state, attempt, proposed_until, .. } = compaction;
    match (state, proposed_until) {
        (CompactionState::Ready, Some(_)) => {
            let message = format!("{id} waits for an answer: `longhand confirm {id}` begins it at once");
            (OverWindowReason::Confirmation, message)
        }
        (CompactionState::Ready, None) if *attempt > 0 => {
            let message = format!("{id} waits for another attempt after {attempt} that failed: `longhand retry {id}`");
            (OverWindowReason::Retry, message)
        }
        _ => (OverWindowReason::Pending, format!("{id} is waiting or running")),
    }
}
