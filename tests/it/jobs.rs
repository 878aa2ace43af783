//! P12: the order of sessions, retries, and the effect of a change on a running compaction.

#[path = "../../benches/src/fleet.rs"]
mod fleet;

use crate::support::{
    Line, ScriptedSummarizer, TestApp, Watch, conversation, filler, number, shown, text, turns, window, words_of,
};
use futures::future::{BoxFuture, FutureExt as _};
use longhand::app::Reason;
use longhand::app::compactions::{NewCompaction, NewSummary, Overflow};
use longhand::app::sessions::SessionChange;
use longhand::model::compaction::{Compaction, CompactionKind, CompactionState, Trigger};
use longhand::model::event::{EventBody, EventKind};
use longhand::model::ids::{CompactionId, SessionId};
use longhand::model::part::{Media, NewPart, PartBody};
use longhand::policy::summary::{SummaryInput, SummaryOutput};
use longhand::summarizer::{Error, Observer, Summarizer};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;

const WORDS: usize = 1_100;
const SESSIONS: usize = 100;
/// Number of sessions with a second job that waits for the first.
const EAGER: usize = 10;

/// A session that is one turn away from being due.
async fn small(test: &TestApp) -> String {
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    test.append(&session, &turns(1, 8, WORDS)).await;
    session
}

async fn cross(test: &TestApp, session: &str) {
    assert!(test.append(session, &turns(9, 9, WORDS)).await.context.due, "the test needs it to be due");
}

async fn start(test: &TestApp, session: &str, instructions: &str) -> Compaction {
    let wanted =
        NewCompaction { instructions: instructions.to_owned(), ..NewCompaction::of_kind(CompactionKind::Summary) };
    test.app.compactions().start(session, wanted).await.expect("there is something to compact").answer.0
}

fn hold(text: &str) -> Line {
    Line::Hold(text.to_owned())
}

fn line(text: &str) -> Line {
    Line::Say(text.to_owned())
}

/// Waits until these numbers of jobs are ready and running.
async fn waiting(test: &TestApp, counts: (i64, i64)) {
    let reached = async || test.longhand.store().jobs().counts().await.expect("read") == counts;
    test.until("the jobs to be asked for", reached).await;
}

#[tokio::test]
async fn no_session_starts_its_second_job_before_every_waiting_one_has_started_its_first() {
    let script = ScriptedSummarizer::new([hold("S1")].into_iter().chain((0..2 * SESSIONS).map(|_| line("S2"))));
    let test = TestApp::with_one_worker(script.clone()).await;
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(small(&test).await);
    }
    for session in &sessions {
        cross(&test, session).await;
    }
    // The worker is busy, so that all others wait; the first sessions already request a second compaction.
    script.held().await;
    waiting(&test, (99, 1)).await;
    for session in &sessions[..EAGER] {
        start(&test, session, "and again").await;
        test.append(session, &turns(10, 14, WORDS)).await;
    }
    script.release();
    test.settled().await;
    let mut order: Vec<SessionId> = Vec::new();
    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    for event in test.events().await {
        match event.body {
            EventBody::CompactionStarted { .. } => order.push(event.session_id),
            EventBody::Compacted { .. } => *ends.entry(event.session_id.to_string()).or_default() += 1,
            EventBody::CompactionFailed { .. } | EventBody::CompactionCancelled { .. } => panic!("{:?}", event.body),
            _ => {}
        }
    }
    let distinct = |sessions: &[SessionId]| {
        sessions.iter().map(ToString::to_string).collect::<std::collections::BTreeSet<_>>().len()
    };
    assert_eq!(distinct(&order[..SESSIONS]), SESSIONS, "somebody's second turn came before somebody's first");
    assert_eq!(ends.len(), SESSIONS, "every session was compacted");
    for (index, session) in sessions.iter().enumerate() {
        assert!(ends[session] >= if index < EAGER { 2 } else { 1 }, "{index}: {}", ends[session]);
    }
    assert_eq!(ends.values().sum::<usize>(), order.len(), "each began once and ended once");
    assert_eq!(test.findings().await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_is_compacted_within_the_providers_limit_in_turn_and_in_little_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = fleet::run(env!("CARGO_BIN_EXE_longhand"), folder.path(), SESSIONS).await;
    assert!(report.compacted >= SESSIONS && report.at_once >= 2, "{report}");
    assert!(report.peak_kib.is_none_or(|kib| kib <= 300 * 1_024), "{report}");
}

