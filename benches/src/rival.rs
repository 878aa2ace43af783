//! Views and appends with the memory of sessions and with the plainest rival, a daemon that keeps no session and makes
//! every view from its rows: the daemon's processor time for each call.

use crate::process::Process;
use crate::reads::Build;
use crate::report::Report;
use crate::target::{self, NO_SEARCH};
use longhand::pb;
use longhand::pb::view_service_client::ViewServiceClient;
use std::cell::Cell;
use tokio::task::JoinSet;

/// The settings of the daemon, and what they are called.
const SETTINGS: [(&str, &str); 2] = [("memory", ""), ("rows alone", "loaded_mib = 0\n")];
const BODY_BYTES: usize = 200;
/// Readers of one session at the same time.
const READERS: usize = 64;
/// Reads of a view of 1 000 messages; of longer ones fewer.
const READS: usize = 200;

/// Views of which the reader has everything already: what is left is to know that nothing has changed.
async fn known_views(socket: String, session_id: String, known: Vec<u8>, times: usize) {
    let mut view_service = ViewServiceClient::new(target::connect(&socket).await);
    for _ in 0..times {
        let (session_id, known_view_hash) = (session_id.clone(), Some(known.clone()));
        let request = pb::GetViewRequest { session_id, known_view_hash, ..pb::GetViewRequest::default() };
        let mut stream = view_service.get_view(request).await.expect("a view").into_inner();
        while stream.message().await.expect("a frame").is_some() {}
    }
}

/// Measures each build, with its memory and without it.
pub(crate) async fn run(binaries: &[String], short: bool, report: &mut Report) {
    // No setting keeps a session of 50 000 messages: its view is a large one.
    let lengths: &[usize] = if short { &[1_000] } else { &[1_000, 50_000] };
    for binary in binaries {
        for (memory, setting) in SETTINGS {
            let name = format!("{}, {memory}", target::name(binary));
            let mut build = Build::start(binary, &format!("{setting}{NO_SEARCH}")).await;
            for &length in lengths {
                let reads = (READS * 1_000 / length).max(4);
                let session = build.session(length, BODY_BYTES).await;
                let known = build.view(&session, None).await.0;
                let views = |times| known_views(build.daemon.socket.clone(), session.clone(), known.clone(), times);
                build.rest().await;
                let process = Process::new(build.daemon.pid());
                let before = Cell::new(process.cost());
                let mut note = |what: &str, count: usize| {
                    let now = process.cost();
                    let micros = now.since(before.replace(now)).micros_each(count as u64);
                    report.figures(&format!("{length}: {what}"), &name, &[("cpu_micros_each", micros)]);
                };
                views(reads).await;
                note("view that is known, one reader", reads);
                let each = (reads / READERS).max(1);
                let mut readers = JoinSet::new();
                (0..READERS).for_each(|_| drop(readers.spawn(views(each))));
                readers.join_all().await;
                note("view that is known, 64 readers", READERS * each);
                for at in 0..reads {
                    build.append(&session, length + at..length + at + 1, BODY_BYTES).await;
                }
                note("append", reads);
                let mut known = build.view(&session, None).await.0;
                before.set(process.cost());
                for at in reads..2 * reads {
                    build.append(&session, length + at..length + at + 1, BODY_BYTES).await;
                    known = build.view(&session, Some(known)).await.0;
                }
                note("append with the view behind it, the rest known", reads);
            }
        }
    }
}
