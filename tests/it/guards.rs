//! P12: compactions make progress or stop, and clients are notified once of the reason, and of what ends the wait.
//! it.

use crate::support::{Line, ScriptedSummarizer, TestApp, Watch, conversation, refusing, text, turns, window};
use longhand::app::Reason;
use longhand::app::admin::{CompactionCounter, Statistics};
use longhand::app::compactions::{NewCompaction, NewSummary, Overflow};
use longhand::app::sessions::{NewSession, SessionChange};
use longhand::app::views::{OverflowAction, ViewRequest};
use longhand::model::compaction::{CompactionKind, CompactionState, Failure, FailureReason, Level, Outcome, Trigger};
use longhand::model::event::{EventBody, EventKind};
use longhand::model::message::{Finish, FinishReason, NewMessage};
use longhand::model::session::Guards;
use longhand::model::usage::{ModelWindow, Usage};

/// Tokens that no view shows: a system prompt and descriptions of tools.
const OVERHEAD: i64 = 5_600;

/// A reply whose usage is the estimate of the view plus the overhead.
async fn reply(test: &TestApp, session: &str, name: &str, overhead: i64) -> NewMessage {
    let view = test.view(session).await;
    let mut messages = conversation(&format!("{name} \"so be it\""));
    messages[0].finish = Some(Finish {
        reason: Some(FinishReason::Stop),
        usage: Some(Usage { input: view.estimated_tokens + overhead, output: 5, ..Usage::default() }),
        view: Some(view.token),
        ..Finish::default()
    });
    messages.remove(0)
}

/// A request and its reply; waits until the scheduler is idle.
async fn turn(test: &TestApp, session: &str, number: usize, overhead: i64) {
    test.append(session, &format!("u{number} 400c")).await;
    let reply = reply(test, session, &format!("a{number}"), overhead).await;
    test.app.messages().append(session, vec![reply], None, None).await.expect("appended");
    test.settled().await;
}

async fn guards(test: &TestApp, session: &str) -> Guards {
    test.app.sessions().get(session).await.expect("the session").session.guards
}

async fn change(test: &TestApp, session: &str, change: SessionChange) {
    test.app.sessions().update(session, change).await.expect("changed");
    test.settled().await;
}

fn policy(json: &str) -> SessionChange {
    SessionChange { policy_override_json: Some(json.to_owned()), ..SessionChange::default() }
}

/// Failures of compactions, in order.
async fn failures(test: &TestApp) -> Vec<Failure> {
    let failed = |body| match body {
        EventBody::CompactionFailed { failure, .. } => Some(failure),
        _ => None,
    };
    test.events().await.into_iter().filter_map(|event| failed(event.body)).collect()
}

/// Outcomes of finished compactions, in order.
async fn outcomes(test: &TestApp) -> Vec<Outcome> {
    let done = |body| match body {
        EventBody::Compacted { outcome, .. } => Some(*outcome),
        _ => None,
    };
    test.events().await.into_iter().filter_map(|event| done(event.body)).collect()
}

async fn started(test: &TestApp) -> usize {
    test.events().await.iter().filter(|event| event.body.kind() == EventKind::CompactionStarted).count()
}

/// A session whose view may have 5 000 tokens, of which a summary is due at 4 000.
async fn narrow(test: &TestApp) -> String {
    let window = ModelWindow { input: Some(5_000), ..window(6_000, 1_000) };
    test.create(NewSession { preset: "opencode@seed".to_owned(), window, ..NewSession::default() }).await
}

#[tokio::test]
async fn a_window_that_the_overhead_alone_fills_gets_one_clear_error() {
    let test = TestApp::start().await;
    let session = narrow(&test).await;
    for number in 1..=24 {
        turn(&test, &session, number, OVERHEAD).await;
        assert!(test.view(&session).await.estimated_tokens < 1_500, "the rest stays small");
    }
    let failed = failures(&test).await;
    assert_eq!(failed.iter().map(|failure| failure.reason.as_str()).collect::<Vec<_>>(), ["FIXED_OVERHEAD"]);
    let words = &failed[0].message;
    assert!(words.contains(" 5000,") && words.contains("system prompt"), "{words}");
    assert_eq!(summaries(&test).await, 0, "no model is asked for what cannot help");
    let found = guards(&test, &session).await.overhead_tokens.expect("it is known");
    assert!((5_000..=OVERHEAD).contains(&found), "never more than is certain: {found}");
    assert_eq!(test.findings().await, []);

    // The result applies to this window: under another one the session is evaluated and notified again.
    change(&test, &session, SessionChange { window: Some(window(7_000, 1_000)), ..SessionChange::default() }).await;
    assert_eq!(guards(&test, &session).await.overhead_tokens, None);
    let before = outcomes(&test).await.len();
    for number in 25..=60 {
        turn(&test, &session, number, OVERHEAD).await;
    }
    assert!(outcomes(&test).await.len() > before, "under a larger window there is something to reduce");
}

