//! The policies of sessions: which text is active at a revision.

use super::ancestry::{Ancestry, AsOf};
use crate::engine::{self, Reader, Row};
use crate::error::{Error, Result};
use crate::model::Revision;

/// A policy as the store keeps it: a text that the store does not parse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyText {
    /// The preset it started from.
    pub preset: String,
    /// The policy, as JSON.
    pub json: String,
}

const POLICY_AT: &str = "select t.preset, t.json, t.hash from policy p join policy_text t on t.hash = p.hash \
     where p.session_id = ?1 and p.revision <= ?2 order by p.revision desc limit 1";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[POLICY_AT];

/// The policy of a session's own rows that is active at a revision.
pub(crate) fn policy_at(reader: &mut Reader<'_>, key: i64, at: AsOf) -> Result<PolicyText> {
    let row = reader
        .one(engine::query(POLICY_AT).bind(key).bind(at.last()))?
        .ok_or_else(|| Error::corrupt("policy", "a session has no policy"))?;
    from_row(&row)
}

/// A policy from the first columns of a row, checked against its hash.
pub(crate) fn from_row(row: &Row) -> Result<PolicyText> {
    let policy = PolicyText { preset: row.get(0)?, json: row.get(1)? };
    let hash: &[u8] = row.get(2)?;
    if blake3::hash(policy.json.as_bytes()).as_bytes() != hash {
        return Err(Error::corrupt("policy_text", "the text does not match its hash"));
    }
    Ok(policy)
}

/// The policy of a history that is active at a revision. A session's policy begins with its first event.
pub(crate) fn policy_in(reader: &mut Reader<'_>, ancestry: &Ancestry, at: Revision) -> Result<PolicyText> {
    let at = at.max(1);
    let segment = ancestry.owner_at(reader, at)?;
    policy_at(reader, segment.owner, AsOf::At(at))
}
