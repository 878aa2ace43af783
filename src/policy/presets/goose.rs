//! goose: short texts in place of the outputs of old calls as the conversation grows, and a summary of everything when
//! the window is nearly full.

use super::preset::Preset;
use crate::policy::Requests;
use crate::policy::bpe::Encoding;
use crate::policy::{
    Bullet, Clear, Contradictions, CountPer, Counting, FileTools, Guards, LengthUnit, LevelPolicy, Limit, MediaUnits,
    Notice, Policy, PromptStyle, Rounding, Section, Step, Summarize, Summary, SummaryFormat, SummaryRole, Tail,
    TextUnits, Threshold, Topic, Transcript, TranscriptForm, Trigger, UsageCount, ViewStyle,
};
use crate::policy::{Count, Keep, OfWindow};

/// `goose@0.8`.
pub const V0_8: Preset = Preset {
    name: "goose@0.8",
    description: "goose with its threshold of 0.8: describes old calls in a line, then summarizes all but a request.",
    own_deviations: &[
        "The last request, results that no reply has read, open messages and running calls are never summarized.",
        "An old call keeps its position, and its output becomes a description made without a model; goose lets a model \
         write a user message in place of both.",
        "A batch of calls is described as soon as more than a whole batch is beyond the cutoff.",
        "The model is said to have continued in the same words after every compaction; goose has words for a \
         conversation, for a loop of tools and for a request by hand.",
        "A summary that would be too large for its writer is made in pieces; goose leaves out results from the middle \
         outward, and fails in the end.",
        "A compaction that frees nothing ends in a breaker; goose has none.",
    ],
    sources: &[
        ("preset", "this preset's name"),
        ("render_version", "Longhand's renderer"),
        ("counting", "goose: its tokenizer, where no usage is known"),
        ("counting.media", "Longhand: goose counts no images"),
        ("counting.usage", "goose: the session's total_tokens"),
        ("trigger.auto", "goose: a threshold between 0 and 1"),
        ("trigger.cooldown_seconds", "goose has none"),
        ("truncate", "goose has none in views"),
        ("maintenance.0.clear", "goose: the summaries of tool pairs"),
        ("maintenance.0.clear.keep.turns", "goose: never the current turn"),
        ("maintenance.0.clear.keep.items", "goose: a hundredth of a hundredth of the threshold, from 10 to 500 calls"),
        ("maintenance.0.clear.batch", "goose: a fifth of the cutoff, at least 3"),
        ("maintenance.0.clear.instead", "goose: how such a summary begins; the rest is Longhand's wording"),
        ("micro", "goose has one level"),
        ("auto.threshold", "goose: DEFAULT_COMPACTION_THRESHOLD"),
        ("auto.notice", "Longhand's wording"),
        ("auto.steps.0.summarize.tail", "goose: the latest user message of text alone is said again"),
        ("auto.steps.0.summarize.summary", "goose: what its summary is asked for"),
        ("auto.steps.0.summarize.summary.transcript", "goose: how it writes the history out"),
        ("auto.steps.0.summarize.summary.max_tokens", "Longhand: goose sets no limit"),
        ("auto.steps.0.summarize.retained_first", "goose: the summary, then the request"),
        ("auto.steps.0.summarize.fallback", "Longhand: the built-in summarizer"),
        ("auto.stop_when_enough", "goose has one step"),
        ("deep", "goose has one level"),
        ("retrieval", "goose has none"),
        ("view", "goose: a summary is a user message"),
        ("view.acknowledgement", "goose: the model continues behind a summary; Longhand's wording"),
        ("view.interrupted_text", "Longhand's wording"),
        ("guards", "Longhand: goose has no guard"),
    ],
    policy: v0_8,
};

/// The policy of `goose@0.8`.
pub fn v0_8() -> Policy {
    Policy {
        preset: V0_8.name.to_owned(),
        render_version: 1,
        counting: Counting {
            unit: LengthUnit::CodePoints,
            text: TextUnits::Bpe { encoding: Encoding::O200kBase },
            units_per_token: 1,
            rounding: Rounding::Ceil,
            per: CountPer::Message,
            media: MediaUnits::all(1_200),
            usage: UsageCount::Total,
        },
        trigger: Trigger { auto: true, ..Trigger::default() },
        truncate: None,
        maintenance: vec![Step::Clear(tool_pairs())],
        micro: None,
        auto: Some(LevelPolicy {
            threshold: Threshold { limit: Limit::Ratio { ratio: 0.8 }, inclusive: false, minimum_tokens: 0 },
            notice: Notice::Inform { text: "The conversation was compacted at {percent}% of the window.".to_owned() },
            steps: vec![Step::Summarize(Box::new(Summarize {
                tail: Tail::Requests(Requests {
                    messages: Some(1),
                    keep_tokens: None,
                    text_only: true,
                    marker: String::new(),
                }),
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
            acknowledgement: Some("I know from this summary where we are, and go on from there.".to_owned()),
            resume_text: None,
            interrupted_text: "[Interrupted: this tool call has no result]".to_owned(),
        },
        guards: Guards { breaker_failures: 3, breaker_turns: 3, attempts_max: 3, ..Guards::default() },
    }
}

/// Clears outputs above a cutoff of `window * 0.8 / 10000` calls; a batch is a fifth of that.
fn tool_pairs() -> Clear {
    let cutoff = OfWindow { tokens_each: 12_500, least: 10, most: 500 };
    let batch = OfWindow { tokens_each: 62_500, least: 3, most: 100 };
    Clear {
        keep: Keep { turns: 1, items: Count::OfWindow(cutoff), ..Keep::default() },
        batch: Some(Count::OfWindow(batch)),
        failed_too: true,
        // A short output that is not cleared would stay in the oldest batch for ever.
        only_if_shorter: false,
        ..Clear::outputs(
            "[Historical tool call summary] {tool} was called about {target}. It gave {lines} lines ({length} \
             characters), the first of them: {first}",
        )
    }
}

fn summary() -> Summary {
    let section = |heading: &str, holds| Section { heading: heading.to_owned(), holds, bullet: Bullet::Dash };
    Summary {
        format: SummaryFormat::Headings,
        sections: vec![
            section("## What the user wants", Some(Topic::Goal)),
            section("## What the user insisted on", Some(Topic::Constraints)),
            section("## Facts and errors", Some(Topic::Context)),
            section("## Files", Some(Topic::Files)),
            section("## Decisions", Some(Topic::Decisions)),
            section("## Done", Some(Topic::Done)),
            section("## In progress", Some(Topic::InProgress)),
            section("## Next steps", Some(Topic::NextSteps)),
        ],
        filler: "(none)".to_owned(),
        max_tokens: 3_600,
        file_tags: false,
        file_tools: FileTools::Any,
        split_turn_heading: None,
        carry_previous: true,
        verify: false,
        transcript: Transcript {
            form: TranscriptForm::Lines,
            output_units: 0,
            output_marker: String::new(),
            reasoning: false,
            media_note: "[image: {mime}]".to_owned(),
        },
        attachments: None,
        prompt: PromptStyle::default(),
        facts_tokens: 0,
        contradictions: Contradictions::Report,
    }
}
