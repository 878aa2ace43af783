//! Undo and redo: which mark takes back the newest change of the picture, and which brings it back.
//!
//! Both are marks that take back an earlier mark: an undo that of the change, a redo that of the undo, an undo of what
//! was brought back that of the redo. So every mark is taken back once at most, and what holds follows from the marks
//! alone.

use super::{State, stands};
use crate::model::Revision;
use crate::model::mark::{Mark, MarkBody};

/// A change of the picture that can be taken back or brought back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reversal {
    /// The mark that made the change: a rewind, an edit, a prune or a compaction.
    pub change: Revision,
    /// The mark that has to be taken back for it.
    pub target: Revision,
}

/// What a redo finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redo {
    /// This can be brought back.
    Possible(Reversal),
    /// Something was taken back, but changes were made since on what the undo left; the newest by this mark.
    Overtaken(Revision),
    /// Nothing is taken back.
    Nothing,
}

/// What an undo takes back: the newest change that is in force at revision `at`. A compaction counts while its summary
/// stands; pins have their own way back.
pub fn newest_change(marks: &[Mark], at: Revision) -> Option<Reversal> {
    let state = State::at(marks, at);
    let undoable = |mark: &&Mark| {
        let (origin, depth) = origin(state.marks, mark)?;
        let in_force = match &origin.body {
            MarkBody::Compacted(compacted) => stands(compacted, &state),
            MarkBody::Pruned { .. } | MarkBody::Rewound { .. } | MarkBody::Edited { .. } => is_change(origin),
            MarkBody::Pinned { .. } | MarkBody::Undone { .. } => false,
        };
        (in_force && depth % 2 == 0).then_some(Reversal { change: origin.revision, target: mark.revision })
    };
    state.live.iter().rev().find_map(undoable)
}

/// What a redo brings back at revision `at`: what was taken back last, as long as no change was made since. Appends and
/// pins do not matter.
pub fn newest_undone(marks: &[Mark], at: Revision) -> Redo {
    let state = State::at(marks, at);
    let is_live = |mark: &Mark| state.live.binary_search_by_key(&mark.revision, |live| live.revision).is_ok();
    let mut overtaken_by = None;
    for mark in state.marks.iter().rev() {
        let Some((origin, depth)) = origin(state.marks, mark).filter(|(origin, _)| is_change(origin)) else { continue };
        if depth == 0 {
            overtaken_by = overtaken_by.or(Some(mark.revision));
        } else if depth % 2 == 1 && is_live(mark) {
            let found = Reversal { change: origin.revision, target: mark.revision };
            return overtaken_by.map_or(Redo::Possible(found), Redo::Overtaken);
        }
    }
    Redo::Nothing
}

/// Whether a mark changes what a view shows of the conversation. Where a fork begins is no change of it.
fn is_change(mark: &Mark) -> bool {
    match mark.body {
        MarkBody::Rewound { of_fork, .. } => !of_fork,
        MarkBody::Compacted(_) | MarkBody::Pruned { .. } | MarkBody::Edited { .. } => true,
        MarkBody::Pinned { .. } | MarkBody::Undone { .. } => false,
    }
}

/// The mark that a mark takes back or brings back in the end, and how many marks that takes: none for the mark itself,
/// an odd number for what takes it back, an even one for what brings it back. None for one that takes back nothing.
fn origin<'a>(marks: &'a [Mark], mark: &'a Mark) -> Option<(&'a Mark, usize)> {
    let (mut origin, mut depth) = (mark, 0);
    while let MarkBody::Undone { mark: target } = origin.body {
        let earlier = &marks[..marks.partition_point(|mark| mark.revision < origin.revision)];
        let found = earlier.binary_search_by_key(&target, |mark| mark.revision).ok()?;
        (origin, depth) = (&earlier[found], depth + 1);
    }
    Some((origin, depth))
}
