//! P12: messages that Longhand adds in a user's place are requested by the policy, recorded, marked, and removed with
//! their compaction.

use crate::support::{Line, ScriptedSummarizer, TestApp, conversation, shown, text, turns, with_image};
use longhand::app::append::ListMessages;
use longhand::app::compactions::{NewCompaction, Overflow};
use longhand::app::sessions::{ForkPoint, SessionChange};
use longhand::model::compaction::{CompactionKind, Trigger};
use longhand::model::event::{EventBody, EventKind};
use longhand::model::layout::OmitReason;
use longhand::model::message::{FinishReason, Message, MessageKind, NewFinish, NewMessage};
use longhand::model::part::PartBody;

const WORDS: usize = 1_100;
const GO_ON: &str = "user added: go on with what";

/// A session that exceeds its threshold with one more turn.
async fn nearly_full(test: &TestApp) -> String {
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    test.append(&session, &turns(1, 8, WORDS)).await;
    session
}

/// The turn that crosses the threshold and is unfinished: its reply waits for a tool.
fn unfinished() -> String {
    format!("u9 {WORDS}c\na9 {WORDS}c call=c9")
}

fn script() -> std::sync::Arc<ScriptedSummarizer> {
    ScriptedSummarizer::new([Line::Hold("S1".to_owned()), Line::Say("S2".to_owned()), Line::Say("S3".to_owned())])
}

/// Longhand's own messages of a kind, in order.
async fn derived(test: &TestApp, session: &str, kind: MessageKind) -> Vec<Message> {
    let list = ListMessages { derived: true, ..ListMessages::default() };
    let page = test.app.messages().list(session, list).await.expect("a page");
    page.messages.into_iter().filter(|message| message.kind == kind).collect()
}

async fn change_policy(test: &TestApp, session: &str, json: &str) {
    let change = SessionChange { policy_override_json: Some(json.to_owned()), ..SessionChange::default() };
    test.app.sessions().update(session, change).await.expect("a policy");
    test.settled().await;
}

/// Appends while the first summary is written, releases it, and returns the view after it as text.
async fn compacted(test: &TestApp, script: &ScriptedSummarizer, session: &str, meanwhile: &str) -> Vec<String> {
    let mut watch = test.watch().await;
    script.held().await;
    if !meanwhile.is_empty() {
        test.append(session, meanwhile).await;
    }
    script.release();
    watch.wait_for(EventKind::Compacted).await;
    test.settled().await;
    shown(&test.view(session).await)
}

