//! Erasures of single messages of a large store: the first one since the start of the daemon, those behind it, and appends
//! meanwhile beside appends before.

use crate::fleet::Daemon;
use crate::report::{Latencies, Report};
use crate::retention::{self, Writers};
use crate::target::{self, connect};
use longhand::pb;
use longhand::pb::erase_content_request::Target;
use longhand::pb::erase_service_client::EraseServiceClient;
use longhand::pb::message_service_client::MessageServiceClient;
use longhand::pb::session_service_client::SessionServiceClient;
use std::time::{Duration, Instant};
use tonic::transport::Channel;

/// Erasures behind the first one.
const ERASURES: usize = 20;
/// The pause behind each, in which others write.
const PAUSE: Duration = Duration::from_millis(500);

/// Measures each build by itself.
pub(crate) async fn run(binaries: &[String], options: &retention::Options, short: bool, report: &mut Report) {
    let options = options.shortened(short);
    for binary in binaries {
        measure(binary, &options, report).await;
    }
}

async fn measure(binary: &str, options: &retention::Options, report: &mut Report) {
    let (folder, of) = (tempfile::tempdir().expect("a folder"), target::name(binary));
    let settings = format!("search = {}\n", options.search);
    let daemon = Daemon::start(binary, folder.path(), &settings);
    retention::fill(&daemon, options.sessions(), options).await;
    drop(daemon);
    let daemon = Daemon::start(binary, folder.path(), &settings);
    let mut writers = Writers::start(&daemon, options).await;
    let before = writers.append(options).await;
    let files_mib = retention::mebibytes(&folder.path().join("store"));
    report.row("appends before", &of, None, &before, &[("files_mib", files_mib)]);
    let channel = connect(&daemon.socket).await;
    let erasing = tokio::spawn(erase(channel));
    let mut meanwhile = Latencies::default();
    while !erasing.is_finished() {
        meanwhile.add(&writers.append(options).await);
    }
    let (first, others, pending) = erasing.await.expect("erasures");
    report.figures("the first erasure", &of, &[("ms", first.as_secs_f64() * 1e3), ("named_files", pending as f64)]);
    report.row("erasures behind it", &of, None, &others, &[]);
    report.row("appends meanwhile", &of, None, &meanwhile, &[]);
    let ratio = meanwhile.millis(0.99) / before.millis(0.99);
    report.figures("meanwhile to before", &of, &[("ratio_of_p99", ratio)]);
}

/// Erases messages of as many sessions, one by one. Returns the time of the first, those of the others, and the number of
/// answers that named files.
async fn erase(channel: Channel) -> (Duration, Latencies, usize) {
    let request = pb::ListSessionsRequest { page_size: 100, ..pb::ListSessionsRequest::default() };
    let listed = SessionServiceClient::new(channel.clone()).list_sessions(request).await.expect("sessions");
    let (mut first, mut others, mut pending) = (None, Latencies::default(), 0);
    let mut pauses = tokio::time::interval(PAUSE);
    pauses.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // The newest are those of the writers.
    for session in listed.into_inner().sessions.iter().rev().take(ERASURES + 1) {
        let session_id = session.session_id.clone();
        let request = pb::ListMessagesRequest { session_id: session_id.clone(), page_size: 1, ..Default::default() };
        let page = MessageServiceClient::new(channel.clone()).list_messages(request).await.expect("messages");
        let message_id = page.into_inner().messages.remove(0).message_id;
        let target = Some(Target::MessageId(message_id));
        let reason = "a measurement".to_owned();
        let request = pb::EraseContentRequest { session_id, target, reason, ..Default::default() };
        let began = Instant::now();
        let erased = EraseServiceClient::new(channel.clone()).erase_content(request).await.expect("erased");
        let took = began.elapsed();
        pending += usize::from(!erased.into_inner().pending_files.is_empty());
        match first {
            None => first = Some(took),
            Some(_) => others.record(took),
        }
        pauses.tick().await;
    }
    (first.unwrap_or_default(), others, pending)
}
