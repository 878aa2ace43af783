//! The `attack` program: the attackers, and the daemon they attack.

use clap::{Parser, Subcommand};
use longhand::cli;
use longhand_attack::daemon::AS_LONGHAND;
use longhand_attack::{history, overload};
use std::process::ExitCode;

/// Attacks Longhand from outside; see docs/reliability.md.
#[derive(Debug, Parser)]
#[command(name = "attack")]
struct Arguments {
    #[command(subcommand)]
    attack: Attack,
}

/// One variant an attack.
#[derive(Debug, Subcommand)]
enum Attack {
    /// Many clients over a daemon that is killed at random; everything that they were told is checked.
    History(history::Options),
    /// Clients that read nothing, finish nothing or are too many, and one that behaves and is timed.
    Overload(overload::Options),
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    if arguments.nth(1).is_some_and(|first| first == AS_LONGHAND) {
        return match cli::Cli::try_parse_from(std::iter::once(AS_LONGHAND.into()).chain(arguments)) {
            Ok(command_line) => cli::run(command_line).await,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    match Arguments::parse().attack {
        Attack::History(options) => history::main(options).await,
        Attack::Overload(options) => overload::main(options).await,
    }
}
