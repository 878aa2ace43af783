//! pi, the coding agent.
//!
//! pi neither clears nor truncates anything that the model reads: a summary is its only compaction.

pub mod parameters;

use self::parameters::{LargeResults, SplitTurn};
use crate::policy::Recent;
use crate::policy::presets::preset::Preset;
use crate::policy::{
    Bullet, Counting, FileTools, Guards, LevelPolicy, Limit, MediaUnits, Policy, Section, Step, Summarize, Summary,
    Tail, Threshold, Topic, Transcript, TranscriptForm, Trigger, ViewStyle,
};

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
    ("counting.unit", "pi: JavaScript string length"),
    ("counting.text", "pi: estimateTokens"),
    ("counting.units_per_token", "pi: estimateTokens"),
    ("counting.rounding", "pi: estimateTokens, Math.ceil"),
    ("counting.per", "pi: estimateTokens for each message"),
    ("counting.media", "pi: an image counts 4800 characters; up to 0.73 only beside the output of a tool"),
    ("counting.usage", "pi: calculateContextTokens"),
    ("trigger.auto", "pi: compaction.enabled"),
    ("trigger.silent_overflow", "pi: isContextOverflow with a window"),
    ("trigger", "pi: compaction.enabled and _checkCompaction"),
    ("truncate", "pi truncates outputs only in what a summarizer reads"),
    ("auto.threshold", "pi: shouldCompact, compaction.reserveTokens"),
    ("auto.notice", "pi: compaction_end, without a line of its own"),
    ("auto.steps.0.summarize.tail.recent.keep_tokens", "pi: compaction.keepRecentTokens"),
    ("auto.steps.0.summarize.tail.recent.large_results", "pi: findCutPoint"),
    ("auto.steps.0.summarize.summary", "pi: the summarization prompt"),
    (
        "auto.steps.0.summarize.summary.max_tokens",
        "pi up to 0.87: four fifths of the reserve; later Longhand's, as pi leaves it to the model",
    ),
    ("auto.steps.0.summarize.summary.file_lists", "pi: formatFileOperations"),
    ("auto.steps.0.summarize.summary.split_turn", "pi: how the summaries of a split turn are joined"),
    ("auto.steps.0.summarize.summary.prompt", "pi: generateSummary and the prompt for the prefix of a turn"),
    ("auto.steps.0.summarize.summary.transcript", "pi: serializeConversation, in 1.5 without thoughts"),
    ("auto.steps.0.summarize.retained_first", "pi: a compaction's systemMessage comes before its summary"),
    ("auto.steps.0.summarize.fallback", "Longhand: the built-in summarizer"),
    ("view.summary_role", "pi: a summary is a user message"),
    ("view.summary_prefix", "pi: the wrapper of a compaction summary"),
    ("view.summary_suffix", "pi: the wrapper of a compaction summary"),
    ("view.interrupted_text", "Longhand's wording"),
    ("guards", "Longhand: pi has no guard"),
    ("guards.max_attempts", "pi: retry.maxRetries is 3"),
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
        media: MediaUnits { attachment_units: IMAGE_UNITS, ..MediaUnits::all(0) },
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
        split_turn_sections,
        split_turn_instructions: true,
    })
}

/// pi's estimate of an image, in characters.
const IMAGE_UNITS: u32 = 4_800;

fn policy(version: &Version) -> Policy {
    Policy {
        preset: version.name.to_owned(),
        counting: Counting { media: version.media, ..Counting::default() },
        trigger: Trigger {
            silent_overflow: true,
            recovers_length: version.recovers_length,
            between_runs: version.between_runs,
            ..Trigger::default()
        },
        auto: Some(LevelPolicy::new(
            Threshold::above(Limit::Reserve(16_384)),
            vec![Step::Summarize(Box::new(Summarize {
                tail: Tail::Recent(Recent { keep_tokens: 20_000, large_results: version.large_results }),
                summary: summary(version),
                retained_first: true,
                ..Summarize::default()
            }))],
        )),
        view: ViewStyle {
            summary_prefix: "The conversation history before this point was compacted into the following \
                             summary:\n\n<summary>\n"
                .to_owned(),
            summary_suffix: "\n</summary>".to_owned(),
            ..ViewStyle::default()
        },
        guards: Guards { max_attempts: 4, ..Guards::default() },
        ..Policy::default()
    }
}

fn summary(version: &Version) -> Summary {
    Summary {
        sections: sections(),
        max_tokens: version.summary_tokens,
        file_lists: Some(FileTools::Pi),
        split_turn: Some(SplitTurn {
            heading: "**Turn Context (split turn):**".to_owned(),
            sections: (version.split_turn_sections)(),
            instructions: version.split_turn_instructions,
        }),
        transcript: Transcript {
            form: TranscriptForm::InPlace,
            output_units: 2_000,
            output_marker: "\n\n[... {omitted} more characters truncated]".to_owned(),
            reasoning: version.reasoning,
            media_note: String::new(),
        },
        ..Summary::default()
    }
}

/// The sections in which 1.5 summarizes the beginning of a split turn.
fn split_turn_sections() -> Vec<Section> {
    vec![
        Section::new("## Original Request", Topic::Goal),
        Section::new("## Progress So Far", Topic::Done),
        Section::new("## Context Needed to Continue", Topic::Context),
    ]
}

/// The sections in which 0.73 summarizes the beginning of a split turn.
fn early_sections() -> Vec<Section> {
    vec![
        Section::new("## Original Request", Topic::Goal),
        Section::new("## Early Progress", Topic::Done),
        Section::new("## Context for Suffix", Topic::Context),
    ]
}

fn sections() -> Vec<Section> {
    vec![
        Section::new("## Goal", Topic::Goal),
        Section::new("## Constraints & Preferences", Topic::Constraints),
        Section::new("## Progress", None),
        Section::new("### Done", Topic::Done).with(Bullet::Checked),
        Section::new("### In Progress", Topic::InProgress).with(Bullet::Unchecked),
        Section::new("### Blocked", Topic::Blocked),
        Section::new("## Key Decisions", Topic::Decisions),
        Section::new("## Next Steps", Topic::NextSteps).with(Bullet::Number),
        Section::new("## Critical Context", Topic::Context),
    ]
}
