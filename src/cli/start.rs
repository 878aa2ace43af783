//! Daemons that commands start.

use anyhow::Context as _;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// The log of a daemon that a command started.
pub(super) fn log_path(data_dir: &Path) -> PathBuf {
    data_dir.join("longhand.log")
}

/// Starts a daemon from this program's binary, in a group of its own, and waits until it listens. It is killed when it
/// is dropped, unless it is to outlive this process.
pub(super) async fn daemon(data_dir: &Path, outlives: bool) -> anyhow::Result<Child> {
    folder(data_dir).with_context(|| data_dir.display().to_string())?;
    let path = log_path(data_dir);
    let log = File::options().append(true).create(true).mode(0o600).open(&path);
    let log = log.with_context(|| path.display().to_string())?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("serve").arg("--data-dir").arg(data_dir).kill_on_drop(!outlives).process_group(0);
    // The store is in the folder, whatever the shell names.
    command.env_remove("LONGHAND_DATABASE").env_remove("LONGHAND_SHARDS");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    let mut child = command.spawn().context("cannot start the daemon")?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line).await?;
    }
    if line.is_empty() {
        let log = std::fs::read_to_string(&path).unwrap_or_default();
        let said = log.lines().last().unwrap_or("it printed nothing");
        anyhow::bail!("the daemon ended at once ({}): {said}", child.wait().await?);
    }
    Ok(child)
}

/// Makes the data directory, which is its owner's alone, if it is not there.
fn folder(data_dir: &Path) -> io::Result<()> {
    data_dir.parent().map_or(Ok(()), std::fs::create_dir_all)?;
    let made = DirBuilder::new().mode(0o700).create(data_dir);
    made.or_else(|error| if error.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) })
}
