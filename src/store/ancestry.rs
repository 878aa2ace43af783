//! Ancestry: the owners of the segments of a history that forks share.

use super::codec;
use super::error::{Error, Kind, Result};
use super::head::SessionKey;
use crate::model::Revision;
use crate::model::ids::SessionId;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Row as _, Sqlite, SqliteConnection};

/// A reader on one connection. It counts the fetched rows, because a read must cost what it returns.
pub(crate) struct Reader<'a> {
    pub(crate) conn: &'a mut SqliteConnection,
    pub(crate) rows: u64,
}

/// A query with its arguments.
pub(crate) type Query<'q> = sqlx::query::Query<'q, Sqlite, SqliteArguments>;

impl<'a> Reader<'a> {
    /// Reads on this connection.
    pub(crate) fn new(conn: &'a mut SqliteConnection) -> Self {
        Self { conn, rows: 0 }
    }

    /// All rows of a query, which the caller has bounded.
    pub(crate) async fn all(&mut self, query: Query<'_>) -> Result<Vec<SqliteRow>> {
        let rows = query.fetch_all(&mut *self.conn).await?;
        self.rows += rows.len() as u64;
        Ok(rows)
    }

    /// The first row of a query.
    pub(crate) async fn one(&mut self, query: Query<'_>) -> Result<Option<SqliteRow>> {
        let row = query.fetch_optional(&mut *self.conn).await?;
        self.rows += u64::from(row.is_some());
        Ok(row)
    }
}

/// The ancestry of a session's history.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ancestry {
    pub(crate) key: i64,
    /// The last revision that belongs to ancestors; none without a fork.
    pub(crate) fork_revision: Option<Revision>,
    /// The newest revision.
    pub(crate) revision: Revision,
}

/// A segment of history in one owner's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) owner: i64,
    pub(crate) first: Revision,
    pub(crate) last: Revision,
    /// Set in an ancestor: only messages that were sealed by this revision are inherited.
    pub(crate) sealed_by: Option<Revision>,
}

const SELECT_BY_ID: &str = "select id, fork_revision, revision from session where public_id = $1";
const SELECT_BY_CLIENT: &str = "select id, fork_revision, revision from session where client_id = $1";
const SELECT_BY_KEY: &str = "select id, fork_revision, revision from session where id = $1";
const SEGMENT_FROM: &str = "select owner_id, first_revision, last_revision from segment \
     where session_id = $1 and has_messages = 1 and last_revision >= $2 order by last_revision limit 1";
const SEGMENT_BEFORE: &str = "select owner_id, first_revision, last_revision from segment \
     where session_id = $1 and has_messages = 1 and last_revision < $2 order by last_revision desc limit 1";
const SEGMENT_AT: &str = "select owner_id, first_revision, last_revision from segment \
     where session_id = $1 and first_revision <= $2 order by first_revision desc limit 1";
const SEGMENTS: &str = "select owner_id, first_revision, last_revision, has_messages from segment \
     where session_id = $1 order by first_revision";
// The direct parent may own no rows of the shared history.
const SHARED: &str = "select max(last) from (\
     select s.fork_revision as last from session s join session p on p.id = s.fork_id \
     where s.id = $1 and p.public_id = $2 \
     union all select g.last_revision from segment g join session o on o.id = g.owner_id \
     where g.session_id = $1 and o.public_id = $2)";

/// The statements of this file, for the test that prepares them all.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] =
    &[SELECT_BY_ID, SELECT_BY_CLIENT, SELECT_BY_KEY, SEGMENT_FROM, SEGMENT_BEFORE, SEGMENT_AT, SEGMENTS, SHARED];

/// Finds a session by its id or its client's id.
pub(crate) async fn find(reader: &mut Reader<'_>, id: &str) -> Result<Ancestry> {
    let row = match id.parse::<SessionId>() {
        Ok(id) => reader.one(sqlx::query(SELECT_BY_ID).bind(id.0.as_bytes().to_vec())).await?,
        Err(_) => reader.one(sqlx::query(SELECT_BY_CLIENT).bind(id.to_owned())).await?,
    };
    row.map(|row| from_row(&row)).transpose()?.ok_or_else(|| Error::not_found(Kind::Session, id))
}

/// Finds a session by its key.
pub(crate) async fn by_key(reader: &mut Reader<'_>, key: i64) -> Result<Ancestry> {
    let row = reader.one(sqlx::query(SELECT_BY_KEY).bind(key)).await?;
    row.map(|row| from_row(&row)).transpose()?.ok_or_else(|| Error::not_found(Kind::Session, key))
}

