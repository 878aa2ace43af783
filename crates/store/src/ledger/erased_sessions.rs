//! Requests whose sessions are erased: their client ids are free, but the same request never makes another session.

use super::identity::IDENTITIES;
use crate::engine::{self, Connection};
use crate::error::{Error, Result};

const FIND: &str = "select count(*) from erased_session where request_hash = ?1";
const INSERT: &str = "insert into erased_session (request_hash, session_id) values (?1, ?2) \
     on conflict (request_hash, session_id) do nothing";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[FIND, INSERT];

/// A hash of a request that only the store's secret can be compared by.
fn hash(conn: &Connection, tenant: &str, client_id: &str, request: &[u8]) -> Result<[u8; 32]> {
    let rows = engine::query(IDENTITIES).all(conn)?;
    let secret = rows.last().map(|row| row.get::<&[u8]>(1)).transpose()?.unwrap_or_default();
    let key = blake3::derive_key("longhand 2026-11-29 erased sessions", secret);
    let mut hasher = blake3::Hasher::new_keyed(&key);
    for text in [tenant.as_bytes(), client_id.as_bytes(), request] {
        hasher.update(&(text.len() as u64).to_le_bytes()).update(text);
    }
    Ok(*hasher.finalize().as_bytes())
}

/// Keeps the request that made a session which is erased.
pub(crate) fn add(conn: &Connection, key: i64, tenant: &str, client_id: &str, request: &[u8]) -> Result<()> {
    let hash = hash(conn, tenant, client_id, request)?;
    engine::query(INSERT).bind(&hash).bind(key).run(conn)
}

/// Refuses a request that made a session which is erased.
pub(crate) fn refuse(conn: &Connection, tenant: &str, client_id: &str, request: &[u8]) -> Result<()> {
    let hash = hash(conn, tenant, client_id, request)?;
    match engine::scalar::<i64>(FIND).bind(&hash).one(conn)? {
        0 => Ok(()),
        _ => Err(Error::SessionErased),
    }
}
