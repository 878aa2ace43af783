//! The files of a store: the checks before anything is opened, made or changed.
//!
//! A path that does not pass them is never repaired or replaced, because its owner may have a reason that the daemon
//! does not know.

use crate::error::{Error, Result};
use crate::limits;
use rustix::fs::{FlockOperation, OFlags};
use std::fs::{File, Metadata};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The database file in the data directory.
pub const DATABASE: &str = "longhand.db";
/// The file of the search index in the data directory, which follows from the database.
pub const SEARCH: &str = "longhand-search.db";
/// The suffix of SQLite's write-ahead log.
const LOG: &str = "-wal";
/// The suffix of the journal that SQLite keeps until a new database has its log.
const JOURNAL: &str = "-journal";
/// The suffixes of all files that SQLite keeps for the database, including the database itself.
const SUFFIXES: [&str; 4] = ["", LOG, "-shm", JOURNAL];
/// The application id in the header of a store's database ("LNGH").
pub const APPLICATION_ID: u32 = 0x4c4e_4748;
/// The application id in the header of a search index ("LNGS").
pub const SEARCH_APPLICATION_ID: u32 = 0x4c4e_4753;
/// The file mode: only the owner reads and writes.
const PRIVATE: u32 = 0o600;
/// The directory mode: only the owner has access.
const PRIVATE_DIRECTORY: u32 = 0o700;
/// The permissions of all users but the owner.
const OTHERS: u32 = 0o077;
/// Bytes of a database's header, up to and including the application id.
const HEADER_BYTES: usize = 72;
const HEADER_MAGIC: &[u8] = b"SQLite format 3\0";
/// The first bytes of a log, by the byte order of its checksums.
const LOG_MAGIC: [u32; 2] = [0x377f_0682, 0x377f_0683];
const LOG_HEADER_BYTES: u64 = 32;
const FRAME_HEADER_BYTES: u64 = 24;
const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// The kind of database at the path of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseState {
    /// No database, or one without a table: an interrupted first start leaves one.
    Empty,
    /// A database of Longhand.
    Ours,
}

/// The paths of the database and of the files beside it in a data directory.
pub fn paths(directory: &Path) -> [PathBuf; 4] {
    SUFFIXES.map(|suffix| directory.join(format!("{DATABASE}{suffix}")))
}

/// A data directory's path without components that make the system follow a symbolic link, such as a `/` at its end.
pub fn plain(directory: &Path) -> Result<PathBuf> {
    if directory.as_os_str().is_empty() {
        return Err(Error::Open("the path of the data directory is empty".to_owned()));
    }
    Ok(directory.components().collect())
}

/// Locks a data directory for this process and returns the kind of its database. The directory is made if it does not
/// exist; nothing else is made or changed. The lock lasts as long as the returned file: it is on the directory itself,
/// so there is no lock file that could be removed.
///
/// None if another process has the lock.
pub fn claim(directory: &Path) -> Result<Option<(File, DatabaseState)>> {
    match std::fs::symlink_metadata(directory) {
        Ok(metadata) => check_directory(directory, &metadata)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => make_directory(directory)?,
        Err(error) => return Err(failed("look at", directory, &error)),
    }
    let flags = OFlags::NOFOLLOW | OFlags::DIRECTORY;
    let lock = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(directory);
    let lock = lock.map_err(|error| failed("open", directory, &error))?;
    let metadata = lock.metadata().map_err(|error| failed("look at", directory, &error))?;
    check_directory(directory, &metadata)?;
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
        Err(error) => return Err(failed("lock", directory, &error.into())),
    }
    check_writable(directory)?;
    for path in paths(directory) {
        if check_file(&path)? {
            check_writable(&path)?;
        }
    }
    let state = database_state(directory).map_err(|error| failed("read the database in", directory, &error))??;
    Ok(Some((lock, state)))
}

/// The error for a data directory that another process has locked.
pub fn directory_taken(directory: &Path) -> Error {
    Error::Open(format!("another daemon has the data directory {}", directory.display()))
}

