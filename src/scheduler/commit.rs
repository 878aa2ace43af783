//! The writes of a worker to its job: the plan of the summary, the commit, and the ends without a commit.

use super::attempt::{AttemptFailure, FailureRules};
use super::error::Error;
use super::retry::{backoff, with_retry};
use super::worker::Worker;
use crate::model::changes::ContinuationChange;
use crate::model::compaction::{Failure, FailureReason, Trigger};
use crate::policy::plan::SummaryPlan;
use crate::policy::{Policy, continuing, tokens};
use crate::store::{self, AttemptEnd, Claim, Commit, Committed, Planned};
use crate::telemetry::failpoint;

impl Worker {
    /// Registers the range that is about to be summarized with its claim, so that a change of it ends the job at once.
    pub(super) async fn store_plan(&self, claim: &Claim, plan: &SummaryPlan) -> Result<(), AttemptFailure> {
        let planned = Planned { covered: plan.covered.clone(), tail_start: plan.tail_start };
        match self.store.plan(claim.clone(), planned).await {
            Ok(()) => Ok(()),
            Err(error @ store::Error::LeaseLost) => Err(error.into()),
            Err(error) => {
                // The commit compares the range again.
                tracing::debug!(%error, compaction = %claim.compaction, "the store does not know the plan");
                Ok(())
            }
        }
    }

    /// The continuation, if the policy wants one: after a summary for a threshold, in a turn that is not finished by
    /// now.
    pub(super) async fn continuation(
        &self,
        commit: &Commit,
        policy: &Policy,
    ) -> Result<Option<ContinuationChange>, Error> {
        let Some(text) = &policy.auto_continue else { return Ok(None) };
        if commit.changes.summary.is_none() || commit.claim.request.trigger != Trigger::Threshold {
            return Ok(None);
        }
        let source = self.store.source(commit.claim.session, None).await?;
        let tokens = tokens::estimate_text(&policy.counting, text);
        let continuation = ContinuationChange { text: text.clone(), tokens, seen: source.at };
        Ok(continuing::is_interrupted(&source.messages).then_some(continuation))
    }

    /// Commits a compaction, and retries if the store cannot commit now: the summary is not made twice because of a
    /// full queue or a failed transaction.
    pub(super) async fn commit(&self, commit: Commit) -> Result<(), Error> {
        let compaction = commit.claim.compaction;
        failpoint::reach("work.done");
        match with_retry(|| self.store.commit(commit.clone())).await? {
            Committed::Done => tracing::info!(%compaction, "compaction committed"),
            Committed::Superseded => tracing::info!(%compaction, "compaction superseded"),
        }
        Ok(())
    }

    /// Fails a job after a failed attempt, or returns it to the queue for another one.
    pub(super) async fn fail_attempt(
        &self,
        claim: &Claim,
        rules: &FailureRules,
        failure: AttemptFailure,
    ) -> Result<(), Error> {
        match failure {
            AttemptFailure::Transient { failure, retry_after_ms } if claim.attempt < rules.attempts_max => {
                let wait = retry_after_ms.unwrap_or(0).max(backoff(claim.attempt));
                let at = self.clock.now().plus_millis(wait);
                let retry = || self.store.retry_job(claim.clone(), failure.clone(), at, AttemptEnd::Reported);
                Ok(with_retry(retry).await?)
            }
            AttemptFailure::Transient { failure, .. } => self.fail_job(claim, rules.explain(failure), true).await,
            AttemptFailure::Permanent(failure) | AttemptFailure::Refused(failure) => {
                self.fail_job(claim, rules.explain(failure), false).await
            }
        }
    }

    /// Fails a job; `is_exhausted` if it reached its maximum number of attempts.
    pub(super) async fn fail_job(&self, claim: &Claim, failure: Failure, is_exhausted: bool) -> Result<(), Error> {
        Ok(with_retry(|| self.store.fail_job(claim.clone(), failure.clone(), is_exhausted)).await?)
    }

    /// Ends a job that finds nothing to remove.
    pub(super) async fn end_without_work(&self, claim: &Claim) -> Result<(), Error> {
        let message = "nothing in the view can be pruned, omitted or summarized";
        let failure = Failure::new(FailureReason::NothingToCompact, message);
        Ok(with_retry(|| self.store.end_without_work(claim.clone(), failure.clone())).await?)
    }
}
