//! pi, the coding agent.
//!
//! pi clears nothing and cuts nothing in what the model reads: a summary is its only reduction.

use super::Preset;
use crate::policy::{
    Bullet, CountPer, Counting, Guards, LengthUnit, Policy, Rounding, Section, Summary, SummaryRole, Tail, Threshold,
    Topic, Trigger, ViewStyle,
};

/// `pi@1.5`.
pub const V1_5: Preset = Preset {
    name: "pi@1.5",
    description: "pi: summarizes in six sections with file lists, keeps the newest 20000 tokens, splits turns.",
    deviations: &[
        "The last request, results that no reply has read, open messages and running calls are never summarized.",
        "A result never parts from its call, even with other writers' messages between them.",
        "Entries that are never in a context (labels, model changes) do not influence where a turn is split; in pi a \
         cut behind such an entry counts as splitting the turn before it.",
        "A summary has a limit of its own; pi leaves it to the model.",
        "A reduction that frees nothing ends in a breaker; pi has none beyond one retry for each overflow.",
    ],
    sources: &[
        ("preset", "this preset's name"),
        ("render_version", "Longhand's first renderer"),
        ("counting.unit", "pi: JavaScript string length"),
        ("counting.units_per_token", "pi: estimateTokens"),
        ("counting.rounding", "pi: estimateTokens, Math.ceil"),
        ("counting.per", "pi: estimateTokens for each message"),
        ("counting.media_units", "pi: an image counts 4800 characters"),
        ("trigger.auto", "pi: compaction.enabled"),
        ("trigger.threshold.reserve.reserve_tokens", "pi: compaction.reserveTokens"),
        ("truncate", "pi cuts outputs only in what a summarizer reads"),
        ("prune", "pi clears nothing"),
        ("tail.recent.keep_tokens", "pi: compaction.keepRecentTokens"),
        ("summary.sections", "pi: the summarization prompt"),
        ("summary.filler", "pi: the summarization prompt"),
        ("summary.max_tokens", "Longhand: pi leaves it to the model"),
        ("summary.file_tags", "pi: formatFileOperations"),
        ("summary.split_turn_heading", "pi: how the summaries of a split turn are joined"),
        ("view.marker_text", "pi has none"),
        ("view.summary_role", "pi: a summary is a user message"),
        ("view.summary_prefix", "pi: the wrapper of a compaction summary"),
        ("view.summary_suffix", "pi: the wrapper of a compaction summary"),
        ("view.interrupted_text", "Longhand's wording"),
        ("guards.minimum_gain_tokens", "Longhand: pi has no guard"),
        ("guards.breaker_failures", "Longhand: pi has no guard"),
        ("guards.breaker_turns", "Longhand: pi has no guard"),
        ("guards.attempts_max", "pi: retry.maxRetries is 3"),
    ],
    policy: v1_5,
};

/// The policy of `pi@1.5`.
pub fn v1_5() -> Policy {
    Policy {
        preset: V1_5.name.to_owned(),
        render_version: 1,
        counting: Counting {
            unit: LengthUnit::Utf16,
            units_per_token: 4,
            rounding: Rounding::Ceil,
            per: CountPer::Message,
            media_units: 4_800,
        },
        trigger: Trigger { auto: true, threshold: Threshold::Reserve { reserve_tokens: 16_384 } },
        truncate: None,
        prune: None,
        tail: Tail::Recent { keep_tokens: 20_000 },
        summary: Summary {
            sections: sections(),
            filler: "(none)".to_owned(),
            max_tokens: 3_600,
            file_tags: true,
            split_turn_heading: Some("**Turn Context (split turn):**".to_owned()),
        },
        view: ViewStyle {
            marker_text: None,
            summary_role: SummaryRole::User,
            summary_prefix: "The conversation history before this point was compacted into the following \
                             summary:\n\n<summary>\n"
                .to_owned(),
            summary_suffix: "\n</summary>".to_owned(),
            interrupted_text: "[Interrupted: this tool call has no result]".to_owned(),
        },
        guards: Guards { minimum_gain_tokens: 200, breaker_failures: 3, breaker_turns: 3, attempts_max: 4 },
    }
}

fn sections() -> Vec<Section> {
    let section = |heading: &str, holds, bullet| Section { heading: heading.to_owned(), holds, bullet };
    vec![
        section("## Goal", Some(Topic::Goal), Bullet::Dash),
        section("## Constraints & Preferences", Some(Topic::Constraints), Bullet::Dash),
        section("## Progress", None, Bullet::Dash),
        section("### Done", Some(Topic::Done), Bullet::Checked),
        section("### In Progress", Some(Topic::InProgress), Bullet::Unchecked),
        section("### Blocked", Some(Topic::Blocked), Bullet::Dash),
        section("## Key Decisions", Some(Topic::Decisions), Bullet::Dash),
        section("## Next Steps", Some(Topic::NextSteps), Bullet::Number),
        section("## Critical Context", Some(Topic::Context), Bullet::Dash),
    ]
}
