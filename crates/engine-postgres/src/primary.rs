//! A standby answers with the past of its primary, even during its promotion: Longhand never asks one.

use sqlx::PgConnection;
use std::io;

const IS_STANDBY: &str = "select pg_is_in_recovery()";

/// Treats a standby as an unreachable server, so that callers try again.
pub(super) async fn check(conn: &mut PgConnection) -> sqlx::Result<()> {
    match sqlx::query_scalar(IS_STANDBY).fetch_one(conn).await? {
        true => Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::NotConnected, "the database is a standby"))),
        false => Ok(()),
    }
}
