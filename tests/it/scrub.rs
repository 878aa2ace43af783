//! The verification of the store in the background.

use crate::cli::Daemon;
use crate::database::Database;
use crate::engines::open_store;
use crate::support::{TestApp, private_folder, soon};
use crate::tamper;
use longhand::app::scrub::{ScrubItem, ScrubOptions, ScrubState};
use longhand::clock::Clock;
use longhand::store::{CheckedChains, Finding, Store};
use std::path::Path;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A pass from its begin to its end.
async fn scrub(test: &TestApp) -> (Vec<Finding>, CheckedChains) {
    let mut items = test.app.daemon().follow_scrub().expect("an operator");
    let mut findings = Vec::new();
    loop {
        match soon("a piece", items.recv()).await.expect("an end").expect("no error") {
            ScrubItem::Finding(finding) => findings.push(finding),
            ScrubItem::Progress(_) => {}
            ScrubItem::End(checked) => return (findings, checked),
        }
    }
}

#[tokio::test]
async fn a_whole_store_has_no_findings() {
    let test = tamper::rich().await;
    let events = test.number("select count(*) from event");
    let sessions = test.number("select count(*) from session");
    let (findings, checked) = scrub(&test).await;
    assert_eq!(findings, []);
    assert_eq!(checked, CheckedChains { sessions, events, findings: 0 });
    let state = test.app.daemon().info().await.expect("the state").scrub;
    assert!(!state.running && state.end_time.is_some() && state.bytes > 100_000, "{state:?}");
    let test = test.restart().await;
    let mut states = test.longhand.store().upkeep().scrub_state();
    let again =
        soon("the stored state", states.wait_for(|state| state.end_time.is_some())).await.expect("a state").clone();
    assert_eq!((again.checked, again.end_time), (state.checked, state.end_time), "it is kept over a restart");
    assert!(!again.running);
}

#[tokio::test]
async fn altered_bytes_are_found_with_session_and_revision() {
    let test = tamper::rich().await;
    let closed = test.stop().await;
    for (sql, session, revision) in [
        ("update message set head = x'00' where id = 2", true, "select revision from message where id = 2"),
        (
            "update part set body = substr(body, 2) where body is not null",
            true,
            "select min(revision) from part where body is not null",
        ),
        ("update event set actor = 'eve' where seq = 3", true, "select revision from event where seq = 3"),
        ("update blob set data = substr(data, 2)", true, "select min(revision) from part where blob_hash is not null"),
        ("delete from event where seq = (select max(seq) from event) - 1", false, "select 0"),
    ] {
        let test = TestApp::altered(closed.path(), sql).await;
        let (findings, checked) = scrub(&test).await;
        let expected = crate::support::number(test.directory(), revision);
        let is_it = |found: &&Finding| found.session.is_some() == session && found.revision == expected;
        assert!(findings.iter().any(|found| is_it(&found)), "{sql}: {findings:?}");
        assert_eq!(usize::try_from(checked.findings), Ok(findings.len()), "{sql}");
        let state = test.app.daemon().info().await.expect("the state").scrub;
        assert_eq!((state.finding_count(), &*state.findings), (checked.findings, &findings), "{sql}");
    }
}

#[tokio::test]
async fn a_pass_that_begins_anew_does_not_hide_what_the_last_one_found() {
    let test = tamper::rich().await;
    let closed = test.stop().await;
    let test = TestApp::altered(closed.path(), "update event set actor = 'eve' where seq = 3").await;
    let (_, checked) = scrub(&test).await;
    assert_eq!(checked.findings, 1);
    let begun = ScrubState { last_findings: checked.findings, ..ScrubState::default() };
    assert_eq!(begun.finding_count(), 1);
    let mut database = test.database();
    database.drop_protection();
    database.execute_batch("update event set actor = '' where seq = 3").expect("altered back");
    drop(database);
    let (findings, _) = scrub(&test).await;
    assert_eq!(findings, []);
    assert_eq!(test.app.daemon().info().await.expect("the state").scrub.finding_count(), 0);
}

