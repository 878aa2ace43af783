//! The position in the conversation of a message that an id names.

use super::marks::Marks;
use crate::Revision;

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

impl Marks {
    /// The position of the message that came at a revision.
    pub fn position(&self, revision: Revision) -> Position {
        if let Some(tail_start) = self.state.tail_behind(revision) {
            return Position { first: 0, last: tail_start - 1, shown: revision, left_by: None };
        }
        let position = self.state.position(revision);
        let shown = self.state.shown_at(position).unwrap_or(position);
        Position { first: position, last: position, shown, left_by: self.state.rewound_by(position) }
    }

    /// The newest active mark that pins the message at a position.
    pub fn pin(&self, position: Revision) -> Option<Revision> {
        self.state.pin(position)
    }
}
