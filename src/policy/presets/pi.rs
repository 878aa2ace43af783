//! pi, the coding agent.
//!
//! pi neither clears nor truncates anything that the model reads: a summary is its only compaction.

use super::preset::Preset;
use crate::policy::{
    Bullet, Contradictions, CountPer, Counting, FileTools, Guards, LengthUnit, LevelPolicy, Limit, MediaUnits, Notice,
    Policy, PromptStyle, Rounding, Section, Step, Summarize, Summary, SummaryFormat, SummaryRole, Tail, TextUnits,
    Threshold, Topic, Transcript, TranscriptForm, Trigger, UsageCount, ViewStyle,
};
use crate::policy::{LargeResults, Recent};

/// `pi@0.73`.
pub const V0_73: Preset = Preset {
    name: "pi@0.73",
    description: "pi before 0.87: as pi@1.5, but images of the user count nothing and thoughts are summarized too.",
    own_deviations: &[
        UNANSWERED,
        PAIRED,
        RECORDS,
        AGAIN,
        BREAKER,
        BETWEEN_RUNS,
        LISTS,
        STOPPED,
        REFUSED,
        WORDLESS,
        ALL_KEPT,
        "Where nothing can be summarized nothing happens; pi 0.73 then asks a model to summarize nothing.",
        "Messages of extensions and summaries of branches are messages of the user, with their size and at their \
         position; pi 0.73 counts neither, and keeps those just before the boundary.",
        SILENT,
        "A request that a provider answered although it did not fit is not sent again; pi 0.73 goes on with it.",
        "A reply that reports no usage is passed over; pi 0.73 takes it for one that read nothing.",
        "What an earlier summary says is never lost; pi 0.73 forgets it when only the front of a turn is summarized.",
    ],
    sources: SOURCES,
    policy: v0_73,
};

/// `pi@1.5`.
pub const V1_5: Preset = Preset {
    name: "pi@1.5",
    description: "pi: summarizes in six sections with file lists, keeps the newest 20000 tokens, splits turns.",
    own_deviations: &[
        UNANSWERED,
        PAIRED,
        RECORDS,
        AGAIN,
        BREAKER,
        MOMENT,
        LISTS,
        STOPPED,
        REFUSED,
        WORDLESS,
        ALL_KEPT,
        SILENT,
        CUT_SHORT,
        "A summary has a limit of its own; pi leaves it to the model.",
        "The words around a command that the user ran, and around the summary of a branch, are counted; pi \
         counts only what they hold.",
        "An edit of a message that a summary covers ends that summary; in pi it changes nothing that a model is shown, \
         and an import keeps such a `context_edit` as a record.",
    ],
    sources: SOURCES,
    policy: v1_5,
};

const UNANSWERED: &str =
    "The last request, results that no reply has read, open messages and running calls are never summarized.";
const PAIRED: &str = "A result never parts from its call, even with other writers' messages between them.";
const RECORDS: &str = "Entries that are never in a context (labels, model changes) do not influence where a turn is \
                       split; in pi a boundary after such an entry counts as splitting the turn before it.";
const AGAIN: &str = "A compaction by hand right after another looks at what that one kept; pi refuses it.";
const BREAKER: &str =
    "A compaction that frees nothing ends in a breaker; pi has none beyond one retry for each overflow.";

const MOMENT: &str = "The threshold is looked at after every message; pi looks at the end of a run and before a prompt, \
                      and since 0.87 between the requests of a run too.";
const LISTS: &str = "Lists of files are given once, after the whole summary; in pi those of a summary that goes on as \
                     it is stay in it too.";
const STOPPED: &str = "Usage that a stopped or failed reply reports counts like any other; pi goes by the last reply that \
                       ended well, except where it looks at that reply itself.";
const REFUSED: &str = "That a provider refused a request as too long is recognised by the sentences of other agents and of \
                       later versions too, such as `request entity too large`.";

const SILENT: &str = "A reply is held against the window of its session, whoever's model wrote it, and one compaction answers \
                      the overflows of one request. Images go where a provider refused the request in words; pi keeps them.";
const BETWEEN_RUNS: &str = "The threshold is looked at wherever no run is under way, behind a request and behind a reply \
                            that was stopped too; pi 0.73 looks at the end of a run, and before a request is there.";
const CUT_SHORT: &str = "A reply that ended because of its length, and is shorter than the window lets the model write, is \
                         left out by a mark, and whoever asked sends the request again; pi sends it by itself, and leaves the \
                         results of such a reply out too.";
