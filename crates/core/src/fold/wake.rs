//! The condition of a session's next decision: the least that must happen before it can differ from the newest one.

use super::Fold;
use super::guards::Guards;
use crate::model::part::PART_GROWTH_BYTES;
use crate::model::session::WakeCondition;
use crate::model::time::Timestamp;
use crate::model::view::SourceMessage;
use crate::policy::maintenance::{MaintenanceCounts, MaintenanceLimits};
use crate::policy::plan::PlanningInput;
use crate::policy::{overflow, prune, tokens};

/// The wake condition after a decision at this moment.
pub fn condition(planning: PlanningInput<'_>, fold: &Fold, guards: &Guards) -> WakeCondition {
    let PlanningInput { policy, window, sources, now, .. } = planning;
    if !policy.trigger.auto {
        return WakeCondition::default();
    }
    let tokens = fold.context_tokens(window);
    let levels = Levels::new(planning, tokens, guards);
    let maintenance = Maintenance::new(planning, fold.maintenance_counts(window));
    let to_limit = window.input_max().map(|limit| limit.saturating_add(1).saturating_sub(tokens));
    let of_tokens = [
        levels.remaining_tokens,
        guards.growth_tokens,
        to_limit.filter(|tokens| *tokens > 0),
        maintenance.remaining_tokens,
    ];
    let of_tokens = of_tokens.into_iter().flatten().map(|tokens| tokens::growth_bytes(&policy.counting, tokens));
    let of_parts = maintenance.remaining_parts.map(|parts| parts.saturating_mul(PART_GROWTH_BYTES));
    // If steps are allowed but have nothing to act on, the next message may change that.
    let lacks_reply_space = !guards.holds_after_undo && !fold.fits(window);
    // Any event may end the run that a threshold waits for.
    let waits_for_run = guards.is_in_run && levels.is_reached;
    let is_open = levels.is_open || maintenance.is_open || lacks_reply_space || waits_for_run;
    let growth_bytes = if is_open { Some(1) } else { of_tokens.chain(of_parts).min() };
    WakeCondition {
        growth_bytes,
        on_reply: is_open || levels.is_reached || maintenance.idle_seconds.is_some(),
        // Turns that pass may give idle steps something to act on.
        on_request: guards.holds_after_undo
            || guards.last_resort_failed
            || guards.breaker_turns_left > 0
            || waits_for_run
            || maintenance.idle_seconds.is_some(),
        time: [guards.cooldown_end, maintenance.idle_end(sources)].into_iter().flatten().filter(|end| *end > now).min(),
    }
}

/// The levels of a policy at a context usage.
struct Levels {
    /// True if a level is reached.
    is_reached: bool,
    /// True if a level is reached that no guard holds back.
    is_open: bool,
    /// Tokens up to the next threshold; none if every level is reached.
    remaining_tokens: Option<i64>,
}

impl Levels {
    fn new(planning: PlanningInput<'_>, tokens: i64, guards: &Guards) -> Self {
        let PlanningInput { policy, window, .. } = planning;
        let remaining =
            policy.levels().filter_map(|(_, level_policy)| Some(level_policy.due_at(window)?.saturating_sub(tokens)));
        Self {
            is_reached: overflow::reached(policy, window, tokens).next().is_some(),
            is_open: overflow::reached(policy, window, tokens).any(|(level, _)| guards.allow(policy, level)),
            remaining_tokens: remaining.filter(|tokens| *tokens > 0).min(),
        }
    }
}

/// The maintenance of a policy and the distance to its conditions.
struct Maintenance {
    /// True if one of its thresholds is passed.
    is_open: bool,
    /// Tokens up to its first threshold in tokens.
    remaining_tokens: Option<i64>,
    /// Parts or messages up to its first threshold in such units.
    remaining_parts: Option<i64>,
    idle_seconds: Option<u32>,
}

impl Maintenance {
    fn new(planning: PlanningInput<'_>, counts: MaintenanceCounts) -> Self {
        let PlanningInput { policy, window, .. } = planning;
        let MaintenanceLimits { output_tokens, parts, messages, tokens: view_tokens, idle_seconds } =
            MaintenanceLimits::from_policy(policy, window);
        let remaining = |limit: Option<i64>, count: i64| limit.map(|limit| limit.saturating_sub(count));
        let of_tokens = [remaining(output_tokens, counts.output_tokens), remaining(view_tokens, counts.tokens)];
        let of_parts = [remaining(parts, counts.parts), remaining(messages, counts.messages)];
        // A threshold must be passed, not only reached.
        let first = |all: [Option<i64>; 2]| all.into_iter().flatten().min().map(|limit| limit.saturating_add(1));
        let (remaining_tokens, remaining_parts) = (first(of_tokens), first(of_parts));
        let is_open = [remaining_tokens, remaining_parts].into_iter().flatten().any(|remaining| remaining <= 0);
        Self { is_open, remaining_tokens, remaining_parts, idle_seconds }
    }

    /// The time at which the session has been idle for long enough.
    fn idle_end(&self, sources: &[SourceMessage]) -> Option<Timestamp> {
        let last = prune::last_reply(sources)?;
        Some(last.plus_millis(i64::from(self.idle_seconds?).saturating_mul(1_000)))
    }
}
