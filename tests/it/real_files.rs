//! Files as agents write them: what a person typed and what the agent compacted is there once, with its time and place,
//! however often the file is imported.

use crate::cli::Daemon;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn row(kind: &str, id: &str, parent: Option<&str>, more: Value) -> Value {
    let mut row = json!({"type": kind, "uuid": id, "parentUuid": parent, "sessionId": "real", "cwd": "/work/parser",
        "isSidechain": false, "timestamp": "2025-03-04T05:06:07.000Z"});
    row.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    row
}

fn asked(id: &str, parent: Option<&str>, text: &str) -> Value {
    row("user", id, parent, json!({"message": {"role": "user", "content": text}}))
}

fn replied(id: &str, parent: &str, block: Value) -> Value {
    let usage = json!({"input_tokens": 5, "output_tokens": 30, "cache_read_input_tokens": 900});
    let message =
        json!({"id": format!("m-{id}"), "role": "assistant", "model": "m", "content": [block], "usage": usage});
    row("assistant", id, Some(parent), json!({"message": message}))
}

fn said(id: &str, parent: &str, text: &str) -> Value {
    replied(id, parent, json!({"type": "text", "text": text}))
}

fn called(id: &str, parent: &str, call: &str) -> Value {
    replied(id, parent, json!({"type": "tool_use", "id": call, "name": "Read", "input": {"file_path": "/w/plan.md"}}))
}

fn answered(id: &str, parent: &str, call: &str) -> Value {
    let block = json!({"type": "tool_result", "tool_use_id": call, "content": "the plan"});
    row("user", id, Some(parent), json!({"message": {"role": "user", "content": [block]}}))
}

fn compacted(id: &str, after: &str, summary: &str) -> [Value; 2] {
    let boundary = json!({"subtype": "compact_boundary", "logicalParentUuid": after,
        "compactMetadata": {"trigger": "auto", "preTokens": 22_000}});
    let text = json!({"isCompactSummary": true, "message": {"role": "user", "content": summary}});
    [row("system", id, None, boundary), row("user", &format!("{id}-summary"), Some(id), text)]
}

/// A compaction that was recorded while a call was open, which was made again behind it.
fn open_at_compaction() -> Vec<Value> {
    let mut rows = vec![asked("u1", None, "why is the sky blue"), said("a1", "u1", "because of scattering")];
    rows.extend([asked("u2", Some("a1"), "update the plan"), called("a2", "u2", "c1")]);
    rows.extend(compacted("k", "a2", "the sky is blue because of scattering"));
    rows.extend([
        called("a3", "k-summary", "c2"),
        answered("r3", "a3", "c2"),
        said("a4", "r3", "The plan is updated."),
    ]);
    rows
}

fn write(path: &Path, rows: &[Value]) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(path, rows.iter().map(|row| format!("{row}\n")).collect::<String>()).expect("the file is written");
}

