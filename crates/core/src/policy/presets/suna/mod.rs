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

use self::parameters::{
    Author, ChatFormat, Groups, MiddleOut, ModelLimit, Pass, PerRole, ResultSigns, Strip, Tier, WindowStep,
};
use crate::policy::bpe::Encoding;
use crate::policy::presets::preset::Preset;
use crate::policy::{
    CountPer, Counting, LengthUnit, LevelPolicy, Limit, MediaUnits, Omission, Policy, Section, Step, Summarize,
    Summary, SummaryFormat, Tail, TextUnits, Threshold, Topic, Transcript, UsageCount, ViewStyle,
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
        ("counting", "Suna: litellm's token_counter for gpt-4"),
        ("counting.unit", "Suna: Python string length"),
        ("counting.usage", "Suna counts its messages itself"),
        ("trigger.auto", "Suna: check_and_summarize_if_needed, where it is called"),
        ("auto.threshold", "Suna: DEFAULT_TOKEN_THRESHOLD, reached or exceeded"),
        ("auto.steps.0.summarize.tail", "Suna: check_and_summarize_if_needed"),
        ("auto.steps.0.summarize.summary", "Suna: create_summary"),
        ("auto.steps.0.summarize.summary.max_tokens", "Suna: SUMMARY_TARGET_TOKENS"),
        ("auto.steps.0.summarize.summary.carry_previous", "Suna: get_messages_for_summarization leaves it out"),
        ("auto.steps.0.summarize.fallback", "Longhand: the built-in summarizer"),
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
        ("counting", "Suna: litellm's token_counter"),
        ("counting.unit", "Suna: Python string length"),
        ("counting.per", "Suna: litellm's token_counter, and 23 tokens for the id of a message"),
        ("counting.usage", "Suna counts its messages itself"),
        ("trigger.auto", "Suna: compress_messages runs before every request"),
        ("truncate", "Suna truncates nothing in every view"),
        ("maintenance.0.omit.strip", "Suna: remove_meta_messages"),
        ("maintenance.1.omit.middle_out", "Suna: middle_out_messages"),
        ("auto.threshold", "Suna: compress_messages, by the name of the model"),
        ("auto.steps.0.omit.strip", "Suna: remove_meta_messages"),
        ("auto.steps.1.omit.per_role", "Suna: compress_messages and its three passes"),
        ("auto.steps.1.omit.per_role.results", "Suna: is_tool_result_message"),
        ("auto.steps.2.omit.groups", "Suna: compress_messages_by_omitting_messages"),
        ("auto.steps.3.omit.middle_out", "Suna: middle_out_messages"),
        ("auto.stop_when_enough", "Suna: every step looks itself"),
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
        ("counting", "Suna: litellm's token_counter"),
        ("counting.unit", "Suna: Python string length"),
        ("counting.per", "Suna: litellm's token_counter, and 23 tokens for the id of a message"),
        ("counting.usage", "Suna counts its messages itself"),
        ("trigger.auto", "Suna: compress_messages runs before every request"),
        ("truncate", "Suna truncates nothing in every view"),
        ("maintenance.0.omit.strip", "Suna: remove_meta_messages"),
        ("maintenance.1.omit.middle_out", "Suna: middle_out_messages"),
        ("auto.threshold", "Suna: compress_messages, by the size of the window"),
        ("auto.steps.0.omit.strip", "Suna: remove_meta_messages"),
        ("auto.steps.1.omit.per_role", "Suna: compress_messages, its three tiers and its three passes"),
        ("auto.steps.1.omit.per_role.target_ratio", "Suna: compression_target_ratio"),
        ("auto.steps.1.omit.per_role.results", "Suna: is_tool_result_message, by role"),
        ("auto.steps.2.omit.groups", "Suna: compress_messages_by_omitting_messages"),
        ("auto.steps.3.omit.middle_out", "Suna: middle_out_messages"),
        ("auto.stop_when_enough", "Suna: every step looks itself"),
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
        ..Summarize::default()
    }));
    Policy {
        auto: Some(level_policy(Limit::Tokens(120_000), true, vec![step])),
        view: ViewStyle {
            summary_prefix: "\n======== CONVERSATION HISTORY SUMMARY ========\n\n".to_owned(),
            summary_suffix:
                "\n\n======== END OF SUMMARY ========\n\nThe above is a summary of the conversation history. \
                             The conversation continues below.\n"
                    .to_owned(),
            ..ViewStyle::default()
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
    let tier = |author| Tier {
        passes: vec![Pass {
            author,
            newest_messages: 1,
            above_tokens: 4_096,
            keep_units: 3 * 4_096,
            note: EXPAND_NOTE.to_owned(),
            truncates_newest: true,
        }],
    };
    let per_role = PerRole {
        target_ratio: 1.0,
        tiers: [Author::Tools, Author::User, Author::Assistant].map(tier).into(),
        halvings: 5,
        results: ResultSigns {
            texts: vec!["ToolResult".to_owned()],
            fields: vec!["tool_execution".to_owned()],
            json_texts: vec!["interactive_elements".to_owned()],
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
    let pass = |author, newest_messages, above_tokens, keep_units, note: &str, truncates_newest| Pass {
        author,
        newest_messages,
        above_tokens,
        keep_units,
        note: note.to_owned(),
        truncates_newest,
    };
    let long = |author| pass(author, 10, 0, 3_000, "... (truncated)", false);
    let placeholder = "[Content compressed]\n\nmessage_id \"{id}\"\nUse expand-message tool to see contents";
    let rest = |author| pass(author, 10, 500, 0, placeholder, true);
    vec![
        Tier { passes: vec![pass(Author::Tools, 5, 0, 0, note, false)] },
        Tier { passes: vec![long(Author::User)] },
        Tier { passes: vec![long(Author::Assistant)] },
        Tier {
            passes: vec![
                pass(Author::Tools, 5, 500, 1_500, EXPAND_NOTE, true),
                rest(Author::User),
                rest(Author::Assistant),
            ],
        },
    ]
}

fn strip() -> Omission {
    Omission::Strip(Strip { object: "tool_execution".to_owned(), field: "arguments".to_owned() })
}

fn middle_out() -> Omission {
    Omission::MiddleOut(MiddleOut { max_messages: 320, minimum_groups: 4 })
}

fn level_policy(limit: Limit, inclusive: bool, steps: Vec<Step>) -> LevelPolicy {
    LevelPolicy::new(Threshold { inclusive, ..Threshold::above(limit) }, steps)
}

/// The common values of all versions.
fn policy(name: &str, message_units: u32) -> Policy {
    Policy {
        preset: name.to_owned(),
        counting: Counting {
            unit: LengthUnit::CodePoints,
            text: TextUnits::Bpe { encoding: Encoding::Cl100kBase },
            units_per_token: 1,
            per: CountPer::Chat(ChatFormat { message_units }),
            media: MediaUnits::all(85),
            usage: UsageCount::Nothing,
            ..Counting::default()
        },
        ..Policy::default()
    }
}

fn summary() -> Summary {
    Summary {
        format: SummaryFormat::Prose,
        sections: vec![
            Section::new("## What was asked", Topic::Goal),
            Section::new("## Tools and their results", Topic::Done),
            Section::new("## Decisions and conclusions", Topic::Decisions),
            Section::new("## Facts", Topic::Context),
            Section::new("## Latest state", Topic::InProgress),
            Section::new("## Next", Topic::NextSteps),
        ],
        filler: String::new(),
        max_tokens: 10_000,
        carry_previous: false,
        transcript: Transcript { media_note: String::new(), ..Transcript::default() },
        ..Summary::default()
    }
}
