//! Layouts: which messages a view shows, and in which order, without reading any of them.
//!
//! Every mark that changes the picture stores the new layout beside it. A view at any revision is then one seek for the
//! layout in force and reads of what it names, however long the history behind it is.

use super::Revision;
use super::compaction::RevisionRange;
use super::ids::CompactionId;

/// Which messages a view shows, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layout {
    /// What the view is made of, in order. The last span is open-ended: new messages join it.
    pub spans: Vec<Span>,
    /// What stands under the live summary, if there is one.
    pub covered: Option<Covered>,
    /// What is left out of the view by a mark.
    pub omitted: Vec<Omitted>,
    /// Messages that no summary may cover, and what stands in their place, by revision, ascending.
    pub pinned: Vec<Revision>,
    /// Prune marks that were undone, by revision, ascending: a view does not apply them.
    pub undone_prunes: Vec<Revision>,
}

/// A piece of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Span {
    /// Every inline message whose revision lies in `first..=last`; no `last` means "and everything to come".
    Inline {
        /// First revision of the range.
        first: Revision,
        /// Last revision of the range.
        last: Option<Revision>,
    },
    /// One message that stands here rather than at its own place.
    Placed {
        /// The message.
        revision: Revision,
        /// Why it stands here.
        place: Place,
    },
}

/// Why a message stands where a layout puts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// It introduces the summary.
    Marker,
    /// It is the live summary.
    Summary,
    /// It is pinned, and what stood around it is covered.
    Pinned,
    /// The summary retains it, it is not pinned, and what stood around it is covered.
    Retained,
    /// It replaces the message with this revision: an edit, or the replay of a request.
    Edit(Revision),
    /// It asks the model to go on behind a compaction.
    Continuation,
}

/// What stands under the live summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Covered {
    /// The reduction.
    pub compaction: CompactionId,
    /// The mark that put the summary there.
    pub mark: Revision,
    /// The summary message.
    pub summary: Revision,
    /// The messages it stands for; pinned ones are shown all the same, and shown wins.
    pub ranges: Vec<RevisionRange>,
}

/// Messages that a mark leaves out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Omitted {
    /// The messages.
    pub range: RevisionRange,
    /// The mark that leaves them out.
    pub mark: Revision,
    /// Why.
    pub reason: OmitReason,
}

/// Why messages are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OmitReason {
    /// The conversation was rewound to a point before them.
    Rewound,
    /// A client edited them: another message stands in their place, or none.
    Edited,
    /// A reduction left them out to make the rest fit.
    Reduced,
    /// A replay without their media stands in their place.
    Replayed,
}

impl Default for Span {
    fn default() -> Self {
        Self::Inline { first: 0, last: None }
    }
}

impl Layout {
    /// Whether a view of this layout shows a message: at its own place, if that is where messages of its kind stand, or
    /// where the layout puts it.
    pub fn shows(&self, revision: Revision, is_inline: bool) -> bool {
        self.spans.iter().any(|span| match *span {
            Span::Inline { first, last } => is_inline && first <= revision && last.is_none_or(|last| revision <= last),
            Span::Placed { revision: placed, .. } => placed == revision,
        })
    }

    /// The layout of a session without marks: everything, in order.
    pub fn everything() -> Self {
        Self { spans: vec![Span::default()], ..Self::default() }
    }
}
