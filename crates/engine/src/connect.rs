//! Connections: lock, version, pragmas, migrations. All pragmas of a connection are here, each with its reason.

use super::connection::Connection;
use super::files::{self, DATABASE, DatabaseState};
use super::sqlite::PAGE_BYTES;
use super::statement;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::limits;
use rusqlite::OpenFlags;
use std::path::Path;
use std::time::Duration;

/// The kind of crash that an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A crash of the machine.
    #[default]
    Full,
    /// A crash of the daemon.
    ProcessCrash,
}

/// Page caches of the writer and of a reader, in negative kibibytes. The system's cache serves the rest, and a
/// connection never releases its cache memory.
const WRITER_CACHE: i64 = -32_768;
const READER_CACHE: i64 = -4_096;
/// Wait for a lock of another program, such as a backup tool.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Older versions can corrupt a database when two connections write and checkpoint at once.
const SQLITE_MIN: (u32, u32, u32) = (3, 51, 3);

/// All migrations, oldest first: the day on which each was written, its number on that day, and its statements. They are
/// compiled in, so that no files are needed at run time. A library for migrations would need as much code as is below.
pub const MIGRATIONS: &[(i64, &str)] = &[
    (20_261_124_000_000, include_str!("../../../migrations/20261124000000_store.sql")),
    (20_261_125_000_000, include_str!("../../../migrations/20261125000000_over_window.sql")),
    (20_261_126_000_000, include_str!("../../../migrations/20261126000000_access.sql")),
    (20_261_127_000_000, include_str!("../../../migrations/20261127000000_runs.sql")),
    (20_261_127_000_001, include_str!("../../../migrations/20261127000001_record_versions.sql")),
    (20_261_127_000_002, include_str!("../../../migrations/20261127000002_content.sql")),
    (20_261_128_000_000, include_str!("../../../migrations/20261128000000_tool_drafts.sql")),
    (20_261_129_000_000, include_str!("../../../migrations/20261129000000_labels.sql")),
    (20_261_129_000_002, include_str!("../../../migrations/20261129000002_erase.sql")),
    (20_261_129_000_004, include_str!("../../../migrations/20261129000004_imports.sql")),
    (20_261_130_000_000, include_str!("../../../migrations/20261130000000_secrets.sql")),
    (20_261_201_000_000, include_str!("../../../migrations/20261201000000_erased_content.sql")),
    (20_261_201_000_001, include_str!("../../../migrations/20261201000001_erasing.sql")),
    (20_261_201_000_003, include_str!("../../../migrations/20261201000003_tenants.sql")),
    (20_261_201_000_004, include_str!("../../../migrations/20261201000004_refused_drafts.sql")),
    (20_261_201_000_005, include_str!("../../../migrations/20261201000005_clock.sql")),
    (20_261_202_000_001, include_str!("../../../migrations/20261202000001_origin_times.sql")),
    (20_261_203_000_000, include_str!("../../../migrations/20261203000000_summary_digests.sql")),
    (20_261_203_000_001, include_str!("../../../migrations/20261203000001_session_identity.sql")),
    (20_261_203_000_002, include_str!("../../../migrations/20261203000002_update_period.sql")),
];

/// The version of the schema: the newest migration.
pub fn schema_version() -> i64 {
    MIGRATIONS.iter().map(|(version, _)| *version).max().unwrap_or(0)
}

/// What a connection may do with the files of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read and change them, and make them where there are none.
    Create,
    /// Read and change them.
    Write,
    /// Read them; other files may be written.
    Read,
}

impl Access {
    /// Opens the database. A connection is used by one thread at a time.
    fn open(self, directory: &Path) -> Result<Connection> {
        let access = match self {
            Self::Create => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
            Self::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
            Self::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
        };
        Connection::open_file(directory.join(DATABASE), access | OpenFlags::SQLITE_OPEN_NO_MUTEX)
    }
}

