//! Durable appends: closed loops, in which each caller waits for its answer, and open loops, in which calls start at
//! a fixed rate and latency counts from the intended start.

use crate::pace;
use crate::pages::Log;
use crate::process::Cost;
use crate::report::{Bound, Figure, Latencies, Report};
use crate::target::{BODY_BYTES, Caller, RAW, RPC, RPC_RAW, Sessions, Target, Texts};
use clap::Args;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Warm-up time of a loop, which is not counted.
const WARM_UP: Duration = Duration::from_millis(500);
/// Callers of an open loop.
const OPEN_CALLERS: usize = 64;
/// Length of the messages whose pages are counted, in bytes.
const SHORT_BYTES: usize = 10;
/// Number of these messages.
const SHORT_MESSAGES: usize = 200;
const SEED: u64 = 1;

/// Durable appends.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Seconds of each loop, shared among its rounds.
    #[arg(long, default_value_t = 6.0)]
    pub(crate) seconds: f64,
    /// Rounds in which the builds and the baselines take turns.
    #[arg(long, default_value_t = 3)]
    pub(crate) rounds: u32,
    /// Only these numbers of callers.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 64])]
    pub(crate) callers: Vec<usize>,
    /// Callers that share one session, beside as many with sessions of their own.
    #[arg(long, value_delimiter = ',', default_values_t = [16])]
    shared: Vec<usize>,
    /// Calls in a second of the open loop, by 64 callers; several are measured in turn.
    #[arg(long, value_delimiter = ',', default_values_t = [500.0, 2_000.0, 5_000.0])]
    rates: Vec<f64>,
    /// Messages of a call in the loop of batches.
    #[arg(long, default_value_t = 256)]
    pub(crate) batch: usize,
    /// Neither open loops nor batches.
    #[arg(long)]
    closed_only: bool,
    /// Callers that share a connection.
    #[arg(long, default_value_t = 1)]
    pub(crate) per_connection: usize,
}

/// Figures of one loop.
#[derive(Default)]
pub(crate) struct Figures {
    /// Messages in a second of each turn.
    rates: Vec<f64>,
    pub(crate) latencies: Latencies,
    /// Messages, those of the warm-up included.
    messages: u64,
    /// Calls, those of the warm-up included.
    calls: u64,
    cost: Cost,
    cost_of_callers: Cost,
}

impl Figures {
    pub(crate) fn rate(&self) -> f64 {
        median(self.rates.clone())
    }

    /// The median of the ratios of its rates to those of another loop in the same rounds.
    pub(crate) fn ratio_to(&self, other: &Self) -> f64 {
        median(self.rates.iter().zip(&other.rates).map(|(rate, other)| rate / other).collect())
    }

    /// Processor time of the server for each message, in microseconds.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.cost.micros_each(self.messages)
    }

    pub(crate) fn costs(&self) -> [Figure; 3] {
        [
            ("cpu_us", self.cpu_us()),
            ("caller_cpu_us", self.cost_of_callers.micros_each(self.messages)),
            ("written_bytes", self.cost.written as f64 / self.messages.max(1) as f64),
        ]
    }
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Calls of a loop.
#[derive(Default)]
struct Calls {
    latencies: Latencies,
    /// Those that count.
    counted: u64,
    all: u64,
}

/// Task of a caller.
type Work = JoinHandle<(Caller, Calls)>;

/// Waits for all callers.
async fn joined(tasks: Vec<Work>, callers: &mut Vec<Caller>) -> Calls {
    let mut calls = Calls::default();
    for task in tasks {
        let (caller, of_caller) = task.await.expect("a caller");
        callers.push(caller);
        calls.latencies.add(&of_caller.latencies);
        calls.counted += of_caller.counted;
        calls.all += of_caller.all;
    }
    calls
}

/// Closed loop: each caller calls again as soon as its last call is answered. Returns the calls, and those that count
/// per second.
async fn closed(callers: &mut Vec<Caller>, batch: usize, time: Duration) -> (Calls, f64) {
    let begins = Instant::now() + WARM_UP.min(time);
    let ends = begins + time;
    let mut tasks = Vec::new();
    for mut caller in std::mem::take(callers) {
        tasks.push(tokio::spawn(async move {
            let mut calls = Calls::default();
            while Instant::now() < ends {
                let call = caller.prepare(batch).await;
                let began = Instant::now();
                caller.call(call).await;
                calls.all += 1;
                if began >= begins {
                    calls.latencies.record(began.elapsed());
                    calls.counted += 1;
                }
            }
            (caller, calls)
        }));
    }
    let calls = joined(tasks, callers).await;
    let rate = calls.counted as f64 / begins.elapsed().as_secs_f64();
    (calls, rate)
}

