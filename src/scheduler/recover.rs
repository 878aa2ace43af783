//! Taking up what an earlier daemon left in hand.

use super::Error;
use super::worker::lost;
use crate::clock::Clock;
use crate::model::compaction::CompactionState;
use crate::store::{self, Breaker, Store};

/// A job that was lost this often takes its daemon down with it, and is not tried again.
const LOST_MAX: i64 = 5;

/// Releases the claims of an earlier daemon: only one daemon has the store, so whatever runs now runs nowhere.
pub(super) async fn take_up(store: &Store, clock: &Clock) -> Result<(), Error> {
    // Without a worker nobody counts failures towards a policy's breaker here.
    let breaker = Breaker { failures_max: i64::MAX, hold_turns: 0 };
    for (job, _) in store.running_jobs().await? {
        let claim = store.lost_claim(job).await?;
        let compaction = claim.compaction;
        let ended = if claim.attempt >= LOST_MAX {
            store.fail_job(claim, lost(), true, breaker).await
        } else {
            store.retry_job(claim, lost(), clock.now(), breaker).await
        };
        match ended {
            Ok(()) | Err(store::Error::LeaseLost) => {
                tracing::info!(%compaction, state = ?CompactionState::Ready, "took up a reduction");
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
