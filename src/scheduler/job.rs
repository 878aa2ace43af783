//! The two kinds of a worker's work.
//!
//! `evaluate` decides if a due session needs a compaction, and requests it as a job. `run` executes a job:
//!
//! 1. `run_claimed` renews the claim, and drops the work if another caller ends the job.
//! 2. `compact` ends the job, whatever fails: `execute` folds the session at the claim's base, and chooses by the request
//!    between a level (`apply_level`), maintenance or a prune by hand (`apply_clearings`), and the last resort.
//! 3. `apply_level` tries the level's steps with its own tail and with smaller ones. `propose` has the summary written,
//!    by a client or by a summarizer (`write`), and measures the effect.
//! 4. `commit` stores the result in one transaction; `end` records a failure, or puts the job back for another attempt.

use super::client::{Assignment, TaskOutcome};
use super::deltas::Notifier;
use super::error::Error;
use super::hooks::HookChanges;
use super::prepared::{PreparedCompaction, Proposal, prepared_fallback};
use super::request_log::RequestLog;
use super::retry::{backoff, is_held, with_retry};
use super::worker::{Attempt, FailureRules, Refusal, Worker, failure, guard_input, no_gain, planning};
use crate::fold::guards::{self, Decision, Guards};
use crate::fold::wake;
use crate::limits;
use crate::loaded::{self, LoadedSession, counts};
use crate::model::Revision;
use crate::model::changes::ContinuationChange;
use crate::model::compaction::{Compaction, CompactionKind, CompactionRequest, Failure, FailureReason, Level, Trigger};
use crate::model::time::Timestamp;
use crate::model::truncation::Removals;
use crate::model::usage::ModelWindow;
use crate::policy::plan::{self, PlanningInput, Work, gain};
use crate::policy::replay::Overflow;
use crate::policy::{LevelPolicy, Notice, Policy, continuing, overflow, replay, tokens};
use crate::store::{
    self, AttemptEnd, Caller, Claim, Commit, Committed, Condition, Evaluation, Pending, SessionKey, Source, WindowUsage,
};
use crate::summarizer::{self, Extractive, Observer, Summarizer, SummaryInput, SummaryOutput};
use crate::telemetry::{failpoint, span};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

/// The summarizer of an attempt.
struct AttemptSummarizer<'a> {
    summarizer: &'a dyn Summarizer,
    /// True if a later attempt may be waited for. There is none after the last one, and a session whose view exceeds
    /// its window cannot go on meanwhile.
    waits: bool,
    /// The transient failure of the configured summarizer, if it was not waited for: the built-in one writes from then
    /// on.
    lost: Option<Failure>,
}

impl<'a> AttemptSummarizer<'a> {
    fn of(summarizer: &'a dyn Summarizer, claim: &Claim, policy: &Policy, tokens: i64) -> Self {
        let is_last = claim.attempt >= i64::from(policy.guards.max_attempts);
        let over_window = claim.window.request_max().is_some_and(|most| tokens > most);
        Self { summarizer, waits: !is_last && !over_window, lost: None }
    }
}

impl Worker {
    /// The planning input of a session at a revision, with the counts of its messages, and the active policy.
    async fn source(&self, session: SessionKey, at: Revision) -> Result<(Source, Policy), Error> {
        let mut source = self.store.source(session, Some(at)).await?;
        let policy = loaded::parse_policy(&source.policy, &self.vocabularies).map_err(Error::Store)?;
        let fresh = counts::fill(&self.store, &policy, &mut source.messages).await?;
        counts::keep(&self.store, fresh).await?;
        Ok((source, policy))
    }

    /// A session at its newest revision, from memory if it is there, with the counts of its messages. Passages of
    /// hidden messages are not in its view.
    async fn newest(&self, key: SessionKey) -> Result<(Arc<LoadedSession>, Pending), Error> {
        if let Some(found) = self.loaded.session(key, None).await? {
            return Ok(found);
        }
        let mut source = self.store.source(key, None).await?;
        let policy = loaded::parse_policy(&source.policy, &self.vocabularies)?;
        let fresh = counts::fill(&self.store, &policy, &mut source.messages).await?;
        counts::keep(&self.store, fresh).await?;
        let session = Arc::new(LoadedSession::new(&self.store, source, Arc::new(policy), None).await?);
        self.loaded.keep(&session);
        let pending = session.source.pending;
        Ok((session, pending))
    }

