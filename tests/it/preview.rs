//! The plan of a compaction by hand agrees with its result.

use crate::expand::long_session;
use crate::support::TestApp;
use longhand::app::Reason;
use longhand::app::compactions::NewCompaction;
use longhand::app::preview::Plan;
use longhand::model::Revision;
use longhand::model::compaction::{CompactionKind, CompactionState, Level, RevisionRange};
use longhand::model::event::EventBody;
use longhand::model::ids::PartId;
use longhand::model::message::MessageKind;
use longhand::presets;
use std::collections::BTreeSet;

/// All kinds of requests by hand.
fn ways() -> Vec<NewCompaction> {
    let level = |level| NewCompaction { level, ..NewCompaction::of_kind(CompactionKind::Summary) };
    let mut ways: Vec<NewCompaction> =
        [None, Some(Level::Micro), Some(Level::Auto), Some(Level::Deep)].map(level).into();
    ways.push(NewCompaction::of_kind(CompactionKind::Prune));
    ways
}

/// The parts that the newest compaction shortened, according to the log, and the ranges that the view omits.
async fn done(test: &TestApp, session: &str, after: Revision) -> (BTreeSet<PartId>, Vec<RevisionRange>) {
    let mut parts = BTreeSet::new();
    for event in test.events().await.into_iter().filter(|event| event.revision > after) {
        if event.session_id.to_string() == session
            && let EventBody::PartsPruned { parts: pruned, .. } = event.body
        {
            parts.extend(pruned);
        }
    }
    let omitted = test.view(session).await.omitted.into_iter().map(|omitted| omitted.range).collect();
    (parts, omitted)
}

/// Starts a compaction, and compares its result with its plan.
async fn check(test: &TestApp, session: &str, wanted: NewCompaction, plan: &Plan, what: &str) {
    let before = test.revision(session).await;
    assert_eq!(plan.base, before, "{what}");
    let (asked, _) = test.app.compactions().start(session, wanted).await.expect(what).answer;
    test.settled().await;
    let compaction = test.app.compactions().get(&asked.id.to_string()).await.expect(what);
    assert_eq!(compaction.state, CompactionState::Done, "{what}: {:?}", compaction.failure);
    assert_eq!((compaction.request.kind, compaction.request.level), (plan.kind, plan.level), "{what}");
    let outcome = compaction.outcome.expect(what);
    assert_eq!((&outcome.covered, outcome.covered_count), (&plan.covered, plan.covered_count), "{what}");
    assert_eq!(outcome.tail_start, plan.tail_start, "{what}");
    assert_eq!((outcome.tokens_before, outcome.first_changed_index), (plan.tokens_before, plan.first_changed_index));
    assert_eq!(outcome.omitted_count, plan.omitted_count, "{what}");
    assert!(outcome.tokens_after <= plan.tokens_after, "{what}: {} and {}", outcome.tokens_after, plan.tokens_after);
    let (parts, omitted) = done(test, session, before).await;
    assert_eq!(parts, plan.truncations.iter().map(|truncation| truncation.part).collect(), "{what}");
    assert_eq!(omitted, plan.omitted, "{what}");
    let view = test.view(session).await;
    let shown: BTreeSet<_> = view.messages.iter().filter_map(|message| message.source).collect();
    assert!(plan.retained.iter().chain(&plan.tail_start).all(|id| shown.contains(id)), "{what}");
    if plan.forecast.is_none() {
        assert_eq!(outcome.tokens_after, plan.tokens_after, "{what}");
    }
}

#[tokio::test]
async fn a_plan_is_what_a_compaction_then_does() {
    let test = TestApp::start().await;
    let (mut summaries, mut truncations, mut omissions) = (0, 0, 0);
    for name in
        ["opencode@seed", "pi@1.5", "claude-code@seed", "neovate@2026", "suna@2026", "qwen-code@0.24", "goose@0.8"]
    {
        let preset = presets::find(name).unwrap_or_else(|| panic!("no {name}"));
        for wanted in ways() {
            let what = format!("{name} {:?} {:?}", wanted.kind, wanted.level);
            let session = long_session(&test, &preset.name).await;
            let (head, view) = (test.longhand.store().log().head_seq(), test.view(&session).await.hash);
            let plan = test.app.compactions().plan(&session, &wanted).await;
            assert_eq!(test.longhand.store().log().head_seq(), head, "{what}: a plan writes nothing");
            assert_eq!(test.view(&session).await.hash, view, "{what}");
            match plan {
                Ok(plan) => {
                    check(&test, &session, wanted, &plan, &what).await;
                    summaries += usize::from(!plan.covered.is_empty());
                    truncations += usize::from(!plan.truncations.is_empty());
                    omissions += usize::from(!plan.omitted.is_empty());
                }
                Err(error) => {
                    assert_eq!(error.reason, Reason::NothingToCompact, "{what}");
                    let refused = test.app.compactions().start(&session, wanted).await;
                    assert_eq!(refused.expect_err(&what).reason, Reason::NothingToCompact, "{what}");
                }
            }
        }
    }
    assert!(
        summaries > 6 && truncations > 4 && omissions > 0,
        "{summaries} summaries, {truncations} truncations, {omissions} omissions"
    );
}

#[tokio::test]
async fn a_plan_names_what_is_pinned_and_refuses_what_a_compaction_refuses() {
    let test = TestApp::start().await;
    let session = long_session(&test, "opencode@seed").await;
    test.app.messages().pin(&session, "u2").await.expect("pinned");
    let wanted = || NewCompaction::of_kind(CompactionKind::Summary);
    let plan = test.app.compactions().plan(&session, &wanted()).await.expect("a plan");
    let history = test.history(&session).await;
    let pinned = history.iter().find(|message| message.client_id.as_deref() == Some("u2")).expect("u2");
    assert_eq!((plan.pinned.as_slice(), pinned.kind), ([pinned.id].as_slice(), MessageKind::Normal));
    assert_eq!(plan.forecast.as_ref().map(|forecast| forecast.summarizer.as_str()), Some("extractive"));
    check(&test, &session, wanted(), &plan, "with a pin").await;
    let empty = test.manual_session().await;
    test.app.sessions().archive(&session).await.expect("archived");
    let long = NewCompaction { instructions: "x".repeat(16 * 1024 + 1), ..wanted() };
    for (session, wanted, reason) in [
        (empty.as_str(), wanted(), Reason::NothingToCompact),
        (&session, wanted(), Reason::SessionArchived),
        (&empty, long, Reason::LimitExceeded),
        ("nobody", wanted(), Reason::SessionNotFound),
    ] {
        assert_eq!(test.app.compactions().plan(session, &wanted).await.expect_err("refused").reason, reason);
    }
}
