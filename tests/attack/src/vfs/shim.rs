//! The layer itself: SQLite's VFS interface, which passes calls on to SQLite's own VFS.

use super::{Call, Failure, Shared, recording, watch_over};
use anyhow::{Result, bail};
use libsqlite3_sys as ffi;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr;
use std::sync::{Arc, OnceLock};

/// A file as SQLite sees it; the file of SQLite's own VFS follows it in memory.
#[repr(C)]
struct ShimFile {
    base: ffi::sqlite3_file,
    /// Made by `Box::into_raw` in `open` and taken back in `close`; null for a file that is not watched.
    watched: *mut WatchedFile,
}

struct WatchedFile {
    shared: Arc<Shared>,
    name: String,
    /// Its id in the recording.
    file: recording::FileId,
}

/// SQLite's own VFS, under ours. Both live as long as the process.
struct Layers {
    real: *mut ffi::sqlite3_vfs,
}

// SAFETY: the pointer is only read, and SQLite's own layer takes calls from every thread.
unsafe impl Send for Layers {}
// SAFETY: as above.
unsafe impl Sync for Layers {}

static LAYERS: OnceLock<Layers> = OnceLock::new();

/// Registers the layer for every database that the process opens from now on.
pub(super) fn register() -> Result<()> {
    LAYERS.get_or_init(|| {
        // SAFETY: the default layer of a SQLite that is initialised is valid for ever, and so is ours, which is leaked.
        unsafe {
            ffi::sqlite3_initialize();
            let real = ffi::sqlite3_vfs_find(ptr::null());
            let ours = Box::leak(Box::new(*real));
            ours.iVersion = 2;
            ours.szOsFile = c_int::try_from(size_of::<ShimFile>()).unwrap_or(c_int::MAX) + (*real).szOsFile;
            ours.pNext = ptr::null_mut();
            ours.zName = c"longhand-attack".as_ptr();
            ours.xOpen = Some(open);
            ours.xDelete = Some(delete);
            ours.xAccess = Some(access);
            ours.xFullPathname = Some(full_pathname);
            ours.xRandomness = Some(randomness);
            ours.xSleep = Some(sleep);
            ours.xCurrentTime = Some(current_time);
            ours.xGetLastError = Some(last_error);
            ours.xCurrentTimeInt64 = Some(current_time_int64);
            // Nothing here loads extensions or replaces system calls.
            ours.xDlOpen = None;
            ours.xDlError = None;
            ours.xDlSym = None;
            ours.xDlClose = None;
            ours.xSetSystemCall = None;
            ours.xGetSystemCall = None;
            ours.xNextSystemCall = None;
            ffi::sqlite3_vfs_register(ours, 1);
            Layers { real }
        }
    });
    super::directory::probe()?;
    // SAFETY: the default layer is valid for ever.
    let name = unsafe { CStr::from_ptr((*ffi::sqlite3_vfs_find(ptr::null())).zName) };
    if name != c"longhand-attack" {
        bail!("somebody else's layer is SQLite's default: {}", name.to_string_lossy());
    }
    Ok(())
}

fn real() -> *mut ffi::sqlite3_vfs {
    LAYERS.get().map_or(ptr::null_mut(), |layers| layers.real)
}

/// The file of SQLite's own VFS.
unsafe fn beneath(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: SQLite allocates `szOsFile` bytes, which is the size of both.
    unsafe { file.cast::<u8>().add(size_of::<ShimFile>()).cast() }
}

unsafe fn watched<'a>(file: *mut ffi::sqlite3_file) -> Option<&'a WatchedFile> {
    // SAFETY: `open` filled it in, and only `close`, the last call for a file, takes it away.
    unsafe { (*file.cast::<ShimFile>()).watched.as_ref() }
}

/// Counts a call on a file; returns its failure if it must fail.
unsafe fn strike(file: *mut ffi::sqlite3_file, call: Call) -> Option<Failure> {
    // SAFETY: the caller has the file from SQLite.
    let watched = unsafe { watched(file) }?;
    watched.shared.before(call, &watched.name)
}

