//! The end of open messages whose writer is gone.

use super::append::FinishMessage;
use super::codec;
use super::open_messages::sealed;
use super::tx::Tx;
use crate::limits;
use crate::model::ids::MessageId;
use crate::model::session::SessionState;
use crate::store::engine;
use crate::store::error::{Error, Result};

const POSTPONE: &str = "update open_message set expire_time = ?2 + timeout_ms * 1000 where message_id = ?1";
const EXPIRED: &str = "select o.message_id, o.session_id, m.public_id from open_message o \
     join message m on m.id = o.message_id where o.expire_time <= ?1 order by o.expire_time limit +?2";

/// The statements of this file, for the test that prepares them all.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[POSTPONE, EXPIRED];

/// Seals the messages whose time has come, the earliest first.
pub(crate) fn expire(tx: &mut Tx<'_>) -> Result<()> {
    tx.flush()?;
    let query = engine::query(EXPIRED).bind(tx.now.0).bind(limits::WAKING_SESSIONS_MAX);
    for row in query.all(tx.conn)? {
        let (message, key): (i64, i64) = (row.get(0)?, row.get(1)?);
        let id = MessageId(codec::uuid(row.get(2)?)?);
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
    engine::query(POSTPONE).bind(message).bind(tx.now.0).run(tx.conn)?;
    Ok(())
}
