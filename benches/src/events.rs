//! Time from an append's call until every watcher of the session has its event, at a fixed rate of appends.

use crate::fleet::Daemon;
use crate::pace;
use crate::process::{Cost, Process};
use crate::report::{Bound, Latencies, Report};
use crate::target::{self, BODY_BYTES, Texts, connect, message, session};
use clap::Args;
use longhand::pb;
use longhand::pb::message_service_client::MessageServiceClient;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{IntoRequest as _, Streaming};

/// Events.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Watchers of the session; several numbers are measured in turn.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64, 1_000])]
    watchers: Vec<usize>,
    /// Watchers that share a connection.
    #[arg(long, default_value_t = 1)]
    per_connection: usize,
    /// Appends in a second.
    #[arg(long, default_value_t = 100.0)]
    rate: f64,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Has events bring their messages.
    #[arg(long)]
    content: bool,
}

/// The fields of a frame that a watcher reads. All others are skipped, so that a thousand watchers leave the processors to the
/// daemon.
#[derive(Clone, PartialEq, prost::Message)]
struct Frame {
    #[prost(message, optional, tag = "2")]
    events: Option<Batch>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Batch {
    #[prost(message, repeated, tag = "1")]
    events: Vec<Event>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Event {
    #[prost(int64, tag = "4")]
    revision: i64,
}

/// A watcher's stream.
pub(crate) struct Watcher(Streaming<Frame>);

impl Watcher {
    /// Begins the stream, and waits for its first frame.
    pub(crate) async fn start(channel: Channel, session: &str, include_content: bool) -> Self {
        let mut client = tonic::client::Grpc::new(channel);
        client.ready().await.expect("it listens");
        let session_ids = vec![session.to_owned()];
        let request =
            pb::SubscribeEventsRequest { session_ids, include_content, ..pb::SubscribeEventsRequest::default() };
        let path = PathAndQuery::from_static("/longhand.v1.EventService/SubscribeEvents");
        let codec = tonic_prost::ProstCodec::<pb::SubscribeEventsRequest, Frame>::default();
        let answer = client.server_streaming(request.into_request(), path, codec).await;
        let mut stream = answer.expect("a stream").into_inner();
        stream.message().await.expect("it is ready");
        Self(stream)
    }

    /// The revisions of the next events; none at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<impl Iterator<Item = i64> + use<>> {
        loop {
            let frame = self.0.message().await.ok()??;
            if let Some(batch) = frame.events {
                return Some(batch.events.into_iter().map(|event| event.revision));
            }
        }
    }
}

/// Opens streams of a session, several of which may share a connection.
pub(crate) async fn watchers(
    address: &str,
    session: &str,
    (count, per_connection): (usize, usize),
    content: bool,
) -> Vec<Watcher> {
    let mut streams = Vec::new();
    let mut channel = connect(address).await;
    for index in 0..count {
        if index > 0 && index % per_connection == 0 {
            channel = connect(address).await;
        }
        streams.push(Watcher::start(channel.clone(), session, content).await);
    }
    streams
}

/// A session with watchers, and its one writer.
pub(crate) struct Audience {
    session: String,
    messages: MessageServiceClient<Channel>,
    texts: Texts,
    watchers: Vec<Watcher>,
}

impl Audience {
    /// Watchers of a new session, each on a connection of its own.
    pub(crate) async fn start(address: &str, count: usize) -> Self {
        let channel = connect(address).await;
        let session = session(&channel).await;
        let watchers = watchers(address, &session, (count, 1), false).await;
        let messages = MessageServiceClient::new(channel);
        Self { session, messages, texts: Texts::new(1, BODY_BYTES), watchers }
    }

