//! What PostgreSQL's errors mean.

use crate::store::error::Error;
use crate::store::write_state::WriteState;

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(refused) => match refused.code().as_deref() {
                Some("LH001") => Self::Stopped(WriteState::LeaseLost),
                Some("53100") => Self::Full,
                Some("25006") => Self::ReadOnly,
                // A damaged page or index.
                Some("XX001" | "XX002") => Self::corrupt("database", refused),
                // A deadlock, a lock that was not free in time, or a conflict with another transaction.
                Some("40P01" | "55P03" | "40001") => Self::Busy("another transaction of the database is in the way"),
                // The server stops, or ended this connection.
                Some(code) if code.starts_with("57P") || code.starts_with("08") => Self::Unreachable(error.to_string()),
                // Another shard of the database has the id or the client's id since a moment: the next attempt finds it there.
                Some("23505")
                    if refused.table() == Some("directory") || refused.message().contains("another shard") =>
                {
                    Self::Busy("another shard of the database has the name since a moment")
                }
                // Too many connections.
                Some("53300") => Self::Unreachable(error.to_string()),
                _ => Self::Database(error.to_string()),
            },
            // A pool waits for a server that does not answer, and says only that it waited.
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::PoolTimedOut => Self::Unreachable(error.to_string()),
            _ => Self::Database(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_answer_is_asked_again() {
        let ended = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        for error in [sqlx::Error::PoolTimedOut, sqlx::Error::WorkerCrashed, ended().into()] {
            let text = error.to_string();
            assert!(matches!(Error::from(error), Error::Unreachable(_)), "{text}");
        }
        assert!(matches!(Error::from(sqlx::Error::RowNotFound), Error::Database(_)));
    }
}
