//! The long forms, as commands.

use super::cuts::{self, Sabotage};
use super::faults::{self, HEADING, Stage};
use crate::vfs::Call;
use longhand::app::Durability;
use std::process::ExitCode;

/// The arguments of `attack io-faults`.
#[derive(Debug, clap::Args)]
pub struct IoFaults {
    /// The seed of all random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Tests only these kinds of calls.
    #[arg(long)]
    only: Vec<Call>,
    /// Tests only this stage of the workload.
    #[arg(long)]
    stage: Option<Stage>,
    /// Fails only the call with this number, to reproduce a finding.
    #[arg(long)]
    nth: Option<u64>,
    /// Number of concurrent runs.
    #[arg(long, default_value_t = 4)]
    at_once: usize,
}

impl IoFaults {
    /// Fails calls, and prints the table.
    pub async fn run(self) -> ExitCode {
        let Self { seed, only, stage, nth, at_once } = self;
        println!("seed {seed}\n{HEADING}");
        let print = |row: &faults::Row| {
            println!("{row}");
            row.findings.iter().for_each(|finding| println!("  {finding}"));
        };
        match faults::run(&faults::Options { seed, only, stage, nth, at_once }, print).await {
            Ok(rows) => {
                let lives: usize = rows.iter().map(|row| row.runs).sum();
                let findings: usize = rows.iter().map(|row| row.findings.len()).sum();
                println!("{lives} lives with a fault, {findings} findings");
                if findings == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
            }
            Err(error) => failed(&error),
        }
    }
}

/// The arguments of `attack power-cuts`.
#[derive(Debug, clap::Args)]
pub struct PowerCuts {
    /// The seed of all random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of power cuts.
    #[arg(long, default_value_t = 500)]
    cuts: usize,
    /// The store syncs only at checkpoints, and may lose its newest writes.
    #[arg(long)]
    process_crash: bool,
    /// A fault in the experiment itself, which the checks must find: no finding is then the failure.
    #[arg(long)]
    sabotage: Option<Sabotage>,
}

impl PowerCuts {
    /// Cuts the power, and prints the results.
    pub async fn run(self) -> ExitCode {
        let Self { seed, cuts, process_crash, sabotage } = self;
        println!("seed {seed}");
        let durability = if process_crash { Durability::ProcessCrash } else { Durability::Full };
        match cuts::run(cuts::Options { seed, cuts, durability, sabotage }).await {
            Ok(report) => {
                report.findings.iter().for_each(|finding| println!("{finding}"));
                println!("{report}");
                if report.findings.is_empty() == sabotage.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
            }
            Err(error) => failed(&error),
        }
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("the attack itself failed: {error:#}");
    ExitCode::FAILURE
}
