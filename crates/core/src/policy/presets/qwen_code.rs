//! Qwen Code: first Gemini CLI's boundary with the last rounds of tool calls kept, later a summary of everything with
//! the last used files and images, and clearing of old outputs in between.

use super::gemini_cli;
use super::preset::Preset;
use crate::policy::FractionBoundary;
use crate::policy::{
    Attachments, CountPer, Counting, FileText, FileTool, Guards, LevelPolicy, Limit, MediaUnits, Notice, Policy,
    PromptStyle, Prune, Section, Step, Summarize, Summary, Threshold, Topic, UsageCount, ViewStyle,
};
use crate::policy::{Condition, Count, FailedOutputs, Keep, Replacement, Target, Tools};

const UNREAD: &str = "The last request, results that no reply has read, open messages and running calls are never \
                      summarized and do not count for the split; Qwen Code decides before they are in its history.";
const ORPHAN: &str =
    "A call that still waits for its result when somebody asks for a summary stays; Qwen Code drops it.";
const WINDOW: &str = "Where no usage is reported, tokens are estimated as 0.24 does.";

/// `qwen-code@0.15`.
pub const V0_15: Preset = Preset {
    name: "qwen-code@0.15",
    description: "Qwen Code 0.15: a state snapshot of the older 70 %, the last rounds of calls kept; clears when idle.",
    own_deviations: &[
        UNREAD,
        ORPHAN,
        WINDOW,
        "A summary is never made of the summary before it alone; Qwen Code makes one when that has the share by \
         itself.",
        "A summary that frees nothing is refused; Qwen Code accepts one that has as many tokens as what it replaces.",
        "What a summary saves is measured on the view; Qwen Code works it out from what its writing cost, and refuses \
         it without a report of that.",
    ],
    sources: &[
        ("preset", "this preset's name"),
        ("counting", "Longhand: estimateContentTokens of 0.24; this one believed reports alone"),
        ("counting.usage", "Qwen Code: lastPromptTokenCount"),
        ("trigger.auto", "Qwen Code: compresses by itself"),
        ("truncate", "Qwen Code truncates outputs in its tools"),
        ("maintenance", "Qwen Code: microcompactHistory"),
        ("auto", "Qwen Code: ChatCompressionService"),
        ("auto.threshold", "Qwen Code: COMPRESSION_TOKEN_THRESHOLD"),
        ("auto.notice", "Qwen Code: its line about a compression, in Longhand's words"),
        ("auto.steps.0.summarize.tail.fraction.summarize_ratio", "Qwen Code: COMPRESSION_PRESERVE_THRESHOLD"),
        ("auto.steps.0.summarize.tail.fraction.boundary", "Qwen Code: TOOL_ROUND_RETAIN_COUNT, findCompressSplitPoint"),
        ("auto.steps.0.summarize.tail.fraction.minimum_ratio", "Qwen Code: MIN_COMPRESSION_FRACTION"),
        ("auto.steps.0.summarize.summary", "Qwen Code: the compression prompt"),
        ("auto.steps.0.summarize.summary.max_tokens", "Longhand: Qwen Code sets no limit"),
        ("auto.steps.0.summarize.fallback", "Longhand: the built-in summarizer"),
        ("view", "Qwen Code: the new history"),
        ("view.resume_text", "Qwen Code: the bridge to a tail that begins with calls, in Longhand's words"),
        ("view.interrupted_text", "Longhand's words"),
        ("guards", "Qwen Code: hasFailedCompressionAttempt"),
        ("guards.max_attempts", "Longhand: Qwen Code leaves it to its client"),
    ],
    policy: v0_15,
};

