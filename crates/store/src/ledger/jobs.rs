//! Compaction jobs: requested, claimed, kept alive, ended. A result is committed together with its job's end.

use super::approvals;
use super::chain::Digest;
use super::claims::Claim;
use super::codec::{self, Number as _};
use super::head::{PendingWork, Receipt, SessionKey};
use super::open_messages;
use super::receipts::answered;
use super::runs;
use super::statistics;
use super::tx::{Requester, Tx};
use crate::clock::fresh_id;
use crate::engine::Reader;
use crate::engine::{self, Row};
use crate::error::{Error, Kind, Result};
use crate::limits;
use crate::model::Revision;
use crate::model::compaction::{
    Bounds, Compaction, CompactionKind, CompactionRequest, CompactionState, Failure, Level, Outcome, Trigger,
};
use crate::model::event::EventBody;
use crate::model::ids::{CompactionId, SessionId};
use crate::model::session::{ContextSize, Guards, OverWindowReason, SessionState, WakeCondition};
use crate::model::time::Timestamp;
use crate::model::usage::ModelWindow;

/// Requests a compaction.
#[derive(Clone)]
pub(crate) struct Enqueue {
    pub(crate) session: SessionKey,
    pub(crate) caller: Requester,
    pub(crate) request: CompactionRequest,
    pub(crate) usage: WindowUsage,
    pub(crate) condition: Condition,
    /// The end of the wait for a confirmation, if people are asked first. It begins at this time without an answer.
    pub(crate) confirm_until: Option<Timestamp>,
}

/// A window, and the tokens of a request with the view that are compared with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowUsage {
    /// The window.
    pub window: ModelWindow,
    /// The tokens.
    pub context_tokens: i64,
}

/// The condition under which a request for a compaction is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// By hand: true if the view had something to compact when it was evaluated. A repeated request gets its earlier
    /// answer, whatever the view contains now.
    Possible(bool),
    /// By a trigger: the session is due, no job is current, and nothing was changed or undone since the session was
    /// evaluated.
    Due {
        /// The evaluated revision.
        at: Revision,
    },
}

/// A requested job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnqueuedJob {
    /// The compaction.
    pub compaction: CompactionId,
    /// True if the job existed already.
    pub joined: bool,
}

/// The effect of a failed attempt on the counters of its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptEnd {
    /// It ended with a reported failure: one attempt is used up.
    Reported,
    /// Its daemon or its worker stopped without a report, which the job itself may have caused.
    Lost,
    /// A stopping daemon released the job: the attempt does not count.
    Released,
}

/// The end of an attempt without effect, final or with a retry.
#[derive(Clone)]
pub(crate) enum End {
    /// Another attempt at this time, or at once if the view has come to exceed its window meanwhile.
    Retry(Failure, Timestamp, AttemptEnd),
    /// Another attempt would not help.
    Failed(Failure),
    /// It reached the maximum number of attempts.
    Dead(Failure),
    /// There was nothing to do.
    Nothing(Failure),
}

/// Ends a job without effect.
#[derive(Clone)]
pub(crate) struct EndJob {
    pub(crate) claim: Claim,
    pub(crate) end: End,
}

/// A decision about a session, with its measurements.
#[derive(Debug, Clone, Copy)]
pub struct Evaluation {
    /// The revision that was decided.
    pub at: Revision,
    /// Growth of the history up to that revision, as `Source::appended_bytes` has it.
    pub appended_bytes: i64,
    /// Tokens of a request with the view.
    pub context_tokens: i64,
    /// The guards of the decision.
    pub guards: Guards,
    /// The wake condition of the next decision.
    pub condition: WakeCondition,
    /// The reason for which a request with the view exceeds the session's window.
    pub over_window: Option<OverWindowReason>,
}

