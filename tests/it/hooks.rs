//! Programs that are notified of compactions: their possible changes, and that they never prevent one unless required.

use crate::support::{Line, ScriptedSummarizer, TestApp, Watch, filler, soon, turns};
use longhand::app::compactions::{NewCompaction, Overflow};
use longhand::app::summary_tasks::{LeaseClaim, LeaseRequest, NewEdit};
use longhand::config::{Hook, Hooks};
use longhand::model::compaction::{CompactionKind, CompactionState, Failure};
use longhand::model::event::{EventBody, EventKind};
use longhand::model::message::Message;
use longhand::model::part::{Part, PartBody};
use longhand::model::view::{SourceMessage, ViewKind};
use longhand::policy::summary::SummaryInput;
use longhand::scheduler;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::unix::pipe::{OpenOptions, Receiver};

/// A script for a shell, as a hook.
fn script(folder: &Path, name: &str, text: &str) -> Hook {
    let file = folder.join(name);
    std::fs::write(&file, text).expect("the script is written");
    let command = vec!["/bin/sh".to_owned(), file.display().to_string(), folder.display().to_string()];
    Hook { command, timeout_seconds: 20, required: false, messages: false }
}

/// The reader of a named pipe. With `writes` it is a writer too, so that the pipe never ends.
fn pipe(folder: &Path, writes: bool) -> BufReader<Receiver> {
    let path = folder.join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo runs").success());
    BufReader::new(OpenOptions::new().read_write(writes).open_receiver(path).expect("the pipe opens"))
}

struct Setup {
    test: TestApp,
    script: Arc<ScriptedSummarizer>,
    session: String,
    watch: Watch,
    _folder: TempDir,
}

/// A session that is due, with hooks.
async fn due(folder: TempDir, hooks: Hooks) -> Setup {
    let script = ScriptedSummarizer::new([Line::Say("S1".to_owned())]);
    let options = scheduler::Options { hooks, ..scheduler::Options::default() };
    let test = TestApp::with_options(script.clone(), options).await;
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    let watch = test.watch().await;
    test.append(&session, &turns(1, 9, 1_100)).await;
    Setup { test, script, session, watch, _folder: folder }
}

async fn due_before(text: &str, change: impl FnOnce(&mut Hook)) -> Setup {
    let folder = tempfile::tempdir().expect("a folder");
    let mut hook = script(folder.path(), "pre", text);
    change(&mut hook);
    due(folder, Hooks { pre_compact: Some(hook), post_compact: None }).await
}

impl Setup {
    async fn failed(&mut self) -> Failure {
        let event = self.watch.wait_for(EventKind::CompactionFailed).await;
        let EventBody::CompactionFailed { failure, compaction } = event.body else { panic!("another body") };
        self.test.settled().await;
        let ended = self.test.app.compactions().get(&compaction.to_string()).await.expect("it is listed");
        assert_eq!(ended.state, CompactionState::Failed);
        assert!(self.script.asked().is_empty(), "nobody was asked for a summary");
        assert!(self.test.view(&self.session).await.covered.is_none());
        failure
    }
}

#[tokio::test]
async fn a_program_is_called_and_adds_instructions() {
    let text = "cat > \"$1/input\"\necho '{\"instructions\": \"dwell on numbers\"}'";
    let mut setup = due_before(text, |_| {}).await;
    setup.watch.wait_for(EventKind::Compacted).await;
    assert_eq!(setup.script.asked()[0].instructions, "dwell on numbers");
    let input = std::fs::read_to_string(setup._folder.path().join("input")).expect("the input");
    let input: Value = serde_json::from_str(&input).expect("JSON");
    assert_eq!(input["hook"], "pre_compact");
    assert_eq!(input["session_id"], setup.session);
    assert_eq!((&input["level"], &input["trigger"]), (&Value::from("auto"), &Value::from("threshold")));
    assert_eq!((input["attempt"].as_i64(), input["window_tokens"].as_i64()), (Some(1), Some(6_000)));
    assert!(input["context_tokens"].as_i64() >= Some(5_000) && input["budget_tokens"].as_i64() > Some(0));
    let covered = i64::try_from(setup.script.asked()[0].messages.len()).expect("small");
    assert_eq!(input["covered_count"].as_i64(), Some(covered));
    assert!(input["tail_start_message_id"].as_str().is_some_and(|id| id.starts_with("msg_")));
    assert!(input["covered"][0]["first_revision"].is_i64());
}

