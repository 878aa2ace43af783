//! `longhand evaluate`, as its binary: the content that summaries keep, on a transcript with one fact of each kind, and
//! on real ones.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn evaluate(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhand"));
    // An address without a listener: an evaluation needs no daemon.
    command.env("LONGHAND_SERVER", "http://127.0.0.1:9").arg("evaluate").args(arguments);
    command.output().expect("the binary runs")
}

fn rows(arguments: &[&str]) -> Vec<Value> {
    let run = evaluate(&[arguments, &["--json"]].concat());
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = String::from_utf8(run.stdout).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Writes a pi session, entry by entry.
struct Talk {
    lines: Vec<String>,
    parent: Value,
}

impl Talk {
    fn new() -> Self {
        let head = json!({"type": "session", "version": 3, "id": "s1", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/src"});
        Self { lines: vec![head.to_string()], parent: Value::Null }
    }

    fn entry(&mut self, mut entry: Value) -> String {
        let id = format!("{:08x}", self.lines.len());
        entry["id"] = json!(id);
        entry["parentId"] = self.parent.clone();
        entry["timestamp"] = json!("2026-01-01T00:00:01.000Z");
        self.parent = json!(id);
        self.lines.push(entry.to_string());
        id
    }

    fn user(&mut self, words: &str) -> String {
        let content = json!([{"type": "text", "text": words}]);
        self.entry(json!({"type": "message", "message": {"role": "user", "content": content, "timestamp": 1}}))
    }

    fn reply(&mut self, content: &Value, reason: &str) {
        let message = json!({"role": "assistant", "content": content, "model": "m", "provider": "p",
            "stopReason": reason, "timestamp": 1});
        self.entry(json!({"type": "message", "message": message}));
    }

    fn reply_text(&mut self, words: &str) {
        self.reply(&json!([{"type": "text", "text": words}]), "stop");
    }

    fn call(&mut self, tool: &str, arguments: Value, output: &str, is_error: bool) {
        let id = format!("c{}", self.lines.len());
        self.reply(&json!([{"type": "toolCall", "id": id, "name": tool, "arguments": arguments}]), "toolUse");
        let content = json!([{"type": "text", "text": output}]);
        let message = json!({"role": "toolResult", "toolCallId": id, "toolName": tool, "content": content,
            "isError": is_error, "timestamp": 1});
        self.entry(json!({"type": "message", "message": message}));
    }

    fn write(self, folder: &Path) -> String {
        let path = folder.join("talk.jsonl");
        std::fs::write(&path, self.lines.join("\n")).expect("the session can be written");
        path.to_string_lossy().into_owned()
    }
}

const ERROR: &str = "error[E0502]: cannot borrow `tokens` as mutable";

/// The first half of a session, with one fact of each kind.
fn first_half(talk: &mut Talk) {
    talk.user("Please make parse_header in /src/http/parser.rs accept 16384 bytes.");
    talk.call("read", json!({"path": "/src/http/parser.rs"}), "fn parse_header() {}\n", false);
    talk.call("bash", json!({"command": "cd /src && cargo test --lib parser"}), ERROR, true);
    let todos = json!([{"content": "write the benchmark", "status": "pending"},
        {"content": "read the parser", "status": "completed"}]);
    talk.call("todowrite", json!({"todos": todos}), "ok", false);
    talk.reply_text("The borrow is the problem.");
}

/// The second half, which uses all of them, and some new ones.
fn second_half(talk: &mut Talk) {
    talk.reply_text("As parse_header takes 16384 bytes, next I write the benchmark for new_name and 77777.");
    talk.call("edit", json!({"path": "/src/http/parser.rs"}), "done", false);
    talk.call("edit", json!({"path": "/src/http/other.rs"}), "done", false);
    talk.call("bash", json!({"command": "cargo test --lib parser | tail"}), ERROR, true);
}

/// The rows of the built-in summarizer.
fn written(rows: &[Value]) -> Vec<&Value> {
    rows.iter().filter(|row| row["summarizer"] == "extractive").collect()
}

fn kept(row: &Value, kind: &str) -> (u64, u64) {
    let of = |field: &str| row["kept"][kind][field].as_u64().unwrap_or_else(|| panic!("{kind} in {row}"));
    (of("kept"), of("all"))
}

#[test]
fn each_kind_of_fact_is_found_and_searched_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut talk = Talk::new();
    first_half(&mut talk);
    let until = talk.user("Go on.");
    let own = "The work is about parser.rs, 16384 bytes and a borrow.";
    talk.entry(json!({"type": "compaction", "summary": own, "firstKeptEntryId": until, "tokensBefore": 900}));
    second_half(&mut talk);
    let file = talk.write(folder.path());
    let rows = rows(&[&file, "--preset", "opencode@seed", "--preset", "pi@1.5", "--tokens", "600"]);
    assert_eq!(rows.len(), 5, "{rows:?}");
    let own = &rows[0];
    let made: Vec<&Value> = written(&rows);
    let tails: Vec<&Value> = rows.iter().filter(|row| row["summarizer"] == "tail").collect();
    assert_eq!((made.len(), tails.len()), (2, 2), "the end of the history stands beside each summary of its size");
    assert!(tails[0]["text"].as_str().expect("a text").ends_with("The borrow is the problem.\n"), "{}", tails[0]);
    assert_eq!((own["summarizer"].as_str(), own["boundary_kind"].as_str()), (Some("transcript"), Some("real")));
    assert_eq!(own["named_or_expandable"], Value::Null, "such a summary leaves no ids");
    for (kind, expected) in [
        ("files", (1, 1)),
        ("identifiers", (0, 1)),
        ("commands", (0, 1)),
        ("errors", (0, 1)),
        ("figures", (1, 1)),
        ("to_dos", (0, 1)),
    ] {
        assert_eq!(kept(own, kind), expected, "{kind} of the transcript's own");
        for row in &made {
            assert_eq!(kept(row, kind), (1, 1), "{kind} in\n{}", row["text"].as_str().expect("a text"));
        }
    }
    assert_eq!(own["lost"]["identifiers"], json!(["parse_header"]));
    assert_eq!((own["lost"].get("files"), &made[0]["lost"]), (None, &json!({})));
    for row in &made {
        assert_eq!(row["named_or_expandable"], json!({"kept": 6, "all": 6}), "{row}");
        assert!(row["tokens"].as_u64().expect("tokens") <= 600, "{row}");
    }
    // The text that the policy adds to every summary is evaluated too.
    let text = made[1]["text"].as_str().expect("a text");
    assert!(text.contains("<read-files>\n/src/http/parser.rs\n</read-files>"), "{text}");
    let run = evaluate(&[&file, "--preset", "opencode@seed", "--text"]);
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(text.starts_with("talk.jsonl, boundary of its own compaction: 8 messages before, "), "{text}");
    assert!(text.contains("WITH EXPAND") && text.contains("1/1 100 %") && text.contains("## Goal"), "{text}");
}

#[test]
fn a_transcript_without_a_compaction_is_split_where_the_preset_would() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut talk = Talk::new();
    first_half(&mut talk);
    for number in 0..12 {
        talk.user(&format!("Tell me about topic {number}."));
        talk.reply_text(&"It is a long story, and here it goes. ".repeat(60));
    }
    second_half(&mut talk);
    let file = talk.write(folder.path());
    let window = ["--window", "6000", "--max-output", "500"];
    let rows =
        rows(&[&[file.as_str(), "--preset", "opencode@seed", "--preset", "claude-code@seed"], &window[..]].concat());
    assert!(!rows.is_empty());
    for row in written(&rows) {
        assert_eq!(row["boundary_kind"], "simulated", "{row}");
        assert_eq!(kept(row, "files"), (1, 1), "{row}");
        let all = &row["named_or_expandable"];
        assert_eq!((&all["kept"], &row["named"]["all"]), (&all["all"], &all["all"]), "{row}");
    }
    // In a large window nothing is compacted, which is reported.
    let run = evaluate(&[&file, "--preset", "opencode@seed"]);
    assert!(run.status.success() && run.stdout.is_empty());
    assert!(String::from_utf8_lossy(&run.stderr).contains("makes no summary in a window of 200000"));
    let run = evaluate(&["nowhere.jsonl"]);
    assert!(!run.status.success() && String::from_utf8_lossy(&run.stderr).contains("nowhere.jsonl"));
}

/// The session that was really compacted, counted as `recall.py` counts it.
#[test]
fn the_real_compaction_has_the_known_figures() {
    let name = "../shared/data/claude-code/compacted/258c7280-ae70-4798-800f-63464d01a85d.jsonl";
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    if !path.exists() {
        println!("skipped: the transcript {name} is not here");
        return;
    }
    let rows = rows(&[&path.to_string_lossy(), "--preset", "opencode@seed"]);
    let (own, made) = (&rows[0], &rows[1]);
    assert_eq!(own["tokens"], 3_629);
    assert_eq!((kept(own, "files"), kept(own, "identifiers")), ((4, 15), (18, 69)));
    let (files, names) = (kept(made, "files"), kept(made, "identifiers"));
    assert!(files.0 >= 12 && files.1 == 15, "{files:?}");
    assert!(names.1 == 69, "{names:?}");
    check_words(made);
    assert!(made["tokens"].as_u64().expect("tokens") <= 3_629, "{made}");
}

/// Checks that the text is useful, is not mostly lists, and contradicts no check.
fn check_words(row: &Value) {
    let of = |field: &str| row["precision"][field].as_u64().expect("a count");
    assert!(of("kept") * 100 >= of("all") * 30, "{row}");
    assert!(row["lists_percent"].as_u64().expect("a share") <= 15, "{row}");
    assert_eq!(row["contradictions"], json!([]), "{row}");
}

#[test]
fn every_shared_transcript_is_summarized_without_lists_and_contradictions() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    if !folder.exists() {
        println!("skipped: the transcripts are not here");
        return;
    }
    for (name, split) in [
        ("claude-code/compacted/258c7280-ae70-4798-800f-63464d01a85d.jsonl", "229"),
        ("pi/large-session.jsonl", "640"),
        ("claude-code/subagent.jsonl", "30"),
        ("claude-code/tool_heavy.jsonl", "20"),
    ] {
        let path = folder.join(name).to_string_lossy().into_owned();
        for (tokens, pieces) in [("4000", "1"), ("1000", "1"), ("4000", "4")] {
            let arguments = ["--preset", "opencode@seed", "--at", split, "--tokens", tokens, "--pieces", pieces];
            let rows = rows(&[&[path.as_str()], &arguments[..]].concat());
            let row = written(&rows)[0];
            assert_eq!(
                (row["boundary_kind"].as_str(), row["contradictions"].clone()),
                (Some("chosen"), json!([])),
                "{row}"
            );
            // A short one has few words beside its files.
            assert!(row["lists_percent"].as_u64().expect("a share") <= 15, "{row}");
        }
    }
}