macro_rules! select_job {
    ($rest:literal) => {
        concat!(
            "select j.id, j.public_id, j.session_id, s.public_id as session, j.kind, j.trigger, j.state, ",
            "j.instructions, j.actor, j.base_revision, j.requested_revision, j.tokens_at_request, j.window, j.attempt, ",
            "j.lease_epoch, j.outcome, j.failure, j.create_time, j.start_time, j.end_time, j.level, j.notice, j.proposed, ",
            "j.run_at, j.lost_attempts, j.head_start, j.tail_start, ",
            "j.ended_revision, j.undone_revision from job j join session s on s.id = j.session_id ",
            $rest
        )
    };
}

const BY_ID: &str = select_job!("where j.public_id = ?1");
const BY_ROW: &str = select_job!("where j.id = ?1");
const OF_SESSION: &str = select_job!("where j.session_id = ?1 and j.id < ?2 order by j.id desc limit +?3");
const CURRENT: &str = select_job!("where j.session_id = ?1 and j.state in (1, 2) and j.queued = 0");
const QUEUED: &str = select_job!("where j.session_id = ?1 and j.state = 1 and j.queued = 1 order by j.id");
const READY: &str = "select id, session_id, run_at from job where state = 1 and queued = 0 and run_at <= ?1 \
     order by run_at, id limit +?2";
const NEXT_RUN: &str = "select min(run_at) from job where state = 1 and queued = 0";
const RUNNING: &str = "select id, session_id, lease_until from job where state = 2 order by lease_until";
const DUE: &str = "select id from session where due_revision is not null order by due_time, id limit +?1";
const GUARD: &str = "select guard_revision, undo_revision from session where id = ?1";
// Guards ignore cancelled and superseded compactions, and finished maintenance, of which there are many.
const ENDED: &str = select_job!(
    "where j.session_id = ?1 and (j.state in (4, 7) or j.state = 3 and (j.trigger <> 2 or j.id = \
     (select max(id) from job where session_id = ?1 and state = 3 and trigger = 2))) order by j.id desc limit +?2"
);
const NEWEST_FAILED: &str =
    select_job!("where j.session_id = ?1 and j.state in (4, 7) and j.id < ?2 order by j.id desc limit 1");
const NEXT_WAKE: &str = "select wake_time from session where wake_time is not null order by wake_time limit 1";
const ASLEEP: &str =
    "select id from session where wake_time is not null and wake_time <= ?1 order by wake_time limit +?2";
const FORGET_WAKE: &str = "update session set wake_time = null where id = ?1";
const PENDING: &str = "select s.due_revision is not null, j.public_id, s.revision from session s \
     left join job j on j.session_id = s.id and j.state in (1, 2) and j.queued = 0 where s.id = ?1";
const COUNTS: &str = "select (select count(*) from job where state = 1 and queued = 0) \
     + (select count(*) from job where state = 1 and queued = 1), \
     (select count(*) from job where state = 2)";
const IS_IDLE: &str = "select not exists (select 1 from session where due_revision is not null) \
     and not exists (select 1 from job where state = 1 and queued = 0) \
     and not exists (select 1 from job where state = 1 and queued = 1) \
     and not exists (select 1 from job where state = 2)";
const INSERT: &str = "insert into job (public_id, session_id, kind, trigger, state, queued, instructions, actor, \
     tokens_at_request, \"window\", attempt, lease_epoch, run_at, create_time, requested_revision, level, notice, proposed, \
     head_start, tail_start) values (?1, ?2, ?3, ?4, 1, ?5, ?6, ?7, ?8, ?9, 0, 0, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";
// `proposed` is 1 while people are asked, and 2 once they have confirmed: in both cases its end is written as an event.
const EXPEDITE_JOB: &str = "update job set proposed = case when proposed = 1 then 2 else proposed end, run_at = ?2 \
     where id = ?1 and state = 1 and queued = 0 and run_at > ?2";
const EXPEDITE: &str = "update job set proposed = case when proposed = 1 then 2 else proposed end, run_at = ?2 \
     where session_id = ?1 and state = 1 and queued = 0 and run_at > ?2";
const RETRY: &str = "update job set state = 1, run_at = ?3, lease_owner = null, lease_until = null, \
     lost_attempts = lost_attempts + ?4, attempt = attempt - ?5 \
     where id = ?1 and lease_epoch = ?2 and state = 2";