#[tokio::test]
async fn sessions_are_checked_while_all_workers_are_busy() {
    let script = ScriptedSummarizer::new([hold("S1"), hold("S1")]);
    let test = TestApp::with(script.clone()).await;
    for _ in 0..2 {
        let session = small(&test).await;
        cross(&test, &session).await;
        script.held().await;
    }
    let session = small(&test).await;
    cross(&test, &session).await;
    waiting(&test, (1, 2)).await;
    assert!(test.view(&session).await.pending.is_some());
}

/// A summarizer that requests a delay of one hour `delays` times, then answers.
struct Delaying {
    asked: AtomicUsize,
    delays: usize,
    /// Holds back the answers until it is closed.
    gate: Semaphore,
}

impl Delaying {
    fn new(delays: usize) -> Arc<Self> {
        let gate = Semaphore::new(0);
        gate.close();
        Arc::new(Self { asked: AtomicUsize::new(0), delays, gate })
    }

    /// A summarizer that does not answer until the gate is closed.
    fn behind_a_gate(delays: usize) -> Arc<Self> {
        Arc::new(Self { asked: AtomicUsize::new(0), delays, gate: Semaphore::new(0) })
    }
}

impl Summarizer for Delaying {
    fn name(&self) -> &str {
        "resting"
    }

    fn summarize<'a>(
        &'a self,
        _input: &'a SummaryInput,
        _observer: &'a dyn Observer,
    ) -> BoxFuture<'a, Result<SummaryOutput, Error>> {
        let delays = self.asked.fetch_add(1, Ordering::Relaxed) < self.delays;
        async move {
            drop(self.gate.acquire().await);
            if delays {
                return Err(Error::Transient { message: "later".to_owned(), retry_after_ms: Some(3_600_000) });
            }
            Ok(SummaryOutput::new("S1", "resting"))
        }
        .boxed()
    }
}

/// A session with a compaction by hand that waits for its retry: none waits while the view exceeds its window.
async fn waiting_for_retry(test: &TestApp) -> (String, Watch, CompactionId) {
    let session = small(test).await;
    let mut watch = test.watch().await;
    let compaction = start(test, &session, "").await.id;
    watch.wait_for(EventKind::CompactionRetried).await;
    (session, watch, compaction)
}

/// Counts the compactions that wait for a delayed retry.
const WAITING_FOR_RETRY: &str = "select count(*) from job where run_at > start_time + 3600000000";

#[tokio::test]
async fn a_requested_delay_is_kept_until_a_retry_by_hand() {
    let test = TestApp::with(Delaying::new(1)).await;
    let (_, mut watch, compaction) = waiting_for_retry(&test).await;
    let rest = "select (run_at - start_time) / 1000000 from job";
    assert!((3_600..3_660).contains(&test.number(rest)), "{}", test.number(rest));
    let waiting = test.app.compactions().get(&compaction.to_string()).await.expect("it waits");
    let next = waiting.next_attempt_time.expect("it is known when it goes on");
    assert_eq!(next.0, test.number("select run_at from job"));
    let (tried, joined) = test.app.compactions().retry(&compaction.to_string()).await.expect("taken");
    assert_eq!((tried.id, joined), (compaction, true));
    watch.wait_for(EventKind::Compacted).await;
    assert_eq!(watch.count_waited(EventKind::CompactionStarted), 1, "it is the same one");
    let error = test.app.compactions().retry(&compaction.to_string()).await.expect_err("done");
    assert_eq!(error.reason, Reason::CompactionEnded);
    let done = test.app.compactions().get(&compaction.to_string()).await.expect("it is done");
    assert_eq!(done.next_attempt_time, None);
}

