//! P2, P8, P12 over many compactions: long chains of summaries, and every preset where no compaction helps.

use crate::laws::divide;
use crate::support::{Line, ScriptedSummarizer, TestApp, conversation, refusing, turns, window};
use longhand::app::compactions::NewCompaction;
use longhand::app::sessions::{NewSession, SessionChange};
use longhand::app::views::{ServedView, ViewRequest};
use longhand::model::compaction::{CompactionKind, Failure};
use longhand::model::event::EventBody;
use longhand::model::ids::SessionId;
use longhand::model::message::{Finish, FinishReason};
use longhand::model::usage::{ModelWindow, Usage};
use longhand::model::view::ViewKind;
use longhand::policy::{Policy, PolicyStep, UsageCount, overflow};
use longhand::presets::{self, Preset};
use longhand::summarizer::Extractive;
use serde_json::Value;
use std::sync::Arc;

const COMPACTIONS: usize = 50;

/// Checks that every message is either in the view or covered by the only active summary.
async fn check_accounted(test: &TestApp, session: &str, view: &ServedView) {
    let summaries = view.messages.iter().filter(|message| message.kind == ViewKind::Summary).count();
    assert_eq!(summaries, usize::from(view.covered.is_some()), "one live summary, and it is in the view");
    let ranges = view.covered.as_ref().map(|covered| covered.ranges.clone()).unwrap_or_default();
    for message in test.history(session).await {
        let shown = view.messages.iter().filter(|shown| shown.source == Some(message.id)).count();
        let covered = ranges.iter().filter(|range| range.contains(message.revision)).count();
        assert_eq!(shown + covered, 1, "message at {} is there once: {shown} + {covered}", message.revision);
    }
}

#[tokio::test]
async fn fifty_chained_compactions_lose_nothing_and_can_all_be_taken_back() {
    let script = ScriptedSummarizer::new((1..=COMPACTIONS).map(|number| Line::Say(format!("summary {number}"))));
    let test = TestApp::with(script.clone()).await;
    let session = test.manual_session().await;
    let by_hand = r#"{"trigger": {"auto": false}, "guards": {"minimum_gain_tokens": 1}}"#;
    let change = SessionChange { policy_override_json: Some(by_hand.to_owned()), ..SessionChange::default() };
    test.app.sessions().update(&session, change).await.expect("a policy");
    test.append(&session, &turns(1, 4, 400)).await;
    // The views before each compaction: their hashes and numbers of messages.
    let mut before = Vec::new();
    for number in 1..=COMPACTIONS {
        let first = 4 * number + 1;
        test.append(&session, &turns(first, first + 3, 400)).await;
        let view = test.view(&session).await;
        before.push((view.hash, view.messages.len()));
        let started = test.app.compactions().start(&session, NewCompaction::of_kind(CompactionKind::Summary)).await;
        started.unwrap_or_else(|error| panic!("{number}: {error}"));
        test.settled().await;
        let view = test.view(&session).await;
        assert_ne!(view.hash, before[number - 1].0, "{number}");
        check_accounted(&test, &session, &view).await;
    }
    assert_eq!(script.asked().len(), COMPACTIONS);
    // Undoing the last one restores exactly the view before it; the others have later messages after them.
    for (undone_count, (hash, length)) in before.iter().rev().enumerate() {
        test.app.compactions().undo(&session, None).await.expect("there is one");
        let known = ViewRequest { known_hash: Some(hash.to_vec()), ..ViewRequest::default() };
        let view = test.app.views().get(&session, known).await.expect("a view");
        assert_eq!(view.known_count, *length, "the view before begins the view, byte for byte");
        assert_eq!(view.messages.len(), 8 * undone_count, "and what came later follows");
        if undone_count == 0 {
            assert_eq!(view.hash, *hash);
        }
    }
    let view = test.view(&session).await;
    assert_eq!(view.covered, None);
    let shown: Vec<_> = view.messages.iter().map(|message| message.source).collect();
    let written: Vec<_> = test.history(&session).await.iter().map(|message| Some(message.id)).collect();
    assert_eq!(shown, written, "the original view");
    assert_eq!(test.findings().await, []);
}

/// A preset with its large numbers divided, so that short conversations reach its thresholds, and without confirmation.
fn divided(preset: &Preset, change: impl FnOnce(&mut Value)) -> Policy {
    let mut policy = serde_json::to_value(preset.policy()).expect("a policy is JSON");
    divide(&mut policy);
    for level in ["micro", "auto", "deep"] {
        if policy[level].is_object() {
            policy[level]["notice"] = Value::from("none");
        }
    }
    change(&mut policy);
    serde_json::from_value(policy).expect("a policy")
}

async fn session_of(test: &TestApp, policy: &Policy, window: &ModelWindow) -> String {
    let policy_json = serde_json::to_string(policy).expect("a policy is JSON");
    test.create(NewSession { policy_json, window: window.clone(), ..NewSession::default() }).await
}

