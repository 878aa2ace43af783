//! Figures of the running daemon: the queue of the writer, its commits and its log, reads, sessions in memory, and the
//! lag of event streams.

use crate::support::{TestApp, conversation};
use futures::FutureExt as _;
use longhand::app::admin::ServerInfo;
use longhand::app::events::{Frame, Start, SubscribeRequest};
use longhand::app::sessions::SessionChange;

async fn info(test: &TestApp) -> ServerInfo {
    test.app.daemon().info().await.expect("the state")
}

#[tokio::test]
async fn mutations_are_counted_until_their_commit() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u \"so that nothing is read for the next appends\"").await;
    test.settled().await;
    // A commit is visible a little before its mutation counts as done; that of an earlier one does once a later one is
    // answered.
    let change = SessionChange { title: Some("settled".to_owned()), ..SessionChange::default() };
    test.app.sessions().update(&session, change).await.expect("changed");
    let before = info(&test).await.figures;
    assert_eq!(before.queued_mutations, 0);
    let mut database = test.database();
    database.lock_writes();
    let append = |name| Box::pin(test.app.messages().append(&session, conversation(name), None, None));
    let mut appends = ["u1 \"one\"", "u2 \"two\"", "u3 \"three\""].map(append);
    for append in &mut appends {
        assert!(append.now_or_never().is_none(), "the commit waits for the lock");
    }
    assert_eq!(info(&test).await.figures.queued_mutations, 3);
    database.unlock();
    for append in appends {
        append.await.expect("appended");
    }
    let figures = info(&test).await.figures;
    assert!(figures.commits.count > before.commits.count, "{figures:?}");
    assert!(figures.commits.total_micros > before.commits.total_micros, "{figures:?}");
    assert_eq!(figures.oldest_read_ms, 0, "{figures:?}");
    // That of PostgreSQL is of the whole server.
    let log = std::fs::metadata(test.directory().join("longhand.db-wal")).map_or(0, |log| log.len());
    assert_eq!(u64::try_from(figures.log_bytes), Ok(log));
    assert_eq!(log > 0, crate::engines::is_sqlite());
}

#[tokio::test]
async fn sessions_in_memory_are_counted() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"one\"").await;
    test.settled().await;
    test.view(&session).await;
    let first = info(&test).await;
    if crate::support::loaded_bytes() == 0 {
        assert_eq!((first.loaded_count, first.loaded_bytes), (0, 0));
        return;
    }
    assert_eq!(first.loaded_count, 1);
    test.append(&session, "a1 10000c").await;
    test.view(&session).await;
    let second = info(&test).await;
    assert_eq!(second.loaded_count, 1);
    assert!(second.loaded_bytes >= first.loaded_bytes + 10_000, "{} to {}", first.loaded_bytes, second.loaded_bytes);
}

#[tokio::test]
async fn the_lag_of_the_slowest_stream_is_counted() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let lag = async || info(&test).await.stream_lag;
    assert_eq!(lag().await, 0, "there is no stream");
    let request = || SubscribeRequest { start: Start::Now, ..SubscribeRequest::default() };
    let mut slow = test.app.events().subscribe(request()).await.expect("a stream");
    assert!(matches!(slow.next().await.expect("a frame"), Frame::Ready { .. }));
    assert_eq!(lag().await, 0);
    let before = test.longhand.store().log().head_seq();
    test.append(&session, "u1 \"one\"\na1 \"two\"").await;
    test.settled().await;
    let events = test.longhand.store().log().head_seq() - before;
    let ahead = test.app.events().subscribe(request()).await.expect("a stream");
    assert!(events >= 2);
    assert_eq!(lag().await, events, "the slowest stream determines it");
    assert!(matches!(slow.next().await.expect("a frame"), Frame::Events { .. }));
    assert_eq!(lag().await, 0);
    test.append(&session, "u2 \"three\"").await;
    assert!(lag().await >= 1);
    drop((slow, ahead));
    assert_eq!(lag().await, 0, "closed streams have none");
}
