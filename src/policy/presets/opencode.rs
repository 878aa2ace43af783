//! OpenCode, according to its published design, and according to its published code.
//!
//! The view is marker, summary, tail, later messages. A job of its own clears old outputs; it never replaces a due
//! summary.
//!
//! The two versions differ in values: the number of turns in the tail and their tokens, the truncation of long outputs
//! in views, the clearing of old outputs, and the sections of a summary.

use super::preset::Preset;
use crate::policy::LastTurns;
use crate::policy::{
    Bullet, Clear, Contradictions, CountPer, Counting, FileTools, Guards, LengthUnit, LevelPolicy, Limit, MediaUnits,
    Notice, Policy, PromptStyle, Rounding, Section, Step, Summarize, Summary, SummaryFormat, SummaryRole, Tail,
    TextUnits, Threshold, Topic, Transcript, TranscriptForm, Trigger, Truncate, UsageCount, ViewStyle,
};
use crate::policy::{Keep, PastCleared};

const UNANSWERED: &str = "The last request, results that no reply has read, open messages and running calls are never \
    summarized (P9); OpenCode summarizes them when they do not fit the tail.";
const PAIRS: &str =
    "A result never parts from its call, even when they are separate messages with others between them (P9).";
const FAILED_REPLIES: &str = "A reply that failed stays in the view with what it said (P8); OpenCode leaves it out \
    without a word, and does not count it.";
const MEDIA: &str = "A media item has a fixed estimate; OpenCode measures the text of its data URL.";
const ONE_SUMMARY: &str = "A second compaction hides the first one's marker and summary (P8); OpenCode can show both.";
const BREAKER: &str = "A compaction that frees nothing ends in a breaker, and an empty view is never due (P12); OpenCode \
    tries for ever.";
const CONTINUATION: &str = "A continuation is written behind replies and results of a turn that is not finished, and \
    only there (P12); OpenCode writes one after every automatic compaction.";
const GOING_ON: &str = "A continuation has Longhand's words and is a message of a kind of its own; OpenCode's is a message of \
    the user with a note in its metadata.";
const OVERFLOW: &str = "Behind an overflow nobody is asked to go on, and nothing is said of attachments that were too large: the \
    request is there and asks by itself. OpenCode says so wherever it replays nothing.";
const REPLAY: &str = "A request that a provider found too large is replayed without its media at its own position, and \
    what followed it stays (P8); OpenCode replays it at the end and drops what followed.";
const MOMENT: &str = "The threshold is looked at after every message, whatever was written since the last reply; OpenCode \
    goes by the usage of the last reply alone.";

