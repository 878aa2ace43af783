//! What a policy says about triggers, in plain numbers, for the store to compare.

use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use crate::policy::routine::{self, Watch};
use crate::policy::{Policy, Step, UsageCount, overflow, plan};
use crate::store::{RoutineTotals, Rule, UsageReading};

/// What the policy says about triggers under a window.
pub fn rule(policy: &Policy, window: &ModelWindow) -> Rule {
    let clears = policy.routine.iter().filter(|_| policy.trigger.auto).filter_map(|step| match step {
        Step::Clear(clear) => Some(clear),
        Step::Fit(_) | Step::Summarize(_) => None,
    });
    let watch = Watch::of(policy, window);
    Rule {
        window: window.clone(),
        due_tokens: overflow::due_at(policy, window),
        prune_tokens: watch.output_tokens,
        // Nothing new is no reason to look again.
        prune_step_tokens: clears.map(|clear| clear.minimum_tokens / 4).min().unwrap_or(0).max(1),
        routine_count: watch.parts,
        view_count: watch.messages,
        routine_tokens: watch.tokens,
        idle_ms: watch.idle_seconds.map(|seconds| i64::from(seconds).saturating_mul(1_000)),
        rounding_tokens: 1,
        usage: match policy.counting.usage {
            UsageCount::Total => UsageReading::All,
            UsageCount::Prompt => UsageReading::Prompt,
            UsageCount::Nothing => UsageReading::Nothing,
        },
    }
}

/// What of a view the policy's routine could act on.
pub fn totals(policy: &Policy, sources: &[SourceMessage]) -> RoutineTotals {
    RoutineTotals {
        output_tokens: plan::output_tokens(policy, sources),
        routine_count: routine::count_in(policy, sources),
        view_count: plan::message_count(sources),
    }
}
