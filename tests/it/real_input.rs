//! Real transcripts, through the real binary. They are not part of the project: without them the tests print that and
//! pass.

use crate::cli::{Daemon, check_ends, check_order};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use longhand::interop;
use longhand::model::compaction::Level;
use longhand::model::message::Message;
use longhand::policy::summary::SummaryInput;
use longhand::policy::{CountPer, Counting, LengthUnit, MediaUnits, Rounding, TextUnits, UsageCount};
use longhand::presets;
use longhand_extractive::extract;
use serde_json::Value;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

const PI: &str = "pi/large-session.jsonl";
const CLAUDE_CODE: &str = "claude-code/compacted/258c7280-ae70-4798-800f-63464d01a85d.jsonl";

/// The path of a transcript, if it exists.
fn transcript(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data").join(name);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: the transcript {name} is not here");
    None
}

/// Imports a real session live: it is compacted while it is written, every view is valid input within the window, and
/// is the same as of its revision.
fn check_playback(name: &str, preset: &str) {
    let Some(file) = transcript(name) else { return };
    let home = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(home.path());
    let views = home.path().join("views.jsonl");
    let (file, kept) = (file.display().to_string(), views.display().to_string());
    let arguments =
        ["import", "--live", "--preset", preset, "--window", "64000", "--max-output", "16000", "--views", &kept, &file];
    let report = daemon.json(&arguments).remove(0);
    assert_eq!(report["views"]["asked"], report["views"]["within_window"], "{report}");
    assert_eq!(report["views"]["unpaired"], 0, "{report}");
    let summaries = report["compactions"]["summaries"].as_u64().expect("a count");
    assert!((2..=6).contains(&summaries), "{report}");
    let events = crate::cli::ended_events(&daemon);
    check_order(&events);
    check_ends(&events);

    // An earlier view is served as before.
    let served = std::fs::read_to_string(&views).expect("the views were kept");
    let served: Vec<Value> = served.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    for view in served.iter().step_by(24).chain(served.last()) {
        let revision = view["revision"].to_string().replace('"', "");
        let session = view["session_id"].as_str().expect("a session");
        let again = daemon.json(&["view", session, "--as-of", &revision]);
        let hash = again[0]["header"]["viewHash"].as_str().expect("a hash");
        let hash = STANDARD.decode(hash).expect("bytes are base64 in JSON");
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(view["view_hash"], hash, "revision {revision}");
    }
    assert!(daemon.run(&["audit", "verify"]).status.success());
}

#[test]
fn the_large_pi_session_runs_under_opencode() {
    check_playback(PI, "opencode@seed");
}

#[test]
fn the_large_pi_session_runs_under_pi() {
    check_playback(PI, "pi@1.5");
}

#[test]
fn the_compacted_claude_code_session_runs_under_opencode() {
    check_playback(CLAUDE_CODE, "opencode@seed");
}

#[test]
fn the_compacted_claude_code_session_runs_under_pi() {
    check_playback(CLAUDE_CODE, "pi@1.5");
}

/// The texts of messages: words, inputs of calls, and outputs.
fn texts(messages: &[Message]) -> (String, String, String) {
    use longhand::model::part::PartBody;
    let (mut words, mut inputs, mut outputs) = (String::new(), String::new(), String::new());
    for part in messages.iter().flat_map(|message| &message.parts) {
        match &*part.body {
            PartBody::Text(text) => words.push_str(&format!("{text} ")),
            PartBody::ToolCall(call) => inputs.push_str(&format!("{} ", call.input_json)),
            PartBody::ToolResult(result) => outputs.push_str(&format!("{} ", result.output)),
            _ => {}
        }
    }
    (words, inputs, outputs)
}

