//! The health of the store: the state of writes and of checkpoints.

use crate::error::{Error, Result};
use crate::write_state::WriteState;
use std::sync::{Mutex, PoisonError};
use tokio::sync::watch;

/// The state of checkpoints, which copy the write-ahead log into the database.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checkpoints {
    /// Bytes of the log that were not in the database at the last evaluation.
    pub pending_bytes: i64,
    /// Checkpoints in a row that failed.
    pub failures: i64,
    /// The error of the last checkpoint; empty if it succeeded.
    pub failure: String,
}

/// The writer's health, which all readers may read.
pub struct Health {
    writes: watch::Sender<WriteState>,
    checkpoints: Mutex<Checkpoints>,
}

impl Default for Health {
    /// Writes are accepted, and no checkpoint was made.
    fn default() -> Self {
        Self { writes: watch::Sender::new(WriteState::Accepted), checkpoints: Mutex::default() }
    }
}

impl Health {
    /// The state of writes.
    pub fn writes(&self) -> WriteState {
        *self.writes.borrow()
    }

    /// Watches the state of writes.
    pub fn watch(&self) -> watch::Receiver<WriteState> {
        self.writes.subscribe()
    }

    /// An error if writes have stopped for good.
    pub fn check(&self) -> Result<()> {
        let state = self.writes();
        if state.is_final() { Err(Error::Stopped(state)) } else { Ok(()) }
    }

    /// Records the state after the last write. A final state stays.
    pub fn set(&self, state: WriteState) {
        let changed = self.writes.send_if_modified(|now| {
            let changes = *now != state && !now.is_final();
            if changes {
                *now = state;
            }
            changes
        });
        match (changed, state) {
            (false, _) => {}
            (true, WriteState::Accepted) => tracing::info!("writes are taken again"),
            (true, WriteState::StorageFull | WriteState::StorageReadOnly) => {
                tracing::warn!(state = state.as_str(), "a write was refused: {state}");
            }
            (true, WriteState::DiskFailed | WriteState::FilesReplaced | WriteState::LeaseLost) => {
                tracing::error!(
                    state = state.as_str(),
                    "no write is acknowledged until the daemon starts again: {state}"
                );
            }
        }
    }

    /// The state of checkpoints.
    pub fn checkpoints(&self) -> Checkpoints {
        self.checkpoints.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the state of checkpoints, and returns the previous one.
    pub fn note_checkpoint(&self, change: impl FnOnce(&mut Checkpoints)) -> Checkpoints {
        let mut checkpoints = self.checkpoints.lock().unwrap_or_else(PoisonError::into_inner);
        let before = checkpoints.clone();
        change(&mut checkpoints);
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_stopped_stays_stopped() {
        let health = Health::default();
        for (state, expected) in [
            (WriteState::StorageFull, WriteState::StorageFull),
            (WriteState::Accepted, WriteState::Accepted),
            (WriteState::DiskFailed, WriteState::DiskFailed),
            (WriteState::Accepted, WriteState::DiskFailed),
            (WriteState::FilesReplaced, WriteState::DiskFailed),
        ] {
            health.set(state);
            assert_eq!(health.writes(), expected);
            assert_eq!(health.check().is_err(), expected.is_final());
        }
    }
}
