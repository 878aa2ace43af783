//! Decides if a prune applies now, and how many of the parts that it may prune it prunes.

use super::protection::{PrunablePart, Search};
use crate::model::message::{FinishReason, Role};
use crate::model::time::Timestamp;
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use crate::policy::violation::Check;
use crate::policy::{Condition, Count, Prune};

impl Count {
    pub(in crate::policy) fn in_window(&self, window: &ModelWindow) -> u64 {
        match self {
            Self::Fixed(count) => u64::from(*count),
            Self::OfWindow(rule) => {
                let context = u64::try_from(window.context).unwrap_or(0);
                let count = context / u64::from(rule.context_tokens_each.max(1));
                count.max(u64::from(rule.minimum)).min(u64::from(rule.maximum))
            }
        }
    }

    pub(super) fn check(&self, check: &mut Check, path: &str) {
        if let Self::OfWindow(rule) = self {
            check.that(rule.context_tokens_each >= 1, &format!("{path}.context_tokens_each"), "must be at least 1");
            check.that(rule.maximum >= rule.minimum, &format!("{path}.maximum"), "must not be less than minimum");
        }
    }
}

impl Condition {
    pub(super) fn check(&self, check: &mut Check, path: &str) {
        match self {
            Self::Always => {}
            Self::Idle { seconds } => check.wait(*seconds, &format!("{path}.idle.seconds")),
            Self::Parts { above } => above.check(check, &format!("{path}.parts.above")),
            Self::Length { above_units, down_to_units } => {
                let path = format!("{path}.length.down_to_units");
                check.that(down_to_units <= above_units, &path, "must not be more than above_units");
            }
        }
    }
}

/// The parts that are pruned now, in the order of the walk. A condition on idle time holds.
pub(super) fn limit<'a>(prune: &Prune, window: &ModelWindow, search: Search<'a>) -> Vec<PrunablePart<'a>> {
    let Search { mut free, parts, units } = search;
    let goes = match &prune.condition {
        Condition::Always | Condition::Idle { .. } => free.len(),
        Condition::Parts { above } if parts > above.in_window(window) => free.len(),
        Condition::Length { above_units, down_to_units } if units > *above_units => {
            oldest_down_to(&free, units, *down_to_units)
        }
        Condition::Parts { .. } | Condition::Length { .. } => 0,
    };
    let goes = match &prune.batch {
        Some(batch) => {
            // Whole batches: one that frees too little by itself goes together with the next.
            let batch = usize::try_from(batch.in_window(window)).unwrap_or(usize::MAX).max(1);
            goes.saturating_sub(1) / batch * batch
        }
        None => goes,
    };
    // The walk went from the newest to the oldest.
    free.split_off(free.len() - goes)
}

/// Number of the oldest parts to prune until at most `down_to_units` are left, or of all parts.
fn oldest_down_to(free: &[PrunablePart<'_>], units: u64, down_to_units: u64) -> usize {
    let mut left = units;
    let oldest = free.iter().rev().take_while(|found| {
        let is_too_much = left > down_to_units;
        left = left.saturating_sub(found.units);
        is_too_much
    });
    oldest.count()
}

/// The time of the model's last reply. A failed reply does not count.
pub fn last_reply(messages: &[SourceMessage]) -> Option<Timestamp> {
    let replies = messages.iter().map(|source| &source.message).filter(|message| {
        let is_failure = message.finish.reason == Some(FinishReason::Error);
        message.role == Role::Assistant && !message.kind.is_derived() && !is_failure
    });
    replies.map(|message| message.create_time).max()
}

/// True if the model's last reply is at least this number of seconds old.
pub(super) fn is_idle(messages: &[SourceMessage], now: Timestamp, seconds: u32) -> bool {
    last_reply(messages).is_some_and(|last| now >= last.plus_millis(i64::from(seconds).saturating_mul(1_000)))
}
