//! Lists of sessions: pages in the order of creation or of the last change.

use super::ancestry::AsOf;
use super::codec::Number as _;
use super::head::SessionKey;
use super::policies::{PolicyText, policy_at};
use super::session_filter::SessionFilter;
use super::sessions;
use super::visibility::Memberships;
use crate::engine::{self, Reader};
use crate::error::{Error, Result};
use crate::limits;
use crate::model::ids::SessionId;
use crate::model::session::{Session, SessionState};

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SessionOrder {
    /// The newest first.
    #[default]
    NewestFirst,
    /// The oldest first.
    OldestFirst,
    /// The one that changed last first.
    LastChangedFirst,
    /// The one that changed last at the end.
    LastChangedLast,
}

impl SessionOrder {
    fn is_by_change(self) -> bool {
        matches!(self, Self::LastChangedFirst | Self::LastChangedLast)
    }

    /// The place of a session in a list of this order.
    pub fn position_of(self, listed: &ListedSession) -> ListPosition {
        let time = if self.is_by_change() { listed.session.update_time.0 } else { 0 };
        ListPosition { time, key: listed.key.0 }
    }

    fn is_descending(self) -> bool {
        matches!(self, Self::NewestFirst | Self::LastChangedFirst)
    }
}

/// A place in a list. Sessions of an order by creation have the time zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListPosition {
    /// When the session changed last.
    pub time: i64,
    /// The key of the session.
    pub key: i64,
}

/// What a list has.
#[derive(Debug, Clone, Default)]
pub struct SessionList {
    /// Its sessions.
    pub filter: SessionFilter,
    /// Their order.
    pub order: SessionOrder,
    /// True if each comes with the text of its policy.
    pub has_policies: bool,
}

/// A session of a list.
#[derive(Debug, Clone)]
pub struct ListedSession {
    /// Its key.
    pub key: SessionKey,
    /// The session.
    pub session: Session,
    /// Its policy; empty if the list has none.
    pub policy_json: String,
}

/// A page of a list, and the place behind which the next one begins.
pub type SessionPage = (Vec<ListedSession>, Option<ListPosition>);

/// Bytes of a session in a page besides its title, metadata, labels and policy, at most.
const SESSION_BYTES: usize = 1_024;

macro_rules! keys {
    ($where:literal, $direction:literal) => {
        concat!("select 0 as time, id from session where ", $where, " order by id ", $direction, " limit +?2")
    };
}

const NEWEST: &str = keys!("tenant = ?3 and id < ?1", "desc");
const OLDEST: &str = keys!("tenant = ?3 and id > ?1", "asc");
const NEWEST_CHILDREN: &str = keys!("parent_id = ?3 and id < ?1", "desc");
const OLDEST_CHILDREN: &str = keys!("parent_id = ?3 and id > ?1", "asc");
const NEWEST_OF_ACTOR: &str = keys!("tenant = ?3 and actor = ?4 and id < ?1", "desc");
const OLDEST_OF_ACTOR: &str = keys!("tenant = ?3 and actor = ?4 and id > ?1", "asc");
// An index has the sessions that take no writes.
const NEWEST_INACTIVE: &str = keys!("tenant = ?3 and state = ?4 and state > 1 and id < ?1", "desc");
const OLDEST_INACTIVE: &str = keys!("tenant = ?3 and state = ?4 and state > 1 and id > ?1", "asc");
const NEWEST_LABELED: &str = "select 0 as time, session_id from session_label \
     where tenant = ?3 and label = ?4 and session_id < ?1 order by session_id desc limit +?2";
const OLDEST_LABELED: &str = "select 0 as time, session_id from session_label \
     where tenant = ?3 and label = ?4 and session_id > ?1 order by session_id asc limit +?2";
// An index has the periods of the changes, and those of one period are put in order.
const CHANGED_FIRST: &str = "select update_time, id from session \
     where tenant = ?3 and update_period <= ?5 and (update_time, id) < (?4, ?1) \
     order by update_period desc, update_time desc, id desc limit +?2";
const CHANGED_LAST: &str = "select update_time, id from session \
     where tenant = ?3 and update_period >= ?5 and (update_time, id) > (?4, ?1) \
     order by update_period asc, update_time asc, id asc limit +?2";
