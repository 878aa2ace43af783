//! goose: short texts in place of the outputs of old calls as the conversation grows, and a summary of everything when
//! the window is nearly full.

pub mod parameters;

use self::parameters::OfWindow;
use crate::policy::Requests;
use crate::policy::bpe::Encoding;
use crate::policy::presets::preset::Preset;
use crate::policy::{Count, FailedOutputs, Keep};
use crate::policy::{
    Counting, LengthUnit, LevelPolicy, Limit, MediaUnits, Notice, Policy, Prune, Section, Step, Summarize, Summary,
    Tail, TextUnits, Threshold, Topic, Transcript, TranscriptForm, ViewStyle,
};

/// `goose@0.8`.
pub const V0_8: Preset = Preset {
    name: "goose@0.8",
    description: "goose with its threshold of 0.8: describes old calls in a line, then summarizes all but a request.",
    own_deviations: &[
        "The last request, results that no reply has read, open messages and running calls are never summarized.",
        "An old call keeps its position, and its output becomes a description made without a model; goose lets a model \
         write a user message in place of both.",
        "A batch of calls is described as soon as more than a whole batch is beyond the cutoff and it frees a twentieth \
         of the window; batches that free less are described together, since each costs the provider's cache.",
        "The model is said to have continued in the same words after every compaction; goose has words for a \
         conversation, for a loop of tools and for a request by hand.",
        "A summary that would be too large for its writer is made in pieces; goose leaves out results from the middle \
         outward, and fails in the end.",
        "A compaction that frees nothing ends in a breaker; goose has none.",
    ],
    sources: &[
        ("preset", "this preset's name"),
        ("counting", "goose: its tokenizer, where no usage is known"),
        ("counting.media", "Longhand: goose counts no images"),
        ("counting.usage", "goose: the session's total_tokens"),
        ("trigger.auto", "goose: a threshold between 0 and 1"),
        ("maintenance.0.prune", "goose: the summaries of tool pairs"),
        ("maintenance.0.prune.keep.turns", "goose: never the current turn"),
        ("maintenance.0.prune.keep.parts", "goose: a hundredth of a hundredth of the threshold, from 10 to 500 calls"),
        ("maintenance.0.prune.batch", "goose: a fifth of the cutoff, at least 3"),
        ("maintenance.0.prune.replacement", "goose: how such a summary begins; the rest is Longhand's wording"),
        ("auto.threshold", "goose: DEFAULT_COMPACTION_THRESHOLD"),
        ("auto.notice", "Longhand's wording"),
        ("auto.steps.0.summarize.tail", "goose: the latest user message of text alone is said again"),
        ("auto.steps.0.summarize.summary", "goose: what its summary is asked for"),
        ("auto.steps.0.summarize.summary.transcript", "goose: how it writes the history out"),
        ("auto.steps.0.summarize.summary.max_tokens", "Longhand: goose sets no limit"),
        ("auto.steps.0.summarize.retained_first", "goose: the summary, then the request"),
        ("auto.steps.0.summarize.fallback", "Longhand: the built-in summarizer"),
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
        counting: Counting {
            unit: LengthUnit::CodePoints,
            text: TextUnits::Bpe { encoding: Encoding::O200kBase },
            units_per_token: 1,
            media: MediaUnits::all(1_200),
            ..Counting::default()
        },
        maintenance: vec![Step::Prune(tool_pairs())],
        auto: Some(LevelPolicy {
            notice: Notice::Inform { text: "The conversation was compacted at {percent}% of the window.".to_owned() },
            ..LevelPolicy::new(
                Threshold::above(Limit::Ratio(0.8)),
                vec![Step::Summarize(Box::new(Summarize {
                    tail: Tail::Requests(Requests {
                        messages: Some(1),
                        keep_tokens: None,
                        text_only: true,
                        marker: String::new(),
                    }),
                    summary: summary(),
                    ..Summarize::default()
                }))],
            )
        }),
        view: ViewStyle {
            acknowledgement: Some("I know from this summary where we are, and go on from there.".to_owned()),
            ..ViewStyle::default()
        },
        ..Policy::default()
    }
}

/// Clears outputs above a cutoff of `window * 0.8 / 10000` calls; a batch is a fifth of that.
fn tool_pairs() -> Prune {
    let cutoff = OfWindow { context_tokens_each: 12_500, minimum: 10, maximum: 500 };
    let batch = OfWindow { context_tokens_each: 62_500, minimum: 3, maximum: 100 };
    Prune {
        keep: Keep { turns: 1, parts: Count::OfWindow(cutoff), ..Keep::default() },
        batch: Some(Count::OfWindow(batch)),
        failed_outputs: FailedOutputs::Prune,
        // A short output that is not cleared would stay in the oldest batch for ever.
        only_if_shorter: false,
        ..Prune::outputs(
            "[Historical tool call summary] {tool} was called about {target}. It gave {lines} lines ({length} \
             characters), the first of them: {first}",
        )
    }
}

fn summary() -> Summary {
    Summary {
        sections: vec![
            Section::new("## What the user wants", Topic::Goal),
            Section::new("## What the user insisted on", Topic::Constraints),
            Section::new("## Facts and errors", Topic::Context),
            Section::new("## Files", Topic::Files),
            Section::new("## Decisions", Topic::Decisions),
            Section::new("## Done", Topic::Done),
            Section::new("## In progress", Topic::InProgress),
            Section::new("## Next steps", Topic::NextSteps),
        ],
        max_tokens: 3_600,
        transcript: Transcript {
            form: TranscriptForm::Lines,
            media_note: "[image: {mime}]".to_owned(),
            ..Transcript::default()
        },
        ..Summary::default()
    }
}
