//! The writes of a worker to its job: the plan of the summary, the commit, and the ends without a commit.

use super::error::{Error, interrupted};
use super::retry::{backoff, with_retry};
use super::worker::Worker;
use crate::fold::PreparedCompaction;
use crate::fold::attempt::Answer;
use crate::fold::guards::Guards;
use crate::model::changes::ContinuationChange;
use crate::model::compaction::{Failure, FailureReason, Trigger};
use crate::policy::plan::SummaryPlan;
use crate::policy::{Policy, continuing, replay, tokens};
use crate::store::{self, AttemptEnd, Claim, Commit, CommitOutcome, PlannedRange};
use crate::telemetry::failpoint;

impl Worker {
    /// Registers the range that is about to be summarized with its claim, so that a change of it ends the job at once.
    pub(super) async fn store_plan(&self, claim: &Claim, plan: &SummaryPlan) -> Result<(), Answer<'static>> {
        let planned = PlannedRange { covered: plan.covered.clone(), tail_start: plan.tail_start };
        match self.store.jobs().plan(claim.clone(), planned).await {
            Ok(()) => Ok(()),
            Err(error @ store::Error::LeaseLost) => Err(interrupted(error)),
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
        let source = self.store.views().source(commit.claim.session, None).await?;
        let tokens = tokens::estimate_text(&policy.counting, text);
        let continuation = ContinuationChange { text: text.clone(), tokens, seen: source.at };
        Ok(continuing::is_interrupted(&source.messages).then_some(continuation))
    }

    /// The commit of a compaction.
    pub(super) fn commit_of(
        &self,
        claim: &Claim,
        guards: &Guards,
        policy: &Policy,
        prepared: PreparedCompaction,
    ) -> Commit {
        let is_by_hand = claim.request.trigger == Trigger::Manual;
        let has_helped = is_by_hand || replay::is_of_media(&claim.request) || prepared.gain() > 0;
        Commit {
            claim: claim.clone(),
            tokens_before: prepared.tokens_before,
            tokens_after: prepared.after.estimated_tokens,
            first_changed_index: prepared.first_changed_index,
            invalidated_tokens: prepared.invalidated_tokens,
            usage_before: guards.usage_tokens,
            overhead_tokens: guards.overhead.unseen_tokens,
            stopped: if has_helped { None } else { guards.failure_of_one_more(policy) },
            changes: prepared.changes,
        }
    }

    /// Commits a compaction, and retries if the store cannot commit now: the summary is not made twice because of a
    /// full queue or a failed transaction.
    pub(super) async fn commit(&self, commit: Commit) -> Result<(), Error> {
        let compaction = commit.claim.compaction;
        failpoint::reach("work.done");
        match with_retry(|| self.store.jobs().commit(commit.clone())).await? {
            CommitOutcome::Done => tracing::info!(%compaction, "compaction committed"),
            CommitOutcome::Superseded => tracing::info!(%compaction, "compaction superseded"),
        }
        Ok(())
    }

    /// Returns a job to the queue for another attempt, not before the delay that a provider demands.
    pub(super) async fn retry_job(
        &self,
        claim: &Claim,
        failure: Failure,
        retry_after_ms: Option<i64>,
    ) -> Result<(), Error> {
        let at = self.clock.now().plus_millis(retry_after_ms.unwrap_or(0).max(backoff(claim.attempt)));
        let retry = || self.store.jobs().retry(claim.clone(), failure.clone(), at, AttemptEnd::Reported);
        Ok(with_retry(retry).await?)
    }

    /// Fails a job that another attempt would not help.
    pub(super) async fn fail_job(&self, claim: &Claim, failure: Failure) -> Result<(), Error> {
        Ok(with_retry(|| self.store.jobs().fail(claim.clone(), failure.clone())).await?)
    }

    /// Fails a job at its last attempt.
    pub(super) async fn exhaust_job(&self, claim: &Claim, failure: Failure) -> Result<(), Error> {
        Ok(with_retry(|| self.store.jobs().exhaust(claim.clone(), failure.clone())).await?)
    }

    /// Ends a job that finds nothing to remove.
    pub(super) async fn end_without_work(&self, claim: &Claim) -> Result<(), Error> {
        let message = "nothing in the view can be pruned, omitted or summarized";
        let failure = Failure::new(FailureReason::NothingToCompact, message);
        Ok(with_retry(|| self.store.jobs().end_without_work(claim.clone(), failure.clone())).await?)
    }
}
