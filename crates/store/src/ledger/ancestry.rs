//! Ancestry: the owners of the segments of a history that forks share.

use super::codec;
use crate::engine::{self, Connection, Reader, Row};
use crate::error::{Error, Kind, Result};
use crate::model::Revision;
use crate::model::ids::SessionId;

/// The ancestry of a session's history.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ancestry {
    pub(crate) key: i64,
    /// The last revision that belongs to ancestors; none without a fork.
    pub(crate) fork_revision: Option<Revision>,
    /// The newest revision.
    pub(crate) revision: Revision,
}

/// The newest revision that a read takes into account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AsOf {
    At(Revision),
    /// Whatever is there, also rows that this transaction has added.
    Newest,
}

impl AsOf {
    /// The last revision, for comparisons in statements.
    pub(crate) fn last(self) -> Revision {
        match self {
            Self::At(revision) => revision,
            Self::Newest => Revision::MAX,
        }
    }

    pub(crate) fn includes(self, revision: Revision) -> bool {
        Self::At(revision) <= self
    }
}

/// A segment of history in one owner's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) owner: i64,
    pub(crate) first: Revision,
    /// Its end. An ancestor's segment ends at a revision: only messages that were sealed by then are inherited.
    pub(crate) end: AsOf,
}

impl Segment {
    /// The last revision of the segment up to `revision`.
    pub(crate) fn last_to(&self, revision: Revision) -> Revision {
        self.end.last().min(revision)
    }

    pub(crate) fn is_inherited(&self) -> bool {
        self.end != AsOf::Newest
    }
}

const SELECT_BY_ID: &str = "select id, fork_revision, revision, tenant from session where public_id = ?1";
const SELECT_BY_CLIENT: &str =
    "select id, fork_revision, revision, tenant from session where tenant = ?2 and client_id = ?1";
const SELECT_BY_KEY: &str = "select id, fork_revision, revision from session where id = ?1";
const SEGMENT_FROM: &str = "select owner_id, first_revision, last_revision from segment \
     where session_id = ?1 and has_messages = 1 and last_revision >= ?2 order by last_revision limit 1";
const SEGMENT_BEFORE: &str = "select owner_id, first_revision, last_revision from segment \
     where session_id = ?1 and has_messages = 1 and last_revision < ?2 order by last_revision desc limit 1";
const SEGMENT_AT: &str = "select owner_id, first_revision, last_revision from segment \
     where session_id = ?1 and first_revision <= ?2 order by first_revision desc limit 1";
const SEGMENTS: &str = "select owner_id, first_revision, last_revision, has_messages from segment \
     where session_id = ?1 order by first_revision";
// The direct parent may own no rows of the shared history.
const SHARED: &str = "select max(last) from (\
     select s.fork_revision as last from session s join session p on p.id = s.fork_id \
     where s.id = ?1 and p.public_id = ?2 \
     union all select g.last_revision from segment g join session o on o.id = g.owner_id \
     where g.session_id = ?1 and o.public_id = ?2) as shared";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] =
    &[SELECT_BY_ID, SELECT_BY_CLIENT, SELECT_BY_KEY, SEGMENT_FROM, SEGMENT_BEFORE, SEGMENT_AT, SEGMENTS, SHARED];

/// Finds a session of a tenant by its id or its client's id. One of another tenant is not there.
pub(crate) fn find(reader: &mut Reader<'_>, tenant: &str, id: &str) -> Result<Ancestry> {
    let row = match id.parse::<SessionId>() {
        Ok(id) => reader.one(engine::query(SELECT_BY_ID).bind(id.0.as_bytes().to_vec()))?,
        Err(_) => reader.one(engine::query(SELECT_BY_CLIENT).bind(id.to_owned()).bind(tenant.to_owned()))?,
    };
    let not_found = || Error::not_found(Kind::Session, id);
    let row = row.ok_or_else(not_found)?;
    if row.get::<&str>(3)? != tenant {
        return Err(not_found());
    }
    from_row(&row)
}

/// Finds a session by its id, whatever its tenant.
pub(crate) fn by_id(reader: &mut Reader<'_>, id: SessionId) -> Result<Ancestry> {
    let row = reader.one(engine::query(SELECT_BY_ID).bind(id.0.as_bytes().to_vec()))?;
    row.map(|row| from_row(&row)).transpose()?.ok_or_else(|| Error::not_found(Kind::Session, id))
}

