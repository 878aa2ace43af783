//! The store over a disk that fails or loses power, in short forms. A separate test process, because the layer under
//! SQLite applies to the whole process.

use longhand::app::sessions::NewSession;
use longhand::app::{Durability, Reason};
use longhand::model::session::SessionState;
use longhand::pb;
use longhand::pb::admin_service_client::AdminServiceClient;
use longhand::pb::message_service_client::MessageServiceClient;
use longhand::pb::session_service_client::SessionServiceClient;
use longhand_attack::daemon::{self, Daemon};
use longhand_attack::storage::cuts::{self, Options, Report, Sabotage};
use longhand_attack::storage::faults::{self, Stage};
use longhand_attack::storage::running::{Running, panics};
use longhand_attack::vfs::{Call, Disk, FAILURES, Failure, Fault, VARIABLE, scratch};
use std::path::Path;

const SEED: u64 = 20_261_122;
/// The layer under SQLite and the list of panics belong to the process, so that only one test runs at a time.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Waits until no other test runs, and clears the panics of failed ones.
async fn alone() -> tokio::sync::MutexGuard<'static, ()> {
    let alone = ALONE.lock().await;
    panics();
    alone
}

async fn power_cuts(cuts: usize, durability: Durability, sabotage: Option<Sabotage>) -> Report {
    cuts::run(Options { seed: SEED, cuts, durability, sabotage }).await.expect("the experiment works")
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_writes_survive_power_cuts() {
    let _alone = alone().await;
    let report = power_cuts(20, Durability::Full, None).await;
    assert_eq!(report.findings, Vec::<String>::new());
    assert!(report.unsynced > 0 && report.torn > 0 && report.twice > 0, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_sync_at_every_commit_a_power_cut_takes_the_end_and_nothing_before_it() {
    let _alone = alone().await;
    let report = power_cuts(6, Durability::ProcessCrash, None).await;
    assert_eq!(report.findings, Vec::<String>::new());
    assert!(report.unsynced > 0, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_forgets_its_syncs_is_found_out() {
    let _alone = alone().await;
    let report = power_cuts(3, Durability::Full, Some(Sabotage::ForgetSyncs)).await;
    assert!(report.findings.iter().any(|finding| finding.contains("was acknowledged and is gone")), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_syncs_too_seldom_is_detected() {
    let _alone = alone().await;
    let report = power_cuts(3, Durability::Full, Some(Sabotage::SyncSeldom)).await;
    assert!(report.findings.iter().any(|finding| finding.contains("was acknowledged and is gone")), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_fails_makes_nobody_believe_what_is_not_so() {
    let _alone = alone().await;
    let findings = faults::drawn(SEED, FAILURES.len(), FAILURES, &faults::STAGES).await.expect("the experiment works");
    assert_eq!(findings, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_is_taken_for_done_without_being_done_is_found_out() {
    let _alone = alone().await;
    let findings = faults::drawn(SEED, 3, &[(Call::Write, Failure::Lie)], &[Stage::Compacting])
        .await
        .expect("the experiment works");
    assert!(!findings.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_cannot_be_read_does_not_deny_the_write_behind_it() {
    let _alone = alone().await;
    let mut lost = 0;
    for nth in 1.. {
        let root = scratch().expect("a folder");
        let disk = Disk::over(root.path()).expect("a disk");
        let directory = root.path().join("data");
        let open = async || Running::open(&directory, Durability::Full).await.expect("no hang").expect("it opens");
        let store = open().await;
        let new = NewSession { client_id: Some("s".to_owned()), ..NewSession::default() };
        store.app.sessions().create(new).await.expect("a session");
        store.settle_for_sure().await.expect("nothing to do");
        // All later calls fail, too: the locks of background readers come between those of the write and of its answer.
        disk.arm(Fault { call: Call::ShmLock, nth, lasting: true, failure: Failure::Eio });
        let archived = store.app.sessions().archive("s").await;
        let untouched = disk.struck().is_empty();
        disk.repair();
        store.stop().await.expect("it stops");
        let store = open().await;
        let state = store.app.sessions().get("s").await.expect("the session").session.state;
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

fn message(number: usize) -> pb::NewMessage {
    let text = pb::part::Body::Text(pb::TextPart { text: format!("message {number}") });
    pb::NewMessage {
        client_id: Some(format!("m{number}")),
        role: pb::Role::User.into(),
        parts: vec![pb::Part { body: Some(text), ..pb::Part::default() }],
        ..pb::NewMessage::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_whose_disk_fails_to_sync_acknowledges_nothing_more_and_keeps_what_it_did() {
    let _alone = alone().await;
    let root = scratch().expect("a folder");
    let directory = root.path().join("data");
    let attack = Path::new(env!("CARGO_BIN_EXE_attack"));
    let daemon = Daemon::start(attack, &directory, |_| {}).await.expect("it starts");
    let create = pb::CreateSessionRequest { client_id: Some("s".to_owned()), ..pb::CreateSessionRequest::default() };
    let channel = daemon::connect(daemon.socket());
    SessionServiceClient::new(channel).create_session(create).await.expect("a session");
    assert!(daemon.stop().await.expect("it ends").success());

    let fault = Fault { call: Call::Sync, nth: 6, lasting: false, failure: Failure::Eio };
    let broken = |command: &mut tokio::process::Command| {
        command.env(VARIABLE, fault.in_directory(root.path()));
    };
    let daemon = Daemon::start(attack, &directory, broken).await.expect("it starts");
    let channel = daemon::connect(daemon.socket());
    let mut messages = MessageServiceClient::new(channel.clone());
    let mut acknowledged = Vec::new();
    let mut refused = 0;
    for number in 0..20 {
        let append = pb::AppendMessagesRequest {
            session_id: "s".to_owned(),
            messages: vec![message(number)],
            ..pb::AppendMessagesRequest::default()
        };
        match messages.append_messages(append).await {
            Ok(_) => {
                assert_eq!(refused, 0, "message {number} is acknowledged behind a failed sync");
                acknowledged.push(format!("m{number}"));
            }
            Err(_) => refused += 1,
        }
    }
    assert!(!acknowledged.is_empty() && refused > 0, "{acknowledged:?}");
    let list = || pb::ListMessagesRequest { session_id: "s".to_owned(), ..pb::ListMessagesRequest::default() };
    let names = |answer: pb::ListMessagesResponse| -> Vec<String> {
        answer.messages.into_iter().filter_map(|message| message.client_id).collect()
    };
    let read = messages.list_messages(list()).await.expect("reads go on").into_inner();
    assert_eq!(names(read), acknowledged);
    let info = AdminServiceClient::new(channel).get_server_info(pb::GetServerInfoRequest {}).await;
    assert_eq!(info.expect("it answers").into_inner().write_state(), pb::WriteState::DiskFailed);
    daemon.kill().await.expect("it ends");

    let daemon = Daemon::start(attack, &directory, |_| {}).await.expect("it starts");
    let mut messages = MessageServiceClient::new(daemon::connect(daemon.socket()));
    let there = names(messages.list_messages(list()).await.expect("reads").into_inner());
    assert_eq!(there[..acknowledged.len()], acknowledged);
    assert!(there.len() <= acknowledged.len() + 1, "only the one whose sync failed may be there: {there:?}");
    assert!(daemon.stop().await.expect("it ends").success());
}
