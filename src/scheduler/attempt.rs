//! One attempt of a job, and the failures that end it.

use crate::fold::Fold;
use crate::fold::guards::{self, Guards};
use crate::limits;
use crate::model::compaction::{Failure, FailureReason, Trigger};
use crate::model::truncation::Removals;
use crate::policy::plan::{PlanningInput, gain};
use crate::policy::replay::{self, Overflow};
use crate::policy::{LevelPolicy, Step};
use crate::store::{self, Claim};

/// One attempt of a job: the claim, and the state of the session at its base.
pub(super) struct Attempt<'a> {
    pub(super) claim: &'a Claim,
    /// The messages of the view, with the policy and the window.
    pub(super) planning: PlanningInput<'a>,
    /// The view and its figures.
    pub(super) fold: Fold,
    /// The guards of automatic compactions.
    pub(super) guards: Guards,
}

impl Attempt<'_> {
    /// The rules for a failure of this attempt.
    pub(super) fn failure_rules(&self) -> FailureRules {
        let policy = self.planning.policy;
        FailureRules {
            attempts_max: i64::from(policy.guards.max_attempts),
            stopped: self.guards.failure_of_one_more(policy),
        }
    }

    /// True if this is the last attempt that the policy allows.
    pub(super) fn is_last(&self) -> bool {
        self.claim.attempt >= i64::from(self.planning.policy.guards.max_attempts)
    }

    /// True if no smaller tail and no fallback is tried after this failure.
    pub(super) fn is_ended_by(&self, failure: &AttemptFailure) -> bool {
        match failure {
            AttemptFailure::Transient { .. } => !self.is_last(),
            AttemptFailure::Permanent(_) => false,
            AttemptFailure::Refused(_) => true,
        }
    }

    /// True for a request by hand.
    pub(super) fn is_by_hand(&self) -> bool {
        self.claim.request.trigger == Trigger::Manual
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
    pub(super) fn gain_min(&self, steps: &[Step], has_summary: bool) -> i64 {
        let PlanningInput { policy, window, .. } = self.planning;
        if self.is_needed() { 1 } else { gain::least(policy, window, steps, has_summary) }
    }

    /// Tokens of the view for the steps of a level: the estimate, or the context usage if it is higher.
    pub(super) fn tokens(&self) -> i64 {
        self.fold.view.estimated_tokens.max(self.fold.context_tokens(self.planning.window))
    }

    /// Removals before any step of a level. A view that a provider refused is compacted as if its media were gone, and
    /// loses them in the same compaction. A reply that was cut off for lack of space is omitted itself.
    pub(super) fn removals_before_steps(&self) -> Removals {
        match self.claim.request.trigger {
            Trigger::Overflow => replay::given_up(self.planning),
            Trigger::Threshold | Trigger::Maintenance | Trigger::Manual | Trigger::Supplied | Trigger::LastResort => {
                Removals::default()
            }
        }
    }

    /// The failure of a level that a threshold triggered and whose limit is filled by overhead that no compaction removes.
    pub(super) fn overhead_failure(&self, level_policy: &LevelPolicy) -> Option<Failure> {
        let is_by_threshold = self.claim.request.trigger == Trigger::Threshold;
        is_by_threshold.then(|| guards::overhead_failure(level_policy, self.planning.window, &self.guards)).flatten()
    }
}

/// The failure of an attempt, by its consequence.
pub(super) enum AttemptFailure {
    /// Another attempt may succeed.
    Transient {
        failure: Failure,
        /// Delay that a provider demands before the next request.
        retry_after_ms: Option<i64>,
    },
    /// Another attempt would fail too.
    Permanent(Failure),
    /// A hook refuses any compaction, or a required hook failed: neither a smaller tail nor the policy's fallback may replace the summary.
    Refused(Failure),
}

impl AttemptFailure {
    /// A failure after which another attempt may succeed, without a delay that a provider demands.
    pub(super) fn transient(failure: Failure) -> Self {
        Self::Transient { failure, retry_after_ms: None }
    }
}

impl From<store::Error> for AttemptFailure {
    fn from(error: store::Error) -> Self {
        Self::transient(Failure::new(FailureReason::Store, error.to_string()))
    }
}

/// The consequences of a failed attempt for its job and its session.
pub(super) struct FailureRules {
    /// Maximum number of the job's attempts.
    pub(super) attempts_max: i64,
    /// The reason for which automatic compactions stop if the job fails; none if they continue.
    pub(super) stopped: Option<Failure>,
}

impl FailureRules {
    /// The rules for a job whose policy is not read yet, or cannot be read.
    pub(super) fn without_policy() -> Self {
        Self { attempts_max: limits::ATTEMPTS_UNKNOWN_MAX, stopped: None }
    }

    /// The failure of the job, whose message also states why no other compaction follows.
    pub(super) fn explain(&self, failure: Failure) -> Failure {
        match &self.stopped {
            Some(stopped) => Failure { message: format!("{}; {}", failure.message, stopped.message), ..failure },
            None => failure,
        }
    }
}

/// The failure of a summary that frees too few tokens.
pub(super) fn no_gain(gain: i64) -> Failure {
    let message = match gain {
        0.. => format!("the summary would free {gain} tokens of the view, too few to be worth it"),
        _ => format!("the summary would enlarge the view by {} tokens", -gain),
    };
    Failure::new(FailureReason::NoGain, message)
}
