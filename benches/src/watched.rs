//! Writers of one session beside watchers of it that read, and beside as many more that never do.

use crate::append::median;
use crate::events::{Watcher, watchers};
use crate::fleet::Daemon;
use crate::pace;
use crate::process::{Cost, Process};
use crate::report::{Latencies, Report};
use crate::target::{self, BODY_BYTES, Texts, connect, message, session};
use clap::Args;
use longhand::pb::message_service_client::MessageServiceClient;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tonic::transport::Endpoint;

/// Bytes that a silent watcher takes.
const SILENT_WINDOW_BYTES: u32 = 4 * 1024;

/// Watched writers.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Writers of the session, each with a connection of its own.
    #[arg(long, default_value_t = 8)]
    writers: usize,
    /// Watchers of the session, each with a connection of its own; half of them are silent.
    #[arg(long, default_value_t = 1_000)]
    watchers: usize,
    /// Appends a second of all writers together, begun at fixed times; without it each writer begins the next when the
    /// last one is answered.
    #[arg(long)]
    rate: Option<f64>,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Rounds: the audiences take turns in each.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Has events bring their messages.
    #[arg(long)]
    content: bool,
}

/// Watchers of a session.
#[derive(Clone, Copy)]
struct Audience {
    name: &'static str,
    reading: usize,
    silent: usize,
}

/// Figures of an audience, of all rounds.
#[derive(Default)]
struct Figures {
    answers: Latencies,
    rates: Vec<f64>,
    /// Resident memory at the end of a round, and the most in it.
    memory_mib: Vec<f64>,
    peak_mib: Vec<f64>,
    cpu_us: Vec<f64>,
}

/// Measures each build by itself.
pub(crate) async fn run(binaries: &[String], options: &Options, short: bool, report: &mut Report) {
    let mut options = options.clone();
    if short {
        (options.seconds, options.rounds) = (options.seconds.min(1.0), options.rounds.min(2));
    }
    let half = options.watchers / 2;
    let audiences = [
        Audience { name: "nobody", reading: 0, silent: 0 },
        Audience { name: "half of the watchers", reading: half, silent: 0 },
        Audience { name: "the silent half, too", reading: half, silent: options.watchers - half },
    ];
    let Options { writers, watchers, .. } = options;
    println!("{writers} writers append to one session, {watchers} watchers, half of whom never read");
    for binary in binaries {
        let mut figures: Vec<Figures> = audiences.iter().map(|_| Figures::default()).collect();
        for _ in 0..options.rounds {
            for (audience, figures) in audiences.iter().zip(&mut figures) {
                measure(binary, *audience, &options, figures).await;
            }
        }
        for (index, audience) in audiences.iter().enumerate() {
            let of = &figures[index];
            let ratio = |to: &Figures| median(of.rates.iter().zip(&to.rates).map(|(rate, to)| rate / to).collect());
            let mut more = vec![
                ("cpu_us", median(of.cpu_us.clone())),
                ("memory_mib", median(of.memory_mib.clone())),
                ("peak_mib", median(of.peak_mib.clone())),
            ];
            more.extend((index > 0).then(|| ("ratio_to_nobody", ratio(&figures[0]))));
            more.extend((index > 1).then(|| ("ratio_to_half", ratio(&figures[1]))));
            let what = format!("appends beside {}", audience.name);
            report.row(&what, &target::name(binary), Some(median(of.rates.clone())), &of.answers, &more);
        }
    }
}

/// Reads until it is told to stop.
async fn listen(mut watcher: Watcher, mut stop: watch::Receiver<bool>) {
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => {}
        () = async { while watcher.next().await.is_some() {} } => panic!("a stream of a watcher that reads ended"),
    }
}

/// Streams that nobody reads, each on a connection of its own. A usual client takes two megabytes of each before it is
/// behind, which is more than comes here.
async fn silent_watchers(address: &str, session: &str, count: usize, content: bool) -> Vec<Watcher> {
    let endpoint = Endpoint::from_shared(address.to_owned()).expect("an address");
    let endpoint = endpoint.initial_stream_window_size(SILENT_WINDOW_BYTES);
    let mut streams = Vec::new();
    for _ in 0..count {
        streams.push(Watcher::start(endpoint.connect().await.expect("it listens"), session, content).await);
    }
    streams
}

async fn measure(binary: &str, audience: Audience, options: &Options, figures: &mut Figures) {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(binary, folder.path(), "");
    let session = session(&connect(&daemon.socket).await).await;
    let silent = silent_watchers(&daemon.socket, &session, audience.silent, options.content).await;
    let (stop, stopped) = watch::channel(false);
    let reading: Vec<_> = watchers(&daemon.socket, &session, (audience.reading, 1), options.content)
        .await
        .into_iter()
        .map(|watcher| tokio::spawn(listen(watcher, stopped.clone())))
        .collect();
    let before = Process::new(daemon.pid()).cost();
    let began = Instant::now();
    let time = Duration::from_secs_f64(options.seconds);
    let paced = options.rate.map(|rate| pace::start(began, rate, time));
    let mut writers = Vec::new();
    for number in 0..options.writers {
        let mut messages = MessageServiceClient::new(connect(&daemon.socket).await);
        let (session, mut texts) = (session.clone(), Texts::new(number as u64, BODY_BYTES));
        let ticks = paced.as_ref().map(|(ticks, _)| ticks.clone());
        // The begin of the next append, as it was meant to be.
        let next = async move || match &ticks {
            Some(ticks) => ticks.recv().await.ok(),
            None => (began.elapsed() < time).then(Instant::now),
        };
        writers.push(tokio::spawn(async move {
            let mut answers = Latencies::default();
            let mut count = 0_u64;
            while let Some(begin) = next().await {
                let request = target::request(&session, vec![message(texts.text())]);
                messages.append_messages(request).await.expect("appended");
                answers.record(begin.elapsed());
                count += 1;
            }
            (answers, count)
        }));
    }
    let mut count = 0;
    for writer in writers {
        let (answers, appended) = writer.await.expect("a writer");
        figures.answers.add(&answers);
        count += appended;
    }
    let seconds = began.elapsed().as_secs_f64();
    if let Some((_, pacer)) = paced {
        pacer.join().expect("all began");
    }
    let cost: Cost = Process::new(daemon.pid()).cost().since(before);
    let mebibytes = |field| daemon.memory_kib(field).map_or(f64::NAN, |kib| kib as f64 / 1_024.0);
    figures.memory_mib.push(mebibytes("VmRSS:"));
    figures.peak_mib.push(mebibytes("VmHWM:"));
    figures.rates.push(count as f64 / seconds);
    figures.cpu_us.push(cost.micros_each(count));
    stop.send_replace(true);
    for watcher in reading {
        watcher.await.expect("a watcher");
    }
    drop(silent);
}
