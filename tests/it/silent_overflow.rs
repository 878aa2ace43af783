//! Views over the window that a provider accepted: an overflow that the usage of a reply shows, if the policy detects
//! it.

use crate::support::{TestApp, conversation, shown, turns, window};
use longhand::app::sessions::{NewSession, SessionChange};
use longhand::model::compaction::Trigger;
use longhand::model::event::{EventBody, EventKind};
use longhand::model::message::{FinishReason, NewFinish, NewMessage};
use longhand::model::part::{Media, NewPart, PartBody};
use longhand::model::usage::Usage;

const WINDOW: i64 = 6_000;

/// A session that is more than half full and below its threshold by its estimate, under pi with a small tail.
async fn session(test: &TestApp, override_json: &str) -> String {
    let policy = format!(
        r#"{{"auto": {{"threshold": {{"limit": {{"reserve_tokens": 1000}}}},
            "steps": {{"0": {{"summarize": {{"tail": {{"recent": {{"keep_tokens": 300}}}}}}}}}}}}{override_json}}}"#
    );
    let new = NewSession {
        preset: "pi@1.5".to_owned(),
        policy_override_json: policy,
        window: window(WINDOW, 0),
        ..NewSession::default()
    };
    let session = test.create(new).await;
    test.append(&session, &turns(1, 6, 1_100)).await;
    test.settled().await;
    session
}

/// The end of a reply that read and wrote these numbers of tokens.
fn end(reason: FinishReason, input: i64, output: i64) -> NewFinish {
    let usage = Usage { input: input - 100, cache_read: 100, output, ..Usage::default() };
    NewFinish { reason: Some(reason), usage: Some(usage), ..NewFinish::default() }
}

fn reply(name: &str, finish: NewFinish) -> Vec<NewMessage> {
    let mut reply = conversation(&format!("{name} \"so be it\""));
    reply[0].finish = Some(finish);
    reply
}

/// The triggers of all compactions, and the reasons of the failed ones, once the scheduler is idle.
async fn outcomes(test: &TestApp) -> (Vec<Trigger>, Vec<String>) {
    test.settled().await;
    let events = test.events().await;
    let began = events.iter().filter_map(|event| match &event.body {
        EventBody::CompactionStarted { trigger, .. } => Some(*trigger),
        _ => None,
    });
    let failed = events.iter().filter_map(|event| match &event.body {
        EventBody::CompactionFailed { failure, .. } => Some(failure.reason.as_str().to_owned()),
        _ => None,
    });
    (began.collect(), failed.collect())
}

