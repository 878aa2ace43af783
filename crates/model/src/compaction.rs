//! Compactions and the jobs that execute them.

use super::Revision;
use super::ids::{CompactionId, MessageId, SessionId};
use super::summary_request::SummaryRequest;
use super::time::Timestamp;
use super::usage::Usage;
use std::fmt;
use uuid::Uuid;

/// The kind of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CompactionKind {
    /// Shortens old tool outputs, without a model.
    Prune,
    /// Truncates and omits messages until the rest fits, without a model.
    Omission,
    /// Puts a summary in place of an old range.
    Summary,
}

/// A level of the policy's thresholds, or the thoroughness of a compaction by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Level {
    /// Clears old outputs, without a model.
    Micro,
    /// The ordinary summary.
    #[default]
    Auto,
    /// The thorough summary.
    Deep,
}

/// The threshold of a level under a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelThreshold {
    /// The level.
    pub level: Level,
    /// The smallest number of tokens at which it is due.
    pub due_tokens: i64,
    /// The reason for which the window is too small for it; none if it is not.
    pub unmet: Option<UnmetLevel>,
}

/// A level that a window is too small for: its compactions would come at once, or keep as much as there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnmetLevel {
    /// The level.
    pub level: Level,
    /// The tokens at which it is due.
    pub due_tokens: i64,
    /// The tokens that its compactions keep, as far as the policy has a number for it.
    pub kept_tokens: i64,
    /// The context of the window.
    pub window_tokens: i64,
}

impl fmt::Display for UnmetLevel {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { level, due_tokens, kept_tokens, window_tokens } = self;
        let level = level.name();
        write!(out, "level {level} is due at {due_tokens} of the window's {window_tokens} tokens")?;
        match kept_tokens >= due_tokens {
            true => write!(out, ", and its compactions keep {kept_tokens} of them"),
            false => write!(out, ", because the policy reserves the rest"),
        }
    }
}

impl Level {
    /// The level's name, as policies, the protocol and the command line spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Micro => "micro",
            Self::Auto => "auto",
            Self::Deep => "deep",
        }
    }
}

/// The origin of a compaction request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trigger {
    /// Token usage crossed the policy's threshold.
    Threshold,
    /// Maintenance: the policy prunes whenever it pays, whatever the usage.
    Maintenance,
    /// A request by hand.
    Manual,
    /// A client supplied the summary (an import, a hook).
    Supplied,
    /// A provider refused the view because it was too large.
    Overflow,
    /// The view exceeded its window, and the policy's own steps did not help: the last resort.
    LastResort,
}

impl Trigger {
    /// The trigger's name, as hooks receive it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Threshold => "threshold",
            Self::Maintenance => "maintenance",
            Self::Manual => "manual",
            Self::Supplied => "supplied",
            Self::Overflow => "overflow",
            Self::LastResort => "last_resort",
        }
    }
}

/// The state of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompactionState {
    /// Waiting for a worker, or for its next attempt.
    Ready,
    /// A worker is executing it.
    Running,
    /// It is active, or was until undone.
    Done,
    /// It ended without effect; the failure has the reason.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// History changed during the compaction, and its result no longer applies.
    Superseded,
    /// It reached the maximum number of attempts.
    Dead,
}

impl CompactionState {
    /// True if it may still change the view.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Ready | Self::Running)
    }
}

/// The parameters of a compaction request.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionRequest {
    /// The kind of compaction.
    pub kind: CompactionKind,
    /// The origin of the request.
    pub trigger: Trigger,
    /// The policy's level; none for maintenance.
    pub level: Option<Level>,
    /// Added to the summarizer's instructions; empty for none.
    pub instructions: String,
    /// The message text for people; empty for none.
    pub notice: String,
    /// The range that a summary by hand covers, if the request sets it.
    pub bounds: Bounds,
}

impl CompactionRequest {
    /// A request without instructions, notice and bounds.
    pub fn new(kind: CompactionKind, trigger: Trigger, level: Option<Level>) -> Self {
        let (instructions, notice) = (String::new(), String::new());
        Self { kind, trigger, level, instructions, notice, bounds: Bounds::default() }
    }
}

/// The range of a view that a summary by hand covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// Its first position. Messages that the view shows before it stay verbatim, before the summary. None for the
    /// beginning of the view.
    pub head_start: Option<Revision>,
    /// The first position after it; that message and all after it are kept verbatim. None for the policy's choice.
    pub tail_start: Option<Revision>,
}

impl Bounds {
    /// True if neither bound is set and the policy chooses the range.
    pub fn is_open(self) -> bool {
        self == Self::default()
    }
}

/// An inclusive range of revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RevisionRange {
    /// First revision in the range.
    pub first: Revision,
    /// Last revision in the range.
    pub last: Revision,
}

impl RevisionRange {
    /// True if the range contains `revision`.
    pub fn contains(&self, revision: Revision) -> bool {
        self.first <= revision && revision <= self.last
    }

