//! The load generator. It drives the real daemon over gRPC, in turn with baselines, other builds and other session
//! stores, and prints medians and percentiles; `benches/run` builds both and starts it.

mod append;
mod client;
mod compacted;
mod compare;
mod counting;
mod disk;
mod durable_streams;
mod erasures;
mod events;
mod fairness;
mod fleet;
mod floor;
mod growth;
mod history;
mod http1;
mod instructions;
mod memory;
mod models;
mod pace;
mod pages;
mod peers;
mod policies;
mod process;
mod reads;
mod recall;
mod relay;
mod report;
mod retention;
mod rewrites;
mod rival;
mod rpc;
mod search;
mod secrets;
mod source;
mod start;
mod stream;
mod target;
mod watched;

use clap::{Parser, Subcommand};
use mimalloc::MiMalloc;
use report::Report;
use std::path::PathBuf;

/// The daemon's allocator, so that code that is measured in this process costs the same as in the daemon.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Measures Longhand; docs/performance.md has the figures.
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
    /// Less time, fewer messages, a smaller store: for a first look.
    #[arg(long, global = true)]
    short: bool,
    #[command(subcommand)]
    measure: Measure,
}

/// The measurements.
#[derive(Debug, Subcommand)]
enum Measure {
    /// Durable appends, one message or a batch each, by 1 to 64 callers, beside raw SQLite with group commit and gRPC
    /// without the daemon.
    Append(append::Options),
    /// Two builds in turn: ratios of their medians, and their spread. `benches/compare` builds revisions.
    Compare(compare::Options),
    /// Appends to sessions that are compacted meanwhile, beside appends without compactions; and what built-in summaries cost.
    Compacted(compacted::Options),
    /// Estimates of tokens beside the tokenizer, and appends of others while large outputs are counted exactly.
    Counting(counting::Options),
    /// Instructions of the daemon for each append, read and event, counted by valgrind, which has to be installed.
    Instructions(instructions::Options),
    /// The time from an append's call until watchers have its event.
    Events(events::Options),
    /// Calls of a tenant beside thousands of another one, which are in flight with one access token.
    Fairness(fairness::Options),
    /// Replies that are written token by token, by streams and by a call for each token, until watchers have them.
    Stream(stream::Options),
    /// Appends to one session beside watchers that read, and beside as many more that never do: rates, memory.
    Watched(watched::Options),
    /// Views and pages of sessions of several lengths.
    Reads,
    /// Views and appends with the memory of sessions and without it: processor time of each call.
    Rival,
    /// Resident memory: idle, of event streams, with loaded sessions.
    Memory(memory::Options),
    /// Appends to one long session: its first fifth against its last one.
    Growth(growth::Options),
    /// Pins and edits in one session: the first ones against the last ones.
    Rewrites(rewrites::Options),
    /// Bytes on disk for each byte of content.
    Disk(disk::Options),
    /// Full-text search: appends with the index and without it in turn, the lag behind a burst, first pages, sizes.
    Search(search::Options),
    /// Questions over texts that others wrote: answers among the first ten hits, beside the plainest rival.
    Recall(recall::Options),
    /// Appends without rules for secrets, with the well-known shapes and with fifty rules, in turn.
    Secrets(secrets::Options),
    /// Erasures of single messages of a large store, the first one since the start of the daemon and others, and appends
    /// meanwhile. Options as for `retention`.
    Erasures(retention::Options),
    /// A pass of retention over a large store: its time, what the files give back, and appends meanwhile.
    Retention(retention::Options),
    /// Start of the daemon with a large store.
    Start(start::Options),
    /// Appends to other session stores. `benches/peers` installs them.
    Peers(peers::Options),
    /// Sessions that are compacted at the same time, against a provider that takes few requests at a time.
    Compactions {
        /// Sessions.
        #[arg(default_value_t = 1_000)]
        sessions: usize,
    },
    /// Rows that views and appends read behind a summary, at 1 000 to 1 000 000 messages.
    History,
    /// Names of models as others write them, beside the table of models. `benches/models` gets them.
    Models(models::Options),
    /// Decisions of every preset over long histories in memory.
    Policies {
        /// Only presets whose names have one of these in them.
        names: Vec<String>,
    },
    /// The server of the baselines over gRPC.
    #[command(hide = true)]
    ServeFloor(rpc::Options),
    /// A network with a delay.
    #[command(hide = true)]
    Relay(relay::Options),
}

