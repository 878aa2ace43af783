//! `longhand export`: writes a session as a file that another daemon imports, as a file of another agent, or as a document
//! for people.

pub(super) mod archive;
mod formats;
mod session;

use super::failure::Usage;
use super::{Globals, ids};
use crate::interop;
use crate::interop::export::Look;
use formats::Target;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Session, by id, client id, or the last or first digits of its id
    session: String,
    /// Format of the file
    #[arg(long, value_name = "FORMAT", default_value = "longhand")]
    format: Format,
    /// File, which only its owner can read; only one of `longhand` replaces a file of that name; default: standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Include records (markdown and html)
    #[arg(long)]
    records: bool,
    /// Maximum bytes of each tool output and record (markdown and html); default: all of it
    #[arg(long, value_name = "BYTES")]
    output_bytes: Option<usize>,
}

/// Format of an exported session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// The whole session with its revisions, marks and hash chain as JSON lines, for `longhand import`
    Longhand,
    /// Session file of pi
    Pi,
    /// Transcript of Claude Code
    ClaudeCode,
    /// Markdown
    Markdown,
    /// One HTML file without scripts
    Html,
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let look = Look { output_bytes: arguments.output_bytes.unwrap_or(usize::MAX), records: arguments.records };
    let target = match arguments.format {
        Format::Longhand => None,
        Format::Pi => Some(Target::File(interop::Format::Pi)),
        Format::ClaudeCode => Some(Target::File(interop::Format::ClaudeCode)),
        Format::Markdown => Some(Target::Markdown(look)),
        Format::Html => Some(Target::Html(look)),
    };
    if !matches!(target, Some(Target::Markdown(_) | Target::Html(_))) && look != Look::default() {
        return Err(Usage("--records and --output-bytes go with --format markdown and html only".to_owned()).into());
    }
    let Some(target) = target else {
        return archive::run(globals, &arguments.session, arguments.output.as_deref()).await;
    };
    let client = globals.client().await?;
    let session_id = ids::session(&client, &arguments.session).await?;
    formats::run(&client, session_id, target, arguments.output.as_deref()).await
}
