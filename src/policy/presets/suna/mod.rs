//! Suna: a rolling summary in its first months, rules by role since.
//!
//! The rules are applied before every request, according to the agent's own count: reported usage decides nothing. Here
//! their results are recorded as marks, so that the next request starts from the result of the last one. The version of
//! 2025 started from the originals each time; that of 2026 stores its compressed messages too.

pub(in crate::policy) mod chat;
pub(in crate::policy) mod groups;
pub(in crate::policy) mod middle_out;
pub mod parameters;
pub(in crate::policy) mod per_role;
pub(in crate::policy) mod strip;
mod texts;

use self::parameters::{BothEnds, ChatFormat, Groups, MiddleOut, Pass, PerRole, ResultSigns, Speaker, Strip, Tier};
use crate::policy::bpe::Encoding;
use crate::policy::parameters::{ModelLimit, WindowStep};
use crate::policy::presets::preset::Preset;
use crate::policy::{
    Bullet, Contradictions, CountPer, Counting, FileTools, Guards, LengthUnit, LevelPolicy, Limit, MediaUnits, Notice,
    Omission, Policy, PromptStyle, Rounding, Section, Step, Summarize, Summary, SummaryFormat, SummaryRole, Tail,
    TextUnits, Threshold, Topic, Transcript, TranscriptForm, Trigger, UsageCount, ViewStyle,
};

/// `suna@2025-04`.
pub const V2025_04: Preset = Preset {
    name: "suna@2025-04",
    description: "Suna until June 2025: a rolling summary of everything since the last one, at 120000 tokens.",
    own_deviations: &[
        "It is on; the agent had it switched off from 18 April 2025 on, and in its API from the beginning.",
        "The last request, results that no reply has read, open messages and running calls are never summarized.",
        "The live summary counts towards the threshold; the agent counts what came after it.",
        "When a model makes no summary, the built-in summarizer does; the agent goes on without one.",
        "A compaction that frees nothing ends in a breaker; the agent has none.",
        "How a model is asked, such as at a temperature of 0, is its configuration's business; the agent sets that itself.",
    ],
    sources: &[
        ("preset", "this preset's name"),
        ("render_version", "Longhand's renderer"),
        ("counting", "Suna: litellm's token_counter for gpt-4"),
        ("counting.unit", "Suna: Python string length"),
        ("counting.usage", "Suna counts its messages itself"),
        ("trigger.auto", "Suna: check_and_summarize_if_needed, where it is called"),
        ("trigger.cooldown_seconds", "Suna has none"),
        ("truncate", "Suna truncates nothing here"),
        ("maintenance", "Suna clears nothing here"),
        ("micro", "Suna has one level"),
        ("auto.threshold", "Suna: DEFAULT_TOKEN_THRESHOLD, reached or exceeded"),
        ("auto.notice", "Suna shows none"),
        ("auto.steps.0.summarize.tail", "Suna: check_and_summarize_if_needed"),
        ("auto.steps.0.summarize.summary", "Suna: create_summary"),
        ("auto.steps.0.summarize.summary.max_tokens", "Suna: SUMMARY_TARGET_TOKENS"),
        ("auto.steps.0.summarize.summary.carry_previous", "Suna: get_messages_for_summarization leaves it out"),
        ("auto.steps.0.summarize.retained_first", "Suna retains nothing"),
        ("auto.steps.0.summarize.fallback", "Longhand: the built-in summarizer"),
        ("auto.stop_when_enough", "Suna has one step"),
        ("deep", "Suna has one level"),
        ("retrieval", "Suna has none"),
        ("view", "Suna: the wrapper of a summary"),
        ("view.interrupted_text", "Longhand's wording"),
        ("guards", "Longhand: Suna has no guard"),
    ],
    policy: v2025_04,
};

