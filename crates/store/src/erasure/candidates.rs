//! Sessions as retention looks at them: how old and how large they are, and what keeps them; and those that agents began
//! for others.

use crate::engine::{self, Reader, Row};
use crate::error::Result;
use crate::ledger::codec::{self, Number as _};
use crate::ledger::head::SessionKey;
use crate::ledger::labels;
use crate::limits;
use crate::model::Revision;
use crate::model::ids::SessionId;
use crate::model::session::SessionState;
use crate::model::time::Timestamp;

// A fork shares the rows of the session that it was forked from, and would lose them with it.
const PAGE: &str = "select s.id, s.public_id, s.revision, s.create_time, s.update_time, s.content_bytes, \
     exists (select 1 from run r where r.session_id = s.id and r.end_revision is null), \
     exists (select 1 from segment g join session f on f.id = g.session_id \
     where g.owner_id = s.id and g.session_id <> s.id and f.state <> 3), s.title \
     from session s where s.tenant = ?1 and s.update_period <= ?5 and (s.update_time, s.id) < (?2, ?3) \
     and s.state <> 3 order by s.update_period desc, s.update_time desc, s.id desc limit +?4";
const TENANTS: &str = "select min(tenant) from session where tenant > ?1";
const HAS_DEFAULT: &str = "select exists (select 1 from session where tenant = '')";
const SUB_AGENTS: &str = "with recursive tree(id) as (select id from session where parent_id = ?1 \
     union all select c.id from tree join session c on c.parent_id = tree.id) \
     select s.id, s.public_id, s.state from tree cross join session s where s.id = tree.id order by s.id limit +?2";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[PAGE, TENANTS, HAS_DEFAULT, SUB_AGENTS];

/// A session that is not erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetentionCandidate {
    /// Its key.
    pub key: SessionKey,
    /// Its id.
    pub id: SessionId,
    /// Its title.
    pub title: String,
    /// Its revision, which an erasure expects.
    pub revision: Revision,
    /// The time of its creation.
    pub create_time: Timestamp,
    /// The time of its last change.
    pub update_time: Timestamp,
    /// Bytes of its content, before compression.
    pub content_bytes: i64,
    /// True while a run is active.
    pub is_at_work: bool,
    /// True while a fork that is not erased shares its history.
    pub is_shared: bool,
    /// Its labels.
    pub labels: Vec<String>,
}

/// The next sessions of a tenant behind one, the newest change first.
pub(crate) fn page(
    reader: &mut Reader<'_>,
    tenant: &str,
    behind: Option<(Timestamp, SessionKey)>,
    most: usize,
) -> Result<Vec<RetentionCandidate>> {
    let (time, key) = behind.unwrap_or((Timestamp(i64::MAX), SessionKey(i64::MAX)));
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let period = time.0.div_euclid(limits::UPDATE_PERIOD_MICROS);
    let query = engine::query(PAGE).bind(tenant.to_owned()).bind(time.0).bind(key.0).bind(most);
    let rows = reader.all(query.bind(period))?;
    let mut candidates = Vec::with_capacity(rows.len());
    for row in &rows {
        let key: i64 = row.get(0)?;
        candidates.push(RetentionCandidate {
            key: SessionKey(key),
            id: SessionId(codec::uuid(row.get(1)?)?),
            revision: row.get(2)?,
            create_time: Timestamp(row.get(3)?),
            update_time: Timestamp(row.get(4)?),
            content_bytes: row.get(5)?,
            is_at_work: row.get(6)?,
            is_shared: row.get(7)?,
            title: row.get(8)?,
            labels: labels::of_session(reader, key)?,
        });
    }
    Ok(candidates)
}

/// A session that works for another one, or for one that does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubAgent {
    /// Its key.
    pub key: SessionKey,
    /// Its id.
    pub id: SessionId,
    /// True if it is erased, or its erasure has begun.
    pub is_erased: bool,
}

/// The sessions that work for one, at any depth, oldest first.
pub(crate) fn sub_agents(reader: &mut Reader<'_>, session: SessionKey, most: usize) -> Result<Vec<SubAgent>> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let rows = reader.all(engine::query(SUB_AGENTS).bind(session.0).bind(most))?;
    let sub_agent = |row: &Row| {
        let is_erased = SessionState::from_number(row.get(2)?)? == SessionState::Erased;
        Ok(SubAgent { key: SessionKey(row.get(0)?), id: SessionId(codec::uuid(row.get(1)?)?), is_erased })
    };
    rows.iter().map(sub_agent).collect()
}

/// The tenants that have sessions.
pub(crate) fn tenants(reader: &mut Reader<'_>) -> Result<Vec<String>> {
    let mut tenants = Vec::new();
    if reader.always(engine::query(HAS_DEFAULT))?.get(0)? {
        tenants.push(String::new());
    }
    let mut after = String::new();
    while let Some(tenant) = reader.always(engine::query(TENANTS).bind(after))?.get::<Option<String>>(0)? {
        tenants.push(tenant.clone());
        after = tenant;
    }
    Ok(tenants)
}
