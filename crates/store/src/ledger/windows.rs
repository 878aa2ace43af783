//! Model windows by revision, as immutable rows.

use super::ancestry::Ancestry;
use super::chain::{self, Digest};
use super::codec;
use crate::engine::Reader;
use crate::engine::{self, Connection};
use crate::error::{Error, Result};
use crate::model::Revision;
use crate::model::usage::ModelWindow;

const INSERT: &str = "insert into \"window\" (session_id, revision, body) values (?1, ?2, ?3)";
const AT: &str = "select body from \"window\" where session_id = ?1 and revision <= ?2 order by revision desc limit 1";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[INSERT, AT];

/// Writes the window that is active from a revision on, and adds it to the digest of that revision.
pub(crate) fn write(
    conn: &Connection,
    digest: &mut Digest,
    key: i64,
    revision: Revision,
    window: &ModelWindow,
) -> Result<()> {
    let body = codec::encode_window(window);
    chain::window(digest, &body);
    engine::query(INSERT).bind(key).bind(revision).bind(body).run(conn)?;
    Ok(())
}

/// The window of a history that is active at a revision. A session's window begins with its first event.
pub(crate) fn window_in(reader: &mut Reader<'_>, ancestry: &Ancestry, at: Revision) -> Result<ModelWindow> {
    let at = at.max(1);
    let owner = ancestry.owner_at(reader, at)?.owner;
    let row = reader
        .one(engine::query(AT).bind(owner).bind(at))?
        .ok_or_else(|| Error::corrupt("window", "a session has no window"))?;
    codec::decode_window(row.get(0)?)
}