const LAST_KEY: &str = "select coalesce(max(id), 0) from session";
const CREATE_TIME_FROM: &str = "select create_time from session where id >= ?1 order by id limit 1";
const KEY_OF: &str = "select id from session where public_id = ?1";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[
    NEWEST,
    OLDEST,
    NEWEST_CHILDREN,
    OLDEST_CHILDREN,
    NEWEST_OF_ACTOR,
    OLDEST_OF_ACTOR,
    NEWEST_INACTIVE,
    OLDEST_INACTIVE,
    NEWEST_LABELED,
    OLDEST_LABELED,
    CHANGED_FIRST,
    CHANGED_LAST,
    LAST_KEY,
    CREATE_TIME_FROM,
    KEY_OF,
];

/// The places of a list that are looked at, in its order.
struct Places<'a> {
    list: &'a SessionList,
    /// The place behind which the next ones are.
    at: ListPosition,
    /// Places from here on are behind the end.
    end: ListPosition,
    /// Places that are known already, in order; none if an index has them.
    known: Option<std::vec::IntoIter<ListPosition>>,
}

impl<'a> Places<'a> {
    fn new(reader: &mut Reader<'_>, list: &'a SessionList, start: Option<ListPosition>) -> Result<Self> {
        let range = if list.order.is_by_change() {
            let bound = |time: Option<crate::model::time::Timestamp>, otherwise: i64| ListPosition {
                time: time.map_or(otherwise, |time| time.0),
                key: 0,
            };
            let range = list.filter.update_time;
            (bound(range.start, i64::MIN), bound(range.end, i64::MAX))
        } else {
            let range = list.filter.create_time;
            let first = range.start.map_or(Ok(0), |time| first_made(reader, time.0))?;
            let last = range.end.map_or(Ok(i64::MAX), |time| first_made(reader, time.0))?;
            (ListPosition { time: 0, key: first }, ListPosition { time: 0, key: last })
        };
        // A place is in the range if it is not before the first bound, and before the second.
        let before = |place: ListPosition| ListPosition { key: place.key.saturating_sub(1), ..place };
        let (first, end) = match list.order.is_descending() {
            true => (range.1, before(range.0)),
            false => (before(range.0), range.1),
        };
        let mut places = Self { list, at: start.unwrap_or(first), end, known: None };
        let candidates = list.filter.candidates(reader)?;
        if let Some(keys) = candidates {
            places.known = Some(places.order(reader, keys)?.into_iter());
        }
        Ok(places)
    }

    fn is_behind(&self, place: ListPosition, other: ListPosition) -> bool {
        if self.list.order.is_descending() { place < other } else { place > other }
    }

    /// The places of sessions, in order, from where the page begins.
    fn order(&self, reader: &mut Reader<'_>, keys: Vec<i64>) -> Result<Vec<ListPosition>> {
        let mut places = Vec::with_capacity(keys.len());
        for key in keys {
            let time = if self.list.order.is_by_change() { sessions::update_time(reader, key)? } else { 0 };
            let place = ListPosition { time, key };
            if self.is_behind(place, self.at) {
                places.push(place);
            }
        }
        places.sort_unstable();
        if self.list.order.is_descending() {
            places.reverse();
        }
        Ok(places)
    }

    /// The next places; none at the end.
    fn next_places(&mut self, reader: &mut Reader<'_>) -> Result<Vec<ListPosition>> {
        let mut places: Vec<ListPosition> = match &mut self.known {
            Some(known) => known.take(usize::try_from(limits::PAGE_READ_SESSIONS).unwrap_or(usize::MAX)).collect(),
            None => self.read_page(reader)?,
        };
        if let Some(last) = places.last() {
            self.at = *last;
        }
        let end = self.end;
        places.retain(|place| self.is_behind(end, *place));
        Ok(places)
    }

