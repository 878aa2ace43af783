//! Errors for callers: a stable reason, a message, and the facts in it.

use crate::limits;
use crate::store;
use std::collections::BTreeMap;

/// The stable reasons. Each has one canonical code, given in `code`. New ones may be added; none changes its
/// meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum Reason {
    /// No session has this id.
    SessionNotFound,
    /// The session has no message with this id.
    MessageNotFound,
    /// The message has no draft with this id.
    DraftNotFound,
    /// No compaction has this id.
    CompactionNotFound,
    /// The message that a result names has no such call.
    CallNotFound,
    /// The call that a prompt's result answers has a result.
    CallAnswered,
    /// No preset has this name.
    PresetNotFound,
    /// A field's value cannot be used; the metadata names the field.
    InvalidField,
    /// A policy's value cannot be used; the metadata names its path.
    PolicyInvalid,
    /// A rule of the operator refuses a secret in the request; the metadata has the rule and, unless it is the text of a
    /// draft, the field.
    SecretRefused,
    /// A bound was exceeded; the metadata has its name, the limit and the actual value.
    LimitExceeded,
    /// The client id was used for other content.
    ClientIdReused,
    /// The request id was used for another request.
    RequestIdReused,
    /// The page token is not Longhand's, or belongs to another list.
    PageTokenInvalid,
    /// The cursor is not Longhand's.
    CursorInvalid,
    /// The cursor belongs to another store, or to this one before it was restored.
    CursorForeign,
    /// The cursor is beyond the log; the metadata has the end of the log.
    CursorOutOfRange,
    /// The view token was not issued by this store for the session's history.
    ViewTokenInvalid,
    /// The session has no such revision.
    RevisionOutOfRange,
    /// History, marks, policy or window changed after the expected revision.
    RevisionMismatch,
    /// The conversation ends with another message than the caller expects; the metadata has its id.
    LastMessageMismatch,
    /// The session is archived.
    SessionArchived,
    /// The message is sealed and takes no more parts.
    MessageSealed,
    /// The message was sealed because nothing was written to it for its open timeout.
    MessageExpired,
    /// The message is still open.
    MessageOpen,
    /// The text does not continue the text that the draft has.
    OffsetMismatch,
    /// There is nothing that a compaction could remove.
    NothingToCompact,
    /// No compaction, rewind, edit or mark of words is active.
    NothingToUndo,
    /// No undone change can be redone.
    NothingToRedo,
    /// What was named has no content.
    NothingToErase,
    /// The session is erased.
    SessionErased,
    /// The same content was erased, and the request keeps it erased.
    ContentErased,
    /// A compaction, rewind or edit was made since the undo; the metadata has its revision.
    RedoOvertaken,
    /// The compaction has ended.
    CompactionEnded,
    /// The maximum number of requested compactions waits in the session; the metadata has the limit.
    TooManyCompactions,
    /// The policy has automatic compactions switched off.
    AutomaticOff,
    /// The provider's message does not mean that the request was too large.
    OverflowNotRecognized,
    /// The view was compacted for this request already, and is still too large for the provider.
    OverflowAgain,
    /// The configuration offers no summary tasks to clients.
    SummaryTasksOff,
    /// The compaction offers no summary task, or none any more.
    SummaryTaskNotFound,
    /// The lease of a summary task ended, or the token belongs to another lease.
    SummaryLeaseLost,
    /// The client's text cannot be the summary; the metadata's `failure` has the reason.
    SummaryRefused,
    /// A message that a call names has no position for it: a rewind left it out of the conversation, a summary stands for
    /// it, or the range of a summary does not fit the session.
    BoundaryInvalid,
    /// The view is too large to be read.
    ViewTooLarge,
    /// The view has something that the format cannot carry; the metadata has the format, the kind of content, and the
    /// message and the part.
    ContentNotInFormat,
    /// The maximum number of event streams is open; the metadata has the limit.
    TooManyStreams,
    /// The client did not read its answer, for too long or while others needed the memory; an event stream resumes with
    /// the cursor in the metadata.
    ReaderStalled,
    /// The view is large, and other large views take the memory for them; try again.
    TooManyViews,
    /// Other requests that are not complete take the memory for requests, or as many of a kind wait as may; try again.
    TooManyRequests,
    /// The request was not complete in time.
    RequestTimedOut,
    /// The request uses an unknown compression.
    EncodingUnknown,
    /// The search index is not open: it is made anew, or its file cannot be read.
    SearchUnavailable,
    /// Too many writes wait; try again.
    StoreBusy,
    /// The disk failed during this write: after a restart of the daemon it may be there or not. Send it again then,
    /// with the same request id.
    OutcomeUncertain,
    /// The disk failed, or files of the store were removed: the store serves reads only until the daemon starts again.
    /// The metadata's `cause` has the cause.
    StoreStopped,
    /// Another daemon owns the shard with the sessions, or may own it: it has the answer. A write may be there or not: send
    /// it again there, with the same request id.
    LeaseLost,
    /// No daemon serves the shard now, and none took it while the call waited, or the daemon cannot check the access token
    /// because it does not reach the database: the call was not carried out. A stream resumes with its last cursor.
    NoOwner,
    /// The database has no shard of this name.
    ShardNotFound,
    /// No daemon with this id runs with the database.
    DaemonNotFound,
    /// The disk is full; nothing was written. Writes succeed again once there is space.
    StorageFull,
    /// The file system is read-only; nothing was written.
    StorageReadOnly,
    /// The write is done, but its answer cannot be read: sending it again with the same request id returns the answer.
    AnswerLost,
    /// The daemon is stopping; resume with the last cursor.
    ShuttingDown,
    /// No service has a method of this name.
    MethodUnknown,
    /// The request is larger than any can be; the limit of its content is exceeded too.
    RequestTooLarge,
    /// The request is not a message of the protocol.
    RequestMalformed,
    /// A file of the backup's name exists; it is never replaced.
    BackupExists,
    /// Another backup is being made.
    BackupRunning,
    /// The backup could not be made: no space, no permission, or too many writes meanwhile; nothing is left of it.
    BackupFailed,
    /// The backup was made and then found damaged, as the store itself probably is; nothing is left of it.
    BackupDamaged,
    /// The archive is not as it was written, or its chains do not commit to what it says.
    ArchiveInvalid,
    /// A session of the archive is in the store in another state; the metadata has its id.
    ArchiveConflict,
    /// Content of an archive was erased while it was written.
    ArchiveOvertaken,
    /// The call is only accepted on the daemon's Unix socket.
    SocketRequired,
    /// The call needs an access token, and has none.
    AccessTokenMissing,
    /// The access token is unknown, revoked or over.
    AccessTokenInvalid,
    /// No access token has this id.
    AccessTokenNotFound,
    /// The caller may not do this; the metadata has the scope that the call needs.
    ScopeMissing,
    /// Too many calls of this address had no valid access token; try again later.
    TooManyAttempts,
    /// The tenant has as much of something as it may; the metadata has the quota and the limit.
    QuotaExceeded,
    /// The tenant asks more often than it may; try again later.
    RateLimited,
    /// The call cannot be recorded in the access log, without which it is not answered.
    AccessLogFailed,
    /// The request names a host or an origin that is not one of the daemon's.
    OriginRefused,
    /// The link to the console is unknown, was used, or is over.
    ConsoleLinkInvalid,
    /// A change by a session of the console has not the token that proves that its page asks for it.
    ConsoleTokenInvalid,
    /// No run has this id or number, or no run is active in the session.
    RunNotFound,
    /// The session has no prompt with this id.
    PromptNotFound,
    /// The session has no approval with this id.
    ApprovalNotFound,
    /// The run on whose behalf the call is made is not the session's active one; the metadata has its number, and that of
    /// the active one.
    RunLost,
    /// Another run is active; the metadata has its number and its agent.
    RunActive,
    /// No prompt waits that the request may take.
    NoPrompt,
    /// The prompt does not wait any more; the metadata's `end` is `taken` or `withdrawn`.
    PromptEnded,
    /// The question does not wait any more; the metadata has who answered, and the choice that holds.
    ApprovalEnded,
    /// A row is damaged.
    RowCorrupt,
    /// An unexpected failure; the log has the details.
    Internal,
}

