//! Opening a store: what holds it, its connections, and the thread of its writer.

use super::engine::database::{HeldStore, LeasedPlace, ServedStore};
use super::engine::file_store::HeldFiles;
use super::engine::files;
use super::engine::health::Health;
use super::engine::{self, Connection, Durability, connect};
use super::error::{Error, Result};
use super::handle::Store;
use super::integrity::scrub_state::Scrub;
use super::ledger::identity::Identity;
use super::ledger::secrets::Secrets;
use super::ledger::{ahead, blob_uses, identity, usage_totals};
use super::search::state::SearchState;
use super::shared::StoreParts;
use super::write_state::WriteState;
use super::writer::{CommittedState, Writer, restart_timeouts};
use crate::clock::{Clock, fresh_id};
use crate::limits;
use crate::telemetry::failpoint;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Options for opening a store.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory of its files.
    pub directory: PathBuf,
    /// The kind of crash that an acknowledged write survives.
    pub durability: Durability,
}

/// A shard, and what a daemon needs to own it.
#[derive(Debug, Clone)]
pub struct ShardPlace {
    /// The shard.
    pub shard: Arc<dyn LeasedPlace>,
    /// The directory of the search index.
    pub directory: PathBuf,
    /// The directory with the key for drafts, which all daemons have.
    pub keys: PathBuf,
    /// Time after which another daemon may take it from one that is gone.
    pub ttl: Duration,
    /// Number of connections that read.
    pub readers: usize,
}

/// Locks the directory of a daemon whose stores are not in it.
///
/// # Errors
///
/// `Error::Open` if another daemon has it, or others could write to it.
pub async fn claim_directory(directory: &std::path::Path) -> Result<std::fs::File> {
    Ok(connect::claim(&files::plain(directory)?).await?.0)
}

/// Removes the search index in the directory of a shard that another daemon owns, which may erase what the index has.
///
/// # Errors
///
/// The system's.
pub fn remove_search_index(directory: &std::path::Path) -> Result<()> {
    match files::has_search(directory) {
        true => files::remove_search(directory),
        false => Ok(()),
    }
}

impl Store {
    /// Opens the store in a directory, which is made if it does not exist. The future is the writer: the caller runs it, and
    /// it ends when the last clone of the store is dropped, or when it is ended (`Store::close`); only then may another daemon
    /// open the store. The writer also ends if the future is dropped. Files that are not a store of Longhand, or are accessible
    /// to others, are refused before anything is made or changed.
    pub async fn open(
        options_given: Options,
        clock: Clock,
    ) -> Result<(Self, impl Future<Output = ()> + Send + 'static)> {
        let Options { directory, durability } = options_given;
        let directory = files::plain(&directory)?;
        let claimed = connect::claim(&directory).await?;
        files::check_not_aside(&directory, claimed.1)?;
        let held_files = Box::new(HeldFiles::open(&directory, durability, claimed)?);
        let keys = directory.clone();
        // The lock is the database's, which gives it back when the writer has ended.
        Self::start(held_files, clock, Parts { directory, keys, readers: limits::READERS, lock: None })
    }

    /// Opens a shard of a server's database, once this daemon has its lease: waits as long as another one has it. The
    /// future is the writer, as in `open`, and gives the lease back when it ends. The search index is in the directory.
    ///
    /// # Errors
    ///
    /// `Error::Unreachable` if the database cannot be reached.
    pub async fn open_shard(
        shard: Arc<dyn LeasedPlace>,
        directory: PathBuf,
        ttl: Duration,
        clock: Clock,
    ) -> Result<(Self, impl Future<Output = ()> + Send + 'static)> {
        let mut is_waiting = false;
        let (keys, readers) = (directory.clone(), limits::SHARD_READERS);
        let place = ShardPlace { shard, keys, directory, ttl, readers };
        loop {
            if let Some(opened) = Self::take_shard(&place, "", clock.clone()).await? {
                return Ok(opened);
            }
            if !std::mem::replace(&mut is_waiting, true) {
                tracing::info!(shard = place.shard.name(), "another daemon has the shard: waiting for its lease");
            }
            tokio::time::sleep(Duration::from_millis(limits::LEASE_RETRY_MS)).await;
        }
    }

