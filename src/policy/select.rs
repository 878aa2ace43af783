//! Boundary of a summary: the messages that are summarized, and the tail that stays beside the summary.

mod fraction;
mod last;
mod recent;
mod requests;
mod turns;

pub use fraction::{Fraction, FractionBoundary};
pub use last::Last;
pub use recent::{LargeResults, Recent};
pub use requests::Requests;
pub use turns::LastTurns;

use super::Policy;
use super::calls::{Calls, Unfinished};
use super::turns::starts_turn;
use crate::model::message::{FinishReason, Message, Role};
use crate::model::truncation::Removals;
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use serde::{Deserialize, Serialize};

/// The tail: messages kept verbatim beside a summary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Tail {
    /// No tail, apart from messages without an answer.
    Nothing {},
    /// No tail either, unless the history is shorter than the minimum: then all of it stays, without a summary.
    Whole {
        /// Minimum number of messages for a summary.
        minimum_messages: u32,
    },
    /// The last turns within a budget; a turn that does not fit is split between its messages.
    Turns(LastTurns),
    /// The newest messages whose tokens reach a budget; the tail does not begin with a tool result.
    Recent(Recent),
    /// The messages after a share of the history's characters.
    Fraction(Fraction),
    /// The last messages, by number.
    Last(Last),
    /// The newest requests, without the replies and results for them.
    Requests(Requests),
}

impl Tail {
    /// A tail of half the size, for a summary that did not free enough; none if it cannot be halved.
    pub fn smaller(&self) -> Option<Self> {
        match self {
            Self::Nothing {} | Self::Whole { .. } => None,
            Self::Turns(turns) => turns.smaller().map(Self::Turns),
            Self::Recent(recent) => recent.smaller().map(Self::Recent),
            Self::Fraction(fraction) => fraction.smaller().map(Self::Fraction),
            Self::Last(last) => last.smaller().map(Self::Last),
            Self::Requests(requests) => requests.smaller().map(Self::Requests),
        }
    }
}

/// The boundary of a summary.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// `messages[..head_end]` are summarized, the others stay; 0 if there is nothing to summarize.
    pub head_end: usize,
    /// The user message whose turn the boundary splits, if it splits one: `messages[split_turn_start..head_end]` is the
    /// front of the turn that continues in the tail.
    pub split_turn_start: Option<usize>,
    /// Indexes of summarized messages that a view still shows beside the summary; ascending.
    pub retained: Vec<usize>,
    /// The truncations of retained messages and of the tail.
    pub removals: Removals,
}

/// Chooses the boundary by the policy's tail, and moves it to the nearest safe position.
///
/// `messages` are the inline messages of a view: without its marker and its summary. A boundary is not safe if
///
/// - it would separate a result from its call. The boundary moves to the nearest earlier safe position, which keeps
///   more; if that would leave nothing to summarize, to the nearest later one;
/// - an open message, or a call that still runs, would be summarized; `calls` defines the end of a running call;
/// - something without a reply would be summarized: the last request, or results that the model has not read. OpenCode
///   summarizes these too if they do not fit, and a model would then have nothing to answer to.
///
/// Because of that, the tail may be larger than its budget.
pub fn select(policy: &Policy, tail: &Tail, window: &ModelWindow, messages: &[SourceMessage]) -> Selection {
    select_behind(policy, tail, window, None, messages)
}

/// The same with the active summary before the messages, for tails that measure it too.
pub fn select_behind(
    policy: &Policy,
    tail: &Tail,
    window: &ModelWindow,
    summary: Option<&SourceMessage>,
    messages: &[SourceMessage],
) -> Selection {
    let boundaries = SafeBoundaries::of(messages);
    let proposed = match tail {
        Tail::Nothing {} | Tail::Requests(_) => messages.len(),
        Tail::Whole { minimum_messages } if messages.len() < *minimum_messages as usize => 0,
        Tail::Whole { .. } => messages.len(),
        Tail::Turns(tail) => tail.boundary(policy, window, messages, &boundaries),
        Tail::Recent(tail) => tail.boundary(policy, messages),
        Tail::Fraction(tail) => tail.boundary(policy, summary, &messages[..read(messages)]),
        Tail::Last(tail) => tail.boundary(messages),
    };
    let head_end = boundaries.nearest(proposed);
    let (retained, shortened) = match tail {
        Tail::Recent(_) => (Recent::retained(&messages[..head_end]), Removals::default()),
        Tail::Requests(tail) => tail.retained(policy, messages, head_end),
        Tail::Nothing {} | Tail::Whole { .. } | Tail::Turns(_) | Tail::Fraction(_) | Tail::Last(_) => {
            Default::default()
        }
    };
    if retained.len() == head_end {
        return Selection::default();
    }
    Selection { head_end, split_turn_start: split_turn(messages, head_end), retained, removals: shortened }
}

