//! Mutation fuzzing of every decoder: valid inputs are mutated slightly, and each result must be accepted or refused
//! with a reason. Nothing may panic, hang, take unbounded memory, or be answered with INTERNAL.
//!
//! An input is one line, its *head*, and a body. The head names the decoder of the target; the body is the bytes to
//! decode. Inputs that once failed are kept in `corpus/TARGET/`, and tests try them again.

pub mod guard;
pub mod mutate;
mod cursors;
mod disk;
mod import;
mod lines;
mod policies;
mod replies;
mod rpc;
mod rows;
mod settings;
mod instance;

use crate::seed::generator;
use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use guard::Guard;
use mutate::Shape;
use rand::Rng as _;
use rand::rngs::StdRng;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Maximum growth of a target's memory since its first input, in bytes.
const GROWTH_MAX: u64 = 1024 * 1024 * 1024;

/// Number of failures after which a target is given up: more of them add no information.
const FAILURES_MAX: usize = 10;

/// Number of seeds that are tried unaltered, spread over all of them.
const SEEDS_TRIED: usize = 100;

/// Maximum number of characters printed of the reason of a failure.
const SHOWN_CHARS: usize = 1_000;

/// The stack of the daemon's own threads, in bytes: a recursive decoder has no more.
const STACK_BYTES: usize = 2 * 1024 * 1024;

/// Targets of the fuzzer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// Requests of every method: bytes and frames, through the real services.
    Rpc,
    /// Cursors and page tokens.
    Cursors,
    /// The encodings of the database.
    Disk,
    /// Rows of a database while it is read.
    Rows,
    /// Transcripts of other agents.
    Import,
    /// Damaged transcripts of other agents.
    Lines,
    /// The configuration file.
    Settings,
    /// Policies and overrides, and decisions under those that are valid.
    Policies,
    /// Replies of model providers, and output of hooks.
    Replies,
}

impl Target {
    /// Name on the command line and in the corpus.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rpc => "rpc",
            Self::Cursors => "cursors",
            Self::Disk => "disk",
            Self::Rows => "rows",
            Self::Import => "import",
            Self::Lines => "lines",
            Self::Settings => "settings",
            Self::Policies => "policies",
            Self::Replies => "replies",
        }
    }

    fn open(self) -> Result<Box<dyn Decoder>> {
        Ok(match self {
            Self::Rpc => Box::new(rpc::Rpc::open()?),
            Self::Cursors => Box::new(cursors::Cursors::open()?),
            Self::Disk => Box::new(disk::Disk::open()?),
            Self::Rows => Box::new(rows::Rows::open()?),
            Self::Import => Box::new(import::Import),
            Self::Lines => Box::new(lines::Lines),
            Self::Settings => Box::new(settings::Settings::open()?),
            Self::Policies => Box::new(policies::Policies::open()),
            Self::Replies => Box::new(replies::Replies::open()?),
        })
    }

    /// Percentage of the inputs that this target gets if all targets share them: fast ones get more.
    fn share(self) -> u64 {
        match self {
            Self::Rpc => 8,
            Self::Cursors => 3,
            Self::Disk => 36,
            Self::Rows => 1,
            Self::Import => 9,
            Self::Lines => 9,
            Self::Settings => 9,
            Self::Policies => 7,
            Self::Replies => 18,
        }
    }
}

/// The command line of the long form.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Draws the mutations; the ids and times in a new database differ nevertheless.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Number of mutations in all, or of the one target that is given.
    #[arg(long, default_value_t = 1_000_000)]
    pub mutations: u64,
    /// Fuzzes only this target.
    #[arg(long)]
    pub target: Option<Target>,
    /// Folder for inputs that fail.
    #[arg(long, default_value = "target/fuzz")]
    pub keep: PathBuf,
}

/// An input.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Input {
    /// Names the decoder.
    pub head: String,
    /// The bytes to decode.
    pub body: Vec<u8>,
}

impl Input {
    /// An input with a head and a body.
    pub fn new(head: impl Into<String>, body: impl Into<Vec<u8>>) -> Self {
        Self { head: head.into(), body: body.into() }
    }

    fn read(bytes: &[u8]) -> Self {
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        Self { head, body: bytes.get(end + 1..).unwrap_or_default().to_vec() }
    }

    fn write(&self) -> Vec<u8> {
        [self.head.as_bytes(), b"\n", &self.body].concat()
    }
}

/// Outcome of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Accepted.
    Taken,
    /// Refused, with a reason if the decoder has reasons.
    Refused,
}

