//! A wrong system clock: no wait for an instant lasts until the real time has caught up, neither in a running daemon
//! nor after a restart.

use crate::database::Database;
use crate::support::{Line, ScriptedSummarizer, TestApp, turns};
use longhand::limits;
use longhand::model::event::EventKind;
use longhand::policy;

const YEAR_MS: i64 = 365 * 24 * 3_600 * 1_000;
const WORDS: usize = 1_100;

/// A session that is due.
async fn due(test: &TestApp) -> String {
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    test.append(&session, &turns(1, 9, WORDS)).await;
    session
}

/// Sets the system's clock ahead for long enough to be believed.
fn set_ahead(test: &TestApp) {
    let before = test.clock.now();
    test.clock.shift_system(YEAR_MS);
    test.clock.now();
    test.clock.advance(limits::CLOCK_BELIEVED_MS);
    assert!(test.clock.now() >= before.plus_millis(YEAR_MS));
}

fn falters_once() -> std::sync::Arc<ScriptedSummarizer> {
    ScriptedSummarizer::new([Line::Falter, Line::Say("S1".to_owned())])
}

/// Runs a statement on a store that is not open.
async fn alter(directory: &std::path::Path, sql: &'static str) -> u64 {
    Database::of(directory).execute(sql).expect(sql)
}

#[tokio::test]
async fn a_retry_comes_although_the_system_clock_is_set_back() {
    let test = TestApp::with(falters_once()).await;
    let mut watch = test.watch().await;
    due(&test).await;
    test.clock.shift_system(-YEAR_MS);
    watch.wait_for(EventKind::CompactionRetried).await;
    watch.wait_for(EventKind::Compacted).await;
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn time_in_the_log_never_goes_back_however_often_the_system_clock_is_set_and_the_daemon_restarted() {
    let mut test = TestApp::with(ScriptedSummarizer::new([Line::Say("S1".to_owned())])).await;
    let session = test.manual_session().await;
    for shift in [0, YEAR_MS, -YEAR_MS, -3 * YEAR_MS] {
        match shift {
            YEAR_MS => set_ahead(&test),
            shift => test.clock.shift_system(shift),
        }
        test.append(&session, "u \"and\"").await;
        // The next daemon uses the machine's clock again, which is earlier by then.
        test = test.restart().await;
        test.append(&session, "a \"so\"").await;
    }
    let times: Vec<_> = test.events().await.iter().map(|event| event.time).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert!(test.clock.now() >= times[times.len() - 1]);
}

#[tokio::test]
async fn a_job_of_a_daemon_with_a_clock_ahead_is_retried_by_one_with_the_right_clock() {
    let test = TestApp::with(falters_once()).await;
    set_ahead(&test);
    let mut watch = test.watch().await;
    due(&test).await;
    watch.wait_for(EventKind::CompactionRetried).await;
    drop(watch);
    let test = test.restart().await;
    let mut watch = test.watch().await;
    watch.wait_for(EventKind::Compacted).await;
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_job_that_is_stamped_in_the_future_does_not_block_its_session_after_a_restart() {
    let held = || Line::Hold("S1".to_owned());
    let script = ScriptedSummarizer::new([held(), held(), held(), held(), held()]);
    let test = TestApp::with(script.clone()).await;
    let (first, second) = (due(&test).await, due(&test).await);
    script.held().await;
    script.held().await;
    let third = due(&test).await;
    let jobs = async |test: &TestApp| test.longhand.store().jobs().counts().await.expect("read");
    test.until("a job that waits", async || jobs(&test).await == (1, 2)).await;
    for session in [&first, &second] {
        let running = test.view(session).await.pending.expect("a compaction").to_string();
        test.app.compactions().cancel(&running).await.expect("cancelled");
    }
    // The third job may have been claimed by now: a stop makes it ready again.
    let directory = test.stop().await;
    let stamped = "update job set run_at = run_at + 31536000000000, attempt = 0 where state = 1";
    let stamped = alter(directory.path(), stamped).await;
    assert_eq!(stamped, 1);
    let test = TestApp::reopen(directory, script.clone()).await;
    // Checked in the database and not by the script: an answer that it held before the stop may still count as held.
    test.until("a job that runs", async || jobs(&test).await == (0, 1)).await;
    assert!(test.view(&third).await.pending.is_some());
}

#[tokio::test]
async fn stored_times_too_far_ahead_of_the_clock_are_lowered_at_the_start() {
    let test = TestApp::with(ScriptedSummarizer::new([Line::Falter, Line::Falter])).await;
    let mut watch = test.watch().await;
    due(&test).await;
    watch.wait_for(EventKind::CompactionRetried).await;
    drop(watch);
    let directory = test.stop().await;
    for sql in [
        "update job set run_at = run_at + 31536000000000 where state = 1",
        "update session set wake_time = update_time + 3153600000000000, cooldown_end = update_time + 3153600000000000, \
         due_time = update_time + 31536000000000, due_revision = revision",
    ] {
        assert!(alter(directory.path(), sql).await > 0, "{sql}");
    }
    let test = TestApp::reopen(directory, ScriptedSummarizer::new([])).await;
    let ahead_ms = async |column: &'static str| (test.number(column) - test.clock.now().0) / 1_000;
    let retry = ahead_ms("select run_at from job").await;
    assert!((1..=limits::RETRY_AFTER_MS_MAX).contains(&retry), "{retry}");
    let wait = ahead_ms("select wake_time from session").await;
    assert!((1..=limits::POLICY_WAIT_MS_MAX).contains(&wait), "{wait}");
    let due = ahead_ms("select coalesce(due_time, 0) from session").await;
    assert!(due <= 0, "its turn comes");
}

#[tokio::test]
async fn a_lease_that_ends_in_the_future_is_released_while_the_daemon_runs() {
    let script = ScriptedSummarizer::new([Line::Hold("S1".to_owned()), Line::Say("S2".to_owned())]);
    let test = TestApp::with(script.clone()).await;
    due(&test).await;
    script.held().await;
    // A daemon with a wrong clock died while it held the lease.
    let directory = test.stop().await;
    let running = "update job set state = 2, lease_epoch = lease_epoch + 1, lease_until = run_at + 31536000000000";
    assert_eq!(alter(directory.path(), running).await, 1);
    let test = TestApp::reopen(directory, script).await;
    let mut watch = test.watch().await;
    watch.wait_for(EventKind::Compacted).await;
    assert_eq!(test.findings().await, []);
}

#[test]
fn the_store_bounds_what_policies_may_wait_for() {
    assert_eq!(limits::POLICY_WAIT_MS_MAX, i64::from(policy::WAIT_SECONDS_MAX) * 1_000);
}
