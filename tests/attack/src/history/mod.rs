//! The history checker: many concurrent clients against a daemon that is killed at random. Each client records the
//! answers that it got, and the checks compare everything readable with these records and with the promises P1 to
//! P14.
//!
//! The checker knows the protocol and the promises, and nothing of the store's internals.
//!
//! An attack is a sequence of rounds over one store. In a round, clients share a few new sessions while the daemon is
//! killed again and again; at the end of the round the store becomes idle and is checked. The seed determines the
//! actions of the clients; their timing depends on the machine.

mod agents;
mod agreement;
mod checks;
mod client;
mod content;
mod erasers;
#[cfg(test)]
mod erasure_tests;
mod erasures;
mod fleet;
mod log;
mod lost_commits;
mod markers;
mod open;
mod people;
mod readers;
mod reasons;
mod record;
#[cfg(test)]
mod rewind_tests;
mod rewinds;
mod rewriters;
mod rounds;
mod rpc;
#[cfg(test)]
mod run_tests;
mod run_watches;
mod searches;
mod service;
mod state;
mod stores;
mod summaries;
#[cfg(test)]
mod tests;
mod trees;
mod views;
mod watchers;
mod wire;
mod writers;

pub use rounds::{Report, run};

use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// Size of the attack.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// The seed; the same one draws the same attack. Random if not given.
    #[arg(long)]
    pub seed: Option<u64>,
    /// The attack ends after this number of kills.
    #[arg(long, default_value_t = Self::default().kills)]
    pub kills: u64,
    /// The attack ends after this number of seconds.
    #[arg(long, default_value_t = Self::default().seconds)]
    pub seconds: u64,
    /// Kills of one round.
    #[arg(long, default_value_t = Self::default().round)]
    pub round: u64,
    /// Clients that append.
    #[arg(long, default_value_t = Self::default().writers)]
    pub writers: usize,
    /// Clients that rewind, edit, pin, undo, fork, archive and compact.
    #[arg(long, default_value_t = Self::default().rewriters)]
    pub rewriters: usize,
    /// Clients that follow the log.
    #[arg(long, default_value_t = Self::default().watchers)]
    pub watchers: usize,
    /// Clients that read views.
    #[arg(long, default_value_t = Self::default().readers)]
    pub readers: usize,
    /// Agents: they acquire runs, take prompts, ask questions, and write on behalf of their runs, also of past ones.
    #[arg(long, default_value_t = Self::default().agents)]
    pub agents: usize,
    /// Clients that submit, move and withdraw prompts, also with rewinds and results of tools, answer questions and
    /// cancel runs.
    #[arg(long, default_value_t = Self::default().people)]
    pub people: usize,
    /// Clients that erase parts, messages and sessions.
    #[arg(long, default_value_t = Self::default().erasers)]
    pub erasers: usize,
    /// Clients that write summaries.
    #[arg(long, default_value_t = Self::default().summarizers)]
    pub summarizers: usize,
    /// Sessions at the start of a round.
    #[arg(long, default_value_t = Self::default().sessions)]
    pub sessions: usize,
    /// The longest pause of a client between two steps, in milliseconds.
    #[arg(long, default_value_t = Self::default().pause_ms)]
    pub pause_ms: u64,
    /// Maximum number of requests that the daemon answers between two kills; one life in twenty is up to six times as
    /// long.
    #[arg(long, default_value_t = Self::default().answers)]
    pub answers: u64,
    /// Three daemons with one database of PostgreSQL, which the attack starts, in place of one daemon.
    #[arg(long)]
    pub fleet: bool,
    /// Shards of the database of several daemons.
    #[arg(long, default_value_t = Self::default().shards)]
    pub shards: u32,
    /// Directory of the store; a temporary one if not given.
    #[arg(long)]
    pub directory: Option<PathBuf>,
}

impl Default for Options {
    /// The long form of one run, with the defaults of the command line.
    fn default() -> Self {
        Self {
            seed: None,
            kills: 200,
            seconds: 600,
            round: 25,
            writers: 16,
            rewriters: 4,
            watchers: 8,
            readers: 3,
            agents: 4,
            people: 3,
            erasers: 2,
            summarizers: 3,
            sessions: 6,
            pause_ms: 20,
            answers: 160,
            fleet: false,
            shards: 8,
            directory: None,
        }
    }
}

/// Runs the attack from the command line.
pub async fn main(options: Options) -> ExitCode {
    let ran = async { run(&std::env::current_exe()?, options).await };
    match ran.await {
        Ok(report) => {
            println!("{report}");
            if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("{error:?}");
            ExitCode::FAILURE
        }
    }
}
