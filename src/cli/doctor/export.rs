//! The export of a store that may be damaged, as files of JSON lines.

use crate::cli::output::{Output, count};
use crate::cli::progress::Progress;
use crate::cli::{failure, json};
use crate::daemon::offline::{self, ExportItem, Gap, NamedRow};
use anyhow::Context as _;
use std::fs::{DirBuilder, File};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The file that names what the export lacks.
const LOST: &str = "lost.jsonl";

/// The files of an export. Messages of one session mostly follow each other, so one file is open at a time.
struct ExportFolder {
    path: PathBuf,
    open: Option<(String, BufWriter<File>)>,
}

impl ExportFolder {
    /// Makes the folder, which must be new or empty; only its owner can enter it.
    fn make(path: &Path) -> anyhow::Result<Self> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let is_empty = std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
                anyhow::ensure!(is_empty, "{} is not an empty folder", path.display());
            }
            made => made.with_context(|| format!("cannot make {}", path.display()))?,
        }
        Ok(Self { path: path.to_owned(), open: None })
    }

    /// Adds a line to a file.
    fn add(&mut self, name: &str, line: &str) -> io::Result<()> {
        if self.open.as_ref().is_none_or(|(open, _)| open != name) {
            self.close()?;
            let file = File::options().append(true).create(true).mode(0o600).open(self.path.join(name))?;
            self.open = Some((name.to_owned(), BufWriter::new(file)));
        }
        match &mut self.open {
            Some((_, file)) => writeln!(file, "{line}"),
            None => Ok(()),
        }
    }

    fn close(&mut self) -> io::Result<()> {
        self.open.take().map_or(Ok(()), |(_, mut file)| file.flush())
    }

    /// Writes a piece. False if it is named as lost: a damaged value may have no form in JSON, such as a time of the
    /// year 100 000.
    fn write(&mut self, piece: &ExportItem) -> io::Result<bool> {
        let (name, encoded, table, row, session) = match piece {
            ExportItem::Session(session) => {
                let id = session.session_id.clone();
                ("sessions.jsonl".to_owned(), json::encode(&**session), "session", id.clone(), id)
            }
            ExportItem::Message(session, message) => {
                let (name, id) = (format!("messages-{session}.jsonl"), message.message_id.clone());
                (name, json::encode(&**message), "message", id, session.clone())
            }
            ExportItem::Lost(lost) => return self.add(LOST, &line_of_row("lost", lost)).map(|()| false),
            ExportItem::Gap(gap) => return self.add(LOST, &line_of_gap(gap)).map(|()| false),
            ExportItem::Doubt(doubt) => return self.add(LOST, &line_of_row("doubt", doubt)).map(|()| false),
        };
        match encoded {
            Ok(line) => self.add(&name, &line).map(|()| true),
            Err(error) => {
                let (table, reason) = (table.to_owned(), error.to_string());
                let lost = NamedRow { table, row, session, revision: None, reason };
                self.add(LOST, &line_of_row("lost", &lost)).map(|()| false)
            }
        }
    }
}

fn line_of_row(kind: &str, row: &NamedRow) -> String {
    let NamedRow { table, row, session, revision, reason } = row;
    serde_json::json!({
        "kind": kind, "table": table, "row": row, "sessionId": session,
        "revision": revision.map(|at| at.to_string()), "reason": reason,
    })
    .to_string()
}

fn line_of_gap(gap: &Gap) -> String {
    let Gap { table, rows, session, revisions, count, reason } = gap;
    serde_json::json!({
        "kind": "gap", "table": table, "row": rows, "sessionId": session,
        "revision": revisions.map(|(first, _)| first.to_string()),
        "lastRevision": revisions.map(|(_, last)| last.to_string()),
        "rowCount": count.map(|rows| rows.to_string()), "reason": reason,
    })
    .to_string()
}

/// The numbers of an export.
#[derive(Default)]
struct Extent {
    sessions: i64,
    messages: i64,
    lost: i64,
    gaps: i64,
    doubts: i64,
}

impl Extent {
    fn add(&mut self, piece: &ExportItem, is_written: bool) {
        let number = match piece {
            ExportItem::Session(_) if is_written => &mut self.sessions,
            ExportItem::Message(..) if is_written => &mut self.messages,
            ExportItem::Session(_) | ExportItem::Message(..) | ExportItem::Lost(_) => &mut self.lost,
            ExportItem::Gap(_) => &mut self.gaps,
            ExportItem::Doubt(_) => &mut self.doubts,
        };
        *number += 1;
    }

    fn is_whole(&self) -> bool {
        self.lost + self.gaps + self.doubts == 0
    }

    fn print(&self, output: &mut Output, folder: &Path) -> anyhow::Result<()> {
        let Self { sessions, messages, lost, gaps, doubts } = self;
        if output.json() {
            return output.value(&serde_json::json!({
                "sessionCount": sessions.to_string(), "messageCount": messages.to_string(),
                "lostCount": lost.to_string(), "gapCount": gaps.to_string(), "doubtCount": doubts.to_string(),
            }));
        }
        let (sessions, messages) = (count(*sessions, "session"), count(*messages, "message"));
        let mut line = format!("{}: {sessions} and {messages}, {} lost", folder.display(), count(*lost, "row"));
        if gaps + doubts > 0 {
            line += &format!(", {}, {} in doubt", count(*gaps, "gap"), count(*doubts, "revision"));
        }
        if !self.is_whole() {
            line += &format!("; {LOST} names them");
        }
        Ok(output.line(&line)?)
    }
}

/// Exports a store to a folder.
pub(super) async fn run(output: &mut Output, directory: &Path, folder: &Path) -> anyhow::Result<ExitCode> {
    let mut files = ExportFolder::make(folder)?;
    let mut progress = Progress::new();
    let mut extent = Extent::default();
    let mut each = |piece: ExportItem| {
        extent.add(&piece, files.write(&piece)?);
        let rows = count(extent.sessions + extent.messages, "row");
        progress.show(|| format!("exports the store: {rows}, {} lost", extent.lost));
        Ok(())
    };
    let done = offline::export(directory, &mut each).await;
    done.with_context(|| format!("cannot export {}", directory.display()))?;
    files.close().with_context(|| format!("cannot write to {}", folder.display()))?;
    progress.clear();
    extent.print(output, folder)?;
    output.flush()?;
    Ok(if extent.is_whole() { ExitCode::SUCCESS } else { ExitCode::from(failure::FINDINGS) })
}
