//! The examination of damaged stores without a daemon.

use crate::cli::{Daemon, longhand};
use crate::support::{TestApp, connect, copy_database, private_folder};
use longhand::daemon::offline::{self, Diagnosis, ExaminationMode};
use std::path::Path;
use tempfile::TempDir;

pub(crate) async fn examine(directory: &Path, mode: ExaminationMode) -> Vec<Diagnosis> {
    let mut found = Vec::new();
    let examined =
        offline::examine(directory, mode, &mut |diagnosis| found.push(diagnosis), &|_| {}).await.expect("examined");
    assert_eq!(usize::try_from(examined.findings), Ok(found.len()));
    found
}

/// A copy of a closed store, altered by SQL.
async fn altered(closed: &Path, sql: &'static str) -> TempDir {
    let folder = private_folder();
    copy_database(closed, folder.path());
    let database = connect(folder.path());
    database.execute_batch(sql).expect(sql);
    database.close().expect("closed");
    folder
}

#[tokio::test]
async fn derived_rows_are_repaired_on_request() {
    let test = crate::tamper::rich().await;
    test.append("main", "a40 \"still\" open").await;
    let closed = test.stop().await;
    assert_eq!(examine(closed.path(), ExaminationMode::Repair).await, [], "a whole store");
    let queued = altered(closed.path(), "update job set queued = 1 where id = 1 and state > 2").await;
    assert_eq!(examine(queued.path(), ExaminationMode::Report).await, [], "a job that ended while it was queued");
    for (table, sql) in [
        ("session", "update session set revision = revision - 1 where id = 1"),
        ("session", "update session set chain_hash = x'00' where id = 1"),
        ("session", "update session set message_count = 99"),
        ("session", "update session set update_period = 0 where id = 1"),
        ("open_message", "delete from open_message"),
        ("open_message", "insert into open_message values (1, 1, 1000, null)"),
        ("draft", "insert into draft (id, message_id, number, kind, body) values (900, 1, 1, 1, 'words')"),
        (
            "message_token_count",
            "insert into message_token_count values (1, x'00112233445566778899aabbccddeeff', x'00')",
        ),
        ("search_progress", "insert or replace into search_progress values (1, 1000000)"),
        ("job", "drop trigger if exists job_is_final; update job set state = 2, end_time = null where id = 1"),
    ] {
        let folder = altered(closed.path(), sql).await;
        let before = std::fs::read(folder.path().join("longhand.db")).expect("a file");
        let found = examine(folder.path(), ExaminationMode::Report).await;
        assert!(
            found.iter().any(|diagnosis| diagnosis.table == table && !diagnosis.row.is_empty()),
            "{sql}: {found:?}"
        );
        assert!(found.iter().all(|diagnosis| !diagnosis.repaired), "{sql}: {found:?}");
        assert_eq!(std::fs::read(folder.path().join("longhand.db")).expect("a file"), before, "{sql}: unchanged");
        let found = examine(folder.path(), ExaminationMode::Repair).await;
        assert!(found.iter().all(|diagnosis| diagnosis.repaired) && !found.is_empty(), "{sql}: {found:?}");
        assert_eq!(examine(folder.path(), ExaminationMode::Repair).await, [], "{sql}");
        let eternal = "select count(*) from open_message where expire_time is null";
        assert_eq!(crate::support::number(folder.path(), eternal), 0, "{sql}: every open message expires");
        assert_eq!(TestApp::copy_of(folder.path()).await.findings().await, [], "{sql}");
    }
}

#[tokio::test]
async fn chained_rows_are_reported_and_never_repaired() {
    let test = crate::tamper::rich().await;
    let closed = test.stop().await;
    for (sql, expected) in [
        ("drop trigger event_is_final; update event set actor = 'eve' where seq = 3", "the event was altered"),
        ("drop trigger mark_is_final; update mark set body = x'00'", "rows of this revision"),
    ] {
        let folder = altered(closed.path(), sql).await;
        let found = examine(folder.path(), ExaminationMode::Repair).await;
        assert!(found.iter().any(|diagnosis| diagnosis.message.contains(expected)), "{sql}: {found:?}");
        let of_chain = |found: &[Diagnosis]| found.iter().filter(|diagnosis| diagnosis.table == "event").count();
        assert_eq!(
            of_chain(&examine(folder.path(), ExaminationMode::Repair).await),
            of_chain(&found),
            "{sql}: it stays"
        );
    }
}

