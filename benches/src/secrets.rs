//! What rules for secrets cost: appends without rules, with the well-known shapes and with fifty rules, in turn.

use crate::fleet::Daemon;
use crate::process::Process;
use crate::report::Report;
use crate::target::{Texts, connect, message, name, request, session};
use clap::Args;
use longhand::pb::message_service_client::MessageServiceClient;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tonic::transport::Channel;

/// Callers.
const CALLERS: u64 = 16;
/// Texts of a caller, sent again and again.
const TEXTS: usize = 64;

/// Rules for secrets.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Length of a message, in bytes.
    #[arg(long, default_value_t = 1_024)]
    bytes: usize,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Times that all daemons are measured.
    #[arg(long, default_value_t = 8)]
    rounds: usize,
}

/// A daemon with its rules.
struct Ruled {
    what: &'static str,
    daemon: Daemon,
    channel: Channel,
    rates: Vec<f64>,
    micros: Vec<f64>,
    _folder: TempDir,
}

impl Ruled {
    async fn start(binary: &str, what: &'static str, settings: &str, rules: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("secrets.toml");
        std::fs::write(&file, rules).expect("the rules are written");
        let settings = settings.replace("FILE", &file.to_string_lossy());
        let daemon = Daemon::start(binary, folder.path(), &format!("search = false\n{settings}"));
        let channel = connect(&daemon.socket).await;
        Self { what, daemon, channel, rates: Vec::new(), micros: Vec::new(), _folder: folder }
    }

    /// Appends by several callers for a while.
    async fn measure(&mut self, options: &Options, seed: u64) {
        let count = Arc::new(AtomicU64::new(0));
        let time = Duration::from_secs(options.seconds);
        let mut callers = JoinSet::new();
        let process = Process::new(self.daemon.pid());
        let (before, began) = (process.cost(), Instant::now());
        for caller in 0..CALLERS {
            let (channel, count) = (self.channel.clone(), Arc::clone(&count));
            let id = session(&self.channel).await;
            let mut texts = Texts::new(seed * CALLERS + caller, options.bytes);
            let texts: Vec<String> = (0..TEXTS).map(|_| texts.text()).collect();
            callers.spawn(async move {
                let mut messages = MessageServiceClient::new(channel);
                for text in texts.iter().cycle() {
                    if began.elapsed() >= time {
                        break;
                    }
                    messages.append_messages(request(&id, vec![message(text.clone())])).await.expect("appended");
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while callers.join_next().await.is_some() {}
        let count = count.load(Ordering::Relaxed);
        self.rates.push(count as f64 / began.elapsed().as_secs_f64());
        self.micros.push(process.cost().since(before).micros_each(count));
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}

/// Rules with beginnings of their own, as a company has them.
fn fifty() -> String {
    let rule = |number: usize| {
        let letter = char::from(b'a' + u8::try_from(number % 26).unwrap_or(0));
        format!(
            "[[rule]]\nname = \"rule-{number}\"\naction = \"redact\"\npattern = '\\b{letter}{letter}k{number}[_-][A-Za-z0-9]{{24,64}}\\b'\n"
        )
    };
    (0..50).map(rule).collect()
}

/// Measures each build by itself.
pub(crate) async fn run(binaries: &[String], options: &Options, short: bool, report: &mut Report) {
    let options = Options { rounds: if short { 2 } else { options.rounds }, ..options.clone() };
    println!("appends of {} bytes by {CALLERS} callers, {} rounds", options.bytes, options.rounds);
    for binary in binaries {
        let mut all = [
            Ruled::start(binary, "no rules", "", "").await,
            Ruled::start(binary, "well-known shapes, warn", "secrets = { known = \"warn\" }\n", "").await,
            Ruled::start(binary, "well-known shapes, redact", "secrets = { known = \"redact\" }\n", "").await,
            Ruled::start(binary, "fifty rules, redact", "secrets = { rules = \"FILE\" }\n", &fifty()).await,
        ];
        let kinds = all.len();
        for round in 0..options.rounds {
            // Each goes first as often as the others.
            for turn in 0..kinds {
                all[(round + turn) % kinds].measure(&options, round as u64).await;
            }
        }
        let [none, ..] = &all;
        let (rates, micros) = (none.rates.clone(), none.micros.clone());
        for ruled in all {
            let ratios =
                |these: &[f64], base: &[f64]| median(these.iter().zip(base).map(|(one, other)| one / other).collect());
            let differences = ruled.micros.iter().zip(&micros).map(|(one, other)| one - other).collect();
            let figures = [
                ("ratio_of_rates", ratios(&ruled.rates, &rates)),
                ("ratio_of_cpu", ratios(&ruled.micros, &micros)),
                ("more_cpu_us", median(differences)),
                ("per_second", median(ruled.rates)),
                ("cpu_us", median(ruled.micros)),
            ];
            report.figures(ruled.what, &name(binary), &figures);
        }
    }
}