/// `opencode@seed`.
pub const SEED: Preset = Preset {
    name: "opencode@seed",
    description: "OpenCode: truncates and clears tool outputs, summarizes in seven sections, keeps the last two turns.",
    own_deviations: &[
        "Clearing old outputs is on; OpenCode ships it switched off.",
        "Outputs that no reply has read are never cleared.",
        "Outputs are truncated at 2000 characters in every view, as OpenCode's design says; its later code truncates \
         only what a summarizer reads.",
        UNANSWERED,
        PAIRS,
        FAILED_REPLIES,
        MEDIA,
        ONE_SUMMARY,
        BREAKER,
        CONTINUATION,
        GOING_ON,
        OVERFLOW,
        REPLAY,
        MOMENT,
    ],
    sources: &[
        ("preset", "this preset's name"),
        ("render_version", "Longhand's renderer"),
        ("counting.unit", "OpenCode: JavaScript string length"),
        ("counting.text", "OpenCode: Token.estimate"),
        ("counting.units_per_token", "OpenCode: Token.estimate"),
        ("counting.rounding", "OpenCode: Token.estimate, Math.round"),
        ("counting.per", "OpenCode: a range is estimated over the JSON of its model messages"),
        ("counting.media", "Longhand: OpenCode measures the text of data URLs"),
        ("counting.usage", "OpenCode: isOverflow"),
        ("trigger.auto", "OpenCode: compaction.auto"),
        ("trigger.cooldown_seconds", "OpenCode has none"),
        ("truncate", "OpenCode: truncateToolOutput"),
        ("maintenance.0.clear", "OpenCode: the prune walk"),
        ("maintenance.0.clear.keep.tokens", "OpenCode: PRUNE_PROTECT"),
        ("maintenance.0.clear.keep.turns", "OpenCode: the prune walk skips the last two turns"),
        ("maintenance.0.clear.minimum_tokens", "OpenCode: PRUNE_MINIMUM"),
        ("maintenance.0.clear.protected_tools", "OpenCode: PRUNE_PROTECTED_TOOLS"),
        ("maintenance.0.clear.instead", "OpenCode: what a model reads in place of a cleared output"),
        ("micro", "OpenCode has one level"),
        ("auto.threshold", "OpenCode: usable and isOverflow"),
        ("auto.notice", "OpenCode: session.compacted, without a line of its own"),
        ("auto.steps.0.summarize.tail.turns.turns", "OpenCode: DEFAULT_TAIL_TURNS"),
        ("auto.steps.0.summarize.tail.turns.budget_ratio", "OpenCode: preserveRecentBudget"),
        ("auto.steps.0.summarize.tail.turns.budget_min_tokens", "OpenCode: MIN_PRESERVE_RECENT_TOKENS"),
        ("auto.steps.0.summarize.tail.turns.budget_max_tokens", "OpenCode: MAX_PRESERVE_RECENT_TOKENS"),
        ("auto.steps.0.summarize.summary", "OpenCode: SUMMARY_TEMPLATE"),
        ("auto.steps.0.summarize.summary.max_tokens", "Longhand: OpenCode sets no limit"),
        ("auto.steps.0.summarize.summary.facts_tokens", "OpenCode has none"),
        ("auto.steps.0.summarize.summary.file_tags", "OpenCode has none: files are a section"),
        (
            "auto.steps.0.summarize.summary.split_turn_heading",
            "OpenCode has none: the front of a split turn is summarized with the rest",
        ),
        ("auto.steps.0.summarize.retained_first", "OpenCode retains nothing"),
        ("auto.steps.0.summarize.fallback", "Longhand: the built-in summarizer"),
        ("auto.stop_when_enough", "OpenCode: clearing never replaces a summary"),
        ("deep", "OpenCode has one level"),
        ("retrieval", "OpenCode has none"),
        ("auto_continue", "OpenCode: the message that follows an automatic compaction, in other words"),
        ("view.marker_text", "OpenCode: what a model reads in place of a compaction part"),
        ("view.summary_role", "OpenCode: a summary is an assistant message"),
        ("view.summary_prefix", "OpenCode has none"),
        ("view.summary_suffix", "OpenCode has none"),
        ("view.acknowledgement", "OpenCode has none"),
        ("view.resume_text", "OpenCode has none"),
        ("view.interrupted_text", "OpenCode: the error of a call that is pending or running"),
        ("guards", "Longhand: OpenCode has no guard"),
        ("guards.attempts_max", "OpenCode: five retries of a failed request"),
    ],
    policy: seed,
};

/// `opencode@1.18`.
pub const V1_18: Preset = Preset {
    name: "opencode@1.18",
    description: "OpenCode 1.18: summarizes in five sections, keeps as many turns as fit, truncates nothing in views.",
    own_deviations: &[
        UNANSWERED,
        PAIRS,
        FAILED_REPLIES,
        MEDIA,
        ONE_SUMMARY,
        BREAKER,
        CONTINUATION,
        GOING_ON,
        OVERFLOW,
        REPLAY,
        MOMENT,
    ],
    sources: &[
        ("preset", "this preset's name"),
        ("render_version", "Longhand's renderer"),
        ("counting.unit", "OpenCode: JavaScript string length"),
        ("counting.text", "OpenCode: Token.estimate"),
        ("counting.units_per_token", "OpenCode: Token.estimate"),
        ("counting.rounding", "OpenCode: Token.estimate, Math.round"),
        ("counting.per", "OpenCode: a range is estimated over the JSON of its model messages"),
        ("counting.media", "Longhand: OpenCode measures the text of data URLs"),
        ("counting.usage", "OpenCode: isOverflow"),
        ("trigger.auto", "OpenCode: compaction.auto"),
        ("trigger.cooldown_seconds", "OpenCode has none"),
        ("truncate", "OpenCode truncates only what a summarizer reads"),
        ("maintenance", "OpenCode: compaction.prune is off when unset"),
        ("micro", "OpenCode has one level"),
        ("auto.threshold", "OpenCode: usable and isOverflow"),
        ("auto.notice", "OpenCode: session.compacted, without a line of its own"),
        ("auto.steps.0.summarize.tail.turns.turns", "OpenCode: compaction.tail_turns has no default"),
        ("auto.steps.0.summarize.tail.turns.budget_ratio", "OpenCode: preserveRecentBudget"),
        ("auto.steps.0.summarize.tail.turns.budget_min_tokens", "OpenCode: MIN_PRESERVE_RECENT_TOKENS"),
        ("auto.steps.0.summarize.tail.turns.budget_max_tokens", "OpenCode: MAX_PRESERVE_RECENT_TOKENS"),
        ("auto.steps.0.summarize.summary", "OpenCode: SUMMARY_TEMPLATE"),
        ("auto.steps.0.summarize.summary.max_tokens", "Longhand: OpenCode sets no limit"),
        ("auto.steps.0.summarize.summary.facts_tokens", "OpenCode has none"),
        ("auto.steps.0.summarize.summary.file_tags", "OpenCode has none: files are a section"),
        (
            "auto.steps.0.summarize.summary.split_turn_heading",
            "OpenCode has none: the front of a split turn is summarized with the rest",
        ),
        ("auto.steps.0.summarize.retained_first", "OpenCode retains nothing"),
        ("auto.steps.0.summarize.fallback", "Longhand: the built-in summarizer"),
        ("auto.stop_when_enough", "OpenCode: clearing never replaces a summary"),
        ("deep", "OpenCode has one level"),
        ("retrieval", "OpenCode has none"),
        ("auto_continue", "OpenCode: the message that follows an automatic compaction, in other words"),
        ("view.marker_text", "OpenCode: what a model reads in place of a compaction part"),
        ("view.summary_role", "OpenCode: a summary is an assistant message"),
        ("view.summary_prefix", "OpenCode has none"),
        ("view.summary_suffix", "OpenCode has none"),
        ("view.acknowledgement", "OpenCode has none"),
        ("view.resume_text", "OpenCode has none"),
        ("view.interrupted_text", "OpenCode: the error of a call that is pending or running"),
        ("guards", "Longhand: OpenCode has no guard"),
        ("guards.attempts_max", "OpenCode: five retries of a failed request"),
    ],
    policy: v1_18,
};

