//! `longhand export`: writes a session to a file, in a format of Longhand or of others.

pub(super) mod archive;

use super::Globals;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Session, by id, client id, or the last or first digits of its id
    session: String,
    /// Format of the file
    #[arg(long, value_enum, default_value_t = Format::Longhand)]
    format: Format,
    /// File to write, in place of one of that name; default: standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// A format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// The whole session with its revisions, marks and hash chain as JSON lines, for `longhand import`
    Longhand,
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let Arguments { session, format, output } = arguments;
    match format {
        Format::Longhand => archive::run(globals, &session, output.as_deref()).await,
    }
}
