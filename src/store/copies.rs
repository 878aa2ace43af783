//! Copies of a store in a file: the check of a copy, and names that never replace a file.

use super::error::{Error, Result};
use super::verify::{self, Checked, Finding};
use crate::limits;
use crate::model::Seq;
use rustix::fs::RenameFlags;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{ConnectOptions as _, SqliteConnection, SqlitePool};
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

const INTEGRITY: &str = "pragma integrity_check(20)";
const FOREIGN_KEYS: &str = "pragma foreign_key_check";
const HEAD: &str = "select coalesce(max(seq), 0) from event";
/// Steps of a statement between two looks at the request to end it.
const INTERRUPT_STEPS: i32 = 10_000;

/// The progress of a backup or of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyProgress {
    /// Bytes of the copy that are written, and an estimate of their total.
    Copying {
        /// Bytes so far.
        bytes: i64,
        /// All bytes.
        total: i64,
    },
    /// SQLite's integrity check of the copy.
    Checking,
    /// Events of the copy whose hash chains and rows are checked, and their total.
    Verifying {
        /// Events so far.
        events: i64,
        /// All events.
        total: i64,
    },
}

/// A function that is called with the progress.
pub type OnProgress<'a> = &'a (dyn Fn(CopyProgress) + Send + Sync);

/// A checked copy of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedCopy {
    /// Its file.
    pub path: PathBuf,
    /// Bytes of the file.
    pub bytes: i64,
    /// The extent of the check, which had no findings.
    pub checked: Checked,
    /// The number of its newest event.
    pub head_seq: Seq,
}

/// Ends the statement that a connection runs when this is dropped; the connection runs no statement after that.
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// The interrupt of the connection's statements.
    pub(super) async fn of(conn: &mut SqliteConnection) -> Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        conn.lock_handle().await?.set_progress_handler(INTERRUPT_STEPS, move || !seen.load(Ordering::Relaxed));
        Ok(Self(ended))
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Readers of a database that nobody writes; they make no file beside it.
pub(super) async fn readers(path: &Path) -> Result<SqlitePool> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .read_only(true)
        .immutable(true)
        .pragma("trusted_schema", "off")
        .pragma("cell_size_check", "on")
        .log_statements(tracing::log::LevelFilter::Off);
    let pool = SqlitePoolOptions::new().max_connections(1).test_before_acquire(false).idle_timeout(None);
    Ok(pool.max_lifetime(None).connect_with(options).await?)
}

/// Checks a copy: pages, indexes and constraints by SQLite, then every hash chain against its rows.
pub(super) async fn check(path: &Path, progress: OnProgress<'_>) -> Result<CheckedCopy> {
    let pool = readers(path).await?;
    let result = check_all(&pool, progress).await;
    pool.close().await;
    let (checked, head_seq) = result?;
    let found = std::fs::metadata(path).map_err(|error| failed("look at", path, &error))?;
    let bytes = i64::try_from(found.len()).unwrap_or(i64::MAX);
    Ok(CheckedCopy { path: path.to_owned(), bytes, checked, head_seq })
}

async fn check_all(pool: &SqlitePool, progress: OnProgress<'_>) -> Result<(Checked, Seq)> {
    progress(CopyProgress::Checking);
    let mut conn = pool.acquire().await?;
    let interrupt = Interrupt::of(&mut conn).await?;
    let lines: Vec<String> = sqlx::query_scalar(INTEGRITY).fetch_all(&mut *conn).await?;
    if let Some(line) = lines.iter().find(|line| *line != "ok") {
        return Err(Error::CopyDamaged { findings: lines.len(), first: line.clone() });
    }
    let violations = sqlx::query(FOREIGN_KEYS).fetch_all(&mut *conn).await?.len();
    if violations > 0 {
        let first = "rows refer to rows that are not there".to_owned();
        return Err(Error::CopyDamaged { findings: violations, first });
    }
    let head_seq: Seq = sqlx::query_scalar(HEAD).fetch_one(&mut *conn).await?;
    conn.lock_handle().await?.remove_progress_handler();
    drop((interrupt, conn));
    let (found, mut findings) = mpsc::channel(limits::CHECK_QUEUE_MAX);
    let verifying = |checked: Checked| progress(CopyProgress::Verifying { events: checked.events, total: head_seq });
    let verified = async {
        // The sender is dropped at the end, so that the other side ends too.
        let found = found;
        verify::run(pool, None, &found, &verifying).await
    };
    let first = async {
        let mut first: Option<Finding> = None;
        while let Some(finding) = findings.recv().await {
            first.get_or_insert(finding);
        }
        first
    };
    let (checked, first) = tokio::join!(verified, first);
    let checked = checked?;
    match first {
        None => Ok((checked, head_seq)),
        Some(Finding { session, revision, message }) => {
            let subject = session.map_or_else(|| "store".to_owned(), |session| format!("{session} #{revision}"));
            let findings = usize::try_from(checked.findings).unwrap_or(usize::MAX);
            Err(Error::CopyDamaged { findings, first: format!("{subject}: {message}") })
        }
    }
}

