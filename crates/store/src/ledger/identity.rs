//! The identity of a store: its id, its earlier ids if it was restored from a backup, and its secret.

use super::codec;
use crate::clock::{Clock, fresh_id};
use crate::engine::{self, Connection};
use crate::error::{Error, Result};
use uuid::Uuid;

const FIRST: &str =
    "insert into store (id, public_id, create_time, secret) values (1, ?1, ?2, ?3) on conflict (id) do nothing";
const NEXT: &str = "insert into store (id, public_id, create_time, secret) \
     select id + 1, ?1, ?2, secret from store order by id desc limit 1";
pub(crate) const IDENTITIES: &str = "select public_id, secret from store order by id desc";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[FIRST, NEXT, IDENTITIES];
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// The store's id, which cursors name.
    pub(crate) id: Uuid,
    /// Ids of the stores whose backups this store was restored from, newest first.
    pub(crate) earlier: Vec<Uuid>,
    pub(crate) view_key: [u8; 32],
    pub(crate) page_key: [u8; 32],
    /// The key of placeholders for secrets, and of digests of what was received.
    pub(crate) secrets_salt: [u8; 32],
}

/// Gives a restored store an id of its own; the secret stays.
pub(crate) fn begin_anew(conn: &Connection, clock: &Clock) -> Result<()> {
    engine::query(NEXT).bind(fresh_id().as_bytes()).bind(clock.now().0).run(conn)?;
    Ok(())
}

/// The identity, which is made at the first start of a new store.
pub(crate) fn load_or_create(conn: &Connection, clock: &Clock) -> Result<Identity> {
    let secret: [u8; 32] = rand::random();
    let (id, now) = (fresh_id(), clock.now().0);
    engine::query(FIRST).bind(id.as_bytes()).bind(now).bind(&secret).run(conn)?;
    let rows = engine::query(IDENTITIES).all(conn)?;
    let ids = rows.iter().map(|row| codec::uuid(row.get(0)?)).collect::<Result<Vec<_>>>()?;
    let secret = rows.last().map(|row| row.get::<&[u8]>(1)).transpose()?.unwrap_or_default();
    let view_key = blake3::derive_key("longhand 2026-12-06 view tokens", secret);
    let page_key = blake3::derive_key("longhand 2026-12-01 page tokens", secret);
    let secrets_salt = blake3::derive_key("longhand 2026-11-30 secrets", secret);
    let (id, earlier) = ids.split_first().ok_or_else(|| Error::corrupt("store", "it has no identity"))?;
    Ok(Identity { id: *id, earlier: earlier.to_vec(), view_key, page_key, secrets_salt })
}