/// `suna@2025-07`.
pub const V2025_07: Preset = Preset {
    name: "suna@2025-07",
    description: "Suna in July 2025: messages truncated by role, with half the measure each time, then left out.",
    own_deviations: &[
        "A call and its results stay together or go together, and count as one message where messages are left out.",
        "Open messages are not truncated; they, running calls and what nobody has answered are never left out.",
        "A message in several parts is truncated like one text, and keeps its media; the agent would send nothing of \
         it.",
        "A compaction begins with what the last one left; the agent begins with the originals at every request.",
        "A result that loses its arguments keeps its JSON as it was written; the agent writes all of it anew.",
        "A result of edit_file is truncated as any other; a variant of late July truncates the two file contents in \
         its JSON first.",
        "Leaving out goes on until the rest fits or nothing may go; the agent ends after 500 batches.",
        "Every model's tokens are counted with cl100k_base, and an id as 23; litellm asks some models' own tokenizers.",
    ],
    sources: &[
        ("preset", "this preset's name"),
        ("render_version", "Longhand's renderer"),
        ("counting", "Suna: litellm's token_counter"),
        ("counting.unit", "Suna: Python string length"),
        ("counting.per", "Suna: litellm's token_counter, and 23 tokens for the id of a message"),
        ("counting.usage", "Suna counts its messages itself"),
        ("trigger.auto", "Suna: compress_messages runs before every request"),
        ("trigger.cooldown_seconds", "Suna has none"),
        ("truncate", "Suna truncates nothing in every view"),
        ("maintenance.0.omit.strip", "Suna: remove_meta_messages"),
        ("maintenance.1.omit.middle_out", "Suna: middle_out_messages"),
        ("micro", "Suna has one level"),
        ("auto.threshold", "Suna: compress_messages, by the name of the model"),
        ("auto.notice", "Suna shows none"),
        ("auto.steps.0.omit.strip", "Suna: remove_meta_messages"),
        ("auto.steps.1.omit.per_role", "Suna: compress_messages and its three passes"),
        ("auto.steps.1.omit.per_role.results", "Suna: is_tool_result_message"),
        ("auto.steps.2.omit.groups", "Suna: compress_messages_by_omitting_messages"),
        ("auto.steps.3.omit.middle_out", "Suna: middle_out_messages"),
        ("auto.stop_when_enough", "Suna: every step looks itself"),
        ("deep", "Suna has one level"),
        ("retrieval", "Suna has none"),
        ("view", "Longhand: Suna makes no summaries here"),
        ("guards", "Longhand: Suna has no guard"),
    ],
    policy: v2025_07,
};

/// `suna@2026`.
pub const V2026: Preset = Preset {
    name: "suna@2026",
    description: "Suna in 2026: outputs, requests and replies compressed in tiers to 60 %, then left out in groups.",
    own_deviations: &[
        "Open messages are not truncated; they, running calls and what nobody has answered are never left out.",
        "A message in several parts is truncated like one text, and keeps its media unless a note replaces it.",
        "A reply that only makes calls gets no note in place of its words.",
        "A result that loses its arguments keeps its JSON as it was written; the agent writes all of it anew.",
        "Every model's tokens are counted with cl100k_base, and an id as 23; the agent asks some providers to count.",
        "Leaving out goes on until the rest fits or nothing may go; the agent ends after 500 batches.",
    ],
    sources: &[
        ("preset", "this preset's name"),
        ("render_version", "Longhand's renderer"),
        ("counting", "Suna: litellm's token_counter"),
        ("counting.unit", "Suna: Python string length"),
        ("counting.per", "Suna: litellm's token_counter, and 23 tokens for the id of a message"),
        ("counting.usage", "Suna counts its messages itself"),
        ("trigger.auto", "Suna: compress_messages runs before every request"),
        ("trigger.cooldown_seconds", "Suna has none"),
        ("truncate", "Suna truncates nothing in every view"),
        ("maintenance.0.omit.strip", "Suna: remove_meta_messages"),
        ("maintenance.1.omit.middle_out", "Suna: middle_out_messages"),
        ("micro", "Suna has one level"),
        ("auto.threshold", "Suna: compress_messages, by the size of the window"),
        ("auto.notice", "Suna shows none"),
        ("auto.steps.0.omit.strip", "Suna: remove_meta_messages"),
        ("auto.steps.1.omit.per_role", "Suna: compress_messages, its three tiers and its three passes"),
        ("auto.steps.1.omit.per_role.target_ratio", "Suna: compression_target_ratio"),
        ("auto.steps.1.omit.per_role.results", "Suna: is_tool_result_message, by role"),
        ("auto.steps.2.omit.groups", "Suna: compress_messages_by_omitting_messages"),
        ("auto.steps.3.omit.middle_out", "Suna: middle_out_messages"),
        ("auto.stop_when_enough", "Suna: every step looks itself"),
        ("deep", "Suna has one level"),
        ("retrieval", "Suna has none"),
        ("view", "Longhand: Suna makes no summaries here"),
        ("guards", "Longhand: Suna has no guard"),
    ],
    policy: v2026,
};