const FINISH: &str = "update job set state = ?3, ended_revision = ?4, outcome = ?5, failure = ?6, end_time = ?7, \
     lease_owner = null, lease_until = null where id = ?1 and lease_epoch = ?2 and state in (1, 2)";
// A promoted job queues after the jobs of other sessions that are ready already.
const PROMOTE: &str = "update job set queued = 0, run_at = ?2 where id = \
     (select id from job where session_id = ?1 and state = 1 and queued = 1 order by id limit 1) \
     and not exists (select 1 from job where session_id = ?1 and state in (1, 2) and queued = 0) returning public_id";
const UNDONE: &str = "update job set undone_revision = ?3 where session_id = ?1 and public_id = ?2";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[
    BY_ID,
    BY_ROW,
    OF_SESSION,
    CURRENT,
    QUEUED,
    READY,
    NEXT_RUN,
    RUNNING,
    DUE,
    GUARD,
    ENDED,
    NEWEST_FAILED,
    NEXT_WAKE,
    ASLEEP,
    FORGET_WAKE,
    PENDING,
    COUNTS,
    IS_IDLE,
    INSERT,
    EXPEDITE_JOB,
    EXPEDITE,
    RETRY,
    FINISH,
    PROMOTE,
    UNDONE,
];

/// A job's row: the compaction, and the fields that only the store uses.
pub(crate) struct JobRow {
    pub(crate) row: i64,
    pub(crate) session: i64,
    pub(crate) epoch: i64,
    pub(crate) lost_attempts: i64,
    pub(crate) start_time: Option<Timestamp>,
    pub(crate) window: ModelWindow,
    pub(crate) requested_revision: Revision,
    /// True if its start or its proposal was written as an event: then its end must be an event too.
    pub(crate) has_event: bool,
    pub(crate) compaction: Compaction,
}

impl JobRow {
    /// True if a trigger requested it, without any caller.
    pub(crate) fn is_automatic(&self) -> bool {
        matches!(self.compaction.request.trigger, Trigger::Threshold | Trigger::Maintenance | Trigger::LastResort)
    }
}

fn from_row(row: &Row) -> Result<JobRow> {
    let time = |column: &str| row.get::<Option<i64>>(column).map(|micros| micros.map(Timestamp));
    let outcome: Option<Vec<u8>> = row.get("outcome")?;
    let failure: Option<Vec<u8>> = row.get("failure")?;
    let window = codec::decode_window(row.get("window")?)?;
    let proposed: i64 = row.get("proposed")?;
    let start_time = time("start_time")?;
    let state = CompactionState::from_number(row.get("state")?)?;
    let attempt = row.get("attempt")?;
    let run_at = time("run_at")?;
    let waits = state == CompactionState::Ready && proposed != 1 && attempt > 0;
    let compaction = Compaction {
        id: CompactionId(codec::uuid(row.get("public_id")?)?),
        session_id: SessionId(codec::uuid(row.get("session")?)?),
        request: CompactionRequest {
            kind: CompactionKind::from_number(row.get("kind")?)?,
            trigger: Trigger::from_number(row.get("trigger")?)?,
            level: row.get::<Option<i32>>("level")?.map(Level::from_number).transpose()?,
            instructions: row.get("instructions")?,
            notice: row.get("notice")?,
            bounds: Bounds { head_start: row.get("head_start")?, tail_start: row.get("tail_start")? },
        },
        proposed_until: run_at.filter(|_| proposed == 1),
        next_attempt_time: run_at.filter(|_| waits),
        state,
        base_revision: row.get("base_revision")?,
        tokens_at_request: row.get("tokens_at_request")?,
        window_tokens: window.context,
        attempt,
        outcome: outcome.map(|bytes| codec::decode_outcome(&bytes)).transpose()?,
        failure: failure.map(|bytes| codec::decode_failure(&bytes)).transpose()?,
        end_revision: row.get("ended_revision")?,
        undone_revision: row.get("undone_revision")?,
        requests: Vec::new(),
        actor: row.get("actor")?,
        create_time: Timestamp(row.get("create_time")?),
        end_time: time("end_time")?,
    };
    Ok(JobRow {
        row: row.get("id")?,
        session: row.get("session_id")?,
        epoch: row.get("lease_epoch")?,
        lost_attempts: row.get("lost_attempts")?,
        start_time,
        window,
        requested_revision: row.get("requested_revision")?,
        has_event: start_time.is_some() || proposed != 0,
        compaction,
    })
}