    /// True if the two ranges share a revision.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// The result of a compaction, in numbers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// The messages that the summary covers.
    pub covered: Vec<RevisionRange>,
    /// The number of these messages.
    pub covered_count: i64,
    /// The first message kept verbatim beside the summary, if any is.
    pub tail_start: Option<MessageId>,
    /// The summary.
    pub summary_message: Option<MessageId>,
    /// Parts that were shortened.
    pub pruned_count: i64,
    /// The number of omitted messages.
    pub omitted_count: i64,
    /// Tokens of the view before, by the policy's estimate.
    pub tokens_before: i64,
    /// Tokens of the view after, by the same estimate.
    pub tokens_after: i64,
    /// Context usage before, if reported usage was valid.
    pub usage_before: Option<i64>,
    /// Tokens of every request that no view contains, as usage and the window showed before the compaction. No
    /// compaction removes them.
    pub overhead_tokens: i64,
    /// Index of the first view message that changed. The messages before it remain valid in a provider's cache.
    pub first_changed_index: i64,
    /// Tokens of the previous view from that message on, by the policy's estimate: the part that a provider's cache
    /// loses.
    pub invalidated_tokens: i64,
    /// The author of the summary, such as `extractive`.
    pub summarizer: String,
    /// The token usage and cost of the summary.
    pub usage: Option<Usage>,
    /// True if a client supplied the summary, false if a summarizer was asked.
    pub supplied: bool,
    /// The time from first claim to commit, in milliseconds.
    pub duration_ms: i64,
    /// The reason for which automatic compactions stop for a while after this one, which made no progress; none if they
    /// go on.
    pub stopped: Option<Failure>,
    /// Claims of the summary that the history contradicts; empty in rows older than this check.
    pub contradictions: Vec<Contradiction>,
    /// The last revision of the messages behind the covered ones that it may quote; none if it quotes none of them.
    pub quoted_until: Option<Revision>,
}

impl Outcome {
    /// True if its summary is a client's own. In older outcomes, which lack `supplied`, only compactions with the
    /// trigger `Supplied` had such a summary.
    pub fn is_supplied(&self, trigger: Trigger) -> bool {
        self.supplied || trigger == Trigger::Supplied
    }
}

/// A claim of a summary that the history contradicts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contradiction {
    /// Its subject.
    pub kind: ContradictionKind,
    /// The sentence of the summary, shortened.
    pub claim: String,
    /// The actual state according to the history, on one line.
    pub history: String,
    /// The message that is the evidence, if there is one.
    pub message: Option<MessageId>,
}

/// The subject of a claim that the history contradicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContradictionKind {
    /// The summary claims that a check passes, but its last run failed.
    Check,
    /// The summary names a commit that does not occur in the history.
    Commit,
    /// The summary claims that a file exists that does not.
    File,
}

impl ContradictionKind {
    /// The name for people and programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Commit => "commit",
            Self::File => "file",
        }
    }
}

/// The reason for which a compaction ended without effect, or automatic compactions stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureReason {
    /// It was cancelled by request.
    Requested,
    /// The session was archived.
    SessionArchived,
    /// Another change of the view superseded it.
    Superseded,
    /// There was nothing to compact.
    NothingToCompact,
    /// It would free too little.
    NoGain,
    /// Overhead that no compaction removes fills the window.
    FixedOverhead,
    /// Automatic compactions stop after several in a row without progress.
    BreakerOpen,
    /// The view was compacted for this request before, and is still too large for its provider.
    OverflowAgain,
    /// The operator's program refused it.
    HookRefused,
    /// The operator's program failed, and the configuration requires it.
    HookFailed,
    /// The summarizer cannot be reached, or asks to wait.
    SummarizerUnavailable,
    /// The summarizer failed for good.
    SummarizerFailed,
    /// The summarizer took too long.
    SummarizerTimeout,
    /// The summary is empty.
    SummaryEmpty,
    /// The text is not a summary of the requested form.
    SummaryIsNone,
    /// The output limit truncated the summary.
    SummaryTruncated,
    /// The model called a tool instead of writing a summary.
    SummaryCallsTools,
    /// The model did not end the summary.
    SummaryIncomplete,
    /// The model declined to write the summary.
    SummaryDeclined,
    /// The summary contains too little of the content that it covers.
    SummaryWithoutSubstance,
    /// The daemon was stopped while it ran.
    DaemonStopped,
    /// The daemon or its worker ended while it ran.
    WorkerLost,
    /// The daemon or its worker ended several times while it ran.
    Poison,
    /// The store refused a read or write that it needed.
    Store,
}

impl FailureReason {
    /// All reasons.
    pub const ALL: [Self; 24] = [
        Self::Requested,
        Self::SessionArchived,
        Self::Superseded,
        Self::NothingToCompact,
        Self::NoGain,
        Self::FixedOverhead,
        Self::BreakerOpen,
        Self::OverflowAgain,
        Self::HookRefused,
        Self::HookFailed,
        Self::SummarizerUnavailable,
        Self::SummarizerFailed,
        Self::SummarizerTimeout,
        Self::SummaryEmpty,
        Self::SummaryIsNone,
        Self::SummaryTruncated,
        Self::SummaryCallsTools,
        Self::SummaryIncomplete,
        Self::SummaryDeclined,
        Self::SummaryWithoutSubstance,
        Self::DaemonStopped,
        Self::WorkerLost,
        Self::Poison,
        Self::Store,
    ];

