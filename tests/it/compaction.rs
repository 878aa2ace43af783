//! P7, P12: compactions run concurrently with appends, one at a time, and each ends in exactly one way.

use crate::support::{
    Line, ScriptedSummarizer, TestApp, Watch, conversation, prunable, refusing, shown, turns, window, with_image,
};
use longhand::app::Caller;
use longhand::app::append::ListMessages;
use longhand::app::compactions::{NewCompaction, NewSummary, Overflow};
use longhand::app::sessions::{NewSession, SessionChange};
use longhand::app::undo::ReversedChange;
use longhand::app::{Error, Reason};
use longhand::model::compaction::{Compaction, CompactionKind, CompactionState, Level, Trigger};
use longhand::model::event::{EventBody, EventKind};
use longhand::model::message::{Finish, FinishReason};
use longhand::model::part::PartBody;
use longhand::model::session::SessionState;
use longhand::model::usage::Usage;
use longhand::model::view::PartShortening;
use longhand::store::{Requester, Visibility};
use std::sync::Arc;

/// Eight turns that stay slightly under the threshold of `small`.
const UNDER: (usize, usize) = (1, 8);
const WORDS: usize = 1_100;

/// A session whose summary is due at 5 000 tokens.
async fn small(test: &TestApp) -> String {
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    test.append(&session, &turns(UNDER.0, UNDER.1, WORDS)).await;
    session
}

/// Appends the turn that crosses the threshold.
async fn cross(test: &TestApp, session: &str) {
    assert!(test.append(session, &turns(9, 9, WORDS)).await.context.due, "the test needs it to be due");
}

fn line(text: &str) -> Line {
    Line::Say(text.to_owned())
}

fn hold(text: &str) -> Line {
    Line::Hold(text.to_owned())
}

/// A session whose first summary is held, with these lines of its summarizer.
async fn running<const LINES: usize>(lines: [Line; LINES]) -> (Arc<ScriptedSummarizer>, TestApp, String, Watch) {
    let script = ScriptedSummarizer::new(lines);
    let test = TestApp::with(script.clone()).await;
    let session = small(&test).await;
    let watch = test.watch().await;
    cross(&test, &session).await;
    script.held().await;
    (script, test, session, watch)
}

const TERMINAL: [EventKind; 3] = [EventKind::Compacted, EventKind::CompactionFailed, EventKind::CompactionCancelled];

/// Checks that every started compaction ended, and in one way.
async fn check_ends(test: &TestApp) {
    test.settled().await;
    let mut ids = Vec::new();
    let mut ended = Vec::new();
    for event in test.events().await {
        match event.body {
            EventBody::CompactionStarted { compaction, .. } => ids.push(compaction),
            EventBody::Compacted { compaction, trigger, .. } if trigger != Trigger::Supplied => ended.push(compaction),
            EventBody::CompactionFailed { compaction, .. } | EventBody::CompactionCancelled { compaction, .. } => {
                ended.push(compaction);
            }
            _ => {}
        }
    }
    assert_eq!(ended, ids, "each began once and ended once, one after the other");
    assert_eq!(test.findings().await, []);
}

fn terminal(watch: &Watch) -> usize {
    TERMINAL.into_iter().map(|kind| watch.count(kind)).sum()
}

async fn start(test: &TestApp, session: &str, instructions: &str) -> (Compaction, bool) {
    let started = test
        .app
        .compactions()
        .start(
            session,
            NewCompaction { instructions: instructions.to_owned(), ..NewCompaction::of_kind(CompactionKind::Summary) },
        )
        .await;
    started.expect("there is something to compact").answer
}

#[tokio::test]
async fn crossing_the_threshold_compacts_once() {
    let script = ScriptedSummarizer::new([line("S1")]);
    let test = TestApp::with(script.clone()).await;
    let session = small(&test).await;
    test.settled().await;
    let mut watch = test.watch().await;
    cross(&test, &session).await;
    let EventBody::CompactionStarted { compaction, trigger, window_tokens, context_tokens, .. } =
        watch.wait_for(EventKind::CompactionStarted).await.body
    else {
        panic!("another body")
    };
    assert_eq!((trigger, window_tokens), (Trigger::Threshold, 6_000));
    assert!(context_tokens >= 5_000);
    let EventBody::Compacted { compaction: ended, outcome, .. } = watch.wait_for(EventKind::Compacted).await.body
    else {
        panic!("another body")
    };
    assert_eq!(ended, compaction);
    check_ends(&test).await;
    let view = test.view(&session).await;
    let tail: Vec<String> = shown(&view);
    assert_eq!(tail[..2], ["user marker: what did we do", "assistant summary: s1"]);
    assert_eq!(tail.last().map(String::as_str), Some("assistant shown: a9 was here and"));
    assert!(view.estimated_tokens < 5_000 && view.estimated_tokens == outcome.tokens_after, "{outcome:?}");
    assert_eq!(outcome.summarizer, "scripted");
    assert_eq!(script.asked().len(), 1);
    let covered = usize::try_from(outcome.covered_count).expect("small");
    assert_eq!(script.asked()[0].messages.len(), covered);
    assert_eq!(covered + (tail.len() - 2), 18, "covered or shown");
    let listed = test.app.compactions().get(&compaction.to_string()).await.expect("it is listed");
    assert_eq!((listed.state, listed.outcome), (CompactionState::Done, Some(*outcome)));
    assert_eq!(test.history(&session).await.len(), 18, "the history is as it was written");
}

