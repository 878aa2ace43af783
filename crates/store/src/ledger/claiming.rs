//! Claims on jobs: made, kept alive, and ended from outside. A worker is notified at once when its job is ended by
//! another caller, so that it does not work or pay for an unwanted result.

use super::chain::Digest;
use super::claims::{Claim, PlannedRange};
use super::head::{Receipt, SessionKey};
use super::jobs::{JobRow, by_row, current_row, give_up, holds};
use super::marks;
use super::tx::{Requester, Tx};
use crate::engine;
use crate::engine::Reader;
use crate::error::{Error, Result};
use crate::model::compaction::{CompactionState, Failure, FailureReason};
use crate::model::event::EventBody;
use crate::model::mark::{Mark, MarkBody};
use crate::model::session::{OverWindowReason, SessionState};
use crate::model::time::Timestamp;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const CLAIM: &str = "update job set state = 2, attempt = attempt + 1, lease_epoch = lease_epoch + 1, \
     lease_owner = ?2, lease_until = ?3, proposed = 0, base_revision = ?4, started_revision = coalesce(started_revision, ?5), \
     start_time = coalesce(start_time, ?6) where id = ?1 and state = 1 and queued = 0 and run_at <= ?6";
const HEARTBEAT: &str = "update job set lease_until = ?3 where id = ?1 and lease_epoch = ?2 and state = 2";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[CLAIM, HEARTBEAT];

/// Claims a job whose time has come; none if another worker was faster. The first claim writes `CompactionStarted`.
pub(crate) fn claim(tx: &mut Tx<'_>, row: i64, owner: Uuid, until: Timestamp) -> Result<Option<Claim>> {
    tx.flush()?;
    let job = by_row(&mut Reader::new(tx.conn), row)?;
    let key = job.session;
    let now = tx.now;
    let head = tx.head(key)?;
    let judged_at = job.compaction.base_revision.unwrap_or(job.requested_revision);
    if head.state != SessionState::Active || (job.is_automatic() && head.compaction_revision > judged_at) {
        end_superseded(tx, key, &job)?;
        return Ok(None);
    }
    let head = tx.loaded(key)?;
    let (base, was_over_window, context_tokens) =
        (head.revision, head.over_window.is_some(), job.compaction.tokens_at_request);
    let claimed = engine::query(CLAIM)
        .bind(row)
        .bind(owner.as_bytes().to_vec())
        .bind(until.0)
        .bind(base)
        .bind(base + 1)
        .bind(now.0)
        .changed(tx.conn)?;
    if claimed == 0 {
        return Ok(None);
    }
    let over_window = &mut tx.loaded(key)?.over_window;
    *over_window = over_window.map(|_| OverWindowReason::Pending);
    let caller = Requester { actor: job.compaction.actor.clone(), ..Requester::default() };
    if job.start_time.is_none() {
        let body = EventBody::CompactionStarted {
            compaction: job.compaction.id,
            level: job.compaction.request.level,
            kind: job.compaction.request.kind,
            trigger: job.compaction.request.trigger,
            base,
            context_tokens,
            window_tokens: job.compaction.window_tokens,
        };
        tx.event(key, &caller, &body, &Digest::default())?;
        tx.end_mutation(key, &caller, Receipt::default())?;
    }
    Ok(Some(Claim {
        job: row,
        epoch: job.epoch + 1,
        compaction: job.compaction.id,
        session: SessionKey(key),
        request: job.compaction.request,
        base,
        attempt: job.compaction.attempt + 1,
        lost_attempts: job.lost_attempts,
        window: job.window,
        context_tokens,
        was_over_window,
        start_time: job.start_time.unwrap_or(now),
        ended: tx.claims.add(row),
    }))
}

/// Ends a compaction that may no longer begin or be tried again: an automatic one that another change of the view has
/// superseded, or any in an archived session. In the first case the reason for the compaction may be gone, so the
/// session is evaluated again.
fn end_superseded(tx: &mut Tx<'_>, key: i64, job: &JobRow) -> Result<()> {
    let is_archived = tx.loaded(key)?.state != SessionState::Active;
    let (state, why) = if is_archived {
        (CompactionState::Cancelled, archived())
    } else {
        (CompactionState::Superseded, superseded("the view changed before it was tried"))
    };
    let caller = Requester::default();
    give_up(tx, &caller, job, state, why)?;
    tx.end_mutation(key, &caller, Receipt::default())?;
    let head = tx.loaded(key)?;
    if !is_archived {
        head.set_due(head.revision);
    }
    Ok(())
}

