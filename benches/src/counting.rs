//! Token counts: the default policy's estimate beside four characters for a token and the tokenizer, by kind of text; and
//! the appends of others while the daemon counts large outputs of one and of two writers exactly.

use crate::client::{Client, encode};
use crate::fleet::Daemon;
use crate::report::{Latencies, Report};
use crate::target::{self, Texts, connect, message, request, session};
use clap::Args;
use longhand::pb;
use longhand::pb::session_service_client::SessionServiceClient;
use longhand::policy::bpe::{self, Encoding};
use longhand::policy::{Counting, tokens};
use longhand::presets;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use std::hint::black_box;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// A preset that counts with a tokenizer.
const EXACT: &str = "suna@2026";
const SEED: u64 = 1;
const BYTES: usize = 512;
/// Bytes of an output that is counted beside others, too.
const COUNTED_BYTES: usize = 64 << 10;
/// Characters of each kind of text.
const LENGTH: usize = 100_000;
const RUNS: u32 = 5;

/// Large outputs.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Bytes of a large output.
    #[arg(long, default_value_t = 8 << 20)]
    bytes: usize,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
}

macro_rules! sample {
    ($name:literal) => {
        ($name, include_str!(concat!("../../crates/core/src/policy/tokens/samples/", $name, ".txt")))
    };
}

/// Texts by kind.
fn texts() -> Vec<(&'static str, String)> {
    let prose = [
        sample!("english"),
        sample!("german"),
        sample!("russian"),
        sample!("arabic"),
        sample!("hindi"),
        sample!("chinese"),
        sample!("japanese"),
        sample!("korean"),
        ("code", include_str!("counting.rs")),
    ];
    let mut random = StdRng::seed_from_u64(SEED);
    let hexadecimal = (0..LENGTH / 2).map(|_| format!("{:02x}", random.random::<u8>())).collect();
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let base64 = (0..LENGTH).map(|_| char::from(letters[random.random_range(0..letters.len())])).collect();
    let long = |text: &str| text.chars().cycle().take(LENGTH).collect();
    let mut texts: Vec<(&str, String)> = prose.iter().map(|(name, text)| (*name, long(text))).collect();
    texts.extend([("base64", base64), ("hexadecimal", hexadecimal)]);
    texts
}

/// Nanoseconds for each KiB of a text.
fn time(text: &str, count: impl Fn(&str) -> i64) -> f64 {
    let begun = Instant::now();
    for run in 0..RUNS {
        // The tokenizer keeps the counts of texts that it has seen.
        black_box(count(&format!("{run}{text}")));
    }
    begun.elapsed().as_nanos() as f64 / f64::from(RUNS) / (text.len() as f64 / 1_024.0)
}

/// Estimates of the tokens of texts.
fn estimates(report: &mut Report) {
    println!("estimates for each token of o200k_base, and nanoseconds for each KiB");
    let estimate = presets::policy(presets::DEFAULT).counting;
    for (kind, text) in texts() {
        let count = |text: &str| bpe::count(Encoding::O200kBase, text);
        let by_length = |text: &str| tokens::estimate_text(&Counting::default(), text);
        let by_classes = |text: &str| tokens::estimate_text(&estimate, text);
        let exact = count(&text) as f64;
        let figures = [
            ("by_classes", by_classes(&text) as f64 / exact),
            ("by_length", by_length(&text) as f64 / exact),
            ("by_classes_ns", time(&text, by_classes)),
            ("by_length_ns", time(&text, by_length)),
            ("tokenizer_ns", time(&text, count)),
        ];
        report.figures(kind, "estimate", &figures);
    }
}

/// Appends of one caller, one at a time, for this time.
async fn appends(socket: &str, time: Duration) -> Latencies {
    let own = session(&connect(socket).await).await;
    let (mut client, mut texts) = (Client::connect(socket).await, Texts::new(SEED, BYTES));
    let (mut latencies, began) = (Latencies::default(), Instant::now());
    while began.elapsed() < time {
        let body = encode(&request(&own, vec![message(texts.text())]));
        let begun = Instant::now();
        client.append(body).await;
        latencies.record(begun.elapsed());
    }
    latencies
}

/// Appends of outputs to a session whose policy counts exactly, one after the other, until the time is over.
async fn outputs(socket: &str, bytes: usize, time: Duration) -> Latencies {
    let create = pb::CreateSessionRequest { preset: EXACT.to_owned(), ..Default::default() };
    let created = SessionServiceClient::new(connect(socket).await).create_session(create).await.expect("a session");
    let own = created.into_inner().session.expect("a session").session_id;
    let (mut client, mut random) = (Client::connect(socket).await, StdRng::seed_from_u64(SEED));
    let (mut latencies, began) = (Latencies::default(), Instant::now());
    while began.elapsed() < time {
        // Letters without a blank take the tokenizer longest.
        let text = (0..bytes).map(|_| char::from(random.random_range(b'a'..=b'z'))).collect();
        let body = encode(&request(&own, vec![message(text)]));
        let begun = Instant::now();
        client.append(body).await;
        latencies.record(begun.elapsed());
    }
    latencies
}

/// Measures the estimates in this process, and each build's appends by itself.
pub(crate) async fn run(binaries: &[String], options: &Options, short: bool, report: &mut Report) {
    estimates(report);
    let time = Duration::from_secs_f64(if short { options.seconds.min(3.0) } else { options.seconds });
    println!("appends of others beside outputs of {} bytes under {EXACT}", options.bytes);
    for binary in binaries {
        let folder = tempfile::tempdir().expect("a folder");
        let daemon = Daemon::start(binary, folder.path(), "");
        let (socket, name) = (daemon.socket.as_str(), target::name(binary));
        let counted = || outputs(socket, COUNTED_BYTES, time);
        let (others, small) = (appends(socket, time).await, counted().await);
        report.row("append, alone", &name, None, &others, &[]);
        report.row("counted append of 64 KiB, alone", &name, None, &small, &[]);
        for writers in [1, 2] {
            let mut large = JoinSet::new();
            for _ in 0..writers {
                let (socket, bytes) = (daemon.socket.clone(), options.bytes);
                large.spawn(async move { outputs(&socket, bytes, time).await });
            }
            let (others, small, large) = tokio::join!(appends(socket, time), counted(), large.join_all());
            let of = [("large_writers", f64::from(writers))];
            report.row("append, beside large counts", &name, None, &others, &of);
            report.row("counted append of 64 KiB, beside", &name, None, &small, &of);
            for large in large {
                report.row("large counted append", &name, None, &large, &of);
            }
        }
    }
}
