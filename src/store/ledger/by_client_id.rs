//! Messages of a history whose clients' ids begin with a prefix, in the order of these ids.

use super::ancestry::{Ancestry, AsOf, Segment};
use super::codec;
use super::messages::{self, Budget, Found, Order, PageOf};
use super::session_filter::texts_from;
use crate::limits;
use crate::model::Revision;
use crate::model::message::Message;
use crate::store::engine::{self, Reader};
use crate::store::error::Result;

const FORWARD: &str = "select client_id, revision from message where session_id = ?1 \
     and (client_id, revision) >= (?2, ?3) and client_id < ?4 and revision between ?5 and ?6 \
     order by client_id, revision limit +?7";
const BACKWARD: &str = "select client_id, revision from message where session_id = ?1 \
     and (client_id, revision) <= (?2, ?3) and client_id >= ?4 and revision between ?5 and ?6 \
     order by client_id desc, revision desc limit +?7";

/// The statements of this file, for the test that prepares them all.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[FORWARD, BACKWARD];

/// Places that are read with one statement from a session's rows.
const READ_AT_ONCE: usize = 64;

/// Where a message is in the order. Versions of a record share their client id.
struct Place {
    client_id: String,
    revision: Revision,
    segment: Segment,
}

/// A page of these messages, the revision of the first one of the next page, and the revision that was read. It looks at
/// a bounded number of messages, so that it may be short.
pub(crate) fn page(
    reader: &mut Reader<'_>,
    ancestry: &Ancestry,
    prefix: &str,
    page: &PageOf,
) -> Result<(Vec<Message>, Option<Revision>, Revision)> {
    let at = page.at.unwrap_or(ancestry.revision);
    ancestry.check(at)?;
    // No id is as long as this one, and none comes behind it.
    let last = || String::from(char::MAX).repeat(limits::NAME_BYTES_MAX);
    let end = texts_from(prefix).map_or_else(last, |texts| texts.end);
    let mut start = match (page.from, page.order) {
        (None, Order::OldestFirst) => (prefix.to_owned(), 0),
        (None, Order::NewestFirst) => (end.clone(), -1),
        (Some(from), _) => match client_id_at(reader, ancestry, from)? {
            Some(client_id) => (client_id, from),
            // An erased session has no ids of clients.
            None => return Ok((Vec::new(), None, at)),
        },
    };
    let border = match page.order {
        Order::OldestFirst => end.as_str(),
        Order::NewestFirst => prefix,
    };
    let (classes, mut budget) = (messages::classes(page), Budget::of(limits::PAGE_BYTES_MAX));
    let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
    let (mut found, mut looked) = (Vec::new(), 0);
    loop {
        let places = places(reader, ancestry, &start, border, page.order, at)?;
        for place in &places {
            if found.len() == limit || looked == limits::PREFIX_SCAN_MAX {
                return Ok((found, Some(place.revision), at));
            }
            looked += 1;
            let seen = place.segment.end.min(AsOf::At(at));
            let Some(message) = read(reader, place, seen)? else { continue };
            if !classes.contains(&codec::message_class(message.message.kind)) {
                continue;
            }
            let mut message = [message];
            if messages::fill_parts(reader, &mut message, seen, &mut budget)? == 0 {
                return Ok((found, Some(place.revision), at));
            }
            found.extend(message.map(|found| found.message));
        }
        let Some(last) = places.into_iter().nth(READ_AT_ONCE - 1) else { return Ok((found, None, at)) };
        start = match page.order {
            Order::OldestFirst => (last.client_id, last.revision + 1),
            Order::NewestFirst => (last.client_id, last.revision - 1),
        };
    }
}

/// The next places from one on, in order, of all segments of a history.
fn places(
    reader: &mut Reader<'_>,
    ancestry: &Ancestry,
    (client_id, revision): &(String, Revision),
    border: &str,
    order: Order,
    at: Revision,
) -> Result<Vec<Place>> {
    let statement = match order {
        Order::OldestFirst => FORWARD,
        Order::NewestFirst => BACKWARD,
    };
    let mut places = Vec::new();
    for (segment, has_messages) in ancestry.all(reader)? {
        let last = segment.last_to(at);
        if !has_messages || segment.first > last {
            continue;
        }
        let query = engine::query(statement).bind(segment.owner).bind(client_id.clone()).bind(*revision);
        let query = query.bind(border.to_owned()).bind(segment.first).bind(last);
        for row in reader.all(query.bind(i64::try_from(READ_AT_ONCE).unwrap_or(i64::MAX)))? {
            places.push(Place { client_id: row.get(0)?, revision: row.get(1)?, segment });
        }
    }
    places.sort_by(|one, other| (&one.client_id, one.revision).cmp(&(&other.client_id, other.revision)));
    if order == Order::NewestFirst {
        places.reverse();
    }
    places.truncate(READ_AT_ONCE);
    Ok(places)
}

/// The client id of the message at a revision.
fn client_id_at(reader: &mut Reader<'_>, ancestry: &Ancestry, revision: Revision) -> Result<Option<String>> {
    let segment = ancestry.owner_at(reader, revision)?;
    let row = reader.one(messages::by_revision(&segment, revision, AsOf::Newest))?;
    Ok(row.map(|row| Found::from_row(&row, AsOf::Newest)).transpose()?.and_then(|found| found.message.client_id))
}

/// The message of a place, without its parts; none if a fork does not inherit it, because it was open.
fn read(reader: &mut Reader<'_>, place: &Place, seen: AsOf) -> Result<Option<Found>> {
    let Some(row) = reader.one(messages::by_revision(&place.segment, place.revision, seen))? else { return Ok(None) };
    let sealed = Found::from_row(&row, place.segment.end)?.message.sealed_revision;
    if place.segment.is_inherited() && sealed.is_none() {
        return Ok(None);
    }
    Found::from_row(&row, seen).map(Some)
}
