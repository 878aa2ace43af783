//! The demo's own daemon: a child process with its data in a temporary folder.

use crate::cli::address::Address;
use crate::cli::client::{Client, Target};
use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};

/// Maximum number of attempts to connect to a starting daemon.
const CALLS_MAX: u32 = 400;
/// Delay between two attempts.
const CALL_INTERVAL: Duration = Duration::from_millis(25);
/// Timeout for the daemon to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// A folder that is removed when it is dropped, unless it is kept.
struct Folder {
    path: PathBuf,
    keep: bool,
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.keep {
            // The system cleans up files that cannot be removed here.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// A running daemon, and its folder.
pub(super) struct Daemon {
    child: Child,
    folder: Folder,
    /// Address on which it listens.
    pub(super) address: Address,
}

impl Daemon {
    /// Starts a daemon from this program's binary. With `keep`, the daemon and its folder outlive the demo.
    pub(super) async fn start(keep: bool) -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("longhand-demo-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let folder = Folder { path, keep };
        let log = File::create(folder.path.join("daemon.log"))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("serve").arg("--data-dir").arg(&folder.path).kill_on_drop(!keep);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().context("cannot start the daemon")?;
        let address = Address::of_socket(&folder.path.join("longhand.sock"));
        let mut daemon = Self { child, folder, address };
        daemon.answer().await?;
        Ok(daemon)
    }

    /// Waits until the daemon accepts a connection.
    async fn answer(&mut self) -> anyhow::Result<()> {
        let mut failure = None;
        for _ in 0..CALLS_MAX {
            match Client::connect(&Target::local(&self.address), "demo").await {
                Ok(_) => return Ok(()),
                Err(error) => failure = Some(error),
            }
            if let Some(status) = self.child.try_wait()? {
                anyhow::bail!("the daemon ended at once ({status}): {}", self.last_words());
            }
            tokio::time::sleep(CALL_INTERVAL).await;
        }
        Err(failure.unwrap_or_else(|| anyhow::anyhow!("the daemon was never called")))
    }

    /// The last line of the daemon's log.
    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(self.folder.path.join("daemon.log")).unwrap_or_default();
        log.lines().last().unwrap_or("it printed nothing").to_owned()
    }

    /// Folder with its data.
    pub(super) fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// Its process id, while it runs.
    pub(super) fn process_id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Asks the daemon to stop. Returns true if it stopped cleanly and in time.
    pub(super) async fn stop(mut self) -> anyhow::Result<bool> {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(id) = id {
            kill_process(id, Signal::TERM)?;
        }
        let Ok(status) = tokio::time::timeout(STOP_TIMEOUT, self.child.wait()).await else { return Ok(false) };
        Ok(status?.success())
    }
}
