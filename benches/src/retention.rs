//! Retention of a large store: how long the pass takes, what the files give back, and appends meanwhile beside appends
//! before it.

use crate::fleet::Daemon;
use crate::pace;
use crate::process::Process;
use crate::report::{Bound, Latencies, Report};
use crate::target::{self, Texts, connect, message, request, session};
use clap::Args;
use longhand::pb;
use longhand::pb::erase_service_client::EraseServiceClient;
use longhand::pb::message_service_client::MessageServiceClient;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Messages of one append while the store is filled.
const BATCH: usize = 50;
/// Callers that fill the store.
const FILLERS: usize = 8;
/// GiB of content of the short form.
const SHORT_GIB: f64 = 0.1;
/// Time for which files of the same size have come to rest.
const REST: Duration = Duration::from_secs(20);
/// Size of the messages that are appended meanwhile, in bytes.
const APPEND_BYTES: usize = 1_024;

/// A store with more than its rule of retention leaves.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// GiB of content.
    #[arg(long, default_value_t = 10.0)]
    gib: f64,
    /// The share of it that the rule leaves.
    #[arg(long, default_value_t = 0.1)]
    keep: f64,
    /// Messages of a session.
    #[arg(long, default_value_t = 200)]
    messages: usize,
    /// Length of a message, in bytes.
    #[arg(long, default_value_t = 4_096)]
    bytes: usize,
    /// Index the store for the search, too.
    #[arg(long)]
    pub(crate) search: bool,
    /// Writers beside the pass, each with a session of its own.
    #[arg(long, default_value_t = 8)]
    writers: usize,
    /// Appends a second of all of them together, begun at fixed times.
    #[arg(long, default_value_t = 200.0)]
    rate: f64,
    /// Seconds for which appends are measured before the pass and after it, and at a time during it.
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
}

impl Options {
    /// The same of a small store, if the form is short.
    pub(crate) fn shortened(&self, short: bool) -> Self {
        let mut options = self.clone();
        if short {
            (options.gib, options.seconds) = (options.gib.min(SHORT_GIB), options.seconds.min(2.0));
        }
        options
    }

    /// Bytes of content.
    fn content(&self) -> usize {
        (self.gib * f64::from(1 << 30)) as usize
    }

    /// The number of sessions with this content.
    pub(crate) fn sessions(&self) -> usize {
        (self.content() / (self.messages * self.bytes)).max(1)
    }
}

/// Measures each build by itself.
pub(crate) async fn run(binaries: &[String], options: &Options, short: bool, report: &mut Report) {
    let options = options.shortened(short);
    for binary in binaries {
        measure(binary, &options, report).await;
    }
}

async fn measure(binary: &str, options: &Options, report: &mut Report) {
    let (folder, of) = (tempfile::tempdir().expect("a folder"), target::name(binary));
    let store = folder.path().join("store");
    let (content, sessions) = (options.content(), options.sessions());
    let settings = format!("search = {}\n", options.search);
    let began = Instant::now();
    let daemon = Daemon::start(binary, folder.path(), &settings);
    fill(&daemon, sessions, options).await;
    println!("{sessions} sessions of {} messages, filled in {:.0} s", options.messages, began.elapsed().as_secs_f64());
    drop(daemon);
    // The daemon's own first pass comes ten minutes after its start.
    let kept = (content as f64 * options.keep) as u64;
    let rule = format!("{settings}[[retention]]\nname = \"room\"\nmax_bytes = {kept}\n");
    let daemon = Daemon::start(binary, folder.path(), &rule);
    let mut writers = Writers::start(&daemon, options).await;
    let before = writers.append(options).await;
    report.row("appends before", &of, None, &before, &[("files_mib", mebibytes(&store))]);

    let channel = connect(&daemon.socket).await;
    let process = Process::new(daemon.pid());
    let (began, cost) = (Instant::now(), process.cost());
    let pass = tokio::spawn(async move {
        let mut erasures = EraseServiceClient::new(channel);
        let answer = erasures.apply_retention(pb::ApplyRetentionRequest::default()).await.expect("a pass");
        let (mut pieces, mut last) = (answer.into_inner(), None);
        while let Some(piece) = pieces.message().await.expect("a piece") {
            last = piece.item;
        }
        (last, began.elapsed())
    });
    let mut meanwhile = Latencies::default();
    while !pass.is_finished() {
        meanwhile.add(&writers.append(options).await);
    }
    let (last, time) = pass.await.expect("a pass");
    let cost = process.cost().since(cost);
    let Some(pb::apply_retention_response::Item::Summary(summary)) = last else { panic!("the pass has no end") };
    let (after, shrinking) = (writers.append(options).await, settle(&store).await);
    let figures = [
        ("seconds", time.as_secs_f64()),
        ("sessions", summary.erased_count as f64),
        ("content_mib", summary.content_bytes as f64 / f64::from(1 << 20)),
        // With the appends meanwhile.
        ("cpu_seconds", cost.cpu.as_secs_f64()),
        ("written_mib", cost.written as f64 / f64::from(1 << 20)),
        ("files_mib", mebibytes(&store)),
        ("smaller_seconds", shrinking.as_secs_f64()),
    ];
    report.figures("the pass", &of, &figures);
    report.row("appends meanwhile", &of, None, &meanwhile, &[]);
    report.row("appends after", &of, None, &after, &[]);
    let ratio = meanwhile.millis(0.99) / before.millis(0.99);
    report.figures("meanwhile to before", &of, &[("ratio_of_p99", ratio)]);
    let rest = summary.erased_count as f64 / sessions as f64;
    report.target("erased share", &of, ("share", rest), Bound::AtLeast(0.99 * (1.0 - options.keep)));
}