#[tokio::test]
async fn a_program_replaces_the_prompt() {
    let mut setup = due_before("echo '{\"prompt\": \"Write a limerick.\"}'", |_| {}).await;
    setup.watch.wait_for(EventKind::Compacted).await;
    assert_eq!(setup.script.asked()[0].rules.prompt.task.as_deref(), Some("Write a limerick."));
    let mut setup = due_before("echo '{\"prompt\": \" \"}'", |_| {}).await;
    setup.watch.wait_for(EventKind::Compacted).await;
    assert_eq!(setup.script.asked()[0].rules.prompt.task, None, "an empty prompt is a failure of the program");
}

#[tokio::test]
async fn a_program_refuses_a_compaction() {
    let mut setup = due_before("echo '{\"refuse\": \"not before the release\"}'", |_| {}).await;
    let failure = setup.failed().await;
    assert_eq!((failure.reason.as_str(), failure.message.as_str()), ("HOOK_REFUSED", "not before the release"));
}

#[tokio::test]
async fn a_program_that_fails_changes_nothing() {
    let missing: fn(&mut Hook) = |hook| hook.command = vec!["/nowhere/at/all".to_owned()];
    let same: fn(&mut Hook) = |_| {};
    let cases = [
        ("echo '{\"refuse\": \"no\"}'; exit 3", same),
        ("echo maybe", same),
        ("head -c 300000 /dev/zero", same),
        ("", missing),
    ];
    for (text, change) in cases {
        let mut setup = due_before(text, change).await;
        setup.watch.wait_for(EventKind::Compacted).await;
        assert_eq!(setup.script.asked()[0].instructions, "", "{text}");
    }
}

#[tokio::test]
async fn a_required_program_that_fails_stops_the_compaction() {
    let mut setup = due_before("echo broken >&2; exit 3", |hook| hook.required = true).await;
    let failure = setup.failed().await;
    assert_eq!(failure.reason.as_str(), "HOOK_FAILED");
    assert!(failure.message.contains("exit status: 3"), "{}", failure.message);
    assert!(!failure.message.contains("broken"), "what it says may hold a key: {}", failure.message);
}

/// The preset's tail covers the whole session, so that only a smaller tail leaves something to summarize.
#[tokio::test]
async fn a_program_is_asked_before_the_first_summary_even_if_a_larger_tail_left_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let hook = script(folder.path(), "pre", "echo '{\"refuse\": \"not before the release\"}'");
    let script = ScriptedSummarizer::new([Line::Say("S1".to_owned())]);
    let hooks = Hooks { pre_compact: Some(hook), post_compact: None };
    let test =
        TestApp::with_options(script.clone(), scheduler::Options { hooks, ..scheduler::Options::default() }).await;
    let session = test.session("pi@1.5", 60_000, 1_000).await;
    let mut watch = test.watch().await;
    test.append(&session, &turns(1, 6, 2_000)).await;
    let refused = Overflow { status: Some(413), ..Overflow::default() };
    test.app.compactions().report_overflow(&session, refused).await.expect("taken");
    let event = watch.wait_for(EventKind::CompactionFailed).await;
    let EventBody::CompactionFailed { failure, .. } = event.body else { panic!("another body") };
    assert_eq!(failure.reason.as_str(), "HOOK_REFUSED");
    assert!(script.asked().is_empty(), "nobody was asked for a summary");
}

#[tokio::test]
async fn a_program_that_takes_too_long_is_killed_with_all_that_it_started() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut pipe = pipe(folder.path(), false);
    let mut hook = script(folder.path(), "pre", "sleep 600 > \"$1/pipe\" &\nwait");
    hook.timeout_seconds = 2;
    let mut setup = due(folder, Hooks { pre_compact: Some(hook), post_compact: None }).await;
    setup.watch.wait_for(EventKind::Compacted).await;
    assert_eq!(setup.script.asked()[0].instructions, "");
    let mut held = String::new();
    soon("the child to let go of the pipe", pipe.read_to_string(&mut held)).await.expect("read");
}

