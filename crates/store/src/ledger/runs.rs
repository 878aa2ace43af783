//! Runs: acquired, renewed, stopped, ended. A lease that ran out ends its run with all that the run left open, in one
//! mutation.

use super::append::{FinishMessage, SealedRow};
use super::approvals;
use super::cancels::request_cancel;
use super::chain::{self, Digest};
use super::codec::{self, Number as _};
use super::head::{ActiveRun, Head, Receipt, SessionKey};
use super::prompts;
use super::receipts::answered;
use super::tx::{Requester, Tx};
use crate::clock::fresh_id;
use crate::engine::{self, Connection, Reader, Row};
use crate::error::{Error, Kind, Result};
use crate::limits;
use crate::model::Revision;
use crate::model::event::{EventBody, InterruptedCall};
use crate::model::ids::{MessageId, RunId, SessionId};
use crate::model::run::{Epoch, Run, RunEndReason, RunEnded};
use crate::model::time::Timestamp;

macro_rules! select_run {
    ($rest:literal) => {
        concat!(
            "select r.public_id, s.public_id as session, r.epoch, r.actor, r.lease_until, r.start_revision, \
             r.start_time, r.cancel_revision, r.end_reason, r.end_revision, r.end_time, r.failure, r.session_id \
             from run r join session s on s.id = r.session_id ",
            $rest
        )
    };
}

const LEASE: &str = "select lease_until from run where session_id = ?1 and epoch = ?2";
const LAST_EPOCH: &str = "select coalesce(max(epoch), 0) from run where session_id = ?1";
const INSERT: &str = "insert into run (session_id, epoch, public_id, actor, lease_ms, lease_until, start_revision, \
     start_time) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
const RENEW: &str = "update run set lease_ms = ?3, lease_until = ?4 where session_id = ?1 and epoch = ?2 \
     and cancel_revision is null";
const END: &str = "update run set lease_until = null, end_reason = ?3, end_revision = ?4, end_time = ?5, failure = ?6 \
     where session_id = ?1 and epoch = ?2";
const UNANSWERED: &str = "select c.call_id, c.message, m.head from tool_call c join message m on m.public_id = c.message \
     where c.session_id = ?1 and c.revision >= ?2 and c.answered_revision is null order by c.revision, c.position";
const EXPIRED: &str = "select session_id, epoch from run where end_reason is null and lease_until <= ?1 \
     order by lease_until limit +?2";
const POSTPONE: &str = "update run set lease_until = ?3 + lease_ms * 1000 where session_id = ?1 and epoch = ?2";
const RESTART: &str =
    "update run set lease_until = ?1 + lease_ms * 1000 where end_reason is null and cancel_revision is null";
const NEXT: &str = "select lease_until from run where end_reason is null order by lease_until limit 1";
const BY_ID: &str = select_run!("where r.public_id = ?1");
const NEWEST: &str = select_run!("where r.session_id = ?1 order by r.epoch desc limit 1");
const OF_SESSION: &str = select_run!("where r.session_id = ?1 and r.epoch < ?2 order by r.epoch desc limit +?3");
const ACTIVE_OF_TREE: &str = concat!(
    "with recursive tree(id) as (select id from session where id = ?3 union all select c.id from tree join session c on c.parent_id = tree.id) ",
    select_run!(
        "join tree on tree.id = r.session_id where r.end_reason is null and r.session_id < ?1 \
     order by r.session_id desc limit +?2"
    )
);
const ALL_ACTIVE: &str = select_run!(
    "where r.end_reason is null and r.session_id < ?1 \
     order by r.session_id desc limit +?2"
);

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[
    LEASE,
    LAST_EPOCH,
    INSERT,
    RENEW,
    END,
    UNANSWERED,
    EXPIRED,
    POSTPONE,
    RESTART,
    NEXT,
    BY_ID,
    NEWEST,
    OF_SESSION,
    ACTIVE_OF_TREE,
    ALL_ACTIVE,
];

/// Acquires the right to answer a session's next prompt.
#[derive(Debug, Clone)]
pub(crate) struct AcquireRun {
    pub(crate) session: SessionKey,
    pub(crate) caller: Requester,
    /// Milliseconds until the lease ends unless it is renewed.
    pub(crate) lease_ms: i64,
    /// True if the run takes the first prompt of the queue, and is refused without one.
    pub(crate) takes_prompt: bool,
}

