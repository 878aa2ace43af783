//! Sessions as files of other agents and as documents, through the real binary.

use crate::cli::Daemon;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// A made-up session file of pi with an edit, a compaction and a line of an unknown kind.
fn pi_file(path: &Path) -> String {
    let entry = |id: &str, parent: Option<&str>, message: Value| json!({"type": "message", "id": id, "parentId": parent, "timestamp": "2026-01-05T10:00:00.000Z", "message": message});
    let call = json!({"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"n": 1.0}});
    let lines = [
        json!({"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-05T10:00:00.000Z", "cwd": "/"}),
        entry("a", None, json!({"role": "user", "content": "run <b>it</b> \u{1b}"})),
        entry("b", Some("a"), json!({"role": "assistant", "content": [call], "stopReason": "toolUse"})),
        entry(
            "c",
            Some("b"),
            json!({"role": "toolResult", "toolCallId": "c1", "toolName": "bash", "isError": false,
            "content": [{"type": "text", "text": "out"}]}),
        ),
        json!({"type": "novelty", "id": "n", "parentId": "c", "data": [1.50]}),
        entry("d", Some("n"), json!({"role": "user", "content": "next"})),
        json!({"type": "context_edit", "id": "e", "parentId": "d", "targetId": "d", "replacement": {"content": "other"}}),
        json!({"type": "compaction", "id": "k", "parentId": "e", "summary": "short", "firstKeptEntryId": "d",
            "tokensBefore": 9}),
        entry("f", Some("k"), json!({"role": "user", "content": "more"})),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(path, &text).expect("the file is written");
    text
}

/// The texts of a session's view.
fn view(daemon: &Daemon, session: &str) -> Vec<String> {
    let lines = daemon.json(&["view", session]);
    let messages = lines.iter().flat_map(|line| line["messages"]["messages"].as_array().into_iter().flatten());
    let parts = messages.flat_map(|message| message["parts"].as_array().into_iter().flatten());
    parts.filter_map(|part| part["part"]["text"]["text"].as_str().map(str::to_owned)).collect()
}

#[test]
fn an_imported_file_comes_back_whole_and_goes_on() {
    let home = tempfile::tempdir().expect("a folder");
    let (file, copy) = (home.path().join("pi.jsonl"), home.path().join("copy.jsonl"));
    let (path, copy_path) = (file.display().to_string(), copy.display().to_string());
    let text = pi_file(&file);
    let daemon = Daemon::start(home.path());
    daemon.json(&["import", &path, "--client-id", "first", "--preset", "pi@1.5"]);
    let output = daemon.run(&["export", "first", "--format", "pi", "--output", &copy_path]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(std::fs::read_to_string(&copy).expect("the copy"), text);
    assert_eq!(std::fs::metadata(&copy).expect("the copy").permissions().mode() & 0o777, 0o600);
    let report = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(report.contains("9 lines, 9 of them the bytes that were imported"), "{report}");
    assert!(!daemon.run(&["export", "first", "--format", "pi", "--output", &copy_path]).status.success());

    daemon.text(&["append", "first", "one more"]);
    daemon.text(&["rewind", "first", "f"]);
    let longer = daemon.text(&["export", "first", "--format", "pi"]);
    assert!(longer.starts_with(&text) && longer.lines().count() == 11, "{longer}");
    std::fs::write(&file, longer).expect("the file is written");
    daemon.json(&["import", &path, "--client-id", "second", "--preset", "pi@1.5"]);
    let shown = view(&daemon, "second");
    assert!(shown.len() >= 3 && shown == view(&daemon, "first"), "{shown:?}");
    assert!(daemon.run(&["audit", "verify"]).status.success());
}

#[test]
fn documents_name_states_and_have_no_markup_of_a_session() {
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join("pi.jsonl");
    pi_file(&file);
    let daemon = Daemon::start(home.path());
    daemon.json(&["import", &file.display().to_string(), "--client-id", "first"]);
    for format in ["markdown", "html"] {
        let out = daemon.text(&["export", "first", "--format", format]);
        assert!(out.contains("run &lt;b") && out.contains("\\u{1b}") && !out.contains('\u{1b}'), "{out}");
        assert!(out.contains("covered at #") && out.contains("edited at #"), "{out}");
        assert!(!out.contains("novelty"), "{out}");
        let out = daemon.text(&["export", "first", "--format", format, "--records", "--output-bytes", "2"]);
        assert!(out.contains("novelty") && out.contains("1 bytes more"), "{out}");
    }
    assert!(!daemon.run(&["export", "first", "--format", "pi", "--records"]).status.success());
}
