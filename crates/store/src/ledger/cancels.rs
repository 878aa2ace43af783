//! Requests to stop a run.

use super::chain::Digest;
use super::tx::{Requester, Tx};
use crate::engine;
use crate::error::Result;
use crate::limits;
use crate::model::event::EventBody;

const CANCEL: &str = "update run set cancel_revision = ?3, lease_until = case when lease_until < ?4 then lease_until else ?4 end \
     where session_id = ?1 and epoch = ?2";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[CANCEL];

/// Adds the request to stop the active run, if there is one that was not asked yet. Its lease ends soon.
pub(crate) fn request_cancel(tx: &mut Tx<'_>, key: i64, caller: &Requester) -> Result<()> {
    let Some(run) = tx.loaded(key)?.run.as_mut().filter(|run| !run.is_cancelled) else { return Ok(()) };
    run.is_cancelled = true;
    let (id, epoch) = (run.id, run.epoch);
    let body = EventBody::RunCancelRequested { run: id, epoch };
    let revision = tx.event(key, caller, &body, &Digest::default())?;
    let until = tx.now.plus_millis(limits::RUN_CANCEL_MS);
    engine::query(CANCEL).bind(key).bind(epoch).bind(revision).bind(until.0).run(tx.conn)
}
