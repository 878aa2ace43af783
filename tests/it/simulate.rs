//! `longhand simulate`, as its binary: without a daemon, on transcripts.

use crate::support::{TestApp, block_on, call, cases, conversation, filler, result, text, turns, window};
use crate::window_fit::settled;
use longhand::app::Reason;
use longhand::app::sessions::NewSession;
use longhand::interop::{self, Entry};
use longhand::model::event::EventBody;
use longhand::model::message::{NewMessage, Role};
use longhand::model::time::Timestamp;
use longhand::model::usage::ModelWindow;
use longhand::presets::{self, Preset};
use longhand::simulation::{TranscriptEntry, simulate as play};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn simulate(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhand"));
    // An address without a listener: a simulation needs no daemon.
    command.env("LONGHAND_SERVER", "http://127.0.0.1:9").arg("simulate").args(arguments);
    command.output().expect("the binary runs")
}

/// A pi session whose turns each have a long output and a reply.
fn session(folder: &Path) -> String {
    let mut lines = vec![
        r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/src"}"#.to_owned(),
    ];
    let mut parent = Value::Null;
    let mut add = |number: usize, message: Value| {
        let id = format!("{number:08x}");
        // Later than any clock, so that a daemon's clock can be set to it.
        let timestamp = format!("2126-01-01T{:02}:{:02}:{:02}.000Z", number / 60, number % 60, 7);
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
    let presets = ["--preset", "opencode@seed", "--preset", "pi@1.5", "--window", "60000", "--max-output", "32000"];
    let run = simulate(&[&[file.as_str(), "--plot", &plot], &presets[..]].concat());
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{text}{}", String::from_utf8_lossy(&run.stderr));
    assert!(
        text.starts_with("talk.jsonl: 160 messages, a window of 60000 tokens, 32000 of them for a reply, m\n"),
        "{text}"
    );
    assert!(
        text.contains("opencode@seed, due at 28000 tokens:") && text.contains("pi@1.5, due at 43617 tokens:"),
        "{text}"
    );
    let svg = std::fs::read_to_string(drawing).expect("the drawing");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.matches("<polyline").count() == 2, "{svg}");
    let run = simulate(&[&[file.as_str(), "--json"], &presets[..]].concat());
    let json: Value = serde_json::from_slice(&run.stdout).expect("JSON");
    for preset in json["presets"].as_array().expect("presets") {
        let compactions = preset["compactions"].as_array().expect("compactions");
        assert!(!compactions.is_empty(), "{preset}");
        let tokens = |field: &str| preset[field].as_i64().expect("a number");
        assert!(tokens("highest_tokens") <= 60_000 && tokens("freed_tokens") > 0 && tokens("reread_tokens") > 0);
        assert_eq!(preset["changed_prefixes"], compactions.len());
    }
}

#[test]
fn problems_of_a_simulation_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = session(folder.path());
    for (arguments, code, words) in [
        (vec![file.as_str(), "--preset", "nobody"], 64, "there is no preset \"nobody\""),
        (vec!["nowhere.jsonl"], 1, "nowhere.jsonl"),
        (vec![file.as_str(), "--window", "0"], 64, "--window"),
    ] {
        let run = simulate(&arguments);
        let message = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(run.status.code(), Some(code), "{arguments:?}: {message}");
        assert!(message.contains(words), "{arguments:?}: {message}");
    }
}

/// A compaction: the number of messages before it, and the estimate of the view before and after.
type Done = (usize, i64, i64);

/// The compactions of a simulation that became active.
fn foreseen(file: &str, preset: &str, window: &ModelWindow) -> Vec<Done> {
    let (context, output) = (window.context.to_string(), window.output.unwrap_or_default().to_string());
    let window = ["--window", &context, "--max-output", &output, "--model", &window.model];
    let run = simulate(&[&[file, "--json", "--preset", preset], &window[..]].concat());
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let json: Value = serde_json::from_slice(&run.stdout).expect("JSON");
    let compactions = json["presets"][0]["compactions"].as_array().expect("compactions");
    let done = compactions.iter().filter(|compaction| compaction["given_up"] == false).map(|compaction| {
        let tokens = |field: &str| compaction[field].as_i64().expect("a number");
        let message = usize::try_from(tokens("message")).expect("a count");
        (message, tokens("before_tokens"), tokens("after_tokens"))
    });
    done.collect()
}