/// Makes the database's file before SQLite does, so that only its owner can open it; SQLite gives its log the same
/// mode.
pub fn make_database(directory: &Path) -> Result<()> {
    make_private(directory.join(DATABASE))
}

/// Bytes of the key for drafts.
pub const DRAFT_KEY_BYTES: usize = 32;
/// The key for the text of drafts that readers do not see yet. It lies beside the store, so that no copy of the store
/// has it.
const DRAFT_KEY: &str = "draft-key";

/// The key for drafts; none if there is no file of it.
///
/// # Errors
///
/// If the file is not the owner's alone, or is no key.
pub fn read_draft_key(directory: &Path) -> Result<Option<[u8; DRAFT_KEY_BYTES]>> {
    let path = directory.join(DRAFT_KEY);
    check_file(&path)?;
    match std::fs::read(&path) {
        Ok(key) => key.try_into().map(Some).map_err(|_| refused(&path, "is no key for drafts")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", &path, &error)),
    }
}

/// The key for drafts, which is made if there is none.
pub fn make_draft_key(directory: &Path) -> Result<[u8; DRAFT_KEY_BYTES]> {
    if let Some(key) = read_draft_key(directory)? {
        return Ok(key);
    }
    let (path, new) = (directory.join(DRAFT_KEY), directory.join(DRAFT_KEY.to_owned() + ".new"));
    let key: [u8; DRAFT_KEY_BYTES] = rand::random();
    // A file that is there is whole.
    let make = || {
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = File::options().create_new(true).write(true).mode(PRIVATE).open(&new)?;
        file.write_all(&key)?;
        file.sync_all()?;
        std::fs::rename(&new, &path)?;
        File::open(directory)?.sync_all()
    };
    make().map_err(|error| failed("make", &path, &error))?;
    Ok(key)
}

/// The name of a database whose store was migrated to another place.
const ASIDE: &str = "longhand.db.migrated";

/// The path of a database whose store was migrated to another place.
pub fn aside(directory: &Path) -> PathBuf {
    directory.join(ASIDE)
}

/// Refuses a directory whose store was migrated to another place: a new one in its place would be mistaken for it.
pub fn check_not_aside(directory: &Path, state: DatabaseState) -> Result<()> {
    let aside = aside(directory);
    if state == DatabaseState::Empty && std::fs::symlink_metadata(&aside).is_ok() {
        return Err(refused(&aside, "was set aside by `longhand migrate`: its store is in another place now"));
    }
    Ok(())
}

/// Sets the database of a closed store aside, under a name that must be free.
pub fn set_aside(directory: &Path) -> Result<()> {
    let [database, log, ..] = paths(directory);
    if std::fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        return Err(refused(
            &log,
            "is still in use: another program, such as Litestream, has the database open. Stop it",
        ));
    }
    let aside = aside(directory);
    rename_new(&database, &aside).map_err(|error| failed("rename to", &aside, &error))
}

/// Removes the database of a closed store, which has no log any more.
pub fn remove_database(directory: &Path) -> Result<()> {
    let [database, log, ..] = paths(directory);
    if std::fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        return Err(refused(&log, "is still in use: another program has the database open. Stop it"));
    }
    std::fs::remove_file(&database).map_err(|error| failed("remove", &database, &error))
}

/// Gives a file a name that must be free and in the same directory, and syncs the directory.
pub fn rename_new(path: &Path, name: &Path) -> io::Result<()> {
    use rustix::io::Errno;
    let cwd = rustix::fs::CWD;
    match rustix::fs::renameat_with(cwd, path, cwd, name, rustix::fs::RenameFlags::NOREPLACE) {
        // The file system cannot refuse to replace a file; a second name has the same effect.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            rustix::fs::link(path, name).and_then(|()| rustix::fs::unlink(path))
        }
        renamed => renamed,
    }?;
    File::open(name.parent().unwrap_or(Path::new("/")))?.sync_all()
}

fn make_private(path: PathBuf) -> Result<()> {
    match File::options().create_new(true).write(true).mode(PRIVATE).open(&path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(failed("make", &path, &error)),
    }
}

