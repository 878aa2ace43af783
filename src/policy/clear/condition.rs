//! Decides if a clear step applies now, and how many of the clearable parts it clears.

use super::protection::{Found, Search};
use crate::model::message::{FinishReason, Role};
use crate::model::time::Timestamp;
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use crate::policy::violation::Check;
use crate::policy::{Clear, Count, When};

impl Count {
    pub(in crate::policy) fn of(&self, window: &ModelWindow) -> u64 {
        match self {
            Self::Fixed(count) => u64::from(*count),
            Self::OfWindow(rule) => {
                let context = u64::try_from(window.context).unwrap_or(0);
                let count = context / u64::from(rule.tokens_each.max(1));
                count.max(u64::from(rule.least)).min(u64::from(rule.most))
            }
        }
    }

    pub(super) fn check(&self, check: &mut Check, path: &str) {
        if let Self::OfWindow(rule) = self {
            check.that(rule.tokens_each >= 1, &format!("{path}.tokens_each"), "must be at least 1");
            check.that(rule.most >= rule.least, &format!("{path}.most"), "must not be less than least");
        }
    }
}

impl When {
    pub(super) fn check(&self, check: &mut Check, path: &str) {
        match self {
            Self::Always => {}
            Self::Idle { seconds } => check.wait(*seconds, &format!("{path}.idle.seconds")),
            Self::Items { above } => above.check(check, &format!("{path}.items.above")),
            Self::Units { above, down_to } => {
                check.that(down_to <= above, &format!("{path}.units.down_to"), "must not be more than above");
            }
        }
    }
}

/// Returns the clearable parts that are cleared now, in the order of the walk. A condition on idle time holds.
pub(super) fn limit<'a>(clear: &Clear, window: &ModelWindow, search: Search<'a>) -> Vec<Found<'a>> {
    let Search { mut free, items, units } = search;
    let goes = match &clear.when {
        When::Always | When::Idle { .. } => free.len(),
        When::Items { above } if items > above.of(window) => free.len(),
        When::Units { above, down_to } if units > *above => oldest_down_to(&free, units, *down_to),
        When::Items { .. } | When::Units { .. } => 0,
    };
    let goes = match &clear.batch {
        Some(batch) => {
            let batch = usize::try_from(batch.of(window)).unwrap_or(usize::MAX);
            if goes > batch { batch } else { 0 }
        }
        None => goes,
    };
    // The walk went from the newest to the oldest.
    free.split_off(free.len() - goes)
}

/// Number of the oldest parts to clear until at most `down_to` units are left, or of all parts.
fn oldest_down_to(free: &[Found<'_>], units: u64, down_to: u64) -> usize {
    let mut left = units;
    let oldest = free.iter().rev().take_while(|found| {
        let is_too_much = left > down_to;
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
