//! Errors for callers: a stable reason, a message, and the facts in it.

use crate::limits;
pub use crate::reason::Reason;
use crate::store;
use std::collections::BTreeMap;

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
pub fn excerpt(text: impl std::fmt::Display) -> String {
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
        let (field, message) = (excerpt(field), excerpt(message));
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