const WORDLESS: &str = "Where what would be summarized, or the front of a split turn, has no words, no model is asked about \
                        it; pi asks one about an empty conversation.";
const ALL_KEPT: &str = "In a window where pi's tail holds everything, so that it prepares nothing, half of that tail is kept, \
                        and half of that; pi waits there for the provider to refuse the request.";

const SOURCES: &[(&str, &str)] = &[
    ("preset", "this preset's name"),
    ("render_version", "Longhand's renderer"),
    ("counting.unit", "pi: JavaScript string length"),
    ("counting.text", "pi: estimateTokens"),
    ("counting.units_per_token", "pi: estimateTokens"),
    ("counting.rounding", "pi: estimateTokens, Math.ceil"),
    ("counting.per", "pi: estimateTokens for each message"),
    ("counting.media", "pi: an image counts 4800 characters; up to 0.73 only beside the output of a tool"),
    ("counting.usage", "pi: calculateContextTokens"),
    ("trigger.auto", "pi: compaction.enabled"),
    ("trigger.cooldown_seconds", "pi has no timer"),
    ("trigger.silent_overflow", "pi: isContextOverflow with a window"),
    ("trigger", "pi: compaction.enabled and _checkCompaction"),
    ("truncate", "pi truncates outputs only in what a summarizer reads"),
    ("maintenance", "pi clears nothing"),
    ("micro", "pi has one level"),
    ("auto.threshold", "pi: shouldCompact, compaction.reserveTokens"),
    ("auto.notice", "pi: compaction_end, without a line of its own"),
    ("auto.steps.0.summarize.tail.recent.keep_tokens", "pi: compaction.keepRecentTokens"),
    ("auto.steps.0.summarize.tail.recent.large_results", "pi: findCutPoint"),
    ("auto.steps.0.summarize.summary", "pi: the summarization prompt"),
    (
        "auto.steps.0.summarize.summary.max_tokens",
        "pi up to 0.87: four fifths of the reserve; later Longhand's, as pi leaves it to the model",
    ),
    ("auto.steps.0.summarize.summary.file_tags", "pi: formatFileOperations"),
    ("auto.steps.0.summarize.summary.split_turn_heading", "pi: how the summaries of a split turn are joined"),
    ("auto.steps.0.summarize.summary.prompt", "pi: generateSummary and the prompt for the prefix of a turn"),
    ("auto.steps.0.summarize.summary.facts_tokens", "pi has none"),
    ("auto.steps.0.summarize.summary.transcript", "pi: serializeConversation, in 1.5 without thoughts"),
    ("auto.steps.0.summarize.retained_first", "pi: a compaction's systemMessage comes before its summary"),
    ("auto.steps.0.summarize.fallback", "Longhand: the built-in summarizer"),
    ("auto.stop_when_enough", "pi has one step"),
    ("deep", "pi has one level"),
    ("retrieval", "pi has none"),
    ("view.marker_text", "pi has none"),
    ("view.summary_role", "pi: a summary is a user message"),
    ("view.summary_prefix", "pi: the wrapper of a compaction summary"),
    ("view.summary_suffix", "pi: the wrapper of a compaction summary"),
    ("view.acknowledgement", "pi has none"),
    ("view.resume_text", "pi has none"),
    ("view.interrupted_text", "Longhand's wording"),
    ("guards", "Longhand: pi has no guard"),
    ("guards.attempts_max", "pi: retry.maxRetries is 3"),
];

/// The differences between the versions.
struct Version {
    name: &'static str,
    /// Estimates of media.
    media: MediaUnits,
    large_results: LargeResults,
    /// Enables the recovery of a reply that had no room after its request.
    recovers_length: bool,
    /// True if the threshold is evaluated between runs, and not between the requests of one run.
    between_runs: bool,
    summary_tokens: i64,
    /// Includes reasoning in the transcript for the summarizer.
    reasoning: bool,
    /// The sections of the summary of a split turn's beginning.
    split_turn_sections: fn() -> Vec<Section>,
    /// Includes custom instructions in the summary of a split turn's beginning.
    split_turn_instructions: bool,
}

/// The policy of `pi@0.73`.
pub fn v0_73() -> Policy {
    policy(&Version {
        name: V0_73.name,
        media: MediaUnits { attachment: IMAGE_UNITS, ..MediaUnits::all(0) },
        large_results: LargeResults::WithEverything,
        recovers_length: false,
        between_runs: true,
        summary_tokens: 13_107,
        reasoning: true,
        split_turn_sections: early_sections,
        split_turn_instructions: false,
    })
}

