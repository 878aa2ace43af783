//! Messages in the formats of providers: appended as they came, served as they go, with a hash and a beginning that is known.

use crate::cli::Daemon;
use crate::support::{Line, ScriptedSummarizer, TestApp, text, turns};
use longhand::app::append::{AppendAnswer, AppendRequest};
use longhand::app::compactions::NewCompaction;
use longhand::app::formatted::{Format, ProviderContent};
use longhand::app::views::{ServedView, ViewRequest};
use longhand::app::{Error, Reason};
use longhand::model::compaction::CompactionKind;
use longhand::model::message::{FinishReason, NewMessage, Role};
use longhand::model::part::{NewPart, Opaque, PartBody};
use serde_json::Value;
use std::io::Write as _;
use std::process::Stdio;

const REPLY: &str = include_str!("../providers/replies/anthropic.sse");
const REQUEST: &str = r#"{"system":"Be brief.","messages":[{"role":"user","content":"How high?"}]}"#;
const RESULT: &str =
    r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_01B","content":"4.2 m"}]}"#;

fn given<'a>(format: Format, json: &str, view_token: Option<String>) -> AppendRequest<'a> {
    let json = json.to_owned();
    let provider_content = Some(ProviderContent { format, json, view_token, provider: None });
    AppendRequest { provider_content, ..AppendRequest::default() }
}

async fn append(test: &TestApp, session: &str, json: &str) -> AppendAnswer {
    test.app.messages().append_with(session, given(Format::Anthropic, json, None)).await.expect("appended").answer
}

fn asking(format: Format) -> ViewRequest {
    ViewRequest { format: Some(format), ..ViewRequest::default() }
}

fn knowing(view: &ServedView, format: Format) -> ViewRequest {
    ViewRequest { known_hash: Some(view.hash.to_vec()), known_revision: Some(view.revision), ..asking(format) }
}

async fn ask(test: &TestApp, session: &str, request: ViewRequest) -> ServedView {
    test.app.views().get(session, request).await.expect("a view")
}

fn texts(view: &ServedView) -> Vec<String> {
    let formatted = view.formatted.as_ref().expect("a format");
    formatted.messages.iter().map(|message| message.json.clone()).collect()
}

fn values(view: &ServedView) -> Vec<Value> {
    texts(view).iter().map(|text| serde_json::from_str(text).expect("JSON")).collect()
}

