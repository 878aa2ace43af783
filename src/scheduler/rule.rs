//! What a policy says about triggers, in plain numbers, for the store to compare.

use crate::model::usage::ModelWindow;
use crate::policy::clear::pays_from;
use crate::policy::{Policy, Step, UsageCount, overflow};
use crate::store::{Rule, UsageReading};

/// What the policy says about triggers under a window.
pub fn rule(policy: &Policy, window: &ModelWindow) -> Rule {
    let clears = policy.routine.iter().filter(|_| policy.trigger.auto).filter_map(|step| match step {
        Step::Clear(clear) => Some(clear),
        Step::Fit(_) | Step::Summarize(_) => None,
    });
    let prune_tokens = clears.clone().map(pays_from).min();
    Rule {
        window: window.clone(),
        due_tokens: overflow::due_at(policy, window),
        prune_tokens,
        prune_step_tokens: clears.map(|clear| clear.minimum_tokens / 4).min().unwrap_or(0),
        prune_count: None,
        room_tokens: overflow::room(window),
        usage: match policy.counting.usage {
            UsageCount::Total => UsageReading::All,
            UsageCount::Prompt => UsageReading::Prompt,
            UsageCount::Nothing => UsageReading::Nothing,
        },
    }
}