#[tokio::test]
async fn appends_go_on_while_a_summary_is_written_and_stay_in_the_tail() {
    let (script, test, session, mut watch) = running([hold("S1")]).await;
    let pending = test.view(&session).await.pending.expect("it is pending");
    // Further appends over the threshold and a request by hand start no other compaction.
    let appended = test.append(&session, &turns(10, 12, WORDS)).await;
    assert_eq!(appended.context.pending, Some(pending));
    let (joined, was_there) = start(&test, &session, "").await;
    assert_eq!((joined.id, was_there), (pending, true));
    script.release();
    watch.wait_for(EventKind::Compacted).await;
    test.settled().await;
    let view = test.view(&session).await;
    let covered = view.covered.clone().expect("a summary is in force");
    let late = test.history(&session).await[18].revision;
    assert!(covered.ranges.iter().all(|range| range.last < late), "what came later is not covered");
    let lines = shown(&view);
    for turn in 10..=12 {
        assert!(lines.contains(&format!("user shown: u{turn} was here and")), "{turn}: {lines:?}");
    }
    assert_eq!(watch.count(EventKind::CompactionStarted), 1);
    assert_eq!(script.asked().len(), 1);
    check_ends(&test).await;
}

#[tokio::test]
async fn a_request_with_other_instructions_queues_behind() {
    let (script, test, session, mut watch) = running([hold("S1"), line("S2")]).await;
    let (queued, was_there) = start(&test, &session, "mind the tests").await;
    assert!(!was_there);
    assert_eq!(queued.state, CompactionState::Ready);
    let (again, was_there) = start(&test, &session, "mind the tests").await;
    assert_eq!((again.id, was_there), (queued.id, true));
    // There is more to cover by the time the queued one runs.
    test.append(&session, &turns(10, 14, WORDS)).await;
    script.release();
    watch.wait_for(EventKind::Compacted).await;
    let EventBody::CompactionStarted { compaction, trigger, .. } =
        watch.wait_for(EventKind::CompactionStarted).await.body
    else {
        panic!("another body")
    };
    assert_eq!((compaction, trigger), (queued.id, Trigger::Manual));
    watch.wait_for(EventKind::Compacted).await;
    let asked = script.asked();
    assert_eq!(asked[1].instructions, "mind the tests");
    assert_eq!(asked[1].previous.as_deref(), Some("S1"), "the second is built on the first");
    assert!(shown(&test.view(&session).await).contains(&"assistant summary: s2".to_owned()));
    check_ends(&test).await;
}

#[tokio::test]
async fn a_failure_that_may_pass_is_tried_again() {
    let script = ScriptedSummarizer::new([Line::Falter, line("S1")]);
    let test = TestApp::with(script.clone()).await;
    let session = small(&test).await;
    let mut watch = test.watch().await;
    cross(&test, &session).await;
    let retried = watch.wait_for(EventKind::CompactionRetried).await;
    let EventBody::CompactionRetried { attempt, failure, .. } = retried.body else { panic!("another body") };
    assert_eq!((attempt, failure.reason.as_str()), (1, "SUMMARIZER_UNAVAILABLE"));
    watch.wait_for(EventKind::Compacted).await;
    assert_eq!((watch.count(EventKind::CompactionStarted), terminal(&watch)), (1, 1));
    assert_eq!(script.asked().len(), 2);
    check_ends(&test).await;
}

#[tokio::test]
async fn the_last_attempt_leaves_it_to_the_built_in_summarizer() {
    let script = ScriptedSummarizer::new([Line::Falter, Line::Falter, line("S1")]);
    let test = TestApp::with(script.clone()).await;
    let session = small(&test).await;
    override_policy(&test, &session, "{\"guards\": {\"max_attempts\": 2}}").await;
    let mut watch = test.watch().await;
    start(&test, &session, "").await;
    let EventBody::Compacted { outcome, .. } = watch.wait_for(EventKind::Compacted).await.body else {
        panic!("another body")
    };
    assert_eq!(outcome.summarizer, "extractive");
    assert!(outcome.tokens_after < outcome.tokens_before, "{outcome:?}");
    assert_eq!((script.asked().len(), watch.count(EventKind::CompactionRetried)), (2, 1));
    check_ends(&test).await;
}

