//! Opening a store: its files, its connections, and the thread of its writer.

use super::engine::files;
use super::engine::health::Health;
use super::engine::readers::Readers;
use super::engine::{Durability, connect};
use super::error::Result;
use super::handle::Store;
use super::integrity::scrub_state::Scrub;
use super::ledger::{ahead, blob_uses, identity, usage_totals};
use super::search::state::SearchState;
use super::shared::Shared;
use super::writer::{Committed, Writer, restart_timeouts};
use crate::clock::Clock;
use crate::limits;
use crate::telemetry::failpoint;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Options for opening a store.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory of its files.
    pub directory: PathBuf,
    /// The kind of crash that an acknowledged write survives.
    pub durability: Durability,
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
        let (held, state) = connect::claim(&directory).await?;
        files::make_database(&directory)?;
        let conn = connect::connect_writer(&directory, durability)?;
        if let Err(refused) = connect::prepare(&conn, &directory, state, &clock) {
            // Closing also removes a log that the connection made.
            conn.close()?;
            return Err(refused);
        }
        failpoint::reach("migrated");
        files::sync_directory(&held, &directory)?;
        ahead::lower_times(&conn, &clock)?;
        blob_uses::complete(&conn)?;
        restart_timeouts(&conn, clock.now())?;
        usage_totals::count(&conn)?;
        connect::clear_backup_mark(&conn, |conn| identity::begin_anew(conn, &clock))?;
        let identity = identity::load_or_create(&conn, &clock)?;
        let of_readers = directory.clone();
        let readers = Readers::new(
            limits::READERS,
            clock.clone(),
            Box::new(move || connect::connect_reader(&of_readers, durability)),
        )?;
        let health = Arc::new(Health::new());
        let files = files::OpenFiles::begin(&directory)?;
        let committed = Committed::default();
        committed.memberships.load(&conn)?;
        let (writer, handle, announced, owner) = Writer::new(conn, clock, health.clone(), files, committed.clone())?;
        let Committed { recent, ring, memberships, quotas } = committed;
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
            directory,
            scrub: Scrub::new(),
            search: SearchState::new(),
            ending: tokio::sync::Mutex::default(),
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
        Ok((Self::new(shared), running))
    }
}
