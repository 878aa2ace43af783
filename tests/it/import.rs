//! Imports continue, whatever a line contains.

use crate::cli::Daemon;
use longhand::limits;
use serde_json::{Value, json};
use std::path::Path;

/// Length of an output that is too large for a message.
const LARGE: usize = limits::MESSAGE_BYTES_MAX + 1_000;

fn write(path: &Path, lines: &[Value]) -> Vec<String> {
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    std::fs::write(path, lines.join("\n") + "\n").expect("the transcript is written");
    lines
}

fn entry(id: &str, parent: Option<&str>, message: Value) -> Value {
    json!({"type": "message", "id": id, "parentId": parent, "timestamp": "2026-01-05T10:00:00.000Z", "message": message})
}

/// A pi conversation with a result, and a line of an unknown kind, that are larger than the maximum message.
fn large() -> Vec<Value> {
    let call = json!({"type": "toolCall", "id": "c1", "name": "cat", "arguments": {"path": "big"}});
    vec![
        json!({"type": "session", "version": 3, "id": "large", "timestamp": "2026-01-05T10:00:00.000Z", "cwd": "/"}),
        entry("a", None, json!({"role": "user", "content": "show the file"})),
        entry("b", Some("a"), json!({"role": "assistant", "content": [call], "stopReason": "toolUse"})),
        entry(
            "c",
            Some("b"),
            json!({"role": "toolResult", "toolCallId": "c1", "toolName": "cat",
            "content": [{"type": "text", "text": "x".repeat(LARGE)}], "isError": false}),
        ),
        json!({"type": "snapshot", "id": "d", "parentId": "c", "data": "y".repeat(LARGE)}),
        entry("e", Some("d"), json!({"role": "user", "content": "and then?"})),
    ]
}

/// The content of a line, joined from its pieces in records.
fn pieces(records: &[Value], line: u64) -> String {
    let mut data = String::new();
    for record in records {
        let metadata = record["metadataJson"].as_str().unwrap_or("{}");
        let metadata: Value = serde_json::from_str(metadata).expect("JSON");
        if metadata["line"] == line {
            data.push_str(record["parts"][0]["record"]["data"].as_str().expect("a record"));
        }
    }
    data
}

#[test]
fn a_line_that_no_message_holds_is_kept_and_the_import_goes_on() {
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join("large.jsonl");
    let path = file.display().to_string();
    let daemon = Daemon::start(home.path());
    // An agent still at work: its later lines are imported by the same command.
    let all = large();
    write(&file, &all[..3]);
    daemon.json(&["import", &path]);
    let lines = write(&file, &all);
    let report = daemon.json(&["import", &path]).remove(0);
    assert!(report["written"].as_i64().is_some_and(|count| count >= 3), "{report}");
    let again = daemon.json(&["import", &path]).remove(0);
    assert_eq!(again["written"], 0, "the same command has nothing left to do");

    let session = report["sessions"][0]["session_id"].as_str().expect("a session").to_owned();
    let records = daemon.json(&["show", &session, "--records"]);
    for line in [4, 5] {
        assert!(pieces(&records, line) == lines[line as usize - 1], "line {line} is not kept whole");
    }
    let view = daemon.text(&["context", &session]);
    assert!(view.contains("and then?") && view.contains("are more than a message may have"), "{}", &view[..2_000]);
    assert!(daemon.run(&["audit", "verify"]).status.success());
}

#[test]
fn a_message_that_the_daemon_refuses_is_kept_as_a_record_and_the_import_goes_on() {
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join("odd.jsonl");
    let name = "n".repeat(limits::NAME_BYTES_MAX + 1);
    // As JSON in JSON, the message is larger than the maximum record.
    let quotes = "\"".repeat(limits::MESSAGE_BYTES_MAX * 2 / 5);
    let call = json!({"type": "toolCall", "id": "c1", "name": name, "arguments": {"text": quotes}});
    let mut lines = large();
    lines.truncate(2);
    lines.push(entry("b", Some("a"), json!({"role": "assistant", "content": [call], "stopReason": "toolUse"})));
    lines.push(entry("c", Some("b"), json!({"role": "user", "content": "and then?"})));
    write(&file, &lines);
    let daemon = Daemon::start(home.path());
    let report = daemon.json(&["import", &file.display().to_string()]).remove(0);
    let session = report["sessions"][0]["session_id"].as_str().expect("a session").to_owned();
    let shown = daemon.json(&["show", &session, "--records"]);
    let refused = shown.iter().filter(|message| message["parts"][0]["record"]["kind"] == "refused");
    let data = refused.map(|message| message["parts"][0]["record"]["data"].as_str().expect("text"));
    let whole: Value = serde_json::from_str(&data.collect::<String>()).expect("the message as JSON");
    assert_eq!((&whole["clientId"], &whole["parts"][0]["toolCall"]["tool"]), (&json!("b"), &json!(name)));
    assert!(shown.iter().any(|message| message["clientId"] == "c"), "what follows is written too");
    let again = daemon.json(&["import", &file.display().to_string()]).remove(0);
    assert_eq!(again["written"], 0, "the same command has nothing left to do");
}

#[test]
fn agent_text_with_the_user_role_is_no_request_and_no_title() {
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join("notes.jsonl");
    let line = |id: &str, parent: Option<&str>, kind: &str, more: Value| {
        let mut line = json!({"type": kind, "uuid": id, "parentUuid": parent, "sessionId": "notes"});
        line.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        line
    };
    let user = |content: &str| json!({"message": {"role": "user", "content": content}});
    let meta = |content: &str| json!({"isMeta": true, "message": {"role": "user", "content": [{"type": "text", "text": content}]}});
    let reply = |text: &str| {
        json!({"message": {"id": text, "role": "assistant", "model": "m",
        "content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}})
    };
    let command =
        "<command-name>/mode</command-name>\n<command-message>mode</command-message>\n<command-args></command-args>";
    write(
        &file,
        &[
            line("a", None, "user", meta("Caveat: The messages below were generated by the user")),
            line("b", Some("a"), "user", user(command)),
            line("c", Some("b"), "user", user("<local-command-stdout>Set mode to plan</local-command-stdout>")),
            line(
                "d",
                Some("c"),
                "user",
                user("<system-reminder>be kind</system-reminder>\n## Fix the \u{1b}[1mparser\n\nplease"),
            ),
            line("e", Some("d"), "assistant", reply("I use a skill.")),
            line("f", Some("e"), "user", meta("Base directory for this skill: /skills/pdf\n\n# How to read a file")),
            line("g", Some("f"), "assistant", reply("Done.")),
        ],
    );
    let daemon = Daemon::start(home.path());
    let report = daemon.json(&["import", &file.display().to_string()]).remove(0);
    assert_eq!(report["problems"], 0, "{report}");
    let session = daemon.json(&["sessions"]).remove(0);
    assert_eq!(session["title"], "Fix the [1mparser");
    let shown = daemon.json(&["show", session["sessionId"].as_str().expect("an id")]);
    let notes: Vec<(&str, bool)> = shown
        .iter()
        .filter(|message| message["role"] == "ROLE_USER")
        .map(|message| {
            (message["clientId"].as_str().unwrap_or_default(), message["parts"][0]["marker"]["name"] == "note")
        })
        .collect();
    assert_eq!(notes, [("a", true), ("b", false), ("c", true), ("d", false), ("f", true)]);
    let view = daemon.text(&["context", session["sessionId"].as_str().expect("an id")]);
    assert!(view.contains("How to read a file"), "a model reads them all the same: {view}");
}
