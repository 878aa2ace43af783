//! Checkpoints of the write-ahead log: they happen, and the status shows a reader that prevents them.

use crate::support::TestApp;
use longhand::model::part::{NewPart, PartBody};

/// Content of one append, in bytes; it hardly compresses.
const BYTES: usize = 7 * 1024 * 1024;
/// Length of the log from which on it is checkpointed, in bytes.
const FOLDED_FROM: i64 = longhand::limits::CHECKPOINT_BYTES_MIN;

/// Text that hardly compresses, different for each seed: equal content would be stored once.
fn noise(seed: u64) -> String {
    let mut state = 2 * seed + 1;
    let letters = (0..BYTES).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'!' + u8::try_from((state >> 33) % 90).unwrap_or_default())
    });
    letters.collect()
}

async fn append_much(test: &TestApp, session: &str, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut messages = crate::support::conversation("u \"much\"");
        messages[0].parts = vec![NewPart::new(PartBody::Text(noise(seed)))];
        test.app.messages().append(session, messages, None, None).await.expect("appended");
    }
}

/// Bytes of the log that the checkpoint after the last large append left. The writer makes checkpoints between commits,
/// so once it has committed another append, that one has ended.
async fn pending(test: &TestApp, session: &str) -> i64 {
    test.append(session, "u \"little\"").await;
    test.app.daemon().info().await.expect("the state").checkpoints.pending_bytes
}

#[tokio::test]
async fn failed_checkpoints_are_reported() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    append_much(&test, &session, 0..1).await;
    let mut reader = test.database();
    reader.execute_batch("begin; select count(*) from message").expect("a snapshot");
    append_much(&test, &session, 1..5).await;
    let grown = pending(&test, &session).await;
    assert!(grown >= FOLDED_FROM, "{grown} bytes");
    reader.execute_batch("rollback").expect("no snapshot any more");
    append_much(&test, &session, 5..6).await;
    let folded = pending(&test, &session).await;
    assert!(folded < FOLDED_FROM, "{folded} bytes");
    assert_eq!(test.app.daemon().info().await.expect("the state").checkpoints.failures, 0);
}
