//! Tombstones: what is in the place of the rows of a revision that lost content.

use super::chain::Digest;
use crate::model::Revision;
use crate::store::engine::{self, Connection, Reader};
use crate::store::error::{Error, Result};
use std::collections::BTreeMap;

const OPEN: &str = "insert into tombstone (session_id, revision, erase_revision) values (?1, ?2, ?3) \
     on conflict (session_id, revision, erase_revision) do nothing";
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

/// The statements of this file, for the test that prepares them all.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[OPEN, CLOSE, OF_PAGE, OF_ERASURE, NEWEST, NEWEST_OF_SESSION];

/// What a tombstone commits to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Committed {
    /// The digest of the rows of the revision as they are now.
    pub(crate) digest: Vec<u8>,
    /// The hash of the event as it is now.
    pub(crate) hash: Vec<u8>,
}

/// Lets the rows of a revision be changed until its tombstone is closed.
pub(crate) fn open(conn: &Connection, key: i64, revision: Revision, erasure: Revision) -> Result<()> {
    engine::query(OPEN).bind(key).bind(revision).bind(erasure).run(conn)
}

/// Closes the tombstone of a revision, and adds it to the digest of its erasure.
pub(crate) fn close(
    conn: &Connection,
    of_erasure: &mut Digest,
    key: i64,
    (revision, erasure): (Revision, Revision),
    committed: &Committed,
) -> Result<()> {
    add(of_erasure, revision, committed);
    let query = engine::query(CLOSE).bind(key).bind(revision).bind(erasure);
    query.bind(&committed.digest).bind(&committed.hash).run(conn)
}

fn add(digest: &mut Digest, revision: Revision, committed: &Committed) {
    let columns = [Some(&revision.to_le_bytes()[..]), Some(&committed.digest), Some(&committed.hash)];
    digest.row("tombstone", &columns);
}

fn committed(digest: Option<Vec<u8>>, hash: Option<Vec<u8>>) -> Result<Committed> {
    match (digest, hash) {
        (Some(digest), Some(hash)) => Ok(Committed { digest, hash }),
        _ => Err(Error::corrupt("tombstone", "it was never closed")),
    }
}

/// The newest tombstones of a range of revisions of a session.
pub(crate) fn of_page(
    reader: &mut Reader<'_>,
    key: i64,
    first: Revision,
    last: Revision,
) -> Result<BTreeMap<Revision, Committed>> {
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