/// Makes the file of the search index unless it exists. The same checks as for the store's own files apply.
pub fn make_search(directory: &Path) -> Result<()> {
    let path = directory.join(SEARCH);
    for suffix in SUFFIXES {
        check_file(&directory.join(format!("{SEARCH}{suffix}")))?;
    }
    let is_empty = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let foreign = Readable::open(&path).and_then(|file| match file {
        Some(file) if file.length > 0 => Ok(number(&file.bytes(0, HEADER_BYTES)?, 68) != Some(SEARCH_APPLICATION_ID)),
        _ => Ok(false),
    });
    match foreign {
        Ok(false) => {}
        Ok(true) => return Err(refused(&path, "is not a search index of Longhand: move it, and a new one is made")),
        Err(error) if is_empty(&error) => {}
        Err(error) => return Err(failed("read", &path, &error)),
    }
    make_private(path)
}

/// True if there is a search index.
pub fn has_search(directory: &Path) -> bool {
    directory.join(SEARCH).exists()
}

/// Removes the files of the search index.
pub fn remove_search(directory: &Path) -> Result<()> {
    for suffix in SUFFIXES {
        let path = directory.join(format!("{SEARCH}{suffix}"));
        match std::fs::remove_file(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("remove", &path, &error)),
        }
    }
    Ok(())
}

/// Syncs the directory. A new file's name must reach the disk too, or a power cut would remove the whole database.
pub fn sync_directory(held: &File, directory: &Path) -> Result<()> {
    held.sync_all().map_err(|error| failed("sync", directory, &error))
}

fn failed(what: &str, path: &Path, error: &io::Error) -> Error {
    Error::Open(format!("cannot {what} {}: {error}", path.display()))
}

fn refused(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::Open(format!("{} {why}", path.display()))
}

/// Makes the data directory and its missing parents. Each new name must reach the disk before the store acknowledges
/// any write.
fn make_directory(directory: &Path) -> Result<()> {
    let above = |path: &Path| match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Some(PathBuf::from(".")),
        parent => parent.map(Path::to_owned),
    };
    let missing: Vec<&Path> = directory.ancestors().take_while(|path| !path.exists()).collect();
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(PRIVATE_DIRECTORY)
        .create(directory)
        .map_err(|error| failed("make", directory, &error))?;
    for parent in missing.into_iter().filter_map(above) {
        File::open(&parent).and_then(|parent| parent.sync_all()).map_err(|error| failed("sync", &parent, &error))?;
    }
    Ok(())
}

fn check_directory(path: &Path, found: &Metadata) -> Result<()> {
    if found.is_symlink() {
        return Err(refused(path, "is a symbolic link: name the data directory itself"));
    }
    if !found.is_dir() {
        return Err(refused(path, "is not a directory, and cannot be the data directory"));
    }
    check_owner(path, found, PRIVATE_DIRECTORY)
}

/// True if the file exists. It must be a regular file of this user that no other user can access.
fn check_file(path: &Path) -> Result<bool> {
    let metadata = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed("look at", path, &error)),
    };
    if metadata.is_symlink() {
        return Err(refused(path, "is a symbolic link, and the store keeps a file of its own there"));
    }
    if !metadata.is_file() {
        return Err(refused(path, "is not a file, and the store keeps one there"));
    }
    if metadata.nlink() > 1 {
        return Err(refused(path, "has a second name elsewhere (a hard link), by which others could change it"));
    }
    check_owner(path, &metadata, PRIVATE)?;
    Ok(true)
}

fn check_owner(path: &Path, found: &Metadata, private: u32) -> Result<()> {
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(refused(path, format_args!("belongs to another user (uid {})", found.uid())));
    }
    let mode = found.mode() & 0o777;
    if mode & OTHERS != 0 {
        let path_text = path.display();
        return Err(refused(path, format_args!("is open to others (mode {mode:03o}): chmod {private:o} {path_text}")));
    }
    Ok(())
}

/// Reports a file system that takes no writes before SQLite reports it as something else. A store of this process that
/// was just stopped may still remove its log, so a file that is gone passes.
fn check_writable(path: &Path) -> Result<()> {
    match rustix::fs::access(path, rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(failed("write to", path, &error.into())),
    }
}

