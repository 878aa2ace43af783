//! A worker's dependencies. `evaluate` has its work on due sessions, `run` its work on jobs.

use super::deltas::DeltaChannel;
use super::request_log::RequestLog;
use crate::clock::Clock;
use crate::config::Hooks;
use crate::loaded::LoadedSessions;
use crate::policy::bpe::Vocabulary;
use crate::store::Store;
use crate::summarizer::{Levels, Tasks};
use std::sync::Arc;
use uuid::Uuid;

/// Dependencies of a worker.
#[derive(Clone)]
pub(super) struct Worker {
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) summarizers: Levels,
    /// The sessions in memory.
    pub(super) loaded: LoadedSessions,
    /// Vocabularies that policies may name.
    pub(super) vocabularies: Arc<[Arc<Vocabulary>]>,
    /// Identifies this start of the daemon in leases.
    pub(super) owner: Uuid,
    /// The channel to subscribers of summaries in progress.
    pub(super) deltas: DeltaChannel,
    /// Summary tasks for clients.
    pub(super) tasks: Tasks,
    /// Programs that are notified of compactions.
    pub(super) hooks: Arc<Hooks>,
    /// The request log of the current job.
    pub(super) request_log: Arc<RequestLog>,
}
