//! Events: one per committed change.

use super::compaction::{CompactionKind, Failure, Level, Outcome, RevisionRange, Trigger};
use super::ids::{CompactionId, MessageId, PartId, SessionId};
use super::message::{FinishReason, MessageKind, Role};
use super::time::Timestamp;
use super::usage::{ModelWindow, Usage};
use super::{Revision, Seq};

/// One committed change.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The store's dense number, in commit order.
    pub seq: Seq,
    /// The session that changed.
    pub session_id: SessionId,
    /// The session's dense number.
    pub revision: Revision,
    /// Whether the mutation that made the event ends with it.
    pub ends_mutation: bool,
    /// When it was committed.
    pub time: Timestamp,
    /// Who did it: the caller's name for itself, or empty.
    pub actor: String,
    /// The request that did it, or empty.
    pub request_id: String,
    /// What changed.
    pub body: EventBody,
    /// The hash that the event adds to the session's chain.
    pub hash: [u8; 32],
}

/// What changed. The set is closed: whoever matches it must say something about every kind.
#[derive(Debug, Clone, PartialEq)]
pub enum EventBody {
    /// A session was made.
    SessionCreated {
        /// Its title.
        title: String,
        /// Its preset.
        preset: String,
        /// The session it works for.
        parent: Option<SessionId>,
    },
    /// A session's title, metadata or window changed.
    SessionUpdated {
        /// The new title, if it changed.
        title: Option<String>,
        /// The new metadata, if it changed.
        metadata_json: Option<String>,
        /// The new window, if it changed.
        window: Option<ModelWindow>,
    },
    /// A session was put away.
    SessionArchived,
    /// A session was taken out again.
    SessionRestored,
    /// A session began as a fork.
    SessionForked {
        /// The session it was forked from.
        from: SessionId,
        /// The last revision they share.
        at: Revision,
        /// The last place that the fork shows, where it leaves out messages that came behind that by then.
        after: Option<Revision>,
        /// Its title.
        title: String,
    },
    /// A session's policy changed.
    PolicyChanged {
        /// The preset it started from.
        preset: String,
    },
    /// A message came.
    MessageAppended {
        /// The message.
        message: MessageId,
        /// The client's own id.
        client_id: Option<String>,
        /// Who speaks.
        role: Role,
        /// What it is for.
        kind: MessageKind,
        /// How many parts came with it.
        part_count: i64,
        /// Whether it came sealed.
        sealed: bool,
    },
    /// Parts of an open message closed.
    PartsClosed {
        /// The message.
        message: MessageId,
        /// The parts.
        parts: Vec<PartId>,
    },
    /// An open message was sealed.
    MessageFinished {
        /// The message.
        message: MessageId,
        /// Why it ended.
        reason: Option<FinishReason>,
        /// True where nobody had written to it for its time, and the daemon sealed it.
        expired: bool,
    },
    /// A reply said what it cost.
    UsageRecorded {
        /// The reply.
        message: MessageId,
        /// What it said.
        usage: Usage,
        /// The window of the view that it was given, or else the session's. Whether the figures count follows from what
        /// came before.
        window: ModelWindow,
    },
    /// The conversation was rewound.
    SessionRewound {
        /// The last revision that still counts.
        after: Revision,
    },
    /// A message was edited.
    MessageEdited {
        /// The original.
        message: MessageId,
        /// What stands in its place; none if it is left out of views.
        replacement: Option<MessageId>,
    },
    /// A message was pinned.
    MessagePinned {
        /// The message.
        message: MessageId,
    },
    /// A pin was taken away.
    MessageUnpinned {
        /// The message.
        message: MessageId,
    },
    /// A reduction waits for somebody to agree, for a while.
    CompactionProposed {
        /// The reduction.
        compaction: CompactionId,
        /// What it does.
        kind: CompactionKind,
        /// Which rung of the ladder asks.
        level: Option<Level>,
        /// What people are asked.
        notice: String,
        /// When it goes on without an answer.
        until: Timestamp,
    },
    /// A reduction began.
    CompactionStarted {
        /// The reduction.
        compaction: CompactionId,
        /// Which rung of the ladder asked.
        level: Option<Level>,
        /// What it does.
        kind: CompactionKind,
        /// Who asked.
        trigger: Trigger,
        /// The revision whose view it works on.
        base: Revision,
        /// Tokens of a request with the view when the compaction was asked for, as `ContextSize::tokens` has them.
        context_tokens: i64,
        /// The window they are judged by; zero when none is known.
        window_tokens: i64,
    },
    /// A reduction tries again.
    CompactionRetried {
        /// The reduction.
        compaction: CompactionId,
        /// The attempt that failed or was lost, from 1.
        attempt: i64,
        /// Why.
        failure: Failure,
    },
    /// Parts were shortened, and messages left out.
    PartsPruned {
        /// The reduction.
        compaction: CompactionId,
        /// The parts.
        parts: Vec<PartId>,
        /// Messages that were left out.
        omitted: Vec<RevisionRange>,
    },
    /// A reduction is in force.
    Compacted {
        /// The reduction.
        compaction: CompactionId,
        /// Which rung of the ladder asked.
        level: Option<Level>,
        /// What people are told; empty for nothing.
        notice: String,
        /// What it did.
        kind: CompactionKind,
        /// Who asked.
        trigger: Trigger,
        /// What it did, in numbers.
        outcome: Box<Outcome>,
        /// The window it was judged by; zero when none is known.
        window_tokens: i64,
    },
    /// A reduction failed for good.
    CompactionFailed {
        /// The reduction.
        compaction: CompactionId,
        /// Why.
        failure: Failure,
    },
    /// A reduction was stopped, or no longer fitted.
    CompactionCancelled {
        /// The reduction.
        compaction: CompactionId,
        /// Why.
        failure: Failure,
    },
    /// A reduction was taken back.
    CompactionUndone {
        /// The reduction.
        compaction: CompactionId,
    },
    /// A reduction that was taken back is in force again.
    CompactionRedone {
        /// The reduction.
        compaction: CompactionId,
    },
    /// A rewind or an edit was taken back.
    RewriteUndone(Rewrite),
    /// A rewind or an edit that was taken back is in force again.
    RewriteRedone(Rewrite),
}

