//! Claude Code: three levels according to its published design, and the observed behaviour of the product.
//!
//! The design calls its highest level dream; here it is the deep level.

use super::preset::Preset;
use crate::policy::LastMessages;
use crate::policy::{
    Bullet, Counting, Guards, LevelPolicy, Limit, MediaUnits, Notice, Omission, Policy, PromptStyle, Prune, Section,
    Step, Summarize, Summary, Tail, Threshold, Topic, Transcript, UsageCount, ViewStyle,
};
use crate::policy::{Count, Hint, Keep, Placeholder, Replacement};

const UNANSWERED: &str = "The last request, results that no reply has read, open messages and running calls are never \
                          summarized, cleared or left out.";
const PAIRS: &str = "A result never parts from its call, so a few more or fewer messages than asked for can stay.";

/// `claude-code@seed`.
pub const SEED: Preset = Preset {
    name: "claude-code@seed",
    description: "Claude Code's three tiers: clears old outputs at 55%, summarizes at 75%, reports at 90%.",
    own_deviations: &[
        UNANSWERED,
        PAIRS,
        "An output that is no longer than the two lines that replace it stays.",
        "The two lines name the path as the call has it; the design's example shows the file's name alone.",
        "The summary goes on from the one before it, which the design passes through like any other message.",
        "Which model writes a summary is the summarizer's business; the design names a cheap one for the middle rung \
         and a strong one for the highest.",
        "When a summary fails, everything but the last 20 messages is left out by marks, and can be read again; the \
         design drops it.",
        "The highest level waits a minute for an answer and then goes on; the design does not say how long.",
        "A turn begins with a request, however many calls are made for it; the design's example counts each call as one.",
        "The cooldown is a minute, which an exceeded window does not wait for; the design names no length.",
    ],
    sources: &[
        ("preset", "this preset's name"),
        ("counting", "Longhand: the design takes the tokens of the last reply and estimates nothing"),
        ("trigger.auto", "Claude Code's design: it is checked after every turn"),
        ("guards.cooldown_seconds", "Longhand: the design has a cooldown and names no length"),
        ("maintenance", "Claude Code's design: nothing happens below the lowest level"),
        ("micro", "Claude Code's design: micro compact"),
        ("micro.steps.0.prune.keep.turns", "Claude Code's design: the outputs of the last 10 turns stay"),
        ("micro.steps.0.prune.replacement", "Claude Code's design: the two lines in place of an output"),
        ("micro.steps.0.prune.only_if_shorter", "Longhand: clearing must free something"),
        ("auto", "Claude Code's design: auto compact"),
        ("auto.steps.0.summarize.summary.max_tokens", "Longhand: the design sets no limit"),
        ("auto.steps.0.summarize.summary.carry_previous", "Longhand: old facts must not fade"),
        ("auto.steps.0.summarize.fallback", "Claude Code's design: a failed summary leaves the last 20 messages"),
        ("deep", "Claude Code's design: dream compact"),
        ("deep.notice.confirm.wait_seconds", "Longhand: the design does not say how long it waits"),
        ("deep.steps.0.summarize.summary.max_tokens", "Longhand: the design sets no limit"),
        ("deep.steps.0.summarize.fallback", "Claude Code's design: a failed summary leaves the last 20 messages"),
        ("view", "Claude Code's design: the summary is a user message in an element"),
        ("view.interrupted_text", "Longhand's wording"),
        ("guards", "Longhand: the design has the cooldown only"),
    ],
    policy: seed,
};