#[tokio::test]
async fn the_last_attempt_fails_where_the_built_in_summarizer_frees_nothing_too() {
    let test = TestApp::with(ScriptedSummarizer::new([Line::Falter, line("S1")])).await;
    let session = test.session("opencode@seed", 600_000, 1_000).await;
    // No summary is shorter than the messages that it would cover.
    test.append(&session, &turns(1, 3, 1)).await;
    override_policy(&test, &session, "{\"guards\": {\"max_attempts\": 1}}").await;
    let mut watch = test.watch().await;
    let (compaction, _) = start(&test, &session, "").await;
    let failed = watch.wait_for(EventKind::CompactionFailed).await;
    let EventBody::CompactionFailed { failure, .. } = failed.body else { panic!("another body") };
    assert_eq!(failure.reason.as_str(), "SUMMARIZER_UNAVAILABLE");
    let ended = test.app.compactions().get(&compaction.id.to_string()).await.expect("it is listed");
    assert_eq!(ended.state, CompactionState::Dead);
    check_ends(&test).await;
}

#[tokio::test]
async fn a_view_that_exceeds_its_window_does_not_wait_for_a_summarizer() {
    let script = ScriptedSummarizer::new([Line::Falter, line("S1")]);
    let test = TestApp::with(script.clone()).await;
    let session = small(&test).await;
    let mut watch = test.watch().await;
    assert!(test.append(&session, &turns(9, 12, WORDS)).await.context.due, "the test needs it to be due");
    let EventBody::Compacted { outcome, .. } = watch.wait_for(EventKind::Compacted).await.body else {
        panic!("another body")
    };
    assert_eq!(outcome.summarizer, "extractive");
    assert_eq!((script.asked().len(), watch.count(EventKind::CompactionRetried)), (1, 0));
    check_ends(&test).await;
}

async fn override_policy(test: &TestApp, session: &str, json: &str) {
    let change = SessionChange { policy_override_json: Some(json.to_owned()), ..SessionChange::default() };
    test.app.sessions().update(session, change).await.expect("a policy");
    test.settled().await;
}

#[tokio::test]
async fn a_failure_for_good_leaves_it_to_the_built_in_summarizer() {
    for line in [Line::Refuse, line("  "), line(&"words without end ".repeat(2_000))] {
        let test = TestApp::with(ScriptedSummarizer::new([line])).await;
        let session = small(&test).await;
        let mut watch = test.watch().await;
        cross(&test, &session).await;
        let EventBody::Compacted { outcome, .. } = watch.wait_for(EventKind::Compacted).await.body else {
            panic!("another body")
        };
        assert_eq!(outcome.summarizer, "extractive");
        assert!(outcome.tokens_after < outcome.tokens_before);
        check_ends(&test).await;
    }
}

#[tokio::test]
async fn a_breaker_ends_a_loop_of_failures() {
    let test = TestApp::with_options(ScriptedSummarizer::new([]), refusing()).await;
    // The window is larger than the threshold, so that the last resort does not apply.
    let session = test.session("opencode@seed", 8_000, 1_000).await;
    test.append(&session, &turns(UNDER.0, UNDER.1, WORDS)).await;
    let json = r#"{"guards": {"breaker_failures": 2},
        "auto": {"threshold": {"limit": {"tokens": 5000}}}}"#;
    override_policy(&test, &session, json).await;
    let mut watch = test.watch().await;
    cross(&test, &session).await;
    for turn in ["a100 1600c", "a101 1600c"] {
        let failed = watch.wait_for(EventKind::CompactionFailed).await;
        let EventBody::CompactionFailed { failure, .. } = failed.body else { panic!("another body") };
        assert_eq!(failure.reason.as_str(), "HOOK_REFUSED");
        test.append(&session, turn).await;
    }
    test.settled().await;
    // After two failures nothing more happens until three user messages came, or the view grew considerably.
    test.append(&session, "a102 \"more\"\nu103 \"one\"\nu104 \"two\"").await;
    test.settled().await;
    let started = |watch: &Watch| watch.count(EventKind::CompactionStarted);
    assert_eq!(started(&watch), 2);
    test.append(&session, "u105 \"three\"").await;
    watch.wait_for(EventKind::CompactionFailed).await;
    assert_eq!(started(&watch), 3);
    check_ends(&test).await;
}

