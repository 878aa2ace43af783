//! Messages of a history whose clients' ids begin with a prefix, in the order of these ids.

use super::ancestry::{Ancestry, AsOf};
use super::codec;
use super::messages::{self, Budget, FoundMessage, Order, PageOf, select_message};
use super::session_filter::texts_from;
use crate::engine::{self, Reader};
use crate::error::Result;
use crate::limits;
use crate::model::Revision;
use crate::model::message::Message;

const FORWARD: &str = select_message!(
    "where m.session_id = ?2 and (m.client_id, m.revision) >= (?3, ?4) and m.client_id < ?5 \
     and m.revision between ?6 and ?7 and (m.sealed_revision <= ?8 or ?8 is null) \
     order by m.client_id, m.revision limit +?9"
);
const BACKWARD: &str = select_message!(
    "where m.session_id = ?2 and (m.client_id, m.revision) <= (?3, ?4) and m.client_id >= ?5 \
     and m.revision between ?6 and ?7 and (m.sealed_revision <= ?8 or ?8 is null) \
     order by m.client_id desc, m.revision desc limit +?9"
);

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[FORWARD, BACKWARD];

/// Messages that are read with one statement from a session's rows.
const READ_AT_ONCE: usize = 64;

/// Where a message is in the order. Versions of a record share their client id.
type ClientIdPlace = (String, Revision);

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
    let (classes, mut budget) = (messages::classes(page), Budget::new(limits::PAGE_BYTES_MAX));
    let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
    let (mut found, mut looked) = (Vec::new(), 0);
    loop {
        // One more says where the next page begins.
        let count = (limit - found.len() + 1).min(READ_AT_ONCE);
        let rows = rows(reader, ancestry, &start, border, (page.order, count), at)?;
        let is_last = rows.len() < count;
        for (next, seen) in rows {
            let revision = next.message.revision;
            if found.len() == limit || looked == limits::PREFIX_SCAN_MAX {
                return Ok((found, Some(revision), at));
            }
            looked += 1;
            start = match page.order {
                Order::OldestFirst => (next.message.client_id.clone().unwrap_or_default(), revision + 1),
                Order::NewestFirst => (next.message.client_id.clone().unwrap_or_default(), revision - 1),
            };
            if !classes.contains(&codec::message_class(next.message.kind)) {
                continue;
            }
            let mut next = [next];
            if messages::fill_parts(reader, &mut next, seen, &mut budget)? == 0 {
                return Ok((found, Some(revision), at));
            }
            found.extend(next.map(|next| next.message));
        }
        if is_last {
            return Ok((found, None, at));
        }
    }
}

/// The next messages of a history from a place on, in order and without their parts, and as of when each is seen.
fn rows(
    reader: &mut Reader<'_>,
    ancestry: &Ancestry,
    (client_id, revision): &ClientIdPlace,
    border: &str,
    (order, count): (Order, usize),
    at: Revision,
) -> Result<Vec<(FoundMessage, AsOf)>> {
    let statement = match order {
        Order::OldestFirst => FORWARD,
        Order::NewestFirst => BACKWARD,
    };
    let mut messages = Vec::new();
    for (segment, has_messages) in ancestry.all_segments(reader)? {
        let (last, seen) = (segment.last_to(at), segment.end.min(AsOf::At(at)));
        if !has_messages || segment.first > last {
            continue;
        }
        let query = engine::query(statement)
            .bind(seen.last())
            .bind(segment.owner)
            .bind(client_id.clone())
            .bind(*revision)
            .bind(border.to_owned())
            .bind(segment.first)
            .bind(last)
            .bind(segment.is_inherited().then(|| segment.end.last()))
            .bind(i64::try_from(count).unwrap_or(i64::MAX));
        for row in reader.all(query)? {
            messages.push((FoundMessage::from_row(&row, seen)?, seen));
        }
    }
    let place = |(found, _): &(FoundMessage, AsOf)| (found.message.client_id.clone(), found.message.revision);
    messages.sort_by_cached_key(place);
    if order == Order::NewestFirst {
        messages.reverse();
    }
    messages.truncate(count);
    Ok(messages)
}

fn client_id_at(reader: &mut Reader<'_>, ancestry: &Ancestry, revision: Revision) -> Result<Option<String>> {
    let segment = ancestry.owner_at(reader, revision)?;
    let row = reader.one(messages::by_revision(&segment, revision, AsOf::Newest))?;
    Ok(row.map(|row| FoundMessage::from_row(&row, AsOf::Newest)).transpose()?.and_then(|found| found.message.client_id))
}
