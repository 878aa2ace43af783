//! The formats of other agents and the documents for people: a thin layer over the writers of `interop`.

use super::session;
use crate::cli::failure::note;
use crate::interop;
use crate::interop::export::{self, Look, Report};
use crate::telemetry::escape;
use anyhow::Context as _;
use longhand_client::Client;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::ExitCode;

/// What a session is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// A file of an agent.
    File(interop::Format),
    /// Markdown.
    Markdown(Look),
    /// HTML.
    Html(Look),
}

/// Writes a session to a new file, or to standard output.
pub(super) async fn run(
    client: &Client,
    session_id: String,
    target: Target,
    output: Option<&Path>,
) -> anyhow::Result<ExitCode> {
    let (session, children) = session::read_session(client, session_id).await?;
    match output {
        Some(path) => to_file(path, &session, target)?,
        None => {
            let stdout = io::stdout();
            let is_terminal = stdout.is_terminal();
            let mut out = BufWriter::new(stdout.lock());
            // JSON means the same with its control characters escaped, which a terminal would obey.
            if is_terminal && matches!(target, Target::File(_)) {
                let mut whole = Vec::new();
                let report = write(&session, target, &mut whole)?;
                out.write_all(escape_lines(&String::from_utf8_lossy(&whole)).as_bytes())?;
                say(&report);
            } else {
                say(&write(&session, target, &mut out)?);
            }
            out.flush()?;
        }
    }
    if children > 0 {
        note(&format!("{children} sessions of sub-agents are files of their own: export each by its id"));
    }
    Ok(ExitCode::SUCCESS)
}

fn escape_lines(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", escape::json(line))).collect()
}

/// Writes a new file; a file of that name is never replaced, and none stays after a failure.
fn to_file(path: &Path, session: &export::Session, target: Target) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let file = File::options().write(true).create_new(true).mode(0o600).open(path).with_context(cannot)?;
    let mut out = BufWriter::new(file);
    let written = write(session, target, &mut out).and_then(|report| {
        out.flush()?;
        out.get_ref().sync_all()?;
        Ok(report)
    });
    match written {
        Ok(report) => say(&report),
        Err(error) => {
            // The failure that is reported is the one to write.
            let _ = std::fs::remove_file(path);
            return Err(error).with_context(cannot);
        }
    }
    Ok(())
}

fn write(session: &export::Session, target: Target, out: &mut dyn Write) -> io::Result<Option<Report>> {
    match target {
        Target::File(format) => export::file(session, format, out).map(Some),
        Target::Markdown(look) => export::markdown(session, &look, out).map(|()| None),
        Target::Html(look) => export::html(session, &look, out).map(|()| None),
    }
}

/// Says on standard error what a file has and what it lacks.
fn say(report: &Option<Report>) {
    let Some(Report { lines, verbatim, notes }) = report else { return };
    note(&format!("{lines} lines, {verbatim} of them the bytes that were imported"));
    for (what, number) in notes {
        note(&format!("not in the file as it is in the session: {what} ({number})"));
    }
}