/// The policy of `pi@1.5`.
pub fn v1_5() -> Policy {
    policy(&Version {
        name: V1_5.name,
        media: MediaUnits::all(IMAGE_UNITS),
        large_results: LargeResults::WithCall,
        recovers_length: true,
        between_runs: false,
        summary_tokens: 3_600,
        reasoning: false,
        split_turn_sections: || PromptStyle::default().split_turn_sections,
        split_turn_instructions: true,
    })
}

/// pi's estimate of an image, in characters.
const IMAGE_UNITS: u32 = 4_800;

fn policy(version: &Version) -> Policy {
    Policy {
        preset: version.name.to_owned(),
        render_version: 1,
        counting: Counting {
            unit: LengthUnit::Utf16,
            text: TextUnits::Length,
            units_per_token: 4,
            rounding: Rounding::Ceil,
            per: CountPer::Message,
            media: version.media,
            usage: UsageCount::Total,
        },
        trigger: Trigger {
            auto: true,
            silent_overflow: true,
            recovers_length: version.recovers_length,
            between_runs: version.between_runs,
            ..Trigger::default()
        },
        truncate: None,
        maintenance: Vec::new(),
        micro: None,
        auto: Some(LevelPolicy {
            threshold: Threshold {
                limit: Limit::Reserve { reserve_tokens: 16_384 },
                inclusive: false,
                minimum_tokens: 0,
            },
            notice: Notice::None,
            steps: vec![Step::Summarize(Box::new(Summarize {
                tail: Tail::Recent(Recent { keep_tokens: 20_000, large_results: version.large_results }),
                summary: summary(version),
                retained_first: true,
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
            summary_prefix: "The conversation history before this point was compacted into the following \
                             summary:\n\n<summary>\n"
                .to_owned(),
            summary_suffix: "\n</summary>".to_owned(),
            acknowledgement: None,
            resume_text: None,
            interrupted_text: "[Interrupted: this tool call has no result]".to_owned(),
        },
        guards: Guards { breaker_failures: 3, breaker_turns: 3, attempts_max: 4, ..Guards::default() },
    }
}

fn summary(version: &Version) -> Summary {
    Summary {
        format: SummaryFormat::Headings,
        sections: sections(),
        filler: "(none)".to_owned(),
        max_tokens: version.summary_tokens,
        file_tags: true,
        file_tools: FileTools::Pi,
        split_turn_heading: Some("**Turn Context (split turn):**".to_owned()),
        carry_previous: true,
        verify: false,
        transcript: Transcript {
            form: TranscriptForm::InPlace,
            output_units: 2_000,
            output_marker: "\n\n[... {omitted} more characters truncated]".to_owned(),
            reasoning: version.reasoning,
            media_note: String::new(),
        },
        attachments: None,
        prompt: PromptStyle {
            split_turn_sections: (version.split_turn_sections)(),
            split_turn_instructions: version.split_turn_instructions,
            ..PromptStyle::default()
        },
        facts_tokens: 0,
        contradictions: Contradictions::Report,
    }
}

/// The sections in which 0.73 summarizes the beginning of a split turn.
fn early_sections() -> Vec<Section> {
    let section =
        |heading: &str, holds| Section { heading: heading.to_owned(), holds: Some(holds), bullet: Bullet::Dash };
    vec![
        section("## Original Request", Topic::Goal),
        section("## Early Progress", Topic::Done),
        section("## Context for Suffix", Topic::Context),
    ]
}

fn sections() -> Vec<Section> {
    let section = |heading: &str, holds, bullet| Section { heading: heading.to_owned(), holds, bullet };
    vec![
        section("## Goal", Some(Topic::Goal), Bullet::Dash),
        section("## Constraints & Preferences", Some(Topic::Constraints), Bullet::Dash),
        section("## Progress", None, Bullet::Dash),
        section("### Done", Some(Topic::Done), Bullet::Checked),
        section("### In Progress", Some(Topic::InProgress), Bullet::Unchecked),
        section("### Blocked", Some(Topic::Blocked), Bullet::Dash),
        section("## Key Decisions", Some(Topic::Decisions), Bullet::Dash),
        section("## Next Steps", Some(Topic::NextSteps), Bullet::Number),
        section("## Critical Context", Some(Topic::Context), Bullet::Dash),
    ]
}
