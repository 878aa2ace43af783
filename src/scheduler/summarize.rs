//! The summary of an attempt: a hook may change the request, a client or a summarizer writes the text, and its effect is
//! measured.

use super::attempt::{Attempt, AttemptFailure, no_gain};
use super::client::{Assignment, TaskOutcome};
use super::deltas::Notifier;
use super::hooks::HookChanges;
use super::prepared::{Candidate, PreparedCompaction};
use super::worker::Worker;
use crate::limits;
use crate::model::compaction::{Failure, FailureReason};
use crate::policy::overflow;
use crate::summarizer::{self, Extractive, Observer, Summarizer, SummaryInput, SummaryOutput};
use std::time::Duration;

/// The summarizer of an attempt, and its state between two summaries.
pub(super) struct AttemptSummarizer<'a> {
    summarizer: &'a dyn Summarizer,
    /// True if a transient failure may be left to a later attempt. There is none after the last one, and a session
    /// whose view exceeds its window cannot go on meanwhile.
    may_wait: bool,
    /// The transient failure of the configured summarizer, if no later attempt is waited for: the built-in one writes
    /// from then on.
    pub(super) unavailable: Option<Failure>,
    /// The changes by the hook `pre_compact`; none before it is asked.
    hook_changes: Option<HookChanges>,
}

impl<'a> AttemptSummarizer<'a> {
    /// The configured summarizer of an attempt.
    pub(super) fn of(summarizer: &'a dyn Summarizer, attempt: &Attempt<'_>) -> Self {
        let window = attempt.planning.window;
        let is_over_window = window.request_max().is_some_and(|limit| attempt.tokens() > limit);
        Self { summarizer, may_wait: !attempt.is_last() && !is_over_window, unavailable: None, hook_changes: None }
    }

    /// True if a hook forbids the continuation after the compaction.
    pub(super) fn vetoes_continuation(&self) -> bool {
        self.hook_changes.as_ref().is_some_and(|changes| changes.vetoes_continuation)
    }
}

/// The effect of a summary on the view.
enum Effect {
    /// It frees enough, and the view fits into the window.
    Fits,
    /// It frees enough, but the view needs a second compaction.
    TooLarge,
    /// It frees only this number of tokens.
    TooLittle(i64),
}

type EffectOf<'a> = &'a (dyn Fn(&SummaryOutput) -> Effect + Sync);
type Written = Result<SummaryOutput, AttemptFailure>;

impl Worker {
    /// Prepares a compaction: has the summary of a candidate written, if it has one, and measures the effect of the
    /// whole. None if it frees too little. The operator's program and clients are asked for the first summary of an
    /// attempt only; the program's changes apply to all of its summaries.
    pub(super) async fn prepare(
        &self,
        attempt: &Attempt<'_>,
        candidate: Candidate<'_>,
        summarizer: &mut AttemptSummarizer<'_>,
    ) -> Result<Option<PreparedCompaction>, AttemptFailure> {
        let Attempt { claim, planning, .. } = *attempt;
        let Candidate { work, gain_min } = candidate;
        let Some(plan) = &work.summary else {
            return Ok(PreparedCompaction::of_removals(planning, &work.removals, gain_min));
        };
        self.store_plan(claim, plan).await?;
        let mut assignment = Assignment::of(planning, plan, &claim.request.instructions);
        assignment.input.previous_is_supplied = self.previous_is_supplied(claim, planning, plan).await?;
        let is_first = summarizer.hook_changes.is_none();
        if is_first {
            summarizer.hook_changes = Some(self.pre_compact(claim, &assignment).await?);
        }
        if let Some(changes) = &summarizer.hook_changes {
            changes.apply(&mut assignment.input);
        }
        if is_first {
            match self.ask_clients(claim, planning, candidate, assignment).await? {
                TaskOutcome::Written(prepared) => return Ok(Some(*prepared)),
                TaskOutcome::Left(left) => assignment = *left,
            }
        }
        self.summarize(attempt, candidate, assignment, summarizer).await
    }

