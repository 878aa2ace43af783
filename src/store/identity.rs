//! The identity of a store. A backup carries a mark in its header, and its first start as a store gives it a new id.

use super::codec;
use super::error::Result;
use super::sqlite::{self, Connection};
use crate::clock::{Clock, fresh_id};
use uuid::Uuid;

/// `user_version` of a backup that was never opened as a store.
const BACKUP: i64 = 1;
const IS_BACKUP: &str = "pragma user_version";
const MARK: &str = "pragma user_version = 1";
const CLEAR_MARK: &str = "pragma user_version = 0";
const FIRST: &str =
    "insert into store (id, public_id, create_time, secret) values (1, ?1, ?2, ?3) on conflict (id) do nothing";
const NEXT: &str = "insert into store (id, public_id, create_time, secret) \
     select id + 1, ?1, ?2, secret from store order by id desc limit 1";
pub(super) const IDENTITIES: &str = "select public_id, secret from store order by id desc";

/// The statements of this file, for the test that prepares them all.
#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[FIRST, NEXT, IDENTITIES];
/// The identity of a store.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    /// The store's id, which cursors name.
    pub(super) id: Uuid,
    /// Ids of the stores whose backups this store was restored from, newest first.
    pub(super) earlier: Vec<Uuid>,
    /// The key of view tokens.
    pub(super) view_key: [u8; 32],
}

/// The identity, which is made at the first start of a new store and of a restored backup.
pub(super) fn load_or_create(conn: &Connection, clock: &Clock) -> Result<Identity> {
    let secret: [u8; 32] = rand::random();
    let (id, now) = (fresh_id(), clock.now().0);
    sqlite::query(FIRST).bind(id.as_bytes()).bind(now).bind(&secret).execute(conn)?;
    let mark: i64 = sqlite::scalar(IS_BACKUP).one(conn)?;
    if mark == BACKUP {
        let transaction = conn.unchecked_transaction()?;
        sqlite::query(NEXT).bind(id.as_bytes()).bind(now).execute(&transaction)?;
        transaction.execute_batch(CLEAR_MARK)?;
        transaction.commit()?;
    }
    let rows = sqlite::query(IDENTITIES).all(conn)?;
    let ids = rows.iter().map(|row| codec::uuid(row.get(0)?)).collect::<Result<Vec<_>>>()?;
    let secret = rows.last().map(|row| row.get::<&[u8]>(1)).transpose()?.unwrap_or_default();
    let view_key = blake3::derive_key("longhand 2026-12-06 view tokens", secret);
    let (id, earlier) = ids.split_first().ok_or_else(|| super::Error::corrupt("store", "it has no identity"))?;
    Ok(Identity { id: *id, earlier: earlier.to_vec(), view_key })
}

/// Marks a database as a backup: its first start as a store gives it a new id.
pub(super) fn mark_as_backup(conn: &Connection) -> Result<()> {
    Ok(conn.execute_batch(MARK)?)
}
