//! Derivation of layouts from marks: the messages of a view once every rewind, edit, pin, undo and compaction is
//! applied.
//!
//! A layout is derived from marks alone, never from messages, so its cost does not grow with the history. A summary is
//! active as long as the conversation before its tail is the one that it was written from. Therefore the state of the
//! marks at the summary's base is compared with their state now, instead of the kinds of the marks in between.

use crate::model::Revision;
use crate::model::compaction::RevisionRange;
use crate::model::layout::{Covered, Layout};
use crate::model::mark::Mark;
use std::collections::BTreeSet;

mod position;
mod reversal;
mod state;
#[cfg(test)]
mod tests;

pub use position::{Position, pin, position};
pub use reversal::{Redo, Reversal, newest_change, newest_undone};
use state::{State, newest_summary, spans, unchanged};

/// The layout that is active at revision `at`; later marks are ignored. `marks` are ascending by revision.
pub fn layout_at(marks: &[Mark], at: Revision) -> Layout {
    let state = State::at(marks, at);
    let summary = newest_summary(&state);
    let instead = |target: &Revision| state.edits.get(target).and_then(|edit| edit.replacement);
    let pinned: BTreeSet<Revision> =
        state.pinned.iter().copied().chain(state.pinned.iter().filter_map(instead)).collect();
    Layout {
        spans: spans(&state, summary.map(|(_, compacted)| compacted)),
        covered: summary.map(|(mark, compacted)| Covered {
            compaction: compacted.compaction,
            mark,
            summary: compacted.summary,
            ranges: compacted.covered.clone(),
        }),
        omitted: state.omitted(),
        pinned: pinned.into_iter().collect(),
        undone_prunes: state.undone_prunes,
    }
}

/// True if a summary that was written from the view at `base` may still be committed at revision `at`.
///
/// It may not if the conversation that it would cover was rewound, edited or restored since, or if another summary
/// became active or the one before it became inactive. Appends, pins and prunes do not matter. `covered` and
/// `tail_start` are those of the mark that would be made.
pub fn still_applies(
    marks: &[Mark],
    base: Revision,
    covered: &[RevisionRange],
    tail_start: Revision,
    at: Revision,
) -> bool {
    let (then, now) = (State::at(marks, base), State::at(marks, at));
    let summary = |state| newest_summary(state).map(|(mark, _)| mark);
    summary(&then) == summary(&now) && unchanged(&then, &now, covered, tail_start)
}