fn text_of(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// All that a daemon serves of its sessions and of their histories and views.
fn served(daemon: &Daemon) -> Vec<String> {
    let mut served = Vec::new();
    for session in daemon.json(&["sessions"]) {
        let id = session["sessionId"].as_str().expect("an id").to_owned();
        served.push(session.to_string());
        for command in ["show", "view", "compactions"] {
            served.push(daemon.text(&[command, &id, "--json"]));
        }
    }
    served
}

#[test]
fn a_compaction_that_was_recorded_while_a_call_was_open_counts_at_once() {
    let home = tempfile::tempdir().expect("a folder");
    let (daemon, file) = (Daemon::start(home.path()), home.path().join("open.jsonl"));
    let rows = open_at_compaction();
    // The file ends behind the compaction, and then goes on.
    for length in [6, rows.len()] {
        write(&file, &rows[..length]);
        let report = daemon.json(&["import", text_of(&file)]).remove(0);
        assert_eq!(report["compactions"]["supplied"], 1, "{report}");
        let session = report["sessions"][0]["session_id"].as_str().expect("a session").to_owned();
        let view = daemon.text(&["view", &session]);
        assert!(view.contains("the sky is blue because of scattering"), "{view}");
        // What people said stands beside the summary, as a list.
        assert!(!view.contains("    update the plan"), "the summary covers what was before it: {view}");
        let before = served(&daemon);
        daemon.json(&["import", text_of(&file)]);
        assert_eq!(served(&daemon), before, "a second import changed something");
    }
    assert!(daemon.run(&["audit", "verify"]).status.success());
}

#[test]
fn what_was_typed_while_a_call_ran_is_in_the_view() {
    let home = tempfile::tempdir().expect("a folder");
    let (daemon, file) = (Daemon::start(home.path()), home.path().join("queued.jsonl"));
    let queued =
        json!({"attachment": {"type": "queued_command", "prompt": "the name is optional", "commandMode": "prompt"}});
    let rows = [
        asked("u1", None, "make the form"),
        called("a1", "u1", "c1"),
        answered("r1", "a1", "c1"),
        row("attachment", "q1", Some("r1"), queued),
        said("a2", "q1", "Right."),
    ];
    write(&file, &rows);
    let report = daemon.json(&["import", text_of(&file)]).remove(0);
    let session = report["sessions"][0]["session_id"].as_str().expect("a session");
    let view = daemon.text(&["view", session]);
    assert_eq!(view.matches("the name is optional").count(), 1, "{view}");
    let before = served(&daemon);
    daemon.json(&["import", text_of(&file)]);
    assert_eq!(served(&daemon), before);
}

/// A transcript of any rows in any order, the same for the same seed.
fn generated(seed: u64) -> Vec<Value> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let session = format!("generated-{seed}");
    let mut rows: Vec<Value> = vec![asked("n0", None, "begin")];
    let (mut last, mut calls) = ("n0".to_owned(), Vec::new());
    for number in 1..40 {
        let id = format!("n{number}");
        let made = match next(10) {
            0 => vec![asked(&id, Some(&last), &format!("request {number}"))],
            1 | 2 => vec![said(&id, &last, &format!("reply {number}"))],
            3 | 4 => {
                calls.push(format!("c{number}"));
                vec![called(&id, &last, &format!("c{number}"))]
            }
            5 | 6 => match calls.pop() {
                Some(call) => vec![answered(&id, &last, &call)],
                None => vec![said(&id, &last, "nothing to do")],
            },
            7 => compacted(&id, &last, &format!("summary {number}")).to_vec(),
            8 => {
                let queued = json!({"attachment": {"type": "queued_command", "prompt": format!("typed {number}")}});
                vec![row("attachment", &id, Some(&last), queued)]
            }
            _ => {
                let operation = ["enqueue", "remove", "dequeue"][usize::try_from(next(3)).expect("small")];
                let row = json!({"type": "queue-operation", "operation": operation, "sessionId": session,
                    "content": "typed ahead"});
                rows.push(row);
                continue;
            }
        };
        last = made[made.len() - 1]["uuid"].as_str().expect("an id").to_owned();
        rows.extend(made);
    }
    rows.iter_mut().for_each(|row| row["sessionId"] = session.clone().into());
    rows
}

/// The transcripts that are no part of the repository.
fn real_files() -> Vec<PathBuf> {
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    let folders = ["cases", "claude-code", "claude-code/compacted", "pi"].map(|folder| data.join(folder));
    let files = folders.iter().filter_map(|folder| folder.read_dir().ok()).flatten();
    let files = files.map(|file| file.expect("an entry").path());
    let files: Vec<_> = files.filter(|file| file.extension().is_some_and(|kind| kind == "jsonl")).collect();
    if files.is_empty() {
        println!("skipped: {} has no transcripts", data.display());
    }
    files
}

