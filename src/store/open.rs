//! Opening a store: lock, version, pragmas, migrations. All pragmas are here, each with its reason.

use super::ahead;
use super::error::{Error, Result};
use super::files::{self, DATABASE, DatabaseState};
use super::health::Health;
use super::identity;
use super::open_messages;
use super::writer::Writer;
use super::{Shared, Store};
use crate::clock::Clock;
use crate::limits;
use crate::telemetry::failpoint;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _, SqlSafeStr as _, SqliteConnection};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Rows with bodies of about a kibibyte stay on one page of the database.
pub(crate) const PAGE_BYTES: u32 = 4_096;
/// Page caches of the writer and of a reader, in negative kibibytes. The system's cache serves the rest, and a
/// connection never releases its cache memory.
const WRITER_CACHE: &str = "-32768";
const READER_CACHE: &str = "-4096";
/// Older versions can corrupt a database when two connections write and checkpoint at once.
const SQLITE_MIN: (u32, u32, u32) = (3, 51, 3);

/// The kind of crash that an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A crash of the machine.
    #[default]
    Full,
    /// A crash of the daemon.
    ProcessCrash,
}

/// Options for opening a store.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory of its files.
    pub directory: PathBuf,
    /// The kind of crash that an acknowledged write survives.
    pub durability: Durability,
}

/// All migrations, oldest first; they are compiled in, so that no files are needed at run time.
const MIGRATIONS: &[(i64, &str, &str)] =
    &[(20_261_123_000_000, "store", include_str!("../../migrations/20261123000000_store.sql"))];

/// The migrations in the form of sqlx.
fn migrator() -> Migrator {
    let migrations: Vec<Migration> = MIGRATIONS
        .iter()
        .map(|(version, name, sql)| {
            Migration::new(*version, Cow::Borrowed(name), MigrationType::Simple, sql.into_sql_str(), false)
        })
        .collect();
    Migrator { migrations: Cow::Owned(migrations), ..Migrator::DEFAULT }
}

pub(super) fn options(directory: &Path, durability: Durability) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(directory.join(DATABASE))
        // Readers continue while the writer commits.
        .journal_mode(SqliteJournalMode::Wal)
        // FULL syncs the log at every commit: an acknowledged write survives a power cut.
        .synchronous(match durability {
            Durability::Full => SqliteSynchronous::Full,
            Durability::ProcessCrash => SqliteSynchronous::Normal,
        })
        .page_size(PAGE_BYTES)
        .foreign_keys(true)
        .busy_timeout(Duration::from_secs(5))
        // Sorting and temporary tables never touch the disk.
        .pragma("temp_store", "memory")
        // The schema cannot make SQLite call functions with side effects.
        .pragma("trusted_schema", "off")
        // A damaged page is detected when it is read.
        .pragma("cell_size_check", "on")
        .log_statements(tracing::log::LevelFilter::Off)
}

/// Refuses a library that can corrupt the store.
pub(super) async fn check_version(conn: &mut SqliteConnection) -> Result<()> {
    let version: String = sqlx::query_scalar("select sqlite_version()").fetch_one(conn).await?;
    let parts: Vec<u32> = version.split('.').filter_map(|part| part.parse().ok()).collect();
    let (major, minor, patch) = SQLITE_MIN;
    match parts[..] {
        [a, b, c, ..] if (a, b, c) >= SQLITE_MIN => Ok(()),
        _ => Err(Error::Open(format!(
            "SQLite {version} is older than {major}.{minor}.{patch}, which can corrupt a database"
        ))),
    }
}

/// Refuses a store with a schema that this program does not know, because its content could be misread.
pub(super) async fn check_schema(conn: &mut SqliteConnection, directory: &Path) -> Result<()> {
    const IS_MIGRATED: &str = "select count(*) from sqlite_master where type = 'table' and name = '_sqlx_migrations'";
    let is_migrated: i64 = sqlx::query_scalar(IS_MIGRATED).fetch_one(&mut *conn).await?;
    if is_migrated == 0 {
        return Ok(());
    }
    const APPLIED: &str = "select version from _sqlx_migrations order by version desc";
    let applied: Vec<i64> = sqlx::query_scalar(APPLIED).fetch_all(conn).await?;
    let is_known = |applied: &&i64| MIGRATIONS.iter().any(|(version, ..)| version == *applied);
    match applied.iter().find(|version| !is_known(version)) {
        Some(version) => Err(Error::Open(format!(
            "the store in {} was written by another version of Longhand: its migration {version} is not known",
            directory.display()
        ))),
        None => Ok(()),
    }
}

