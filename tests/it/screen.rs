//! The command line on a terminal and in a pipe: tables, colours, short ids, limits, times, progress.

use crate::cli::{Daemon, longhand, transcript};
use regex::Regex;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};
use unicode_width::UnicodeWidthStr as _;

/// A terminal of this width: the end of the person, and that of programs.
pub(crate) fn terminal(columns: u16) -> (File, File) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&terminal).expect("granted");
    unlockpt(&terminal).expect("unlocked");
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal, size).expect("a size");
    let name = ptsname(&terminal, Vec::new()).expect("a name");
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
    (File::from(terminal), File::options().read(true).write(true).open(path).expect("the terminal opens"))
}

/// Everything that a command prints on a terminal of this width.
pub(crate) fn on_terminal(command: &mut Command, columns: u16) -> String {
    let (mut terminal, programs) = terminal(columns);
    command.stdout(programs.try_clone().expect("the terminal opens")).stderr(programs);
    let mut child = command.spawn().expect("the command starts");
    // The command still holds the other end of the terminal; the read ends when it has ended.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut bytes = Vec::new();
    // The end of a terminal is an error.
    drop(terminal.read_to_end(&mut bytes));
    assert!(child.wait().expect("the command ends").success(), "{}", String::from_utf8_lossy(&bytes));
    String::from_utf8(bytes).expect("UTF-8").replace("\r\n", "\n")
}

/// A text without the sequences that set colours.
fn plain(text: &str) -> String {
    Regex::new("\u{1b}\\[[0-9;]*m").expect("a pattern").replace_all(text, "").into_owned()
}

/// A daemon with three sessions, of which the second has a compaction. Returns their ids, oldest first.
fn three_sessions(daemon: &Daemon) -> Vec<String> {
    let create = |title: &str, id: &str| {
        let arguments = ["create", "--title", title, "--client-id", id, "--preset", "opencode@seed"];
        daemon.text(&arguments).trim_end().to_owned()
    };
    let title = "潮汐表を表示する".repeat(12);
    let ids = vec![create("first", "one"), create(&title, "two"), create("third", "three")];
    for number in 0..12 {
        for role in ["user", "assistant"] {
            let text = format!("{role} {number}: {}", "words about the tide ".repeat(60));
            daemon.text(&["append", "two", &text, "--role", role]);
        }
    }
    ids
}

#[test]
fn the_presets_need_no_daemon() {
    let home = tempfile::tempdir().expect("a folder");
    let alone = |arguments: &[&str]| {
        let output = longhand(home.path()).args(arguments).output().expect("the command runs");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let lists: [&[&str]; 3] =
        [&["presets", "--json"], &["presets", "show", "pi"], &["presets", "diff", "pi@0.73", "pi@1.5"]];
    let texts = lists.map(alone);
    let daemon = Daemon::start(home.path());
    assert_eq!(texts, lists.map(|arguments| daemon.text(arguments)), "a daemon has the same ones");
}

#[test]
fn a_table_fits_the_terminal_and_is_whole_in_a_pipe() {
    let home = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(home.path());
    let ids = three_sessions(&daemon);
    daemon.text(&["compact", "two"]);
    for columns in [60, 80, 120] {
        for arguments in [&["sessions"][..], &["compactions", "two"], &["presets"], &["events"]] {
            let text = plain(&on_terminal(&mut daemon.command(arguments), columns));
            let too_wide = text.lines().find(|line| line.width() > usize::from(columns));
            assert_eq!(too_wide, None, "{arguments:?} in {columns} columns:\n{text}");
        }
    }
    let pair = ["presets", "diff", "pi@0.73", "pi@1.5"];
    let text = plain(&on_terminal(&mut daemon.command(&pair), 80));
    assert!(text.contains("\n  - ") && text.lines().all(|line| line.width() <= 80), "{text}");
    let text = plain(&on_terminal(&mut daemon.command(&["presets", "show", "pi"]), 80));
    assert!(text.lines().filter(|line| line.starts_with("  ")).all(|line| line.width() <= 80), "{text}");
    let text = plain(&on_terminal(&mut daemon.command(&["sessions"]), 80));
    assert!(
        text.contains("潮汐表") && text.contains('…') && (text.contains("  now") || text.contains(" ago")),
        "{text}"
    );
    assert!(!text.contains(&ids[0]), "{text}");
    assert!(text.contains("not shown, for lack of width: ") && text.contains("revision"), "{text}");

    let text = daemon.text(&["sessions"]);
    assert!(ids.iter().all(|id| text.contains(id.as_str())) && text.contains(&"潮汐表を表示する".repeat(12)), "{text}");
    assert!(text.contains("WINDOW") && !text.contains('…') && !text.contains(" ago"), "{text}");
}

#[test]
fn colours_are_for_terminals_and_by_request() {
    let home = tempfile::tempdir().expect("a folder");
    let command = |arguments: &[&str]| {
        let mut command = longhand(home.path());
        // On a machine for CI the variable CI alone asks for colours on every terminal.
        for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI"] {
            command.env_remove(variable);
        }
        command.args(arguments).env("TERM", "xterm");
        command
    };
    let has_colours = |text: &str| text.contains('\u{1b}');
    assert!(has_colours(&on_terminal(&mut command(&["presets"]), 80)));
    assert!(!has_colours(&on_terminal(&mut command(&["presets", "--color", "never"]), 80)));
    assert!(!has_colours(&on_terminal(command(&["presets"]).env("TERM", "dumb"), 80)));
    assert!(!has_colours(&on_terminal(command(&["presets"]).env("NO_COLOR", "1"), 80)));
    let piped = |mut command: Command| {
        let output = command.output().expect("the command runs");
        has_colours(&String::from_utf8_lossy(&output.stdout))
    };
    assert!(!piped(command(&["presets"])));
    assert!(piped(command(&["presets", "--color", "always"])));
    assert!(!piped(command(&["presets", "--color", "always", "--json"])));
}

