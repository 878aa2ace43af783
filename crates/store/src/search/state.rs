//! The open index, as searches and the one that fills it share it.

use crate::engine::readers::Readers;
use crate::model::Seq;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// The index, open or not, for those who search it.
pub(crate) struct SearchState {
    readers: Mutex<Option<Arc<Readers>>>,
    /// The newest event that is in the index.
    pub(super) progress: watch::Sender<Seq>,
    /// The newest event that a search waited for.
    pub(super) asked: watch::Sender<Seq>,
}

impl SearchState {
    pub(crate) fn new() -> Self {
        Self { readers: Mutex::default(), progress: watch::Sender::new(0), asked: watch::Sender::new(0) }
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