    /// The time in which every watcher got this number of appends, each of which began when the last one was answered.
    pub(crate) async fn deliver(&mut self, appends: usize) -> Duration {
        let began = Instant::now();
        let (sender, last) = watch::channel(None);
        let reading: Vec<_> = std::mem::take(&mut self.watchers)
            .into_iter()
            .map(|mut watcher| {
                let mut last = last.clone();
                tokio::spawn(async move {
                    let mut seen = 0;
                    while last.borrow_and_update().is_none_or(|last| seen < last) {
                        tokio::select! {
                            revisions = watcher.next() => seen = revisions.expect("the daemon runs").max().unwrap_or(seen),
                            changed = last.changed() => changed.expect("the writer tells the last one"),
                        }
                    }
                    watcher
                })
            })
            .collect();
        let mut revision = 0;
        for _ in 0..appends {
            let request = target::request(&self.session, vec![message(self.texts.text())]);
            revision = self.messages.append_messages(request).await.expect("appended").into_inner().revision;
        }
        sender.send_replace(Some(revision));
        for task in reading {
            self.watchers.push(task.await.expect("a watcher"));
        }
        began.elapsed()
    }
}

/// Figures of one number of watchers.
struct Figures {
    /// From the intended start of an append to its answer.
    answers: Latencies,
    /// From there to each watcher.
    arrivals: Latencies,
    cost: Cost,
    cost_of_watchers: Cost,
    time: Duration,
    /// Events that were delivered.
    count: u64,
}

/// Measures each build by itself.
pub(crate) async fn run(binaries: &[String], options: &Options, short: bool, report: &mut Report) {
    let seconds = if short { options.seconds.min(2.0) } else { options.seconds };
    println!("appends of {BODY_BYTES} bytes, {} a second: from the intended start of the call", options.rate);
    for &watchers in &options.watchers {
        for binary in binaries {
            let folder = tempfile::tempdir().expect("a folder");
            let daemon = Daemon::start(binary, folder.path(), "");
            let figures = measure(&daemon, watchers, options, Duration::from_secs_f64(seconds)).await;
            rows(watchers, &target::name(binary), &figures, report);
        }
    }
}

fn rows(watchers: usize, name: &str, figures: &Figures, report: &mut Report) {
    let of = |what: &str| format!("{what}, {watchers} watchers");
    report.row(&of("to the answer"), name, None, &figures.answers, &[]);
    report.row(&of("to a watcher"), name, None, &figures.arrivals, &[]);
    let seconds = figures.time.as_secs_f64();
    let cores = |cost: Cost| cost.cpu.as_secs_f64() / seconds;
    let costs = [
        ("cores", cores(figures.cost)),
        ("watchers_cores", cores(figures.cost_of_watchers)),
        ("cpu_us_per_delivery", figures.cost.micros_each(figures.count)),
        ("deliveries_per_second", figures.count as f64 / seconds),
    ];
    report.figures(&of("processors"), name, &costs);
    let (answer, arrival) = (figures.answers.millis(0.5), figures.arrivals.millis(0.5));
    match watchers {
        1 => report.target(&of("after the answer"), name, ("p50_ms", arrival - answer), Bound::AtMost(0.2)),
        64 => report.target(&of("to a watcher"), name, ("p50_ms", arrival), Bound::AtMost(3.0)),
        _ => {}
    }
}

async fn measure(daemon: &Daemon, count: usize, options: &Options, time: Duration) -> Figures {
    let channel = connect(&daemon.socket).await;
    let session = session(&channel).await;
    let mut messages = MessageServiceClient::new(channel);
    let mut texts = Texts::new(1, BODY_BYTES);
    let mut append = async || {
        let request = target::request(&session, vec![message(texts.text())]);
        messages.append_messages(request).await.expect("appended").into_inner().revision
    };
    append().await;
    let (sender, mut arrived) = mpsc::unbounded_channel();
    for mut watcher in watchers(&daemon.socket, &session, (count, options.per_connection), options.content).await {
        let sender = sender.clone();
        tokio::spawn(async move {
            while let Some(mut revisions) = watcher.next().await {
                let at = Instant::now();
                if revisions.any(|revision| sender.send((revision, at)).is_err()) {
                    break;
                }
            }
        });
    }
    let before = (Process::new(daemon.pid()).cost(), Process::own().cost());
    let began = Instant::now();
    let (ticks, pacer) = pace::start(began, options.rate, time);
    let (mut answers, mut calls) = (Latencies::default(), Vec::new());
    while let Ok(intended) = ticks.recv().await {
        let revision = append().await;
        answers.record(intended.elapsed());
        calls.push((revision, intended));
    }
    pacer.join().expect("the pacer");
    let last = calls.last().map_or(0, |(revision, _)| *revision);
    let (mut arrivals, mut ended, mut deliveries) = (Latencies::default(), 0, 0);
    while ended < count {
        let (revision, at) = arrived.recv().await.expect("the watchers are there");
        // All events of an append arrive with its last one.
        if let Ok(index) = calls.binary_search_by_key(&revision, |(revision, _)| *revision) {
            arrivals.record(at.saturating_duration_since(calls[index].1));
            deliveries += 1;
        }
        ended += usize::from(revision == last);
    }
    Figures {
        answers,
        arrivals,
        cost: Process::new(daemon.pid()).cost().since(before.0),
        cost_of_watchers: Process::own().cost().since(before.1),
        time: began.elapsed(),
        count: deliveries,
    }
}