#[tokio::test]
async fn an_interrupted_turn_is_asked_to_go_on_by_a_recorded_message() {
    let script = script();
    let test = TestApp::with(script.clone()).await;
    let session = nearly_full(&test).await;
    let whole = test.append(&session, &unfinished()).await.revision;
    let before = test.view_as_of(&session, whole).await.hash;
    let lines = compacted(&test, &script, &session, "").await;
    assert_eq!(lines.last().map(String::as_str), Some(GO_ON), "{lines:?}");
    let recorded = derived(&test, &session, MessageKind::Continuation).await;
    assert_eq!(recorded.len(), 1);
    assert!(recorded[0].kind.is_derived());
    assert!(test.history(&session).await.iter().all(|message| message.id != recorded[0].id), "nobody wrote it");
    // Later messages follow it, and the next summary covers it without reading it.
    test.append(&session, "t9 result=c9:ok\na10 \"so be it\"").await;
    let lines = shown(&test.view(&session).await);
    assert_eq!(lines[lines.len() - 2..], [GO_ON.to_owned(), "assistant shown: so be it".to_owned()]);
    let compacted = test.view(&session).await.hash;
    test.app.compactions().undo(&session, None).await.expect("undone");
    let lines = shown(&test.view(&session).await);
    assert!(!lines.iter().any(|line| line == GO_ON), "{lines:?}");
    assert_eq!(test.view_as_of(&session, whole).await.hash, before);
    test.app.compactions().redo(&session, None).await.expect("redone");
    assert_eq!(test.view(&session).await.hash, compacted);
    let mut watch = test.watch().await;
    test.append(&session, &turns(11, 20, WORDS)).await;
    watch.wait_for(EventKind::Compacted).await;
    watch.wait_for(EventKind::Compacted).await;
    test.settled().await;
    let view = test.view(&session).await;
    let covered = view.covered.as_ref().expect("a summary");
    assert!(covered.ranges.iter().any(|range| range.contains(recorded[0].revision)), "{covered:?}");
    assert!(!shown(&view).iter().any(|line| line == GO_ON));
    let asked = script.asked();
    assert!(asked[1].messages.iter().all(|source| source.message.kind != MessageKind::Continuation));
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn nobody_is_asked_to_go_on_who_is_done_or_goes_on_anyway() {
    for (turn, meanwhile, expected) in [
        (turns(9, 9, WORDS), "", false),
        (format!("u9 {WORDS}c\na9 {WORDS}c\nu10 \"and this?\""), "", false),
        (unfinished(), "t9 result=c9:ok", true),
        (unfinished(), "t9 result=c9:ok\na10 \"done\"", false),
        (unfinished(), "t9 result=c9:ok\na10 open", false),
        (unfinished(), "u10 \"stop that\"", false),
    ] {
        let script = script();
        let test = TestApp::with(script.clone()).await;
        let session = nearly_full(&test).await;
        test.append(&session, &turn).await;
        let lines = compacted(&test, &script, &session, meanwhile).await;
        assert_eq!(lines.iter().any(|line| line == GO_ON), expected, "{turn:.20} {meanwhile}: {lines:?}");
        assert_eq!(test.findings().await, []);
    }
}

#[tokio::test]
async fn going_on_can_be_vetoed_and_is_never_asked_for_behind_a_request_by_hand() {
    let script = script();
    let test = TestApp::with(script.clone()).await;
    let session = nearly_full(&test).await;
    change_policy(&test, &session, "{\"auto_continue\": null}").await;
    test.append(&session, &unfinished()).await;
    let lines = compacted(&test, &script, &session, "").await;
    assert!(!lines.iter().any(|line| line == GO_ON), "{lines:?}");

    let by_hand = test.session("opencode@seed", 60_000, 1_000).await;
    test.append(&by_hand, &turns(1, 20, WORDS)).await;
    test.append(&by_hand, &unfinished().replace("u9", "u29").replace("a9", "a29")).await;
    let mut watch = test.watch().await;
    let wanted = NewCompaction::of_kind(CompactionKind::Summary);
    test.app.compactions().start(&by_hand, wanted).await.expect("something to compact");
    watch.wait_for(EventKind::Compacted).await;
    watch.wait_for(EventKind::Compacted).await;
    assert_eq!(derived(&test, &by_hand, MessageKind::Continuation).await, []);
}

#[tokio::test]
async fn a_request_that_was_too_large_is_replayed_without_its_media_at_its_position() {
    let test = TestApp::start().await;
    let session = with_image(&test).await;
    let before = test.view(&session).await.hash;
    let mut watch = test.watch().await;
    let overflow = Overflow { status: Some(413), ..Overflow::default() };
    test.app.compactions().report_overflow(&session, overflow).await.expect("taken");
    watch.wait_for(EventKind::Compacted).await;
    test.settled().await;
    let view = test.view(&session).await;
    let lines = shown(&view);
    let replayed = "user added: what does the plot [attached image/png: plot.png]";
    assert_eq!(lines.last().map(String::as_str), Some(replayed), "{lines:?}");
    let request = test.app.messages().get(&session, "u90").await.expect("the original is kept").0;
    assert!(request.parts.iter().any(|part| matches!(*part.body, PartBody::Media(_))));
    let why = view.omitted.iter().find(|omitted| omitted.range.contains(request.revision)).map(|found| found.reason);
    assert_eq!(why, Some(OmitReason::Replayed));
    let replay = derived(&test, &session, MessageKind::Replay).await;
    assert_eq!(
        replay.iter().map(|message| Some(message.id)).collect::<Vec<_>>(),
        [view.messages.last().unwrap().source]
    );
    let expanded = test.app.messages().expand(&session, &replay[0].id.to_string(), 0, "").await.expect("expanded");
    assert_eq!(expanded.messages.iter().map(|message| message.id).collect::<Vec<_>>(), [request.id]);
    // Later messages follow it, and an undo restores the request.
    test.append(&session, "a90 \"it rises\"").await;
    assert_eq!(shown(&test.view(&session).await).last().map(String::as_str), Some("assistant shown: it rises"));
    test.app.messages().rewind(&session, "u90", None).await.expect("rewound");
    test.app.compactions().undo(&session, None).await.expect("the rewind is undone");
    test.app.compactions().undo(&session, None).await.expect("the compaction is undone");
    let as_before = test.view(&session).await;
    assert_eq!(shown(&as_before)[as_before.messages.len() - 2], "user shown: what does the plot media");
    test.app.messages().rewind(&session, "u90", None).await.expect("rewound");
    assert_eq!(test.view(&session).await.hash, before);
    assert_eq!(test.findings().await, []);
}

fn failure(detail: &str) -> NewFinish {
    NewFinish { reason: Some(FinishReason::Error), detail: detail.to_owned(), ..NewFinish::default() }
}

fn failed(name: &str, detail: &str) -> Vec<NewMessage> {
    let mut reply = conversation(&format!("{name} \"\""));
    reply[0].finish = Some(failure(detail));
    reply
}

#[tokio::test]
async fn a_reply_that_failed_because_the_view_was_too_large_reports_it_once() {
    let test = TestApp::start().await;
    let session = with_image(&test).await;
    let append = |messages| test.app.messages().append(&session, messages, None, None);
    let began = async || {
        test.settled().await;
        let events = test.events().await;
        let triggers = events.into_iter().filter_map(|event| match event.body {
            EventBody::CompactionStarted { trigger, .. } => Some(trigger),
            _ => None,
        });
        triggers.collect::<Vec<_>>()
    };
    append(failed("a90", "rate limit reached, too many requests")).await.expect("appended");
    assert_eq!(began().await, []);
    assert!(append(failed("a91", "prompt is too long: 9 tokens")).await.expect("appended").context.due);
    assert_eq!(began().await, [Trigger::Overflow]);
    let lines = shown(&test.view(&session).await);
    assert!(lines.contains(&"user added: what does the plot [attached image/png: plot.png]".to_owned()), "{lines:?}");
    // The replay is not a new request: a second failure is not retried, and is reported once.
    append(failed("a92", "prompt is too long: 8 tokens")).await.expect("appended");
    assert_eq!(began().await, [Trigger::Overflow; 2]);
    let why = test.events().await.into_iter().filter_map(|event| match event.body {
        EventBody::CompactionFailed { failure, .. } => Some(failure.reason.as_str()),
        _ => None,
    });
    assert_eq!(why.collect::<Vec<_>>(), ["OVERFLOW_AGAIN"]);
    test.app.messages().edit(&session, "u1", &[text("better")], None).await.expect("edited");
    assert_eq!(began().await.len(), 2, "looked at again, it is the same failure");
    assert_eq!(test.findings().await, []);

    // A reply to the view before the compaction does not count for the view after it.
    let late = with_image(&test).await;
    let overflow = Overflow { status: Some(413), ..Overflow::default() };
    test.append(&late, "a90 open").await;
    test.app.compactions().report_overflow(&late, overflow).await.expect("taken");
    assert_eq!(began().await.len(), 3);
    let finish = failure("prompt is too long: 9 tokens");
    test.app.messages().finish(&late, "a90", finish, None).await.expect("sealed");
    assert_eq!(began().await.len(), 3);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_message_that_was_open_reports_it_likewise_where_something_may_happen_by_itself() {
    let test = TestApp::start().await;
    for auto in [true, false] {
        let session = with_image(&test).await;
        change_policy(&test, &session, &format!("{{\"trigger\": {{\"auto\": {auto}}}}}")).await;
        test.append(&session, "a90 open").await;
        let finish = failure("prompt is too long: 9 tokens");
        test.app.messages().finish(&session, "a90", finish, None).await.expect("sealed");
        test.settled().await;
        let lines = shown(&test.view(&session).await);
        assert_eq!(lines.iter().any(|line| line.starts_with("user added: ")), auto, "{lines:?}");
    }
}

async fn fork(test: &TestApp, session: &str) -> String {
    let forked = test.app.sessions().fork(session, ForkPoint::default(), None, String::new()).await;
    forked.expect("a fork").0.session.id.to_string()
}

#[tokio::test]
async fn a_fork_takes_back_what_it_inherited_for_itself_alone() {
    let script = script();
    let test = TestApp::with(script.clone()).await;
    let session = nearly_full(&test).await;
    let whole = test.append(&session, &unfinished()).await.revision;
    let before = test.view_as_of(&session, whole).await.hash;
    compacted(&test, &script, &session, "").await;
    let continued = test.view(&session).await.hash;
    let forked = fork(&test, &session).await;
    assert_eq!(test.view(&forked).await.hash, continued);
    test.app.compactions().undo(&forked, None).await.expect("undone");
    assert_eq!(test.view(&forked).await.hash, before);
    test.app.compactions().redo(&forked, None).await.expect("redone");
    assert_eq!(test.view(&forked).await.hash, continued);
    assert_eq!(test.view(&session).await.hash, continued);

    let session = with_image(&test).await;
    let asked = test.view(&session).await.hash;
    let mut watch = test.watch().await;
    let overflow = Overflow { status: Some(413), ..Overflow::default() };
    test.app.compactions().report_overflow(&session, overflow).await.expect("taken");
    watch.wait_for(EventKind::Compacted).await;
    test.settled().await;
    let replayed = test.view(&session).await.hash;
    let forked = fork(&test, &session).await;
    assert_eq!(test.view(&forked).await.hash, replayed);
    test.app.compactions().undo(&forked, None).await.expect("undone");
    assert_eq!(test.view(&forked).await.hash, asked);
    assert_eq!(test.view(&session).await.hash, replayed);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_replay_can_be_edited_like_the_request_that_it_replaces() {
    let test = TestApp::start().await;
    let session = with_image(&test).await;
    let mut watch = test.watch().await;
    let overflow = Overflow { status: Some(413), ..Overflow::default() };
    test.app.compactions().report_overflow(&session, overflow).await.expect("taken");
    watch.wait_for(EventKind::Compacted).await;
    test.settled().await;
    let replay = derived(&test, &session, MessageKind::Replay).await[0].id.to_string();
    test.app.messages().edit(&session, &replay, &[text("never mind the plot")], None).await.expect("edited");
    let last = || async { shown(&test.view(&session).await).pop() };
    assert_eq!(last().await.as_deref(), Some("user shown: never mind the plot"));
    test.app.compactions().undo(&session, None).await.expect("undone");
    assert_eq!(last().await.as_deref(), Some("user added: what does the plot [attached image/png: plot.png]"));
    assert_eq!(test.findings().await, []);
}
