//! Opening a store: its files, its connections, and the thread of its writer.

use super::engine::files;
use super::engine::health::Health;
use super::engine::home::{Home, Ownership};
use super::engine::postgres::lease::{Acknowledged, Trust};
use super::engine::postgres::owner::Taken;
use super::engine::postgres::shard::{Role, Shard};
use super::engine::readers::Readers;
use super::engine::{self, Connection, Durability, connect};
use super::error::{Error, Result};
use super::handle::Store;
use super::integrity::scrub_state::Scrub;
use super::ledger::identity::Identity;
use super::ledger::secrets::Secrets;
use super::ledger::{ahead, blob_uses, identity, usage_totals};
use super::search::state::SearchState;
use super::shared::Shared;
use super::write_state::WriteState;
use super::writer::{Committed, Writer, restart_timeouts};
use crate::clock::{Clock, fresh_id};
use crate::limits;
use crate::model::Seq;
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
    pub shard: Shard,
    /// The directory of the search index.
    pub directory: PathBuf,
    /// The directory with the key for drafts, which all daemons have.
    pub keys: PathBuf,
    /// Time after which another daemon may take it from one that is gone.
    pub ttl: Duration,
    /// Number of connections that read.
    pub readers: usize,
    /// What this daemon acknowledged when it owned the shard before.
    pub acknowledged: Arc<Acknowledged>,
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
        let (held, state) = connect::claim(&directory).await?;
        files::check_not_aside(&directory, state)?;
        files::make_database(&directory)?;
        let conn = connect::connect_writer(&directory, durability)?;
        if let Err(refused) = connect::prepare(&conn, &directory, state, &clock) {
            // Closing also removes a log that the connection made.
            conn.close()?;
            return Err(refused);
        }
        failpoint::reach("migrated");
        files::sync_directory(&held, &directory)?;
        let identity = bring_up_to_date(&conn, &clock)?;
        let of_readers = directory.clone();
        let readers = Readers::new(
            limits::READERS,
            clock.clone(),
            Box::new(move || connect::connect_reader(&of_readers, durability)),
        )?;
        let home = Home::Files(files::OpenFiles::begin(&directory)?);
        let keys = directory.clone();
        let parts = Parts { readers, identity, durability, directory, keys, trust: None };
        // The lock is released when the writer has ended: only then may another daemon open the store.
        Self::start(conn, home, clock, parts, held)
    }

    /// Opens a shard of a PostgreSQL database, once this daemon has its lease: waits as long as another one has it. The
    /// future is the writer, as in `open`, and gives the lease back when it ends. The search index is in the directory.
    ///
    /// # Errors
    ///
    /// `Error::Unreachable` if the database cannot be reached.
    pub async fn open_shard(
        shard: Shard,
        directory: PathBuf,
        ttl: Duration,
        clock: Clock,
    ) -> Result<(Self, impl Future<Output = ()> + Send + 'static)> {
        let mut is_waiting = false;
        let (keys, readers) = (directory.clone(), limits::SHARD_READERS);
        let place = ShardPlace { shard, keys, directory, ttl, readers, acknowledged: Arc::default() };
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
        let ShardPlace { shard, directory, keys, ttl, readers, acknowledged } = place.clone();
        let directory = files::plain(&directory)?;
        let (held, _) = connect::claim(&directory).await?;
        let owner = format!("{daemon}.{}", fresh_id().simple());
        let ownership = Ownership { shard, owner, ttl, trust: Arc::new(Trust::new(acknowledged)) };
        let taking = ownership.clone();
        let taken = match alone(move || taking.set_up_and_take()).await {
            Ok(Some(taken)) => taken,
            Ok(None) | Err(Error::Busy(_)) => return Ok(None),
            Err(Error::ReadOnly) => {
                return Err(Error::Open("the database takes no writes: it is a standby, or read-only".to_owned()));
            }
            Err(error) => return Err(error),
        };
        let opening = ownership.clone();
        let opened = alone(move || Self::start_shard(taken, opening, clock, [directory, keys], held, readers)).await;
        // Another daemon may be able to open it.
        if opened.is_err()
            && let Err(error) = alone(move || ownership.give_back()).await
        {
            tracing::debug!(%error, "the lease of a shard that cannot be opened runs out");
        }
        opened.map(Some)
    }

    /// Prepares a shard that was taken, and starts its writer.
    fn start_shard(
        (conn, taken): (Connection, Taken),
        ownership: Ownership,
        clock: Clock,
        [directory, keys]: [PathBuf; 2],
        held: std::fs::File,
        readers: usize,
    ) -> Result<(Self, impl Future<Output = ()> + Send + 'static)> {
        let (shard, trust) = (ownership.shard.clone(), Arc::clone(&ownership.trust));
        let identity = prepare_shard(&conn, taken, shard.name(), &clock)?;
        let durability = connect::durability_of_server(&conn)?;
        trust.note_durable(durability == Durability::Full);
        // Time limits begin anew as late as can be.
        complete(&conn, &clock)?;
        let reading = Arc::clone(&trust);
        let connect = move || shard.connect_shared(Role::Reader, Some(Arc::clone(&reading)));
        let open = Box::new(move || Ok(Connection::Postgres(Box::new(connect()?))));
        let readers = Readers::of_shard(readers, clock.clone(), open, Arc::clone(&trust));
        let parts = Parts { readers, identity, durability, directory, keys, trust: Some(trust) };
        Self::start(conn, Home::Shard(Box::new(ownership)), clock, parts, held)
    }

    /// Starts the writer on a connection to a store that is complete.
    fn start(
        conn: Connection,
        home: Home,
        clock: Clock,
        parts: Parts,
        held: std::fs::File,
    ) -> Result<(Self, impl Future<Output = ()> + Send + 'static)> {
        let Parts { readers, identity, durability, directory, keys, trust } = parts;
        let health = Arc::new(Health::default());
        let state = Arc::clone(&health);
        let secrets = Arc::new(Secrets::new(identity.secrets_salt));
        if let Some(key) = files::read_draft_key(&keys)? {
            secrets.set_draft_key(&key);
        }
        let committed = Committed::new(secrets);
        committed.memberships.load(&conn)?;
        let is_sqlite = conn.is_sqlite();
        let (writer, handle, announced, owner) = Writer::new(conn, clock, health.clone(), home, committed.clone())?;
        let Committed { recent, ring, memberships, quotas, secrets } = committed;
        let shared = Shared {
            writer: handle,
            readers,
            identity,
            durability,
            announced,
            health,
            recent,
            ring,
            memberships,
            quotas,
            secrets,
            directory,
            keys,
            is_sqlite,
            trust,
            scrub: Scrub::new(),
            search: SearchState::new(),
            ending: tokio::sync::Mutex::default(),
            erasing: Default::default(),
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
                    // Another daemon takes a shard.
                    if !is_sqlite {
                        state.set(WriteState::LeaseLost);
                    }
                },
                () = owner.check_files() => {}
            }
        };
        Ok((Self::new(shared), running))
    }
}

