//! The end of a running compaction reaches its worker at once: the request to the model is dropped, the client's task
//! withdrawn, and the worker free, without waiting for the next heartbeat.

use crate::provider::fake::{FakeProvider, Protocol, Reaction};
use crate::provider::{LONG_TIMEOUTS, configured};
use crate::support::{Line, ScriptedSummarizer, TestApp, Watch, conversation, filler, shown, soon, text, turns};
use futures::future::BoxFuture;
use longhand::app::Reason;
use longhand::app::compactions::{NewCompaction, NewSummary};
use longhand::app::undo::ReversedChange;
use longhand::limits;
use longhand::model::compaction::{Compaction, CompactionKind, CompactionState};
use longhand::model::event::{Event, EventBody, EventKind};
use longhand::policy::summary::{SummaryInput, SummaryOutput};
use longhand::scheduler;
use longhand::summarizer::{Error, Filter, Observer, Summarizer, TaskRefusal};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

const WORDS: usize = 1_100;

/// Waits for a future for less than a heartbeat interval.
async fn before_a_beat<T>(what: &str, future: impl Future<Output = T>) -> T {
    let limit = Duration::from_millis(limits::HEARTBEAT_MS * 4 / 5);
    tokio::time::timeout(limit, future).await.unwrap_or_else(|_| panic!("{what} was waited for until a heartbeat"))
}

/// A summarizer that never answers, and counts the requests that were dropped.
struct Silent {
    asked: Semaphore,
    left: Semaphore,
}

struct Left<'a>(&'a Semaphore);

impl Drop for Left<'_> {
    fn drop(&mut self) {
        self.0.add_permits(1);
    }
}

impl Silent {
    fn new() -> Arc<Self> {
        Arc::new(Self { asked: Semaphore::new(0), left: Semaphore::new(0) })
    }

    async fn is_asked(&self) {
        soon("a summary to be asked for", self.asked.acquire()).await.expect("never closed").forget();
    }

    async fn is_left(&self) {
        before_a_beat("the end of a request", self.left.acquire()).await.expect("never closed").forget();
    }
}

impl Summarizer for Silent {
    fn name(&self) -> &str {
        "silent"
    }

    fn summarize<'a>(
        &'a self,
        _input: &'a SummaryInput,
        _observer: &'a dyn Observer,
    ) -> BoxFuture<'a, Result<SummaryOutput, Error>> {
        Box::pin(async {
            let _left = Left(&self.left);
            self.asked.add_permits(1);
            std::future::pending().await
        })
    }
}

/// A session that is due.
async fn due(test: &TestApp) -> String {
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    test.append(&session, &turns(1, 9, WORDS)).await;
    session
}

async fn ask(test: &TestApp, session: &str, instructions: &str) -> Compaction {
    let wanted =
        NewCompaction { instructions: instructions.to_owned(), ..NewCompaction::of_kind(CompactionKind::Summary) };
    test.app.compactions().start(session, wanted).await.expect("there is something to compact").answer.0
}

async fn pending(test: &TestApp, session: &str) -> String {
    test.view(session).await.pending.expect("a compaction").to_string()
}

async fn state(test: &TestApp, compaction: &str) -> CompactionState {
    test.app.compactions().get(compaction).await.expect("it is listed").state
}

/// The kinds of a session's events after a revision.
async fn kinds_behind(test: &TestApp, session: &str, revision: i64) -> Vec<EventKind> {
    let events = test.events().await.into_iter();
    let of = events.filter(|event| event.session_id.to_string() == session && event.revision > revision);
    of.map(|event| event.body.kind()).collect()
}

fn reason(event: Event) -> String {
    let EventBody::CompactionCancelled { failure, .. } = event.body else { panic!("another body") };
    failure.reason.as_str().to_owned()
}

