//! Where a compaction cuts: what is summarized, and what stays beside the summary.

use super::overflow::usable;
use super::tokens::{Weights, estimate_source};
use super::turns::{only_brings_results, starts_turn, turns};
use super::{Policy, Tail};
use crate::model::message::{FinishReason, Message, Role};
use crate::model::part::PartBody;
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use std::collections::HashMap;

/// Where a compaction cuts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Selection {
    /// `messages[..head_end]` are summarized, the others stay; 0 when there is nothing to summarize.
    pub head_end: usize,
    /// The user message whose turn the cut splits, if it splits one: `messages[split_turn_start..head_end]` is the
    /// front of the turn that goes on in the tail.
    pub split_turn_start: Option<usize>,
}

/// Chooses the cut by the policy's tail, and moves it to where it does no harm.
///
/// `messages` are the inline messages of a view: without its marker and its summary. The cut is never where
///
/// - a result would be parted from its call. It moves to the nearest earlier place, which keeps more; if that would
///   leave nothing to summarize, to the nearest later one;
/// - an open message, or a call that still runs, would be summarized. A call without a result runs until the model
///   speaks again after a request or a result;
/// - something that no reply has answered would be summarized: the last request, or results the model has not read.
///   OpenCode summarizes these too when they do not fit, and a model would then have nothing to answer to.
///
/// Because of that the tail may be larger than its budget.
pub fn select(policy: &Policy, window: &ModelWindow, messages: &[SourceMessage]) -> Selection {
    let cuts = Cuts::of(messages);
    let proposed = match policy.tail {
        Tail::Turns { turns, .. } => turns_cut(policy, window, turns, messages, &cuts),
        Tail::Recent { keep_tokens } => recent_cut(policy, keep_tokens, messages),
    };
    let head_end = cuts.nearest(proposed);
    Selection { head_end, split_turn_start: split_turn(messages, head_end) }
}

/// Where a cut may be.
struct Cuts {
    /// For each cut, whether it leaves every result with its call.
    safe: Vec<bool>,
    /// The last cut that summarizes nothing unfinished.
    last: usize,
}

impl Cuts {
    fn of(messages: &[SourceMessage]) -> Self {
        let pairs = Pairs::of(messages);
        let last = last_cut(messages, &pairs);
        Self { safe: pairs.safe_cuts(messages.len()), last }
    }

    /// The allowed cut that is nearest: earlier rather than later, 0 if there is none.
    fn nearest(&self, proposed: usize) -> usize {
        let start = proposed.min(self.last);
        if start == 0 {
            return 0;
        }
        let earlier = (1..=start).rev().find(|&cut| self.safe[cut]);
        earlier.or_else(|| (start + 1..=self.last).find(|&cut| self.safe[cut])).unwrap_or(0)
    }
}

/// Which message answers which call, by index. As in a view, a result answers the nearest earlier call with its id that
/// has no answer yet.
struct Pairs {
    /// Calls with their results.
    answered: Vec<(usize, usize)>,
    /// Messages with a call that has no result.
    unanswered: Vec<usize>,
}

impl Pairs {
    fn of(messages: &[SourceMessage]) -> Self {
        let mut waiting: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut answered = Vec::new();
        for (index, source) in messages.iter().enumerate() {
            for part in &source.message.parts {
                match &part.body {
                    PartBody::ToolCall(call) => waiting.entry(&call.call_id).or_default().push(index),
                    PartBody::ToolResult(result) => {
                        let call = waiting.get_mut(result.call_id.as_str()).and_then(Vec::pop);
                        answered.extend(call.map(|call| (call, index)));
                    }
                    PartBody::Text(_)
                    | PartBody::Reasoning(_)
                    | PartBody::Media(_)
                    | PartBody::Marker(_)
                    | PartBody::Step(_)
                    | PartBody::Opaque(_)
                    | PartBody::Record(_) => {}
                }
            }
        }
        Self { answered, unanswered: waiting.into_values().flatten().collect() }
    }

    /// For each cut from 0 to `count`, whether it leaves every result with its call.
    fn safe_cuts(&self, count: usize) -> Vec<bool> {
        let mut change = vec![0_i64; count + 2];
        for (call, result) in &self.answered {
            change[call + 1] += 1;
            change[result + 1] -= 1;
        }
        let mut crossed = 0;
        change[..=count]
            .iter()
            .map(|step| {
                crossed += step;
                crossed == 0
            })
            .collect()
    }
}

/// A tail of half the room, for a summary that did not free enough; none when there is nothing left to halve.
pub fn narrower(tail: &Tail) -> Option<Tail> {
    match *tail {
        Tail::Recent { keep_tokens } => (keep_tokens >= 2).then_some(Tail::Recent { keep_tokens: keep_tokens / 2 }),
        Tail::Turns { turns, budget_ratio, budget_min_tokens, budget_max_tokens } => {
            (turns > 0 && budget_max_tokens >= 2).then_some(Tail::Turns {
                turns,
                budget_ratio: budget_ratio / 2.0,
                budget_min_tokens: budget_min_tokens / 2,
                budget_max_tokens: budget_max_tokens / 2,
            })
        }
    }
}

