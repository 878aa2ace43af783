//! A disk that fails or loses power, simulated by a layer (VFS) between SQLite and the operating system.
//!
//! The layer is registered as SQLite's default for the whole process, so that the store under test needs no hook. It
//! passes every call on, except in directories that a [`Disk`] watches. There it counts calls by kind, fails those of a
//! [`Fault`], and keeps a [`Recording`] of writes and syncs, from which it can build the files that a power cut would
//! leave.

mod directory;
pub mod recording;
mod shim;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum as _;
use recording::Recording;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// The kinds of calls that SQLite, or the store itself, makes to the operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum)]
pub enum Call {
    /// Opening a file.
    Open,
    /// Reading from a file.
    Read,
    /// Writing to a file.
    Write,
    /// Syncing a file.
    Sync,
    /// Syncing a directory; SQLite ignores a failure.
    SyncDirectory,
    /// Cutting a file off.
    Truncate,
    /// Removing a file.
    Delete,
    /// Testing whether a file exists.
    Access,
    /// Reading a file's size.
    FileSize,
    /// Locking a file.
    Lock,
    /// Hints and notices about a file.
    FileControl,
    /// Mapping shared memory.
    ShmMap,
    /// Locking shared memory.
    ShmLock,
}

/// The failures of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum)]
pub enum Failure {
    /// The device failed; nothing was done.
    Eio,
    /// The disk is full; nothing was done.
    Enospc,
    /// The disk became full in the middle of a write.
    ShortWrite,
    /// The device reports success and does nothing. No store survives this: it shows that the checks can fail.
    Lie,
}

/// Every failure of a call that SQLite's own VFS distinguishes.
pub const FAILURES: &[(Call, Failure)] = &[
    (Call::Open, Failure::Eio),
    (Call::Read, Failure::Eio),
    (Call::Write, Failure::Eio),
    (Call::Write, Failure::Enospc),
    (Call::Write, Failure::ShortWrite),
    (Call::Sync, Failure::Eio),
    (Call::SyncDirectory, Failure::Eio),
    (Call::Truncate, Failure::Eio),
    (Call::Delete, Failure::Eio),
    (Call::Access, Failure::Eio),
    (Call::FileSize, Failure::Eio),
    (Call::Lock, Failure::Eio),
    (Call::FileControl, Failure::Eio),
    (Call::ShmMap, Failure::Eio),
    (Call::ShmMap, Failure::Enospc),
    (Call::ShmLock, Failure::Eio),
];

/// A fault to cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The kind of call.
    pub call: Call,
    /// The number of the call that fails, counted from 1.
    pub nth: u64,
    /// True if all later calls fail, too.
    pub lasting: bool,
    /// The kind of failure.
    pub failure: Failure,
}

/// The environment variable that breaks the disk of a daemon: a fault and the directory of the disk, as in
/// `sync:3:eio:lasting:/path`.
pub const VARIABLE: &str = "LONGHAND_ATTACK_FAULT";

impl Fault {
    /// The value of the variable for this fault in a directory.
    pub fn in_directory(&self, directory: &Path) -> String {
        let name = |value: Option<clap::builder::PossibleValue>| {
            value.map(|value| value.get_name().to_owned()).unwrap_or_default()
        };
        let (call, failure) = (name(self.call.to_possible_value()), name(self.failure.to_possible_value()));
        let how = if self.lasting { "lasting" } else { "once" };
        format!("{call}:{}:{failure}:{how}:{}", self.nth, directory.display())
    }

    /// Parses the value of the variable.
    fn parse(text: &str) -> Result<(Self, PathBuf)> {
        let fields: Vec<&str> = text.splitn(5, ':').collect();
        let [call, nth, failure, how, directory] = fields[..] else { bail!("{VARIABLE} has not five fields: {text}") };
        let unknown = |why: String| anyhow::anyhow!("{VARIABLE}: {why}: {text}");
        let fault = Self {
            call: Call::from_str(call, true).map_err(unknown)?,
            nth: nth.parse()?,
            lasting: how == "lasting",
            failure: Failure::from_str(failure, true).map_err(unknown)?,
        };
        Ok((fault, PathBuf::from(directory)))
    }
}

/// Breaks the disk given by the variable, if it is set, for as long as the process lives.
pub fn from_environment() -> Result<()> {
    let Ok(text) = std::env::var(VARIABLE) else { return Ok(()) };
    let (fault, directory) = Fault::parse(&text)?;
    let disk = Disk::over(&directory)?;
    disk.arm(fault);
    std::mem::forget(disk);
    Ok(())
}

