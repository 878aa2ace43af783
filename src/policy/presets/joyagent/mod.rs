//! JoyAgent.
//!
//! Its truncation of messages to the newest from a request on is written and tested, but never called; in effect are
//! only the limits on tool outputs and on the input of a task's summary.

pub(in crate::policy) mod envelope;
pub mod parameters;
pub(in crate::policy) mod suffix;

use self::parameters::{Detail, Envelope};
use crate::policy::presets::preset::Preset;
use crate::policy::{
    Bullet, Contradictions, CountPer, Counting, FileTools, Guards, LengthUnit, LevelPolicy, Limit, MediaUnits, Notice,
    Omission, Policy, PromptStyle, Rounding, Section, Step, Summarize, Summary, SummaryFormat, SummaryRole, Tail,
    TextUnits, Threshold, Topic, Transcript, TranscriptForm, Trigger, Truncate, UsageCount, ViewStyle,
};

/// A limit that no view reaches: such a level is applied by hand only.
const BY_HAND_TOKENS: i64 = 1_000_000_000_000;

/// `joyagent`: November 2025.
pub const PRESET: Preset = Preset {
    name: "joyagent",
    description: "JoyAgent: truncates outputs at 10000 characters, and keeps the newest messages that fit in 100000 \
                  from a request on.",
    own_deviations: &[
        "The omission of messages is applied; JoyAgent has it but never calls it.",
        "It is applied when all messages together exceed the limit; JoyAgent would look before every request.",
        "The last request and what follows it always stay; in JoyAgent nothing but the instructions may be left.",
        "Instructions stay wherever they are.",
        "A result never parts from its call, and what nobody has answered stays.",
        "The size of an image is read from the image; JoyAgent takes it as an input.",
        "What a task came to is summarized when somebody asks for it; JoyAgent does it at the end of every task.",
        "Requests and replies are given whole when a task is summarized, and outputs are truncated; JoyAgent \
         truncates every message.",
    ],
    sources: &[
        ("preset", "this preset's name"),
        ("render_version", "Longhand's renderer"),
        ("counting.unit", "JoyAgent: Java string length"),
        ("counting.text", "JoyAgent: countText of its TokenCounter"),
        ("counting.units_per_token", "JoyAgent: every unit counts one"),
        ("counting.rounding", "JoyAgent: lengths are whole"),
        ("counting.per", "JoyAgent: countMessageTokens of its TokenCounter"),
        ("counting.media", "JoyAgent: an image of unknown size"),
        ("counting.usage", "Longhand: JoyAgent does not look at reported usage"),
        ("trigger.auto", "Longhand: JoyAgent never calls its omission of messages"),
        ("trigger.cooldown_seconds", "JoyAgent has no timer"),
        ("truncate", "JoyAgent: a plain substring"),
        ("truncate.max_units", "JoyAgent: max_observe"),
        ("maintenance", "JoyAgent clears nothing"),
        ("micro", "JoyAgent has one level"),
        ("auto.threshold", "JoyAgent: max_input_tokens"),
        ("auto.notice", "JoyAgent says nothing"),
        ("auto.steps", "JoyAgent: truncateMessage"),
        ("auto.stop_when_enough", "JoyAgent has one step"),
        ("deep", "JoyAgent: SummaryAgent, by hand only"),
        ("deep.steps.0.summarize.summary", "Longhand: JoyAgent leaves it to its configuration"),
        ("deep.steps.0.summarize.summary.transcript.output_units", "JoyAgent: message_size_limit of application.yml"),
        ("retrieval", "JoyAgent has none"),
        ("view", "JoyAgent makes no summaries for a model"),
        ("view.interrupted_text", "Longhand's wording"),
        ("guards", "Longhand: JoyAgent has no guard"),
    ],
    policy,
};

/// The policy of `joyagent`.
pub fn policy() -> Policy {
    Policy {
        preset: PRESET.name.to_owned(),
        render_version: 1,
        counting: Counting {
            unit: LengthUnit::Utf16,
            text: TextUnits::Length,
            units_per_token: 1,
            rounding: Rounding::Ceil,
            per: CountPer::Envelope(Envelope { message_units: 4, list_units: 2, detail: Detail::Medium }),
            media: MediaUnits::all(1_024),
            usage: UsageCount::Total,
        },
        trigger: Trigger { auto: true, ..Trigger::default() },
        truncate: Some(Truncate::head(10_000, "")),
        maintenance: Vec::new(),
        micro: None,
        auto: Some(level_policy(100_000, Step::Omit(Omission::Suffix {}))),
        deep: Some(level_policy(
            BY_HAND_TOKENS,
            Step::Summarize(Box::new(Summarize {
                tail: Tail::Nothing {},
                summary: summary(),
                retained_first: false,
                minimum_messages: 0,
                fallback: Vec::new(),
            })),
        )),
        retrieval: None,
        auto_continue: None,
        view: ViewStyle {
            marker_text: None,
            summary_role: SummaryRole::Assistant,
            summary_prefix: String::new(),
            summary_suffix: String::new(),
            acknowledgement: None,
            resume_text: None,
            interrupted_text: "[No result: this call was interrupted]".to_owned(),
        },
        guards: Guards { breaker_failures: 3, breaker_turns: 3, attempts_max: 3, ..Guards::default() },
    }
}

fn level_policy(tokens: i64, step: Step) -> LevelPolicy {
    LevelPolicy {
        threshold: Threshold { limit: Limit::Tokens { tokens }, inclusive: false, minimum_tokens: 0 },
        notice: Notice::None,
        steps: vec![step],
        stop_when_enough: false,
    }
}

fn summary() -> Summary {
    let section =
        |heading: &str, topic| Section { heading: heading.to_owned(), holds: Some(topic), bullet: Bullet::Dash };
    Summary {
        format: SummaryFormat::Headings,
        sections: vec![
            section("## Task", Topic::Goal),
            section("## Result", Topic::Done),
            section("## Files", Topic::Files),
        ],
        filler: "(none)".to_owned(),
        max_tokens: 4_096,
        file_tags: false,
        file_tools: FileTools::Any,
        split_turn_heading: None,
        carry_previous: true,
        verify: false,
        transcript: Transcript {
            form: TranscriptForm::Paired,
            output_units: 1_500,
            output_marker: String::new(),
            reasoning: false,
            media_note: "[{mime} {name}]".to_owned(),
        },
        attachments: None,
        prompt: PromptStyle::default(),
        facts_tokens: 0,
        contradictions: Contradictions::Report,
    }
}
