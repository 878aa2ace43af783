//! The marks of rewritten sessions in the writer's memory, so that a rewrite reads none of the earlier ones.

use super::layouts;
use crate::limits;
use crate::model::layouts::Marks;
use std::collections::HashMap;

/// The marks of a session's history.
pub(crate) struct SessionMarks {
    /// The marks, with what follows from them.
    pub(crate) marks: Marks,
    /// The rows of its own layouts to which the next one adds.
    pub(crate) rows: layouts::Rows,
}

/// The marks of sessions, as they are in the current transaction. They follow from the rows alone, and are dropped with
/// the heads when a transaction fails.
#[derive(Default)]
pub(crate) struct MarkCache {
    sessions: HashMap<i64, SessionMarks>,
    count: usize,
}

impl MarkCache {
    /// The marks of a session, if they are in memory.
    pub(crate) fn get(&mut self, key: i64) -> Option<&mut SessionMarks> {
        self.sessions.get_mut(&key)
    }

    /// Keeps the marks of a session.
    pub(crate) fn insert(&mut self, key: i64, known: SessionMarks) {
        self.count += 1 + known.marks.count();
        self.sessions.insert(key, known);
    }

    /// Counts a mark that was added to a session.
    pub(crate) fn count_added(&mut self) {
        self.count += 1;
    }

    /// Drops all marks.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Drops all marks if they are too many.
    pub(crate) fn trim(&mut self) {
        if self.count > limits::MARKS_KEPT {
            self.clear();
        }
    }
}