impl AcquireRun {
    /// Validates first, then writes. The receipt has the run's id, and that of the prompt.
    pub(crate) fn apply(&self, tx: &mut Tx<'_>) -> Result<Receipt> {
        let Self { session: SessionKey(key), ref caller, lease_ms, takes_prompt } = *self;
        tx.head(key)?;
        if let Some(receipt) = answered(tx, key, caller)? {
            return Ok(receipt);
        }
        tx.loaded(key)?.writable()?;
        tx.flush()?;
        let before = tx.loaded(key)?.run.clone();
        if let Some(run) = &before
            && lease_end(tx, key, run.epoch)?.is_none_or(|end| end > tx.now)
        {
            return Err(Error::RunActive { epoch: run.epoch, actor: run.actor.clone() });
        }
        let prompt = if takes_prompt { Some(prompts::first(tx, key, false)?) } else { None };
        let sealed = match before {
            Some(run) => end(tx, key, &Requester::default(), expiry_reason(&run), String::new())?,
            None => Vec::new(),
        };
        let (id, epoch) = start(tx, key, caller, lease_ms)?;
        let mut ids = vec![id.0];
        if let Some(prompt) = prompt {
            ids.push(prompt.id.0);
            prompts::take(tx, key, caller, prompt, epoch)?;
        }
        let receipt = tx.end_mutation(key, caller, Receipt { ids, ..Receipt::default() })?;
        sealed.into_iter().try_for_each(|sealed| sealed.write(tx))?;
        Ok(receipt)
    }
}

/// Adds a run, which has the next number of its session.
fn start(tx: &mut Tx<'_>, key: i64, caller: &Requester, lease_ms: i64) -> Result<(RunId, Epoch)> {
    let epoch = engine::scalar::<Epoch>(LAST_EPOCH).bind(key).one(tx.conn)? + 1;
    let (id, now) = (RunId(fresh_id()), tx.now);
    let mut digest = Digest::default();
    chain::run(&mut digest, id.0.as_bytes(), epoch, &caller.actor, now);
    let revision = tx.event(key, caller, &EventBody::RunStarted { run: id, epoch }, &digest)?;
    engine::query(INSERT)
        .bind(key)
        .bind(epoch)
        .bind(id.0.as_bytes().as_slice())
        .bind(&caller.actor)
        .bind(lease_ms)
        .bind(now.plus_millis(lease_ms).0)
        .bind(revision)
        .bind(now.0)
        .run(tx.conn)?;
    tx.loaded(key)?.run =
        Some(ActiveRun { id, epoch, actor: caller.actor.clone(), start_revision: revision, is_cancelled: false });
    Ok((id, epoch))
}

/// The end of an active run's lease.
fn lease_end(tx: &Tx<'_>, key: i64, epoch: Epoch) -> Result<Option<Timestamp>> {
    let end: Option<Option<i64>> = engine::scalar(LEASE).bind(key).bind(epoch).optional(tx.conn)?;
    Ok(end.flatten().map(Timestamp))
}

/// Extends the lease of a run, unless it was asked to stop.
pub(crate) fn renew(tx: &mut Tx<'_>, key: i64, epoch: Epoch, lease_ms: i64) -> Result<()> {
    let head = tx.read_head(key)?;
    head.fence(Some(epoch))?;
    let until = tx.now.plus_millis(lease_ms);
    engine::query(RENEW).bind(key).bind(epoch).bind(lease_ms).bind(until.0).run(tx.conn)
}

/// Ends a run by the will of its agent.
#[derive(Debug, Clone)]
pub(crate) struct ReleaseRun {
    pub(crate) session: SessionKey,
    pub(crate) caller: Requester,
    pub(crate) epoch: Epoch,
    /// The agent's words about a failure; none if it did not fail.
    pub(crate) failure: Option<String>,
}

impl ReleaseRun {
    /// Validates first, then writes.
    pub(crate) fn apply(&self, tx: &mut Tx<'_>) -> Result<Receipt> {
        let Self { session: SessionKey(key), ref caller, epoch, ref failure } = *self;
        tx.head(key)?;
        if let Some(receipt) = answered(tx, key, caller)? {
            return Ok(receipt);
        }
        let head = tx.loaded(key)?;
        head.fence(Some(epoch))?;
        let reason = match (failure, head.run.as_ref().is_some_and(|run| run.is_cancelled)) {
            (_, true) => RunEndReason::Cancelled,
            (Some(_), false) => RunEndReason::Failed,
            (None, false) => RunEndReason::Completed,
        };
        end_alone(tx, key, caller, reason, failure.clone().unwrap_or_default())
    }
}

/// Asks the active run of a session to stop.
#[derive(Debug, Clone)]
pub(crate) struct CancelRun {
    pub(crate) session: SessionKey,
    pub(crate) caller: Requester,
    /// The run to stop; none for whichever is active.
    pub(crate) epoch: Option<Epoch>,
    /// True to end it at once.
    pub(crate) is_forced: bool,
}

