//! What PostgreSQL's errors mean.

use crate::error::Error;
use crate::write_state::WriteState;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgDatabaseError, PgSeverity};

/// What an error of the server, or of the way to it, means.
pub(super) fn engine_error(error: sqlx::Error) -> Error {
    match &error {
        // Whatever its code says: the server ended the connection, and a commit that it was in may be there or not.
        sqlx::Error::Database(refused) if is_end(&**refused) => Error::Unreachable(error.to_string()),
        sqlx::Error::Database(refused) => match refused.code().as_deref() {
            Some("LH001") => Error::Stopped(WriteState::LeaseLost),
            Some("53100") => Error::Full,
            Some("25006") => Error::ReadOnly,
            // A damaged page or index.
            Some("XX001" | "XX002") => Error::corrupt("database", refused),
            // A deadlock, a lock that was not free in time, or a conflict with another transaction.
            Some("40P01" | "55P03" | "40001") => Error::Busy("another transaction of the database is in the way"),
            // The server stops, or ended this connection.
            Some(code) if code.starts_with("57P") || code.starts_with("08") => Error::Unreachable(error.to_string()),
            // Another shard of the database has the id or the client's id since a moment: the next attempt finds it there.
            Some("23505") if refused.table() == Some("directory") || refused.message().contains("another shard") => {
                Error::Busy("another shard of the database has the name since a moment")
            }
            // Too many connections.
            Some("53300") => Error::Unreachable(error.to_string()),
            _ => Error::Database(error.to_string()),
        },
        // A pool waits for a server that does not answer, and says only that it waited.
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::PoolTimedOut => Error::Unreachable(error.to_string()),
        _ => Error::Database(error.to_string()),
    }
}

/// True for an error with which the server ends a connection.
fn is_end(refused: &dyn DatabaseError) -> bool {
    let refused = refused.try_downcast_ref::<PgDatabaseError>();
    refused.is_some_and(|refused| matches!(refused.severity(), PgSeverity::Panic | PgSeverity::Fatal))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlx::ConnectOptions as _;
    use sqlx::postgres::{PgConnectOptions, PgSslMode};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    #[test]
    fn a_server_that_does_not_answer_is_asked_again() {
        let ended = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        for error in [sqlx::Error::PoolTimedOut, sqlx::Error::WorkerCrashed, ended().into()] {
            let text = error.to_string();
            assert!(matches!(engine_error(error), Error::Unreachable(_)), "{text}");
        }
        assert!(matches!(engine_error(sqlx::Error::RowNotFound), Error::Database(_)));
    }

    /// The error of a server that answers the first statement of a connection with one.
    async fn error_of_server(severity: &str, code: &str) -> Error {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let mut error = Vec::new();
        for (field, value) in [(b'S', severity), (b'V', severity), (b'C', code), (b'M', "no")] {
            error.extend([&[field], value.as_bytes(), &[0]].concat());
        }
        error.push(0);
        let message = |kind: u8, body: &[u8]| {
            let length = u32::try_from(body.len() + 4).expect("short");
            [&[kind], &length.to_be_bytes()[..], body].concat()
        };
        let open = [message(b'R', &0_u32.to_be_bytes()), message(b'Z', b"I")].concat();
        let refusal = [message(b'E', &error), message(b'Z', b"I")].concat();
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let mut asked = [0; 4_096];
            for answer in [open, refusal] {
                let read = stream.read(&mut asked).await.expect("a message");
                assert!(read > 0);
                stream.write_all(&answer).await.expect("a reader");
            }
        });
        let options = PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(port).username("u");
        let mut conn = options.ssl_mode(PgSslMode::Disable).connect().await.expect("a connection");
        let refused = sqlx::raw_sql("commit").execute(&mut conn).await.expect_err("an error");
        serving.await.expect("no panic");
        engine_error(refused)
    }

    #[tokio::test]
    async fn an_error_that_ends_the_connection_says_nothing_of_the_commit() {
        for (severity, code) in [("PANIC", "53100"), ("PANIC", "XX000"), ("FATAL", "XX001"), ("FATAL", "57P01")] {
            let error = error_of_server(severity, code).await;
            assert!(matches!(error, Error::Unreachable(_)), "{severity} {code}: {error:?}");
        }
        assert!(matches!(error_of_server("ERROR", "53100").await, Error::Full));
        assert!(matches!(error_of_server("ERROR", "XX000").await, Error::Database(_)));
    }
}
