//! P15: once a session's decision is made and nothing is pending, its view is within its window under every preset, or
//! the failure names the content that cannot be removed.

use crate::support::{TestApp, call, conversation, filler, refusing, result, text, window};
use longhand::app::append::ListMessages;
use longhand::app::compactions::NewSummary;
use longhand::app::sessions::SessionChange;
use longhand::model::compaction::{CompactionKind, FailureReason, Trigger};
use longhand::model::event::{Event, EventBody};
use longhand::model::message::{FinishReason, NewFinish, NewMessage, Role};
use longhand::model::part::NewPart;
use longhand::policy::plan::kind;
use longhand::policy::presets::{self, Preset};
use longhand::store::Caller;
use longhand::summarizer::Extractive;
use std::sync::Arc;

/// All presets with automatic compactions.
fn automatic() -> impl Iterator<Item = Preset> {
    presets::all().into_iter().filter(|preset| preset.policy().trigger.auto)
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
    test.app.append(session, messages, None, None, Caller::default()).await.expect("appended");
    settled(test, session).await;
}

/// Waits until the scheduler is idle, and confirms every proposed compaction.
pub(crate) async fn settled(test: &TestApp, session: &str) {
    let key = test.app.store().find_session(session).await.expect("it is there");
    let settled = async || {
        let is_settled = test.is_settled().await;
        if !is_settled && let Some(current) = test.app.store().current_compaction(key).await.expect("read") {
            // It may have started or ended meanwhile.
            drop(test.app.confirm_compaction(&current.to_string()).await);
        }
        is_settled
    };
    test.until("the scheduler to settle", settled).await;
}

async fn fits(test: &TestApp, session: &str) -> bool {
    let view = test.context(session).await;
    assert_eq!(view.pending, None, "nothing is pending");
    view.fits
}

#[tokio::test]
async fn one_endless_turn_fits_under_every_preset() {
    let test = TestApp::start().await;
    for preset in automatic() {
        let session = test.session(preset.name, 16_000, 2_000).await;
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
        let session = test.session(preset.name, 200_000, 20_000).await;
        append(&test, &session, conversation("u1 \"read it all\"")).await;
        append(&test, &session, step(0, 300_000)).await;
        append(&test, &session, conversation("a2 \"I have read it.\"\nu3 \"and now?\"\na3 4000c\nu4 \"go on\"")).await;
        assert!(fits(&test, &session).await, "{}", preset.name);
        for context in [32_000, 8_000, 3_000] {
            let change = SessionChange { window: Some(window(context, context / 8)), ..SessionChange::default() };
            test.app.update_session(&session, change, Caller::default()).await.expect("a smaller window");
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
    assert!(outcome.tokens_after <= 28_000 - 32_000 / 20, "a twentieth of the window is free: {outcome:?}");
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
        let name = preset.name;
        let test = TestApp::start().await;
        let session = test.session(name, 400_000, 4_000).await;
        append(&test, &session, conversation("u1 \"go\"\na1 4000c\nu2 \"go on\"\na2 400c")).await;
        let words = format!("Goal: mend the roof. {} And the cellar door stays shut.", filler("s", 36_000));
        let new = NewSummary { text: words.clone(), ..NewSummary::default() };
        test.app.supply_summary(&session, new, Caller::default()).await.expect("supplied");
        let change = SessionChange { window: Some(window(8_000, 1_000)), ..SessionChange::default() };
        test.app.update_session(&session, change, Caller::default()).await.expect("changed");
        settled(&test, &session).await;
        assert!(fits(&test, &session).await, "{name}");
        assert_eq!(test.findings().await, [], "{name}");
        let view = format!("{:?}", test.context(&session).await.messages);
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
        let written = format!("{:?}", test.app.list_messages(&session, all).await.expect("listed").messages);
        assert!(written.contains("the cellar door stays shut"), "{name}");
    }
    assert!(truncated > 0, "where the policy makes no summaries of its own");
}
