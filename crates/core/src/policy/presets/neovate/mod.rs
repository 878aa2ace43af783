//! Neovate Code: clears old outputs, then replaces everything by one summary.
//!
//! There are two presets because the code of 2026 differs from its own design: `@2026` is the code, `@2026-fixed` the
//! design.

pub mod parameters;

use self::parameters::PartsAsWritten;
use crate::policy::bpe::Encoding;
use crate::policy::presets::preset::Preset;
use crate::policy::{
    Counting, LevelPolicy, Limit, MediaUnits, Notice, Policy, Prune, Section, Step, Summarize, Summary, SummaryFormat,
    TextUnits, Threshold, Topic, Transcript, TranscriptForm, Truncate, UsageCount,
};
use crate::policy::{FailedOutputs, Keep, Tools, Walk};

const UNANSWERED: &str = "The last request, results that no reply has read, open messages and running calls are never \
                          summarized or cleared; Neovate keeps nothing but the summary.";
const FULL_OUTPUT: &str = "The whole of an output that was truncated can be read for ever; Neovate keeps it for 7 \
                           days.";
const MEDIA: &str = "A media item has a fixed estimate; Neovate measures the text of its bytes.";
const FAILURE: &str = "A summary that is empty or cannot be made gives way to the built-in summarizer; Neovate ends \
                       there.";
const CLEARED_FOR_GOOD: &str = "What was cleared stays cleared after a restart; Neovate forgets it.";
const NO_CONTINUATION: &str = "Nobody is asked to go on after a compaction; Neovate's design has a switch for that, on by \
                               default, which its code never reads.";
const CONTINUATION: &str = "Whoever is at work is asked to go on after a compaction, in Longhand's words; behind a turn that \
                            is finished nobody is. Neovate's design has a switch for that and no words.";
const RATIO: &str = "The ratio may be any share of the window; Neovate's design speaks of 0.5 to 0.9.";
const CACHE_WRITES: &str = "Input that was written to a cache counts too; Neovate's design counts input and what was read \
                            from a cache, and with providers that report writes apart it is due a request later.";
const SWITCH: &str = "The switch for pruning is whether the level has that step.";

/// `neovate@2026`.
pub const V2026: Preset = Preset {
    name: "neovate@2026",
    description: "Neovate Code, as its code does: every time it is due it clears old outputs and then summarizes all.",
    own_deviations: &[UNANSWERED, FULL_OUTPUT, MEDIA, FAILURE, CLEARED_FOR_GOOD, NO_CONTINUATION],
    sources: SOURCES,
    policy: v2026,
};

/// `neovate@2026-fixed`.
pub const V2026_FIXED: Preset = Preset {
    name: "neovate@2026-fixed",
    description: "Neovate Code, as its design says: a summary is made only if clearing old outputs was not enough.",
    own_deviations: &[
        UNANSWERED,
        FULL_OUTPUT,
        MEDIA,
        FAILURE,
        CLEARED_FOR_GOOD,
        CONTINUATION,
        CACHE_WRITES,
        SWITCH,
        RATIO,
    ],
    sources: SOURCES,
    policy: v2026_fixed,
};

const SOURCES: &[(&str, &str)] = &[
    ("preset", "this preset's name"),
    ("counting.unit", "Neovate: JavaScript string length"),
    ("counting.text", "Neovate: gpt-tokenizer, o200k_base"),
    ("counting.units_per_token", "Neovate: gpt-tokenizer counts tokens"),
    ("counting.rounding", "Neovate: gpt-tokenizer counts whole tokens"),
    ("counting.per", "Neovate: the text of each output"),
    ("counting.media", "Longhand: Neovate measures the text of the bytes"),
    ("counting.usage", "Neovate: totalTokens of the last reply in the code, input and cacheRead in the design"),
    ("trigger.auto", "Neovate: autoCompact"),
    ("truncate.max_units", "Neovate limits lines and bytes"),
    ("truncate.max_lines", "Neovate: TRUNCATE_MAX_LINES"),
    ("truncate.max_bytes", "Neovate: TRUNCATE_MAX_BYTES"),
    ("truncate.head_ratio", "Neovate: direction head"),
    ("truncate.marker", "Longhand's wording"),
    ("maintenance", "Neovate clears only when a summary is due"),
    ("auto.threshold.limit", "Neovate: COMPACTION_TRIGGER_RATIO, to be set between 0.5 and 0.9"),
    ("auto.threshold.inclusive", "Neovate: isOverflow"),
    ("auto.threshold.minimum_tokens", "Neovate: 0.8 of MIN_TOKEN_THRESHOLD, 32000, in the code; none in the design"),
    ("auto.notice", "Neovate: what its interface shows after a compaction"),
    ("auto.steps.0.prune", "Neovate: prune"),
    ("auto.steps.0.prune.keep.tokens", "Neovate: PRUNE_PROTECT_THRESHOLD"),
    ("auto.steps.0.prune.keep.turns", "Neovate: PRUNE_PROTECT_TURNS"),
    ("auto.steps.0.prune.minimum_tokens", "Neovate: PRUNE_MINIMUM"),
    ("auto.steps.0.prune.tools", "Neovate: PRUNE_PROTECTED_TOOLS"),
    ("auto.steps.0.prune.walk", "Neovate: the inner loop in the code, the whole walk in the design"),
    ("auto.steps.1.summarize.tail", "Neovate: the history becomes one message"),
    ("auto.steps.1.summarize.summary", "Neovate: the summary's prompt, and how it writes the history out"),
    ("auto.steps.1.summarize.summary.max_tokens", "Neovate: COMPACTION_OUTPUT_TOKEN_MAX, which its code never uses"),
    ("auto.steps.1.summarize.fallback", "Longhand: the built-in summarizer"),
    (
        "auto.stop_when_enough",
        "Neovate: in the code the second check cannot see what was cleared; in the design it can",
    ),
    ("auto_continue", "Neovate's design: autoContinue, in Longhand's words; its code never reads it"),
    ("view", "Neovate: a summary is a user message without a wrapper"),
    ("view.interrupted_text", "Longhand's wording"),
    ("guards", "Longhand: Neovate has no guard"),
];

