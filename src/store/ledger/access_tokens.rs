//! Access tokens, as rows. Nothing of them is in the log: they belong to no session.

use crate::limits;
use crate::model::access::{AccessToken, Binding, Scopes};
use crate::model::ids::{AccessTokenId, SessionId};
use crate::model::time::Timestamp;
use crate::store::engine::{self, Reader, Row};
use crate::store::error::{Error, Kind, Result};
use crate::store::ledger::tx::Tx;
use uuid::Uuid;

const INSERT: &str = "insert into access_token (public_id, secret_hash, principal, tenant, scopes, project, root, \
     create_time, expire_time) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
const COUNT: &str = "select count(*) from access_token";
pub(crate) const ALL: &str = "select public_id, secret_hash, principal, tenant, scopes, project, root, create_time, \
     expire_time, revoke_time from access_token order by id";
const ONE: &str = "select public_id, secret_hash, principal, tenant, scopes, project, root, create_time, expire_time, \
     revoke_time from access_token where public_id = ?1";
const REVOKE: &str = "update access_token set revoke_time = ?2 where public_id = ?1 and revoke_time is null";

/// The statements of this file, for the test that prepares them all.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[INSERT, COUNT, ALL, ONE, REVOKE];

/// An access token with the hash of its secret.
#[derive(Debug, Clone)]
pub struct StoredToken {
    /// The token.
    pub token: AccessToken,
    /// BLAKE3 of the secret.
    pub secret_hash: [u8; 32],
}

/// Adds a token.
pub(crate) fn insert(tx: &mut Tx<'_>, stored: &StoredToken) -> Result<()> {
    let StoredToken { token, secret_hash } = stored;
    let count: i64 = engine::scalar(COUNT).one(tx.conn)?;
    if count >= limits::ACCESS_TOKENS_MAX {
        let limit = limits::ACCESS_TOKENS_MAX;
        return Err(Error::LimitExceeded { what: "access tokens", limit, actual: count + 1 });
    }
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
        .run(tx.conn)?;
    Ok(())
}

/// Revokes a token at this time; one that is revoked already stays as it is. Returns it as it is then.
pub(crate) fn revoke(tx: &mut Tx<'_>, id: AccessTokenId) -> Result<StoredToken> {
    engine::query(REVOKE).bind(id.0.as_bytes().as_slice()).bind(tx.now.0).run(tx.conn)?;
    let row = engine::query(ONE).bind(id.0.as_bytes().as_slice()).optional(tx.conn)?;
    row.as_ref().map(read).transpose()?.ok_or_else(|| Error::NotFound { kind: Kind::AccessToken, id: id.to_string() })
}

/// Every token, oldest first. There are few: a bounded number of rows.
pub(crate) fn all(reader: &mut Reader<'_>) -> Result<Vec<StoredToken>> {
    reader.all(engine::query(ALL))?.iter().map(read).collect()
}

fn read(row: &Row) -> Result<StoredToken> {
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
    })
}