/// The design's text after a truncated output, in views and for a summarizer.
const OUTPUT_MARKER: &str = "\n[Tool output truncated: omitted {omitted} chars]";

/// The policy of `opencode@seed`.
pub fn seed() -> Policy {
    Policy {
        truncate: Some(Truncate::head(2_000, OUTPUT_MARKER)),
        maintenance: vec![Step::Clear(Clear {
            keep: Keep { tokens: 40_000, turns: 2, ..Keep::default() },
            minimum_tokens: 20_000,
            minimum_inclusive: false,
            protected_tools: vec!["skill".to_owned()],
            past_cleared: PastCleared::Stop,
            ends_at_summary: true,
            only_if_shorter: false,
            ..Clear::outputs("[Old tool result content cleared]")
        })],
        ..policy(SEED.name, last_turns(Some(2), 8_000), summary(seed_sections(), OUTPUT_MARKER))
    }
}

/// The policy of `opencode@1.18`.
pub fn v1_18() -> Policy {
    let prompt = PromptStyle { previous_tag: "prior-summary".to_owned(), ..PromptStyle::default() };
    policy(V1_18.name, last_turns(None, 15_000), Summary { prompt, ..summary(v1_18_sections(), "\n[truncated]") })
}

/// The common values of both versions.
fn policy(preset: &str, tail: LastTurns, summary: Summary) -> Policy {
    Policy {
        preset: preset.to_owned(),
        render_version: 1,
        counting: Counting {
            unit: LengthUnit::Utf16,
            text: TextUnits::Length,
            units_per_token: 4,
            rounding: Rounding::HalfUp,
            per: CountPer::JsonRange,
            media: MediaUnits::all(4_800),
            usage: UsageCount::Total,
        },
        trigger: Trigger { auto: true, ..Trigger::default() },
        truncate: None,
        maintenance: Vec::new(),
        micro: None,
        auto: Some(LevelPolicy {
            threshold: Threshold {
                limit: Limit::Usable { buffer_tokens: 20_000, output_cap_tokens: 32_000 },
                inclusive: true,
                minimum_tokens: 0,
            },
            notice: Notice::None,
            steps: vec![Step::Summarize(Box::new(Summarize {
                tail: Tail::Turns(tail),
                summary,
                retained_first: false,
                minimum_messages: 0,
                fallback: Vec::new(),
            }))],
            stop_when_enough: false,
        }),
        deep: None,
        retrieval: None,
        auto_continue: Some(
            "Go on with what is left to do. If nothing is left, or you are not sure how to go on, stop and say so."
                .to_owned(),
        ),
        view: ViewStyle {
            marker_text: Some("What did we do so far?".to_owned()),
            summary_role: SummaryRole::Assistant,
            summary_prefix: String::new(),
            summary_suffix: String::new(),
            acknowledgement: None,
            resume_text: None,
            interrupted_text: "[Tool execution was interrupted]".to_owned(),
        },
        guards: Guards { breaker_failures: 3, breaker_turns: 3, attempts_max: 6, ..Guards::default() },
    }
}