fn path_of(name: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(name.to_bytes()))
}

/// Calls a method of the file of SQLite's own VFS.
macro_rules! hand_on {
    ($file:expr, $method:ident $(, $argument:expr)*) => {{
        // SAFETY: `open` succeeded, so the file beneath has its methods, all of version 3; the arguments are SQLite's
        // own.
        unsafe {
            let file = beneath($file);
            match (*(*file).pMethods).$method {
                Some(method) => method(file $(, $argument)*),
                None => Default::default(),
            }
        }
    }};
}

/// Calls a method of SQLite's own VFS.
macro_rules! hand_down {
    ($method:ident $(, $argument:expr)*) => {{
        let real = real();
        // SAFETY: the layer beneath is valid for ever, and the arguments are SQLite's own.
        unsafe {
            match (*real).$method {
                Some(method) => method(real $(, $argument)*),
                None => Default::default(),
            }
        }
    }};
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let ours = file.cast::<ShimFile>();
    // SAFETY: the memory is SQLite's and large enough for both files; without methods it calls nothing on a failure.
    unsafe {
        (*ours).base.pMethods = ptr::null();
        (*ours).watched = ptr::null_mut();
    }
    // SAFETY: a name is a string that ends with zero; files that SQLite throws away have none.
    let name_given = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) });
    let watch = name_given.and_then(|name| watch_over(path_of(name)));
    if let Some((shared, name)) = &watch
        && shared.before(Call::Open, name).is_some()
    {
        return ffi::SQLITE_CANTOPEN;
    }
    // SAFETY: as above.
    let behind = unsafe { beneath(file) };
    let code = hand_down!(xOpen, name, behind, flags, out);
    if code != ffi::SQLITE_OK {
        return code;
    }
    let watched = watch.map(|(shared, name)| {
        let file = shared.recorded(|recording| recording.map(|recording| recording.opened(&name)).unwrap_or_default());
        Box::into_raw(Box::new(WatchedFile { shared, name, file }))
    });
    // SAFETY: as above.
    unsafe {
        (*ours).watched = watched.unwrap_or(ptr::null_mut());
        (*ours).base.pMethods = &raw const METHODS;
    }
    code
}

unsafe extern "C" fn delete(_: *mut ffi::sqlite3_vfs, name: *const c_char, sync_directory: c_int) -> c_int {
    // SAFETY: a name is a string that ends with zero.
    let path = path_of(unsafe { CStr::from_ptr(name) });
    let Some((shared, relative)) = watch_over(path) else { return hand_down!(xDelete, name, sync_directory) };
    if shared.before(Call::Delete, &relative).is_some() {
        return ffi::SQLITE_IOERR_DELETE;
    }
    let code = shared.recorded(|recording| {
        let code = hand_down!(xDelete, name, 0);
        if let (ffi::SQLITE_OK, Some(recording)) = (code, recording) {
            recording.deleted(&relative);
        }
        code
    });
    // After the removal, and like SQLite: it ignores a failure.
    if code == ffi::SQLITE_OK
        && sync_directory != 0
        && let Some(directory) = path.parent()
    {
        drop(std::fs::File::open(directory).and_then(|directory| directory.sync_all()));
    }
    code
}

unsafe extern "C" fn access(_: *mut ffi::sqlite3_vfs, name: *const c_char, flags: c_int, out: *mut c_int) -> c_int {
    // SAFETY: a name is a string that ends with zero.
    let path = path_of(unsafe { CStr::from_ptr(name) });
    if watch_over(path).is_some_and(|(shared, name)| shared.before(Call::Access, &name).is_some()) {
        return ffi::SQLITE_IOERR_ACCESS;
    }
    hand_down!(xAccess, name, flags, out)
}

