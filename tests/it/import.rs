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
    let view = daemon.text(&["view", &session]);
    assert!(view.contains("and then?") && view.contains("are more than a message may have"), "{}", &view[..2_000]);
    assert!(daemon.run(&["audit", "verify"]).status.success());
}

#[test]
fn a_message_that_the_daemon_refuses_is_kept_as_a_record_and_the_import_goes_on() {
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join("odd.jsonl");
    // As JSON in JSON, the message is larger than the maximum record.
    let quotes = "\"".repeat(limits::MESSAGE_BYTES_MAX * 2 / 5);
    let mut blocks = vec![json!({"type": "text", "text": quotes})];
    blocks.resize(limits::MESSAGE_PARTS_MAX + 1, json!({"type": "text", "text": "more"}));
    let mut lines = large();
    lines.truncate(2);
    lines.push(entry("b", Some("a"), json!({"role": "assistant", "content": blocks.clone(), "stopReason": "stop"})));
    lines.push(entry("c", Some("b"), json!({"role": "user", "content": "and then?"})));
    write(&file, &lines);
    let daemon = Daemon::start(home.path());
    let report = daemon.json(&["import", &file.display().to_string()]).remove(0);
    let session = report["sessions"][0]["session_id"].as_str().expect("a session").to_owned();
    let shown = daemon.json(&["show", &session, "--records"]);
    let refused = shown.iter().filter(|message| message["parts"][0]["record"]["kind"] == "refused");
    let data = refused.map(|message| message["parts"][0]["record"]["data"].as_str().expect("text"));
    let whole: Value = serde_json::from_str(&data.collect::<String>()).expect("the message as JSON");
    assert_eq!((&whole["clientId"], whole["parts"].as_array().map(Vec::len)), (&json!("b"), Some(blocks.len())));
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
    let view = daemon.text(&["view", session["sessionId"].as_str().expect("an id")]);
    assert!(view.contains("How to read a file"), "a model reads them all the same: {view}");
}

