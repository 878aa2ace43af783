//! Requests by hand for a compaction that waits or runs: confirm, expedite, cancel.

use super::head::Receipt;
use super::jobs::{by_id, give_up};
use super::receipts::answered;
use super::tx::{Requester, Tx};
use crate::engine;
use crate::engine::Reader;
use crate::error::{Error, Result};
use crate::model::compaction::{CompactionState, Failure, FailureReason, Trigger};
use crate::model::ids::CompactionId;

const CONFIRM: &str = "update job set proposed = 2, run_at = ?2 where id = ?1 and state = 1 and proposed = 1";
const EXPEDITE: &str = "update job set run_at = ?2 \
     where id = ?1 and state = 1 and queued = 0 and proposed <> 1 and run_at > ?2";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[CONFIRM, EXPEDITE];

/// Confirms a compaction that waits for it, so that it may begin.
pub(crate) fn confirm(tx: &mut Tx<'_>, id: CompactionId, caller: &Requester) -> Result<()> {
    tx.flush()?;
    let job = by_id(&mut Reader::new(tx.conn), id)?;
    tx.read_head(job.session)?.fence(caller.epoch)?;
    let done = engine::query(CONFIRM).bind(job.row).bind(tx.now.0).changed(tx.conn)?;
    if done == 1 || job.compaction.state.is_active() { Ok(()) } else { Err(Error::CompactionEnded) }
}

/// Ends the wait of a compaction for its next attempt. A compaction that waits for confirmation, or queues after
/// another one, continues to wait.
pub(crate) fn expedite(tx: &mut Tx<'_>, id: CompactionId, caller: &Requester) -> Result<()> {
    tx.flush()?;
    let job = by_id(&mut Reader::new(tx.conn), id)?;
    let key = job.session;
    tx.head(key)?;
    if answered(tx, key, caller)?.is_some() {
        return Ok(());
    }
    if !job.compaction.state.is_active() {
        return Err(Error::CompactionEnded);
    }
    engine::query(EXPEDITE).bind(job.row).bind(tx.now.0).run(tx.conn)?;
    tx.end_mutation(key, caller, Receipt { ids: vec![id.0], existed_count: 1, ..Receipt::default() })?;
    Ok(())
}

/// Cancels a compaction that waits or runs. A worker that runs it is notified at once. A repetition changes nothing.
pub(crate) fn cancel(tx: &mut Tx<'_>, id: CompactionId, caller: &Requester) -> Result<()> {
    tx.flush()?;
    let job = by_id(&mut Reader::new(tx.conn), id)?;
    if job.compaction.state == CompactionState::Cancelled {
        return Ok(());
    }
    if !job.compaction.state.is_active() {
        return Err(Error::CompactionEnded);
    }
    let key = job.session;
    tx.head(key)?.fence(caller.epoch)?;
    let failure = Failure::new(FailureReason::Requested, "it was cancelled on request");
    give_up(tx, caller, &job, CompactionState::Cancelled, failure)?;
    let head = tx.loaded(key)?;
    // If a user cancels a compaction by a threshold, the same is not requested again before the session continues.
    head.due_during_compaction &= job.compaction.request.trigger != Trigger::Threshold;
    head.ended();
    tx.end_mutation(key, caller, Receipt::default())?;
    Ok(())
}
