//! Items: the lines that compete for room in a summary.

use super::text;
use crate::policy::Topic;

/// One line of a section, before it is known whether there is room for it.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// Where it belongs.
    pub(super) topic: Topic,
    /// What it says: one harmless line, without a bullet.
    pub(super) text: String,
    /// How much it matters beside the other items of its topic.
    pub(super) score: f64,
    /// Where it stands among them: ascending.
    pub(super) order: i64,
}

/// What stands first in its section.
pub(super) const ORDER_FIRST: i64 = i64::MIN / 2;

/// What stands last in its section.
pub(super) const ORDER_LAST: i64 = i64::MAX / 2;

impl Item {
    /// A line about something at message `at`.
    pub(super) fn new(topic: Topic, text: &str, score: f64, at: usize) -> Self {
        Self::placed(topic, text, score, i64::try_from(at).unwrap_or(ORDER_LAST))
    }

    /// A line with its place.
    pub(super) fn placed(topic: Topic, text: &str, score: f64, order: i64) -> Self {
        Self { topic, text: text::defuse(text), score, order }
    }
}
