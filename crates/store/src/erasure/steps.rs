//! Steps of the erasure of a session: each is a mutation of its own, so that others write in between. The first one makes
//! the session an erased one, so that nothing joins it any more, and leaves a row by which the others follow, whoever
//! makes them. A small session goes in one step, without a row.

use super::plan::EraseStep;
use super::rows::Sizes;
use crate::engine::{self, Connection, Reader};
use crate::error::Result;
use crate::ledger::head::SessionKey;
use crate::ledger::tx::Requester;
use crate::limits;
use crate::model::Revision;
use crate::model::compaction::RevisionRange;
use std::sync::{Mutex, PoisonError};

const BEGUN: &str = "select next_revision, actor, request_id, payload_hash, reason, messages, parts, bytes, summaries, \
     blobs from erasing where session_id = ?1";
const SAVE: &str = "insert into erasing (session_id, next_revision, actor, request_id, payload_hash, reason, messages, \
     parts, bytes, summaries, blobs) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) \
     on conflict (session_id) do update set next_revision = excluded.next_revision, messages = excluded.messages, \
     parts = excluded.parts, bytes = excluded.bytes, summaries = excluded.summaries, blobs = excluded.blobs";
const END: &str = "delete from erasing where session_id = ?1";
pub(crate) const ALL: &str = "select session_id from erasing order by session_id";
const IS_BEGUN: &str = "select exists (select 1 from erasing where session_id = ?1)";
const BYTES: &str = "select m.revision, coalesce(m.parts_length, \
     (select sum(p.length) from part p where p.message_id = m.id), 0) from message m where m.session_id = ?1 \
     and m.class in (0, 1, 2, 3) and m.revision between ?2 and ?3 order by m.revision";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[BEGUN, SAVE, END, ALL, IS_BEGUN, BYTES];

/// An erasure of a session that goes on.
#[derive(Debug, Clone)]
pub(super) struct BegunErasure {
    /// What comes before is erased.
    pub(super) next: Revision,
    /// Who asked for it.
    pub(super) caller: Requester,
    pub(super) reason: String,
    /// What is erased so far.
    pub(super) sizes: Sizes,
}

impl BegunErasure {
    /// The erasure that has begun in a session.
    pub(super) fn load(conn: &Connection, key: i64) -> Result<Option<Self>> {
        let Some(row) = Reader::new(conn).one(engine::query(BEGUN).bind(key))? else { return Ok(None) };
        let actor = row.get(1)?;
        let caller = match (row.get::<Option<String>>(2)?, row.get::<Option<&[u8]>>(3)?) {
            (Some(id), Some(kept)) => Requester::of_kept(actor, id, kept),
            (None, _) | (_, None) => Requester { actor, ..Requester::default() },
        };
        let sizes = Sizes {
            messages: row.get(5)?,
            parts: row.get(6)?,
            bytes: row.get(7)?,
            summaries: row.get(8)?,
            forks: 0,
            blobs: row.get(9)?,
        };
        Ok(Some(Self { next: row.get(0)?, caller, reason: row.get(4)?, sizes }))
    }

    /// Notes how far it is.
    pub(super) fn save(&self, conn: &Connection, key: i64) -> Result<()> {
        let Self { next, caller, reason, sizes } = self;
        let request = caller.request.as_ref();
        engine::query(SAVE)
            .bind(key)
            .bind(*next)
            .bind(&caller.actor)
            .bind(request.map(|request| &request.id))
            .bind(caller.kept_hash(false))
            .bind(reason)
            .bind(sizes.messages)
            .bind(sizes.parts)
            .bind(sizes.bytes)
            .bind(sizes.summaries)
            .bind(sizes.blobs)
            .run(conn)
    }

    /// The next step. `last` is the session's newest revision.
    pub(super) fn next_step(&self, reader: &mut Reader<'_>, key: i64, last: Revision) -> Result<EraseStep> {
        let (revisions, most_bytes) = match reader.conn.reads_ahead() {
            true => (limits::ERASE_STEP_REVISIONS_SERVER, limits::ERASE_STEP_BYTES_SERVER),
            false => (limits::ERASE_STEP_REVISIONS, limits::ERASE_STEP_BYTES),
        };
        let most = self.next.saturating_add(revisions - 1);
        // A step for a small rest takes as long as its commit.
        let most = if last.saturating_sub(most) <= revisions / 2 { last } else { most };
        let mut range = RevisionRange { first: self.next, last: most };
        let mut bytes = 0;
        for row in reader.all(engine::query(BYTES).bind(key).bind(range.first).bind(range.last))? {
            bytes += row.get::<i64>(1)?;
            if bytes >= most_bytes {
                range.last = row.get(0)?;
                break;
            }
        }
        Ok(EraseStep { range, is_last: range.last >= last })
    }
}

/// Forgets an erasure that has ended.
pub(super) fn end(conn: &Connection, key: i64) -> Result<()> {
    engine::query(END).bind(key).run(conn)
}

/// True if the erasure of a session has begun and has not ended.
pub(crate) fn is_begun(reader: &mut Reader<'_>, key: i64) -> Result<bool> {
    reader.always(engine::query(IS_BEGUN).bind(key))?.get(0)
}

/// The sessions whose erasure has begun and has not ended.
pub(crate) fn begun_sessions(reader: &mut Reader<'_>) -> Result<Vec<SessionKey>> {
    reader.all(engine::query(ALL))?.iter().map(|row| row.get(0).map(SessionKey)).collect()
}

/// Sessions in which something is being erased, each as often as somebody is at it.
pub(crate) type ErasingSessions = Mutex<Vec<SessionKey>>;

/// Somebody is at an erasure in a session.
pub(crate) struct EraseGuard<'e>(&'e ErasingSessions, SessionKey);

impl<'e> EraseGuard<'e> {
    pub(crate) fn new(erasing: &'e ErasingSessions, session: SessionKey) -> Self {
        erasing.lock().unwrap_or_else(PoisonError::into_inner).push(session);
        Self(erasing, session)
    }
}

impl Drop for EraseGuard<'_> {
    fn drop(&mut self) {
        let mut erasing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(position) = erasing.iter().position(|session| *session == self.1) {
            erasing.swap_remove(position);
        }
    }
}
