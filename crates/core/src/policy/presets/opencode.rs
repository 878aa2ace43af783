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
    Bullet, CountPer, Counting, Guards, LevelPolicy, Limit, Policy, Prune, Rounding, Section, Step, Summarize, Summary,
    SummaryRole, Tail, Threshold, Topic, Transcript, Truncate, ViewStyle,
};
use crate::policy::{Keep, Tools, Walk};

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
        ("counting.unit", "OpenCode: JavaScript string length"),
        ("counting.text", "OpenCode: Token.estimate"),
        ("counting.units_per_token", "OpenCode: Token.estimate"),
        ("counting.rounding", "OpenCode: Token.estimate, Math.round"),
        ("counting.per", "OpenCode: a range is estimated over the JSON of its model messages"),
        ("counting.media", "Longhand: OpenCode measures the text of data URLs"),
        ("counting.usage", "OpenCode: isOverflow"),
        ("trigger.auto", "OpenCode: compaction.auto"),
        ("truncate", "OpenCode: truncateToolOutput"),
        ("maintenance.0.prune", "OpenCode: the prune walk"),
        ("maintenance.0.prune.keep.tokens", "OpenCode: PRUNE_PROTECT"),
        ("maintenance.0.prune.keep.turns", "OpenCode: the prune walk skips the last two turns"),
        ("maintenance.0.prune.minimum_tokens", "OpenCode: PRUNE_MINIMUM"),
        ("maintenance.0.prune.tools", "OpenCode: PRUNE_PROTECTED_TOOLS"),
        ("maintenance.0.prune.replacement", "OpenCode: what a model reads in place of a cleared output"),
        ("auto.threshold", "OpenCode: usable and isOverflow"),
        ("auto.notice", "OpenCode: session.compacted, without a line of its own"),
        ("auto.steps.0.summarize.tail.turns.turns", "OpenCode: DEFAULT_TAIL_TURNS"),
        ("auto.steps.0.summarize.tail.turns.budget_ratio", "OpenCode: preserveRecentBudget"),
        ("auto.steps.0.summarize.tail.turns.minimum_budget_tokens", "OpenCode: MIN_PRESERVE_RECENT_TOKENS"),
        ("auto.steps.0.summarize.tail.turns.max_budget_tokens", "OpenCode: MAX_PRESERVE_RECENT_TOKENS"),
        ("auto.steps.0.summarize.summary", "OpenCode: SUMMARY_TEMPLATE"),
        ("auto.steps.0.summarize.summary.max_tokens", "Longhand: OpenCode sets no limit"),
        ("auto.steps.0.summarize.summary.file_lists", "OpenCode has none: files are a section"),
        (
            "auto.steps.0.summarize.summary.split_turn",
            "OpenCode has none: the front of a split turn is summarized with the rest",
        ),
        ("auto.steps.0.summarize.fallback", "Longhand: the built-in summarizer"),
        ("auto.stop_when_enough", "OpenCode: clearing never replaces a summary"),
        ("auto_continue", "OpenCode: the message that follows an automatic compaction, in other words"),
        ("view.marker_text", "OpenCode: what a model reads in place of a compaction part"),
        ("view.summary_role", "OpenCode: a summary is an assistant message"),
        ("view.interrupted_text", "OpenCode: the error of a call that is pending or running"),
        ("guards", "Longhand: OpenCode has no guard"),
        ("guards.max_attempts", "OpenCode: five retries of a failed request"),
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
        ("counting.unit", "OpenCode: JavaScript string length"),
        ("counting.text", "OpenCode: Token.estimate"),
        ("counting.units_per_token", "OpenCode: Token.estimate"),
        ("counting.rounding", "OpenCode: Token.estimate, Math.round"),
        ("counting.per", "OpenCode: a range is estimated over the JSON of its model messages"),
        ("counting.media", "Longhand: OpenCode measures the text of data URLs"),
        ("counting.usage", "OpenCode: isOverflow"),
        ("trigger.auto", "OpenCode: compaction.auto"),
        ("truncate", "OpenCode truncates only what a summarizer reads"),
        ("maintenance", "OpenCode: compaction.prune is off when unset"),
        ("auto.threshold", "OpenCode: usable and isOverflow"),
        ("auto.notice", "OpenCode: session.compacted, without a line of its own"),
        ("auto.steps.0.summarize.tail.turns.turns", "OpenCode: compaction.tail_turns has no default"),
        ("auto.steps.0.summarize.tail.turns.budget_ratio", "OpenCode: preserveRecentBudget"),
        ("auto.steps.0.summarize.tail.turns.minimum_budget_tokens", "OpenCode: MIN_PRESERVE_RECENT_TOKENS"),
        ("auto.steps.0.summarize.tail.turns.max_budget_tokens", "OpenCode: MAX_PRESERVE_RECENT_TOKENS"),
        ("auto.steps.0.summarize.summary", "OpenCode: SUMMARY_TEMPLATE"),
        ("auto.steps.0.summarize.summary.max_tokens", "Longhand: OpenCode sets no limit"),
        ("auto.steps.0.summarize.summary.file_lists", "OpenCode has none: files are a section"),
        (
            "auto.steps.0.summarize.summary.split_turn",
            "OpenCode has none: the front of a split turn is summarized with the rest",
        ),
        ("auto.steps.0.summarize.fallback", "Longhand: the built-in summarizer"),
        ("auto.stop_when_enough", "OpenCode: clearing never replaces a summary"),
        ("auto_continue", "OpenCode: the message that follows an automatic compaction, in other words"),
        ("view.marker_text", "OpenCode: what a model reads in place of a compaction part"),
        ("view.summary_role", "OpenCode: a summary is an assistant message"),
        ("view.interrupted_text", "OpenCode: the error of a call that is pending or running"),
        ("guards", "Longhand: OpenCode has no guard"),
        ("guards.max_attempts", "OpenCode: five retries of a failed request"),
    ],
    policy: v1_18,
};