#[tokio::test]
async fn a_head_is_not_moved_over_damage() {
    let closed = crate::tamper::rich().await.stop().await;
    for (sql, expected) in [
        (
            "drop trigger event_is_final; update event set actor = 'eve' where session_id = 1 and revision = 3; \
             update session set revision = revision - 1 where id = 1",
            "the chain is broken at revision 3",
        ),
        ("update session set revision = revision + 1 where id = 1", "are missing behind revision"),
    ] {
        let folder = altered(closed.path(), sql).await;
        let head = |folder: &Path| crate::support::number(folder, "select revision from session where id = 1");
        let before = head(folder.path());
        let found = examine(folder.path(), ExaminationMode::Repair).await;
        let of_head = |diagnosis: &&Diagnosis| diagnosis.table == "session" && diagnosis.message.contains(expected);
        let refused = found.iter().find(of_head).unwrap_or_else(|| panic!("{sql}: {found:?}"));
        assert!(!refused.repaired && refused.row == "1", "{sql}: {refused:?}");
        assert_eq!(head(folder.path()), before, "{sql}");
    }
}

#[tokio::test]
async fn jobs_that_contradict_themselves_are_reported() {
    let closed = crate::tamper::rich().await.stop().await;
    for (sql, expected) in [
        ("update job set end_time = null where id = 1", "contradicts"),
        ("update job set state = 9 where id = 1", "contradicts"),
        (
            "drop index job_current; update job set state = 1, end_time = null \
             where session_id = 1 and id in (select id from job where session_id = 1 limit 2)",
            "more than one current",
        ),
    ] {
        let folder = altered(closed.path(), sql).await;
        let found = examine(folder.path(), ExaminationMode::Report).await;
        let is_it = |diagnosis: &Diagnosis| diagnosis.table == "job" && diagnosis.message.contains(expected);
        assert!(found.iter().any(is_it), "{sql}: {found:?}");
    }
}

#[tokio::test]
async fn a_damaged_search_index_is_filled_from_the_messages_again() {
    let closed = crate::tamper::rich().await.stop().await;
    let sql = "insert into search (rowid, words) values (1, '1_one 1_two'); \
        insert or replace into search_progress values (1, 3); update search_data set block = x'00' where id > 10";
    let folder = altered(closed.path(), sql).await;
    let found = examine(folder.path(), ExaminationMode::Report).await;
    assert!(found.iter().any(|diagnosis| diagnosis.message.to_ascii_lowercase().contains("fts5")), "{found:?}");
    let found = examine(folder.path(), ExaminationMode::Repair).await;
    assert!(found.iter().all(|diagnosis| diagnosis.repaired), "{found:?}");
    assert_eq!(examine(folder.path(), ExaminationMode::Report).await, []);
    let progress = crate::support::number(folder.path(), "select max(revision) from search_progress");
    assert_eq!(progress, 0, "the daemon begins anew");
}

#[tokio::test]
async fn damaged_pages_are_reported() {
    let test = crate::tamper::rich().await;
    let closed = test.stop().await;
    let folder = altered(closed.path(), "pragma wal_checkpoint(truncate)").await;
    let path = folder.path().join("longhand.db");
    let whole = std::fs::read(&path).expect("a file");
    let pages = whole.len() / 4_096;
    // The first of these pages have the schema, so that nothing else can be read.
    for first in [pages / 2, pages - 9, 1] {
        let mut bytes = whole.clone();
        bytes[first * 4_096..][..8 * 4_096].fill(0xa5);
        std::fs::write(&path, bytes).expect("a file");
        let found = examine(folder.path(), ExaminationMode::Report).await;
        assert!(found.iter().any(|diagnosis| diagnosis.table == "longhand.db"), "page {first}: {found:?}");
        let before = std::fs::read(&path).expect("a file");
        let found = examine(folder.path(), ExaminationMode::Repair).await;
        assert!(found.iter().all(|diagnosis| !diagnosis.repaired), "page {first}: {found:?}");
        assert_eq!(std::fs::read(&path).expect("a file"), before, "page {first}: nothing is written");
    }
}

#[test]
fn the_command_needs_a_store_without_a_daemon() {
    let home = private_folder();
    let daemon = Daemon::start(home.path());
    let doctor = |directory: &Path| longhand(home.path()).arg("doctor").arg(directory).output().expect("it runs");
    let refused = doctor(&daemon.directory);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("another daemon has"), "{refused:?}");
    let missing = doctor(&home.path().join("nothing"));
    assert!(!missing.status.success() && !home.path().join("nothing").exists(), "{missing:?}");
    let directory = daemon.directory.clone();
    daemon.stop();
    let whole = doctor(&directory);
    assert!(whole.status.success() && String::from_utf8_lossy(&whole.stdout).contains("no findings"), "{whole:?}");
}
