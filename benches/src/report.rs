//! Figures as lines of a table and as JSON.

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Latencies in nanoseconds, with three significant digits.
#[derive(Clone)]
pub(crate) struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1_000, 600_000_000_000, 3).expect("microseconds to minutes"))
    }
}

impl Latencies {
    pub(crate) fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("histograms of one kind");
    }

    pub(crate) fn millis(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1e6
    }
}

/// A figure by name; the unit is the end of the name.
pub(crate) type Figure = (&'static str, f64);

/// Target of a figure.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Bound {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
        }
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtLeast(least) => write!(f, "at least {least}"),
            Self::AtMost(most) => write!(f, "at most {most}"),
        }
    }
}

/// A value with the digits that mean something.
fn shown(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        medium if medium >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// The rows of a run.
#[derive(Default)]
pub(crate) struct Report(Vec<Value>);

impl Report {
    /// Prints a row with latencies and other figures, and keeps it for the file. The rate is per second.
    pub(crate) fn row(&mut self, what: &str, of: &str, rate: Option<f64>, latencies: &Latencies, more: &[Figure]) {
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|quantile| latencies.millis(quantile));
        let per_second = rate.map_or(String::new(), |rate| format!("{rate:>8.0}/s"));
        let figures: Vec<String> = more.iter().map(|(name, value)| format!("  {name} {}", shown(*value))).collect();
        println!(
            "  {what:<36} {of:<22} {per_second:>10}  p50 {p50:>7.3}  p99 {p99:>8.3}  p99.9 {p999:>8.3} ms{}",
            figures.concat()
        );
        let mut row = Map::new();
        row.insert("what".to_owned(), what.into());
        row.insert("of".to_owned(), of.into());
        row.extend(rate.map(|rate| ("rate".to_owned(), rate.into())));
        row.extend([("p50_ms", p50), ("p99_ms", p99), ("p999_ms", p999)].map(|(name, v)| (name.to_owned(), v.into())));
        row.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())));
        self.0.push(row.into());
    }

    /// Prints a row of figures, and keeps it.
    pub(crate) fn figures(&mut self, what: &str, of: &str, figures: &[Figure]) {
        let texts: Vec<String> = figures.iter().map(|(name, value)| format!("  {name} {}", shown(*value))).collect();
        println!("  {what:<36} {of:<22}{}", texts.concat());
        let mut row = Map::new();
        row.insert("what".to_owned(), what.into());
        row.insert("of".to_owned(), of.into());
        row.extend(figures.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())));
        self.0.push(row.into());
    }

    /// Prints and keeps a figure that has a target.
    pub(crate) fn target(&mut self, what: &str, of: &str, (name, value): Figure, bound: Bound) {
        let holds = bound.holds(value);
        let verdict = if holds { "holds" } else { "MISSED" };
        println!("  {what:<36} {of:<22}  {name} {}  ({bound}: {verdict})", shown(value));
        let target = bound.to_string();
        self.0.push(json!({"what": what, "of": of, "figure": name, name: value, "target": target, "holds": holds}));
    }

    /// Writes the rows to a file, with the machine, the time and the arguments of the run.
    pub(crate) fn write(&self, path: &Path) {
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let run = json!({"machine": machine(), "unix_time": time, "arguments": arguments, "rows": self.0});
        let text = serde_json::to_string_pretty(&run).expect("numbers and names");
        std::fs::write(path, text).expect("the file is written");
    }
}

/// The machine: processors, memory, system.
fn machine() -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map(|rest| rest.trim_start_matches(['\t', ' ', ':']).trim().to_owned())
    };
    json!({
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "processor": field(&read("/proc/cpuinfo"), "model name"),
        "memory": field(&read("/proc/meminfo"), "MemTotal"),
        "system": read("/proc/version").split(" (").next(),
        "load": read("/proc/loadavg").split(' ').next(),
    })
}