impl CancelRun {
    /// Validates first, then writes. A run that was asked to stop already is not asked again.
    pub(crate) fn apply(&self, tx: &mut Tx<'_>) -> Result<Receipt> {
        let Self { session: SessionKey(key), ref caller, epoch, is_forced } = *self;
        tx.head(key)?;
        if let Some(receipt) = answered(tx, key, caller)? {
            return Ok(receipt);
        }
        let head = tx.loaded(key)?;
        head.fence(epoch)?;
        let id = head.run.as_ref().ok_or(Error::NoRun)?.id;
        if is_forced {
            return end_alone(tx, key, caller, RunEndReason::Cancelled, String::new());
        }
        tx.flush()?;
        request_cancel(tx, key, caller)?;
        tx.end_mutation(key, caller, Receipt { ids: vec![id.0], ..Receipt::default() })
    }
}

/// Ends the active run, as a mutation of its own.
fn end_alone(tx: &mut Tx<'_>, key: i64, caller: &Requester, reason: RunEndReason, failure: String) -> Result<Receipt> {
    tx.flush()?;
    let id = tx.loaded(key)?.run.as_ref().ok_or(Error::NoRun)?.id;
    let sealed = end(tx, key, caller, reason, failure)?;
    let receipt = tx.end_mutation(key, caller, Receipt { ids: vec![id.0], ..Receipt::default() })?;
    sealed.into_iter().try_for_each(|sealed| sealed.write(tx))?;
    Ok(receipt)
}

/// Ends the active run: seals its open messages, withdraws its questions, names its calls that have no result. What was
/// written before must be flushed; the seals returned are to be written once the mutation has ended.
///
/// The questions of a run that was lost stay: its agent may come back and ask again.
pub(crate) fn end(
    tx: &mut Tx<'_>,
    key: i64,
    caller: &Requester,
    reason: RunEndReason,
    failure: String,
) -> Result<Vec<SealedRow>> {
    let Some(run) = tx.loaded(key)?.run.take() else { return Ok(Vec::new()) };
    let mut open: Vec<(Revision, i64, MessageId)> = of_run(tx.loaded(key)?, run.epoch).collect();
    open.sort_unstable_by_key(|(revision, ..)| *revision);
    let mut sealed = Vec::with_capacity(open.len());
    for (_, row, message) in open {
        sealed.push(FinishMessage::aborted(key, message, caller.clone()).add_seal(tx, row)?);
    }
    let interrupted = unanswered(tx, key, &run)?;
    if reason != RunEndReason::Lost {
        approvals::withdraw_of_run(tx, key, caller, run.epoch)?;
    }
    let (id, epoch) = (run.id, run.epoch);
    let body = EventBody::RunEnded { run: id, epoch, reason, failure: failure.clone(), interrupted };
    let revision = tx.event(key, caller, &body, &Digest::default())?;
    engine::query(END)
        .bind(key)
        .bind(epoch)
        .bind(reason.number())
        .bind(revision)
        .bind(tx.now.0)
        .bind(failure)
        .run(tx.conn)?;
    Ok(sealed)
}

/// Position, row and id of the open messages of a run.
fn of_run(head: &Head, epoch: Epoch) -> impl Iterator<Item = (Revision, i64, MessageId)> {
    let open = head.open.iter().filter(move |(_, open)| open.epoch == Some(epoch));
    open.map(|(id, open)| (open.revision, open.row, MessageId(*id)))
}

/// The calls of a run that have no result, up to a maximum number.
fn unanswered(tx: &mut Tx<'_>, key: i64, run: &ActiveRun) -> Result<Vec<InterruptedCall>> {
    let mut calls = Vec::new();
    let mut failure = None;
    // Calls of other writers may come between, in any number.
    engine::query(UNANSWERED).bind(key).bind(run.start_revision).for_each(tx.conn, |row| {
        match call_of(&row, run.epoch) {
            Ok(call) => calls.extend(call),
            Err(error) => failure = Some(error),
        }
        failure.is_none() && calls.len() < limits::RUN_INTERRUPTED_CALLS_MAX
    })?;
    failure.map_or(Ok(calls), Err)
}

/// A call without a result, if it is of the run with this number.
fn call_of(row: &Row, epoch: Epoch) -> Result<Option<InterruptedCall>> {
    if codec::decode_message_head(row.get(2)?)?.epoch != Some(epoch) {
        return Ok(None);
    }
    Ok(Some(InterruptedCall { call_id: row.get(0)?, message: MessageId(codec::uuid(row.get(1)?)?) }))
}

