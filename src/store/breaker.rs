//! The breaker: it stops automatic reductions that make no progress.

use super::error::Result;
use super::tx::Tx;
use crate::model::compaction::Failure;

/// What ends a loop of reductions that change nothing.
#[derive(Debug, Clone, Copy)]
pub struct Breaker {
    /// After this many without progress in a row …
    pub failures_max: i64,
    /// … automatic triggers wait for this many user messages.
    pub hold_turns: i64,
}

/// Why automatic reductions stop for a while, and what ends that; none where one more without progress does not stop them.
pub(super) fn stops(tx: &mut Tx<'_>, key: i64, breaker: Breaker) -> Result<Option<Failure>> {
    let failures = tx.loaded(key)?.failures + 1;
    let Breaker { failures_max, hold_turns } = breaker;
    Ok((failures >= failures_max && hold_turns > 0).then(|| Failure {
        reason: "BREAKER_OPEN".to_owned(),
        message: format!(
            "no progress {failures} times in a row: automatic reductions stop until {hold_turns} user messages came or \
             the view has grown a good deal; a reduction by hand, another window or another policy ends that at once"
        ),
    }))
}

/// Counts a reduction without progress, and holds automatic triggers when there were too many.
pub(super) fn no_progress(tx: &mut Tx<'_>, key: i64, breaker: Breaker) -> Result<()> {
    let head = tx.loaded(key)?;
    head.failures += 1;
    head.failed_tokens = Some(head.view_tokens);
    if head.failures >= breaker.failures_max {
        head.failures = 0;
        head.hold_turns = breaker.hold_turns;
        head.hold_breaker = breaker.hold_turns > 0;
        head.due_revision = None;
    }
    Ok(())
}
