//! Text from others does not control the reader's terminal, and cannot pass for output of the command line.

use crate::cli::Daemon;
use regex::Regex;
use serde_json::{Value, json};
use std::path::Path;

/// Control characters and a forged log line, short enough for a name.
const NAME: &str = "n\u{1b}[31m\u{9b}2J\r\n#77 2026-01-01 00:00:00Z root: forged\u{202e}\u{7f}";

/// Text that clears the screen, sets the title, overwrites its line, and imitates the audit log.
const WORDS: &str = "w\u{1b}[2J\u{1b}]0;owned\u{7}\u{8}\rover\u{9b}31m\u{202e}txt\u{2066}\u{200b}\n\
                     #77 2026-01-01 00:00:00Z root: session archived\n  = stop · 1 in, 1 out\n  → rm (c9)\n  [reasoning]\n\n\
                     \u{2028}#78 x\u{85}#79 y\u{b}\u{c}end";

/// A pi transcript with this text in every field that others can write.
fn transcript(path: &Path) {
    let entry = |id: &str, parent: Option<&str>, more: Value| {
        let mut entry = json!({"id": id, "parentId": parent, "timestamp": "2026-01-05T10:00:00.000Z"});
        let fields = more.as_object().expect("an object").clone();
        entry.as_object_mut().expect("an object").extend(fields);
        entry
    };
    let message = |message: Value| json!({"type": "message", "message": message});
    let usage = json!({"input": 10, "output": 5, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 15});
    let image = json!({"type": "image", "data": "QUJD", "mimeType": NAME});
    let call = json!({"type": "toolCall", "id": NAME, "name": NAME, "arguments": {NAME: WORDS}});
    let lines = [
        json!({"type": "session", "version": 3, "id": NAME, "timestamp": "2026-01-05T10:00:00.000Z", "cwd": WORDS}),
        entry("a", None, message(json!({"role": "user", "content": [{"type": "text", "text": WORDS}, image]}))),
        entry(
            NAME,
            Some("a"),
            message(json!({"role": "assistant", "content": [
            {"type": "thinking", "thinking": WORDS}, {"type": "text", "text": WORDS}, call, {"type": NAME, "of": WORDS}],
            "model": NAME, "provider": NAME, "usage": usage, "stopReason": "toolUse", "errorMessage": WORDS})),
        ),
        entry(
            "c",
            Some(NAME),
            message(json!({"role": "toolResult", "toolCallId": NAME, "toolName": NAME,
            "content": [{"type": "text", "text": WORDS.repeat(60)}], "isError": true})),
        ),
        entry("d", Some("c"), message(json!({"role": "user", "content": WORDS}))),
        entry(
            "e",
            Some("d"),
            json!({"type": "compaction", "summary": WORDS, "firstKeptEntryId": "d", "tokensBefore": 9}),
        ),
        entry("f", Some("e"), json!({"type": NAME, "data": WORDS})),
        entry("g", Some("f"), json!({"type": "session_info", "name": WORDS})),
        json!({"type": "message", "id": "h", "parentId": NAME.repeat(2), "message": {"role": NAME}}),
    ];
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    std::fs::write(path, lines.join("\n") + "\n").expect("the transcript is written");
}