#[tokio::test]
async fn a_reply_is_appended_as_it_came_and_goes_back_as_it_was() {
    let test = TestApp::start().await;
    let session = test.session("pi", 200_000, 1_000).await;
    append(&test, &session, REQUEST).await;
    let asked = ask(&test, &session, asking(Format::Anthropic)).await;
    let formatted = asked.formatted.clone().expect("a format");
    assert!(formatted.system_json.expect("instructions").contains("Be brief."));
    let request = given(Format::Anthropic, REPLY, Some(asked.token.clone()));
    let appended = test.app.messages().append_with(&session, request).await.expect("appended");
    assert_eq!(appended.context.context_tokens, Some(12 + 300 + 4_000 + 90), "its usage is believed");
    let reply = test.history(&session).await.pop().expect("the reply");
    assert_eq!((reply.model.as_str(), reply.provider.as_str()), ("claude-opus-5", "anthropic"));
    let seen = reply.finish.view.expect("the view that it answers");
    assert_eq!((reply.finish.reason, seen.revision), (Some(FinishReason::ToolCalls), asked.revision));
    let whole = ask(&test, &session, asking(Format::Anthropic)).await;
    let blocks = values(&whole)[1]["content"].clone();
    let kinds: Vec<_> = blocks.as_array().expect("blocks").iter().map(|block| block["type"].as_str()).collect();
    let expected =
        ["thinking", "redacted_thinking", "server_tool_use", "web_search_tool_result", "text", "tool_use"].map(Some);
    assert_eq!(kinds, expected);
    assert_eq!(blocks[0]["signature"], "EqQBCgIYAhIM+/==");
    assert!(texts(&whole)[1].contains(r#"{"station": "Ouistreham", "depth": 1.50}"#), "as the model wrote it");
}

#[tokio::test]
async fn a_caller_that_holds_a_view_in_a_format_gets_what_is_new_in_it() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    for json in [REQUEST, REPLY, RESULT] {
        append(&test, &session, json).await;
    }
    let format = Format::Anthropic;
    let held = ask(&test, &session, asking(format)).await;
    assert_ne!(held.hash, test.view(&session).await.hash, "a hash of its own");
    let same = ask(&test, &session, knowing(&held, format)).await;
    assert_eq!((same.hash, same.known_count, texts(&same).len()), (held.hash, 3, 0));
    append(&test, &session, r#"{"role":"assistant","content":"High."}"#).await;
    let grown = ask(&test, &session, knowing(&held, format)).await;
    assert_eq!((grown.known_count, texts(&grown).len()), (3, 1));
    // The results and what the user says behind them are one message.
    append(&test, &session, r#"{"role":"user","content":"one"}"#).await;
    let before = ask(&test, &session, asking(format)).await;
    append(&test, &session, r#"{"role":"user","content":"two"}"#).await;
    let merged = ask(&test, &session, knowing(&before, format)).await;
    assert_eq!((merged.known_count, values(&merged)[0]["content"].as_array().map(Vec::len)), (4, Some(2)));
    let whole = ask(&test, &session, asking(format)).await;
    assert_eq!((merged.hash, texts(&whole)[4..].to_vec()), (whole.hash, texts(&merged)));
    // Other instructions come before all messages.
    let late = r#"{"system":"Be kind.","messages":[{"role":"user","content":"three"}]}"#;
    append(&test, &session, late).await;
    let again = ask(&test, &session, ViewRequest { as_of: Some(held.revision), ..asking(format) }).await;
    assert_eq!((again.hash, texts(&again)), (held.hash, texts(&held)), "as it was");
}

#[tokio::test]
async fn a_summary_is_the_end_of_a_stable_beginning() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, &turns(1, 6, 2_000)).await;
    test.app.compactions().start(&session, NewCompaction::of_kind(CompactionKind::Summary)).await.expect("started");
    test.settled().await;
    let marked = |view: &ServedView| {
        let messages = values(view);
        messages.iter().position(|message| message.to_string().contains("cache_control")).expect("a breakpoint")
    };
    let held = ask(&test, &session, asking(Format::Anthropic)).await;
    assert!(values(&held)[marked(&held)].to_string().contains("cache_control"));
    test.append(&session, "u7 \"and now?\"\na8 \"now\"").await;
    let grown = ask(&test, &session, asking(Format::Anthropic)).await;
    assert_eq!(marked(&grown), marked(&held), "it stays where it was");
    assert_eq!(texts(&grown)[marked(&grown)], texts(&held)[marked(&held)]);
}

/// The error of an append that must write nothing.
async fn refused(test: &TestApp, session: &str, request: AppendRequest<'_>) -> Error {
    let before = test.revision(session).await;
    let error = test.app.messages().append_with(session, request).await.expect_err("it cannot be taken");
    assert_eq!(test.revision(session).await, before, "{error}");
    error
}

#[tokio::test]
async fn what_is_no_message_of_its_format_is_refused_before_anything_is_written() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    append(&test, &session, REQUEST).await;
    let large = format!(r#"{{"role":"user","content":"{}"}}"#, "x".repeat(9_000_000));
    let both = AppendRequest {
        messages: vec![NewMessage::sealed(Role::User, vec![text("x")])],
        ..given(Format::Anthropic, REQUEST, None)
    };
    let token = ask(&test, &session, asking(Format::Anthropic)).await.token;
    for (request, reason, names) in [
        (given(Format::Anthropic, "{", None), Reason::InvalidField, "provider_content.json"),
        (given(Format::Gemini, REQUEST, None), Reason::InvalidField, "provider_content.json"),
        (
            given(Format::Anthropic, r#"[{"role":"user","content":[{"type":1}]}]"#, None),
            Reason::InvalidField,
            "provider_content.json[0].content[0].type: ",
        ),
        (given(Format::Anthropic, REQUEST, Some(token)), Reason::InvalidField, "provider_content.view_token"),
        (given(Format::Anthropic, REPLY, Some("lhv".to_owned())), Reason::ViewTokenInvalid, "token"),
        (both, Reason::InvalidField, "messages"),
        (given(Format::Anthropic, &large, None), Reason::LimitExceeded, "messages[0]"),
    ] {
        let error = refused(&test, &session, request).await;
        assert_eq!(error.reason, reason, "{error}");
        assert!(error.message.contains(names), "{error} names {names}");
    }
}

#[tokio::test]
async fn what_a_format_cannot_carry_is_refused_by_name() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    append(&test, &session, REQUEST).await;
    let reply = append(&test, &session, REPLY).await;
    let error = test.app.views().get(&session, asking(Format::Gemini)).await.expect_err("a tool of another provider");
    assert_eq!(error.reason, Reason::ContentNotInFormat);
    let fact = |name: &str| error.metadata.get(name).map(String::as_str).unwrap_or_default();
    assert_eq!((fact("format"), fact("content")), ("gemini", "foreign_block"));
    let history = test.history(&session).await;
    let message = history.iter().find(|message| message.id.0 == reply.ids[0]).expect("the reply");
    let named = message.parts.iter().find(|part| part.id.to_string() == fact("part_id")).expect("its part");
    let PartBody::Opaque(Opaque { kind, .. }) = &*named.body else { panic!("{named:?}") };
    assert_eq!((kind.as_str(), fact("message_id")), ("server_tool_use", message.id.to_string().as_str()));
    // An edit without the block can be carried.
    let parts: Vec<NewPart> = vec![text("High at noon.")];
    test.app.messages().edit(&session, &message.id.to_string(), &parts, None).await.expect("edited");
    ask(&test, &session, asking(Format::Gemini)).await;
}

#[tokio::test]
async fn a_repeated_append_is_answered_as_the_first() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let first = test.once("r1", "p").messages().append_with(&session, given(Format::Anthropic, REQUEST, None)).await;
    let again = test.once("r1", "p").messages().append_with(&session, given(Format::Anthropic, REQUEST, None)).await;
    let (first, again) = (first.expect("appended"), again.expect("answered"));
    assert_eq!((first.answer.ids, first.answer.revision), (again.answer.ids, again.answer.revision));
}

#[tokio::test]
async fn an_odd_reply_is_kept_and_goes_out_as_a_request_that_providers_take() {
    let test = TestApp::start().await;
    let session = test.session("pi", 200_000, 1_000).await;
    let signature = "s".repeat(300_000);
    let call = format!(
        r#"{{"role":"model","parts":[{{"functionCall":{{"name":"read","args":{{"x":"\ud83d"}}}},"thoughtSignature":"{signature}"}}]}}"#
    );
    let stream = REPLY.replacen("\"input_tokens\":12", "\"input_tokens\":10000000000000000000", 1);
    assert_ne!(stream, REPLY);
    let cut = stream.find("1.50").expect("an input");
    for (format, json) in [
        (Format::Anthropic, REQUEST),
        (Format::Gemini, call.as_str()),
        (Format::Anthropic, &stream[..cut]),
        (Format::OpenAiChat, r#"{"role":"user","content":"And now? \ude00"}"#),
    ] {
        test.app.messages().append_with(&session, given(format, json, None)).await.expect("appended");
    }
    for format in [Format::OpenAiChat, Format::OpenAiResponses, Format::Gemini, Format::AiSdk] {
        // Blocks of the server's tools are Anthropic's alone.
        let view = test.app.views().get(&session, asking(format)).await;
        assert_eq!(view.map_err(|error| error.reason).err(), Some(Reason::ContentNotInFormat), "{format:?}");
    }
    // A strict reader takes all of it.
    let messages = values(&ask(&test, &session, asking(Format::Anthropic)).await);
    let last = messages.last().expect("the question").to_string();
    assert!(last.contains("And now? \u{fffd}"), "{last}");
}

#[test]
fn the_command_line_takes_and_prints_requests() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let daemon = Daemon::start(home.path());
    let session = daemon.text(&["create"]);
    let session = session.trim_end();
    let fed = |format: &str, input: &[u8]| {
        let arguments = ["append", session, "--format", format];
        let mut child =
            daemon.command(&arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        child.stdin.take().expect("its input").write_all(input).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success());
        String::from_utf8(output.stdout).expect("UTF-8").lines().count()
    };
    assert_eq!(fed("openai_chat", br#"{"messages":[{"role":"user","content":"How high?"}]}"#), 1);
    let file = home.path().join("reply.sse");
    std::fs::write(&file, include_str!("../providers/replies/openai_chat.sse")).expect("written");
    daemon.text(&["append", session, "--format", "openai_chat", file.to_str().expect("a path")]);
    let request: Value =
        serde_json::from_str(&daemon.text(&["view", session, "--format", "openai_chat"])).expect("JSON");
    assert_eq!(request["messages"][0]["content"], "How high?");
    assert_eq!(request["messages"][1]["reasoning_content"], "Look at the gauge.");
    let request: Value = serde_json::from_str(&daemon.text(&["view", session, "--format", "gemini"])).expect("JSON");
    assert_eq!(request["contents"][1]["parts"][1]["text"], "Two gauges.");
    // A stream that broke off within a letter.
    let event = |text: &str| format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}");
    let stream = format!("{}\"}}}}]}}\n\n{}", event("Two"), event(" é"));
    assert_eq!(fed("openai_chat", &stream.as_bytes()[..stream.len() - 1]), 1);
    assert!(daemon.text(&["view", session, "--format", "openai_chat"]).contains("\"Two\""));
    let frames = daemon.json(&["view", session, "--format", "openai_responses"]);
    let left = frames.last().expect("an end")["end"]["leftOutParts"].as_array().map(Vec::len);
    assert_eq!(left, Some(2), "the reasoning, and the signature of a call: {frames:?}");
}

/// The summary of a second compaction may have the words of the first one, and stands for other messages.
#[tokio::test]
async fn a_known_beginning_has_the_ids_of_now() {
    let script = ScriptedSummarizer::new([0, 1].map(|_| Line::Say("So far nothing of note.".to_owned())));
    let test = TestApp::with(script).await;
    let session = test.session("opencode@seed", 600_000, 1_000).await;
    let compact = async |last: usize| {
        test.append(&session, &turns(last - 9, last, 4_000)).await;
        let asked = NewCompaction::of_kind(CompactionKind::Summary);
        test.app.compactions().start(&session, asked).await.expect("started");
        test.settled().await;
    };
    compact(10).await;
    let before = ask(&test, &session, asking(Format::Anthropic)).await;
    compact(20).await;
    let now = ask(&test, &session, asking(Format::Anthropic)).await;
    assert_eq!(texts(&before)[0], texts(&now)[0], "the same words");
    let sources = |view: &ServedView| {
        let formatted = view.formatted.clone().expect("a format");
        formatted.messages.into_iter().map(|message| message.sources).collect::<Vec<_>>()
    };
    let (before_ids, now_ids) = (sources(&before), sources(&now));
    assert_ne!(before_ids[0], now_ids[0], "other messages");
    let known = ask(&test, &session, knowing(&before, Format::Anthropic)).await.known_count;
    assert_eq!(known, 0, "the first message has other ids");
}
