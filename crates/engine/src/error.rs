//! Errors of the store.

use super::write_state::WriteState;
use crate::model::Revision;
use crate::model::run::Epoch;

/// An error of the store. Nothing was written, unless a variant states otherwise.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No session, message, draft, compaction or call has this id.
    #[error("there is no {kind} {id}")]
    NotFound {
        /// The kind of the missing item.
        kind: Kind,
        /// The id that was given.
        id: String,
    },
    /// The search index is not open: it is made anew, or its file cannot be read.
    #[error("the search index is not open")]
    SearchOff,
    /// The session is archived.
    #[error("the session is archived")]
    Archived,
    /// History, marks or policy changed since.
    #[error("history changed at revision {current}, after the expected revision {expected}")]
    RevisionMismatch {
        /// The revision that the caller expected.
        expected: Revision,
        /// The newest revision that changed history, marks, policy or window.
        current: Revision,
    },
    /// The revision is not one of the session's.
    #[error("revision {revision} is not between 0 and {newest}")]
    RevisionOutOfRange {
        /// The revision that was given.
        revision: Revision,
        /// The newest revision.
        newest: Revision,
    },
    /// The view of a token is newer than the session's newest revision.
    #[error("the view token is for revision {revision}, and the session's newest is {newest}")]
    ViewTokenInvalid {
        /// The view's revision.
        revision: Revision,
        /// The newest revision.
        newest: Revision,
    },
    /// The request id was used for another payload.
    #[error("request id {request_id:?} was used for another request")]
    RequestIdReused {
        /// The id.
        request_id: String,
    },
    /// The client id was used for other content.
    #[error("client id {client_id:?} was used for other content")]
    ClientIdReused {
        /// The id.
        client_id: String,
    },
    /// The client id belongs to a message that a rewind cannot bring back.
    #[error("the message with the client id {client_id:?} is in the history, and after a rewind it needs another id")]
    ClientIdKept {
        /// The id.
        client_id: String,
    },
    /// A prompt's result answers a call that has a result, or gets one from another prompt.
    #[error("the call {call_id:?} has a result, or a prompt that waits has one for it")]
    CallAnswered {
        /// The id of the call.
        call_id: String,
    },
    /// The conversation ends with another message than the caller expects.
    #[error("the conversation ends with {}, and not with {}", or_nothing(last), or_nothing(expected))]
    LastMessageMismatch {
        /// The id that the caller gave; empty for no message.
        expected: String,
        /// The id of the last message; empty if there is none.
        last: String,
    },
    /// The message takes no more parts.
    #[error("the message is sealed")]
    MessageSealed,
    /// Nothing was written to the message for its open timeout, and it was sealed.
    #[error("nobody wrote to the message for its open timeout, and it was sealed: append the rest as a new message")]
    MessageExpired,
    /// The message is still being written.
    #[error("the message is still open")]
    MessageOpen,
    /// A rule refuses a secret in the text of a draft.
    #[error("the rule {rule:?} refuses what the text has: remove it, and go on at the same offset")]
    SecretRefused {
        /// The rule.
        rule: String,
    },
    /// The text does not continue the draft.
    #[error("the draft has {length} bytes, and these words do not go on with it at {offset}")]
    OffsetMismatch {
        /// The offset that the caller gave.
        offset: i64,
        /// The length of the draft.
        length: i64,
    },
    /// A named bound was passed.
    #[error("{what} is {actual}, more than {limit}")]
    LimitExceeded {
        /// The name of the value that is too large.
        what: &'static str,
        /// The bound.
        limit: i64,
        /// The value.
        actual: i64,
    },
    /// The tenant has as much of something as it may.
    #[error("the tenant has a quota of {limit} {quota}")]
    QuotaExceeded {
        /// The quota's name in the configuration.
        quota: &'static str,
        /// The quota.
        limit: i64,
    },
    /// There is nothing that a compaction could remove.
    #[error("nothing in the view can be pruned, omitted or summarized")]
    NothingToCompact,
    /// The policy that a change was computed from is no longer active; the change can be computed again.
    #[error("the policy changed meanwhile")]
    PolicyChanged,
    /// No change of the view is active.
    #[error("no compaction, rewind, edit or mark of words is active")]
    NothingToUndo,
    /// No change is undone.
    #[error("nothing was undone that could be redone")]
    NothingToRedo,
    /// The undone change can no longer be redone.
    #[error("the change at revision {0} was made since the undo, so that nothing can be redone any more")]
    RedoOvertaken(Revision),
    /// What was named has no content.
    #[error("there is no content that could be erased")]
    NothingToErase,
    /// An erasure names messages of several sessions.
    #[error("{id} is of another session than the first message")]
    SeveralSessions {
        /// The first one of another session.
        id: String,
    },
    /// The session is erased.
    #[error("the session is erased")]
    SessionErased,
    /// A text that was erased is not written again.
    #[error("the same text was erased")]
    ContentErased,
    /// The compaction has ended.
    #[error("the compaction has ended")]
    CompactionEnded,
    /// The maximum number of compactions waits in the session.
    #[error("{limit} compactions that were asked for wait in the session already")]
    TooManyCompactions {
        /// The maximum number.
        limit: usize,
    },
    /// Another worker holds the job, or it has ended.
    #[error("the lease of the job is lost")]
    LeaseLost,
    /// The run on whose behalf a write is made is not the session's active one.
    #[error("run {epoch} is not active any more{}", current.map_or_else(String::new, |current| format!(": run {current} is")))]
    RunLost {
        /// The number of the run.
        epoch: Epoch,
        /// The number of the active run; none without one.
        current: Option<Epoch>,
    },
    /// Another run is active.
    #[error("run {epoch} of {actor:?} is active")]
    RunActive {
        /// Its number.
        epoch: Epoch,
        /// Its agent.
        actor: String,
    },
    /// No run is active.
    #[error("no run is active in the session")]
    NoRun,
    /// No prompt waits that the request may take.
    #[error("no prompt waits")]
    NoPrompt,
    /// The prompt was taken or withdrawn.
    #[error("the prompt was {}", if *taken { "taken by a run" } else { "withdrawn" })]
    PromptEnded {
        /// True if a run took it, false if it was withdrawn.
        taken: bool,
    },
    /// The question has its answer, or was withdrawn.
    #[error("the question is not open any more: {reason}{}", answer_of(choice.as_deref(), actor))]
    ApprovalEnded {
        /// How it ended.
        reason: &'static str,
        /// The choice that holds.
        choice: Option<String>,
        /// Who answered.
        actor: String,
    },
    /// A summary's range is not valid in the session.
    #[error("{0}")]
    BoundaryInvalid(&'static str),
    /// Others are in the way: the reason why.
    #[error("the store is busy: {0}")]
    Busy(&'static str),
    /// No write is tried until the daemon starts again; nothing of this write is stored.
    #[error("the store serves reads only until the daemon starts again: {0}")]
    Stopped(WriteState),
    /// The disk failed during this write, or the connection to the database: after the next start of the daemon, or the next
    /// connection, it may be stored or not.
    #[error("the disk failed while this was written, or the connection to the database: it may be there or not")]
    Uncertain,
    /// The disk is full; nothing of the write is stored.
    #[error("the disk is full; nothing was written")]
    Full,
    /// The file system takes no writes; nothing of this one is stored.
    #[error("the file system takes no writes; nothing was written")]
    ReadOnly,
    /// The disk failed to write or to sync.
    #[error("the disk failed: {0}")]
    Disk(#[source] DiskFailure),
    /// The database cannot be reached, or ended the connection; nothing of the write is stored.
    #[error("the database cannot be reached: {0}")]
    Unreachable(String),
    /// The daemon is stopping.
    #[error("the store is closing")]
    Closed,
    /// A row has invalid content.
    #[error("corrupt {table}{}{row}: {detail}", if row.is_empty() { "" } else { " " })]
    Corrupt {
        /// The table.
        table: &'static str,
        /// The row, by the id that clients know or else by its key; empty if it is unknown.
        row: String,
        /// A description of the error.
        detail: String,
    },
    /// An error of this program, and not of the data: a step that must come first did not.
    #[error("an error of Longhand itself: {0}")]
    Bug(&'static str),
    /// The database refused the statement.
    #[error("database: {0}")]
    Database(String),
    /// The store cannot be opened.
    #[error("{0}")]
    Open(String),
    /// A path cannot be used for a backup or for what is made from one.
    #[error("{0}")]
    PathInvalid(String),
    /// A file of this name exists, and is never replaced.
    #[error("{} exists, and is not replaced", .0.display())]
    CopyExists(std::path::PathBuf),
    /// An archive is not as it was written, or says what its chains do not.
    #[error("the archive is refused: {0}")]
    ArchiveInvalid(String),
    /// A session of an archive is there in another state than the archive's, or an earlier one.
    #[error("the session {session} is here already, and its chain has not the archive's newest hash")]
    ArchiveConflict {
        /// The session.
        session: String,
    },
    /// An erasure took content that an archive has not written yet.
    #[error("content of {session} was erased while the archive was written: write it again")]
    ArchiveOvertaken {
        /// The session.
        session: String,
    },
    /// Another backup of the store is being made.
    #[error("another backup is being made")]
    BackupRunning,
    /// The copy could not be made.
    #[error("{0}")]
    CopyFailed(String),
    /// The copy has findings, as the store itself probably has.
    #[error("the copy has {findings} findings, and is not kept; the first: {first}")]
    CopyDamaged {
        /// The number of findings.
        findings: usize,
        /// The first of them.
        first: String,
    },
}

/// A failure of the disk, in the words of the engine.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct DiskFailure {
    /// The engine's message.
    pub message: String,
    /// True if a sync failed or may have: the kernel may have dropped data that was written before.
    pub may_be_of_sync: bool,
}

/// An id, or the words for none.
fn or_nothing(id: &str) -> &str {
    if id.is_empty() { "no message" } else { id }
}

/// Who gave an answer, and which one, as far as there is any.
fn answer_of(choice: Option<&str>, actor: &str) -> String {
    let by = if actor.is_empty() { String::new() } else { format!(" by {actor}") };
    let with = choice.map_or_else(String::new, |choice| format!(" with {choice:?}"));
    by + &with
}

/// The kind of item that an id names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A session.
    Session,
    /// A message.
    Message,
    /// A draft.
    Draft,
    /// A compaction.
    Compaction,
    /// A tool call, in the message that a result names.
    Call,
    /// An access token.
    AccessToken,
    /// A run.
    Run,
    /// A prompt.
    Prompt,
    /// An approval.
    Approval,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Session => "session",
            Self::Message => "message",
            Self::Draft => "draft",
            Self::Compaction => "compaction",
            Self::Call => "call",
            Self::AccessToken => "access token",
            Self::Run => "run",
            Self::Prompt => "prompt",
            Self::Approval => "approval",
        })
    }
}

impl Error {
    /// An error for a row with invalid content.
    pub fn corrupt(table: &'static str, detail: impl std::fmt::Display) -> Self {
        Self::Corrupt { table, row: String::new(), detail: detail.to_string() }
    }

    /// The same error with the id of its row, unless it has one already.
    #[must_use]
    pub fn in_row(mut self, id: impl std::fmt::Display) -> Self {
        if let Self::Corrupt { row, .. } = &mut self
            && row.is_empty()
        {
            *row = id.to_string();
        }
        self
    }

    /// True if the error concerns the database and not the mutation, so that the whole transaction fails with it.
    pub fn is_of_database(&self) -> bool {
        matches!(
            self,
            Self::Database(_)
                | Self::Unreachable(_)
                | Self::Disk(_)
                | Self::Full
                | Self::ReadOnly
                | Self::Stopped(_)
                | Self::Busy(_)
                | Self::Corrupt { .. }
                | Self::Bug(_)
        )
    }

    /// An error for an item that does not exist.
    pub fn not_found(kind: Kind, id: impl std::fmt::Display) -> Self {
        Self::NotFound { kind, id: id.to_string() }
    }
}

/// The result of a store operation.
pub type Result<T> = std::result::Result<T, Error>;
