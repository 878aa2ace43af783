//! Appends to other stores beside Longhand and raw SQLite. `stores/driver.py` drives each session store in a process of
//! its own; the log over HTTP and Longhand's door over HTTP have callers of one kind.

use crate::append::{Figures, Loop};
use crate::report::{Bound, Latencies, Report};
use crate::target::{BODY_BYTES, Caller, DURABLE_STREAMS, Sessions, Target, Texts};
use clap::Args;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Names of the stores, as the driver knows them, and in the report.
const STORES: [(&str, &str); 5] = [
    ("openai-agents", "OpenAI SQLiteSession"),
    ("google-adk", "ADK DatabaseSession"),
    ("langgraph", "LangGraph, new message"),
    ("langgraph-whole", "LangGraph, whole state"),
    ("opencode", "OpenCode"),
];

/// Other session stores.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// The folder in which `benches/peers` installed them.
    #[arg(long)]
    installed: PathBuf,
    /// Only these stores: openai-agents, google-adk, langgraph, langgraph-whole, opencode, durable-streams.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Seconds of a loop in a round.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Rounds in which all stores take turns.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Numbers of callers; of the session stores 1 and 8 where none is named, over HTTP 64 too.
    #[arg(long, value_delimiter = ',')]
    callers: Vec<usize>,
}

impl Options {
    fn wants(&self, store: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == store)
    }

    fn callers_or(&self, others: &[usize]) -> Vec<usize> {
        if self.callers.is_empty() { others.to_vec() } else { self.callers.clone() }
    }
}

/// A store and its driver, killed when it is dropped.
struct Store {
    name: &'static str,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Its durability, as its driver found it.
    durability: String,
    _folder: tempfile::TempDir,
}

impl Drop for Store {
    fn drop(&mut self) {
        drop(writeln!(self.input, "end"));
        drop(self.child.wait());
    }
}

impl Store {
    fn start(store: &str, name: &'static str, installed: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("stores/driver.py");
        let mut child = Command::new(installed.join("venv/bin/python"))
            .arg(driver)
            .arg(store)
            .arg(folder.path())
            .arg(installed)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("`benches/peers` installs the stores");
        let input = child.stdin.take().expect("it is piped");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut store = Self { name, child, input, output, durability: String::new(), _folder: folder };
        store.durability = store.answer()["durability"].as_str().unwrap_or_default().to_owned();
        store
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it answers");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{} failed: {line}", self.name))
    }

    /// Runs a closed loop. Returns its rate.
    fn closed(&mut self, callers: usize, seconds: f64, latencies: &mut Latencies) -> f64 {
        let order = json!({"callers": callers, "seconds": seconds, "bytes": BODY_BYTES});
        writeln!(self.input, "{order}").expect("it reads");
        let answer = self.answer();
        let nanos = answer["latencies_ns"].as_array().expect("latencies");
        nanos.iter().filter_map(Value::as_u64).for_each(|nanos| latencies.record(Duration::from_nanos(nanos)));
        nanos.len() as f64 / answer["seconds"].as_f64().expect("a time")
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Measures Longhand, raw SQLite and the other stores.
pub(crate) async fn run(binaries: &[String], options: &Options, short: bool, report: &mut Report) {
    let (seconds, rounds) = if short { (1.0, 2) } else { (options.seconds, options.rounds) };
    println!("appends of messages of {BODY_BYTES} bytes, one at a time, each caller in a session of its own");
    println!("  ratio, p50_ratio: above 1 where Longhand is faster");
    if options.wants(DURABLE_STREAMS) {
        over_http(binaries, options, (seconds, rounds), report).await;
    }
    if STORES.iter().any(|(store, _)| options.wants(store)) {
        in_sessions(binaries, options, (seconds, rounds), report).await;
    }
}

/// Measures Longhand's door over HTTP beside a log of bytes over HTTP. All callers send the same requests over TCP, each
/// on a connection that it keeps; Longhand's have an access token.
async fn over_http(binaries: &[String], options: &Options, (seconds, rounds): (f64, usize), report: &mut Report) {
    println!("  {DURABLE_STREAMS:<22} fdatasync of its log before the answer");
    let mut targets = vec![Target::durable_streams(&options.installed)];
    for binary in binaries {
        targets.push(Target::json(binary, "").await);
    }
    let texts = Texts::new(1, BODY_BYTES);
    for count in options.callers_or(&[1, 8, 64]) {
        let measured = Loop::Closed { callers: count, batch: 1 };
        let mut turns: Vec<(&Target, Vec<Caller>, Figures)> = Vec::new();
        for target in &targets {
            turns.push((target, target.callers(count, 1, Sessions::Own, &texts).await, Figures::default()));
        }
        for _ in 0..rounds {
            for (target, callers, figures) in &mut turns {
                measured.turn(target, callers, Duration::from_secs_f64(seconds), figures).await;
            }
        }
        let what = format!("over HTTP, {}", measured.name());
        for (target, _, figures) in &turns {
            report.row(&what, &target.name, Some(figures.rate()), &figures.latencies, &figures.costs());
        }
        for (target, _, figures) in &turns[1..] {
            let of = format!("{} to {DURABLE_STREAMS}", target.name);
            report.target(&what, &of, ("ratio", figures.ratio_to(&turns[0].2)), Bound::AtLeast(0.6));
        }
    }
}

/// Measures Longhand and raw SQLite beside the session stores.
async fn in_sessions(binaries: &[String], options: &Options, (seconds, rounds): (f64, usize), report: &mut Report) {
    let wanted = STORES.iter().filter(|(store, _)| options.wants(store));
    let mut stores: Vec<Store> = wanted.map(|(store, name)| Store::start(store, name, &options.installed)).collect();
    for store in &stores {
        println!("  {:<22} {}", store.name, store.durability);
    }
    let mut targets = vec![Target::floors().remove(0)];
    for binary in binaries {
        targets.push(Target::daemon(binary, "").await);
    }
    let texts = Texts::new(1, BODY_BYTES);
    for count in options.callers_or(&[1, 8]) {
        let measured = Loop::Closed { callers: count, batch: 1 };
        let mut callers = Vec::new();
        for target in &targets {
            callers.push(target.callers(count, 1, Sessions::Own, &texts).await);
        }
        let mut ours: Vec<Figures> = targets.iter().map(|_| Figures::default()).collect();
        let mut theirs: Vec<(Vec<f64>, Latencies)> = stores.iter().map(|_| Default::default()).collect();
        for _ in 0..rounds {
            for ((target, callers), figures) in targets.iter().zip(&mut callers).zip(&mut ours) {
                measured.turn(target, callers, Duration::from_secs_f64(seconds), figures).await;
            }
            for (store, (rates, latencies)) in stores.iter_mut().zip(&mut theirs) {
                rates.push(store.closed(count, seconds, latencies));
            }
        }
        let what = measured.name();
        for (target, figures) in targets.iter().zip(&ours) {
            let rate = figures.rate();
            report.row(&what, &target.name, Some(rate), &figures.latencies, &[]);
        }
        for (store, (rates, latencies)) in stores.iter().zip(theirs) {
            let rate = median(rates);
            report.row(&what, store.name, Some(rate), &latencies, &[]);
            for (target, figures) in targets.iter().zip(&mut ours).filter(|(target, _)| !target.is_baseline()) {
                let of = format!("{} to {}", target.name, store.name);
                let latency = latencies.millis(0.5) / figures.latencies.millis(0.5);
                report.figures(&what, &of, &[("ratio", figures.rate() / rate), ("p50_ratio", latency)]);
            }
        }
    }
}
