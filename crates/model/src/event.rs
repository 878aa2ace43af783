//! Events: one per committed change.

use super::approval::ApprovalEndReason;
use super::compaction::{CompactionKind, Failure, Level, Outcome, RevisionRange, Trigger};
use super::ids::{ApprovalId, CompactionId, MessageId, PartId, PromptId, RunId, SessionId};
use super::mark::WordsStance;
use super::message::{FinishReason, MessageKind, Role};
use super::prompt::Delivery;
use super::run::{Epoch, RunEndReason};
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
    /// True if the mutation that made the event ends with it.
    pub ends_mutation: bool,
    /// The time of the commit.
    pub time: Timestamp,
    /// The actor: the caller's name for itself, or empty.
    pub actor: String,
    /// The request that made the change, or empty.
    pub request_id: String,
    /// The change.
    pub body: EventBody,
    /// The hash that the event adds to the session's chain.
    pub hash: [u8; 32],
}

/// The change of an event. The set is closed: every match handles every kind.
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
    /// A session was archived.
    SessionArchived,
    /// A session was restored from the archive.
    SessionRestored,
    /// A session began as a fork.
    SessionForked {
        /// The session it was forked from.
        from: SessionId,
        /// The last revision they share.
        at: Revision,
        /// The last position that the fork shows; set if the fork omits messages that came after that position by then.
        after: Option<Revision>,
        /// Its title.
        title: String,
    },
    /// A session got a label.
    LabelAdded {
        /// The label.
        label: String,
    },
    /// A session lost a label.
    LabelRemoved {
        /// The label.
        label: String,
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
        /// The role of the message.
        role: Role,
        /// The kind of the message.
        kind: MessageKind,
        /// The number of parts that came with it.
        part_count: i64,
        /// True if it came sealed.
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
        /// The reason for which it ended.
        reason: Option<FinishReason>,
        /// True if nothing was written to it for its timeout, and the daemon sealed it.
        expired: bool,
    },
    /// A reply reported its usage.
    UsageRecorded {
        /// The reply.
        message: MessageId,
        /// The reported usage.
        usage: Usage,
        /// The window of the view that the model was given, or else the session's. The usage counts or not depending on
        /// the events before.
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
        /// The replacement; none if the original is omitted from views.
        replacement: Option<MessageId>,
    },
    /// A message was pinned.
    MessagePinned {
        /// The message.
        message: MessageId,
    },
    /// A pin was removed.
    MessageUnpinned {
        /// The message.
        message: MessageId,
    },
    /// The words of a message are left out of those of people that follow summaries, or stay among them.
    WordsMarked {
        /// The message.
        message: MessageId,
        /// What becomes of its words; none leaves that to the summarizer again.
        stance: Option<WordsStance>,
    },
    /// A compaction waits for a person's agreement, up to a time limit.
    CompactionProposed {
        /// The compaction.
        compaction: CompactionId,
        /// The kind of compaction.
        kind: CompactionKind,
        /// The policy's level that asks.
        level: Option<Level>,
        /// The text of the question to people.
        notice: String,
        /// The time at which it goes on without an answer.
        until: Timestamp,
    },
    /// A compaction began.
    CompactionStarted {
        /// The compaction.
        compaction: CompactionId,
        /// The policy's level that asked.
        level: Option<Level>,
        /// The kind of compaction.
        kind: CompactionKind,
        /// The origin of the request.
        trigger: Trigger,
        /// The revision whose view it works on.
        base: Revision,
        /// Tokens of a request with the view when the compaction was requested, as `ContextSize::tokens` has them.
        context_tokens: i64,
        /// The window that these tokens are compared with; zero if none is known.
        window_tokens: i64,
    },
    /// A compaction tries again.
    CompactionRetried {
        /// The compaction.
        compaction: CompactionId,
        /// The attempt that failed or was lost, from 1.
        attempt: i64,
        /// The reason.
        failure: Failure,
    },
    /// Parts were shortened, and messages omitted.
    PartsPruned {
        /// The compaction.
        compaction: CompactionId,
        /// The parts.
        parts: Vec<PartId>,
        /// The omitted messages.
        omitted: Vec<RevisionRange>,
    },
    /// A compaction is active.
    Compacted {
        /// The compaction.
        compaction: CompactionId,
        /// The policy's level that asked.
        level: Option<Level>,
        /// The message text for people; empty for none.
        notice: String,
        /// The kind of compaction.
        kind: CompactionKind,
        /// The origin of the request.
        trigger: Trigger,
        /// The result, in numbers.
        outcome: Box<Outcome>,
        /// The window that it was compared with; zero if none is known.
        window_tokens: i64,
    },
    /// A compaction failed for good.
    CompactionFailed {
        /// The compaction.
        compaction: CompactionId,
        /// The reason.
        failure: Failure,
    },
    /// A compaction was cancelled, or superseded by another change.
    CompactionCancelled {
        /// The compaction.
        compaction: CompactionId,
        /// The reason.
        failure: Failure,
    },
    /// A compaction was undone.
    CompactionUndone {
        /// The compaction.
        compaction: CompactionId,
    },
    /// A compaction that was undone is active again.
    CompactionRedone {
        /// The compaction.
        compaction: CompactionId,
    },
    /// A rewind or an edit was undone.
    RewriteUndone(Rewrite),
    /// A rewind or an edit that was undone is active again.
    RewriteRedone(Rewrite),
    /// A run began.
    RunStarted {
        /// The run.
        run: RunId,
        /// Its number in the session.
        epoch: Epoch,
    },
    /// Somebody asked a run to stop.
    RunCancelRequested {
        /// The run.
        run: RunId,
        /// Its number in the session.
        epoch: Epoch,
    },
    /// A run ended. The seals of its open messages come before, in the same mutation.
    RunEnded {
        /// The run.
        run: RunId,
        /// Its number in the session.
        epoch: Epoch,
        /// How it ended.
        reason: RunEndReason,
        /// The agent's words about a failure; empty for none.
        failure: String,
        /// Its calls that have no result: from now on they are interrupted. A result that comes later counts.
        interrupted: Vec<InterruptedCall>,
    },
    /// A prompt joined the queue.
    PromptSubmitted {
        /// The prompt.
        prompt: PromptId,
        /// What its sender wishes.
        delivery: Delivery,
    },
    /// A prompt has another position in the queue.
    PromptMoved {
        /// The prompt.
        prompt: PromptId,
        /// The prompt that it is before now; none for the end of the queue.
        before: Option<PromptId>,
    },
    /// A run took a prompt: its message comes next, in the same mutation.
    PromptTaken {
        /// The prompt.
        prompt: PromptId,
        /// The number of the run.
        epoch: Epoch,
    },
    /// A prompt was withdrawn.
    PromptWithdrawn {
        /// The prompt.
        prompt: PromptId,
    },
    /// An agent asked a question.
    ApprovalRequested {
        /// The approval.
        approval: ApprovalId,
        /// The number of the run that asks; none if it was asked without one.
        epoch: Option<Epoch>,
    },
    /// A question's wait ended.
    ApprovalEnded {
        /// The approval.
        approval: ApprovalId,
        /// How it ended.
        reason: ApprovalEndReason,
        /// The choice that holds; none for free text alone, and for a question that was withdrawn.
        choice: Option<String>,
    },
    /// Content was erased. What the log, views and lists name is there, without its content.
    Erased {
        /// What was asked for, in this session or in the one that `from` names.
        target: ErasedTarget,
        /// The reason that the caller gave.
        reason: String,
        /// The session that was asked for, if this one shares what it lost.
        from: Option<SessionId>,
        /// The revisions of the messages that lost content, in this session's history; sorted and disjoint.
        ranges: Vec<RevisionRange>,
        /// These messages, and the summaries that were written from them; empty if a session was erased.
        messages: Vec<ErasedMessage>,
        /// True if more of the same session goes with a later event.
        unfinished: bool,
    },
}

