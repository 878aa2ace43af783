//! Backups of the store, at the request of an operator.

use super::error::{Error, Result};
use super::nouns::Daemon;
use crate::limits;
pub use crate::store::{CheckedCopy, CopyProgress};
use std::path::Path;
use tokio::sync::mpsc;

/// A piece of a backup's result.
#[derive(Debug, Clone)]
pub enum BackupItem {
    /// The progress; some of it is left out if the caller is slow.
    Progress(CopyProgress),
    /// The backup is complete and verified. Comes last, once.
    End(CheckedCopy),
}

impl Daemon<'_> {
    /// True for a store that is a shard, and not in files.
    pub fn has_shard(self) -> bool {
        self.caller.store().is_leased()
    }

    /// Makes a verified backup in a new file of the daemon's machine; the receiver gets its progress, and its end last.
    /// A caller that is gone ends the backup, and nothing of it remains.
    pub fn create_backup(self, path: &str) -> Result<mpsc::Receiver<Result<BackupItem>>> {
        self.caller.require_operator()?;
        if path.is_empty() {
            return Err(Error::field("path", "is empty"));
        }
        let (items, receiver) = mpsc::channel(limits::CHECK_QUEUE_MAX);
        let (store, path) = (self.caller.store().clone(), path.to_owned());
        let stopping = self.caller.shared.stopping.clone();
        tokio::spawn(async move {
            let report = |progress| drop(items.try_send(Ok(BackupItem::Progress(progress))));
            let end = tokio::select! {
                // No backup begins, or is completed, for a caller that is gone.
                biased;
                () = stopping.cancelled() => Err(Error::stopping()),
                () = items.closed() => return tracing::info!("a backup ends: its caller is gone"),
                end = store.upkeep().back_up(Path::new(&path), &report) => end.map(BackupItem::End).map_err(Error::from),
            };
            drop(items.send(end).await);
        });
        Ok(receiver)
    }
}
