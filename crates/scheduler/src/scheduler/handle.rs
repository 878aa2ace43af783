//! The interface of the scheduler for the other modules.

use super::deltas::{DeltaChannel, SummaryDelta};
use super::health::{Health, Reports};
use super::index::IndexQueue;
use crate::loaded::LoadedSessions;
use crate::store::SessionKey;
use crate::summarizer::{Levels, Tasks};
use std::sync::Arc;
use tokio::sync::{Notify, broadcast, watch};

/// The scheduler's interface for the other modules. It also wakes the scheduler for work that no commit announces.
#[derive(Clone)]
pub struct SchedulerHandle {
    pub(super) woken: Arc<Notify>,
    pub(super) index_queue: IndexQueue,
    pub(super) deltas: DeltaChannel,
    pub(super) reports: Reports,
    pub(super) tasks: Tasks,
    pub(super) summarizers: Levels,
    pub(super) loaded: LoadedSessions,
}

impl SchedulerHandle {
    /// Wakes the scheduler, since there may be work.
    pub fn wake(&self) {
        self.woken.notify_one();
    }

    /// The sessions in memory.
    pub fn loaded(&self) -> &LoadedSessions {
        &self.loaded
    }

    /// The summarizers by level.
    pub fn summarizers(&self) -> &Levels {
        &self.summarizers
    }

    /// The summary tasks for clients.
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// The scheduler's health, current and future.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.reports.subscribe()
    }

    /// Records a write to a session whose policy has retrieval.
    pub fn queue_for_index(&self, session: SessionKey) {
        self.index_queue.add(session);
    }

    /// The delta frames of all summaries from now on. A slow receiver misses the oldest.
    pub fn summary_words(&self) -> broadcast::Receiver<SummaryDelta> {
        self.deltas.subscribe()
    }
}
