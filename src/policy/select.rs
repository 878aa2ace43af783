//! Where a compaction cuts: what is summarized, and what stays beside the summary.

mod fraction;
mod last;
mod recent;
mod requests;
mod turns;

pub use fraction::{Fraction, FractionCut};
pub use last::Last;
pub use recent::{LargeResults, Recent};
pub use requests::Requests;
pub use turns::LastTurns;

use super::Policy;
use super::calls::{Calls, Unfinished};
use super::turns::starts_turn;
use crate::model::cut::Cuts;
use crate::model::message::{FinishReason, Message, Role};
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use serde::{Deserialize, Serialize};

/// What is kept verbatim beside a summary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Tail {
    /// Nothing, apart from what nobody has answered yet.
    Nothing {},
    /// Nothing either, unless the history is shorter than that: then all of it stays, and there is no summary.
    Whole {
        /// How many messages a summary must be worth.
        minimum_messages: u32,
    },
    /// The last turns, as many as fit a budget; a turn that does not fit is split between its messages.
    Turns(LastTurns),
    /// The newest messages whose tokens reach a budget, cut at a message that is no tool result.
    Recent(Recent),
    /// What stands behind a share of the history's characters.
    Fraction(Fraction),
    /// The last messages, by number.
    Last(Last),
    /// The newest requests, apart from what was done about them.
    Requests(Requests),
}

impl Tail {
    /// A tail of half the room, for a summary that did not free enough; none when there is nothing left to halve.
    pub fn narrower(&self) -> Option<Self> {
        match self {
            Self::Nothing {} | Self::Whole { .. } => None,
            Self::Turns(turns) => turns.narrower().map(Self::Turns),
            Self::Recent(recent) => recent.narrower().map(Self::Recent),
            Self::Fraction(fraction) => fraction.narrower().map(Self::Fraction),
            Self::Last(last) => last.narrower().map(Self::Last),
            Self::Requests(requests) => requests.narrower().map(Self::Requests),
        }
    }
}

/// Where a compaction cuts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// `messages[..head_end]` are summarized, the others stay; 0 when there is nothing to summarize.
    pub head_end: usize,
    /// The user message whose turn the cut splits, if it splits one: `messages[split_turn_start..head_end]` is the
    /// front of the turn that goes on in the tail.
    pub split_turn_start: Option<usize>,
    /// Messages among those that are summarized which a view shows all the same, beside the summary; ascending.
    pub retained: Vec<usize>,
    /// How retained messages and the tail are shortened.
    pub cuts: Cuts,
}

/// Chooses the cut by the policy's tail, and moves it to where it does no harm.
///
/// `messages` are the inline messages of a view: without its marker and its summary. The cut is never where
///
/// - a result would be parted from its call. It moves to the nearest earlier place, which keeps more; if that would
///   leave nothing to summarize, to the nearest later one;
/// - an open message, or a call that still runs, would be summarized; `calls` says until when one runs;
/// - something that no reply has answered would be summarized: the last request, or results the model has not read.
///   OpenCode summarizes these too when they do not fit, and a model would then have nothing to answer to.
///
/// Because of that the tail may be larger than its budget.
pub fn select(policy: &Policy, tail: &Tail, window: &ModelWindow, messages: &[SourceMessage]) -> Selection {
    select_behind(policy, tail, window, None, messages)
}

/// The same with the live summary that stands in front of the messages, for tails that measure it too.
pub fn select_behind(
    policy: &Policy,
    tail: &Tail,
    window: &ModelWindow,
    summary: Option<&SourceMessage>,
    messages: &[SourceMessage],
) -> Selection {
    let cuts = SafeCuts::of(messages);
    let proposed = match tail {
        Tail::Nothing {} | Tail::Requests(_) => messages.len(),
        Tail::Whole { minimum_messages } if messages.len() < *minimum_messages as usize => 0,
        Tail::Whole { .. } => messages.len(),
        Tail::Turns(tail) => tail.cut(policy, window, messages, &cuts),
        Tail::Recent(tail) => tail.cut(policy, messages),
        Tail::Fraction(tail) => tail.cut(policy, summary, &messages[..read(messages)]),
        Tail::Last(tail) => tail.cut(messages),
    };
    let head_end = cuts.nearest(proposed);
    let (retained, shortened) = match tail {
        Tail::Recent(_) => (Recent::retained(&messages[..head_end]), Cuts::default()),
        Tail::Requests(tail) => tail.retained(policy, messages, head_end),
        Tail::Nothing {} | Tail::Whole { .. } | Tail::Turns(_) | Tail::Fraction(_) | Tail::Last(_) => {
            Default::default()
        }
    };
    if retained.len() == head_end {
        return Selection::default();
    }
    Selection { head_end, split_turn_start: split_turn(messages, head_end), retained, cuts: shortened }
}

