//! P2: the database itself refuses every change of written rows.

use crate::support::{TestApp, text};
use longhand::app::compactions::NewCompaction;
use longhand::model::compaction::CompactionKind;
use longhand::model::event::EventKind;

#[tokio::test]
async fn written_rows_can_be_neither_changed_nor_deleted() {
    let test = TestApp::start().await;
    let session = crate::support::prunable(&test).await;
    let mut watch = test.watch().await;
    test.app
        .compactions()
        .start(&session, NewCompaction::of_kind(CompactionKind::Prune))
        .await
        .expect("there is something to prune");
    watch.wait_for(EventKind::Compacted).await;
    test.app.messages().edit(&session, "u1", &[text("better")], None).await.expect("edited");
    test.app.messages().pin(&session, "u2").await.expect("pinned");
    test.app.messages().unpin(&session, "u2").await.expect("unpinned");
    test.append(&session, "a9 \"still open\" open").await;
    let fork = test.app.sessions().fork(&session, Default::default(), None, String::new()).await;
    fork.expect("forked");
    let mut database = test.database();
    for statement in [
        "update part set body = x'00'",
        "update part set salt = x'00'",
        "update part set position = 9",
        "delete from part",
        "update message set seal = x'00' where sealed_revision is not null",
        "update message set sealed_revision = null where sealed_revision is not null",
        "update message set head = x'00' where sealed_revision is null",
        "update message set parts = x'00', parts_length = 1 where sealed_revision is null",
        "update message set parts = null, parts_length = null where sealed_revision is not null",
        "update message set revision = 99 where sealed_revision is null",
        "delete from message",
        "update event set body = x'00'",
        "update event set hash = x'00'",
        "delete from event",
        "update mark set body = x'00'",
        "update mark set voided_revision = 7 where voided_revision is not null",
        "update mark set voided_revision = null where voided_revision is not null",
        "delete from mark",
        "update pruned set compaction_id = x'00'",
        "delete from pruned",
        "update layout set body = x'00'",
        "delete from layout",
        "update policy set hash = x'00'",
        "delete from policy",
        "update policy_text set json = '{}'",
        "delete from policy_text",
        "update segment set last_revision = 1",
        "delete from segment",
        "update session set public_id = x'00'",
        "update session set create_hash = x'00'",
        "update session set fork_revision = 1",
        "update session set create_time = 0",
        "delete from session",
        "update blob set data = x'00'",
        "delete from blob",
    ] {
        let table = statement.split_whitespace().find(|word| !["update", "delete", "from"].contains(word));
        let rows: i64 = database.value(&format!("select count(*) from {}", table.expect("one")));
        assert!(rows > 0, "{statement} would touch nothing");
        let refusal = database.execute_batch(statement);
        let error = refusal.expect_err(statement).to_string();
        assert!(error.contains("never"), "{statement}: {error}");
    }
    assert_eq!(test.findings().await, []);
}
