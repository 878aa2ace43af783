//! The newest events of the log, in memory and shared by all streams: while a stream follows the log closely, no event
//! is read from the database or decoded once for each of them.

use super::codec;
use super::read_messages::ReadMessages;
use super::shared_event::SharedEvent;
use crate::error::Result;
use crate::limits;
use crate::model::event::{Event, EventKind};
use crate::model::ids::SessionId;
use crate::model::time::Timestamp;
use crate::model::{Revision, Seq};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Bytes of an encoded event besides its texts, and of its cursor.
const ENCODED_FIELDS_BYTES: usize = 384;

pub(crate) struct EventRow {
    pub(crate) seq: Seq,
    pub(crate) session: i64,
    pub(crate) session_id: SessionId,
    pub(crate) revision: Revision,
    pub(crate) kind: EventKind,
    pub(crate) ends_mutation: bool,
    pub(crate) time: Timestamp,
    pub(crate) actor: String,
    pub(crate) request_id: String,
    pub(crate) body: Vec<u8>,
    pub(crate) digest: [u8; 32],
    pub(crate) hash: [u8; 32],
}

impl EventRow {
    /// Bytes of memory, with the decoded event and what its readers make of it.
    fn bytes(&self) -> usize {
        let texts = self.actor.len() + self.request_id.len() + self.body.len();
        size_of::<Entry>() + size_of::<SharedEvent>() + ENCODED_FIELDS_BYTES + 3 * texts
    }

    fn decode(&self) -> Result<Event> {
        Ok(Event {
            seq: self.seq,
            session_id: self.session_id,
            revision: self.revision,
            ends_mutation: self.ends_mutation,
            time: self.time,
            actor: self.actor.clone(),
            request_id: self.request_id.clone(),
            body: codec::decode_event(self.kind as i32, &self.body).map_err(|error| error.in_row(self.seq))?,
            hash: self.hash,
        })
    }
}

/// A committed event. The first reader decodes it.
struct Entry {
    row: EventRow,
    event: OnceLock<Arc<SharedEvent>>,
}

impl Entry {
    fn event(&self) -> Result<Arc<SharedEvent>> {
        if let Some(event) = self.event.get() {
            return Ok(Arc::clone(event));
        }
        let event = Arc::new(SharedEvent::from(self.row.decode()?));
        Ok(Arc::clone(self.event.get_or_init(|| event)))
    }
}

/// Events of consecutive numbers, the newest last.
#[derive(Default)]
struct RingEntries {
    entries: VecDeque<Arc<Entry>>,
    bytes: usize,
}

impl RingEntries {
    /// The index of the first event after a number; none if that event is no longer here.
    fn index_after(&self, after: Seq) -> Option<usize> {
        usize::try_from(after + 1 - self.entries.front()?.row.seq).ok()
    }

    fn push(&mut self, row: EventRow) {
        if self.entries.back().is_some_and(|last| last.row.seq + 1 != row.seq) {
            *self = Self::default();
        }
        self.bytes += row.bytes();
        self.entries.push_back(Arc::new(Entry { row, event: OnceLock::new() }));
        while self.bytes > limits::RING_BYTES || self.entries.len() > limits::RING_EVENTS {
            let Some(oldest) = self.entries.pop_front() else { return };
            self.bytes -= oldest.row.bytes();
        }
    }
}

/// Events, each with the key of its session.
pub(crate) type KeyedEvents = Vec<(i64, Arc<SharedEvent>)>;

/// The newest committed events, bounded in number and bytes, and messages of theirs that were read.
#[derive(Default)]
pub(crate) struct Ring {
    newest: RwLock<RingEntries>,
    pub(crate) messages: ReadMessages,
}

impl Ring {
    /// Adds events that were committed.
    pub(crate) fn committed(&self, rows: Vec<EventRow>) {
        let mut ring = self.entries_mut();
        rows.into_iter().for_each(|row| ring.push(row));
    }

    /// Drops everything: some may have what is erased by now.
    pub(crate) fn forget(&self) {
        *self.entries_mut() = RingEntries::default();
        self.messages.forget();
    }

    /// The first events of admitted sessions, with the keys of these, after `after` and up to `head`; none if the ring
    /// does not reach back that far.
    pub(crate) fn events(
        &self,
        admits: impl Fn(i64) -> bool,
        (after, head): (Seq, Seq),
        limit: usize,
    ) -> Result<Option<KeyedEvents>> {
        let entries: Vec<Arc<Entry>> = {
            let ring = self.entries();
            let Some(index) = ring.index_after(after) else { return Ok(None) };
            let newer = ring.entries.range(index.min(ring.entries.len())..);
            let newer = newer.take_while(|entry| entry.row.seq <= head);
            newer.filter(|entry| admits(entry.row.session)).take(limit).map(Arc::clone).collect()
        };
        entries.iter().map(|entry| Ok((entry.row.session, entry.event()?))).collect::<Result<_>>().map(Some)
    }