#[tokio::test]
async fn a_rewind_under_a_running_summary_supersedes_it() {
    let (script, test, session, mut watch) = running([hold("S1")]).await;
    test.app.messages().rewind(&session, "a1", None).await.expect("rewound");
    script.release();
    let EventBody::CompactionCancelled { failure, compaction } =
        watch.wait_for(EventKind::CompactionCancelled).await.body
    else {
        panic!("another body")
    };
    assert_eq!(failure.reason.as_str(), "SUPERSEDED");
    let ended = test.app.compactions().get(&compaction.to_string()).await.expect("it is listed");
    assert_eq!(ended.state, CompactionState::Superseded);
    assert_eq!(shown(&test.view(&session).await).len(), 2);
    check_ends(&test).await;
}

#[tokio::test]
async fn an_undone_omission_under_a_running_summary_supersedes_it() {
    let script = ScriptedSummarizer::new([hold("S1")]);
    let test = TestApp::with(script.clone()).await;
    let session = test.create(NewSession { preset: "joyagent".to_owned(), ..NewSession::default() }).await;
    test.append(&session, "a1 \"welcome\"\nu2 300c\na3 1600c").await;
    // The messages before the first request are left out, so that no summary will cover them.
    let overflow = Overflow { status: Some(413), ..Overflow::default() };
    test.app.compactions().report_overflow(&session, overflow).await.expect("taken");
    test.settled().await;
    assert_eq!(test.view(&session).await.omitted.len(), 1);
    let mut watch = test.watch().await;
    let wanted = NewCompaction { level: Some(Level::Deep), ..NewCompaction::of_kind(CompactionKind::Summary) };
    test.app.compactions().start(&session, wanted).await.expect("asked");
    script.held().await;
    test.app.compactions().undo(&session, None).await.expect("undone");
    script.release();
    let ended = watch.wait_for(EventKind::CompactionCancelled).await.body;
    let EventBody::CompactionCancelled { failure, .. } = ended else { panic!("another body") };
    assert_eq!(failure.reason.as_str(), "SUPERSEDED");
    // A filler comes before the welcome, so that the view begins with the user.
    assert_eq!(shown(&test.view(&session).await).len(), 4);
    check_ends(&test).await;
}

#[tokio::test]
async fn an_edit_behind_the_boundary_does_not_disturb_a_running_summary() {
    let (script, test, session, mut watch) = running([hold("S1")]).await;
    test.app.messages().edit(&session, "u9", &[crate::support::text("better")], None).await.expect("edited");
    script.release();
    watch.wait_for(EventKind::Compacted).await;
    let lines = shown(&test.view(&session).await);
    assert!(lines.contains(&"assistant summary: s1".to_owned()) && lines.contains(&"user shown: better".to_owned()));
    check_ends(&test).await;
}

#[tokio::test]
async fn a_killed_daemon_leaves_one_beginning_and_one_end() {
    for gently in [false, true] {
        let script = ScriptedSummarizer::new([hold("S1"), line("S2")]);
        let test = TestApp::with(script.clone()).await;
        let session = small(&test).await;
        cross(&test, &session).await;
        script.held().await;
        let test = if gently { test.restart().await } else { test.kill().await };
        let mut watch = test.watch().await;
        let EventBody::CompactionRetried { failure, .. } = watch.wait_for(EventKind::CompactionRetried).await.body
        else {
            panic!("another body")
        };
        assert_eq!(failure.reason.as_str(), if gently { "DAEMON_STOPPED" } else { "WORKER_LOST" });
        watch.wait_for(EventKind::Compacted).await;
        assert_eq!((watch.count(EventKind::CompactionStarted), terminal(&watch)), (1, 1));
        assert!(shown(&test.view(&session).await).contains(&"assistant summary: s2".to_owned()));
        check_ends(&test).await;
    }
}

#[tokio::test]
async fn a_trigger_outlives_the_daemon_that_acknowledged_the_append() {
    let test = TestApp::with(ScriptedSummarizer::new([line("S1"), line("S1")])).await;
    let session = small(&test).await;
    let crossing = test.app.messages().append(&session, conversation(&turns(9, 9, WORDS)), None, None);
    assert!(crossing.await.expect("appended").context.due);
    // The scheduler has not run: nothing was awaited since.
    let test = test.kill().await;
    let mut watch = test.watch().await;
    watch.wait_for(EventKind::Compacted).await;
    assert_eq!(watch.count(EventKind::CompactionStarted), 1);
    check_ends(&test).await;
}