/// Open loop: calls start at a fixed rate, regardless of earlier calls; latency counts from the intended start. Returns
/// the calls, and their number per second.
async fn open(callers: &mut Vec<Caller>, rate: f64, time: Duration) -> (Calls, f64) {
    let mut tasks = Vec::new();
    let began = Instant::now();
    let begins = began + WARM_UP.min(time);
    let (queue, pacer) = pace::start(began, rate, WARM_UP.min(time) + time);
    for mut caller in std::mem::take(callers) {
        let queue = queue.clone();
        tasks.push(tokio::spawn(async move {
            let mut calls = Calls::default();
            let mut call = caller.prepare(1).await;
            while let Ok(intended) = queue.recv().await {
                caller.call(call).await;
                calls.all += 1;
                if intended >= begins {
                    calls.latencies.record(intended.elapsed());
                    calls.counted += 1;
                }
                call = caller.prepare(1).await;
            }
            (caller, calls)
        }));
    }
    let calls = joined(tasks, callers).await;
    pacer.join().expect("the pacer");
    let rate = calls.counted as f64 / begins.elapsed().as_secs_f64();
    (calls, rate)
}

/// Kind of loop.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Loop {
    Closed {
        callers: usize,
        batch: usize,
    },
    /// A closed loop in which all callers append to one session.
    Shared {
        callers: usize,
    },
    Open {
        rate: f64,
    },
}

impl Loop {
    pub(crate) fn callers(self) -> usize {
        match self {
            Self::Closed { callers, .. } | Self::Shared { callers } => callers,
            Self::Open { .. } => OPEN_CALLERS,
        }
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::Closed { callers: 1, batch: 1 } => "closed, 1 caller".to_owned(),
            Self::Closed { callers, batch: 1 } => format!("closed, {callers} callers"),
            Self::Closed { batch, .. } => format!("closed, 1 caller, batches of {batch}"),
            Self::Shared { callers } => format!("closed, {callers} callers, one session"),
            Self::Open { rate } => format!("open, {rate} calls a second"),
        }
    }

    pub(crate) fn sessions(self) -> Sessions {
        match self {
            Self::Closed { .. } | Self::Open { .. } => Sessions::Own,
            Self::Shared { .. } => Sessions::Shared,
        }
    }

    /// Runs the loop once, and adds its figures; the costs include what the server does behind its answers, which the rates do
    /// not. The server rests when it returns.
    pub(crate) async fn turn(self, target: &Target, callers: &mut Vec<Caller>, time: Duration, sum: &mut Figures) {
        let before = (target.cost(), target.cost_of_callers());
        let (calls, rate, batch) = match self {
            Self::Closed { batch, .. } => {
                let (calls, rate) = closed(callers, batch, time).await;
                (calls, rate * batch as f64, batch)
            }
            Self::Shared { .. } => {
                let (calls, rate) = closed(callers, 1, time).await;
                (calls, rate, 1)
            }
            Self::Open { rate } => {
                let (calls, rate) = open(callers, rate, time).await;
                (calls, rate, 1)
            }
        };
        sum.cost_of_callers = sum.cost_of_callers.plus(target.cost_of_callers().since(before.1));
        target.rest().await;
        sum.cost = sum.cost.plus(target.cost().since(before.0));
        sum.rates.push(rate);
        sum.latencies.add(&calls.latencies);
        sum.calls += calls.all;
        sum.messages += calls.all * batch as u64;
    }

    /// Targets of the loop: the ratio to raw SQLite, the median latency in milliseconds, and the rate.
    fn targets(self) -> (Option<f64>, Option<f64>, Option<f64>) {
        match self {
            Self::Closed { callers: 1, batch: 1 } => (Some(0.6), Some(0.37), None),
            Self::Closed { callers: 8, batch: 1 } => (Some(0.35), None, None),
            Self::Closed { callers: 64, batch: 1 } => (Some(0.3), None, Some(17_000.0)),
            Self::Closed { batch: 256, .. } => (Some(0.35), None, None),
            Self::Closed { .. } | Self::Shared { .. } | Self::Open { .. } => (None, None, None),
        }
    }
}

/// Reports a loop of all targets, the baselines first.
fn report_loop(measured: Loop, targets: &[Target], figures: &[Figures], report: &mut Report) {
    let what = measured.name();
    // Rates and median latencies of the baselines.
    let mut floors: Vec<(&str, f64, f64)> = Vec::new();
    for (target, figures) in targets.iter().zip(figures) {
        let (rate, median) = (figures.rate(), figures.latencies.millis(0.5));
        report.row(&what, &target.name, Some(rate), &figures.latencies, &figures.costs());
        let floor = |name: &str| floors.iter().find(|floor| floor.0 == name);
        let of = |name: &str| floor(name).map_or(f64::NAN, |floor| rate / floor.1);
        let median_of = |name: &str| floor(name).map_or(f64::NAN, |floor| floor.2 / median);
        if matches!(measured, Loop::Closed { .. } | Loop::Shared { .. }) && target.name != RAW && target.name != RPC {
            // The medians of a single caller hardly depend on what else the machine does.
            let mut ratios = vec![("ratio_to_raw", of(RAW)), ("p50_ratio_to_raw", median_of(RAW))];
            if !target.is_baseline() {
                ratios
                    .extend([("ratio_to_rpc_and_raw", of(RPC_RAW)), ("p50_ratio_to_rpc_and_raw", median_of(RPC_RAW))]);
            }
            report.figures(&what, &target.name, &ratios);
        }
        if target.is_baseline() {
            floors.push((target.name.as_str(), rate, median));
            continue;
        }
        let (ratio, latency, least) = measured.targets();
        if let Some(ratio) = ratio {
            report.target(&what, &target.name, ("ratio_to_raw", of(RAW)), Bound::AtLeast(ratio));
        }
        if let Some(latency) = latency {
            report.target(&what, &target.name, ("p50_ms", median), Bound::AtMost(latency));
        }
        if let Some(least) = least {
            report.target(&what, &target.name, ("rate", rate), Bound::AtLeast(least));
        }
    }
}

