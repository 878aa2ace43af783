//! The evaluation of a due session: the compaction that its policy decides is enqueued as a job, and the session is no
//! longer due, unless it changed meanwhile. `run` has the work on jobs.

use super::error::Error;
use super::inputs::{guard_input, planning_input};
use super::worker::Worker;
use crate::background;
use crate::fold::guards::{self, Decision, Guards, RecoveryRequest};
use crate::fold::{Fold, over_window, wake};
use crate::loaded::{LoadedSession, SessionLookup};
use crate::model::compaction::{Compaction, CompactionRequest};
use crate::model::session::OverWindowReason;
use crate::model::time::Timestamp;
use crate::model::usage::ModelWindow;
use crate::policy::plan::PlanningInput;
use crate::policy::{Notice, replay};
use crate::store::{
    CheckedInput, Condition, EnqueuedJob, Evaluation, EvaluationRequest, PendingWork, SessionKey, Source, WindowUsage,
};
use crate::telemetry::span;
use std::sync::Arc;
use tracing::Instrument as _;

impl Worker {
    /// Evaluates a due session, and logs the duration.
    pub(super) async fn evaluate(&self, key: SessionKey) -> Result<(), Error> {
        let start = self.clock.now();
        let evaluation = async {
            self.evaluate_newest(key).await?;
            let duration_us = self.clock.now().0 - start.0;
            tracing::debug!(target: span::DECISION, duration_us, "decision ended");
            Ok(())
        };
        evaluation.instrument(span::decision()).await
    }

    /// Evaluates a session at its newest revision: enqueues the compaction that is decided, if any, and stores the
    /// evaluation, which clears the due mark unless the session changed meanwhile.
    async fn evaluate_newest(&self, key: SessionKey) -> Result<(), Error> {
        let EvaluationResult { requests, evaluation } = self.decide(key).await?;
        if let Some(EnqueuedJob { compaction, .. }) = self.store.jobs().evaluated(key, evaluation, requests).await? {
            tracing::debug!(target: span::DECISION, %compaction, "compaction requested");
        }
        Ok(())
    }

    /// Decides about a session at its newest revision. The session is not held when this returns: an append that comes
    /// during the writes then need not copy it.
    async fn decide(&self, key: SessionKey) -> Result<EvaluationResult, Error> {
        let (session, pending) = self.newest_session(key).await?;
        span::record("session", session.source.id);
        // Read after the session: a change in between makes the session due again.
        let rows = self.store.jobs().guard_rows(key).await?;
        let LoadedSession { source, policy, formed, fold, .. } = &*session;
        let planning = planning_input(policy, &source.window, source, formed, self.clock.now());
        let compactions = match replay::overflow_of(planning) {
            Some(_) => self.newest_compactions(key).await?,
            None => Vec::new(),
        };
        let current = match pending.compaction.filter(|_| !fold.fits(&source.window)) {
            Some(id) => Some(self.store.compactions().get(id).await?),
            None => None,
        };
        Ok(background::decide(|| {
            let guards = Guards::new(planning, fold, guard_input(&rows));
            DueSession { source, planning, fold, guards }.result(pending, &compactions, current.as_ref())
        }))
    }

    /// A session at its newest revision, from memory if it is there, and its pending work. Passages of hidden messages
    /// are not in its view.
    async fn newest_session(&self, key: SessionKey) -> Result<(Arc<LoadedSession>, PendingWork), Error> {
        let vacancy = match self.loaded.session(key).await? {
            SessionLookup::Loaded(found) => return Ok(found),
            SessionLookup::Missing(vacancy) => vacancy,
        };
        let mut source = self.store.views().source(key, None).await?;
        let policy = self.parse_and_count(&mut source).await?;
        let session = Arc::new(LoadedSession::new(&self.store, source, Arc::new(policy)).await?);
        vacancy.keep(&session);
        let pending = session.source.pending;
        Ok((session, pending))
    }
}

/// The result of an evaluation.
struct EvaluationResult {
    /// The recovery from an overflow, and the compaction that is decided.
    requests: Vec<EvaluationRequest>,
    /// The guards, and the wake condition of the next evaluation.
    evaluation: Evaluation,
}

