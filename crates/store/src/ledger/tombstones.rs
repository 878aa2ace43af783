//! Tombstones: what is in the place of the rows of a revision that lost content.

use super::chain::Digest;
use crate::engine::{self, Connection, Insert, Reader, values};
use crate::error::{Error, Result};
use crate::model::Revision;
use std::collections::BTreeMap;

static OPEN: Insert = Insert::new(
    "tombstone (session_id, revision, erase_revision)",
    3,
    "on conflict (session_id, revision, erase_revision) do nothing",
);
const CLOSE: &str = "update tombstone set digest = ?4, hash = ?5 \
     where session_id = ?1 and revision = ?2 and erase_revision = ?3";
// Of several erasures at a revision the newest counts, because its rows were left by that one.
const OF_PAGE: &str = "select t.revision, t.digest, t.hash from tombstone t \
     where t.session_id = ?1 and t.revision between ?2 and ?3 and t.erase_revision = (select max(n.erase_revision) \
     from tombstone n where n.session_id = t.session_id and n.revision = t.revision)";
const OF_ERASURE: &str = "select revision, digest, hash from tombstone where session_id = ?1 and erase_revision = ?2 \
     order by revision";
const NEWEST_OF_SESSION: &str = "select max(erase_revision) from tombstone where session_id = ?1";
const NEWEST: &str = "select max(erase_revision) from tombstone where session_id = ?1 and revision = ?2";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[CLOSE, OF_PAGE, OF_ERASURE, NEWEST, NEWEST_OF_SESSION];

#[cfg(test)]
pub(crate) static INSERTS: [&Insert; 1] = [&OPEN];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TombstoneCommitment {
    /// The digest of the rows of the revision as they are now.
    pub(crate) digest: Vec<u8>,
    /// The hash of the event as it is now.
    pub(crate) hash: Vec<u8>,
}

/// Lets the rows of revisions of sessions be changed until their tombstones are closed. Each has the revision of its erasure.
pub(crate) fn open(conn: &Connection, opened: &[(i64, Revision, Revision)]) -> Result<()> {
    OPEN.rows(conn, opened.iter().map(|&(key, revision, erasure)| values![key, revision, erasure]))?;
    // The change is another statement, and its trigger reads these rows: they are sent first.
    conn.send_queued()
}

/// Closes the tombstones of revisions of a session, and adds them to the digest of their erasure.
pub(crate) fn close(
    conn: &Connection,
    of_erasure: &mut Digest,
    (key, erasure): (i64, Revision),
    closed: Vec<(Revision, TombstoneCommitment)>,
) -> Result<()> {
    closed.iter().for_each(|(revision, committed)| add(of_erasure, *revision, committed));
    let row = |(revision, committed): (Revision, TombstoneCommitment)| {
        values![key, revision, erasure, committed.digest, committed.hash]
    };
    engine::run_for_each(conn, CLOSE, closed.into_iter().map(row).collect())
}

fn add(digest: &mut Digest, revision: Revision, committed: &TombstoneCommitment) {
    let columns = [Some(&revision.to_le_bytes()[..]), Some(&committed.digest), Some(&committed.hash)];
    digest.row("tombstone", &columns);
}

fn committed(digest: Option<Vec<u8>>, hash: Option<Vec<u8>>) -> Result<TombstoneCommitment> {
    match (digest, hash) {
        (Some(digest), Some(hash)) => Ok(TombstoneCommitment { digest, hash }),
        _ => Err(Error::corrupt("tombstone", "it was never closed")),
    }
}

/// The newest tombstones of a range of revisions of a session.
pub(crate) fn of_page(
    reader: &mut Reader<'_>,
    key: i64,
    first: Revision,
    last: Revision,
) -> Result<BTreeMap<Revision, TombstoneCommitment>> {
    let rows = reader.all(engine::query(OF_PAGE).bind(key).bind(first).bind(last))?;
    rows.iter().map(|row| Ok((row.get(0)?, committed(row.get(1)?, row.get(2)?)?))).collect()
}

/// Adds the tombstones of an erasure to its digest, and returns their number.
pub(crate) fn of_erasure(reader: &mut Reader<'_>, digest: &mut Digest, key: i64, erasure: Revision) -> Result<i64> {
    let rows = reader.all(engine::query(OF_ERASURE).bind(key).bind(erasure))?;
    for row in &rows {
        add(digest, row.get(0)?, &committed(row.get(1)?, row.get(2)?)?);
    }
    Ok(i64::try_from(rows.len()).unwrap_or(i64::MAX))
}

/// Reads at once the newest erasures that took content of these revisions.
pub(crate) fn read_ahead(conn: &Connection, key: i64, revisions: impl Iterator<Item = Revision>) -> Result<()> {
    conn.read_ahead(NEWEST, &revisions.map(|revision| values![key, revision]).collect::<Vec<_>>())
}

/// The newest erasure that took content of a revision.
pub(crate) fn newest(reader: &mut Reader<'_>, key: i64, revision: Revision) -> Result<Option<Revision>> {
    let row = reader.one(engine::query(NEWEST).bind(key).bind(revision))?;
    row.map_or(Ok(None), |row| row.get(0))
}

/// The newest erasure that took content of a session.
pub(crate) fn newest_of_session(reader: &mut Reader<'_>, key: i64) -> Result<Option<Revision>> {
    let row = reader.one(engine::query(NEWEST_OF_SESSION).bind(key))?;
    row.map_or(Ok(None), |row| row.get(0))
}
