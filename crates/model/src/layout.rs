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
    pub covered: Option<CoveredHistory>,
    /// The messages that marks omit from the view.
    pub omitted: Vec<OmittedHistory>,
    /// Messages that no summary may cover: the pinned ones and those that replace them, by revision, ascending.
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
    /// It has a provider's own compaction, and stands for what came before it in the form of a view for that provider
    /// (`fold::form`). No layout says so.
    Block,
}

/// The messages that the active summary covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoveredHistory {
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
pub struct OmittedHistory {
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

/// A change of a list: `inserted` replaces `removed` items from `start` on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Splice<T> {
    /// Index of the first item that changes.
    pub start: usize,
    /// The number of items that go.
    pub removed: usize,
    /// The items that come.
    pub inserted: Vec<T>,
}

impl<T: Clone + PartialEq> Splice<T> {
    /// The difference between two lists; none if they are equal.
    pub fn between(before: &[T], after: &[T]) -> Option<Self> {
        let start = before.iter().zip(after).take_while(|(before, after)| before == after).count();
        let (before, after) = (&before[start..], &after[start..]);
        let behind = before.iter().rev().zip(after.iter().rev()).take_while(|(before, after)| before == after);
        let behind = behind.count();
        let (removed, inserted) = (before.len() - behind, after[..after.len() - behind].to_vec());
        let is_change = removed > 0 || !inserted.is_empty();
        is_change.then_some(Self { start, removed, inserted })
    }

    /// Changes a list that has all removed items.
    pub fn apply(&self, list: &mut Vec<T>) {
        list.splice(self.start..self.start + self.removed, self.inserted.iter().cloned());
    }
}

/// The difference between two layouts. The splices of a list apply one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LayoutChange {
    /// Changes of the spans.
    pub spans: Vec<Splice<Span>>,
    /// The new messages under a summary, if they changed; none without a summary.
    pub covered: Option<Option<CoveredHistory>>,
    /// Changes of the omissions.
    pub omitted: Vec<Splice<OmittedHistory>>,
    /// Changes of the pinned messages.
    pub pinned: Vec<Splice<Revision>>,
    /// Changes of the undone prunes.
    pub undone_prunes: Vec<Splice<Revision>>,
}

impl LayoutChange {
    /// The difference between two layouts, found by comparing all of both.
    pub fn between(before: &Layout, after: &Layout) -> Self {
        Self {
            spans: Splice::between(&before.spans, &after.spans).into_iter().collect(),
            covered: (before.covered != after.covered).then(|| after.covered.clone()),
            omitted: Splice::between(&before.omitted, &after.omitted).into_iter().collect(),
            pinned: Splice::between(&before.pinned, &after.pinned).into_iter().collect(),
            undone_prunes: Splice::between(&before.undone_prunes, &after.undone_prunes).into_iter().collect(),
        }
    }

    /// True if both layouts are the same.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