#[tokio::test]
async fn a_cancelled_compaction_changes_nothing() {
    let script = ScriptedSummarizer::new([hold("S1"), line("S2")]);
    let test = TestApp::with(script.clone()).await;
    let session = small(&test).await;
    let mut watch = test.watch().await;
    let (running, _) = start(&test, &session, "").await;
    script.held().await;
    let (queued, _) = start(&test, &session, "other").await;
    let revision = test.revision(&session).await;
    let cancel = async |id: String| test.app.compactions().cancel(&id).await;
    let waiting = cancel(queued.id.to_string()).await.expect("cancelled");
    assert_eq!(waiting.state, CompactionState::Cancelled);
    assert_eq!(test.revision(&session).await, revision, "what never began has no end in the log");
    let before = test.view(&session).await.hash;
    let ended = cancel(running.id.to_string()).await.expect("cancelled");
    assert_eq!(ended.state, CompactionState::Cancelled);
    let cancelled = watch.wait_for(EventKind::CompactionCancelled).await;
    let EventBody::CompactionCancelled { failure, .. } = cancelled.body else { panic!("another body") };
    assert_eq!(failure.reason.as_str(), "REQUESTED");
    let revision = test.revision(&session).await;
    assert_eq!(cancel(running.id.to_string()).await.expect("cancelled before"), ended);
    assert_eq!(test.revision(&session).await, revision, "a repetition writes nothing");
    script.release();
    // The next one can run only after the worker has stopped the cancelled one.
    let (next, was_there) = start(&test, &session, "").await;
    assert!(!was_there);
    let EventBody::Compacted { compaction, .. } = watch.wait_for(EventKind::Compacted).await.body else {
        panic!("another body")
    };
    assert_eq!(compaction, next.id);
    assert_eq!(cancel(next.id.to_string()).await.expect_err("it is done").reason, Reason::CompactionEnded);
    // The view is already the next one's, so that the cancelled one's result is read as of its end.
    assert_eq!(test.view_as_of(&session, cancelled.revision).await.hash, before);
    assert!(shown(&test.view(&session).await).contains(&"assistant summary: s2".to_owned()));
    check_ends(&test).await;
}

#[tokio::test]
async fn undo_brings_the_earlier_view_back_and_holds_the_trigger_for_a_turn() {
    let script = ScriptedSummarizer::new([line("S1"), line("S2")]);
    let test = TestApp::with(script.clone()).await;
    let session = small(&test).await;
    let mut watch = test.watch().await;
    cross(&test, &session).await;
    let whole = test.view_as_of(&session, test.history(&session).await[17].revision).await.hash;
    watch.wait_for(EventKind::Compacted).await;
    test.settled().await;
    assert_ne!(test.view(&session).await.hash, whole);
    let (undone, receipt) = test.app.compactions().undo(&session, None).await.expect("undone");
    let ReversedChange::Compaction(undone) = undone else { panic!("another change") };
    assert_eq!(undone.undone_revision, Some(receipt.revision));
    assert_eq!(test.view(&session).await.hash, whole);
    let error = test.app.compactions().undo(&session, None).await.expect_err("there was one");
    assert_eq!(error.reason, Reason::NothingToUndo);
    // The view is over the threshold again, but an undo holds automatic compactions.
    test.append(&session, "a10 \"more\"").await;
    test.settled().await;
    assert_eq!(test.events().await.iter().filter(|event| event.body.kind() == EventKind::CompactionStarted).count(), 1);
    test.append(&session, "u11 \"go on\"").await;
    watch.wait_for(EventKind::Compacted).await;
    check_ends(&test).await;
}

#[tokio::test]
async fn a_request_right_behind_an_undo_releases_the_trigger() {
    let script = ScriptedSummarizer::new([line("S1"), line("S2")]);
    let test = TestApp::with(script.clone()).await;
    let session = small(&test).await;
    let mut watch = test.watch().await;
    cross(&test, &session).await;
    watch.wait_for(EventKind::Compacted).await;
    test.app.compactions().undo(&session, None).await.expect("undone");
    // The scheduler may be evaluating the session at this moment, and treat it as held.
    test.append(&session, "u10 \"go on\"").await;
    watch.wait_for(EventKind::Compacted).await;
    check_ends(&test).await;
}

#[tokio::test]
async fn undo_pops_the_newest_compaction() {
    let script = ScriptedSummarizer::new([line("S1"), line("S2")]);
    let test = TestApp::with(script.clone()).await;
    let session = small(&test).await;
    let mut watch = test.watch().await;
    for (from, to, summary) in [(9, 13, "s1"), (14, 24, "s2")] {
        test.append(&session, &turns(from, to, WORDS)).await;
        watch.wait_for(EventKind::Compacted).await;
        test.settled().await;
        let lines = shown(&test.view(&session).await);
        assert!(lines.contains(&format!("assistant summary: {summary}")), "{lines:?}");
        assert_eq!(lines.iter().filter(|line| line.contains(" summary:")).count(), 1, "chained summaries are one");
    }
    test.append(&session, "a30 \"later messages stay\"").await;
    test.app.compactions().undo(&session, None).await.expect("undone");
    let lines = shown(&test.view(&session).await);
    assert!(lines.contains(&"assistant summary: s1".to_owned()));
    assert!(lines.contains(&"assistant shown: later messages stay".to_owned()));
    test.app.compactions().undo(&session, None).await.expect("undone");
    let lines = shown(&test.view(&session).await);
    assert_eq!(lines.len(), 49, "everything is back: {lines:?}");
    check_ends(&test).await;
}

