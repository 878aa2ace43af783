//! Tests of `claude-code@seed` against the document on Claude Code's three levels.

use super::{Stage, check, deviates, in_order, noticed, row};
use crate::dsl;
use crate::model::compaction::Level;
use crate::model::layout::Layout;
use crate::model::time::Timestamp;
use crate::model::usage::ModelWindow;
use crate::policy::plan;
use std::collections::BTreeMap;

const PRESET: &str = "claude-code@seed";

fn stage() -> Stage {
    Stage::new(PRESET, 200_000)
}

/// A turn with a long request and the output of a file read, and the given number of short turns after it; the last
/// reply reports this usage in tokens.
fn talk(turns: usize, usage: i64) -> String {
    let lines = vec!["l"; 40_000].join("\\n");
    let behind: String = (2..2 + turns).map(|turn| format!("\nu{turn} \"x\"\na{turn} \"y\"")).collect();
    format!(
        "u1 20000t\na1\n  reasoning \"hm\"\n  tool Read#c1 in={{\"file_path\": \"src/main.tsx\"}} out=\"{lines}\" done\n\
         a1b \"read\"{behind} usage={usage}/0"
    )
}

#[test]
fn three_levels_each_strictly_above_its_share() {
    let rows = [
        row("micro above 55 %", [(talk(12, 110_000), ""), (talk(12, 110_001), "micro prune")]),
        row("auto above 75 %", [(talk(12, 150_000), "micro prune"), (talk(12, 150_001), "auto summary")]),
        row("dream above 90 %", [(talk(12, 180_000), "auto summary"), (talk(12, 180_001), "deep summary")]),
    ];
    check(|talk| stage().play(talk).compactions, &rows);
    let million = Stage::new(PRESET, 1_000_000).with(r#"{"guards": {"minimum_gain_tokens": 1}}"#);
    for (usage, expected) in [(550_000, ""), (550_001, "micro prune"), (750_001, "auto summary")] {
        assert_eq!(million.play(&talk(12, usage)).compactions, expected, "a share of any window: {usage}");
    }
}

#[test]
fn micro_keeps_what_was_said_and_the_outputs_of_ten_turns() {
    let rows =
        [row("the outputs of the last 10 turns stay", [(talk(9, 110_001), ""), (talk(10, 110_001), "micro prune")])];
    check(|talk| stage().play(talk).compactions, &rows);
    let played = stage().play(&talk(10, 110_001));
    assert_eq!(
        played.outputs["c1"],
        "[Tool output compressed: Read of src/main.tsx (40000 lines)]\nUse Read again with offset/limit to get specific \
         sections."
    );
    assert_eq!(played.shown.split(' ').count(), 23, "every request and every reply is there");
    assert_eq!(played.view.messages[0].parts.len(), 1);
    assert!(format!("{:?}", played.view).contains("hm"), "thoughts stay");
    assert!(played.asked.is_empty(), "no model is asked");
    deviates(PRESET, &["The two lines name the path as the call has it", "A turn begins with a request"]);
}

#[test]
fn micro_replaces_what_is_longer_than_its_lines() {
    let of = |output: &str| {
        talk(10, 110_001)
            .replace("done", output)
            .replace("u2 \"x\"", "u2 \"x\"\na2b\n  tool Read#c2 in={\"path\": \"a\"} out=\"z\" done")
    };
    for output in ["done", "error"] {
        let played = stage().play(&of(output));
        assert!(played.outputs["c1"].starts_with("[Tool output compressed: Read"), "{output}");
        assert_eq!(played.outputs["c2"], "z", "shorter than the lines");
    }
    deviates(PRESET, &["An output that is no longer than the two lines"]);
}

#[test]
fn auto_is_a_summary_and_the_last_ten_messages() {
    let played = stage().play(&talk(12, 150_001));
    assert_eq!(played.shown, "summary u9 a9 u10 a10 u11 a11 u12 a12 u13 a13");
    assert_eq!(played.texts()[0], "<conversation-summary>\nSUMMARY1\n</conversation-summary>");
    assert_eq!(played.view.messages[0].role, crate::model::message::Role::User);
    let user = played.prompt(0).user;
    in_order(&user, &["## Goal", "## Progress", "## Critical Context", "## Next Steps"]);
    for kept in
        ["preferences", "decisions and their reasons", "modified files", "errors", "open questions and blockers"]
    {
        assert!(user.contains(kept), "{kept}: to be preserved");
    }
    assert_eq!(user.lines().filter(|line| line.starts_with('#')).count(), 4, "the headings of the document");
    assert!(user.contains("further headings") && !user.contains("no other"), "and room below them");
    in_order(&user, &["Leave out", "outputs", "repeat", "maintenance"]);
    assert!(played.prompt(0).system.contains("<summary>"), "the answer stands in an element");
    deviates(PRESET, &["Which model writes a summary is the summarizer's business", "A result never parts"]);
}

#[test]
fn dream_is_a_report_on_everything() {
    let played = stage().play(&talk(12, 180_001));
    assert_eq!(played.shown, "summary");
    let user = played.prompt(0).user;
    in_order(
        &user,
        &[
            "# Session Summary (Dream Compact)",
            "## Primary Goal",
            "## Completed",
            "## In Progress",
            "## Critical Files",
            "## Open Decisions",
            "## Next Steps\n1. ",
        ],
    );
    in_order(&user, &["## Open Decisions", "what is not decided yet", "## Next Steps"]);
    in_order(&user, &["REWRITTEN", "IN PROGRESS", "NEW"]);
    deviates(PRESET, &["The highest level waits a minute for an answer"]);
}

#[test]
fn the_levels_say_more_the_higher_they_are() {
    let policy = stage().policy;
    let words = |level| match policy.level(level).map(|level_policy| &level_policy.notice) {
        Some(crate::policy::Notice::Inform { text } | crate::policy::Notice::Confirm { text, .. }) => {
            text.replace("{percent}", "75")
        }
        Some(crate::policy::Notice::None) | None => String::new(),
    };
    assert_eq!(words(Level::Micro), "", "no notice");
    assert_eq!(words(Level::Auto), "--- Conversation compacted to save context (75% full) ---");
    assert!(words(Level::Deep).ends_with('?'), "the user is asked");
}

#[test]
fn a_cooldown_keeps_the_levels_apart() {
    // A long request is summarized once it is answered, and so is the next one, at a later time.
    let first = "u1 150001t\na1 \"y\"\n";
    for (seconds, next, expected) in [
        (0, "u20 150001t\na20 \"y\"", "auto summary"),
        (59, "u20 150001t\na20 \"y\"", "auto summary"),
        (60, "u20 150001t\na20 \"y\"", "auto summary, auto summary"),
        (59, "u20 \"x\"\na20 200001t", "auto summary, deep summary"),
    ] {
        let stage = Stage { times: BTreeMap::from([("u20", seconds)]), ..stage() };
        assert_eq!(stage.play(&format!("{first}{next}")).compactions, expected, "after {seconds} seconds: {next}");
    }
}

#[test]
fn a_summary_that_fails_leaves_the_last_twenty_messages() {
    let stage = Stage { summary: "x".repeat(800_000), ..stage() };
    let played = stage.play(&talk(12, 150_001));
    let last: Vec<String> = (4..14).flat_map(|turn| [format!("u{turn}"), format!("a{turn}")]).collect();
    assert_eq!((played.compactions.as_str(), played.shown), ("auto omission", last.join(" ")));
    deviates(PRESET, &["When a summary fails, everything but the last 20 messages is left out by marks"]);
}

#[test]
fn the_fallback_of_both_levels_leaves_the_last_twenty_messages() {
    let policy = stage().policy;
    let text: String = (1..=14).map(|turn| format!("u{turn} \"x\"\na{turn} \"y\"\n")).collect();
    let planning = plan::PlanningInput {
        policy: &policy,
        window: &ModelWindow::default(),
        layout: &Layout::everything(),
        sources: &dsl::parse(&text),
        covered: &[],
        base: 28,
        now: Timestamp(0),
    };
    for level in [Level::Auto, Level::Deep] {
        let rule = policy.summarize(level).expect("a summary");
        let work = plan::fallback(planning, &rule.fallback);
        assert_eq!(work.removals.omitted, (1..=8).collect::<Vec<_>>());
    }
}

#[test]
fn another_value_is_noticed() {
    let patches: [(&str, fn()); 11] = [
        (r#"{"micro": {"threshold": {"limit": {"ratio": 0.550001}}}}"#, three_levels_each_strictly_above_its_share),
        (r#"{"auto": {"threshold": {"limit": {"ratio": 0.749999}}}}"#, three_levels_each_strictly_above_its_share),
        (r#"{"deep": {"threshold": {"inclusive": true}}}"#, three_levels_each_strictly_above_its_share),
        (
            r#"{"micro": {"steps": {"0": {"prune": {"keep": {"turns": 11}}}}}}"#,
            micro_keeps_what_was_said_and_the_outputs_of_ten_turns,
        ),
        (
            r#"{"auto": {"steps": {"0": {"summarize": {"tail": {"last": {"messages": 11}}}}}}}"#,
            auto_is_a_summary_and_the_last_ten_messages,
        ),
        (r#"{"view": {"summary_role": "assistant"}}"#, auto_is_a_summary_and_the_last_ten_messages),
        (
            r#"{"auto": {"steps": {"0": {"summarize": {"summary": {"prompt": {"rules": null}}}}}}}"#,
            auto_is_a_summary_and_the_last_ten_messages,
        ),
        (
            r#"{"auto": {"steps": {"0": {"summarize": {"summary": {"prompt": {"subheadings": false}}}}}}}"#,
            auto_is_a_summary_and_the_last_ten_messages,
        ),
        (
            r#"{"deep": {"steps": {"0": {"summarize": {"tail": {"last": {"messages": 1}}}}}}}"#,
            dream_is_a_report_on_everything,
        ),
        (r#"{"guards": {"cooldown_seconds": 59}}"#, a_cooldown_keeps_the_levels_apart),
        (
            r#"{"auto": {"steps": {"0": {"summarize": {"fallback": {"0": {"last": {"messages": 21}}}}}}}}"#,
            a_summary_that_fails_leaves_the_last_twenty_messages,
        ),
    ];
    noticed(PRESET, &patches);
}
