//! Neovate Code: clears old outputs, then replaces everything by one summary.
//!
//! There are two presets because the code of 2026 differs from its own design: `@2026` is the code, `@2026-fixed` the
//! design.

use super::preset::Preset;
use crate::policy::bpe::Encoding;
use crate::policy::{
    Bullet, Clear, Contradictions, CountPer, Counting, FileTools, Guards, LengthUnit, LevelPolicy, Limit, MediaUnits,
    Notice, Policy, PromptStyle, Rounding, Section, Step, Summarize, Summary, SummaryFormat, SummaryRole, Tail,
    TextUnits, Threshold, Topic, Transcript, TranscriptForm, Trigger, Truncate, UsageCount, ViewStyle,
};
use crate::policy::{Keep, PartOrder, PastCleared};

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
    sources: &SOURCES,
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
    sources: &FIXED_SOURCES,
    policy: v2026_fixed,
};

const SOURCES: [(&str, &str); 39] = [
    ("preset", "this preset's name"),
    ("render_version", "Longhand's renderer"),
    ("counting.unit", "Neovate: JavaScript string length"),
    ("counting.text", "Neovate: gpt-tokenizer, o200k_base"),
    ("counting.units_per_token", "Neovate: gpt-tokenizer counts tokens"),
    ("counting.rounding", "Neovate: gpt-tokenizer counts whole tokens"),
    ("counting.per", "Neovate: the text of each output"),
    ("counting.media", "Longhand: Neovate measures the text of the bytes"),
    ("counting.usage", "Neovate: totalTokens of the last reply in the code, input and cacheRead in the design"),
    ("trigger.auto", "Neovate: autoCompact"),
    ("trigger.cooldown_seconds", "Neovate has none"),
    ("truncate.max_units", "Neovate limits lines and bytes"),
    ("truncate.max_lines", "Neovate: TRUNCATE_MAX_LINES"),
    ("truncate.max_bytes", "Neovate: TRUNCATE_MAX_BYTES"),
    ("truncate.head_share", "Neovate: direction head"),
    ("truncate.marker", "Longhand's wording"),
    ("maintenance", "Neovate clears only when a summary is due"),
    ("micro", "Neovate has one level"),
    ("auto.threshold.limit", "Neovate: COMPACTION_TRIGGER_RATIO, to be set between 0.5 and 0.9"),
    ("auto.threshold.inclusive", "Neovate: isOverflow"),
    ("auto.threshold.minimum_tokens", "Neovate: 0.8 of MIN_TOKEN_THRESHOLD, 32000, in the code; none in the design"),
    ("auto.notice", "Neovate: what its interface shows after a compaction"),
    ("auto.steps.0.clear", "Neovate: prune"),
    ("auto.steps.0.clear.keep.tokens", "Neovate: PRUNE_PROTECT_THRESHOLD"),
    ("auto.steps.0.clear.keep.turns", "Neovate: PRUNE_PROTECT_TURNS"),
    ("auto.steps.0.clear.minimum_tokens", "Neovate: PRUNE_MINIMUM"),
    ("auto.steps.0.clear.protected_tools", "Neovate: PRUNE_PROTECTED_TOOLS"),
    ("auto.steps.0.clear.past_cleared", "Neovate: the inner loop in the code, the whole walk in the design"),
    ("auto.steps.1.summarize.tail", "Neovate: the history becomes one message"),
    ("auto.steps.1.summarize.summary", "Neovate: the summary's prompt, and how it writes the history out"),
    ("auto.steps.1.summarize.summary.max_tokens", "Neovate: COMPACTION_OUTPUT_TOKEN_MAX, which its code never uses"),
    ("auto.steps.1.summarize.retained_first", "Neovate retains nothing"),
    ("auto.steps.1.summarize.fallback", "Longhand: the built-in summarizer"),
    (
        "auto.stop_when_enough",
        "Neovate: in the code the second check cannot see what was cleared; in the design it can",
    ),
    ("deep", "Neovate has one level"),
    ("retrieval", "Neovate has none"),
    ("view", "Neovate: a summary is a user message without a wrapper"),
    ("view.interrupted_text", "Longhand's wording"),
    ("guards", "Longhand: Neovate has no guard"),
];

