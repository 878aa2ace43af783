//! P11: the cost of a read depends on its result, not on the length of the history.

use crate::support::{TestApp, conversation, turns};
use longhand::app::append::ListMessages;
use longhand::app::compactions::NewSummary;
use longhand::app::events::ListEvents;
use longhand::app::sessions::{ForkPoint, SessionChange};
use longhand::app::views::ViewRequest;
use longhand::limits;
use longhand::model::compaction::CompactionState;
use longhand::model::event::EventKind;
use longhand::model::ids::MessageId;

const SMALL: usize = 1_000;
const LARGE: usize = 20_000;

/// A session with this number of messages, all but the last few covered by a summary; and the number of rows read for
/// an append below every threshold while the view still showed all messages.
async fn compacted(test: &TestApp, count: usize) -> (String, u64) {
    // A window that the session does not fill.
    let session = test.session("opencode@seed", 1_000_000_000, 0).await;
    let message = conversation("u \"x\"").remove(0);
    let named = |name: &str| {
        let mut message = message.clone();
        message.client_id = Some(name.to_owned());
        vec![message]
    };
    let append = async |messages| {
        test.app.messages().append(&session, messages, None, None).await.expect("appended");
    };
    append(named("first")).await;
    let mut left = count - 2;
    while left > 0 {
        let batch = left.min(limits::BATCH_MESSAGES_MAX);
        append(vec![message.clone(); batch]).await;
        left -= batch;
    }
    test.settled().await;
    let before = test.longhand.store().upkeep().rows_read();
    append(named("tail")).await;
    test.settled().await;
    let rows_of_append = test.longhand.store().upkeep().rows_read() - before;
    let summary = NewSummary { text: "so far".to_owned(), tail_start: "tail".to_owned(), ..NewSummary::default() };
    test.app.compactions().supply_summary(&session, summary).await.expect("supplied");
    // The decision loads the session, with all messages before it.
    test.settled().await;
    append(vec![message; 100]).await;
    (session, rows_of_append)
}

/// The number of rows that each kind of read fetches: the lower of two measurements, as the scheduler may poll meanwhile.
async fn costs(test: &TestApp, session: &str) -> Vec<(&'static str, u64)> {
    let (first, second) = (costs_once(test, session).await, costs_once(test, session).await);
    first.into_iter().zip(second).map(|((what, first), (_, second))| (what, first.min(second))).collect()
}

async fn costs_once(test: &TestApp, session: &str) -> Vec<(&'static str, u64)> {
    // The scheduler reads too when it evaluates a session.
    test.settled().await;
    let store = test.longhand.store();
    let mut costs = Vec::new();
    let mut before = store.upkeep().rows_read();
    let mut note = |what| {
        let now = store.upkeep().rows_read();
        costs.push((what, now - std::mem::replace(&mut before, now)));
    };
    let newest = test.revision(session).await;
    note("session");
    for (what, reverse, as_of) in [
        ("first page", false, None),
        ("last page", true, None),
        ("first page as of", false, Some(newest - 5)),
        ("last page as of", true, Some(newest - 5)),
    ] {
        let list = ListMessages { reverse, as_of, ..ListMessages::default() };
        let page = test.app.messages().list(session, list.clone()).await.expect("a page");
        assert_eq!(page.messages.len(), 50);
        note(what);
        let list = ListMessages { page_token: page.next_page_token, ..list };
        assert_eq!(test.app.messages().list(session, list).await.expect("a page").messages.len(), 50);
        note("the page behind it");
    }
    for (what, as_of) in [("view", None), ("view as of", Some(newest - 5))] {
        let request = ViewRequest { as_of, ..ViewRequest::default() };
        let view = test.app.views().get(session, request).await.expect("a view");
        assert!((98..=103).contains(&view.messages.len()), "{}", view.messages.len());
        note(what);
    }
    for (what, id) in [("first message", "first"), ("late message", "tail")] {
        test.app.messages().get(session, id).await.expect("a message");
        note(what);
    }
    let list = ListEvents { session: Some(session.to_owned()), page_size: 50, ..ListEvents::default() };
    let (events, _) = test.app.events().list(list).await.expect("events");
    assert_eq!(events.len(), 50);
    note("events");
    costs
}

async fn deep_fork(test: &TestApp, session: &str, depth: usize) -> String {
    let mut session = session.to_owned();
    for _ in 0..depth {
        let fork = test.app.sessions().fork(&session, ForkPoint::default(), None, String::new()).await;
        session = fork.expect("forked").0.session.id.to_string();
    }
    session
}

#[tokio::test]
async fn reads_cost_the_same_whatever_lies_behind_them() {
    let test = TestApp::start().await;
    let (small, few) = compacted(&test, SMALL).await;
    let (large, many) = compacted(&test, LARGE).await;
    // The scheduler polls for work, a few rows each time.
    assert!(few < 50 && many < 50, "{few} and {many} rows for an append");
    let expected = costs(&test, &small).await;
    for (what, rows) in &expected {
        let is_plausible = match *what {
            "session" => *rows < 500,
            // The view and the newest messages are in memory; those as of a revision are read.
            "view" => *rows == 0,
            "last page" => *rows < 5,
            _ => (1..500).contains(rows),
        };
        assert!(is_plausible, "{what}: {expected:?}");
    }
    assert_eq!(costs(&test, &large).await, expected);
    let shallow = costs(&test, &deep_fork(&test, &small, 50).await).await;
    assert_eq!(costs(&test, &deep_fork(&test, &large, 50).await).await, shallow);
    for ((what, rows), (_, without)) in shallow.iter().zip(&expected) {
        // Listing a history's events and finding a client's id read the table of its fifty owners once.
        assert!(*rows <= without + 60, "{what}: {rows} rows in a fork of forks, {without} without");
    }
}

