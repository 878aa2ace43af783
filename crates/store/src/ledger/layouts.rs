//! Rows of layouts: a whole one, then differences, until their size reaches that of the whole one or their number a
//! limit. Layouts of thousands of edits or pins take linear space, and reading one costs at most twice its size.

use super::ancestry::{Ancestry, AsOf};
use super::chain::{self, Digest};
use super::codec;
use crate::engine::Reader;
use crate::engine::{self, Connection};
use crate::error::Result;
use crate::limits;
use crate::model::Revision;
use crate::model::layout::{Layout, LayoutChange};

const INSERT: &str = "insert into layout (session_id, revision, body) values (?1, ?2, ?3)";
const NEWEST: &str =
    "select revision, body from layout where session_id = ?1 and revision <= ?2 order by revision desc limit 1";
const SINCE: &str = "select body from layout where session_id = ?1 and revision between ?2 and ?3 order by revision";
const SIZE: &str = "select count(*), sum(length(body)), max(length(body)) filter (where revision = ?2) from layout \
     where session_id = ?1 and revision >= ?2";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[INSERT, NEWEST, SINCE, SIZE];

/// The layout that is active at a revision.
pub(crate) fn at(reader: &mut Reader<'_>, ancestry: &Ancestry, at: Revision) -> Result<Layout> {
    let owner = ancestry.owner_at(reader, at)?.owner;
    match reader.one(engine::query(NEWEST).bind(owner).bind(at))? {
        Some(row) => from_newest(reader, owner, Some((row.get(0)?, row.get(1)?))),
        None => Ok(Layout::everything()),
    }
}

/// The layout of an owner's newest row, which is a difference or a whole one.
pub(crate) fn from_newest(reader: &mut Reader<'_>, owner: i64, newest: Option<(Revision, &[u8])>) -> Result<Layout> {
    let Some((revision, body)) = newest else { return Ok(Layout::everything()) };
    let mut read = || match codec::layout_base(body)? {
        None => codec::decode_layout([body]),
        Some(whole) => {
            let rows = reader.all(engine::query(SINCE).bind(owner).bind(whole).bind(revision))?;
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

/// The newest rows of a session's own layouts: a whole one, and the differences to it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rows {
    whole: Option<Whole>,
    difference_count: i64,
    difference_bytes: i64,
}

#[derive(Debug, Clone, Copy)]
struct Whole {
    revision: Revision,
    bytes: i64,
}

impl Rows {
    /// Reads the size of the rows.
    pub(crate) fn read(conn: &Connection, key: i64) -> Result<Self> {
        let Some(newest) = engine::query(NEWEST).bind(key).bind(AsOf::Newest.last()).optional(conn)? else {
            return Ok(Self::default());
        };
        let newest_revision: Revision = newest.get(0)?;
        let base = codec::layout_base(newest.get(1)?).map_err(|error| error.in_row(newest_revision))?;
        let revision = base.unwrap_or(newest_revision);
        let size = engine::query(SIZE).bind(key).bind(revision).one(conn)?;
        let (count, all_bytes, bytes): (i64, i64, i64) = (size.get(0)?, size.get(1)?, size.get(2)?);
        let whole = Some(Whole { revision, bytes });
        Ok(Self { whole, difference_count: count - 1, difference_bytes: all_bytes - bytes })
    }

    /// Writes the layout that follows the newest one and adds it to the digest: its difference, until the differences
    /// have more bytes than the whole layout before them, or too many rows.
    pub(crate) fn write_next(
        &mut self,
        conn: &Connection,
        digest: &mut Digest,
        key: i64,
        revision: Revision,
        (change, layout): (&LayoutChange, &Layout),
    ) -> Result<()> {
        let length = |body: &Vec<u8>| i64::try_from(body.len()).unwrap_or(i64::MAX);
        let rows = self.whole.filter(|_| self.difference_count + 1 < limits::LAYOUT_ROWS_MAX);
        let difference = rows.map(|whole| (whole, codec::encode_layout_change(change, whole.revision)));
        let fits = |whole: &Whole, body: &Vec<u8>| self.difference_bytes.saturating_add(length(body)) < whole.bytes;
        let body = match difference.filter(|(whole, body)| fits(whole, body)) {
            Some((_, body)) => {
                self.difference_count += 1;
                self.difference_bytes += length(&body);
                body
            }
            None => {
                let body = codec::encode_layout(layout);
                *self = Self { whole: Some(Whole { revision, bytes: length(&body) }), ..Self::default() };
                body
            }
        };
        write(conn, digest, key, revision, body)
    }
}

fn write(conn: &Connection, digest: &mut Digest, key: i64, revision: Revision, body: Vec<u8>) -> Result<()> {
    chain::layout(digest, &body);
    engine::query(INSERT).bind(key).bind(revision).bind(body).run(conn)?;
    Ok(())
}