impl Reason {
    /// Every reason.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The reason's name in the protocol.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// An error of the API. Nothing was written, unless the reason states that the outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The stable reason.
    pub reason: Reason,
    /// A sentence fragment for people.
    pub message: String,
    /// Every changing part of the message, by name.
    pub metadata: BTreeMap<String, String>,
}

/// Result of an API call.
pub type Result<T> = std::result::Result<T, Error>;

/// A text in an error that may be the caller's own: as much of it as is needed to find it.
pub fn repeated(text: impl std::fmt::Display) -> String {
    let mut text = text.to_string();
    if text.len() > limits::REPEATED_BYTES_MAX {
        text.truncate(text.floor_char_boundary(limits::REPEATED_BYTES_MAX));
        text.push('…');
    }
    text
}

impl Error {
    /// An error with a reason and a message.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), metadata: BTreeMap::new() }
    }

    /// The same error with one more fact.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl ToString) -> Self {
        self.metadata.insert(key.to_owned(), value.to_string());
        self
    }

    /// A field whose value cannot be used.
    pub fn field(field: impl std::fmt::Display, message: impl std::fmt::Display) -> Self {
        let (field, message) = (repeated(field), repeated(message));
        Self::new(Reason::InvalidField, format!("{field}: {message}")).with("field", field)
    }

    /// What waits or goes on is ended, because the daemon stops.
    pub fn stopping() -> Self {
        Self::new(Reason::ShuttingDown, "the daemon is stopping")
    }

    /// A bound that was exceeded.
    pub fn limit(what: impl std::fmt::Display, limit: usize, actual: usize) -> Self {
        Self::new(Reason::LimitExceeded, format!("{what}: {actual} is more than {limit}"))
            .with("what", what)
            .with("limit", limit)
            .with("actual", actual)
    }

    /// The answer of a write that is committed: a failing read after it does not undo the write.
    pub(super) fn answer<T>(read: std::result::Result<T, impl Into<Self>>) -> Result<T> {
        read.map_err(|cause| {
            let Self { message, metadata, .. } = cause.into();
            let message = format!("it is done, but what it answers cannot be read: {message}");
            Self { reason: Reason::AnswerLost, message, metadata }
        })
    }

    /// An unexpected failure, which is logged.
    pub fn internal(cause: impl std::fmt::Display) -> Self {
        tracing::error!(%cause, "internal error");
        Self::new(Reason::Internal, "an internal error; the daemon's log has the details")
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        use store::{Error as E, Kind};
        let message = error.to_string();
        let plain = |reason| Self::new(reason, message.clone());
        match error {
            E::NotFound { kind, id } => {
                let (reason, key) = match kind {
                    Kind::Session => (Reason::SessionNotFound, "session_id"),
                    Kind::Message => (Reason::MessageNotFound, "message_id"),
                    Kind::Draft => (Reason::DraftNotFound, "part_id"),
                    Kind::Compaction => (Reason::CompactionNotFound, "compaction_id"),
                    Kind::Call => (Reason::CallNotFound, "call_id"),
                    Kind::AccessToken => (Reason::AccessTokenNotFound, "access_token_id"),
                    Kind::Run => (Reason::RunNotFound, "run_id"),
                    Kind::Prompt => (Reason::PromptNotFound, "prompt_id"),
                    Kind::Approval => (Reason::ApprovalNotFound, "approval_id"),
                };
                plain(reason).with(key, id)
            }
            E::SearchOff => plain(Reason::SearchUnavailable),
            E::Archived => plain(Reason::SessionArchived),
            E::RevisionMismatch { expected, current } => {
                plain(Reason::RevisionMismatch).with("expected_revision", expected).with("current_revision", current)
            }
            E::RevisionOutOfRange { revision, newest } => {
                plain(Reason::RevisionOutOfRange).with("revision", revision).with("newest_revision", newest)
            }
            E::ViewTokenInvalid { revision, newest } => {
                plain(Reason::ViewTokenInvalid).with("revision", revision).with("newest_revision", newest)
            }
            E::RequestIdReused { request_id } => plain(Reason::RequestIdReused).with("request_id", request_id),
            E::ClientIdReused { client_id } | E::ClientIdKept { client_id } => {
                plain(Reason::ClientIdReused).with("client_id", client_id)
            }
            E::CallAnswered { call_id } => plain(Reason::CallAnswered).with("call_id", call_id),
            E::LastMessageMismatch { expected, last } => plain(Reason::LastMessageMismatch)
                .with("expected_last_message_id", expected)
                .with("last_message_id", last),
            E::MessageSealed => plain(Reason::MessageSealed),
            E::MessageExpired => plain(Reason::MessageExpired),
            E::MessageOpen => plain(Reason::MessageOpen),
            E::OffsetMismatch { offset, length } => {
                plain(Reason::OffsetMismatch).with("offset_bytes", offset).with("length_bytes", length)
            }
            E::SecretRefused { rule } => plain(Reason::SecretRefused).with("rule", rule),
            E::LimitExceeded { what: store::VIEW_BYTES, limit, actual } => {
                plain(Reason::ViewTooLarge).with("limit", limit).with("actual", actual)
            }
            E::LimitExceeded { what, limit, actual } => {
                plain(Reason::LimitExceeded).with("what", what).with("limit", limit).with("actual", actual)
            }
            E::QuotaExceeded { quota, limit } => plain(Reason::QuotaExceeded).with("quota", quota).with("limit", limit),
            E::NothingToCompact => plain(Reason::NothingToCompact),
            E::PolicyChanged => plain(Reason::StoreBusy),
            E::NothingToUndo => plain(Reason::NothingToUndo),
            E::NothingToRedo => plain(Reason::NothingToRedo),
            E::NothingToErase => plain(Reason::NothingToErase),
            E::SeveralSessions { .. } => plain(Reason::InvalidField).with("field", "message_set.message_ids"),
            E::SessionErased => plain(Reason::SessionErased),
            E::ContentErased => plain(Reason::ContentErased),
            E::RedoOvertaken(revision) => plain(Reason::RedoOvertaken).with("revision", revision),
            E::CompactionEnded => plain(Reason::CompactionEnded),
            E::TooManyCompactions { limit } => plain(Reason::TooManyCompactions).with("limit", limit),
            E::BoundaryInvalid(_) => plain(Reason::BoundaryInvalid),
            E::RunLost { epoch, current } => {
                let error = plain(Reason::RunLost).with("epoch", epoch);
                current.map_or(error.clone(), |current| error.with("current_epoch", current))
            }
            E::RunActive { epoch, actor } => plain(Reason::RunActive).with("epoch", epoch).with("actor", actor),
            E::NoRun => plain(Reason::RunNotFound),
            E::NoPrompt => plain(Reason::NoPrompt),
            E::PromptEnded { taken } => {
                plain(Reason::PromptEnded).with("end", if taken { "taken" } else { "withdrawn" })
            }
            E::ApprovalEnded { choice, actor, .. } => {
                let error = plain(Reason::ApprovalEnded).with("actor", actor);
                choice.map_or(error.clone(), |choice| error.with("choice", choice))
            }
            E::Busy(_) | E::Unreachable(_) => plain(Reason::StoreBusy),
            E::Stopped(store::WriteState::LeaseLost) => plain(Reason::LeaseLost),
            E::Stopped(cause) => plain(Reason::StoreStopped).with("cause", cause.as_str()),
            E::Uncertain => plain(Reason::OutcomeUncertain),
            E::Full => plain(Reason::StorageFull),
            E::ReadOnly => plain(Reason::StorageReadOnly),
            E::Closed => plain(Reason::ShuttingDown),
            E::Corrupt { table, row, .. } => {
                tracing::error!(%message, "a row is damaged");
                let error = plain(Reason::RowCorrupt).with("table", table);
                if row.is_empty() { error } else { error.with("row", row) }
            }
            E::PathInvalid(why) => Self::field("path", why),
            E::CopyExists(path) => plain(Reason::BackupExists).with("path", path.display()),
            E::BackupRunning => plain(Reason::BackupRunning),
            E::ArchiveInvalid(_) => plain(Reason::ArchiveInvalid),
            E::ArchiveConflict { session } => plain(Reason::ArchiveConflict).with("session_id", session),
            E::ArchiveOvertaken { session } => plain(Reason::ArchiveOvertaken).with("session_id", session),
            E::CopyFailed(_) => plain(Reason::BackupFailed),
            E::CopyDamaged { findings, .. } => plain(Reason::BackupDamaged).with("findings", findings),
            E::LeaseLost | E::Bug(_) | E::Database(_) | E::Disk(_) | E::Open(_) => Self::internal(message),
        }
    }
}
