//! `longhand simulate`, as its binary: without a daemon, on the transcripts at hand.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn simulate(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhand"));
    // An address that nobody listens at: a simulation asks no daemon.
    command.env("LONGHAND_SERVER", "http://127.0.0.1:9").arg("simulate").args(arguments);
    command.output().expect("the binary runs")
}

/// A pi session whose turns bring long outputs, and a reply each.
fn session(folder: &Path) -> String {
    let mut lines = vec![
        r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/src"}"#.to_owned(),
    ];
    let mut parent = Value::Null;
    let mut add = |number: usize, message: Value| {
        let id = format!("{number:08x}");
        let timestamp = "2026-01-01T00:00:01.000Z";
        let line = serde_json::json!({ "type": "message", "id": id, "parentId": parent, "timestamp": timestamp, "message": message });
        parent = Value::String(id);
        lines.push(line.to_string());
    };
    for turn in 0..40 {
        let call = format!("c{turn}");
        let words = |text: &str| serde_json::json!([{ "type": "text", "text": text }]);
        let ask = format!("Look at file {turn}.");
        add(4 * turn, serde_json::json!({ "role": "user", "content": words(&ask), "timestamp": 1 }));
        let tool =
            serde_json::json!([{ "type": "toolCall", "id": call, "name": "read", "arguments": { "path": "a.rs" } }]);
        add(
            4 * turn + 1,
            serde_json::json!({ "role": "assistant", "content": tool, "model": "m", "provider": "p",
            "stopReason": "toolUse", "timestamp": 1 }),
        );
        let output = words(&"let a = 1;\n".repeat(900));
        add(
            4 * turn + 2,
            serde_json::json!({ "role": "toolResult", "toolCallId": call, "toolName": "read",
            "content": output, "isError": false, "timestamp": 1 }),
        );
        add(
            4 * turn + 3,
            serde_json::json!({ "role": "assistant", "content": words("It says that a is 1."), "model": "m",
            "provider": "p", "stopReason": "stop", "timestamp": 1 }),
        );
    }
    let path = folder.join("talk.jsonl");
    std::fs::write(&path, lines.join("\n")).expect("the session can be written");
    path.to_string_lossy().into_owned()
}

#[test]
fn presets_are_compared_on_a_transcript_and_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = session(folder.path());
    let drawing = folder.path().join("plot.svg");
    let plot = drawing.to_string_lossy().into_owned();
    let presets = ["--preset", "opencode@seed", "--preset", "pi@1.5", "--window", "60000"];
    let run = simulate(&[&[file.as_str(), "--plot", &plot], &presets[..]].concat());
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{text}{}", String::from_utf8_lossy(&run.stderr));
    assert!(text.starts_with("talk.jsonl: 160 messages, a window of 60000 tokens, m\n"), "{text}");
    assert!(
        text.contains("opencode@seed, due at 28000 tokens:") && text.contains("pi@1.5, due at 43617 tokens:"),
        "{text}"
    );
    let svg = std::fs::read_to_string(drawing).expect("the drawing");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.matches("<polyline").count() == 2, "{svg}");
    let run = simulate(&[&[file.as_str(), "--json"], &presets[..]].concat());
    let json: Value = serde_json::from_slice(&run.stdout).expect("JSON");
    for preset in json["presets"].as_array().expect("presets") {
        let reductions = preset["reductions"].as_array().expect("reductions");
        assert!(!reductions.is_empty(), "{preset}");
        let tokens = |field: &str| preset[field].as_i64().expect("a number");
        assert!(tokens("highest_tokens") <= 60_000 && tokens("freed_tokens") > 0 && tokens("reread_tokens") > 0);
        assert_eq!(preset["changed_prefixes"], reductions.len());
    }
}

#[test]
fn what_cannot_be_simulated_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = session(folder.path());
    for (arguments, code, words) in [
        (vec![file.as_str(), "--preset", "nobody"], 64, "there is no preset \"nobody\""),
        (vec!["nowhere.jsonl"], 1, "nowhere.jsonl"),
        (vec![file.as_str(), "--window", "0"], 64, "--window"),
    ] {
        let run = simulate(&arguments);
        let told = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(run.status.code(), Some(code), "{arguments:?}: {told}");
        assert!(told.contains(words), "{arguments:?}: {told}");
    }
}
