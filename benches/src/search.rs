//! Full-text search: appends with the index and without it in turn, the lag behind a burst, searches over many messages,
//! and the size of the index.

use crate::fleet::Daemon;
use crate::report::{Bound, Latencies, Report};
use crate::target::{connect, message, name, request, session};
use clap::Args;
use longhand::pb;
use longhand::pb::message_service_client::MessageServiceClient;
use longhand::pb::search_service_client::SearchServiceClient;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tonic::transport::Channel;

/// Messages of an append that fills the store.
const BATCH: usize = 100;
/// Messages of a session.
const SESSION_MESSAGES: usize = 500;
/// Callers of the appends whose rate is measured.
const CALLERS: usize = 16;
/// Times that both daemons are measured.
const ROUNDS: usize = 6;
/// Words of the vocabulary.
const WORDS: usize = 50_000;
/// Messages of the short form.
const SHORT_MESSAGES: usize = 10_000;
/// Time in which the index has to have everything.
const DEADLINE: Duration = Duration::from_secs(3_600);

/// Full-text search.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Messages that are searched.
    #[arg(long, default_value_t = 50_000)]
    messages: usize,
    /// Length of a message, in bytes, about.
    #[arg(long, default_value_t = 1_024)]
    bytes: usize,
    /// Searches of each kind.
    #[arg(long, default_value_t = 200)]
    searches: usize,
    /// Seconds of each measurement of appends.
    #[arg(long, default_value_t = 4)]
    seconds: u64,
}

/// Measures each build by itself.
pub(crate) async fn run(binaries: &[String], options: &Options, short: bool, report: &mut Report) {
    let options = Options { messages: if short { SHORT_MESSAGES } else { options.messages }, ..options.clone() };
    println!(
        "{} messages of {} bytes, and {} searches of each kind",
        options.messages, options.bytes, options.searches
    );
    for binary in binaries {
        let of = name(binary);
        rates(binary, &options, &of, report).await;
        let with = Store::start(binary, true).await;
        let (content, seconds) = fill(&with, &options).await;
        let began = Instant::now();
        let seq = with.head().await;
        let lag = with.indexed(seq).await;
        let figures = [
            ("messages_per_second", options.messages as f64 / seconds),
            ("lag_seconds", lag.as_secs_f64()),
            ("indexed_per_second", options.messages as f64 / (seconds + began.elapsed().as_secs_f64())),
        ];
        report.figures("a burst of appends", &of, &figures);
        size(&with, content, &of, report);
        searches(&with, &options, &of, report).await;
    }
}

/// A daemon with its store.
struct Store {
    daemon: Daemon,
    folder: TempDir,
    channel: Channel,
}

impl Store {
    async fn start(binary: &str, index: bool) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let daemon = Daemon::start(binary, folder.path(), &format!("search = {index}\n"));
        let channel = connect(&daemon.socket).await;
        Self { daemon, folder, channel }
    }

    fn search(&self) -> SearchServiceClient<Channel> {
        SearchServiceClient::new(self.channel.clone())
    }

    /// The newest event: that of an append.
    async fn head(&self) -> i64 {
        let id = session(&self.channel).await;
        let mut messages = MessageServiceClient::new(self.channel.clone());
        let appended = messages.append_messages(request(&id, vec![message("the last one".to_owned())])).await;
        appended.expect("appended").into_inner().seq
    }

    /// Waits until the index has an event, and returns the time.
    async fn indexed(&self, seq: i64) -> Duration {
        let began = Instant::now();
        while began.elapsed() < DEADLINE {
            let request = pb::SearchHistoryRequest {
                query: "zzz".to_owned(),
                min_seq: seq,
                wait_timeout: Some(Duration::from_secs(30).try_into().expect("a length of time")),
                ..pb::SearchHistoryRequest::default()
            };
            if self.search().search_history(request).await.expect("answered").into_inner().indexed_seq >= seq {
                return began.elapsed();
            }
        }
        panic!("the index has not everything after {DEADLINE:?}");
    }
}

/// Texts of prose, names of code and paths, in which few words are frequent and most are rare.
struct Prose {
    random: StdRng,
    bytes: usize,
    number: usize,
}

impl Prose {
    fn new(seed: u64, bytes: usize) -> Self {
        Self { random: StdRng::seed_from_u64(seed), bytes, number: 0 }
    }

    /// A word by its rank, from 0.
    fn word(rank: usize) -> String {
        const PIECES: [&str; 16] =
            ["ka", "lo", "mi", "ter", "on", "se", "view", "par", "na", "dek", "ru", "is", "bel", "tor", "fa", "qu"];
        let mut word = String::new();
        let mut left = rank + 16;
        while left > 0 {
            word.push_str(PIECES[left % 16]);
            left /= 16;
        }
        word
    }

    /// A rank: half as often for twice the rank, about.
    fn rank(&mut self) -> usize {
        let exponent: f64 = self.random.random_range(0.0..1.0);
        (WORDS as f64).powf(exponent) as usize - 1
    }

