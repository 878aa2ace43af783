//! Logging (one line per event on standard error, filtered by `LONGHAND_LOG`), spans, escaping of printed text, and
//! fail points for tests.

pub mod escape;
pub mod failpoint;
pub mod span;

use escape::EventWriter;
use tracing_subscriber::EnvFilter;

/// The variable with the filter, in `tracing`'s directive form; `info` if it is unset.
pub const FILTER_VARIABLE: &str = "LONGHAND_LOG";

/// Starts logging for this process. Later calls have no effect.
pub fn start() {
    let filter = EnvFilter::try_from_env(FILTER_VARIABLE).unwrap_or_else(|_| EnvFilter::new("info"));
    let logging = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // Colours are escape sequences, and those of the log would look like those of a client.
        .with_ansi(false)
        .with_writer(|| EventWriter(std::io::stderr()))
        .try_init();
    // Logging may have been started already, for example by a test.
    drop(logging);
}