/// The compactions that a daemon makes of the same messages, appended one by one at their own times.
async fn made(test: &TestApp, messages: &[NewMessage], preset: &str, window: &ModelWindow) -> Vec<Done> {
    let new = NewSession {
        preset: preset.to_owned(),
        // The transcript determines the messages after a summary.
        policy_override_json: "{\"auto_continue\": null}".to_owned(),
        window: window.clone(),
        ..NewSession::default()
    };
    let session = test.create(new).await;
    // The clock is later than a transcript of the past: only the time between messages counts.
    let time = |message: &NewMessage| message.origin_time.expect("a time").0;
    let ahead = messages.first().map_or(0, |first| test.clock.now().0 - time(first));
    for message in messages {
        test.clock.skip_to(Timestamp(time(message) + ahead));
        test.app.messages().append(&session, vec![message.clone()], None, None).await.expect("appended");
        settled(test, &session).await;
    }
    let (mut count, mut done) = (0, Vec::new());
    for event in test.events().await.into_iter().filter(|event| event.session_id.to_string() == session) {
        match event.body {
            EventBody::MessageAppended { kind, .. } if !kind.is_derived() => count += 1,
            EventBody::Compacted { outcome, .. } => done.push((count, outcome.tokens_before, outcome.tokens_after)),
            _ => {}
        }
    }
    done
}

/// The first compaction that a daemon makes otherwise.
fn difference(preset: &Preset, made: &[Done], foreseen: &[Done]) -> Option<String> {
    // Their placeholders contain ids, and texts are tokenized: no two runs have the same token counts.
    let comparable = if preset.name.starts_with("suna@") { 1 } else { usize::MAX };
    let first = made.iter().zip(foreseen).take(comparable).position(|(made, foreseen)| {
        made.0 != foreseen.0 || made.1 != foreseen.1 || (comparable > 1 && made.2 != foreseen.2)
    });
    let first = first.or((comparable > 1 && made.len() != foreseen.len()).then(|| made.len().min(foreseen.len())));
    let at = first?;
    let counts = (made.len(), foreseen.len());
    Some(format!("{}: compaction {at} of {counts:?} is {:?} and not {:?}", preset.name, made.get(at), foreseen.get(at)))
}

