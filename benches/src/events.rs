//! Time from an append's call until every watcher of the session has its event.

use crate::append::{BODY_BYTES, Texts, connect, message, session};
use crate::fleet::Daemon;
use crate::report::{Latencies, Report};
use clap::Args;
use longhand::pb;
use longhand::pb::event_service_client::EventServiceClient;
use longhand::pb::message_service_client::MessageServiceClient;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Events.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Watchers of the session, each with a connection of its own; several numbers are measured in turn.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64])]
    watchers: Vec<usize>,
    /// Appends in a second.
    #[arg(long, default_value_t = 100)]
    rate: u32,
    /// Appends of each measurement.
    #[arg(long, default_value_t = 500)]
    appends: usize,
}

/// Measures each build by itself.
pub(crate) async fn run(binaries: &[String], options: &Options, report: &mut Report) {
    println!("{} appends of {BODY_BYTES} bytes, {} a second: from the call", options.appends, options.rate);
    for &watchers in &options.watchers {
        for binary in binaries {
            let folder = tempfile::tempdir().expect("a folder");
            let daemon = Daemon::start(binary, folder.path(), "");
            let before = daemon.memory_kib("VmRSS:");
            let (commits, arrivals, resident) = measure(&daemon, watchers, options).await;
            let of = |what: &str| format!("{what}, {watchers} watchers");
            report.row(&of("to the answer"), binary, None, &commits);
            report.row(&of("to a watcher"), binary, None, &arrivals);
            if let (Some(before), Some(resident)) = (before, resident) {
                let each = resident.saturating_sub(before) as f64 / watchers as f64;
                println!("  {:<40} {each:>8.1} KiB resident for a watcher", "");
            }
        }
    }
}

/// Latencies of the answer and of each watcher, and resident memory once all watchers are connected, in KiB.
async fn measure(daemon: &Daemon, watchers: usize, options: &Options) -> (Latencies, Latencies, Option<u64>) {
    let channel = connect(&daemon.socket).await;
    let session = session(&channel).await;
    let mut messages = MessageServiceClient::new(channel);
    let mut texts = Texts::new(1);
    let mut request = || pb::AppendMessagesRequest {
        session_id: session.clone(),
        messages: vec![message(texts.text(BODY_BYTES))],
        ..pb::AppendMessagesRequest::default()
    };
    let newest = messages.append_messages(request()).await.expect("appended").into_inner().revision;
    let (sender, mut arrived) = mpsc::unbounded_channel();
    for _ in 0..watchers {
        let mut events = EventServiceClient::new(connect(&daemon.socket).await);
        let request =
            pb::SubscribeEventsRequest { session_ids: vec![session.clone()], ..pb::SubscribeEventsRequest::default() };
        let mut stream = events.subscribe_events(request).await.expect("a stream").into_inner();
        stream.message().await.expect("it is ready");
        let sender = sender.clone();
        tokio::spawn(async move {
            while let Ok(Some(frame)) = stream.message().await {
                let at = Instant::now();
                if let Some(pb::subscribe_events_response::Frame::Events(batch)) = frame.frame {
                    for event in batch.events {
                        let _ = sender.send((event.revision, at));
                    }
                }
            }
            drop(events);
        });
    }
    let resident = daemon.memory_kib("VmRSS:");
    let mut pace = tokio::time::interval(Duration::from_secs(1) / options.rate);
    let (mut commits, mut calls) = (Latencies::default(), Vec::new());
    for _ in 0..options.appends {
        pace.tick().await;
        let began = Instant::now();
        let revision = messages.append_messages(request()).await.expect("appended").into_inner().revision;
        commits.record(began.elapsed());
        calls.push((revision, began));
    }
    let last = calls.last().map_or(newest, |(revision, _)| *revision);
    let (mut arrivals, mut there) = (Latencies::default(), 0);
    while there < watchers {
        let (revision, at) = arrived.recv().await.expect("the watchers are there");
        // All events of an append arrive with its last one.
        if let Ok(index) = calls.binary_search_by_key(&revision, |(revision, _)| *revision) {
            arrivals.record(at.saturating_duration_since(calls[index].1));
        }
        there += usize::from(revision == last);
    }
    (commits, arrivals, resident)
}
