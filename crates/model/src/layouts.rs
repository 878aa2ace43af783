//! Derivation of layouts from marks: the messages of a view once every rewind, edit, pin, undo and compaction is
//! applied.
//!
//! A layout is derived from marks alone, never from messages, so its cost does not grow with the history. A summary is
//! active as long as the conversation before its tail is the one that it was written from. Therefore the state of the
//! marks at the summary's base is compared with their state now, instead of the kinds of the marks in between.

use crate::Revision;
use crate::layout::Layout;
use crate::mark::Mark;

mod marks;
mod parts;
mod position;
mod reversal;
mod state;
mod summaries;
#[cfg(test)]
mod tests;

pub use marks::Marks;
pub use position::Position;
pub use reversal::{Redo, Reversal};

/// The layout that is active at revision `at`; later marks are ignored. `marks` are ascending by revision.
pub fn layout_at(marks: &[Mark], at: Revision) -> Layout {
    Marks::at(marks, at).into_layout()
}
