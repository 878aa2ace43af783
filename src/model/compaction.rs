//! Reductions and the jobs that carry them out.

use super::Revision;
use super::ids::{CompactionId, MessageId, SessionId};
use super::summary_request::SummaryRequest;
use super::time::Timestamp;
use super::usage::Usage;
use uuid::Uuid;

/// What a reduction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CompactionKind {
    /// Shortens old tool outputs, without a model.
    Prune,
    /// Cuts and leaves out messages until the rest fits, without a model.
    Omission,
    /// Puts a summary in place of an old range.
    Summary,
}

/// A rung of the ladder of thresholds, or how thorough a reduction by hand is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Level {
    /// Without a model: old outputs are cleared.
    Micro,
    /// The ordinary summary.
    #[default]
    Auto,
    /// The thorough one.
    Deep,
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

/// Who asked for a reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trigger {
    /// Token usage crossed the policy's threshold.
    Threshold,
    /// The policy prunes whenever it pays, whatever the usage.
    Routine,
    /// Somebody asked by hand.
    Manual,
    /// A client brought the summary along (an import, a hook).
    Supplied,
    /// A provider refused the view because it was too large.
    Overflow,
    /// The view exceeded its window, and the policy's own steps did not help: the last resort.
    Window,
}

impl Trigger {
    /// The trigger's name, as hooks are told.
    pub fn name(self) -> &'static str {
        match self {
            Self::Threshold => "threshold",
            Self::Routine => "routine",
            Self::Manual => "manual",
            Self::Supplied => "supplied",
            Self::Overflow => "overflow",
            Self::Window => "window",
        }
    }
}

/// Where a reduction stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompactionState {
    /// Waiting for a worker, or for its next attempt.
    Ready,
    /// A worker is at it.
    Running,
    /// It is in force, or was until undone.
    Done,
    /// It ended without effect; the failure says why.
    Failed,
    /// Somebody stopped it.
    Cancelled,
    /// History changed under it, and its result no longer fits.
    Superseded,
    /// It was tried as often as is allowed.
    Dead,
}

impl CompactionState {
    /// Whether it may still change the view.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Ready | Self::Running)
    }
}

/// What somebody who asks for a reduction can say.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionRequest {
    /// What to do.
    pub kind: CompactionKind,
    /// Who asks.
    pub trigger: Trigger,
    /// Which rung of the ladder; none for the routine.
    pub level: Option<Level>,
    /// Added to the summarizer's instructions; empty for none.
    pub instructions: String,
    /// What people are told of it; empty for nothing.
    pub notice: String,
    /// What a summary by hand covers, where somebody says so.
    pub bounds: Bounds,
}

impl CompactionRequest {
    /// A request without instructions, notice and bounds.
    pub fn new(kind: CompactionKind, trigger: Trigger, level: Option<Level>) -> Self {
        let (instructions, notice) = (String::new(), String::new());
        Self { kind, trigger, level, instructions, notice, bounds: Bounds::default() }
    }
}

/// The part of a view that a summary by hand is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// The first place of it: what the view shows in front of that stays verbatim, in front of the summary; none for the
    /// beginning of the view.
    pub head_start: Option<Revision>,
    /// The first place behind it, which is kept verbatim with all that follows; none for the policy's choice.
    pub tail_start: Option<Revision>,
}

impl Bounds {
    /// Whether the policy chooses.
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
    /// Whether the range holds `revision`.
    pub fn contains(&self, revision: Revision) -> bool {
        self.first <= revision && revision <= self.last
    }

    /// Whether the two ranges share a revision.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// What a reduction did, in numbers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// The messages that the summary stands for.
    pub covered: Vec<RevisionRange>,
    /// How many messages that is.
    pub covered_count: i64,
    /// The first message kept verbatim beside the summary, if any is.
    pub tail_start: Option<MessageId>,
    /// The summary.
    pub summary_message: Option<MessageId>,
    /// Parts that were shortened.
    pub pruned_count: i64,
    /// Messages that were left out.
    pub omitted_count: i64,
    /// Tokens of the view before, by the policy's estimate.
    pub tokens_before: i64,
    /// Tokens of the view after, by the same estimate.
    pub tokens_after: i64,
    /// Context usage before, where reported usage was valid.
    pub usage_before: Option<i64>,
    /// Tokens of every request that no view shows, as far as usage and the window told before: they stay, whatever a
    /// compaction takes away.
    pub overhead_tokens: i64,
    /// Index of the first view message that changed: what stood before it is still in a provider's cache.
    pub first_changed_index: i64,
    /// Tokens of the view before from that message on, by the policy's estimate: what a provider's cache held of it for
    /// nothing.
    pub invalidated_tokens: i64,
    /// Who wrote the summary, such as `extractive`.
    pub summarizer: String,
    /// What the summary cost.
    pub usage: Option<Usage>,
    /// Whether a client brought the summary along, instead of a summarizer that was asked.
    pub supplied: bool,
    /// From first claim to commit, in milliseconds.
    pub duration_ms: i64,
    /// Why automatic reductions stop for a while after this one, which made no progress; none where they go on.
    pub stopped: Option<Failure>,
    /// Claims of the summary that the history contradicts; empty in rows of before anybody looked.
    pub contradictions: Vec<Contradiction>,
}

