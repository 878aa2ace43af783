//! smolagents.
//!
//! It has no compaction and counts no tokens: the only automatic action is the truncation of outputs in the middle. It
//! has a summary mode, which writes out the steps so far for a new plan.

use super::preset::Preset;
use crate::policy::{
    Counting, LengthUnit, LevelPolicy, Limit, Policy, Section, Step, Summarize, Summary, Threshold, Topic, Transcript,
    Trigger, Truncate, ViewStyle,
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
        ("counting", "Longhand: smolagents counts nothing"),
        ("counting.unit", "smolagents: Python string length"),
        ("trigger", "smolagents compacts nothing by itself"),
        ("truncate", "smolagents: truncate_content"),
        ("truncate.max_units", "smolagents: MAX_LENGTH_TRUNCATE_CONTENT"),
        ("auto", "Longhand: what a summary by hand does"),
        ("auto.steps.0.summarize.summary.transcript", "smolagents: to_messages in summary mode"),
        ("view", "Longhand: smolagents makes no summaries"),
        ("guards", "Longhand: smolagents has no guard"),
    ],
    policy,
};

/// The policy of `smolagents`.
pub fn policy() -> Policy {
    Policy {
        preset: PRESET.name.to_owned(),
        counting: Counting { unit: LengthUnit::CodePoints, ..Counting::default() },
        trigger: Trigger { auto: false, ..Trigger::default() },
        truncate: Some(Truncate {
            max_units: 20_000,
            head_ratio: 0.5,
            marker: "\n..._This content has been truncated to stay below {max} characters_...\n".to_owned(),
            ..Truncate::default()
        }),
        auto: Some(LevelPolicy::new(
            Threshold::above(Limit::Ratio(1.0)),
            vec![Step::Summarize(Box::new(Summarize { summary: summary(), ..Summarize::default() }))],
        )),
        view: ViewStyle {
            interrupted_text: "[No observation: this call was interrupted]".to_owned(),
            ..ViewStyle::default()
        },
        ..Policy::default()
    }
}

fn summary() -> Summary {
    Summary {
        sections: vec![
            Section::new("## Task", Topic::Goal),
            Section::new("## Facts", Topic::Context),
            Section::new("## Done", Topic::Done),
            Section::new("## Plan", Topic::NextSteps),
        ],
        transcript: Transcript { media_note: "[{mime} {name}]".to_owned(), ..Transcript::default() },
        ..Summary::default()
    }
}
