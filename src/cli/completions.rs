//! `longhand completions`: prints a script that completes the command line in a shell.

use super::{Cli, Globals};
use clap::CommandFactory as _;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Shell
    shell: clap_complete::Shell,
}

pub(super) fn run(globals: &Globals, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "longhand", &mut script);
    let mut output = globals.output();
    output.text(&String::from_utf8(script)?)?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}
