//! Gemini CLI: a state snapshot in place of the older part of a conversation, which the model acknowledges.
//!
//! The boundary is a share of the JSON characters. Later versions added a budget for tool outputs, the masking of
//! outputs between summaries, and a second request in which the model verifies its own summary. `gemini-cli@0.26` has
//! the features introduced with 0.26 in their current form (0.61).

pub(in crate::policy) mod excerpt;
pub(in crate::policy) mod output_budget;
pub mod parameters;

use self::parameters::OutputBudget;
use crate::policy::presets::preset::Preset;
use crate::policy::{
    Bullet, CountPer, Counting, Guards, LevelPolicy, Limit, MediaUnits, Notice, Omission, Policy, PromptStyle, Prune,
    Rounding, Section, Step, Summarize, Summary, SummaryFormat, Tail, TextUnits, Threshold, Topic, Transcript,
    UsageCount, ViewStyle,
};
use crate::policy::{FailedOutputs, Keep, Replacement, Tools};
use crate::policy::{Fraction, FractionBoundary};

/// Deviation of both versions.
const UNREAD: &str = "The last request, results that no reply has read, open messages and running calls are never \
                      summarized and do not count for the split; Gemini CLI decides before they are in its history.";
const ALONE: &str = "A summary is never made of the summary before it alone; Gemini CLI makes one when that has the \
                     share by itself.";
const FAILED: &str = "A reply that failed answers nothing, so what it should have answered stays.";
const ENVIRONMENT: &str = "The first message with the environment is not written by Longhand, and is not counted.";

/// `gemini-cli@2025-08`.
pub const AUGUST_2025: Preset = Preset {
    name: "gemini-cli@2025-08",
    description: "Gemini CLI of July and August 2025: summarizes the older 70 % of the characters as a state snapshot.",
    own_deviations: AUGUST_DEVIATIONS,
    sources: AUGUST_SOURCES,
    policy: august_2025,
};

/// `qwen-code@2025-08`: Qwen Code's copy of it.
pub const QWEN_AUGUST_2025: Preset = Preset {
    name: "qwen-code@2025-08",
    description: "Qwen Code of August 2025, which was Gemini CLI's: the older 70 % become a state snapshot.",
    own_deviations: AUGUST_DEVIATIONS,
    sources: AUGUST_SOURCES,
    policy: qwen_august_2025,
};

/// `gemini-cli@0.26`.
pub const V0_26: Preset = Preset {
    name: "gemini-cli@0.26",
    description: "Gemini CLI: masks old tool outputs, has a budget for the others, summarizes with a second look.",
    own_deviations: &[
        UNREAD,
        ALONE,
        FAILED,
        ENVIRONMENT,
        "A summary that frees nothing is refused; Gemini CLI accepts one that has as many tokens as what it replaces.",
        "What was written since the last reply counts too, by its estimate, and at once; Gemini CLI goes by the prompt of \
         the last reply alone, and looks when the next request is sent.",
        "A call that nobody has answered has a result that says so; Gemini CLI sends none.",
        "What is masked or truncated is named by the id of its part; Gemini CLI names a file that it has written.",
        "A masked output shows an excerpt of its words, and a truncated failure an excerpt of its words too; Gemini \
         CLI truncates the JSON around them.",
        "A truncation never splits a character.",
        "An output that no budget has room for is truncated to 40000 characters however full the window is; Gemini \
         CLI's limit shrinks to nothing, and turns around, when the window is full.",
        "The estimate of an image or a document is the same wherever its bytes are; Gemini CLI asks a server when \
         there are any.",
    ],
    sources: &[
        ("preset", "this preset's name"),
        ("counting", "Gemini CLI: estimateTokenCountSync"),
        ("counting.media.other_units", "Longhand: Gemini CLI measures the text of the data"),
        ("counting.usage", "Gemini CLI: lastPromptTokenCount"),
        ("trigger.auto", "Gemini CLI: compresses by itself"),
        ("truncate", "Gemini CLI truncates outputs in its tools"),
        ("maintenance", "Gemini CLI: ToolOutputMaskingService"),
        ("auto", "Gemini CLI: ChatCompressionService"),
        ("auto.threshold", "Gemini CLI: DEFAULT_COMPRESSION_TOKEN_THRESHOLD"),
        ("auto.notice", "Gemini CLI: ChatCompressed, in Longhand's words"),
        ("auto.steps.0.omit", "Gemini CLI: COMPRESSION_FUNCTION_RESPONSE_TOKEN_BUDGET, formatTruncatedToolOutput"),
        ("auto.steps.1.summarize.tail", "Gemini CLI: COMPRESSION_PRESERVE_THRESHOLD, findCompressSplitPoint"),
        ("auto.steps.1.summarize.summary", "Gemini CLI: the compression prompt"),
        ("auto.steps.1.summarize.summary.max_tokens", "Longhand: Gemini CLI sets no limit"),
        ("auto.steps.1.summarize.summary.verify", "Gemini CLI: the probe"),
        (
            "auto.steps.1.summarize.summary.prompt",
            "Gemini CLI: it reasons in a scratchpad first; the tags are Longhand's",
        ),
        ("auto.steps.1.summarize.fallback", "Gemini CLI: CONTENT_TRUNCATED"),
        ("view", "Gemini CLI: the new history"),
        ("view.resume_text", "Longhand: Gemini CLI's tail always begins with a request"),
        ("view.interrupted_text", "Longhand's words"),
        ("guards", "Gemini CLI: hasFailedCompressionAttempt"),
        ("guards.max_attempts", "Longhand: Gemini CLI leaves it to its client"),
    ],
    policy: v0_26,
};

