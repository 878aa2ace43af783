//! The handle of an open store: what all its clones share, and the access of reads and mutations to it. The methods
//! with a meaning for sessions are beside the rows that they concern.

use super::ancestry::Reader;
use super::error::Result;
use super::figures::Figures;
use super::files;
use super::health::{Checkpoints, Health};
use super::identity::Identity;
use super::readers::Readers;
use super::recent::Recent;
use super::ring::Ring;
use super::scrub_state::Scrub;
use super::tx::Tx;
use super::write_state::WriteState;
use super::writer::{Announced, Mutation, WriterHandle};
use crate::model::Seq;
use std::sync::Arc;
use tokio::sync::watch;
use uuid::Uuid;

/// The kind of crash that an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A crash of the machine.
    #[default]
    Full,
    /// A crash of the daemon.
    ProcessCrash,
}

/// The store: cheap to clone, and shared by all readers and writers.
#[derive(Clone)]
pub struct Store {
    pub(super) shared: Arc<Shared>,
}

/// The parts of a store that all clones share.
pub(super) struct Shared {
    pub(super) writer: WriterHandle,
    pub(super) readers: Readers,
    pub(super) identity: Identity,
    pub(super) durability: Durability,
    pub(super) announced: Announced,
    pub(super) health: Arc<Health>,
    pub(super) recent: Arc<Recent>,
    pub(super) ring: Arc<Ring>,
    pub(super) directory: std::path::PathBuf,
    pub(super) scrub: Scrub,
    /// Held while a backup is made.
    pub(super) backing_up: tokio::sync::Mutex<()>,
}

impl Store {
    /// The store's id; cursors name it.
    pub fn id(&self) -> Uuid {
        self.shared.identity.id
    }

    /// True if the store is a restored backup of the store with this id.
    pub fn was_restored_from(&self, id: Uuid) -> bool {
        self.shared.identity.earlier.contains(&id)
    }

    /// The secret key of the store's view tokens; no answer contains it.
    pub fn view_key(&self) -> &[u8; 32] {
        &self.shared.identity.view_key
    }

    /// The kind of crash that an acknowledged write survives.
    pub fn durability(&self) -> Durability {
        self.shared.durability
    }

    /// The state of writes, with the reason if none are taken.
    pub fn write_state(&self) -> WriteState {
        self.shared.health.writes()
    }

    /// Waits until writes are stopped for the rest of the process, and returns the reason.
    pub async fn stopped(&self) -> WriteState {
        let mut writes = self.shared.health.watch();
        let state = writes.wait_for(|state| state.is_final()).await.map(|state| *state);
        // The store itself holds the sender, so there always is an answer.
        state.unwrap_or_default()
    }

    /// The state of the checkpoints, which copy the write-ahead log into the database.
    pub fn checkpoints(&self) -> Checkpoints {
        self.shared.health.checkpoints()
    }

    /// Watches the number of the newest committed event. Every commit notifies, also one without an event.
    pub fn watch_head(&self) -> watch::Receiver<Seq> {
        self.shared.announced.head_seq.clone()
    }

    /// Watches the number of the newest committed event. Only commits of events notify.
    pub fn watch_events(&self) -> watch::Receiver<Seq> {
        self.shared.announced.newest_event.clone()
    }

    /// Watches for commits behind which the scheduler may find work: due marks, jobs, wake times. Plain appends to
    /// sessions that are not due are none.
    pub fn watch_work(&self) -> watch::Receiver<()> {
        self.shared.announced.work.clone()
    }

    /// The number of the newest committed event.
    pub fn head_seq(&self) -> Seq {
        *self.shared.announced.head_seq.borrow()
    }

    /// Drops this clone of the store, and closes the readers of all clones.
    pub async fn close(self) {
        self.shared.readers.close();
    }

    /// Rows that reads have fetched since the store was opened.
    pub fn rows_read(&self) -> u64 {
        self.shared.readers.rows_read()
    }

    /// Bytes of the database and its log on disk.
    pub fn bytes_on_disk(&self) -> i64 {
        self.file_bytes(files::DATABASE).saturating_add(self.log_bytes())
    }

    /// Figures of the writer, the readers and the log.
    pub fn figures(&self) -> Figures {
        let meter = self.shared.writer.meter();
        Figures {
            queued_mutations: meter.queued(),
            commits: meter.commits(),
            log_bytes: self.log_bytes(),
            oldest_read_ms: self.shared.readers.oldest_read_ms(),
        }
    }

    fn log_bytes(&self) -> i64 {
        self.file_bytes(&format!("{}-wal", files::DATABASE))
    }

    fn file_bytes(&self, name: &str) -> i64 {
        let metadata = std::fs::metadata(self.shared.directory.join(name));
        metadata.map_or(0, |metadata| i64::try_from(metadata.len()).unwrap_or(i64::MAX))
    }

    pub(super) async fn reading<T>(&self, read: impl FnOnce(&mut Reader<'_>) -> Result<T>) -> Result<T> {
        self.shared.readers.reading(read).await
    }

    pub(super) async fn brief<T>(&self, read: impl FnOnce(&mut Reader<'_>) -> Result<T>) -> Result<T> {
        self.shared.readers.brief(read).await
    }

    pub(super) async fn snapshot<T>(&self, read: impl FnOnce(&mut Reader<'_>) -> Result<T>) -> Result<T> {
        self.shared.readers.snapshot(read).await
    }

    /// Has the writer apply a mutation, and waits until it is durable.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        mutation: Mutation,
        apply: impl FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.shared.writer.write(mutation, apply).await
    }
}
