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
    CountPer, Counting, LevelPolicy, Limit, MediaUnits, Omission, Policy, Section, Step, Summarize, Summary, Threshold,
    Topic, Transcript, Truncate, ViewStyle,
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
        ("counting.unit", "JoyAgent: Java string length"),
        ("counting.text", "JoyAgent: countText of its TokenCounter"),
        ("counting.units_per_token", "JoyAgent: every unit counts one"),
        ("counting.rounding", "JoyAgent: lengths are whole"),
        ("counting.per", "JoyAgent: countMessageTokens of its TokenCounter"),
        ("counting.media", "JoyAgent: an image of unknown size"),
        ("counting.usage", "Longhand: JoyAgent does not look at reported usage"),
        ("trigger.auto", "Longhand: JoyAgent never calls its omission of messages"),
        ("truncate", "JoyAgent: a plain substring"),
        ("truncate.max_units", "JoyAgent: max_observe"),
        ("auto.threshold", "JoyAgent: max_input_tokens"),
        ("auto.notice", "JoyAgent says nothing"),
        ("auto.steps", "JoyAgent: truncateMessage"),
        ("deep", "JoyAgent: SummaryAgent, by hand only"),
        ("deep.steps.0.summarize.summary", "Longhand: JoyAgent leaves it to its configuration"),
        ("deep.steps.0.summarize.summary.transcript.output_units", "JoyAgent: message_size_limit of application.yml"),
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
        counting: Counting {
            units_per_token: 1,
            per: CountPer::Envelope(Envelope { detail: Detail::Medium }),
            media: MediaUnits::all(1_024),
            ..Counting::default()
        },
        truncate: Some(Truncate::head(10_000, "")),
        auto: Some(level_policy(100_000, Step::Omit(Omission::Suffix))),
        deep: Some(level_policy(
            BY_HAND_TOKENS,
            Step::Summarize(Box::new(Summarize { summary: summary(), ..Summarize::default() })),
        )),
        view: ViewStyle {
            interrupted_text: "[No result: this call was interrupted]".to_owned(),
            ..ViewStyle::default()
        },
        ..Policy::default()
    }
}

fn level_policy(tokens: i64, step: Step) -> LevelPolicy {
    LevelPolicy::new(Threshold::above(Limit::Tokens(tokens)), vec![step])
}

fn summary() -> Summary {
    Summary {
        sections: vec![
            Section::new("## Task", Topic::Goal),
            Section::new("## Result", Topic::Done),
            Section::new("## Files", Topic::Files),
        ],
        transcript: Transcript {
            output_units: 1_500,
            media_note: "[{mime} {name}]".to_owned(),
            ..Transcript::default()
        },
        ..Summary::default()
    }
}