/// Where a cut may be.
struct SafeCuts {
    /// For each cut, whether it leaves every result with its call.
    safe: Vec<bool>,
    /// The last cut that summarizes nothing unfinished.
    last: usize,
}

impl SafeCuts {
    fn of(messages: &[SourceMessage]) -> Self {
        let calls = Calls::of(messages);
        let last = last_cut(messages, calls.unfinished(messages));
        Self { safe: safe_cuts(&calls, messages.len()), last }
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

/// For each cut from 0 to `count`, whether it leaves every result with its call.
fn safe_cuts(calls: &Calls<'_>, count: usize) -> Vec<bool> {
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

/// Which message answers a call of which, by index.
fn answered(calls: &Calls<'_>) -> impl Iterator<Item = (usize, usize)> {
    calls.iter().filter_map(|called| Some((called.index, called.answer?.index)))
}

/// The allowed cut nearest to a proposed one: earlier rather than later, 0 if there is none.
pub fn nearest_safe_cut(messages: &[SourceMessage], proposed: usize) -> usize {
    SafeCuts::of(messages).nearest(proposed)
}

/// Messages that stay together or go together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Which, by index.
    pub messages: std::ops::Range<usize>,
    /// Whether they may go: nothing in them is open, running or unanswered.
    pub may_go: bool,
}

/// The messages in the smallest groups that keep every result with its call.
pub fn groups(messages: &[SourceMessage]) -> Vec<Group> {
    let cuts = SafeCuts::of(messages);
    let mut start = 0;
    let ends = (1..=messages.len()).filter(|&end| cuts.safe[end]);
    ends.map(|end| Group { messages: std::mem::replace(&mut start, end)..end, may_go: end <= cuts.last }).collect()
}

/// Which message answers a call of which, by index: the call's first, then the result's.
pub(super) fn answered_calls(messages: &[SourceMessage]) -> Vec<(usize, usize)> {
    answered(&Calls::of(messages)).collect()
}

/// The last cut that summarizes no message that is still being written, and no call that still runs: as far as a summary
/// may reach whoever writes it.
pub fn last_safe_cut(messages: &[SourceMessage]) -> usize {
    settled(messages, Calls::of(messages).unfinished(messages))
}

/// Where the first open message or running call stands, or the end.
fn settled(messages: &[SourceMessage], calls: Unfinished) -> usize {
    let open = messages.iter().position(|source| source.message.sealed_revision.is_none());
    open.into_iter().chain(calls.running).fold(messages.len(), usize::min)
}

/// The last cut that summarizes nothing open, running or unanswered.
fn last_cut(messages: &[SourceMessage], calls: Unfinished) -> usize {
    // Behind the last reply comes only what nobody has answered.
    let answered = messages.iter().rposition(|source| is_reply(&source.message)).map_or(0, |reply| reply + 1);
    answered.min(settled(messages, calls)).min(calls.unread.unwrap_or(messages.len()))
}

/// How many messages the model has read: all up to its last reply. Where no model speaks at all, nobody will read what
/// is not read yet.
pub(super) fn read(messages: &[SourceMessage]) -> usize {
    let is_spoken = || messages.iter().any(|source| source.message.role == Role::Assistant);
    let last = messages.iter().rposition(|source| is_reply(&source.message));
    last.map_or_else(|| if is_spoken() { 0 } else { messages.len() }, |reply| reply + 1)
}

/// Whether the model said something here. A failure answers nothing: what it should have answered is still to be done.
fn is_reply(message: &Message) -> bool {
    message.role == Role::Assistant
        && message.sealed_revision.is_some()
        && message.finish.reason != Some(FinishReason::Error)
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
