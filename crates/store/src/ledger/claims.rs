//! The claims that workers hold on jobs.

use super::head::SessionKey;
use crate::model::Revision;
use crate::model::compaction::{CompactionRequest, RevisionRange};
use crate::model::ids::CompactionId;
use crate::model::time::Timestamp;
use crate::model::usage::ModelWindow;
use std::collections::HashMap;
use tokio_util::sync::CancellationToken;

/// A claim on a job. Its holder may commit the job's result, as long as no other worker claims the job.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The job's row.
    pub(crate) job: i64,
    /// The fencing token.
    pub epoch: i64,
    /// The compaction.
    pub compaction: CompactionId,
    /// The session.
    pub session: SessionKey,
    /// The request.
    pub request: CompactionRequest,
    /// The revision whose view is to be compacted.
    pub base: Revision,
    /// The number of this attempt, from 1.
    pub attempt: i64,
    /// The number of times that the job was lost before, see `AttemptEnd::Lost`.
    pub lost_attempts: i64,
    /// The window that the tokens are compared with.
    pub window: ModelWindow,
    /// Tokens of a request with the view when the compaction was requested.
    pub context_tokens: i64,
    /// True if the newest decision before the claim found the view over its window.
    pub(crate) was_over_window: bool,
    /// The time at which the first attempt began.
    pub start_time: Timestamp,
    /// Cancelled when another caller ends the job.
    pub(crate) ended: CancellationToken,
}

impl Claim {
    /// Waits until another caller ends the job, which makes further work on it useless.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// True if another caller has ended the job.
    pub fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }
}

/// The planned range of a summary in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedRange {
    /// All messages that the summary will cover.
    pub covered: Vec<RevisionRange>,
    /// The first message kept verbatim, by its position in the view.
    pub tail_start: Revision,
}

/// The claims that workers hold, by the job's row, at most one per worker. They are in memory only: after a restart no
/// worker holds a claim, and a worker with an unlisted claim finds out at its next heartbeat.
#[derive(Debug, Clone, Default)]
pub(crate) struct Claims {
    held: HashMap<i64, ActiveClaim>,
}

#[derive(Debug, Clone)]
struct ActiveClaim {
    ended: CancellationToken,
    planned: Option<PlannedRange>,
}

impl Claims {
    /// Lists a claim. Returns the token that is cancelled when another caller ends the job.
    pub(crate) fn add(&mut self, job: i64) -> CancellationToken {
        let ended = CancellationToken::new();
        self.held.insert(job, ActiveClaim { ended: ended.clone(), planned: None });
        ended
    }

    /// Removes a claim that its holder gives up, or that is released because its holder is gone.
    pub(crate) fn release(&mut self, job: i64) {
        self.held.remove(&job);
    }

    /// Removes a claim on a job that another caller ends. Returns the token that notifies the holder.
    pub(crate) fn interrupt(&mut self, job: i64) -> Option<CancellationToken> {
        self.held.remove(&job).map(|held| held.ended)
    }

    /// Records the range that the holder of a claim is about to have summarized.
    pub(crate) fn plan(&mut self, job: i64, planned: PlannedRange) {
        if let Some(held) = self.held.get_mut(&job) {
            held.planned = Some(planned);
        }
    }

    /// The range that the holder of a claim is about to have summarized; none if it has not recorded one.
    pub(crate) fn planned(&self, job: i64) -> Option<&PlannedRange> {
        self.held.get(&job)?.planned.as_ref()
    }
}