/// Counts of a session's compactions.
#[derive(Default)]
struct Ends {
    started: usize,
    /// Compactions of a level, not of maintenance.
    level_count: usize,
    ended: usize,
    failures: Vec<Failure>,
    stopped: usize,
}

async fn ends(test: &TestApp, session: &str) -> Ends {
    let id: SessionId = session.parse().expect("an id");
    let mut ends = Ends::default();
    for event in test.events().await.into_iter().filter(|event| event.session_id == id) {
        match event.body {
            EventBody::CompactionStarted { level, .. } => {
                ends.started += 1;
                ends.level_count += usize::from(level.is_some());
            }
            EventBody::Compacted { outcome, .. } => {
                ends.ended += 1;
                ends.stopped += usize::from(outcome.stopped.is_some());
            }
            EventBody::CompactionCancelled { .. } => ends.ended += 1,
            EventBody::CompactionFailed { failure, .. } => {
                ends.ended += 1;
                ends.stopped += usize::from(failure.message.contains("automatic compactions stop"));
                ends.failures.push(failure);
            }
            _ => {}
        }
    }
    ends
}

#[tokio::test]
async fn no_preset_loops_when_the_overhead_alone_fills_the_window() {
    let test = TestApp::start().await;
    let window = ModelWindow { input: Some(2_500), ..window(3_000, 500) };
    for preset in presets::all() {
        let policy = divided(preset, |_| {});
        let session = session_of(&test, &policy, &window).await;
        for turn in 1..=8 {
            test.append(&session, &format!("u{turn} 200c")).await;
            // Usage of a view from before a compaction would not count.
            test.settled().await;
            let view = test.view(&session).await;
            let mut reply = conversation(&format!("a{turn} 200c"));
            reply[0].finish = Some(Finish {
                reason: Some(FinishReason::Stop),
                // More than a request may have, and less than the window holds.
                usage: Some(Usage { input: 2_800 + 10 * turn, ..Usage::default() }),
                view: Some(view.token),
                ..Finish::default()
            });
            test.app.messages().append(&session, reply, None, None).await.expect("appended");
            test.settled().await;
        }
        let ends = ends(&test, &session).await;
        let name = preset.name.as_str();
        assert_eq!(ends.started, ends.ended, "{name}");
        let failure_count = ends.failures.iter().filter(|failure| failure.reason.as_str() == "FIXED_OVERHEAD").count();
        let measured = policy.counting.usage != UsageCount::Nothing;
        let expected = measured && overflow::due_at(&policy, &window).is_some();
        // JoyAgent counts characters: by its estimate, the view can always be made to fit.
        let expected = expected && name != "joyagent";
        assert_eq!(failure_count, usize::from(expected), "{name}: {:?}", ends.failures);
        assert!(!expected || ends.level_count <= 3, "{name}: {} compactions that could not help", ends.level_count);
    }
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn no_preset_loops_when_every_summary_is_refused() {
    let test = TestApp::with_options(Arc::new(Extractive), refusing()).await;
    let window = window(1_500, 250);
    let mut without_end = Vec::new();
    for preset in presets::all() {
        let policy = divided(preset, |_| {});
        let session = session_of(&test, &policy, &window).await;
        test.append(&session, &turns(1, 6, 400)).await;
        test.settled().await;
        let steps = 6;
        for step in 1..=steps {
            test.append(&session, &format!("a{} 450c", 100 + step)).await;
            test.settled().await;
        }
        let ends = ends(&test, &session).await;
        let (name, bound) = (preset.name.as_str(), usize::try_from(policy.guards.breaker_failures).expect("small"));
        assert_eq!(ends.started, ends.ended, "{name}");
        // Each evaluation needs new messages, and the breaker reports itself after the policy's number of failures in a
        // row.
        assert!(ends.failures.len() <= steps + 1, "{name}: {}", ends.failures.len());
        let summarizes = |policy: &Policy| {
            let level_policy = policy.auto.as_ref().or(policy.deep.as_ref()).filter(|_| policy.trigger.auto);
            // The first messages make it due, so that each later append is a reason for another attempt.
            let level_policy = level_policy
                .filter(|level_policy| level_policy.threshold.due_at(&window).is_some_and(|due| due <= 1_200));
            let steps = level_policy.map(|level_policy| level_policy.steps.as_slice()).unwrap_or_default();
            matches!(steps, [PolicyStep::Summarize(rule)] if rule.fallback.is_empty())
        };
        if summarizes(&policy) {
            assert!(ends.failures.len() >= bound, "{name}: {:?}", ends.failures);
            let words = &ends.failures[bound - 1].message;
            assert!(words.contains("automatic compactions stop"), "{name}: {words}");
            without_end.push(name);
        } else {
            assert!(ends.failures.len() < bound || ends.stopped > 0, "{name}: {:?}", ends.failures);
        }
    }
    assert!(without_end.contains(&"pi@1.5") && without_end.len() > 3, "{without_end:?}");
    assert_eq!(test.findings().await, []);
}
