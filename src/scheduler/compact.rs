//! An attempt of a job from the plan to the commit: a level, removals without a level, or the last resort.
//!
//! A level's steps are tried with the policy's tail and with smaller ones, until a summary frees enough or a failure ends
//! the attempt. If no summary can be made, the policy's fallback replaces it, or else the truncations of the other steps.
//! If nothing can be removed, a compaction by hand ends without work, and for others the last resort follows.

use super::attempt::{Attempt, AttemptFailure, FailureRules};
use super::error::Error;
use super::inputs::{guard_input, planning_input};
use super::prepared::{Candidate, PreparedCompaction, prepared_fallback};
use super::summarize::AttemptSummarizer;
use super::worker::Worker;
use crate::fold::guards::{self, Guards};
use crate::loaded;
use crate::model::compaction::{Failure, FailureReason, Trigger};
use crate::policy::plan::{self, PlanningInput, Work, gain};
use crate::policy::{LevelPolicy, replay};
use crate::store::{self, Claim};

impl Worker {
    /// Makes an attempt of a claimed job. Every failure ends the job or returns it to the queue: no other code would.
    pub(super) async fn attempt(&self, claim: &Claim) -> Result<(), Error> {
        let mut rules = FailureRules::without_policy();
        match self.compact(claim, &mut rules).await {
            Ok(()) | Err(Error::Store(store::Error::LeaseLost)) => Ok(()),
            Err(Error::Store(error)) => self.fail_attempt(claim, &rules, error.into()).await,
        }
    }

    /// Compacts the view at the claim's base as the request demands. `rules` get their values once the policy is read.
    async fn compact(&self, claim: &Claim, rules: &mut FailureRules) -> Result<(), Error> {
        let rows = self.store.guard_rows(claim.session).await?;
        let mut source = self.store.source(claim.session, Some(claim.base)).await?;
        let policy = self.parse_and_count(&mut source).await?;
        let planning = planning_input(&policy, &claim.window, &source, self.clock.now());
        let fold = loaded::fold(&policy, &source);
        let guards = Guards::new(planning, &fold, guard_input(&rows));
        let attempt = Attempt { claim, planning, fold, guards };
        *rules = attempt.failure_rules();
        let trigger = claim.request.trigger;
        if trigger == Trigger::Overflow
            && replay::is_answered(&source.messages, &self.newest_compactions(claim.session).await?)
        {
            let message = "the view was compacted for this request before, and is still too large";
            let failure = AttemptFailure::Permanent(Failure::new(FailureReason::OverflowAgain, message));
            return self.fail_attempt(claim, rules, failure).await;
        }
        match claim.request.level.and_then(|level| policy.level(level)) {
            _ if trigger == Trigger::LastResort => self.apply_last_resort(&attempt).await,
            Some(level_policy) => self.apply_level(&attempt, level_policy).await,
            None => self.apply_removals(&attempt).await,
        }
    }

