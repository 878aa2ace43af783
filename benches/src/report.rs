//! Figures as lines of a table and as JSON.

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// Latencies in nanoseconds, with three significant digits.
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

/// The rows of a run.
#[derive(Default)]
pub(crate) struct Report(Vec<Value>);

impl Report {
    /// Prints a row, and keeps it for the file. The rate is per second.
    pub(crate) fn row(&mut self, what: &str, of: &str, rate: Option<f64>, latencies: &Latencies) {
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|quantile| latencies.millis(quantile));
        let shown = rate.map_or(String::new(), |rate| format!("{rate:>9.0}/s"));
        println!("  {what:<40} {shown:>11}  p50 {p50:>8.3} ms  p99 {p99:>8.3} ms  p99.9 {p999:>8.3} ms  {of}");
        self.0.push(json!({"what": what, "of": of, "rate": rate, "p50_ms": p50, "p99_ms": p99, "p999_ms": p999}));
    }

    /// Writes the rows to a file.
    pub(crate) fn write(&self, path: &Path) {
        let text = serde_json::to_string_pretty(&self.0).expect("numbers and names");
        std::fs::write(path, text).expect("the file is written");
    }
}
