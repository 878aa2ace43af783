//! Jobs as the scheduler and its workers see them: due sessions, claims, ends, wake times.

use super::checked::CheckedInput;
use super::error::{Error, Result};
use super::ledger::claims::{Claim, PlannedRange};
use super::ledger::compactions::{Commit, CommitOutcome};
use super::ledger::head::SessionKey;
use super::ledger::jobs::{self, AttemptEnd, Condition, Enqueue, EnqueuedJob, Evaluation, GuardRows, WindowUsage};
use super::ledger::requests::{AddRequests, Subject};
use super::ledger::tx::{Requester, Tx};
use super::ledger::{approvals, claiming, expiry, runs};
use super::shared::StoreParts;
use super::writer::Mutation;
use crate::limits;
use crate::model::compaction::{CompactionRequest, Failure};
use crate::model::summary_request::SummaryRequest;
use crate::model::time::Timestamp;
use std::sync::Arc;
use tokio::sync::watch;
use uuid::Uuid;

/// Ends at most so many of what has expired, the earliest first, and returns their number.
type Expire = fn(&mut Tx<'_>, i64) -> Result<usize>;
/// Puts off the first of them.
type Postpone = fn(&mut Tx<'_>) -> Result<()>;

/// A compaction that an evaluation requests.
pub struct EvaluationRequest {
    /// The request.
    pub request: CheckedInput<CompactionRequest>,
    /// The tokens that it was decided by.
    pub usage: WindowUsage,
    /// The condition under which it is accepted.
    pub condition: Condition,
    /// The end of the wait for a confirmation, if people are asked first.
    pub confirm_until: Option<Timestamp>,
}

/// Jobs as the scheduler and its workers see them: due sessions, claims, ends, wake times.
#[derive(Clone)]
pub struct Jobs(pub(super) Arc<StoreParts>);

impl Jobs {
    /// Claims a job; none if another worker was faster.
    pub async fn claim(&self, job: i64, owner: Uuid, until: Timestamp) -> Result<Option<Claim>> {
        self.0.write(Mutation::change("claim"), move |tx| claiming::claim(tx, job, owner, until)).await
    }

    /// The claim of a stopped daemon on a job.
    pub async fn lost_claim(&self, job: i64) -> Result<Claim> {
        self.0.write(Mutation::change("lost_claim"), move |tx| claiming::lost_claim(tx, job)).await
    }

    /// Keeps a claim alive.
    pub async fn heartbeat(&self, claim: Claim, until: Timestamp) -> Result<()> {
        self.0.write(Mutation::change("heartbeat"), move |tx| claiming::heartbeat(tx, &claim, until)).await
    }

    /// Records the range that the holder of a claim is about to have summarized: a change of it ends the job at once,
    /// and notifies the holder. An error if the claim is lost.
    pub async fn plan(&self, claim: Claim, planned: PlannedRange) -> Result<()> {
        self.0.write(Mutation::change("plan"), move |tx| claiming::plan(tx, &claim, &planned)).await
    }

    /// Commits a compaction.
    pub async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        self.0.write(Mutation::change("commit"), move |tx| commit.apply(tx)).await
    }

    async fn end(&self, claim: Claim, end: jobs::End) -> Result<()> {
        let end = jobs::EndJob { claim, end };
        self.0.write(Mutation::change("end"), move |tx| end.apply(tx)).await
    }

    /// Returns a job to the queue for another attempt, at this time.
    pub async fn retry(&self, claim: Claim, failure: Failure, at: Timestamp, loss: AttemptEnd) -> Result<()> {
        self.end(claim, jobs::End::Retry(failure, at, loss)).await
    }

    /// Ends a job that another attempt would not help.
    pub async fn fail(&self, claim: Claim, failure: Failure) -> Result<()> {
        self.end(claim, jobs::End::Failed(failure)).await
    }

    /// Ends a job that reached the maximum number of attempts.
    pub async fn exhaust(&self, claim: Claim, failure: Failure) -> Result<()> {
        self.end(claim, jobs::End::Dead(failure)).await
    }

    /// Ends a job that had nothing to do.
    pub async fn end_without_work(&self, claim: Claim, failure: Failure) -> Result<()> {
        self.end(claim, jobs::End::Nothing(failure)).await
    }

    /// Records requests to models for a job, whatever its result.
    pub async fn add_requests(&self, claim: &Claim, requests: Vec<SummaryRequest>) -> Result<()> {
        let add = AddRequests { session: claim.session, subject: Subject::Job(claim.job), requests };
        self.0.write(Mutation::derived("add_requests", add.bytes()), move |tx| add.apply(tx)).await
    }

    /// The rows from which a session's guards follow, besides its view.
    pub async fn guard_rows(&self, session: SessionKey) -> Result<GuardRows> {
        self.0.snapshot(|reader| jobs::guard_rows(reader, session.0)).await
    }

    /// Clears a session's due mark and stores the result of its evaluation, with the compactions that it requests, each
    /// unless its condition is not met. Returns the newest of these.
    pub async fn evaluated(
        &self,
        session: SessionKey,
        evaluation: Evaluation,
        requests: Vec<EvaluationRequest>,
    ) -> Result<Option<EnqueuedJob>> {
        let enqueue = |EvaluationRequest { request, usage, condition, confirm_until }: EvaluationRequest| {
            let (request, caller) = request.with_author(Requester::default());
            Enqueue { session, caller, request, usage, condition, confirm_until }
        };
        let requests: Vec<Enqueue> = requests.into_iter().map(enqueue).collect();
        let name = if requests.is_empty() { "evaluated" } else { "enqueue" };
        self.0
            .write(Mutation::change(name), move |tx| {
                let mut newest = None;
                for request in &requests {
                    newest = match request.apply(tx) {
                        Ok(enqueued) => enqueued.or(newest),
                        Err(Error::Archived) => newest,
                        Err(error) => return Err(error),
                    };
                }
                jobs::evaluated(tx, session, evaluation)?;
                Ok(newest)
            })
            .await
    }

    /// Sessions whose due mark is set.
    pub async fn due_sessions(&self, limit: i64) -> Result<Vec<SessionKey>> {
        self.0.brief(|reader| jobs::due(reader, limit)).await
    }

    /// Jobs whose time has come.
    pub async fn ready(&self, now: Timestamp, limit: i64) -> Result<Vec<(i64, SessionKey)>> {
        self.0.brief(|reader| jobs::ready(reader, now, limit)).await
    }

    /// The earliest wake time of a session, or the time before it at which an open message, a run or a question expires.
    pub async fn next_wake(&self) -> Result<Option<Timestamp>> {
        self.0.brief(jobs::next_wake).await
    }

    /// Sets the due mark of sessions whose wake time has come; seals messages, ends runs and answers questions whose
    /// time is up.
    pub async fn wake(&self) -> Result<()> {
        let _turn = self.0.ending.lock().await;
        // Mutations of their own: what cannot be ended keeps nothing else from its time.
        let woken = self.0.write(Mutation::change("wake"), jobs::wake).await;
        let messages = self.expire("expire", expiry::expire, expiry::postpone).await;
        let runs = self.expire("expire_run", runs::expire, runs::postpone).await;
        let approvals = self.expire("expire_approval", approvals::expire, approvals::postpone).await;
        woken.and(messages).and(runs).and(approvals)
    }

    /// Ends what has expired. What cannot be read is put off, or it would be first in its queue for ever and block all
    /// others.
    async fn expire(&self, name: &'static str, expire: Expire, postpone: Postpone) -> Result<()> {
        let most = limits::WAKING_SESSIONS_MAX;
        match self.0.write(Mutation::change(name), move |tx| expire(tx, most)).await {
            Err(Error::Corrupt { .. }) => {}
            other => return other.map(drop),
        }
        for _ in 0..most {
            match self.0.write(Mutation::change(name), move |tx| expire(tx, 1)).await {
                Ok(0) => break,
                Ok(_) => {}
                Err(error @ Error::Corrupt { .. }) => {
                    tracing::error!(%error, "what has expired cannot be ended");
                    self.0.write(Mutation::change(name), postpone).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The time at which the next job is to run.
    pub async fn next_run(&self) -> Result<Option<Timestamp>> {
        self.0.brief(jobs::next_run).await
    }

    /// Jobs that workers hold, and the ends of their leases.
    pub async fn running(&self) -> Result<Vec<(i64, Timestamp)>> {
        self.0.brief(jobs::running).await
    }

    /// True if no session waits for a decision, and no job waits or runs: without new input, nothing will happen for
    /// now.
    pub async fn is_idle(&self) -> Result<bool> {
        self.0.brief(jobs::is_idle).await
    }

    /// The number of waiting jobs, and of running ones.
    pub async fn counts(&self) -> Result<(i64, i64)> {
        self.0.brief(jobs::counts).await
    }

    /// Watches for commits behind which the scheduler may find work: due marks, jobs, wake times. Plain appends to
    /// sessions that are not due are none.
    pub fn watch_work(&self) -> watch::Receiver<()> {
        self.0.announced.work.clone()
    }
}