/// Tokens that litellm adds for each message.
const MESSAGE_UNITS: u32 = 3;
/// Tokens of the id beside a message: a UUID has 23 tokens of cl100k_base on average.
const ID_UNITS: u32 = 23;
/// Text after the kept beginning of a message.
const EXPAND_NOTE: &str = "... (truncated)\n\nmessage_id \"{id}\"\nUse expand-message tool to see contents";

/// The policy of `suna@2025-04`.
pub fn v2025_04() -> Policy {
    let step = Step::Summarize(Box::new(Summarize {
        tail: Tail::Whole { minimum_messages: 3 },
        summary: summary(),
        retained_first: false,
        minimum_messages: 0,
        fallback: Vec::new(),
    }));
    Policy {
        auto: Some(level_policy(Limit::Tokens { tokens: 120_000 }, true, vec![step])),
        view: ViewStyle {
            summary_prefix: "\n======== CONVERSATION HISTORY SUMMARY ========\n\n".to_owned(),
            summary_suffix:
                "\n\n======== END OF SUMMARY ========\n\nThe above is a summary of the conversation history. \
                             The conversation continues below.\n"
                    .to_owned(),
            ..view()
        },
        ..policy(V2025_04.name, MESSAGE_UNITS)
    }
}

/// The policy of `suna@2025-07`.
pub fn v2025_07() -> Policy {
    let model = |contains: &str, tokens| ModelLimit { contains: contains.to_owned(), tokens };
    let limit = Limit::Models {
        models: vec![
            model("sonnet", 108_000),
            model("gpt", 100_000),
            model("gemini", 700_000),
            model("deepseek", 100_000),
        ],
        otherwise_tokens: 31_000,
    };
    let tier = |of| Tier {
        passes: vec![Pass {
            of,
            newest_messages: 1,
            above_tokens: 4_096,
            keep_units: 3 * 4_096,
            note: EXPAND_NOTE.to_owned(),
            newest_truncation: Some(both_ends()),
        }],
    };
    let per_role = PerRole {
        target_ratio: 1.0,
        tiers: [Speaker::Tools, Speaker::User, Speaker::Assistant].map(tier).into(),
        halvings: 5,
        results: ResultSigns {
            words: vec!["ToolResult".to_owned()],
            fields: vec!["tool_execution".to_owned()],
            json_words: vec!["interactive_elements".to_owned()],
        },
        json_starts_over: true,
    };
    let groups = Groups { target_ratio: 1.0, batch: 10, minimum: 10 };
    let steps = [strip(), Omission::PerRole(per_role), Omission::Groups(groups), middle_out()].map(Step::Omit);
    Policy {
        maintenance: vec![Step::Omit(strip()), Step::Omit(middle_out())],
        auto: Some(level_policy(limit, false, steps.into())),
        ..policy(V2025_07.name, MESSAGE_UNITS + ID_UNITS)
    }
}

/// The policy of `suna@2026`.
pub fn v2026() -> Policy {
    let step = |context_tokens, reserve_tokens| WindowStep { context_tokens, reserve_tokens };
    let limit = Limit::Steps {
        steps: vec![step(1_000_000, 300_000), step(400_000, 64_000), step(200_000, 32_000), step(100_000, 16_000)],
        otherwise_reserve_tokens: 8_000,
    };
    let target_ratio = 0.6;
    let per_role =
        PerRole { target_ratio, tiers: tiers(), halvings: 0, results: ResultSigns::default(), json_starts_over: false };
    let groups = Groups { target_ratio, batch: 3, minimum: 5 };
    let steps = [strip(), Omission::PerRole(per_role), Omission::Groups(groups), middle_out()].map(Step::Omit);
    Policy {
        maintenance: vec![Step::Omit(strip()), Step::Omit(middle_out())],
        auto: Some(level_policy(limit, false, steps.into())),
        ..policy(V2026.name, MESSAGE_UNITS + ID_UNITS)
    }
}

