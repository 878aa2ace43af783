//! Taking up jobs that are in nobody's hands although a lease says so.

use super::Error;
use super::worker::lost;
use crate::clock::Clock;
use crate::limits;
use crate::store::{self, Breaker, Store};
use std::time::Duration;

/// A job that was lost this often takes its daemon down with it, and is not tried again.
pub(super) const LOST_MAX: i64 = 5;

/// Where nobody reads the policy, nobody counts failures towards its breaker.
pub(super) const NO_BREAKER: Breaker = Breaker { failures_max: i64::MAX, hold_turns: 0 };

/// Releases the claims of an earlier daemon: only one daemon has the store, so whatever runs now runs nowhere.
pub(super) async fn take_up(store: &Store, clock: &Clock) -> Result<(), Error> {
    for (job, _) in store.running_jobs().await? {
        loop {
            match release(store, clock, job).await {
                // Clients may be writing already; the reductions of yesterday can wait a moment for their turn.
                Err(Error::Store(store::Error::Busy)) => {
                    tokio::time::sleep(Duration::from_millis(limits::RETRY_MS_MIN.unsigned_abs())).await;
                }
                done => break done?,
            }
        }
    }
    Ok(())
}

/// Releases claims whose lease has run out and that no worker of this daemon holds, such as that of a worker that failed.
pub(super) async fn release_expired(store: &Store, clock: &Clock, in_hand: impl Fn(i64) -> bool) -> Result<(), Error> {
    let now = clock.now();
    for (job, until) in store.running_jobs().await? {
        if until < now && !in_hand(job) {
            release(store, clock, job).await?;
        }
    }
    Ok(())
}

/// Puts a lost job back, or ends it if it was lost too often.
async fn release(store: &Store, clock: &Clock, job: i64) -> Result<(), Error> {
    let claim = store.lost_claim(job).await?;
    let compaction = claim.compaction;
    let ended = if claim.attempt >= LOST_MAX {
        store.fail_job(claim, lost(), true, NO_BREAKER).await
    } else {
        store.retry_job(claim, lost(), clock.now(), NO_BREAKER).await
    };
    match ended {
        Ok(()) | Err(store::Error::LeaseLost) => {
            tracing::info!(%compaction, "took up a reduction");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
