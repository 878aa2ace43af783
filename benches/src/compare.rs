//! Two builds, measured in turn: ratios of the second one to the first, with their spread over the rounds. Every round
//! starts both anew: one process may be slower than the next one of the same build by a tenth, in all that it does. Neither
//! is measured while the other one still works behind its answers, and neither has a search index.

use crate::append::{Figures, Loop};
use crate::events::Audience;
use crate::reads::{Build, Read};
use crate::report::{Latencies, Report};
use crate::target::{BODY_BYTES, NO_SEARCH, Target, Texts};
use clap::Args;
use std::time::Duration;

/// Messages of the session that is read.
const READ_MESSAGES: usize = 1_000;
/// Reads of a turn.
const READS: usize = 10;
/// Watchers of the session whose events are delivered, and appends of a turn.
const WATCHERS: [(usize, usize); 2] = [(8, 100), (64, 25)];
/// Turns of each build in a round. Short ones: a machine is faster in one second than in the next.
const TURNS: usize = 4;

/// Two builds.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// The first build's binary.
    first: String,
    /// The second build's binary.
    second: String,
    /// Rounds; the builds take turns in each.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Seconds of a turn of appends.
    #[arg(long, default_value_t = 0.4)]
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

/// A figure of both builds in each round.
struct Pairs {
    what: String,
    figure: &'static str,
    values: Vec<[f64; 2]>,
}

impl Pairs {
    /// Prints the ratio of the second build to the first: the median of the rounds, the middle half of them, and in how
    /// many of them the second one had less.
    fn report(&self, report: &mut Report) {
        let sorted = |of: fn(&[f64; 2]) -> f64| {
            let mut values: Vec<f64> = self.values.iter().map(of).collect();
            values.sort_unstable_by(f64::total_cmp);
            values
        };
        let at = |values: &[f64], part: f64| values[((values.len() - 1) as f64 * part).round() as usize];
        let ratios = sorted(|[first, second]| second / first);
        let figures = [
            ("first_median", at(&sorted(|pair| pair[0]), 0.5)),
            ("second_median", at(&sorted(|pair| pair[1]), 0.5)),
            ("ratio", at(&ratios, 0.5)),
            ("ratio_quarter", at(&ratios, 0.25)),
            ("ratio_three_quarters", at(&ratios, 0.75)),
            ("rounds_with_less", ratios.iter().filter(|ratio| **ratio < 1.0).count() as f64),
        ];
        report.figures(&self.what, self.figure, &figures);
    }
}

/// The figures of all rounds, in the order in which they are measured.
#[derive(Default)]
struct Rounds(Vec<Pairs>);

impl Rounds {
    fn add(&mut self, what: &str, figure: &'static str, pair: [f64; 2]) {
        match self.0.iter_mut().find(|pairs| pairs.what == what && pairs.figure == figure) {
            Some(pairs) => pairs.values.push(pair),
            None => self.0.push(Pairs { what: what.to_owned(), figure, values: vec![pair] }),
        }
    }
}

/// The builds in the order of their turns, of which neither is always the first.
fn turns(round: usize) -> impl Iterator<Item = usize> {
    (round..round + TURNS).flat_map(|turn| [turn % 2, 1 - turn % 2])
}

/// Starts something of both builds, of which neither is always the first.
async fn of_both<T>(round: usize, start: impl AsyncFn(usize) -> T) -> [T; 2] {
    let mut both = [start(round % 2).await, start(1 - round % 2).await];
    both.rotate_left(round % 2);
    both
}

/// Measures both builds.
pub(crate) async fn run(options: &Options, short: bool, report: &mut Report) {
    let (rounds, seconds) = if short { (5, 0.2) } else { (options.rounds, options.seconds) };
    println!("{} (first) and {} (second), {rounds} rounds; ratios are second to first", options.first, options.second);
    let binaries = [options.first.as_str(), options.second.as_str()];
    let mut measured = Rounds::default();
    for round in 0..rounds {
        appends(options, binaries, round, Duration::from_secs_f64(seconds), &mut measured).await;
        let mut builds = of_both(round, async |build| Build::start(binaries[build], NO_SEARCH).await).await;
        reads(&mut builds, round, &mut measured).await;
        events(&builds, round, &mut measured).await;
    }
    for pairs in &measured.0 {
        pairs.report(report);
    }
}

/// Appends in a second.
async fn appends(options: &Options, binaries: [&str; 2], round: usize, time: Duration, measured: &mut Rounds) {
    let builds = of_both(round, async |build| Target::daemon(binaries[build], NO_SEARCH).await).await;
    let mut loops: Vec<Loop> =
        options.callers.iter().map(|callers| Loop::Closed { callers: *callers, batch: 1 }).collect();
    loops.push(Loop::Shared { callers: options.shared });
    loops.push(Loop::Closed { callers: 1, batch: options.batch });
    let texts = Texts::new(1, BODY_BYTES);
    for kind in loops {
        let mut figures = [Figures::default(), Figures::default()];
        let start = async |build: usize| builds[build].callers(kind.callers(), 1, kind.sessions(), &texts).await;
        let mut callers = of_both(round, start).await;
        for build in &builds {
            build.rest().await;
        }
        for turn in turns(round) {
            kind.turn(&builds[turn], &mut callers[turn], time, &mut figures[turn]).await;
        }
        let mut pair = |figure: &'static str, of: fn(&Figures) -> f64| {
            measured.add(&kind.name(), figure, [of(&figures[0]), of(&figures[1])]);
        };
        pair("rate", Figures::rate);
        pair("p50_ms", |figures| figures.latencies.millis(0.5));
        pair("p99_ms", |figures| figures.latencies.millis(0.99));
        pair("cpu_us", Figures::cpu_us);
    }
}

/// Median times of reads.
async fn reads(builds: &mut [Build; 2], round: usize, measured: &mut Rounds) {
    let mut ids = Vec::new();
    for build in &mut *builds {
        ids.push(build.session(READ_MESSAGES, BODY_BYTES).await);
    }
    for build in &*builds {
        build.rest().await;
    }
    for (read, what) in [(Read::Whole, "view of 1 000 messages, whole"), (Read::Newest, "the newest 50 messages")] {
        let mut times = [Latencies::default(), Latencies::default()];
        for turn in turns(round) {
            for at in 0..READS {
                times[turn].record(builds[turn].read(&ids[turn], read, READ_MESSAGES, at).await);
            }
        }
        measured.add(what, "p50_ms", times.map(|times| times.millis(0.5)));
    }
}

/// Events in a second, to all watchers together.
async fn events(builds: &[Build; 2], round: usize, measured: &mut Rounds) {
    for (watchers, appends) in WATCHERS {
        let start = async |build: usize| Audience::start(&builds[build].daemon.socket, watchers).await;
        let mut audiences = of_both(round, start).await;
        for build in builds {
            build.rest().await;
        }
        let mut times = [Duration::ZERO; 2];
        for turn in turns(round) {
            times[turn] += audiences[turn].deliver(appends).await;
            builds[turn].rest().await;
        }
        let events = (watchers * appends * TURNS) as f64;
        let rates = times.map(|time| events / time.as_secs_f64());
        measured.add(&format!("events to {watchers} watchers"), "rate", rates);
    }
}
