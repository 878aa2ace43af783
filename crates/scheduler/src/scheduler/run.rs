//! The run of a job by a worker, once for each attempt.
//!
//! 1. This file claims the job, renews the claim, and drops the attempt if another caller ends the job.
//! 2. `compact` makes the attempt: it selects the removals and the messages to summarize.
//! 3. `summarize` has the summary written, by a client or by a summarizer, and measures the effect.
//! 4. `commit` stores the result, or the failure.

use super::error::Error;
use super::request_log::RequestLog;
use super::retry::is_held;
use super::worker::Worker;
use crate::limits;
use crate::model::compaction::{Compaction, Level};
use crate::model::time::Timestamp;
use crate::store::Claim;
use crate::telemetry::{failpoint, span};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

impl Worker {
    /// Runs a job: claims it and makes one attempt, unless the daemon stops before. The requests to models that were
    /// sent until then are stored before this returns, unless the store cannot be written.
    pub(super) async fn run(&self, job: i64, cancel: &CancellationToken) -> Result<(), Error> {
        let lease_until = self.clock.now().plus_millis(limits::LEASE_MS);
        let Some(claim) = self.store.jobs().claim(job, self.owner, lease_until).await? else { return Ok(()) };
        let span = span::job(span::Job {
            compaction: &claim.compaction,
            trigger: claim.request.trigger.name(),
            level: claim.request.level.map_or("", Level::name),
            attempt: claim.attempt,
            base: claim.base,
        });
        let request_log = Arc::new(RequestLog::new(self.clock.clone(), claim.attempt));
        let worker = Self { request_log, ..self.clone() };
        worker.run_claimed(&claim, cancel).instrument(span).await
    }

    /// Makes an attempt of a claimed job until the daemon stops. Stores the request log and logs the end.
    async fn run_claimed(&self, claim: &Claim, cancel: &CancellationToken) -> Result<(), Error> {
        let start = self.clock.now();
        if let Ok(session) = self.store.sessions().id(claim.session).await {
            span::record("session", session);
        }
        let result = tokio::select! {
            biased;
            () = cancel.cancelled() => Ok(()),
            result = self.attempt_under_claim(claim) => result,
        };
        self.request_log.store(&self.store, claim).await;
        if !self.request_log.take().is_empty() {
            tracing::warn!("requests to models could not be noted");
        }
        if span::records_job_end() {
            self.log_end(claim, start).await;
        }
        result
    }

    /// Makes an attempt while the claim holds, and renews the claim meanwhile.
    async fn attempt_under_claim(&self, claim: &Claim) -> Result<(), Error> {
        failpoint::reach("work.claimed");
        let attempt = self.attempt(claim);
        tokio::pin!(attempt);
        let mut heartbeat = tokio::time::interval(Duration::from_millis(limits::HEARTBEAT_MS));
        heartbeat.tick().await;
        loop {
            tokio::select! {
                biased;
                result = &mut attempt => {
                    result?;
                    return Ok(self.post_compact(claim).await?);
                }
                // The dropped attempt drops its request to a model, its summary task and the operator's program too.
                () = claim.ended() => {
                    tracing::info!(compaction = %claim.compaction, "somebody ended a compaction that ran");
                    return Ok(());
                }
                _ = heartbeat.tick() => {
                    let lease_until = self.clock.now().plus_millis(limits::LEASE_MS);
                    // Another worker took the job over: this worker's result is void.
                    if !is_held(self.store.jobs().heartbeat(claim.clone(), lease_until).await)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Logs the state of a job after an attempt: it has ended, or is ready for another attempt.
    async fn log_end(&self, claim: &Claim, start: Timestamp) {
        let duration_us = self.clock.now().0 - start.0;
        match self.store.compactions().get(claim.compaction).await {
            Ok(Compaction { state, failure, outcome, .. }) => {
                let reason = failure.map_or("", |failure| failure.reason.as_str());
                let freed_tokens = outcome.map_or(0, |outcome| outcome.tokens_before - outcome.tokens_after);
                tracing::debug!(target: span::JOB, ?state, reason, freed_tokens, duration_us, "job ended");
            }
            Err(error) => tracing::debug!(target: span::JOB, %error, duration_us, "job ended"),
        }
    }
}
