//! What has another state now than before, and the newest words and commands.

use super::{Talk, assert_says};
use crate::extract;
use crate::lines::lines;
use crate::statements::printed_texts;
use crate::write::read_input;
use longhand_core::policy::summary::SummaryInput;
use serde_json::json;

/// An edit of the colours of a page.
fn colours(talk: Talk, before: &str, after: &str) -> Talk {
    talk.works("edit", json!({"path": "/w/page/colours.json", "oldText": before, "newText": after}), "ok")
}

#[test]
fn a_setting_is_told_with_its_last_value_although_all_its_words_are_known() {
    let talk =
        Talk::default().user("The rim is 112233, then 445566, and the leaf is 778899 in the end, as the text was.");
    let talk = colours(
        talk,
        "\t\"rim\": \"#001122\",\n\t\"leaf\": \"#aabbcc\"",
        "\t\"rim\": \"#112233\",\n\t\"leaf\": \"#778899\"",
    );
    let talk = colours(talk, "\"rim\": \"#112233\",", "\"rim\": \"#445566\",");
    let text = talk.clone().summary();
    assert_says(&text, "Critical Context", "`colours.json` now: `leaf = #778899` · `rim = #445566`");
    // The value that was there once more, and a setting that is gone.
    let talk = colours(talk, "\"rim\": \"#445566\",\n\"leaf\": \"#778899\"", "\"rim\": \"#112233\"");
    let text = talk.clone().summary();
    assert_says(&text, "Critical Context", "`colours.json` now: `rim = #112233`");
    assert!(!text.contains("leaf ="), "{text}");
    let text = talk.runs("git checkout -- /w/page/colours.json", "").summary();
    assert!(!text.contains("rim ="), "{text}");
}

#[test]
fn a_setting_that_is_not_in_the_file_any_more_is_not_told() {
    let talk = colours(Talk::default().user("go on with the page"), "rim: 1\nleaf: 1", "rim: 2\nleaf: 2");
    let write = |content: &str| {
        let file = json!({"path": "/w/page/colours.json", "content": content});
        talk.clone().works("write", file, "ok").summary()
    };
    assert_says(&write("stem: 4\nrim: 7"), "Critical Context", "`colours.json` now: `rim = 7`");
    assert!(!write("stem: 4\nrim: 7").contains("leaf ="));
    assert!(!write("rim: 2\n[night]\nrim: 3").contains("rim ="));
    for (before, after) in
        [("[day]", "rim: 3\n[day]\nrim: 4"), ("rim: 2\nrim: 3", "rim: 3\nrim: 4"), ("rim: 2\nrim: 3", "rim: 5")]
    {
        let text = colours(talk.clone(), before, after).summary();
        assert_says(&text, "Critical Context", "`colours.json` now: `leaf = 2`");
        assert!(!text.contains("rim ="), "{before} to {after}: {text}");
    }
}

/// It would take minutes if each part were compared with all before it.
#[test]
fn texts_of_many_parts_are_read_at_once() {
    let output =
        |call: usize| -> String { (0..900).map(|part| format!("- {:05}:\n- x\n===\n", 900 * call + part)).collect() };
    let talk = (0..30).fold(Talk::default().user("go"), |talk, call| talk.runs("bd show quay", &output(call)));
    let (_, _, digest) = read_input(&talk.clone().input("longhand@1"), talk.0.iter(), false);
    let printed = printed_texts(&digest);
    assert_eq!(printed.len(), 27_000);
    // What is printed again counts once.
    let talk = talk.runs("bd show quay", &output(2));
    let (_, _, digest) = read_input(&talk.clone().input("longhand@1"), talk.0.iter(), false);
    let again = printed_texts(&digest);
    assert_eq!((again.len(), again.last().map(|(at, _)| *at)), (27_000, Some(61)));
}

#[test]
fn the_newest_subjects_of_commands_are_told() {
    let close = |talk: Talk, number: usize| talk.runs(&format!("bd close quay.{number}; bd sync /{number}"), "closed");
    let talk = (0..1_500).fold(Talk::default().user("go"), close).runs("bd close quay.7", "closed");
    let (record, turns, _) = read_input(&talk.clone().input("longhand@1"), talk.0.iter(), false);
    let lines = lines(&record, &turns, &[], 10_000);
    let told = |words: &str| lines.iter().filter(|item| item.head.starts_with(words)).count();
    assert_eq!((told("Ran `bd close` on"), told("Ran")), (600, 912));
    assert!(lines.iter().any(|item| item.head == "Ran `bd close` on" && item.text == "`quay.7`"));
}

