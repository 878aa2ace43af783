//! The `longhand` command: parse, run, exit.

use longhand::cli;
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    match cli::parse() {
        Ok(command_line) => cli::run(command_line).await,
        Err(code) => code,
    }
}