/// `claude-code@observed`.
pub const OBSERVED: Preset = Preset {
    name: "claude-code@observed",
    description: "Claude Code as observed: 33000 tokens before the end it clears old outputs, then summarizes all.",
    own_deviations: &[
        UNANSWERED,
        "Which outputs are cleared is not public; here the vendor's default for its own interface is taken.",
        "What the client reads anew from disk after a compaction (instructions, memory, skills) is its own business.",
        "In a window of less than 66000 tokens it is due at half; the product's reserve would leave next to nothing.",
        "Partial compaction, from a message that somebody chooses, is a request by hand with a boundary.",
        "A conversation that is still too long after a failed compaction is shortened; the product stops there.",
    ],
    sources: &[
        ("preset", "this preset's name"),
        ("counting", "Longhand: the product's estimate is not public"),
        ("counting.usage", "Claude Code's transcripts: input and both cache counts of the last reply"),
        ("trigger.auto", "Claude Code: autoCompactEnabled"),
        ("truncate", "not public"),
        ("maintenance", "not public: what its micro compaction clears, and when"),
        ("micro", "not public: what its micro compaction clears, and when"),
        ("auto", "Claude Code: one automatic compaction"),
        ("auto.threshold", "Claude Code: its debug line, effective window = window - 20000, threshold = that - 13000"),
        ("auto.threshold.limit.buffered.floor_ratio", "Longhand: a small window must not be due at once"),
        ("auto.notice", "Claude Code: the words of its boundary line"),
        ("auto.steps.0.prune", "Claude Code's documentation, as quoted: old outputs are cleared before summarizing"),
        ("auto.steps.0.prune.keep", "Anthropic: default of clear_tool_uses_20250919"),
        ("auto.steps.0.prune.minimum_tokens", "Longhand: less is not worth a new prefix"),
        ("auto.steps.0.prune.replacement", "Longhand's wording"),
        ("auto.steps.1.summarize", "Claude Code's documentation: a structured summary replaces the conversation"),
        ("auto.steps.1.summarize.summary", "Longhand's wording: the prompt is not public"),
        ("auto.stop_when_enough", "Claude Code's documentation, as quoted: it summarizes if needed"),
        ("deep", "Claude Code has one automatic compaction"),
        ("view", "Claude Code's transcripts: a summary is a user message"),
        ("view.summary_prefix", "Claude Code's transcripts: how its summaries begin; the rest is Longhand's wording"),
        ("view.interrupted_text", "Longhand's wording"),
        ("guards", "Longhand"),
        ("guards.breaker_failures", "Claude Code: the message about thrashing, 3 times in a row"),
        ("guards.breaker_turns", "Claude Code: the message about thrashing, within 3 turns"),
    ],
    policy: observed,
};

/// The policy of `claude-code@seed`.
pub fn seed() -> Policy {
    Policy {
        preset: SEED.name.to_owned(),
        counting: counting(UsageCount::Total),
        micro: Some(LevelPolicy::new(
            above(0.55),
            vec![Step::Prune(Prune {
                keep: Keep { turns: 10, ..Keep::default() },
                replacement: Replacement::Placeholder(Placeholder { text: two_lines(), hints: hints() }),
                ..Prune::outputs("")
            })],
        )),
        auto: Some(LevelPolicy {
            notice: Notice::Inform {
                text: "--- Conversation compacted to save context ({percent}% full) ---".to_owned(),
            },
            ..LevelPolicy::new(
                above(0.75),
                vec![summarize(
                    Tail::Last(LastMessages { messages: 10 }),
                    in_tags(summary(auto_sections(), 3_600)),
                    last_20(),
                )],
            )
        }),
        deep: Some(LevelPolicy {
            notice: Notice::Confirm {
                text: "The context is {percent}% full. Rewrite the conversation as a report and go on from there?"
                    .to_owned(),
                wait_seconds: 60,
            },
            ..LevelPolicy::new(
                above(0.9),
                vec![summarize(Tail::Nothing, report(summary(report_sections(), 8_000)), last_20())],
            )
        }),
        view: view("<conversation-summary>\n", "\n</conversation-summary>"),
        guards: Guards { cooldown_seconds: 60, ..Guards::default() },
        ..Policy::default()
    }
}

/// The policy of `claude-code@observed`.
pub fn observed() -> Policy {
    Policy {
        preset: OBSERVED.name.to_owned(),
        counting: counting(UsageCount::Prompt),
        auto: Some(LevelPolicy {
            notice: Notice::Inform { text: "Conversation compacted".to_owned() },
            stop_when_enough: true,
            ..LevelPolicy::new(
                Threshold::at(Limit::Buffered { ratio: 1.0, reserve_tokens: 20_000 + 13_000, floor_ratio: 0.5 }),
                vec![
                    Step::Prune(Prune {
                        keep: Keep { parts: Count::Fixed(3), ..Keep::default() },
                        minimum_tokens: 20_000,
                        ..Prune::outputs("[Old output of {tool} cleared]")
                    }),
                    summarize(Tail::Nothing, summary(observed_sections(), 8_000), Vec::new()),
                ],
            )
        }),
        view: view(
            "This session is being continued from a previous conversation that ran out of context. What happened in it \
             is summed up here:\n\n",
            "",
        ),
        ..Policy::default()
    }
}

fn counting(usage: UsageCount) -> Counting {
    Counting { media: MediaUnits::all(6_400), usage, ..Counting::default() }
}

/// A threshold strictly above a share of the window.
fn above(ratio: f64) -> Threshold {
    Threshold::above(Limit::Ratio(ratio))
}

fn two_lines() -> String {
    "[Tool output compressed: {tool} of {target} ({lines} lines)]\n{hint}".to_owned()
}