/// The claim of a stopped daemon on a job.
pub(crate) fn lost_claim(tx: &mut Tx<'_>, row: i64) -> Result<Claim> {
    tx.flush()?;
    let job = by_row(&mut Reader::new(tx.conn), row)?;
    Ok(Claim {
        job: row,
        epoch: job.epoch,
        compaction: job.compaction.id,
        session: SessionKey(job.session),
        request: job.compaction.request,
        base: job.compaction.base_revision.unwrap_or_default(),
        attempt: job.compaction.attempt,
        lost_attempts: job.lost_attempts,
        window: job.window,
        context_tokens: job.compaction.tokens_at_request,
        was_over_window: false,
        start_time: job.start_time.unwrap_or_default(),
        ended: CancellationToken::new(),
    })
}

/// Keeps a claim alive.
pub(crate) fn heartbeat(tx: &mut Tx<'_>, claim: &Claim, until: Timestamp) -> Result<()> {
    let done = engine::query(HEARTBEAT).bind(claim.job).bind(claim.epoch).bind(until.0).changed(tx.conn)?;
    if done == 1 { Ok(()) } else { Err(Error::LeaseLost) }
}

/// Records the range that the holder of a claim is about to have summarized, so that a change of the range ends the job
/// at once. If it has changed already, the job ends here.
pub(crate) fn plan(tx: &mut Tx<'_>, claim: &Claim, planned: &PlannedRange) -> Result<()> {
    let key = claim.session.0;
    holds(tx, claim)?;
    tx.claims.plan(claim.job, planned.clone());
    // Usually nothing has changed, and then nothing is written.
    if tx.read_head(key)?.compaction_revision > claim.base {
        tx.flush()?;
        let caller = Requester::default();
        recheck(tx, key, &caller, None)?;
        tx.end_mutation(key, &caller, Receipt::default())?;
    }
    Ok(())
}

/// Ends the running job of a session if the range that it is to summarize has changed, or will have with the mark that
/// comes next. The caller ends the mutation.
pub(crate) fn recheck(tx: &mut Tx<'_>, key: i64, caller: &Requester, next: Option<MarkBody>) -> Result<()> {
    let Some(job) = current_row(tx, key)? else { return Ok(()) };
    let Some(planned) = tx.claims.planned(job.row) else { return Ok(()) };
    let base = job.compaction.base_revision.unwrap_or(job.requested_revision);
    let PlannedRange { covered, tail_start } = planned.clone();
    let revision = tx.next_revision(key)?;
    let marks = marks::session_marks(tx, key)?;
    let still_applies = match next {
        None => marks.still_applies(base, &covered, tail_start),
        Some(body) => {
            let mut marks = marks.clone();
            marks.add(Mark { revision, body });
            marks.still_applies(base, &covered, tail_start)
        }
    };
    if still_applies {
        return Ok(());
    }
    give_up(tx, caller, &job, CompactionState::Superseded, history_changed())?;
    let head = tx.loaded(key)?;
    head.set_due(head.revision);
    Ok(())
}

/// Ends the running job of a session, or one that a trigger requested, because a client undoes a change: no compaction
/// is to follow that directly. The caller ends the mutation.
pub(crate) fn end_for_undo(tx: &mut Tx<'_>, key: i64, caller: &Requester) -> Result<()> {
    let Some(job) = current_row(tx, key)? else { return Ok(()) };
    if job.compaction.state == CompactionState::Running || job.is_automatic() {
        let why = superseded("a change was undone meanwhile");
        give_up(tx, caller, &job, CompactionState::Superseded, why)?;
    }
    Ok(())
}

/// The failure of a compaction whose range was changed.
pub(crate) fn history_changed() -> Failure {
    superseded("history in front of the boundary changed meanwhile")
}

fn superseded(message: &str) -> Failure {
    Failure::new(FailureReason::Superseded, message)
}

/// The failure of a compaction whose session is archived.
pub(crate) fn archived() -> Failure {
    Failure::new(FailureReason::SessionArchived, "the session was archived")
}
