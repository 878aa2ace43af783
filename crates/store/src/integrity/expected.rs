//! What the log says must be in a store: its messages with the number of their parts, and the revisions of its sessions.

use crate::engine::Row;
use crate::error::Result;
use crate::ledger::codec;
use crate::model::Revision;
use crate::model::event::EventBody;
use crate::model::ids::MessageId;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;

pub(super) type RevisionKey = (i64, Revision);

/// A run of revisions of a session, and the number of rows that are missing in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) session: i64,
    pub(super) first: Revision,
    pub(super) last: Revision,
    pub(super) rows: i64,
}

/// The content of a store according to its log.
#[derive(Default)]
pub(super) struct ExpectedRows {
    /// Key and revision of each event, in their order.
    events: BTreeSet<RevisionKey>,
    /// Messages by the key of their session and their revision.
    messages: BTreeMap<RevisionKey, MessageId>,
    /// Places of the messages, with the parts that came with them.
    places: HashMap<MessageId, (RevisionKey, usize)>,
    /// Numbers of the parts that came later.
    closed: HashMap<MessageId, usize>,
}

impl ExpectedRows {
    /// Adds an event that only an index names.
    pub(super) fn add_place(&mut self, session: i64, revision: Revision) {
        self.events.insert((session, revision));
    }

    /// Adds an event: number, session, revision, kind, body.
    pub(super) fn add(&mut self, row: &Row) -> Result<()> {
        let place: RevisionKey = (row.get(1)?, row.get(2)?);
        self.events.insert(place);
        match codec::decode_event(row.get(3)?, row.get(4)?)? {
            EventBody::MessageAppended { message, part_count, .. } => {
                self.messages.insert(place, message);
                self.places.insert(message, (place, usize::try_from(part_count).unwrap_or(0)));
            }
            EventBody::PartsClosed { message, parts } => *self.closed.entry(message).or_default() += parts.len(),
            _ => {}
        }
        Ok(())
    }

    pub(super) fn revision_key(&self, message: MessageId) -> Option<RevisionKey> {
        self.places.get(&message).map(|(place, _)| *place)
    }

    /// The message that came at a revision of a session.
    pub(super) fn message_at(&self, place: RevisionKey) -> Option<MessageId> {
        self.messages.get(&place).copied()
    }

    pub(super) fn parts_of(&self, message: MessageId) -> Option<usize> {
        let (_, parts) = self.places.get(&message)?;
        Some(parts + self.closed.get(&message).copied().unwrap_or(0))
    }

    /// The keys of the sessions with events.
    pub(super) fn sessions(&self) -> BTreeSet<i64> {
        self.events.iter().map(|(session, _)| *session).collect()
    }

    /// The last revision of a session with an event.
    pub(super) fn last_revision(&self, session: i64) -> Option<Revision> {
        self.events.range((session, Revision::MIN)..=(session, Revision::MAX)).next_back().map(|(_, last)| *last)
    }

    /// The revisions of a session that have no event.
    pub(super) fn missing_events(&self, session: i64, revisions: RangeInclusive<Revision>) -> Vec<Run> {
        if revisions.is_empty() {
            return Vec::new();
        }
        let revisions_with_events = self.events.range((session, *revisions.start())..=(session, *revisions.end()));
        missing(revisions_with_events.map(|(_, revision)| *revision), revisions.clone())
            .into_iter()
            .map(|(first, last)| Run { session, first, last, rows: (last - first).saturating_add(1) })
            .collect()
    }

    /// The messages for which `is_there` is false. A run ends where a message of the session is there.
    pub(super) fn missing_messages(&self, is_there: impl Fn(MessageId, RevisionKey) -> bool) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let mut is_open = false;
        for (&(session, revision), &message) in &self.messages {
            if is_there(message, (session, revision)) {
                is_open = false;
                continue;
            }
            match runs.last_mut().filter(|run| is_open && run.session == session) {
                Some(run) => (run.last, run.rows) = (revision, run.rows + 1),
                None => runs.push(Run { session, first: revision, last: revision, rows: 1 }),
            }
            is_open = true;
        }
        runs
    }
}

/// The numbers of a range that are not among the known ones, which ascend, as ranges.
pub(super) fn missing(known: impl Iterator<Item = i64>, range: RangeInclusive<i64>) -> Vec<(i64, i64)> {
    let mut gaps = Vec::new();
    let mut next = *range.start();
    for number in known {
        if number > next {
            gaps.push((next, number - 1));
        }
        next = next.max(number.saturating_add(1));
    }
    if next <= *range.end() {
        gaps.push((next, *range.end()));
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn numbers_that_are_not_known_are_ranges() {
        for (known, expected) in [
            (vec![], vec![(3, 9)]),
            (vec![3, 4, 5, 6, 7, 8, 9], vec![]),
            (vec![4, 5, 8], vec![(3, 3), (6, 7), (9, 9)]),
            (vec![9], vec![(3, 8)]),
        ] {
            assert_eq!(missing(known.iter().copied(), 3..=9), expected, "{known:?}");
        }
    }

    #[test]
    fn missing_messages_are_runs_within_their_sessions() {
        let mut expected = ExpectedRows::default();
        let places = [(1, 2), (1, 3), (1, 5), (1, 6), (2, 1), (2, 2)];
        for (number, place) in (0..).zip(places) {
            expected.messages.insert(place, MessageId(Uuid::from_u128(number)));
        }
        let lost = [(1, 3), (1, 5), (2, 1), (2, 2)];
        let runs = expected.missing_messages(|_, place| !lost.contains(&place));
        let run = |session, first, last, rows| Run { session, first, last, rows };
        assert_eq!(runs, [run(1, 3, 5, 2), run(2, 1, 2, 2)]);
        let all = expected.missing_messages(|_, _| false);
        assert_eq!(all, [run(1, 2, 6, 4), run(2, 1, 2, 2)], "a run stays in its session");
    }
}
