//! Checkpoints, which copy the write-ahead log into the database. SQLite's own checkpoints run within a commit and hide
//! their failures.

use super::connection::Connection;
use super::health::Health;
use super::sqlite::PAGE_BYTES;
use super::statement;
use crate::error::{Error, Result};
use crate::limits;
use crate::telemetry::failpoint;
use crate::write_state::WriteState;
use std::time::Duration;

/// Returns the number of frames in the log, and of those that are in the database; changes nothing.
const COUNT_FRAMES: &str = "pragma wal_checkpoint(noop)";
/// Copies frames into the database as far as no reader still needs the pages that they replace. It waits for no reader.
const FOLD: &str = "pragma wal_checkpoint(passive)";
/// Copies all frames into the database, and truncates the log.
const EMPTY: &str = "pragma wal_checkpoint(truncate)";

/// The growth of the log since its last evaluation.
#[derive(Debug, Default)]
pub struct Schedule {
    batches: usize,
    bytes: usize,
}

impl Schedule {
    /// Records a committed batch with the bytes of its content.
    pub fn note(&mut self, bytes: usize) {
        self.batches += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn is_due(&self) -> bool {
        self.batches >= limits::CHECKPOINT_INTERVAL_BATCHES || self.bytes >= limits::CHECKPOINT_INTERVAL_BYTES
    }

    /// Makes a checkpoint if the log has grown enough, and records the result. `before` is called before it: behind it the log
    /// may begin anew. True if it was made, or as much of it as succeeded.
    pub fn run(&mut self, conn: &Connection, health: &Health, before: impl FnOnce()) -> bool {
        if !self.is_due() {
            return false;
        }
        *self = Self::default();
        let pending = match pending_bytes(conn, COUNT_FRAMES) {
            Ok(pending) if pending < limits::CHECKPOINT_BYTES_MIN => {
                health.note_checkpoint(|now| now.pending_bytes = pending);
                return false;
            }
            Ok(_) if failpoint::fails("checkpoint.refused") => Err(Error::Full),
            Ok(_) => {
                before();
                pending_bytes(conn, FOLD)
            }
            Err(error) => Err(error),
        };
        note(health, pending);
        true
    }
}

/// Copies all frames into the database, and empties the log, so that no file has anything that was deleted. False if a
/// reader still needs an earlier state; it waits for readers no longer than that takes.
pub fn empty_log(conn: &Connection, wait: Duration, wait_after: Duration) -> Result<bool> {
    conn.busy_timeout(wait)?;
    let emptied = statement::query(EMPTY).one(conn).and_then(|row| row.get::<i64>(0));
    conn.busy_timeout(wait_after)?;
    match emptied {
        Ok(busy) => Ok(busy == 0),
        Err(Error::Busy(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Bytes of the log that are not in the database, by the result of a checkpoint pragma.
fn pending_bytes(conn: &Connection, pragma: &'static str) -> Result<i64> {
    let row = statement::query(pragma).one(conn)?;
    let (busy, frames, folded): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
    if busy != 0 {
        return Err(Error::Busy("a reader needs the log of the database"));
    }
    Ok(frames.saturating_sub(folded).max(0).saturating_mul(PAGE_BYTES.into()))
}

fn note(health: &Health, outcome: Result<i64>) {
    match outcome {
        Ok(pending) => {
            let before = health.note_checkpoint(|now| {
                now.pending_bytes = pending;
                now.failures = 0;
                now.failure.clear();
            });
            if before.failures > 0 {
                tracing::info!(pending_bytes = pending, "the log is folded into the database again");
            }
            let is_behind = |bytes| bytes >= limits::CHECKPOINT_BEHIND_BYTES;
            if is_behind(pending) && !is_behind(before.pending_bytes) {
                tracing::warn!(pending_bytes = pending, "a reader keeps the log from being folded into the database");
            }
        }
        Err(error) => {
            let failure = match &error {
                Error::Busy(_) => "another program is making a checkpoint".to_owned(),
                error => error.to_string(),
            };
            let before = health.note_checkpoint(|now| {
                now.failures = now.failures.saturating_add(1);
                now.failure.clone_from(&failure);
            });
            // An attempt follows every few commits: a failure that lasts is not logged each time.
            let in_a_row = before.failures.saturating_add(1);
            if in_a_row.count_ones() == 1 {
                tracing::warn!(failure, in_a_row, "the log cannot be folded into the database");
            }
            if matches!(error, Error::Disk(_)) {
                // A later attempt could succeed although the system has dropped the data of this one.
                health.set(WriteState::DiskFailed);
            }
        }
    }
}