/// Waits until the files have the same size for a while, and returns the time until then.
async fn settle(store: &Path) -> Duration {
    let began = Instant::now();
    let (mut size, mut since) = (mebibytes(store), Duration::ZERO);
    let mut looks = tokio::time::interval(Duration::from_secs(1));
    while began.elapsed() < since + REST {
        looks.tick().await;
        let now = mebibytes(store);
        if (now - size).abs() > 1.0 {
            (size, since) = (now, began.elapsed());
        }
    }
    since
}

/// Fills sessions by several callers.
pub(crate) async fn fill(daemon: &Daemon, sessions: usize, options: &Options) {
    let mut callers = JoinSet::new();
    for caller in 0..FILLERS {
        let (channel, options) = (connect(&daemon.socket).await, options.clone());
        callers.spawn(async move {
            let mut texts = Texts::new(caller as u64, options.bytes);
            let mut client = MessageServiceClient::new(channel.clone());
            for _ in (caller..sessions).step_by(FILLERS) {
                let id = session(&channel).await;
                for from in (0..options.messages).step_by(BATCH) {
                    let batch = from..options.messages.min(from + BATCH);
                    let messages = batch.map(|_| message(texts.text())).collect();
                    client.append_messages(request(&id, messages)).await.expect("appended");
                }
            }
        });
    }
    while let Some(filled) = callers.join_next().await {
        filled.expect("a caller");
    }
}

/// Who appends beside the pass.
pub(crate) struct Writers(Vec<Writer>);

struct Writer {
    client: MessageServiceClient<tonic::transport::Channel>,
    session: String,
    texts: Texts,
}

impl Writers {
    pub(crate) async fn start(daemon: &Daemon, options: &Options) -> Self {
        let mut writers = Vec::new();
        for number in 0..options.writers {
            let channel = connect(&daemon.socket).await;
            let session = session(&channel).await;
            let texts = Texts::new(1_000 + number as u64, APPEND_BYTES);
            writers.push(Writer { client: MessageServiceClient::new(channel), session, texts });
        }
        Self(writers)
    }

    /// Appends at the rate for the time of a measurement.
    pub(crate) async fn append(&mut self, options: &Options) -> Latencies {
        let (ticks, pacer) = pace::start(Instant::now(), options.rate, Duration::from_secs_f64(options.seconds));
        let mut appending = JoinSet::new();
        for mut writer in self.0.drain(..) {
            let ticks = ticks.clone();
            appending.spawn(async move {
                let mut answers = Latencies::default();
                while let Ok(begin) = ticks.recv().await {
                    let request = request(&writer.session, vec![message(writer.texts.text())]);
                    writer.client.append_messages(request).await.expect("appended");
                    answers.record(begin.elapsed());
                }
                (writer, answers)
            });
        }
        let mut all = Latencies::default();
        while let Some(appended) = appending.join_next().await {
            let (writer, answers) = appended.expect("a writer");
            all.add(&answers);
            self.0.push(writer);
        }
        pacer.join().expect("all began");
        all
    }
}

/// The size of a store's files.
pub(crate) fn mebibytes(store: &Path) -> f64 {
    let files = std::fs::read_dir(store).expect("a folder").flatten();
    let bytes: u64 = files.filter_map(|file| file.metadata().ok()).map(|data| data.len()).sum();
    bytes as f64 / f64::from(1 << 20)
}
