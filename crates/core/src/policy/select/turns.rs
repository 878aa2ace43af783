//! A tail: the last turns as long as they fit, then the end of the turn that does not fit, unless whole turns
//! are enough.

use super::boundaries::SafeBoundaries;
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use crate::policy::overflow::usable;
use crate::policy::tokens::RangeEstimate;
use crate::policy::turns::turns;
use crate::policy::{LastTurns, Policy};

impl LastTurns {
    /// If no turn fits, or all of them do, there is no tail, and everything is summarized.
    pub(super) fn boundary(
        &self,
        policy: &Policy,
        window: &ModelWindow,
        messages: &[SourceMessage],
        boundaries: &SafeBoundaries,
    ) -> usize {
        let budget = self.budget(policy, window);
        let turns = turns(messages);
        let mut total = 0_i64;
        let mut keep = None;
        for turn in turns.iter().rev().take(self.turns.map_or(usize::MAX, |turns| turns as usize)) {
            // Only messages that may stay are estimated, however long the history is.
            let estimates = RangeEstimate::from_messages(policy, &messages[turn.start..turn.end]);
            let length = turn.end - turn.start;
            let size = estimates.tokens(0..length);
            if total.saturating_add(size) <= budget {
                total += size;
                keep = Some(turn.start);
                continue;
            }
            // If results are messages of their own, a boundary before one would separate it from its call.
            let remaining = budget - total;
            let fits =
                |&start: &usize| boundaries.safe[turn.start + start] && estimates.tokens(start..length) <= remaining;
            let may_split = remaining > 0 && !(self.whole && total >= budget / 2);
            let split = (1..length).find(|start| may_split && fits(start));
            keep = split.map(|start| turn.start + start).or(keep);
            break;
        }
        match keep {
            Some(start) if start > 0 => start,
            _ => messages.len(),
        }
    }

    fn budget(&self, policy: &Policy, window: &ModelWindow) -> i64 {
        let share = (usable(policy, window) as f64 * self.budget_ratio).floor() as i64;
        share.max(self.minimum_budget_tokens).min(self.max_budget_tokens)
    }

    pub(super) fn smaller(&self) -> Option<Self> {
        (self.turns != Some(0) && self.max_budget_tokens >= 2).then(|| Self {
            budget_ratio: self.budget_ratio / 2.0,
            minimum_budget_tokens: self.minimum_budget_tokens / 2,
            max_budget_tokens: self.max_budget_tokens / 2,
            ..self.clone()
        })
    }
}
