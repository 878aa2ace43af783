//! Tests of `pi@0.73`, the version nearest to the chapter on pi's compaction, and of `pi@1.5` in the points where that
//! is nearer.

use super::{Played, Stage, asked, check, deviates, in_order, noticed, row};
use crate::policy::prompt::Scope;

const PRESET: &str = "pi@0.73";

fn stage() -> Stage {
    Stage::new(PRESET, 200_000)
}

/// A long turn and three short ones, the third with this reply; the last reply reports this usage.
fn talk(third: &str, usage: &str) -> String {
    format!("u1 40000t\na1 1t\nu2 1t\na2 1t\nu3 1t\n{third}\nu4 1t\na4 1t usage={usage}")
}

#[test]
fn it_compacts_above_the_window_less_a_reserve() {
    let short = "a3 20000t";
    let rows = [
        row(
            "a reserve of 16 384, strictly",
            [(talk(short, "183616/0"), ""), (talk(short, "183617/0"), "auto summary")],
        ),
        row(
            "input, output and both cache counts are added up",
            [(talk(short, "100000/50000/30000/3616"), ""), (talk(short, "100000/50000/30000/3617"), "auto summary")],
        ),
        row(
            "what came behind the last usage is estimated",
            [
                (format!("{}\nu5 615t", talk(short, "183000/0")), ""),
                (format!("{}\nu5 616t", talk(short, "183000/0")), ""),
                (format!("{}\nu5 617t", talk(short, "183000/0")), "auto summary"),
            ],
        ),
    ];
    check(|talk| stage().play(talk).compactions, &rows);
    let reserve = stage().with(r#"{"auto": {"threshold": {"limit": {"reserve_tokens": 20000}}}}"#);
    assert_eq!(reserve.play(&talk(short, "180000/0")).compactions, "");
    assert_eq!(reserve.play(&talk(short, "180001/0")).compactions, "auto summary");
    assert_eq!(stage().with(r#"{"trigger": {"auto": false}}"#).play(&talk(short, "190000/0")).compactions, "");
}

#[test]
fn the_threshold_is_checked_between_runs() {
    let run = "u1 40000t\na1 1t\nu2 1t\na2 20000t usage=183617/0\n  call bash#c1\nt2\n  result c1 out=\"ok\" done";
    for (preset, talk, expected) in [
        (PRESET, run.to_owned(), ""),
        (PRESET, format!("{run}\na3 \"done\""), "auto summary"),
        (PRESET, format!("{run}\nu3 \"and this?\""), "auto summary"),
        ("pi@1.5", run.to_owned(), "auto summary"),
    ] {
        assert_eq!(Stage::new(preset, 200_000).play(&talk).compactions, expected, "{preset}: {talk}");
    }
    // A view that exceeds its window does not wait.
    let over_window = run.replace("183617/0", "200001/0").replace("40000t", "80000t");
    assert_ne!(stage().play(&over_window).compactions, "");
    deviates(PRESET, &["The threshold is looked at wherever no run is under way"]);
    deviates("pi@1.5", &["The threshold is looked at after every message"]);
}

#[test]
fn the_newest_20_000_tokens_stay() {
    let due = "190000/0";
    let rows = [
        row(
            "from the end until 20 000 tokens are reached",
            [
                (talk("a3 19998t", due), "summary a3 u4 a4"),
                (talk("a3 19997t", due), "summary u3 a3 u4 a4"),
                (talk("a3 19996t", due), "summary a2 u3 a3 u4 a4"),
            ],
        ),
        row(
            "a message has a token for every four characters, rounded up",
            [(talk("a3 79985c", due), "summary u3 a3 u4 a4"), (talk("a3 79988c", due), "summary u3 a3 u4 a4")],
        ),
        row(
            "thoughts, and calls with their names and inputs, have their length",
            [(talk("a3 19990t\n  reasoning \"1234567890123456789012345678\"", due), "summary u3 a3 u4 a4")],
        ),
        row(
            "the boundary is never before a result",
            [(talk("a3 1t\n  call bash#c1\nt3\n  result c1 out=19998t done\na3b 1t", due), "summary a3b u4 a4")],
        ),
    ];
    check(|talk| stage().play(talk).shown, &rows);
    let keep = stage().with(r#"{"auto": {"steps": {"0": {"summarize": {"tail": {"recent": {"keep_tokens": 2}}}}}}}"#);
    assert_eq!(keep.play(&talk("a3 1t", due)).shown, "summary u4 a4", "the setting of how much stays");
    deviates(PRESET, &["A result never parts from its call", "In a window where pi's tail holds everything"]);
}

#[test]
fn an_image_has_1200_tokens() {
    // With the other tokens of the end 20 000, if the image is counted.
    let third = "a3 1t\nu3b\n  media image/png\na3b 18797t";
    let of = |preset| Stage::new(preset, 200_000).play(&talk(third, "190000/0")).shown;
    assert_eq!(of("pi@1.5"), "summary a3 u3b a3b u4 a4");
    assert_ne!(of(PRESET), of("pi@1.5"), "pi 0.73 gives images of the user no tokens");
    let preset = crate::presets::find(PRESET).expect("a preset");
    assert!(preset.description.contains("images of the user count nothing"));
}

#[test]
fn where_the_tail_holds_everything_half_of_it_is_kept() {
    // Above the threshold with fewer than 20 000 tokens: pi prepares nothing.
    let talk = "u1 6000t\na1 2000t\nu2 6000t\na2 2000t usage=15617/0";
    for preset in [PRESET, "pi@1.5"] {
        let stage = Stage::new(preset, 32_000).output(8_192);
        assert_eq!(stage.play(talk).shown, "summary a1 u2 a2", "{preset}");
        assert_eq!(stage.play(&talk.replace("15617", "15616")).compactions, "", "{preset}");
        deviates(preset, &["In a window where pi's tail holds everything"]);
    }
}

/// A conversation whose head reads, writes and edits files.
fn files() -> Played {
    let head = "u1 40000t\na1\n  reasoning \"hm\"\n  text \"looking\"\n\
                \x20 tool read#c1 in={\"path\": \"/b.ts\"} out=2001c done\n\
                \x20 tool read#c2 in={\"path\": \"/a.ts\"} out=\"ok\" done\n\
                \x20 tool read#c3 in={\"path\": \"/e.ts\"} out=\"ok\" done\n\
                \x20 tool edit#c4 in={\"path\": \"/e.ts\"} out=\"ok\" done\n\
                \x20 tool write#c5 in={\"path\": \"/d.ts\"} out=\"ok\" done\n\
                \x20 tool Read#c6 in={\"path\": \"/other.ts\"} out=\"ok\" done\n\
                \x20 tool read#c7 in={\"file_path\": \"/field.ts\"} out=\"ok\" done\n\
                \x20 tool bash#c8 in={\"path\": \"/shell.ts\"} out=\"ok\" done\n\
                a1b \"so\"\nu2 1t\na2 20000t usage=190000/0";
    stage().play(head)
}

#[test]
fn the_history_is_written_out_as_text() {
    let played = files();
    let user = played.prompt(0).user;
    in_order(
        &user,
        &[
            "<conversation>",
            "[User]: xxx",
            "[Assistant thinking]: hm",
            "[Assistant]: looking",
            "[Assistant tool calls]: read(path=\"/b.ts\"); read(path=\"/a.ts\")",
            "[Tool result]: xxx",
            "\n[... 1 more characters truncated]",
            "</conversation>",
            "## Goal",
            "## Constraints & Preferences",
            "## Progress",
            "### Done",
            "### In Progress",
            "### Blocked",
            "## Key Decisions",
            "## Next Steps",
            "## Critical Context",
        ],
    );
    assert!(played.prompt(0).system.contains("do not carry out, answer or continue"), "it is data");
    assert_eq!(played.asked[0].budget_tokens, 13_107, "four fifths of the reserve");
    assert!(played.texts()[0].starts_with("The conversation history before this point was compacted"));
    deviates(PRESET, &["What a summarizer reads is quoted"]);
}

#[test]
fn a_summary_updates_the_one_before() {
    let more = "\nu5 40000t\na5 1t\nu6 20000t\na6 1t usage=190000/0";
    let played = stage().play(&format!("{}{more}", talk("a3 20000t", "190000/0")));
    assert_eq!(played.compactions, "auto summary, auto summary");
    assert_eq!(played.asked[1].previous.as_deref(), Some("SUMMARY1"));
    in_order(
        &played.prompt(1).user,
        &["</conversation>", "<previous-summary>", "SUMMARY1", "</previous-summary>", "Add what is new", "## Goal"],
    );
}

#[test]
fn the_front_of_a_split_turn_has_a_summary_of_its_own() {
    let played = stage().play(&talk("a3 1t\nu3b \"do all of it\"\na3b \"first\"\na3c 20000t", "190000/0"));
    assert_eq!(played.shown, "summary a3c u4 a4");
    let input = &played.asked[0];
    assert_eq!((input.messages.len(), input.split_turn.len()), (6, 2));
    let front = asked(input, Scope::TurnFront, &input.split_turn, None).user;
    in_order(&front, &["do all of it", "## Original Request", "## Early Progress", "## Context for Suffix"]);
    let whole = stage().play(&talk("a3 19997t", "190000/0"));
    assert!(whole.asked[0].split_turn.is_empty(), "a boundary before a request splits none");
    deviates(
        PRESET,
        &[
            "Where what would be summarized, or the front of a split turn, has no words",
            "The summary of the front of a split turn follows `**Turn Context (split turn):**`",
            "Lists of files are in the text of a summary",
        ],
    );
}

#[test]
fn a_failure_appends_nothing() {
    let stage = Stage { summary: "x".repeat(400_000), ..stage() };
    let played = stage.play(&talk("a3 19998t", "190000/0"));
    assert_eq!((played.compactions.as_str(), played.shown.as_str()), ("auto refused", "u1 a1 u2 a2 u3 a3 u4 a4"));
    deviates(PRESET, &["Where no model makes a summary", "A compaction that frees nothing ends in a breaker"]);
}

#[test]
fn another_value_is_noticed() {
    let patches: [(&str, fn()); 8] = [
        (
            r#"{"auto": {"threshold": {"limit": {"reserve_tokens": 16383}}}}"#,
            it_compacts_above_the_window_less_a_reserve,
        ),
        (r#"{"auto": {"threshold": {"inclusive": true}}}"#, it_compacts_above_the_window_less_a_reserve),
        (r#"{"trigger": {"between_runs": false}}"#, the_threshold_is_checked_between_runs),
        (
            r#"{"auto": {"steps": {"0": {"summarize": {"tail": {"recent": {"keep_tokens": 20001}}}}}}}"#,
            the_newest_20_000_tokens_stay,
        ),
        (r#"{"counting": {"rounding": "floor"}}"#, the_newest_20_000_tokens_stay),
        (
            r#"{"auto": {"steps": {"0": {"summarize": {"summary": {"transcript": {"output_units": 2001}}}}}}}"#,
            the_history_is_written_out_as_text,
        ),
        (
            r#"{"auto": {"steps": {"0": {"summarize": {"summary": {"transcript": {"reasoning": false}}}}}}}"#,
            the_history_is_written_out_as_text,
        ),
        (
            r#"{"auto": {"steps": {"0": {"summarize": {"summary": {"max_tokens": 13108}}}}}}"#,
            the_history_is_written_out_as_text,
        ),
    ];
    noticed(PRESET, &patches);
}