/// A compaction by its id.
pub(crate) fn by_id(reader: &mut Reader<'_>, id: CompactionId) -> Result<JobRow> {
    let row = reader.one(engine::query(BY_ID).bind(id.0.as_bytes().to_vec()))?;
    from_row(&row.ok_or_else(|| Error::not_found(Kind::Compaction, id))?)
}

pub(crate) fn by_row(reader: &mut Reader<'_>, row: i64) -> Result<JobRow> {
    let found = reader.one(engine::query(BY_ROW).bind(row))?;
    from_row(&found.ok_or_else(|| Error::not_found(Kind::Compaction, row))?)
}

/// A page of a session's compactions, newest first, with their rows.
pub(crate) fn of_session(
    reader: &mut Reader<'_>,
    key: i64,
    below: Option<i64>,
    limit: i64,
) -> Result<Vec<(i64, Compaction)>> {
    let rows = reader.all(engine::query(OF_SESSION).bind(key).bind(engine::below(below)).bind(limit))?;
    rows.iter().map(|row| from_row(row).map(|job| (job.row, job.compaction))).collect()
}

/// Jobs whose time has come: row and session, oldest first.
pub(crate) fn ready(reader: &mut Reader<'_>, now: Timestamp, limit: i64) -> Result<Vec<(i64, SessionKey)>> {
    let rows = reader.all(engine::query(READY).bind(now.0).bind(limit))?;
    rows.iter().map(|row| Ok((row.get(0)?, SessionKey(row.get(1)?)))).collect()
}

/// The time at which the next job is to run.
pub(crate) fn next_run(reader: &mut Reader<'_>) -> Result<Option<Timestamp>> {
    let row = reader.one(engine::query(NEXT_RUN))?;
    let micros: Option<i64> = row.map(|row| row.get(0)).transpose()?.flatten();
    Ok(micros.map(Timestamp))
}

/// Jobs that workers hold: the row, and the end of the lease.
pub(crate) fn running(reader: &mut Reader<'_>) -> Result<Vec<(i64, Timestamp)>> {
    let rows = reader.all(engine::query(RUNNING))?;
    rows.iter().map(|row| Ok((row.get(0)?, Timestamp(row.get::<Option<i64>>(2)?.unwrap_or_default())))).collect()
}

/// Sessions whose due mark is set, oldest first.
pub(crate) fn due(reader: &mut Reader<'_>, limit: i64) -> Result<Vec<SessionKey>> {
    let rows = reader.all(engine::query(DUE).bind(limit))?;
    rows.iter().map(|row| Ok(SessionKey(row.get(0)?))).collect()
}

/// The rows from which guards follow, besides a session's view, read in one snapshot.
#[derive(Debug, Clone, Default)]
pub struct GuardRows {
    /// The newest compactions that succeeded or failed, newest first; of finished maintenance only the newest one. If
    /// none of them failed, the newest failed one follows.
    pub ended: Vec<Compaction>,
    /// The newest change of history, policy or window that was not a compaction.
    pub guard_revision: Revision,
    /// The newest undo, until its redo.
    pub undo_revision: Option<Revision>,
}