/// A due session at its newest revision.
struct DueSession<'a> {
    source: &'a Source,
    planning: PlanningInput<'a>,
    fold: &'a Fold,
    guards: Guards,
}

impl DueSession<'_> {
    /// The result of its evaluation, beside this pending work; `current` is the pending compaction if the view does not fit.
    fn result(
        &self,
        pending: PendingWork,
        compactions: &[Compaction],
        current: Option<&Compaction>,
    ) -> EvaluationResult {
        let Self { source, planning, fold, ref guards } = *self;
        let decision = if pending.compaction.is_none() { guards::decide(planning, fold, guards) } else { None };
        let recovery = self.recovery(compactions);
        let decided = decision.map(|decision| self.decided_request(decision));
        let is_due = current.is_none() && (recovery.is_some() || decided.is_some());
        let over_window = self.over_window(current, is_due);
        let usage = WindowUsage { window: source.window.clone(), context_tokens: self.tokens() };
        let recovery = recovery.map(|(request, condition)| (request, condition, None));
        let decided = decided.map(|(request, end)| (request, Condition::Due { at: source.at }, end));
        let request = |(request, condition, confirm_until)| EvaluationRequest {
            request: CheckedInput::trusted(request),
            usage: usage.clone(),
            condition,
            confirm_until,
        };
        let requests = recovery.into_iter().chain(decided).map(request).collect();
        EvaluationResult { requests, evaluation: self.evaluation(over_window) }
    }

    /// The recovery from an overflow that the newest reply reports.
    fn recovery(&self, compactions: &[Compaction]) -> Option<(CompactionRequest, Condition)> {
        let Self { source, planning, fold, ref guards } = *self;
        match guards::recovery(planning, fold, guards, compactions, source.changed_revision)? {
            RecoveryRequest::Needed(request) => Some((request, Condition::Possible(true))),
            RecoveryRequest::Worthwhile(request) => Some((request, Condition::Due { at: source.at })),
        }
    }

    /// The request for the compaction of a decision, and the end of the wait for confirmation, if its level needs one. A
    /// session whose view exceeds its window cannot wait: people are informed.
    fn decided_request(&self, decision: Decision) -> (CompactionRequest, Option<Timestamp>) {
        let PlanningInput { policy, window, now, .. } = self.planning;
        let level_policy = decision.level().and_then(|level| policy.level(level));
        let with_percent = |text: &str| text.replace("{percent}", &percent(self.tokens(), window).to_string());
        let (notice, confirm_until) = match level_policy.map(|level_policy| &level_policy.notice) {
            None | Some(Notice::None) => (String::new(), None),
            Some(Notice::Inform { text }) => (with_percent(text), None),
            Some(Notice::Confirm { text, wait_seconds }) => {
                (with_percent(text), Some(now.plus_millis(i64::from(*wait_seconds) * 1_000)))
            }
        };
        let request = CompactionRequest { notice, ..decision.request(policy) };
        (request, confirm_until.filter(|_| self.fold.fits(window)))
    }

    /// The reason for which the view exceeds its window.
    fn over_window(&self, current: Option<&Compaction>, is_due: bool) -> Option<OverWindowReason> {
        over_window::reason(self.planning, self.fold, &self.guards, current, is_due).map(|found| found.reason)
    }

    /// The stored result: the guards, and the wake condition of the next evaluation.
    fn evaluation(&self, over_window: Option<OverWindowReason>) -> Evaluation {
        let Self { source, planning, fold, ref guards } = *self;
        let tokens = self.tokens();
        Evaluation {
            at: source.at,
            appended_bytes: source.appended_bytes,
            context_tokens: tokens,
            guards: guards.to_report(fold.fits(&source.window)),
            condition: wake::condition(planning, fold, guards),
            over_window,
        }
    }

    fn tokens(&self) -> i64 {
        self.fold.context_tokens(&self.source.window)
    }
}

/// Context usage in whole percent of a window.
fn percent(tokens: i64, window: &ModelWindow) -> i64 {
    if window.context > 0 { tokens.saturating_mul(100) / window.context } else { 0 }
}