/// How a run ends whose lease ran out.
fn expiry_reason(run: &ActiveRun) -> RunEndReason {
    if run.is_cancelled { RunEndReason::Cancelled } else { RunEndReason::Lost }
}

/// Ends runs whose leases ran out, the earliest first, and returns their number.
pub(crate) fn expire(tx: &mut Tx<'_>, limit: i64) -> Result<usize> {
    tx.flush()?;
    let rows = engine::query(EXPIRED).bind(tx.now.0).bind(limit).all(tx.conn)?;
    for row in &rows {
        let key: i64 = row.get(0)?;
        let run = tx.head(key)?.run.clone();
        let run = run.ok_or_else(|| Error::corrupt("run", "an active one is not in its session's head"))?;
        end_alone(tx, key, &Requester::default(), expiry_reason(&run), String::new())?;
    }
    Ok(rows.len())
}

/// Restarts the lease that ran out first. Its session may be readable when it runs out again.
pub(crate) fn postpone(tx: &mut Tx<'_>) -> Result<()> {
    let Some(row) = engine::query(EXPIRED).bind(tx.now.0).bind(1_i64).optional(tx.conn)? else { return Ok(()) };
    let (key, epoch): (i64, Epoch) = (row.get(0)?, row.get(1)?);
    engine::query(POSTPONE).bind(key).bind(epoch).bind(tx.now.0).run(tx.conn)
}

/// Restarts the full lease of every active run, after a time in which no client could renew it.
pub(crate) fn restart(conn: &Connection, now: Timestamp) -> Result<()> {
    engine::query(RESTART).bind(now.0).run(conn)
}

pub(crate) fn next_lease_end(reader: &mut Reader<'_>) -> Result<Option<Timestamp>> {
    let row = reader.one(engine::query(NEXT))?;
    row.map(|row| Ok(Timestamp(row.get(0)?))).transpose()
}

fn from_row(row: &Row) -> Result<Run> {
    let time = |micros: Option<i64>| micros.map(Timestamp);
    let reason = row.get::<Option<i32>>("end_reason")?.map(RunEndReason::from_number).transpose()?;
    let end = match (reason, row.get::<Option<Revision>>("end_revision")?, time(row.get("end_time")?)) {
        (Some(reason), Some(revision), Some(time)) => {
            Some(RunEnded { reason, failure: row.get("failure")?, revision, time })
        }
        _ => None,
    };
    Ok(Run {
        id: RunId(codec::uuid(row.get("public_id")?)?),
        session_id: SessionId(codec::uuid(row.get("session")?)?),
        epoch: row.get("epoch")?,
        actor: row.get("actor")?,
        lease_end_time: time(row.get("lease_until")?),
        start_revision: row.get("start_revision")?,
        start_time: Timestamp(row.get("start_time")?),
        cancel_revision: row.get("cancel_revision")?,
        end,
    })
}

/// The run with this id.
pub(crate) fn by_id(reader: &mut Reader<'_>, id: RunId) -> Result<Run> {
    let row = reader.one(engine::query(BY_ID).bind(id.0.as_bytes().as_slice()))?;
    from_row(&row.ok_or_else(|| Error::not_found(Kind::Run, id))?)
}

pub(crate) fn newest(reader: &mut Reader<'_>, key: i64) -> Result<Option<Run>> {
    let row = reader.one(engine::query(NEWEST).bind(key))?;
    row.as_ref().map(from_row).transpose()
}

/// Runs of a session with smaller numbers, newest first.
pub(crate) fn of_session(reader: &mut Reader<'_>, key: i64, below: Option<Epoch>, limit: i64) -> Result<Vec<Run>> {
    let rows = reader.all(engine::query(OF_SESSION).bind(key).bind(engine::below(below)).bind(limit))?;
    rows.iter().map(from_row).collect()
}

/// Active runs with the keys of their sessions, of newer sessions first: of all, or of those at a root or below it that
/// work for it.
pub(crate) fn all_active(
    reader: &mut Reader<'_>,
    root: Option<i64>,
    below: Option<i64>,
    limit: i64,
) -> Result<Vec<(i64, Run)>> {
    let query = engine::query(if root.is_some() { ACTIVE_OF_TREE } else { ALL_ACTIVE });
    let query = query.bind(engine::below(below)).bind(limit);
    let rows = reader.all(match root {
        Some(root) => query.bind(root),
        None => query,
    })?;
    rows.iter().map(|row| Ok((row.get("session_id")?, from_row(row)?))).collect()
}
