//! The end of open messages whose writer is gone.

use super::append::FinishMessage;
use super::codec;
use super::open_messages::sealed;
use super::tx::Tx;
use crate::engine;
use crate::error::Result;
use crate::model::ids::MessageId;
use crate::model::session::SessionState;

const POSTPONE: &str = "update open_message set expire_time = ?2 + timeout_ms * 1000 where message_id = ?1";
const EXPIRED: &str = "select o.message_id, o.session_id, m.public_id from open_message o \
     join message m on m.id = o.message_id where o.expire_time <= ?1 order by o.expire_time limit +?2";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[POSTPONE, EXPIRED];

/// Seals messages whose time has come, the earliest first, and returns their number.
pub(crate) fn expire(tx: &mut Tx<'_>, limit: i64) -> Result<usize> {
    tx.flush()?;
    let rows = engine::query(EXPIRED).bind(tx.now.0).bind(limit).all(tx.conn)?;
    for row in &rows {
        let (message, key): (i64, i64) = (row.get(0)?, row.get(1)?);
        let id = MessageId(codec::uuid(row.get(2)?)?);
        let head = tx.head(key)?;
        if !head.open.contains_key(&id.0) {
            sealed(tx.conn, message)?;
        } else if head.state == SessionState::Archived {
            postpone_row(tx, message)?;
        } else {
            drop(FinishMessage::expired(key, id).seal(tx, message)?);
        }
    }
    Ok(rows.len())
}

/// Restarts the timeout of the message whose time came first. It may be readable then.
pub(crate) fn postpone(tx: &mut Tx<'_>) -> Result<()> {
    let row = engine::query(EXPIRED).bind(tx.now.0).bind(1_i64).optional(tx.conn)?;
    row.map_or(Ok(()), |row| postpone_row(tx, row.get(0)?))
}

fn postpone_row(tx: &mut Tx<'_>, message: i64) -> Result<()> {
    engine::query(POSTPONE).bind(message).bind(tx.now.0).run(tx.conn)
}