/// The sources of the design, which has one value more.
const FIXED_SOURCES: [(&str, &str); SOURCES.len() + 1] = {
    let mut all = [("auto_continue", "Neovate's design: autoContinue, in Longhand's words"); SOURCES.len() + 1];
    let mut at = 0;
    while at < SOURCES.len() {
        all[at] = SOURCES[at];
        at += 1;
    }
    all
};

/// The policy of `neovate@2026`.
pub fn v2026() -> Policy {
    policy(V2026.name, (UsageCount::Total, 25_600), PastCleared::NextMessage, false)
}

/// The policy of `neovate@2026-fixed`.
pub fn v2026_fixed() -> Policy {
    Policy {
        auto_continue: Some("Go on with what you were at. If nothing is left to do, say so.".to_owned()),
        ..policy(V2026_FIXED.name, (UsageCount::Prompt, 0), PastCleared::Stop, true)
    }
}

fn policy(
    preset: &str,
    (usage, minimum_tokens): (UsageCount, i64),
    past_cleared: PastCleared,
    stop_when_enough: bool,
) -> Policy {
    Policy {
        preset: preset.to_owned(),
        render_version: 1,
        counting: Counting {
            unit: LengthUnit::Utf16,
            text: TextUnits::Bpe { encoding: Encoding::O200kBase },
            units_per_token: 1,
            rounding: Rounding::Ceil,
            per: CountPer::Message,
            media: MediaUnits::all(1_200),
            usage,
        },
        trigger: Trigger { auto: true, ..Trigger::default() },
        truncate: Some(Truncate {
            max_lines: 2_000,
            max_bytes: 51_200,
            ..Truncate::head(0, "\n[Output truncated: {omitted} characters omitted]")
        }),
        maintenance: Vec::new(),
        micro: None,
        auto: Some(LevelPolicy {
            threshold: Threshold { limit: Limit::Ratio { ratio: 0.7 }, inclusive: false, minimum_tokens },
            notice: Notice::Inform { text: "Chat history compacted successfully.".to_owned() },
            steps: vec![
                Step::Clear(clear(past_cleared)),
                Step::Summarize(Box::new(Summarize {
                    tail: Tail::Nothing {},
                    summary: summary(),
                    retained_first: false,
                    minimum_messages: 0,
                    fallback: Vec::new(),
                })),
            ],
            stop_when_enough,
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

fn clear(past_cleared: PastCleared) -> Clear {
    Clear {
        keep: Keep { turns: 2, tokens: 40_000, ..Keep::default() },
        minimum_tokens: 20_000,
        minimum_inclusive: false,
        protected_tools: vec!["skill".to_owned(), "task".to_owned()],
        failed_too: true,
        past_cleared,
        part_order: PartOrder::AsWritten,
        only_if_shorter: false,
        ..Clear::outputs("[Output pruned at {time}]")
    }
}

fn summary() -> Summary {
    let section = |heading: &str, holds| Section { heading: heading.to_owned(), holds, bullet: Bullet::Dash };
    Summary {
        format: SummaryFormat::Elements { root: "context_summary".to_owned() },
        sections: vec![
            section("conversation_overview", Some(Topic::Goal)),
            section("key_knowledge", Some(Topic::Context)),
            section("file_system_state", Some(Topic::Files)),
            section("recent_actions", Some(Topic::Done)),
            section("current_plan", Some(Topic::NextSteps)),
        ],
        filler: "(none)".to_owned(),
        max_tokens: 4_096,
        file_tags: false,
        file_tools: FileTools::Any,
        split_turn_heading: None,
        carry_previous: true,
        verify: false,
        transcript: Transcript {
            form: TranscriptForm::Digest,
            output_units: 200,
            output_marker: "...".to_owned(),
            reasoning: true,
            media_note: String::new(),
        },
        attachments: None,
        prompt: PromptStyle::default(),
        facts_tokens: 0,
        contradictions: Contradictions::Report,
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