/// What an erasure was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErasedTarget {
    /// One part of a message.
    Part,
    /// A message with everything that replaced it.
    Message,
    /// A session.
    Session,
    /// Several messages with everything that replaced them.
    Messages,
}

/// A message that lost content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErasedMessage {
    /// The message.
    pub message: MessageId,
    /// The parts that were erased; empty for all of them, with the message's metadata.
    pub parts: Vec<PartId>,
}

/// A call without a result, of a run that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterruptedCall {
    /// The message of the call.
    pub message: MessageId,
    /// The id of the call.
    pub call_id: String,
}

/// A change by a client that was made earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rewrite {
    /// The revision at which it was made.
    pub mark: Revision,
    /// What it changed.
    pub of: RewriteOf,
}

/// What a rewrite changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewriteOf {
    /// The end of the conversation.
    Rewind,
    /// The content of this message, which is the original.
    Edit(MessageId),
    /// What becomes of the words of this message.
    Words(MessageId),
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
    RunStarted = 26,
    RunCancelRequested = 27,
    RunEnded = 28,
    PromptSubmitted = 29,
    PromptMoved = 30,
    PromptTaken = 31,
    PromptWithdrawn = 32,
    ApprovalRequested = 33,
    ApprovalEnded = 34,
    LabelAdded = 35,
    LabelRemoved = 36,
    Erased = 37,
    WordsMarked = 38,
}