/// Number of finished summaries.
async fn summaries(test: &TestApp) -> usize {
    let events = test.events().await;
    let is_summary = |body: &EventBody| matches!(body, EventBody::Compacted { kind: CompactionKind::Summary, .. });
    events.iter().filter(|event| is_summary(&event.body)).count()
}

/// A window with a client's statement of the overhead of every request.
fn carrying(overhead: i64) -> SessionChange {
    let window = ModelWindow { overhead, ..window(6_000, 1_000) };
    SessionChange { window: Some(window), ..SessionChange::default() }
}

#[tokio::test]
async fn a_clients_overhead_is_added_to_estimates_alone() {
    let test = TestApp::start().await;
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    // No usage is reported; a summary is due at 5 000 tokens.
    test.append(&session, &turns(1, 6, 1_200)).await;
    test.settled().await;
    let shown = test.view(&session).await;
    let (view, free) = (shown.estimated_tokens, 5_000 - shown.estimated_tokens);
    assert_eq!((shown.context_tokens, outcomes(&test).await.len()), (view, 0));
    assert!(free > 1_000, "{view}");

    change(&test, &session, carrying(free - 1)).await;
    assert_eq!(test.view(&session).await.context_tokens, 4_999);
    let context = test.app.sessions().get(&session).await.expect("the session").session.context;
    assert_eq!(context.expect("known").tokens, 4_999);
    assert_eq!(outcomes(&test).await, []);
    // A caller's own window has its own overhead.
    let request = ViewRequest { window: Some(window(6_000, 1_000)), ..ViewRequest::default() };
    assert_eq!(test.app.views().get(&session, request).await.expect("a view").context_tokens, view);
    // A reply's usage includes everything that was sent, so that nothing is added.
    let reply = reply(&test, &session, "told", 0).await;
    test.app.messages().append(&session, vec![reply], None, None).await.expect("appended");
    assert_eq!(test.view(&session).await.context_tokens, view + 5);

    let session = test.session("opencode@seed", 6_000, 1_000).await;
    let overhead = free + 10;
    change(&test, &session, carrying(overhead)).await;
    test.append(&session, &turns(1, 6, 1_200)).await;
    test.settled().await;
    let after = outcomes(&test).await;
    assert_eq!(after.len(), 1, "it is reduced before it is too large");
    let view = test.view(&session).await;
    assert_eq!(view.context_tokens, view.estimated_tokens + overhead);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_stated_overhead_that_reaches_the_window_gets_one_clear_error() {
    let test = TestApp::start().await;
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    change(&test, &session, carrying(6_000)).await;
    for number in 1..=9 {
        test.append(&session, &turns(number, number, 1_200)).await;
        test.settled().await;
    }
    let failed = failures(&test).await;
    assert_eq!(failed.iter().map(|failure| failure.reason.as_str()).collect::<Vec<_>>(), ["FIXED_OVERHEAD"]);
    assert_eq!(guards(&test, &session).await.overhead_tokens, Some(6_000));
    assert_eq!(summaries(&test).await, 0);
    assert!(test.view(&session).await.estimated_tokens < 1_500, "the rest is small");
    // With a smaller overhead everything fits.
    change(&test, &session, carrying(100)).await;
    assert_eq!(guards(&test, &session).await.overhead_tokens, None);
    assert!(test.view(&session).await.fits);
    for negative in [-1, i64::MAX] {
        let refused = test.app.sessions().update(&session, carrying(negative)).await;
        let error = refused.expect_err("no count of tokens");
        assert_eq!(error.metadata.get("field").map(String::as_str), Some("window.overhead_tokens"));
    }
}

#[tokio::test]
async fn usage_that_did_not_shrink_with_the_view_is_overhead() {
    let test =
        TestApp::with(ScriptedSummarizer::new([Line::Say("Nine turns, and nothing came of them.".to_owned())])).await;
    let session = narrow(&test).await;
    test.append(&session, &turns(1, 9, 800)).await;
    test.settled().await;
    assert_eq!(started(&test).await, 0);
    // The model accepts 5 000 tokens at most, and its tools need more than that.
    for number in 10..=20 {
        turn(&test, &session, number, 5_100).await;
    }
    assert_eq!(summaries(&test).await, 1, "the first one could not know");
    let failed = failures(&test).await;
    let reports = failed.iter().filter(|failure| failure.reason == FailureReason::FixedOverhead);
    assert_eq!(reports.count(), 1, "{failed:?}");
    assert!(failed.len() <= 2, "{failed:?}");
}

#[tokio::test]
async fn a_smaller_overhead_a_policy_and_a_hand_end_it() {
    let test = TestApp::start().await;
    let session = narrow(&test).await;
    turn(&test, &session, 1, OVERHEAD).await;
    assert!(guards(&test, &session).await.overhead_tokens.is_some());
    turn(&test, &session, 2, 1_000).await;
    assert_eq!(guards(&test, &session).await.overhead_tokens, None, "the client has fewer tools now");
    // A report that is above the one before it by a whole context is believed if the next one confirms it.
    for number in 3..=9 {
        turn(&test, &session, number, 5_100).await;
    }
    let reports = async || {
        let failed = failures(&test).await;
        failed.iter().filter(|failure| failure.reason == FailureReason::FixedOverhead).count()
    };
    assert!(guards(&test, &session).await.overhead_tokens.is_some());
    assert_eq!(reports().await, 1, "it was reported before");
    change(&test, &session, policy(r#"{"guards": {"minimum_gain_tokens": 1}}"#)).await;
    assert_eq!(guards(&test, &session).await.overhead_tokens, None);
    // Until usage shows more, nothing is known; then it is reported again.
    for number in 10..=15 {
        turn(&test, &session, number, 5_100).await;
    }
    assert_eq!(reports().await, 2);
    test.append(&session, &turns(16, 24, 800)).await;
    test.settled().await;
    let before = summaries(&test).await;
    let by_hand = NewCompaction::of_kind(CompactionKind::Summary);
    test.app.compactions().start(&session, by_hand).await.expect("it is not held");
    test.settled().await;
    assert_eq!(summaries(&test).await, before + 1);
    assert_eq!(guards(&test, &session).await.overhead_tokens, None);
}

/// A session of eight pinned messages of this number of characters each.
async fn pinned(test: &TestApp, characters: usize) -> String {
    let session = narrow(test).await;
    change(test, &session, policy(r#"{"trigger": {"auto": false}}"#)).await;
    test.append(&session, &turns(1, 4, characters)).await;
    for name in ["u1", "a1", "u2", "a2", "u3", "a3", "u4", "a4"] {
        test.app.messages().pin(&session, name).await.expect("pinned");
    }
    change(test, &session, policy(r#"{"trigger": {"auto": true}}"#)).await;
    session
}

#[tokio::test]
async fn pins_that_fill_the_window_are_overhead_too() {
    let test = TestApp::start().await;
    let session = pinned(&test, 2_600).await;
    test.append(&session, "u5 \"and now\"").await;
    test.settled().await;
    let failed = failures(&test).await;
    assert_eq!(failed.iter().map(|failure| failure.reason.as_str()).collect::<Vec<_>>(), ["FIXED_OVERHEAD"]);
    test.app.messages().unpin(&session, "u4").await.expect("unpinned");
    test.settled().await;
    assert_eq!(guards(&test, &session).await.overhead_tokens, None);
}

#[tokio::test]
async fn pins_that_are_estimated_above_the_usage_are_reported_once() {
    let test = TestApp::start().await;
    let session = pinned(&test, 3_000).await;
    // Pins of some 6 000 tokens by the estimate, and 5 200 by the provider's count.
    let view = test.view(&session).await;
    assert!(view.estimated_tokens > 5_200, "{}", view.estimated_tokens);
    for number in 5..=8 {
        turn(&test, &session, number, 5_200 - test.view(&session).await.estimated_tokens).await;
    }
    let failed = failures(&test).await;
    let reports = failed.iter().filter(|failure| failure.reason == FailureReason::FixedOverhead);
    assert_eq!(reports.count(), 1, "{failed:?}");
}

#[tokio::test]
async fn a_cooldown_ends_by_itself() {
    let test = TestApp::start().await;
    let session = test.session("opencode@seed", 60_000, 1_000).await;
    let json = r#"{"guards": {"cooldown_seconds": 3600, "rearm_ratio": 0.0},
        "auto": {"threshold": {"limit": {"tokens": 5000}}}}"#;
    change(&test, &session, policy(json)).await;
    for number in 1..=3 {
        test.append(&session, &turns(9 * number, 9 * number + 8, 1_150)).await;
        test.settled().await;
    }
    assert_eq!(outcomes(&test).await.len(), 1, "it cools");
    let end = guards(&test, &session).await.cooldown_end.expect("a cooldown");
    let mut watch: Watch = test.watch().await;
    test.clock.skip_to(end);
    test.wake.wake();
    watch.wait_for(EventKind::Compacted).await;
}

#[tokio::test]
async fn an_open_breaker_names_its_reason_and_the_kinds_it_allows() {
    let test = TestApp::with_options(ScriptedSummarizer::new([]), refusing()).await;
    let session = test.session("opencode@seed", 8_000, 1_000).await;
    let json = r#"{"guards": {"breaker_failures": 2},
        "auto": {"threshold": {"limit": {"tokens": 5000}}}}"#;
    change(&test, &session, policy(json)).await;
    test.append(&session, &turns(1, 9, 1_150)).await;
    test.settled().await;
    test.append(&session, "a100 1600c").await;
    test.settled().await;
    let failed = failures(&test).await;
    let says_so =
        |failure: &Failure| failure.message.contains("3 user messages") && failure.message.contains("by hand");
    assert_eq!(failed.iter().map(says_so).collect::<Vec<_>>(), [false, true], "{failed:?}");
    assert!(failed.iter().all(|failure| failure.reason.as_str() == "HOOK_REFUSED"));
    let open = guards(&test, &session).await;
    assert_eq!((open.breaker_open, open.hold_turns), (true, 3));
    change(&test, &session, policy(r#"{"guards": {"breaker_failures": 3}}"#)).await;
    assert_eq!(failures(&test).await.len(), 3, "another policy is tried at once");
}

/// Progress means that tokens were freed, not that a threshold was reached.
#[tokio::test]
async fn compactions_that_free_tokens_open_no_breaker() {
    let long = |number: usize| Line::Say(format!("summary {number} ").repeat(150));
    let test = TestApp::with(ScriptedSummarizer::new((0..20).map(long))).await;
    // Each summary frees something, and alone exceeds the threshold.
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    let json = r#"{"guards": {"breaker_failures": 2}, "auto": {"threshold": {"limit": {"tokens": 300}}}}"#;
    change(&test, &session, policy(json)).await;
    for number in 1..=6 {
        test.append(&session, &turns(number, number, 1_600)).await;
        test.settled().await;
    }
    let outcomes = outcomes(&test).await;
    assert!(outcomes.len() > 3, "{outcomes:?}");
    for outcome in &outcomes {
        assert_eq!(outcome.stopped, None);
        let freed = outcome.tokens_before - outcome.tokens_after;
        assert!(freed >= 6_000 / 20 && outcome.tokens_after > 300, "{outcome:?}");
    }
    assert_eq!(guards(&test, &session).await.failure_count, 0);
}

/// A session with tool outputs that maintenance may clear.
async fn outputs(test: &TestApp, json: &str) {
    let session = test.manual_session().await;
    change(test, &session, policy(json)).await;
    for turn in 1..=6 {
        let words = format!("u{turn} \"go\"\na{turn} call=c{turn}\nt{turn} result=c{turn}:80000c");
        test.append(&session, &words).await;
    }
    test.settled().await;
}

#[tokio::test]
async fn a_prune_that_costs_more_cache_than_it_saves_is_skipped_by_policy() {
    for (most, expected) in [(0, false), (1_000, true)] {
        let test = TestApp::start().await;
        outputs(&test, &format!("{{\"guards\": {{\"max_reread_per_freed\": {most}}}}}")).await;
        assert_eq!(started(&test).await > 0, expected, "{most}");
        for outcome in outcomes(&test).await {
            let freed = outcome.tokens_before - outcome.tokens_after;
            let lost = outcome.invalidated_tokens;
            assert!(freed > 0 && lost >= freed && lost <= outcome.tokens_before, "{outcome:?}");
            assert!(outcome.first_changed_index > 0, "what stands before the first output is still cached");
        }
    }
}

/// The context usage at the start of the second summary, in a session that grows slowly.
async fn second_summary(json: &str) -> i64 {
    let script = (1..=9).map(|number| Line::Say(format!("summary {number}")));
    let test = TestApp::with(ScriptedSummarizer::new(script)).await;
    let session = test.session("pi@1.5", 6_000, 1_000).await;
    change(&test, &session, policy(json)).await;
    for number in 1..=60 {
        test.append(&session, &turns(number, number, 400)).await;
        test.settled().await;
    }
    let mut full = test.events().await.into_iter().filter_map(|event| match event.body {
        EventBody::CompactionStarted { context_tokens, .. } => Some(context_tokens),
        _ => None,
    });
    full.nth(1).expect("a second one")
}

#[tokio::test]
async fn levels_that_have_helped_cool_down_as_the_policy_says() {
    let policy = |more: &str| {
        format!(
            r#"{{"auto": {{"threshold": {{"limit": {{"reserve_tokens": 3000}}}},
                "steps": {{"0": {{"summarize": {{"tail": {{"recent": {{"keep_tokens": 1000}}}}}}}}}}}}, {more}}}"#
        )
    };
    for (more, least, most) in [
        // The next compaction is due as soon as the threshold is reached, …
        (r#""guards": {"minimum_gain_tokens": 1}"#, 3_001, 3_500),
        // … or when the view has grown by half of the window, …
        (r#""guards": {"rearm_ratio": 0.5}"#, 4_000, 4_600),
        // … but a view over its window has no cooldown.
        (r#""guards": {"rearm_ratio": 1.0}"#, 6_001, 6_500),
        (r#""guards": {"cooldown_seconds": 3600}"#, 6_001, 6_500),
    ] {
        let full = second_summary(&policy(more)).await;
        assert!((least..=most).contains(&full), "{more}: {full}");
    }
}

#[tokio::test]
async fn the_status_counts_the_results_of_compactions() {
    let script = ScriptedSummarizer::new([Line::Say("summary".to_owned())]);
    let test = TestApp::with(script).await;
    let statistics = async || test.app.daemon().info().await.expect("the state").statistics;
    assert_eq!(statistics().await, Statistics::default());

    let done = test.session("opencode@seed", 6_000, 1_000).await;
    test.append(&done, &turns(1, 9, 1_150)).await;
    test.settled().await;
    let full = narrow(&test).await;
    turn(&test, &full, 1, OVERHEAD).await;
    let freed: i64 = outcomes(&test).await.iter().map(|outcome| outcome.tokens_before - outcome.tokens_after).sum();
    let counter = |state, freed_tokens| CompactionCounter {
        kind: CompactionKind::Summary,
        level: Some(Level::Auto),
        trigger: Some(Trigger::Threshold),
        state,
        count: 1,
        freed_tokens,
    };
    let found = statistics().await;
    let failed = CompactionCounter {
        kind: CompactionKind::Omission,
        level: None,
        trigger: Some(Trigger::LastResort),
        ..counter(CompactionState::Failed, 0)
    };
    assert_eq!(found.counters, [counter(CompactionState::Done, freed), failed]);
    assert!(freed > 0);
    assert_eq!(found.stopped.iter().map(ToString::to_string).collect::<Vec<_>>(), std::slice::from_ref(&full));
    assert_eq!((found.overhead_count, found.breaker_count, found.undo_count), (1, 0, 0));

    test.app.compactions().undo(&done, None).await.expect("undone");
    test.settled().await;
    assert_eq!(statistics().await.undo_count, 1);
    let summary = NewSummary { text: "brought along".to_owned(), tail_start: "u9".to_owned(), ..NewSummary::default() };
    test.app.compactions().supply_summary(&done, summary).await.expect("supplied");
    let supplied =
        statistics().await.counters.into_iter().find(|counter| counter.level.is_none()).expect("it is counted");
    assert!(supplied.count == 1 && supplied.freed_tokens > 0 && supplied.state == CompactionState::Done);
    assert_eq!(supplied.trigger, Some(Trigger::Supplied));

    let in_cooldown = test.session("pi@1.5", 6_000, 1_000).await;
    let json = r#"{"guards": {"cooldown_seconds": 3600},
        "auto": {"threshold": {"limit": {"reserve_tokens": 3000}},
            "steps": {"0": {"summarize": {"tail": {"recent": {"keep_tokens": 1000}}}}}}}"#;
    change(&test, &in_cooldown, policy(json)).await;
    test.append(&in_cooldown, &turns(1, 20, 800)).await;
    test.settled().await;
    assert_eq!(statistics().await.cooldown_count, 1);
    let test = test.restart().await;
    assert_eq!(test.app.daemon().info().await.expect("the state").statistics.cooldown_count, 1);
}

#[tokio::test]
async fn a_policy_can_switch_automatic_compactions_off() {
    let test = TestApp::start().await;
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    change(&test, &session, policy(r#"{"trigger": {"auto": false}}"#)).await;
    // The threshold by estimate, …
    test.append(&session, &turns(1, 12, 1_200)).await;
    // … outputs that maintenance would clear, …
    for turn in 20..=24 {
        let words = format!("u{turn} \"go\"\na{turn} call=c{turn}\nt{turn} result=c{turn}:80000c");
        test.append(&session, &words).await;
    }
    // … the threshold by usage, …
    let reply = reply(&test, &session, "a30", 10_000).await;
    let appended = test.app.messages().append(&session, vec![reply], None, None).await.expect("appended");
    assert!(!appended.context.due);
    // … a view over its window, another window, a change of history, …
    let wait = ViewRequest { action: OverflowAction::Wait, ..ViewRequest::default() };
    assert!(!test.app.views().get(&session, wait).await.expect("a view").fits);
    change(&test, &session, SessionChange { window: Some(window(5_000, 1_000)), ..SessionChange::default() }).await;
    test.app.messages().pin(&session, "u1").await.expect("pinned");
    // … and a provider's refusal start no compaction.
    let refused = Overflow { status: Some(400), message: "prompt is too long: 9 tokens".into(), ..Overflow::default() };
    let error = test.app.compactions().report_overflow(&session, refused).await.expect_err("switched off");
    assert_eq!(error.reason, Reason::AutomaticOff);
    test.settled().await;
    assert_eq!(test.number("select count(*) from job"), 0);
    let by_hand = test.app.compactions().start(&session, NewCompaction::of_kind(CompactionKind::Summary)).await;
    by_hand.expect("whoever asks gets it");
}

#[tokio::test]
async fn usage_of_a_view_that_was_changed_since_is_void() {
    for rewrite in ["edit", "rewind", "pin", "policy"] {
        let test = TestApp::start().await;
        let session = test.session("opencode@seed", 6_000, 1_000).await;
        test.append(&session, &turns(1, 4, 400)).await;
        let stale = reply(&test, &session, "a10", 10_000).await;
        match rewrite {
            "edit" => drop(test.app.messages().edit(&session, "u4", &[text("better")], None).await.expect("edited")),
            "rewind" => drop(test.app.messages().rewind(&session, "a3", None).await.expect("rewound")),
            "pin" => drop(test.app.messages().pin(&session, "u1").await.expect("pinned")),
            _ => change(&test, &session, policy(r#"{"guards": {"minimum_gain_tokens": 1}}"#)).await,
        }
        let appended = test.app.messages().append(&session, vec![stale], None, None).await.expect("appended");
        assert!(
            appended.context.context_tokens.is_some_and(|tokens| tokens < 5_000),
            "{rewrite}: {:?}",
            appended.context
        );
        test.settled().await;
        assert_eq!(started(&test).await, 0, "{rewrite}");
    }
}