#[tokio::test]
async fn what_moved_into_a_session_of_its_own_is_killed_as_well() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut pipe = pipe(folder.path(), false);
    let mut hook = script(folder.path(), "pre", "setsid sh -c 'sleep 600 & wait' > \"$1/pipe\" &\nwait");
    hook.timeout_seconds = 2;
    let mut setup = due(folder, Hooks { pre_compact: Some(hook), post_compact: None }).await;
    setup.watch.wait_for(EventKind::Compacted).await;
    let mut held = String::new();
    soon("the session to let go of the pipe", pipe.read_to_string(&mut held)).await.expect("read");
}

#[tokio::test]
async fn what_a_program_left_running_ends_with_the_daemon() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut pipe = pipe(folder.path(), false);
    let hook = script(folder.path(), "pre", "setsid sh -c 'echo here; sleep 600' > \"$1/pipe\" 2>&1 < /dev/null &");
    let mut setup = due(folder, Hooks { pre_compact: Some(hook), post_compact: None }).await;
    setup.watch.wait_for(EventKind::Compacted).await;
    let mut line = String::new();
    soon("its word", pipe.read_line(&mut line)).await.expect("read");
    assert_eq!(line, "here\n");
    drop(setup.watch);
    setup.test.stop().await;
    let mut held = String::new();
    soon("the process to let go of the pipe", pipe.read_to_string(&mut held)).await.expect("read");
}

#[tokio::test]
async fn a_program_receives_the_policy_in_force() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut pipe = pipe(folder.path(), true);
    let hook = script(folder.path(), "post", "{ cat; echo; } > \"$1/pipe\"");
    let mut setup = due(folder, Hooks { pre_compact: None, post_compact: Some(hook) }).await;
    let mut line = String::new();
    soon("a line in the pipe", pipe.read_line(&mut line)).await.expect("read");
    let input: Value = serde_json::from_str(&line).expect("JSON");
    let EventBody::Compacted { compaction, outcome, .. } = setup.watch.wait_for(EventKind::Compacted).await.body else {
        panic!("another body")
    };
    assert_eq!(input["hook"], "post_compact");
    assert_eq!(input["compaction_id"], compaction.to_string());
    assert_eq!((&input["summary"], &input["summarizer"]), (&Value::from("S1"), &Value::from("scripted")));
    assert_eq!(input["tokens_before"].as_i64(), Some(outcome.tokens_before));
    assert_eq!(input["tokens_after"].as_i64(), Some(outcome.tokens_after));
    assert_eq!(setup.script.asked().len(), 1);
}

#[tokio::test]
async fn a_program_vetoes_that_the_model_is_asked_to_go_on() {
    for (text, expected) in [("cat > /dev/null", true), ("echo '{\"auto_continue\": false}'", false)] {
        let folder = tempfile::tempdir().expect("a folder");
        let hooks = Hooks { pre_compact: Some(script(folder.path(), "pre", text)), post_compact: None };
        let options = scheduler::Options { hooks, ..scheduler::Options::default() };
        let test = TestApp::with_options(ScriptedSummarizer::new([Line::Say("S1".to_owned())]), options).await;
        let session = test.session("opencode@seed", 6_000, 1_000).await;
        let mut watch = test.watch().await;
        test.append(&session, &turns(1, 8, 1_100)).await;
        test.append(&session, "u9 1100c\na9 1100c call=c9").await;
        watch.wait_for(EventKind::Compacted).await;
        test.settled().await;
        let view = test.view(&session).await;
        let added = view.messages.iter().any(|message| message.kind == ViewKind::Added);
        assert_eq!(added, expected, "{text}");
    }
}

/// The texts of what a summarizer read, with the roles.
fn read(input: &SummaryInput) -> Vec<String> {
    let part = |part: &Part| match &*part.body {
        PartBody::Text(text) => text.clone(),
        PartBody::Reasoning(text) => format!("thinks {text}"),
        PartBody::ToolCall(call) => format!("calls {}", call.tool),
        PartBody::ToolResult(result) => format!("gets {}", result.output),
        other => format!("{other:?}"),
    };
    let message = |source: &SourceMessage| {
        let parts: Vec<String> = source.message.parts.iter().map(part).collect();
        format!("{:?}: {}", source.message.role, parts.join(", "))
    };
    input.messages.iter().map(message).collect()
}