/// Rows of a pi session with every field that the reader reads.
fn pi_rows() -> Vec<Value> {
    let usage =
        json!({"input": 3, "output": 68, "cacheRead": 5, "cacheWrite": 19, "totalTokens": 95, "cost": {"total": 0.1}});
    let blocks = json!([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "done"},
        {"type": "toolCall", "id": "c1", "name": "write", "arguments": {"z": 1.0}}]);
    let outputs = json!([{"type": "text", "text": "ok"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}]);
    let row = |kind: &str, more: Value| {
        let mut row = json!({"type": kind, "id": "", "parentId": "", "timestamp": "2026-01-02T03:04:06.500Z"});
        row.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        row
    };
    let message = |message: Value| row("message", json!({"message": message}));
    vec![
        message(json!({"role": "user", "content": "fix it", "timestamp": 1})),
        message(json!({"role": "assistant", "content": blocks, "provider": "p", "model": "m", "usage": usage,
            "stopReason": "error", "errorMessage": "no", "timestamp": 1})),
        message(json!({"role": "toolResult", "toolCallId": "c1", "content": outputs, "isError": false})),
        message(json!({"role": "bashExecution", "command": "ls", "output": "o", "exitCode": 1, "fullOutputPath": "p",
            "cancelled": false, "truncated": true})),
        row(
            "compaction",
            json!({"summary": "what was", "firstKeptEntryId": "n1", "firstKeptEntryIndex": 2, "tokensBefore": 1234}),
        ),
        row("branch_summary", json!({"summary": "a branch"})),
        row("custom_message", json!({"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]})),
        row("session_info", json!({"name": "a name"})),
        row("context_edit", json!({"targetId": "n1", "replacement": {"content": "other words"}})),
        row("custom", json!({"customType": "note", "data": 1})),
    ]
}

/// Rows of a Claude Code transcript with every field that the reader reads.
fn claude_rows() -> Vec<Value> {
    let usage = json!({"input_tokens": 3, "output_tokens": 1, "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 20});
    let source = json!({"type": "base64", "media_type": "image/png", "data": "aGk="});
    let web = json!({"type": "url", "url": "https://example.org"});
    let row = |kind: &str, more: Value| {
        let mut row = json!({"type": kind, "uuid": "", "parentUuid": "", "isSidechain": false, "sessionId": "s",
            "timestamp": "2026-01-02T03:04:06.500Z"});
        row.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        row
    };
    let user = |content: Value| json!({"message": {"role": "user", "content": content}});
    let reply = |block: Value| {
        json!({"message": {"id": "", "role": "assistant", "model": "m", "content": [block], "stop_reason": "end_turn",
            "usage": usage}})
    };
    let mut error = reply(json!({"type": "text", "text": "API Error"}));
    error["isApiErrorMessage"] = true.into();
    error["error"] = "overloaded".into();
    let mut side = user(json!("a task"));
    side["isSidechain"] = true.into();
    side["agentId"] = "g".into();
    let mut summary = user(json!("what was"));
    summary["isCompactSummary"] = true.into();
    vec![
        row(
            "user",
            user(json!([{"type": "text", "text": "see"}, {"type": "image", "source": source},
            {"type": "document", "title": "t", "source": web}])),
        ),
        row("assistant", reply(json!({"type": "thinking", "thinking": "hm", "signature": "c2ln"}))),
        row("assistant", reply(json!({"type": "tool_use", "id": "c1", "name": "Read", "input": {"a": 1}}))),
        row(
            "user",
            user(json!([{"type": "tool_result", "tool_use_id": "c1", "is_error": true,
            "content": [{"type": "text", "text": "found"}, {"type": "image", "source": source}]}])),
        ),
        row("assistant", error),
        row("user", side),
        row("system", json!({"subtype": "compact_boundary", "compactMetadata": {"trigger": "auto", "preTokens": 1}})),
        row("user", summary),
        row("custom-title", json!({"customTitle": "a title"})),
        row("system", json!({"subtype": "turn_duration", "durationMs": 5})),
    ]
}

/// Pointers to all values in a value, itself excepted.
fn pointers(value: &Value, at: &str, out: &mut Vec<String>) {
    let members: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(name, member)| (name.clone(), member)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(index, item)| (index.to_string(), item)).collect(),
        _ => return,
    };
    for (name, member) in members {
        let pointer = format!("{at}/{name}");
        pointers(member, &pointer, out);
        out.push(pointer);
    }
}

/// One row for each field of the given rows and each value out of its range, in one conversation.
fn out_of_range(rows: &[Value], id: &str, parent: &str) -> Vec<Value> {
    let mut deep = json!(1);
    (0..100).for_each(|_| deep = json!([deep.take()]));
    let values = [
        json!(i64::MAX),
        json!(i64::MIN),
        json!(1e308),
        json!(253_402_300_800_000_i64),
        json!(""),
        json!(" "),
        json!("x".repeat(2_000)),
        json!("\0\u{1b}[31m\u{202e}"),
        json!("+010000-01-01T00:00:00Z"),
        json!("-009998-01-01T00:00:00Z"),
        json!("ses_0123456789abcdef0123456789abcdef"),
        json!(null),
        json!({}),
        deep,
    ];
    let mut all = Vec::new();
    for row in rows {
        let mut fields = Vec::new();
        pointers(row, "", &mut fields);
        for (field, value) in fields.iter().flat_map(|field| values.iter().map(move |value| (field, value))) {
            let mut altered = row.clone();
            let number = all.len();
            altered[id] = format!("n{number}").into();
            altered[parent] = if number == 0 { Value::Null } else { format!("n{}", number - 1).into() };
            if let Some(own) = altered.pointer_mut("/message/id") {
                *own = format!("m{number}").into();
            }
            *altered.pointer_mut(field).expect("a field") = value.clone();
            all.push(altered);
        }
    }
    all
}

#[test]
fn no_value_of_any_field_ends_an_import_or_hides_a_message() {
    let home = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(home.path());
    let header = json!({"type": "session", "version": 3, "id": "pi", "timestamp": "2026-01-05T10:00:00.000Z"});
    let mut files = vec![
        ([vec![header.clone()], out_of_range(&pi_rows(), "id", "parentId")].concat(), "pi"),
        (out_of_range(&claude_rows(), "uuid", "parentUuid"), "claude-code"),
    ];
    // The fields of the header, each in a file of its own.
    for value in [json!("x".repeat(100_000)), json!("\0"), json!(i64::MAX), json!(" ")] {
        for field in ["id", "version", "timestamp"] {
            let mut header = header.clone();
            header["id"] = format!("header-{}", files.len()).into();
            header[field] = value.clone();
            files.push((vec![header, entry("a", None, json!({"role": "user", "content": "words"}))], "header"));
        }
    }
    for (index, (rows, name)) in files.into_iter().enumerate() {
        let file = home.path().join(format!("{name}-{index}.jsonl"));
        write(&file, &rows);
        let output = daemon.run(&["--json", "import", &file.display().to_string()]);
        let notes = String::from_utf8_lossy(&output.stderr);
        let refused: Vec<&str> = notes.lines().filter(|line| line.contains("kept as a record: ")).collect();
        assert!(output.status.success() && refused.is_empty(), "{name}: {refused:#?} {:?}", notes.lines().last());
        let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
        let entries = ["messages", "records", "agent_compactions", "agent_edits"].map(|name| report[name].as_i64());
        assert_eq!(report["written"].as_i64(), Some(entries.into_iter().flatten().sum()), "{name}: {report}");
    }
}

#[test]
fn what_is_no_regular_file_is_left_out_and_named() {
    let home = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(home.path());
    let row = |id: &str, side: bool| {
        json!({"type": "user", "uuid": id, "parentUuid": null, "sessionId": "main", "isSidechain": side,
            "message": {"role": "user", "content": "words"}})
    };
    let (file, folder) = (home.path().join("main.jsonl"), home.path().join("main/subagents"));
    std::fs::create_dir_all(folder.join("folder.jsonl")).expect("a folder");
    write(&file, &[row("a", false)]);
    write(&folder.join("agent-whole.jsonl"), &[row("b", true)]);
    write(&home.path().join("private.jsonl"), &[row("c", true)]);
    std::os::unix::fs::symlink("../../private.jsonl", folder.join("link.jsonl")).expect("a link");
    let pipe = folder.join("pipe.jsonl");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());

    let output = daemon.run(&["--json", "import", &file.display().to_string()]);
    let notes = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{notes}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!((&report["messages"], &report["problems"]), (&json!(2), &json!(3)), "{notes}");
    for name in ["folder.jsonl", "link.jsonl", "pipe.jsonl"] {
        assert!(notes.contains(&format!("{name}: it is no regular file: it is left out")), "{notes}");
    }
    for path in [&pipe.display().to_string(), "/dev/zero"] {
        let output = daemon.run(&["import", path]);
        let notes = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && notes.contains("it is no regular file"), "{path}: {notes}");
    }
}