/// Converts imported messages to stored ones, with the fields that a summarizer uses.
fn stored(entries: &[interop::Entry]) -> Vec<Message> {
    use longhand::model::ids::{MessageId, PartId, SessionId};
    use longhand::model::part::Part;
    let mut messages = Vec::new();
    for entry in entries {
        let interop::Entry::Message { message, .. } = entry else { continue };
        let revision = i64::try_from(messages.len()).expect("few messages") + 1;
        let parts = message.parts.iter().map(|part| Part {
            id: PartId(uuid::Uuid::now_v7()),
            client_id: None,
            revision,
            body: part.body.clone(),
            metadata_json: None,
        });
        messages.push(Message {
            id: MessageId(uuid::Uuid::now_v7()),
            session_id: SessionId(uuid::Uuid::nil()),
            client_id: message.client_id.clone(),
            revision,
            role: message.role,
            kind: message.kind,
            parts: parts.collect(),
            sealed_revision: Some(revision),
            finish: message.finish.clone().unwrap_or_default().with_view(None),
            model: String::new(),
            provider: String::new(),
            create_time: longhand::model::time::Timestamp(0),
            origin_time: None,
            actor: String::new(),
            metadata_json: None,
            replaces: None,
        });
    }
    messages
}

/// The minimum quality of the built-in summarizer, on the session that was really compacted, at the same position:
/// files that were used before it and are used again after it, counted as `recall.py` counts them.
#[test]
fn the_extractive_summary_names_the_files_that_the_rest_uses() {
    let Some(file) = transcript(CLAUDE_CODE) else { return };
    let reader = std::io::BufReader::new(std::fs::File::open(file).expect("the file opens"));
    let transcript = interop::parse(reader, &interop::Options::default()).expect("the file is read");
    let entries = &transcript.branches[0].entries;
    let middle = entries
        .iter()
        .position(|entry| matches!(entry, interop::Entry::Compaction(_)))
        .expect("the session was compacted");
    let (before, after) = (stored(&entries[..middle]), stored(&entries[middle..]));

    let preset = presets::policy("opencode@seed");
    let sources = before.iter().map(|message| longhand::model::view::SourceMessage {
        message: message.clone().into(),
        placement: None,
        pruned: Vec::new(),
        counts: None,
    });
    let input = SummaryInput {
        words: longhand::model::mark::Words::new(),
        messages: sources.collect(),
        split_turn: Vec::new(),
        previous: None,
        previous_digest: None,
        previous_is_supplied: false,
        rules: preset.summarize(Level::Auto).expect("it summarizes").summary.clone(),
        counting: Counting {
            unit: LengthUnit::CodePoints,
            units_per_token: 4,
            rounding: Rounding::Floor,
            text: TextUnits::Length,
            per: CountPer::Message,
            media: MediaUnits::same(0),
            usage: UsageCount::Total,
        },
        instructions: String::new(),
        budget_tokens: 3_600,
    };
    let summary = extract(&input);
    assert!(summary.chars().count() / 4 <= 3_600);

    let path = regex::Regex::new(r"(?:/|\b)[\w.@~-]+(?:/[\w.@~-]+)+\.\w+").expect("a pattern");
    let name = regex::Regex::new(r"\b(?:[a-z]+_[a-z_0-9]+|[A-Z][a-zA-Z0-9]+\.[A-Za-z_.]+|[a-z]+[A-Z]\w+)\b")
        .expect("a pattern");
    let bases = |text: &str| -> HashSet<String> {
        path.find_iter(text).filter_map(|found| found.as_str().rsplit('/').next().map(str::to_owned)).collect()
    };
    let names =
        |text: &str| -> HashSet<String> { name.find_iter(text).map(|found| found.as_str().to_owned()).collect() };
    let (words, inputs, outputs) = texts(&before);
    let everything = format!("{words}{inputs}{outputs}");
    let (words, inputs, _) = texts(&after);
    let files: HashSet<String> = bases(&inputs).intersection(&bases(&everything)).cloned().collect();
    let wanted: HashSet<String> =
        names(&format!("{words}{inputs}")).intersection(&names(&everything)).cloned().collect();
    let kept_files = files.iter().filter(|file| summary.contains(*file)).count();
    let kept_names = wanted.iter().filter(|name| summary.contains(*name)).count();
    println!("files {kept_files}/{}, identifiers {kept_names}/{}", files.len(), wanted.len());
    assert!(kept_files >= 12, "only {kept_files} of {} files", files.len());
}