/// `qwen-code@0.24`.
pub const V0_24: Preset = Preset {
    name: "qwen-code@0.24",
    description: "Qwen Code 0.24: summarizes everything, carries files and images along, clears when idle or full.",
    own_deviations: &[
        UNREAD,
        ORPHAN,
        "Just above a window of 33000 tokens the limit stays where it was; Qwen Code's falls to nothing there.",
        "A summary that frees nothing is refused; Qwen Code accepts one that has as many tokens as what it replaces.",
        "What a summary saves is measured on the view, without the words around it; Qwen Code works it out from what its \
         writing cost.",
        "Files are carried along as the history last showed them, and named when no call showed them whole; Qwen Code \
         reads them from the disk.",
        "When the hard limit is reached and nothing can be freed, the view says that it does not fit; Qwen Code gives \
         up the request.",
        "Twenty images from tools do not bring a summary about by themselves; their tokens do.",
        "Files and images are carried along from what is summarized; Qwen Code also looks for files in the calls that \
         stay, and takes the images along that it took along before.",
        "Usage from before a clearing says nothing, and the view is estimated until the next reply, without the words \
         around its summary; Qwen Code goes by its last prompt.",
        "The threshold is looked at after every message, with all that was written since the last reply, and so is the \
         pause behind that; Qwen Code looks when the next request is sent, with what it sends, and for a pause only before a \
         prompt of the user.",
    ],
    sources: &[
        ("preset", "this preset's name"),
        ("counting", "Qwen Code: estimateContentTokens"),
        ("counting.usage", "Qwen Code: the last prompt and the last output"),
        ("trigger.auto", "Qwen Code: compresses by itself"),
        ("truncate", "Qwen Code truncates outputs in its tools"),
        ("maintenance", "Qwen Code: microcompactHistory"),
        ("micro.threshold", "Qwen Code: WARN_BUFFER"),
        ("micro.notice", "Qwen Code: its warning, in Longhand's words"),
        ("micro.steps", "Qwen Code: microcompactHistory by size, which waits for its own condition here too"),
        ("micro.stop_when_enough", "Longhand: there is one step"),
        ("auto", "Qwen Code: ChatCompressionService"),
        ("auto.threshold", "Qwen Code: computeThresholds"),
        (
            "auto.threshold.limit.buffered.floor_ratio",
            "Longhand: DEFAULT_PCT of the reserve, against the fall above it",
        ),
        ("auto.notice", "Qwen Code: its line about a compression, in Longhand's words"),
        ("auto.steps.0.summarize.summary", "Qwen Code: the compression prompt"),
        ("auto.steps.0.summarize.summary.max_tokens", "Qwen Code: COMPACT_MAX_OUTPUT_TOKENS"),
        ("auto.steps.0.summarize.summary.prompt.thoughts_tag", "Qwen Code: the analysis block, which it takes off"),
        ("auto.steps.0.summarize.summary.attachments", "Qwen Code: postCompactAttachments"),
        ("auto.steps.0.summarize.minimum_messages", "Qwen Code: a history of one message is left alone"),
        ("auto.steps.0.summarize.fallback", "Longhand: the built-in summarizer"),
        ("deep", "Qwen Code: HARD_BUFFER"),
        ("view", "Qwen Code: composePostCompactHistory"),
        ("view.summary_suffix", "Qwen Code: what follows a summary, in Longhand's words"),
        ("view.resume_text", "Longhand's words; Qwen Code joins a running call to the acknowledgement"),
        ("view.interrupted_text", "Longhand's words"),
        ("guards", "Qwen Code: MAX_CONSECUTIVE_FAILURES"),
        ("guards.max_attempts", "Qwen Code: maxAttempts"),
    ],
    policy: v0_24,
};

/// Tools whose outputs 0.15 clears.
const CLEARED_TOOLS: [&str; 7] =
    ["read_file", "run_shell_command", "grep_search", "glob", "web_fetch", "edit", "write_file"];

/// Further tools whose outputs 0.24 clears.
const CLEARED_TOOLS_SINCE: [&str; 3] = ["web_search", "read_mcp_resource", "skill"];

/// Seconds without a reply before a clear step applies.
const IDLE_SECONDS: u32 = 3_600;

/// Number of the newest parts of a kind that are never cleared.
const KEPT_PARTS: u32 = 5;

/// The policy of `qwen-code@0.15`.
pub fn v0_15() -> Policy {
    Policy {
        preset: V0_15.name.to_owned(),
        counting: Counting { usage: UsageCount::Prompt, ..counting() },
        maintenance: vec![Step::Prune(Prune {
            failed_outputs: FailedOutputs::Count,
            // 0.15 counts only text; later versions count media too.
            minimum_tokens: 1,
            skip_empty: false,
            tools: Tools::Only(names(&CLEARED_TOOLS, &[])),
            ..idle_outputs()
        })],
        auto: Some(LevelPolicy {
            notice: notice(),
            ..LevelPolicy::new(
                Threshold::at(Limit::Ratio(0.7)),
                vec![Step::Summarize(Box::new(Summarize {
                    tail: gemini_cli::fraction(FractionBoundary::Rounds { rounds: 2 }, 0.05),
                    summary: gemini_cli::snapshot(gemini_cli::sections_of_2025()),
                    ..Summarize::default()
                }))],
            )
        }),
        view: gemini_cli::view(),
        guards: Guards { breaker_failures: 1, breaker_turns: 1_000, ..Guards::default() },
        ..Policy::default()
    }
}

