//! Access tokens, as rows. Nothing of them is in the log: they belong to no session.

use crate::engine::{self, Reader, Row};
use crate::error::{Error, Kind, Result};
use crate::ledger::tx::Tx;
use crate::limits;
use crate::model::access::{AccessToken, Binding, Scopes};
use crate::model::ids::{AccessTokenId, SessionId};
use crate::model::time::Timestamp;
use uuid::Uuid;

const INSERT: &str = "insert into access_token (public_id, secret_hash, principal, tenant, scopes, project, root, \
     create_time, expire_time, is_console) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
const CURRENT: &str = "select count(*) from access_token where tenant = ?1 and is_console = ?2 \
     and revoke_time is null and (expire_time is null or expire_time > ?3)";
// Those that ended last stay.
const FORGET: &str = "delete from access_token where tenant = ?1 and (revoke_time is not null or expire_time <= ?2) \
     and id not in (select id from access_token where tenant = ?1 and (revoke_time is not null or expire_time <= ?2) \
     order by coalesce(revoke_time, expire_time) desc, id desc limit +?3)";
pub(crate) const ALL: &str = "select public_id, secret_hash, principal, tenant, scopes, project, root, create_time, \
     expire_time, revoke_time, is_console from access_token order by id";
const ONE: &str = "select public_id, secret_hash, principal, tenant, scopes, project, root, create_time, expire_time, \
     revoke_time, is_console from access_token where public_id = ?1";
const REVOKE: &str = "update access_token set revoke_time = ?2 where public_id = ?1 and revoke_time is null";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[INSERT, CURRENT, FORGET, ALL, ONE, REVOKE];

/// An access token with the hash of its secret.
#[derive(Debug, Clone)]
pub struct StoredToken {
    /// The token.
    pub token: AccessToken,
    /// BLAKE3 of the secret.
    pub secret_hash: [u8; 32],
    /// True for a session of the console.
    pub is_console: bool,
}

/// Adds a token, if its tenant has room for one more that is current; twice as much if an operator makes it, so that no
/// tenant keeps the operator from making one. Of those of the tenant that ended, a bounded number stays.
pub(crate) fn insert(tx: &mut Tx<'_>, stored: &StoredToken, by_operator: bool) -> Result<()> {
    let StoredToken { token, secret_hash, is_console } = stored;
    let current = engine::scalar(CURRENT).bind(&token.tenant).bind(i64::from(*is_console)).bind(tx.now.0);
    let count: i64 = current.one(tx.conn)?;
    let (what, limit) = match is_console {
        true => ("console sessions", limits::CONSOLE_SESSIONS_MAX),
        false => ("access tokens", limits::ACCESS_TOKENS_MAX),
    };
    let limit = if by_operator { 2 * limit } else { limit };
    if count >= limit {
        return Err(Error::LimitExceeded { what, limit, actual: count + 1 });
    }
    let forget = engine::query(FORGET).bind(&token.tenant).bind(tx.now.0);
    forget.bind(limits::ACCESS_TOKENS_ENDED_MAX).run(tx.conn)?;
    engine::query(INSERT)
        .bind(token.id.0.as_bytes().as_slice())
        .bind(secret_hash.as_slice())
        .bind(&token.principal)
        .bind(&token.tenant)
        .bind(token.scopes.bits())
        .bind(token.binding.project.as_deref())
        .bind(token.binding.root.as_ref().map(|root| root.0.as_bytes().as_slice()))
        .bind(token.create_time.0)
        .bind(token.expire_time.map(|time| time.0))
        .bind(i64::from(*is_console))
        .run(tx.conn)?;
    Ok(())
}

/// Revokes a token at this time; one that is revoked already stays as it is. Returns it as it is then.
pub(crate) fn revoke(tx: &mut Tx<'_>, id: AccessTokenId) -> Result<StoredToken> {
    engine::query(REVOKE).bind(id.0.as_bytes().as_slice()).bind(tx.now.0).run(tx.conn)?;
    let row = engine::query(ONE).bind(id.0.as_bytes().as_slice()).optional(tx.conn)?;
    row.as_ref()
        .map(token_from_row)
        .transpose()?
        .ok_or_else(|| Error::NotFound { kind: Kind::AccessToken, id: id.to_string() })
}

/// Every token, oldest first. Each tenant has a bounded number of them.
pub(crate) fn all(reader: &mut Reader<'_>) -> Result<Vec<StoredToken>> {
    reader.all(engine::query(ALL))?.iter().map(token_from_row).collect()
}

fn token_from_row(row: &Row) -> Result<StoredToken> {
    let uuid = |bytes: &[u8]| Uuid::from_slice(bytes).map_err(|_| Error::corrupt("access_token", "an id is no UUID"));
    let id: Vec<u8> = row.get("public_id")?;
    let root: Option<Vec<u8>> = row.get("root")?;
    let secret_hash: Vec<u8> = row.get("secret_hash")?;
    let time = |value: Option<i64>| value.map(Timestamp);
    Ok(StoredToken {
        token: AccessToken {
            id: AccessTokenId(uuid(&id)?),
            principal: row.get("principal")?,
            tenant: row.get("tenant")?,
            scopes: Scopes::from_bits(row.get("scopes")?),
            binding: Binding {
                project: row.get("project")?,
                root: root.as_deref().map(uuid).transpose()?.map(SessionId),
            },
            create_time: Timestamp(row.get("create_time")?),
            expire_time: time(row.get("expire_time")?),
            revoke_time: time(row.get("revoke_time")?),
        },
        secret_hash: secret_hash
            .try_into()
            .map_err(|_| Error::corrupt("access_token", "the hash of a secret has another length"))?,
        is_console: row.get("is_console")?,
    })
}