fn reply(usage: i64, view: Option<String>) -> Vec<longhand::model::message::NewMessage> {
    let mut messages = conversation("a \"so be it\"");
    messages[0].finish = Some(Finish {
        reason: Some(FinishReason::Stop),
        usage: Some(Usage { input: usage, output: 10, ..Usage::default() }),
        view,
        ..Finish::default()
    });
    messages
}

#[tokio::test]
async fn usage_of_a_view_that_was_reduced_since_is_not_trusted() {
    let script = ScriptedSummarizer::new([line("S1"), line("S2")]);
    let test = TestApp::with(script.clone()).await;
    let session = small(&test).await;
    let mut watch = test.watch().await;
    let seen = test.view(&session).await.token;
    // Usage of a view that is still current counts, whatever the estimate.
    let app = &test.app;
    let appended =
        app.messages().append(&session, reply(5_600, Some(seen.clone())), None, None).await.expect("appended");
    assert_eq!((appended.context.context_tokens, appended.context.due), (Some(5_610), true));
    watch.wait_for(EventKind::Compacted).await;
    test.settled().await;
    for view in [Some(seen), None] {
        let appended = app.messages().append(&session, reply(5_600, view.clone()), None, None).await;
        let usage = appended.expect("appended").context;
        assert!(!usage.due && usage.context_tokens.is_some_and(|tokens| tokens < 5_000), "{view:?}: {usage:?}");
        let found = watch.wait_for(EventKind::UsageRecorded).await;
        let EventBody::UsageRecorded { usage, window, .. } = found.body else { panic!("{found:?}") };
        assert_eq!((usage.input, window.context), (5_600, 6_000), "what it said is kept all the same");
    }
    test.settled().await;
    assert_eq!(test.number("select count(*) from job"), 1);
    let seen = test.view(&session).await.token;
    let fresh = app.messages().append(&session, reply(5_600, Some(seen)), None, None).await.expect("appended");
    assert!(fresh.context.due);
    check_ends(&test).await;
}

#[tokio::test]
async fn a_session_is_judged_by_its_own_window_whatever_a_caller_names() {
    let test = TestApp::with(ScriptedSummarizer::new([line("S1")])).await;
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    let all = conversation(&turns(1, 9, WORDS));
    let wide = Some(window(200_000, 1_000));
    let usage = test.app.messages().append(&session, all, wide, None).await.expect("appended").context;
    assert_eq!((usage.due, usage.window_tokens, usage.due_tokens), (true, 200_000, Some(199_000)));
    let mut watch = test.watch().await;
    let EventBody::Compacted { window_tokens, .. } = watch.wait_for(EventKind::Compacted).await.body else {
        panic!("another body")
    };
    assert_eq!(window_tokens, 6_000);
    check_ends(&test).await;
}

#[tokio::test]
async fn a_request_that_exceeds_the_window_is_reported_once_and_nothing_by_hand_leaves_a_trace() {
    let test = TestApp::start().await;
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    // A single request exceeds the window, and nothing precedes it.
    test.append(&session, "u1 40000c").await;
    test.settled().await;
    let found = test.events().await;
    let kinds: Vec<EventKind> = found.iter().skip(2).map(|event| event.body.kind()).collect();
    assert_eq!(kinds, [EventKind::MessageAppended, EventKind::CompactionStarted, EventKind::CompactionFailed]);
    let EventBody::CompactionFailed { failure, .. } = &found[4].body else { panic!("another body") };
    assert_eq!(failure.reason.as_str(), "FIXED_OVERHEAD");
    assert!(failure.message.contains("10013 of the newest request"), "{}", failure.message);
    for kind in [CompactionKind::Summary, CompactionKind::Prune] {
        let refused = test.app.compactions().start(&session, NewCompaction::of_kind(kind)).await;
        assert_eq!(refused.expect_err("nothing").reason, Reason::NothingToCompact);
    }
    assert_eq!(test.events().await.len(), found.len());
    assert_eq!(test.number("select count(*) from job"), 1);
}

#[tokio::test]
async fn an_archived_session_is_left_alone() {
    let test = TestApp::start().await;
    let session = small(&test).await;
    test.settled().await;
    let messages = conversation(&turns(9, 9, WORDS));
    // Both are sent before the writer wakes: the session becomes due and is archived in one transaction.
    let append = test.app.messages().append(&session, messages, None, None);
    let key = test.longhand.store().sessions().find(&Visibility::default(), &session).await.expect("a session");
    let archive = test.longhand.store().sessions().set_state(key, SessionState::Archived, Requester::default());
    let (appended, archived) = futures::future::join(append, archive).await;
    assert!(appended.expect("appended").context.due);
    archived.expect("archived");
    test.settled().await;
    assert_eq!(test.number("select count(*) from job"), 0);
    assert!(test.view(&session).await.covered.is_none());
}

