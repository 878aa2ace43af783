//! Open messages and the times at which they expire. Otherwise a writer that is gone would keep every compaction from
//! passing its message for ever.

use super::ancestry::Reader;
use super::append::FinishMessage;
use super::error::{Error, Result};
use super::sqlite::{self, Connection};
use super::tx::Tx;
use crate::limits;
use crate::model::ids::MessageId;
use crate::model::session::SessionState;
use crate::model::time::Timestamp;
use std::collections::HashMap;

const WRITE: &str = "insert into open_message (message_id, session_id, timeout_ms, expire_time) values (?1, ?2, ?3, ?4) \
     on conflict (message_id) do update set expire_time = excluded.expire_time";
const DELETE: &str = "delete from open_message where message_id = ?1";
const RESTART: &str = "update open_message set expire_time = ?1 + timeout_ms * 1000 where expire_time is not null";
const RESTORE: &str = "update open_message set expire_time = ?2 + timeout_ms * 1000 where session_id = ?1";
const SUSPEND: &str = "update open_message set expire_time = null where session_id = ?1";
const POSTPONE: &str = "update open_message set expire_time = ?2 + timeout_ms * 1000 where message_id = ?1";
const NEXT: &str = "select expire_time from open_message where expire_time is not null order by expire_time limit 1";
const EXPIRED: &str = "select o.message_id, o.session_id, m.public_id from open_message o \
     join message m on m.id = o.message_id where o.expire_time <= ?1 order by o.expire_time limit +?2";

/// The statements of this file, for the test that prepares them all.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[WRITE, DELETE, RESTART, RESTORE, SUSPEND, POSTPONE, NEXT, EXPIRED];

/// An open message that something was written to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    pub(crate) session: i64,
    pub(crate) timeout_ms: i64,
    pub(crate) expire_time: Timestamp,
}

/// Writes the times at which messages expire, by their rows.
pub(super) fn write(conn: &Connection, written: HashMap<i64, Written>) -> Result<()> {
    for (message, Written { session, timeout_ms, expire_time }) in written {
        sqlite::query(WRITE).bind(message).bind(session).bind(timeout_ms).bind(expire_time.0).execute(conn)?;
    }
    Ok(())
}

/// Deletes the row of a message that is sealed.
pub(super) fn sealed(conn: &Connection, message: i64) -> Result<()> {
    sqlite::query(DELETE).bind(message).execute(conn)?;
    Ok(())
}

/// Restarts the full timeout of every open message, after a time in which no client could write: the daemon was down,
/// the machine slept, or the disk was full.
pub(super) fn restart(conn: &Connection, now: Timestamp) -> Result<()> {
    sqlite::query(RESTART).bind(now.0).execute(conn)?;
    Ok(())
}

/// Suspends the timeouts of a session's open messages while the session is archived, or restarts them.
pub(super) fn archived(tx: &mut Tx<'_>, key: i64, is_restored: bool) -> Result<()> {
    tx.flush()?;
    let query =
        if is_restored { sqlite::query(RESTORE).bind(key).bind(tx.now.0) } else { sqlite::query(SUSPEND).bind(key) };
    query.execute(tx.conn)?;
    Ok(())
}

/// The earliest time at which a message expires.
pub(super) fn next(reader: &mut Reader<'_>) -> Result<Option<Timestamp>> {
    let row = reader.one(sqlite::query(NEXT))?;
    row.map(|row| Ok(Timestamp(row.get(0)?))).transpose()
}

/// Seals the messages whose time has come, the earliest first.
pub(super) fn expire(tx: &mut Tx<'_>) -> Result<()> {
    tx.flush()?;
    let query = sqlite::query(EXPIRED).bind(tx.now.0).bind(limits::WAKING_SESSIONS_MAX);
    for row in query.all(tx.conn)? {
        let (message, key): (i64, i64) = (row.get(0)?, row.get(1)?);
        let id = MessageId(super::codec::uuid(row.get(2)?)?);
        match tx.head(key) {
            Ok(head) if !head.open.contains_key(&id.0) => sealed(tx.conn, message)?,
            Ok(head) if head.state == SessionState::Archived => postpone(tx, message)?,
            Ok(_) => drop(FinishMessage::expired(key, id).seal(tx, message)?),
            // Otherwise it would be first in the queue for ever and block all others.
            Err(Error::Corrupt { table, row, detail }) => {
                tracing::error!(table, row, detail, "a session with an expired message cannot be read");
                postpone(tx, message)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Restarts the timeout of a message. It may be readable then.
fn postpone(tx: &mut Tx<'_>, message: i64) -> Result<()> {
    sqlite::query(POSTPONE).bind(message).bind(tx.now.0).execute(tx.conn)?;
    Ok(())
}