/// Reports the appends of callers that share a session against those of as many with sessions of their own.
fn report_shared(shared: Loop, targets: &[Target], [own, one]: [&[Figures]; 2], report: &mut Report) {
    let what = shared.name();
    for ((target, own), one) in targets.iter().zip(own).zip(one).filter(|((target, _), _)| !target.is_baseline()) {
        let of_p50 = own.latencies.millis(0.5) / one.latencies.millis(0.5);
        let of_p99 = own.latencies.millis(0.99) / one.latencies.millis(0.99);
        report.figures(&what, &target.name, &[("p50_ratio_to_own", of_p50), ("p99_ratio_to_own", of_p99)]);
        report.target(&what, &target.name, ("ratio_to_own", one.ratio_to(own)), Bound::AtLeast(1.0));
    }
}

/// Counts the pages that a short message, alone, writes to the log.
async fn short_messages(target: &Target, report: &mut Report) {
    let Some(log) = target.log() else { return };
    let mut caller = target.callers(1, 1, Sessions::Own, &Texts::new(SEED, SHORT_BYTES)).await.remove(0);
    let mut log = Log::open(&log);
    let mut pages = Vec::new();
    for _ in 0..SHORT_MESSAGES {
        let call = caller.prepare(1).await;
        log.grown();
        caller.call(call).await;
        pages.extend(log.grown().map(|grown| grown as f64));
    }
    pages.sort_unstable_by(f64::total_cmp);
    let what = format!("a message of {SHORT_BYTES} bytes");
    let Some(&most) = pages.last() else { return };
    let mean = pages.iter().sum::<f64>() / pages.len() as f64;
    report.figures(&what, &target.name, &[("mean_pages", mean), ("most_pages", most)]);
    let median = ("median_pages", pages[pages.len() / 2]);
    if target.is_baseline() {
        report.figures(&what, &target.name, &[median]);
    } else {
        report.target(&what, &target.name, median, Bound::AtMost(6.0));
    }
}

/// Measures the builds and their baselines.
pub(crate) async fn run(binaries: &[String], options: &Options, short: bool, report: &mut Report) {
    println!("durable appends of messages of {BODY_BYTES} bytes over the Unix socket, each acknowledged");
    println!("  cpu_us, caller_cpu_us, written_bytes: of the server, of its callers, to disk, for each message");
    let (seconds, rounds, rates) = match short {
        true => (1.5, 3, &options.rates[..options.rates.len().min(1)]),
        false => (options.seconds, options.rounds, &options.rates[..]),
    };
    let closed = |callers: &usize| Loop::Closed { callers: *callers, batch: 1 };
    // The loops of a group take turns.
    let mut groups: Vec<Vec<Loop>> = options.callers.iter().map(|callers| vec![closed(callers)]).collect();
    groups.extend(options.shared.iter().map(|callers| vec![closed(callers), Loop::Shared { callers: *callers }]));
    if !options.closed_only {
        groups.push(vec![Loop::Closed { callers: 1, batch: options.batch }]);
        groups.extend(rates.iter().map(|rate| vec![Loop::Open { rate: *rate }]));
    }
    let mut targets = Target::floors();
    for binary in binaries {
        targets.push(Target::daemon(binary, "").await);
    }
    let time = Duration::from_secs_f64(seconds) / rounds;
    let texts = Texts::new(SEED, BODY_BYTES);
    for target in &targets {
        short_messages(target, report).await;
    }
    for group in groups {
        let mut of_loops: Vec<(Loop, Vec<Vec<Caller>>, Vec<Figures>)> = Vec::new();
        for &measured in &group {
            let mut callers = Vec::new();
            for target in &targets {
                let of_target =
                    target.callers(measured.callers(), options.per_connection, measured.sessions(), &texts).await;
                callers.push(of_target);
            }
            of_loops.push((measured, callers, targets.iter().map(|_| Figures::default()).collect()));
        }
        for _ in 0..rounds {
            for (index, target) in targets.iter().enumerate() {
                for (measured, callers, figures) in &mut of_loops {
                    measured.turn(target, &mut callers[index], time, &mut figures[index]).await;
                }
            }
        }
        for (measured, _, figures) in &of_loops {
            report_loop(*measured, &targets, figures, report);
        }
        if let [(_, _, own), (shared, _, one)] = &of_loops[..] {
            report_shared(*shared, &targets, [own, one], report);
        }
    }
}