    /// Opens a shard as `open_shard` does, if its lease is free; none if another daemon has it.
    ///
    /// # Errors
    ///
    /// As `open_shard`.
    pub async fn take_shard(
        place: &ShardPlace,
        daemon: &str,
        clock: Clock,
    ) -> Result<Option<(Self, impl Future<Output = ()> + Send + use<>)>> {
        let ShardPlace { shard, directory, keys, ttl, readers } = place.clone();
        let directory = files::plain(&directory)?;
        let (lock, _) = connect::claim(&directory).await?;
        let owner = format!("{daemon}.{}", fresh_id().simple());
        let held_store = match take_lease(&shard, owner, ttl).await {
            Ok(Some(held_store)) => held_store,
            Ok(None) | Err(Error::Busy(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let giving_back = held_store.giving_back();
        let parts = Parts { directory, keys, readers, lock: Some(lock) };
        let opened = alone(move || Self::start(held_store, clock, parts)).await;
        // Another daemon may be able to open it.
        if opened.is_err()
            && let Err(error) = alone(giving_back).await
        {
            tracing::debug!(%error, "the lease of a shard that cannot be opened runs out");
        }
        opened.map(Some)
    }

    /// Brings a store that is held up to date, and starts its writer.
    fn start(
        held: Box<dyn HeldStore>,
        clock: Clock,
        parts: Parts,
    ) -> Result<(Self, impl Future<Output = ()> + Send + 'static)> {
        let Parts { directory, keys, readers, lock } = parts;
        let identity = prepare(&*held, &clock)?;
        let health = Arc::new(Health::default());
        let now = clock.clone();
        let begin_anew = Box::new(move |conn: &Connection| identity::begin_anew(conn, &now));
        let ServedStore { database, engine, readers } = held.serve(readers, &clock, Arc::clone(&health), begin_anew)?;
        let secrets = Arc::new(Secrets::new(identity.secrets_salt));
        if let Some(key) = files::read_draft_key(&keys)? {
            secrets.set_draft_key(&key);
        }
        let committed = CommittedState::new(secrets);
        committed.memberships.load(database.connection())?;
        let (writer, handle, announced, owner) = Writer::new(database, clock, Arc::clone(&health), committed.clone())?;
        let CommittedState { commits, ring, memberships, quotas, secrets } = committed;
        let (state, is_leased) = (Arc::clone(&health), engine.is_leased());
        let shared = StoreParts {
            writer: handle,
            readers,
            identity,
            announced,
            health,
            commits,
            ring,
            memberships,
            quotas,
            secrets,
            directory,
            keys,
            engine,
            scrub: Scrub::new(),
            search: SearchState::new(),
            ending: tokio::sync::Mutex::default(),
            erasing: Default::default(),
            backing_up: tokio::sync::Mutex::default(),
        };
        // A thread of its own: a task would add two thread switches to each commit.
        let running = async move {
            let (ended, end) = oneshot::channel();
            let run = move || {
                writer.run();
                // Only then may another daemon open the store.
                drop(lock);
                // Nobody may be waiting for the end.
                let _ = ended.send(());
            };
            if let Err(error) = std::thread::Builder::new().name("writer".to_owned()).spawn(run) {
                tracing::error!(%error, "the thread of the writer cannot be started");
            }
            tokio::select! {
                ended = end => if ended.is_err() {
                    tracing::error!("the writer ended in a panic: writes are refused until the daemon starts again");
                    // Another daemon takes a shard.
                    if is_leased {
                        state.set(WriteState::LeaseLost);
                    }
                },
                () = owner.check_files() => {}
            }
        };
        Ok((Self::new(shared), running))
    }
}

/// Takes a shard, once; none while another daemon has it.
pub(super) async fn take_lease(
    shard: &Arc<dyn LeasedPlace>,
    owner: String,
    ttl: Duration,
) -> Result<Option<Box<dyn HeldStore>>> {
    let shard = Arc::clone(shard);
    alone(move || shard.take_lease(owner, ttl)).await.map_err(|error| match error {
        Error::ReadOnly => Error::Open("the database takes no writes: it is a standby, or read-only".to_owned()),
        error => error,
    })
}

/// Brings a store that is held up to date. Returns its identity.
pub(super) fn prepare(held: &dyn HeldStore, clock: &Clock) -> Result<Identity> {
    held.prepare(clock)?;
    failpoint::reach("migrated");
    let conn = held.connection();
    held.settle(engine::scalar(NEWEST).one(conn)?, &|conn| identity::begin_anew(conn, clock))?;
    let transaction = conn.transaction()?;
    let identity = identity::load_or_create(&transaction, clock)?;
    transaction.commit()?;
    // Time limits begin anew only now, so that a slow start costs nobody a timeout.
    complete(conn, clock)?;
    Ok(identity)
}

/// What a store has besides what holds it.
struct Parts {
    directory: PathBuf,
    keys: PathBuf,
    /// The number of connections that read.
    readers: usize,
    /// The lock of a directory that has not the store itself.
    lock: Option<std::fs::File>,
}

const NEWEST: &str = "select coalesce(max(seq), 0) from event";

/// Completes what an older version or a crash left: times ahead of the clock, timeouts, counts.
fn complete(conn: &Connection, clock: &Clock) -> Result<()> {
    let transaction = conn.transaction()?;
    ahead::lower_times(&transaction, clock)?;
    restart_timeouts(&transaction, clock.now())?;
    transaction.commit()?;
    blob_uses::complete(conn)?;
    usage_totals::count(conn)
}

/// Runs work that blocks in a thread without a runtime.
pub(super) async fn alone<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let (done, answer) = oneshot::channel();
    let run = move || {
        // Nobody may be waiting for it.
        let _ = done.send(work());
    };
    let thread = std::thread::Builder::new().name("shard".to_owned()).spawn(run);
    thread.map_err(|error| Error::Open(format!("no thread for the database: {error}")))?;
    answer.await.map_err(|_| Error::Bug("work on a shard ended in a panic"))?
}
