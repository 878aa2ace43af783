//! The queue of prompts of a session.

use super::append::{append_one, pair_calls};
use super::bounded_page::BoundedPage;
use super::chain::Digest;
use super::codec::{self, Number as _, StoredPart};
use super::encoded::EncodedMessage;
use super::head::{Receipt, SessionKey};
use super::message_sizes::body_bytes;
use super::messages;
use super::receipts::answered;
use super::tx::{MessageInput, Requester, Tx};
use crate::engine::{self, Reader, Row};
use crate::error::{Error, Kind, Result};
use crate::model::Revision;
use crate::model::event::EventBody;
use crate::model::ids::{MessageId, PromptId, SessionId};
use crate::model::message::{Finish, MessageKind, NewMessage};
use crate::model::part::{Answers, NewPart, Part, PartBody, ToolResult};
use crate::model::prompt::{Delivery, Prompt, PromptEnd};
use crate::model::run::Epoch;
use crate::model::time::Timestamp;
use std::collections::HashSet;
use std::sync::Arc;
use uuid::Uuid;

macro_rules! select_prompt {
    ($rest:literal) => {
        concat!(
            "select p.id, p.public_id, p.session_id, s.public_id as session, p.delivery, p.actor, p.metadata_json, \
             p.parts, p.create_time, p.submit_revision, p.rank, p.end_epoch, p.end_revision from prompt p \
             join session s on s.id = p.session_id ",
            $rest
        )
    };
}

const QUEUE: &str =
    "select id, public_id, delivery, rank from prompt where session_id = ?1 and rank is not null order by rank";
const PARTS: &str =
    "select id, public_id, submit_revision, parts from prompt where session_id = ?1 and rank is not null order by rank";
const CALL_REVISION: &str = "select revision from message where public_id = ?1";
const RANK: &str = "update prompt set rank = ?2 where id = ?1";
const END: &str = "update prompt set rank = null, end_epoch = ?2, end_revision = ?3 where id = ?1";
const BY_ROW: &str = select_prompt!("where p.id = ?1");
const BY_ID: &str = select_prompt!("where p.session_id = ?1 and p.public_id = ?2");
const WAITING: &str = select_prompt!("where p.session_id = ?1 and p.rank > ?2 order by p.rank limit 1");
const OF_SESSION: &str = select_prompt!(
    "where p.session_id = ?1 and p.submit_revision < ?2 \
     order by p.submit_revision desc limit 1"
);
const COUNT: &str = "select count(*) from prompt where session_id = ?1 and rank is not null";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] =
    &[QUEUE, PARTS, CALL_REVISION, RANK, END, BY_ROW, BY_ID, WAITING, OF_SESSION, COUNT];

#[derive(Debug, Clone, Copy)]
pub(crate) struct QueuedPrompt {
    row: i64,
    pub(crate) id: PromptId,
    delivery: Delivery,
    /// Its rank; those of a queue ascend, with gaps.
    rank: i64,
}

impl QueuedPrompt {
    /// True if it does not wait for its turn behind a run.
    pub(crate) fn is_urgent(&self) -> bool {
        self.delivery != Delivery::Queue
    }
}

/// The queue of a session, the first one first.
pub(crate) fn queue(tx: &mut Tx<'_>, key: i64) -> Result<Vec<QueuedPrompt>> {
    let rows = engine::query(QUEUE).bind(key).all(tx.conn)?;
    let queued = |row: &Row| {
        let id = PromptId(codec::uuid(row.get(1)?)?);
        Ok(QueuedPrompt { row: row.get(0)?, id, delivery: Delivery::from_number(row.get(2)?)?, rank: row.get(3)? })
    };
    rows.iter().map(queued).collect()
}

/// Ranks a prompt at a position of the queue that it is not in. A row has all its content, so only those are written
/// again that have to make room.
pub(crate) fn insert(tx: &mut Tx<'_>, queue: &[QueuedPrompt], row: i64, position: usize) -> Result<()> {
    let (before, behind) = queue.split_at(position.min(queue.len()));
    let mut rank = match (before.last(), behind.first()) {
        (Some(last), _) => last.rank + 1,
        (None, Some(first)) => first.rank - 1,
        (None, None) => 1,
    };
    engine::query(RANK).bind(row).bind(rank).run(tx.conn)?;
    for queued in behind {
        if queued.rank > rank {
            break;
        }
        rank += 1;
        engine::query(RANK).bind(queued.row).bind(rank).run(tx.conn)?;
    }
    Ok(())
}