/// Waits for the writer of a file, and reports the file's length at intervals. `goes_on` can end the wait.
pub(super) async fn follow<T>(
    path: &Path,
    total: i64,
    progress: OnProgress<'_>,
    goes_on: impl Fn() -> Result<()>,
    writing: impl Future<Output = Result<T>>,
) -> Result<T> {
    let mut writing = std::pin::pin!(writing);
    loop {
        let bytes = std::fs::metadata(path).map_or(0, |found| i64::try_from(found.len()).unwrap_or(i64::MAX));
        progress(CopyProgress::Copying { bytes: bytes.min(total), total });
        goes_on()?;
        match tokio::time::timeout(Duration::from_millis(limits::COPY_PROGRESS_MS), &mut writing).await {
            Ok(done) => return done,
            Err(_) => continue,
        }
    }
}

/// A new file that is removed unless it gets its final name.
pub(super) struct NewFile {
    path: PathBuf,
    is_final: bool,
}

impl NewFile {
    /// Makes a file that only its owner can read. A file of this name is never replaced.
    pub(super) fn make(path: PathBuf) -> Result<Self> {
        match File::options().create_new(true).write(true).mode(0o600).open(&path) {
            Ok(_) => Ok(Self { path, is_final: false }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(Error::CopyExists(path)),
            Err(error) => Err(failed("make", &path, &error)),
        }
    }

    /// The path until it gets its final name.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Syncs the content.
    pub(super) fn sync(&self) -> Result<()> {
        let file = File::open(&self.path).map_err(|error| failed("open", &self.path, &error))?;
        file.sync_all().map_err(|error| failed("sync", &self.path, &error))
    }

    /// Gives the file its final name, which must be free and in the same directory, and syncs the directory.
    pub(super) fn rename(mut self, name: &Path) -> Result<()> {
        use rustix::io::Errno;
        let cwd = rustix::fs::CWD;
        let renamed = match rustix::fs::renameat_with(cwd, &self.path, cwd, name, RenameFlags::NOREPLACE) {
            // The file system cannot refuse to replace a file; a second name has the same effect.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                rustix::fs::link(&self.path, name).and_then(|()| rustix::fs::unlink(&self.path))
            }
            renamed => renamed,
        };
        match renamed {
            Ok(()) => self.is_final = true,
            Err(Errno::EXIST) => return Err(Error::CopyExists(name.to_owned())),
            Err(error) => return Err(failed("rename", name, &error.into())),
        }
        let parent = name.parent().unwrap_or(Path::new("/"));
        File::open(parent).and_then(|parent| parent.sync_all()).map_err(|error| failed("sync", parent, &error))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_final
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::warn!(%error, "an unfinished copy could not be removed");
        }
    }
}

pub(super) fn failed(what: &str, path: &Path, error: &io::Error) -> Error {
    Error::CopyFailed(format!("cannot {what} {}: {error}", path.display()))
}

/// Refuses to begin a copy for which the file system has no room.
pub(super) fn check_room(directory: &Path, bytes: i64) -> Result<()> {
    let found = rustix::fs::statvfs(directory).map_err(|error| failed("look at", directory, &error.into()))?;
    let free = i64::try_from(found.f_bavail.saturating_mul(found.f_frsize)).unwrap_or(i64::MAX);
    let needed = bytes.saturating_add(limits::COPY_ROOM_BYTES);
    if free < needed {
        let path = directory.display();
        return Err(Error::CopyFailed(format!("{path} has {free} bytes of room, and the copy needs {needed}")));
    }
    Ok(())
}
