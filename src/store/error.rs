//! What can go wrong in the store.

use crate::model::Revision;

/// Why the store did not do what it was asked. Nothing was written, unless a variant says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No session, message, draft or reduction has this id.
    #[error("there is no {kind} {id}")]
    NotFound {
        /// What was looked for.
        kind: Kind,
        /// The id that was given.
        id: String,
    },
    /// The session is archived.
    #[error("the session is archived")]
    Archived,
    /// History, marks or policy changed since.
    #[error("history changed at revision {current}, after the expected revision {expected}")]
    RevisionMismatch {
        /// What the caller expected.
        expected: Revision,
        /// The newest revision that changed history, marks or policy.
        current: Revision,
    },
    /// The revision is not one of the session's.
    #[error("revision {revision} is not between 0 and {newest}")]
    RevisionOutOfRange {
        /// What was given.
        revision: Revision,
        /// The newest there is.
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
    /// The message takes no more parts.
    #[error("the message is sealed")]
    MessageSealed,
    /// The message is still being written.
    #[error("the message is still open")]
    MessageOpen,
    /// The words do not follow on what the draft has.
    #[error("the draft has {length} bytes, and these words do not go on with it at {offset}")]
    OffsetMismatch {
        /// What the caller thought.
        offset: i64,
        /// What there is.
        length: i64,
    },
    /// A named bound was passed.
    #[error("{what} is {actual}, more than {limit}")]
    LimitExceeded {
        /// What is too large.
        what: &'static str,
        /// The bound.
        limit: i64,
        /// What was given.
        actual: i64,
    },
    /// There is nothing that a reduction could take away.
    #[error("nothing in the view can be taken away")]
    NothingToCompact,
    /// What a change was worked out from is no longer in force; it can be worked out again.
    #[error("the policy changed meanwhile")]
    PolicyChanged,
    /// No change of the picture is in force.
    #[error("no reduction, rewind or edit is in force")]
    NothingToUndo,
    /// Nothing is taken back.
    #[error("nothing is taken back that could be brought back")]
    NothingToRedo,
    /// What was taken back cannot be brought back any more.
    #[error("the change at revision {0} was made since the undo, so that nothing can be brought back any more")]
    RedoOvertaken(Revision),
    /// The reduction has ended.
    #[error("the reduction has ended")]
    CompactionEnded,
    /// Somebody else holds the job, or it has ended.
    #[error("the lease of the job is lost")]
    LeaseLost,
    /// A summary's range does not fit the session.
    #[error("{0}")]
    BoundaryInvalid(&'static str),
    /// Too many writes wait.
    #[error("too many writes are waiting")]
    Busy,
    /// The disk failed to sync: nothing is acknowledged any more.
    #[error("the disk failed to sync; the store serves reads only")]
    Poisoned,
    /// The daemon is stopping.
    #[error("the store is closing")]
    Closed,
    /// A row is not what it should be.
    #[error("corrupt {table}: {detail}")]
    Corrupt {
        /// The table.
        table: &'static str,
        /// What is wrong.
        detail: String,
    },
    /// The database refused.
    #[error("database: {0}")]
    Database(#[from] sqlx::Error),
    /// The store cannot be opened.
    #[error("{0}")]
    Open(String),
}

/// What an id names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A session.
    Session,
    /// A message.
    Message,
    /// A draft.
    Draft,
    /// A reduction.
    Compaction,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Session => "session",
            Self::Message => "message",
            Self::Draft => "draft",
            Self::Compaction => "compaction",
        })
    }
}

impl Error {
    /// A row that is not what it should be.
    pub(crate) fn corrupt(table: &'static str, detail: impl std::fmt::Display) -> Self {
        Self::Corrupt { table, detail: detail.to_string() }
    }

    /// Something that is not there.
    pub(crate) fn not_found(kind: Kind, id: impl std::fmt::Display) -> Self {
        Self::NotFound { kind, id: id.to_string() }
    }
}

/// What the store answers.
pub type Result<T> = std::result::Result<T, Error>;
