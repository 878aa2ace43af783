//! Overload: clients that take nothing, finish nothing, or are simply too many. Beside each of them a client behaves, and
//! its calls are timed: memory stays bounded, others are not affected, and whoever is turned away is told why.

mod bystander;
mod faults;

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

/// A daemon that is asked to stop ends within this, whatever clients do.
const STOP_MAX: Duration = Duration::from_secs(10);

/// What the attack is.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Draws sizes and words; printed, so that the same attack can be made again.
    #[arg(long)]
    seed: Option<u64>,
    /// Only this fault, by its name in the table.
    #[arg(long)]
    only: Option<String>,
    /// The longest that the calls of others may take, all but one of a hundred, in milliseconds.
    #[arg(long, default_value_t = 1_000)]
    others_ms: u64,
}

/// How much of everything.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Connections at a time.
    pub connections: usize,
    /// Event streams that nobody reads.
    pub streams: usize,
    /// Views that nobody reads, and the bytes of each.
    pub views: (usize, usize),
    /// Requests that are begun and not finished, and the bytes of each.
    pub requests: (usize, usize),
    /// Appends at a time.
    pub appends: usize,
    /// How deep JSON is nested.
    pub depth: usize,
    /// Connections that send slowly, or nothing.
    pub slow: usize,
    /// How long the daemon waits for a client that takes nothing.
    pub stall_seconds: u64,
    /// How long a fault is held, beside what it needs to be seen.
    pub hold: Duration,
}

impl Scale {
    /// The attack itself.
    pub const LONG: Self = Self {
        connections: 10_000,
        streams: 1_000,
        views: (6, 200_000_000),
        requests: (120, 15_000_000),
        appends: 5_000,
        depth: 100_000,
        slow: 500,
        stall_seconds: 10,
        hold: Duration::from_secs(5),
    };
    /// A glimpse of it.
    pub const SHORT: Self = Self {
        connections: 200,
        streams: 60,
        views: (3, 20_000_000),
        requests: (60, 12_000_000),
        appends: 1_300,
        depth: 100_000,
        slow: 20,
        stall_seconds: 1,
        hold: Duration::from_millis(200),
    };
}

impl Scale {
    /// Whether there is no time to wait until everything has ended.
    fn is_short(&self) -> bool {
        self.hold < Duration::from_secs(1)
    }
}

/// What came of one fault.
#[derive(Debug)]
pub struct Outcome {
    /// Its name.
    pub fault: &'static str,
    /// How often it was tried, in its own unit.
    pub tried: usize,
    /// Kibibytes of the daemon before, and at most.
    pub memory_kib: (u64, u64),
    /// How the calls of others fared meanwhile.
    pub others: Timings,
    /// How long the daemon took to stop.
    pub stopped: Duration,
    /// What the attackers were told, and how often.
    pub told: BTreeMap<String, usize>,
    /// What should not have been; empty if all is well.
    pub broken: Vec<String>,
}

/// What a fault works on.
pub struct Target {
    /// The daemon.
    pub daemon: Daemon,
    /// Its data directory.
    pub directory: PathBuf,
    /// How much of everything.
    pub scale: Scale,
    /// Words that no compression makes short.
    pub noise: String,
}

/// Makes the attack at full size, prints what came of it, and fails if something did that should not have.
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
    raise_descriptors()?;
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

/// As many descriptors as the system allows: each connection takes one here, too.
fn raise_descriptors() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?)
}

/// Attacks a daemon of its own with one fault. `others_max` is the longest that the calls of others may take, all but one
/// of a hundred.
pub async fn run(program: &Path, fault: Fault, scale: Scale, seed: u64, others_max: Duration) -> Result<Outcome> {
    let folder = tempfile::tempdir()?;
    let directory = folder.path().join("data");
    std::fs::create_dir(&directory)?;
    let settings = folder.path().join("longhand.toml");
    std::fs::write(&settings, format!("stall_seconds = {}\n", scale.stall_seconds))?;
    let change = |command: &mut tokio::process::Command| {
        command.arg("--config").arg(settings);
    };
    let daemon = Daemon::start(program, &directory, change).await?;
    let mut draw = generator(seed, fault.name());
    let noise = (0..1 << 16).map(|_| char::from(draw.random_range(b' '..=b'~'))).collect();
    let target = Target { daemon, directory, scale, noise };
    let prepared = fault.prepare(&target).await?;
    let process = target.daemon.id()?;
    let before = memory_kib(process, "VmRSS:")?;
    let bystander = Bystander::start(target.daemon.socket()).await?;
    let (tried, told, mut broken) = fault.commit(&target, prepared).await?;
    let others = bystander.stop().await?;
    let most = memory_kib(process, "VmHWM:")?;
    let bound = before + fault.memory_bound_kib(scale);
    if most > bound {
        broken.push(format!("{} MiB of memory, more than {}", most / 1024, bound / 1024));
    }
    if others.of_hundred(99) > others_max {
        broken.push(format!("others waited {:?}", others.of_hundred(99)));
    }
    broken.extend(others.errors.iter().map(|error| format!("another client was told: {error}")));
    let began = Instant::now();
    let ended = target.daemon.stop().await?;
    let stopped = began.elapsed();
    if !ended.success() || stopped > STOP_MAX {
        broken.push(format!("the daemon ended with {ended} after {stopped:?}"));
    }
    Ok(Outcome { fault: fault.name(), tried, memory_kib: (before, most), others, stopped, told, broken })
}

/// A figure of a process's memory.
fn memory_kib(process: rustix::process::Pid, name: &str) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.as_raw_nonzero()))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).context("no such figure")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}

fn print(outcomes: &[Outcome]) {
    println!("| fault | tried | memory, MiB | others: calls, refused, p50, p99, worst | stop | told | result |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for Outcome { fault, tried, memory_kib: (before, most), others, stopped, told, broken } in outcomes {
        let (p50, p99, worst) = (others.of_hundred(50), others.of_hundred(99), others.of_hundred(100));
        let told: Vec<String> = told.iter().map(|(what, count)| format!("{count} {what}")).collect();
        let result = if broken.is_empty() { "ok".to_owned() } else { broken.join("; ") };
        println!(
            "| {fault} | {tried} | {} to {} | {}, {}, {p50:.1?}, {p99:.1?}, {worst:.1?} | {stopped:.1?} | {} | {result} |",
            before / 1024,
            most / 1024,
            others.calls(),
            others.busy,
            told.join(", "),
        );
    }
}
