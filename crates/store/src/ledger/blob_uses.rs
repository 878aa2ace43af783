//! Where blobs are used, so that an erasure deletes those that nothing else uses.

use super::codec::{self, StoredPart};
use super::messages;
use crate::engine::{self, Connection, Insert, List, Reader, Row, values};
use crate::error::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

static USES: Insert =
    Insert::new("blob_use (tenant, hash, kind, row_id)", 4, "on conflict (tenant, hash, kind, row_id) do nothing");
const MISSING: &str = "select count(*) from blob_use_missing where id = 1";
const COMPLETE: &str = "delete from blob_use_missing where id = 1";
pub(crate) const UNUSED: &str = "delete from blob where not exists \
     (select 1 from blob_use u where u.tenant = blob.tenant and u.hash = blob.hash)";
const MESSAGES: &str = "select m.id, m.parts, m.session_id, s.tenant from message m \
     join session s on s.id = m.session_id where m.id > ?1 order by m.id limit 500";
const PROMPTS: &str = "select p.id, p.parts, p.session_id, s.tenant from prompt p \
     join session s on s.id = p.session_id where p.id > ?1 order by p.id limit 500";
const REMOVE: &str = "delete from blob_use where kind = ?1 and row_id = ?2 and hash = ?3";
const OTHERS: &str =
    "select count(*) from blob_use where hash = ?1 and tenant = (select tenant from session where id = ?2)";
const DELETE_UNUSED: &str = "delete from blob where hash in (select value from rarray(?1)) \
     and tenant = (select tenant from session where id = ?2) \
     and not exists (select 1 from blob_use u where u.tenant = blob.tenant and u.hash = blob.hash)";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[MISSING, COMPLETE, UNUSED, MESSAGES, PROMPTS, REMOVE, OTHERS, DELETE_UNUSED];

#[cfg(test)]
pub(crate) static INSERTS: [&Insert; 1] = [&USES];

/// A row with parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Holder {
    /// A message, by its row.
    Message(i64),
    /// A prompt, by its row.
    Prompt(i64),
}

impl Holder {
    fn columns(self) -> (i64, i64) {
        match self {
            Self::Message(row) => (1, row),
            Self::Prompt(row) => (2, row),
        }
    }
}

/// Records uses of blobs of tenants.
pub(crate) fn add<'u>(conn: &Connection, uses: impl IntoIterator<Item = (&'u str, Holder, &'u [u8])>) -> Result<()> {
    let rows = uses.into_iter().map(|(tenant, holder, hash)| {
        let (kind, row) = holder.columns();
        values![tenant, hash, kind, row]
    });
    USES.rows(conn, rows)
}

/// The hashes of the blobs that a stored part of a session uses: that of its body, and those of its media.
pub(crate) fn of_part(reader: &mut Reader<'_>, session: i64, part: &StoredPart) -> Result<BTreeSet<Vec<u8>>> {
    let mut hashes: BTreeSet<Vec<u8>> = part.blob_hash.iter().cloned().collect();
    hashes.extend(codec::media_blobs(&messages::plain_body(reader, session, &mut part.clone())?)?);
    Ok(hashes)
}

/// The number of rows that use a blob of a session's tenant.
pub(crate) fn count(reader: &mut Reader<'_>, session: i64, hash: &[u8]) -> Result<i64> {
    reader.one(engine::query(OTHERS).bind(hash.to_vec()).bind(session))?.map_or(Ok(0), |row| row.get(0))
}

/// Reads at once what `count` says of these blobs.
pub(crate) fn read_counts_ahead<'h>(
    conn: &Connection,
    session: i64,
    hashes: impl Iterator<Item = &'h Vec<u8>>,
) -> Result<()> {
    conn.read_ahead(OTHERS, &hashes.map(|hash| values![hash, session]).collect::<Vec<_>>())
}