/// Opens a connection of a daemon.
fn connect(directory: &Path, durability: Durability, access: Access) -> Result<Connection> {
    let conn = access.open(directory)?;
    conn.sqlite()?.set_prepared_statement_cache_capacity(limits::STATEMENTS_KEPT);
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.pragma_update("page_size", PAGE_BYTES)?;
    // Pages that an erasure frees can be given back to the system. It holds from the first table on; later, the pragma
    // would write to the database.
    if statement::scalar::<i64>(PAGE_COUNT).one(&conn)? == 0 {
        conn.pragma_update("auto_vacuum", "incremental")?;
    }
    // Readers continue while the writer commits. The header is written behind the row with the mode.
    let mode: String = statement::scalar("pragma journal_mode = wal").one(&conn)?;
    if mode != "wal" {
        return Err(Error::Open(format!("the database cannot have a write-ahead log, but only the mode {mode}")));
    }
    // FULL syncs the log at every commit: an acknowledged write survives a power cut.
    let synchronous = match durability {
        Durability::Full => "full",
        Durability::ProcessCrash => "normal",
    };
    conn.pragma_update("synchronous", synchronous)?;
    configure(&conn)?;
    Ok(conn)
}

/// Opens a store that is not new, without the settings of its writer and readers.
pub fn connect_existing(directory: &Path, access: Access) -> Result<Connection> {
    let conn = access.open(directory)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    // A repair writes as durably as the daemon.
    conn.pragma_update("synchronous", "full")?;
    configure(&conn)?;
    Ok(conn)
}

/// Opens a store that may be damaged, to read what can be read. Entries of the schema that cannot be read are left out of
/// it, so that statements on what they describe fail, and no others.
pub fn connect_damaged(directory: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_file(directory.join(DATABASE), flags)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    // The pragma is named after another effect, which a read-only connection does not have.
    conn.pragma_update("writable_schema", true)?;
    configure(&conn)?;
    Ok(conn)
}

/// Opens a database that nobody writes, by the path of a URI; no file is made beside it.
pub fn connect_immutable(path: &str) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_file(format!("file:{path}?immutable=1"), flags)?;
    conn.add_lists()?;
    conn.pragma_update("trusted_schema", false)?;
    conn.pragma_update("cell_size_check", true)?;
    Ok(conn)
}

/// The settings of every connection.
fn configure(conn: &Connection) -> Result<()> {
    conn.add_lists()?;
    conn.pragma_update("foreign_keys", true)?;
    // What is deleted or replaced is overwritten, so that no page keeps what was erased.
    conn.pragma_update("secure_delete", true)?;
    // Sorting and temporary tables never touch the disk.
    conn.pragma_update("temp_store", "memory")?;
    // The schema cannot make SQLite call functions with side effects.
    conn.pragma_update("trusted_schema", false)?;
    // A damaged page is detected when it is read.
    conn.pragma_update("cell_size_check", true)?;
    Ok(())
}

/// Opens the connection of the writer.
pub fn connect_writer(directory: &Path, durability: Durability) -> Result<Connection> {
    let conn = connect(directory, durability, Access::Create)?;
    // The writer does the checkpoints itself, because SQLite would hide their failures.
    conn.pragma_update("wal_autocheckpoint", 0)?;
    conn.pragma_update("journal_size_limit", i64::try_from(limits::LOG_BYTES_KEPT).unwrap_or(i64::MAX))?;
    conn.pragma_update("cache_size", WRITER_CACHE)?;
    Ok(conn)
}

