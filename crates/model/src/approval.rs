//! Approvals: questions of agents that any client answers, once.

use super::Revision;
use super::ids::{ApprovalId, SessionId};
use super::run::Epoch;
use super::time::Timestamp;

/// A question of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Approval {
    /// Its id.
    pub id: ApprovalId,
    /// Its session.
    pub session_id: SessionId,
    /// The run that asks; none if it was asked without one.
    pub epoch: Option<Epoch>,
    /// The agent that asks, by its name for itself; may be empty.
    pub actor: String,
    /// The question.
    pub question: Question,
    /// The time at which it was asked.
    pub create_time: Timestamp,
    /// The revision at which it was asked.
    pub request_revision: Revision,
    /// The time at which the default holds; none without a time limit, or once it has ended.
    pub expire_time: Option<Timestamp>,
    /// Its end; none while it waits.
    pub end: Option<ApprovalEnd>,
}

/// The content of a question.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Question {
    /// The text for people.
    pub text: String,
    /// The tool whose use needs the approval; empty for a question of another kind.
    pub tool: String,
    /// The id of the tool call; empty for none.
    pub call_id: String,
    /// The tool's input as JSON, or whatever the answer depends on.
    pub input_json: Option<String>,
    /// The choices; may be empty if free text is accepted.
    pub choices: Vec<Choice>,
    /// True if the answer may have a text.
    pub accepts_text: bool,
    /// The choice that holds if nobody answers in time.
    pub default_choice: Option<String>,
    /// Milliseconds until the default holds; none for no limit.
    pub timeout_ms: Option<i64>,
}

/// One of the answers to choose from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Its id, unique in the question.
    pub id: String,
    /// The text for people; empty for the id.
    pub label: String,
}

/// The end of a question's wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalEnd {
    /// How it ended.
    pub reason: ApprovalEndReason,
    /// The answer; the default if nobody answered in time.
    pub answer: Answer,
    /// Who answered or withdrew it, by its name for itself; empty for the daemon.
    pub actor: String,
    /// The revision of the end.
    pub revision: Revision,
    /// The time of the end.
    pub time: Timestamp,
}

/// How a question's wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalEndReason {
    /// A client answered.
    Answered,
    /// Nobody answered in time, and the default holds.
    Expired,
    /// The agent, or the end of its run, withdrew the question.
    Withdrawn,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// The chosen one; none for free text alone.
    pub choice: Option<String>,
    /// The text; empty for none.
    pub text: String,
}