#[derive(Debug, Clone)]
pub(crate) struct ChangeQueue {
    pub(crate) session: SessionKey,
    pub(crate) caller: Requester,
    pub(crate) change: QueueChange,
}

/// The kind of a change of the queue.
#[derive(Debug, Clone)]
pub enum QueueChange {
    /// Moves a prompt before another one, or to the end.
    Move(PromptId, Option<PromptId>),
    /// Takes a prompt out.
    Withdraw(PromptId),
    /// Has a run take a prompt; without a name the first one, or the first one that steers.
    Take {
        /// The number of the run.
        epoch: Epoch,
        /// The prompt; none for the first one.
        prompt: Option<PromptId>,
        /// True if the first one is taken only if it steers.
        steering_only: bool,
    },
}

impl ChangeQueue {
    /// Validates first, then writes. The receipt has the prompt's id.
    pub(crate) fn apply(&self, tx: &mut Tx<'_>) -> Result<Receipt> {
        let Self { session: SessionKey(key), ref caller, ref change } = *self;
        tx.head(key)?;
        if let Some(receipt) = answered(tx, key, caller)? {
            return Ok(receipt);
        }
        tx.loaded(key)?.writable()?;
        let id = match *change {
            QueueChange::Move(id, before) => move_prompt(tx, key, caller, id, before)?,
            QueueChange::Withdraw(id) => {
                let queued = waiting(tx, key, id)?;
                withdraw(tx, key, caller, queued.row, id)?;
                id
            }
            QueueChange::Take { epoch, prompt, steering_only } => {
                tx.loaded(key)?.fence(Some(epoch))?;
                let queued = match prompt {
                    Some(id) => waiting(tx, key, id)?,
                    None => first(tx, key, steering_only)?,
                };
                take(tx, key, caller, queued, epoch)?;
                queued.id
            }
        };
        tx.end_mutation(key, caller, Receipt { ids: vec![id.0], ..Receipt::default() })
    }
}

/// Takes all prompts out of the queue of a session, whatever its state. The caller ends the mutation.
pub(crate) fn withdraw_all(tx: &mut Tx<'_>, key: i64, caller: &Requester) -> Result<()> {
    for queued in queue(tx, key)? {
        withdraw(tx, key, caller, queued.row, queued.id)?;
    }
    Ok(())
}

/// Takes prompts out of the queue whose results answer calls behind a position, which a rewind leaves out. The caller
/// ends the mutation.
pub(crate) fn withdraw_answers(tx: &mut Tx<'_>, key: i64, caller: &Requester, after: Revision) -> Result<()> {
    for row in Reader::new(tx.conn).all(engine::query(PARTS).bind(key))? {
        let mut is_left_out = false;
        for message in stored_parts(&row)?.iter().filter_map(|part| part.call_message.as_deref()) {
            let revision: Option<Revision> = engine::scalar(CALL_REVISION).bind(message).optional(tx.conn)?;
            is_left_out |= revision.is_some_and(|revision| revision > after);
        }
        if is_left_out {
            withdraw(tx, key, caller, row.get("id")?, PromptId(codec::uuid(row.get("public_id")?)?))?;
        }
    }
    Ok(())
}

fn withdraw(tx: &mut Tx<'_>, key: i64, caller: &Requester, row: i64, prompt: PromptId) -> Result<()> {
    let revision = tx.event(key, caller, &EventBody::PromptWithdrawn { prompt }, &Digest::default())?;
    engine::query(END).bind(row).bind(None::<Epoch>).bind(revision).run(tx.conn)
}

fn move_prompt(
    tx: &mut Tx<'_>,
    key: i64,
    caller: &Requester,
    id: PromptId,
    before: Option<PromptId>,
) -> Result<PromptId> {
    let moved = waiting(tx, key, id)?;
    let mut queue = queue(tx, key)?;
    queue.retain(|queued| queued.id != id);
    let position = match before {
        None => queue.len(),
        Some(before) if before == id => return Err(Error::not_found(Kind::Prompt, before)),
        Some(before) => match queue.iter().position(|queued| queued.id == before) {
            Some(position) => position,
            None => return Err(ended(tx, key, before)?),
        },
    };
    tx.event(key, caller, &EventBody::PromptMoved { prompt: id, before }, &Digest::default())?;
    insert(tx, &queue, moved.row, position)?;
    Ok(id)
}