#[tokio::test]
async fn a_reply_that_read_more_than_the_window_has_its_view_reduced_as_an_overflow() {
    let off = r#", "trigger": {"silent_overflow": false}"#;
    for (override_json, finish, began) in [
        ("", end(FinishReason::Stop, WINDOW + 1, 9), vec![Trigger::Overflow]),
        ("", end(FinishReason::Length, WINDOW, 0), vec![Trigger::Overflow]),
        // The view is within the window; only the threshold applies.
        ("", end(FinishReason::Stop, WINDOW - 9, 9), vec![Trigger::Threshold]),
        ("", end(FinishReason::Length, WINDOW - 1, 1), vec![Trigger::Threshold]),
        // More than the window holds is no size, under any policy.
        ("", end(FinishReason::Stop, WINDOW - 9, 10), vec![Trigger::Overflow]),
        (off, end(FinishReason::Stop, WINDOW + 1, 9), vec![Trigger::Overflow]),
        (off, end(FinishReason::Length, WINDOW, 0), vec![Trigger::Threshold]),
        (r#", "trigger": {"auto": false}"#, end(FinishReason::Stop, WINDOW + 1, 9), vec![]),
    ] {
        for sealed_later in [false, true] {
            let test = TestApp::start().await;
            let session = session(&test, override_json).await;
            test.append(&session, "u9 \"and now?\"").await;
            if sealed_later {
                test.append(&session, "a9 open").await;
                let sealed = test.app.messages().finish(&session, "a9", finish.clone(), None).await;
                sealed.expect("sealed");
            } else {
                let messages = reply("a9", finish.clone());
                test.app.messages().append(&session, messages, None, None).await.expect("appended");
            }
            assert_eq!(outcomes(&test).await, (began.clone(), vec![]), "{override_json} {finish:?}");
            let view = test.view(&session).await;
            assert_eq!(view.covered.is_some(), !began.is_empty(), "{finish:?}");
            let lines = shown(&view);
            assert!(!lines.iter().any(|line| line.contains(" added: ")), "nobody asks a model to go on: {lines:?}");
        }
    }
}

#[tokio::test]
async fn the_window_is_that_of_the_session() {
    let test = TestApp::start().await;
    let session = session(&test, "").await;
    test.append(&session, "u9 \"and now?\"").await;
    let smaller = Some(window(WINDOW / 2, 0));
    let messages = reply("a9", end(FinishReason::Stop, WINDOW / 2 + 1, 9));
    test.app.messages().append(&session, messages, smaller, None).await.expect("appended");
    assert_eq!(outcomes(&test).await, (vec![], vec![]), "only a model with a smaller window read too much");
    test.append(&session, "u10 \"and now?\"").await;
    let larger = Some(window(WINDOW * 2, 0));
    let messages = reply("a10", end(FinishReason::Stop, WINDOW + 1, 9));
    test.app.messages().append(&session, messages, larger, None).await.expect("appended");
    assert_eq!(outcomes(&test).await, (vec![Trigger::Overflow], vec![]));
}

#[tokio::test]
async fn one_request_has_its_overflow_answered_once() {
    let test = TestApp::start().await;
    let session = session(&test, "").await;
    test.append(&session, "u9 \"and now?\"").await;
    let append_reply = async |name: &str, reason, output| {
        // The reply is to the current view.
        let view = Some(test.view(&session).await.token);
        let finish = NewFinish { view, ..end(reason, WINDOW + 1, output) };
        test.app.messages().append(&session, reply(name, finish), None, None).await.expect("appended");
        outcomes(&test).await
    };
    let overflows = |(began, failed): (Vec<Trigger>, Vec<String>)| {
        (began.iter().filter(|trigger| **trigger == Trigger::Overflow).count(), failed)
    };
    assert_eq!(overflows(append_reply("a9", FinishReason::Length, 0).await), (1, vec![]));
    // The same again: a client without an answer is notified that nothing more can be done.
    let (began, failed) = overflows(append_reply("a9b", FinishReason::Length, 0).await);
    assert_eq!((began, failed.first().map(String::as_str)), (2, Some("OVERFLOW_AGAIN")));
    // A client with an answer needs no notification.
    assert_eq!(overflows(append_reply("a9c", FinishReason::Stop, 9).await).0, 2);
    // Another request gets none as long as the figures stay above the window, whatever the view is.
    test.append(&session, &turns(10, 13, 800)).await;
    test.settled().await;
    assert_eq!(overflows(append_reply("a14", FinishReason::Stop, 9).await).0, 2);
    // Once they are credible again, it gets its own attempt.
    let view = Some(test.view(&session).await.token);
    let credible = NewFinish { view, ..end(FinishReason::Stop, WINDOW / 2, 9) };
    test.append(&session, "u15 \"and now?\"").await;
    test.app.messages().append(&session, reply("a15", credible), None, None).await.expect("appended");
    test.settled().await;
    test.append(&session, "u16 \"and now?\"").await;
    assert_eq!(overflows(append_reply("a16", FinishReason::Stop, 9).await).0, 3);
    assert_eq!(test.findings().await, []);
}

/// Appends a request with an image.
async fn ask_about_an_image(test: &TestApp, session: &str) {
    let mut request = conversation("u90 \"what does the plot say?\"");
    let image = Media { mime_type: "image/png".to_owned(), name: "plot.png".to_owned(), ..Media::default() };
    request[0].parts.push(NewPart::new(PartBody::Media(image)));
    test.app.messages().append(session, request, None, None).await.expect("appended");
}

#[tokio::test]
async fn an_overflow_known_only_from_usage_removes_no_images() {
    for finish in [end(FinishReason::Stop, WINDOW + 1, 9), end(FinishReason::Length, WINDOW, 0)] {
        let test = TestApp::start().await;
        let session = session(&test, "").await;
        ask_about_an_image(&test, &session).await;
        let messages = reply("a90", finish.clone());
        test.app.messages().append(&session, messages, None, None).await.expect("appended");
        let (began, _) = outcomes(&test).await;
        assert_eq!(began.first(), Some(&Trigger::Overflow), "{finish:?}");
        let lines = shown(&test.view(&session).await);
        assert!(lines.iter().any(|line| line == "user shown: what does the plot media"), "{finish:?}: {lines:?}");
    }
}

#[tokio::test]
async fn a_reply_without_space_after_its_request_is_omitted_once() {
    let test = TestApp::start().await;
    let session = session(&test, "").await;
    let writes = SessionChange { window: Some(window(WINDOW, 2_000)), ..SessionChange::default() };
    test.app.sessions().update(&session, writes).await.expect("a window");
    test.append(&session, "u9 \"and now?\"").await;
    let append_reply = async |name: &str, output| {
        let view = Some(test.view(&session).await.token);
        let finish = NewFinish { view, ..end(FinishReason::Length, 4_000, output) };
        test.app.messages().append(&session, reply(name, finish), None, None).await.expect("appended");
        outcomes(&test).await
    };
    let (began, failed) = append_reply("a9", 1_999).await;
    assert_eq!((began.last(), failed), (Some(&Trigger::Overflow), vec![]));
    let view = test.view(&session).await;
    let lines = shown(&view);
    assert_eq!(lines.last().map(String::as_str), Some("user shown: and now?"), "it can be sent again: {lines:?}");
    assert!(view.covered.is_some(), "there is a summary");
    // A second one fails with OVERFLOW_AGAIN.
    let (_, failed) = append_reply("a9b", 1_999).await;
    assert_eq!(failed, ["OVERFLOW_AGAIN"]);
    // A reply that used its whole output limit had space.
    test.append(&session, "u10 \"go on\"").await;
    let (began, _) = append_reply("a10", 2_000).await;
    assert_eq!(began.iter().filter(|trigger| **trigger == Trigger::Overflow).count(), 2, "{began:?}");
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn usage_of_a_view_from_before_a_change_is_no_overflow() {
    let test = TestApp::start().await;
    let session = session(&test, "").await;
    let seen = test.view(&session).await.token;
    test.app.messages().rewind(&session, "u5", None).await.expect("rewound");
    for (number, view) in [(91, Some(seen)), (92, None)] {
        let finish = NewFinish { view, ..end(FinishReason::Stop, WINDOW + 1, 9) };
        let messages = reply(&format!("a{number}"), finish);
        test.app.messages().append(&session, messages, None, None).await.expect("appended");
        assert_eq!(outcomes(&test).await, (Vec::new(), Vec::new()));
    }
}

#[tokio::test]
async fn a_level_that_asks_first_only_informs_here() {
    let test = TestApp::start().await;
    let session = session(&test, "").await;
    let policy = r#"{"auto": {"notice": {"confirm": {"text": "now?", "wait_seconds": 3600}},
        "threshold": {"limit": {"reserve_tokens": 1000}},
        "steps": {"0": {"summarize": {"tail": {"recent": {"keep_tokens": 300}}}}}}}"#;
    let asks = SessionChange { policy_override_json: Some(policy.to_owned()), ..SessionChange::default() };
    test.app.sessions().update(&session, asks).await.expect("a policy");
    let mut watch = test.watch().await;
    let view = Some(test.view(&session).await.token);
    let finish = NewFinish { view, ..end(FinishReason::Stop, WINDOW + 1, 9) };
    test.app.messages().append(&session, reply("a90", finish), None, None).await.expect("appended");
    let started = watch.wait_for(EventKind::CompactionStarted).await;
    assert!(matches!(started.body, EventBody::CompactionStarted { trigger: Trigger::Overflow, .. }));
    assert_eq!(watch.count(EventKind::CompactionProposed), 0, "past the window nobody is asked");
}
