//! Open messages and the times at which they expire. Otherwise a writer that is gone would keep every compaction from
//! passing its message for ever.

use crate::engine::Reader;
use crate::engine::{self, Connection};
use crate::error::Result;
use crate::model::time::Timestamp;
use std::collections::HashMap;

const WRITE: &str = "insert into open_message (message_id, session_id, timeout_ms, expire_time) values (?1, ?2, ?3, ?4) \
     on conflict (message_id) do update set expire_time = excluded.expire_time";
const DELETE: &str = "delete from open_message where message_id = ?1";
const RESTART: &str = "update open_message set expire_time = ?1 + timeout_ms * 1000 where expire_time is not null";
const RESTORE: &str = "update open_message set expire_time = ?2 + timeout_ms * 1000 where session_id = ?1";
const SUSPEND: &str = "update open_message set expire_time = null where session_id = ?1";
const NEXT: &str = "select expire_time from open_message where expire_time is not null order by expire_time limit 1";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[WRITE, DELETE, RESTART, RESTORE, SUSPEND, NEXT];

/// An open message that something was written to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenMessageWrite {
    pub(crate) session: i64,
    pub(crate) timeout_ms: i64,
    pub(crate) expire_time: Timestamp,
}

/// Writes the times at which messages expire, by their rows.
pub(crate) fn write(conn: &Connection, written: HashMap<i64, OpenMessageWrite>) -> Result<()> {
    for (message, OpenMessageWrite { session, timeout_ms, expire_time }) in written {
        engine::query(WRITE).bind(message).bind(session).bind(timeout_ms).bind(expire_time.0).run(conn)?;
    }
    Ok(())
}

/// Deletes the row of a message that is sealed.
pub(crate) fn sealed(conn: &Connection, message: i64) -> Result<()> {
    engine::query(DELETE).bind(message).run(conn)?;
    Ok(())
}

/// Restarts the full timeout of every open message, after a time in which no client could write: the daemon was down,
/// the machine slept, or the disk was full.
pub(crate) fn restart(conn: &Connection, now: Timestamp) -> Result<()> {
    engine::query(RESTART).bind(now.0).run(conn)?;
    Ok(())
}

/// Suspends the timeouts of a session's open messages while the session is archived.
pub(crate) fn archived(conn: &Connection, key: i64) -> Result<()> {
    engine::query(SUSPEND).bind(key).run(conn)
}

/// Starts the timeouts of a session's open messages again.
pub(crate) fn restored(conn: &Connection, key: i64, now: Timestamp) -> Result<()> {
    engine::query(RESTORE).bind(key).bind(now.0).run(conn)
}

/// The earliest time at which a message expires.
pub(crate) fn next_expiry(reader: &mut Reader<'_>) -> Result<Option<Timestamp>> {
    let row = reader.one(engine::query(NEXT))?;
    row.map(|row| Ok(Timestamp(row.get(0)?))).transpose()
}