/// A prompt that waits.
fn waiting(tx: &mut Tx<'_>, key: i64, id: PromptId) -> Result<QueuedPrompt> {
    match queue(tx, key)?.into_iter().find(|queued| queued.id == id) {
        Some(queued) => Ok(queued),
        None => Err(ended(tx, key, id)?),
    }
}

/// The error for a prompt that does not wait.
fn ended(tx: &mut Tx<'_>, key: i64, id: PromptId) -> Result<Error> {
    let row = engine::query(BY_ID).bind(key).bind(id.0.as_bytes().as_slice()).optional(tx.conn)?;
    let row = row.ok_or_else(|| Error::not_found(Kind::Prompt, id))?;
    Ok(Error::PromptEnded { taken: row.get::<Option<Epoch>>("end_epoch")?.is_some() })
}

/// The first prompt that waits, or the first if it steers.
pub(crate) fn first(tx: &mut Tx<'_>, key: i64, steering_only: bool) -> Result<QueuedPrompt> {
    let first = queue(tx, key)?.into_iter().next();
    first.filter(|queued| !steering_only || queued.delivery == Delivery::Steer).ok_or(Error::NoPrompt)
}

/// Has a run take a prompt, and appends its message.
pub(crate) fn take(tx: &mut Tx<'_>, key: i64, caller: &Requester, queued: QueuedPrompt, epoch: Epoch) -> Result<()> {
    // Blobs of a prompt of the same transaction may still wait to be written, and are read here.
    tx.write_blobs()?;
    let row = engine::query(BY_ROW).bind(queued.row).one(tx.conn)?;
    let prompt = from_row(&mut Reader::new(tx.conn), &row)?;
    let body = EventBody::PromptTaken { prompt: prompt.id, epoch };
    let revision = tx.event(key, caller, &body, &Digest::default())?;
    engine::query(END).bind(queued.row).bind(Some(epoch)).bind(revision).run(tx.conn)?;
    let sender = Requester { actor: prompt.actor.clone(), ..Requester::default() };
    let message = as_message(&prompt);
    let mut input = MessageInput { id: prompt.id.message(), ..MessageInput::from_client(&message, &sender) };
    for (part, input) in message.parts.iter().zip(&mut input.parts) {
        input.call_message = call_message(&part.body);
    }
    let mut message = EncodedMessage {
        original: message,
        input,
        received: None,
        reports_overflow: false,
        keeps_erased: false,
        digests: Vec::new(),
        lacking: None,
    };
    pair_calls(tx, key, &sender, &mut message)?;
    append_one(tx, key, caller, message)?;
    Ok(())
}

/// The message of the call that a stored result answers.
fn call_message(body: &PartBody) -> Option<Uuid> {
    match body {
        PartBody::ToolResult(ToolResult { answers: Answers::In(message), .. }) => {
            message.parse::<MessageId>().ok().map(|id| id.0)
        }
        _ => None,
    }
}

/// The calls that results of waiting prompts answer: the message and the id of each.
pub(crate) fn answered_calls(tx: &mut Tx<'_>, key: i64) -> Result<HashSet<(Uuid, String)>> {
    let mut calls = HashSet::new();
    let mut reader = Reader::new(tx.conn);
    for row in reader.all(engine::query(PARTS).bind(key))? {
        let id = PromptId(codec::uuid(row.get("public_id")?)?).message();
        let numbered = messages::whole(stored_parts(&row)?, row.get("submit_revision")?);
        for part in numbered.into_iter().filter(|part| part.stored.call_message.is_some()) {
            let part = messages::part(&mut reader, (key, id), part, messages::blob)?;
            if let (Some(message), PartBody::ToolResult(result)) = (call_message(&part.body), &*part.body) {
                calls.insert((message, result.call_id.clone()));
            }
        }
    }
    Ok(calls)
}

