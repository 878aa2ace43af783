//! Appends to one session that grows long: its first fifth against its last one.
//!
//! Raw SQLite takes as many messages in between, so that a change of the machine's speed is not taken for one of the
//! daemon.

use crate::process::Cost;
use crate::report::{Bound, Latencies, Report};
use crate::target::{BODY_BYTES, Sessions, Target, Texts, connect, message, request, session};
use clap::Args;
use longhand::pb::message_service_client::MessageServiceClient;
use std::time::{Duration, Instant};

/// Parts of the session.
const FIFTHS: usize = 5;
/// Turns of the daemon and of raw SQLite in each fifth.
const TURNS: usize = 10;
/// Single appends at the end of each fifth.
const SINGLES: usize = 100;
/// Messages of the short form.
const SHORT_MESSAGES: usize = 50_000;

/// A long session.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Messages of the session.
    #[arg(long, default_value_t = 1_000_000)]
    messages: usize,
    /// Messages of an append.
    #[arg(long, default_value_t = 200)]
    batch: usize,
    /// Length of a message, in bytes.
    #[arg(long, default_value_t = BODY_BYTES)]
    bytes: usize,
}

/// A fifth of the session.
#[derive(Default)]
struct Fifth {
    time: Duration,
    time_of_raw: Duration,
    count: usize,
    cost: Cost,
    singles: Latencies,
}

impl Fifth {
    fn rate(&self) -> f64 {
        self.count as f64 / self.time.as_secs_f64()
    }

    fn rate_of_raw(&self) -> f64 {
        self.count as f64 / self.time_of_raw.as_secs_f64()
    }
}

/// Measures each build by itself.
pub(crate) async fn run(binaries: &[String], options: &Options, short: bool, report: &mut Report) {
    let messages = if short { options.messages.min(SHORT_MESSAGES) } else { options.messages };
    println!("{messages} messages of {} bytes to one session, {} in an append", options.bytes, options.batch);
    for binary in binaries {
        let target = Target::daemon(binary, "").await;
        let fifths = measure(&target, messages, options).await;
        for (index, fifth) in fifths.iter().enumerate() {
            let figures = [
                ("messages_per_second", fifth.rate()),
                ("raw_per_second", fifth.rate_of_raw()),
                ("cpu_us", fifth.cost.micros_each(fifth.count as u64)),
                ("written_bytes", fifth.cost.written as f64 / fifth.count as f64),
                ("single_p50_ms", fifth.singles.millis(0.5)),
            ];
            report.figures(&format!("fifth {} of {FIFTHS}", index + 1), &target.name, &figures);
        }
        let (first, last) = (&fifths[0], &fifths[FIFTHS - 1]);
        let ratio = last.rate() / first.rate();
        report.target("last fifth to first fifth", &target.name, ("ratio", ratio), Bound::AtLeast(0.9));
        let cpu = |fifth: &Fifth| fifth.cost.micros_each(fifth.count as u64);
        let others = [
            ("ratio_of_raw", last.rate_of_raw() / first.rate_of_raw()),
            ("ratio_of_cpu", cpu(last) / cpu(first)),
            ("ratio_of_single_p50", last.singles.millis(0.5) / first.singles.millis(0.5)),
        ];
        report.figures("last fifth to first fifth", &target.name, &others);
    }
}

async fn measure(target: &Target, messages: usize, options: &Options) -> Vec<Fifth> {
    let texts = Texts::new(1, options.bytes);
    let raw = Target::floors().remove(0);
    let mut raw = raw.callers(1, 1, Sessions::Own, &texts).await.remove(0);
    let channel = connect(target.address()).await;
    let session = session(&channel).await;
    let mut client = MessageServiceClient::new(channel);
    let mut own = texts.clone();
    let mut append = async |count: usize| {
        let request = request(&session, (0..count).map(|_| message(own.text())).collect());
        let began = Instant::now();
        client.append_messages(request).await.expect("appended");
        began.elapsed()
    };
    let calls = (messages / FIFTHS / TURNS / options.batch).max(1);
    let mut fifths = Vec::new();
    for _ in 0..FIFTHS {
        let mut fifth = Fifth::default();
        for _ in 0..TURNS {
            let before = target.cost();
            for _ in 0..calls {
                fifth.time += append(options.batch).await;
                fifth.count += options.batch;
            }
            let spent = target.cost().since(before);
            fifth.cost.cpu += spent.cpu;
            fifth.cost.written += spent.written;
            for _ in 0..calls {
                let call = raw.prepare(options.batch).await;
                let began = Instant::now();
                raw.call(call).await;
                fifth.time_of_raw += began.elapsed();
            }
        }
        for _ in 0..SINGLES {
            fifth.singles.record(append(1).await);
        }
        fifths.push(fifth);
    }
    fifths
}
