//! Reads of the event log.

use super::ancestry::{self, Ancestry};
use super::codec;
use super::ring::{KeyedEvents, Ring};
use super::shared_event::SharedEvent;
use super::visibility::{Memberships, Visibility};
use crate::engine::Reader;
use crate::engine::{self, Connection, List, Row};
use crate::error::{Error, Result};
use crate::limits;
use crate::model::event::{Event, EventBody, EventKind};
use crate::model::ids::SessionId;
use crate::model::time::Timestamp;
use crate::model::{Revision, Seq};
use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;

macro_rules! select_event {
    ($rest:literal) => {
        concat!(
            "select e.seq, s.public_id, e.revision, e.kind, e.ends_mutation, e.time, e.actor, e.request_id, ",
            "e.body, e.hash, e.session_id from event e join session s on s.id = e.session_id ",
            $rest
        )
    };
}

const OF_STORE: &str = select_event!("where e.seq > ?1 order by e.seq limit +?2");
// A session's numbers rise with its revisions: the last revision up to a number is found by bisection, so that the log
// needs no index by session and number.
const OF_SESSION: &str = select_event!(
    "where e.session_id = ?3 and e.revision > ( \
     with recursive bisection(low, high) as ( \
     select coalesce(s.fork_revision, 0), s.revision from session s where s.id = ?3 \
     union all \
     select case when m.seq <= ?1 then m.revision else low end, case when m.seq <= ?1 then high else m.revision - 1 end \
     from bisection join event m on m.session_id = ?3 and m.revision = (low + high + 1) / 2 where low < high) \
     select low from bisection where low = high) order by e.revision limit +?2"
);
const OF_SEGMENT: &str =
    select_event!("where e.session_id = ?1 and e.revision between ?2 and ?3 order by e.revision limit +?4");
const AT_REVISION: &str = select_event!("where e.session_id = ?1 and e.revision = ?2");
const AT_SEQ: &str = "select hash from event where seq = ?1";
const POSITION: &str = "select session_id, revision from event where seq = ?1";
const MATCHES_IN_MUTATION: &str = "select exists (select 1 from event where session_id = ?1 and revision > ?2 \
     and revision <= (select revision from event where session_id = ?1 and revision > ?2 and ends_mutation = 1 \
     order by revision limit 1) and kind in (select value from rarray(?3)))";
const SEQ_AT: &str = "select seq from event where session_id = ?1 and revision = ?2";
const HASH_AT: &str = "select hash from event where session_id = ?1 and revision = ?2";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] =
    &[OF_STORE, OF_SESSION, OF_SEGMENT, AT_REVISION, AT_SEQ, POSITION, MATCHES_IN_MUTATION, SEQ_AT, HASH_AT];

/// True if the event at a revision is the expiry of a message.
pub(crate) fn has_expired(conn: &Connection, key: i64, at: Revision) -> Result<bool> {
    let row = engine::query(AT_REVISION).bind(key).bind(at).optional(conn)?;
    let event = row.map(|row| from_row(&row)).transpose()?;
    Ok(event.is_some_and(|(_, event)| matches!(event.body, EventBody::MessageFinished { expired: true, .. })))
}

fn from_row(row: &Row) -> Result<(i64, Event)> {
    let seq: Seq = row.get(0)?;
    event_from_row(row, seq).map_err(|error| error.in_row(seq))
}

fn event_from_row(row: &Row, seq: Seq) -> Result<(i64, Event)> {
    let hash: Vec<u8> = row.get(9)?;
    let event = Event {
        seq,
        session_id: SessionId(codec::uuid(row.get(1)?)?),
        revision: row.get(2)?,
        ends_mutation: row.get(4)?,
        time: Timestamp(row.get(5)?),
        actor: row.get(6)?,
        request_id: row.get(7)?,
        body: codec::decode_event(row.get(3)?, row.get(8)?)?,
        hash: hash.try_into().map_err(|_| Error::corrupt("event", "a hash is not 32 bytes"))?,
    };
    Ok((row.get(10)?, event))
}

/// The event of a session's own revision, not of its ancestors'.
pub(crate) fn at_revision(reader: &mut Reader<'_>, key: i64, revision: Revision) -> Result<Option<Event>> {
    let row = reader.one(engine::query(AT_REVISION).bind(key).bind(revision))?;
    row.map(|row| from_row(&row).map(|(_, event)| event)).transpose()
}

/// The events that a read selects.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// Only these sessions, by key; none for all.
    pub sessions: Vec<super::head::SessionKey>,
    /// Only these kinds; none for all.
    pub kinds: Vec<EventKind>,
    /// Only of sessions that this reader sees; none for all.
    pub visibility: Option<Visibility>,
}

impl EventFilter {
    /// True if the filter admits events of a session.
    pub(crate) fn admits_session(&self, key: i64) -> bool {
        self.sessions.is_empty() || self.sessions.iter().any(|session| session.0 == key)
    }

