//! Opening a store: lock, version, pragmas, migrations. All pragmas are here, each with its reason.

use super::ahead;
use super::error::{Error, Result};
use super::files::{self, DATABASE, DatabaseState};
use super::handle::{Durability, Shared, Store};
use super::health::Health;
use super::identity;
use super::open_messages;
use super::readers::Readers;
use super::scrub_state::Scrub;
use super::sqlite::{self, Connection, PAGE_BYTES};
use super::writer::Writer;
use crate::clock::Clock;
use crate::limits;
use crate::telemetry::failpoint;
use rusqlite::OpenFlags;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Page caches of the writer and of a reader, in negative kibibytes. The system's cache serves the rest, and a
/// connection never releases its cache memory.
const WRITER_CACHE: i64 = -32_768;
const READER_CACHE: i64 = -4_096;
/// Wait for a lock of another program, such as a backup tool.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Older versions can corrupt a database when two connections write and checkpoint at once.
const SQLITE_MIN: (u32, u32, u32) = (3, 51, 3);

/// Options for opening a store.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory of its files.
    pub directory: PathBuf,
    /// The kind of crash that an acknowledged write survives.
    pub durability: Durability,
}

/// All migrations, oldest first: the day on which each was written, its number on that day, and its statements. They are
/// compiled in, so that no files are needed at run time. A kept library for them would be as long as what is below.
const MIGRATIONS: &[(i64, &str)] = &[
    (20_261_124_000_000, include_str!("../../migrations/20261124000000_store.sql")),
    (20_261_125_000_000, include_str!("../../migrations/20261125000000_over_window.sql")),
];

/// Opens a connection. With `creates` the database is made if it does not exist.
fn connect(directory: &Path, durability: Durability, creates: bool) -> Result<Connection> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    flags.set(OpenFlags::SQLITE_OPEN_CREATE, creates);
    let conn = Connection::open_with_flags(directory.join(DATABASE), flags)?;
    conn.set_prepared_statement_cache_capacity(limits::STATEMENTS_KEPT);
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.pragma_update(None, "page_size", PAGE_BYTES)?;
    // Readers continue while the writer commits. The header is written behind the row with the mode.
    let mode: String = sqlite::scalar("pragma journal_mode = wal").one(&conn)?;
    if mode != "wal" {
        return Err(Error::Open(format!("the database cannot have a write-ahead log, but only the mode {mode}")));
    }
    // FULL syncs the log at every commit: an acknowledged write survives a power cut.
    let synchronous = match durability {
        Durability::Full => "full",
        Durability::ProcessCrash => "normal",
    };
    conn.pragma_update(None, "synchronous", synchronous)?;
    configure(&conn)?;
    Ok(conn)
}