#[tokio::test]
async fn two_cancels_free_both_workers_at_once() {
    let silent = Silent::new();
    let test = TestApp::with(silent.clone()).await;
    let sessions = [due(&test).await, due(&test).await];
    silent.is_asked().await;
    silent.is_asked().await;
    due(&test).await;
    for session in &sessions {
        let compaction = pending(&test, session).await;
        test.app.compactions().cancel(&compaction).await.expect("cancelled");
    }
    silent.is_left().await;
    silent.is_left().await;
    before_a_beat("the third session's turn", silent.is_asked()).await;
    // The first session is free too.
    ask(&test, &sessions[0], "once more").await;
    before_a_beat("the first session's second turn", silent.is_asked()).await;
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_cancelled_compaction_drops_its_paid_request_and_keeps_it_in_the_log() {
    let fake = FakeProvider::playing(Protocol::Chat, [Reaction::Stall("## Go".to_owned())]).await;
    let test = TestApp::with(configured(&fake, Protocol::Chat, LONG_TIMEOUTS, 20_000, "").auto).await;
    let session = due(&test).await;
    soon("a request", fake.hangs()).await;
    let compaction = pending(&test, &session).await;
    test.app.compactions().cancel(&compaction).await.expect("cancelled");
    before_a_beat("the connection's end", fake.is_left()).await;
    let given_up = "select count(*) from summary_request where failure = 'the request was given up'";
    let logged = async || test.number(given_up) > 0;
    before_a_beat("the request in the log", test.until("the request in the log", logged)).await;
    assert_eq!(test.app.compactions().get(&compaction).await.expect("it is listed").requests.len(), 1);
}

#[tokio::test]
async fn a_cancelled_compaction_withdraws_its_task_from_the_client_at_once() {
    let options = scheduler::Options { client_wait: Duration::from_secs(3_600), ..scheduler::Options::default() };
    let test = TestApp::with_options(Silent::new(), options).await;
    let session = due(&test).await;
    let tasks = test.wake.tasks();
    let leased = soon("a task", tasks.lease(&Filter::default(), Duration::from_secs(600), async |_| true)).await;
    let compaction = leased.task.compaction;
    test.app.compactions().cancel(&compaction.to_string()).await.expect("cancelled");
    let withdrawn = async {
        while tasks.leased_task(compaction, leased.token).is_ok() {
            tokio::task::yield_now().await;
        }
    };
    before_a_beat("the end of the task", withdrawn).await;
    assert_eq!(tasks.leased_task(compaction, leased.token).err(), Some(TaskRefusal::NotFound));
    ask(&test, &session, "once more").await;
    before_a_beat("the next task", tasks.lease(&Filter::default(), Duration::from_secs(600), async |_| true)).await;
}

#[tokio::test]
async fn archiving_ends_every_compaction_of_a_session_once_and_nothing_changes_it_afterwards() {
    let silent = Silent::new();
    let test = TestApp::with(silent.clone()).await;
    let session = due(&test).await;
    silent.is_asked().await;
    let running = pending(&test, &session).await;
    let waiting = [ask(&test, &session, "one").await, ask(&test, &session, "two").await];
    let mut watch = test.watch().await;
    let before = test.revision(&session).await;
    let receipt = test.app.sessions().archive(&session).await.expect("archived");
    silent.is_left().await;
    assert_eq!(reason(watch.wait_for(EventKind::CompactionCancelled).await), "SESSION_ARCHIVED");
    assert_eq!(
        kinds_behind(&test, &session, before).await,
        [EventKind::CompactionCancelled, EventKind::SessionArchived],
        "each started one ends once, before the session is archived"
    );
    for ended in [running, waiting[0].id.to_string(), waiting[1].id.to_string()] {
        assert_eq!(state(&test, &ended).await, CompactionState::Cancelled);
        let error = test.app.compactions().retry(&ended).await.expect_err("it is archived");
        assert_eq!(error.reason, Reason::SessionArchived);
        assert!(test.app.compactions().confirm(&ended).await.is_err());
    }
    let supplied = NewSummary { text: "mine".to_owned(), tail_start: "u5".to_owned(), ..NewSummary::default() };
    let error = test.app.compactions().supply_summary(&session, supplied).await.expect_err("it is archived");
    assert_eq!(error.reason, Reason::SessionArchived);
    // Both workers have processed another session since, so that no work of the first remains.
    due(&test).await;
    silent.is_asked().await;
    due(&test).await;
    silent.is_asked().await;
    test.wake.wake();
    assert_eq!(test.revision(&session).await, receipt.revision, "nothing changed it");
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_restored_session_is_checked_again() {
    let script = ScriptedSummarizer::new([Line::Hold("S1".to_owned()), Line::Say("S2".to_owned())]);
    let test = TestApp::with(script.clone()).await;
    let session = due(&test).await;
    script.held().await;
    test.app.sessions().archive(&session).await.expect("archived");
    script.release();
    test.settled().await;
    let mut watch = test.watch().await;
    let restored = test.app.sessions().restore(&session).await.expect("restored");
    watch.wait_for(EventKind::Compacted).await;
    test.settled().await;
    assert_eq!(kinds_behind(&test, &session, restored.revision).await[0], EventKind::CompactionStarted);
    assert!(shown(&test.view(&session).await).contains(&"assistant summary: s2".to_owned()));
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_session_that_is_archived_while_it_is_due_is_left_alone() {
    let silent = Silent::new();
    let test = TestApp::with(silent.clone()).await;
    // Both workers are busy, so that due sessions wait.
    for _ in 0..2 {
        due(&test).await;
        silent.is_asked().await;
    }
    let session = due(&test).await;
    let compaction = ask(&test, &session, "").await;
    let receipt = test.app.sessions().archive(&session).await.expect("archived");
    assert_eq!(state(&test, &compaction.id.to_string()).await, CompactionState::Cancelled);
    assert_eq!(test.longhand.store().jobs().due_sessions(9).await.expect("read").len(), 0);
    assert_eq!(test.revision(&session).await, receipt.revision);
    assert_eq!(test.view(&session).await.pending, None);
}

/// A session with an active compaction and another one that runs.
async fn compacted_and_running(test: &TestApp, script: &ScriptedSummarizer) -> (String, Watch, String) {
    let session = due(test).await;
    let mut watch = test.watch().await;
    watch.wait_for(EventKind::Compacted).await;
    test.settled().await;
    test.append(&session, &turns(10, 16, WORDS)).await;
    script.held().await;
    let compaction = pending(test, &session).await;
    (session, watch, compaction)
}

#[tokio::test]
async fn an_undo_ends_the_compaction_that_runs() {
    let lines = [Line::Say("S1".to_owned()), Line::Hold("S2".to_owned()), Line::Hold("S3".to_owned())];
    let script = ScriptedSummarizer::new(lines);
    let test = TestApp::with(script.clone()).await;
    let (session, mut watch, running) = compacted_and_running(&test, &script).await;
    test.app.compactions().undo(&session, None).await.expect("undone");
    assert_eq!(reason(watch.wait_for(EventKind::CompactionCancelled).await), "SUPERSEDED");
    watch.wait_for(EventKind::CompactionUndone).await;
    assert_eq!(state(&test, &running).await, CompactionState::Superseded);
    // An undo holds triggers; a request by hand finds a free worker and a free session.
    ask(&test, &session, "by hand").await;
    before_a_beat("the next compaction", script.held()).await;
    test.app.compactions().undo(&session, None).await.expect_err("nothing is left to undo");
    assert!(test.view(&session).await.pending.is_some(), "what could not be undone ended nothing");
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_redo_that_ends_the_compaction_that_runs_is_answered_also_when_it_is_asked_again() {
    let lines = [Line::Say("S1".to_owned()), Line::Hold("S2".to_owned())];
    let script = ScriptedSummarizer::new(lines);
    let test = TestApp::with(script.clone()).await;
    let session = due(&test).await;
    let mut watch = test.watch().await;
    watch.wait_for(EventKind::Compacted).await;
    test.app.compactions().undo(&session, None).await.expect("undone");
    ask(&test, &session, "by hand").await;
    script.held().await;
    let running = pending(&test, &session).await;
    let (redone, receipt) = test.once("redo", "r").compactions().redo(&session, None).await.expect("redone");
    assert_eq!(reason(watch.wait_for(EventKind::CompactionCancelled).await), "SUPERSEDED");
    watch.wait_for(EventKind::CompactionRedone).await;
    assert_eq!(state(&test, &running).await, CompactionState::Superseded);
    assert!(matches!(&redone, ReversedChange::Compaction(compaction) if compaction.undone_revision.is_none()));
    let again = test.once("redo", "r").compactions().redo(&session, None).await.expect("answered again");
    assert_eq!(again, (redone, receipt));
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_change_in_front_of_the_boundary_ends_the_compaction_that_runs_at_once() {
    for change in ["rewind", "edit", "supply"] {
        let silent = Silent::new();
        let test = TestApp::with(silent.clone()).await;
        let session = due(&test).await;
        silent.is_asked().await;
        let running = pending(&test, &session).await;
        let mut watch = test.watch().await;
        match change {
            "rewind" => drop(test.app.messages().rewind(&session, "a2", None).await.expect("rewound")),
            "edit" => {
                let better = [text(&format!("better {}", filler("u2", WORDS)))];
                drop(test.app.messages().edit(&session, "u2", &better, None).await.expect("edited"));
            }
            _ => {
                let tail_start = "u9".to_owned();
                let new = NewSummary { text: "mine".to_owned(), tail_start, ..NewSummary::default() };
                drop(test.app.compactions().supply_summary(&session, new).await.expect("supplied").answer);
            }
        }
        silent.is_left().await;
        assert_eq!(reason(watch.wait_for(EventKind::CompactionCancelled).await), "SUPERSEDED", "{change}");
        assert_eq!(state(&test, &running).await, CompactionState::Superseded, "{change}");
        assert_eq!(test.findings().await, [], "{change}");
    }
}

#[tokio::test]
async fn a_change_in_the_tail_leaves_the_compaction_that_runs_alone() {
    let script = ScriptedSummarizer::new([Line::Hold("S1".to_owned())]);
    let test = TestApp::with(script.clone()).await;
    let session = due(&test).await;
    script.held().await;
    let running = pending(&test, &session).await;
    let mut watch = test.watch().await;
    test.app.messages().pin(&session, "u1").await.expect("pinned");
    test.app.messages().edit(&session, "a9", &[text("in other words")], None).await.expect("edited");
    let messages = conversation("u10 \"on\"");
    test.app.messages().append(&session, messages, None, None).await.expect("appended");
    script.release();
    watch.wait_for(EventKind::Compacted).await;
    assert_eq!(state(&test, &running).await, CompactionState::Done);
    test.settled().await;
    assert_eq!(watch.count(EventKind::CompactionCancelled), 0);
    assert_eq!(test.findings().await, []);
}