impl EventKind {
    /// Every kind.
    pub const ALL: [Self; 38] = [
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
        Self::RunStarted,
        Self::RunCancelRequested,
        Self::RunEnded,
        Self::PromptSubmitted,
        Self::PromptMoved,
        Self::PromptTaken,
        Self::PromptWithdrawn,
        Self::ApprovalRequested,
        Self::ApprovalEnded,
        Self::LabelAdded,
        Self::LabelRemoved,
        Self::Erased,
        Self::WordsMarked,
    ];

    /// The kind with this number, if there is one.
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as i32 == number)
    }

    /// True if every event of the kind changes history, marks or policy.
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
            | Self::WordsMarked
            | Self::PartsPruned
            | Self::Compacted
            | Self::CompactionUndone
            | Self::CompactionRedone
            | Self::RewriteUndone
            | Self::RewriteRedone
            | Self::Erased => true,
            Self::SessionUpdated
            | Self::SessionArchived
            | Self::SessionRestored
            | Self::UsageRecorded
            | Self::CompactionProposed
            | Self::CompactionStarted
            | Self::CompactionRetried
            | Self::CompactionFailed
            | Self::CompactionCancelled
            | Self::RunStarted
            | Self::RunCancelRequested
            | Self::RunEnded
            | Self::PromptSubmitted
            | Self::PromptMoved
            | Self::PromptTaken
            | Self::PromptWithdrawn
            | Self::ApprovalRequested
            | Self::ApprovalEnded
            | Self::LabelAdded
            | Self::LabelRemoved => false,
        }
    }
}

impl EventBody {
    /// True if the event changes history, marks, policy or window, which `expected_revision` depends on.
    pub fn changes_history(&self) -> bool {
        self.kind().changes_history() || matches!(self, Self::SessionUpdated { window: Some(_), .. })
    }

    /// The kind of the change.
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
            Self::WordsMarked { .. } => EventKind::WordsMarked,
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
            Self::RunStarted { .. } => EventKind::RunStarted,
            Self::RunCancelRequested { .. } => EventKind::RunCancelRequested,
            Self::RunEnded { .. } => EventKind::RunEnded,
            Self::PromptSubmitted { .. } => EventKind::PromptSubmitted,
            Self::PromptMoved { .. } => EventKind::PromptMoved,
            Self::PromptTaken { .. } => EventKind::PromptTaken,
            Self::PromptWithdrawn { .. } => EventKind::PromptWithdrawn,
            Self::ApprovalRequested { .. } => EventKind::ApprovalRequested,
            Self::ApprovalEnded { .. } => EventKind::ApprovalEnded,
            Self::LabelAdded { .. } => EventKind::LabelAdded,
            Self::LabelRemoved { .. } => EventKind::LabelRemoved,
            Self::Erased { .. } => EventKind::Erased,
        }
    }

    /// The message that the event concerns; none for other events.
    pub fn message(&self) -> Option<MessageId> {
        match self {
            Self::MessageAppended { message, .. }
            | Self::PartsClosed { message, .. }
            | Self::MessageFinished { message, .. }
            | Self::UsageRecorded { message, .. }
            | Self::MessagePinned { message }
            | Self::MessageUnpinned { message }
            | Self::WordsMarked { message, .. } => Some(*message),
            Self::MessageEdited { message, replacement } => Some(replacement.unwrap_or(*message)),
            Self::Compacted { outcome, .. } => outcome.summary_message,
            Self::RewriteUndone(rewrite) | Self::RewriteRedone(rewrite) => match rewrite.of {
                RewriteOf::Edit(message) | RewriteOf::Words(message) => Some(message),
                RewriteOf::Rewind => None,
            },
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
            | Self::CompactionRedone { .. }
            | Self::RunStarted { .. }
            | Self::RunCancelRequested { .. }
            | Self::RunEnded { .. }
            | Self::PromptSubmitted { .. }
            | Self::PromptMoved { .. }
            | Self::PromptTaken { .. }
            | Self::PromptWithdrawn { .. }
            | Self::ApprovalRequested { .. }
            | Self::ApprovalEnded { .. }
            | Self::LabelAdded { .. }
            | Self::LabelRemoved { .. }
            | Self::Erased { .. } => None,
        }
    }
}
