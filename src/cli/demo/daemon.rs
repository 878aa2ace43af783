//! The demo's own daemon: a child process with its data in a temporary folder.

use crate::cli::{globals, start};
use anyhow::Context;
use longhand_client::{Address, Client, Target};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::process::Child;

/// Timeout for the daemon to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// A folder that is removed when it is dropped, unless it is kept.
struct DemoFolder {
    path: PathBuf,
    keep: bool,
}

impl Drop for DemoFolder {
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
    folder: DemoFolder,
    /// Address on which it listens.
    pub(super) address: Address,
}

impl Daemon {
    /// Starts a daemon, which ends with the demo unless it is kept.
    pub(super) async fn start() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("longhand-demo-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let folder = DemoFolder { path, keep: false };
        let child = start::daemon(&folder.path, false).await?;
        let address = Address::of_data_dir(&folder.path);
        Ok(Self { child, folder, address })
    }

    /// A client of it, by its name.
    pub(super) async fn connect(&self, actor: &str) -> anyhow::Result<Client> {
        Ok(globals::connect(Target::local(self.address.clone()), actor).await?)
    }

    /// Folder with its data.
    pub(super) fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// Its process id, while it runs.
    pub(super) fn process_id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Has it and its folder outlive the demo.
    pub(super) fn keep(mut self) {
        self.folder.keep = true;
        // It would be killed when it is dropped.
        std::mem::forget(self.child);
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
