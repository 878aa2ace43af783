//! A token counter for messages that is updated while they are truncated and omitted.
//!
//! It only compares. Where texts must be encoded to be counted, it encodes those that a comparison depends on: a list
//! of many messages is above a limit whatever their texts are.

use super::messages::{bounds, source_units};
use super::sums::{addend, list_tokens};
use crate::model::view::SourceMessage;
use crate::policy::Policy;

/// Bounds of the units of each message of a list, and their sum.
#[derive(Debug, Clone)]
pub struct Counter<'a> {
    policy: &'a Policy,
    contributions: Vec<Bounds>,
    sum: Bounds,
}

/// The minimum and the maximum of a number that may not be known yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Bounds {
    least: i64,
    most: i64,
}

impl Bounds {
    fn exact(number: i64) -> Self {
        Self { least: number, most: number }
    }

    fn is_exact(self) -> bool {
        self.least == self.most
    }

    fn plus(self, other: Self) -> Self {
        Self { least: self.least.saturating_add(other.least), most: self.most.saturating_add(other.most) }
    }

    fn minus(self, other: Self) -> Self {
        Self { least: self.least.saturating_sub(other.least), most: self.most.saturating_sub(other.most) }
    }
}

impl<'a> Counter<'a> {
    /// Counts stored messages as a view will show them.
    pub fn from_messages(policy: &'a Policy, messages: &[SourceMessage]) -> Self {
        let contributions: Vec<Bounds> = messages.iter().map(|message| contribution(policy, message)).collect();
        let sum = contributions.iter().copied().fold(Bounds::default(), Bounds::plus);
        Self { policy, contributions, sum }
    }

    /// True if all remaining messages have more tokens than `limit`. `current` is each message as it was counted last.
    pub fn exceeds<'m>(&mut self, limit: i64, current: impl Fn(usize) -> &'m SourceMessage) -> bool {
        if let Some(exceeds) = self.compare(self.sum, limit) {
            return exceeds;
        }
        for index in
            (0..self.contributions.len()).filter(|&index| !self.contributions[index].is_exact()).collect::<Vec<_>>()
        {
            self.set(index, exact(self.policy, current(index)));
        }
        self.tokens(self.sum.most) > limit
    }

    /// True if one message, as a list of its own, has more tokens than `limit`. `current` is the message as it was
    /// counted last.
    pub fn exceeds_alone<'m>(&mut self, index: usize, limit: i64, current: impl Fn() -> &'m SourceMessage) -> bool {
        let Some(contribution) = self.contributions.get(index).copied() else { return limit < 0 };
        self.compare(contribution, limit).unwrap_or_else(|| {
            let contribution = exact(self.policy, current());
            self.set(index, contribution);
            self.tokens(contribution.most) > limit
        })
    }

    /// Counts a message again.
    pub fn recount(&mut self, index: usize, message: &SourceMessage) {
        self.set(index, contribution(self.policy, message));
    }

    /// Removes a message from the count.
    pub fn leave_out(&mut self, index: usize) {
        self.set(index, Bounds::default());
    }

    fn set(&mut self, index: usize, contribution: Bounds) {
        if let Some(slot) = self.contributions.get_mut(index) {
            self.sum = self.sum.minus(*slot).plus(contribution);
            *slot = contribution;
        }
    }

    /// True if a list with this sum has more tokens than `limit`; none if its exact sum decides.
    fn compare(&self, sum: Bounds, limit: i64) -> Option<bool> {
        let is_above = self.tokens(sum.least) > limit;
        (is_above || self.tokens(sum.most) <= limit).then_some(is_above)
    }

    fn tokens(&self, sum: i64) -> i64 {
        list_tokens(&self.policy.counting, sum)
    }
}

fn contribution(policy: &Policy, message: &SourceMessage) -> Bounds {
    let (least, most) = bounds(policy, message);
    Bounds { least: addend(&policy.counting, least), most: addend(&policy.counting, most) }
}

fn exact(policy: &Policy, message: &SourceMessage) -> Bounds {
    Bounds::exact(addend(&policy.counting, source_units(policy, message)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::tokens::RangeEstimate;
    use crate::policy::{dsl, samples};

    /// Compares a running count with a new count, on both sides of the exact numbers.
    fn check(policy: &Policy, counter: &Counter<'_>, messages: &[SourceMessage], shown: &[usize]) {
        let shown: Vec<SourceMessage> = shown.iter().map(|&index| messages[index].clone()).collect();
        let tokens = RangeEstimate::from_messages(policy, &shown).tokens(0..shown.len());
        for limit in [0, tokens - 1, tokens, 1 << 40] {
            let exceeds = counter.clone().exceeds(limit, |index| &messages[index]);
            assert_eq!(exceeds, tokens > limit, "{}: {tokens} and {limit}", policy.preset);
        }
        for (index, message) in messages.iter().enumerate() {
            let is_left_out = counter.contributions[index] == Bounds::default();
            let alone = RangeEstimate::from_messages(policy, std::slice::from_ref(message))
                .tokens(0..usize::from(!is_left_out));
            for limit in [-1, 0, alone - 1, alone, 1 << 40] {
                let exceeds = counter.clone().exceeds_alone(index, limit, || message);
                assert_eq!(exceeds, alone > limit, "{}: {alone} and {limit}", policy.preset);
            }
        }
    }

    #[test]
    fn a_counter_equals_a_new_count() {
        let mut messages = dsl::parse(
            "u1 \"a\"\na2 70c\n  call bash#c1 in={\"a\": 1}\nt3\n  result c1 out=333c done\nu4 11c\nu5 \"日本語 \u{fb1d}\"",
        );
        for preset in samples::all() {
            let policy = preset.policy();
            let mut counter = Counter::from_messages(&policy, &messages);
            check(&policy, &counter, &messages, &[0, 1, 2, 3, 4]);
            counter.leave_out(0);
            check(&policy, &counter, &messages, &[1, 2, 3, 4]);
            let shorter = dsl::parse("a2 7c\n  call bash#c1 in={\"a\": 1}").remove(0);
            counter.recount(1, &shorter);
            let longer = std::mem::replace(&mut messages[1], shorter);
            check(&policy, &counter, &messages, &[1, 2, 3, 4]);
            messages[1] = longer;
        }
    }

    #[test]
    fn a_list_far_above_a_limit_is_not_encoded() {
        let policy = samples::policy("suna@2026");
        let messages = dsl::parse("u1 \"a\"\na2 \"b\"\nu3 \"c\"");
        let mut counter = Counter::from_messages(&policy, &messages);
        assert!(counter.exceeds(50, |index| panic!("message {index} is counted")));
        assert!(counter.exceeds_alone(0, 10, || panic!("a message is counted")));
        assert!(counter.contributions.iter().all(|contribution| !contribution.is_exact()));
    }
}