/// The statements that the first view of a session runs after a start: the least of several, as the scheduler may poll
/// meanwhile.
async fn statements_of_a_cold_view(test: &TestApp, sessions: &[String]) -> u64 {
    let upkeep = test.longhand.store().upkeep();
    let mut least = u64::MAX;
    for session in sessions {
        test.settled().await;
        let before = upkeep.statements_run();
        test.view(session).await;
        least = least.min(upkeep.statements_run() - before);
    }
    least
}

/// Over a network, each statement is a round trip. The first view runs one that finds the session, one for what it is
/// now, one for what is active at its revision, one for its messages and one for their prune marks. A summary adds its
/// message and the event that names its author.
#[tokio::test]
async fn a_cold_view_runs_few_statements() {
    let test = TestApp::start().await;
    let (mut plain, mut summarized) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let session = test.manual_session().await;
        test.append(&session, "u \"x\"\na \"y\"\nu \"z\"").await;
        plain.push(session);
        let session = test.manual_session().await;
        let ids = test.append(&session, "u \"x\"\na \"y\"\nu \"z\"").await.ids;
        let tail_start = MessageId(ids[2]).to_string();
        let summary = NewSummary { text: "so far".to_owned(), tail_start, ..NewSummary::default() };
        test.app.compactions().supply_summary(&session, summary).await.expect("supplied");
        summarized.push(session);
    }
    test.settled().await;
    let test = test.restart().await;
    assert_eq!(statements_of_a_cold_view(&test, &plain).await, 5);
    assert_eq!(statements_of_a_cold_view(&test, &summarized).await, 7);
}

/// An evaluation that requests the compaction, its claim, its commit, and the evaluation behind it.
#[tokio::test]
async fn a_compaction_is_four_transactions() {
    let test = TestApp::start().await;
    let commits = || test.longhand.store().upkeep().figures().commits.count;
    let mut least = i64::MAX;
    for _ in 0..3 {
        let session = test.session("opencode@seed", 6_000, 1_000).await;
        test.append(&session, &turns(1, 8, 1_100)).await;
        test.settled().await;
        let before = commits();
        test.append(&session, &turns(9, 9, 1_100)).await;
        test.settled().await;
        let compactions = test.app.compactions().list(&session, 10, "").await.expect("a list").0;
        let states: Vec<_> = compactions.iter().map(|compaction| compaction.state).collect();
        assert_eq!(states, [CompactionState::Done]);
        // The append is one more.
        least = least.min(commits() - before - 1);
    }
    assert_eq!(least, 4);
}

/// Reads all pages; returns the number of items of each, and the maximum number of rows of one page.
async fn paged(test: &TestApp, mut page: impl AsyncFnMut(String) -> (usize, String)) -> (Vec<usize>, u64) {
    test.settled().await;
    let store = test.longhand.store();
    let (mut counts, mut most, mut next) = (Vec::new(), 0, String::new());
    loop {
        let before = store.upkeep().rows_read();
        let (count, behind) = page(next).await;
        most = most.max(store.upkeep().rows_read() - before);
        counts.push(count);
        if behind.is_empty() {
            return (counts, most);
        }
        next = behind;
    }
}

#[tokio::test]
async fn a_page_that_its_bytes_end_reads_no_more_than_it_returns() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    // Six parts, each large enough to be stored as a blob: seven messages fill a page's bytes.
    for index in 0..40 {
        test.append(&session, &format!("u{index}{}", " 70000c".repeat(6))).await;
    }
    for reverse in [false, true] {
        let (counts, most) = paged(&test, async |page_token| {
            let list = ListMessages { page_size: 100, reverse, page_token, ..ListMessages::default() };
            let page = test.app.messages().list(&session, list).await.expect("a page");
            (page.messages.len(), page.next_page_token)
        })
        .await;
        assert_eq!(counts, [7, 7, 7, 7, 7, 5], "reverse: {reverse}");
        // The rows of forty messages and of their sizes, and the parts of eight messages.
        assert!(most < 250, "{most} rows for seven messages, reverse: {reverse}");
    }
}

#[tokio::test]
async fn a_page_of_few_events_among_many_reads_only_so_far() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let message = conversation("u \"x\"").remove(0);
    for _ in 0..20 {
        let batch = vec![message.clone(); limits::BATCH_MESSAGES_MAX];
        test.app.messages().append(&session, batch, None, None).await.expect("appended");
    }
    let title = SessionChange { title: Some("late".to_owned()), ..SessionChange::default() };
    test.app.sessions().update(&session, title).await.expect("updated");
    let forked = deep_fork(&test, &session, 1).await;
    for session in [None, Some(session), Some(forked)] {
        let (counts, most) = paged(&test, async |after| {
            let kinds = vec![EventKind::SessionUpdated];
            let list = ListEvents { session: session.clone(), kinds, after, ..ListEvents::default() };
            let (events, next) = test.app.events().list(list).await.expect("a page");
            (events.len(), next)
        })
        .await;
        assert_eq!(counts.iter().sum::<usize>(), 1, "{session:?}: {counts:?}");
        let scan = u64::try_from(limits::EVENTS_SCAN_MAX).expect("positive");
        assert!(most <= scan + 300, "{session:?}: {most} rows for one page");
    }
}
