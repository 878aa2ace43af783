//! The reasons of errors, each with its code and with what it says of the call: the one table of them.

use std::fmt;
use std::time::Duration;

/// The `domain` of all reasons in `google.rpc.ErrorInfo`.
pub const DOMAIN: &str = "longhand";

/// Delay before a retry that a caller is told when too many others ask.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// A canonical code of errors, with its number in `google.rpc.Code`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The request cannot be served, whatever the state of the store.
    InvalidArgument = 3,
    /// The request was not complete in time.
    DeadlineExceeded = 4,
    /// What the request names does not exist.
    NotFound = 5,
    /// What the request creates exists, and is something else.
    AlreadyExists = 6,
    /// The caller may not do this.
    PermissionDenied = 7,
    /// A bound is reached.
    ResourceExhausted = 8,
    /// The store is not in the state that the request needs.
    FailedPrecondition = 9,
    /// The store changed since the caller read it.
    Aborted = 10,
    /// The request names a position that does not exist.
    OutOfRange = 11,
    /// The daemon has no such operation.
    Unimplemented = 12,
    /// The daemon failed.
    Internal = 13,
    /// The daemon cannot serve this now.
    Unavailable = 14,
    /// Stored content is damaged.
    DataLoss = 15,
    /// The caller does not prove who it is.
    Unauthenticated = 16,
}

impl Code {
    /// The code's number in `google.rpc.Code`.
    pub fn number(self) -> i32 {
        self as i32
    }
}

/// What is known of a change whose call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing was written.
    Nothing,
    /// It may have been written: the call is sent again with the same `request_id`.
    Unknown,
    /// It was written: the same call sent again returns its answer.
    Done,
}

/// Makes the enum and its tables from rows of a reason, its name in the protocol, its code and its outcome.
macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $reason:ident = $name:literal, $code:ident, $outcome:ident;)+) => {
        /// The stable reasons. Each has one canonical code. New ones may be added; none changes its meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Reason {
            $($(#[doc = $doc])+ $reason,)+
        }

        impl Reason {
            /// Every reason.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$reason),+];

            /// The reason's name in the protocol.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$reason => $name,)+
                }
            }

            /// The reason with a name; none for one that this version does not know.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$reason),)+
                    _ => None,
                }
            }

            /// What the reason means, in a sentence.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$reason => concat!($($doc),+).trim_ascii(),)+
                }
            }

            /// The code of all errors with this reason.
            pub fn code(self) -> Code {
                match self {
                    $(Self::$reason => Code::$code,)+
                }
            }

            /// What is known of a change whose call ended with this reason.
            pub fn outcome(self) -> Outcome {
                match self {
                    $(Self::$reason => Outcome::$outcome,)+
                }
            }
        }
    };
}

