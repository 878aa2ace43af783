//! Where the message that an id names stands in the conversation.

use super::State;
use crate::model::Revision;
use crate::model::mark::{Mark, MarkBody};

/// Where a message stands, whichever of its ids names it.
///
/// What stands in another message's place, an edit or a replay, stands at that message's place. A summary and its marker
/// stand for all that is in front of their tail. Any other message stands where it came, also while it is covered,
/// pinned or left out by a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The first place that it stands for: a tail which begins with it begins here.
    pub first: Revision,
    /// The last place that it stands for: a conversation which ends with it ends here.
    pub last: Revision,
    /// The message that stands there now: the newest edit or the replay, where there is one.
    pub shown: Revision,
    /// The rewind that left it out of the conversation, if one did.
    pub left_by: Option<Revision>,
}

/// Where the message that came at `revision` stands in the conversation as it is at revision `at`. `marks` are ascending
/// by revision.
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
    let place = state.place(revision);
    let shown = state.edits.get(&place).and_then(|edit| edit.replacement).unwrap_or(place);
    Position { first: place, last: place, shown, left_by: state.rewound_by(place) }
}

/// The mark that pins what stands at a place, if one holds at revision `at`.
pub fn pin(marks: &[Mark], at: Revision, place: Revision) -> Option<Revision> {
    let state = State::at(marks, at);
    let pins = |mark: &&&Mark| matches!(mark.body, MarkBody::Pinned { target } if state.place(target) == place);
    state.live.iter().rev().find(pins).map(|mark| mark.revision)
}

impl State<'_> {
    /// The place of a message: for what stands in the place of another, that one's.
    pub(super) fn place(&self, revision: Revision) -> Revision {
        self.replacements.get(&revision).copied().unwrap_or(revision)
    }
}
