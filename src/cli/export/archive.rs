//! Archives: the whole session as JSON lines, which another daemon imports.

use crate::cli::{Globals, ids};
use crate::pb;
use anyhow::Context;
use longhand_client::Client;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Name of a file before it is complete, beside the one that it becomes.
fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

pub(super) async fn run(globals: &Globals, session: &str, output: Option<&Path>) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let session_id = ids::session(&client, session).await?;
    match output {
        None => write(&client, session_id, &mut io::stdout().lock()).await?,
        Some(path) => {
            let unfinished = partial(path);
            let what = || format!("cannot write {}", path.display());
            // What a session says is for its owner alone.
            let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&unfinished);
            let written = write_file(&client, session_id, file.with_context(what)?).await;
            if let Err(error) = written {
                drop(std::fs::remove_file(&unfinished));
                return Err(error).with_context(what);
            }
            std::fs::rename(&unfinished, path).with_context(what)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn write_file(client: &Client, session_id: String, file: File) -> anyhow::Result<()> {
    let mut writer = BufWriter::new(file);
    write(client, session_id, &mut writer).await?;
    Ok(writer.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?)
}

/// Writes the archive of a session as it comes.
async fn write(client: &Client, session_id: String, to: &mut dyn Write) -> anyhow::Result<()> {
    let mut pieces = client.stream(pb::ExportSessionRequest { session_id }).await?;
    while let Some(piece) = pieces.next().await? {
        to.write_all(&piece.data)?;
    }
    Ok(to.flush()?)
}
