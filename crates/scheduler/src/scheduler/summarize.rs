//! The summaries of an attempt: a hook may change the request, and a client or a summarizer writes the text.

use super::client::Assignment;
use super::deltas::Notifier;
use super::error::interrupted;
use super::hooks::HookChanges;
use super::worker::Worker;
use super::written::digest_of;
use crate::background;
use crate::fold::attempt::{Answer, Attempt, AttemptStep, SummaryTask, Writer};
use crate::limits;
use crate::model::compaction::{Failure, FailureReason};
use crate::policy::plan::PlanningInput;
use crate::policy::summary::{SummaryInput, SummaryOutput};
use crate::store::Claim;
use crate::summarizer::{self, Extractive, Observer, Summarizer};
use std::time::Duration;

/// The summarizer of an attempt, and the summary that is being written.
pub(super) struct SummaryAttempt<'a> {
    summarizer: &'a dyn Summarizer,
    claim: &'a Claim,
    planning: PlanningInput<'a>,
    /// The changes by the hook `pre_compact`; none before it is asked.
    hook_changes: Option<HookChanges>,
    /// The number of the plan, and its assignment.
    assignment: Option<(usize, Assignment)>,
}

impl<'a> SummaryAttempt<'a> {
    pub(super) fn new(summarizer: &'a dyn Summarizer, claim: &'a Claim, planning: PlanningInput<'a>) -> Self {
        Self { summarizer, claim, planning, hook_changes: None, assignment: None }
    }

    /// The first writer of each summary.
    pub(super) fn writer(&self) -> Writer {
        if self.summarizer.name() == Extractive.name() { Writer::BuiltIn } else { Writer::Configured }
    }

    /// True if a hook forbids the continuation after the compaction.
    pub(super) fn vetoes_continuation(&self) -> bool {
        self.hook_changes.as_ref().is_some_and(|changes| changes.vetoes_continuation)
    }
}

impl Worker {
    /// Has the summary of a task written, and continues the attempt with it. The operator's program and clients are asked
    /// for the first summary of an attempt only; the program's changes apply to all of its summaries. A program that
    /// replaced messages is asked again when there are others.
    pub(super) async fn write(
        &self,
        attempt: &mut Attempt<'_>,
        task: &SummaryTask,
        summarizing: &mut SummaryAttempt<'_>,
    ) -> AttemptStep {
        let claim = summarizing.claim;
        let assignment = match summarizing.assignment.take() {
            Some((number, assignment)) if number == task.number => assignment,
            _ => match self.assign(attempt, task, summarizing).await {
                Ok(assignment) => assignment,
                Err(answer) => return attempt.answer(answer),
            },
        };
        let input = SummaryInput { budget_tokens: task.budget_tokens, ..assignment.input.clone() };
        let notifier = Notifier::new(&self.deltas, &self.request_log, claim.session, claim.compaction);
        let output = match task.writer {
            Writer::Configured if !self.may_ask_models(claim).await => Err(over_quota()),
            Writer::Configured => call(summarizing.summarizer, &input, &notifier).await.map(Some),
            Writer::BuiltIn => {
                notifier.on_start(Extractive.name());
                Ok(None)
            }
        };
        // The request log is stored before the compaction is done, so that subscribers to it find the log.
        self.request_log.store(&self.store, claim).await;
        let written = match output {
            Ok(output) => self.as_written(claim, (&input, assignment.plan.tail_start), output, false).await,
            Err(answer) => {
                tracing::warn!(?answer, "the summarizer does not write");
                Err(answer)
            }
        };
        let step = match written {
            Ok(written) => {
                background::compute(|| attempt.answer(Answer::Written(assignment.written_summary(&written, false))))
            }
            Err(answer) => attempt.answer(answer),
        };
        summarizing.assignment = Some((task.number, assignment));
        step
    }

    /// True if requests to models may be sent for the session of a claim.
    async fn may_ask_models(&self, claim: &Claim) -> bool {
        self.store.sessions().may_ask_models(claim.session, self.clock.now()).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the quota of a tenant is not known");
            false
        })
    }

    /// The assignment of a task, as the operator's program and clients change it.
    async fn assign(
        &self,
        attempt: &Attempt<'_>,
        task: &SummaryTask,
        summarizing: &mut SummaryAttempt<'_>,
    ) -> Result<Assignment, Answer<'static>> {
        let (claim, planning) = (summarizing.claim, summarizing.planning);
        // The built-in summarizer takes no time in which the range could change, and the commit compares it.
        if summarizing.writer() == Writer::Configured || self.hooks.pre_compact.is_some() || self.tasks.are_offered() {
            self.store_plan(claim, &task.plan).await?;
        }
        let mut assignment = Assignment::from_plan(planning, &task.plan, &claim.request.instructions);
        assignment.input.previous_is_supplied = self.previous_is_supplied(claim, planning, &task.plan).await?;
        if let (Some(covered), Some(previous)) = (&planning.layout.covered, &task.plan.previous) {
            let digest = digest_of(&self.store, claim.session, covered, previous).await.map_err(interrupted)?;
            assignment.input.previous_digest = Some(digest);
        }
        assignment.input.words = self.store.views().words(claim.session).await.map_err(interrupted)?;
        let is_first = summarizing.hook_changes.is_none();
        if summarizing.hook_changes.as_ref().is_none_or(|changes| changes.is_for_other(&assignment.input)) {
            summarizing.hook_changes = Some(self.pre_compact(claim, &assignment).await?);
        }
        if let Some(changes) = &summarizing.hook_changes {
            changes.apply(&mut assignment);
        }
        if is_first { self.ask_clients(claim, planning, attempt, assignment).await } else { Ok(assignment) }
    }
}

/// The failure of a summarizer that is not asked, which the built-in one replaces.
fn over_quota() -> Answer<'static> {
    let message = "the tenant's quota of requests to models is used up for today";
    Answer::Failed(Failure::new(FailureReason::SummarizerFailed, message))
}

/// Calls a summarizer, within a time limit.
async fn call(
    summarizer: &dyn Summarizer,
    input: &SummaryInput,
    observer: &dyn Observer,
) -> Result<SummaryOutput, Answer<'static>> {
    let limit = Duration::from_millis(limits::SUMMARIZE_MS_MAX);
    let unavailable = |reason, message: String, retry_after_ms| Answer::Unavailable {
        failure: Failure::new(reason, message),
        retry_after_ms,
    };
    match tokio::time::timeout(limit, summarizer.summarize(input, observer)).await {
        Ok(Ok(output)) => Ok(output),
        Ok(Err(summarizer::Error::Transient { message, retry_after_ms })) => {
            Err(unavailable(FailureReason::SummarizerUnavailable, message, retry_after_ms))
        }
        Ok(Err(summarizer::Error::Permanent { message })) => {
            Err(Answer::Failed(Failure::new(FailureReason::SummarizerFailed, message)))
        }
        Err(_) => Err(unavailable(FailureReason::SummarizerTimeout, "the summarizer took too long".to_owned(), None)),
    }
}