    fn admits(&self, key: i64, event: &Event) -> bool {
        self.admits_session(key) && (self.kinds.is_empty() || self.kinds.contains(&event.body.kind()))
    }
}

/// A page of the log: the matching events, and the end of the scanned range.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EventPage {
    /// The matching events, in order.
    pub events: Vec<PagedEvent>,
    /// The last number that was scanned.
    pub scanned: Seq,
}

/// An event of a page of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct PagedEvent {
    /// The event, shared with other readers.
    pub event: Arc<SharedEvent>,
    /// True if another event of the same mutation matches and follows.
    pub more: bool,
}

/// The last event that a page scanned, matching or not: the next page begins after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScannedTo {
    /// Its number.
    pub seq: Seq,
    /// The chain's hash at it.
    pub hash: [u8; 32],
}

/// Events after `after`, up to `head`. The page ends at the end of a mutation, unless one mutation is longer than a
/// page.
pub(crate) fn tail(
    reader: &mut Reader<'_>,
    memberships: &Memberships,
    filter: &EventFilter,
    after: Seq,
    head: Seq,
) -> Result<EventPage> {
    let mut found = Vec::new();
    if filter.sessions.is_empty() {
        let rows = reader.all(engine::query(OF_STORE).bind(after).bind(limits::SUBSCRIPTION_PAGE_EVENTS))?;
        for row in &rows {
            found.push(from_row(row)?);
        }
    } else {
        for session in &filter.sessions {
            let query = engine::query(OF_SESSION).bind(after).bind(limits::SUBSCRIPTION_PAGE_EVENTS).bind(session.0);
            for row in reader.all(query)? {
                found.push(from_row(&row)?);
            }
        }
        found.sort_by_key(|(_, event)| event.seq);
        found.truncate(page_events());
    }
    found.retain(|(_, event)| event.seq <= head);
    let found = found.into_iter().map(|(key, event)| (key, Arc::new(event.into()))).collect();
    let mut found = UnfilteredEvents::new(found);
    if let Some(visibility) = &filter.visibility
        && !memberships.admit_all(visibility)
    {
        for (key, _) in &found.events {
            if !found.hidden.contains(key) && !memberships.admits(reader, visibility, *key)? {
                found.hidden.insert(*key);
            }
        }
    }
    let continues = match found.split() {
        Some((key, last)) => continues(reader, filter, key, last)?,
        None => false,
    };
    Ok(found.page(filter, (after, head), continues))
}

/// The same page, from the newest events in memory; none if they do not reach back that far, if the page splits a
/// mutation, or if it is not in memory who sees the sessions.
pub(crate) fn newest(
    ring: &Ring,
    memberships: &Memberships,
    filter: &EventFilter,
    after: Seq,
    head: Seq,
) -> Result<Option<EventPage>> {
    let visibility = filter.visibility.as_ref().filter(|visibility| !memberships.admit_all(visibility));
    let is_unknown = Cell::new(false);
    let admits = |key| {
        let is_seen = |visibility: &Visibility| {
            memberships.cached_visibility(visibility, key).unwrap_or_else(|| {
                is_unknown.set(true);
                false
            })
        };
        filter.admits_session(key) && visibility.is_none_or(is_seen)
    };
    let found = ring.events(admits, (after, head), page_events())?;
    let Some(found) = found.filter(|_| !is_unknown.get()) else { return Ok(None) };
    let found = UnfilteredEvents::new(found);
    Ok(found.split().is_none().then(|| found.page(filter, (after, head), false)))
}

/// The largest number of events on a page.
fn page_events() -> usize {
    usize::try_from(limits::SUBSCRIPTION_PAGE_EVENTS).unwrap_or(usize::MAX)
}

/// The events of a page before kinds are filtered, each with the key of its session.
struct UnfilteredEvents {
    events: KeyedEvents,
    /// Sessions whose events are left out.
    hidden: HashSet<i64>,
    /// True if more events may follow on the next page.
    is_full: bool,
}

impl UnfilteredEvents {
    /// Events in order. A full page loses the events behind the last end of a mutation.
    fn new(mut events: KeyedEvents) -> Self {
        let is_full = events.len() == page_events();
        if is_full && let Some(end) = events.iter().rposition(|(_, event)| event.ends_mutation) {
            events.truncate(end + 1);
        }
        Self { events, hidden: HashSet::new(), is_full }
    }

    /// The session and the last revision of the mutation that the page splits; none if it splits none.
    fn split(&self) -> Option<(i64, Revision)> {
        let (key, last) = self.events.last().filter(|_| self.is_full)?;
        (!last.ends_mutation).then_some((*key, last.revision))
    }

    /// The page. `continues` is true if the filter admits more events of the split mutation.
    fn page(self, filter: &EventFilter, (after, head): (Seq, Seq), continues: bool) -> EventPage {
        let scanned = if self.is_full { self.events.last().map_or(after, |(_, event)| event.seq) } else { head };
        let mut more = continues;
        let mut events = Vec::with_capacity(self.events.len());
        for (key, event) in self.events.into_iter().rev() {
            more &= !event.ends_mutation;
            if !self.hidden.contains(&key) && filter.admits(key, &event) {
                events.push(PagedEvent { event, more });
                more = true;
            }
        }
        events.reverse();
        EventPage { events, scanned }
    }
}

