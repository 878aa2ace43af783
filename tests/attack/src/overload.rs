//! Overload: clients that read nothing, finish nothing, or are too many. A well-behaved client runs beside each of
//! them, and its calls are timed: memory stays bounded, other clients are not affected, and every refusal has a reason.

mod bystander;
mod crowd;
mod faults;
mod packed;
mod plain;
mod searches;
mod strangers;

use crate::daemon::Daemon;
use crate::seed::generator;
use anyhow::{Context as _, Result};
use bystander::{Bystander, Timings};
use rand::Rng as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

pub use faults::Fault;

/// Maximum time in which a daemon must stop, whatever clients do.
const STOP_MAX: Duration = Duration::from_secs(10);

/// Options of the attack.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Draws sizes and words; printed, so that the attack can be repeated.
    #[arg(long)]
    seed: Option<u64>,
    /// Runs only this fault, by its name in the table.
    #[arg(long)]
    only: Option<String>,
    /// Maximum 99th percentile of the times of other clients' calls, in milliseconds.
    #[arg(long, default_value_t = 1_000)]
    others_ms: u64,
}

/// Sizes of the faults.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Number of concurrent connections.
    pub connections: usize,
    /// Number of event streams that their clients do not read.
    pub streams: usize,
    /// Number of views that their clients do not read, and the bytes of each.
    pub views: (usize, usize),
    /// Number of requests that are begun and not finished, and the bytes of each.
    pub requests: (usize, usize),
    /// Number of concurrent appends.
    pub appends: usize,
    /// Number of messages in the index that is searched.
    pub searched: usize,
    /// Nesting depth of JSON.
    pub depth: usize,
    /// Number of connections that send slowly, or nothing.
    pub slow: usize,
    /// Number of connections of clients without a token, and how often each sends another byte.
    pub strangers: usize,
    /// See above.
    pub trickles: usize,
    /// Seconds for which the daemon waits for a client that reads nothing.
    pub stall_seconds: u64,
    /// Time for which a fault is held, in addition to the time that it needs to show.
    pub hold: Duration,
}

impl Scale {
    /// The full attack.
    pub const LONG: Self = Self {
        connections: 10_000,
        streams: 1_000,
        views: (6, 200_000_000),
        requests: (120, 15_000_000),
        appends: 5_000,
        searched: 200_000,
        depth: 100_000,
        slow: 500,
        strangers: 8_000,
        trickles: 20,
        stall_seconds: 10,
        hold: Duration::from_secs(5),
    };
    /// The short form.
    pub const SHORT: Self = Self {
        connections: 200,
        streams: 60,
        views: (3, 20_000_000),
        requests: (60, 12_000_000),
        appends: 1_300,
        searched: 1_000,
        depth: 100_000,
        slow: 20,
        strangers: 4_200,
        trickles: 2,
        stall_seconds: 1,
        hold: Duration::from_millis(200),
    };
}

impl Scale {
    /// True if there is no time to wait until everything has ended.
    pub(crate) fn is_short(&self) -> bool {
        self.hold < Duration::from_secs(1)
    }
}

/// Result of one fault.
#[derive(Debug)]
pub struct Outcome {
    /// Name of the fault.
    pub fault: &'static str,
    /// Number of attempts, in the fault's own unit.
    pub tried: usize,
    /// Memory of the daemon in KiB: before the fault, and its peak.
    pub memory_kib: (u64, u64),
    /// Timings of other clients' calls meanwhile.
    pub others: Timings,
    /// Time that the daemon took to stop.
    pub stopped: Duration,
    /// Answers to the attackers, with their counts.
    pub counts: BTreeMap<String, usize>,
    /// Violations; empty if there are none.
    pub broken: Vec<String>,
}

/// The daemon under attack.
pub struct Target {
    /// The daemon.
    pub daemon: Daemon,
    /// Its data directory.
    pub directory: PathBuf,
    /// Sizes of the faults.
    pub scale: Scale,
    /// Incompressible text.
    pub noise: String,
}

/// Maximum bytes of the daemon's log under any fault: what clients do is counted, not told one by one.
const LOG_BYTES_MAX: u64 = 64 * 1024;

