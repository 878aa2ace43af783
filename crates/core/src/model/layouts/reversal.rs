//! Undo and redo: the mark that undoes the newest change of the view, and the mark that redoes it.
//!
//! Both are marks that undo an earlier mark: an undo names the mark of the change, a redo the mark of the undo, and an
//! undo of a redone change the mark of the redo. So every mark is undone at most once, and the active changes follow
//! from the marks alone.

use super::state::{State, is_valid};
use crate::model::Revision;
use crate::model::mark::{Mark, MarkBody};

/// A change of the view that can be undone or redone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reversal {
    /// The mark that made the change: a rewind, an edit, a prune or a compaction.
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

/// The change that an undo reverses: the newest change that is active at revision `at`. A compaction counts while its
/// summary is active; pins are removed by their own call.
pub fn newest_change(marks: &[Mark], at: Revision) -> Option<Reversal> {
    let state = State::at(marks, at);
    let undoable = |mark: &&Mark| {
        let (origin, depth) = origin(state.marks, mark)?;
        let is_active = match &origin.body {
            MarkBody::Compacted(compacted) => is_valid(compacted, &state),
            MarkBody::Pruned { .. } | MarkBody::Rewound { .. } | MarkBody::Edited { .. } => is_change(origin),
            MarkBody::Pinned { .. } | MarkBody::Undone { .. } => false,
        };
        (is_active && depth % 2 == 0).then_some(Reversal { change: origin.revision, target: mark.revision })
    };
    state.active.iter().rev().find_map(undoable)
}

/// The change that a redo restores at revision `at`: the change that was undone last, if no change was made since.
/// Appends and pins do not matter.
pub fn newest_undone(marks: &[Mark], at: Revision) -> Redo {
    let state = State::at(marks, at);
    let is_active = |mark: &Mark| state.active.binary_search_by_key(&mark.revision, |active| active.revision).is_ok();
    let mut overtaken_by = None;
    for mark in state.marks.iter().rev() {
        let Some((origin, depth)) = origin(state.marks, mark).filter(|(origin, _)| is_change(origin)) else { continue };
        if depth == 0 {
            overtaken_by = overtaken_by.or(Some(mark.revision));
        } else if depth % 2 == 1 && is_active(mark) {
            let found = Reversal { change: origin.revision, target: mark.revision };
            return overtaken_by.map_or(Redo::Possible(found), Redo::Overtaken);
        }
    }
    Redo::Nothing
}

/// True if the mark changes the content of a view of the conversation. The beginning of a fork does not.
fn is_change(mark: &Mark) -> bool {
    match mark.body {
        MarkBody::Rewound { of_fork, .. } => !of_fork,
        MarkBody::Compacted(_) | MarkBody::Pruned { .. } | MarkBody::Edited { .. } => true,
        MarkBody::Pinned { .. } | MarkBody::Undone { .. } => false,
    }
}

/// The mark at the end of a chain of undos, and the length of the chain: zero for a mark that undoes nothing, an odd
/// number if the chain undoes that mark, an even number if it redoes it. None for a mark that undoes a mark that does
/// not exist.
fn origin<'a>(marks: &'a [Mark], mark: &'a Mark) -> Option<(&'a Mark, usize)> {
    let (mut origin, mut depth) = (mark, 0);
    while let MarkBody::Undone { mark: target } = origin.body {
        let earlier = &marks[..marks.partition_point(|mark| mark.revision < origin.revision)];
        let found = earlier.binary_search_by_key(&target, |mark| mark.revision).ok()?;
        (origin, depth) = (&earlier[found], depth + 1);
    }
    Some((origin, depth))
}
