//! The open index, as searches and the one that fills it share it.

use super::forgotten::Forgotten;
use crate::limits;
use crate::model::Seq;
use crate::store::engine::readers::Readers;
use crate::store::error::Result;
use crate::store::ledger::head::SessionKey;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{oneshot, watch};

/// What the one that fills the index is asked to forget.
pub struct Forget {
    /// The session.
    pub owner: SessionKey,
    /// The part of its history.
    pub what: Forgotten,
    /// Takes the number of entries that are gone.
    pub done: oneshot::Sender<Result<u64>>,
}

/// The index, open or not, for those who search it.
pub(crate) struct SearchState {
    readers: Mutex<Option<Arc<Readers>>>,
    /// What waits to be forgotten, and the end of the queue at which it is taken.
    pub(super) forget: (async_channel::Sender<Forget>, async_channel::Receiver<Forget>),
    /// The newest event that is in the index.
    pub(super) progress: watch::Sender<Seq>,
    /// The newest event that a search waited for.
    pub(super) asked: watch::Sender<Seq>,
}

impl SearchState {
    pub(crate) fn new() -> Self {
        let forget = async_channel::bounded(limits::SEARCH_FORGET_QUEUE_MAX);
        Self { readers: Mutex::default(), forget, progress: watch::Sender::new(0), asked: watch::Sender::new(0) }
    }

    pub(super) fn readers(&self) -> Option<Arc<Readers>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens or closes the index for searches.
    pub(super) fn set(&self, readers: Option<Readers>) {
        *self.readers.lock().unwrap_or_else(PoisonError::into_inner) = readers.map(Arc::new);
    }

    /// Ends all searches.
    pub(crate) fn close(&self) {
        if let Some(readers) = self.readers() {
            readers.close();
        }
        self.set(None);
    }
}