fn from_row(row: &SqliteRow) -> Result<Ancestry> {
    Ok(Ancestry { key: row.try_get(0)?, fork_revision: row.try_get(1)?, revision: row.try_get(2)? })
}

fn segment(row: &SqliteRow) -> Result<Segment> {
    let last = row.try_get(2)?;
    Ok(Segment { owner: row.try_get(0)?, first: row.try_get(1)?, last, sealed_by: Some(last) })
}

impl Ancestry {
    /// The key in the form that other layers use.
    pub(crate) fn session(&self) -> SessionKey {
        SessionKey(self.key)
    }

    /// Refuses a revision that the session does not have.
    pub(crate) fn check(&self, revision: Revision) -> Result<()> {
        if (0..=self.revision).contains(&revision) {
            Ok(())
        } else {
            Err(Error::RevisionOutOfRange { revision, newest: self.revision })
        }
    }

    fn own(&self) -> Segment {
        let first = self.fork_revision.map_or(0, |fork| fork + 1);
        Segment { owner: self.key, first, last: i64::MAX, sealed_by: None }
    }

    /// The first segment with messages that ends at `revision` or later.
    pub(crate) async fn segment_from(&self, reader: &mut Reader<'_>, revision: Revision) -> Result<Segment> {
        let own = self.own();
        if revision >= own.first {
            return Ok(own);
        }
        let row = reader.one(sqlx::query(SEGMENT_FROM).bind(self.key).bind(revision)).await?;
        row.map_or(Ok(own), |row| segment(&row))
    }

    /// The last segment with messages that begins at `revision` or before.
    pub(crate) async fn segment_to(&self, reader: &mut Reader<'_>, revision: Revision) -> Result<Option<Segment>> {
        let own = self.own();
        if revision >= own.first {
            return Ok(Some(own));
        }
        let row = reader.one(sqlx::query(SEGMENT_FROM).bind(self.key).bind(revision)).await?;
        if let Some(row) = row {
            let found = segment(&row)?;
            if found.first <= revision {
                return Ok(Some(found));
            }
        }
        let row = reader.one(sqlx::query(SEGMENT_BEFORE).bind(self.key).bind(revision)).await?;
        row.map(|row| segment(&row)).transpose()
    }

    /// The segment of the event at `revision`.
    pub(crate) async fn owner_at(&self, reader: &mut Reader<'_>, revision: Revision) -> Result<Segment> {
        let own = self.own();
        if revision >= own.first {
            return Ok(own);
        }
        let row = reader.one(sqlx::query(SEGMENT_AT).bind(self.key).bind(revision)).await?;
        row.map_or_else(|| Err(Error::corrupt("segment", "a fork has no segment for a revision")), |row| segment(&row))
    }

    /// All segments, oldest first, including those without messages (false); the last is the session's own.
    pub(crate) async fn all(&self, reader: &mut Reader<'_>) -> Result<Vec<(Segment, bool)>> {
        let mut segments = Vec::new();
        if self.fork_revision.is_some() {
            for row in reader.all(sqlx::query(SEGMENTS).bind(self.key)).await? {
                segments.push((segment(&row)?, row.try_get(3)?));
            }
        }
        segments.push((self.own(), true));
        Ok(segments)
    }

    /// The segment of this history that contains the row of `owner` at `revision`; none if it is not part of this
    /// history.
    pub(crate) async fn contains(
        &self,
        reader: &mut Reader<'_>,
        owner: i64,
        revision: Revision,
    ) -> Result<Option<Segment>> {
        let found = self.owner_at(reader, revision).await;
        match found {
            Ok(found) if found.owner == owner && revision <= found.last => Ok(Some(found)),
            // A fork has no segment for a revision that it does not inherit.
            Ok(_) | Err(Error::Corrupt { table: "segment", .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The last revision that a session's history shares with a session that it was forked from, directly or not.
pub(crate) async fn shared_with(reader: &mut Reader<'_>, key: i64, other: SessionId) -> Result<Option<Revision>> {
    let row = reader.one(sqlx::query(SHARED).bind(key).bind(other.0.as_bytes().to_vec())).await?;
    row.map_or(Ok(None), |row| Ok(row.try_get(0)?))
}

/// The id of a session by its key.
pub(crate) async fn public_id(conn: &mut SqliteConnection, key: i64) -> Result<SessionId> {
    let id: Vec<u8> =
        sqlx::query_scalar("select public_id from session where id = $1").bind(key).fetch_one(conn).await?;
    codec::uuid(&id).map(SessionId)
}