#[test]
fn lists_can_be_limited() {
    let home = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(home.path());
    let ids = three_sessions(&daemon);
    let sessions = |more: &[&str]| -> Vec<String> {
        let found = daemon.json(&[&["sessions"], more].concat());
        found.iter().map(|session| session["sessionId"].as_str().expect("an id").to_owned()).collect()
    };
    assert_eq!(sessions(&["--limit", "2"]), [ids[2].clone(), ids[1].clone()]);
    assert_eq!(sessions(&["--since", "1h"]).len(), 3);
    assert_eq!(sessions(&["--since", "2999-01-01T00:00:00Z"]).len(), 0);
    // The second session is the last one that changed.
    let all = daemon.json(&["sessions"]);
    let changed = all[1]["updateTime"].as_str().expect("a time");
    assert_eq!(sessions(&["--since", changed]), [ids[1].clone()]);
    let refused = daemon.run(&["sessions", "--since", "yesterday"]);
    assert_eq!(refused.status.code(), Some(64), "{refused:?}");

    let events = daemon.json(&["events"]);
    assert_eq!(daemon.json(&["events", "--limit", "5"]), events[events.len() - 5..]);
    assert_eq!(daemon.json(&["events", "--limit", "100000"]), events);
    let middle = &events[events.len() / 2];
    let time = middle["eventTime"].as_str().expect("a time");
    let since = daemon.json(&["events", "--since", time]);
    assert!(since.contains(middle) && since.len() < events.len() && since.last() == events.last(), "{since:?}");
    let mut follower = daemon
        .command(&["events", "--limit", "2", "--follow", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut lines = BufReader::new(follower.stdout.take().expect("piped")).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().expect("a line").expect("a line")).expect("JSON") };
    assert_eq!([next(), next()], events[events.len() - 2..]);
    daemon.text(&["title", "one", "another"]);
    assert_eq!(next()["kind"], "EVENT_KIND_SESSION_UPDATED");
    drop(follower.kill());
    drop(follower.wait());

    daemon.text(&["compact", "two"]);
    daemon.text(&["append", "two", &"more words about the tide ".repeat(400)]);
    daemon.text(&["append", "two", &"and more words about it ".repeat(400), "--role", "assistant"]);
    daemon.text(&["append", "two", &"and even more words ".repeat(400)]);
    daemon.text(&["compact", "two"]);
    let compactions = daemon.json(&["compactions", "two"]);
    assert_eq!(compactions.len(), 2);
    assert_eq!(daemon.json(&["compactions", "two", "--limit", "1"]), compactions[..1]);
}

#[test]
fn a_session_is_named_by_a_unique_abbreviation_of_its_id() {
    let home = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(home.path());
    let ids = three_sessions(&daemon);
    let table = plain(&on_terminal(&mut daemon.command(&["sessions"]), 80));
    for (id, line) in ids.iter().rev().zip(table.lines().skip(1)) {
        let short = line.split_whitespace().next().expect("an id");
        assert!(short.len() <= 12 && id.ends_with(short), "{short}: {id}");
        assert_eq!(daemon.json(&["status", short])[0]["session"]["sessionId"], Value::from(id.as_str()));
    }
    let short = &ids[1][28..];
    for arguments in [
        &["show", short][..],
        &["view", short],
        &["replay", short],
        &["diff", short, "2"],
        &["events", "--session", short],
        &["sessions", "--children", short],
        &["compact", short],
        &["compactions", short],
        &["compactions", short, "--requests"],
        &["undo", short],
        &["redo", short],
        &["append", short, "more"],
        &["title", short, "another"],
        &["create", "--parent", short],
        &["fork", short],
        &["rewind", short, "--all"],
        &["archive", short],
        &["archive", short, "--restore"],
        &["audit", "verify", short],
        &["audit", "head", short],
    ] {
        daemon.text(arguments);
    }
    // Ids begin with their time, which these sessions share.
    let shared = &ids[0][4..10];
    let refused = daemon.run(&["show", shared]);
    let printed = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(64), "{printed}");
    assert!(printed.contains("is ambiguous") && ids.iter().all(|id| printed.contains(id.as_str())), "{printed}");
    let refused = daemon.run(&["show", "ffffffff"]);
    let printed = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        refused.status.code() == Some(1) && printed.contains("`longhand sessions` lists the sessions"),
        "{printed}"
    );
    // A client id is never an abbreviation.
    daemon.text(&["create", "--client-id", short]);
    assert_ne!(daemon.json(&["status", short])[0]["sessionId"], Value::from(ids[1].as_str()));
}

