//! The state of the scrub, and the requests for it.

use super::log_check::Finding;
use super::verify::CheckedChains;
use crate::model::time::Timestamp;
use std::sync::Arc;
use tokio::sync::{Notify, watch};

/// The state of the scrub.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScrubState {
    /// True while a pass runs.
    pub running: bool,
    /// Number of passes that began or went on since the daemon started.
    pub pass: i64,
    /// The begin of the current or the last pass; none before the first.
    pub start_time: Option<Timestamp>,
    /// The end of the last complete pass; none before the first.
    pub end_time: Option<Timestamp>,
    /// The extent of the current pass, or of the last one.
    pub checked: CheckedChains,
    /// Content that this pass has verified since the daemon started, in bytes.
    pub bytes: i64,
    /// Findings of the last complete pass.
    pub last_findings: i64,
    /// The first findings of this pass since the daemon started, up to `SCRUB_FINDINGS_MAX`.
    pub findings: Arc<Vec<Finding>>,
}

impl ScrubState {
    /// Findings of the last complete pass or of the current one, whichever has more: a pass that begins anew does not
    /// hide what the one before it found.
    pub fn finding_count(&self) -> i64 {
        self.checked.findings.max(self.last_findings)
    }
}

/// The state and the requests of the scrub.
pub(crate) struct Scrub {
    pub(crate) state: watch::Sender<ScrubState>,
    pub(crate) requested: Notify,
}

impl Scrub {
    /// A scrub that has not begun.
    pub(crate) fn new() -> Self {
        Self { state: watch::Sender::new(ScrubState::default()), requested: Notify::new() }
    }
}