impl Outcome {
    /// Whether its summary is a client's own. Before outcomes said so, only a reduction that was itself supplied had
    /// one.
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
    /// The state of things by the history, on one line.
    pub history: String,
    /// The message that shows it, if there is one.
    pub message: Option<MessageId>,
}

/// The subject of a claim that the history contradicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContradictionKind {
    /// A check is said to pass that failed when it ran last.
    Check,
    /// A commit is named that is nowhere in the history.
    Commit,
    /// A file is said to be there that is not.
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

/// The reason for which a compaction ended without effect, or automatic ones stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureReason {
    /// Somebody cancelled it.
    Requested,
    /// The session was archived.
    SessionArchived,
    /// Another change of the view overtook it.
    Superseded,
    /// There was nothing to take away.
    NothingToCompact,
    /// It would free too little.
    NoGain,
    /// What no compaction takes away fills the window.
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
    /// The summary is not what was asked for.
    SummaryIsNone,
    /// The output limit cut the summary off.
    SummaryCutOff,
    /// The model called a tool instead of writing a summary.
    SummaryCallsTools,
    /// The model did not end the summary.
    SummaryIncomplete,
    /// The model declined to write the summary.
    SummaryDeclined,
    /// The summary says too little of what it covers.
    SummaryWithoutSubstance,
    /// The daemon was stopped while it ran.
    DaemonStopped,
    /// The daemon or its worker ended while it ran.
    WorkerLost,
    /// The daemon or its worker ended several times while it ran.
    Poison,
    /// The store refused what it needed.
    Store,
}

impl FailureReason {
    /// All of them.
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
        Self::SummaryCutOff,
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
            Self::SummaryCutOff => "SUMMARY_CUT_OFF",
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

/// The end of a compaction without effect, for programs and for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The reason.
    pub reason: FailureReason,
    /// A sentence fragment.
    pub message: String,
    /// Where what no compaction takes away fills the window: its tokens.
    pub overhead_tokens: Option<i64>,
}

impl Failure {
    /// A failure that says no more than its reason.
    pub fn new(reason: FailureReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), overhead_tokens: None }
    }
}

/// A reduction from request to end.
#[derive(Debug, Clone, PartialEq)]
pub struct Compaction {
    /// The server's id.
    pub id: CompactionId,
    /// The session it reduces.
    pub session_id: SessionId,
    /// What was asked.
    pub request: CompactionRequest,
    /// Where it stands.
    pub state: CompactionState,
    /// The revision whose view it works on; none before the first claim.
    pub base_revision: Option<Revision>,
    /// Tokens of a request with the view when it was asked for.
    pub tokens_at_request: i64,
    /// The model window it was judged by, in tokens.
    pub window_tokens: i64,
    /// How many attempts began.
    pub attempt: i64,
    /// What it did, once done.
    pub outcome: Option<Outcome>,
    /// Until when somebody may agree or refuse, while it waits for that.
    pub proposed_until: Option<Timestamp>,
    /// Why it did not, once failed, cancelled or superseded.
    pub failure: Option<Failure>,
    /// The revision of the event that told how it ended; none for one that never began.
    pub end_revision: Option<Revision>,
    /// The revision at which it was undone, if it was.
    pub undone_revision: Option<Revision>,
    /// The requests to models that were made for it, in the order in which they ended.
    pub requests: Vec<SummaryRequest>,
    /// Who asked: the caller's name for itself, or empty.
    pub actor: String,
    /// When it was asked for.
    pub create_time: Timestamp,
    /// When it ended.
    pub end_time: Option<Timestamp>,
}

impl Compaction {
    /// A compaction that ended at once, at a revision and a time: in a simulation, where no worker claims it.
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
