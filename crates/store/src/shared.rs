//! What all handles of an open store share, and the access of reads and mutations to it.

use super::engine::Reader;
use super::engine::database::Engine;
use super::engine::health::Health;
use super::engine::readers::Readers;
use super::erasure::steps::ErasingSessions;
use super::error::Result;
use super::integrity::scrub_state::Scrub;
use super::ledger::commits::Commits;
use super::ledger::identity::Identity;
use super::ledger::quotas::Quotas;
use super::ledger::ring::Ring;
use super::ledger::secrets::Secrets;
use super::ledger::tx::Tx;
use super::ledger::visibility::Memberships;
use super::search::state::SearchState;
use super::writer::{CommitWatches, Mutation, WriterHandle};
use std::sync::Arc;

/// The parts of a store that all clones share.
pub(super) struct StoreParts {
    pub(super) writer: WriterHandle,
    pub(super) readers: Readers,
    pub(super) identity: Identity,
    pub(super) announced: CommitWatches,
    pub(super) health: Arc<Health>,
    pub(super) commits: Arc<Commits>,
    pub(super) ring: Arc<Ring>,
    pub(super) memberships: Arc<Memberships>,
    pub(super) quotas: Arc<Quotas>,
    pub(super) secrets: Arc<Secrets>,
    pub(super) directory: std::path::PathBuf,
    /// The directory with the key for drafts.
    pub(super) keys: std::path::PathBuf,
    pub(super) engine: Arc<dyn Engine>,
    pub(super) scrub: Scrub,
    pub(super) search: SearchState,
    /// Held while what has expired is ended: two at once would put off what the other one is about to end.
    pub(super) ending: tokio::sync::Mutex<()>,
    /// Sessions in which something is being erased.
    pub(super) erasing: ErasingSessions,
    /// Held while a backup is made.
    pub(super) backing_up: tokio::sync::Mutex<()>,
}

impl StoreParts {
    pub(super) async fn reading<T>(&self, read: impl FnOnce(&mut Reader<'_>) -> Result<T>) -> Result<T> {
        self.readers.reading(read).await
    }

    pub(super) async fn brief<T>(&self, read: impl FnOnce(&mut Reader<'_>) -> Result<T>) -> Result<T> {
        self.readers.brief(read).await
    }

    pub(super) async fn snapshot<T>(&self, read: impl FnOnce(&mut Reader<'_>) -> Result<T>) -> Result<T> {
        self.readers.snapshot(read).await
    }

    /// Has the writer apply a mutation, and waits until it is durable.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        mutation: Mutation,
        apply: impl Fn(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.writer.write(mutation, apply).await
    }
}
