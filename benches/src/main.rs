//! The load generator. It drives the real daemon over gRPC, in turn with raw SQLite and with other builds, and prints
//! medians and percentiles; `benches/run` builds both and starts it.

mod append;
mod events;
mod fleet;
mod floor;
mod history;
mod memory;
mod policies;
mod reads;
mod report;

use clap::{Parser, Subcommand};
use mimalloc::MiMalloc;
use report::Report;
use std::path::PathBuf;

/// The daemon's allocator, so that code that is measured in this process costs the same as in the daemon.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Measures Longhand; docs/performance.md has the figures and their targets.
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Arguments {
    /// Write the figures to this file as JSON, too.
    #[arg(long, global = true, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The daemon to measure; the one that was built beside this program where none is named. Several are measured in
    /// turn.
    #[arg(long, global = true, value_name = "BINARY")]
    binary: Vec<String>,
    #[command(subcommand)]
    measure: Measure,
}

/// The measurements.
#[derive(Debug, Subcommand)]
enum Measure {
    /// Durable appends, one message or a batch each, by 1 to 64 callers, beside raw SQLite with group commit.
    Append(append::Options),
    /// The time from an append's call until watchers have its event.
    Events(events::Options),
    /// Views and pages of sessions of several lengths.
    Reads,
    /// Resident memory with sessions that are kept in it.
    Memory,
    /// Sessions that are compacted at the same time, against a provider that takes few requests at a time.
    Compactions {
        /// Sessions.
        #[arg(default_value_t = 1_000)]
        sessions: usize,
    },
    /// Rows that views and appends read behind a summary, at 1 000 to 1 000 000 messages.
    History,
    /// Decisions of every preset over long histories in memory.
    Policies {
        /// Only presets whose names have one of these in them.
        names: Vec<String>,
    },
}

/// The daemon that was built beside this program.
fn own_binary() -> String {
    let own = std::env::current_exe().expect("this program's path");
    let binary = own.with_file_name("longhand");
    assert!(binary.exists(), "{} is not there; `benches/run` builds it", binary.display());
    binary.to_string_lossy().into_owned()
}

#[tokio::main]
async fn main() {
    let Arguments { json, mut binary, measure } = Arguments::parse();
    if binary.is_empty() {
        binary.push(own_binary());
    }
    let mut report = Report::default();
    match measure {
        Measure::Append(options) => append::run(&binary, &options, &mut report).await,
        Measure::Events(options) => events::run(&binary, &options, &mut report).await,
        Measure::Reads => reads::run(&binary, &mut report).await,
        Measure::Memory => memory::run(&binary).await,
        Measure::Compactions { sessions } => {
            let folder = tempfile::tempdir().expect("a folder");
            println!("{sessions} sessions compacted at the same time, the provider takes 8 requests at a time");
            println!("{}", fleet::run(&binary[0], folder.path(), sessions).await);
        }
        Measure::History => history::run().await,
        Measure::Policies { names } => policies::run(&names),
    }
    if let Some(path) = json {
        report.write(&path);
    }
}