fn as_message(prompt: &Prompt) -> NewMessage<Option<crate::model::message::GivenView>> {
    let part = |part: &Part| NewPart {
        client_id: part.client_id.clone(),
        body: Arc::clone(&part.body),
        metadata_json: part.metadata_json.clone(),
        received: None,
    };
    NewMessage {
        client_id: None,
        replace_existing: false,
        role: prompt.role(),
        kind: MessageKind::Normal,
        parts: prompt.parts.iter().map(part).collect(),
        finish: Some(Finish::default()),
        open_timeout_ms: None,
        model: String::new(),
        provider: String::new(),
        origin_time: Some(prompt.create_time),
        metadata_json: prompt.metadata_json.clone(),
    }
}

/// The stored parts of a prompt, in order.
pub(crate) fn stored_parts(row: &Row) -> Result<Vec<StoredPart>> {
    codec::decode_parts(row.get("parts")?)
}

fn from_row(reader: &mut Reader<'_>, row: &Row) -> Result<Prompt> {
    let id = PromptId(codec::uuid(row.get("public_id")?)?);
    prompt_from_row(reader, row, id).map_err(|error| error.in_row(id))
}

fn prompt_from_row(reader: &mut Reader<'_>, row: &Row, id: PromptId) -> Result<Prompt> {
    let submit_revision: Revision = row.get("submit_revision")?;
    let numbered = messages::whole(stored_parts(row)?, submit_revision);
    let key = row.get("session_id")?;
    let parts = numbered.into_iter().map(|part| messages::part(reader, (key, id.message()), part, messages::blob));
    let end_epoch: Option<Epoch> = row.get("end_epoch")?;
    let end_revision: Option<Revision> = row.get("end_revision")?;
    Ok(Prompt {
        id,
        session_id: SessionId(codec::uuid(row.get("session")?)?),
        delivery: Delivery::from_number(row.get("delivery")?)?,
        actor: row.get("actor")?,
        parts: parts.collect::<Result<_>>()?,
        metadata_json: row.get("metadata_json")?,
        create_time: Timestamp(row.get("create_time")?),
        submit_revision,
        end: end_revision.map(|revision| PromptEnd { epoch: end_epoch, revision }),
    })
}

/// A prompt of a session.
pub(crate) fn by_id(reader: &mut Reader<'_>, key: i64, id: PromptId) -> Result<Prompt> {
    let row = reader.one(engine::query(BY_ID).bind(key).bind(id.0.as_bytes().as_slice()))?;
    from_row(reader, &row.ok_or_else(|| Error::not_found(Kind::Prompt, id))?)
}

/// Prompts of a session: all, newest first, or those that wait, in the order of the queue. `behind` is the position of
/// the page before; the position of this one comes with it, if more follow. A page ends early instead of exceeding its
/// bytes.
pub(crate) fn of_session(
    reader: &mut Reader<'_>,
    key: i64,
    behind: Option<i64>,
    limit: i64,
    ended: bool,
) -> Result<(Vec<Prompt>, Option<i64>)> {
    let mut page = BoundedPage::new(limit);
    let mut position = behind;
    loop {
        let query = match ended {
            true => engine::query(OF_SESSION).bind(key).bind(engine::below(position)),
            false => engine::query(WAITING).bind(key).bind(position.unwrap_or(i64::MIN)),
        };
        let Some(row) = reader.one(query)? else { return Ok((page.entries, None)) };
        let prompt = from_row(reader, &row)?;
        let next = row.get(if ended { "submit_revision" } else { "rank" })?;
        let bytes = bytes(&prompt);
        if !page.add(prompt, bytes) {
            return Ok((page.entries, position));
        }
        position = Some(next);
    }
}

/// Bytes of a prompt's content.
pub fn bytes(prompt: &Prompt) -> usize {
    let metadata = |json: &Option<String>| json.as_ref().map_or(0, String::len);
    let parts = prompt.parts.iter().map(|part| body_bytes(&part.body) + metadata(&part.metadata_json));
    metadata(&prompt.metadata_json) + parts.sum::<usize>()
}

/// The prompts that wait in a session, in the order of the queue.
pub(crate) fn waiting_ids(reader: &mut Reader<'_>, key: i64) -> Result<Vec<PromptId>> {
    let rows = reader.all(engine::query(QUEUE).bind(key))?;
    rows.iter().map(|row| codec::uuid(row.get(1)?).map(PromptId)).collect()
}

/// The number of prompts that wait in a session.
pub(crate) fn count(reader: &mut Reader<'_>, key: i64) -> Result<i64> {
    reader.always(engine::query(COUNT).bind(key))?.get(0)
}