    /// Has a summarizer write the assigned summary, and measures the effect of the compaction with it.
    async fn summarize(
        &self,
        attempt: &Attempt<'_>,
        candidate: Candidate<'_>,
        assignment: Assignment,
        summarizer: &mut AttemptSummarizer<'_>,
    ) -> Result<Option<PreparedCompaction>, AttemptFailure> {
        let Attempt { claim, planning, .. } = *attempt;
        let Candidate { work, gain_min } = candidate;
        let Assignment { plan, input, details_json } = assignment;
        let measure = |output: &SummaryOutput| PreparedCompaction::of(planning, &work.removals, Some((&plan, output)));
        let limit = overflow::input_max(planning.window).map(|limit| limit - planning.window.overhead);
        let effect = |output: &SummaryOutput| match measure(output) {
            Some(prepared) if prepared.gain() < gain_min => Effect::TooLittle(prepared.gain()),
            Some(prepared) if limit.is_some_and(|limit| prepared.tokens_after > limit) => Effect::TooLarge,
            Some(_) => Effect::Fits,
            None => Effect::TooLittle(0),
        };
        let notifier = Notifier::new(&self.deltas, &self.request_log, claim.session, claim.compaction);
        let output = summarizer.write(&input, &notifier, &effect).await;
        // The request log is stored before the compaction is done, so that subscribers to it find the log.
        self.request_log.store(&self.store, claim).await;
        Ok(measure(&output?).map(|prepared| prepared.with_details(details_json)))
    }
}

impl AttemptSummarizer<'_> {
    /// Has a summary written by the configured summarizer, or by the built-in one if that fails.
    async fn write(&mut self, input: &SummaryInput, observer: &dyn Observer, effect: EffectOf<'_>) -> Written {
        if self.summarizer.name() == Extractive.name() {
            return write_built_in(input, observer, effect, no_gain(0)).await;
        }
        match self.write_configured(input, observer, effect).await {
            Err(AttemptFailure::Permanent(failure)) => write_built_in(input, observer, effect, failure).await,
            result => result,
        }
    }

    /// Has a summary written by the configured summarizer; a permanent failure if it is empty or frees too little. If
    /// the summarizer is unavailable and cannot be waited for, the built-in one replaces it for the rest of the attempt.
    async fn write_configured(
        &mut self,
        input: &SummaryInput,
        observer: &dyn Observer,
        effect: EffectOf<'_>,
    ) -> Written {
        match call(self.summarizer, input, observer).await {
            Ok(output) if output.text.trim().is_empty() => {
                Err(AttemptFailure::Permanent(Failure::new(FailureReason::SummaryEmpty, "the summary is empty")))
            }
            Ok(output) => match effect(&output) {
                // A summary that cost money is used, even if the view then needs a second compaction.
                Effect::Fits | Effect::TooLarge => Ok(output),
                Effect::TooLittle(gain) => Err(AttemptFailure::Permanent(no_gain(gain))),
            },
            Err(AttemptFailure::Transient { failure, .. }) if !self.may_wait => {
                let Failure { reason, message, .. } = &failure;
                tracing::warn!(reason = reason.as_str(), message, "the built-in summarizer writes instead");
                self.unavailable = Some(failure.clone());
                self.summarizer = &Extractive;
                Err(AttemptFailure::Permanent(failure))
            }
            Err(failure) => Err(failure),
        }
    }
}

/// Has a summary written by the built-in summarizer; `failure`, or a newer one, if none frees enough. It is tried again
/// with half the budget each time, since a session with little to cover may need a shorter summary, or the view a
/// smaller one for its window.
async fn write_built_in(
    input: &SummaryInput,
    observer: &dyn Observer,
    effect: EffectOf<'_>,
    mut failure: Failure,
) -> Written {
    let mut input = input.clone();
    let mut longest = None;
    for _ in 0..limits::SUMMARY_TRIES {
        if let Ok(output) = call(&Extractive, &input, observer).await {
            match effect(&output) {
                Effect::Fits => return Ok(output),
                Effect::TooLarge => longest = longest.or(Some(output)),
                Effect::TooLittle(gain) => failure = no_gain(gain),
            }
        }
        input.budget_tokens /= 2;
    }
    longest.ok_or(AttemptFailure::Permanent(failure))
}

/// Calls a summarizer, within a time limit.
async fn call(summarizer: &dyn Summarizer, input: &SummaryInput, observer: &dyn Observer) -> Written {
    let limit = Duration::from_millis(limits::SUMMARIZE_MS_MAX);
    match tokio::time::timeout(limit, summarizer.summarize(input, observer)).await {
        Ok(Ok(output)) => Ok(output.completed(input)),
        Ok(Err(summarizer::Error::Transient { message, retry_after_ms })) => {
            let failure = Failure::new(FailureReason::SummarizerUnavailable, message);
            Err(AttemptFailure::Transient { failure, retry_after_ms })
        }
        Ok(Err(summarizer::Error::Permanent { message })) => {
            Err(AttemptFailure::Permanent(Failure::new(FailureReason::SummarizerFailed, message)))
        }
        Err(_) => {
            let failure = Failure::new(FailureReason::SummarizerTimeout, "the summarizer took too long");
            Err(AttemptFailure::transient(failure))
        }
    }
}