#[test]
fn settings_are_lines_with_a_name_and_a_short_value() {
    let cases = [
        ("const ROWS_MAX: usize = 20;", "const ROWS_MAX: usize = 40;", Some("`ROWS_MAX = 40`")),
        ("retries=3", "retries=5", Some("`retries = 5`")),
        ("  timeout: 30s  ", "  timeout: 45s", Some("`timeout = 45s`")),
        ("let page = fetch(20);", "let page = fetch(40);", None),
        ("rows: 1\nrows: 2", "rows: 3\nrows: 4", None),
        ("See the notes: they are short", "See the notes: they are long", Some("`notes = they are long`")),
        ("rows: 3", "rows: 3", None),
    ];
    for (before, after, told) in cases {
        let text = colours(Talk::default().user("go on with the page"), before, after).summary();
        assert_eq!(told.is_some(), text.contains(" now: "), "{before}\n{text}");
        assert!(told.is_none_or(|told| text.contains(told)), "{before}\n{text}");
    }
}

#[test]
fn the_last_change_of_each_entry_of_a_tracker_is_told() {
    let talk = Talk::default()
        .user("work on the quay")
        .runs("bd update quay.1 --status in_progress", "updated")
        .runs("bd update quay.2 --status in_progress", "updated")
        .runs("bd close quay.1", "closed")
        .tool(
            "bash",
            json!({"command": "bd close quay.2"}),
            longhand_model::part::ResultStatus::Error,
            "no such entry",
        );
    let text = talk.summary();
    assert_says(&text, "Done", "Ran `bd close` on `quay.1`");
    assert_says(&text, "Done", "Ran `bd update --status in_progress` on `quay.2`");
    assert!(!text.contains("`bd close` on `quay.2`") && !text.contains("in_progress` on `quay.1`"), "{text}");
}

#[test]
fn what_a_tool_printed_stands_under_its_first_line_and_what_is_ended_comes_last() {
    let entry = |name: &str, basin: &str| {
        format!(
            "quay.{name} · Berths of the {basin} basin [OPEN]\nDESCRIPTION\n- Each berth of the {basin} basin has a number above \
             thirty.\n- The tables of the {basin} basin stay in feet.\n- Ships of the {basin} basin are read once.\n"
        )
    };
    let printed = format!("{}===\n{}", entry("1", "northern"), entry("2", "southern"));
    let talk = Talk::default().user("work on the quay").runs("bd show quay.1; echo ===; bd show quay.2", &printed);
    let input = talk.clone().input("longhand@1");
    let text = extract(&input);
    assert_says(&text, "Context", "`quay.1 · Berths of the northern basin [OPEN]`: ");
    assert_says(&text, "Context", "`quay.2 · Berths of the southern basin [OPEN]`: ");
    let closed = talk.runs("bd close quay.2", "closed").input("longhand@1");
    let text = extract(&SummaryInput { budget_tokens: 130, ..closed });
    assert!(text.contains("northern") && !text.contains("southern"), "{text}");
}

#[test]
fn the_newest_words_and_commands_are_told() {
    let talk = Talk::default()
        .user("release it")
        .runs("git commit -am \"Release 0.8.0\"", "[main 45ffe0a] Release 0.8.0\n 1 file changed")
        .runs("git tag v0.8.0", "")
        .fails("bash", json!({"command": "npm run publish"}), "npm error code 1")
        .model("Got it. The package of the terminal has another interface than the agent expects.\nIts changes were never committed.")
        .user("hm");
    let text = talk.summary();
    assert_says(&text, "In Progress", "Ran last: `git tag v0.8.0` · `npm run publish` (failed)");
    assert_says(
        &text,
        "Critical Context",
        "The agent said last: Got it. The package of the terminal has another interface than the agent expects. Its changes \
         were never committed.",
    );
}