/// Runs the full attack, prints the results, and fails if there are violations.
pub async fn main(options: Options) -> ExitCode {
    let seed = options.seed.unwrap_or_else(|| rand::rng().random());
    println!("seed {seed}");
    match attack(&options, seed).await {
        Ok(outcomes) => {
            print(&outcomes);
            if outcomes.iter().all(|outcome| outcome.broken.is_empty()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn attack(options: &Options, seed: u64) -> Result<Vec<Outcome>> {
    let program = std::env::current_exe()?;
    let mut outcomes = Vec::new();
    for fault in Fault::ALL {
        if options.only.as_ref().is_some_and(|only| only != fault.name()) {
            continue;
        }
        let outcome = run(&program, fault, Scale::LONG, seed, Duration::from_millis(options.others_ms)).await;
        outcomes.push(outcome.with_context(|| fault.name())?);
    }
    Ok(outcomes)
}

/// Raises the limit of descriptors to the allowed maximum: each connection takes one in this process, too.
fn raise_descriptors() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?)
}

/// Attacks a new daemon with one fault. `others_max` is the maximum 99th percentile of the times of other clients'
/// calls.
pub async fn run(program: &Path, fault: Fault, scale: Scale, seed: u64, others_max: Duration) -> Result<Outcome> {
    let folder = tempfile::tempdir()?;
    let directory = folder.path().join("data");
    std::fs::create_dir(&directory)?;
    let settings = folder.path().join("longhand.toml");
    // A crowd takes the processors from its own clients too, which may then take nothing for a while.
    let stall = if fault == Fault::Crowd { Scale::LONG.stall_seconds } else { scale.stall_seconds };
    std::fs::write(&settings, format!("stall_seconds = {stall}\n"))?;
    raise_descriptors()?;
    let log = folder.path().join("log");
    let written = std::fs::File::create(&log)?;
    let change = |command: &mut tokio::process::Command| {
        command.arg("--config").arg(settings).stderr(written);
    };
    let daemon = Daemon::start(program, &directory, change).await?;
    let mut draw = generator(seed, fault.name());
    let noise = (0..1 << 16).map(|_| char::from(draw.random_range(b' '..=b'~'))).collect();
    let target = Target { daemon, directory, scale, noise };
    let prepared = fault.prepare(&target).await?;
    let process = target.daemon.id()?;
    let before = memory_kib(process, "VmRSS:")?;
    let bystander = Bystander::start(target.daemon.socket()).await?;
    let (tried, counts, mut broken) = fault.commit(&target, prepared).await?;
    let others = bystander.stop().await?;
    let most = memory_kib(process, "VmHWM:")?;
    let bound = before + fault.memory_bound_kib(scale);
    if most > bound {
        broken.push(format!("{} MiB of memory, more than {}", most / 1024, bound / 1024));
    }
    if others.of_hundred(99) > others_max {
        broken.push(format!("others waited {:?}", others.of_hundred(99)));
    }
    if fault == Fault::Crowd && others.busy > 0 {
        broken.push(format!("another tenant's calls were refused {} times", others.busy));
    }
    broken.extend(others.errors.iter().map(|error| format!("another client got the error: {error}")));
    let began = Instant::now();
    let ended = target.daemon.stop().await?;
    let stopped = began.elapsed();
    if !ended.success() || stopped > STOP_MAX {
        broken.push(format!("the daemon ended with {ended} after {stopped:?}"));
    }
    let log = std::fs::metadata(log)?.len();
    if log > LOG_BYTES_MAX {
        broken.push(format!("{log} bytes of the daemon's log"));
    }
    Ok(Outcome { fault: fault.name(), tried, memory_kib: (before, most), others, stopped, counts, broken })
}

/// One memory figure of a process, in KiB.
fn memory_kib(process: rustix::process::Pid, name: &str) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.as_raw_nonzero()))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).context("no such figure")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}

fn print(outcomes: &[Outcome]) {
    println!("| fault | tried | memory, MiB | others: calls, refused, p50, p99, worst | stop | answers | result |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for Outcome { fault, tried, memory_kib: (before, most), others, stopped, counts, broken } in outcomes {
        let (p50, p99, worst) = (others.of_hundred(50), others.of_hundred(99), others.of_hundred(100));
        let counts: Vec<String> = counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
        let result = if broken.is_empty() { "ok".to_owned() } else { broken.join("; ") };
        println!(
            "| {fault} | {tried} | {} to {} | {}, {}, {p50:.1?}, {p99:.1?}, {worst:.1?} | {stopped:.1?} | {} | {result} |",
            before / 1024,
            most / 1024,
            others.calls(),
            others.busy,
            counts.join(", "),
        );
    }
}
