//! The newest state of sessions in the writer's memory, as the current transaction leaves it. It follows from the rows
//! alone; all of it is dropped when a transaction fails, because what the transaction wrote is in it.

use super::head::Head;
use super::layouts;
use crate::limits;
use crate::model::layouts::Marks;
use std::collections::HashMap;

/// The marks of a session's history, so that a rewrite reads none of the earlier ones.
pub(crate) struct SessionMarks {
    /// The marks, with what follows from them.
    pub(crate) marks: Marks,
    /// The rows of its own layouts to which the next one adds.
    pub(crate) rows: layouts::Rows,
}

/// The heads of sessions, and the marks of those that were rewritten.
#[derive(Default)]
pub(crate) struct Heads {
    sessions: HashMap<i64, (Head, Option<SessionMarks>)>,
    mark_count: usize,
}

impl Heads {
    /// The head of a session.
    pub(crate) fn get(&self, key: i64) -> Option<&Head> {
        self.sessions.get(&key).map(|(head, _)| head)
    }

    /// The head of a session, to be changed.
    pub(crate) fn get_mut(&mut self, key: i64) -> Option<&mut Head> {
        self.sessions.get_mut(&key).map(|(head, _)| head)
    }

    /// Adds the head of a session that is not there.
    pub(crate) fn insert(&mut self, key: i64, head: Head) {
        self.sessions.insert(key, (head, None));
    }

    /// The marks of a session.
    pub(crate) fn marks(&mut self, key: i64) -> Option<&mut SessionMarks> {
        self.sessions.get_mut(&key)?.1.as_mut()
    }

    /// Adds the marks of a session whose head is there.
    pub(crate) fn insert_marks(&mut self, key: i64, marks: SessionMarks) {
        if let Some((_, known)) = self.sessions.get_mut(&key) {
            self.mark_count += marks.marks.count();
            *known = Some(marks);
        }
    }

    /// Counts a mark that was added to a session.
    pub(crate) fn count_mark(&mut self) {
        self.mark_count += 1;
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Drops everything if it is too much.
    pub(crate) fn trim(&mut self) {
        if self.sessions.len() > limits::HEADS_MAX || self.mark_count > limits::MARKS_KEPT {
            self.clear();
        }
    }
}