/// Opens a connection that fills a new file, which is thrown away if that fails.
pub fn connect_copy(path: &Path) -> Result<Connection> {
    let conn = Connection::open_file(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.pragma_update("page_size", PAGE_BYTES)?;
    conn.pragma_update("auto_vacuum", "incremental")?;
    conn.pragma_update("journal_mode", "off")?;
    conn.pragma_update("synchronous", "off")?;
    conn.pragma_update("application_id", files::APPLICATION_ID)?;
    conn.pragma_update("cache_size", WRITER_CACHE)?;
    configure(&conn)?;
    Ok(conn)
}

/// Opens a connection of the pool of readers.
pub fn connect_reader(directory: &Path, durability: Durability) -> Result<Connection> {
    let conn = connect(directory, durability, Access::Write)?;
    conn.pragma_update("query_only", true)?;
    conn.pragma_update("cache_size", READER_CACHE)?;
    Ok(conn)
}

/// Opens the search index of a store. It follows from the store, so no commit waits for the disk: what a power cut takes
/// is indexed again.
fn connect_search(directory: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_file(directory.join(files::SEARCH), flags)?;
    conn.sqlite()?.set_prepared_statement_cache_capacity(limits::STATEMENTS_KEPT);
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.pragma_update("page_size", PAGE_BYTES)?;
    Ok(conn)
}

/// Opens the connection that fills the search index.
pub fn connect_search_writer(directory: &Path) -> Result<Connection> {
    let conn = connect_search(directory)?;
    conn.pragma_update("application_id", files::SEARCH_APPLICATION_ID)?;
    conn.pragma_update("journal_mode", "wal")?;
    conn.pragma_update("synchronous", "normal")?;
    // Words of what is erased do not stay in free pages.
    conn.pragma_update("secure_delete", true)?;
    conn.pragma_update("cache_size", WRITER_CACHE)?;
    configure(&conn)?;
    Ok(conn)
}

/// Opens a connection that searches the index.
pub fn connect_search_reader(directory: &Path) -> Result<Connection> {
    let conn = connect_search(directory)?;
    conn.pragma_update("cache_size", READER_CACHE)?;
    configure(&conn)?;
    conn.pragma_update("query_only", true)?;
    Ok(conn)
}

/// Refuses a library that can corrupt the store.
pub fn check_version(conn: &Connection) -> Result<()> {
    let version: String = statement::scalar(VERSION).one(conn)?;
    let parts: Vec<u32> = version.split('.').filter_map(|part| part.parse().ok()).collect();
    let (major, minor, patch) = SQLITE_MIN;
    match parts[..] {
        [a, b, c, ..] if (a, b, c) >= SQLITE_MIN => Ok(()),
        _ => Err(Error::Open(format!(
            "SQLite {version} is older than {major}.{minor}.{patch}, which can corrupt a database"
        ))),
    }
}

/// The migrations that a store has, newest first; none before its first. Refuses a store with a schema that this program
/// does not know, because its content could be misread.
pub fn known_migrations(conn: &Connection, place: impl std::fmt::Display) -> Result<Option<Vec<i64>>> {
    if has_table(conn, UNFINISHED)? {
        return Err(Error::Open(format!(
            "the store in {place} is not whole: `longhand migrate` was interrupted while it was made. Run the same command again"
        )));
    }
    if !has_table(conn, "migration")? {
        return Ok(None);
    }
    let applied: Vec<i64> = statement::scalar(APPLIED).all(conn)?;
    let is_known = |applied: &&i64| MIGRATIONS.iter().any(|(version, _)| version == *applied);
    match applied.iter().find(|version| !is_known(version)) {
        Some(version) => Err(Error::Open(format!(
            "the store in {place} was written by another version of Longhand: its migration {version} is not known"
        ))),
        None => Ok(Some(applied)),
    }
}

/// The migrations that files have.
pub fn applied(conn: &Connection, directory: &Path) -> Result<Vec<i64>> {
    let place = directory.display();
    match known_migrations(conn, &place)? {
        None if has_table(conn, "session")? => Err(Error::Open(format!(
            "the store in {place} was written by a build before the first release, whose formats are not read"
        ))),
        applied => Ok(applied.unwrap_or_default()),
    }
}

/// A table that a store has as long as not all of another one is copied into it.
pub const UNFINISHED: &str = "unfinished_copy";

/// True if the database has a table.
pub fn has_table(conn: &Connection, name: &str) -> Result<bool> {
    let has = match conn {
        Connection::Sqlite(_) => HAS_TABLE,
        Connection::Server(server) => server.has_table(),
    };
    statement::scalar(has).bind(name).one(conn)
}

/// The database with its version, such as `SQLite 3.51.3`.
pub fn version(conn: &Connection) -> Result<String> {
    let version = match conn {
        Connection::Sqlite(_) => LIBRARY,
        Connection::Server(server) => server.version(),
    };
    statement::scalar(version).one(conn)
}

/// Bytes of all rows of a store, with their indexes.
pub fn used_bytes(conn: &Connection) -> Result<i64> {
    let bytes = match conn {
        Connection::Sqlite(_) => USED_BYTES,
        Connection::Server(server) => server.used_bytes(),
    };
    statement::scalar(bytes).one(conn)
}

/// Applies the migrations that a store does not have.
pub fn migrate(conn: &Connection, applied: &[i64], clock: &Clock) -> Result<()> {
    let failed = |error: Error| Error::Open(format!("cannot migrate: {error}"));
    migrate_all(conn, applied, clock).map_err(failed)
}

fn migrate_all(conn: &Connection, applied: &[i64], clock: &Clock) -> Result<()> {
    for (version, statements) in MIGRATIONS.iter().filter(|(version, _)| !applied.contains(version)) {
        let transaction = conn.transaction()?;
        transaction.make_schema(statements)?;
        statement::query(RECORD).bind(*version).bind(clock.now().0).run(&transaction)?;
        transaction.commit()?;
    }
    Ok(())
}

/// Checks the content of a database, and brings its schema up to date.
pub fn prepare(conn: &Connection, directory: &Path, state: DatabaseState, clock: &Clock) -> Result<()> {
    check_version(conn)?;
    let applied = applied(conn, directory)?;
    if state == DatabaseState::Empty {
        conn.pragma_update("application_id", files::APPLICATION_ID)?;
    }
    migrate(conn, &applied, clock)
}

const PAGE_COUNT: &str = "pragma page_count";
const VERSION: &str = "select sqlite_version()";
const LIBRARY: &str = "select 'SQLite ' || sqlite_version()";
const USED_BYTES: &str = "select (page_count - freelist_count) * page_size \
     from pragma_page_count, pragma_freelist_count, pragma_page_size";
const HAS_TABLE: &str = "select exists (select 1 from sqlite_master where type = 'table' and name = ?1)";
const APPLIED: &str = "select version from migration order by version desc";
const RECORD: &str = "insert into migration (version, time) values (?1, ?2)";

/// Locks a data directory, with retries. A child process that a daemon has just forked holds the daemon's lock until it
/// executes its own program, even if that daemon is gone, so the lock is tried again for a moment.
pub async fn claim(directory: &Path) -> Result<(std::fs::File, files::DatabaseState)> {
    for _ in 0..limits::LOCK_ATTEMPTS {
        if let Some(claimed) = files::claim(directory)? {
            return Ok(claimed);
        }
        tokio::time::sleep(Duration::from_millis(limits::LOCK_RETRY_MS)).await;
    }
    files::claim(directory)?.ok_or_else(|| files::directory_taken(directory))
}

/// `user_version` of a backup that was never opened as a store.
const BACKUP: i64 = 1;
const IS_BACKUP: &str = "pragma user_version";
const MARK: &str = "pragma user_version = 1";
const CLEAR_MARK: &str = "pragma user_version = 0";

/// Marks a database as a backup, which is not the store that it was copied from.
pub fn mark_as_backup(conn: &Connection) -> Result<()> {
    conn.execute_batch(MARK)
}

/// Clears the mark of a backup, if there is one, together with what `begin` writes.
pub fn clear_backup_mark(conn: &Connection, begin: impl FnOnce(&Connection) -> Result<()>) -> Result<()> {
    let mark: i64 = statement::scalar(IS_BACKUP).one(conn)?;
    if mark == BACKUP {
        let transaction = conn.transaction()?;
        begin(&transaction)?;
        transaction.execute_batch(CLEAR_MARK)?;
        transaction.commit()?;
    }
    Ok(())
}