/// The tiers of 2026: old outputs, long old requests and long old replies, and then everything that is not short.
fn tiers() -> Vec<Tier> {
    let note = "[Tool output compressed for token management] message_id: \"{id}\". Use expand-message tool to view \
                full output.";
    let pass = |of, newest_messages, above_tokens, keep_units, note: &str, newest_truncation| Pass {
        of,
        newest_messages,
        above_tokens,
        keep_units,
        note: note.to_owned(),
        newest_truncation,
    };
    let long = |of| pass(of, 10, 0, 3_000, "... (truncated)", None);
    let placeholder = "[Content compressed]\n\nmessage_id \"{id}\"\nUse expand-message tool to see contents";
    let rest = |of| pass(of, 10, 500, 0, placeholder, Some(both_ends()));
    vec![
        Tier { passes: vec![pass(Speaker::Tools, 5, 0, 0, note, None)] },
        Tier { passes: vec![long(Speaker::User)] },
        Tier { passes: vec![long(Speaker::Assistant)] },
        Tier {
            passes: vec![
                pass(Speaker::Tools, 5, 500, 1_500, EXPAND_NOTE, Some(both_ends())),
                rest(Speaker::User),
                rest(Speaker::Assistant),
            ],
        },
    ]
}

/// The truncation of the newest messages.
fn both_ends() -> BothEnds {
    BothEnds {
        units_per_token: 2,
        max_units: 100_000,
        reserve_units: 150,
        middle: "\n\n... (middle truncated) ...\n\n".to_owned(),
        after: "\n\nThis message is too long, repeat relevant information in your response to remember it".to_owned(),
    }
}

fn strip() -> Omission {
    Omission::Strip(Strip { object: "tool_execution".to_owned(), field: "arguments".to_owned() })
}

fn middle_out() -> Omission {
    Omission::MiddleOut(MiddleOut { max_messages: 320, minimum_groups: 4 })
}

fn level_policy(limit: Limit, inclusive: bool, steps: Vec<Step>) -> LevelPolicy {
    LevelPolicy {
        threshold: Threshold { limit, inclusive, minimum_tokens: 0 },
        notice: Notice::None,
        steps,
        stop_when_enough: false,
    }
}

/// The common values of all versions.
fn policy(name: &str, message_units: u32) -> Policy {
    Policy {
        preset: name.to_owned(),
        render_version: 1,
        counting: Counting {
            unit: LengthUnit::CodePoints,
            text: TextUnits::Bpe { encoding: Encoding::Cl100kBase },
            units_per_token: 1,
            rounding: Rounding::Ceil,
            per: CountPer::Chat(ChatFormat { message_units, list_units: 3 }),
            media: MediaUnits::all(85),
            usage: UsageCount::Nothing,
        },
        trigger: Trigger { auto: true, ..Trigger::default() },
        truncate: None,
        maintenance: Vec::new(),
        micro: None,
        auto: None,
        deep: None,
        retrieval: None,
        auto_continue: None,
        view: view(),
        guards: Guards { breaker_failures: 3, breaker_turns: 3, attempts_max: 3, ..Guards::default() },
    }
}

fn view() -> ViewStyle {
    ViewStyle {
        marker_text: None,
        summary_role: SummaryRole::User,
        summary_prefix: String::new(),
        summary_suffix: String::new(),
        acknowledgement: None,
        resume_text: None,
        interrupted_text: "[Interrupted: this tool call has no result]".to_owned(),
    }
}

fn summary() -> Summary {
    let section =
        |heading: &str, holds| Section { heading: heading.to_owned(), holds: Some(holds), bullet: Bullet::Dash };
    Summary {
        format: SummaryFormat::Prose,
        sections: vec![
            section("## What was asked", Topic::Goal),
            section("## Tools and their results", Topic::Done),
            section("## Decisions and conclusions", Topic::Decisions),
            section("## Facts", Topic::Context),
            section("## Latest state", Topic::InProgress),
            section("## Next", Topic::NextSteps),
        ],
        filler: String::new(),
        max_tokens: 10_000,
        file_tags: false,
        file_tools: FileTools::Any,
        split_turn_heading: None,
        carry_previous: false,
        verify: false,
        transcript: Transcript {
            form: TranscriptForm::Paired,
            output_units: 0,
            output_marker: String::new(),
            reasoning: false,
            media_note: String::new(),
        },
        attachments: None,
        prompt: PromptStyle::default(),
        facts_tokens: 0,
        contradictions: Contradictions::Report,
    }
}
