//! Questions of agents and their answers.

use super::bounded_page::BoundedPage;
use super::chain::{self, Digest};
use super::codec::{self, Number as _};
use super::head::{Receipt, SessionKey};
use super::receipts::answered;
use super::tx::{Requester, Tx, salt};
use crate::clock::fresh_id;
use crate::engine::{self, Connection, Reader, Row};
use crate::error::{Error, Kind, Result};
use crate::limits;
use crate::model::approval::{Answer, Approval, ApprovalEnd, ApprovalEndReason, Question};
use crate::model::event::EventBody;
use crate::model::ids::{ApprovalId, SessionId};
use crate::model::run::Epoch;
use crate::model::time::Timestamp;

macro_rules! select_approval {
    ($rest:literal) => {
        concat!(
            "select a.id, a.public_id, s.public_id as session, a.session_id, a.epoch, a.actor, a.create_time, \
             a.request_revision, a.expire_time, a.question, a.end_reason, a.end_revision, a.end_time, a.end_actor, \
             a.answer from approval a join session s on s.id = a.session_id ",
            $rest
        )
    };
}

const INSERT: &str = "insert into approval (session_id, public_id, epoch, actor, create_time, request_revision, \
     timeout_ms, expire_time, salt, question) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
const END: &str = "update approval set expire_time = null, end_reason = ?2, end_revision = ?3, end_time = ?4, \
     end_actor = ?5, answer_salt = ?6, answer = ?7 where id = ?1";
const COUNT: &str = "select count(*) from approval where session_id = ?1 and end_reason is null";
const WAITING_IDS: &str = "select public_id from approval where session_id = ?1 and end_reason is null order by id";
const OF_RUN: &str =
    select_approval!("where a.session_id = ?1 and a.end_reason is null and a.epoch <= ?2 order by a.id");
const EXPIRED: &str = select_approval!("where a.expire_time <= ?1 order by a.expire_time limit +?2");
const POSTPONE: &str = "update approval set expire_time = ?2 + timeout_ms * 1000 where id = ?1";
const RESTART: &str = "update approval set expire_time = ?1 + timeout_ms * 1000 where expire_time is not null";
const SUSPEND: &str = "update approval set expire_time = null where session_id = ?1 and expire_time is not null";
const RESTORE: &str = "update approval set expire_time = ?2 + timeout_ms * 1000 \
     where session_id = ?1 and end_reason is null and timeout_ms is not null";
const NEXT: &str = "select expire_time from approval where expire_time is not null order by expire_time limit 1";
const BY_ID: &str = select_approval!("where a.session_id = ?1 and a.public_id = ?2");
const OF_SESSION: &str = select_approval!(
    "where a.session_id = ?1 and a.request_revision < ?2 \
     order by a.request_revision desc limit 1"
);
const WAITING: &str = select_approval!(
    "where a.session_id = ?1 and a.end_reason is null and a.id < ?2 \
     order by a.id desc limit 1"
);

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] =
    &[INSERT, END, COUNT, WAITING_IDS, OF_RUN, EXPIRED, POSTPONE, RESTART, SUSPEND, RESTORE, NEXT, BY_ID, OF_SESSION];

/// Asks a question.
#[derive(Debug, Clone)]
pub(crate) struct RequestApproval {
    pub(crate) session: SessionKey,
    pub(crate) caller: Requester,
    pub(crate) question: Question,
}

impl RequestApproval {
    /// Validates first, then writes. The receipt has the approval's id.
    pub(crate) fn apply(&self, tx: &mut Tx<'_>) -> Result<Receipt> {
        let Self { session: SessionKey(key), ref caller, ref question } = *self;
        tx.head(key)?;
        if let Some(receipt) = answered(tx, key, caller)? {
            return Ok(receipt);
        }
        tx.loaded(key)?.writable()?;
        let count: i64 = engine::scalar(COUNT).bind(key).one(tx.conn)?;
        if count >= limits::OPEN_APPROVALS_MAX {
            let limit = limits::OPEN_APPROVALS_MAX;
            return Err(Error::LimitExceeded { what: "questions that wait in one session", limit, actual: count + 1 });
        }
        let (id, salt, now) = (ApprovalId(fresh_id()), salt(), tx.now);
        let plain = codec::encode_question(question);
        let bytes = i64::try_from(plain.len()).unwrap_or(i64::MAX);
        tx.admit_in(key, bytes)?;
        let mut digest = Digest::default();
        let commitment = codec::commitment(&salt, &plain);
        chain::approval(&mut digest, id.0.as_bytes(), &caller.actor, now, &commitment);
        tx.count(key, bytes)?;
        let body = EventBody::ApprovalRequested { approval: id, epoch: caller.epoch };
        let revision = tx.event(key, caller, &body, &digest)?;
        engine::query(INSERT)
            .bind(key)
            .bind(id.0.as_bytes().as_slice())
            .bind(caller.epoch)
            .bind(&caller.actor)
            .bind(now.0)
            .bind(revision)
            .bind(question.timeout_ms)
            .bind(question.timeout_ms.map(|timeout| now.plus_millis(timeout).0))
            .bind(salt.as_slice())
            .bind(codec::with_check(plain))
            .run(tx.conn)?;
        tx.end_mutation(key, caller, Receipt { ids: vec![id.0], ..Receipt::default() })
    }
}