/// True if the filter admits more events of a mutation after the page that splits it. Its session is one that the
/// filter admits, or it would not have been found.
fn continues(reader: &mut Reader<'_>, filter: &EventFilter, key: i64, last: Revision) -> Result<bool> {
    if filter.kinds.is_empty() {
        return Ok(true);
    }
    let kinds = List::of_integers(filter.kinds.iter().map(|kind| i64::from(*kind as i32)));
    let row = reader.one(engine::query(MATCHES_IN_MUTATION).bind(key).bind(last).bind(kinds))?;
    row.map_or(Ok(false), |row| row.get(0))
}

/// Events of a history by revision, including those of ancestors, oldest first, and the last scanned event if more may
/// follow it.
pub(crate) fn of_history(
    reader: &mut Reader<'_>,
    ancestry: &Ancestry,
    kinds: &[EventKind],
    (first, last): (Revision, Revision),
    limit: i64,
) -> Result<(Vec<Event>, Option<ScannedTo>)> {
    let mut events = Vec::new();
    let mut left = limits::EVENTS_SCAN_MAX;
    for (segment, _) in ancestry.all_segments(reader)? {
        let (from, to) = (first.max(segment.first), segment.last_to(last));
        if from > to {
            continue;
        }
        let mut from = from;
        while from <= to {
            let query = engine::query(OF_SEGMENT)
                .bind(segment.owner)
                .bind(from)
                .bind(to)
                .bind(limits::SUBSCRIPTION_PAGE_EVENTS);
            let rows = reader.all(query)?;
            let full = i64::try_from(rows.len()).unwrap_or(i64::MAX) == limits::SUBSCRIPTION_PAGE_EVENTS;
            for row in &rows {
                let (_, event) = from_row(row)?;
                let scanned_to = ScannedTo { seq: event.seq, hash: event.hash };
                from = event.revision + 1;
                left -= 1;
                if kinds.is_empty() || kinds.contains(&event.body.kind()) {
                    events.push(event);
                }
                if left == 0 || i64::try_from(events.len()).unwrap_or(i64::MAX) == limit {
                    let more = from <= last.min(ancestry.revision);
                    return Ok((events, more.then_some(scanned_to)));
                }
            }
            if !full {
                break;
            }
        }
    }
    Ok((events, None))
}

/// The hash of the event with this number.
pub(crate) fn hash_at_seq(reader: &mut Reader<'_>, seq: Seq) -> Result<Option<Vec<u8>>> {
    let row = reader.one(engine::query(AT_SEQ).bind(seq))?;
    row.map(|row| row.get(0)).transpose()
}

/// The last revision of a history whose event has this number or one before it; zero if there is none. Numbers rise
/// with the revisions of a history, also where it was inherited.
pub(crate) fn revision_by(reader: &mut Reader<'_>, ancestry: &Ancestry, seq: Seq) -> Result<Revision> {
    // Most cursors stand behind an event of the session that they are used for.
    let row = reader.one(engine::query(POSITION).bind(seq))?;
    if let Some((owner, revision)) = row.map(|row| Ok::<_, Error>((row.get(0)?, row.get(1)?))).transpose()?
        && ancestry.contains(reader, owner, revision)?.is_some()
    {
        return Ok(revision);
    }
    let (mut low, mut high) = (0, ancestry.revision);
    while low < high {
        let middle = low + (high - low + 1) / 2;
        let segment = ancestry.owner_at(reader, middle)?;
        let row = reader.one(engine::query(SEQ_AT).bind(segment.owner).bind(middle))?;
        let row = row.ok_or_else(|| Error::corrupt("event", format_args!("revision {middle} has none")))?;
        if row.get::<Seq>(0)? <= seq {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    Ok(low)
}

/// The chain's hash at a revision of a history.
pub(crate) fn hash_at(reader: &mut Reader<'_>, ancestry: &Ancestry, revision: Revision) -> Result<Option<Vec<u8>>> {
    if revision < 1 || revision > ancestry.revision {
        return Ok(None);
    }
    let segment = ancestry.owner_at(reader, revision)?;
    let row = reader.one(engine::query(HASH_AT).bind(segment.owner).bind(revision))?;
    row.map(|row| row.get(0)).transpose()
}

/// The event of a revision of a history; none if there is no such revision.
pub(crate) fn at(reader: &mut Reader<'_>, key: i64, revision: Revision) -> Result<Option<Event>> {
    // Its own events need no ancestry.
    if let Some(event) = at_revision(reader, key, revision)? {
        return Ok(Some(event));
    }
    let ancestry = ancestry::by_key(reader, key)?;
    if revision < 1 || revision > ancestry.revision {
        return Ok(None);
    }
    let segment = ancestry.owner_at(reader, revision)?;
    at_revision(reader, segment.owner, revision)
}
