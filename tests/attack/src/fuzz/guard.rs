//! The guard of an attempt, for panics on any thread, time, memory, and a crash of the whole process.

use super::Outcome;
use anyhow::{Context as _, Result};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

/// Maximum time of an attempt; beyond it, the attempt hangs. Long, because the machine may be busy.
const ATTEMPT_MAX: Duration = Duration::from_secs(60);

/// Panics since the last attempt began, on any thread.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// True if panics are collected instead of printed.
static COLLECTS: AtomicBool = AtomicBool::new(false);

static HOOK: Once = Once::new();

fn panics() -> MutexGuard<'static, Vec<String>> {
    PANICS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn collect_panics() {
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // The test harness handles a test's own panic; the thread of a test has the test's name, `fuzz::…`.
            let ours = std::thread::current().name().is_some_and(|name| name == "fuzz" || name.starts_with("fuzz-"));
            if COLLECTS.load(Ordering::Relaxed) && ours {
                let location = panic.location().map(ToString::to_string).unwrap_or_default();
                let message = panic.payload_as_str().unwrap_or_default();
                panics().push(format!("panicked at {location}: {message}"));
            } else {
                usual(panic);
            }
        }));
    });
    COLLECTS.store(true, Ordering::Relaxed);
}

/// Guards the attempts of one target.
pub struct Guard {
    /// The current input, so that it is still there after a crash that cannot be caught.
    last: File,
    path: PathBuf,
    folder: PathBuf,
    /// Start of the current attempt, in milliseconds since `began`; zero if there is none.
    since: Arc<AtomicU64>,
    began: Instant,
    /// Dropping it ends the watching thread.
    _watching: Sender<()>,
}

impl Guard {
    /// Guards a target; inputs that fail are kept in a folder.
    pub fn new(name: &str, folder: &Path) -> Result<Self> {
        collect_panics();
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let path = memory_folder().join(format!("longhand-fuzz-{}-{name}", std::process::id()));
        let last = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
        let (since, began) = (Arc::<AtomicU64>::default(), Instant::now());
        let (watched, input_path) = (since.clone(), path.clone());
        let (watching, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            while ended.recv_timeout(Duration::from_millis(200)) == Err(RecvTimeoutError::Timeout) {
                let since = watched.load(Ordering::Relaxed);
                if since > 0 && began.elapsed() > Duration::from_millis(since) + ATTEMPT_MAX {
                    eprintln!("an attempt hangs; its input is {}", input_path.display());
                    std::process::abort();
                }
            }
        });
        Ok(Self { last, path, folder: folder.to_owned(), since, began, _watching: watching })
    }

    /// Runs one attempt; returns its outcome, or its panic as an error.
    pub fn attempt(
        &mut self,
        input: &[u8],
        attempt: impl FnOnce() -> Result<Outcome, String>,
    ) -> Result<Outcome, String> {
        panics().clear();
        let length = u64::try_from(input.len()).unwrap_or(u64::MAX);
        let kept = self.last.write_all_at(input, 0).and_then(|()| self.last.set_len(length));
        kept.map_err(|error| format!("the input cannot be kept: {error}"))?;
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.since.store(now.max(1), Ordering::Relaxed);
        let outcome = catch_unwind(AssertUnwindSafe(attempt));
        self.since.store(0, Ordering::Relaxed);
        if let Some(panic) = panics().pop() {
            return Err(panic);
        }
        outcome.unwrap_or_else(|_| Err("panicked without a word".to_owned()))
    }

    /// The input of the last attempt.
    pub fn last(&self) -> Vec<u8> {
        std::fs::read(&self.path).unwrap_or_default()
    }

    /// Keeps an input that failed, in a file named by its hash, and prints the path and the reason.
    pub fn keep(&self, input: &[u8], why: &str) -> Result<()> {
        let path = self.folder.join(hash(input));
        std::fs::write(&path, input)?;
        println!("{}: {why}", path.display());
        Ok(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.path));
    }
}

/// A folder in memory if there is one: a file is written for every attempt.
fn memory_folder() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { memory } else { std::env::temp_dir() }
}

/// A file name for bytes: FNV-1a in hex digits.
fn hash(bytes: &[u8]) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    format!("{hash:016x}")
}

/// Resident memory of this process, in bytes.
pub fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0);
    pages * 4096
}
