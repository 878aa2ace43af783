//! Tests of `opencode@seed` against the document on OpenCode, by its five strategies and the parts of its summary.

use super::{Row, Stage, check, deviates, dsl, in_order, noticed, row, tools};
use crate::model::usage::{ModelWindow, Usage};
use crate::policy::continuing;
use crate::policy::plan::{self, PlanningInput};
use crate::policy::replay;
use serde_json::json;

/// A window with 168 000 usable tokens.
fn stage() -> Stage {
    Stage::new("opencode@seed", 200_000).output(32_000)
}

/// A conversation with the output of a call and two turns after it.
fn output(words: &str) -> String {
    format!("u1 \"x\"\na1\n  tool bash#c1 {words} done\nu2 \"x\"\nu3 \"x\"")
}

#[test]
fn strategy_1_truncates_the_outputs_of_every_view() {
    let shown = |talk: &str| {
        let shown = stage().play(talk).outputs.remove("c1").unwrap_or_default();
        let marker = shown.find("\n[Tool").map_or("", |at| &shown[at..]).to_owned();
        format!("{}{marker}", shown.trim_end_matches(&marker).encode_utf16().count())
    };
    let emoji = |count: usize| format!("out={:?}", "😀".repeat(count));
    check(
        shown,
        &[
            row("2 000 characters stay whole", [(output("out=1999c"), "1999"), (output("out=2000c"), "2000")]),
            row(
                "the number of omitted characters follows the truncated output",
                [
                    (output("out=2001c"), "2000\n[Tool output truncated: omitted 1 chars]"),
                    (output("out=9000c"), "2000\n[Tool output truncated: omitted 7000 chars]"),
                ],
            ),
            row(
                "a length counts UTF-16 units, as JavaScript's does",
                [
                    (output(&emoji(1_000)), "2000"),
                    (output(&emoji(1_001)), "2000\n[Tool output truncated: omitted 2 chars]"),
                ],
            ),
        ],
    );
    let off = stage().with(r#"{"truncate": {"max_units": 0}}"#).play(&output("out=2001c"));
    assert_eq!(off.outputs["c1"].len(), 2_001, "a limit of 0 is none");
    deviates("opencode@seed", &["Outputs are truncated at 2000 characters in every view"]);
}

/// Outputs in one turn, oldest first, with the given number of turns after it.
fn outputs(outputs: &[&str], turns: usize) -> String {
    tools(outputs, turns, "")
}

#[test]
fn strategy_2_clears_old_outputs() {
    let rows: Vec<Row> = vec![
        row(
            "the outputs of the last 2 turns stay",
            [
                (outputs(&["out=90000t"], 0), ""),
                (outputs(&["out=90000t"], 1), ""),
                (outputs(&["out=90000t"], 2), "c1"),
            ],
        ),
        row(
            "40 000 tokens stay, newest first, and the output that exceeds them goes",
            [
                (outputs(&["out=20001t", "out=39999t"], 2), "c1"),
                (outputs(&["out=20001t", "out=40000t"], 2), "c1"),
                (outputs(&["out=20001t", "out=40001t"], 2), "c2 c1"),
            ],
        ),
        row(
            "nothing goes unless it is more than 20 000 tokens",
            [
                (outputs(&["out=19999t", "out=40000t"], 2), ""),
                (outputs(&["out=20000t", "out=40000t"], 2), ""),
                (outputs(&["out=20001t", "out=40000t"], 2), "c1"),
                (outputs(&["out=10000t", "out=10001t", "out=40000t"], 2), "c2 c1"),
            ],
        ),
        row(
            "an output has a token for every four characters, rounded to the nearest",
            [
                (outputs(&["out=80001c", "out=160000c"], 2), ""),
                (outputs(&["out=80002c", "out=160000c"], 2), "c1"),
                (outputs(&["out=80002c", "out=160001c"], 2), "c1"),
                (outputs(&["out=80002c", "out=160002c"], 2), "c2 c1"),
            ],
        ),
        row(
            "the tool skill is protected, and does not count",
            [
                (outputs(&["out=20001t", "out=40000t", "skill out=90000t"], 2), "c1"),
                (outputs(&["skill out=90000t", "out=40000t"], 2), ""),
                (outputs(&["Skill out=90000t", "out=40000t"], 2), "c1"),
            ],
        ),
        row(
            "only completed outputs are looked at",
            [
                (outputs(&["out=20001t", "out=40000t", "out=90000t error"], 2), "c1"),
                (outputs(&["out=90000t error", "out=40000t"], 2), ""),
            ],
        ),
        row(
            "the walk ends at an output that was cleared before",
            [
                (outputs(&["out=90000t", "out=90000t pruned", "out=1t"], 2), ""),
                (outputs(&["out=90000t pruned", "out=20001t", "out=40000t"], 2), "c2"),
            ],
        ),
        row(
            "the walk ends at a summary that is done",
            [
                (
                    "u1 \"x\"\na1\n  tool bash#c1 out=90000t done\nu2 marker \"m\"\na2 summary \"S\"\nu3 \"x\"\nu4 \"x\""
                        .to_owned(),
                    "",
                ),
                (
                    "u2 marker \"m\"\na2 summary \"S\"\nu1 \"x\"\na1\n  tool bash#c1 out=90000t done\nu3 \"x\"\nu4 \"x\""
                        .to_owned(),
                    "c1",
                ),
            ],
        ),
    ];
    check(|talk| stage().cleared(talk), &rows);
    deviates("opencode@seed", &["Clearing old outputs is on", "Outputs that no reply has read are never cleared"]);
}

#[test]
fn clearing_ends_at_a_summary() {
    // The output that the summary kept, and one request or two behind the summary.
    let kept = "u1 \"x\"\na1\n  tool bash#c1 out=90000t done\nu2 marker \"m\"\na2 summary \"S\"";
    for later in ["u3 \"x\"", "u3 \"x\"\na3 \"y\"\nu4 \"x\""] {
        assert_eq!(stage().cleared(&format!("{kept}\n{later}")), "", "{later}");
    }
    deviates("opencode@seed", &["Clearing ends at a summary"]);
}

#[test]
fn strategy_2_asks_no_model_and_leaves_words_behind() {
    let played = stage().play(&outputs(&["out=20001t", "out=40000t"], 2));
    assert_eq!((played.compactions.as_str(), played.asked.len()), ("maintenance prune", 0));
    assert_eq!(played.outputs["c1"], "[Old tool result content cleared]");
    assert!(played.outputs["c2"].starts_with("xxx"));
}

/// A conversation of five turns, of which the first is long and the last has the given numbers of characters; the last
/// reply reports this usage.
fn five_turns(usage: &str, request: usize, reply: usize) -> String {
    let turn = |turn| format!("u{turn} 40c\na{turn} 40c\n");
    format!("u1 50000t\na1 40c\n{}u5 {request}c\na5 {reply}c usage={usage}", (2..5).map(turn).collect::<String>())
}

#[test]
fn a_summary_is_due_where_the_tokens_of_a_reply_reach_the_usable_window() {
    let rows = [
        row(
            "without a limit on input, the window less the output is usable",
            [(five_turns("167999/0", 40, 40), ""), (five_turns("168000/0", 40, 40), "auto summary")],
        ),
        row(
            "input, output and both cache counts are added up",
            [
                (five_turns("100000/30000/30000/7999", 40, 40), ""),
                (five_turns("100000/30000/30000/8000", 40, 40), "auto summary"),
            ],
        ),
    ];
    check(|talk| stage().play(talk).compactions, &rows);
    let windows: [(&str, Option<i64>, Option<i64>, i64); 4] = [
        ("without a limit on output it is taken for 32 000", None, None, 168_000),
        ("a reserve of 20 000 under a limit on input", Some(150_000), Some(32_000), 130_000),
        ("less where the output is less", Some(150_000), Some(8_000), 142_000),
        ("without a limit on input the reserve does not count", None, Some(8_000), 192_000),
    ];
    for (says, input, output, usable) in windows {
        let window = ModelWindow { input, output, context: 200_000, ..ModelWindow::default() };
        let stage = Stage { window, ..stage() };
        for (tokens, expected) in [(usable - 1, ""), (usable, "auto summary")] {
            let found = stage.play(&five_turns(&format!("{tokens}/0"), 40, 40)).compactions;
            assert_eq!(found, expected, "{says}: {tokens}");
        }
    }
    // A model that may write more than 32 000 tokens is asked for no more.
    assert_eq!(stage().output(64_000).play(&five_turns("167999/0", 40, 40)).compactions, "");
    assert_eq!(stage().output(64_000).play(&five_turns("168000/0", 40, 40)).compactions, "auto summary");
    deviates("opencode@seed", &["A threshold, or a target, beyond the window"]);
    let window = ModelWindow { input: Some(150_000), ..stage().window };
    for (field, tokens) in [("buffer_tokens", 5_000), ("reserved_tokens", 5_000), ("reserved_tokens", 50_000)] {
        let reserved = format!(r#"{{"auto": {{"threshold": {{"limit": {{"usable": {{"{field}": {tokens}}}}}}}}}}}"#);
        let stage_with = Stage { window: window.clone(), ..stage() }.with(&reserved);
        for (tokens, expected) in [(149_999 - tokens, ""), (150_000 - tokens, "auto summary")] {
            assert_eq!(stage_with.play(&five_turns(&format!("{tokens}/0"), 40, 40)).compactions, expected, "{field}");
        }
    }
    let talk = five_turns("199000/0", 40, 40);
    assert_eq!(Stage::new("opencode@seed", 0).play(&talk).compactions, "", "an unknown window is never full");
    assert_eq!(stage().with(r#"{"trigger": {"auto": false}}"#).play(&talk).compactions, "", "auto is switched off");
    // The provider's own total takes precedence over the sum.
    let counting = stage().policy.counting.usage;
    let usage = Usage { input: 1, output: 1, total: Some(168_000), ..Usage::default() };
    assert_eq!(counting.tokens(&usage), 168_000);
}

#[test]
fn it_checks_at_the_end_of_every_reply_and_before_every_request() {
    let call = "u2 40c\na2 40c usage=168000/0\n  call bash#c1";
    let rows = [row(
        "between the requests of a run, too",
        [
            (format!("u1 50000t\na1 40c\n{call}"), "auto summary"),
            (format!("u1 50000t\na1 40c\n{}", call.replace("168000", "167999")), ""),
        ],
    )];
    check(|talk| stage().play(talk).compactions, &rows);
}

/// The JSON of a turn's model messages, in characters.
fn json_characters(texts: &[(&str, usize)]) -> usize {
    let message = |(role, length): &(&str, usize)| json!({ "role": role, "content": [{ "type": "text", "text": "x".repeat(*length) }] });
    json!(texts.iter().map(message).collect::<Vec<_>>()).to_string().len()
}

#[test]
fn the_tail_is_the_last_turns_that_fit_a_budget() {
    let budget = 8_000 * 4 + 1;
    let words = |characters: usize| characters - json_characters(&[("user", 0), ("assistant", 0)]);
    let reply = |characters: usize| characters - json_characters(&[("assistant", 0)]);
    let due = "168000/0";
    let rows = [
        row(
            "the last 2 turns stay, marker and summary before them",
            [(five_turns(due, 40, 40), "marker summary u4 a4 u5 a5")],
        ),
        row(
            "at most 8 000 tokens stay, and a turn that does not fit is split between its messages",
            [
                (five_turns(due, 16_000, words(budget) - 16_000), "marker summary u5 a5"),
                (five_turns(due, 16_000, words(budget) - 15_999), "marker summary a5"),
            ],
        ),
        row(
            "what is left of the budget goes to the end of the turn before",
            [(five_turns(due, 16_000, words(budget) - 16_000 - 100), "marker summary a4 u5 a5")],
        ),
        row(
            "where no end of the last turn fits, everything is summarized",
            [
                (five_turns(due, 40, reply(budget)), "marker summary a5"),
                (five_turns(due, 40, reply(budget) + 1), "marker summary"),
            ],
        ),
        row(
            "where every turn fits, everything is summarized",
            [(format!("u1 7000t\na1 40c\nu2 40c\na2 40c usage={due}"), "marker summary")],
        ),
    ];
    check(|talk| stage().with(r#"{"guards": {"minimum_gain_tokens": 1}}"#).play(talk).shown, &rows);
    let none = stage().with(r#"{"auto": {"steps": {"0": {"summarize": {"tail": {"turns": {"turns": 0}}}}}}}"#);
    assert_eq!(none.play(&five_turns(due, 40, 40)).shown, "marker summary", "no turns stay where tail_turns is 0");
    deviates("opencode@seed", &["The last request, results that no reply has read", "A result never parts"]);
}

#[test]
fn the_budget_is_a_quarter_of_the_usable_window_within_bounds() {
    for (says, context, output, budget) in [
        ("a quarter", 40_000, 20_000, 5_000),
        ("at least 2 000", 16_000, 10_000, 2_000),
        ("at most 8 000", 100_000, 32_000, 8_000),
    ] {
        let stage = Stage::new("opencode@seed", context).output(output);
        let usable = context - output;
        // A quarter of the window in tokens, which is more than the minimum gain.
        let head = context;
        let words = budget * 4 + 1 - json_characters(&[("user", 0), ("assistant", 0)]);
        for (more, expected) in [(0, "marker summary u2 a2"), (1, "marker summary a2")] {
            let first = words / 2;
            let talk = format!("u1 {head}c\na1 40c\nu2 {first}c\na2 {}c usage={usable}/0", words - first + more);
            assert_eq!(stage.play(&talk).shown, expected, "{says}: {budget} tokens and {more} characters");
        }
    }
}

#[test]
fn a_note_of_a_compaction_begins_no_turn() {
    let talk =
        "u1 50000t\na1 40c\nu2 40c\na2 40c\nu3 40c\na3 40c\nu4\n  marker compaction \"m\"\na4 40c usage=168000/0";
    assert_eq!(stage().play(talk).shown, "marker summary u2 a2 u3 a3 u4 a4");
}

#[test]
fn a_model_is_asked_for_seven_sections_without_media_and_long_outputs() {
    let talk = "u1 50000t\n  media image/png\na1\n  tool bash#c1 out=2001c done\na1b 40c\nu2 40c\na2 40c\nu3 40c\n\
                a3 40c usage=168000/0";
    let played = stage().play(talk);
    let user = played.prompt(0).user;
    in_order(
        &user,
        &[
            "[Attached image/png: file]",
            "\n[Tool output truncated: omitted 1 chars]",
            "## Goal",
            "## Constraints & Preferences",
            "## Progress",
            "### Done",
            "### In Progress",
            "### Blocked",
            "## Key Decisions",
            "## Next Steps",
            "## Critical Context",
            "## Relevant Files",
            "(none)",
        ],
    );
    assert!(!user.contains("<previous-summary>"), "there is none");
    // The tail is not in the input of the summary.
    assert_eq!(played.asked[0].messages.len(), 3);
    deviates(
        "opencode@seed",
        &[
            "A summarizer gets the history as one text between tags",
            "The request is in Longhand's words and names a number of words",
            "The prompt and the messages of a summary are changed by the operator's program",
        ],
    );
}

#[test]
fn the_second_summary_is_an_update_of_the_first() {
    let again = "\nu6 50000t\na6 40c\nu7 40c\na7 40c\nu8 40c\na8 40c usage=168000/0";
    let played = stage().play(&format!("{}{again}", five_turns("168000/0", 40, 40)));
    assert_eq!(
        (played.compactions.as_str(), played.shown.as_str()),
        ("auto summary, auto summary", "marker summary u7 a7 u8 a8")
    );
    let second = &played.asked[1];
    assert_eq!(second.previous.as_deref(), Some("SUMMARY1"));
    // The first compaction's marker and summary are not in the input; its tail and the later messages are.
    assert_eq!(second.messages.len(), 6);
    in_order(&played.prompt(1).user, &["<previous-summary>", "SUMMARY1", "</previous-summary>", "## Goal"]);
    assert_eq!(played.texts()[..2], ["What did we do so far?", "SUMMARY2"]);
    deviates("opencode@seed", &["A second compaction hides the first one's marker and summary"]);
}

#[test]
fn a_failure_leaves_the_history_as_it_was() {
    let stage = Stage { summary: "x".repeat(400_000), ..stage() };
    let played = stage.play(&five_turns("168000/0", 40, 40));
    assert_eq!(played.compactions, "auto refused");
    assert!(played.shown.starts_with("u1 a1 u2"), "{}", played.shown);
    deviates("opencode@seed", &["Where no model makes a summary", "A compaction that frees nothing ends in a breaker"]);
}

#[test]
fn strategy_5_replays_the_last_request_with_notes_for_its_media() {
    let stage = stage();
    let sources = dsl::parse("u1 \"x\"\na1 \"y\"\nu2 \"look\"\n  media image/png\na2 \"\" finish=error");
    let layout = crate::model::layout::Layout::everything();
    let planning = PlanningInput {
        policy: &stage.policy,
        window: &stage.window,
        layout: &layout,
        sources: &sources,
        covered: &[],
        base: 4,
        now: crate::model::time::Timestamp(0),
    };
    let replayed = replay::replay(planning, &plan::without_media(planning)).expect("a request with media");
    let said = format!("{:?}", replayed.bodies);
    assert!(replayed.target == 3 && said.contains("[Attached image/png: file]"), "{said}");
    deviates("opencode@seed", &["A request that a provider found too large is replayed without its media"]);
}

#[test]
fn a_continuation_follows_an_unfinished_turn_only() {
    for (talk, expected) in [
        ("u1 \"x\"\na1\n  call bash#c1", true),
        ("u1 \"x\"\na1\n  tool bash#c1 out=\"ok\" done", true),
        ("u1 \"x\"\na1\n  call bash#c1\nt1\n  result c1 out=\"ok\" done", true),
        ("u1 \"x\"\na1 \"y\"", false),
        ("u1 \"x\"\na1 \"y\"\nu2 \"z\"", false),
    ] {
        let is_due = continuing::is_interrupted(&dsl::parse(talk)) && stage().policy.auto_continue.is_some();
        assert_eq!(is_due, expected, "{talk}");
    }
    let beginnings =
        ["A continuation is written behind", "A continuation has Longhand's words", "Behind an overflow nobody"];
    deviates("opencode@seed", &beginnings);
}

#[test]
fn another_value_is_noticed() {
    let patches: [(&str, fn()); 17] = [
        (r#"{"truncate": {"max_units": 2001}}"#, strategy_1_truncates_the_outputs_of_every_view),
        (r#"{"truncate": {"marker": "\n[truncated]"}}"#, strategy_1_truncates_the_outputs_of_every_view),
        (r#"{"counting": {"unit": "code_points"}}"#, strategy_1_truncates_the_outputs_of_every_view),
        (r#"{"counting": {"rounding": "ceil"}}"#, strategy_2_clears_old_outputs),
        (r#"{"maintenance": {"0": {"prune": {"keep": {"tokens": 40001}}}}}"#, strategy_2_clears_old_outputs),
        (r#"{"maintenance": {"0": {"prune": {"keep": {"turns": 3}}}}}"#, strategy_2_clears_old_outputs),
        (r#"{"maintenance": {"0": {"prune": {"minimum_tokens": 20002}}}}"#, strategy_2_clears_old_outputs),
        (r#"{"maintenance": {"0": {"prune": {"minimum_tokens": 20000}}}}"#, strategy_2_clears_old_outputs),
        (r#"{"maintenance": {"0": {"prune": {"tools": "all"}}}}"#, strategy_2_clears_old_outputs),
        (r#"{"maintenance": {"0": {"prune": {"failed_outputs": "prune"}}}}"#, strategy_2_clears_old_outputs),
        (r#"{"maintenance": {"0": {"prune": {"walk": "all"}}}}"#, strategy_2_clears_old_outputs),
        (
            r#"{"auto": {"threshold": {"inclusive": false}}}"#,
            a_summary_is_due_where_the_tokens_of_a_reply_reach_the_usable_window,
        ),
        (
            r#"{"auto": {"threshold": {"limit": {"usable": {"output_cap_tokens": 31999}}}}}"#,
            a_summary_is_due_where_the_tokens_of_a_reply_reach_the_usable_window,
        ),
        (
            r#"{"auto": {"steps": {"0": {"summarize": {"tail": {"turns": {"turns": 3}}}}}}}"#,
            the_tail_is_the_last_turns_that_fit_a_budget,
        ),
        (
            r#"{"auto": {"steps": {"0": {"summarize": {"tail": {"turns": {"max_budget_tokens": 8001}}}}}}}"#,
            the_budget_is_a_quarter_of_the_usable_window_within_bounds,
        ),
        (
            r#"{"auto": {"steps": {"0": {"summarize": {"tail": {"turns": {"minimum_budget_tokens": 2001}}}}}}}"#,
            the_budget_is_a_quarter_of_the_usable_window_within_bounds,
        ),
        (
            r#"{"auto": {"steps": {"0": {"summarize": {"tail": {"turns": {"budget_ratio": 0.2501}}}}}}}"#,
            the_budget_is_a_quarter_of_the_usable_window_within_bounds,
        ),
    ];
    noticed("opencode@seed", &patches);
    let of_the_summary: [(&str, fn()); 4] = [
        (
            r#"{"auto": {"steps": {"0": {"summarize": {"summary": {"transcript": {"output_units": 2001}}}}}}}"#,
            a_model_is_asked_for_seven_sections_without_media_and_long_outputs,
        ),
        (
            r#"{"auto": {"steps": {"0": {"summarize": {"summary": {"transcript": {"media_note": ""}}}}}}}"#,
            a_model_is_asked_for_seven_sections_without_media_and_long_outputs,
        ),
        (
            r#"{"auto": {"steps": {"0": {"summarize": {"summary": {"carry_previous": false}}}}}}"#,
            the_second_summary_is_an_update_of_the_first,
        ),
        (r#"{"view": {"marker_text": null}}"#, the_second_summary_is_an_update_of_the_first),
    ];
    noticed("opencode@seed", &of_the_summary);
}
