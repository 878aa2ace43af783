//! A disk that fails, and one that loses power: a layer between SQLite and the operating system.
//!
//! The layer is registered with SQLite as the default of the whole process, so that the store under test needs no hook.
//! It lets everything through, except in directories that a [`Disk`] watches. There it counts calls by kind, fails the
//! ones of a [`Fault`], and keeps a [`Recording`] of what was written and what was synced, from which the files can be
//! put together as a power cut would leave them.

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
    /// Syncing a directory; SQLite does not care whether that fails.
    SyncDirectory,
    /// Cutting a file off.
    Truncate,
    /// Removing a file.
    Delete,
    /// Asking whether a file is there.
    Access,
    /// Asking for a file's size.
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

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum)]
pub enum Failure {
    /// The device failed; nothing was done.
    Eio,
    /// The disk is full; nothing was done.
    Enospc,
    /// The disk became full in the middle of a write.
    ShortWrite,
    /// The device says that it did what it did not do. No store survives it: it shows that the checks can fail.
    Lie,
}

/// Every way in which a call of a kind can fail that SQLite's own layer tells apart.
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

/// What is to go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The kind of call.
    pub call: Call,
    /// The number of the call that fails, the first being 1.
    pub nth: u64,
    /// Whether all that follow fail too.
    pub lasting: bool,
    /// How it fails.
    pub failure: Failure,
}

/// The variable by which the daemon under attack finds its disk broken: a fault and the directory of the disk, as in
/// `sync:3:eio:lasting:/path`.
pub const VARIABLE: &str = "LONGHAND_ATTACK_FAULT";

impl Fault {
    /// What the variable says for this fault in a directory.
    pub fn in_directory(&self, directory: &Path) -> String {
        let name = |value: Option<clap::builder::PossibleValue>| {
            value.map(|value| value.get_name().to_owned()).unwrap_or_default()
        };
        let (call, failure) = (name(self.call.to_possible_value()), name(self.failure.to_possible_value()));
        let how = if self.lasting { "lasting" } else { "once" };
        format!("{call}:{}:{failure}:{how}:{}", self.nth, directory.display())
    }

    /// Reads what the variable says.
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

/// Breaks the disk that the variable names, if it is set, for as long as the process lives.
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
    /// Says that it synced, and did not.
    forgets_syncs: bool,
}

/// What the layer knows of a watched directory.
struct Shared {
    root: PathBuf,
    state: Mutex<State>,
}

static WATCHED: RwLock<Vec<Arc<Shared>>> = RwLock::new(Vec::new());

fn watched() -> Vec<Arc<Shared>> {
    WATCHED.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The watch over a path, and the path within it.
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

    /// Counts a call, and says how it is to fail, if it is.
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

    /// Does something to the files that has to stand in the recording in the order in which it was done.
    fn recorded<T>(&self, act: impl FnOnce(Option<&mut Recording>) -> T) -> T {
        act(self.state().recording.as_mut())
    }
}

/// A watch over a directory and everything beneath it. It ends when this is dropped.
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

    /// Counts from the beginning, and fails what the fault says.
    pub fn arm(&self, fault: Fault) {
        let mut state = self.shared.state();
        state.counts.clear();
        state.struck.clear();
        state.fault = Some(fault);
    }

    /// Fails nothing any more.
    pub fn repair(&self) {
        self.shared.state().fault = None;
    }

    /// Takes every sync for done without doing it: a disk without it loses what it acknowledged, which checks must find.
    pub fn forget_syncs(&self) {
        self.shared.state().forgets_syncs = true;
    }

    /// How many syncs of files have failed so far.
    pub fn struck_syncs(&self) -> usize {
        self.shared.state().struck.iter().filter(|struck| struck.call == Call::Sync).count()
    }

    /// The calls that failed so far.
    pub fn struck(&self) -> Vec<Struck> {
        self.shared.state().struck.clone()
    }

    /// How often each kind of call was made.
    pub fn counts(&self) -> BTreeMap<Call, u64> {
        self.shared.state().counts.clone()
    }

    /// Records from now on. What is in the directory counts as synced.
    pub fn record(&self) -> Result<()> {
        let recording = Recording::of(&self.shared.root)?;
        self.shared.state().recording = Some(recording);
        Ok(())
    }

    /// The number of changes that were recorded: a moment at which the power may be cut.
    pub fn moment(&self) -> usize {
        self.shared.state().recording.as_ref().map_or(0, Recording::moment)
    }

    /// Ends the recording.
    pub fn recording(&self) -> Option<Recording> {
        self.shared.state().recording.take()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        WATCHED.write().unwrap_or_else(PoisonError::into_inner).retain(|shared| !Arc::ptr_eq(shared, &self.shared));
    }
}

/// A temporary folder where syncing costs nothing, if there is one: what a disk would lose is played, not waited for.
pub fn scratch() -> Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    folder.context("a temporary folder")
}