/// The rows from which a session's guards follow.
pub(crate) fn guard_rows(reader: &mut Reader<'_>, key: i64) -> Result<GuardRows> {
    let session = reader.one(engine::query(GUARD).bind(key))?;
    let session = session.ok_or_else(|| Error::not_found(Kind::Session, key))?;
    let rows = reader.all(engine::query(ENDED).bind(key).bind(limits::GUARD_COMPACTIONS))?;
    let jobs = rows.iter().map(from_row).collect::<Result<Vec<_>>>()?;
    let has_failed = jobs.iter().any(|job| job.compaction.failure.is_some());
    let last = jobs.last().map(|job| job.row).filter(|_| !has_failed);
    let mut ended: Vec<Compaction> = jobs.into_iter().map(|job| job.compaction).collect();
    // A report may be older than the newest compactions.
    if let Some(last) = last
        && let Some(failed) = reader.one(engine::query(NEWEST_FAILED).bind(key).bind(last))?
    {
        ended.push(from_row(&failed)?.compaction);
    }
    Ok(GuardRows { ended, guard_revision: session.get(0)?, undo_revision: session.get(1)? })
}

/// The earliest wake time of a session, or the time before it at which an open message, a run or a question expires.
pub(crate) fn next_wake(reader: &mut Reader<'_>) -> Result<Option<Timestamp>> {
    let row = reader.one(engine::query(NEXT_WAKE))?;
    let session = row.map(|row| row.get(0).map(Timestamp)).transpose()?;
    let expiries =
        [open_messages::next_expiry(reader)?, runs::next_lease_end(reader)?, approvals::next_default(reader)?];
    Ok(session.into_iter().chain(expiries.into_iter().flatten()).min())
}