/// Safe boundaries.
struct SafeBoundaries {
    /// For each boundary, true if it leaves every result with its call.
    safe: Vec<bool>,
    /// The last boundary that summarizes nothing unfinished.
    last: usize,
}

impl SafeBoundaries {
    fn of(messages: &[SourceMessage]) -> Self {
        let calls = Calls::of(messages);
        let last = last_boundary(messages, calls.unfinished(messages));
        Self { safe: safe_boundaries(&calls, messages.len()), last }
    }

    /// The nearest safe boundary: earlier rather than later, 0 if there is none.
    fn nearest(&self, proposed: usize) -> usize {
        let start = proposed.min(self.last);
        if start == 0 {
            return 0;
        }
        let earlier = (1..=start).rev().find(|&boundary| self.safe[boundary]);
        earlier.or_else(|| (start + 1..=self.last).find(|&boundary| self.safe[boundary])).unwrap_or(0)
    }
}

/// For each boundary from 0 to `count`, true if it leaves every result with its call.
fn safe_boundaries(calls: &Calls<'_>, count: usize) -> Vec<bool> {
    let mut change = vec![0_i64; count + 2];
    for (call, result) in answered(calls) {
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

/// The indexes of each answered call's message and of its result's message.
fn answered(calls: &Calls<'_>) -> impl Iterator<Item = (usize, usize)> {
    calls.iter().filter_map(|called| Some((called.index, called.answer?.index)))
}

/// The safe boundary nearest to a proposed one: earlier rather than later, 0 if there is none.
pub fn nearest_safe_boundary(messages: &[SourceMessage], proposed: usize) -> usize {
    SafeBoundaries::of(messages).nearest(proposed)
}

/// Messages that stay together or go together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The indexes of the messages.
    pub messages: std::ops::Range<usize>,
    /// True if they may go: none of them is open, running or unanswered.
    pub may_go: bool,
}

/// The messages in the smallest groups that keep every result with its call.
pub fn groups(messages: &[SourceMessage]) -> Vec<Group> {
    let boundaries = SafeBoundaries::of(messages);
    let mut start = 0;
    let ends = (1..=messages.len()).filter(|&end| boundaries.safe[end]);
    ends.map(|end| Group { messages: std::mem::replace(&mut start, end)..end, may_go: end <= boundaries.last })
        .collect()
}

/// The indexes of each answered call's message and of its result's message.
pub(super) fn answered_calls(messages: &[SourceMessage]) -> Vec<(usize, usize)> {
    answered(&Calls::of(messages)).collect()
}

/// The last boundary that summarizes no open message and no running call: the limit for a summary supplied by a client.
pub fn last_safe_boundary(messages: &[SourceMessage]) -> usize {
    settled(messages, Calls::of(messages).unfinished(messages))
}

/// Index of the first open message or running call, or the number of messages.
fn settled(messages: &[SourceMessage], calls: Unfinished) -> usize {
    let open = messages.iter().position(|source| source.message.sealed_revision.is_none());
    open.into_iter().chain(calls.running).fold(messages.len(), usize::min)
}

/// The last boundary that summarizes nothing open, running or unanswered.
fn last_boundary(messages: &[SourceMessage], calls: Unfinished) -> usize {
    // Messages after the last reply have no answer.
    let answered = messages.iter().rposition(|source| is_reply(&source.message)).map_or(0, |reply| reply + 1);
    answered.min(settled(messages, calls)).min(calls.unread.unwrap_or(messages.len()))
}

/// Number of messages that the model has read: all up to its last reply. If no model replies at all, every message
/// counts as read, since none will ever read the rest.
pub(super) fn read(messages: &[SourceMessage]) -> usize {
    let has_reply = || messages.iter().any(|source| source.message.role == Role::Assistant);
    let last = messages.iter().rposition(|source| is_reply(&source.message));
    last.map_or_else(|| if has_reply() { 0 } else { messages.len() }, |reply| reply + 1)
}

/// True for a reply of the model. A failed reply answers nothing: its request still has to be answered.
fn is_reply(message: &Message) -> bool {
    message.role == Role::Assistant
        && message.sealed_revision.is_some()
        && message.finish.reason != Some(FinishReason::Error)
}

/// Index of the first message of the turn that the boundary splits, if it splits one.
fn split_turn(messages: &[SourceMessage], head_end: usize) -> Option<usize> {
    let next = messages.get(head_end)?;
    if starts_turn(&next.message) {
        return None;
    }
    messages[..head_end].iter().rposition(|source| starts_turn(&source.message))
}

#[cfg(test)]
mod tests;
