//! The export of a store that may be damaged, as files of JSON lines.

use crate::cli::output::{Output, count};
use crate::cli::progress::Progress;
use crate::cli::{failure, json};
use crate::daemon::offline::{self, Exported, LostRow};
use anyhow::Context as _;
use std::fs::{DirBuilder, File};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The files of an export. Messages of one session mostly follow each other, so one file is open at a time.
struct Folder {
    path: PathBuf,
    open: Option<(String, BufWriter<File>)>,
}

impl Folder {
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
    fn write(&mut self, piece: &Exported) -> io::Result<bool> {
        let (name, encoded, table, row, session) = match piece {
            Exported::Session(session) => {
                let id = session.session_id.clone();
                ("sessions.jsonl".to_owned(), json::encode(&**session), "session", id.clone(), id)
            }
            Exported::Message(session, message) => {
                let (name, id) = (format!("messages-{session}.jsonl"), message.message_id.clone());
                (name, json::encode(&**message), "message", id, session.clone())
            }
            Exported::Lost(lost) => return self.add("lost.jsonl", &lost_line(lost)).map(|()| false),
        };
        match encoded {
            Ok(line) => self.add(&name, &line).map(|()| true),
            Err(error) => {
                let (table, reason) = (table.to_owned(), error.to_string());
                let lost = LostRow { table, row, session, revision: None, reason };
                self.add("lost.jsonl", &lost_line(&lost)).map(|()| false)
            }
        }
    }
}

fn lost_line(lost: &LostRow) -> String {
    let LostRow { table, row, session, revision, reason } = lost;
    serde_json::json!({
        "table": table, "row": row, "sessionId": session, "revision": revision.map(|at| at.to_string()),
        "reason": reason,
    })
    .to_string()
}

/// Exports a store to a folder.
pub(super) async fn run(output: &mut Output, directory: &Path, folder: &Path) -> anyhow::Result<ExitCode> {
    let mut files = Folder::make(folder)?;
    let mut progress = Progress::new();
    let (mut sessions, mut messages, mut lost) = (0_i64, 0_i64, 0_i64);
    let mut each = |piece: Exported| {
        match (files.write(&piece)?, piece) {
            (true, Exported::Session(_)) => sessions += 1,
            (true, Exported::Message(..)) => messages += 1,
            _ => lost += 1,
        }
        progress.show(|| format!("exports the store: {}, {lost} lost", count(sessions + messages, "row")));
        Ok(())
    };
    let done = offline::export(directory, &mut each).await;
    done.with_context(|| format!("cannot export {}", directory.display()))?;
    files.close().with_context(|| format!("cannot write to {}", folder.display()))?;
    progress.clear();
    if output.json() {
        output.value(&serde_json::json!({
            "sessionCount": sessions.to_string(), "messageCount": messages.to_string(), "lostCount": lost.to_string(),
        }))?;
    } else {
        let (sessions, messages) = (count(sessions, "session"), count(messages, "message"));
        output.line(&format!("{}: {sessions} and {messages}, {} lost", folder.display(), count(lost, "row")))?;
    }
    output.flush()?;
    Ok(if lost == 0 { ExitCode::SUCCESS } else { ExitCode::from(failure::FINDINGS) })
}