/// `simulate` and the daemon, given the same transcript with its clock and jobs that keep up, make the same
/// compactions. `LONGHAND_TRANSCRIPT` names another transcript.
#[tokio::test]
async fn a_daemon_makes_the_compactions_that_a_simulation_foresees() {
    let folder = tempfile::tempdir().expect("a folder");
    let given = std::env::var_os("LONGHAND_TRANSCRIPT").map(PathBuf::from);
    // The session of this file is compacted often.
    let least = if given.is_some() { 0 } else { 100 };
    let file = given.unwrap_or_else(|| session(folder.path()).into());
    let bytes = std::fs::read(&file).expect("the transcript is read");
    let transcript = interop::parse(bytes.as_slice(), &interop::Options::default()).expect("a transcript");
    let main = transcript.branches.into_iter().next().expect("a branch");
    let messages = main.entries.into_iter().filter_map(|entry| match entry {
        Entry::Message { message, .. } => Some(message),
        _ => None,
    });
    let messages: Vec<NewMessage> = messages.collect();
    let window = ModelWindow { model: "m".to_owned(), context: 20_000, output: Some(3_000), ..ModelWindow::default() };
    let (mut compactions, mut differences) = (0, Vec::new());
    for preset in presets::all() {
        let test = TestApp::start().await;
        let foreseen = foreseen(&file.to_string_lossy(), &preset.name, &window);
        let made = made(&test, &messages, &preset.name, &window).await;
        differences.extend(difference(preset, &made, &foreseen));
        compactions += foreseen.len();
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(compactions > least, "{compactions}");
}

/// A turn of a life: seconds before it, and the sizes of its request, of its reply and of the outputs between them, in
/// thousandths of the window.
#[derive(Debug, Clone)]
struct Turn {
    seconds: i64,
    request: usize,
    reply: usize,
    outputs: Vec<Vec<usize>>,
}

fn turn() -> impl Strategy<Value = Turn> {
    // Some are small enough to be kept, and some alone exceed what a prune keeps.
    let output = prop_oneof![3 => 1_usize..30, 2 => 30_usize..140, 1 => 140_usize..350];
    let outputs = prop::collection::vec(prop::collection::vec(output, 1..4), 0..4);
    let seconds = prop_oneof![9 => 1_i64..100, 1 => 3_000_i64..90_000];
    let turn = (seconds, 1_usize..60, 1_usize..60, outputs);
    turn.prop_map(|(seconds, request, reply, outputs)| Turn { seconds, request, reply, outputs })
}

/// The messages of a life in a window.
fn messages(turns: &[Turn], window: &ModelWindow) -> Vec<NewMessage> {
    const CHARACTERS_PER_TOKEN: usize = 4;
    let mille = usize::try_from(window.context).expect("a window") * CHARACTERS_PER_TOKEN / 1_000;
    let said = |name: &str, size: usize| text(&filler(name, size * mille));
    let (mut messages, mut now) = (Vec::new(), 1_700_000_000_000_000_i64);
    for (number, turn) in turns.iter().enumerate() {
        now += turn.seconds * 1_000_000;
        let mut add = |role, parts| {
            now += 1_000_000;
            messages.push(NewMessage { origin_time: Some(Timestamp(now)), ..NewMessage::sealed(role, parts) });
        };
        add(Role::User, vec![said(&format!("u{number}"), turn.request)]);
        for (step, outputs) in turn.outputs.iter().enumerate() {
            let id = |index: usize| format!("c{number}-{step}-{index}");
            add(Role::Assistant, (0..outputs.len()).map(|index| call(&id(index))).collect());
            let outputs = outputs.iter().enumerate();
            let results = outputs.map(|(index, size)| result(&id(index), &filler(&id(index), size * mille)));
            add(Role::Tool, results.collect());
        }
        add(Role::Assistant, vec![said(&format!("a{number}"), turn.reply)]);
    }
    messages
}

/// What decides in a simulation, and in conformance with the agents, decides in the daemon: nothing that only a daemon
/// has, such as the condition that wakes it, delays or adds a compaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_does_what_a_simulation_does_whatever_is_written() {
    let test = TestApp::start().await;
    for preset in presets::all() {
        let config = Config { cases: cases(1), max_shrink_iters: 60, failure_persistence: None, ..Config::default() };
        let life = (prop_oneof![Just(20_000_i64), Just(80_000_i64)], prop::collection::vec(turn(), 2..9));
        let outcome = TestRunner::new(config).run(&life, |(context, turns)| {
            let window = ModelWindow { context, output: Some(context / 10), ..ModelWindow::default() };
            let messages = messages(&turns, &window);
            let entries = messages.iter().cloned().map(|message| TranscriptEntry::Message(Box::new(message)));
            let entries: Vec<TranscriptEntry> = entries.collect();
            let foreseen = play(&preset.policy(), &window, &entries, &longhand_extractive::extract, &|input| {
                longhand_extractive::Covered::new(input).digest().to_json()
            });
            let foreseen = foreseen.compactions().map(|done| (done.message, done.before_tokens, done.after_tokens));
            let foreseen: Vec<Done> = foreseen.collect();
            let made = block_on(made(&test, &messages, &preset.name, &window));
            prop_assert_eq!(difference(preset, &made, &foreseen), None);
            Ok(())
        });
        outcome.unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[tokio::test]
async fn a_session_is_played_under_presets_and_nothing_is_written() {
    let test = TestApp::start().await;
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    let written = turns(1, 12, 900);
    test.append(&session, &written).await;
    settled(&test, &session).await;
    let before = test.app.sessions().get(&session).await.expect("found").session.revision;
    let names = ["", "claude-code", "pi@1.5"].map(str::to_owned).to_vec();
    let played = test.app.compactions().simulate_presets(&session, names).await.expect("played");
    let entries: Vec<TranscriptEntry> =
        conversation(&written).into_iter().map(|message| TranscriptEntry::Message(Box::new(message))).collect();
    assert_eq!((played.message_count, played.window_tokens), (entries.len(), 6_000));
    for ((name, outcome), preset) in played.outcomes.iter().zip(["opencode@seed", "claude-code@seed", "pi@1.5"]) {
        assert!(name == preset || name.is_empty() && preset == "opencode@seed", "{name} instead of {preset}");
        let policy = presets::find(preset).expect("a preset").policy();
        let expected = play(&policy, &window(6_000, 1_000), &entries, &longhand_extractive::extract, &|input| {
            longhand_extractive::Covered::new(input).digest().to_json()
        });
        assert_eq!(outcome, &expected, "{preset}: as the transcript of the session alone");
        assert!(outcome.compactions().count() > 0, "{preset} compacts");
    }
    assert_eq!(test.app.sessions().get(&session).await.expect("found").session.revision, before);
    // What a rewind left out is not played.
    test.append(&session, "u50 \"aside\"").await;
    let history = test.history(&session).await;
    let last = history[history.len() - 2].id.to_string();
    test.app.messages().rewind(&session, &last, None).await.expect("rewound");
    let again = test.app.compactions().simulate_presets(&session, vec![String::new()]).await.expect("played");
    assert_eq!(again.outcomes[0], played.outcomes[0]);
}

#[tokio::test]
async fn a_simulation_has_bounds() {
    let test = TestApp::start().await;
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    let refused = async |session: &str, names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        test.app.compactions().simulate_presets(session, names).await.expect_err("refused").reason
    };
    assert_eq!(refused(&session, &[]).await, Reason::InvalidField);
    assert_eq!(refused(&session, &["", "no-such"]).await, Reason::PresetNotFound);
    assert_eq!(refused(&session, &[""; 7]).await, Reason::LimitExceeded);
    assert_eq!(refused("ses_00000000000000000000000000000000", &[""]).await, Reason::SessionNotFound);
    for from in 0..5 {
        test.append(&session, &turns(1 + from * 202, 201 + from * 202, 5)).await;
    }
    assert_eq!(refused(&session, &[""]).await, Reason::LimitExceeded);
}