/// Rows that share a line, that come twice, and that a crash cut off: every whole message is there once, and the rest is
/// counted and kept.
#[test]
fn a_transcript_with_every_kind_of_damage_has_each_whole_message_once() {
    let home = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(home.path());
    let row = |id: &str, parent: Option<&str>, role: &str, text: &str| {
        let content = if role == "user" { json!(text) } else { json!([{"type": "text", "text": text}]) };
        json!({"type": role, "uuid": id, "parentUuid": parent, "sessionId": "damaged",
            "timestamp": "2026-01-05T10:00:00.000Z", "message": {"role": role, "id": id, "content": content}})
        .to_string()
    };
    let first = row("a", None, "user", "first words");
    let second = row("b", Some("a"), "assistant", "second words");
    let third = row("c", Some("b"), "user", "third words");
    let fourth = row("d", Some("c"), "assistant", "fourth words");
    let fifth = row("e", Some("d"), "user", "fifth words");
    let lost = row("f", Some("e"), "assistant", "lost words");
    let lines = [
        first.clone(),
        // Two rows share a line.
        format!("{second}{third}"),
        // The row comes twice.
        second,
        // A stub of a write, blocks that were never written, and a row.
        format!("{{\"type\":\"user\",\"uuid\":\"g{}{fourth}", "\0".repeat(512)),
        fifth,
        // The file's beginning once more.
        first,
        // The daemon of the agent died.
        lost[..lost.len() / 2].to_owned(),
    ];
    let file = home.path().join("damaged.jsonl");
    std::fs::write(&file, lines.join("\n")).expect("the transcript is written");
    let output = daemon.run(&["--json", "import", &file.display().to_string()]);
    let notes = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{notes}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!((&report["messages"], report["sessions"].as_array().map(Vec::len)), (&json!(5), Some(1)), "{report}");
    assert!(report["problems"].as_i64().is_some_and(|problems| problems >= 4), "{notes}");
    let session = report["sessions"][0]["session_id"].as_str().expect("a session").to_owned();
    let view = daemon.text(&["view", &session]);
    let mut behind = 0;
    for words in ["first words", "second words", "third words", "fourth words", "fifth words"] {
        assert_eq!(view.matches(words).count(), 1, "{words}: {view}");
        let at = view.find(words).expect("counted");
        assert!(at >= behind, "in their order: {view}");
        behind = at;
    }
    let records = daemon.json(&["show", &session, "--records"]);
    assert!(format!("{records:?}").contains("\\\"uuid\\\":\\\"f\\\""), "the fragment is kept: {records:?}");
}
