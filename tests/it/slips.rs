//! What commands say and do where somebody slips, or leaves out what can only be meant in one way.

use crate::cli::{Daemon, longhand};
use crate::screen::on_terminal;
use serde_json::Value;
use std::process::Output;

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The id that a command printed.
fn id(text: &str) -> String {
    text.trim_end().to_owned()
}

#[test]
fn words_of_other_programs_lead_to_a_command() {
    let home = tempfile::tempdir().expect("a folder");
    for (words, advice) in [
        (&["list"][..], "'sessions'"),
        (&["ls"], "'sessions'"),
        (&["--json", "tail"], "'watch'"),
        (&["delete", "x"], "'erase'"),
        (&["views"], "'view'"),
        (&["import", "--no-usage", "x"], "what is given needs --live too"),
        (&["erase", "x"], "what is given needs --reason <TEXT> too"),
        (&["create", "--window", "200g"], "a number of tokens is 200000, 200k or 1m"),
        (&["simulate", "x", "--window", "0k"], "at least 1 token"),
        (&["serve", "--listen", "localhost"], "an IP address with a port"),
    ] {
        let output = longhand(home.path()).args(words).output().expect("the command runs");
        let said = errors(&output);
        assert!(output.status.code() == Some(64) && said.contains(advice), "{words:?}: {said}");
    }
    // Below a command, the word has another meaning.
    let output = longhand(home.path()).args(["run", "ls"]).output().expect("the command runs");
    assert!(!errors(&output).contains("'sessions'"), "{output:?}");
}

#[test]
fn help_has_the_commands_in_groups() {
    let home = tempfile::tempdir().expect("a folder");
    let output = longhand(home.path()).arg("--help").output().expect("the command runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let headings: Vec<&str> = text.lines().filter(|line| line.ends_with(':') && !line.starts_with(' ')).collect();
    assert!(headings.starts_with(&["Begin:", "Sessions:", "Messages:"]), "{text}");
    assert!(!headings.contains(&"Commands:"), "{text}");
    assert_eq!(headings[headings.len() - 2..], ["Options:", "Options of every command:"], "{text}");
    assert!(text.contains("\n  view         Print a session's view for the model\n"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn what_is_empty_short_or_abbreviated_is_said() {
    let home = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(home.path());
    let session = id(&daemon.text(&["create", "--window", "200k", "--max-output", "8k"]));
    let window = &daemon.json(&["sessions"])[0]["window"];
    assert_eq!((&window["maxContextTokens"], &window["maxOutputTokens"]), (&"200000".into(), &"8000".into()));
    for (arguments, code, words) in [
        (&["append", &session, ""][..], 64, "there is no text"),
        (&["show", &session[33..]], 64, "at least 4 digits"),
        (&["who", &session], 0, "nobody is at work there"),
        (&["label", &session], 0, "it has no labels"),
        (&["approve", "answer", &session, "yes"], 64, "no question waits there"),
        (&["approve", "answer", &session], 64, "[QUESTION] CHOICE"),
        (&["approve", "withdraw", &session], 64, "no question waits there"),
        (&["approve", "answer", &session, "apr_1", "yes"], 1, "is no id: one of this kind begins with apr_"),
        (&["run", "release", &session], 64, "no run is active there"),
        (&["token", "revoke", "ada"], 1, "there is no access token ada"),
    ] {
        let output = daemon.run(arguments);
        let said = errors(&output);
        assert!(output.status.code() == Some(code) && said.contains(words), "{arguments:?}: {said}");
    }
    assert_eq!(daemon.json(&["show", &session]).len(), 0, "nothing was appended");
    daemon.text(&["append", &session, "Where does the parser begin?"]);
}

#[test]
fn the_only_one_that_can_be_meant_need_not_be_named() {
    let home = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(home.path());
    let session = id(&daemon.text(&["create"]));
    let ask = || id(&daemon.text(&["approve", "ask", &session, "Shall I?"]));
    let first = ask();
    assert!(daemon.text(&["approve", "answer", &session, "no"]).contains(&first));
    let (second, third) = (ask(), ask());
    let said = errors(&daemon.run(&["approve", "answer", &session, "yes"]));
    assert!(said.contains(&second) && said.contains(&third), "{said}");
    daemon.text(&["approve", "answer", &session, &second, "yes"]);
    daemon.text(&["approve", "withdraw", &session]);
    assert_eq!(daemon.json(&["approve", "list", &session]).len(), 0);

    daemon.text(&["run", "acquire", &session]);
    assert!(daemon.text(&["run", "renew", &session]).contains("active"));
    assert!(daemon.text(&["run", "release", &session]).contains("completed"));

    for _ in 0..2 {
        daemon.text(&["token", "create", "bot"]);
    }
    let said = errors(&daemon.run(&["token", "revoke", "bot"]));
    let listed = daemon.json(&["token", "list"]);
    let tokens: Vec<&str> = listed.iter().filter_map(|token| token["accessTokenId"].as_str()).collect();
    assert!(tokens.len() == 2 && tokens.iter().all(|token| said.contains(token)), "{said}");
    daemon.text(&["token", "revoke", tokens[0]]);
    assert!(daemon.text(&["token", "revoke", "bot"]).contains(tokens[1]));
}

#[test]
fn a_terminal_shows_a_page_of_sessions() {
    let home = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(home.path());
    for _ in 0..51 {
        daemon.text(&["create"]);
    }
    let on_screen = |arguments: &[&str]| on_terminal(&mut daemon.command(arguments), 80);
    let (text, all) = (on_screen(&["sessions"]), on_screen(&["sessions", "--limit", "51"]));
    assert!(text.contains("more sessions: --limit COUNT prints more than 50"), "{text}");
    assert_eq!((text.matches(" longhand@1 ").count(), all.matches(" longhand@1 ").count()), (50, 51), "{text}");
    assert!(!all.contains("more sessions"), "{all}");
    assert_eq!(daemon.json(&["sessions"]).len(), 51);
}

#[test]
fn presets_stand_together_by_agent() {
    let home = tempfile::tempdir().expect("a folder");
    let output = longhand(home.path()).arg("presets").output().expect("the command runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let names: Vec<&str> = text.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    let agents: Vec<&str> = names.iter().filter_map(|name| name.split('@').next()).collect();
    assert!(agents.is_sorted(), "{agents:?}");
    let qwen: Vec<&&str> = names.iter().filter(|name| name.starts_with("qwen-code@")).collect();
    assert_eq!(qwen, [&"qwen-code@2025-08", &"qwen-code@0.15", &"qwen-code@0.24"], "versions keep their order");
}

#[test]
fn a_daemon_listens_on_localhost() {
    let home = tempfile::tempdir().expect("a folder");
    let (_daemon, line) = Daemon::start_as(home.path(), |command| {
        command.args(["--listen", "localhost:0", "--json"]);
    });
    let line: Value = serde_json::from_str(&line).expect("JSON");
    assert!(line["tcp"].as_str().expect("a URL").starts_with("http://127.0.0.1:"), "{line}");
}
