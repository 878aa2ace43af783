//! Logging (one line per event on standard error, filtered by `LONGHAND_LOG`), spans, escaping of printed text, and
//! fail points for tests.

pub mod escape;
pub mod failpoint;
pub mod span;

use escape::EventWriter;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use tracing::Metadata;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// The variable with the filter, in `tracing`'s directive form; `info` if it is unset.
pub const FILTER_VARIABLE: &str = "LONGHAND_LOG";

/// Libraries that talk to clients. Anybody can make them log lines, so their lines are counted instead of written,
/// unless the filter is set.
const LIBRARIES: [&str; 7] = ["axum", "h2", "hyper", "hyper_util", "rustls", "tokio_rustls", "tonic"];

/// Lines of these libraries that were not written.
static UNWRITTEN: AtomicU64 = AtomicU64::new(0);

/// Seconds between two lines about the same thing that clients cause.
const SELDOM_SECONDS: u64 = 60;

/// Starts logging for this process. Later calls have no effect.
pub fn start() {
    let filter = EnvFilter::try_from_env(FILTER_VARIABLE);
    let lines = Lines { are_all_written: filter.is_ok() };
    let logging = tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|_| EnvFilter::new("info")))
        // Colours are escape sequences, and those of the log would look like those of a client.
        .with_ansi(false)
        .with_writer(lines)
        .try_init();
    // Logging may have been started already, for example by a test.
    drop(logging);
}

/// Number of lines about clients that were counted and not written.
pub fn unwritten_lines() -> u64 {
    UNWRITTEN.load(Ordering::Relaxed)
}

/// Where the lines of the log go.
struct Lines {
    are_all_written: bool,
}

/// A line of the log, or none.
enum Line {
    Written(EventWriter<io::Stderr>),
    Counted(io::Sink),
}

impl io::Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Written(line) => line.write(bytes),
            Self::Counted(none) => none.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Written(line) => line.flush(),
            Self::Counted(none) => none.flush(),
        }
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Line;

    fn make_writer(&self) -> Line {
        Line::Written(EventWriter(io::stderr()))
    }

    fn make_writer_for(&self, line: &Metadata<'_>) -> Line {
        if self.are_all_written || !is_of_library(line.target()) {
            return Line::Written(EventWriter(io::stderr()));
        }
        UNWRITTEN.fetch_add(1, Ordering::Relaxed);
        Line::Counted(io::sink())
    }
}

fn is_of_library(target: &str) -> bool {
    LIBRARIES.contains(&target.split("::").next().unwrap_or_default())
}

/// The last line about something that clients cause again and again.
#[derive(Debug, Default)]
pub struct Seldom(std::sync::Mutex<Option<Instant>>);

impl Seldom {
    /// Nothing was said yet.
    pub const fn new() -> Self {
        Self(std::sync::Mutex::new(None))
    }

    /// True if it is time for a line, which counts as written then.
    pub fn is_due(&self) -> bool {
        let mut last = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let is_due = last.is_none_or(|last| last.elapsed() >= Duration::from_secs(SELDOM_SECONDS));
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_libraries_about_clients_are_counted() {
        for (target, expected) in
            [("h2::proto::ping_pong", true), ("hyper", true), ("longhand::h2", false), ("sqlx", false)]
        {
            assert_eq!(is_of_library(target), expected, "{target}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_happens_again_and_again_is_said_seldom() {
        let seldom = Seldom::new();
        assert!(seldom.is_due() && !seldom.is_due());
        tokio::time::advance(Duration::from_secs(SELDOM_SECONDS)).await;
        assert!(seldom.is_due() && !seldom.is_due());
    }
}
