//! Two builds, measured in turn: ratios of the second one to the first, with their spread over the rounds.

use crate::append::{Figures, Loop};
use crate::events::Audience;
use crate::reads::{Build, Read};
use crate::report::Report;
use crate::target::{BODY_BYTES, Target, Texts};
use clap::Args;
use std::time::Duration;

/// Messages of the session that is read.
const READ_MESSAGES: usize = 1_000;
/// Reads of a round.
const READS: usize = 20;

/// Watchers of the session whose events are delivered, and appends of a round.
const WATCHERS: [(usize, usize); 2] = [(8, 200), (64, 50)];

/// Two builds.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// The first build's binary.
    first: String,
    /// The second build's binary.
    second: String,
    /// Rounds; the builds take turns in each, and every other round begins with the second one.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Seconds of a loop in a round.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Only these numbers of callers.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 64])]
    callers: Vec<usize>,
    /// Callers that share one session.
    #[arg(long, default_value_t = 16)]
    shared: usize,
    /// Messages of a call in the loop of batches.
    #[arg(long, default_value_t = 256)]
    batch: usize,
}

/// Prints the ratio of the second build to the first: the median of the rounds, the middle half of them, and in how
/// many of them the second one had less.
fn ratios(what: &str, figure: &str, pairs: &[(f64, f64)], report: &mut Report) {
    let sorted = |mut values: Vec<f64>| {
        values.sort_unstable_by(f64::total_cmp);
        values
    };
    let at = |values: &[f64], part: f64| values[((values.len() - 1) as f64 * part).round() as usize];
    let ratios = sorted(pairs.iter().map(|(first, second)| second / first).collect());
    let figures = [
        ("first_median", at(&sorted(pairs.iter().map(|pair| pair.0).collect()), 0.5)),
        ("second_median", at(&sorted(pairs.iter().map(|pair| pair.1).collect()), 0.5)),
        ("ratio", at(&ratios, 0.5)),
        ("ratio_quarter", at(&ratios, 0.25)),
        ("ratio_three_quarters", at(&ratios, 0.75)),
        ("rounds_with_less", ratios.iter().filter(|ratio| **ratio < 1.0).count() as f64),
    ];
    report.figures(what, figure, &figures);
}

/// Measures both builds.
pub(crate) async fn run(options: &Options, short: bool, report: &mut Report) {
    let (rounds, seconds) = if short { (5, 0.4) } else { (options.rounds, options.seconds) };
    println!("{} (first) and {} (second), {rounds} rounds; ratios are second to first", options.first, options.second);
    let builds = [Target::daemon(&options.first).await, Target::daemon(&options.second).await];
    let mut loops: Vec<Loop> =
        options.callers.iter().map(|callers| Loop::Closed { callers: *callers, batch: 1 }).collect();
    loops.push(Loop::Shared { callers: options.shared });
    loops.push(Loop::Closed { callers: 1, batch: options.batch });
    let texts = Texts::new(1, BODY_BYTES);
    for measured in loops {
        let mut callers = Vec::new();
        for build in &builds {
            callers.push(build.callers(measured.callers(), 1, measured.sessions(), &texts).await);
        }
        let mut of_rounds = Vec::new();
        for round in 0..rounds {
            let mut figures = [Figures::default(), Figures::default()];
            for turn in [round % 2, 1 - round % 2] {
                let time = Duration::from_secs_f64(seconds);
                measured.round(&builds[turn], &mut callers[turn], time, &mut figures[turn]).await;
            }
            of_rounds.push(figures);
        }
        let mut pairs = |figure: &str, of: fn(&Figures) -> f64| {
            let pairs: Vec<(f64, f64)> = of_rounds.iter().map(|[first, second]| (of(first), of(second))).collect();
            ratios(&measured.name(), figure, &pairs, report);
        };
        pairs("rate", Figures::rate);
        pairs("p50_ms", |figures| figures.latencies.millis(0.5));
        pairs("p99_ms", |figures| figures.latencies.millis(0.99));
        pairs("cpu_us", |figures| figures.cpu_us());
    }
    drop(builds);
    let mut builds = [Build::start(&options.first).await, Build::start(&options.second).await];
    reads(&mut builds, rounds, report).await;
    events(&builds, rounds, report).await;
}

/// Events in a second, to all watchers together.
async fn events(builds: &[Build; 2], rounds: usize, report: &mut Report) {
    for (watchers, appends) in WATCHERS {
        let mut audiences = Vec::new();
        for build in builds {
            audiences.push(Audience::start(&build.daemon.socket, watchers).await);
        }
        let mut pairs = Vec::new();
        for round in 0..rounds {
            let mut rates = [0.0; 2];
            for turn in [round % 2, 1 - round % 2] {
                let time = audiences[turn].deliver(appends).await;
                rates[turn] = (watchers * appends) as f64 / time.as_secs_f64();
            }
            pairs.push((rates[0], rates[1]));
        }
        ratios(&format!("events to {watchers} watchers"), "rate", &pairs, report);
    }
}

async fn reads(builds: &mut [Build; 2], rounds: usize, report: &mut Report) {
    let mut ids = Vec::new();
    for build in &mut *builds {
        ids.push(build.session(READ_MESSAGES, BODY_BYTES).await);
    }
    for (read, what) in [(Read::Whole, "view of 1 000 messages, whole"), (Read::Newest, "the newest 50 messages")] {
        let mut pairs = Vec::new();
        for round in 0..rounds {
            let mut medians = [0.0; 2];
            for turn in [round % 2, 1 - round % 2] {
                let mut times = Vec::new();
                for at in 0..READS {
                    times.push(builds[turn].read(&ids[turn], read, READ_MESSAGES, at).await);
                }
                times.sort_unstable();
                medians[turn] = times[READS / 2].as_secs_f64() * 1e3;
            }
            pairs.push((medians[0], medians[1]));
        }
        ratios(what, "p50_ms", &pairs, report);
    }
}