#[test]
fn a_second_import_of_any_file_changes_nothing() {
    let home = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(home.path());
    let own = home.path().join("own.jsonl");
    write(&own, &open_at_compaction());
    let mut files = real_files();
    files.push(own);
    for seed in 0..12 {
        files.push(home.path().join(format!("generated-{seed}.jsonl")));
        write(&files[files.len() - 1], &generated(seed));
    }
    let files: Vec<&str> = files.iter().map(|file| text_of(file)).collect();
    let import = [["import"].as_slice(), &files].concat();
    daemon.json(&import);
    let before = served(&daemon);
    let again = daemon.json(&import);
    assert_eq!(served(&daemon), before);
    assert!(again.iter().all(|report| report["written"] == 0), "{again:?}");
    assert!(daemon.run(&["audit", "verify"]).status.success());
}

#[test]
fn several_files_are_imported_and_those_that_cannot_be_are_named() {
    let home = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(home.path());
    let folder = home.path().join("files");
    write(&folder.join("a/one.jsonl"), &[asked("u1", None, "the first one")]);
    let mut second = asked("u2", None, "the second one");
    second["sessionId"] = "second".into();
    write(&folder.join("b/two.jsonl"), &[second]);
    let other = json!({"type": "session.start", "data": {}, "id": "e", "parentId": null, "timestamp": "T"});
    write(&folder.join("b/other.jsonl"), &[other]);
    let output = daemon.run(&["import", text_of(&folder)]);
    let notes = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && notes.contains("left out: ") && notes.contains("other.jsonl: this is a file of"),
        "{notes}"
    );
    assert!(notes.contains("a file of Copilot CLI") && notes.contains("2 of 3 files: 2 sessions"), "{notes}");
    assert!(notes.contains("Next: "), "{notes}");
    assert_eq!(daemon.json(&["sessions"]).len(), 2);
    let pattern = format!("{}/*/two.jsonl", folder.display());
    assert_eq!(daemon.json(&["import", &pattern])[0]["existed"], 1);
}

#[test]
fn times_and_places_of_a_file_are_told_apart_from_those_of_its_import() {
    let home = tempfile::tempdir().expect("a folder");
    let (daemon, file) = (Daemon::start(home.path()), home.path().join("old.jsonl"));
    let mut last = said("a1", "u1", "a lantern");
    last["timestamp"] = "2025-03-05T00:00:00.000Z".into();
    write(&file, &[asked("u1", None, "draw a lantern"), last]);
    daemon.json(&["import", text_of(&file)]);
    daemon.text(&["create", "--title", "of today"]);

    let listed = |options: &[&str]| -> Vec<String> {
        let sessions = daemon.json(&[&["sessions"], options].concat());
        sessions.iter().map(|session| session["title"].as_str().expect("a title").to_owned()).collect()
    };
    let session = daemon.json(&["sessions", "--project", "parser"]).remove(0);
    let times = ["originStartTime", "originEndTime"].map(|name| session[name].as_str().expect("a time").to_owned());
    assert_eq!(times, ["2025-03-04T05:06:07Z", "2025-03-05T00:00:00Z"]);
    let made = session["createTime"].as_str().expect("a time");
    assert!(made > "2026", "{made} is the time of the import");
    assert_eq!(listed(&["--directory", "/work"]), ["draw a lantern"]);
    assert_eq!(listed(&["--written-before", "2025-03-04"]), [""; 0]);
    assert_eq!(
        listed(&["--written-since", "2025-03-04T10:00:00Z", "--written-before", "2026-01-01"]),
        ["draw a lantern"]
    );
    assert_eq!(listed(&["--written-since", "2026-01-01"]), ["of today"]);
    assert!(daemon.text(&["sessions"]).contains("2025-03-05"));

    let found = |options: &[&str]| daemon.json(&[&["search", "lantern"], options].concat());
    let all = found(&[]);
    assert_eq!(all.len(), 2);
    assert!(all.iter().all(|hit| hit["originTime"].as_str().is_some_and(|time| time.starts_with("2025-03-0"))));
    assert_eq!(found(&["--since", "2025-03-04T10:00:00Z"]).len(), 1, "when it was written");
    assert_eq!(found(&["--since", "2026-01-01"]).len(), 0);
    assert!(daemon.text(&["search", "lantern"]).contains("2025-03-05"));
}