/// The last cut that summarizes no message that is still being written, and no call that still runs: as far as a summary
/// may reach whoever writes it.
pub fn last_safe_cut(messages: &[SourceMessage]) -> usize {
    settled(messages, &Pairs::of(messages))
}

/// Where the first open message or running call stands, or the end.
fn settled(messages: &[SourceMessage], pairs: &Pairs) -> usize {
    let open = messages.iter().position(|source| source.message.sealed_revision.is_none());
    let heard = last_heard(messages);
    let running = pairs.unanswered.iter().copied().filter(|&call| heard.is_none_or(|heard| call > heard)).min();
    open.unwrap_or(messages.len()).min(running.unwrap_or(messages.len()))
}

/// The last cut that summarizes nothing open, running or unanswered.
fn last_cut(messages: &[SourceMessage], pairs: &Pairs) -> usize {
    // Behind the last reply comes only what nobody has answered.
    let answered = messages.iter().rposition(|source| is_reply(&source.message)).map_or(0, |reply| reply + 1);
    answered.min(settled(messages, pairs))
}

/// The last message that the model had heard when it last spoke; calls up to there run no more, answered or not.
fn last_heard(messages: &[SourceMessage]) -> Option<usize> {
    let spoken = messages.iter().rposition(|source| source.message.role == Role::Assistant).unwrap_or(0);
    messages[..spoken].iter().rposition(|source| {
        let message = &source.message;
        message.role != Role::Assistant || message.parts.iter().any(|part| matches!(part.body, PartBody::ToolResult(_)))
    })
}

/// Whether the model said something here. A failure answers nothing: what it should have answered is still to be done.
fn is_reply(message: &Message) -> bool {
    message.role == Role::Assistant
        && message.sealed_revision.is_some()
        && message.finish.reason != Some(FinishReason::Error)
}

/// OpenCode's choice: the last turns as long as they fit, then the end of the turn that does not.
///
/// When no turn fits, or all of them do, there is no tail, and everything is summarized.
fn turns_cut(policy: &Policy, window: &ModelWindow, limit: u32, messages: &[SourceMessage], cuts: &Cuts) -> usize {
    let budget = tail_budget(policy, window);
    let weights = Weights::of(policy, messages);
    let turns = turns(messages);
    let mut total = 0_i64;
    let mut keep = None;
    for turn in turns.iter().rev().take(limit as usize) {
        let size = weights.tokens(turn.start..turn.end);
        if total.saturating_add(size) <= budget {
            total += size;
            keep = Some(turn.start);
            continue;
        }
        // Where results are messages of their own, a cut before one would part it from its call; in OpenCode the two
        // are one message.
        let remaining = budget - total;
        let split = (turn.start + 1..turn.end)
            .find(|&start| remaining > 0 && cuts.safe[start] && weights.tokens(start..turn.end) <= remaining);
        keep = split.or(keep);
        break;
    }
    match keep {
        Some(start) if start > 0 => start,
        _ => messages.len(),
    }
}

/// The tokens that a tail of turns may have.
fn tail_budget(policy: &Policy, window: &ModelWindow) -> i64 {
    match policy.tail {
        Tail::Turns { budget_ratio, budget_min_tokens, budget_max_tokens, .. } => {
            let share = (usable(policy, window) as f64 * budget_ratio).floor() as i64;
            share.max(budget_min_tokens).min(budget_max_tokens)
        }
        Tail::Recent { keep_tokens } => keep_tokens,
    }
}

/// pi's choice: from the newest message back until the budget is reached, then forward to where a cut may be.
fn recent_cut(policy: &Policy, keep_tokens: i64, messages: &[SourceMessage]) -> usize {
    let points: Vec<usize> = (0..messages.len()).filter(|&index| is_cut_point(&messages[index].message)).collect();
    let (Some(&first), Some(&last)) = (points.first(), points.last()) else {
        return 0;
    };
    let mut kept = 0_i64;
    for (index, source) in messages.iter().enumerate().rev() {
        let tokens = estimate_source(policy, source);
        kept = kept.saturating_add(tokens);
        if tokens > 0 && kept >= keep_tokens {
            // Behind the budget there may be results only; then their call stays with them.
            return points.iter().copied().find(|&point| point >= index).unwrap_or(last);
        }
    }
    first
}

/// Whether pi cuts before such a message: somebody speaks in it.
fn is_cut_point(message: &Message) -> bool {
    match message.role {
        Role::User | Role::Assistant => !only_brings_results(message),
        Role::Tool | Role::System => false,
    }
}

/// The start of the turn that the cut splits, if it splits one.
fn split_turn(messages: &[SourceMessage], head_end: usize) -> Option<usize> {
    let next = messages.get(head_end)?;
    if starts_turn(&next.message) {
        return None;
    }
    messages[..head_end].iter().rposition(|source| starts_turn(&source.message))
}

#[cfg(test)]
mod tests;
