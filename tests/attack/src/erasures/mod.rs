//! What erasures leave in files: clients write, stream, edit, fork, compact and erase, while the daemon is killed at
//! random, and every byte of every file of its directory is read for what was erased, as words and in its compressed
//! form.

mod client;
mod life;
mod pages;
mod traces;

use crate::daemon::Daemon;
use crate::seed::generator;
use anyhow::{Context as _, Result};
use clap::Args;
use life::{Counts, Life};
use rand::Rng as _;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;
use traces::{Trace, Wanted};

/// Maximum time for which an answer to a repeated erasure may name files.
const PENDING_TIME_MAX: Duration = Duration::from_secs(60);
/// Maximum time for which a killed process may hold its lock.
const LOCK_TIME_MAX: Duration = Duration::from_secs(20);
/// One erasure in this many is looked for before, so that it is known that the files have it.
const SEEN_BEFORE: u64 = 100;

/// Size of the attack.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// The seed; the same one draws the same lives. Random if not given.
    #[arg(long)]
    pub seed: Option<u64>,
    /// The attack ends after this number of erasures.
    #[arg(long, default_value_t = Self::default().erasures)]
    pub erasures: u64,
    /// The attack ends after this number of seconds.
    #[arg(long, default_value_t = Self::default().seconds)]
    pub seconds: u64,
    /// Clients, each with sessions of its own.
    #[arg(long, default_value_t = Self::default().clients)]
    pub clients: usize,
    /// Erasures after which all files are read.
    #[arg(long, default_value_t = Self::default().interval)]
    pub interval: u64,
    /// The longest life of the daemon, in milliseconds.
    #[arg(long, default_value_t = Self::default().life_ms)]
    pub life_ms: u64,
    /// The attack ends at the first finding.
    #[arg(long)]
    pub first: bool,
    /// The `attack` program of another build, to attack its daemon.
    #[arg(long)]
    pub program: Option<PathBuf>,
    /// Directory of the store; a temporary one if not given.
    #[arg(long)]
    pub directory: Option<PathBuf>,
}

impl Default for Options {
    /// The long form, with the defaults of the command line.
    fn default() -> Self {
        Self {
            seed: None,
            erasures: 2_000,
            seconds: 1_800,
            clients: 12,
            interval: 10,
            life_ms: 30_000,
            first: false,
            program: None,
            directory: None,
        }
    }
}

/// Result of an attack.
#[derive(Debug, Default)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Acknowledged erasures.
    pub erasures: u64,
    /// Times the daemon was killed.
    pub kills: u64,
    /// Times all files were read, and their bytes.
    pub reads: (u64, u64),
    /// Looks before an erasure that saw words, and those that saw compressed texts.
    pub seen: (u64, u64),
    /// Erasures of which something was left.
    pub left: usize,
    /// What else was done, and what was refused.
    pub counts: BTreeMap<String, u64>,
    /// Where something was left.
    pub findings: Vec<String>,
    /// How long it took.
    pub time: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, erasures, kills, reads: (reads, bytes), seen: (plain, packed), left, counts, .. } = self;
        for finding in &self.findings {
            writeln!(f, "{finding}")?;
        }
        for (what, count) in counts {
            writeln!(f, "{count} {what}")?;
        }
        writeln!(f, "seen before erasures: {plain} times words, {packed} times compressed texts")?;
        let mib = bytes >> 20;
        let time = self.time;
        write!(
            f,
            "seed {seed}: {erasures} erasures, {left} left, {kills} kills, {reads} reads of {mib} MiB, {time:.1?}"
        )
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn count(counts: &Mutex<Counts>, what: &str) {
    *lock(counts).entry(what.to_owned()).or_default() += 1;
}

/// What all clients share.
struct Shared {
    directory: PathBuf,
    socket: PathBuf,
    up: watch::Sender<bool>,
    is_stopping: AtomicBool,
    options: Options,
    erasures: AtomicU64,
    looks: AtomicU64,
    counts: Mutex<Counts>,
    /// What is erased, and the names of the erasures.
    erased: Mutex<(Wanted, Vec<String>)>,
    /// One reads the files at a time.
    reading: tokio::sync::Mutex<()>,
    found: Mutex<(HashSet<usize>, Report)>,
}

impl Shared {
    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    async fn wait_until_up(&self) {
        // The sender lives as long as `self`.
        drop(self.up.subscribe().wait_for(|up| *up).await);
    }

    fn finding(&self, text: String) {
        println!("{text}");
        lock(&self.found).1.findings.push(text);
        if self.options.first {
            self.is_stopping.store(true, Ordering::SeqCst);
        }
    }

    /// Looks whether the files have what is about to be erased: else nothing could be learnt from its absence.
    fn look_for_what_is_there(&self, trace: &Trace) -> Result<()> {
        let has_seen = {
            let seen = lock(&self.found).1.seen;
            seen.0 > 0 && seen.1 > 0
        };
        if has_seen && !self.looks.fetch_add(1, Ordering::SeqCst).is_multiple_of(SEEN_BEFORE) {
            return Ok(());
        }
        let mut wanted = Wanted::default();
        wanted.add(trace, 0);
        let files = wanted.in_files(&self.directory)?;
        let has = |is_compressed| {
            files.iter().any(|(.., found)| found.iter().any(|found| found.is_compressed == is_compressed))
        };
        let seen = &mut lock(&self.found).1.seen;
        seen.0 += u64::from(has(false));
        seen.1 += u64::from(has(true));
        Ok(())
    }