unsafe extern "C" fn full_pathname(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    length: c_int,
    out: *mut c_char,
) -> c_int {
    hand_down!(xFullPathname, name, length, out)
}

unsafe extern "C" fn randomness(_: *mut ffi::sqlite3_vfs, length: c_int, out: *mut c_char) -> c_int {
    hand_down!(xRandomness, length, out)
}

unsafe extern "C" fn sleep(_: *mut ffi::sqlite3_vfs, microseconds: c_int) -> c_int {
    hand_down!(xSleep, microseconds)
}

unsafe extern "C" fn current_time(_: *mut ffi::sqlite3_vfs, out: *mut f64) -> c_int {
    hand_down!(xCurrentTime, out)
}

unsafe extern "C" fn current_time_int64(_: *mut ffi::sqlite3_vfs, out: *mut ffi::sqlite3_int64) -> c_int {
    hand_down!(xCurrentTimeInt64, out)
}

unsafe extern "C" fn last_error(_: *mut ffi::sqlite3_vfs, length: c_int, out: *mut c_char) -> c_int {
    hand_down!(xGetLastError, length, out)
}

/// The methods of every file.
static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 3,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: Some(fetch),
    xUnfetch: Some(unfetch),
};

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    let code = hand_on!(file, xClose);
    // SAFETY: `open` made it, and nothing comes behind a close.
    unsafe {
        let ours = file.cast::<ShimFile>();
        let watched = std::mem::replace(&mut (*ours).watched, ptr::null_mut());
        if !watched.is_null() {
            drop(Box::from_raw(watched));
        }
        (*ours).base.pMethods = ptr::null();
    }
    code
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    out: *mut c_void,
    length: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: the file is SQLite's.
    if unsafe { strike(file, Call::Read) }.is_some() {
        return ffi::SQLITE_IOERR_READ;
    }
    hand_on!(file, xRead, out, length, offset)
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    data: *const c_void,
    length: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: the file is SQLite's.
    let Some(watched) = (unsafe { watched(file) }) else { return hand_on!(file, xWrite, data, length, offset) };
    let (length, failed) = match watched.shared.before(Call::Write, &watched.name) {
        None => (length, None),
        Some(Failure::Eio) => return ffi::SQLITE_IOERR_WRITE,
        Some(Failure::Enospc) => return ffi::SQLITE_FULL,
        Some(Failure::Lie) => return ffi::SQLITE_OK,
        // A write of several pages may end anywhere; half of it is representative.
        Some(Failure::ShortWrite) => (length / 2, Some(ffi::SQLITE_FULL)),
    };
    if length == 0 {
        return failed.unwrap_or(ffi::SQLITE_OK);
    }
    let code = watched.shared.recorded(|recording| {
        let code = hand_on!(file, xWrite, data, length, offset);
        if let (ffi::SQLITE_OK, Some(recording)) = (code, recording) {
            // SAFETY: SQLite gives that many bytes.
            let data = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), usize::try_from(length).unwrap_or(0)) };
            recording.wrote(watched.file, u64::try_from(offset).unwrap_or(0), data);
        }
        code
    });
    failed.unwrap_or(code)
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: ffi::sqlite3_int64) -> c_int {
    // SAFETY: the file is SQLite's.
    let Some(watched) = (unsafe { watched(file) }) else { return hand_on!(file, xTruncate, size) };
    if watched.shared.before(Call::Truncate, &watched.name).is_some() {
        return ffi::SQLITE_IOERR_TRUNCATE;
    }
    watched.shared.recorded(|recording| {
        let code = hand_on!(file, xTruncate, size);
        if let (ffi::SQLITE_OK, Some(recording)) = (code, recording) {
            recording.truncated(watched.file, u64::try_from(size).unwrap_or(0));
        }
        code
    })
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: the file is SQLite's.
    let Some(watched) = (unsafe { watched(file) }) else { return hand_on!(file, xSync, flags) };
    match watched.shared.before(Call::Sync, &watched.name) {
        None if watched.shared.state().forgets_syncs => return ffi::SQLITE_OK,
        None => {}
        Some(Failure::Lie) => return ffi::SQLITE_OK,
        Some(_) => return ffi::SQLITE_IOERR_FSYNC,
    }
    // Taken before the inner sync, which may sync the directory, too: that is recorded separately.
    let moment = watched.shared.recorded(|recording| recording.map_or(0, |recording| recording.moment()));
    let code = hand_on!(file, xSync, flags);
    if code == ffi::SQLITE_OK {
        watched.shared.recorded(|recording| {
            if let Some(recording) = recording {
                recording.synced(watched.file, moment);
            }
        });
    }
    code
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, out: *mut ffi::sqlite3_int64) -> c_int {
    // SAFETY: the file is SQLite's.
    if unsafe { strike(file, Call::FileSize) }.is_some() {
        return ffi::SQLITE_IOERR_FSTAT;
    }
    hand_on!(file, xFileSize, out)
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: the file is SQLite's.
    if unsafe { strike(file, Call::Lock) }.is_some() {
        return ffi::SQLITE_IOERR_LOCK;
    }
    hand_on!(file, xLock, level)
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    hand_on!(file, xUnlock, level)
}

