//! Robustness of the scheduler: no failed read or operation stops it permanently, or delays an unrelated session.

use crate::database::Database;
use crate::support::{Line, ScriptedSummarizer, TestApp, soon, turns};
use longhand::app::Reason;
use longhand::app::compactions::NewCompaction;
use longhand::background;
use longhand::limits;
use longhand::model::compaction::{Compaction, CompactionKind};
use longhand::model::event::EventKind;
use longhand::turns::{Share, Turns};
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::Streaming;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

const WORDS: usize = 1_100;

async fn alter(directory: &Path, sql: &'static str) {
    Database::of(directory).execute(sql).expect(sql);
}

async fn health(test: &TestApp, what: &str, is_so: impl FnMut(&longhand::scheduler::Health) -> bool) {
    let mut health = test.longhand.scheduler_health();
    soon(what, health.wait_for(is_so)).await.expect("the scheduler is there");
}

/// The health status of compactions.
async fn served(test: &TestApp) -> Streaming<HealthCheckResponse> {
    let (routes, reporter) = longhand::grpc::router(test.longhand.clone()).await;
    tokio::spawn(longhand::grpc::report_health(reporter, test.longhand.clone(), CancellationToken::new()));
    let request = HealthCheckRequest { service: "longhand.v1.CompactionService".to_owned() };
    HealthClient::new(routes.in_process()).watch(request).await.expect("a watch").into_inner()
}

/// All threads of the background, which compute nothing else until they are released.
struct HeldBackground {
    end: Arc<Barrier>,
    holders: Vec<JoinHandle<()>>,
}

impl HeldBackground {
    fn begin() -> Self {
        let barrier = || Arc::new(Barrier::new(background::count() + 1));
        let (begun, end) = (barrier(), barrier());
        let hold = |_| {
            let (begun, end) = (begun.clone(), end.clone());
            std::thread::spawn(move || {
                background::compute(move || {
                    begun.wait();
                    end.wait();
                });
            })
        };
        let holders = (0..background::count()).map(hold).collect();
        begun.wait();
        Self { end, holders }
    }

