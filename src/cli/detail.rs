//! How much sentences about events say.

use std::fmt::Display;

/// How much a sentence says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// For people who watch: without ids of messages, parts and compactions.
    Brief,
    /// With them.
    Full,
}

impl Detail {
    /// Words that only a full sentence has.
    pub(super) fn full(self, words: impl Display) -> String {
        self.full_or(words, "")
    }

    /// Words that only a full sentence has, and those of a brief one; empty for none.
    pub(super) fn full_or(self, words: impl Display, brief: &str) -> String {
        match self {
            Self::Brief if brief.is_empty() => String::new(),
            Self::Brief => format!(" {brief}"),
            Self::Full => format!(" {words}"),
        }
    }
}