#[tokio::test]
async fn a_prune_replaces_old_outputs_by_placeholders_and_can_be_undone() {
    let test = TestApp::start().await;
    let session = prunable(&test).await;
    let mut watch = test.watch().await;
    let whole = test.view(&session).await.hash;
    let history = test.history(&session).await;
    let ask = || test.app.compactions().start(&session, NewCompaction::of_kind(CompactionKind::Prune));
    ask().await.expect("there is something to prune");
    let EventBody::PartsPruned { parts, .. } = watch.wait_for(EventKind::PartsPruned).await.body else {
        panic!("another body")
    };
    let EventBody::Compacted { kind, outcome, .. } = watch.wait_for(EventKind::Compacted).await.body else {
        panic!("another body")
    };
    assert_eq!(kind, CompactionKind::Prune);
    assert_eq!(outcome.pruned_count, i64::try_from(parts.len()).expect("few"));
    let view = test.view(&session).await;
    let pruned: Vec<_> = view
        .messages
        .iter()
        .flat_map(|message| &message.parts)
        .filter(|part| matches!(part.shortened, Some(PartShortening::Pruned { original_length: 80_000 })))
        .collect();
    assert_eq!(pruned.len(), parts.len());
    for part in pruned {
        assert!(part.source.is_some_and(|id| parts.contains(&id)), "it can be read by the id that stands there");
        let PartBody::ToolResult(result) = &*part.body else { panic!("only outputs are pruned") };
        assert_eq!(result.output, "[Old tool result content cleared]");
    }
    assert!(outcome.tokens_after < outcome.tokens_before);
    assert_eq!(test.history(&session).await, history);
    assert_eq!(ask().await.expect_err("done").reason, Reason::NothingToCompact);
    test.app.compactions().undo(&session, None).await.expect("undone");
    assert_eq!(test.view(&session).await.hash, whole);
    check_ends(&test).await;
}

#[tokio::test]
async fn maintenance_prunes_happen_without_a_window() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let mut watch = test.watch().await;
    for turn in 1..=6 {
        let words = format!("u{turn} \"go\"\na{turn} call=c{turn}\nt{turn} result=c{turn}:80000c");
        test.append(&session, &words).await;
    }
    let EventBody::Compacted { kind, trigger, .. } = watch.wait_for(EventKind::Compacted).await.body else {
        panic!("another body")
    };
    assert_eq!((kind, trigger), (CompactionKind::Prune, Trigger::Maintenance));
    check_ends(&test).await;
}

fn summary(tail_start: &str, until: &str) -> NewSummary {
    NewSummary {
        text: "brought along".to_owned(),
        tail_start: tail_start.to_owned(),
        until: until.to_owned(),
        summarizer: "somebody".to_owned(),
        ..NewSummary::default()
    }
}

#[tokio::test]
async fn a_summary_that_is_brought_along_is_in_force_at_once() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, &turns(1, 4, 100)).await;
    let supply = async |new, caller: Caller| {
        caller.compactions().supply_summary(&session, new).await.map(|supplied| supplied.answer)
    };
    let (compaction, receipt) = supply(summary("u3", "a3"), test.once("s", "1")).await.expect("supplied");
    assert_eq!((compaction.state, compaction.request.trigger), (CompactionState::Done, Trigger::Supplied));
    let lines = shown(&test.view(&session).await);
    assert_eq!(
        lines[..3],
        ["user marker: what did we do", "assistant summary: brought along", "user shown: u3 was here and"]
    );
    assert_eq!(lines.len(), 6);
    let outcome = compaction.outcome.expect("an outcome");
    assert_eq!((outcome.covered_count, outcome.summarizer.as_str()), (4, "somebody"));
    let again = supply(summary("u3", "a3"), test.once("s", "1")).await.expect("answered again");
    assert_eq!(again.1, receipt);
    // A second one covers the first one's messages, and more; it may keep no tail.
    let (second, _) = supply(summary("", ""), test.app.clone()).await.expect("supplied");
    assert_eq!(second.outcome.expect("an outcome").covered_count, 4);
    assert_eq!(shown(&test.view(&session).await).len(), 2);
    assert_eq!(test.history(&session).await.len(), 8);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_summary_that_does_not_fit_the_session_is_refused() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, &turns(1, 4, 100)).await;
    let before = test.revision(&session).await;
    let expecting = |revision| NewSummary { expected_revision: Some(revision), ..summary("u3", "") };
    let blank = NewSummary { text: " ".to_owned(), ..summary("u3", "") };
    for (new, reason) in [
        (blank, Reason::InvalidField),
        (summary("u4", "a2"), Reason::BoundaryInvalid),
        (summary("u1", ""), Reason::BoundaryInvalid),
        (summary("nobody", ""), Reason::MessageNotFound),
        (summary("u3", "nobody"), Reason::MessageNotFound),
        (expecting(before - 1), Reason::RevisionMismatch),
    ] {
        let refused: Result<_, Error> = test.app.compactions().supply_summary(&session, new.clone()).await;
        assert_eq!(refused.expect_err("refused").reason, reason, "{new:?}");
    }
    assert_eq!(test.revision(&session).await, before);
    test.app.compactions().supply_summary(&session, expecting(before)).await.expect("nothing came since");
}

