//! What is left to be done with the files between batches: what was erased is taken out of them.

use crate::engine::gaps::{self, Gaps};
use crate::engine::home::Home;
use crate::engine::{self, Connection};
use crate::error::Result;
use tokio::sync::watch;

pub(super) const CLEANED: &str = "select coalesce((select min(id) - 1 from erasure where is_clean = 0), \
     (select max(id) from erasure), 0), (select count(*) from erasure where is_clean = 0)";
pub(super) const SET_CLEAN: &str = "update erasure set is_clean = 1 where is_clean = 0";

/// What is left to be done with the files.
pub(super) struct Cleaning {
    /// True while files may have bytes of erased content.
    pub(super) is_unclean: bool,
    /// True while pages are looked at for them, without waiting for the next check.
    pub(super) goes_on: bool,
    /// True while the log is to be emptied because pages were given back.
    pub(super) has_shrunk: bool,
    pub(super) gaps: Gaps,
    /// The number of the newest erasure of which no file has anything.
    pub(super) cleaned: watch::Sender<i64>,
}

impl Cleaning {
    /// What an earlier daemon left, with the number of the newest erasure of which no file has anything.
    pub(super) fn of(conn: &Connection) -> Result<(Self, watch::Receiver<i64>)> {
        if conn.is_sqlite() && !gaps::can_be_cleaned() {
            tracing::warn!(
                "this program was built without sqlite_dbpage: copies of what is erased can stay in its files, and every \
                 answer to an erasure says so. Build it with the flags of .cargo/config.toml"
            );
        }
        let row = engine::query(CLEANED).one(conn)?;
        let (cleaned, receiver) = watch::channel(row.get::<i64>(0)?);
        let is_unclean = row.get::<i64>(1)? > 0;
        let cleaning = Self { is_unclean, goes_on: false, has_shrunk: false, gaps: Gaps::default(), cleaned };
        Ok((cleaning, receiver))
    }

    /// Notes which pages were written, before a checkpoint.
    pub(super) fn note(&mut self, home: &Home, conn: &Connection) {
        if let Some(log) = home.log() {
            self.gaps.note(conn, log);
        }
    }
}
