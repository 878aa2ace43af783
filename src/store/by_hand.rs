//! What people do with a reduction that waits or runs: agree to it, hurry it, stop it.

use super::append::answered;
use super::chain::Digest;
use super::error::{Error, Result};
use super::head::Receipt;
use super::jobs::{Finish, by_id, finish};
use super::lineage::Reader;
use super::tx::{Caller, Tx};
use crate::model::compaction::{CompactionState, Failure, Trigger};
use crate::model::event::EventBody;
use crate::model::ids::CompactionId;

const CONFIRM: &str = "update job set proposed = 2, run_at = $2 where id = $1 and state = 1 and proposed = 1";
const HURRY: &str = "update job set run_at = $2 \
     where id = $1 and state = 1 and queued = 0 and proposed <> 1 and run_at > $2";

/// The statements of this file, for the test that prepares them all.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[CONFIRM, HURRY];

/// Lets a reduction begin that waits for somebody to agree.
pub(crate) async fn confirm(tx: &mut Tx<'_>, id: CompactionId) -> Result<()> {
    tx.flush().await?;
    let job = by_id(&mut Reader::new(tx.conn), id).await?;
    let done = sqlx::query(CONFIRM).bind(job.row).bind(tx.now.0).execute(&mut *tx.conn).await?;
    if done.rows_affected() == 1 || job.compaction.state.is_live() { Ok(()) } else { Err(Error::CompactionEnded) }
}

/// Ends the wait of a reduction for its next attempt. One that waits for somebody to agree, or behind another one, goes
/// on waiting.
pub(crate) async fn hurry(tx: &mut Tx<'_>, id: CompactionId, caller: &Caller) -> Result<()> {
    tx.flush().await?;
    let job = by_id(&mut Reader::new(tx.conn), id).await?;
    let key = job.session;
    tx.head(key).await?;
    if answered(tx, key, caller).await?.is_some() {
        return Ok(());
    }
    if !job.compaction.state.is_live() {
        return Err(Error::CompactionEnded);
    }
    sqlx::query(HURRY).bind(job.row).bind(tx.now.0).execute(&mut *tx.conn).await?;
    tx.end_mutation(key, caller, Receipt { ids: vec![id.0], existed_count: 1, ..Receipt::default() })?;
    Ok(())
}

/// Stops a reduction that waits or runs. A worker that runs it finds its claim gone.
pub(crate) async fn cancel(tx: &mut Tx<'_>, id: CompactionId, caller: &Caller) -> Result<()> {
    tx.flush().await?;
    let job = by_id(&mut Reader::new(tx.conn), id).await?;
    if !job.compaction.state.is_live() {
        return Err(Error::CompactionEnded);
    }
    let key = job.session;
    tx.head(key).await?;
    let live = tx.loaded(key)?.live_job;
    let failure = Failure { reason: "REQUESTED".to_owned(), message: "it was cancelled on request".to_owned() };
    // A reduction that nobody was told of has nothing to end in the log.
    let revision = if job.is_told { Some(tx.next_revision(key)?) } else { None };
    let end = Finish {
        job: job.row,
        epoch: job.epoch,
        state: CompactionState::Cancelled,
        revision,
        outcome: None,
        failure: Some(&failure),
    };
    finish(tx, key, end).await?;
    if live != Some(id) && live.is_some() {
        tx.loaded(key)?.live_job = live;
    }
    if job.is_told {
        let body = EventBody::CompactionCancelled { compaction: id, failure };
        tx.event(key, caller, &body, &Digest::default())?;
    }
    let head = tx.loaded(key)?;
    // Whoever refuses what a threshold asked for is not asked the same again before the session goes on.
    head.missed &= job.compaction.request.trigger != Trigger::Threshold;
    head.ended();
    tx.end_mutation(key, caller, Receipt::default())?;
    Ok(())
}
