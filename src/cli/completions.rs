//! `longhand completions`: prints a script that completes the command line in a shell.

use super::globals::Globals;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Shell
    shell: clap_complete::Shell,
}

/// Prints the script for the command line `cli`.
pub(super) fn run(globals: &Globals, arguments: &Arguments, cli: &mut clap::Command) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, cli, "longhand", &mut script);
    let mut output = globals.output();
    output.text(&String::from_utf8(script)?)?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}