    fn read_page(&self, reader: &mut Reader<'_>) -> Result<Vec<ListPosition>> {
        let filter = &self.list.filter;
        let is_descending = self.list.order.is_descending();
        let most = if self.list.order.is_by_change() { limits::PAGE_READ_CHANGED } else { limits::PAGE_READ_SESSIONS };
        let either = |descending: &'static str, ascending: &'static str| {
            let statement = if is_descending { descending } else { ascending };
            engine::query(statement).bind(self.at.key).bind(most)
        };
        let tenant = filter.visibility.tenant.to_string();
        let query = if self.list.order.is_by_change() {
            let period = self.at.time.div_euclid(limits::UPDATE_PERIOD_MICROS);
            either(CHANGED_FIRST, CHANGED_LAST).bind(tenant).bind(self.at.time).bind(period)
        } else if let Some(parent) = filter.parent {
            either(NEWEST_CHILDREN, OLDEST_CHILDREN).bind(parent.0)
        } else if let Some(label) = filter.labels.first() {
            either(NEWEST_LABELED, OLDEST_LABELED).bind(tenant).bind(label)
        } else if let Some(state) = filter.state.filter(|state| *state != SessionState::Active) {
            either(NEWEST_INACTIVE, OLDEST_INACTIVE).bind(tenant).bind(state.number())
        } else if let Some(actor) = &filter.actor {
            either(NEWEST_OF_ACTOR, OLDEST_OF_ACTOR).bind(tenant).bind(actor)
        } else {
            either(NEWEST, OLDEST).bind(tenant)
        };
        reader.all(query)?.iter().map(|row| Ok(ListPosition { time: row.get(0)?, key: row.get(1)? })).collect()
    }
}

/// The key of the first session that was made at a time or later; one behind the last if there is none. Keys rise with the
/// times of creation, so that these need no index.
fn first_made(reader: &mut Reader<'_>, time: i64) -> Result<i64> {
    let (mut low, mut high) = (0, reader.always(engine::query(LAST_KEY))?.get::<i64>(0)? + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        let row = reader.one(engine::query(CREATE_TIME_FROM).bind(middle))?;
        if row.map(|row| row.get::<i64>(0)).transpose()?.is_none_or(|found| found >= time) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(low)
}

/// A session of a list, with its size.
fn listed(reader: &mut Reader<'_>, key: i64, has_policies: bool) -> Result<(ListedSession, usize)> {
    let mut session = sessions::get(reader, key)?;
    let PolicyText { preset, json } = policy_at(reader, key, AsOf::At(session.revision))?;
    session.preset = preset;
    let policy_json = if has_policies { json } else { String::new() };
    let labels: usize = session.labels.iter().map(String::len).sum();
    let metadata = session.metadata_json.as_ref().map_or(0, String::len);
    let bytes = SESSION_BYTES + session.title.len() + metadata + labels + policy_json.len();
    Ok((ListedSession { key: SessionKey(key), session, policy_json }, bytes))
}

/// A page of a list. It has at least one session if there is any among those that a page looks at, and ends early instead
/// of exceeding `most_bytes`.
pub(crate) fn page(
    reader: &mut Reader<'_>,
    memberships: &Memberships,
    list: &SessionList,
    start: Option<ListPosition>,
    (limit, most_bytes): (i64, usize),
) -> Result<SessionPage> {
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut page: Vec<ListedSession> = Vec::new();
    let (mut bytes, mut looked, mut last) = (0, 0, start);
    let mut places = Places::new(reader, list, start)?;
    loop {
        let next = places.next_places(reader)?;
        if next.is_empty() {
            return Ok((page, None));
        }
        for place in next {
            looked += 1;
            if list.filter.admits(reader, memberships, place.key)?.is_some() {
                let (session, more) = listed(reader, place.key, list.has_policies)?;
                bytes += more;
                if page.len() == most || (bytes > most_bytes && !page.is_empty()) {
                    return Ok((page, last));
                }
                page.push(session);
            }
            last = Some(place);
        }
        if looked >= limits::SESSIONS_SCAN_MAX {
            return Ok((page, last));
        }
    }
}

/// The sessions with these ids as they are now, each with its place in a list if it has one.
pub(crate) fn current(
    reader: &mut Reader<'_>,
    memberships: &Memberships,
    filter: &SessionFilter,
    ids: &[SessionId],
) -> Result<Vec<(SessionKey, Option<ListedSession>)>> {
    let mut sessions = Vec::with_capacity(ids.len());
    for id in ids {
        let row = reader.one(engine::query(KEY_OF).bind(id.0.as_bytes().as_slice()))?;
        let key: i64 = row.ok_or_else(|| Error::not_found(crate::Kind::Session, id))?.get(0)?;
        let is_there = filter.admits(reader, memberships, key)?.is_some();
        let session = if is_there { Some(listed(reader, key, false)?.0) } else { None };
        sessions.push((SessionKey(key), session));
    }
    Ok(sessions)
}