/// Checks the content of a database, and brings its schema up to date.
async fn prepare(conn: &mut SqliteConnection, directory: &Path, state: DatabaseState) -> Result<()> {
    check_version(conn).await?;
    check_schema(conn, directory).await?;
    if state == DatabaseState::Empty {
        let claim = format!("pragma application_id = {}", files::APPLICATION_ID);
        // A pragma takes no bound value.
        sqlx::raw_sql(sqlx::AssertSqlSafe(claim)).execute(&mut *conn).await?;
    }
    migrator().run(conn).await.map_err(|error| Error::Open(format!("cannot migrate: {error}")))
}

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
    /// it, and it ends when the last clone of the store is dropped; only then may another daemon open the store. Files
    /// that are not a store of Longhand, or are accessible to others, are refused before anything is made or changed.
    pub async fn open(
        options_given: Options,
        clock: Clock,
    ) -> Result<(Self, impl Future<Output = ()> + Send + 'static)> {
        let Options { directory, durability } = options_given;
        let directory = files::plain(&directory)?;
        let (held, state) = claim(&directory).await?;
        files::make_database(&directory)?;
        let options = options(&directory, durability);
        let mut conn = options
            .clone()
            .create_if_missing(true)
            // The writer does the checkpoints itself, because SQLite would hide their failures.
            .pragma("wal_autocheckpoint", "0")
            .pragma("journal_size_limit", limits::LOG_BYTES_KEPT.to_string())
            .pragma("cache_size", WRITER_CACHE)
            .statement_cache_capacity(limits::WRITER_STATEMENTS_KEPT)
            .connect()
            .await?;
        if let Err(refused) = prepare(&mut conn, &directory, state).await {
            // Closing also removes a log that the connection made.
            conn.close().await?;
            return Err(refused);
        }
        failpoint::reach("migrated");
        files::sync_directory(&held, &directory)?;
        ahead::settle(&mut conn, &clock).await?;
        open_messages::restart(&mut conn, clock.now()).await?;
        let identity = identity::settle(&mut conn, &clock).await?;
        let readers = SqlitePoolOptions::new()
            .max_connections(limits::READERS)
            // Opened now: later there may be no file descriptors left.
            .min_connections(limits::READERS)
            // A connection's page cache is worth keeping, and SQLite connections never become stale.
            .test_before_acquire(false)
            .idle_timeout(None)
            .max_lifetime(None)
            .after_release(|conn, _| Box::pin(has_ended(conn)))
            .connect_with(options.pragma("query_only", "on").pragma("cache_size", READER_CACHE))
            .await?;
        let health = Arc::new(Health::new());
        let files = files::Watch::begin(&directory)?;
        let recent = Arc::default();
        let (writer, handle, announced) = Writer::new(conn, clock, health.clone(), files, Arc::clone(&recent)).await?;
        let shared = Shared {
            writer: handle,
            readers,
            identity,
            durability,
            announced,
            health,
            recent,
            rows_read: AtomicU64::new(0),
            directory,
            backing_up: tokio::sync::Mutex::default(),
        };
        let running = async move {
            writer.run().await;
            drop(held);
        };
        Ok((Self { shared: Arc::new(shared) }, running))
    }

    /// SQLite's version.
    pub async fn sqlite_version(&self) -> Result<String> {
        let mut conn = self.shared.readers.acquire().await?;
        Ok(sqlx::query_scalar("select sqlite_version()").fetch_one(&mut *conn).await?)
    }
}

/// True for a connection without an open transaction. An I/O error ends a transaction without sqlx's knowledge. sqlx
/// then begins the next one as a savepoint that is never released, and every later read would see the same old
/// snapshot.
async fn has_ended(conn: &mut SqliteConnection) -> sqlx::Result<bool> {
    if conn.is_in_transaction() {
        // A dropped transaction is rolled back after the statements that were sent before.
        conn.ping().await?;
    }
    Ok(!conn.is_in_transaction())
}
