//! The evaluation of a due session: the compaction that its policy decides is enqueued as a job, and the session is no
//! longer due, unless it changed meanwhile. `run` has the work on jobs.

use super::error::Error;
use super::inputs::{guard_input, planning_input};
use super::worker::Worker;
use crate::fold::guards::{self, Decision, Guards, RecoveryRequest};
use crate::fold::{Fold, wake};
use crate::loaded::LoadedSession;
use crate::model::compaction::CompactionRequest;
use crate::model::time::Timestamp;
use crate::model::usage::ModelWindow;
use crate::policy::Notice;
use crate::policy::plan::PlanningInput;
use crate::store::{self, Caller, Condition, Enqueued, Evaluation, Pending, SessionKey, Source, WindowUsage};
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
        let (session, pending) = self.newest_session(key).await?;
        span::record("session", session.source.id);
        // Read after the session: a change in between makes the session due again.
        let rows = self.store.guard_rows(key).await?;
        let LoadedSession { source, policy, fold, .. } = &*session;
        let planning = planning_input(policy, &source.window, source, self.clock.now());
        let guards = Guards::new(planning, fold, guard_input(&rows));
        let due = DueSession { source, planning, fold, guards };
        self.enqueue_recovery(&due).await?;
        if pending.compaction.is_none()
            && let Some(decision) = guards::decide(planning, fold, &guards)
        {
            self.enqueue_decision(&due, decision).await?;
        }
        self.store.evaluated(key, due.evaluation()).await?;
        Ok(())
    }

    /// A session at its newest revision, from memory if it is there, and its pending work. Passages of hidden messages
    /// are not in its view.
    async fn newest_session(&self, key: SessionKey) -> Result<(Arc<LoadedSession>, Pending), Error> {
        if let Some(found) = self.loaded.session(key).await? {
            return Ok(found);
        }
        let mut source = self.store.source(key, None).await?;
        let policy = self.parse_and_count(&mut source).await?;
        let session = Arc::new(LoadedSession::new(&self.store, source, Arc::new(policy), None).await?);
        self.loaded.keep(&session);
        let pending = session.source.pending;
        Ok((session, pending))
    }

    /// Enqueues an overflow recovery if the last reply reports that the view was too large for its provider.
    async fn enqueue_recovery(&self, due: &DueSession<'_>) -> Result<(), Error> {
        let compactions = self.newest_compactions(due.source.session).await?;
        let DueSession { source, planning, fold, ref guards } = *due;
        let (request, condition) =
            match guards::recovery(planning, fold, guards, &compactions, source.changed_revision) {
                None => return Ok(()),
                Some(RecoveryRequest::Needed(request)) => (request, Condition::Possible(true)),
                Some(RecoveryRequest::Worthwhile(request)) => (request, Condition::Due { at: source.at }),
            };
        match self.store.enqueue(due.source.session, Caller::default(), request, due.usage(), condition, None).await {
            Ok(_) | Err(store::Error::Archived) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Enqueues the compaction of a decision, if the session is still due at the evaluated revision.
    async fn enqueue_decision(&self, due: &DueSession<'_>, decision: Decision) -> Result<(), Error> {
        let (session, condition) = (due.source.session, Condition::Due { at: due.source.at });
        let (request, confirm_until) = due.decided_request(decision);
        let enqueued =
            self.store.enqueue(session, Caller::default(), request, due.usage(), condition, confirm_until).await?;
        if let Some(Enqueued { compaction, .. }) = enqueued {
            tracing::debug!(target: span::DECISION, %compaction, "compaction requested");
        }
        Ok(())
    }
}

/// A due session at its newest revision.
struct DueSession<'a> {
    source: &'a Source,
    planning: PlanningInput<'a>,
    fold: &'a Fold,
    guards: Guards,
}

impl DueSession<'_> {
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

    /// The stored result: the guards, and the wake condition of the next evaluation.
    fn evaluation(&self) -> Evaluation {
        let Self { source, planning, fold, ref guards } = *self;
        let tokens = self.tokens();
        Evaluation {
            at: source.at,
            appended_bytes: source.appended_bytes,
            context_tokens: tokens,
            guards: guards.to_report(),
            condition: wake::condition(planning, fold, guards),
            over_window: !fold.fits(&source.window),
        }
    }

    fn tokens(&self) -> i64 {
        self.fold.context_tokens(&self.source.window)
    }

    fn usage(&self) -> WindowUsage {
        WindowUsage { window: self.source.window.clone(), context_tokens: self.tokens() }
    }
}

/// Context usage in whole percent of a window.
fn percent(tokens: i64, window: &ModelWindow) -> i64 {
    if window.context > 0 { tokens.saturating_mul(100) / window.context } else { 0 }
}