/// Ends the wait of a question by the will of a client.
#[derive(Debug, Clone)]
pub(crate) struct EndApproval {
    pub(crate) session: SessionKey,
    pub(crate) caller: Requester,
    pub(crate) approval: ApprovalId,
    /// The answer; none withdraws the question.
    pub(crate) answer: Option<Answer>,
}

impl EndApproval {
    /// Validates first, then writes. The receipt has the approval's id.
    pub(crate) fn apply(&self, tx: &mut Tx<'_>) -> Result<Receipt> {
        let Self { session: SessionKey(key), ref caller, approval: id, ref answer } = *self;
        tx.head(key)?;
        if let Some(receipt) = answered(tx, key, caller)? {
            return Ok(receipt);
        }
        tx.loaded(key)?.writable()?;
        let row = engine::query(BY_ID).bind(key).bind(id.0.as_bytes().as_slice()).optional(tx.conn)?;
        let approval = from_row(&row.ok_or_else(|| Error::not_found(Kind::Approval, id))?)?;
        if let Some(ended) = approval.1.end {
            return Err(already_ended(ended));
        }
        let (reason, answer) = match answer {
            Some(answer) => (ApprovalEndReason::Answered, answer.clone()),
            None => (ApprovalEndReason::Withdrawn, Answer::default()),
        };
        end(tx, key, caller, (approval.0, id), reason, answer)?;
        tx.end_mutation(key, caller, Receipt { ids: vec![id.0], ..Receipt::default() })
    }
}

/// The error for a question that does not wait any more.
fn already_ended(ended: ApprovalEnd) -> Error {
    let reason = match ended.reason {
        ApprovalEndReason::Answered => "it was answered",
        ApprovalEndReason::Expired => "its time is up, and the default holds",
        ApprovalEndReason::Withdrawn => "it was withdrawn",
    };
    Error::ApprovalEnded { reason, choice: ended.answer.choice, actor: ended.actor }
}

/// Ends the wait of a question, given by its row and its id.
fn end(
    tx: &mut Tx<'_>,
    key: i64,
    caller: &Requester,
    (row, id): (i64, ApprovalId),
    reason: ApprovalEndReason,
    answer: Answer,
) -> Result<()> {
    let (salt, plain) = (salt(), codec::encode_answer(&answer));
    let mut digest = Digest::default();
    chain::answer(&mut digest, id.0.as_bytes(), &codec::commitment(&salt, &plain));
    let body = EventBody::ApprovalEnded { approval: id, reason, choice: answer.choice };
    let revision = tx.event(key, caller, &body, &digest)?;
    engine::query(END)
        .bind(row)
        .bind(reason.number())
        .bind(revision)
        .bind(tx.now.0)
        .bind(&caller.actor)
        .bind(salt.as_slice())
        .bind(codec::with_check(plain))
        .run(tx.conn)
}

/// Withdraws the questions of a run that ends, and those that lost runs before it left for their agents to come back to.
pub(crate) fn withdraw_of_run(tx: &mut Tx<'_>, key: i64, caller: &Requester, epoch: Epoch) -> Result<()> {
    for row in engine::query(OF_RUN).bind(key).bind(epoch).all(tx.conn)? {
        let (row, approval) = from_row(&row)?;
        end(tx, key, caller, (row, approval.id), ApprovalEndReason::Withdrawn, Answer::default())?;
    }
    Ok(())
}

/// Withdraws all questions of a session that wait, whatever its state. The caller ends the mutation.
pub(crate) fn withdraw_all(tx: &mut Tx<'_>, key: i64, caller: &Requester) -> Result<()> {
    for id in waiting(&mut Reader::new(tx.conn), key)? {
        let row = engine::query(BY_ID).bind(key).bind(id.0.as_bytes().as_slice()).one(tx.conn)?;
        let row = row.get("id")?;
        end(tx, key, caller, (row, id), ApprovalEndReason::Withdrawn, Answer::default())?;
    }
    Ok(())
}

/// Has the defaults hold of questions whose time is up, the earliest first, and returns their number.
pub(crate) fn expire(tx: &mut Tx<'_>, limit: i64) -> Result<usize> {
    tx.flush()?;
    let daemon = Requester::default();
    let rows = engine::query(EXPIRED).bind(tx.now.0).bind(limit).all(tx.conn)?;
    for row in &rows {
        let key: i64 = row.get("session_id")?;
        tx.head(key)?;
        let (row, approval) = from_row(row)?;
        let answer = Answer { choice: approval.question.default_choice, text: String::new() };
        end(tx, key, &daemon, (row, approval.id), ApprovalEndReason::Expired, answer)?;
        tx.end_mutation(key, &daemon, Receipt::default())?;
    }
    Ok(rows.len())
}