/// Brings the content of files up to date that have all migrations. Returns their identity.
pub(super) fn bring_up_to_date(conn: &Connection, clock: &Clock) -> Result<Identity> {
    complete(conn, clock)?;
    connect::clear_backup_mark(conn, |conn| identity::begin_anew(conn, clock))?;
    identity::load_or_create(conn, clock)
}

/// Brings the schema of a shard that was taken up to date. Returns its identity.
pub(super) fn prepare_shard(conn: &Connection, taken: Taken, shard: &str, clock: &Clock) -> Result<Identity> {
    connect::prepare_shard(conn, shard, clock)?;
    failpoint::reach("migrated");
    check_head(conn)?;
    conn.note_server(|conn| match taken {
        Taken { may_lack: true, .. } => {
            tracing::warn!(
                "the database was promoted, recovered or restored since its newest event: it may lack what was \
                 acknowledged, and the store gets a new identity"
            );
            identity::begin_anew(conn, clock)
        }
        Taken { is_moved: true, .. } => {
            tracing::info!("the database is another server, and has what was acknowledged");
            Ok(())
        }
        Taken { .. } => Ok(()),
    })?;
    let transaction = conn.transaction()?;
    let identity = identity::load_or_create(&transaction, clock)?;
    transaction.commit()?;
    Ok(identity)
}

/// What a store has besides its writer.
struct Parts {
    readers: Readers,
    identity: Identity,
    durability: Durability,
    directory: PathBuf,
    keys: PathBuf,
    trust: Option<Arc<Trust>>,
}

/// Completes the content of a store that no longer, or not yet, has all that this version writes.
pub(super) fn complete(conn: &Connection, clock: &Clock) -> Result<()> {
    let transaction = conn.transaction()?;
    ahead::lower_times(&transaction, clock)?;
    restart_timeouts(&transaction, clock.now())?;
    transaction.commit()?;
    blob_uses::complete(conn)?;
    usage_totals::count(conn)
}

/// Compares the newest event with the row of the shard, in a statement of its own: that which took the lease may have
/// waited for a commit that it does not see.
fn check_head(conn: &Connection) -> Result<()> {
    let newest: Seq = engine::scalar(NEWEST).one(conn)?;
    match conn.leased_head() {
        Some(head) if head != newest => {
            Err(Error::Open(format!("the shard has events up to {newest}, and its lease says {head}")))
        }
        _ => Ok(()),
    }
}

const NEWEST: &str = "select coalesce(max(seq), 0) from event";

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
