//! A standby answers like its primary did some time ago, also while it is promoted: nothing is asked of it.

use sqlx::PgConnection;
use std::io;

const IS_STANDBY: &str = "select pg_is_in_recovery()";

/// Fails for a connection to a standby as for one to nothing, so that it is tried again.
pub(super) async fn check(conn: &mut PgConnection) -> sqlx::Result<()> {
    match sqlx::query_scalar(IS_STANDBY).fetch_one(conn).await? {
        true => Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::NotConnected, "the database is a standby"))),
        false => Ok(()),
    }
}
