//! The evaluation of a due session: the compaction that its policy decides is enqueued as a job, and the session is no
//! longer due, unless it changed meanwhile. `run` has the work on jobs.

use super::error::Error;
use super::inputs::{guard_input, planning_input};
use super::worker::Worker;
use crate::fold::guards::{self, Decision, Guards};
use crate::fold::{Fold, wake};
use crate::loaded::LoadedSession;
use crate::model::compaction::{Compaction, CompactionKind, CompactionRequest, Level, Trigger};
use crate::model::time::Timestamp;
use crate::model::usage::ModelWindow;
use crate::policy::plan::{self, PlanningInput};
use crate::policy::replay::{self, Overflow, Reaction};
use crate::policy::{Notice, Policy};
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
        if policy.trigger.auto {
            self.enqueue_recovery(&due).await?;
        }
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
        if let Some(found) = self.loaded.session(key, None).await? {
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
        let Some((request, condition)) = due.recovery_request(&compactions) else { return Ok(()) };
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
    /// The request for an overflow recovery, and the condition under which it is enqueued, under a policy with automatic
    /// compactions. None if the last reply reports no overflow, or a compaction answered it already, or guards or the
    /// minimum gain hold the recovery back.
    ///
    /// No guard does so if the session cannot go on without the recovery. If nothing can be removed, the compaction
    /// fails and its event states so.
    fn recovery_request(&self, compactions: &[Compaction]) -> Option<(CompactionRequest, Condition)> {
        let Self { source, planning, ref guards, .. } = *self;
        let tokens = self.tokens();
        match replay::reaction(planning, compactions, source.changed_revision) {
            Reaction::Nothing => None,
            Reaction::Recover(Overflow::Unanswered) => {
                let request = replay::recovery_request(planning, tokens).unwrap_or_else(replay::of_media);
                Some((request, Condition::Possible(true)))
            }
            // If the session can go on, levels that guards hold back are not applied for an overflow either, and a
            // level that needs confirmation is left to its threshold.
            Reaction::Recover(Overflow::Answered) => {
                let is_allowed = |level| guards.allow(planning, level) && !needs_confirmation(planning.policy, level);
                replay::recovery_request(planning, tokens)
                    .filter(|request| !guards.holds_after_undo && request.level.is_none_or(is_allowed))
                    .filter(|request| plan::is_worth_it(planning, request.level, tokens))
                    .map(|request| (request, Condition::Due { at: source.at }))
            }
            Reaction::GiveUp => Some((replay::of_media(), Condition::Possible(true))),
        }
    }

    /// The request for the compaction of a decision, and the end of the wait for confirmation, if its level needs one.
    fn decided_request(&self, decision: Decision) -> (CompactionRequest, Option<Timestamp>) {
        let PlanningInput { policy, window, now, .. } = self.planning;
        let level = decision.level();
        let level_policy = level.and_then(|level| policy.level(level));
        let steps = level_policy.map_or(&policy.maintenance, |level_policy| &level_policy.steps);
        let with_percent = |text: &str| text.replace("{percent}", &percent(self.tokens(), window).to_string());
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
        // No confirmation is asked for a compaction that cannot succeed.
        let fails = level.is_some_and(|level| self.guards.is_filled(self.planning, level));
        let request = CompactionRequest { notice, ..CompactionRequest::new(kind, trigger, level) };
        (request, confirm_until.filter(|_| !fails))
    }

    /// The stored result: the guards, and the wake condition of the next evaluation.
    fn evaluation(&self) -> Evaluation {
        let Self { source, planning, fold, ref guards } = *self;
        let tokens = self.tokens();
        Evaluation {
            at: source.at,
            appended_bytes: source.appended_bytes,
            context_tokens: tokens,
            guards: guards.to_report(planning),
            condition: wake::condition(planning, fold, guards),
            over_window: source.window.request_max().is_some_and(|limit| tokens > limit),
        }
    }

    fn tokens(&self) -> i64 {
        self.fold.context_tokens(&self.source.window)
    }

    fn usage(&self) -> WindowUsage {
        WindowUsage { window: self.source.window.clone(), context_tokens: self.tokens() }
    }
}

/// True if a level needs confirmation.
fn needs_confirmation(policy: &Policy, level: Level) -> bool {
    policy.level(level).is_some_and(|level_policy| matches!(level_policy.notice, Notice::Confirm { .. }))
}

/// Context usage in whole percent of a window.
fn percent(tokens: i64, window: &ModelWindow) -> i64 {
    if window.context > 0 { tokens.saturating_mul(100) / window.context } else { 0 }
}