    /// Decides about a due session: requests the compaction that its policy wants, or records that there is nothing to
    /// do.
    pub(super) async fn evaluate(&self, key: SessionKey) -> Result<(), Error> {
        let begun = self.clock.now();
        let decided = async {
            self.decide(key).await?;
            let duration_us = self.clock.now().0 - begun.0;
            tracing::debug!(target: span::DECISION, duration_us, "decision ended");
            Ok(())
        };
        decided.instrument(span::decision()).await
    }

    async fn decide(&self, key: SessionKey) -> Result<(), Error> {
        let (session, pending) = self.newest(key).await?;
        span::record("session", session.source.id);
        // Read after the session: a change in between makes the session due again.
        let rows = self.store.guard_rows(key).await?;
        let LoadedSession { source, policy, fold, .. } = &*session;
        let (window, now) = (&source.window, self.clock.now());
        let planning = planning(policy, window, source, now);
        let tokens = fold.context_tokens(window);
        let guards = Guards::new(planning, fold, guard_input(&rows));
        self.recover_overflow(source, planning, tokens, &guards).await?;
        if pending.compaction.is_none()
            && let Some(decision) = guards::decide(planning, fold, &guards)
        {
            let (request, confirm_until) = request(policy, decision, percent(tokens, window), now);
            // No confirmation is asked for a compaction that cannot succeed.
            let fails = decision.level().is_some_and(|level| guards.is_filled(planning, level));
            let confirm_until = confirm_until.filter(|_| !fails);
            let condition = Condition::Due { at: source.at };
            let usage = WindowUsage { window: window.clone(), context_tokens: tokens };
            let requested =
                self.store.enqueue(key, Caller::default(), request, usage, condition, confirm_until).await?;
            if let Some(store::Enqueued { compaction, .. }) = requested {
                tracing::debug!(target: span::DECISION, %compaction, "compaction requested");
            }
        }
        let evaluation = Evaluation {
            at: source.at,
            appended_bytes: source.appended_bytes,
            context_tokens: tokens,
            guards: guards.to_report(planning),
            condition: wake::condition(planning, fold, &guards),
            over_window: window.request_max().is_some_and(|most| tokens > most),
        };
        self.store.evaluated(key, evaluation).await?;
        Ok(())
    }