/// A rewind or an edit that was made earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rewrite {
    /// The revision at which it was made.
    pub mark: Revision,
    /// The original of the message that was edited; none for a rewind.
    pub edited: Option<MessageId>,
}

/// The kind of an event, for filters. The numbers are those of the protocol and of the disk, and never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i32)]
#[expect(missing_docs, reason = "each variant is documented at its body")]
pub enum EventKind {
    SessionCreated = 1,
    SessionUpdated = 2,
    SessionArchived = 3,
    SessionRestored = 4,
    SessionForked = 5,
    PolicyChanged = 6,
    MessageAppended = 7,
    PartsClosed = 8,
    MessageFinished = 9,
    UsageRecorded = 10,
    SessionRewound = 11,
    MessageEdited = 12,
    MessagePinned = 13,
    MessageUnpinned = 14,
    CompactionStarted = 15,
    CompactionRetried = 16,
    PartsPruned = 17,
    Compacted = 18,
    CompactionFailed = 19,
    CompactionCancelled = 20,
    CompactionUndone = 21,
    CompactionProposed = 22,
    CompactionRedone = 23,
    RewriteUndone = 24,
    RewriteRedone = 25,
}

impl EventKind {
    /// Every kind.
    pub const ALL: [Self; 25] = [
        Self::SessionCreated,
        Self::SessionUpdated,
        Self::SessionArchived,
        Self::SessionRestored,
        Self::SessionForked,
        Self::PolicyChanged,
        Self::MessageAppended,
        Self::PartsClosed,
        Self::MessageFinished,
        Self::UsageRecorded,
        Self::SessionRewound,
        Self::MessageEdited,
        Self::MessagePinned,
        Self::MessageUnpinned,
        Self::CompactionStarted,
        Self::CompactionRetried,
        Self::PartsPruned,
        Self::Compacted,
        Self::CompactionFailed,
        Self::CompactionCancelled,
        Self::CompactionUndone,
        Self::CompactionProposed,
        Self::CompactionRedone,
        Self::RewriteUndone,
        Self::RewriteRedone,
    ];

