//! Codex CLI: a summary, and before it the user's last requests verbatim.

use super::preset::Preset;
use crate::policy::Requests;
use crate::policy::{
    Counting, LengthUnit, LevelPolicy, Limit, MediaUnits, Notice, Policy, Section, Step, Summarize, Summary,
    SummaryFormat, Tail, Threshold, Topic, Transcript, ViewStyle,
};

/// `codex@2026-08`.
pub const V2026_08: Preset = Preset {
    name: "codex@2026-08",
    description: "Codex CLI: keeps 20000 tokens of the user's last requests in front of a handoff summary.",
    own_deviations: &[
        "The last request, results that no reply has read, open messages and running calls follow the summary; \
         Codex repeats the request in front of it and drops the rest.",
        "A request keeps its images as long as the budget has room; Codex keeps its text alone.",
        "An earlier summary is not a message of the conversation, and needs no words by which it is recognized.",
        "A summary that would be too large for its writer is made in pieces; Codex leaves out the oldest items.",
        "What the client puts into every context (instructions, environment) is the client's business.",
        "The provider's own compaction is not part of this preset; its opaque blocks are kept as they are.",
        "A compaction that frees nothing ends in a breaker; Codex has none.",
    ],
    sources: &[
        ("preset", "this preset's name"),
        ("counting", "Codex: 4 bytes of UTF-8 for a token, rounded up"),
        ("counting.per", "Codex: item by item"),
        ("counting.media", "Codex: an image counts 7373 bytes"),
        ("counting.usage", "Codex: the total of the last reply"),
        ("trigger.auto", "Codex: it is checked before each turn and after each sampling"),
        ("truncate", "Codex truncates outputs before it records them"),
        ("auto.threshold", "Codex: auto_compact_token_limit, nine tenths of the window"),
        ("auto.notice", "Longhand's wording: Codex warns about long threads"),
        ("auto.steps.0.summarize.tail", "Codex: the most recent real user messages"),
        ("auto.steps.0.summarize.tail.requests.keep_tokens", "Codex: 20000 tokens"),
        ("auto.steps.0.summarize.tail.requests.marker", "Longhand's wording"),
        ("auto.steps.0.summarize.summary", "Codex: what its handoff summary is asked for"),
        ("auto.steps.0.summarize.summary.filler", "Codex: in place of an empty summary"),
        ("auto.steps.0.summarize.summary.max_tokens", "Longhand: Codex sets no limit"),
        ("auto.steps.0.summarize.retained_first", "Codex: requests, then the summary"),
        ("auto.steps.0.summarize.fallback", "Longhand: the built-in summarizer"),
        ("view", "Codex: a summary is a user message"),
        ("view.summary_prefix", "Longhand's wording: Codex has a prefix of its own"),
        ("view.interrupted_text", "Longhand's wording"),
        ("guards", "Longhand: Codex has no guard"),
    ],
    policy: v2026_08,
};

/// The policy of `codex@2026-08`.
pub fn v2026_08() -> Policy {
    Policy {
        preset: V2026_08.name.to_owned(),
        counting: Counting { unit: LengthUnit::Bytes, media: MediaUnits::all(7_373), ..Counting::default() },
        auto: Some(LevelPolicy {
            notice: Notice::Inform { text: "The conversation was compacted; details of it may be missing.".to_owned() },
            ..LevelPolicy::new(
                Threshold::at(Limit::Ratio(0.9)),
                vec![Step::Summarize(Box::new(Summarize {
                    tail: Tail::Requests(Requests {
                        messages: None,
                        keep_tokens: Some(20_000),
                        text_only: false,
                        marker: "\n[… {omitted} bytes left out …]\n".to_owned(),
                    }),
                    summary: summary(),
                    retained_first: true,
                    ..Summarize::default()
                }))],
            )
        }),
        view: ViewStyle {
            summary_prefix: "The work so far was handed over with this summary:\n".to_owned(),
            ..ViewStyle::default()
        },
        ..Policy::default()
    }
}

fn summary() -> Summary {
    Summary {
        format: SummaryFormat::Prose,
        sections: vec![
            Section::new("Progress", Topic::Done),
            Section::new("Key decisions", Topic::Decisions),
            Section::new("Context, constraints and preferences", Topic::Constraints),
            Section::new("What remains to be done", Topic::NextSteps),
            Section::new("Critical data", Topic::Context),
        ],
        filler: "(no summary available)".to_owned(),
        max_tokens: 3_600,
        transcript: Transcript { reasoning: true, media_note: "[image: {mime}]".to_owned(), ..Transcript::default() },
        ..Summary::default()
    }
}