fn last_turns(turns: Option<u32>, budget_max_tokens: i64) -> LastTurns {
    LastTurns { turns, budget_ratio: 0.25, budget_min_tokens: 2_000, budget_max_tokens }
}

fn summary(sections: Vec<Section>, output_marker: &str) -> Summary {
    Summary {
        format: SummaryFormat::Headings,
        sections,
        filler: "(none)".to_owned(),
        max_tokens: 3_600,
        file_tags: false,
        file_tools: FileTools::Any,
        split_turn_heading: None,
        carry_previous: true,
        verify: false,
        transcript: Transcript {
            form: TranscriptForm::Paired,
            output_units: 2_000,
            output_marker: output_marker.to_owned(),
            reasoning: true,
            media_note: "[Attached {mime}: {name}]".to_owned(),
        },
        attachments: None,
        prompt: PromptStyle::default(),
        facts_tokens: 0,
        contradictions: Contradictions::Report,
    }
}

fn section(heading: &str, holds: Option<Topic>, bullet: Bullet) -> Section {
    Section { heading: heading.to_owned(), holds, bullet }
}

fn seed_sections() -> Vec<Section> {
    vec![
        section("## Goal", Some(Topic::Goal), Bullet::Dash),
        section("## Constraints & Preferences", Some(Topic::Constraints), Bullet::Dash),
        section("## Progress", None, Bullet::Dash),
        section("### Done", Some(Topic::Done), Bullet::Dash),
        section("### In Progress", Some(Topic::InProgress), Bullet::Dash),
        section("### Blocked", Some(Topic::Blocked), Bullet::Dash),
        section("## Key Decisions", Some(Topic::Decisions), Bullet::Dash),
        section("## Next Steps", Some(Topic::NextSteps), Bullet::Dash),
        section("## Critical Context", Some(Topic::Context), Bullet::Dash),
        section("## Relevant Files", Some(Topic::Files), Bullet::Dash),
    ]
}

/// Constraints and decisions have no section of their own: they belong to the important details.
fn v1_18_sections() -> Vec<Section> {
    vec![
        section("## Objective", Some(Topic::Goal), Bullet::Dash),
        section("## Important Details", Some(Topic::Context), Bullet::Dash),
        section("## Work State", None, Bullet::Dash),
        section("### Completed", Some(Topic::Done), Bullet::Dash),
        section("### Active", Some(Topic::InProgress), Bullet::Dash),
        section("### Blocked", Some(Topic::Blocked), Bullet::Dash),
        section("## Next Move", Some(Topic::NextSteps), Bullet::Number),
        section("## Relevant Files", Some(Topic::Files), Bullet::Dash),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// The paths at which two values differ.
    fn differences(path: &str, left: &Value, right: &Value) -> Vec<String> {
        match (left, right) {
            (Value::Object(left), Value::Object(right)) if left.keys().eq(right.keys()) => {
                let pairs = left.iter().zip(right.values());
                pairs.flat_map(|((name, left), right)| differences(&format!("{path}.{name}"), left, right)).collect()
            }
            (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
                let pairs = left.iter().zip(right).enumerate();
                pairs.flat_map(|(at, (left, right))| differences(&format!("{path}.{at}"), left, right)).collect()
            }
            _ if left == right => Vec::new(),
            _ => vec![path.to_owned()],
        }
    }

    #[test]
    fn the_versions_differ_in_these_values_only() {
        let [seed, newer] = [seed(), v1_18()].map(|policy| serde_json::to_value(policy).expect("a policy is JSON"));
        let rule = ".auto.steps.0.summarize";
        let tail = format!("{rule}.tail.turns");
        assert_eq!(
            differences("", &seed, &newer),
            [
                ".preset",
                ".truncate",
                ".maintenance",
                &format!("{tail}.turns"),
                &format!("{tail}.budget_max_tokens"),
                &format!("{rule}.summary.sections"),
                &format!("{rule}.summary.transcript.output_marker"),
                &format!("{rule}.summary.prompt.previous_tag"),
            ]
        );
    }

    #[test]
    fn the_newer_version_clears_once_it_is_configured() {
        let patch = json!({ "maintenance": seed().maintenance });
        let policy = v1_18().with_overrides(&patch.to_string()).expect("the seed's rule is valid");
        assert_eq!((policy.maintenance, v1_18().maintenance), (seed().maintenance, Vec::new()));
    }
}