/// The first character that a terminal would act on, or would not show.
fn active(text: &str) -> Option<char> {
    text.chars().find(|letter| {
        (letter.is_control() && !matches!(letter, '\n' | '\t'))
            || matches!(letter, '\u{200b}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    })
}

/// Every command that prints text from others.
fn commands<'a>(own: &'a str, file: &'a str, compaction: &'a str) -> Vec<Vec<&'a str>> {
    vec![
        vec!["sessions"],
        vec!["show", own, "--records", "--derived"],
        vec!["show", own],
        vec!["view", own],
        vec!["view", own, "--as-of", "5"],
        vec!["expand", own, "d"],
        vec!["expand", own, compaction],
        vec!["diff", own, "3", "8"],
        vec!["events"],
        vec!["replay", own, "--records"],
        vec!["replay", own],
        vec!["compactions", own],
        vec!["compactions", own, "--requests"],
        vec!["status"],
        vec!["status", own],
        vec!["status", "--metrics"],
        vec!["audit", "verify"],
        vec!["audit", "head"],
        vec!["presets", "show", "pi"],
        vec!["simulate", file],
        vec!["evaluate", file, "--window", "200", "--text"],
        vec!["compact", own, "--dry-run", "--instructions", WORDS],
        vec!["undo", own],
        vec!["redo", own],
        vec!["import", file, "--client-id", own],
    ]
}

#[test]
fn no_command_prints_what_a_terminal_would_obey() {
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join("session.jsonl");
    transcript(&file);
    let file = file.display().to_string();
    let daemon = Daemon::start(home.path());
    let printed = |arguments: &[&str]| {
        let output = daemon.run(arguments);
        let (text, errors) = (String::from_utf8(output.stdout), String::from_utf8(output.stderr));
        let (text, errors) = (text.expect("UTF-8"), errors.expect("UTF-8"));
        for text in [&text, &errors] {
            assert_eq!(active(text), None, "{arguments:?}: {text:?}");
        }
        (output.status.success(), text, errors)
    };
    let own = "own #77 forged";
    let (done, _, problems) = printed(&["import", &file, "--client-id", own]);
    assert!(done && problems.contains("session.jsonl:"), "{problems}");
    let events = daemon.json(&["events"]);
    let compaction = events.iter().find_map(|event| event["compacted"]["compactionId"].as_str()).expect("a compaction");

    let mut failed = Vec::new();
    for command in commands(own, &file, compaction) {
        if !printed(&command).0 {
            failed.push(command[0]);
        }
    }
    // There is too little to compact or to evaluate; every other command succeeds.
    assert!(failed.iter().all(|name| ["compact", "evaluate", "diff"].contains(name)), "{failed:?}");
    let nobody = format!("x{NAME}");
    let nobody = nobody.as_str();
    for mistake in [
        &["show", NAME][..],
        &["expand", own, nobody],
        &["retry", NAME],
        &["confirm", NAME],
        &["import", NAME],
        &["undo", NAME],
    ] {
        let (done, _, errors) = printed(mistake);
        assert!(!done && errors.trim_end().lines().count() == 1, "{mistake:?}: {errors}");
    }
    for command in [&["show", own][..], &["sessions"], &["replay", own], &["view", own]] {
        let (_, text, _) = printed(&[command, &["--json"]].concat());
        assert!(text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{command:?}");
    }
    let shown = daemon.json(&["show", own]);
    let first = shown.iter().find(|message| message["clientId"] == "a").expect("the first message");
    assert_eq!(first["parts"][0]["text"]["text"], WORDS, "programs read every character");
    let raw = daemon.text(&["show", own, "--raw"]);
    assert!(raw.contains("w\u{1b}[2J\u{1b}]0;owned\u{7}"), "people can ask for them: {raw:?}");
}

#[test]
fn no_words_pass_for_a_line_of_the_audit_log() {
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join("session.jsonl");
    transcript(&file);
    let daemon = Daemon::start(home.path());
    let report = daemon.json(&["import", &file.display().to_string()]).remove(0);
    let session = report["sessions"][0]["session_id"].as_str().expect("a session").to_owned();
    let events = daemon.json(&["events", "--session", &session]);
    let log = daemon.text(&["replay", &session, "--records"]);
    let head = Regex::new(r"^#\d+ \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ (cli|-): ").expect("a pattern");
    let headings: Vec<&str> = log.lines().filter(|line| !line.starts_with(' ') && !line.is_empty()).collect();
    assert!(headings.iter().all(|line| head.is_match(line)), "{headings:#?}");
    assert_eq!(headings.len(), events.len());
    // The headings of parts, and the usage of replies, are indented by two blanks, and no text is.
    let with = |lead: &str| log.lines().filter(|line| line.starts_with(lead)).count();
    assert_eq!((with("  → "), with("  [reasoning]")), (1, 1), "{log}");
    let ends = shown_ends(&daemon.json(&["show", &session, "--records"]));
    assert_eq!(with("  = "), ends, "{log}");
    // Headings of messages and views are at the margin too.
    for command in [["show", &session], ["view", &session]] {
        let text = daemon.text(&command);
        let forged = text.lines().filter(|line| line.starts_with("#77") || line.starts_with("#78")).count();
        assert_eq!(forged, 0, "{text}");
    }
}

/// Number of messages with an end: a reason, a detail or usage.
fn shown_ends(messages: &[Value]) -> usize {
    let has_text = |message: &&Value| {
        let finish = &message["finish"];
        !finish["reason"].is_null() || !finish["detail"].is_null() || !finish["usage"].is_null()
    };
    messages.iter().filter(has_text).count()
}