reasons! {
    /// No session has this id.
    SessionNotFound = "SESSION_NOT_FOUND", NotFound, Nothing;
    /// The session has no message with this id.
    MessageNotFound = "MESSAGE_NOT_FOUND", NotFound, Nothing;
    /// The message has no draft with this id.
    DraftNotFound = "DRAFT_NOT_FOUND", NotFound, Nothing;
    /// No compaction has this id.
    CompactionNotFound = "COMPACTION_NOT_FOUND", NotFound, Nothing;
    /// The message that a result names has no such call.
    CallNotFound = "CALL_NOT_FOUND", NotFound, Nothing;
    /// The call that a prompt's result answers has a result.
    CallAnswered = "CALL_ANSWERED", FailedPrecondition, Nothing;
    /// No preset has this name.
    PresetNotFound = "PRESET_NOT_FOUND", NotFound, Nothing;
    /// A field's value cannot be used; the metadata names the field.
    InvalidField = "INVALID_FIELD", InvalidArgument, Nothing;
    /// A policy's value cannot be used; the metadata names its path.
    PolicyInvalid = "POLICY_INVALID", InvalidArgument, Nothing;
    /// A rule of the operator refuses a secret in the request; the metadata has the rule and, unless it is the text of a
    /// draft, the field.
    SecretRefused = "SECRET_REFUSED", InvalidArgument, Nothing;
    /// A bound was exceeded; the metadata has its name, the limit and the actual value.
    LimitExceeded = "LIMIT_EXCEEDED", InvalidArgument, Nothing;
    /// The client id was used for other content.
    ClientIdReused = "CLIENT_ID_REUSED", AlreadyExists, Nothing;
    /// The request id was used for another request.
    RequestIdReused = "REQUEST_ID_REUSED", InvalidArgument, Nothing;
    /// The page token is not Longhand's, or belongs to another list.
    PageTokenInvalid = "PAGE_TOKEN_INVALID", InvalidArgument, Nothing;
    /// The cursor is not Longhand's.
    CursorInvalid = "CURSOR_INVALID", InvalidArgument, Nothing;
    /// The cursor belongs to another store, or to this one before it was restored.
    CursorForeign = "CURSOR_FOREIGN", FailedPrecondition, Nothing;
    /// The cursor is beyond the log; the metadata has the end of the log.
    CursorOutOfRange = "CURSOR_OUT_OF_RANGE", OutOfRange, Nothing;
    /// The view token was not issued by this store for the session's history.
    ViewTokenInvalid = "VIEW_TOKEN_INVALID", InvalidArgument, Nothing;
    /// The session has no such revision.
    RevisionOutOfRange = "REVISION_OUT_OF_RANGE", OutOfRange, Nothing;
    /// History, marks, policy or window changed after the expected revision.
    RevisionMismatch = "REVISION_MISMATCH", Aborted, Nothing;
    /// The conversation ends with another message than the caller expects; the metadata has its id.
    LastMessageMismatch = "LAST_MESSAGE_MISMATCH", Aborted, Nothing;
    /// The session is archived.
    SessionArchived = "SESSION_ARCHIVED", FailedPrecondition, Nothing;
    /// The message is sealed and takes no more parts.
    MessageSealed = "MESSAGE_SEALED", FailedPrecondition, Nothing;
    /// The message was sealed because nothing was written to it for its open timeout.
    MessageExpired = "MESSAGE_EXPIRED", FailedPrecondition, Nothing;
    /// The message is still open.
    MessageOpen = "MESSAGE_OPEN", FailedPrecondition, Nothing;
    /// The text does not continue the text that the draft has.
    OffsetMismatch = "OFFSET_MISMATCH", Aborted, Nothing;
    /// There is nothing that a compaction could remove.
    NothingToCompact = "NOTHING_TO_COMPACT", FailedPrecondition, Nothing;
    /// No compaction, rewind, edit or mark of words is active.
    NothingToUndo = "NOTHING_TO_UNDO", FailedPrecondition, Nothing;
    /// No undone change can be redone.
    NothingToRedo = "NOTHING_TO_REDO", FailedPrecondition, Nothing;
    /// What was named has no content.
    NothingToErase = "NOTHING_TO_ERASE", FailedPrecondition, Nothing;
    /// The session is erased.
    SessionErased = "SESSION_ERASED", FailedPrecondition, Nothing;
    /// The same content was erased, and the request keeps it erased.
    ContentErased = "CONTENT_ERASED", FailedPrecondition, Nothing;
    /// A compaction, rewind or edit was made since the undo; the metadata has its revision.
    RedoOvertaken = "REDO_OVERTAKEN", FailedPrecondition, Nothing;
    /// The compaction has ended.
    CompactionEnded = "COMPACTION_ENDED", FailedPrecondition, Nothing;
    /// The maximum number of requested compactions waits in the session; the metadata has the limit.
    TooManyCompactions = "TOO_MANY_COMPACTIONS", ResourceExhausted, Nothing;
    /// The policy has automatic compactions switched off.
    AutomaticOff = "AUTOMATIC_OFF", FailedPrecondition, Nothing;
    /// The provider's message does not mean that the request was too large.
    OverflowNotRecognized = "OVERFLOW_NOT_RECOGNIZED", InvalidArgument, Nothing;
    /// The view was compacted for this request already, and is still too large for the provider.
    OverflowAgain = "OVERFLOW_AGAIN", FailedPrecondition, Nothing;
    /// The configuration offers no summary tasks to clients.
    SummaryTasksOff = "SUMMARY_TASKS_OFF", FailedPrecondition, Nothing;
    /// The compaction offers no summary task, or none any more.
    SummaryTaskNotFound = "SUMMARY_TASK_NOT_FOUND", NotFound, Nothing;
    /// The lease of a summary task ended, or the token belongs to another lease.
    SummaryLeaseLost = "SUMMARY_LEASE_LOST", FailedPrecondition, Nothing;
    /// The client's text cannot be the summary; the metadata's `failure` has the reason.
    SummaryRefused = "SUMMARY_REFUSED", InvalidArgument, Nothing;
    /// A message that a call names has no position for it: a rewind left it out of the conversation, a summary stands for
    /// it, or the range of a summary does not fit the session.
    BoundaryInvalid = "BOUNDARY_INVALID", FailedPrecondition, Nothing;
    /// The view is too large to be read.
    ViewTooLarge = "VIEW_TOO_LARGE", ResourceExhausted, Nothing;
    /// The view has something that the format cannot carry; the metadata has the format, the kind of content, and the
    /// message and the part.
    ContentNotInFormat = "CONTENT_NOT_IN_FORMAT", FailedPrecondition, Nothing;
    /// The maximum number of event streams is open; the metadata has the limit.
    TooManyStreams = "TOO_MANY_STREAMS", ResourceExhausted, Nothing;
    /// The client did not read its answer, for too long or while others needed the memory; an event stream resumes with
    /// the cursor in the metadata.
    ReaderStalled = "READER_STALLED", ResourceExhausted, Unknown;
    /// The view is large, and other large views take the memory for them; try again.
    TooManyViews = "TOO_MANY_VIEWS", ResourceExhausted, Nothing;
    /// Other requests that are not complete take the memory for requests, or as many of a kind wait as may; try again.
    TooManyRequests = "TOO_MANY_REQUESTS", ResourceExhausted, Nothing;
    /// The request was not complete in time.
    RequestTimedOut = "REQUEST_TIMED_OUT", DeadlineExceeded, Nothing;
    /// The request uses an unknown compression.
    EncodingUnknown = "ENCODING_UNKNOWN", Unimplemented, Nothing;
    /// The search index is not open: it is made anew, or its file cannot be read.
    SearchUnavailable = "SEARCH_UNAVAILABLE", Unavailable, Nothing;
    /// Too many writes wait; try again.
    StoreBusy = "STORE_BUSY", Unavailable, Nothing;
    /// The disk failed during this write: after a restart of the daemon it may be there or not. Send it again then,
    /// with the same request id.
    OutcomeUncertain = "OUTCOME_UNCERTAIN", Unavailable, Unknown;
    /// The disk failed, or files of the store were removed: the store serves reads only until the daemon starts again.
    /// The metadata's `cause` has the cause.
    StoreStopped = "STORE_STOPPED", Unavailable, Nothing;
    /// Another daemon owns the shard with the sessions, or may own it: it has the answer. A write may be there or not: send
    /// it again there, with the same request id.
    LeaseLost = "LEASE_LOST", Unavailable, Unknown;
    /// No daemon serves the shard now, and none took it while the call waited, or the daemon cannot check the access token
    /// because it does not reach the database: the call was not carried out. A stream resumes with its last cursor.
    NoOwner = "NO_OWNER", Unavailable, Nothing;
    /// The database has no shard of this name.
    ShardNotFound = "SHARD_NOT_FOUND", NotFound, Nothing;
    /// No daemon with this id runs with the database.
    DaemonNotFound = "DAEMON_NOT_FOUND", NotFound, Nothing;
    /// The disk is full; nothing was written. Writes succeed again once there is space.
    StorageFull = "STORAGE_FULL", ResourceExhausted, Nothing;
    /// The file system is read-only; nothing was written.
    StorageReadOnly = "STORAGE_READ_ONLY", Unavailable, Nothing;
    /// The write is done, but its answer cannot be read: sending it again with the same request id returns the answer.
    AnswerLost = "ANSWER_LOST", Internal, Done;
    /// The daemon is stopping; resume with the last cursor.
    ShuttingDown = "SHUTTING_DOWN", Unavailable, Unknown;
    /// No service has a method of this name.
    MethodUnknown = "METHOD_UNKNOWN", Unimplemented, Nothing;
    /// The request is larger than any can be; the limit of its content is exceeded too.
    RequestTooLarge = "REQUEST_TOO_LARGE", ResourceExhausted, Nothing;
    /// The request is not a message of the protocol.
    RequestMalformed = "REQUEST_MALFORMED", InvalidArgument, Nothing;
    /// A file of the backup's name exists; it is never replaced.
    BackupExists = "BACKUP_EXISTS", AlreadyExists, Nothing;
    /// Another backup is being made.
    BackupRunning = "BACKUP_RUNNING", Aborted, Nothing;
    /// The backup could not be made: no space, no permission, or too many writes meanwhile; nothing is left of it.
    BackupFailed = "BACKUP_FAILED", FailedPrecondition, Nothing;
    /// The backup was made and then found damaged, as the store itself probably is; nothing is left of it.
    BackupDamaged = "BACKUP_DAMAGED", DataLoss, Nothing;
    /// The archive is not as it was written, or its chains do not commit to what it says.
    ArchiveInvalid = "ARCHIVE_INVALID", InvalidArgument, Nothing;
    /// A session of the archive is in the store in another state; the metadata has its id.
    ArchiveConflict = "ARCHIVE_CONFLICT", AlreadyExists, Nothing;
    /// Content of an archive was erased while it was written.
    ArchiveOvertaken = "ARCHIVE_OVERTAKEN", Aborted, Nothing;
    /// The call is only accepted on the daemon's Unix socket.
    SocketRequired = "SOCKET_REQUIRED", PermissionDenied, Nothing;
    /// The call needs an access token, and has none.
    AccessTokenMissing = "ACCESS_TOKEN_MISSING", Unauthenticated, Nothing;
    /// The access token is unknown, revoked or over.
    AccessTokenInvalid = "ACCESS_TOKEN_INVALID", Unauthenticated, Nothing;
    /// No access token has this id.
    AccessTokenNotFound = "ACCESS_TOKEN_NOT_FOUND", NotFound, Nothing;
    /// The caller may not do this; the metadata has the scope that the call needs.
    ScopeMissing = "SCOPE_MISSING", PermissionDenied, Nothing;
    /// Too many calls of this address had no valid access token; try again later.
    TooManyAttempts = "TOO_MANY_ATTEMPTS", ResourceExhausted, Nothing;
    /// The tenant has as much of something as it may; the metadata has the quota and the limit.
    QuotaExceeded = "QUOTA_EXCEEDED", ResourceExhausted, Nothing;
    /// The tenant asks more often than it may; try again later.
    RateLimited = "RATE_LIMITED", ResourceExhausted, Nothing;
    /// The call cannot be recorded in the access log, without which it is not answered.
    AccessLogFailed = "ACCESS_LOG_FAILED", Unavailable, Unknown;
    /// The request names a host or an origin that is not one of the daemon's.
    OriginRefused = "ORIGIN_REFUSED", PermissionDenied, Nothing;
    /// The link to the console is unknown, was used, or is over.
    ConsoleLinkInvalid = "CONSOLE_LINK_INVALID", Unauthenticated, Nothing;
    /// A change by a session of the console has not the token that proves that its page asks for it.
    ConsoleTokenInvalid = "CONSOLE_TOKEN_INVALID", PermissionDenied, Nothing;
    /// No run has this id or number, or no run is active in the session.
    RunNotFound = "RUN_NOT_FOUND", NotFound, Nothing;
    /// The session has no prompt with this id.
    PromptNotFound = "PROMPT_NOT_FOUND", NotFound, Nothing;
    /// The session has no approval with this id.
    ApprovalNotFound = "APPROVAL_NOT_FOUND", NotFound, Nothing;
    /// The run on whose behalf the call is made is not the session's active one; the metadata has its number, and that of
    /// the active one.
    RunLost = "RUN_LOST", Aborted, Nothing;
    /// Another run is active; the metadata has its number and its agent.
    RunActive = "RUN_ACTIVE", FailedPrecondition, Nothing;
    /// No prompt waits that the request may take.
    NoPrompt = "NO_PROMPT", FailedPrecondition, Nothing;
    /// The prompt does not wait any more; the metadata's `end` is `taken` or `withdrawn`.
    PromptEnded = "PROMPT_ENDED", FailedPrecondition, Nothing;
    /// The question does not wait any more; the metadata has who answered, and the choice that holds.
    ApprovalEnded = "APPROVAL_ENDED", FailedPrecondition, Nothing;
    /// A row is damaged.
    RowCorrupt = "ROW_CORRUPT", DataLoss, Nothing;
    /// An unexpected failure; the log has the details.
    Internal = "INTERNAL", Internal, Nothing;
}