/// Hints how to get an output again, by kind of tool.
fn hints() -> Vec<Hint> {
    let hint = |tools: &[&str], text: &str| Hint {
        tools: tools.iter().map(|&tool| tool.to_owned()).collect(),
        text: text.to_owned(),
    };
    vec![
        hint(
            &["Read", "read", "read_file", "NotebookRead"],
            "Use {tool} again with offset/limit to get specific sections.",
        ),
        hint(&["Grep", "grep", "Glob", "glob", "LS", "ls"], "Use {tool} again with a narrower pattern or path."),
        hint(
            &["Bash", "bash", "shell", "run_shell_command"],
            "Run it again if it changes nothing, and only for the lines that matter.",
        ),
        hint(
            &["Edit", "Write", "MultiEdit", "edit", "write", "edit_file", "write_file"],
            "Read the file to see it now.",
        ),
        hint(&["WebFetch", "WebSearch", "web_fetch", "web_search"], "Use {tool} again for what matters now."),
        hint(&[], "Use {tool} again if its output is needed."),
    ]
}

fn summarize(tail: Tail, summary: Summary, fallback: Vec<Omission>) -> Step {
    Step::Summarize(Box::new(Summarize { tail, summary, fallback, ..Summarize::default() }))
}

fn last_20() -> Vec<Omission> {
    vec![Omission::Last(LastMessages { messages: 20 })]
}

fn summary(sections: Vec<Section>, max_tokens: i64) -> Summary {
    Summary {
        sections,
        max_tokens,
        transcript: Transcript { output_units: 2_000, reasoning: true, ..Transcript::default() },
        ..Summary::default()
    }
}

/// A summary that the model writes between the tags of the design; the view has other tags.
fn in_tags(summary: Summary) -> Summary {
    let rules = vec![
        "Leave out long outputs of tools, what only repeats something else, and maintenance operations.".to_owned(),
        "Paths of modified files are absolute.".to_owned(),
    ];
    Summary { prompt: PromptStyle { answer_tag: Some("summary".to_owned()), rules, ..summary.prompt }, ..summary }
}

/// A report with the state of each file.
fn report(summary: Summary) -> Summary {
    let rules = vec!["Behind each critical file stands REWRITTEN, IN PROGRESS or NEW.".to_owned()];
    Summary { prompt: PromptStyle { rules, ..summary.prompt }, ..summary }
}

/// The four sections of the design, with a heading for each topic that the design preserves.
fn auto_sections() -> Vec<Section> {
    vec![
        Section::new("## Goal", Topic::Goal),
        Section::new("### Preferences", Topic::Constraints),
        Section::new("## Progress", Topic::Done),
        Section::new("### Modified Files", Topic::Files),
        Section::new("## Critical Context", Topic::Context),
        Section::new("### Decisions and Reasons", Topic::Decisions),
        Section::new("### Open Questions and Blockers", Topic::Blocked),
        Section::new("## Next Steps", Topic::NextSteps),
    ]
}

fn report_sections() -> Vec<Section> {
    vec![
        Section::new("# Session Summary (Dream Compact)", None),
        Section::new("## Primary Goal", Topic::Goal),
        Section::new("## Completed", Topic::Done),
        Section::new("## In Progress", Topic::InProgress),
        Section::new("## Critical Files", Topic::Files),
        Section::new("## Open Decisions", Topic::Decisions),
        Section::new("## Next Steps", Topic::NextSteps).with(Bullet::Number),
    ]
}

fn observed_sections() -> Vec<Section> {
    vec![
        Section::new("## What the user wants", Topic::Goal),
        Section::new("## What the user insisted on", Topic::Constraints),
        Section::new("## Decisions", Topic::Decisions),
        Section::new("## Files", Topic::Files),
        Section::new("## Done", Topic::Done),
        Section::new("## In progress", Topic::InProgress),
        Section::new("## Facts and errors", Topic::Context),
        Section::new("## Next steps", Topic::NextSteps),
    ]
}

fn view(summary_prefix: &str, summary_suffix: &str) -> ViewStyle {
    ViewStyle {
        summary_prefix: summary_prefix.to_owned(),
        summary_suffix: summary_suffix.to_owned(),
        ..ViewStyle::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::layout::Layout;
    use crate::model::time::Timestamp;
    use crate::model::usage::ModelWindow;
    use crate::policy::{dsl, plan};

    #[test]
    fn a_failed_summary_leaves_the_last_twenty_messages() {
        let policy = seed();
        let text: String = (1..=14).map(|turn| format!("u{turn} \"x\"\na{turn} \"y\"\n")).collect();
        let messages = dsl::parse(&text);
        let planning = plan::PlanningInput {
            policy: &policy,
            window: &ModelWindow::default(),
            layout: &Layout::everything(),
            sources: &messages,
            base: 28,
            now: Timestamp(0),
        };
        for level_policy in [&policy.auto, &policy.deep] {
            let Some(Step::Summarize(rule)) = level_policy.as_ref().and_then(|level_policy| level_policy.steps.first())
            else {
                panic!("a summary");
            };
            let work = plan::fallback(planning, &rule.fallback);
            assert_eq!(work.removals.omitted, (1..=8).collect::<Vec<_>>());
        }
    }
}