const AUGUST_DEVIATIONS: &[&str] = &[
    UNREAD,
    ALONE,
    FAILED,
    ENVIRONMENT,
    "Tokens are estimated as the later versions do where no usage is reported; the agent asked a server.",
    "A summary that is empty or frees nothing is refused; the agent accepted both.",
    "A compaction that fails leaves everything as it was; the agent kept the older part alone.",
];

const AUGUST_SOURCES: &[(&str, &str)] = &[
    ("preset", "this preset's name"),
    ("counting", "Longhand: estimateTokenCountSync of later versions; this one asked a server"),
    ("counting.usage", "Gemini CLI: countTokens of the whole history"),
    ("trigger.auto", "Gemini CLI: compresses by itself"),
    ("auto", "Gemini CLI: tryCompressChat"),
    ("auto.threshold", "Gemini CLI: COMPRESSION_TOKEN_THRESHOLD"),
    ("auto.notice", "Gemini CLI: ChatCompressed, in Longhand's words"),
    ("auto.steps.0.summarize.tail", "Gemini CLI: COMPRESSION_PRESERVE_THRESHOLD, findIndexAfterFraction"),
    ("auto.steps.0.summarize.summary", "Gemini CLI: the compression prompt"),
    ("auto.steps.0.summarize.summary.max_tokens", "Longhand: Gemini CLI sets no limit"),
    ("auto.steps.0.summarize.summary.prompt", "Gemini CLI: it reasons in a scratchpad first; the tags are Longhand's"),
    ("auto.steps.0.summarize.fallback", "Longhand: the built-in summarizer"),
    ("view", "Gemini CLI: the new history"),
    ("view.resume_text", "Longhand: Gemini CLI's tail always begins with a request"),
    ("view.interrupted_text", "Longhand's words"),
    ("guards", "Longhand: Gemini CLI had no guard"),
];

/// The policy of `gemini-cli@2025-08`.
pub fn august_2025() -> Policy {
    Policy {
        preset: AUGUST_2025.name.to_owned(),
        counting: Counting { usage: UsageCount::Total, ..counting() },
        auto: Some(LevelPolicy {
            notice: notice(),
            ..LevelPolicy::new(
                Threshold::at(Limit::Ratio(0.7)),
                vec![Step::Summarize(Box::new(Summarize {
                    tail: fraction(FractionBoundary::Reached, 0.0),
                    summary: snapshot(sections_of_2025()),
                    ..Summarize::default()
                }))],
            )
        }),
        view: view(),
        ..Policy::default()
    }
}

/// The policy of `qwen-code@2025-08`.
pub fn qwen_august_2025() -> Policy {
    Policy { preset: QWEN_AUGUST_2025.name.to_owned(), ..august_2025() }
}

