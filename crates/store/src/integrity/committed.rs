//! What an erasure leaves at the revisions that it reached, for their tombstones.

use super::run_rows;
use super::verify::{
    EVENT, HASH_BEFORE, LAYOUT, MARK, MESSAGE_AT, MESSAGE_BY_ID, PARTS, PRUNED, SESSION, SessionCheck, hash,
};
use crate::engine::{self, List, Parameter, Reader, Row, values};
use crate::error::{Error, Result};
use crate::ledger::codec;
use crate::ledger::tombstones::TombstoneCommitment;
use crate::model::Revision;
use crate::model::event::EventBody;
use std::collections::BTreeMap;

const APPENDED: &str = "select id, revision from message where session_id = ?1 and class in (0, 1, 2, 3) \
     and revision in (select value from rarray(?2)) and parts is null";
const ROWS_BY_ID: &str = "select public_id, id from message where public_id in (select value from rarray(?1))";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[APPENDED, ROWS_BY_ID];

/// What the rows of revisions of a session and their events commit to as they are now. Called after an erasure has changed
/// them, in the order of the revisions.
pub(crate) fn committed(
    reader: &mut Reader<'_>,
    key: i64,
    revisions: &[Revision],
) -> Result<Vec<(Revision, TombstoneCommitment)>> {
    let gone = |revision| Error::corrupt("event", format_args!("revision {revision} has none"));
    let session = reader.one(engine::query(SESSION).bind(key))?.ok_or_else(|| gone(0))?;
    reader.conn.read_ahead(EVENT, &of_revisions(key, revisions))?;
    let mut events = Vec::with_capacity(revisions.len());
    for &revision in revisions {
        let row = reader.one(engine::query(EVENT).bind(key).bind(revision))?.ok_or_else(|| gone(revision))?;
        let body = codec::decode_event(row.get(2)?, row.get(7)?)?;
        events.push((revision, row, body));
    }
    read_ahead(reader, key, &events)?;
    let mut committed = Vec::with_capacity(events.len());
    let mut previous: Option<(Revision, Vec<u8>)> = None;
    for (revision, row, body) in events {
        let mut check = SessionCheck::new(key);
        let before = match previous.filter(|(at, _)| *at == revision - 1) {
            Some((_, hash)) => hash,
            None => match reader.one(engine::query(HASH_BEFORE).bind(key).bind(revision - 1))? {
                Some(row) => row.get(0)?,
                None => check.start(reader, &session)?.1,
            },
        };
        let digest = check.rows(reader, &session, (revision, row.get(5)?, row.get(4)?), &body)?;
        let committed_to =
            TombstoneCommitment { digest: digest.finish().to_vec(), hash: hash(&row, &before)?.to_vec() };
        committed.push((revision, committed_to));
        previous = Some((revision, row.get(9)?));
    }
    Ok(committed)
}

fn of_revisions(key: i64, revisions: &[Revision]) -> Vec<Vec<Parameter<'static>>> {
    revisions.iter().map(|revision| values![key, *revision]).collect()
}

/// Reads at once what most events of a session have beside them.
fn read_ahead(reader: &mut Reader<'_>, key: i64, events: &[(Revision, Row, EventBody)]) -> Result<()> {
    let conn = reader.conn;
    if !conn.reads_ahead() {
        return Ok(());
    }
    let (mut before, mut appended, mut marked) = (Vec::new(), Vec::new(), Vec::new());
    let (mut named, mut closed) = (Vec::new(), Vec::new());
    for (index, (revision, _, body)) in events.iter().enumerate() {
        // Behind the event before it, which is read as well, its hash is known.
        if index == 0 || events[index - 1].0 != *revision - 1 {
            before.push(*revision - 1);
        }
        match body {
            EventBody::MessageAppended { .. } => appended.push(*revision),
            EventBody::MessageFinished { message, .. } => named.push(*message),
            EventBody::PartsClosed { message, .. } => {
                named.push(*message);
                closed.push((*message, *revision));
            }
            EventBody::PartsPruned { .. } => marked.push(*revision),
            _ => {}
        }
    }
    let mut parts = Vec::new();
    for row in reader.all(engine::query(APPENDED).bind(key).bind(List::of_integers(appended.iter().copied())))? {
        parts.push(values![row.get::<i64>(0)?, row.get::<Revision>(1)?]);
    }
    let ids = List::of_bytes(closed.iter().map(|(message, _)| message.0.as_bytes().as_slice()));
    let mut by_id = BTreeMap::new();
    for row in reader.all(engine::query(ROWS_BY_ID).bind(ids))? {
        by_id.insert(codec::uuid(row.get(0)?)?, row.get::<i64>(1)?);
    }
    for (message, revision) in closed {
        parts.extend(by_id.get(&message.0).map(|row| values![*row, revision]));
    }
    conn.read_ahead(HASH_BEFORE, &of_revisions(key, &before))?;
    conn.read_ahead(MESSAGE_AT, &of_revisions(key, &appended))?;
    let named: Vec<_> = named.iter().map(|message| values![message.0.as_bytes().to_vec()]).collect();
    conn.read_ahead(MESSAGE_BY_ID, &named)?;
    conn.read_ahead(PARTS, &parts)?;
    for statement in [PRUNED, MARK, LAYOUT] {
        conn.read_ahead(statement, &of_revisions(key, &marked))?;
    }
    run_rows::read_ahead(conn, key, events.iter().map(|(_, _, body)| body))
}
