//! Rules for secrets: what they find is in the answer, is replaced before it is stored, or is refused, through every door.

mod commands;
mod doors;
mod drafts;
mod refused;

use crate::support::{TestApp, conversation, result, text, turns, window};
use longhand::app::Caller;
use longhand::app::Reason;
use longhand::app::append::{AppendRequest, EditRequest};
use longhand::app::approvals::{Answer, Choice, Question};
use longhand::app::compactions::{NewCompaction, NewSummary};
use longhand::app::erase::{EraseRequest, EraseTarget};
use longhand::app::prompts::NewPrompt;
use longhand::app::secrets::{Action, SecretFinding};
use longhand::app::sessions::{ForkPoint, NewSession, SessionChange};
use longhand::model::compaction::CompactionKind;
use longhand::model::event::EventKind;
use longhand::model::message::{NewFinish, NewMessage, Role};
use longhand::model::part::{Marker, Media, MediaSource, NewPart, Opaque, PartBody, Record, ReplyStep, ToolCall};
use longhand::secrets::{Rule, Rules};
use std::path::Path;

/// What the rules of these tests find.
const SECRET: &str = "hush-abcdef0123456789";
/// Another one.
const OTHER: &str = "hush-fedcba9876543210";
/// The first letters of both, which no file has either.
const BEGIN: &str = "hush-abcdef012345";

fn rules(action: Action) -> Rules {
    let rule = |name: &str, pattern: &str, action| Rule { name: name.to_owned(), pattern: pattern.to_owned(), action };
    let rules = [rule("hush", r"hush-[0-9a-f]{16}", action), rule("other", "whisper-[0-9]{4}", Action::Warn)];
    Rules::new(&rules).expect("they are valid").expect("there are some")
}

async fn start(action: Action) -> TestApp {
    let test = TestApp::start().await;
    test.longhand.store().apply_secret_rules(rules(action)).expect("the key is made");
    test
}

async fn restart(test: TestApp, action: Option<Action>) -> TestApp {
    let test = test.restart().await;
    if let Some(action) = action {
        test.longhand.store().apply_secret_rules(rules(action)).expect("the key is there");
    }
    test
}

/// The files of a store that have a text.
fn holders(directory: &Path, text: &str) -> Vec<String> {
    let has = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    let stored = crate::database::stored(directory).into_iter();
    stored.filter(|(_, bytes)| has(bytes)).map(|(name, _)| name).collect()
}

/// Texts with placeholders, without their hashes.
fn plain(text: &str) -> String {
    let hash = regex::Regex::new(r"\[secret:([a-z0-9-]+):[0-9a-f]{12}\]").expect("a pattern");
    hash.replace_all(text, "<$1>").into_owned()
}

fn finding(field: &str, count: i64, action: Action) -> SecretFinding {
    SecretFinding { field: field.to_owned(), rule: "hush".to_owned(), action, count }
}