/// A decoder of bytes from outside.
pub trait Decoder {
    /// Valid inputs, to be mutated.
    fn seeds(&mut self) -> Result<Vec<Input>>;
    /// The form of a body.
    fn shape(&self, head: &str) -> Shape;
    /// Words of the format, for mutations.
    fn words(&self) -> &'static [&'static str] {
        &[]
    }
    /// An input to try: a seed that is mutated, unless the decoder has a generator of its own.
    fn draw(&mut self, rng: &mut StdRng, seeds: &[Input]) -> Input {
        let base = &seeds[rng.random_range(0..seeds.len())];
        let other = &seeds[rng.random_range(0..seeds.len())];
        let shape = self.shape(&base.head);
        let head = if rng.random_ratio(1, 40) { &other.head } else { &base.head };
        let body = mutate::mutate(rng, &base.body, &other.body, shape, self.words());
        Input::new(head.clone(), body)
    }
    /// Decodes an input; an error is a broken promise.
    fn attempt(&mut self, input: &Input) -> Result<Outcome, String>;
    /// A check at the end of all attempts.
    fn finish(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// Result of a run of one target.
#[derive(Debug, Clone, Default)]
pub struct Statistics {
    /// Number of mutations tried.
    pub tried: u64,
    /// Number of mutations accepted.
    pub taken: u64,
    /// Duration of the mutations.
    pub time: Duration,
    /// Maximum growth of memory, in bytes.
    pub growth: u64,
    /// Failed inputs, with their reasons.
    pub failures: Vec<(Input, String)>,
}

/// Runs the long form as a program.
pub fn main(options: &Options) -> ExitCode {
    match run(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the long form; an error if any input failed.
fn run(options: &Options) -> Result<()> {
    let targets = options.target.map_or_else(|| Target::value_variants().to_vec(), |target| vec![target]);
    println!("seed {}", options.seed);
    let mut failed = 0;
    let mut tried = 0;
    for target in targets {
        let mutations = match options.target {
            Some(_) => options.mutations,
            None => options.mutations * target.share() / 100,
        };
        let statistics = fuzz(target, options.seed, mutations, &options.keep)?;
        let seconds = statistics.time.as_secs_f64();
        println!(
            "{:9} {:8} mutations  {:8} taken  {:6.1} s  {:8.0} a second  {:4} MiB more memory  {} failures",
            target.name(),
            statistics.tried,
            statistics.taken,
            seconds,
            statistics.tried as f64 / seconds.max(1e-9),
            statistics.growth >> 20,
            statistics.failures.len(),
        );
        for (input, why) in &statistics.failures {
            println!("    {}: {}", input.head, why.chars().take(SHOWN_CHARS).collect::<String>());
        }
        tried += statistics.tried;
        failed += statistics.failures.len();
    }
    println!("{tried} mutations");
    if failed > 0 { bail!("{failed} inputs failed; they are in {}", options.keep.display()) } else { Ok(()) }
}

/// Fuzzes one target. Inputs that fail are written to a folder in `keep`, to be examined and moved to the corpus.
pub fn fuzz(target: Target, seed: u64, mutations: u64, keep: &Path) -> Result<Statistics> {
    let keep = keep.join(target.name());
    on_a_small_stack(move || {
        let mut decoder = target.open()?;
        let mut guard = Guard::new(target.name(), &keep)?;
        let mut rng = generator(seed, target.name());
        let mut statistics = Statistics::default();
        let seeds = decoder.seeds()?;
        for seed in seeds.iter().step_by(seeds.len().div_ceil(SEEDS_TRIED).max(1)) {
            if statistics.failures.len() >= FAILURES_MAX {
                break;
            }
            if let Err(why) = guard.attempt(&seed.write(), || decoder.attempt(seed)) {
                statistics.failures.push((seed.clone(), why));
            }
        }
        let began = Instant::now();
        let before = guard::resident_bytes();
        while statistics.tried < mutations && statistics.failures.len() < FAILURES_MAX {
            let input = decoder.draw(&mut rng, &seeds);
            statistics.tried += 1;
            match guard.attempt(&input.write(), || decoder.attempt(&input)) {
                Ok(Outcome::Taken) => statistics.taken += 1,
                Ok(Outcome::Refused) => {}
                Err(why) if statistics.failures.iter().any(|(_, known)| *known == why) => {}
                Err(why) => {
                    guard.keep(&input.write(), &why)?;
                    statistics.failures.push((input, why));
                }
            }
            if statistics.tried % 256 == 0 {
                statistics.growth = statistics.growth.max(guard::resident_bytes().saturating_sub(before));
                if statistics.growth > GROWTH_MAX {
                    statistics
                        .failures
                        .push((input_of(&guard), format!("memory grew by {} MiB", statistics.growth >> 20)));
                    break;
                }
            }
        }
        statistics.time = began.elapsed();
        if let Err(why) = guard.attempt(b"finish\n", || decoder.finish().map(|()| Outcome::Taken)) {
            statistics.failures.push((Input::new("finish", ""), why));
        }
        Ok(statistics)
    })
}

fn input_of(guard: &Guard) -> Input {
    Input::read(&guard.last())
}

/// Tries every kept input of a target again; returns those that failed, with their reasons.
pub fn replay(target: Target, corpus: &Path) -> Result<Vec<(String, String)>> {
    let folder = corpus.join(target.name());
    on_a_small_stack(move || {
        let mut decoder = target.open()?;
        let mut guard = Guard::new(target.name(), &std::env::temp_dir())?;
        let mut failed = Vec::new();
        let mut files: Vec<PathBuf> = match std::fs::read_dir(&folder) {
            Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<_>>()?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        files.sort();
        for file in files {
            let bytes = std::fs::read(&file).with_context(|| file.display().to_string())?;
            let input = Input::read(&bytes);
            if let Err(why) = guard.attempt(&bytes, || decoder.attempt(&input)) {
                failed.push((file.display().to_string(), why));
            }
        }
        if let Err(why) = decoder.finish() {
            failed.push(("finish".to_owned(), why));
        }
        Ok(failed)
    })
}

/// Runs work on a thread with the stack size of the daemon's own threads.
fn on_a_small_stack<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let thread = std::thread::Builder::new().name("fuzz".to_owned()).stack_size(STACK_BYTES).spawn(work)?;
    thread.join().map_err(|_| anyhow::anyhow!("the fuzzer itself panicked"))?
}
