//! The store over a disk that fails or loses power, in short forms. In a process of its own: the layer beneath SQLite is
//! the process's.

use longhand::app::sessions::NewSession;
use longhand::app::{Caller, Durability, Reason};
use longhand::model::session::SessionState;
use longhand_attack::storage::cuts::{self, Options, Report, Sabotage};
use longhand_attack::storage::faults;
use longhand_attack::storage::running::Running;
use longhand_attack::vfs::{Call, Disk, FAILURES, Failure, Fault, scratch};

const SEED: u64 = 20_261_122;

async fn power_cuts(cuts: usize, durability: Durability, sabotage: Option<Sabotage>) -> Report {
    cuts::run(Options { seed: SEED, cuts, durability, sabotage }).await.expect("the experiment works")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_power_cuts() {
    let report = power_cuts(12, Durability::Full, None).await;
    assert_eq!(report.findings, Vec::<String>::new());
    assert!(report.unsynced > 0 && report.torn > 0 && report.twice > 0, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_sync_at_every_commit_a_power_cut_takes_the_end_and_nothing_before_it() {
    let report = power_cuts(6, Durability::ProcessCrash, None).await;
    assert_eq!(report.findings, Vec::<String>::new());
    assert!(report.unsynced > 0, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_forgets_its_syncs_is_found_out() {
    let report = power_cuts(3, Durability::Full, Some(Sabotage::ForgetSyncs)).await;
    assert!(report.findings.iter().any(|finding| finding.contains("was acknowledged and is gone")), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_syncs_more_seldom_than_it_says_is_found_out() {
    let report = power_cuts(3, Durability::Full, Some(Sabotage::SyncSeldom)).await;
    assert!(report.findings.iter().any(|finding| finding.contains("was acknowledged and is gone")), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_fails_makes_nobody_believe_what_is_not_so() {
    let findings = faults::drawn(SEED, FAILURES.len(), FAILURES).await.expect("the experiment works");
    assert_eq!(findings, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_is_taken_for_done_without_being_done_is_found_out() {
    let findings = faults::drawn(SEED, 3, &[(Call::Write, Failure::Lie)]).await.expect("the experiment works");
    assert!(!findings.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_cannot_be_read_does_not_deny_the_write_behind_it() {
    let mut lost = 0;
    for nth in 1.. {
        let root = scratch().expect("a folder");
        let disk = Disk::over(root.path()).expect("a disk");
        let directory = root.path().join("data");
        let open = async || Running::open(&directory, Durability::Full).await.expect("no hang").expect("it opens");
        let store = open().await;
        let new = NewSession { client_id: Some("s".to_owned()), ..NewSession::default() };
        store.app.create_session(new, Caller::default()).await.expect("a session");
        store.settle_for_sure().await.expect("nothing to do");
        disk.arm(Fault { call: Call::ShmLock, nth, lasting: false, failure: Failure::Eio });
        let archived = store.app.archive_session("s", false, Caller::default()).await;
        let untouched = disk.struck().is_empty();
        disk.repair();
        store.stop().await.expect("it stops");
        let store = open().await;
        let state = store.app.get_session("s").await.expect("the session").session.state;
        match archived {
            Err(error) if error.reason == Reason::AnswerLost => {
                lost += 1;
                assert_eq!(state, SessionState::Archived, "call {nth}: {error:?}");
            }
            Err(error) if error.reason == Reason::Internal => assert_eq!(state, SessionState::Active, "call {nth}"),
            Err(_) => {}
            Ok(_) => assert_eq!(state, SessionState::Archived, "call {nth}"),
        }
        store.stop().await.expect("it stops");
        if untouched {
            break;
        }
    }
    assert!(lost > 0, "no call failed between a write and its answer");
}