    /// Requests a compaction if the last reply reports that the view was too large for its provider. No guard prevents
    /// it if the session cannot go on without it. If nothing can be removed, the compaction fails and its event states
    /// so.
    async fn recover_overflow(
        &self,
        source: &Source,
        planning: PlanningInput<'_>,
        tokens: i64,
        guards: &Guards,
    ) -> Result<(), Error> {
        if !planning.policy.trigger.auto {
            return Ok(());
        }
        let is_allowed = |request: &CompactionRequest| {
            let level_is = |level| guards.allow(planning, level) && !needs_confirmation(planning.policy, level);
            !guards.holds_after_undo && request.level.is_none_or(level_is)
        };
        let before = self.compactions(source.session).await?;
        let (request, condition) = match replay::reaction(planning, &before, source.changed_revision) {
            replay::Reaction::Nothing => return Ok(()),
            replay::Reaction::Recover(Overflow::Unanswered) => {
                (replay::recovery_request(planning, tokens).unwrap_or_else(replay::of_media), Condition::Possible(true))
            }
            // If the session can go on, levels that guards hold back are not applied for an overflow either, and a
            // level that needs confirmation is left to its threshold.
            replay::Reaction::Recover(Overflow::Answered) => match replay::recovery_request(planning, tokens) {
                Some(request) if is_allowed(&request) && plan::is_worth_it(planning, request.level, tokens) => {
                    (request, Condition::Due { at: source.at })
                }
                Some(_) | None => return Ok(()),
            },
            replay::Reaction::GiveUp => (replay::of_media(), Condition::Possible(true)),
        };
        let usage = WindowUsage { window: planning.window.clone(), context_tokens: tokens };
        match self.store.enqueue(source.session, Caller::default(), request, usage, condition, None).await {
            Ok(_) | Err(store::Error::Archived) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The newest compactions of a session, as many as the answer to an overflow needs.
    async fn compactions(&self, session: SessionKey) -> Result<Vec<Compaction>, Error> {
        let found = self.store.compactions(session, i64::MAX, limits::OVERFLOW_COMPACTIONS_MAX).await?;
        Ok(found.into_iter().map(|(_, compaction)| compaction).collect())
    }

    /// Runs a job, as long as its claim holds and the daemon is not stopping. The requests sent until then are in the
    /// request log when this returns.
    pub(super) async fn run(&self, job: i64, cancel: &CancellationToken) -> Result<(), Error> {
        let until = self.clock.now().plus_millis(limits::LEASE_MS);
        let Some(claim) = self.store.claim(job, self.owner, until).await? else { return Ok(()) };
        let span = span::job(span::Job {
            compaction: &claim.compaction,
            trigger: claim.request.trigger.name(),
            level: claim.request.level.map_or("", Level::name),
            attempt: claim.attempt,
            base: claim.base,
        });
        let request_log = Arc::new(RequestLog::new(self.clock.clone(), claim.attempt));
        let worker = Self { request_log, ..self.clone() };
        let work = async {
            let begun = self.clock.now();
            if let Ok(session) = self.store.session_id(claim.session).await {
                span::record("session", session);
            }
            let done = tokio::select! {
                biased;
                () = cancel.cancelled() => Ok(()),
                done = worker.run_claimed(&claim) => done,
            };
            worker.store_request_log(&claim).await;
            if !worker.request_log.take().is_empty() {
                tracing::warn!("requests to models could not be noted");
            }
            if span::records_job_end() {
                self.log_end(&claim, begun).await;
            }
            done
        };
        work.instrument(span).await
    }

    /// Logs the state of a job behind an attempt: it has ended, or is ready for another attempt.
    async fn log_end(&self, claim: &Claim, begun: Timestamp) {
        let duration_us = self.clock.now().0 - begun.0;
        match self.store.compaction(claim.compaction).await {
            Ok(Compaction { state, failure, outcome, .. }) => {
                let reason = failure.map_or("", |failure| failure.reason.as_str());
                let freed_tokens = outcome.map_or(0, |outcome| outcome.tokens_before - outcome.tokens_after);
                tracing::debug!(target: span::JOB, ?state, reason, freed_tokens, duration_us, "job ended");
            }
            Err(error) => tracing::debug!(target: span::JOB, %error, duration_us, "job ended"),
        }
    }

    /// Stores the request log. A failure to store it does not fail the compaction: it is tried again later.
    async fn store_request_log(&self, claim: &Claim) {
        let (store, request_log, claim) = (self.store.clone(), self.request_log.clone(), claim.clone());
        // In a task of its own, since the requests of a compaction that is given up meanwhile cost money too.
        let kept = tokio::spawn(async move {
            let mut requests = request_log.take().into_iter();
            while let Some(request) = requests.next() {
                if let Err(error) = store.add_requests(&claim, vec![request.clone()]).await {
                    tracing::debug!(%error, "a request to a model is not noted yet");
                    request_log.put_back(std::iter::once(request).chain(requests).collect());
                    return;
                }
            }
        });
        if let Err(error) = kept.await {
            tracing::warn!(%error, "the request log was not kept");
        }
    }

    /// Runs the claimed job, and renews the claim meanwhile.
    async fn run_claimed(&self, claim: &Claim) -> Result<(), Error> {
        failpoint::reach("work.claimed");
        let work = self.compact(claim);
        tokio::pin!(work);
        let mut beat = tokio::time::interval(Duration::from_millis(limits::HEARTBEAT_MS));
        beat.tick().await;
        loop {
            tokio::select! {
                biased;
                done = &mut work => {
                    done?;
                    return Ok(self.post_compact(claim).await?);
                }
                // Dropping the work also drops its request to a model, its summary task and the operator's program.
                () = claim.ended() => {
                    tracing::info!(compaction = %claim.compaction, "somebody ended a compaction that ran");
                    return Ok(());
                }
                _ = beat.tick() => {
                    let until = self.clock.now().plus_millis(limits::LEASE_MS);
                    // Another worker took the job over: this worker's result is void.
                    if !is_held(self.store.heartbeat(claim.clone(), until).await)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Runs the claimed job. Whatever fails, this ends the job or puts it back: nothing else would.
    async fn compact(&self, claim: &Claim) -> Result<(), Error> {
        let mut rules = FailureRules::unknown();
        match self.execute(claim, &mut rules).await {
            Ok(()) | Err(Error::Store(store::Error::LeaseLost)) => Ok(()),
            Err(Error::Store(error)) => {
                let why = Refusal::Retry(failure(FailureReason::Store, error.to_string()), None);
                self.end(claim, &rules, why).await
            }
        }
    }

    async fn execute(&self, claim: &Claim, rules: &mut FailureRules) -> Result<(), Error> {
        let rows = self.store.guard_rows(claim.session).await?;
        let (source, policy) = self.source(claim.session, claim.base).await?;
        let planning = planning(&policy, &claim.window, &source, self.clock.now());
        let fold = loaded::fold(&policy, &source);
        let guards = Guards::new(planning, &fold, guard_input(&rows));
        let attempt = Attempt { claim, planning, fold, guards };
        *rules = attempt.failure_rules();
        let is_overflow = claim.request.trigger == Trigger::Overflow;
        if is_overflow && replay::is_answered(&source.messages, &self.compactions(claim.session).await?) {
            let why = failure(
                FailureReason::OverflowAgain,
                "the view was compacted for this request before, and is still too large",
            );
            return self.end(claim, rules, Refusal::Final(why)).await;
        }
        let level_policy = claim.request.level.and_then(|level| policy.level(level));
        match level_policy {
            _ if claim.request.trigger == Trigger::LastResort => self.apply_last_resort(&attempt).await,
            Some(level_policy) => self.apply_level(&attempt, level_policy).await,
            None => self.apply_clearings(&attempt).await,
        }
    }

    /// Applies the last resort, or fails with the parts that fill the window if it may remove nothing. It also follows
    /// steps that turned out to free nothing.
    async fn apply_last_resort(&self, attempt: &Attempt<'_>) -> Result<(), Error> {
        let Attempt { claim, planning, fold, guards } = attempt;
        let removals = guards::last_resort_removals(*planning, fold, guards);
        match PreparedCompaction::of(*planning, &removals, None) {
            Some(prepared) => self.commit(prepared.commit(attempt)).await,
            None if fold.fits(planning.window) || guards.reported_overhead.is_some() => {
                self.end_without_work(claim).await
            }
            None => {
                let why = guards::last_resort_failure(*planning, fold, guards);
                Ok(with_retry(|| self.store.fail_job((*claim).clone(), why.clone(), false)).await?)
            }
        }
    }

    async fn end_without_work(&self, claim: &Claim) -> Result<(), Error> {
        let why = failure(FailureReason::NothingToCompact, "nothing in the view can be pruned, omitted or summarized");
        Ok(with_retry(|| self.store.end_without_work(claim.clone(), why.clone())).await?)
    }

    /// Applies the clearings of maintenance, or, by hand, every clearing of any step of the policy.
    async fn apply_clearings(&self, attempt: &Attempt<'_>) -> Result<(), Error> {
        let Attempt { claim, planning, .. } = *attempt;
        let work = match claim.request.trigger {
            Trigger::Manual => plan::prune_all(planning),
            Trigger::Overflow => Work { removals: replay::given_up(planning), summary: None },
            Trigger::Threshold | Trigger::Maintenance | Trigger::Supplied | Trigger::LastResort => {
                plan::maintenance(planning)
            }
        };
        let least = attempt.least_gain(&planning.policy.maintenance, false);
        match PreparedCompaction::of(planning, &work.removals, None).filter(|prepared| prepared.gain() >= least) {
            Some(prepared) => self.commit(prepared.commit(attempt)).await,
            None if claim.request.trigger == Trigger::Manual => self.end_without_work(claim).await,
            None => self.apply_last_resort(attempt).await,
        }
    }

    /// Applies a level's steps. A summary that would free too little is tried with a smaller tail. If no summary can be
    /// made, the policy's fallback replaces it, or else the truncations of the other steps.
    async fn apply_level(&self, attempt: &Attempt<'_>, level_policy: &LevelPolicy) -> Result<(), Error> {
        let Attempt { claim, planning, .. } = *attempt;
        let (policy, by_hand) = (planning.policy, claim.request.trigger == Trigger::Manual);
        if claim.request.trigger == Trigger::Threshold
            && let Some(why) = guards::overhead_failure(level_policy, planning.window, &attempt.guards)
        {
            return Ok(with_retry(|| self.store.fail_job(claim.clone(), why.clone(), false)).await?);
        }
        let tokens = attempt.fold.view.estimated_tokens.max(attempt.fold.context_tokens(&claim.window));
        let candidates = if by_hand { vec![plan::by_hand(level_policy)] } else { plan::tail_fallbacks(level_policy) };
        // A view that a provider refused is compacted as if its media were gone, and loses them in the same compaction;
        // a reply that had no space is treated likewise.
        let given_up = match claim.request.trigger {
            Trigger::Overflow => replay::given_up(planning),
            Trigger::Threshold | Trigger::Maintenance | Trigger::Manual | Trigger::Supplied | Trigger::LastResort => {
                Removals::default()
            }
        };
        let stripped = plan::with_removals(planning.sources, &given_up, claim.compaction);
        let (mut refused, mut fallback, mut hook_changes) = (None, None, None);
        let mut attempt_summarizer =
            AttemptSummarizer::of(self.summarizers.of(claim.request.level), claim, policy, tokens);
        for candidate in candidates {
            let here = PlanningInput { sources: &stripped, ..planning };
            let bounds = claim.request.bounds;
            let mut work = if bounds.is_open() {
                plan::apply(here, &candidate, tokens)
            } else {
                plan::summary_within(here, &candidate, bounds)
            };
            let mut removals = given_up.clone();
            plan::merge(&mut removals, std::mem::take(&mut work.removals));
            work.removals = removals;
            // A summary that cannot free enough is not requested, so that it costs nothing.
            if !attempt.is_needed() && !gain::is_enough(planning, &level_policy.steps, &work, tokens) {
                continue;
            }
            let least = attempt.least_gain(&level_policy.steps, work.summary.is_some());
            let proposal = Proposal { work: &work, least };
            match self.propose(claim, planning, proposal, &mut attempt_summarizer, &mut hook_changes).await {
                Ok(Some(prepared)) => {
                    let mut commit = prepared.commit(attempt);
                    if !hook_changes.is_some_and(|changes| changes.vetoes_continuation) {
                        commit.changes.continuation = self.continuation(&commit, policy).await?;
                    }
                    return self.commit(commit).await;
                }
                Ok(None) => {}
                Err(why @ Refusal::Retry(..)) if claim.attempt < i64::from(policy.guards.max_attempts) => {
                    return self.end(claim, &attempt.failure_rules(), why).await;
                }
                Err(why @ Refusal::Hook(_)) => return self.end(claim, &attempt.failure_rules(), why).await,
                Err(why) => {
                    fallback = fallback.or_else(|| prepared_fallback(planning, &work, least));
                    let is_lost = matches!(why, Refusal::Retry(..));
                    refused = Some(why);
                    if is_lost {
                        break;
                    }
                }
            }
        }
        match (fallback, refused) {
            (Some(prepared), _) => self.commit(prepared.commit(attempt)).await,
            (None, Some(why)) => {
                // The built-in summarizer failed too: the configured one may be back by the next attempt, which starts
                // earlier than a provider's delay may ask for.
                let why = attempt_summarizer.lost.map_or(why, |lost| Refusal::Retry(lost, None));
                self.end(claim, &attempt.failure_rules(), why).await
            }
            (None, None) if by_hand => self.end_without_work(claim).await,
            (None, None) => self.apply_last_resort(attempt).await,
        }
    }

    /// Has the summary of a level's work written, if it has one, and measures the effect of all of it. The operator's
    /// program and clients are asked for the first summary of an attempt only; the program's changes apply to all of its
    /// summaries.
    async fn propose(
        &self,
        claim: &Claim,
        planning: PlanningInput<'_>,
        proposal: Proposal<'_>,
        attempt_summarizer: &mut AttemptSummarizer<'_>,
        hook_changes: &mut Option<HookChanges>,
    ) -> Result<Option<PreparedCompaction>, Refusal> {
        let Proposal { work, least } = proposal;
        let Some(planned) = &work.summary else {
            return Ok(
                PreparedCompaction::of(planning, &work.removals, None).filter(|prepared| prepared.gain() >= least)
            );
        };
        self.announce(claim, planned).await?;
        let mut assignment = Assignment::of(planning, planned, &claim.request.instructions);
        assignment.input.previous_is_supplied = self.previous_is_supplied(claim, planning, planned).await?;
        let is_first = hook_changes.is_none();
        if is_first {
            *hook_changes = Some(self.pre_compact(claim, &assignment).await?);
        }
        if let Some(changes) = hook_changes {
            changes.apply(&mut assignment.input);
        }
        if is_first {
            match self.ask_clients(claim, planning, proposal, assignment).await? {
                TaskOutcome::Written(prepared) => return Ok(Some(*prepared)),
                TaskOutcome::Left(left) => assignment = *left,
            }
        }
        let Assignment { plan, input, details_json } = assignment;
        let measure = |output: &SummaryOutput| PreparedCompaction::of(planning, &work.removals, Some((&plan, output)));
        let limit = overflow::room(planning.window).map(|limit| limit - planning.window.overhead);
        let accept = |output: &SummaryOutput| match measure(output) {
            Some(prepared) if prepared.gain() >= least => Ok(limit.is_none_or(|limit| prepared.tokens_after <= limit)),
            Some(prepared) => Err(prepared.gain()),
            None => Err(0),
        };
        let notifier = Notifier::new(&self.deltas, &self.request_log, claim.session, claim.compaction);
        let output = self.write(attempt_summarizer, &input, &notifier, accept).await;
        // The request log is stored before the compaction is done, so that subscribers to it find the log.
        self.store_request_log(claim).await;
        Ok(measure(&output?).map(|prepared| prepared.with_details(details_json)))
    }

    /// Has a summary written, and refuses one that is empty or frees too little: `accept` returns the freed tokens as
    /// the error then, and otherwise whether the view fits with the summary. The built-in summarizer is tried again
    /// with half the budget, since a session with little to cover may need a shorter one, or the view a smaller one for
    /// its window. It also writes if the configured one is unavailable and cannot be waited for.
    async fn write(
        &self,
        attempt_summarizer: &mut AttemptSummarizer<'_>,
        input: &SummaryInput,
        observer: &dyn Observer,
        accept: impl Fn(&SummaryOutput) -> Result<bool, i64>,
    ) -> Result<SummaryOutput, Refusal> {
        let mut why = no_gain(0);
        if attempt_summarizer.summarizer.name() != Extractive.name() {
            why = match self.summarize(attempt_summarizer.summarizer, input, observer).await {
                Ok(output) if output.text.trim().is_empty() => {
                    failure(FailureReason::SummaryEmpty, "the summary is empty")
                }
                Ok(output) => match accept(&output) {
                    // A summary that cost money is used, even if the view then needs a second compaction.
                    Ok(_) => return Ok(output),
                    Err(gain) => no_gain(gain),
                },
                Err(Refusal::Retry(why, _)) if !attempt_summarizer.waits => {
                    tracing::warn!(
                        reason = why.reason.as_str(),
                        message = why.message,
                        "the built-in summarizer writes instead"
                    );
                    attempt_summarizer.lost = Some(why.clone());
                    attempt_summarizer.summarizer = &Extractive;
                    why
                }
                Err(refusal @ (Refusal::Retry(..) | Refusal::Hook(_))) => return Err(refusal),
                Err(Refusal::Final(why)) => why,
            };
        }
        let mut input = input.clone();
        let mut longest = None;
        for _ in 0..limits::SUMMARY_TRIES {
            if let Ok(output) = self.summarize(&Extractive, &input, observer).await {
                match accept(&output) {
                    Ok(true) => return Ok(output),
                    Ok(false) => longest = longest.or(Some(output)),
                    Err(gain) => why = no_gain(gain),
                }
            }
            input.budget_tokens /= 2;
        }
        longest.ok_or(Refusal::Final(why))
    }

    async fn summarize(
        &self,
        summarizer: &dyn Summarizer,
        input: &SummaryInput,
        observer: &dyn Observer,
    ) -> Result<SummaryOutput, Refusal> {
        let limit = Duration::from_millis(limits::SUMMARIZE_MS_MAX);
        match tokio::time::timeout(limit, summarizer.summarize(input, observer)).await {
            Ok(Ok(output)) => Ok(output.completed(input)),
            Ok(Err(summarizer::Error::Transient { message, retry_after_ms })) => {
                Err(Refusal::Retry(failure(FailureReason::SummarizerUnavailable, message), retry_after_ms))
            }
            Ok(Err(summarizer::Error::Permanent { message })) => {
                Err(Refusal::Final(failure(FailureReason::SummarizerFailed, message)))
            }
            Err(_) => {
                Err(Refusal::Retry(failure(FailureReason::SummarizerTimeout, "the summarizer took too long"), None))
            }
        }
    }

    /// The continuation, if the policy wants one: after a summary for a threshold, in a turn that is not finished by
    /// now.
    async fn continuation(&self, commit: &Commit, policy: &Policy) -> Result<Option<ContinuationChange>, Error> {
        let Some(text) = &policy.auto_continue else { return Ok(None) };
        if commit.changes.summary.is_none() || commit.claim.request.trigger != Trigger::Threshold {
            return Ok(None);
        }
        let source = self.store.source(commit.claim.session, None).await?;
        let tokens = tokens::estimate_text(&policy.counting, text);
        let continuation = ContinuationChange { text: text.clone(), tokens, seen: source.at };
        Ok(continuing::is_interrupted(&source.messages).then_some(continuation))
    }

    /// Commits, and retries if the store cannot commit now: the summary is not made twice because of a full queue or a
    /// failed transaction.
    async fn commit(&self, commit: Commit) -> Result<(), Error> {
        let compaction = commit.claim.compaction;
        failpoint::reach("work.done");
        match with_retry(|| self.store.commit(commit.clone())).await? {
            Committed::Done => tracing::info!(%compaction, "compaction committed"),
            Committed::Superseded => tracing::info!(%compaction, "compaction superseded"),
        }
        Ok(())
    }

    /// Ends a job without effect, or puts it back.
    async fn end(&self, claim: &Claim, rules: &FailureRules, why: Refusal) -> Result<(), Error> {
        let attempts_max = rules.attempts_max;
        // The failure's message also states why no other compaction follows.
        let failed = |why: Failure| match &rules.stopped {
            Some(stopped) => Failure { message: format!("{}; {}", why.message, stopped.message), ..why },
            None => why,
        };
        match why {
            Refusal::Final(why) | Refusal::Hook(why) => {
                let why = failed(why);
                with_retry(|| self.store.fail_job(claim.clone(), why.clone(), false)).await?;
            }
            Refusal::Retry(why, _) if claim.attempt >= attempts_max => {
                let why = failed(why);
                with_retry(|| self.store.fail_job(claim.clone(), why.clone(), true)).await?;
            }
            Refusal::Retry(why, after) => {
                let wait = after.unwrap_or(0).max(backoff(claim.attempt));
                let at = self.clock.now().plus_millis(wait);
                with_retry(|| self.store.retry_job(claim.clone(), why.clone(), at, AttemptEnd::Reported)).await?;
            }
        }
        Ok(())
    }
}

/// Context usage in whole percent of a window.
fn percent(tokens: i64, window: &ModelWindow) -> i64 {
    if window.context > 0 { tokens.saturating_mul(100) / window.context } else { 0 }
}

/// True if a level needs confirmation.
fn needs_confirmation(policy: &Policy, level: Level) -> bool {
    policy.level(level).is_some_and(|level_policy| matches!(level_policy.notice, Notice::Confirm { .. }))
}

/// The request for a decision of a level or of maintenance, and the end of the wait for confirmation, if the level
/// needs one.
fn request(
    policy: &Policy,
    decision: Decision,
    percent: i64,
    now: Timestamp,
) -> (CompactionRequest, Option<Timestamp>) {
    let level = decision.level();
    let level_policy = level.and_then(|level| policy.level(level));
    let steps = level_policy.map_or(&policy.maintenance, |level_policy| &level_policy.steps);
    let with_percent = |text: &str| text.replace("{percent}", &percent.to_string());
    let (notice, confirm_until) = match level_policy.map(|level_policy| &level_policy.notice) {
        None | Some(Notice::None) => (String::new(), None),
        Some(Notice::Inform { text }) => (with_percent(text), None),
        Some(Notice::Confirm { text, wait_seconds }) => {
            (with_percent(text), Some(now.plus_millis(i64::from(*wait_seconds) * 1_000)))
        }
    };
    let (trigger, kind) = match decision {
        Decision::Steps(plan::Decision::Level(_)) => (Trigger::Threshold, plan::kind(steps)),
        Decision::Steps(plan::Decision::Maintenance) => (Trigger::Maintenance, plan::kind(steps)),
        Decision::LastResort => (Trigger::LastResort, CompactionKind::Omission),
    };
    (CompactionRequest { notice, ..CompactionRequest::new(kind, trigger, level) }, confirm_until)
}