/// The device and inode of a file, whatever its name.
type Identity = (u64, u64);

/// A file that the store has open, as it was found.
struct OpenFile {
    path: PathBuf,
    identity: Identity,
    /// The minimum of its length, in bytes.
    least: u64,
    /// The upper bound of `least`: the log's file is truncated to this length when it is restarted.
    least_max: u64,
}

/// The files that the store has open. SQLite continues with files that were removed, replaced or truncated from
/// outside; everything that it writes to them would be lost when the daemon ends.
pub struct OpenFiles {
    directory: PathBuf,
    files: Vec<OpenFile>,
    log: File,
}

impl OpenFiles {
    /// Begins with the files as they are: they are locked, and SQLite has just opened them.
    pub fn begin(directory: &Path) -> Result<Self> {
        let [database, log, index, _] = paths(directory);
        let watched = |(path, least_max): (PathBuf, u64)| {
            let metadata = std::fs::symlink_metadata(&path).map_err(|error| failed("look at", &path, &error))?;
            Ok(OpenFile { path, identity: (metadata.dev(), metadata.ino()), least: 0, least_max })
        };
        // SQLite takes no locks on its log, so closing this file releases none of them.
        let reading = File::open(&log).map_err(|error| failed("open", &log, &error))?;
        let files = [(database, u64::MAX), (log, limits::LOG_BYTES_KEPT), (index, u64::MAX)];
        let files = files.into_iter().map(watched).collect::<Result<_>>()?;
        Ok(Self { directory: directory.to_owned(), files, log: reading })
    }

    /// True if the file system takes no writes now.
    pub fn is_read_only(&self) -> bool {
        rustix::fs::statvfs(&self.directory)
            .is_ok_and(|found| found.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
    }

    /// The log, to read it.
    pub fn log(&self) -> &File {
        &self.log
    }

    /// Accepts that files are shorter from now on: the store itself has made a checkpoint, which empties the log or takes pages
    /// off the end of the database.
    pub fn checkpoint_was_made(&mut self) {
        self.files.iter_mut().for_each(|file| file.least = 0);
    }

    /// Checks that all files exist, are the same and have not become shorter; the error describes the first that fails.
    pub fn check(&mut self) -> std::result::Result<(), String> {
        for file in &mut self.files {
            let path = file.path.display();
            let metadata = std::fs::symlink_metadata(&file.path).map_err(|error| format!("{path}: {error}"))?;
            if (metadata.dev(), metadata.ino()) != file.identity {
                return Err(format!("{path} is another file now"));
            }
            if metadata.len() < file.least {
                return Err(format!("{path} was cut off: it has {} bytes and had {}", metadata.len(), file.least));
            }
            file.least = metadata.len().min(file.least_max);
        }
        let mut magic = [0; 4];
        // A log that was truncated and written again has a hole at its beginning.
        match self.log.read_at(&mut magic, 0) {
            Ok(0) => Ok(()),
            Ok(4) if LOG_MAGIC.contains(&u32::from_be_bytes(magic)) => Ok(()),
            Ok(_) => Err("the log has lost its beginning".to_owned()),
            Err(error) => Err(format!("the log cannot be read: {error}")),
        }
    }
}

/// The state of a database's first page, or of a copy of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FirstPage {
    /// Not the page of a database.
    Unreadable,
    /// No table has ever been made, and there is no application id.
    Empty,
    /// It has the application id of Longhand.
    Ours,
    /// It belongs to another program.
    Foreign,
}

impl FirstPage {
    fn parse(header: &[u8]) -> Self {
        let field = |at: usize| number(header, at);
        let (Some(pages), Some(schema_cookie), Some(application_id)) = (field(28), field(40), field(68)) else {
            return Self::Unreadable;
        };
        if !header.starts_with(HEADER_MAGIC) {
            Self::Unreadable
        } else if application_id == APPLICATION_ID {
            Self::Ours
        } else if application_id == 0 && schema_cookie == 0 && pages <= 1 {
            Self::Empty
        } else {
            Self::Foreign
        }
    }
}

