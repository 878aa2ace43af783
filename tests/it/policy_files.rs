//! Policies that users write: files in the format of the presets, and whole policies as JSON.

use crate::cli::{Daemon, longhand, transcript};
use longhand::policy::PolicyStep;
use longhand::presets;
use std::path::Path;

const MINE: &str = "name = 'mine'\nextends = 'opencode@seed'\nremove = ['truncate']\n\
                    [policy.maintenance]\n0.prune.keep.tokens = 2_000\n";

/// Writes a file into a folder; returns its path.
fn written(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("the file is written");
    path.to_string_lossy().into_owned()
}

#[test]
fn a_preset_is_printed_as_a_file() {
    let home = tempfile::tempdir().expect("a folder");
    for preset in presets::all() {
        let output = longhand(home.path()).args(["presets", "show", "--toml", &preset.name]).output().expect("it runs");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert_eq!(presets::parse(&text).as_ref(), Ok(preset), "{text}");
    }
}

#[test]
fn a_file_stands_in_place_of_a_preset() {
    let home = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(home.path());
    let policy = presets::parse(MINE).expect("a policy").policy();
    let files = [
        written(home.path(), "mine.toml", MINE),
        written(home.path(), "mine.json", &serde_json::to_string(&policy).expect("JSON")),
    ];
    let talk = written(home.path(), "talk.jsonl", "");
    transcript(Path::new(&talk), 40);
    for file in &files {
        let created = daemon.json(&["create", "--preset", file]);
        let session = &created[0]["session"];
        assert_eq!(session["preset"], "mine", "{session}");
        let stored = presets::read_policy(session["policyJson"].as_str().expect("a text")).expect("a policy");
        assert!(stored == policy && stored.truncate.is_none(), "{session}");
        assert!(matches!(&stored.maintenance[..], [PolicyStep::Prune(prune)] if prune.keep.tokens == 2_000));
        let simulated = daemon.text(&["simulate", &talk, "--preset", file, "--preset", "pi", "--window", "60000"]);
        assert!(simulated.contains("\nmine, ") && simulated.contains("\npi@1.5, "), "{simulated}");
    }
}

#[test]
fn a_faulty_file_is_refused_with_its_reason() {
    let home = tempfile::tempdir().expect("a folder");
    for (name, text, reason) in [
        ("a.toml", "name = 'x'\n[policy]\nguard = {}", "a.toml: policy.guard: unknown field `guard`"),
        ("b.toml", "name = 'x'\nextend = 'pi'", "b.toml: line 2: unknown field `extend`"),
        ("c.json", r#"{"preset": "x", "guards": {"max_attempts": 0}}"#, "c.json: guards.max_attempts: "),
    ] {
        let file = written(home.path(), name, text);
        let output = longhand(home.path()).args(["create", "--preset", &file]).output().expect("the command runs");
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(64) && message.contains(reason), "{message}");
    }
}