/// The policy of `gemini-cli@0.26`.
pub fn v0_26() -> Policy {
    Policy {
        preset: V0_26.name.to_owned(),
        counting: counting(),
        maintenance: vec![Step::Prune(masking())],
        auto: Some(LevelPolicy {
            notice: notice(),
            ..LevelPolicy::new(
                Threshold::at(Limit::Ratio(0.5)),
                vec![
                    Step::Omit(output_budget()),
                    Step::Summarize(Box::new(Summarize {
                        tail: fraction(FractionBoundary::Request, 0.0),
                        summary: Summary { verify: true, ..snapshot(sections_of_today()) },
                        fallback: vec![output_budget()],
                        ..Summarize::default()
                    })),
                ],
            )
        }),
        // A failure opens the breaker until a summary succeeds; 1 000 turns are practically no limit.
        guards: Guards { breaker_failures: 1, breaker_turns: 1_000, ..Guards::default() },
        ..august_2025()
    }
}

fn counting() -> Counting {
    Counting {
        text: TextUnits::Mixed { other_units: 6, plain_above: 100_000 },
        rounding: Rounding::Floor,
        per: CountPer::Contents,
        media: MediaUnits { document_units: 103_200, ..MediaUnits::all(12_000) },
        usage: UsageCount::Prompt,
        ..Counting::default()
    }
}

fn notice() -> Notice {
    Notice::Inform { text: "The conversation filled {percent} % of the window and was compressed.".to_owned() }
}

/// The tail beside a summary of the older 70 % of the characters.
pub(super) fn fraction(boundary: FractionBoundary, minimum_ratio: f64) -> Tail {
    Tail::Fraction(Fraction { summarize_ratio: 0.7, boundary, minimum_ratio })
}

/// A summary in elements under `state_snapshot`.
pub(super) fn snapshot(sections: Vec<Section>) -> Summary {
    Summary {
        format: SummaryFormat::Elements { root: "state_snapshot".to_owned() },
        sections,
        max_tokens: 8_192,
        transcript: Transcript { media_note: "[attached: {mime}]".to_owned(), ..Transcript::default() },
        prompt: PromptStyle { thoughts_tag: Some("scratchpad".to_owned()), ..PromptStyle::default() },
        ..Summary::default()
    }
}

pub(super) fn sections_of_2025() -> Vec<Section> {
    vec![
        Section::new("overall_goal", Topic::Goal),
        Section::new("key_knowledge", Topic::Context),
        Section::new("file_system_state", Topic::Files),
        Section::new("recent_actions", Topic::Done),
        Section::new("current_plan", Topic::NextSteps).with(Bullet::Number),
    ]
}

fn sections_of_today() -> Vec<Section> {
    vec![
        Section::new("overall_goal", Topic::Goal),
        Section::new("active_constraints", Topic::Constraints),
        Section::new("key_knowledge", Topic::Context),
        Section::new("artifact_trail", Topic::Decisions),
        Section::new("file_system_state", Topic::Files),
        Section::new("recent_actions", Topic::Done),
        Section::new("task_state", Topic::NextSteps).with(Bullet::Number),
    ]
}

pub(super) fn view() -> ViewStyle {
    ViewStyle {
        acknowledgement: Some("Got it. Thanks for the additional context!".to_owned()),
        resume_text: Some("Go on from where the context above ends.".to_owned()),
        ..ViewStyle::default()
    }
}

fn output_budget() -> Omission {
    Omission::OutputBudget(OutputBudget {
        budget_tokens: 50_000,
        max_units: 40_000,
        head_ratio: 0.2,
        before: "Output too large. Showing first {head} and last {tail} characters. For full output see: {part}\n"
            .to_owned(),
        marker: "\n\n... [{omitted} characters omitted] ...\n\n".to_owned(),
    })
}

fn masking() -> Prune {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    Prune {
        keep: Keep { messages: 1, tokens: 50_000, ..Keep::default() },
        minimum_tokens: 30_000,
        tools: Tools::Except(names(&["activate_skill", "ask_user", "enter_plan_mode", "exit_plan_mode"])),
        failed_outputs: FailedOutputs::Prune,
        replacement: Replacement::Excerpt,
        ..Prune::outputs("")
    }
}
