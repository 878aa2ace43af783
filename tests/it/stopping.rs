//! Calls that wait, and a daemon that stops.

use crate::support::{ScriptedSummarizer, TestApp, soon, turns};
use longhand::app::Reason;
use longhand::app::search::SearchRequest;
use longhand::app::summary_tasks::LeaseRequest;
use longhand::app::views::{OverflowAction, ViewRequest};
use longhand::pb;
use longhand::scheduler;
use std::time::Duration;

/// The field with the time for which a call waits.
const WAIT: &str = "wait_timeout";

#[tokio::test]
async fn every_call_that_waits_ends_when_the_daemon_stops() {
    let pool = pb::DESCRIPTORS.clone();
    let methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
    let waiting = methods.filter(|method| method.input().get_field_by_name(WAIT).is_some());
    let mut names: Vec<String> = waiting.map(|method| method.name().to_owned()).collect();
    names.sort();
    assert_eq!(names, ["GetView", "LeaseSummaryTask", "SearchHistory"], "a new one is to be tried here");

    let long = Duration::from_secs(100);
    let options = scheduler::Options { client_wait: long, ..scheduler::Options::default() };
    let test = TestApp::with_options(ScriptedSummarizer::new([]), options).await;
    // Its summary waits for a client.
    let due = test.session("opencode@seed", 6_000, 1_000).await;
    assert!(test.append(&due, &turns(1, 9, 1_400)).await.context.due);
    let other = test.manual_session().await;
    let view = ViewRequest { action: OverflowAction::Wait, wait: Some(long), ..ViewRequest::default() };
    let lease = LeaseRequest { sessions: vec![other], wait: Some(long), ..LeaseRequest::default() };
    let search = SearchRequest { query: "x".to_owned(), min_seq: 1 << 40, wait: long, ..SearchRequest::default() };
    let answers = futures::future::join4(
        test.app.views().get(&due, view),
        test.app.summary_tasks().lease(lease),
        test.app.history().search(&search),
        async { test.begin_stop() },
    );
    let (view, lease, search, ()) = soon("the end of all that waits", answers).await;
    assert!(!view.expect("what is there").fits);
    for reason in [lease.map(drop), search.map(drop)].map(|answer| answer.expect_err("it waits").reason) {
        assert_eq!(reason, Reason::ShuttingDown);
    }
}
