//! Rows of layouts: a whole one, then differences, until their size reaches that of the whole one or their number a
//! limit. Layouts of thousands of edits or pins take linear space, and reading one costs at most twice its size.

use super::ancestry::{Ancestry, Reader};
use super::chain::{self, Digest};
use super::codec;
use super::error::Result;
use crate::limits;
use crate::model::Revision;
use crate::model::layout::Layout;
use sqlx::{Row as _, SqliteConnection};

const INSERT: &str = "insert into layout (session_id, revision, body) values ($1, $2, $3)";
const NEWEST: &str =
    "select revision, body from layout where session_id = $1 and revision <= $2 order by revision desc limit 1";
const SINCE: &str = "select body from layout where session_id = $1 and revision between $2 and $3 order by revision";
const SIZE: &str = "select count(*), sum(length(body)) from layout where session_id = $1 and revision >= $2";

/// The statements of this file, for the test that prepares them all.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[INSERT, NEWEST, SINCE, SIZE];

/// The layout that is active at a revision.
pub(crate) async fn at(reader: &mut Reader<'_>, ancestry: &Ancestry, at: Revision) -> Result<Layout> {
    let owner = ancestry.owner_at(reader, at).await?.owner;
    let Some(newest) = reader.one(sqlx::query(NEWEST).bind(owner).bind(at)).await? else {
        return Ok(Layout::everything());
    };
    let (revision, body): (Revision, &[u8]) = (newest.try_get(0)?, newest.try_get(1)?);
    let read = async {
        match codec::layout_base(body)? {
            None => codec::decode_layout([body]),
            Some(whole) => {
                let rows = reader.all(sqlx::query(SINCE).bind(owner).bind(whole).bind(revision)).await?;
                let bodies: Vec<&[u8]> =
                    rows.iter().map(|row| row.try_get(0)).collect::<std::result::Result<_, _>>()?;
                codec::decode_layout(bodies)
            }
        }
    };
    read.await.map_err(|error| error.in_row(revision))
}

/// Writes a session's first layout of its own and adds it to the digest.
pub(crate) async fn write_first(
    conn: &mut SqliteConnection,
    digest: &mut Digest,
    key: i64,
    revision: Revision,
    layout: &Layout,
) -> Result<()> {
    write(conn, digest, key, revision, codec::encode_layout(layout)).await
}

/// Writes the layout that follows another and adds it to the digest.
pub(crate) async fn write_next(
    conn: &mut SqliteConnection,
    digest: &mut Digest,
    key: i64,
    revision: Revision,
    (before, after): (&Layout, &Layout),
) -> Result<()> {
    let whole = codec::encode_layout(after);
    let body = match whole_revision(conn, key).await? {
        Some(base) => {
            let difference = codec::encode_layout_difference(before, after, base);
            let (count, bytes): (i64, i64) = sqlx::query_as(SIZE).bind(key).bind(base).fetch_one(&mut *conn).await?;
            // The counted rows are the whole layout and the differences to it.
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).saturating_add(difference.len());
            let is_short = count < limits::LAYOUT_ROWS_MAX && bytes < whole.len().saturating_mul(2);
            if is_short { difference } else { whole }
        }
        None => whole,
    };
    write(conn, digest, key, revision, body).await
}

/// The revision of the whole layout that the newest row of a session is based on.
async fn whole_revision(conn: &mut SqliteConnection, key: i64) -> Result<Option<Revision>> {
    let row = sqlx::query(NEWEST).bind(key).bind(i64::MAX).fetch_optional(conn).await?;
    let Some(row) = row else { return Ok(None) };
    let revision: Revision = row.try_get(0)?;
    let base = codec::layout_base(row.try_get(1)?).map_err(|error| error.in_row(revision))?;
    Ok(Some(base.unwrap_or(revision)))
}

async fn write(
    conn: &mut SqliteConnection,
    digest: &mut Digest,
    key: i64,
    revision: Revision,
    body: Vec<u8>,
) -> Result<()> {
    chain::layout(digest, &body);
    sqlx::query(INSERT).bind(key).bind(revision).bind(body).execute(conn).await?;
    Ok(())
}
