//! Upkeep: checks, backups and figures of the whole store.

use super::engine::connect;
use super::engine::figures::Figures;
use super::engine::health::Checkpoints;
use super::error::Result;
use super::integrity::copies::{CheckedCopy, OnProgress};
use super::integrity::log_check::Finding;
use super::integrity::scrub_state::ScrubState;
use super::integrity::verify::{self, CheckedChains};
use super::ledger::head::SessionKey;
use super::ledger::spending::{self, SummarizerSpending};
use super::ledger::statistics::{self, Statistics};
use super::shared::StoreParts;
use crate::clock::Clock;
use crate::limits;
use crate::model::time::Timestamp;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

pub(super) mod backup;
pub(super) mod scrub;

pub use scrub::ScrubOptions;

/// Upkeep: checks, backups and figures of the whole store.
#[derive(Clone)]
pub struct Upkeep(pub(super) Arc<StoreParts>);

impl Upkeep {
    /// Checks one session's chain, or all chains and the log, against the rows; findings are sent to `found` as they
    /// occur.
    pub async fn verify(&self, session: Option<SessionKey>, found: mpsc::Sender<Finding>) -> Result<CheckedChains> {
        verify::run(&self.0.readers, session.map(|session| session.0), &found, &|_| {}).await
    }

    /// Statistics of the compactions in the whole store, as of an instant.
    pub async fn statistics(&self, now: Timestamp) -> Result<Statistics> {
        self.0.reading(|reader| statistics::statistics(reader, now)).await
    }

    /// Usage and cost of requests to models, by summarizer and model.
    pub async fn spent(&self) -> Result<Vec<SummarizerSpending>> {
        self.0.reading(spending::spent).await
    }

    /// Makes a backup in a new file, and verifies it. The path must be absolute and its directory must exist. Nothing
    /// remains of a backup that fails or whose future is dropped.
    pub async fn back_up(&self, path: &Path, progress: OnProgress<'_>) -> Result<CheckedCopy> {
        backup::back_up(&self.0, path, limits::BACKUP_LOG_BYTES_MAX, progress).await
    }

    /// The state of the scrub, current and future.
    pub fn scrub_state(&self) -> watch::Receiver<ScrubState> {
        self.0.scrub.state.subscribe()
    }

    /// Begins a pass of the scrub now, unless one runs.
    pub fn request_scrub(&self) {
        self.0.scrub.requested.notify_one();
    }

    /// Verifies the store, pass after pass, until the daemon stops.
    pub async fn scrub(self, options: ScrubOptions, clock: Clock, stopping: CancellationToken) {
        scrub::run(self.0, options, clock, stopping).await;
    }

    /// The database with its version, such as `SQLite 3.51.3`.
    pub async fn database_version(&self) -> Result<String> {
        self.0.reading(|reader| connect::version(reader.conn)).await
    }

    /// Rows that reads have fetched since the store was opened.
    pub fn rows_read(&self) -> u64 {
        self.0.readers.rows_read()
    }

    /// Statements that reads have run since the store was opened.
    pub fn statements_run(&self) -> u64 {
        self.0.readers.statements_run()
    }

    /// Bytes of the database and its log on disk.
    pub async fn bytes_on_disk(&self) -> Result<i64> {
        match self.0.engine.file_bytes() {
            Some(bytes) => Ok(bytes),
            None => self.0.reading(|reader| connect::used_bytes(reader.conn)).await,
        }
    }

    /// Figures of the writer, the readers and the log.
    pub fn figures(&self) -> Figures {
        let meter = self.0.writer.meter();
        Figures {
            queued_mutations: meter.queued(),
            commits: meter.commits(),
            log_bytes: self.0.engine.log_bytes(),
            oldest_read_ms: self.0.readers.oldest_read_ms(),
        }
    }

    /// The state of the checkpoints, which copy the write-ahead log into the database.
    pub fn checkpoints(&self) -> Checkpoints {
        self.0.health.checkpoints()
    }
}
