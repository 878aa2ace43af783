//! Interception of directory syncs, at the C library's `fsync`, which every program calls.
//!
//! SQLite syncs a directory within its own VFS, and the store does it with the standard library; neither passes through
//! a VFS shim. The program's own `fsync` replaces the library's for both.

use super::{Call, watch_over, watched};
use anyhow::{Result, bail};
use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of directories synced since the process started.
static SEEN: AtomicUsize = AtomicUsize::new(0);

/// The directory of a descriptor; none if it refers to something else.
fn directory_of(descriptor: c_int) -> Option<PathBuf> {
    let path = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).ok()?;
    path.is_dir().then_some(path)
}

/// The entries of a directory: each name, and true for a directory.
fn listing(directory: &Path) -> Vec<(String, bool)> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let entry = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.ok()?;
        Some((entry.file_name().to_string_lossy().into_owned(), entry.file_type().ok()?.is_dir()))
    };
    entries.filter_map(entry).collect()
}

/// Replaces the C library's `fsync`.
///
/// # Safety
///
/// As of the C library's: any number may be given.
#[unsafe(no_mangle)]
unsafe extern "C" fn fsync(descriptor: c_int) -> c_int {
    let directory = directory_of(descriptor);
    if directory.is_some() {
        SEEN.fetch_add(1, Ordering::Relaxed);
    }
    let watch = directory.filter(|_| !watched().is_empty()).and_then(|directory| watch_over(&directory));
    let failure = watch.as_ref().and_then(|(shared, name)| shared.before(Call::SyncDirectory, name));
    // SAFETY: the system refuses numbers that stand for nothing.
    let done = match failure {
        Some(_) => Err(rustix::io::Errno::IO),
        None => rustix::fs::fsync(unsafe { BorrowedFd::borrow_raw(descriptor) }),
    };
    match done {
        Ok(()) => {
            if let Some((shared, name)) = watch
                && !shared.state().forgets_syncs
            {
                shared.recorded(|recording| {
                    if let Some(recording) = recording {
                        recording.synced_directory(&name, &listing(&shared.root.join(&name)));
                    }
                });
            }
            0
        }
        Err(error) => {
            // SAFETY: the address of this thread's own `errno`.
            unsafe { *libc::__errno_location() = error.raw_os_error() };
            -1
        }
    }
}

/// Checks that directory syncs are intercepted, which depends on how the program is linked.
pub(super) fn probe() -> Result<()> {
    static PROBED: OnceLock<bool> = OnceLock::new();
    let seen = PROBED.get_or_init(|| {
        // Named here, so that the linker includes it.
        let before = SEEN.load(Ordering::Relaxed);
        std::hint::black_box(fsync as unsafe extern "C" fn(c_int) -> c_int);
        let synced = std::fs::File::open("/").and_then(|root| root.sync_all());
        synced.is_ok() && SEEN.load(Ordering::Relaxed) > before
    });
    if !seen {
        bail!("the program's own fsync does not take the place of the C library's");
    }
    Ok(())
}