impl Reason {
    /// The delay after which the same request can succeed; none if a delay alone does not help.
    pub fn retry_after(self) -> Option<Duration> {
        match self {
            Self::StoreBusy | Self::TooManyViews | Self::TooManyRequests => Some(RETRY_AFTER),
            Self::TooManyAttempts | Self::RateLimited => Some(Duration::from_secs(1)),
            _ => None,
        }
    }

    /// True if the same call can succeed later. A change is then carried out once, by its `request_id`.
    pub fn is_temporary(self) -> bool {
        match self {
            Self::StorageReadOnly => false,
            Self::AnswerLost => true,
            _ => self.code() == Code::Unavailable || self.retry_after().is_some(),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_in_the_protos_has_every_reason_with_its_code_and_outcome() {
        let source = include_str!("../../../proto/longhand/v1/session.proto");
        let rows = source.lines().filter_map(|line| line.strip_prefix("//   "));
        let documented: Vec<Vec<&str>> = rows.map(|row| row.split_whitespace().take(3).collect()).collect();
        for reason in Reason::ALL {
            let code = format!("{:?}", reason.code()).to_uppercase();
            let outcome = format!("{:?}", reason.outcome()).to_lowercase();
            let row = documented.iter().find(|row| row.first() == Some(&reason.as_str()));
            let row = row.unwrap_or_else(|| panic!("{reason:?} is not there"));
            assert_eq!((row[1].replace('_', ""), row[2]), (code, outcome.as_str()), "{reason:?}");
            assert_eq!(Reason::from_name(row[0]), Some(reason));
        }
        assert_eq!(documented.len(), Reason::ALL.len());
        assert_eq!(Reason::from_name("NEVER_HEARD_OF"), None);
    }

    #[test]
    fn what_a_delay_mends_is_temporary() {
        let temporary: Vec<&str> =
            Reason::ALL.iter().filter(|reason| reason.is_temporary()).map(|r| r.as_str()).collect();
        let expected = [
            "TOO_MANY_VIEWS",
            "TOO_MANY_REQUESTS",
            "SEARCH_UNAVAILABLE",
            "STORE_BUSY",
            "OUTCOME_UNCERTAIN",
            "STORE_STOPPED",
            "LEASE_LOST",
            "NO_OWNER",
            "ANSWER_LOST",
            "SHUTTING_DOWN",
            "TOO_MANY_ATTEMPTS",
            "RATE_LIMITED",
            "ACCESS_LOG_FAILED",
        ];
        assert_eq!(temporary, expected);
    }
}
