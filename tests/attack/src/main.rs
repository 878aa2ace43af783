//! The `attack` program: the attackers, and the daemon that they attack.

use clap::{Parser, Subcommand};
use longhand::cli;
use longhand_attack::daemon::AS_LONGHAND;
use longhand_attack::{damage, erasures, fuzz, history, overload, storage, vfs};
use std::process::ExitCode;

/// Attacks Longhand from outside; see docs/reliability.md.
#[derive(Debug, Parser)]
#[command(name = "attack")]
struct Arguments {
    #[command(subcommand)]
    attack: Attack,
}

/// The attacks, one variant each.
#[derive(Debug, Subcommand)]
enum Attack {
    /// Removes, truncates, alters, fills or write-protects files under the daemon.
    Damage(damage::Options),
    /// Writes, streams, edits, compacts, erases and kills, and reads every byte of all files for what was erased.
    Erasures(erasures::Options),
    /// Alters inputs of every decoder slightly and checks the results.
    Fuzz(fuzz::Options),
    /// Runs many clients against a daemon that is killed at random, and checks every answer that they got.
    History(history::Options),
    /// Fails the i-th call of every kind to the operating system, for every i.
    IoFaults(storage::command::IoFaults),
    /// Runs clients that read nothing, finish nothing or are too many, beside a well-behaved one whose calls are
    /// timed.
    Overload(overload::Options),
    /// Simulates power cuts at random moments.
    PowerCuts(storage::command::PowerCuts),
}

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    if arguments.nth(1).is_some_and(|first| first == AS_LONGHAND) {
        if let Err(error) = vfs::from_environment() {
            eprintln!("{error:#}");
            return ExitCode::FAILURE;
        }
        return match cli::Cli::try_parse_from(std::iter::once(AS_LONGHAND.into()).chain(arguments)) {
            Ok(command_line) => cli::run(command_line),
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    longhand::telemetry::start();
    attack(Arguments::parse().attack)
}

#[tokio::main]
async fn attack(attack: Attack) -> ExitCode {
    match attack {
        Attack::Damage(options) => damage::main(options).await,
        Attack::Erasures(options) => erasures::main(options).await,
        Attack::Fuzz(options) => fuzz::main(&options),
        Attack::History(options) => history::main(options).await,
        Attack::IoFaults(attack) => attack.run().await,
        Attack::Overload(options) => overload::main(options).await,
        Attack::PowerCuts(attack) => attack.run().await,
    }
}
