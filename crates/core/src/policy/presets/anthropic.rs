//! The context editing of Anthropic's API, done by Longhand instead.

use super::preset::Preset;
use crate::policy::{Count, FailedOutputs, Keep, Target};
use crate::policy::{Counting, LengthUnit, LevelPolicy, Limit, MediaUnits, Policy, Prune, Step, Threshold, UsageCount};

/// `anthropic-context-editing@2025-10`.
pub const CONTEXT_EDITING: Preset = Preset {
    name: "anthropic-context-editing@2025-10",
    description: "Anthropic's context editing: old thoughts go at once, old tool results above 100000 input tokens.",
    own_deviations: &[
        "Results that no reply has read are never cleared.",
        "What is cleared stays cleared; the interface works it out anew for every request, which comes to the same.",
        "A result that is no longer than the words that replace it stays.",
        "The words in place of a result are Longhand's; the interface does not say its own.",
    ],
    sources: &[
        ("preset", "this preset's name"),
        ("counting", "Longhand: the interface counts for itself"),
        ("counting.usage", "Anthropic: input_tokens"),
        ("trigger.auto", "Anthropic: the edits are applied to every request"),
        ("maintenance", "Anthropic: clear_thinking_20251015"),
        ("maintenance.0.prune.keep.turns_with_parts", "Anthropic: keep, default: the last turn with thoughts"),
        ("auto", "Anthropic: clear_tool_uses_20250919"),
        ("auto.threshold", "Anthropic: trigger, default: 100000 input tokens"),
        ("auto.notice", "Anthropic: applied_edits, without a line of its own"),
        ("auto.steps.0.prune.keep.parts", "Anthropic: keep, default: 3 tool uses"),
        ("auto.steps.0.prune.minimum_tokens", "Anthropic: clear_at_least, default: none"),
        ("auto.steps.0.prune.tools", "Anthropic: exclude_tools, default: none"),
        ("auto.steps.0.prune.inputs", "Anthropic: clear_tool_inputs, default: false"),
        ("auto.steps.0.prune.replacement", "Longhand's wording"),
        ("auto.steps.0.prune.only_if_shorter", "Longhand: clearing must free something"),
        ("deep", "Anthropic: compaction is another edit"),
        ("view", "Longhand: the edits make no summary"),
        ("guards", "Longhand"),
    ],
    policy: context_editing,
};

/// The policy of `anthropic-context-editing@2025-10`.
pub fn context_editing() -> Policy {
    Policy {
        preset: CONTEXT_EDITING.name.to_owned(),
        counting: Counting {
            unit: LengthUnit::CodePoints,
            media: MediaUnits::all(6_400),
            usage: UsageCount::Prompt,
            ..Counting::default()
        },
        maintenance: vec![Step::Prune(Prune {
            target: Target::Reasoning,
            keep: Keep { turns_with_parts: 1, ..Keep::default() },
            only_if_shorter: false,
            ..Prune::outputs("")
        })],
        auto: Some(LevelPolicy::new(
            Threshold::above(Limit::Tokens(100_000)),
            vec![Step::Prune(Prune {
                keep: Keep { parts: Count::Fixed(3), ..Keep::default() },
                failed_outputs: FailedOutputs::Prune,
                ..Prune::outputs("[Old result of {tool} cleared]")
            })],
        )),
        ..Policy::default()
    }
}