/// Restarts the time limit of the question whose time was up first. It may be readable then.
pub(crate) fn postpone(tx: &mut Tx<'_>) -> Result<()> {
    let Some(row) = engine::query(EXPIRED).bind(tx.now.0).bind(1_i64).optional(tx.conn)? else { return Ok(()) };
    engine::query(POSTPONE).bind(row.get::<i64>("id")?).bind(tx.now.0).run(tx.conn)
}

/// Restarts every time limit, after a time in which no client could answer.
pub(crate) fn restart(conn: &Connection, now: Timestamp) -> Result<()> {
    engine::query(RESTART).bind(now.0).run(conn)
}

/// Suspends the time limits of a session while it is archived.
pub(crate) fn archived(conn: &Connection, key: i64) -> Result<()> {
    engine::query(SUSPEND).bind(key).run(conn)
}

/// Starts the time limits of a session again.
pub(crate) fn restored(conn: &Connection, key: i64, now: Timestamp) -> Result<()> {
    engine::query(RESTORE).bind(key).bind(now.0).run(conn)
}

/// The earliest time at which a default holds.
pub(crate) fn next_default(reader: &mut Reader<'_>) -> Result<Option<Timestamp>> {
    let row = reader.one(engine::query(NEXT))?;
    row.map(|row| Ok(Timestamp(row.get(0)?))).transpose()
}

fn from_row(row: &Row) -> Result<(i64, Approval)> {
    let id = ApprovalId(codec::uuid(row.get("public_id")?)?);
    Ok((row.get("id")?, approval_from_row(row, id).map_err(|error| error.in_row(id))?))
}

fn approval_from_row(row: &Row, id: ApprovalId) -> Result<Approval> {
    let question = codec::decode_question(codec::without_check("approval", row.get("question")?)?)?;
    let end = match row.get::<Option<i32>>("end_reason")? {
        None => None,
        Some(reason) => {
            let answer: &[u8] = row.get("answer")?;
            Some(ApprovalEnd {
                reason: ApprovalEndReason::from_number(reason)?,
                answer: codec::decode_answer(codec::without_check("approval", answer)?)?,
                actor: row.get::<Option<String>>("end_actor")?.unwrap_or_default(),
                revision: row.get("end_revision")?,
                time: Timestamp(row.get("end_time")?),
            })
        }
    };
    Ok(Approval {
        id,
        session_id: SessionId(codec::uuid(row.get("session")?)?),
        epoch: row.get("epoch")?,
        actor: row.get("actor")?,
        question,
        create_time: Timestamp(row.get("create_time")?),
        request_revision: row.get("request_revision")?,
        expire_time: row.get::<Option<i64>>("expire_time")?.map(Timestamp),
        end,
    })
}

/// An approval of a session.
pub(crate) fn by_id(reader: &mut Reader<'_>, key: i64, id: ApprovalId) -> Result<Approval> {
    let row = reader.one(engine::query(BY_ID).bind(key).bind(id.0.as_bytes().as_slice()))?;
    from_row(&row.ok_or_else(|| Error::not_found(Kind::Approval, id))?).map(|(_, approval)| approval)
}

/// The questions of a session that wait, oldest first.
pub(crate) fn waiting(reader: &mut Reader<'_>, key: i64) -> Result<Vec<ApprovalId>> {
    let rows = reader.all(engine::query(WAITING_IDS).bind(key))?;
    rows.iter().map(|row| codec::uuid(row.get(0)?).map(ApprovalId)).collect()
}

/// Approvals of a session, newest first: all, or those that wait. `below` is the position of the page before; the
/// position of this one comes with it, if more follow. A page ends early instead of exceeding its bytes.
pub(crate) fn of_session(
    reader: &mut Reader<'_>,
    key: i64,
    below: Option<i64>,
    limit: i64,
    ended: bool,
) -> Result<(Vec<Approval>, Option<i64>)> {
    let mut page = BoundedPage::new(limit);
    let mut position = below;
    loop {
        let statement = if ended { OF_SESSION } else { WAITING };
        let row = reader.one(engine::query(statement).bind(key).bind(engine::below(position)))?;
        let Some(row) = row else { return Ok((page.entries, None)) };
        let (id, approval) = from_row(&row)?;
        let next = if ended { approval.request_revision } else { id };
        let bytes = bytes(&approval);
        if !page.add(approval, bytes) {
            return Ok((page.entries, position));
        }
        position = Some(next);
    }
}

/// Bytes of an approval's content.
pub fn bytes(approval: &Approval) -> usize {
    let Question { text, tool, call_id, input_json, choices, .. } = &approval.question;
    let choices: usize = choices.iter().map(|choice| choice.id.len() + choice.label.len()).sum();
    let answer = approval.end.as_ref().map_or(0, |end| end.answer.text.len());
    text.len() + tool.len() + call_id.len() + input_json.as_ref().map_or(0, String::len) + choices + answer
}
