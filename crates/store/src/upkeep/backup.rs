//! Backups: a copy of the store in one file, made while the daemon serves and writes.
//!
//! Its rows are read in one snapshot, on a connection of its own (`copy::into_file`), which waits for nobody, and nobody
//! waits for it: readers and the writer continue. SQLite's backup API would start anew after each commit of the writer, or
//! hold the same snapshot. While the snapshot of files lasts, checkpoints cannot reuse the log, which grows by what is
//! written meanwhile; a backup that lets it grow too long is given up. The chains are verified in the copy, without a
//! snapshot. The backup of a shard is the same file.

use crate::engine::files::DATABASE;
use crate::engine::{Connection, connect, copy};
use crate::error::{Error, Result};
use crate::integrity::copies::{self, CheckedCopy, Interrupt, NewFile, OnProgress};
use crate::shared::StoreParts;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Makes a backup, and gives up if the log becomes longer than `log_bytes_max`.
pub(super) async fn back_up(
    shared: &Arc<StoreParts>,
    path: &Path,
    log_bytes_max: u64,
    progress: OnProgress<'_>,
) -> Result<CheckedCopy> {
    let _only = shared.backing_up.try_lock().map_err(|_| Error::BackupRunning)?;
    let directory = destination(path, &shared.directory)?;
    let file = NewFile::make(partial(path))?;
    // A connection of its own: a server may be long in answering.
    let engine = Arc::clone(&shared.engine);
    let connecting = copies::blocking(move || {
        let conn = engine.connect_for_copy()?;
        let total = connect::used_bytes(&conn)?;
        Ok((conn, total))
    });
    let (conn, total) = connecting.await?;
    copies::check_free_space(&directory, total)?;
    let (interrupt, is_ended) = Interrupt::new();
    let goes_on = || match u64::try_from(shared.engine.log_bytes()).unwrap_or(0) {
        bytes if bytes > log_bytes_max => Err(Error::CopyFailed(format!(
            "the log grew to {bytes} bytes, more than {log_bytes_max}, while the backup was made: so much is written now \
             that the backup cannot keep up"
        ))),
        _ => Ok(()),
    };
    let copied = file.path().to_owned();
    let writing = copies::blocking(move || copy::into_file(conn, &copied, is_ended));
    copies::follow(file.path(), total, progress, goes_on, writing).await?;
    drop(interrupt);
    mark(file.path())?;
    file.sync()?;
    let checked = copies::check(file.path(), progress).await?;
    file.rename(path)?;
    tracing::info!(path = %path.display(), bytes = checked.bytes, "a backup is complete");
    Ok(CheckedCopy { path: path.to_owned(), ..checked })
}

/// Marks the copy as a backup.
pub(crate) fn mark(path: &Path) -> Result<()> {
    let conn = Connection::open(path)?;
    // Nobody else knows the file, so it needs no journal.
    conn.pragma_update("journal_mode", "off")?;
    connect::mark_as_backup(&conn)?;
    conn.close()
}

/// The path of a backup until it is complete.
fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

/// The directory of a backup's path, which has to be free.
fn destination(path: &Path, data: &Path) -> Result<PathBuf> {
    let refused = |why: &str| Error::PathInvalid(format!("{} {why}", path.display()));
    if path.to_str().is_none() {
        return Err(refused("is not UTF-8"));
    }
    if !path.is_absolute() {
        return Err(refused("is not absolute"));
    }
    if std::fs::symlink_metadata(path).is_ok() {
        return Err(Error::CopyExists(path.to_owned()));
    }
    let (Some(parent), Some(_)) = (path.parent(), path.file_name()) else { return Err(refused("is no file's")) };
    let parent = parent.canonicalize().map_err(|error| refused(&format!("has no directory: {error}")))?;
    if !parent.is_dir() {
        return Err(refused("has no directory"));
    }
    // SQLite would take a file with the name of a log or a journal for its own.
    if data.canonicalize().is_ok_and(|data| data == parent) {
        return Err(refused(&format!("is in the data directory, beside {DATABASE}")));
    }
    Ok(parent)
}

#[cfg(test)]
mod tests {
    use crate::clock::Clock;
    use crate::{Durability, Options, Store};

    #[tokio::test]
    async fn a_backup_that_lets_the_log_grow_too_long_is_given_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options { directory: folder.path().join("store"), durability: Durability::ProcessCrash };
        let (store, writer) = Store::open(options, Clock::default()).await.expect("a store");
        let _writer = tokio::spawn(writer);
        let path = folder.path().join("backup.db");
        let failed = super::back_up(&store.upkeep().0, &path, 1, &|_| {}).await.expect_err("given up");
        assert!(failed.to_string().contains("the log grew"), "{failed}");
        let names: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").collect();
        assert_eq!(names.len(), 1, "only the store is left: {names:?}");
        store.upkeep().back_up(&path, &|_| {}).await.expect("the next one succeeds");
    }
}
