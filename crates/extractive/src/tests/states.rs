//! What has another state now than before, and the newest words and commands.

use super::digest;
use super::{Talk, assert_says};
use crate::checks::{Check, Checks, Outcome};
use crate::commands::Purpose;
use crate::denials::taken_back;
use crate::extract;
use crate::files::{Files, Line};
use crate::lines::lines;
use crate::record::Record;
use crate::runs::Runs;
use crate::statements::printed_texts;
use longhand_core::policy::summary::SummaryInput;
use longhand_model::part::ResultStatus;
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
    let talk = (0..26).fold(Talk::default().user("go"), |talk, call| talk.runs("bd show quay", &output(call)));
    let read = digest(&talk.clone().input("longhand@1"));
    let printed = printed_texts(&read);
    assert_eq!(printed.len(), 23_400);
    // What is printed again counts once.
    let talk = talk.runs("bd show quay", &output(2));
    let read = digest(&talk.clone().input("longhand@1"));
    let again = printed_texts(&read);
    assert_eq!((again.len(), again.last().map(|(at, _)| *at)), (23_400, Some(53)));
}

#[test]
fn the_newest_subjects_of_commands_are_told() {
    let close = |talk: Talk, number: usize| talk.runs(&format!("bd close quay.{number}; bd sync /{number}"), "closed");
    let talk = (0..1_500).fold(Talk::default().user("go"), close).runs("bd close quay.7", "closed");
    let (record, turns) = Record::from_digest(&digest(&talk.input("longhand@1")));
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
        .tool("bash", json!({"command": "bd close quay.2"}), ResultStatus::Error, "no such entry");
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

/// A failure, other commands, and the same command that passes.
fn until(talk: Talk, failing: &str, line: &str, by: &[&str]) -> Talk {
    let talk = talk.fails("bash", json!({"command": failing}), line);
    by.iter().fold(talk, |talk, command| talk.runs(command, "ok")).runs(failing, "ok")
}

#[test]
fn what_ended_a_failure_is_told_unless_an_edit_may_have_ended_it() {
    let talk = || Talk::default().user("work on the quay");
    let failed = "** (RuntimeError) lazy_html is required";
    let fix = "`mix test` failed (`** (RuntimeError) lazy_html is required`) until this ran: ";
    let text = until(talk(), "mix test", failed, &["mix deps.get", "ls", "mix compile", "mix format"]).summary();
    assert_says(&text, "Critical Context", &format!("{fix}`mix deps.get` · `mix compile`"));
    assert!(!text.contains(&format!("{fix}`mix deps.get` · `mix compile` ·")), "the first two say it: {text}");
    // What passed before the failure came again did not end it.
    let again = talk().fails("bash", json!({"command": "mix test"}), failed).runs("mix compile", "ok");
    let text = until(again, "mix test", failed, &["mix deps.get"]).summary();
    assert_says(&text, "Critical Context", &format!("{fix}`mix deps.get`"));
    assert!(!text.contains("until this ran: `mix compile`"), "{text}");
    for folder in ["", "cd web && "] {
        let command = format!("{folder}git push");
        let text = until(talk(), &command, "fatal: no upstream", &["git push -u origin quay"]).summary();
        let place = if folder.is_empty() { "`git push`" } else { "`git push in web`" };
        assert_says(
            &text,
            "Critical Context",
            &format!("{place} failed (`fatal: no upstream`) until this ran: `git push -u origin quay`"),
        );
    }
    // An edit may end the failure of a check, but not that of another command.
    for (command, is_told) in [("mix test", false), ("git push", true)] {
        let talk = talk().fails("bash", json!({"command": command}), "fatal: no upstream");
        let text = colours(talk, "rim: 1", "rim: 2").runs("mix deps.get", "ok").runs(command, "ok").summary();
        assert_eq!(text.contains("until this ran"), is_told, "{command}: {text}");
    }
    let alone = until(talk(), "mix test", failed, &[]).summary();
    assert!(!alone.contains("until this ran"), "{alone}");
}

#[test]
fn a_command_that_somebody_stopped_is_told_until_it_runs_to_its_end() {
    let told = "Stopped before its end, and not run since:";
    let serve = json!({"command": "./serve --port 8123"});
    let stops = |talk: Talk, status: ResultStatus, output: &str| talk.tool("bash", serve.clone(), status, output);
    for (status, output) in [
        (ResultStatus::Interrupted, "listening"),
        (ResultStatus::Error, "listening\nCommand timed out after 120s"),
        (ResultStatus::Completed, "listening\n[Request interrupted by user]"),
    ] {
        let talk = stops(Talk::default().user("look at the quay"), status, output);
        let text = talk.clone().summary();
        assert_says(&text, "In Progress", &format!("{told} `./serve --port 8123`"));
        assert!(!text.contains("failed") && !text.contains("Ran"), "{text}");
        // It is told once, and not if any of its runs came to its end.
        let twice = stops(talk.clone(), status, output).summary();
        assert_says(&twice, "In Progress", &format!("{told} `./serve --port 8123`"));
        let ended = stops(talk.runs("./serve --port 8123", "listening"), status, output).summary();
        assert!(!ended.contains(told), "{ended}");
    }
}

#[test]
fn lines_of_older_steps_stand_under_their_file() {
    let add = |talk: Talk, path: &str, lines: &str| {
        talk.works("edit", json!({"path": path, "oldText": "x", "newText": lines}), "ok")
    };
    let talk = add(
        Talk::default().user("build the quay"),
        "/w/quay/src/berths.rs",
        "fn berth_of(ship: Ship) {\nfn depth_of(berth: Berth) {",
    );
    let talk = add(talk.model("The tide decides."), "/w/quay/src/tides.rs", "const TIDE_MAX: u32 = 7");
    let talk = add(talk, "/w/quay/src/berths.rs", "fn crane_of(berth: Berth) {");
    let text = talk.user("and now the office").summary();
    let line =
        "`src/berths.rs`: `fn berth_of(ship: Ship) {` · `fn depth_of(berth: Berth) {` · `fn crane_of(berth: Berth) {`";
    let text = text.replace("`berths.rs`:", "`src/berths.rs`:");
    assert_says(&text, "Relevant Files", line);
}

#[test]
fn words_that_people_read_are_the_most_important_lines_of_code() {
    let importance = |text: &str, is_code: bool| Line { text: text.to_owned(), step: 0 }.importance(is_code);
    let phrase = "<p class=\"none\">No open notes for this project</p>";
    let name = "let berth_of = tide_table.berth_of(ship);";
    assert!(
        importance(phrase, true) > importance(name, true),
        "{} {}",
        importance(phrase, true),
        importance(name, true)
    );
    assert!(importance(phrase, false) < importance(name, false));
    for comment in ["// No open notes for this project", "# No open notes for this project", "/* Notes */"] {
        assert_eq!(importance(comment, true), 0, "{comment}");
    }
    let lines = (0..30).map(|number| format!("let berth_{number} = tide_of({number});\n"));
    let lines = format!("{}{phrase}\n{}", lines.clone().collect::<String>(), lines.collect::<String>());
    let edit = json!({"path": "/w/quay/page.heex", "oldText": "x", "newText": lines});
    let text = Talk::default().user("build the page").works("edit", edit, "ok").summary();
    assert_says(&text, "In Progress", "No open notes for this project");
}

/// It would take minutes if each denial were compared with all before it.
#[test]
fn many_denials_are_read_at_once() {
    let texts = ["It is the cache.", "It was not the cache, it was the pool."].repeat(10_000);
    let taken_back = taken_back(&texts);
    assert_eq!(taken_back.iter().filter(|is_so| **is_so).count(), 10_000);
}

/// Each would take minutes if a command were compared with all before it.
#[test]
fn many_commands_are_read_at_once() {
    let (mut runs, mut checks, mut files) = (Runs::default(), Checks::default(), Files::default());
    for at in 0..20_000_i64 {
        let close = format!("bd close quay.{at}");
        let command = format!("make part_{at}");
        runs.count(&[(close.as_str(), Purpose::Change)], None, "closed", at);
        runs.stop(&format!("./serve --port {at}"), Purpose::Run, at);
        runs.follow(&command, "", (at % 2 == 0).then_some("error"), at);
        let outcome = if at % 3 == 0 { Outcome::Passed } else { Outcome::Failed };
        let (folder, output_line) = (String::new(), String::new());
        checks.end(Check { command, folder, outcome, output_line, at, verifies: true }, "error: none");
        files.forget(&format!("berth_{at}.rs"), Some(at));
    }
    assert_eq!((runs.all.len(), runs.handled().len()), (40_000, 600));
    assert_eq!(runs.handled().last().map(|one| one.subject.as_str()), Some("quay.19999"));
    assert_eq!((checks.all.len(), files.changed.len()), (20_000, 20_000));
    // Of so many failures the newest are known.
    let failed: Vec<i64> =
        checks.all.iter().filter(|check| check.outcome == Outcome::Failed).map(|check| check.at).collect();
    assert!(failed.len() == 60 && failed.contains(&19_999), "{failed:?}");
}

/// Each conclusion with what is said of it later, and whether that takes it back.
#[test]
fn a_conclusion_that_is_taken_back_is_marked() {
    let cases = [
        ("The leak is in the cache.", "No, it was not the cache, it was the pool.", true),
        ("The leak is in the cache.", "It was the pool, not the cache.", true),
        ("I think the leak is in the old cache, as ever.", "The leak isn’t in the old cache: it is in the pool.", true),
        ("Das Leck ist im Cache.", "Das Leck ist nicht im Cache, sondern im Pool.", true),
        ("La fuite est dans le cache.", "La fuite n'est pas dans le cache.", true),
        // Another subject, another end, an old clause, and one that says the same.
        ("The lock is in the cache.", "The token is not in the cache.", false),
        ("The cache holds 400 rows.", "It was not the cache, it was the pool.", false),
        ("It is a whirlpool.", "It was not the pool.", false),
        ("Please clear the cache.", "It is not the cache.", false),
        ("We painted the kitchen.", "Put it in the hall, not the kitchen.", false),
        ("The leak is not in the cache.", "It was not the cache.", false),
        // A question, a wish, a condition, and what says that there is more.
        ("The leak is in the cache.", "So it is not the cache?", false),
        ("The leak is in the cache.", "It should not be the cache.", false),
        ("The leak is in the cache.", "If it is not the cache, look at the pool.", false),
        ("The leak is in the cache.", "It is not just the cache.", false),
        ("The join is the problem.", "It is not a problem.", false),
    ];
    let between =
        |talk: Talk| talk.runs("make tide", "ok").model("The tide tables of the quay stay in feet.").user("go on");
    for (before, after, is_taken_back) in cases {
        let told = |talk: Talk| extract(&between(talk).model("Now the harbour.").input("longhand@1"));
        let first = Talk::default().user("look at the quay");
        for (talk, shown) in [
            (between(first.clone().model(before)).model(after), before.to_owned()),
            (between(first.clone().model(before)).user(after), before.to_owned()),
            (between(first.clone().user(before)).model(after), format!("“{before}”")),
            (between(first.clone().user(before)).user(after), format!("“{before}”")),
        ] {
            let text = told(talk);
            assert!(text.contains(&shown) || is_taken_back, "{before:?} is left out:\n{text}");
            let marked = text.contains(&format!("{shown} (replaced below)"));
            assert_eq!(marked, is_taken_back && text.contains(&shown), "{before:?}, then {after:?}:\n{text}");
            assert!(text.contains(after), "{after:?} is left out:\n{text}");
        }
    }
}

#[test]
fn a_denial_takes_back_what_was_said_shortly_before() {
    for (between, is_taken_back) in [(0, true), (39, true), (40, false)] {
        let mut texts = vec!["It is the cache."; 2];
        texts.extend(vec!["The tables stay in feet."; between]);
        texts.push("It was not the cache.");
        let taken_back = taken_back(&texts);
        assert_eq!(taken_back.iter().position(|is_so| *is_so), is_taken_back.then_some(1), "{between}");
    }
}
