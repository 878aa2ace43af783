//! Sums of the sizes of messages, and their conversion to tokens.

use crate::policy::strategy::CountStrategy;
use crate::policy::{CountPer, Counting, Rounding};

/// The contribution of a message of this size to the sum of a list: tokens or units, depending on the place of the
/// rounding.
pub(in crate::policy) fn addend(counting: &Counting, units: i64) -> i64 {
    match &counting.per {
        CountPer::Message => tokens_of(counting, units),
        // The comma after the message, or the bracket.
        CountPer::JsonRange if units > 0 => units.saturating_add(1),
        CountPer::JsonRange => 0,
        CountPer::Parts { .. } | CountPer::Contents | CountPer::Characters | CountPer::Named(_) => units,
    }
}

pub(in crate::policy) fn list_tokens(counting: &Counting, sum: i64) -> i64 {
    match &counting.per {
        CountPer::Message => sum,
        CountPer::JsonRange if sum > 0 => tokens_of(counting, sum.saturating_add(1)),
        CountPer::JsonRange => 0,
        CountPer::Parts { .. } | CountPer::Contents | CountPer::Characters => tokens_of(counting, sum),
        CountPer::Named(named) if sum > 0 => {
            tokens_of(counting, sum.saturating_add(named.count().map_or(0, CountStrategy::list_units)))
        }
        CountPer::Named(_) => 0,
    }
}

/// Converts units to tokens.
pub(in crate::policy) fn tokens_of(counting: &Counting, units: i64) -> i64 {
    let per = i64::from(counting.units_per_token.max(1));
    let rest = units % per;
    let up = match counting.rounding {
        Rounding::Ceil => rest > 0,
        Rounding::HalfUp => rest * 2 >= per && rest > 0,
        Rounding::Floor => false,
    };
    units / per + i64::from(up)
}