/// Sets the due mark of sessions whose wake time has come, the earliest first.
pub(crate) fn wake(tx: &mut Tx<'_>) -> Result<()> {
    tx.flush()?;
    let now = tx.now;
    let query = engine::scalar::<i64>(ASLEEP).bind(now.0).bind(limits::WAKING_SESSIONS_MAX);
    for key in query.all(tx.conn)? {
        match tx.head(key) {
            Ok(head) => head.woken(now),
            // Otherwise it would be first in the queue for ever and block all others.
            Err(Error::Corrupt { table, row, detail }) => {
                tracing::error!(table, row, detail, "a session whose wake time has come cannot be read");
                engine::query(FORGET_WAKE).bind(key).run(tx.conn)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The compaction of a session that waits or runs.
pub(crate) fn current(reader: &mut Reader<'_>, key: i64) -> Result<Option<CompactionId>> {
    let row = reader.one(engine::query(CURRENT).bind(key))?;
    row.map(|row| from_row(&row).map(|job| job.compaction.id)).transpose()
}

/// PendingWork changes of a session's view, and the session's newest revision.
pub(crate) fn pending(reader: &mut Reader<'_>, key: i64) -> Result<(PendingWork, Revision)> {
    let row = reader.one(engine::query(PENDING).bind(key))?;
    let row = row.ok_or_else(|| Error::not_found(Kind::Session, key))?;
    let compaction: Option<Vec<u8>> = row.get(1)?;
    let compaction = compaction.map(|id| codec::uuid(&id).map(CompactionId)).transpose()?;
    Ok((PendingWork { is_due: row.get(0)?, compaction }, row.get(2)?))
}

/// The job of a session that waits or runs, for a change of the session. The head names it, so a session without a
/// job costs no query.
pub(crate) fn current_row(tx: &mut Tx<'_>, key: i64) -> Result<Option<JobRow>> {
    if tx.loaded(key)?.current_job.is_none() {
        return Ok(None);
    }
    let row = Reader::new(tx.conn).one(engine::query(CURRENT).bind(key))?;
    row.map(|row| from_row(&row)).transpose()
}

/// The number of waiting jobs, and of running ones.
pub(crate) fn counts(reader: &mut Reader<'_>) -> Result<(i64, i64)> {
    let row = reader.one(engine::query(COUNTS))?;
    row.map_or(Ok((0, 0)), |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Fails if a claim is no longer valid. Called before anything is written: an error leaves nothing behind.
pub(crate) fn holds(tx: &mut Tx<'_>, claim: &Claim) -> Result<()> {
    tx.flush()?;
    let job = by_row(&mut Reader::new(tx.conn), claim.job)?;
    if job.epoch == claim.epoch && job.compaction.state == CompactionState::Running {
        Ok(())
    } else {
        Err(Error::LeaseLost)
    }
}

/// True if no session waits for a decision, and no job waits or runs.
pub(crate) fn is_idle(reader: &mut Reader<'_>) -> Result<bool> {
    let row = reader.one(engine::query(IS_IDLE))?;
    row.map_or(Ok(true), |row| row.get(0))
}

/// True if a job does what another request asks for. Only a compaction for a provider's overflow also removes media, so
/// it equals no other.
fn is_same(job: &CompactionRequest, asked: &CompactionRequest) -> bool {
    let is_overflow = |request: &CompactionRequest| request.trigger == Trigger::Overflow;
    job.kind == asked.kind
        && job.level == asked.level
        && job.instructions == asked.instructions
        && job.bounds == asked.bounds
        && is_overflow(job) == is_overflow(asked)
}

impl Enqueue {
    /// Makes the job, joins one with the same request, or queues after the current one.
    pub(crate) fn apply(&self, tx: &mut Tx<'_>) -> Result<Option<EnqueuedJob>> {
        let key = self.session.0;
        tx.head(key)?;
        tx.flush()?;
        if let Some(receipt) = answered(tx, key, &self.caller)? {
            let id = receipt.ids.first().copied().unwrap_or_default();
            return Ok(Some(EnqueuedJob { compaction: CompactionId(id), joined: receipt.existed_count > 0 }));
        }
        let head = tx.loaded(key)?;
        let free = head.current_job.is_none() && head.state == SessionState::Active;
        match self.condition {
            Condition::Possible(true) => head.writable()?,
            Condition::Possible(false) => {
                head.writable()?;
                return Err(Error::NothingToCompact);
            }
            Condition::Due { at } if !free || head.due_revision.is_none() || head.compaction_revision > at => {
                return Ok(None);
            }
            Condition::Due { .. } => {}
        }
        let asked = head.revision;
        let is_busy = head.current_job.is_some();
        // The order follows the time at which a session became due, not the time of its evaluation.
        let is_due = matches!(self.condition, Condition::Due { .. });
        let since = head.due_time.filter(|_| is_due).unwrap_or(tx.now);
        let mut others = Vec::new();
        for query in [CURRENT, QUEUED] {
            others.extend(Reader::new(tx.conn).all(engine::query(query).bind(key))?);
        }
        for row in &others {
            let job = from_row(row)?;
            let same = is_same(&job.compaction.request, &self.request);
            // A repeated request, or one of a session that cannot continue, ends the wait for a confirmation or for the
            // next attempt.
            if same || self.request.trigger == Trigger::Overflow {
                engine::query(EXPEDITE_JOB).bind(job.row).bind(tx.now.0).run(tx.conn)?;
            }
            if same {
                let receipt = Receipt { ids: vec![job.compaction.id.0], existed_count: 1, ..Receipt::default() };
                tx.end_mutation(key, &self.caller, receipt)?;
                return Ok(Some(EnqueuedJob { compaction: job.compaction.id, joined: true }));
            }
        }
        // Other kinds cannot accumulate: a trigger requests only while no job is current, and all reports of overflows
        // are equal.
        if self.request.trigger == Trigger::Manual && others.len() > limits::SESSION_COMPACTIONS_WAITING_MAX {
            return Err(Error::TooManyCompactions { limit: limits::SESSION_COMPACTIONS_WAITING_MAX });
        }
        let id = CompactionId(fresh_id());
        engine::query(INSERT)
            .bind(id.0.as_bytes().to_vec())
            .bind(key)
            .bind(self.request.kind.number())
            .bind(self.request.trigger.number())
            .bind(is_busy)
            .bind(&self.request.instructions)
            .bind(&self.caller.actor)
            .bind(self.usage.context_tokens)
            .bind(codec::encode_window(&self.usage.window))
            .bind(self.confirm_until.unwrap_or(since).0)
            .bind(tx.now.0)
            .bind(asked)
            .bind(self.request.level.map(codec::Number::number))
            .bind(&self.request.notice)
            .bind(self.confirm_until.is_some())
            .bind(self.request.bounds.head_start)
            .bind(self.request.bounds.tail_start)
            .run(tx.conn)?;
        let head = tx.loaded(key)?;
        if !is_busy {
            head.current_job = Some(id);
        }
        if is_due {
            head.due_revision = None;
        }
        if let Some(until) = self.confirm_until {
            let CompactionRequest { kind, level, notice, .. } = self.request.clone();
            let body = EventBody::CompactionProposed { compaction: id, kind, level, notice, until };
            tx.event(key, &self.caller, &body, &Digest::default())?;
        }
        tx.end_mutation(key, &self.caller, Receipt { ids: vec![id.0], ..Receipt::default() })?;
        Ok(Some(EnqueuedJob { compaction: id, joined: false }))
    }
}

/// The end of a job's row.
pub(crate) struct Finish<'a> {
    pub(crate) job: i64,
    pub(crate) epoch: i64,
    pub(crate) state: CompactionState,
    /// The revision of its terminal event; none if it never began.
    pub(crate) revision: Option<Revision>,
    pub(crate) outcome: Option<&'a Outcome>,
    pub(crate) failure: Option<&'a Failure>,
}

/// Ends a job's row, fenced by its epoch, and promotes the next job of the session. If a worker still holds the job, it
/// is notified after the commit; a worker that ends its own job has released it before.
pub(crate) fn finish(tx: &mut Tx<'_>, key: i64, end: Finish<'_>) -> Result<()> {
    let done = engine::query(FINISH)
        .bind(end.job)
        .bind(end.epoch)
        .bind(end.state.number())
        .bind(end.revision)
        .bind(end.outcome.map(codec::encode_outcome))
        .bind(end.failure.map(codec::encode_failure))
        .bind(tx.now.0)
        .changed(tx.conn)?;
    if done != 1 {
        return Err(Error::LeaseLost);
    }
    tx.interrupted.extend(tx.claims.interrupt(end.job));
    statistics::add(tx.conn, end.job, end.outcome)?;
    let next: Option<Vec<u8>> = engine::scalar(PROMOTE).bind(key).bind(tx.now.0).optional(tx.conn)?;
    let next = next.map(|id| codec::uuid(&id).map(CompactionId)).transpose()?;
    tx.loaded(key)?.current_job = next;
    Ok(())
}

/// Ends a job that waits or runs before it has had any effect, with a terminal event if its start or proposal was one.
/// The caller ends the mutation.
pub(crate) fn give_up(
    tx: &mut Tx<'_>,
    caller: &Requester,
    job: &JobRow,
    state: CompactionState,
    failure: Failure,
) -> Result<()> {
    let key = job.session;
    let compaction = job.compaction.id;
    let current = tx.loaded(key)?.current_job;
    // A compaction without a start or proposal in the log needs no end there.
    let revision = if job.has_event { Some(tx.next_revision(key)?) } else { None };
    let end = Finish { job: job.row, epoch: job.epoch, state, revision, outcome: None, failure: Some(&failure) };
    finish(tx, key, end)?;
    if current.is_some() && current != Some(compaction) {
        tx.loaded(key)?.current_job = current;
    }
    if job.has_event {
        let body = EventBody::CompactionCancelled { compaction, failure };
        tx.event(key, caller, &body, &Digest::default())?;
    }
    Ok(())
}

/// Ends all jobs of a session that wait or run, the queued ones first, so that none is promoted. The caller ends the
/// mutation.
pub(crate) fn give_up_all(tx: &mut Tx<'_>, key: i64, caller: &Requester, failure: &Failure) -> Result<()> {
    for query in [QUEUED, CURRENT] {
        for row in Reader::new(tx.conn).all(engine::query(query).bind(key))? {
            give_up(tx, caller, &from_row(&row)?, CompactionState::Cancelled, failure.clone())?;
        }
    }
    Ok(())
}

impl EndJob {
    /// Ends the job, or returns it to the queue for another attempt.
    pub(crate) fn apply(&self, tx: &mut Tx<'_>) -> Result<()> {
        let key = self.claim.session.0;
        tx.head(key)?;
        holds(tx, &self.claim)?;
        tx.claims.release(self.claim.job);
        let caller = Requester::default();
        let compaction = self.claim.compaction;
        let revision = tx.next_revision(key)?;
        let (state, failure, body) = match self.end.clone() {
            End::Retry(failure, run_at, loss) => {
                // The session cannot continue if its view has come to exceed the window meanwhile.
                let over_window = &mut tx.loaded(key)?.over_window;
                let is_urgent = over_window.is_some() && !self.claim.was_over_window;
                *over_window = over_window.map(|_| OverWindowReason::Retry);
                let run_at = if is_urgent { run_at.min(tx.now) } else { run_at };
                engine::query(RETRY)
                    .bind(self.claim.job)
                    .bind(self.claim.epoch)
                    .bind(run_at.0)
                    .bind(loss == AttemptEnd::Lost)
                    .bind(loss == AttemptEnd::Released)
                    .run(tx.conn)?;
                let body = EventBody::CompactionRetried { compaction, attempt: self.claim.attempt, failure };
                tx.event(key, &caller, &body, &Digest::default())?;
                tx.end_mutation(key, &caller, Receipt::default())?;
                return Ok(());
            }
            End::Failed(failure) => {
                let body = EventBody::CompactionFailed { compaction, failure: failure.clone() };
                (CompactionState::Failed, failure, body)
            }
            End::Dead(failure) => {
                let body = EventBody::CompactionFailed { compaction, failure: failure.clone() };
                (CompactionState::Dead, failure, body)
            }
            End::Nothing(failure) => {
                let body = EventBody::CompactionCancelled { compaction, failure: failure.clone() };
                (CompactionState::Cancelled, failure, body)
            }
        };
        let end = Finish {
            job: self.claim.job,
            epoch: self.claim.epoch,
            state,
            revision: Some(revision),
            outcome: None,
            failure: Some(&failure),
        };
        finish(tx, key, end)?;
        let at = tx.event(key, &caller, &body, &Digest::default())?;
        let head = tx.loaded(key)?;
        head.ended();
        // Guards follow from failures, so a new decision is needed.
        if state != CompactionState::Cancelled && head.current_job.is_none() {
            head.due_revision.get_or_insert(at);
        }
        tx.end_mutation(key, &caller, Receipt::default())?;
        Ok(())
    }
}

/// Records in a session's list of compactions that one was undone at a revision, or is active again. A compaction that
/// a fork inherited is in its ancestor's list, which the fork does not change.
pub(crate) fn undone(tx: &mut Tx<'_>, key: i64, id: CompactionId, at: Option<Revision>) -> Result<()> {
    engine::query(UNDONE).bind(key).bind(id.0.as_bytes().to_vec()).bind(at).run(tx.conn)?;
    Ok(())
}

/// Clears the due mark of a session that was decided, and stores its context usage and guards.
pub(crate) fn evaluated(tx: &mut Tx<'_>, key: SessionKey, found: Evaluation) -> Result<()> {
    let head = tx.head(key.0)?;
    head.context = Some(ContextSize { tokens: found.context_tokens, revision: found.at });
    head.guards = found.guards;
    if head.due_revision.is_some_and(|due| due <= found.at) {
        head.due_revision = None;
        // Nothing could be requested while a job was current.
        head.due_during_compaction |= head.current_job.is_some();
    }
    head.wait_for(found.condition, found.at, found.appended_bytes);
    let was_over = std::mem::replace(&mut head.over_window, found.over_window);
    if found.over_window.is_some() && was_over.is_none() && head.current_job.is_some() {
        // The session cannot continue without the compaction that waits for an answer or for its next attempt.
        engine::query(EXPEDITE).bind(key.0).bind(tx.now.0).run(tx.conn)?;
    }
    Ok(())
}