#[test]
fn words_are_measured_by_what_is_used_again_and_by_how_checks_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut talk = Talk::new();
    first_half(&mut talk);
    talk.call("bash", json!({"command": "cargo test --lib parser"}), "test result: ok. 3 passed; 0 failed", false);
    let until = talk.user("Go on.");
    let own = "## Done\nThe function parse_header.\n- `cargo test --lib parser` still fails\n- /src/http/parser.rs parse_header\n\
        ## Next\n- finish parse_header";
    talk.entry(json!({"type": "compaction", "summary": own, "firstKeptEntryId": until, "tokensBefore": 900}));
    second_half(&mut talk);
    let file = talk.write(folder.path());
    let out = folder.path().join("summaries");
    let out_text = out.to_string_lossy().into_owned();
    let rows = rows(&[&file, "--preset", "opencode@seed", "--tokens", "300", "--tokens", "600", "--out", &out_text]);
    assert_eq!(written(&rows).len(), 2, "each size has a row");
    let own = &rows[0];
    assert_eq!(own["contradictions"], json!(["- `cargo test --lib parser` still fails"]));
    assert_eq!((&own["precision"]["kept"], &own["precision"]["all"]), (&json!(2), &json!(2)), "{own}");
    assert!(own["lists_percent"].as_u64().expect("a share") > 10, "{own}");
    assert_eq!(own["next_age"], json!(7), "{own}");
    assert_eq!(written(&rows)[0]["contradictions"], json!([]), "{rows:?}");
    assert_eq!(std::fs::read_dir(out).expect("a folder").count(), rows.len(), "each summary has a file");
}
