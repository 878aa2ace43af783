//! Runs: the right of one agent to answer a session's next prompt.

use super::Revision;
use super::ids::{ApprovalId, CompactionId, RunId, SessionId};
use super::time::Timestamp;

/// A number that fences the writes of a run: it rises with every run of its session, from 1.
pub type Epoch = i64;

/// One agent's execution of a turn. A session has at most one that is active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// Its session.
    pub session_id: SessionId,
    /// Its number in the session.
    pub epoch: Epoch,
    /// The agent that holds it, by its name for itself; may be empty.
    pub actor: String,
    /// The end of its lease, unless it is renewed; none once it has ended.
    pub lease_end_time: Option<Timestamp>,
    /// The revision at which it began.
    pub start_revision: Revision,
    /// The time at which it began.
    pub start_time: Timestamp,
    /// The revision at which somebody asked it to stop.
    pub cancel_revision: Option<Revision>,
    /// Its end; none while it is active.
    pub end: Option<RunEnded>,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnded {
    /// How it ended.
    pub reason: RunEndReason,
    /// The agent's words about a failure; empty for none.
    pub failure: String,
    /// The revision at which it ended.
    pub revision: Revision,
    /// The time at which it ended.
    pub time: Timestamp,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEndReason {
    /// Its agent released it.
    Completed,
    /// Its agent released it and said that it failed.
    Failed,
    /// Somebody stopped it, or its session was archived.
    Cancelled,
    /// Its lease ran out.
    Lost,
}

/// What happens in a session, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// No run is active, and the last one did not fail.
    Idle,
    /// A run is active.
    Running,
    /// A run is active, and a compaction waits or is made.
    Compacting,
    /// A run is active, and waits for the answer to an approval.
    WaitingForApproval,
    /// No run is active, and the last one failed or was lost.
    Failed,
}

/// A session's newest run, with what it waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRun {
    /// The session.
    pub session_id: SessionId,
    /// The newest run; none if there was none yet.
    pub run: Option<Run>,
    /// The compaction that waits or is made.
    pub compaction: Option<CompactionId>,
    /// The approvals that wait for an answer, oldest first.
    pub approvals: Vec<ApprovalId>,
    /// The number of prompts that wait.
    pub queued_prompts: i64,
}

impl SessionRun {
    /// What happens in the session.
    pub fn activity(&self) -> Activity {
        match &self.run {
            None => Activity::Idle,
            Some(Run { end: None, .. }) if !self.approvals.is_empty() => Activity::WaitingForApproval,
            Some(Run { end: None, .. }) if self.compaction.is_some() => Activity::Compacting,
            Some(Run { end: None, .. }) => Activity::Running,
            Some(Run { end: Some(end), .. }) => match end.reason {
                RunEndReason::Completed | RunEndReason::Cancelled => Activity::Idle,
                RunEndReason::Failed | RunEndReason::Lost => Activity::Failed,
            },
        }
    }
}