#[tokio::test]
async fn a_delay_ends_when_the_view_exceeds_its_window() {
    let test = TestApp::with(Delaying::new(2)).await;
    let (session, mut watch, _) = waiting_for_retry(&test).await;
    test.append(&session, "u90 \"this fits\"").await;
    assert_eq!(test.number(WAITING_FOR_RETRY), 1, "the provider is left alone as long as the session can go on");
    let view = test.view(&session).await;
    let free = view.window_tokens - view.context_tokens;
    test.append(&session, &format!("a90 {}c", 4 * free)).await;
    let EventBody::Compacted { outcome, .. } = watch.wait_for(EventKind::Compacted).await.body else {
        panic!("another body")
    };
    assert_eq!(outcome.summarizer, "extractive", "the provider is asked once more, and stood in for");
    assert_eq!(
        (watch.count_waited(EventKind::CompactionStarted), watch.count_waited(EventKind::CompactionRetried)),
        (1, 1)
    );
    test.settled().await;
    assert!(test.view(&session).await.fits);
}

#[tokio::test]
async fn no_delay_begins_when_the_view_has_exceeded_its_window_meanwhile() {
    let delaying = Delaying::behind_a_gate(2);
    let test = TestApp::with(delaying.clone()).await;
    let session = small(&test).await;
    let mut watch = test.watch().await;
    start(&test, &session, "").await;
    watch.wait_for(EventKind::CompactionStarted).await;
    let view = test.view(&session).await;
    test.append(&session, &format!("u90 {}c", 4 * (view.window_tokens - view.context_tokens))).await;
    delaying.gate.close();
    watch.wait_for(EventKind::CompactionRetried).await;
    watch.wait_for(EventKind::Compacted).await;
    test.settled().await;
    assert!(test.view(&session).await.fits);
}

#[tokio::test]
async fn a_delay_continues_whatever_window_an_append_names() {
    let test = TestApp::with(Delaying::new(1)).await;
    let (session, mut watch, _) = waiting_for_retry(&test).await;
    let messages = conversation("u90 \"go on\"");
    let small = Some(window(3_000, 100));
    test.app.messages().append(&session, messages, small, None).await.expect("appended");
    assert_eq!(test.number(WAITING_FOR_RETRY), 1);
    test.append(&session, "a90 30000c").await;
    watch.wait_for(EventKind::Compacted).await;
}

#[tokio::test]
async fn a_compaction_that_ended_without_effect_is_retried_as_another_one() {
    let script = ScriptedSummarizer::new([hold("S1"), line("S2")]);
    let test = TestApp::with(script.clone()).await;
    let session = small(&test).await;
    let mut watch = test.watch().await;
    let first = start(&test, &session, "mind the tests").await;
    script.held().await;
    test.app.compactions().cancel(&first.id.to_string()).await.expect("cancelled");
    let (second, joined) = test.app.compactions().retry(&first.id.to_string()).await.expect("another begins");
    assert!(second.id != first.id && !joined);
    assert_eq!((second.request.trigger, second.request.instructions.as_str()), (Trigger::Manual, "mind the tests"));
    script.release();
    let EventBody::Compacted { compaction, .. } = watch.wait_for(EventKind::Compacted).await.body else {
        panic!("another body")
    };
    assert_eq!(compaction, second.id);
    assert_eq!(script.asked()[1].instructions, "mind the tests");
    let unknown = test.app.compactions().retry(&first.id.to_string().replace(['1', '2'], "3")).await;
    assert_eq!(unknown.expect_err("nobody").reason, Reason::CompactionNotFound);
}

/// A session with a running compaction, held by its summarizer.
async fn running(test: &TestApp, script: &ScriptedSummarizer) -> (String, Watch) {
    let session = small(test).await;
    let watch = test.watch().await;
    cross(test, &session).await;
    script.held().await;
    (session, watch)
}