/// The design's text after a truncated output, in views and for a summarizer.
const OUTPUT_MARKER: &str = "\n[Tool output truncated: omitted {omitted} chars]";

/// The policy of `opencode@seed`.
pub fn seed() -> Policy {
    Policy {
        truncate: Some(Truncate::head(2_000, OUTPUT_MARKER)),
        maintenance: vec![Step::Prune(Prune {
            keep: Keep { tokens: 40_000, turns: 2, ..Keep::default() },
            // OpenCode prunes more than 20 000 tokens.
            minimum_tokens: 20_001,
            tools: Tools::Except(vec!["skill".to_owned()]),
            walk: Walk::UntilPruned,
            only_if_shorter: false,
            ..Prune::outputs("[Old tool result content cleared]")
        })],
        ..policy(SEED.name, last_turns(Some(2), 8_000), summary(seed_sections(), OUTPUT_MARKER))
    }
}

/// The policy of `opencode@1.18`.
pub fn v1_18() -> Policy {
    policy(V1_18.name, last_turns(None, 15_000), summary(v1_18_sections(), "\n[truncated]"))
}

/// The common values of both versions.
fn policy(preset: &str, tail: LastTurns, summary: Summary) -> Policy {
    Policy {
        preset: preset.to_owned(),
        counting: Counting { rounding: Rounding::HalfUp, per: CountPer::JsonRange, ..Counting::default() },
        auto: Some(LevelPolicy::new(
            Threshold::at(Limit::Usable { buffer_tokens: 20_000, output_cap_tokens: 32_000 }),
            vec![Step::Summarize(Box::new(Summarize { tail: Tail::Turns(tail), summary, ..Summarize::default() }))],
        )),
        auto_continue: Some(
            "Go on with what is left to do. If nothing is left, or you are not sure how to go on, stop and say so."
                .to_owned(),
        ),
        view: ViewStyle {
            marker_text: Some("What did we do so far?".to_owned()),
            summary_role: SummaryRole::Assistant,
            interrupted_text: "[Tool execution was interrupted]".to_owned(),
            ..ViewStyle::default()
        },
        guards: Guards { max_attempts: 6, ..Guards::default() },
        ..Policy::default()
    }
}

fn last_turns(turns: Option<u32>, max_budget_tokens: i64) -> LastTurns {
    LastTurns { turns, budget_ratio: 0.25, minimum_budget_tokens: 2_000, max_budget_tokens }
}

fn summary(sections: Vec<Section>, output_marker: &str) -> Summary {
    Summary {
        sections,
        max_tokens: 3_600,
        transcript: Transcript {
            output_units: 2_000,
            output_marker: output_marker.to_owned(),
            reasoning: true,
            ..Transcript::default()
        },
        ..Summary::default()
    }
}

fn seed_sections() -> Vec<Section> {
    vec![
        Section::new("## Goal", Topic::Goal),
        Section::new("## Constraints & Preferences", Topic::Constraints),
        Section::new("## Progress", None),
        Section::new("### Done", Topic::Done),
        Section::new("### In Progress", Topic::InProgress),
        Section::new("### Blocked", Topic::Blocked),
        Section::new("## Key Decisions", Topic::Decisions),
        Section::new("## Next Steps", Topic::NextSteps),
        Section::new("## Critical Context", Topic::Context),
        Section::new("## Relevant Files", Topic::Files),
    ]
}

/// Constraints and decisions have no section of their own: they belong to the important details.
fn v1_18_sections() -> Vec<Section> {
    vec![
        Section::new("## Objective", Topic::Goal),
        Section::new("## Important Details", Topic::Context),
        Section::new("## Work State", None),
        Section::new("### Completed", Topic::Done),
        Section::new("### Active", Topic::InProgress),
        Section::new("### Blocked", Topic::Blocked),
        Section::new("## Next Move", Topic::NextSteps).with(Bullet::Number),
        Section::new("## Relevant Files", Topic::Files),
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
                &format!("{tail}.max_budget_tokens"),
                &format!("{rule}.summary.sections"),
                &format!("{rule}.summary.transcript.output_marker"),
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
