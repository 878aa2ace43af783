//! OpenCode, as its published design describes it.
//!
//! The view is marker, summary, tail, later messages. Old outputs are cleared by a job of their own, which never stands
//! in for a summary that is due.

use super::Preset;
use crate::policy::{
    Bullet, CountPer, Counting, Guards, LengthUnit, Policy, Prune, Rounding, Section, Summary, SummaryRole, Tail,
    Threshold, Topic, Trigger, Truncate, ViewStyle,
};

/// `opencode@seed`.
pub const SEED: Preset = Preset {
    name: "opencode@seed",
    description: "OpenCode: cuts and clears tool outputs, summarizes in seven sections, keeps the last two turns.",
    deviations: &[
        "Clearing old outputs is on; OpenCode ships it switched off.",
        "Outputs are cut at 2000 characters in every view, as OpenCode's design says; its later code cuts only what a \
         summarizer reads.",
        "The last request, results that no reply has read, open messages and running calls are never summarized; \
         OpenCode summarizes them when they do not fit the tail.",
        "A result never parts from its call, even when they are separate messages with others between them.",
        "A media item counts a fixed weight; OpenCode measures the text of its data URL.",
        "A second compaction hides the first one's marker and summary; OpenCode can show both.",
        "A reduction that frees nothing ends in a breaker; OpenCode tries for ever.",
        "No continuation is written behind a finished turn; OpenCode writes one after every automatic compaction.",
    ],
    sources: &[
        ("preset", "this preset's name"),
        ("render_version", "Longhand's first renderer"),
        ("counting.unit", "OpenCode: JavaScript string length"),
        ("counting.units_per_token", "OpenCode: Token.estimate"),
        ("counting.rounding", "OpenCode: Token.estimate, Math.round"),
        ("counting.per", "OpenCode: a range is estimated over the JSON of its model messages"),
        ("counting.media_units", "Longhand: pi's weight of an image; OpenCode measures data URLs"),
        ("trigger.auto", "OpenCode: compaction.auto is on when unset"),
        ("trigger.threshold.usable.buffer_tokens", "OpenCode: COMPACTION_BUFFER"),
        ("trigger.threshold.usable.output_cap_tokens", "OpenCode: maxOutputTokens cap"),
        ("truncate.max_units", "OpenCode: TOOL_OUTPUT_MAX_CHARS"),
        ("truncate.marker", "OpenCode: truncateToolOutput"),
        ("prune.protect_tokens", "OpenCode: PRUNE_PROTECT"),
        ("prune.minimum_tokens", "OpenCode: PRUNE_MINIMUM"),
        ("prune.protect_turns", "OpenCode: the prune walk skips the last two turns"),
        ("prune.protected_tools", "OpenCode: PRUNE_PROTECTED_TOOLS"),
        ("prune.placeholder", "OpenCode: what a model reads in place of a cleared output"),
        ("tail.turns.turns", "OpenCode: DEFAULT_TAIL_TURNS"),
        ("tail.turns.budget_ratio", "OpenCode: preserveRecentBudget"),
        ("tail.turns.budget_min_tokens", "OpenCode: MIN_PRESERVE_RECENT_TOKENS"),
        ("tail.turns.budget_max_tokens", "OpenCode: MAX_PRESERVE_RECENT_TOKENS"),
        ("summary.sections", "OpenCode: SUMMARY_TEMPLATE"),
        ("summary.filler", "OpenCode: SUMMARY_TEMPLATE"),
        ("summary.max_tokens", "Longhand: OpenCode sets no limit"),
        ("summary.file_tags", "OpenCode has none: files are a section"),
        ("summary.split_turn_heading", "OpenCode has none: the front of a split turn is summarized with the rest"),
        ("view.marker_text", "OpenCode: what a model reads in place of a compaction part"),
        ("view.summary_role", "OpenCode: a summary is an assistant message"),
        ("view.summary_prefix", "OpenCode has none"),
        ("view.summary_suffix", "OpenCode has none"),
        ("view.interrupted_text", "OpenCode: the error of a call that is pending or running"),
        ("guards.minimum_gain_tokens", "Longhand: OpenCode has no guard"),
        ("guards.breaker_failures", "Longhand: OpenCode has no guard"),
        ("guards.breaker_turns", "Longhand: OpenCode has no guard"),
        ("guards.attempts_max", "OpenCode: five retries of a failed request"),
    ],
    policy: seed,
};

/// The policy of `opencode@seed`.
pub fn seed() -> Policy {
    Policy {
        preset: SEED.name.to_owned(),
        render_version: 1,
        counting: Counting {
            unit: LengthUnit::Utf16,
            units_per_token: 4,
            rounding: Rounding::HalfUp,
            per: CountPer::JsonRange,
            media_units: 4_800,
        },
        trigger: Trigger {
            auto: true,
            threshold: Threshold::Usable { buffer_tokens: 20_000, output_cap_tokens: 32_000 },
        },
        truncate: Some(Truncate {
            max_units: 2_000,
            marker: "\n[Tool output truncated: omitted {omitted} chars]".to_owned(),
        }),
        prune: Some(Prune {
            protect_tokens: 40_000,
            minimum_tokens: 20_000,
            protect_turns: 2,
            protected_tools: vec!["skill".to_owned()],
            placeholder: "[Old tool result content cleared]".to_owned(),
        }),
        tail: Tail::Turns { turns: 2, budget_ratio: 0.25, budget_min_tokens: 2_000, budget_max_tokens: 8_000 },
        summary: Summary {
            sections: sections(),
            filler: "(none)".to_owned(),
            max_tokens: 3_600,
            file_tags: false,
            split_turn_heading: None,
        },
        view: ViewStyle {
            marker_text: Some("What did we do so far?".to_owned()),
            summary_role: SummaryRole::Assistant,
            summary_prefix: String::new(),
            summary_suffix: String::new(),
            interrupted_text: "[Tool execution was interrupted]".to_owned(),
        },
        guards: Guards { minimum_gain_tokens: 200, breaker_failures: 3, breaker_turns: 3, attempts_max: 6 },
    }
}

fn sections() -> Vec<Section> {
    let section = |heading: &str, holds| Section { heading: heading.to_owned(), holds, bullet: Bullet::Dash };
    vec![
        section("## Goal", Some(Topic::Goal)),
        section("## Constraints & Preferences", Some(Topic::Constraints)),
        section("## Progress", None),
        section("### Done", Some(Topic::Done)),
        section("### In Progress", Some(Topic::InProgress)),
        section("### Blocked", Some(Topic::Blocked)),
        section("## Key Decisions", Some(Topic::Decisions)),
        section("## Next Steps", Some(Topic::NextSteps)),
        section("## Critical Context", Some(Topic::Context)),
        section("## Relevant Files", Some(Topic::Files)),
    ]
}
