//! P15: once a session's decision is made and nothing is pending, its view is within its window under every preset, or
//! the failure names the content that cannot be removed.

use crate::support::{TestApp, call, conversation, filler, refusing, result, text, turns, window};
use longhand::app::append::ListMessages;
use longhand::app::compactions::NewSummary;
use longhand::app::sessions::{NewSession, SessionChange};
use longhand::app::views::{OverflowAction, ViewRequest};
use longhand::model::compaction::{CompactionKind, FailureReason, Trigger};
use longhand::model::event::{Event, EventBody, EventKind};
use longhand::model::message::{FinishReason, NewFinish, NewMessage, Role};
use longhand::model::part::NewPart;
use longhand::model::session::OverWindowReason;
use longhand::model::usage::ModelWindow;
use longhand::policy::pairing;
use longhand::policy::plan::kind;
use longhand::presets::{self, Preset};
use longhand::store::Visibility;
use longhand::summarizer::Extractive;
use std::sync::Arc;

/// All presets with automatic compactions.
fn automatic() -> impl Iterator<Item = &'static Preset> {
    presets::all().iter().filter(|preset| preset.policy().trigger.auto)
}

fn message(role: Role, parts: Vec<NewPart>, reason: Option<FinishReason>) -> NewMessage {
    NewMessage { finish: Some(NewFinish { reason, ..NewFinish::default() }), ..NewMessage::sealed(role, parts) }
}

/// A step of a turn: a call and its result of this number of characters.
fn step(number: usize, characters: usize) -> Vec<NewMessage> {
    let id = format!("c{number}");
    vec![
        message(Role::Assistant, vec![text("I look further."), call(&id)], Some(FinishReason::ToolCalls)),
        message(Role::Tool, vec![result(&id, &filler(&id, characters))], None),
    ]
}

async fn append(test: &TestApp, session: &str, messages: Vec<NewMessage>) {
    test.app.messages().append(session, messages, None, None).await.expect("appended");
    settled(test, session).await;
}

/// Waits until the scheduler is idle, and confirms every proposed compaction.
pub(crate) async fn settled(test: &TestApp, session: &str) {
    let key = test.longhand.store().sessions().find(&Visibility::default(), session).await.expect("it is there");
    let settled = async || {
        let is_settled = test.is_settled().await;
        if !is_settled && let Some(current) = test.longhand.store().compactions().current(key).await.expect("read") {
            // It may have started or ended meanwhile.
            drop(test.app.compactions().confirm(&current.to_string()).await);
        }
        is_settled
    };
    test.until("the scheduler to settle", settled).await;
}

async fn fits(test: &TestApp, session: &str) -> bool {
    let view = test.view(session).await;
    assert_eq!(view.pending, None, "nothing is pending");
    view.fits
}