/// A call that was made to fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Struck {
    /// The kind of call.
    pub call: Call,
    /// The file, by its path within the watched directory.
    pub file: String,
}

#[derive(Default)]
struct State {
    fault: Option<Fault>,
    counts: BTreeMap<Call, u64>,
    struck: Vec<Struck>,
    recording: Option<Recording>,
    /// Syncs return success and are not done.
    forgets_syncs: bool,
}

/// The state of a watched directory.
struct Shared {
    root: PathBuf,
    state: Mutex<State>,
}

static WATCHED: RwLock<Vec<Arc<Shared>>> = RwLock::new(Vec::new());

fn watched() -> Vec<Arc<Shared>> {
    WATCHED.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The watched directory of a path, and the path within it.
fn watch_over(path: &Path) -> Option<(Arc<Shared>, String)> {
    watched().into_iter().find_map(|shared| {
        let name = path.strip_prefix(&shared.root).ok()?.to_string_lossy().into_owned();
        Some((shared, name))
    })
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call; returns its failure if it must fail.
    fn before(&self, call: Call, file: &str) -> Option<Failure> {
        let mut state = self.state();
        let count = state.counts.entry(call).or_default();
        *count += 1;
        let count = *count;
        let fault = state.fault.filter(|fault| fault.call == call)?;
        let strikes = count == fault.nth || (fault.lasting && count > fault.nth);
        if !strikes {
            return None;
        }
        state.struck.push(Struck { call, file: file.to_owned() });
        Some(fault.failure)
    }

    /// Makes a change to the files while it holds the recording, so that both have the same order.
    fn recorded<T>(&self, act: impl FnOnce(Option<&mut Recording>) -> T) -> T {
        act(self.state().recording.as_mut())
    }
}

/// A watched directory with everything in it. Dropping this ends the watch.
pub struct Disk {
    shared: Arc<Shared>,
}

impl Disk {
    /// Watches a directory. Files that are open already are not watched.
    pub fn over(directory: &Path) -> Result<Self> {
        shim::register()?;
        let root = directory.canonicalize().with_context(|| format!("there is no {}", directory.display()))?;
        if watch_over(&root).is_some() {
            bail!("{} is watched already", root.display());
        }
        let shared = Arc::new(Shared { root, state: Mutex::default() });
        WATCHED.write().unwrap_or_else(PoisonError::into_inner).push(shared.clone());
        Ok(Self { shared })
    }

    /// Resets the counters, and fails calls according to the fault.
    pub fn arm(&self, fault: Fault) {
        let mut state = self.shared.state();
        state.counts.clear();
        state.struck.clear();
        state.fault = Some(fault);
    }

    /// Stops failing calls.
    pub fn repair(&self) {
        self.shared.state().fault = None;
    }

    /// Makes every sync return success without doing it: such a disk loses acknowledged writes, which the checks must
    /// find.
    pub fn forget_syncs(&self) {
        self.shared.state().forgets_syncs = true;
    }

    /// Number of file syncs that failed so far.
    pub fn struck_syncs(&self) -> usize {
        self.shared.state().struck.iter().filter(|struck| struck.call == Call::Sync).count()
    }

    /// The calls that failed so far.
    pub fn struck(&self) -> Vec<Struck> {
        self.shared.state().struck.clone()
    }

    /// Number of calls of each kind.
    pub fn counts(&self) -> BTreeMap<Call, u64> {
        self.shared.state().counts.clone()
    }

    /// Records from now on. The present contents of the directory count as synced.
    pub fn record(&self) -> Result<()> {
        let recording = Recording::of(&self.shared.root)?;
        self.shared.state().recording = Some(recording);
        Ok(())
    }

    /// The number of recorded changes: a moment at which the power may be cut.
    pub fn moment(&self) -> usize {
        self.shared.state().recording.as_ref().map_or(0, Recording::moment)
    }

    /// Ends the recording and returns it.
    pub fn recording(&self) -> Option<Recording> {
        self.shared.state().recording.take()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        WATCHED.write().unwrap_or_else(PoisonError::into_inner).retain(|shared| !Arc::ptr_eq(shared, &self.shared));
    }
}

/// A temporary folder in memory if there is one, where syncing is free: losses are simulated.
pub fn scratch() -> Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    folder.context("a temporary folder")
}