/// A message that the program returns by its id, one of its own, and a call with its result.
const RETURNED: &str = r#"cat > "$1/input"
first=$(grep -o '"message_id":"msg_[^"]*"' "$1/input" | head -n 1)
echo "{\"messages\": [{$first},
  {\"role\": \"assistant\", \"parts\": [{\"reasoning\": \"hm\"}, {\"text\": \"[redacted]\"},
    {\"tool_call\": {\"call_id\": \"c\", \"tool\": \"bash\", \"input_json\": \"{}\"}}]},
  {\"role\": \"tool\", \"parts\": [{\"tool_result\": {\"call_id\": \"c\", \"status\": \"completed\", \"output\": \"ok\"}}]}]}"
"#;

#[tokio::test]
async fn a_program_replaces_the_messages_that_a_summarizer_reads() {
    let mut plain = due_before("cat > /dev/null", |_| {}).await;
    let EventBody::Compacted { outcome: expected, .. } = plain.watch.wait_for(EventKind::Compacted).await.body else {
        panic!("another body")
    };
    let mut setup = due_before(RETURNED, |hook| hook.messages = true).await;
    let EventBody::Compacted { outcome, .. } = setup.watch.wait_for(EventKind::Compacted).await.body else {
        panic!("another body")
    };
    let originals = read(&plain.script.asked()[0]);
    let replaced = "Assistant: thinks hm, [redacted], calls bash";
    assert_eq!(read(&setup.script.asked()[0]), [originals[0].as_str(), replaced, "Tool: gets ok"]);

    let input = std::fs::read_to_string(setup._folder.path().join("input")).expect("the input");
    let input: Value = serde_json::from_str(&input).expect("JSON");
    let given = &input["material"]["messages"];
    assert_eq!(given.as_array().map(Vec::len), Some(originals.len()));
    let second = given[1]["parts"][0]["text"].as_str().expect("a text");
    assert_eq!((&given[1]["role"], format!("Assistant: {second}")), (&"assistant".into(), originals[1].clone()));
    assert_eq!(input["material"]["previous_summary"], Value::Null);

    // What is covered, and what the history says, are the originals; the summary says that it is of other messages.
    assert_eq!((&outcome.covered, outcome.covered_count), (&expected.covered, expected.covered_count));
    let (history, as_it_was) = (setup.test.history(&setup.session).await, plain.test.history(&plain.session).await);
    let texts = |history: &[Message]| -> Vec<PartBody> {
        history.iter().flat_map(|message| message.parts.iter().map(|part| (*part.body).clone())).collect()
    };
    assert_eq!(texts(&history), texts(&as_it_was));
    let summary = outcome.summary_message.expect("a summary").to_string();
    let (summary, _, _) = setup.test.app.messages().get(&setup.session, &summary).await.expect("it is listed");
    let note = format!(r#"{{"pre_compact":{{"given_messages":{},"read_messages":3}}}}"#, outcome.covered_count);
    assert_eq!(summary.metadata_json.as_deref(), Some(note.as_str()));
}

#[tokio::test]
async fn messages_that_a_program_may_not_return_are_its_failure() {
    let text = |parts: &str| format!(r#"[{{"role": "user", "parts": [{parts}]}}]"#);
    let many = vec![r#"{"text": "x"}"#; 257].join(",");
    let call =
        |tool: &str| text(&format!(r#"{{"tool_call": {{"call_id": "c", "tool": "{tool}", "input_json": ""}}}}"#));
    for (messages, why) in [
        ("[]".to_owned(), "an empty list of messages"),
        (
            r#"[{"message_id": "msg_00000000000000000000000000000000"}]"#.to_owned(),
            "messages[0], which names no message",
        ),
        (r#"[{"message_id": "msg_0", "role": "user"}]"#.to_owned(), "neither a message_id alone nor a role"),
        (r#"[{"parts": [{"text": "x"}]}]"#.to_owned(), "neither a message_id alone nor a role"),
        (text(""), "has 0 parts"),
        (text(&many), "has 257 parts"),
        (text(r#"{"media": {"mime_type": "image/png", "name": ""}}"#), "has media"),
        (call(""), "has an empty tool"),
        (call(&"t".repeat(129)), "has a tool of 129 bytes, over 128"),
        (text(r#"{"opaque": "x"}"#), "what cannot be understood"),
        (r#"[{"role": "robot", "parts": [{"text": "x"}]}]"#.to_owned(), "what cannot be understood"),
    ] {
        let answer = format!("cat > /dev/null\ncat <<'END'\n{{\"messages\": {messages}}}\nEND\n");
        let mut setup = due_before(&answer, |hook| hook.required = true).await;
        let failure = setup.failed().await;
        assert_eq!(failure.reason.as_str(), "HOOK_FAILED");
        assert!(failure.message.contains(why), "{}: not {why}", failure.message);
    }
    let mut setup = due_before("echo '{\"messages\": []}'", |_| {}).await;
    setup.watch.wait_for(EventKind::Compacted).await;
    assert!(read(&setup.script.asked()[0])[0].starts_with("User: u1 was here"), "the originals are read");
}

/// A client that leases the summary gets the replaced messages too. They stay replaced until it changes what is covered.
#[tokio::test]
async fn a_client_gets_the_messages_that_a_program_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let answer = r#"echo '{"messages": [{"role": "user", "parts": [{"text": "only this"}]}]}'"#;
    let hooks = Hooks { pre_compact: Some(script(folder.path(), "pre", answer)), post_compact: None };
    let client_wait = Duration::from_secs(60);
    let options = scheduler::Options { hooks, client_wait, ..scheduler::Options::default() };
    let test = TestApp::with_options(ScriptedSummarizer::new([]), options).await;
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    test.append(&session, &turns(1, 9, 1_100)).await;
    let request = LeaseRequest { wait: Some(client_wait), ..LeaseRequest::default() };
    let leased = soon("a lease", test.app.summary_tasks().lease(request)).await.expect("offered").expect("a task");
    let claim = LeaseClaim {
        compaction: leased.task.compaction.to_string(),
        token: leased.token.clone(),
        base_revision: Some(leased.task.base),
    };
    assert_eq!(read(&leased.task.input), ["User: only this"]);
    assert!(leased.prompt.user.contains("only this") && !leased.prompt.user.contains("u1 was here"));
    let edit = NewEdit { instructions: Some("be brief".to_owned()), ..NewEdit::default() };
    let (changed, _) = test.app.summary_tasks().edit(&claim, edit).await.expect("changed").answer;
    assert_eq!(read(&changed.input), ["User: only this"]);
    assert!(changed.details_json.as_ref().is_some_and(|details| details.contains("read_messages")));
    let edit = NewEdit { tail_start: Some("u4".to_owned()), ..NewEdit::default() };
    let (changed, _) = test.app.summary_tasks().edit(&claim, edit).await.expect("changed").answer;
    assert_eq!(read(&changed.input).len(), 6, "another range is read as it is");
    assert_eq!(changed.details_json, None);
}

/// What a program writes in a person's place is not shown as a person's words, and what it takes away stays away.
#[tokio::test]
async fn what_a_program_writes_in_place_of_messages_is_nobodys_words() {
    const ANSWER: &str = r#"cat > "$1/input"
last=$(grep -o '"message_id":"msg_[^"]*"' "$1/input" | tail -n 1)
echo "{\"messages\": [{\"role\": \"user\", \"parts\": [{\"text\": \"the key was taken out here\"}]}, {$last}]}"
"#;
    let folder = tempfile::tempdir().expect("a folder");
    let hook = Hook { messages: true, ..script(folder.path(), "pre", ANSWER) };
    let hooks = Hooks { pre_compact: Some(hook), post_compact: None };
    let options = scheduler::Options { hooks, ..scheduler::Options::default() };
    let summarizer = ScriptedSummarizer::new([Line::Say("S1".to_owned())]);
    let test = TestApp::with_options(summarizer.clone(), options).await;
    let session = test.session("longhand@1", 400_000, 1_000).await;
    let words = filler("a plan", 4_000);
    test.append(
        &session,
        &format!("u1 \"The key is hunter2.\"\na1 \"{words}\"\nu2 \"Print the tide tables.\"\na2 \"On.\""),
    )
    .await;
    let wanted = NewCompaction { tail_start: "a2".to_owned(), ..NewCompaction::of_kind(CompactionKind::Summary) };
    test.app.compactions().start(&session, wanted).await.expect("asked");
    test.settled().await;
    assert!(read(&summarizer.asked()[0])[0].contains("the key was taken out here"));
    let said = test.app.sessions().with_words(&session).await.expect("the session").1.lines;
    let said: Vec<String> = said.into_iter().map(|(line, _)| line).collect();
    assert!(said.len() == 1 && said[0].contains("Print the tide tables."), "{said:?}");
}
