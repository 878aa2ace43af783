//! Stored instants that are further ahead of the clock than any valid wait. They come from a wrong system clock or from
//! changes with a database tool, and waits for them would last until real time has caught up.
//!
//! Within one process times of events never go back. After a restart they continue from the newest event, so that history is
//! never in the future either; only instants that were stored without an event remain.

use super::clock_segments;
use crate::clock::Clock;
use crate::engine::{self, Connection, Reader};
use crate::error::Result;
use crate::limits;
use crate::model::time::Timestamp;

const NEWEST_EVENT: &str = "select time from event where seq = (select max(seq) from event)";
/// A job without an attempt waits for nothing, unless it was proposed to people first.
const FRESH_JOBS: &str =
    "update job set run_at = ?1 where state = 1 and queued = 0 and run_at > ?1 and attempt = 0 and proposed <> 1";
const PROPOSALS: &str = "update job set run_at = ?1 where state = 1 and queued = 0 and run_at > ?1 and proposed = 1";
const RETRIES: &str = "update job set run_at = ?1 where state = 1 and queued = 0 and run_at > ?1 and proposed <> 1";
const WAKE_TIMES: &str = "update session set wake_time = ?1 where wake_time > ?1";
const COOLDOWNS: &str = "update session set cooldown_end = ?1 where cooldown_end > ?1";
/// Sessions are decided in this order: one with a time in the future would come after all others.
const DUE: &str = "update session set due_time = ?1 where due_revision is not null and due_time > ?1";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[NEWEST_EVENT, FRESH_JOBS, PROPOSALS, RETRIES, WAKE_TIMES, COOLDOWNS, DUE];

/// Milliseconds by which the newest event may be ahead of the system's clock before a warning is logged.
const AHEAD_MS: i64 = 60_000;

/// Sets the clock to continue from the newest event, tells it which time was confirmed before, and lowers stored instants to the furthest valid wait. For a store
/// without readers and writers yet.
pub(crate) fn lower_times(conn: &Connection, clock: &Clock) -> Result<()> {
    let newest: Option<i64> = engine::scalar(NEWEST_EVENT).optional(conn)?;
    let newest = newest.map(Timestamp).unwrap_or_default();
    if newest > clock.system().plus_millis(AHEAD_MS) {
        let newest = newest.to_iso_8601();
        tracing::warn!(newest, "the newest event is ahead of the system's clock: times go on from there");
    }
    let dating = clock_segments::read_dating(&mut Reader::new(conn))?;
    let last = dating.segments().last();
    let known = last.map_or(newest, |last| last.event_end().max(newest));
    // Behind it: an event of the same time would be dated with what was before the daemon was off.
    clock.skip_to(Timestamp(known.0 + 1));
    if let Some(last) = last {
        clock.believe(last.confirmed_end());
    }
    let now = clock.now();
    for (statement, longest_ms) in [
        (FRESH_JOBS, 0),
        (PROPOSALS, limits::POLICY_WAIT_MS_MAX),
        (RETRIES, limits::RETRY_AFTER_MS_MAX),
        (WAKE_TIMES, limits::POLICY_WAIT_MS_MAX),
        (COOLDOWNS, limits::POLICY_WAIT_MS_MAX),
        (DUE, 0),
    ] {
        let done = engine::query(statement).bind(now.plus_millis(longest_ms).0).changed(conn)?;
        if done > 0 {
            tracing::warn!(rows = done, statement, "instants that were stored in the future are brought down");
        }
    }
    Ok(())
}
