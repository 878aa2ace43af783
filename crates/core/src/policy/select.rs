//! Boundary of a summary: the messages that are summarized, and the tail that stays beside the summary.

mod boundaries;
mod fraction;
mod last;
mod recent;
mod requests;
mod turns;

pub(super) use boundaries::read;
pub use boundaries::{Group, answered_calls, groups, last_safe_boundary, last_sealed_boundary, nearest_safe_boundary};

use super::turns::starts_turn;
use super::{Policy, Recent, Tail};
use crate::model::truncation::Removals;
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use boundaries::SafeBoundaries;

impl Tail {
    /// A tail of half the size, for a summary that did not free enough; none if it cannot be halved.
    pub fn smaller(&self) -> Option<Self> {
        match self {
            Self::Nothing | Self::Whole { .. } => None,
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
/// - something without a reply would be summarized: the last request, or results that the model has not read: it would
///   then have nothing to answer to.
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
    let boundaries = SafeBoundaries::from_messages(messages);
    let proposed = match tail {
        Tail::Nothing | Tail::Requests(_) => messages.len(),
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
        Tail::Nothing | Tail::Whole { .. } | Tail::Turns(_) | Tail::Fraction(_) | Tail::Last(_) => Default::default(),
    };
    if retained.len() == head_end {
        return Selection::default();
    }
    Selection { head_end, split_turn_start: split_turn(messages, head_end), retained, removals: shortened }
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
