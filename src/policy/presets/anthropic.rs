//! The context editing of Anthropic's API, done by Longhand instead.

use super::preset::Preset;
use crate::policy::{
    Clear, CountPer, Counting, Guards, LengthUnit, LevelPolicy, Limit, MediaUnits, Notice, Policy, Rounding, Step,
    SummaryRole, TextUnits, Threshold, Trigger, UsageCount, ViewStyle,
};
use crate::policy::{Count, EstimateOf, Keep, Target};

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
        ("render_version", "Longhand's renderer"),
        ("counting", "Longhand: the interface counts for itself"),
        ("counting.usage", "Anthropic: input_tokens"),
        ("trigger.auto", "Anthropic: the edits are applied to every request"),
        ("trigger.cooldown_seconds", "Anthropic has none"),
        ("truncate", "Anthropic has none"),
        ("maintenance", "Anthropic: clear_thinking_20251015"),
        ("maintenance.0.clear.keep.turns_with_any", "Anthropic: keep, default: the last turn with thoughts"),
        ("micro", "Anthropic has one trigger"),
        ("auto", "Anthropic: clear_tool_uses_20250919"),
        ("auto.threshold", "Anthropic: trigger, default: 100000 input tokens"),
        ("auto.notice", "Anthropic: applied_edits, without a line of its own"),
        ("auto.steps.0.clear.keep.items", "Anthropic: keep, default: 3 tool uses"),
        ("auto.steps.0.clear.minimum_tokens", "Anthropic: clear_at_least, default: none"),
        ("auto.steps.0.clear.protected_tools", "Anthropic: exclude_tools, default: none"),
        ("auto.steps.0.clear.inputs", "Anthropic: clear_tool_inputs, default: false"),
        ("auto.steps.0.clear.instead", "Longhand's wording"),
        ("auto.steps.0.clear.only_if_shorter", "Longhand: clearing must free something"),
        ("deep", "Anthropic: compaction is another edit"),
        ("retrieval", "Anthropic has none"),
        ("view", "Longhand: the edits make no summary"),
        ("guards", "Longhand"),
    ],
    policy: context_editing,
};

/// The policy of `anthropic-context-editing@2025-10`.
pub fn context_editing() -> Policy {
    Policy {
        preset: CONTEXT_EDITING.name.to_owned(),
        render_version: 1,
        counting: Counting {
            unit: LengthUnit::CodePoints,
            text: TextUnits::Length,
            units_per_token: 4,
            rounding: Rounding::Ceil,
            per: CountPer::Message,
            media: MediaUnits::all(6_400),
            usage: UsageCount::Prompt,
        },
        trigger: Trigger { auto: true, ..Trigger::default() },
        truncate: None,
        maintenance: vec![Step::Clear(Clear {
            target: Target::Reasoning,
            estimate: EstimateOf::Part,
            keep: Keep { turns_with_any: 1, ..Keep::default() },
            only_if_shorter: false,
            ..Clear::outputs("")
        })],
        micro: None,
        auto: Some(LevelPolicy {
            threshold: Threshold { limit: Limit::Tokens { tokens: 100_000 }, inclusive: false, minimum_tokens: 0 },
            notice: Notice::None,
            steps: vec![Step::Clear(Clear {
                keep: Keep { items: Count::Fixed(3), ..Keep::default() },
                failed_too: true,
                ..Clear::outputs("[Old result of {tool} cleared]")
            })],
            stop_when_enough: false,
        }),
        deep: None,
        retrieval: None,
        auto_continue: None,
        view: ViewStyle {
            marker_text: None,
            summary_role: SummaryRole::User,
            summary_prefix: String::new(),
            summary_suffix: String::new(),
            acknowledgement: None,
            resume_text: None,
            interrupted_text: "[Interrupted: this tool call has no result]".to_owned(),
        },
        guards: Guards { breaker_failures: 3, breaker_turns: 3, attempts_max: 3, ..Guards::default() },
    }
}
