//! What is left to be done between batches: what was erased is taken out of what the store is kept in.

use crate::engine::{self, Connection};
use crate::error::Result;
use tokio::sync::watch;

pub(super) const CLEANED: &str = "select coalesce((select min(id) - 1 from erasure where is_clean = 0), \
     (select max(id) from erasure), 0), (select count(*) from erasure where is_clean = 0)";
pub(super) const SET_CLEAN: &str = "update erasure set is_clean = 1 where is_clean = 0";

/// What is left to be done.
pub(super) struct CleaningState {
    /// True while the store may have bytes of erased content.
    pub(super) is_unclean: bool,
    /// True while the next step follows without waiting for the next check.
    pub(super) goes_on: bool,
    /// The number of the newest erasure of which nothing is left.
    pub(super) cleaned: watch::Sender<i64>,
}

impl CleaningState {
    /// What an earlier daemon left, with the number of the newest erasure of which nothing is left.
    pub(super) fn load(conn: &Connection) -> Result<(Self, watch::Receiver<i64>)> {
        let row = engine::query(CLEANED).one(conn)?;
        let (cleaned, receiver) = watch::channel(row.get::<i64>(0)?);
        let is_unclean = row.get::<i64>(1)? > 0;
        Ok((Self { is_unclean, goes_on: false, cleaned }, receiver))
    }
}