async fn superseded(test: &TestApp, watch: &mut Watch) {
    let body = watch.wait_for(EventKind::CompactionCancelled).await.body;
    let EventBody::CompactionCancelled { failure, compaction } = body else { panic!("another body") };
    assert_eq!(failure.reason.as_str(), "SUPERSEDED");
    let ended = test.app.compactions().get(&compaction.to_string()).await.expect("it is listed");
    assert_eq!(ended.state, CompactionState::Superseded);
}

#[tokio::test]
async fn an_edit_before_the_boundary_supersedes_a_running_summary_and_work_is_due_again() {
    let script = ScriptedSummarizer::new([hold("S1"), line("S2")]);
    let test = TestApp::with(script.clone()).await;
    let (session, mut watch) = running(&test, &script).await;
    test.app
        .messages()
        .edit(&session, "u2", &[text(&format!("better {}", filler("u2", WORDS)))], None)
        .await
        .expect("edited");
    script.release();
    superseded(&test, &mut watch).await;
    watch.wait_for(EventKind::Compacted).await;
    assert!(shown(&test.view(&session).await).contains(&"assistant summary: s2".to_owned()));
    let read = &script.asked()[1].messages;
    assert!(read.iter().any(|source| words_of(&source.message).starts_with("better")), "with what was edited");
}

#[tokio::test]
async fn a_summary_that_is_brought_along_supersedes_a_running_one() {
    let script = ScriptedSummarizer::new([hold("S1")]);
    let test = TestApp::with(script.clone()).await;
    let (session, mut watch) = running(&test, &script).await;
    let supplied =
        NewSummary { text: "brought along".to_owned(), tail_start: "u9".to_owned(), ..NewSummary::default() };
    test.app.compactions().supply_summary(&session, supplied).await.expect("supplied");
    script.release();
    superseded(&test, &mut watch).await;
    test.settled().await;
    let lines = shown(&test.view(&session).await);
    assert_eq!(lines.iter().filter(|line| line.contains(" summary:")).count(), 1, "{lines:?}");
    assert!(lines.contains(&"assistant summary: brought along".to_owned()), "{lines:?}");
}

/// Makes a small session due with a request that has an image.
async fn cross_with_image(test: &TestApp, session: &str) {
    let mut turn = conversation(&turns(9, 9, WORDS));
    let image = Media { mime_type: "image/png".to_owned(), name: "plot.png".to_owned(), ..Media::default() };
    turn[0].parts.push(NewPart::new(PartBody::Media(image)));
    let appended = test.app.messages().append(session, turn, None, None).await.expect("appended");
    assert!(appended.context.due, "the test needs it to be due");
}

async fn overflow(test: &TestApp, session: &str) -> (Compaction, bool) {
    let overflow = Overflow { status: Some(413), ..Overflow::default() };
    test.app.compactions().report_overflow(session, overflow).await.expect("taken")
}

/// True if a view shows an image.
async fn shows_an_image(test: &TestApp, session: &str) -> bool {
    let view = test.view(session).await;
    let mut parts = view.messages.iter().flat_map(|message| &message.parts);
    parts.any(|part| matches!(*part.body, PartBody::Media(_)))
}

#[tokio::test]
async fn a_view_that_was_refused_loses_its_media_although_another_compaction_runs() {
    let script = ScriptedSummarizer::new([hold("S1")]);
    let test = TestApp::with(script.clone()).await;
    let session = small(&test).await;
    cross_with_image(&test, &session).await;
    script.held().await;
    let (asked, joined) = overflow(&test, &session).await;
    assert_eq!((asked.request.trigger, joined), (Trigger::Overflow, false));
    assert_eq!(overflow(&test, &session).await.0.id, asked.id, "the same is asked for once");
    assert!(shows_an_image(&test, &session).await);
    script.release();
    test.settled().await;
    assert!(!shows_an_image(&test, &session).await);
    assert_eq!(test.findings().await, []);
}

