//! An attempt of a job: `fold::attempt` plans and measures it at the claim's base, `summarize` has its summaries written,
//! and `commit` stores its end.

use super::error::Error;
use super::inputs::{guard_input, planning_input};
use super::summarize::SummaryAttempt;
use super::worker::Worker;
use crate::background;
use crate::fold::attempt::{Attempt, AttemptInput, AttemptStep};
use crate::fold::guards::Guards;
use crate::limits;
use crate::loaded::{LoadedSession, SessionLookup};
use crate::model::compaction::{Failure, FailureReason, Trigger};
use crate::policy::{replay, tokens};
use crate::store::{self, Claim};
use std::sync::Arc;

impl Worker {
    /// Makes an attempt of a claimed job. Every failure ends the job or returns it to the queue: no other code would.
    pub(super) async fn attempt(&self, claim: &Claim) -> Result<(), Error> {
        let mut attempts_max = limits::ATTEMPTS_UNKNOWN_MAX;
        match self.compact(claim, &mut attempts_max).await {
            Ok(()) | Err(Error::Store(store::Error::LeaseLost)) => Ok(()),
            Err(Error::Store(error)) => {
                let failure = Failure::new(FailureReason::Store, error.to_string());
                match claim.attempt < attempts_max {
                    true => self.retry_job(claim, failure, None).await,
                    false => self.exhaust_job(claim, failure).await,
                }
            }
        }
    }

    /// Compacts the view at the claim's base as the request demands. `attempts_max` gets its value once the policy is
    /// read.
    async fn compact(&self, claim: &Claim, attempts_max: &mut i64) -> Result<(), Error> {
        let rows = self.store.jobs().guard_rows(claim.session).await?;
        let session = self.session_at(claim).await?;
        let LoadedSession { source, policy, formed, fold, .. } = &session;
        *attempts_max = i64::from(policy.guards.max_attempts);
        let planning = planning_input(policy, &claim.window, source, formed, self.clock.now());
        let guards = background::compute(|| Guards::new(planning, fold, guard_input(&rows)));
        let mut summarizing = SummaryAttempt::new(self.summarizers.for_level(claim.request.level), claim, planning);
        let is_last = claim.attempt >= *attempts_max;
        let (request, writer) = (&claim.request, summarizing.writer());
        let mut attempt = Attempt::new(AttemptInput { planning, fold, guards: &guards, request, writer, is_last });
        let is_answered = request.trigger == Trigger::Overflow
            && replay::is_answered(planning, &self.newest_compactions(claim.session).await?, request.level);
        let mut step = match is_answered {
            true => AttemptStep::Failed(overflow_again()),
            false => background::compute(|| attempt.begin()),
        };
        while let AttemptStep::Write(task) = step {
            step = self.write(&mut attempt, &task, &mut summarizing).await;
        }
        match step {
            AttemptStep::Done(prepared) => {
                let mut commit = self.commit_of(claim, &guards, planning.policy, *prepared);
                if !summarizing.vetoes_continuation() {
                    commit.changes.continuation = self.continuation(&commit, planning.policy).await?;
                }
                self.commit(commit).await
            }
            AttemptStep::Nothing | AttemptStep::Write(_) => self.end_without_work(claim).await,
            AttemptStep::Failed(failure) => self.fail_job(claim, attempt.explain(failure)).await,
            AttemptStep::Retry { failure, .. } if is_last => self.exhaust_job(claim, attempt.explain(failure)).await,
            AttemptStep::Retry { failure, retry_after_ms } => self.retry_job(claim, failure, retry_after_ms).await,
        }
    }

    /// The session of a claim at its base: of one in memory, what came since is left out. Token counts that are kept are
    /// counted from rows, since those of a read are not stored.
    async fn session_at(&self, claim: &Claim) -> Result<LoadedSession, Error> {
        if let SessionLookup::Loaded((newest, _)) = self.loaded.session(claim.session).await?
            && tokens::basis(&newest.policy).is_none()
            && let Some(session) = background::decide(|| newest.at(claim.base))
        {
            return Ok(session);
        }
        let mut source = self.store.views().source(claim.session, Some(claim.base)).await?;
        let policy = self.parse_and_count(&mut source).await?;
        Ok(LoadedSession::new(&self.store, source, Arc::new(policy)).await?)
    }
}

fn overflow_again() -> Failure {
    let message = "the view was compacted for this request before, and is still too large";
    Failure::new(FailureReason::OverflowAgain, message)
}