/// Ends sessions' uses of blobs, and deletes each blob with the last use in its tenant. A tombstone must be open.
pub(crate) fn remove(conn: &Connection, uses: &[(i64, Holder, Vec<u8>)]) -> Result<()> {
    if uses.is_empty() {
        return Ok(());
    }
    let row = |(_, holder, hash): &(i64, Holder, Vec<u8>)| {
        let (kind, row) = holder.columns();
        values![kind, row, hash.clone()]
    };
    engine::run_for_each(conn, REMOVE, uses.iter().map(row).collect())?;
    if engine::scalar::<i64>(MISSING).one(conn)? > 0 {
        return Ok(());
    }
    let mut by_session: BTreeMap<i64, BTreeSet<&[u8]>> = BTreeMap::new();
    for (session, _, hash) in uses {
        by_session.entry(*session).or_default().insert(hash);
    }
    for (session, hashes) in by_session {
        engine::query(DELETE_UNUSED).bind(List::of_bytes(hashes)).bind(session).run(conn)?;
    }
    Ok(())
}

/// Adds the uses of blobs that are older than their record, once, and deletes what nothing uses then: copies of blobs for
/// tenants that do not have them. As long as a row cannot be read, it is not known what it uses, and no blob is deleted.
pub(crate) fn complete(conn: &Connection) -> Result<()> {
    if engine::scalar::<i64>(MISSING).one(conn)? == 0 {
        return Ok(());
    }
    let transaction = conn.transaction()?;
    let unread = read_rows(&transaction, 0, 0)?.len();
    if unread == 0 {
        engine::query(COMPLETE).run(&transaction)?;
        engine::query(UNUSED).run(&transaction)?;
    } else {
        tracing::warn!(unread, "rows cannot be read: erasures delete no large bodies and media as long as that is so");
    }
    transaction.commit()?;
    Ok(())
}

/// Records the uses of blobs by the messages and prompts whose rows come behind these.
pub(crate) fn of_rows_behind(conn: &Connection, message: i64, prompt: i64) -> Result<()> {
    read_rows(conn, message, prompt)?.into_iter().next().map_or(Ok(()), Err)
}

/// Records the uses of blobs by all rows behind these. Returns an error for each row that cannot be read.
fn read_rows(conn: &Connection, message: i64, prompt: i64) -> Result<Vec<Error>> {
    let of_message = |reader: &mut Reader<'_>, row: &Row| {
        let id: i64 = row.get(0)?;
        let parts = match row.get::<Option<&[u8]>>(1)? {
            Some(parts) => codec::decode_parts(parts)?,
            None => part_rows(reader, id)?,
        };
        of_parts(reader, row.get(2)?, Holder::Message(id), &parts)
    };
    let of_prompt = |reader: &mut Reader<'_>, row: &Row| {
        of_parts(reader, row.get(2)?, Holder::Prompt(row.get(0)?), &codec::decode_parts(row.get(1)?)?)
    };
    let mut unread = of_rows(conn, MESSAGES, message, of_message)?;
    unread.extend(of_rows(conn, PROMPTS, prompt, of_prompt)?);
    Ok(unread)
}

type BlobUses = Vec<(Holder, Vec<u8>)>;

fn part_rows(reader: &mut Reader<'_>, message: i64) -> Result<Vec<StoredPart>> {
    let rows = reader.all(engine::query(messages::OF_MESSAGE).bind(message))?;
    rows.iter().map(|row| Ok(messages::part_row(row)?.stored)).collect()
}

fn of_parts(reader: &mut Reader<'_>, session: i64, holder: Holder, parts: &[StoredPart]) -> Result<BlobUses> {
    let mut uses = Vec::new();
    for part in parts {
        uses.extend(of_part(reader, session, part)?.into_iter().map(|hash| (holder, hash)));
    }
    Ok(uses)
}

/// Records the uses of all rows of a statement behind a row, page by page. Returns an error for each row that cannot be
/// read.
fn of_rows(
    conn: &Connection,
    statement: &str,
    mut after: i64,
    read: impl Fn(&mut Reader<'_>, &Row) -> Result<BlobUses>,
) -> Result<Vec<Error>> {
    let mut unread = Vec::new();
    loop {
        let rows = engine::query(statement).bind(after).all(conn)?;
        let Some(last) = rows.last() else { return Ok(unread) };
        after = last.get(0)?;
        for row in &rows {
            match read(&mut Reader::new(conn), row) {
                Ok(found) => {
                    let tenant: &str = row.get(3)?;
                    add(conn, found.iter().map(|(holder, hash)| (tenant, *holder, hash.as_slice())))?;
                }
                Err(error) => unread.push(error),
            }
        }
    }
}