/// The policy of `neovate@2026`.
pub fn v2026() -> Policy {
    policy(V2026.name, (UsageCount::Total, 25_600), PartsAsWritten { ends_at_pruned: false }, false)
}

/// The policy of `neovate@2026-fixed`.
pub fn v2026_fixed() -> Policy {
    Policy {
        auto_continue: Some("Go on with what you were at. If nothing is left to do, say so.".to_owned()),
        ..policy(V2026_FIXED.name, (UsageCount::Prompt, 0), PartsAsWritten { ends_at_pruned: true }, true)
    }
}

fn policy(
    preset: &str,
    (usage, minimum_tokens): (UsageCount, i64),
    walk: PartsAsWritten,
    stop_when_enough: bool,
) -> Policy {
    Policy {
        preset: preset.to_owned(),
        counting: Counting {
            text: TextUnits::Bpe { encoding: Encoding::O200kBase },
            units_per_token: 1,
            media: MediaUnits::all(1_200),
            usage,
            ..Counting::default()
        },
        truncate: Some(Truncate { max_lines: 2_000, max_bytes: 51_200, ..Truncate::default() }),
        auto: Some(LevelPolicy {
            notice: Notice::Inform { text: "Chat history compacted successfully.".to_owned() },
            stop_when_enough,
            ..LevelPolicy::new(
                Threshold { minimum_tokens, ..Threshold::above(Limit::Ratio(0.7)) },
                vec![
                    Step::Prune(prune(walk)),
                    Step::Summarize(Box::new(Summarize { summary: summary(), ..Summarize::default() })),
                ],
            )
        }),
        ..Policy::default()
    }
}

fn prune(walk: PartsAsWritten) -> Prune {
    Prune {
        keep: Keep { turns: 2, tokens: 40_000, ..Keep::default() },
        // Neovate prunes more than 20 000 tokens.
        minimum_tokens: 20_001,
        tools: Tools::Except(vec!["skill".to_owned(), "task".to_owned()]),
        failed_outputs: FailedOutputs::Prune,
        walk: Walk::PartsAsWritten(walk),
        only_if_shorter: false,
        ..Prune::outputs("[Output pruned at {time}]")
    }
}

fn summary() -> Summary {
    Summary {
        format: SummaryFormat::Elements { root: "context_summary".to_owned() },
        sections: vec![
            Section::new("conversation_overview", Topic::Goal),
            Section::new("key_knowledge", Topic::Context),
            Section::new("file_system_state", Topic::Files),
            Section::new("recent_actions", Topic::Done),
            Section::new("current_plan", Topic::NextSteps),
        ],
        transcript: Transcript {
            form: TranscriptForm::Digest,
            output_units: 200,
            output_marker: "...".to_owned(),
            reasoning: true,
            media_note: String::new(),
        },
        ..Summary::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::compaction::Level;
    use crate::model::usage::{ModelWindow, Usage};
    use crate::policy::overflow::reached;

    #[test]
    fn it_overflows_where_its_own_tests_say() {
        let policy = v2026();
        for (context, input, cache_read, expected) in [
            (200_000, 139_000, 0, false),
            (200_000, 141_000, 0, true),
            (200_000, 190_000, 8_000, true),
            (200_000, 50_000, 0, false),
            (200_000, 140_000, 0, false),
            (0, 1_000_000, 0, false),
            // Below 0.8 of 32 000 tokens nothing ever happens, however small the window is.
            (32_000, 25_599, 0, false),
            (32_000, 25_600, 0, true),
        ] {
            let window = ModelWindow { context, ..ModelWindow::default() };
            let usage = Usage { input, cache_read, ..Usage::default() };
            let tokens = policy.counting.usage.tokens(&usage);
            let levels: Vec<_> = reached(&policy, &window, tokens).map(|(level, _)| level).collect();
            let expected: &[Level] = if expected { &[Level::Auto] } else { &[] };
            assert_eq!(levels, expected, "{tokens} of {context}");
        }
    }
}