/// The policy of `qwen-code@0.24`.
pub fn v0_24() -> Policy {
    let limit = Limit::Buffered { ratio: 0.85, reserve_tokens: 33_000, floor_ratio: 0.85 };
    let beside = |offset_tokens, reserve_tokens| Limit::Relative {
        limit: Box::new(limit.clone()),
        offset_tokens,
        reserve_tokens,
    };
    let (warning, hard) = (beside(-20_000, None), beside(3_000, Some(23_000)));
    let level_policy = |limit, notice, steps| LevelPolicy { notice, ..LevelPolicy::new(Threshold::at(limit), steps) };
    let summarize = || {
        vec![Step::Summarize(Box::new(Summarize { summary: summary(), minimum_messages: 2, ..Summarize::default() }))]
    };
    let nearly_full = Notice::Inform { text: "{percent} % of the window are in use.".to_owned() };
    Policy {
        preset: V0_24.name.to_owned(),
        counting: counting(),
        maintenance: vec![
            Step::Prune(idle_outputs()),
            Step::Prune(idle_media()),
            Step::Prune(idle_attachments()),
            Step::Prune(large_outputs()),
        ],
        micro: Some(level_policy(warning, nearly_full, vec![Step::Prune(large_outputs())])),
        auto: Some(level_policy(limit.clone(), notice(), summarize())),
        deep: Some(level_policy(hard, notice(), summarize())),
        view: ViewStyle {
            summary_suffix:
                "\n\nTake up the work where this summary leaves it. Do not comment on the summary and do not \
                             greet anybody again."
                    .to_owned(),
            ..gemini_cli::view()
        },
        guards: Guards { breaker_turns: 1_000, max_attempts: 1, ..Guards::default() },
        ..v0_15()
    }
}

fn counting() -> Counting {
    Counting { per: CountPer::Characters, media: MediaUnits::all(6_400), ..Counting::default() }
}

fn notice() -> Notice {
    Notice::Inform { text: "The conversation filled {percent} % of the window and was compressed.".to_owned() }
}

fn names(names: &[&str], more: &[&str]) -> Vec<String> {
    names.iter().chain(more).map(|name| (*name).to_owned()).collect()
}

/// Clears outputs of the compactable tools after an hour without a reply, whatever their length: the purpose is not a
/// shorter view, since a cold cache is read again anyway.
fn idle_outputs() -> Prune {
    Prune {
        keep: Keep { parts: Count::Fixed(KEPT_PARTS), ..Keep::default() },
        condition: Condition::Idle { seconds: IDLE_SECONDS },
        tools: Tools::Only(names(&CLEARED_TOOLS, &CLEARED_TOOLS_SINCE)),
        skip_empty: true,
        only_if_shorter: false,
        ..Prune::outputs("[Old tool result content cleared]")
    }
}

fn idle_media() -> Prune {
    Prune {
        target: Target::Media,
        tools: Tools::All,
        replacement: Replacement::text("[Old inline media cleared: {mime}]"),
        ..idle_outputs()
    }
}

/// Clears media of outputs that are not cleared themselves.
fn idle_attachments() -> Prune {
    Prune {
        target: Target::Attachments,
        tools: Tools::Except(names(&CLEARED_TOOLS, &CLEARED_TOOLS_SINCE)),
        replacement: Replacement::text(""),
        ..idle_media()
    }
}

fn large_outputs() -> Prune {
    Prune { condition: Condition::Length { above_units: 500_000, down_to_units: 250_000 }, ..idle_outputs() }
}

fn summary() -> Summary {
    let sections: Vec<Section> = [
        ("primary_request_and_intent", Topic::Goal),
        ("key_technical_concepts", Topic::Context),
        ("files_and_code_sections", Topic::Files),
        ("errors_and_fixes", Topic::Blocked),
        ("problem_solving", Topic::Decisions),
        ("all_user_messages", Topic::Constraints),
        ("pending_tasks", Topic::InProgress),
        ("current_work", Topic::Done),
        ("next_step", Topic::NextSteps),
    ]
    .map(|(heading, topic)| Section::new(heading, topic))
    .into();
    let file = |tool: &str, shows| FileTool { tool: tool.to_owned(), field: "file_path".to_owned(), shows };
    Summary {
        max_tokens: 20_000,
        attachments: Some(Attachments {
            files: 5,
            file_tokens: 5_000,
            total_tokens: 50_000,
            images: 3,
            tools: vec![
                file("read_file", FileText::Output),
                file("write_file", FileText::Input { field: "content".to_owned() }),
                file("edit", FileText::Nowhere),
                file("replace", FileText::Nowhere),
            ],
        }),
        prompt: PromptStyle { thoughts_tag: Some("analysis".to_owned()), ..PromptStyle::default() },
        ..gemini_cli::snapshot(sections)
    }
}