/// A small session whose automatic summaries are proposed, and wait for an hour.
async fn asking(test: &TestApp) -> String {
    let session = small(test).await;
    // Nobody is asked past the window, so the threshold is below it.
    let notice = r#"{"auto": {"notice": {"confirm": {"text": "now?", "wait_seconds": 3600}},
        "threshold": {"limit": {"tokens": 4900}}}}"#;
    let change = SessionChange {
        policy_override_json: Some(notice.to_owned()),
        window: Some(window(12_000, 1_000)),
        ..SessionChange::default()
    };
    test.app.sessions().update(&session, change).await.expect("a policy of its own");
    session
}

async fn proposed(watch: &mut Watch) -> CompactionId {
    let EventBody::CompactionProposed { compaction, .. } = watch.wait_for(EventKind::CompactionProposed).await.body
    else {
        panic!("another body")
    };
    compaction
}

#[tokio::test]
async fn nobody_has_to_agree_before_a_view_that_was_refused_is_reduced() {
    let test = TestApp::start().await;
    let session = asking(&test).await;
    let mut watch = test.watch().await;
    cross_with_image(&test, &session).await;
    proposed(&mut watch).await;
    overflow(&test, &session).await;
    test.settled().await;
    assert!(!shows_an_image(&test, &session).await);
}

#[tokio::test]
async fn a_request_by_hand_accepts_what_is_delayed_or_proposed() {
    let test = TestApp::start().await;
    let session = asking(&test).await;
    let mut watch = test.watch().await;
    cross(&test, &session).await;
    let waits = proposed(&mut watch).await;
    assert_eq!(start(&test, &session, "").await.id, waits);
    watch.wait_for(EventKind::Compacted).await;

    let test = TestApp::with(Delaying::new(1)).await;
    let session = small(&test).await;
    let mut watch = test.watch().await;
    start(&test, &session, "").await;
    watch.wait_for(EventKind::CompactionRetried).await;
    start(&test, &session, "").await;
    watch.wait_for(EventKind::Compacted).await;
    assert_eq!(watch.count_waited(EventKind::CompactionStarted), 1, "it is the same one");
}

