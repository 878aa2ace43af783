//! Restoring a backup as the store of a new data directory, without a daemon.

use crate::clock::Clock;
use crate::engine::files::{self, DATABASE};
use crate::engine::{Durability, connect};
use crate::error::{Error, Result};
use crate::handle::Store;
use crate::integrity::copies::{self, CheckedCopy, NewFile, OnProgress};
use crate::open::Options;
use std::fs::File;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// A store that was made from a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredStore {
    /// The id of the new store.
    pub store_id: Uuid,
    /// The backup, as it was checked.
    pub copy: CheckedCopy,
}

/// Makes a store in a new or empty directory from a backup, after its content was verified in its new place. The store
/// has an id of its own. A database that was copied from a stopped store is accepted too. The backup is not changed.
pub async fn restore(backup: &Path, directory: &Path, progress: OnProgress<'_>) -> Result<RestoredStore> {
    let bytes = check_backup(backup)?;
    let directory = files::plain(directory)?;
    check_empty(&directory)?;
    let (held, _) = connect::claim(&directory).await?;
    // Another process may have made a store here meanwhile.
    check_empty(&directory)?;
    copies::check_free_space(&directory, bytes)?;
    let file = NewFile::make(directory.join(format!("{DATABASE}.restoring")))?;
    let (from, to) = (backup.to_owned(), file.path().to_owned());
    let copying = async move {
        let copied = tokio::task::spawn_blocking(move || {
            let mut from = File::open(from)?;
            let mut to = File::options().write(true).open(to)?;
            std::io::copy(&mut from, &mut to)
        });
        let copied = copied.await.map_err(|error| Error::CopyFailed(error.to_string()))?;
        copied.map_err(|error| copies::failed("copy", backup, &error))
    };
    copies::follow(file.path(), bytes, progress, || Ok(()), copying).await?;
    super::upkeep::backup::mark(file.path())?;
    file.sync()?;
    let copy = copies::check(file.path(), progress).await?;
    file.rename(&directory.join(DATABASE))?;
    drop(held);
    let options = Options { directory: directory.clone(), durability: Durability::Full };
    let (store, writer) = Store::open(options, Clock::default()).await?;
    let store_id = store.id();
    store.close();
    writer.await;
    Ok(RestoredStore { store_id, copy: CheckedCopy { path: directory, ..copy } })
}

/// The bytes of a backup. A database with a log beside it is refused: a part of its content is in the log.
fn check_backup(path: &Path) -> Result<i64> {
    let refused = |why: String| Error::PathInvalid(format!("{} {why}", path.display()));
    let metadata = std::fs::metadata(path).map_err(|error| refused(format!("cannot be read: {error}")))?;
    if !metadata.is_file() {
        return Err(refused("is not a file".to_owned()));
    }
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    if std::fs::metadata(PathBuf::from(log)).is_ok_and(|log| log.len() > 0) {
        return Err(refused("has a log beside it: it is the database of a store, and not a backup".to_owned()));
    }
    if !files::is_store(path).map_err(|error| refused(format!("cannot be read: {error}")))? {
        return Err(refused("is not a backup of a store".to_owned()));
    }
    Ok(i64::try_from(metadata.len()).unwrap_or(i64::MAX))
}

fn check_empty(directory: &Path) -> Result<()> {
    let refused = |why: String| Error::PathInvalid(format!("{} {why}", directory.display()));
    match std::fs::read_dir(directory) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(refused("is not empty: a backup is restored into a new directory".to_owned())),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(refused(format!("cannot be read: {error}"))),
    }
}