/// Opens a store that is not new, without the settings of its writer and readers. A read-only connection refuses every
/// change of the store, and may write other files.
pub(super) fn connect_existing(directory: &Path, read_only: bool) -> Result<Connection> {
    let access = if read_only { OpenFlags::SQLITE_OPEN_READ_ONLY } else { OpenFlags::SQLITE_OPEN_READ_WRITE };
    let conn = Connection::open_with_flags(directory.join(DATABASE), access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    // A repair writes as durably as the daemon.
    conn.pragma_update(None, "synchronous", "full")?;
    configure(&conn)?;
    Ok(conn)
}

/// The settings of every connection.
fn configure(conn: &Connection) -> Result<()> {
    conn.pragma_update(None, "foreign_keys", true)?;
    // Sorting and temporary tables never touch the disk.
    conn.pragma_update(None, "temp_store", "memory")?;
    // The schema cannot make SQLite call functions with side effects.
    conn.pragma_update(None, "trusted_schema", false)?;
    // A damaged page is detected when it is read.
    conn.pragma_update(None, "cell_size_check", true)?;
    Ok(())
}

/// Opens the connection of the writer.
fn connect_writer(directory: &Path, durability: Durability) -> Result<Connection> {
    let conn = connect(directory, durability, true)?;
    // The writer does the checkpoints itself, because SQLite would hide their failures.
    conn.pragma_update(None, "wal_autocheckpoint", 0)?;
    conn.pragma_update(None, "journal_size_limit", i64::try_from(limits::LOG_BYTES_KEPT).unwrap_or(i64::MAX))?;
    conn.pragma_update(None, "cache_size", WRITER_CACHE)?;
    Ok(conn)
}

/// Opens a connection of the pool of readers.
fn connect_reader(directory: &Path, durability: Durability) -> Result<Connection> {
    let conn = connect(directory, durability, false)?;
    conn.pragma_update(None, "query_only", true)?;
    conn.pragma_update(None, "cache_size", READER_CACHE)?;
    Ok(conn)
}

/// Refuses a library that can corrupt the store.
pub(super) fn check_version(conn: &Connection) -> Result<()> {
    let version: String = sqlite::scalar(VERSION).one(conn)?;
    let parts: Vec<u32> = version.split('.').filter_map(|part| part.parse().ok()).collect();
    let (major, minor, patch) = SQLITE_MIN;
    match parts[..] {
        [a, b, c, ..] if (a, b, c) >= SQLITE_MIN => Ok(()),
        _ => Err(Error::Open(format!(
            "SQLite {version} is older than {major}.{minor}.{patch}, which can corrupt a database"
        ))),
    }
}

/// The migrations that a store has, newest first. Refuses a store with a schema that this program does not know, because
/// its content could be misread.
pub(super) fn applied(conn: &Connection, directory: &Path) -> Result<Vec<i64>> {
    let applied: Vec<i64> = match sqlite::scalar(TABLES).bind("migration").one(conn)? {
        0_i64 if sqlite::scalar::<i64>(TABLES).bind("session").one(conn)? > 0 => {
            return Err(Error::Open(format!(
                "the store in {} was written by a build before the first release, whose formats are not read",
                directory.display()
            )));
        }
        0 => Vec::new(),
        _ => sqlite::scalar(APPLIED).all(conn)?,
    };
    let is_known = |applied: &&i64| MIGRATIONS.iter().any(|(version, _)| version == *applied);
    match applied.iter().find(|version| !is_known(version)) {
        Some(version) => Err(Error::Open(format!(
            "the store in {} was written by another version of Longhand: its migration {version} is not known",
            directory.display()
        ))),
        None => Ok(applied),
    }
}

/// Applies the migrations that a store does not have.
fn migrate(conn: &Connection, applied: &[i64], clock: &Clock) -> Result<()> {
    for (version, statements) in MIGRATIONS.iter().filter(|(version, _)| !applied.contains(version)) {
        let transaction = conn.unchecked_transaction()?;
        transaction.execute_batch(statements)?;
        sqlite::query(RECORD).bind(*version).bind(clock.now().0).execute(&transaction)?;
        transaction.commit()?;
    }
    Ok(())
}

/// Checks the content of a database, and brings its schema up to date.
fn prepare(conn: &Connection, directory: &Path, state: DatabaseState, clock: &Clock) -> Result<()> {
    check_version(conn)?;
    let applied = applied(conn, directory)?;
    if state == DatabaseState::Empty {
        conn.pragma_update(None, "application_id", files::APPLICATION_ID)?;
    }
    migrate(conn, &applied, clock).map_err(|error| Error::Open(format!("cannot migrate: {error}")))
}

const VERSION: &str = "select sqlite_version()";
const TABLES: &str = "select count(*) from sqlite_master where type = 'table' and name = ?1";
const APPLIED: &str = "select version from migration order by version desc";
const RECORD: &str = "insert into migration (version, time) values (?1, ?2)";

/// Locks a data directory, with retries. A child process that a daemon has just forked holds the daemon's lock until it
/// executes its own program, even if that daemon is gone, so the lock is tried again for a moment.
pub(super) async fn claim(directory: &Path) -> Result<(std::fs::File, files::DatabaseState)> {
    for _ in 0..limits::LOCK_ATTEMPTS {
        if let Some(claimed) = files::claim(directory)? {
            return Ok(claimed);
        }
        tokio::time::sleep(Duration::from_millis(limits::LOCK_RETRY_MS)).await;
    }
    files::claim(directory)?.ok_or_else(|| files::taken(directory))
}

impl Store {
    /// Opens the store in a directory, which is made if it does not exist. The future is the writer: the caller runs
    /// it, and it ends when the last clone of the store is dropped; only then may another daemon open the store. The
    /// writer also ends if the future is dropped. Files that are not a store of Longhand, or are accessible to others,
    /// are refused before anything is made or changed.
    pub async fn open(
        options_given: Options,
        clock: Clock,
    ) -> Result<(Self, impl Future<Output = ()> + Send + 'static)> {
        let Options { directory, durability } = options_given;
        let directory = files::plain(&directory)?;
        let (held, state) = claim(&directory).await?;
        files::make_database(&directory)?;
        let conn = connect_writer(&directory, durability)?;
        if let Err(refused) = prepare(&conn, &directory, state, &clock) {
            // Closing also removes a log that the connection made.
            conn.close().map_err(|(_, error)| error)?;
            return Err(refused);
        }
        failpoint::reach("migrated");
        files::sync_directory(&held, &directory)?;
        ahead::lower_times(&conn, &clock)?;
        open_messages::restart(&conn, clock.now())?;
        let identity = identity::load_or_create(&conn, &clock)?;
        let of_readers = directory.clone();
        let readers =
            Readers::new(limits::READERS, clock.clone(), Box::new(move || connect_reader(&of_readers, durability)))?;
        let health = Arc::new(Health::new());
        let files = files::OpenFiles::begin(&directory)?;
        let (recent, ring) = (Arc::default(), Arc::default());
        let (writer, handle, announced, owner) =
            Writer::new(conn, clock, health.clone(), files, Arc::clone(&recent), Arc::clone(&ring))?;
        let shared = Shared {
            writer: handle,
            readers,
            identity,
            durability,
            announced,
            health,
            recent,
            ring,
            directory,
            scrub: Scrub::new(),
            backing_up: tokio::sync::Mutex::default(),
        };
        // A thread of its own: a task would have two changes of threads more in each commit.
        let running = async move {
            let (ended, end) = oneshot::channel();
            let run = move || {
                writer.run();
                // Only then may another daemon open the store.
                drop(held);
                // Nobody may be waiting for the end.
                let _ = ended.send(());
            };
            if let Err(error) = std::thread::Builder::new().name("writer".to_owned()).spawn(run) {
                tracing::error!(%error, "the thread of the writer cannot be started");
            }
            tokio::select! {
                ended = end => if ended.is_err() {
                    tracing::error!("the writer ended in a panic: writes are refused until the daemon starts again");
                },
                () = owner.check_files() => {}
            }
        };
        Ok((Self { shared: Arc::new(shared) }, running))
    }

    /// SQLite's version.
    pub async fn sqlite_version(&self) -> Result<String> {
        self.reading(|reader| sqlite::scalar(VERSION).one(reader.conn)).await
    }
}
