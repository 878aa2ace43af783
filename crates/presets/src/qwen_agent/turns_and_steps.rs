//! Removes as little as needed, from the oldest turn on: whole turns, then results, then steps between the first and
//! the last, then the results of the last step, then texts.
//!
//! Qwen-Agent does this since 0.0.30. A step is text and calls of the model with the results of the calls.

use super::items::{Items, Kind, Treatment};
use super::parameters::TurnsAndSteps;
use crate::model::truncation::Removals;
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use crate::policy::strategy::{OmissionBound, OmissionStrategy, Parameters};
use crate::policy::{Policy, overflow};
use std::ops::Range;

impl Parameters for TurnsAndSteps {
    const NAME: &'static str = "turns_and_steps";
}

impl OmissionStrategy for TurnsAndSteps {
    fn removals(&self, policy: &Policy, window: &ModelWindow, messages: &[SourceMessage]) -> Removals {
        removals(policy, window, messages)
    }

    fn bound(&self) -> OmissionBound {
        OmissionBound::Limit(1.0)
    }
}

/// Brings the messages within the limit of the policy's main level.
fn removals(policy: &Policy, window: &ModelWindow, messages: &[SourceMessage]) -> Removals {
    let items = Items::from_messages(policy, messages);
    let room = overflow::message_room(policy, window, items.instructions);
    // If the system messages alone fill the window, no truncation of the conversation helps.
    if room <= 0 {
        return Removals::default();
    }
    let mut shortener = ItemShortener::new(&items, items.tokens().saturating_sub(room));
    let turns = shortener.turns();
    for (index, turn) in turns.iter().enumerate() {
        if shortener.exceedance <= 0 {
            break;
        }
        shortener.turn(turn.clone(), index + 1 == turns.len());
    }
    items.removals(&shortener.treatments)
}

/// The state of a compaction in progress.
struct ItemShortener<'a> {
    items: &'a Items<'a>,
    /// Remaining tokens of each item.
    tokens: Vec<i64>,
    treatments: Vec<Treatment>,
    /// Number of tokens above the limit.
    exceedance: i64,
}

impl<'a> ItemShortener<'a> {
    fn new(items: &'a Items<'a>, exceedance: i64) -> Self {
        let tokens = items.list.iter().map(|item| item.tokens).collect();
        Self { items, tokens, treatments: vec![Treatment::Stays; items.list.len()], exceedance }
    }

    /// The turns; the items before the first request are one too.
    fn turns(&self) -> Vec<Range<usize>> {
        let list = &self.items.list;
        self.runs(0..list.len(), |index| self.items.starts_turn(&list[index]))
    }

    /// The request, and each run of text and calls of the model with the results after it.
    fn steps(&self, turn: Range<usize>) -> Vec<Range<usize>> {
        let kind = |index: usize| match self.items.list[index].kind {
            Kind::Request => 0,
            Kind::Reply | Kind::Call => 1,
            Kind::Result => 2,
        };
        self.runs(turn, |index| kind(index) < 2 && kind(index) != kind(index - 1))
    }

    /// Splits a range into pieces, each of which starts at an index for which `begins` is true.
    fn runs(&self, range: Range<usize>, begins: impl Fn(usize) -> bool) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for index in range {
            match runs.last_mut() {
                Some(run) if !begins(index) => run.end = index + 1,
                Some(_) | None => runs.push(index..index + 1),
            }
        }
        runs
    }

    fn tokens_of(&self, range: Range<usize>) -> i64 {
        self.tokens[range].iter().copied().fold(0, i64::saturating_add)
    }

    fn turn(&mut self, turn: Range<usize>, is_last: bool) {
        let all = self.tokens_of(turn.clone());
        if all <= self.exceedance {
            self.leave_out(turn);
            self.exceedance -= all;
            return;
        }
        if turn.len() == 1 {
            self.shorten(turn.start);
            return;
        }
        let steps = self.steps(turn.clone());
        let [first, .., last] = steps.as_slice() else {
            return self.whole_step(turn);
        };
        let old = if is_last { turn.start..last.start } else { turn };
        for index in self.results(old) {
            if self.exceedance > 0 {
                self.squeeze(index);
            }
        }
        for step in &steps[1..steps.len() - 1] {
            if self.exceedance > 0 {
                let step_tokens = self.tokens_of(step.clone());
                self.leave_out(step.clone());
                self.exceedance = (self.exceedance - step_tokens).max(0);
            }
        }
        if self.exceedance > 0 {
            self.last_step(last.clone(), &[first.clone(), last.clone()]);
        }
    }

    /// Handles a turn that is one step, without text or calls of a model after the request.
    fn whole_step(&mut self, turn: Range<usize>) {
        self.last_step(turn.clone(), &[turn]);
    }

    /// Squeezes the results of the last step, and if that is not enough, the rest of the first and the last step.
    fn last_step(&mut self, last: Range<usize>, left: &[Range<usize>]) {
        for index in self.results(last) {
            self.squeeze(index);
        }
        if self.exceedance > 0 {
            self.squeeze_words(left);
        }
        // Nothing more can be removed here; the later turns stay whole.
        self.exceedance = 0;
    }

    /// Squeezes items up to and including the first one that is truncated. As in the original, if the items before it
    /// free exactly enough, that item is truncated to its own estimate: the estimate ignores blanks at the ends of a
    /// text, the truncation counts them.
    fn squeeze_words(&mut self, left: &[Range<usize>]) {
        for index in left.iter().cloned().flatten() {
            let is_truncated = self.tokens[index] > self.exceedance;
            if is_truncated && self.exceedance == 0 && self.items.list[index].kind == Kind::Call {
                return;
            }
            self.squeeze(index);
            if is_truncated {
                return;
            }
        }
    }

    fn results(&self, range: Range<usize>) -> Vec<usize> {
        range.filter(|&index| self.items.list[index].kind == Kind::Result).collect()
    }

    fn leave_out(&mut self, range: Range<usize>) {
        self.treatments[range].fill(Treatment::Goes);
    }

    /// Truncates an item by the tokens above the limit, or replaces it by the placeholder if it has no more than that.
    fn squeeze(&mut self, index: usize) {
        if self.tokens[index] > self.exceedance {
            self.shorten(index);
            return;
        }
        self.treatments[index] = Treatment::Placeholder;
        // An item that is the placeholder already frees nothing until its step is left out.
        if !self.items.is_gone(&self.items.list[index]) {
            self.exceedance -= std::mem::take(&mut self.tokens[index]);
        }
    }

    fn shorten(&mut self, index: usize) {
        self.treatments[index] = Treatment::BothSides(self.tokens[index] - self.exceedance);
        self.exceedance = 0;
    }
}

#[cfg(test)]
mod tests;