    /// Its stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "REQUESTED",
            Self::SessionArchived => "SESSION_ARCHIVED",
            Self::Superseded => "SUPERSEDED",
            Self::NothingToCompact => "NOTHING_TO_COMPACT",
            Self::NoGain => "NO_GAIN",
            Self::FixedOverhead => "FIXED_OVERHEAD",
            Self::BreakerOpen => "BREAKER_OPEN",
            Self::OverflowAgain => "OVERFLOW_AGAIN",
            Self::HookRefused => "HOOK_REFUSED",
            Self::HookFailed => "HOOK_FAILED",
            Self::SummarizerUnavailable => "SUMMARIZER_UNAVAILABLE",
            Self::SummarizerFailed => "SUMMARIZER_FAILED",
            Self::SummarizerTimeout => "SUMMARIZER_TIMEOUT",
            Self::SummaryEmpty => "SUMMARY_EMPTY",
            Self::SummaryIsNone => "SUMMARY_IS_NONE",
            Self::SummaryTruncated => "SUMMARY_TRUNCATED",
            Self::SummaryCallsTools => "SUMMARY_CALLS_TOOLS",
            Self::SummaryIncomplete => "SUMMARY_INCOMPLETE",
            Self::SummaryDeclined => "SUMMARY_DECLINED",
            Self::SummaryWithoutSubstance => "SUMMARY_WITHOUT_SUBSTANCE",
            Self::DaemonStopped => "DAEMON_STOPPED",
            Self::WorkerLost => "WORKER_LOST",
            Self::Poison => "POISON",
            Self::Store => "STORE",
        }
    }

    /// The reason with a name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == name)
    }
}

impl std::fmt::Display for FailureReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The failure of a compaction, for programs and for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The reason.
    pub reason: FailureReason,
    /// A sentence fragment.
    pub message: String,
    /// Tokens of the overhead that no compaction removes; set if it fills the window.
    pub overhead_tokens: Option<i64>,
}

impl Failure {
    /// A failure with nothing but its reason and message.
    pub fn new(reason: FailureReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), overhead_tokens: None }
    }
}

/// A compaction from request to end.
#[derive(Debug, Clone, PartialEq)]
pub struct Compaction {
    /// The server's id.
    pub id: CompactionId,
    /// The session that it compacts.
    pub session_id: SessionId,
    /// The request.
    pub request: CompactionRequest,
    /// Its state.
    pub state: CompactionState,
    /// The revision whose view it works on; none before the first claim.
    pub base_revision: Option<Revision>,
    /// Tokens of a request with the view when the compaction was requested.
    pub tokens_at_request: i64,
    /// The model window that these tokens are compared with, in tokens.
    pub window_tokens: i64,
    /// The number of attempts that began.
    pub attempt: i64,
    /// The result, once done.
    pub outcome: Option<Outcome>,
    /// The end of the time to agree or refuse, while it waits for an answer.
    pub proposed_until: Option<Timestamp>,
    /// The time of its next attempt, while it waits for one after an attempt that failed.
    pub next_attempt_time: Option<Timestamp>,
    /// The reason, once failed, cancelled or superseded.
    pub failure: Option<Failure>,
    /// The revision of its terminal event; none if it never began.
    pub end_revision: Option<Revision>,
    /// The revision at which it was undone, if it was.
    pub undone_revision: Option<Revision>,
    /// The requests to models for it, in the order in which they ended.
    pub requests: Vec<SummaryRequest>,
    /// The actor of the request: the caller's name for itself, or empty.
    pub actor: String,
    /// The time of the request.
    pub create_time: Timestamp,
    /// The time at which it ended.
    pub end_time: Option<Timestamp>,
}

impl Compaction {
    /// A compaction that ended at once at the given revision and time, for simulations, which have no workers.
    pub fn ended(
        id: CompactionId,
        request: CompactionRequest,
        window_tokens: i64,
        end: Result<Outcome, Failure>,
        revision: Revision,
        time: Timestamp,
    ) -> Self {
        let (state, outcome, failure) = match end {
            Ok(outcome) => (CompactionState::Done, Some(outcome), None),
            Err(failure) => (CompactionState::Failed, None, Some(failure)),
        };
        Self {
            id,
            session_id: SessionId(Uuid::nil()),
            request,
            state,
            base_revision: None,
            tokens_at_request: 0,
            window_tokens,
            attempt: 1,
            outcome,
            proposed_until: None,
            next_attempt_time: None,
            failure,
            end_revision: Some(revision),
            undone_revision: None,
            requests: Vec::new(),
            actor: String::new(),
            create_time: time,
            end_time: Some(time),
        }
    }
}