#[tokio::test]
async fn a_supplied_summary_covers_nothing_that_is_still_written() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"one\"\na1 \"two\"").await;
    let supply = async |new, caller: Caller| {
        caller.compactions().supply_summary(&session, new).await.map(|supplied| supplied.answer)
    };
    let (first, receipt) = supply(summary("", ""), test.once("s", "1")).await.expect("supplied");

    test.append(&session, "u2 \"three\"\na2 open").await;
    let before = test.revision(&session).await;
    let refused = supply(summary("", ""), test.app.clone()).await.expect_err("a2 is still written");
    assert_eq!(refused.reason, Reason::BoundaryInvalid);
    assert_eq!(test.revision(&session).await, before);

    // A repeated request gets its earlier answer, although a new one would be refused.
    let again = supply(summary("", ""), test.once("s", "1")).await.expect("answered again");
    assert_eq!((again.0.id, again.1), (first.id, receipt));
}

#[tokio::test]
async fn a_session_of_another_preset_compacts_by_its_own_rules() {
    let test = TestApp::start().await;
    let session = test
        .create(NewSession {
            preset: "pi@1.5".to_owned(),
            policy_override_json: r#"{"auto": {"threshold": {"limit": {"reserve_tokens": 1000}},
                "steps": {"0": {"summarize": {"tail": {"recent": {"keep_tokens": 1000}}}}}}}"#
                .to_owned(),
            window: window(6_000, 0),
            ..NewSession::default()
        })
        .await;
    let mut watch = test.watch().await;
    test.append(&session, &turns(1, 12, WORDS)).await;
    watch.wait_for(EventKind::Compacted).await;
    let lines = shown(&test.view(&session).await);
    assert!(lines[0].starts_with("user summary:"), "pi has no marker, and the user speaks its summary: {lines:?}");
    check_ends(&test).await;
}

fn refused(message: &str) -> Overflow {
    Overflow { status: Some(400), message: message.to_owned(), ..Overflow::default() }
}

#[tokio::test]
async fn a_view_that_a_provider_refused_loses_its_media_once_for_each_request() {
    let test = TestApp::start().await;
    let session = with_image(&test).await;
    let mut watch = test.watch().await;
    let report = || test.app.compactions().report_overflow(&session, refused("prompt is too long: 9 tokens"));
    let (started, joined) = report().await.expect("taken");
    assert_eq!((started.request.trigger, joined), (Trigger::Overflow, false));
    watch.wait_for(EventKind::Compacted).await;
    let lines = shown(&test.view(&session).await);
    let last = lines.last().expect("a view");
    assert!(last.contains("what does the plot") && last.contains("[attached image/png: plot.png]"), "{lines:?}");
    let page =
        test.app.messages().list(&session, ListMessages { page_size: 1, reverse: true, ..ListMessages::default() });
    let original = page.await.expect("a page").messages.remove(0);
    assert!(original.parts.iter().any(|part| matches!(*part.body, PartBody::Media(_))), "the original is kept");
    assert_eq!(report().await.expect_err("once is enough").reason, Reason::OverflowAgain);
    test.append(&session, "u91 \"and now?\"").await;
    let again = report().await;
    assert_ne!(again.map(|_| ()).map_err(|error| error.reason), Err(Reason::OverflowAgain), "another request");
}

#[tokio::test]
async fn reports_without_an_overflow_or_with_automatic_compaction_off_are_refused() {
    let test = TestApp::start().await;
    let session = with_image(&test).await;
    let report = |message: &str| test.app.compactions().report_overflow(&session, refused(message));
    let error = report("rate limit reached, too many requests").await.expect_err("no overflow");
    assert_eq!(error.reason, Reason::OverflowNotRecognized);
    override_policy(&test, &session, "{\"trigger\": {\"auto\": false}}").await;
    let error = report("prompt is too long: 9 tokens").await.expect_err("switched off");
    assert_eq!(error.reason, Reason::AutomaticOff);
}