/// Finds a session by its key.
pub(crate) fn by_key(reader: &mut Reader<'_>, key: i64) -> Result<Ancestry> {
    let row = reader.one(engine::query(SELECT_BY_KEY).bind(key))?;
    row.map(|row| from_row(&row)).transpose()?.ok_or_else(|| Error::not_found(Kind::Session, key))
}

fn from_row(row: &Row) -> Result<Ancestry> {
    Ok(Ancestry { key: row.get(0)?, fork_revision: row.get(1)?, revision: row.get(2)? })
}

fn segment(row: &Row) -> Result<Segment> {
    Ok(Segment { owner: row.get(0)?, first: row.get(1)?, end: AsOf::At(row.get(2)?) })
}

impl Ancestry {
    /// Refuses a revision that the session does not have.
    pub(crate) fn check(&self, revision: Revision) -> Result<()> {
        if (0..=self.revision).contains(&revision) {
            Ok(())
        } else {
            Err(Error::RevisionOutOfRange { revision, newest: self.revision })
        }
    }

    pub(crate) fn own_segment(&self) -> Segment {
        let first = self.fork_revision.map_or(0, |fork| fork + 1);
        Segment { owner: self.key, first, end: AsOf::Newest }
    }

    /// The first segment with messages that ends at `revision` or later.
    pub(crate) fn segment_from(&self, reader: &mut Reader<'_>, revision: Revision) -> Result<Segment> {
        let own = self.own_segment();
        if revision >= own.first {
            return Ok(own);
        }
        let row = reader.one(engine::query(SEGMENT_FROM).bind(self.key).bind(revision))?;
        row.map_or(Ok(own), |row| segment(&row))
    }

    /// The last segment with messages that begins at `revision` or before.
    pub(crate) fn segment_to(&self, reader: &mut Reader<'_>, revision: Revision) -> Result<Option<Segment>> {
        let own = self.own_segment();
        if revision >= own.first {
            return Ok(Some(own));
        }
        let row = reader.one(engine::query(SEGMENT_FROM).bind(self.key).bind(revision))?;
        if let Some(row) = row {
            let found = segment(&row)?;
            if found.first <= revision {
                return Ok(Some(found));
            }
        }
        let row = reader.one(engine::query(SEGMENT_BEFORE).bind(self.key).bind(revision))?;
        row.map(|row| segment(&row)).transpose()
    }

    pub(crate) fn owner_at(&self, reader: &mut Reader<'_>, revision: Revision) -> Result<Segment> {
        let own = self.own_segment();
        if revision >= own.first {
            return Ok(own);
        }
        let row = reader.one(engine::query(SEGMENT_AT).bind(self.key).bind(revision))?;
        row.map_or_else(|| Err(Error::corrupt("segment", "a fork has no segment for a revision")), |row| segment(&row))
    }

    /// All segments, oldest first, including those without messages (false); the last is the session's own.
    pub(crate) fn all_segments(&self, reader: &mut Reader<'_>) -> Result<Vec<(Segment, bool)>> {
        let mut segments = Vec::new();
        if self.fork_revision.is_some() {
            for row in reader.all(engine::query(SEGMENTS).bind(self.key))? {
                segments.push((segment(&row)?, row.get(3)?));
            }
        }
        segments.push((self.own_segment(), true));
        Ok(segments)
    }

    /// The segment of this history that contains the row of `owner` at `revision`; none if it is not part of this
    /// history.
    pub(crate) fn contains(&self, reader: &mut Reader<'_>, owner: i64, revision: Revision) -> Result<Option<Segment>> {
        let found = self.owner_at(reader, revision);
        match found {
            Ok(found) if found.owner == owner && found.end.includes(revision) => Ok(Some(found)),
            // A fork has no segment for a revision that it does not inherit.
            Ok(_) | Err(Error::Corrupt { table: "segment", .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The last revision that a session's history shares with a session that it was forked from, directly or not.
pub(crate) fn shared_with(reader: &mut Reader<'_>, key: i64, other: SessionId) -> Result<Option<Revision>> {
    let row = reader.one(engine::query(SHARED).bind(key).bind(other.0.as_bytes().to_vec()))?;
    row.map_or(Ok(None), |row| row.get(0))
}

/// The id of a session by its key.
pub(crate) fn public_id(conn: &Connection, key: i64) -> Result<SessionId> {
    let id: Vec<u8> = engine::scalar("select public_id from session where id = ?1").bind(key).one(conn)?;
    codec::uuid(&id).map(SessionId)
}
