//! Undo and redo: the mark that undoes the newest change of the view, and the mark that redoes it.
//!
//! Both are marks that undo an earlier mark: an undo names the mark of the change, a redo the mark of the undo, and an
//! undo of a redone change the mark of the redo. So every mark is undone at most once, and the active changes follow
//! from the marks alone.

use super::marks::Marks;
use super::state::origin;
use crate::Revision;
use crate::mark::{Mark, MarkBody};

/// A change of the view that can be undone or redone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reversal {
    /// The mark that made the change: a rewind, an edit, a prune, a compaction, or one of words.
    pub change: Revision,
    /// The mark that must be undone for it.
    pub target: Revision,
}

/// The result of the search for a redo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redo {
    /// This change can be redone.
    Possible(Reversal),
    /// A change was undone, but other changes were made since on the result; the newest by this mark.
    Overtaken(Revision),
    /// No change is undone.
    Nothing,
}

impl Marks {
    /// The change that an undo reverses: the newest active change. A compaction counts while its summary is active; pins
    /// are removed by their own call.
    pub fn newest_change(&self) -> Option<Reversal> {
        let undoable = |mark: &&Mark| {
            let (origin, depth) = origin(&self.marks, mark)?;
            let is_active = match &origin.body {
                MarkBody::Compacted(_) => self.is_active(origin.revision),
                MarkBody::Pruned { .. }
                | MarkBody::Rewound { .. }
                | MarkBody::Edited { .. }
                | MarkBody::Words { .. } => is_change(origin),
                MarkBody::Pinned { .. } | MarkBody::Undone { .. } | MarkBody::Erased { .. } => false,
            };
            (is_active && depth % 2 == 0).then_some(Reversal { change: origin.revision, target: mark.revision })
        };
        self.marks.iter().rev().filter(|mark| !self.is_undone(mark)).find_map(|mark| undoable(&mark))
    }

    /// The change that a redo restores: the change that was undone last, if no change was made since. Appends, pins and
    /// marks of words do not matter.
    pub fn newest_undone(&self) -> Redo {
        let mut overtaken_by = None;
        for mark in self.marks.iter().rev() {
            let possible = |origin: &Mark| is_change(origin) && !self.is_erased(origin);
            let Some((origin, depth)) = origin(&self.marks, mark).filter(|(origin, _)| possible(origin)) else {
                continue;
            };
            if depth == 0 {
                // What becomes of words changes no view.
                let overtakes = !matches!(origin.body, MarkBody::Words { .. });
                overtaken_by = overtaken_by.or(overtakes.then_some(mark.revision));
            } else if depth % 2 == 1 && !self.is_undone(mark) {
                let found = Reversal { change: origin.revision, target: mark.revision };
                return overtaken_by.map_or(Redo::Possible(found), Redo::Overtaken);
            }
        }
        Redo::Nothing
    }

    /// True for the mark of a summary that was written from what is erased by now: it never becomes active again.
    fn is_erased(&self, mark: &Mark) -> bool {
        match &mark.body {
            MarkBody::Compacted(compacted) => self.state.has_erased_since(compacted.base, &compacted.covered),
            _ => false,
        }
    }

    fn is_undone(&self, mark: &Mark) -> bool {
        self.state.undone.contains_key(&mark.revision)
    }
}

/// True if the mark changes the content of a view of the conversation, now or with the next summary. The beginning of a
/// fork does not.
fn is_change(mark: &Mark) -> bool {
    match mark.body {
        MarkBody::Rewound { of_fork, .. } => !of_fork,
        MarkBody::Compacted(_) | MarkBody::Pruned { .. } | MarkBody::Edited { .. } | MarkBody::Words { .. } => true,
        MarkBody::Pinned { .. } | MarkBody::Undone { .. } | MarkBody::Erased { .. } => false,
    }
}
