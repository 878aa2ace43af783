//! The position in the conversation of a message that an id names.

use super::state::State;
use crate::model::Revision;
use crate::model::mark::{Mark, MarkBody};

/// The position of a message, by any of its ids.
///
/// A message that replaces another, an edit or a replay, has the position of that message. A summary and its marker
/// cover all positions before their tail. Any other message has the position at which it came, even while it is
/// covered, pinned or omitted by a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The first position that it covers: a tail that begins with it begins here.
    pub first: Revision,
    /// The last position that it covers: a conversation that ends with it ends here.
    pub last: Revision,
    /// The message that is shown there now: the newest edit or the replay, if there is one.
    pub shown: Revision,
    /// The rewind that removed it from the conversation, if one did.
    pub left_by: Option<Revision>,
}

/// The position, as of revision `at`, of the message that came at `revision`. `marks` are ascending by revision.
pub fn position(marks: &[Mark], at: Revision, revision: Revision) -> Position {
    let state = State::at(marks, at);
    let summary = state.marks.iter().find_map(|mark| match &mark.body {
        MarkBody::Compacted(mark) if mark.summary == revision || mark.marker == Some(revision) => Some(mark),
        MarkBody::Compacted(_)
        | MarkBody::Pruned { .. }
        | MarkBody::Rewound { .. }
        | MarkBody::Edited { .. }
        | MarkBody::Pinned { .. }
        | MarkBody::Undone { .. } => None,
    });
    if let Some(summary) = summary {
        return Position { first: 0, last: summary.tail_start - 1, shown: revision, left_by: None };
    }
    let position = state.position(revision);
    let shown = state.edits.get(&position).and_then(|edit| edit.replacement).unwrap_or(position);
    Position { first: position, last: position, shown, left_by: state.rewound_by(position) }
}

/// The mark that pins the message at a position, if one is active at revision `at`.
pub fn pin(marks: &[Mark], at: Revision, position: Revision) -> Option<Revision> {
    let state = State::at(marks, at);
    let pins = |mark: &&&Mark| matches!(mark.body, MarkBody::Pinned { target } if state.position(target) == position);
    state.active.iter().rev().find(pins).map(|mark| mark.revision)
}

impl State<'_> {
    /// The position of a message: for a replacement, the position of its target.
    pub(super) fn position(&self, revision: Revision) -> Revision {
        self.replacements.get(&revision).copied().unwrap_or(revision)
    }
}