    fn text(&mut self) -> String {
        let mut text = String::with_capacity(self.bytes + 64);
        while text.len() < self.bytes {
            let (one, other) = (Self::word(self.rank()), Self::word(self.rank()));
            match self.random.random_range(0..12) {
                0 => text.push_str(&format!("{one}_{other}() ")),
                1 => text.push_str(&format!("src/{one}/{other}.rs:{} ", self.number % 500)),
                2 => text.push_str(&format!("{one}.\n")),
                _ => text.push_str(&format!("{one} {other} ")),
            }
        }
        self.number += 1;
        text
    }
}

/// Appends all messages in batches, and returns the bytes of their texts and the seconds.
async fn fill(store: &Store, options: &Options) -> (usize, f64) {
    let mut messages = MessageServiceClient::new(store.channel.clone());
    let (mut prose, mut bytes, mut id) = (Prose::new(1, options.bytes), 0, String::new());
    let mut spent = Duration::ZERO;
    for first in (0..options.messages).step_by(BATCH) {
        if first % SESSION_MESSAGES == 0 {
            id = session(&store.channel).await;
        }
        let texts: Vec<String> = (0..BATCH.min(options.messages - first)).map(|_| prose.text()).collect();
        bytes += texts.iter().map(String::len).sum::<usize>();
        let request = request(&id, texts.into_iter().map(message).collect());
        let began = Instant::now();
        messages.append_messages(request).await.expect("appended");
        spent += began.elapsed();
    }
    (bytes, spent.as_secs_f64())
}

/// Appends by several callers, with an index and without one in turn.
async fn rates(binary: &str, options: &Options, of: &str, report: &mut Report) {
    let stores = [Store::start(binary, true).await, Store::start(binary, false).await];
    let mut rates = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        for turn in 0..2 {
            // Each goes first as often as the other.
            let which = (round + turn) % 2;
            rates[which].push(rate(&stores[which], options, round).await);
            if which == 0 {
                // The work that was put off is not in the way of the other.
                stores[0].indexed(stores[0].head().await).await;
            }
        }
    }
    let ratios = rates[0].iter().zip(&rates[1]).map(|(with, without)| with / without).collect();
    let [with, without] = rates.map(median);
    report.figures("appends", of, &[("with_per_second", with), ("without_per_second", without)]);
    report.target("appends with the index", of, ("ratio", median(ratios)), Bound::AtLeast(0.95));
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}

/// Appends per second.
async fn rate(store: &Store, options: &Options, round: usize) -> f64 {
    let count = Arc::new(AtomicUsize::new(0));
    let time = Duration::from_secs(options.seconds);
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (channel, count, bytes) = (store.channel.clone(), Arc::clone(&count), options.bytes);
        let id = session(&store.channel).await;
        callers.spawn(async move {
            let mut prose = Prose::new((round * CALLERS + caller) as u64, bytes);
            let texts: Vec<String> = (0..64).map(|_| prose.text()).collect();
            let mut messages = MessageServiceClient::new(channel);
            let began = Instant::now();
            for text in texts.iter().cycle() {
                if began.elapsed() >= time {
                    break;
                }
                messages.append_messages(request(&id, vec![message(text.clone())])).await.expect("appended");
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let began = Instant::now();
    while callers.join_next().await.is_some() {}
    count.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64()
}

/// The files of the index beside the content.
fn size(store: &Store, content: usize, of: &str, report: &mut Report) {
    let bytes = |name: &str| bytes_of(store.folder.path(), name);
    let index = bytes("longhand-search.db") + bytes("longhand-search.db-wal");
    let all = bytes("longhand.db") + bytes("longhand.db-wal");
    let figures = [
        ("index_bytes_per_byte", index as f64 / content as f64),
        ("store_bytes_per_byte", all as f64 / content as f64),
    ];
    report.figures("files", of, &figures);
}

fn bytes_of(folder: &Path, name: &str) -> u64 {
    std::fs::metadata(folder.join("store").join(name)).map_or(0, |found| found.len())
}

/// Searches for words of several frequencies.
async fn searches(store: &Store, options: &Options, of: &str, report: &mut Report) {
    let mut random = StdRng::seed_from_u64(7);
    let word = |random: &mut StdRng, ranks: std::ops::Range<usize>| Prose::word(random.random_range(ranks));
    for kind in ["rare words", "common words", "the commonest words", "two words", "a phrase", "a beginning*"] {
        let mut latencies = Latencies::default();
        let mut hits = 0;
        for _ in 0..options.searches {
            let query = match kind {
                "rare words" => word(&mut random, 5_000..WORDS),
                "common words" => word(&mut random, 50..500),
                "the commonest words" => word(&mut random, 0..10),
                "two words" => format!("{} {}", word(&mut random, 10..500), word(&mut random, 500..5_000)),
                "a phrase" => format!("\"{} {}\"", word(&mut random, 0..100), word(&mut random, 0..100)),
                _ => format!("{}*", word(&mut random, 50..5_000)),
            };
            let request = pb::SearchHistoryRequest { query, ..pb::SearchHistoryRequest::default() };
            let began = Instant::now();
            let page = store.search().search_history(request).await.expect("answered").into_inner();
            latencies.record(began.elapsed());
            hits += page.hits.len();
        }
        let figures = [("hits_per_page", hits as f64 / options.searches as f64)];
        report.row(&format!("first page: {kind}"), of, None, &latencies, &figures);
    }
    // The daemon runs until here.
    assert!(!store.daemon.socket.is_empty());
}