    /// Notes an acknowledged erasure, and reads the files now and then.
    async fn erased(&self, trace: &Trace, label: String) -> Result<()> {
        {
            let (wanted, labels) = &mut *lock(&self.erased);
            wanted.add(trace, labels.len());
            labels.push(label);
        }
        let number = self.erasures.fetch_add(1, Ordering::SeqCst) + 1;
        if number.is_multiple_of(self.options.interval) {
            self.read_all().await?;
        }
        if number >= self.options.erasures {
            self.is_stopping.store(true, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Reads every byte of every file for what was erased until now.
    async fn read_all(&self) -> Result<()> {
        let _reading = self.reading.lock().await;
        let (wanted, labels) = lock(&self.erased).clone();
        let directory = self.directory.clone();
        let files = tokio::task::spawn_blocking(move || wanted.in_files(&directory)).await??;
        let mut new = Vec::new();
        {
            let (known, report) = &mut *lock(&self.found);
            report.reads.0 += 1;
            for (path, bytes, found) in &files {
                report.reads.1 += u64::try_from(bytes.len())?;
                for found in found {
                    if known.insert(found.of) {
                        let kind = if found.is_compressed { "compressed" } else { "plain" };
                        let place = pages::place(path, bytes, found.offset);
                        let label = labels.get(found.of).map_or("", String::as_str);
                        new.push(format!("erasure {} left ({kind}): {place}; {label:.120}", found.of + 1));
                    }
                }
            }
            report.left = known.len();
        }
        new.into_iter().for_each(|text| self.finding(text));
        Ok(())
    }
}

/// Runs the full attack, prints the results, and fails if there are findings.
pub async fn main(options: Options) -> ExitCode {
    let program = match options.program.clone().map_or_else(std::env::current_exe, Ok) {
        Ok(program) => program,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    match run(&program, options).await {
        Ok(report) => {
            println!("{report}");
            if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Attacks a new daemon. `program` is the `attack` program.
pub async fn run(program: &Path, options: Options) -> Result<Report> {
    let seed = options.seed.unwrap_or_else(rand::random);
    println!("erasures --seed {seed}");
    let temporary = tempfile::tempdir()?;
    let directory = options.directory.clone().unwrap_or_else(|| temporary.path().join("store"));
    std::fs::create_dir_all(&directory)?;
    let began = Instant::now();
    let (clients, seconds, life_ms) = (options.clients, options.seconds, options.life_ms);
    let shared = Arc::new(Shared {
        socket: directory.join("longhand.sock"),
        directory: directory.clone(),
        up: watch::Sender::new(false),
        is_stopping: AtomicBool::new(false),
        options,
        erasures: AtomicU64::new(0),
        looks: AtomicU64::new(0),
        counts: Mutex::default(),
        erased: Mutex::default(),
        reading: tokio::sync::Mutex::default(),
        found: Mutex::default(),
    });
    let mut lives = JoinSet::new();
    for number in 0..clients {
        lives.spawn(Life::new(&shared, format!("client{number}"), seed).run());
    }
    let mut rng = generator(seed, "kills");
    let mut kills = 0;
    let mut daemon = start(program, &directory).await?;
    shared.up.send_replace(true);
    while !shared.is_stopping() && began.elapsed().as_secs() < seconds {
        let life = Duration::from_millis(rng.random_range(1..=life_ms.max(1)));
        tokio::select! {
            () = tokio::time::sleep(life) => {}
            ended = lives.join_next() => {
                ended.context("no clients")???;
                continue;
            }
        }
        shared.up.send_replace(false);
        daemon.kill().await?;
        kills += 1;
        daemon = start(program, &directory).await?;
        shared.up.send_replace(true);
    }
    shared.is_stopping.store(true, Ordering::SeqCst);
    while let Some(ended) = lives.join_next().await {
        ended??;
    }
    shared.read_all().await?;
    daemon.stop().await?;
    shared.read_all().await?;
    let mut report = std::mem::take(&mut lock(&shared.found).1);
    (report.seed, report.kills, report.time) = (seed, kills, began.elapsed());
    report.erasures = shared.erasures.load(Ordering::SeqCst);
    report.counts = lock(&shared.counts).clone().into_iter().collect();
    Ok(report)
}

/// Starts the daemon. A killed process holds its lock for a moment longer.
async fn start(program: &Path, directory: &Path) -> Result<Daemon> {
    let began = Instant::now();
    loop {
        match Daemon::start(program, directory, |_| {}).await {
            Ok(daemon) => return Ok(daemon),
            Err(_) if began.elapsed() < LOCK_TIME_MAX => tokio::time::sleep(Duration::from_millis(10)).await,
            Err(error) => return Err(error).context("the daemon does not start"),
        }
    }
}