/// A store whose scrub has this rate.
struct Scrubbing {
    store: Store,
    stopping: CancellationToken,
    tasks: [JoinHandle<()>; 2],
}

impl Scrubbing {
    async fn start(directory: &Path, bytes_per_second: u64, interval: Option<Duration>) -> Self {
        let clock = Clock::default();
        let (store, writer) = open_store(directory, clock.clone()).await;
        let stopping = CancellationToken::new();
        let scrub = store.upkeep().clone().scrub(ScrubOptions { bytes_per_second, interval }, clock, stopping.clone());
        Self { store, stopping, tasks: [tokio::spawn(writer), tokio::spawn(scrub)] }
    }

    async fn until(&self, what: &str, is_it: impl FnMut(&ScrubState) -> bool) -> ScrubState {
        let mut states = self.store.upkeep().scrub_state();
        soon(what, states.wait_for(is_it)).await.expect("a state").clone()
    }

    async fn stop(self) {
        let Self { store, stopping, tasks } = self;
        stopping.cancel();
        store.close();
        for task in tasks {
            soon("the end", task).await.expect("no panic");
        }
    }
}

#[tokio::test]
async fn a_stopped_pass_goes_on_behind_the_last_whole_session() {
    let test = tamper::rich().await;
    let sessions = test.number("select count(*) from session");
    let events = test.number("select count(*) from event");
    let closed = test.stop().await;
    // The pauses behind the first session would last for hours.
    let slow = Scrubbing::start(closed.path(), 1, None).await;
    slow.store.upkeep().request_scrub();
    let stopped = slow.until("the first page", |state| state.checked.events > 0).await;
    assert!(stopped.running && stopped.checked.events < events, "{stopped:?}");
    slow.stop().await;
    // It needs no request.
    let fast = Scrubbing::start(closed.path(), 1 << 40, None).await;
    let ended = fast.until("the end", |state| state.end_time.is_some()).await;
    assert_eq!(ended.checked, CheckedChains { sessions, events, findings: 0 }, "nothing is counted twice");
    assert_eq!(ended.pass, 1);
    assert_eq!(ended.start_time, stopped.start_time);
    fast.stop().await;
}

#[tokio::test]
async fn a_pass_is_due_an_interval_after_the_last_one() {
    let test = TestApp::start().await;
    test.manual_session().await;
    let closed = test.stop().await;
    let due = Scrubbing::start(closed.path(), 1 << 40, Some(Duration::ZERO)).await;
    due.until("a third pass", |state| state.pass == 3).await;
    due.stop().await;
}

#[test]
fn the_command_reports_findings_by_its_exit_code() {
    let home = private_folder();
    let daemon = Daemon::start(home.path());
    daemon.text(&["create", "--title", "one"]);
    let whole = daemon.text(&["audit", "scrub"]);
    assert!(whole.contains("1 session and") && whole.contains("no findings"), "{whole}");
    let status = daemon.text(&["status", "--check"]);
    assert!(status.contains("scrub           ended") && !status.contains("doctor"), "{status}");
    let directory = daemon.directory.clone();
    daemon.stop();
    let mut database = Database::of(&directory);
    database.drop_protection();
    assert_eq!(database.execute("update event set request_id = 'r' where seq = 1"), Ok(1));
    drop(database);
    let daemon = Daemon::start(home.path());
    let run = |arguments: &[&str]| daemon.run(arguments);
    let found = run(&["audit", "scrub"]);
    let text = String::from_utf8_lossy(&found.stdout);
    assert!(found.status.code() == Some(3) && text.contains("#1: ") && text.contains("1 finding"), "{found:?}");
    let status = run(&["status", "--check"]);
    let text = String::from_utf8_lossy(&status.stdout);
    assert_eq!(status.status.code(), Some(1), "{text}");
    assert!(["1 FINDING IN THE STORE", "#1: ", "`longhand doctor`"].iter().all(|told| text.contains(told)), "{text}");
    let metrics = run(&["status", "--metrics"]).stdout;
    assert!(String::from_utf8_lossy(&metrics).contains("longhand_scrub_findings 1\n"), "{metrics:?}");
    daemon.stop();
}