    /// The kind with this number, if there is one.
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as i32 == number)
    }

    /// Whether every event of the kind changes history, marks or policy.
    pub fn changes_history(self) -> bool {
        match self {
            Self::SessionCreated
            | Self::SessionForked
            | Self::PolicyChanged
            | Self::MessageAppended
            | Self::PartsClosed
            | Self::MessageFinished
            | Self::SessionRewound
            | Self::MessageEdited
            | Self::MessagePinned
            | Self::MessageUnpinned
            | Self::PartsPruned
            | Self::Compacted
            | Self::CompactionUndone
            | Self::CompactionRedone
            | Self::RewriteUndone
            | Self::RewriteRedone => true,
            Self::SessionUpdated
            | Self::SessionArchived
            | Self::SessionRestored
            | Self::UsageRecorded
            | Self::CompactionProposed
            | Self::CompactionStarted
            | Self::CompactionRetried
            | Self::CompactionFailed
            | Self::CompactionCancelled => false,
        }
    }
}

impl EventBody {
    /// Whether the event changes history, marks, policy or window: what `expected_revision` watches.
    pub fn changes_history(&self) -> bool {
        self.kind().changes_history() || matches!(self, Self::SessionUpdated { window: Some(_), .. })
    }

    /// What kind of change this is.
    pub fn kind(&self) -> EventKind {
        match self {
            Self::SessionCreated { .. } => EventKind::SessionCreated,
            Self::SessionUpdated { .. } => EventKind::SessionUpdated,
            Self::SessionArchived => EventKind::SessionArchived,
            Self::SessionRestored => EventKind::SessionRestored,
            Self::SessionForked { .. } => EventKind::SessionForked,
            Self::PolicyChanged { .. } => EventKind::PolicyChanged,
            Self::MessageAppended { .. } => EventKind::MessageAppended,
            Self::PartsClosed { .. } => EventKind::PartsClosed,
            Self::MessageFinished { .. } => EventKind::MessageFinished,
            Self::UsageRecorded { .. } => EventKind::UsageRecorded,
            Self::SessionRewound { .. } => EventKind::SessionRewound,
            Self::MessageEdited { .. } => EventKind::MessageEdited,
            Self::MessagePinned { .. } => EventKind::MessagePinned,
            Self::MessageUnpinned { .. } => EventKind::MessageUnpinned,
            Self::CompactionProposed { .. } => EventKind::CompactionProposed,
            Self::CompactionStarted { .. } => EventKind::CompactionStarted,
            Self::CompactionRetried { .. } => EventKind::CompactionRetried,
            Self::PartsPruned { .. } => EventKind::PartsPruned,
            Self::Compacted { .. } => EventKind::Compacted,
            Self::CompactionFailed { .. } => EventKind::CompactionFailed,
            Self::CompactionCancelled { .. } => EventKind::CompactionCancelled,
            Self::CompactionUndone { .. } => EventKind::CompactionUndone,
            Self::CompactionRedone { .. } => EventKind::CompactionRedone,
            Self::RewriteUndone(_) => EventKind::RewriteUndone,
            Self::RewriteRedone(_) => EventKind::RewriteRedone,
        }
    }

    /// The message the event is about, if it is about one.
    pub fn message(&self) -> Option<MessageId> {
        match self {
            Self::MessageAppended { message, .. }
            | Self::PartsClosed { message, .. }
            | Self::MessageFinished { message, .. }
            | Self::UsageRecorded { message, .. }
            | Self::MessagePinned { message }
            | Self::MessageUnpinned { message } => Some(*message),
            Self::MessageEdited { message, replacement } => Some(replacement.unwrap_or(*message)),
            Self::Compacted { outcome, .. } => outcome.summary_message,
            Self::RewriteUndone(rewrite) | Self::RewriteRedone(rewrite) => rewrite.edited,
            Self::SessionCreated { .. }
            | Self::SessionUpdated { .. }
            | Self::SessionArchived
            | Self::SessionRestored
            | Self::SessionForked { .. }
            | Self::PolicyChanged { .. }
            | Self::SessionRewound { .. }
            | Self::CompactionProposed { .. }
            | Self::CompactionStarted { .. }
            | Self::CompactionRetried { .. }
            | Self::PartsPruned { .. }
            | Self::CompactionFailed { .. }
            | Self::CompactionCancelled { .. }
            | Self::CompactionUndone { .. }
            | Self::CompactionRedone { .. } => None,
        }
    }
}
