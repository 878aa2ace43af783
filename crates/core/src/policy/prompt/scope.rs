//! The scope of a summary, and its sections.

use crate::policy::{Section, Summary};

/// The part of the history to summarize.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The history before the boundary.
    History,
    /// The front of the turn that the boundary splits, which has sections of its own.
    TurnFront,
}

/// The sections of the answer.
pub fn sections(rules: &Summary, scope: Scope) -> &[Section] {
    match scope {
        Scope::History => &rules.sections,
        Scope::TurnFront => rules.split_turn.as_ref().map_or(&rules.sections, |split_turn| &split_turn.sections),
    }
}
