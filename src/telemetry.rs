//! Logging: one line per event on standard error, filtered by `LONGHAND_LOG`; what of a text may be printed; and the
//! places where tests let it die.

pub mod escape;
pub mod failpoint;

use escape::EventWriter;
use tracing_subscriber::EnvFilter;

/// The variable that holds the filter, in `tracing`'s directive form; `info` when it is unset.
pub const FILTER_VARIABLE: &str = "LONGHAND_LOG";

/// Starts logging for this process. Later calls change nothing.
pub fn start() {
    let filter = EnvFilter::try_from_env(FILTER_VARIABLE).unwrap_or_else(|_| EnvFilter::new("info"));
    let logging = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // Colours are escape sequences, and those of the log cannot be told from those of a client.
        .with_ansi(false)
        .with_writer(|| EventWriter(std::io::stderr()))
        .try_init();
    // Somebody else, such as a test, may have started it already.
    drop(logging);
}