#[test]
fn a_watcher_reads_a_conversation() {
    let home = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(home.path());
    let session = daemon.text(&["create", "--preset", "opencode@seed"]).trim_end().to_owned();
    let mut watcher =
        daemon.command(&["watch", &session[28..]]).stdout(Stdio::piped()).spawn().expect("the command starts");
    let subscribed = || daemon.json(&["status"])[0]["subscriberCount"] == "1";
    assert!((0..1_000).any(|_| subscribed()), "the watcher does not subscribe");
    let file = home.path().join("messages.jsonl");
    let messages = r#"{"role":"ROLE_USER","parts":[{"text":{"text":"list the files\n00:00:00  forged"}}]}
{"role":"ROLE_ASSISTANT","parts":[{"toolCall":{"callId":"c1","tool":"ls","inputJson":"{}"}}],"finish":{"reason":"FINISH_REASON_TOOL_CALLS"}}
{"role":"ROLE_TOOL","parts":[{"toolResult":{"callId":"c1","status":"TOOL_RESULT_STATUS_COMPLETED","output":"a\nb"}}]}
{"role":"ROLE_ASSISTANT","parts":[{"text":{"text":"There are two."}}],"finish":{"reason":"FINISH_REASON_STOP"}}
"#;
    std::fs::write(&file, messages).expect("written");
    let file = file.to_str().expect("UTF-8");
    daemon.text(&["append", &session, "--messages", file, "--actor", "ada"]);
    daemon.text(&["archive", &session]);
    let lines = BufReader::new(watcher.stdout.take().expect("piped")).lines().map(|line| line.expect("a line"));
    let mut printed = Vec::new();
    for line in lines {
        let is_last = line.ends_with("session archived");
        printed.push(if line.starts_with(' ') { line } else { line.split_at(10).1.to_owned() });
        if is_last {
            break;
        }
    }
    let expected = [
        "          here: cli watches",
        "user (ada): list the files",
        "    00:00:00  forged",
        "assistant (ada) calls ls: {}",
        "ls completed: a b",
        "assistant (ada): There are two.",
        "session archived",
    ];
    assert_eq!(printed, expected);
    drop(watcher.kill());
    drop(watcher.wait());
}

#[test]
fn a_compaction_by_hand_is_awaited_unless_it_is_detached() {
    let home = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(home.path());
    three_sessions(&daemon);
    let done = daemon.run(&["compact", "two"]);
    let (text, states) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let result = Regex::new(r"^summary cmp_\w+ is done: \d+ → \d+ tokens, \d+ messages covered").expect("a pattern");
    assert!(done.status.success() && result.is_match(&text), "{text}{states}");
    let first = states.lines().next().unwrap_or_default();
    assert!(first.contains("waits for a worker") || first.contains("runs"), "{states}");
    daemon.text(&["undo", "two"]);
    let begun = daemon.json(&["compact", "two", "--detach"]).remove(0);
    assert!(begun["outcome"].is_null(), "{begun}");
    // On a terminal the states are on one line, which is removed before the result.
    daemon.text(&["append", "three", &"words about the tide ".repeat(500)]);
    daemon.text(&["append", "three", &"words about the tide ".repeat(500), "--role", "assistant"]);
    daemon.text(&["append", "three", &"words about the tide ".repeat(500)]);
    let text = on_terminal(&mut daemon.command(&["compact", "three"]), 80);
    let last = text.trim_end().rsplit("\r\u{1b}[K").next().unwrap_or_default();
    assert!(text.contains("\r\u{1b}[K") && last.starts_with("summary cmp_"), "{text:?}");
}

#[test]
fn shells_complete_every_command() {
    let home = tempfile::tempdir().expect("a folder");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = longhand(home.path()).args(["completions", shell]).output().expect("the command runs");
        let script = String::from_utf8(output.stdout).expect("UTF-8");
        for word in ["compactions", "simulate", "detach", "completions"] {
            assert!(script.contains(word), "{word} in {shell}");
        }
    }
}

#[test]
fn an_evaluation_has_a_line_for_each_summarizer() {
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join("session.jsonl");
    transcript(&file, 12);
    let file = file.display().to_string();
    let output = longhand(home.path())
        .args(["evaluate", &file, "--at", "30", "--tokens", "500"])
        .output()
        .expect("the command runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for summarizer in ["extractive ", "tail "] {
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(summarizer)).collect();
        assert!(lines.len() == 1 && lines[0].contains(" presets "), "{text}");
    }
}
