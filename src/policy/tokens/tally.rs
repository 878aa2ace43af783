//! A token counter for messages that is updated while they are truncated and omitted.

use super::{Counting, addend, list_tokens, source_units};
use crate::model::view::SourceMessage;
use crate::policy::Policy;

/// The current units of each message of a list, and their sum.
#[derive(Debug, Clone)]
pub struct Tally<'a> {
    policy: &'a Policy,
    weights: Vec<i64>,
    sum: i64,
}

impl<'a> Tally<'a> {
    /// Counts stored messages as a view will show them.
    pub fn of(policy: &'a Policy, messages: &[SourceMessage]) -> Self {
        let weights: Vec<i64> = messages.iter().map(|message| weigh(policy, message)).collect();
        let sum = weights.iter().copied().fold(0, i64::saturating_add);
        Self { policy, weights, sum }
    }

    /// The tokens of all remaining messages.
    pub fn tokens(&self) -> i64 {
        list_tokens(self.counting(), self.sum)
    }

    /// The tokens of one message, as a list of its own.
    pub fn alone(&self, index: usize) -> i64 {
        self.weights.get(index).map_or(0, |weight| list_tokens(self.counting(), *weight))
    }

    /// Counts a message again.
    pub fn recount(&mut self, index: usize, message: &SourceMessage) {
        self.set(index, weigh(self.policy, message));
    }

    /// Removes a message from the count.
    pub fn leave_out(&mut self, index: usize) {
        self.set(index, 0);
    }

    fn set(&mut self, index: usize, weight: i64) {
        if let Some(place) = self.weights.get_mut(index) {
            self.sum = self.sum.saturating_sub(*place).saturating_add(weight);
            *place = weight;
        }
    }

    fn counting(&self) -> &Counting {
        &self.policy.counting
    }
}

fn weigh(policy: &Policy, message: &SourceMessage) -> i64 {
    addend(&policy.counting, source_units(policy, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::tokens::Weights;
    use crate::policy::{dsl, presets};

    #[test]
    fn a_tally_stays_what_counting_again_would_give() {
        let mut messages =
            dsl::parse("u1 \"a\"\na2 70c\n  call bash#c1 in={\"a\": 1}\nt3\n  result c1 out=333c done\nu4 11c");
        for preset in presets::all() {
            let policy = preset.policy();
            let all = |messages: &[SourceMessage]| Weights::of(&policy, messages).tokens(0..messages.len());
            let mut tally = Tally::of(&policy, &messages);
            assert_eq!(tally.tokens(), all(&messages), "{}", preset.name);
            assert_eq!(tally.alone(2), all(&messages[2..3]), "{}", preset.name);
            tally.leave_out(0);
            assert_eq!(tally.tokens(), all(&messages[1..]), "{}", preset.name);
            let shorter = dsl::parse("a2 7c\n  call bash#c1 in={\"a\": 1}").remove(0);
            tally.recount(1, &shorter);
            let longer = std::mem::replace(&mut messages[1], shorter);
            assert_eq!(tally.tokens(), all(&messages[1..]), "{}", preset.name);
            messages[1] = longer;
        }
    }
}
