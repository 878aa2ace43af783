//! Rows of layouts: a whole one, then differences, until their size reaches that of the whole one or their number a
//! limit. Layouts of thousands of edits or pins take linear space, and reading one costs at most twice its size.

use super::ancestry::{Ancestry, Reader};
use super::chain::{self, Digest};
use super::codec;
use super::error::Result;
use super::sqlite::{self, Connection};
use crate::limits;
use crate::model::Revision;
use crate::model::layout::Layout;

const INSERT: &str = "insert into layout (session_id, revision, body) values (?1, ?2, ?3)";
const NEWEST: &str =
    "select revision, body from layout where session_id = ?1 and revision <= ?2 order by revision desc limit 1";
const SINCE: &str = "select body from layout where session_id = ?1 and revision between ?2 and ?3 order by revision";
const SIZE: &str = "select count(*), sum(length(body)) from layout where session_id = ?1 and revision >= ?2";

/// The statements of this file, for the test that prepares them all.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[INSERT, NEWEST, SINCE, SIZE];

/// The layout that is active at a revision.
pub(crate) fn at(reader: &mut Reader<'_>, ancestry: &Ancestry, at: Revision) -> Result<Layout> {
    let owner = ancestry.owner_at(reader, at)?.owner;
    let Some(newest) = reader.one(sqlite::query(NEWEST).bind(owner).bind(at))? else {
        return Ok(Layout::everything());
    };
    let (revision, body): (Revision, &[u8]) = (newest.get(0)?, newest.get(1)?);
    let mut read = || match codec::layout_base(body)? {
        None => codec::decode_layout([body]),
        Some(whole) => {
            let rows = reader.all(sqlite::query(SINCE).bind(owner).bind(whole).bind(revision))?;
            let bodies: Vec<&[u8]> = rows.iter().map(|row| row.get(0)).collect::<Result<_>>()?;
            codec::decode_layout(bodies)
        }
    };
    read().map_err(|error| error.in_row(revision))
}

/// Writes a session's first layout of its own and adds it to the digest.
pub(crate) fn write_first(
    conn: &Connection,
    digest: &mut Digest,
    key: i64,
    revision: Revision,
    layout: &Layout,
) -> Result<()> {
    write(conn, digest, key, revision, codec::encode_layout(layout))
}

/// Writes the layout that follows another and adds it to the digest.
pub(crate) fn write_next(
    conn: &Connection,
    digest: &mut Digest,
    key: i64,
    revision: Revision,
    (before, after): (&Layout, &Layout),
) -> Result<()> {
    let whole = codec::encode_layout(after);
    let body = match whole_revision(conn, key)? {
        Some(base) => {
            let difference = codec::encode_layout_difference(before, after, base);
            let size = sqlite::query(SIZE).bind(key).bind(base).one(conn)?;
            let (count, bytes): (i64, i64) = (size.get(0)?, size.get(1)?);
            // The counted rows are the whole layout and the differences to it.
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).saturating_add(difference.len());
            let is_short = count < limits::LAYOUT_ROWS_MAX && bytes < whole.len().saturating_mul(2);
            if is_short { difference } else { whole }
        }
        None => whole,
    };
    write(conn, digest, key, revision, body)
}

/// The revision of the whole layout that the newest row of a session is based on.
fn whole_revision(conn: &Connection, key: i64) -> Result<Option<Revision>> {
    let row = sqlite::query(NEWEST).bind(key).bind(i64::MAX).optional(conn)?;
    let Some(row) = row else { return Ok(None) };
    let revision: Revision = row.get(0)?;
    let base = codec::layout_base(row.get(1)?).map_err(|error| error.in_row(revision))?;
    Ok(Some(base.unwrap_or(revision)))
}

fn write(conn: &Connection, digest: &mut Digest, key: i64, revision: Revision, body: Vec<u8>) -> Result<()> {
    chain::layout(digest, &body);
    sqlite::query(INSERT).bind(key).bind(revision).bind(body).execute(conn)?;
    Ok(())
}