fn all_parts(secret: &str) -> Vec<NewPart> {
    let media = |mime_type: &str, source| Media { mime_type: mime_type.to_owned(), name: secret.to_owned(), source };
    let file = || media("text/plain", MediaSource::Bytes(format!("a {secret}").into_bytes()));
    let mut tool = result("c1", &format!("out {secret} and {secret}"));
    if let PartBody::ToolResult(result) = std::sync::Arc::make_mut(&mut tool.body) {
        result.attachments.push(file());
        result.attachments.push(media("image/png", MediaSource::Uri(format!("https://x/{secret}"))));
    }
    let call = ToolCall {
        call_id: "c1".to_owned(),
        tool: "bash".to_owned(),
        input_json: format!(r#"{{"cmd": "echo \"{secret}\"", "{secret}": [1e5, "\u0068ush-abcdef0123456789"]}}"#),
        ..ToolCall::default()
    };
    let mut parts: Vec<NewPart> = [
        PartBody::Text(format!("see {secret}")),
        PartBody::Reasoning(format!("hm {secret}")),
        PartBody::ToolCall(call),
        PartBody::Media(file()),
        PartBody::Marker(Marker { name: "note".to_owned(), text: secret.to_owned() }),
        PartBody::Step(ReplyStep { finish_reason: secret.to_owned(), usage: None }),
        PartBody::Opaque(Opaque {
            provider: "p".to_owned(),
            kind: "k".to_owned(),
            data: format!(r#"{{"a":"{secret}"}}"#).into_bytes(),
        }),
    ]
    .into_iter()
    .map(NewPart::new)
    .collect();
    parts.push(tool);
    parts[0].metadata_json = Some(format!(r#"{{"key":"{secret}"}}"#));
    for (index, part) in parts.iter_mut().enumerate() {
        part.client_id = Some(format!("p{index}"));
    }
    parts
}

/// A message with the secret in every text.
fn everywhere(secret: &str) -> NewMessage {
    let finish = NewFinish { detail: format!("over {secret}"), ..NewFinish::default() };
    NewMessage {
        client_id: Some("m1".to_owned()),
        metadata_json: Some(format!(r#"["{secret}"]"#)),
        finish: Some(finish),
        ..NewMessage::sealed(Role::Assistant, all_parts(secret))
    }
}

fn record(secret: &str) -> NewMessage {
    let record = Record { kind: "line".to_owned(), data: format!(r#"{{"a":"{secret}"}}"#) };
    NewMessage {
        kind: longhand::model::message::MessageKind::Record,
        ..NewMessage::sealed(Role::User, vec![NewPart::new(PartBody::Record(record))])
    }
}

#[tokio::test]
async fn without_rules_nothing_is_looked_for() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let appended = test.app.messages().append(&session, vec![everywhere(SECRET)], None, None).await.expect("appended");
    assert_eq!(appended.secrets, []);
    assert_ne!(holders(test.directory(), SECRET), Vec::<String>::new());
    assert!(!test.directory().join("draft-key").exists(), "nothing is made");
}

#[tokio::test]
async fn a_warning_names_the_place_and_changes_nothing() {
    let test = start(Action::Warn).await;
    let session = test.manual_session().await;
    let message = everywhere(SECRET);
    let append = async |messages| test.app.messages().append(&session, messages, None, None).await.expect("appended");
    let found = append(vec![message.clone(), record(SECRET)]).await.secrets;
    let at = |field: &str, count| finding(&format!("messages[0].{field}"), count, Action::Warn);
    assert_eq!(
        found,
        [
            at("metadata_json", 1),
            at("finish.detail", 1),
            at("parts[0].metadata_json", 1),
            at("parts[0].text", 1),
            at("parts[1].reasoning", 1),
            at("parts[2].tool_call.input_json", 3),
            at("parts[3].media.name", 1),
            at("parts[3].media.data", 1),
            at("parts[4].marker.text", 1),
            at("parts[5].step.finish_reason", 1),
            at("parts[6].opaque.data", 1),
            at("parts[7].tool_result.output", 2),
            at("parts[7].tool_result.attachments[0].name", 1),
            at("parts[7].tool_result.attachments[0].data", 1),
            at("parts[7].tool_result.attachments[1].name", 1),
            at("parts[7].tool_result.attachments[1].uri", 1),
            finding("messages[1].parts[0].record.data", 1, Action::Warn),
        ]
    );
    let stored = test.history(&session).await.remove(0);
    for (stored, sent) in stored.parts.iter().zip(&message.parts) {
        assert!(stored.body.is_as_sent(&sent.body));
    }
    assert_eq!(test.longhand.store().secrets().counts()[0], ("hush".to_owned(), Action::Warn, 20));
    let other = append(conversation("u2 \"whisper-1234 is nothing\"")).await;
    assert_eq!(other.secrets[0].rule, "other");
    assert_eq!(append(conversation("u3 \"nothing\"")).await.secrets, [], "each call has its own");
}

#[tokio::test]
async fn a_redacted_secret_is_in_no_file_no_view_and_no_event() {
    let test = start(Action::Redact).await;
    let session = test.manual_session().await;
    let mut watch = test.watch().await;
    test.append(&session, "u1 \"before\"").await;
    let messages = vec![everywhere(SECRET), record(SECRET)];
    let appended = test.app.messages().append(&session, messages, None, None).await.expect("appended");
    assert_eq!(appended.secrets.len(), 17);
    watch.wait_for(EventKind::MessageAppended).await;
    let stored = test.history(&session).await;
    let all = format!("{stored:?} {:?}", test.view(&session).await.messages);
    assert!(!all.contains(BEGIN), "{all}");
    assert_eq!(holders(test.directory(), BEGIN), Vec::<String>::new());
    let PartBody::ToolCall(call) = &*stored[1].parts[2].body else { panic!("a call") };
    assert_eq!(plain(&call.input_json), r#"{"cmd": "echo \"<hush>\"", "<hush>": [1e5, "<hush>"]}"#);
    serde_json::from_str::<serde_json::Value>(&call.input_json).expect("JSON");
    let PartBody::ToolResult(result) = &*stored[1].parts[7].body else { panic!("a result") };
    let [first, second]: [&str; 2] =
        result.output["out ".len()..].split(" and ").collect::<Vec<_>>().try_into().expect("two");
    assert_eq!((first, plain(first).as_str()), (second, "<hush>"), "equal secrets have equal placeholders");
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_refused_secret_is_refused_before_anything_is_written() {
    let test = start(Action::Refuse).await;
    let session = test.manual_session().await;
    let before = test.number("select count(*) from event");
    for (index, part) in all_parts(SECRET).into_iter().enumerate() {
        let message = NewMessage::sealed(Role::Assistant, vec![text("fine"), NewPart { metadata_json: None, ..part }]);
        let error = test.app.messages().append(&session, vec![message], None, None).await.expect_err("refused");
        assert_eq!((error.reason, error.metadata["rule"].as_str()), (Reason::SecretRefused, "hush"), "{index}");
        assert!(error.metadata["field"].starts_with("messages[0].parts[1]."), "{error}");
        assert!(!format!("{error:?}").contains(BEGIN), "{error}");
    }
    assert_eq!(test.number("select count(*) from event"), before);
    test.append(&session, "u1 \"fine\"").await;
}

#[tokio::test]
async fn a_repetition_is_recognised_by_what_was_received_whatever_the_rules_are_then() {
    let mut test = start(Action::Redact).await;
    let session = test.manual_session().await;
    let appended = test.app.messages().append(&session, vec![everywhere(SECRET)], None, None).await.expect("appended");
    let once = |test: &TestApp| test.once("r1", &format!("the request with {SECRET}"));
    let new = || AppendRequest {
        messages: vec![NewMessage::sealed(Role::User, vec![text(SECRET)])],
        ..AppendRequest::default()
    };
    let first = once(&test).messages().append_with(&session, new()).await.expect("appended");
    let change = || SessionChange { title: Some(format!("about {SECRET}")), ..SessionChange::default() };
    once_named(&test, "r2").sessions().update(&session, change()).await.expect("changed");
    // The hash of a request with a secret would tell whether a guess is right.
    let plain_hash = *blake3::hash(format!("the request with {SECRET}").as_bytes()).as_bytes();
    let kept: Vec<u8> = test.database().value("select payload_hash from request where request_id = 'r1'");
    assert_ne!(kept, plain_hash);
    for rules in [Some(Action::Redact), None, Some(Action::Warn), Some(Action::Redact)] {
        test = restart(test, rules).await;
        let events = test.number("select count(*) from event");
        let again =
            test.app.messages().append(&session, vec![everywhere(SECRET)], None, None).await.expect("a repetition");
        assert_eq!((again.ids.clone(), again.existed_count), (appended.ids.clone(), 1), "{rules:?}");
        let again = once(&test).messages().append_with(&session, new()).await.expect("a repetition");
        assert_eq!((again.answer.ids, again.answer.revision), (first.ids.clone(), first.revision), "{rules:?}");
        once_named(&test, "r2").sessions().update(&session, change()).await.expect("a repetition");
        for other in
            [everywhere(OTHER), NewMessage { metadata_json: Some(format!(r#"["{OTHER}"]"#)), ..everywhere(SECRET) }]
        {
            let error =
                test.app.messages().append(&session, vec![other], None, None).await.expect_err("another message");
            assert_eq!(error.reason, Reason::ClientIdReused, "{rules:?}");
        }
        assert_eq!(test.number("select count(*) from event"), events);
    }
}

/// A question that any text answers.
fn question(text: &str) -> Question {
    Question {
        text: text.to_owned(),
        tool: String::new(),
        call_id: String::new(),
        input_json: None,
        choices: Vec::new(),
        accepts_text: true,
        default_choice: None,
        timeout_ms: None,
    }
}

fn once_named(test: &TestApp, id: &str) -> Caller {
    test.once(id, "the same")
}

#[tokio::test]
async fn what_came_before_a_rule_is_repeated_under_it() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let appended = test.app.messages().append(&session, vec![everywhere(SECRET)], None, None).await.expect("appended");
    let test = restart(test, Some(Action::Redact)).await;
    let again = test.app.messages().append(&session, vec![everywhere(SECRET)], None, None).await.expect("a repetition");
    assert_eq!((again.answer.ids, again.answer.existed_count), (appended.answer.ids, 1));
    let other =
        test.app.messages().append(&session, vec![everywhere(OTHER)], None, None).await.expect_err("another message");
    assert_eq!(other.reason, Reason::ClientIdReused);
}

#[tokio::test]
async fn what_other_doors_bring_is_redacted_too() {
    let test = start(Action::Redact).await;
    let title = || format!("about {SECRET}");
    let new = || NewSession {
        client_id: Some("s1".to_owned()),
        title: title(),
        metadata_json: Some(format!(r#"{{"a": "{SECRET}"}}"#)),
        window: window(100_000, 1_000),
        ..NewSession::default()
    };
    let session = test.create(new()).await;
    test.append(&session, &turns(1, 4, 300)).await;
    let metadata_json = Some(format!("[\"{SECRET}\"]"));
    let edit = EditRequest { message: "u1", parts: vec![text(SECRET)], metadata_json, ..EditRequest::default() };
    test.app.messages().edit_with(&session, edit).await.expect("edited");
    test.app.sessions().fork(&session, ForkPoint::default(), Some("f1".to_owned()), title()).await.expect("forked");
    let metadata_json = Some(format!("[\"{SECRET}\"]"));
    let prompt = NewPrompt { metadata_json, ..NewPrompt::from_parts(vec![text(SECRET)]) };
    test.app.prompts().submit(&session, prompt).await.expect("submitted");
    let choices = vec![Choice { id: "y".to_owned(), label: SECRET.to_owned() }];
    let asked = Question { choices, input_json: Some(format!("[\"{SECRET}\"]")), ..question(&title()) };
    let approval = test.app.approvals().request(&session, asked).await.expect("asked").answer.0;
    let answer = Answer { choice: None, text: title() };
    let answered =
        test.app.approvals().answer(&session, &approval.id.to_string(), answer).await.expect("answered").answer.0;
    assert!(!format!("{answered:?}").contains(BEGIN));
    let run = test.app.runs().acquire(&session, None, false).await.expect("a run").run;
    test.app.runs().release(&session, run.epoch, Some(title())).await.expect("released");
    let wanted = NewCompaction { instructions: title(), ..NewCompaction::of_kind(CompactionKind::Summary) };
    // There may be nothing to compact.
    if let Ok(started) = test.app.compactions().start(&session, wanted).await {
        let _ = test.app.compactions().cancel(&started.0.id.to_string()).await;
    }
    let summary = NewSummary { text: format!("They said {SECRET}."), ..NewSummary::default() };
    test.app.compactions().supply_summary(&session, summary).await.expect("supplied");
    test.append(&session, "u9 \"later\"").await;
    let request = EraseRequest {
        target: EraseTarget::Messages(vec!["u9".to_owned()]),
        reason: title(),
        dry_run: false,
        expected_revision: None,
    };
    test.app.content().erase(&session, request).await.expect("erased");
    assert_eq!(holders(test.directory(), BEGIN), Vec::<String>::new());
    assert_eq!(test.findings().await, []);
    // The same requests are the same, and others are not.
    let directory = test.stop().await;
    for action in [Some(Action::Redact), None] {
        let test = TestApp::copy_of(directory.path()).await;
        if let Some(action) = action {
            test.longhand.store().apply_secret_rules(rules(action)).expect("a key");
        }
        assert!(test.app.sessions().create(new()).await.expect("found").answer.1);
        let again = test.app.sessions().fork(&session, ForkPoint::default(), Some("f1".to_owned()), title()).await;
        assert!(again.expect("found").1);
        let other = NewSession { title: format!("about {OTHER}"), ..new() };
        assert_eq!(test.app.sessions().create(other).await.expect_err("another").reason, Reason::ClientIdReused);
    }
}
