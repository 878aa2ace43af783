//! Recovery of jobs that have a lease but no worker.

use super::error::Error;
use crate::clock::Clock;
use crate::limits;
use crate::model::compaction::{Failure, FailureReason};
use crate::store::{self, AttemptEnd, Store};
use std::time::Duration;

/// Releases the claims of an earlier daemon. Only one daemon has the store, so no claim found at the start has a
/// worker.
pub(super) async fn release_all(store: &Store, clock: &Clock) -> Result<(), Error> {
    for (job, _) in store.jobs().running().await? {
        loop {
            match release(store, clock, job).await {
                // Clients may be writing already; recovered jobs can wait for a moment.
                Err(Error::Store(store::Error::Busy(_))) => {
                    tokio::time::sleep(Duration::from_millis(limits::RETRY_MS_MIN.unsigned_abs())).await;
                }
                done => break go_on(job, done)?,
            }
        }
    }
    Ok(())
}

/// Releases claims whose lease has run out and that no worker of this daemon holds, such as that of a worker that
/// failed. A lease that ends later than any lease given now was given by a wrong clock.
pub(super) async fn release_expired(
    store: &Store,
    clock: &Clock,
    is_running: impl Fn(i64) -> bool,
) -> Result<(), Error> {
    let now = clock.now();
    let lease_ends = now..=now.plus_millis(limits::LEASE_MS);
    for (job, until) in store.jobs().running().await? {
        if !lease_ends.contains(&until) && !is_running(job) {
            go_on(job, release(store, clock, job).await)?;
        }
    }
    Ok(())
}

/// Gives back the claims of a stopping daemon's workers, so that the next start does not count them as lost. Claims
/// that cannot be given back are recovered there.
pub(super) async fn give_back_all(store: &Store, clock: &Clock) -> Result<(), Error> {
    for (job, _) in store.jobs().running().await? {
        go_on(job, give_back(store, clock, job).await)?;
    }
    Ok(())
}

async fn give_back(store: &Store, clock: &Clock, job: i64) -> Result<(), Error> {
    let claim = store.jobs().lost_claim(job).await?;
    let stopped = failure(FailureReason::DaemonStopped, "the daemon was stopped while it ran");
    ignore_lost_lease(store.jobs().retry(claim, stopped, clock.now(), AttemptEnd::Released).await)
}

/// A job that cannot be read or written does not delay the others. It stays as it is until its row is repaired.
fn go_on(job: i64, done: Result<(), Error>) -> Result<(), Error> {
    match done {
        Ok(()) | Err(Error::Store(store::Error::Closed)) => done,
        Err(error) => {
            tracing::error!(job, %error, "a compaction in nobody's hands is left as it is");
            Ok(())
        }
    }
}

/// Puts a lost job back, or ends it if it was lost too often: then it probably makes the daemon stop.
async fn release(store: &Store, clock: &Clock, job: i64) -> Result<(), Error> {
    let claim = store.jobs().lost_claim(job).await?;
    let compaction = claim.compaction;
    if claim.lost_attempts + 1 >= limits::LOST_MAX {
        let poison = failure(
            FailureReason::Poison,
            format!("the daemon or the worker stopped {} times over it", claim.lost_attempts + 1),
        );
        ignore_lost_lease(store.jobs().exhaust(claim, poison).await)?;
        tracing::error!(%compaction, "a compaction that was lost again and again is not tried any more");
    } else {
        let lost = failure(FailureReason::WorkerLost, "the daemon or the worker stopped while it ran");
        ignore_lost_lease(store.jobs().retry(claim, lost, clock.now(), AttemptEnd::Lost).await)?;
        tracing::info!(%compaction, "took up a compaction");
    }
    Ok(())
}

/// A lost lease is a success: the job was ended by another caller meanwhile.
fn ignore_lost_lease(done: store::Result<()>) -> Result<(), Error> {
    match done {
        Ok(()) | Err(store::Error::LeaseLost) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn failure(reason: FailureReason, message: impl Into<String>) -> Failure {
    Failure::new(reason, message)
}
