//! Progress of a command that takes long, as one line on standard error that is overwritten.

use super::failure::note;
use super::output::truncate;
use crate::clock::Clock;
use crate::model::time::Timestamp;
use crate::telemetry::escape;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

/// Interval between updates of the line, in microseconds.
const INTERVAL_MICROS: i64 = 100_000;
/// Duration of a command without a line, in microseconds: a short one needs none.
const DELAY_MICROS: i64 = 1_000_000;
/// Interval in which a command that only waits updates its line.
const WAIT_INTERVAL: Duration = Duration::from_secs(1);
/// Width assumed for a terminal that does not state its own.
const COLUMNS_DEFAULT: usize = 80;

/// The progress line of a command. It is shown only if standard error is a terminal, and removed at the end.
#[derive(Debug)]
pub(super) struct Progress {
    terminal: bool,
    clock: Clock,
    began: Timestamp,
    shown: Option<Timestamp>,
}

impl Progress {
    /// A progress line that begins now.
    pub(super) fn new() -> Self {
        Self::with_clock(Clock::default(), std::io::stderr().is_terminal())
    }

    fn with_clock(clock: Clock, terminal: bool) -> Self {
        let began = clock.now();
        Self { terminal, clock, began, shown: None }
    }

    /// Shows the line, if the command takes more than a second and the line is not too new.
    pub(super) fn show(&mut self, line: impl FnOnce() -> String) {
        if self.is_due() {
            self.write(&line());
        }
    }

    fn is_due(&self) -> bool {
        let now = self.clock.now().0;
        let is_time = match self.shown {
            Some(shown) => now - shown.0 >= INTERVAL_MICROS,
            None => now - self.began.0 >= DELAY_MICROS,
        };
        self.terminal && is_time
    }

    /// Shows a state at once; without a terminal, on a line of its own.
    pub(super) fn state(&mut self, line: &str) {
        if self.terminal { self.write(line) } else { note(line) }
    }

    /// Waits for a future, and shows what it does and for how long.
    pub(super) async fn waiting<T>(&mut self, what: &str, future: impl Future<Output = T>) -> T {
        let mut future = std::pin::pin!(future);
        loop {
            match tokio::time::timeout(WAIT_INTERVAL, &mut future).await {
                Ok(done) => return done,
                Err(_) => {
                    let seconds = self.seconds();
                    self.show(|| format!("{what}, {seconds} s"));
                }
            }
        }
    }

    /// Duration so far, in seconds.
    pub(super) fn seconds(&self) -> i64 {
        (self.clock.now().0 - self.began.0) / 1_000_000
    }

    fn write(&mut self, line: &str) {
        self.shown = Some(self.clock.now());
        let size = terminal_size::terminal_size_of(std::io::stderr());
        let columns = size.map_or(COLUMNS_DEFAULT, |(columns, _)| usize::from(columns.0));
        // A line that wraps would not be overwritten. A failed write to the terminal stops nothing.
        let line = truncate(&escape::line(line), columns.saturating_sub(1));
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
    }

    /// Removes the line.
    pub(super) fn clear(&mut self) {
        if self.terminal && self.shown.take().is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_commands_on_a_terminal_have_a_line() {
        let clock = Clock::fixed_at(Timestamp(0));
        let mut progress = Progress::with_clock(clock.clone(), true);
        let silent = Progress::with_clock(clock.clone(), false);
        assert!(!progress.is_due());
        clock.advance(999);
        assert!(!progress.is_due());
        clock.advance(1);
        assert!(progress.is_due() && !silent.is_due());
        // As `show` does, without a terminal to write to.
        progress.shown = Some(clock.now());
        clock.advance(99);
        assert!(!progress.is_due());
        clock.advance(1);
        assert!(progress.is_due());
        assert_eq!(progress.seconds(), 1);
        progress.terminal = false;
    }
}
