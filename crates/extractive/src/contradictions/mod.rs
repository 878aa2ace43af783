//! Claims of a summary that the history contradicts: a passed check that failed in its last run ([`checks`]), a commit
//! that does not exist ([`commits`]), a file that does not exist ([`files`]).
//!
//! A false positive is worse than a missed contradiction. A sentence is a claim only if it states one thing plainly: it
//! names a command, an id or a path, a word of success or existence is right beside the name, and nothing in the
//! sentence limits or dates it. Only an outcome beyond doubt contradicts a claim, and any later event that may have
//! changed it clears the claim; so does another sentence of the summary that states the true state.

mod checks;
mod commits;
mod files;
mod statements;

use longhand_core::model::compaction::Contradiction;
use statements::statements;

pub use statements::{CONTRADICTION_CHARS_MAX, Evidence};

/// Contradicted claims of one summary that are reported, since an event carries them.
pub const CONTRADICTIONS_MAX: usize = 24;

/// The claims of a summary that the evidence contradicts, each once, at most `CONTRADICTIONS_MAX`.
pub fn contradictions(evidence: &Evidence<'_>, summary: &str) -> Vec<Contradiction> {
    let statements = statements(summary);
    let mut found = checks::contradicted(evidence, &statements);
    found.extend(commits::contradicted(evidence, &statements));
    found.extend(files::contradicted(evidence, &statements));
    found.truncate(CONTRADICTIONS_MAX);
    found
}