#[tokio::test]
async fn a_change_of_the_view_supersedes_an_automatic_compaction_that_waits_for_its_next_attempt() {
    let test = TestApp::with(Delaying::new(1)).await;
    let session = small(&test).await;
    // A compaction does not wait for a provider while the view exceeds its window, so that this one must be due
    // earlier.
    let early = r#"{"auto": {"threshold": {"limit": {"reserve_tokens": 1400}}}}"#.to_owned();
    let change = SessionChange { policy_override_json: Some(early), ..SessionChange::default() };
    test.app.sessions().update(&session, change).await.expect("a policy of its own");
    let mut watch = test.watch().await;
    test.append(&session, &turns(9, 9, 700)).await;
    let EventBody::CompactionRetried { compaction, .. } = watch.wait_for(EventKind::CompactionRetried).await.body
    else {
        panic!("another body")
    };
    let better = text(&format!("better {}", filler("u2", WORDS)));
    test.app.messages().edit(&session, "u2", &[better], None).await.expect("edited");
    test.app.compactions().retry(&compaction.to_string()).await.expect("taken");
    superseded(&test, &mut watch).await;
    watch.wait_for(EventKind::Compacted).await;
    test.settled().await;
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn the_end_of_a_proposal_is_reported_although_it_was_accepted() {
    let script = ScriptedSummarizer::new([hold("S1"), hold("S2"), line("S3")]);
    let test = TestApp::with(script.clone()).await;
    for _ in 0..2 {
        let session = small(&test).await;
        cross(&test, &session).await;
        script.held().await;
    }
    // Both workers are busy, so that confirmed compactions wait for their turn.
    let mut watch = test.watch().await;
    let (refused, overtaken) = (asking(&test).await, asking(&test).await);
    let mut agreed = Vec::new();
    for session in [&refused, &overtaken] {
        cross(&test, session).await;
        let id = proposed(&mut watch).await;
        let confirmed = test.app.compactions().confirm(&id.to_string()).await.expect("taken");
        assert_eq!((confirmed.state, confirmed.proposed_until), (CompactionState::Ready, None));
        agreed.push(id);
    }
    test.app.compactions().cancel(&agreed[0].to_string()).await.expect("cancelled");
    test.app.messages().edit(&overtaken, "u2", &[text("better")], None).await.expect("edited");
    script.release();
    script.release();
    for (id, reason) in agreed.into_iter().zip(["REQUESTED", "SUPERSEDED"]) {
        let body = watch.wait_for(EventKind::CompactionCancelled).await.body;
        let EventBody::CompactionCancelled { compaction, failure } = body else { panic!("another body") };
        assert_eq!((compaction, failure.reason.as_str()), (id, reason));
    }
}

#[tokio::test]
async fn a_retry_that_is_sent_again_is_answered_as_before_although_the_compaction_has_ended() {
    let script = ScriptedSummarizer::new([hold("S1")]);
    let test = TestApp::with(script.clone()).await;
    let session = small(&test).await;
    let first = start(&test, &session, "").await;
    script.held().await;
    let id = first.id.to_string();
    let retry = async || test.once("retry", "1").compactions().retry(&id).await;
    let (retried, joined) = retry().await.expect("it is there already");
    assert_eq!((retried.id, joined), (first.id, true));
    test.app.compactions().cancel(&first.id.to_string()).await.expect("cancelled");
    let (again, joined) = retry().await.expect("answered as before");
    assert_eq!((again.id, again.state, joined), (first.id, CompactionState::Cancelled, true));
    let other = test.once("retry", "2").compactions().retry(&first.id.to_string()).await;
    assert_eq!(other.expect_err("the id is taken").reason, Reason::RequestIdReused);
}

#[tokio::test]
async fn a_report_that_is_sent_again_is_answered_as_before_although_nothing_may_happen_by_itself() {
    let test = TestApp::start().await;
    let session = small(&test).await;
    let overflow = Overflow { status: Some(413), ..Overflow::default() };
    let report = async || test.once("report", "1").compactions().report_overflow(&session, overflow.clone()).await;
    let first = report().await.expect("taken");
    test.settled().await;
    let off = "{\"trigger\": {\"auto\": false}}".to_owned();
    let change = SessionChange { policy_override_json: Some(off), ..SessionChange::default() };
    test.app.sessions().update(&session, change).await.expect("switched off");
    let again = report().await.expect("answered as before");
    assert_eq!((again.0.id, again.1), (first.0.id, first.1));
}

#[tokio::test]
async fn a_job_that_cannot_be_read_holds_up_none_of_the_others() {
    let script = ScriptedSummarizer::new([hold("S1"), hold("S2"), hold("S3")]);
    let test = TestApp::with(script.clone()).await;
    for _ in 0..2 {
        let session = small(&test).await;
        cross(&test, &session).await;
        script.held().await;
    }
    // No trigger has this number, and the first job's lease ends first.
    let spoil = "update job set trigger = 99 where id = (select min(id) from job)";
    let spoilt = test.database().execute(spoil).expect("spoilt");
    assert_eq!(spoilt, 1);
    let test = test.kill().await;
    script.held().await;
    assert_eq!(script.asked().len(), 3, "the other one is taken up");
    let directory = test.stop().await;
    let ready = "select count(*) from job where state = 1 and trigger <> 99";
    assert_eq!(number(directory.path(), ready), 1, "and given back");
}

#[tokio::test]
async fn a_session_due_during_a_compaction_is_evaluated_when_that_ends_without_effect() {
    let script = ScriptedSummarizer::new([hold("S1"), line("S2")]);
    let test = TestApp::with(script.clone()).await;
    let session = small(&test).await;
    let mut watch = test.watch().await;
    let first = start(&test, &session, "").await;
    script.held().await;
    assert!(!test.append(&session, &turns(9, 9, WORDS)).await.context.due, "something is live");
    test.app.compactions().cancel(&first.id.to_string()).await.expect("cancelled");
    let EventBody::Compacted { trigger, .. } = watch.wait_for(EventKind::Compacted).await.body else {
        panic!("another body")
    };
    assert_eq!(trigger, Trigger::Threshold);
    test.settled().await;
    assert_eq!(test.findings().await, []);
}
