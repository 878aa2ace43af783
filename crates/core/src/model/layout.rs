//! Layouts: the messages of a view in their order, by revision, without the messages themselves.
//!
//! Every mark that changes the view stores the new layout beside it. To read a view at any revision, the store seeks
//! the layout that was active then and reads the messages that it names, however long the history is.

use super::Revision;
use super::compaction::RevisionRange;
use super::ids::CompactionId;

/// The messages of a view, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layout {
    /// The pieces of the view, in order. The last span is open-ended: new messages join it.
    pub spans: Vec<Span>,
    /// The messages that the active summary covers, if there is one.
    pub covered: Option<Covered>,
    /// The messages that marks omit from the view.
    pub omitted: Vec<Omitted>,
    /// Messages that no summary may cover, and their replacements, by revision, ascending.
    pub pinned: Vec<Revision>,
    /// Prune marks that were undone, by revision, ascending: a view does not apply them.
    pub undone_prunes: Vec<Revision>,
}

/// A piece of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Span {
    /// All inline messages whose revision is in `first..=last`; no `last` means that all later ones are included.
    Inline {
        /// First revision of the range.
        first: Revision,
        /// Last revision of the range.
        last: Option<Revision>,
    },
    /// One message that is shown here instead of at its own position.
    Placed {
        /// The message.
        revision: Revision,
        /// The reason for this position.
        placement: Placement,
    },
}

/// The reason for which a layout shows a message at a position that is not its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// It introduces the summary.
    Marker,
    /// It is the active summary.
    Summary,
    /// It is pinned, and the messages around it are covered.
    Pinned,
    /// The summary retains it, it is not pinned, and the messages around it are covered.
    Retained,
    /// It replaces the message with this revision: an edit, or the replay of a request.
    Edit(Revision),
    /// It is a continuation: it asks the model to go on after a compaction.
    Continuation,
}

/// The messages that the active summary covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Covered {
    /// The compaction.
    pub compaction: CompactionId,
    /// The mark that put the summary there.
    pub mark: Revision,
    /// The summary message.
    pub summary: Revision,
    /// The covered messages; pinned ones are shown nevertheless, and shown wins.
    pub ranges: Vec<RevisionRange>,
}

/// Messages that a mark omits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Omitted {
    /// The messages.
    pub range: RevisionRange,
    /// The mark that omits them.
    pub mark: Revision,
    /// The reason.
    pub reason: OmitReason,
}

/// The reason for which messages are omitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OmitReason {
    /// The conversation was rewound to a point before them.
    Rewound,
    /// A client edited them: another message replaces them, or none.
    Edited,
    /// A compaction omitted them so that the rest fits the window.
    Compacted,
    /// A replay without their media replaces them.
    Replayed,
}

impl Default for Span {
    fn default() -> Self {
        Self::Inline { first: 0, last: None }
    }
}

impl Layout {
    /// True if a view of this layout shows the message: at its own position, if its kind is inline, or at the position
    /// that the layout gives it.
    pub fn shows(&self, revision: Revision, is_inline: bool) -> bool {
        self.spans.iter().any(|span| match *span {
            Span::Inline { first, last } => is_inline && first <= revision && last.is_none_or(|last| revision <= last),
            Span::Placed { revision: placed, .. } => placed == revision,
        })
    }

    /// The layout of a session without marks: all inline messages, in order.
    pub fn everything() -> Self {
        Self { spans: vec![Span::default()], ..Self::default() }
    }
}
