//! Logging: one line per event on standard error, filtered by `LONGHAND_LOG`; and the places where tests let it die.

pub mod failpoint;

use std::io::IsTerminal as _;
use tracing_subscriber::EnvFilter;

/// The variable that holds the filter, in `tracing`'s directive form; `info` when it is unset.
pub const FILTER_VARIABLE: &str = "LONGHAND_LOG";

/// Starts logging for this process. Later calls change nothing.
pub fn start() {
    let filter = EnvFilter::try_from_env(FILTER_VARIABLE).unwrap_or_else(|_| EnvFilter::new("info"));
    let logging = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .try_init();
    // Somebody else, such as a test, may have started it already.
    drop(logging);
}
