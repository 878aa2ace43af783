//! Safe boundaries: positions in a list of messages that separate no call from its result.

use crate::model::message::{FinishReason, Message, Role};
use crate::model::view::SourceMessage;
use crate::policy::calls::{Calls, UnfinishedCalls};

pub(super) struct SafeBoundaries {
    /// For each boundary, true if it leaves every result with its call.
    pub(super) safe: Vec<bool>,
    /// The last boundary that summarizes nothing unfinished.
    pub(super) last: usize,
}

impl SafeBoundaries {
    pub(super) fn from_messages(messages: &[SourceMessage]) -> Self {
        let calls = Calls::from_messages(messages);
        let last = last_boundary(messages, calls.unfinished(messages));
        Self { safe: safe_boundaries(&calls, messages.len()), last }
    }

    /// The nearest safe boundary: earlier rather than later, 0 if there is none.
    pub(super) fn nearest(&self, proposed: usize) -> usize {
        let start = proposed.min(self.last);
        if start == 0 {
            return 0;
        }
        let earlier = (1..=start).rev().find(|&boundary| self.safe[boundary]);
        earlier.or_else(|| (start + 1..=self.last).find(|&boundary| self.safe[boundary])).unwrap_or(0)
    }
}

/// For each boundary from 0 to `count`, true if it leaves every result with its call.
pub(super) fn safe_boundaries(calls: &Calls<'_>, count: usize) -> Vec<bool> {
    let mut change = vec![0_i64; count + 2];
    for (call, result) in answered_calls(calls) {
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
pub fn answered_calls(calls: &Calls<'_>) -> impl Iterator<Item = (usize, usize)> {
    calls.iter().filter_map(|called| Some((called.index, called.answer?.index)))
}

/// The safe boundary nearest to a proposed one: earlier rather than later, 0 if there is none.
pub fn nearest_safe_boundary(messages: &[SourceMessage], proposed: usize) -> usize {
    SafeBoundaries::from_messages(messages).nearest(proposed)
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
    let boundaries = SafeBoundaries::from_messages(messages);
    let mut start = 0;
    let ends = (1..=messages.len()).filter(|&end| boundaries.safe[end]);
    ends.map(|end| Group { messages: std::mem::replace(&mut start, end)..end, may_go: end <= boundaries.last })
        .collect()
}

/// The last boundary that summarizes no open message and no running call: the limit for a summary supplied by a client.
pub fn last_safe_boundary(messages: &[SourceMessage]) -> usize {
    settled(messages, Calls::from_messages(messages).unfinished(messages))
}

/// The last boundary that summarizes no open message: the limit for a summary of a client that gave its calls up.
pub fn last_sealed_boundary(messages: &[SourceMessage]) -> usize {
    let open = messages.iter().position(|source| source.message.sealed_revision.is_none());
    open.unwrap_or(messages.len())
}

/// Index of the first open message or running call, or the number of messages.
fn settled(messages: &[SourceMessage], calls: UnfinishedCalls) -> usize {
    calls.running.into_iter().fold(last_sealed_boundary(messages), usize::min)
}

/// The last boundary that summarizes nothing open, running or unanswered.
fn last_boundary(messages: &[SourceMessage], calls: UnfinishedCalls) -> usize {
    // Messages after the last reply have no answer.
    let answered = messages.iter().rposition(|source| is_reply(&source.message)).map_or(0, |reply| reply + 1);
    answered.min(settled(messages, calls)).min(calls.unread.unwrap_or(messages.len()))
}

/// Number of messages that the model has read: all up to its last reply. If no model replies at all, every message
/// counts as read, since none will ever read the rest.
pub(in crate::policy) fn read(messages: &[SourceMessage]) -> usize {
    let has_reply = || messages.iter().any(|source| source.message.role == Role::Assistant);
    let last = messages.iter().rposition(|source| is_reply(&source.message));
    last.map_or_else(|| if has_reply() { 0 } else { messages.len() }, |reply| reply + 1)
}

/// True for a reply of the model. A failed reply answers nothing: its request still has to be answered.
pub(super) fn is_reply(message: &Message) -> bool {
    message.role == Role::Assistant
        && message.sealed_revision.is_some()
        && message.finish.reason != Some(FinishReason::Error)
}
