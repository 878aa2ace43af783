//! smolagents.
//!
//! It has no compaction and counts no tokens: the only automatic action is the truncation of outputs in the middle. It
//! has a summary mode, which writes out the steps so far for a new plan.

use super::preset::Preset;
use crate::policy::{
    Bullet, Contradictions, CountPer, Counting, FileTools, Guards, LengthUnit, LevelPolicy, Limit, MediaUnits, Notice,
    Policy, PromptStyle, Rounding, Section, Step, Summarize, Summary, SummaryFormat, SummaryRole, Tail, TextUnits,
    Threshold, Topic, Transcript, TranscriptForm, Trigger, Truncate, UsageCount, ViewStyle,
};

/// `smolagents`: 1.26.
pub const PRESET: Preset = Preset {
    name: "smolagents",
    description: "smolagents: truncates outputs over 20000 characters in the middle, and compacts nothing by itself.",
    own_deviations: &[
        "A summary can be asked for by hand; smolagents writes its steps out in the same way, for a new plan only.",
        "The last request, results that no reply has read, open messages and running calls are never summarized.",
        "A limit of 0 means no limit; smolagents puts its marker in front of the whole text.",
        "Only outputs of tools are truncated; smolagents also truncates what a managed agent reports, which is an \
         output here.",
    ],
    sources: &[
        ("preset", "this preset's name"),
        ("render_version", "Longhand's renderer"),
        ("counting", "Longhand: smolagents counts nothing"),
        ("counting.unit", "smolagents: Python string length"),
        ("trigger", "smolagents compacts nothing by itself"),
        ("truncate", "smolagents: truncate_content"),
        ("truncate.max_units", "smolagents: MAX_LENGTH_TRUNCATE_CONTENT"),
        ("maintenance", "smolagents clears nothing"),
        ("micro", "smolagents has no levels"),
        ("auto", "Longhand: what a summary by hand does"),
        ("auto.steps.0.summarize.summary.transcript", "smolagents: to_messages in summary mode"),
        ("deep", "smolagents has no levels"),
        ("retrieval", "smolagents has none"),
        ("view", "Longhand: smolagents makes no summaries"),
        ("guards", "Longhand: smolagents has no guard"),
    ],
    policy,
};

/// The policy of `smolagents`.
pub fn policy() -> Policy {
    Policy {
        preset: PRESET.name.to_owned(),
        render_version: 1,
        counting: Counting {
            unit: LengthUnit::CodePoints,
            text: TextUnits::Length,
            units_per_token: 4,
            rounding: Rounding::Ceil,
            per: CountPer::Message,
            media: MediaUnits::all(4_800),
            usage: UsageCount::Total,
        },
        trigger: Trigger::default(),
        truncate: Some(Truncate {
            max_units: 20_000,
            max_lines: 0,
            max_bytes: 0,
            head_share: 0.5,
            marker: "\n..._This content has been truncated to stay below {max} characters_...\n".to_owned(),
        }),
        maintenance: Vec::new(),
        micro: None,
        auto: Some(LevelPolicy {
            threshold: Threshold { limit: Limit::Ratio { ratio: 1.0 }, inclusive: false, minimum_tokens: 0 },
            notice: Notice::None,
            steps: vec![Step::Summarize(Box::new(Summarize {
                tail: Tail::Nothing {},
                summary: summary(),
                retained_first: false,
                minimum_messages: 0,
                fallback: Vec::new(),
            }))],
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
            interrupted_text: "[No observation: this call was interrupted]".to_owned(),
        },
        guards: Guards { breaker_failures: 3, breaker_turns: 3, attempts_max: 3, ..Guards::default() },
    }
}

fn summary() -> Summary {
    let section =
        |heading: &str, topic| Section { heading: heading.to_owned(), holds: Some(topic), bullet: Bullet::Dash };
    Summary {
        format: SummaryFormat::Headings,
        sections: vec![
            section("## Task", Topic::Goal),
            section("## Facts", Topic::Context),
            section("## Done", Topic::Done),
            section("## Plan", Topic::NextSteps),
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
            output_units: 0,
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
