//! Copies of a store in a file: the check of a copy, and names that never replace a file.

use super::log_check::Finding;
use super::verify::{self, CheckedChains};
use crate::clock::Clock;
use crate::engine::readers::Readers;
use crate::engine::{self, Connection, connect, files};
use crate::error::{Error, Result};
use crate::limits;
use crate::model::Seq;
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
    pub checked: CheckedChains,
    /// The number of its newest event.
    pub head_seq: Seq,
}

/// Ends a long work when this is dropped.
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// An interrupt, and what the work asks between two steps: true once it is to end.
    pub(crate) fn new() -> (Self, impl Fn() -> bool + Send + 'static) {
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        (Self(ended), move || seen.load(Ordering::Relaxed))
    }

    /// The interrupt of the statement that a connection runs; the connection runs no statement after that.
    pub(crate) fn for_connection(conn: &Connection) -> Result<Self> {
        let (interrupt, is_ended) = Self::new();
        conn.interrupt_when(is_ended)?;
        Ok(interrupt)
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a long statement in a thread for such work.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Error::CopyFailed(error.to_string()))?
}

/// Opens a database that nobody writes; no file is made beside it.
pub(crate) fn connect(path: &Path) -> Result<Connection> {
    let path = path.to_str().ok_or_else(|| Error::PathInvalid(format!("{} is not UTF-8", path.display())))?;
    // The characters that end the path of a URI.
    let path = path.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    connect::connect_immutable(&path)
}

/// A reader of a database that nobody writes.
fn readers(path: &Path) -> Result<Readers> {
    let path = path.to_owned();
    Readers::new(1, Clock::default(), Box::new(move || connect(&path)))
}

/// Checks a copy: pages, indexes and constraints by SQLite, then every hash chain against its rows.
pub(crate) async fn check(path: &Path, progress: OnProgress<'_>) -> Result<CheckedCopy> {
    let (checked, head_seq) = check_all(path, progress).await?;
    let metadata = std::fs::metadata(path).map_err(|error| failed("look at", path, &error))?;
    let bytes = i64::try_from(metadata.len()).unwrap_or(i64::MAX);
    Ok(CheckedCopy { path: path.to_owned(), bytes, checked, head_seq })
}

async fn check_all(path: &Path, progress: OnProgress<'_>) -> Result<(CheckedChains, Seq)> {
    progress(CopyProgress::Checking);
    let conn = connect(path)?;
    let interrupt = Interrupt::for_connection(&conn)?;
    let head_seq = blocking(move || check_pages(&conn)).await?;
    drop(interrupt);
    let checked = verify(&readers(path)?, head_seq, progress).await?;
    Ok((checked, head_seq))
}

/// Verifies every hash chain of a copy against its rows.
pub(crate) async fn verify(readers: &Readers, head_seq: Seq, progress: OnProgress<'_>) -> Result<CheckedChains> {
    let (found, mut findings) = mpsc::channel(limits::CHECK_QUEUE_MAX);
    let verifying =
        |checked: CheckedChains| progress(CopyProgress::Verifying { events: checked.events, total: head_seq });
    let verified = async {
        // The sender is dropped at the end, so that the other side ends too.
        let found = found;
        verify::run(readers, None, &found, &verifying).await
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
        None => Ok(checked),
        Some(Finding { session, revision, message }) => {
            let subject = session.map_or_else(|| "store".to_owned(), |session| format!("{session} #{revision}"));
            let findings = usize::try_from(checked.findings).unwrap_or(usize::MAX);
            Err(Error::CopyDamaged { findings, first: format!("{subject}: {message}") })
        }
    }
}

/// Checks pages, indexes and references. Returns the number of the newest event.
fn check_pages(conn: &Connection) -> Result<Seq> {
    let lines: Vec<String> = engine::scalar(INTEGRITY).all(conn)?;
    if let Some(line) = lines.iter().find(|line| *line != "ok") {
        return Err(Error::CopyDamaged { findings: lines.len(), first: line.clone() });
    }
    let violations = engine::query(FOREIGN_KEYS).all(conn)?.len();
    if violations > 0 {
        let first = "rows refer to rows that are not there".to_owned();
        return Err(Error::CopyDamaged { findings: violations, first });
    }
    engine::scalar(HEAD).one(conn)
}

/// Waits for the writer of a file, and reports the file's length at intervals. `goes_on` can end the wait.
pub(crate) async fn follow<T>(
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
pub(crate) struct NewFile {
    path: PathBuf,
    is_final: bool,
}

impl NewFile {
    /// Makes a file that only its owner can read. A file of this name is never replaced.
    pub(crate) fn make(path: PathBuf) -> Result<Self> {
        match File::options().create_new(true).write(true).mode(0o600).open(&path) {
            Ok(_) => Ok(Self { path, is_final: false }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(Error::CopyExists(path)),
            Err(error) => Err(failed("make", &path, &error)),
        }
    }

    /// The path until it gets its final name.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn sync(&self) -> Result<()> {
        let file = File::open(&self.path).map_err(|error| failed("open", &self.path, &error))?;
        file.sync_all().map_err(|error| failed("sync", &self.path, &error))
    }

    /// Gives the file its final name, which must be free and in the same directory, and syncs the directory.
    pub(crate) fn rename(mut self, name: &Path) -> Result<()> {
        match files::rename_new(&self.path, name) {
            Ok(()) => {
                self.is_final = true;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(Error::CopyExists(name.to_owned())),
            Err(error) => Err(failed("rename", name, &error)),
        }
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

pub(crate) fn failed(what: &str, path: &Path, error: &io::Error) -> Error {
    Error::CopyFailed(format!("cannot {what} {}: {error}", path.display()))
}

/// Refuses to begin a copy for which the file system has too little space.
pub(crate) fn check_free_space(directory: &Path, bytes: i64) -> Result<()> {
    let file_system = rustix::fs::statvfs(directory).map_err(|error| failed("look at", directory, &error.into()))?;
    let free = i64::try_from(file_system.f_bavail.saturating_mul(file_system.f_frsize)).unwrap_or(i64::MAX);
    let needed = bytes.saturating_add(limits::COPY_ROOM_BYTES);
    if free < needed {
        let path = directory.display();
        return Err(Error::CopyFailed(format!("{path} has {free} bytes of free space, and the copy needs {needed}")));
    }
    Ok(())
}