/// The kind of database in the directory. Its first page can be older than the copy in its log, and torn after a crash
/// that left a journal for SQLite to roll back; one valid copy with our application id is enough.
fn database_state(directory: &Path) -> io::Result<Result<DatabaseState>> {
    let [database, log, _, journal] = paths(directory);
    let log = Readable::open(&log)?;
    let (file, journal) = (Readable::open(&database)?, Readable::open(&journal)?);
    let Some(file) = file.filter(|file| file.length > 0) else {
        // SQLite would delete the log.
        return Ok(match log.filter(|log| log.length > 0) {
            None => Ok(DatabaseState::Empty),
            Some(_) => Err(refused(&database, "is missing or empty, but its log is there: put the database back")),
        });
    };
    let own = FirstPage::parse(&file.bytes(0, HEADER_BYTES)?);
    if own == FirstPage::Ours {
        return Ok(Ok(DatabaseState::Ours));
    }
    let mut copies = log.map_or(Ok(Vec::new()), |log| log.first_pages_of_log())?;
    let mut unfinished = false;
    if let Some(journal) = journal {
        let (was_empty, copy) = journal.first_page_of_journal()?;
        unfinished = was_empty;
        copies.extend(copy);
    }
    Ok(if copies.contains(&FirstPage::Ours) {
        Ok(DatabaseState::Ours)
    } else if unfinished || (own == FirstPage::Empty && !copies.contains(&FirstPage::Foreign)) {
        Ok(DatabaseState::Empty)
    } else if own == FirstPage::Unreadable {
        Err(refused(&database, "is not a database"))
    } else {
        Err(refused(&database, "is a database of another program"))
    })
}

/// True if the file is a database of Longhand, by its header.
pub fn is_store(path: &Path) -> io::Result<bool> {
    let Some(file) = Readable::open(path)? else { return Err(io::ErrorKind::NotFound.into()) };
    Ok(FirstPage::parse(&file.bytes(0, HEADER_BYTES)?) == FirstPage::Ours)
}

/// A file that is read at offsets.
struct Readable {
    file: File,
    length: u64,
}

impl Readable {
    /// Opens a file for reading; none if it does not exist.
    fn open(path: &Path) -> io::Result<Option<Self>> {
        match File::open(path) {
            Ok(file) => {
                let length = file.metadata()?.len();
                Ok(Some(Self { file, length }))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Bytes from an offset on, fewer at the end of the file.
    fn bytes(&self, at: u64, count: usize) -> io::Result<Vec<u8>> {
        let left = usize::try_from(self.length.saturating_sub(at)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; count.min(left)];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    }

    /// The copies of the first page in a write-ahead log.
    fn first_pages_of_log(&self) -> io::Result<Vec<FirstPage>> {
        let header = self.bytes(0, 32)?;
        let (Some(page_size), Some(salts)) = (number(&header, 8), header.get(16..24)) else { return Ok(Vec::new()) };
        let mut copies = Vec::new();
        let mut at = LOG_HEADER_BYTES;
        loop {
            let frame = self.bytes(at, 24)?;
            if frame.get(8..16) != Some(salts) {
                return Ok(copies);
            }
            if number(&frame, 0) == Some(1) {
                copies.push(FirstPage::parse(&self.bytes(at + FRAME_HEADER_BYTES, HEADER_BYTES)?));
            }
            at += FRAME_HEADER_BYTES + u64::from(page_size);
        }
    }

    /// True if the database was empty when a rollback journal was begun, and the first page if it is the first record
    /// of the journal.
    fn first_page_of_journal(&self) -> io::Result<(bool, Option<FirstPage>)> {
        let header = self.bytes(0, 28)?;
        let (Some(pages), Some(sector)) = (number(&header, 16), number(&header, 20)) else { return Ok((false, None)) };
        if !header.starts_with(&JOURNAL_MAGIC) {
            return Ok((false, None));
        }
        let record = self.bytes(u64::from(sector), 4 + HEADER_BYTES)?;
        let copy = (number(&record, 0) == Some(1)).then(|| FirstPage::parse(&record[4..]));
        Ok((pages == 0, copy))
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes)
}