    fn release(self) {
        self.end.wait();
        self.holders.into_iter().for_each(|holder| holder.join().expect("it has ended"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_waits_for_what_the_background_computes() {
    let test = TestApp::start().await;
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    test.append(&session, &turns(1, 8, WORDS)).await;
    test.settled().await;
    let held = HeldBackground::begin();
    let calls = async {
        assert!(test.append(&session, &turns(9, 9, WORDS)).await.context.due, "the test needs it to be due");
        for turn in 10..30 {
            test.append(&session, &turns(turn, turn, 10)).await;
            test.view(&session).await;
        }
    };
    let turn = Turns::new(1, 1, 10).begin(&Share::default()).expect("room");
    soon("the calls to be answered", turn.take_turns(calls)).await;
    assert!(!test.is_settled().await, "the compaction cannot be computed");
    held.release();
    test.settled().await;
    let compacted = test.events().await.iter().filter(|event| event.body.kind() == EventKind::Compacted).count();
    assert_eq!(compacted, 1);
}

#[tokio::test]
async fn a_read_error_at_the_start_is_reported_and_retried() {
    let test = TestApp::with(ScriptedSummarizer::new([])).await;
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    let directory = test.stop().await;
    alter(directory.path(), "alter table job rename column lease_until to away").await;
    let script = ScriptedSummarizer::new([Line::Say("S1".to_owned())]);
    let test = TestApp::reopen(directory, script).await;
    let mut served = served(&test).await;
    health(&test, "the failure", |health| health.failure.as_ref().is_some_and(|failure| failure.attempts > 1)).await;
    let failure = test.app.daemon().info().await.expect("the state").scheduler_failure.expect("a failure");
    assert!(failure.message.contains("lease_until"), "{failure:?}");
    assert!(failure.since <= test.clock.now() && failure.attempts > 1, "{failure:?}");
    let next_status = async |served: &mut Streaming<HealthCheckResponse>, status: ServingStatus| {
        while soon("a word on health", served.message()).await.expect("a status").expect("no end").status() != status {}
    };
    next_status(&mut served, ServingStatus::NotServing).await;
    alter(test.directory(), "alter table job rename column away to lease_until").await;
    health(&test, "the recovery", |health| health.failure.is_none()).await;
    next_status(&mut served, ServingStatus::Serving).await;
    assert_eq!(test.app.daemon().info().await.expect("the state").scheduler_failure, None);
    let mut watch = test.watch().await;
    test.append(&session, &turns(1, 9, WORDS)).await;
    watch.wait_for(EventKind::Compacted).await;
}

#[tokio::test]
async fn a_session_that_cannot_be_read_is_named_and_holds_up_no_other() {
    let test = TestApp::with(ScriptedSummarizer::new([])).await;
    let broken = test.session("opencode@seed", 6_000, 1_000).await;
    let sound = test.session("opencode@seed", 6_000, 1_000).await;
    let directory = test.stop().await;
    alter(
        directory.path(),
        "update session set window = x'ffffffff', due_revision = revision, due_time = 0, wake_time = 1 where id = 1",
    )
    .await;
    let script = ScriptedSummarizer::new([Line::Say("S1".to_owned())]);
    let test = TestApp::reopen(directory, script).await;
    health(&test, "the failing session", |health| health.failing.len() == 1 && health.failure.is_none()).await;
    let mut watch = test.watch().await;
    test.append(&sound, &turns(1, 9, WORDS)).await;
    assert_eq!(watch.wait_for(EventKind::Compacted).await.session_id.to_string(), sound);
    let info = test.app.daemon().info().await.expect("the state");
    assert_eq!(info.failing.iter().map(ToString::to_string).collect::<Vec<_>>(), [broken]);
}

async fn ask(test: &TestApp, session: &str, name: &str) -> Result<(Compaction, bool), Reason> {
    let wanted = NewCompaction { instructions: name.to_owned(), ..NewCompaction::of_kind(CompactionKind::Summary) };
    test.once(name, "")
        .compactions()
        .start(session, wanted)
        .await
        .map(|started| started.answer)
        .map_err(|error| error.reason)
}

#[tokio::test]
async fn only_so_many_compactions_by_hand_wait_in_a_session() {
    let most = limits::SESSION_COMPACTIONS_WAITING_MAX;
    let script = ScriptedSummarizer::new([Line::Hold("S1".to_owned()), Line::Say("S2".to_owned())]);
    let test = TestApp::with(script.clone()).await;
    let session = test.session("opencode@seed", 60_000, 1_000).await;
    test.append(&session, &turns(1, 9, WORDS)).await;
    ask(&test, &session, "the current one").await.expect("taken");
    script.held().await;
    let mut waiting = Vec::new();
    for number in 0..most {
        waiting.push(ask(&test, &session, &format!("{number}")).await.expect("taken").0.id);
    }
    let (revision, jobs) = (test.revision(&session).await, test.number("select count(*) from job"));
    for _ in 0..3 {
        assert_eq!(ask(&test, &session, "one too many").await, Err(Reason::TooManyCompactions));
    }
    let wanted =
        NewCompaction { instructions: "one too many".to_owned(), ..NewCompaction::of_kind(CompactionKind::Summary) };
    let refused = test.app.compactions().start(&session, wanted).await.expect_err("too many");
    assert_eq!(refused.metadata["limit"], most.to_string());
    assert_eq!(test.number("select count(*) from job"), jobs, "nothing was written");
    assert_eq!(test.revision(&session).await, revision);
    // A repeated request gets its earlier answer, a waiting compaction is joined, and other sessions are not affected.
    assert_eq!(ask(&test, &session, "3").await.map(|(compaction, _)| compaction.id), Ok(waiting[3]));
    let wanted = NewCompaction { instructions: "4".to_owned(), ..NewCompaction::of_kind(CompactionKind::Summary) };
    let (joined, is_joined) = test.app.compactions().start(&session, wanted).await.expect("joined").answer;
    assert_eq!((joined.id, is_joined), (waiting[4], true));
    let other = test.session("opencode@seed", 60_000, 1_000).await;
    test.append(&other, &turns(1, 9, WORDS)).await;
    ask(&test, &other, "").await.expect("taken");
    // A cancelled one lets one more in.
    test.app.compactions().cancel(&waiting[0].to_string()).await.expect("cancelled");
    ask(&test, &session, "in its place").await.expect("taken");
    assert_eq!(ask(&test, &session, "one too many").await, Err(Reason::TooManyCompactions));
    assert_eq!(test.findings().await, []);
}