unsafe extern "C" fn check_reserved_lock(file: *mut ffi::sqlite3_file, out: *mut c_int) -> c_int {
    // SAFETY: the file is SQLite's.
    if unsafe { strike(file, Call::Lock) }.is_some() {
        return ffi::SQLITE_IOERR_CHECKRESERVEDLOCK;
    }
    hand_on!(file, xCheckReservedLock, out)
}

unsafe extern "C" fn file_control(file: *mut ffi::sqlite3_file, operation: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: the file is SQLite's.
    if unsafe { strike(file, Call::FileControl) }.is_some() {
        return ffi::SQLITE_IOERR;
    }
    hand_on!(file, xFileControl, operation, argument)
}

unsafe extern "C" fn sector_size(file: *mut ffi::sqlite3_file) -> c_int {
    hand_on!(file, xSectorSize)
}

unsafe extern "C" fn device_characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    hand_on!(file, xDeviceCharacteristics)
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: the file is SQLite's.
    match unsafe { strike(file, Call::ShmMap) } {
        None => hand_on!(file, xShmMap, region, size, extend, out),
        Some(failure) => {
            // SAFETY: where SQLite wants the address.
            unsafe { *out = ptr::null_mut() };
            if failure == Failure::Enospc { ffi::SQLITE_IOERR_SHMSIZE } else { ffi::SQLITE_IOERR_SHMMAP }
        }
    }
}

unsafe extern "C" fn shm_lock(file: *mut ffi::sqlite3_file, offset: c_int, count: c_int, flags: c_int) -> c_int {
    // Releasing a lock cannot fail.
    let takes = flags & ffi::SQLITE_SHM_LOCK != 0;
    // SAFETY: the file is SQLite's.
    if takes && unsafe { strike(file, Call::ShmLock) }.is_some() {
        return ffi::SQLITE_IOERR_SHMLOCK;
    }
    hand_on!(file, xShmLock, offset, count, flags)
}

unsafe extern "C" fn shm_barrier(file: *mut ffi::sqlite3_file) {
    hand_on!(file, xShmBarrier);
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, delete: c_int) -> c_int {
    hand_on!(file, xShmUnmap, delete)
}

unsafe extern "C" fn fetch(
    file: *mut ffi::sqlite3_file,
    offset: ffi::sqlite3_int64,
    length: c_int,
    out: *mut *mut c_void,
) -> c_int {
    hand_on!(file, xFetch, offset, length, out)
}

unsafe extern "C" fn unfetch(file: *mut ffi::sqlite3_file, offset: ffi::sqlite3_int64, page: *mut c_void) -> c_int {
    hand_on!(file, xUnfetch, offset, page)
}