#[tokio::test]
async fn one_endless_turn_fits_under_every_preset() {
    let test = TestApp::start().await;
    for preset in automatic() {
        let session = test.session(&preset.name, 16_000, 2_000).await;
        append(&test, &session, conversation("u1 \"find out why it fails\"")).await;
        for number in 0..24 {
            append(&test, &session, step(number, 9_000)).await;
            assert!(fits(&test, &session).await, "{} after step {number}", preset.name);
        }
    }
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn one_huge_output_and_a_window_that_shrinks_fit_under_every_preset() {
    let test = TestApp::start().await;
    for preset in automatic() {
        let session = test.session(&preset.name, 200_000, 20_000).await;
        append(&test, &session, conversation("u1 \"read it all\"")).await;
        append(&test, &session, step(0, 300_000)).await;
        append(&test, &session, conversation("a2 \"I have read it.\"\nu3 \"and now?\"\na3 4000c\nu4 \"go on\"")).await;
        assert!(fits(&test, &session).await, "{}", preset.name);
        for context in [32_000, 8_000, 3_000] {
            let change = SessionChange { window: Some(window(context, context / 8)), ..SessionChange::default() };
            test.app.sessions().update(&session, change).await.expect("a smaller window");
            settled(&test, &session).await;
            assert!(fits(&test, &session).await, "{} in {context}", preset.name);
        }
    }
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn the_last_resort_fits_a_view_that_the_policy_cannot() {
    let test = TestApp::with_options(Arc::new(Extractive), refusing()).await;
    let session = test.session("opencode@1.18", 32_000, 4_000).await;
    let mut watch = test.watch().await;
    append(&test, &session, conversation("u1 \"go\"")).await;
    for number in 0..12 {
        append(&test, &session, step(number, 12_000)).await;
    }
    let EventBody::Compacted { kind, trigger, outcome, .. } =
        watch.wait_for(longhand::model::event::EventKind::Compacted).await.body
    else {
        panic!("another body")
    };
    assert_eq!((kind, trigger), (CompactionKind::Omission, Trigger::LastResort));
    assert!(outcome.tokens_after <= 32_000 - 32_000 / 20, "a twentieth of the window is free: {outcome:?}");
    // Nothing is lost: truncated content can be read.
    let history = test.history(&session).await;
    assert_eq!(history.len(), 25);
}

#[tokio::test]
async fn open_messages_that_fill_the_window_are_named() {
    let test = TestApp::start().await;
    let session = test.session("pi@1.5", 8_000, 1_000).await;
    append(&test, &session, conversation("u1 \"go\"")).await;
    let open = NewMessage { finish: None, ..message(Role::Assistant, vec![text(&filler("a", 40_000))], None) };
    append(&test, &session, vec![open]).await;
    assert!(!fits(&test, &session).await);
    let events = test.events().await;
    let failures = events.iter().filter_map(|event| match &event.body {
        EventBody::CompactionFailed { failure, .. } => Some(failure),
        _ => None,
    });
    let failures: Vec<_> = failures.collect();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert_eq!(failures[0].reason, FailureReason::FixedOverhead);
    assert!(failures[0].message.contains("of open messages"), "{}", failures[0].message);
}

/// A summary that fitted a large window, after a change to a small one.
#[tokio::test]
async fn a_summary_that_fills_the_window_is_truncated_and_the_next_one_is_made_of_the_whole() {
    let mut truncated = 0;
    for preset in automatic() {
        let name = preset.name.as_str();
        let test = TestApp::start().await;
        let session = test.session(name, 400_000, 4_000).await;
        append(&test, &session, conversation("u1 \"go\"\na1 4000c\nu2 \"go on\"\na2 400c")).await;
        let words = format!("Goal: mend the roof. {} And the cellar door stays shut.", filler("s", 36_000));
        let new = NewSummary { text: words.clone(), ..NewSummary::default() };
        test.app.compactions().supply_summary(&session, new).await.expect("supplied");
        let change = SessionChange { window: Some(window(8_000, 1_000)), ..SessionChange::default() };
        test.app.sessions().update(&session, change).await.expect("changed");
        settled(&test, &session).await;
        assert!(fits(&test, &session).await, "{name}");
        assert_eq!(test.findings().await, [], "{name}");
        let view = format!("{:?}", test.view(&session).await.messages);
        assert!(view.contains("mend the roof"), "{name}");
        truncated += usize::from(view.contains("[Text truncated: omitted "));
        // A truncated summary is replaced like any other, if the policy makes summaries.
        for number in 3..12 {
            append(&test, &session, conversation(&format!("u{number} 2000c\na{number} 2000c"))).await;
            assert!(fits(&test, &session).await, "{name}");
        }
        let summarizes =
            preset.policy().levels().any(|(_, level_policy)| kind(&level_policy.steps) == CompactionKind::Summary);
        let is_summary = |event: &Event| {
            matches!(
                &event.body,
                EventBody::Compacted { kind: CompactionKind::Summary, trigger: Trigger::Threshold, .. }
            )
        };
        assert!(!summarizes || test.events().await.iter().any(is_summary), "{name}");
        let all = ListMessages { derived: true, page_size: 100, ..ListMessages::default() };
        let written = format!("{:?}", test.app.messages().list(&session, all).await.expect("listed").messages);
        assert!(written.contains("the cellar door stays shut"), "{name}");
    }
    assert!(truncated > 0, "where the policy makes no summaries of its own");
}

/// P15 excepts what no compaction may remove, and never the rest.
#[tokio::test]
async fn what_fills_the_window_is_reported_once_and_the_rest_stays_small_under_every_preset() {
    let test = TestApp::start().await;
    for preset in automatic() {
        let name = preset.name.as_str();
        let window = ModelWindow { overhead: 12_100, ..window(12_000, 3_000) };
        let session = test.create(NewSession { preset: name.to_owned(), window, ..NewSession::default() }).await;
        for turn in 0..24 {
            append(&test, &session, conversation(&format!("u{turn} 800c\na{turn} 2400c"))).await;
            append(&test, &session, step(turn, 3_000)).await;
            let view = test.view(&session).await;
            assert!(!view.fits && view.estimated_tokens < 6_000, "{name}: {} in turn {turn}", view.estimated_tokens);
        }
        let reason = test.view(&session).await.over_window.expect("it does not fit");
        assert_eq!(reason.reason, OverWindowReason::FixedContent, "{name}: {}", reason.message);
        assert!(reason.message.contains("12100 of what no view shows"), "{name}: {}", reason.message);
        assert_eq!(reports(&test, &session).await, 1, "{name}");
        settled(&test, &session).await;
    }
    let counts = test.app.daemon().info().await.expect("server info").statistics.over_window;
    assert_eq!(counts, [(OverWindowReason::FixedContent, automatic().count() as i64)]);
    assert_eq!(test.findings().await, []);
}

/// The reports of a session that something fills its window.
async fn reports(test: &TestApp, session: &str) -> usize {
    let id = test.app.sessions().get(session).await.expect("the session").session.id;
    let events = test.events().await.into_iter().filter(|event| event.session_id == id);
    let is_report = |event: &Event| {
        matches!(&event.body, EventBody::CompactionFailed { failure, .. }
            if failure.reason == FailureReason::FixedOverhead)
    };
    events.filter(is_report).count()
}

#[tokio::test]
async fn a_request_that_is_too_large_is_named_and_the_next_one_fits_again() {
    let test = TestApp::start().await;
    for preset in automatic() {
        let session = test.session(&preset.name, 12_000, 3_000).await;
        append(&test, &session, conversation("u1 4000c\na1 4000c\nu2 60000c")).await;
        // Some agents truncate the newest request themselves.
        if let Some(reason) = test.view(&session).await.over_window {
            assert_eq!(reason.reason, OverWindowReason::FixedContent, "{}", preset.name);
            assert!(reason.message.contains("of the newest request"), "{}: {}", preset.name, reason.message);
        }
        append(&test, &session, conversation("a2 400c\nu3 400c")).await;
        assert!(fits(&test, &session).await, "{}", preset.name);
    }
}

/// A pin is part of a view; it is no overhead that a level could not help against.
#[tokio::test]
async fn a_small_pin_stops_no_summary() {
    for preset in ["pi@0.73", "pi@1.5", "qwen-code@0.24"] {
        let test = TestApp::start().await;
        let session = test.session(preset, 12_000, 3_000).await;
        append(&test, &session, conversation("u0 200c\na0 200c")).await;
        test.app.messages().pin(&session, "u0").await.expect("pinned");
        for turn in 1..24 {
            append(&test, &session, conversation(&format!("u{turn} 2000c\na{turn} 4000c"))).await;
            assert!(fits(&test, &session).await, "{preset} in turn {turn}");
        }
        let events = test.events().await;
        let kinds = events.iter().filter_map(|event| match &event.body {
            EventBody::Compacted { kind, .. } => Some(*kind),
            _ => None,
        });
        let summaries = kinds.clone().filter(|kind| *kind == CompactionKind::Summary).count();
        let omissions = kinds.filter(|kind| *kind == CompactionKind::Omission).count();
        assert!(summaries >= 3 && omissions <= summaries, "{preset}: {summaries} summaries, {omissions} omissions");
    }
}

/// An open reply with two calls stays, and so does the request that it answers.
#[tokio::test]
async fn a_view_around_an_open_reply_begins_with_a_request_under_every_preset() {
    let test = TestApp::start().await;
    for preset in automatic() {
        let session = test.session(&preset.name, 12_000, 3_000).await;
        append(&test, &session, conversation("u1 30000c")).await;
        let open = vec![text("I look."), call("c1"), call("c2")];
        append(&test, &session, vec![NewMessage { finish: None, ..message(Role::Assistant, open, None) }]).await;
        for turn in 2..8 {
            append(&test, &session, conversation(&format!("u{turn} 6000c"))).await;
            for action in [OverflowAction::Return, OverflowAction::Shorten] {
                let request = ViewRequest { action, ..ViewRequest::default() };
                let view = test.app.views().get(&session, request).await.expect("a view");
                let first = view.messages.iter().find(|message| message.role != Role::System).expect("a message");
                assert_eq!(first.role, Role::User, "{} in turn {turn}", preset.name);
                assert_eq!(pairing::violations(&view.messages), Vec::<String>::new(), "{}", preset.name);
            }
        }
    }
}

#[tokio::test]
async fn a_view_that_exceeds_its_window_waits_for_nobody() {
    let test = TestApp::start().await;
    let session = test.session("claude-code@seed", 32_000, 8_000).await;
    let mut watch = test.watch().await;
    test.append(&session, &turns(1, 12, 16_000)).await;
    watch.wait_for(EventKind::CompactionStarted).await;
    let proposed = test.events().await.into_iter().filter(|event| event.body.kind() == EventKind::CompactionProposed);
    assert_eq!(proposed.count(), 0, "nobody is asked");
    settled(&test, &session).await;
    assert!(fits(&test, &session).await);
}

#[tokio::test]
async fn a_view_that_exceeds_its_window_has_a_reason() {
    let test = TestApp::start().await;
    let over = async |preset: &str| {
        let session = test.session(preset, 12_000, 3_000).await;
        append(&test, &session, turns_of(1, 12, 4_000)).await;
        settled(&test, &session).await;
        session
    };
    let off = over("smolagents").await;
    let reason = test.view(&off).await.over_window.expect("it does not fit");
    assert_eq!(reason.reason, OverWindowReason::AutomaticOff);
    let found = test.app.sessions().get(&off).await.expect("the session");
    assert_eq!(found.over_window, Some(reason), "status and context have one reason");
    // An undo holds automatic compactions.
    let held = over("opencode@seed").await;
    while test.app.compactions().undo(&held, None).await.is_ok() {}
    settled(&test, &held).await;
    let reason = test.view(&held).await.over_window.expect("it does not fit");
    assert_eq!(reason.reason, OverWindowReason::UndoHold);
    let counts = test.app.daemon().info().await.expect("server info").statistics.over_window;
    assert_eq!(counts, [(OverWindowReason::AutomaticOff, 1), (OverWindowReason::UndoHold, 1)]);
    // The window of a call.
    append(&test, &held, conversation("u90 40c")).await;
    let small = ViewRequest { window: Some(window(300, 100)), ..ViewRequest::default() };
    let reason = test.app.views().get(&held, small).await.expect("a view").over_window.expect("it does not fit");
    assert_eq!(reason.reason, OverWindowReason::OtherWindow);
    assert_eq!(test.view(&held).await.over_window, None);
    settled(&test, &held).await;
    let counts = test.app.daemon().info().await.expect("server info").statistics.over_window;
    assert_eq!(counts, [(OverWindowReason::AutomaticOff, 1)]);
}

fn turns_of(first: usize, last: usize, characters: usize) -> Vec<NewMessage> {
    conversation(&turns(first, last, characters))
}
