//! A worker, the state of one attempt of a job, and the reasons for which an attempt makes no summary. `job` has the work
//! itself.

use super::deltas::DeltaChannel;
use super::request_log::RequestLog;
use crate::clock::Clock;
use crate::config::Hooks;
use crate::fold::Fold;
use crate::fold::guards::{GuardInput, Guards};
use crate::limits;
use crate::loaded::LoadedSessions;
use crate::model::compaction::{Failure, FailureReason, Trigger};
use crate::model::time::Timestamp;
use crate::model::usage::ModelWindow;
use crate::policy::bpe::Vocabulary;
use crate::policy::plan::gain;
use crate::policy::plan::{PlanningInput, SummaryPlan};
use crate::policy::replay::Overflow;
use crate::policy::{Policy, Step, replay};
use crate::store::{self, Claim, GuardRows, Planned, Source, Store};
use crate::summarizer::{Levels, Tasks};
use std::sync::Arc;
use uuid::Uuid;

/// Everything that a worker needs.
#[derive(Clone)]
pub(super) struct Worker {
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) summarizers: Levels,
    /// The sessions in memory.
    pub(super) loaded: LoadedSessions,
    /// Vocabularies that policies may name.
    pub(super) vocabularies: Arc<[Arc<Vocabulary>]>,
    /// Identifies this start of the daemon in leases.
    pub(super) owner: Uuid,
    /// The channel to subscribers of summaries in progress.
    pub(super) deltas: DeltaChannel,
    /// Summary tasks for clients.
    pub(super) tasks: Tasks,
    /// Programs that are notified of compactions.
    pub(super) hooks: Arc<Hooks>,
    /// The request log of the current job.
    pub(super) request_log: Arc<RequestLog>,
}

impl Worker {
    /// Announces to the store what is about to be summarized, so that a change of it ends the job at once.
    pub(super) async fn announce(&self, claim: &Claim, plan: &SummaryPlan) -> Result<(), Refusal> {
        let planned = Planned { covered: plan.covered.clone(), tail_start: plan.tail_start };
        match self.store.plan(claim.clone(), planned).await {
            Ok(()) => Ok(()),
            Err(error @ store::Error::LeaseLost) => {
                Err(Refusal::Retry(failure(FailureReason::Store, error.to_string()), None))
            }
            Err(error) => {
                // The store checks the plan again when the summary is there.
                tracing::debug!(%error, compaction = %claim.compaction, "the store does not know the plan");
                Ok(())
            }
        }
    }
}

/// Reason why no summary was made.
pub(super) enum Refusal {
    /// Another attempt may help; after this many milliseconds, if the provider named a delay.
    Retry(Failure, Option<i64>),
    /// Another attempt would not help.
    Final(Failure),
    /// A hook refuses any compaction.
    Hook(Failure),
}

pub(super) fn failure(reason: FailureReason, message: impl Into<String>) -> Failure {
    Failure::new(reason, message)
}

/// The maximum number of a job's attempts, and the reason for which automatic compactions stop after a failing one, if
/// they do.
#[derive(Clone)]
pub(super) struct FailureRules {
    pub(super) attempts_max: i64,
    pub(super) stopped: Option<Failure>,
}

impl FailureRules {
    /// For a job whose policy could not be read.
    pub(super) fn unknown() -> Self {
        Self { attempts_max: limits::ATTEMPTS_UNKNOWN_MAX, stopped: None }
    }
}

/// One attempt of a job: the claim, and the state of the session at its base.
pub(super) struct Attempt<'a> {
    pub(super) claim: &'a Claim,
    pub(super) planning: PlanningInput<'a>,
    pub(super) fold: Fold,
    pub(super) guards: Guards,
}

impl Attempt<'_> {
    pub(super) fn failure_rules(&self) -> FailureRules {
        let policy = self.planning.policy;
        FailureRules {
            attempts_max: i64::from(policy.guards.max_attempts),
            stopped: self.guards.failure_of_one_more(policy),
        }
    }

    /// True if the compaction was requested by hand, or the session cannot go on without it: it then needs no minimum
    /// gain.
    pub(super) fn is_needed(&self) -> bool {
        match self.claim.request.trigger {
            Trigger::Threshold | Trigger::Maintenance => false,
            Trigger::Overflow => replay::overflow_of(self.planning) != Some(Overflow::Answered),
            Trigger::Manual | Trigger::Supplied | Trigger::LastResort => true,
        }
    }

    /// Minimum gain of these steps in tokens.
    pub(super) fn least_gain(&self, steps: &[Step], has_summary: bool) -> i64 {
        let PlanningInput { policy, window, .. } = self.planning;
        if self.is_needed() { 1 } else { gain::least(policy, window, steps, has_summary) }
    }
}

pub(super) fn guard_input(rows: &GuardRows) -> GuardInput<'_> {
    GuardInput { ended: &rows.ended, guard_revision: rows.guard_revision, undo_revision: rows.undo_revision }
}

/// The planning input for a decision about a session's view.
pub fn planning<'a>(
    policy: &'a Policy,
    window: &'a ModelWindow,
    source: &'a Source,
    now: Timestamp,
) -> PlanningInput<'a> {
    PlanningInput { policy, window, layout: &source.layout, sources: &source.messages, base: source.at, now }
}

pub(super) fn no_gain(gain: i64) -> Failure {
    let message = match gain {
        0.. => format!("the summary would free {gain} tokens of the view, too few to be worth it"),
        _ => format!("the summary would enlarge the view by {} tokens", -gain),
    };
    failure(FailureReason::NoGain, message)
}