    /// Applies a level's steps, with its own tail and then with smaller ones.
    async fn apply_level(&self, attempt: &Attempt<'_>, level_policy: &LevelPolicy) -> Result<(), Error> {
        let Attempt { claim, planning, .. } = *attempt;
        if let Some(failure) = attempt.overhead_failure(level_policy) {
            return self.fail_job(claim, failure, false).await;
        }
        let mut summarizer = AttemptSummarizer::of(self.summarizers.of(claim.request.level), attempt);
        let (tokens, mut failed, mut fallback) = (attempt.tokens(), None, None);
        for work in level_works(attempt, level_policy) {
            // A summary that cannot free enough is not requested, so that it costs nothing.
            if !attempt.is_needed() && !gain::is_enough(planning, &level_policy.steps, &work, tokens) {
                continue;
            }
            let gain_min = attempt.gain_min(&level_policy.steps, work.summary.is_some());
            let candidate = Candidate { work: &work, gain_min };
            match self.prepare(attempt, candidate, &mut summarizer).await {
                Ok(Some(prepared)) => {
                    let mut commit = prepared.into_commit(attempt);
                    if !summarizer.vetoes_continuation() {
                        commit.changes.continuation = self.continuation(&commit, planning.policy).await?;
                    }
                    return self.commit(commit).await;
                }
                Ok(None) => {}
                Err(failure) if attempt.is_ended_by(&failure) => {
                    return self.fail_attempt(claim, &attempt.failure_rules(), failure).await;
                }
                Err(failure) => {
                    fallback = fallback.or_else(|| prepared_fallback(planning, candidate));
                    // A failure of the store or of a provider does not depend on the tail.
                    let is_transient = matches!(failure, AttemptFailure::Transient { .. });
                    failed = Some(failure);
                    if is_transient {
                        break;
                    }
                }
            }
        }
        match (fallback, failed) {
            (Some(prepared), _) => self.commit(prepared.into_commit(attempt)).await,
            (None, Some(failure)) => {
                // The built-in summarizer failed too: the configured one may be back by the next attempt, which starts
                // earlier than a provider's delay may ask for.
                let failure = summarizer.unavailable.map_or(failure, AttemptFailure::transient);
                self.fail_attempt(claim, &attempt.failure_rules(), failure).await
            }
            (None, None) if attempt.is_by_hand() => self.end_without_work(claim).await,
            (None, None) => self.apply_last_resort(attempt).await,
        }
    }

    /// Applies maintenance, the removals for an overflow, or, by hand, every prune of any step of the policy.
    async fn apply_removals(&self, attempt: &Attempt<'_>) -> Result<(), Error> {
        let Attempt { claim, planning, .. } = *attempt;
        let work = match claim.request.trigger {
            Trigger::Manual => plan::prune_all(planning),
            Trigger::Overflow => Work { removals: replay::given_up(planning), summary: None },
            Trigger::Threshold | Trigger::Maintenance | Trigger::Supplied | Trigger::LastResort => {
                plan::maintenance(planning)
            }
        };
        let gain_min = attempt.gain_min(&planning.policy.maintenance, false);
        match PreparedCompaction::of_removals(planning, &work.removals, gain_min) {
            Some(prepared) => self.commit(prepared.into_commit(attempt)).await,
            None if attempt.is_by_hand() => self.end_without_work(claim).await,
            None => self.apply_last_resort(attempt).await,
        }
    }

    /// Applies the last resort, or fails with the parts that fill the window if it may remove nothing. It also follows
    /// steps that turned out to free nothing.
    async fn apply_last_resort(&self, attempt: &Attempt<'_>) -> Result<(), Error> {
        let Attempt { claim, planning, fold, guards } = attempt;
        let removals = guards::last_resort_removals(*planning, fold, guards);
        match PreparedCompaction::of(*planning, &removals, None) {
            Some(prepared) => self.commit(prepared.into_commit(attempt)).await,
            None if fold.fits(planning.window) || guards.reported_overhead.is_some() => {
                self.end_without_work(claim).await
            }
            None => self.fail_job(claim, guards::last_resort_failure(*planning, fold, guards), false).await,
        }
    }
}

/// The work of a level's steps, first with the level's own tail and then, for an automatic compaction, with smaller
/// ones.
fn level_works(attempt: &Attempt<'_>, level_policy: &LevelPolicy) -> impl Iterator<Item = Work> {
    let Attempt { claim, planning, .. } = *attempt;
    let (tokens, bounds) = (attempt.tokens(), claim.request.bounds);
    let variants =
        if attempt.is_by_hand() { vec![plan::by_hand(level_policy)] } else { plan::tail_fallbacks(level_policy) };
    let removed = attempt.removals_before_steps();
    let sources = plan::with_removals(planning.sources, &removed, claim.compaction);
    variants.into_iter().map(move |variant| {
        let planning = PlanningInput { sources: &sources, ..planning };
        let mut work = if bounds.is_open() {
            plan::apply(planning, &variant, tokens)
        } else {
            plan::summary_within(planning, &variant, bounds)
        };
        let mut removals = removed.clone();
        plan::merge(&mut removals, std::mem::take(&mut work.removals));
        Work { removals, ..work }
    })
}
