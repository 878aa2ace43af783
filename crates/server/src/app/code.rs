//! The canonical code of each reason, by which every door of the API states what kind of failure it is.

use super::error::Reason;
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

impl Reason {
    /// The code of all errors with this reason.
    pub fn code(self) -> Code {
        match self {
            Self::SessionNotFound
            | Self::MessageNotFound
            | Self::DraftNotFound
            | Self::CompactionNotFound
            | Self::ShardNotFound
            | Self::DaemonNotFound
            | Self::CallNotFound
            | Self::PresetNotFound
            | Self::SummaryTaskNotFound
            | Self::AccessTokenNotFound
            | Self::RunNotFound
            | Self::PromptNotFound
            | Self::ApprovalNotFound => Code::NotFound,
            Self::OverflowNotRecognized
            | Self::InvalidField
            | Self::SecretRefused
            | Self::PolicyInvalid
            | Self::LimitExceeded
            | Self::RequestIdReused
            | Self::PageTokenInvalid
            | Self::CursorInvalid
            | Self::ViewTokenInvalid
            | Self::SummaryRefused
            | Self::ArchiveInvalid
            | Self::RequestMalformed => Code::InvalidArgument,
            Self::MethodUnknown | Self::EncodingUnknown => Code::Unimplemented,
            Self::ClientIdReused | Self::BackupExists | Self::ArchiveConflict => Code::AlreadyExists,
            Self::CursorOutOfRange | Self::RevisionOutOfRange => Code::OutOfRange,
            Self::RevisionMismatch
            | Self::LastMessageMismatch
            | Self::OffsetMismatch
            | Self::BackupRunning
            | Self::ArchiveOvertaken
            | Self::RunLost => Code::Aborted,
            Self::CursorForeign
            | Self::CallAnswered
            | Self::SessionArchived
            | Self::MessageSealed
            | Self::MessageExpired
            | Self::MessageOpen
            | Self::NothingToCompact
            | Self::NothingToUndo
            | Self::NothingToRedo
            | Self::NothingToErase
            | Self::SessionErased
            | Self::ContentErased
            | Self::RedoOvertaken
            | Self::CompactionEnded
            | Self::AutomaticOff
            | Self::OverflowAgain
            | Self::SummaryTasksOff
            | Self::SummaryLeaseLost
            | Self::BackupFailed
            | Self::RunActive
            | Self::NoPrompt
            | Self::PromptEnded
            | Self::ApprovalEnded
            | Self::ContentNotInFormat
            | Self::BoundaryInvalid => Code::FailedPrecondition,
            Self::ViewTooLarge
            | Self::TooManyStreams
            | Self::TooManyCompactions
            | Self::ReaderStalled
            | Self::TooManyViews
            | Self::TooManyRequests
            | Self::RequestTooLarge
            | Self::TooManyAttempts
            | Self::QuotaExceeded
            | Self::RateLimited
            | Self::StorageFull => Code::ResourceExhausted,
            Self::RequestTimedOut => Code::DeadlineExceeded,
            Self::SearchUnavailable
            | Self::StoreBusy
            | Self::AccessLogFailed
            | Self::OutcomeUncertain
            | Self::StoreStopped
            | Self::LeaseLost
            | Self::NoOwner
            | Self::StorageReadOnly
            | Self::ShuttingDown => Code::Unavailable,
            Self::SocketRequired | Self::ScopeMissing | Self::OriginRefused | Self::ConsoleTokenInvalid => {
                Code::PermissionDenied
            }
            Self::AccessTokenMissing | Self::AccessTokenInvalid | Self::ConsoleLinkInvalid => Code::Unauthenticated,
            Self::RowCorrupt | Self::BackupDamaged => Code::DataLoss,
            Self::AnswerLost | Self::Internal => Code::Internal,
        }
    }

    /// The delay after which the same request can succeed; none if a delay alone does not help.
    pub fn retry_after(self) -> Option<Duration> {
        match self {
            Self::StoreBusy | Self::TooManyViews | Self::TooManyRequests => Some(RETRY_AFTER),
            Self::TooManyAttempts | Self::RateLimited => Some(Duration::from_secs(1)),
            _ => None,
        }
    }
}