/// The daemon that was built beside this program.
fn own_binary() -> String {
    let own = std::env::current_exe().expect("this program's path");
    own.with_file_name("longhand").to_string_lossy().into_owned()
}

#[tokio::main]
async fn main() {
    let Arguments { json, mut binary, short, measure } = Arguments::parse();
    if binary.is_empty() {
        binary.push(own_binary());
    }
    for (binary, _) in binary.iter().map(|binary| fleet::program(binary)) {
        assert!(PathBuf::from(binary).exists(), "{binary} is not there; `benches/run` builds Longhand's");
    }
    let mut report = Report::default();
    match measure {
        Measure::Append(options) => append::run(&binary, &options, short, &mut report).await,
        Measure::Compare(options) => compare::run(&options, short, &mut report).await,
        Measure::Compacted(options) => compacted::run(&binary, &options, short, &mut report).await,
        Measure::Counting(options) => counting::run(&binary, &options, short, &mut report).await,
        Measure::Instructions(options) => instructions::run(&options, &mut report).await,
        Measure::Events(options) => events::run(&binary, &options, short, &mut report).await,
        Measure::Fairness(options) => fairness::run(&binary, &options, short, &mut report).await,
        Measure::Stream(options) => stream::run(&binary, &options, short, &mut report).await,
        Measure::Watched(options) => watched::run(&binary, &options, short, &mut report).await,
        Measure::Reads => reads::run(&binary, short, &mut report).await,
        Measure::Rival => rival::run(&binary, short, &mut report).await,
        Measure::Memory(options) => memory::run(&binary, &options, short, &mut report).await,
        Measure::Growth(options) => growth::run(&binary, &options, short, &mut report).await,
        Measure::Rewrites(options) => rewrites::run(&binary, &options, short, &mut report).await,
        Measure::Disk(options) => disk::run(&binary, &options, short, &mut report).await,
        Measure::Search(options) => search::run(&binary, &options, short, &mut report).await,
        Measure::Recall(options) => recall::run(&binary, &options, &mut report).await,
        Measure::Secrets(options) => secrets::run(&binary, &options, short, &mut report).await,
        Measure::Erasures(options) => erasures::run(&binary, &options, short, &mut report).await,
        Measure::Retention(options) => retention::run(&binary, &options, short, &mut report).await,
        Measure::Start(options) => start::run(&binary, &options, short, &mut report).await,
        Measure::Peers(options) => peers::run(&binary, &options, short, &mut report).await,
        Measure::Compactions { sessions } => {
            let folder = tempfile::tempdir().expect("a folder");
            let sessions = if short { sessions.min(100) } else { sessions };
            println!("{sessions} sessions compacted at the same time, the provider takes 8 requests at a time");
            let done = fleet::run(&binary[0], folder.path(), sessions).await;
            let figures = [
                ("compactions", done.compacted as f64),
                ("seconds", done.elapsed.as_secs_f64()),
                ("requests_at_once", done.at_once as f64),
                ("peak_mib", done.peak_kib.map_or(f64::NAN, |kib| kib as f64 / 1_024.0)),
            ];
            report.figures("compactions", &target::name(&binary[0]), &figures);
        }
        Measure::History => history::run(short, &mut report).await,
        Measure::Models(options) => models::run(&options, &mut report),
        Measure::Policies { names } => policies::run(&names, short, &mut report),
        Measure::ServeFloor(options) => rpc::serve(&options).await,
        Measure::Relay(options) => relay::run(&options),
    }
    if let Some(path) = json {
        report.write(&path);
    }
}