    /// True if the event with this number is here.
    pub(crate) fn has(&self, seq: Seq) -> bool {
        let kept = self.entries();
        kept.index_after(seq - 1).is_some_and(|index| index < kept.entries.len())
    }

    /// The chain's hash at the event with this number; none if the event is not here.
    pub(crate) fn hash_at(&self, seq: Seq) -> Option<[u8; 32]> {
        let kept = self.entries();
        Some(kept.entries.get(kept.index_after(seq - 1)?)?.row.hash)
    }

    fn entries(&self) -> RwLockReadGuard<'_, RingEntries> {
        self.newest.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn entries_mut(&self) -> RwLockWriteGuard<'_, RingEntries> {
        self.newest.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::EventBody;
    use uuid::Uuid;

    fn row(seq: Seq, session: i64) -> EventRow {
        let body = EventBody::SessionArchived;
        EventRow {
            seq,
            session,
            session_id: SessionId(Uuid::from_u128(u128::try_from(session).expect("a key"))),
            revision: seq,
            kind: body.kind(),
            ends_mutation: true,
            time: Timestamp(7),
            actor: "a".repeat(100),
            request_id: String::new(),
            body: codec::encode_event(&body),
            digest: [0; 32],
            hash: [u8::try_from(seq % 256).expect("a byte"); 32],
        }
    }

    /// The numbers of the events that a reader of all sessions, or of one, gets.
    fn seqs(ring: &Ring, session: Option<i64>, range: (Seq, Seq), limit: usize) -> Option<Vec<Seq>> {
        let admits = |key| session.is_none_or(|session| session == key);
        let events = ring.events(admits, range, limit).expect("events that can be decoded")?;
        Some(events.iter().map(|(_, event)| event.seq).collect())
    }

    #[test]
    fn events_come_from_memory_as_far_back_as_it_reaches() {
        let ring = Ring::default();
        assert_eq!(seqs(&ring, None, (0, 9), 9), None, "nothing was committed yet");
        ring.committed(vec![row(5, 1), row(6, 2)]);
        ring.committed(vec![row(7, 1)]);
        assert_eq!(seqs(&ring, None, (4, 9), 9), Some(vec![5, 6, 7]));
        assert_eq!(seqs(&ring, None, (4, 6), 9), Some(vec![5, 6]), "up to the head that the reader knows");
        assert_eq!(seqs(&ring, None, (5, 9), 1), Some(vec![6]));
        assert_eq!(seqs(&ring, Some(1), (4, 9), 9), Some(vec![5, 7]));
        assert_eq!(seqs(&ring, None, (7, 7), 9), Some(vec![]));
        assert_eq!(seqs(&ring, None, (9, 9), 9), Some(vec![]), "beyond the newest event");
        assert_eq!(seqs(&ring, None, (3, 9), 9), None, "before the oldest one");
        let hash = |seq| ring.hash_at(seq).map(|hash| hash[0]);
        assert_eq!([4, 5, 7, 8].map(hash), [None, Some(5), Some(7), None]);
    }

    #[test]
    fn an_event_is_decoded_once_and_shared() {
        let ring = Ring::default();
        ring.committed(vec![row(5, 1)]);
        let first = || ring.events(|_| true, (4, 5), 1).expect("an event").expect("in memory").remove(0).1;
        let event = first();
        assert!(Arc::ptr_eq(&event, &first()));
        assert_eq!((event.seq, &event.body, event.time), (5, &EventBody::SessionArchived, Timestamp(7)));
    }

    #[test]
    fn a_gap_begins_the_ring_anew() {
        let ring = Ring::default();
        ring.committed(vec![row(5, 1)]);
        ring.committed(vec![row(8, 1)]);
        assert_eq!(seqs(&ring, None, (4, 9), 9), None);
        assert_eq!(seqs(&ring, None, (7, 9), 9), Some(vec![8]));
    }

    #[test]
    fn the_oldest_events_go_first() {
        let ring = Ring::default();
        let count = Seq::try_from(2 * limits::RING_EVENTS).expect("a number");
        (1..=count).for_each(|seq| ring.committed(vec![row(seq, 1)]));
        let (kept, bytes) = (ring.entries().entries.len(), ring.entries().bytes);
        assert!(kept <= limits::RING_EVENTS && bytes <= limits::RING_BYTES, "{kept} events, {bytes} bytes");
        assert!(seqs(&ring, None, (count - Seq::try_from(kept).expect("a number"), count), 1).is_some());
        assert!(seqs(&ring, None, (0, count), 1).is_none());
        let long = EventRow { body: vec![0; limits::RING_BYTES], ..row(count + 1, 1) };
        ring.committed(vec![long]);
        assert_eq!((ring.entries().entries.len(), ring.entries().bytes), (0, 0), "longer than the ring");
    }
}
