//! The calls that results answer: named by the writer of the result, or found when the result arrives.

use super::ancestry::{self, Ancestry, AsOf, Segment};
use super::calls::{CallKey, CallState, Candidates};
use super::codec;
use super::messages;
use super::tx::{PartInput, Tx};
use crate::engine::Reader;
use crate::engine::{self, Row};
use crate::error::{Error, Kind, Result};
use crate::model::Revision;
use crate::model::ids::MessageId;
use crate::model::message::Message;
use crate::model::part::{Answers, NewPart, PartBody, ToolResult};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use uuid::Uuid;

/// The messages that results of one request name.
#[derive(Default)]
pub(crate) struct NamedCalls {
    known: HashMap<String, CallMessage>,
}

/// A message that may contain calls.
struct CallMessage {
    id: MessageId,
    call_ids: HashSet<String>,
}

/// The result in a part that names its call's message, with that name.
fn naming(part: &NewPart) -> Option<(&ToolResult, &String)> {
    match &*part.body {
        PartBody::ToolResult(result) => match &result.answers {
            Answers::In(name) => Some((result, name)),
            Answers::Nearest | Answers::Nothing => None,
        },
        _ => None,
    }
}

/// True if any of these parts names a call's message.
pub(crate) fn names_calls<'a>(parts: impl IntoIterator<Item = &'a NewPart>) -> bool {
    parts.into_iter().any(|part| naming(part).is_some())
}

fn call_ids<'a>(bodies: impl IntoIterator<Item = &'a PartBody>) -> impl Iterator<Item = String> {
    bodies.into_iter().filter_map(|body| match body {
        PartBody::ToolCall(call) => Some(call.call_id.clone()),
        _ => None,
    })
}

impl NamedCalls {
    /// Adds a message that the same request writes or extends.
    pub(crate) fn add<'a>(&mut self, name: String, id: MessageId, parts: impl IntoIterator<Item = &'a NewPart>) {
        let known = self.known.entry(name).or_insert_with(|| CallMessage { id, call_ids: HashSet::new() });
        known.call_ids.extend(call_ids(parts.into_iter().map(|part| &*part.body)));
    }

    /// Adds a message of the history. Returns its id, or the id of the original if the message is an edit.
    fn add_stored(&mut self, tx: &mut Tx<'_>, key: i64, name: &str) -> Result<MessageId> {
        tx.flush()?;
        let mut reader = Reader::new(tx.conn);
        let ancestry = ancestry::by_key(&mut reader, key)?;
        let message = messages::get(&mut reader, &ancestry, name)?;
        // An edit has the position of the original, and the next edit of that message replaces it there.
        let id = message.replaces.as_ref().map_or(message.id, |replaced| replaced.message);
        let known = self.known.entry(name.to_owned()).or_insert_with(|| CallMessage { id, call_ids: HashSet::new() });
        known.call_ids.extend(call_ids(message.parts.iter().map(|part| &*part.body)));
        Ok(id)
    }

    /// Looks up the messages that these parts name; `own` is the message that they join.
    pub(crate) fn add_named(&mut self, tx: &mut Tx<'_>, key: i64, own: MessageId, parts: &[NewPart]) -> Result<()> {
        for (_, name) in parts.iter().filter_map(naming) {
            if !self.known.contains_key(name) && self.add_stored(tx, key, name)? == own {
                self.add(name.clone(), own, parts);
            }
        }
        Ok(())
    }

    /// Replaces the name of a message in a part, if it has one, by the message's own id.
    pub(crate) fn resolve(
        &mut self,
        tx: &mut Tx<'_>,
        key: i64,
        part: &mut NewPart,
        input: &mut PartInput,
    ) -> Result<()> {
        let Some((result, name)) = naming(part) else { return Ok(()) };
        let (call_id, name) = (result.call_id.clone(), name.clone());
        if !self.known.contains_key(&name) {
            self.add_stored(tx, key, &name)?;
        }
        let known = self.known.get(&name).filter(|known| known.call_ids.contains(&call_id));
        let id = known.ok_or_else(|| Error::not_found(Kind::Call, &call_id))?.id;
        if let PartBody::ToolResult(result) = Arc::make_mut(&mut part.body) {
            result.answers = Answers::In(id.to_string());
        }
        input.call_message = Some(id.0);
        Ok(())
    }
}

const WAITING: &str = "select writer, revision, position, message from tool_call \
     where session_id = ?1 and call_id = ?2 and revision <= ?3 and answered_revision is null \
     and (writer = ?4 or ?4 is null) and (message = ?5 or ?5 is null) order by revision desc, position limit 1";
const WAITING_INHERITED: &str = "select c.writer, c.revision, c.position, c.message from tool_call c \
     where c.session_id = ?1 and c.call_id = ?2 and c.revision between ?6 and ?3 \
     and (c.answered_revision is null or c.answered_revision > ?7) \
     and (c.writer = ?4 or ?4 is null) and (c.message = ?5 or ?5 is null) \
     and exists (select 1 from message m where m.public_id = c.message and m.sealed_revision <= ?7) \
     and not exists (select 1 from tool_call o where o.session_id = ?8 and o.call_id = c.call_id \
     and o.writer = c.writer and o.revision = c.revision and o.position = c.position) \
     order by c.revision desc, c.position limit 1";
const IS_CALLER: &str = "select exists (select 1 from tool_call where session_id = ?1 and call_id = ?2 and writer = ?3 \
     and revision between ?4 and ?5)";
const REOPEN: &str = "update tool_call set answered_revision = null \
     where session_id = ?1 and revision <= ?2 and answered_revision > ?2";
const REOPEN_INHERITED: &str = "insert into tool_call (session_id, call_id, writer, revision, position, message) \
     select ?1, call_id, writer, revision, position, message from tool_call \
     where session_id = ?2 and revision between ?3 and ?5 and answered_revision > ?5 and answered_revision <= ?4 \
     on conflict do nothing";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[WAITING, WAITING_INHERITED, IS_CALLER, REOPEN, REOPEN_INHERITED];

/// A message that calls and results are written to.
pub(crate) struct TargetMessage<'a> {
    /// Its id; an edit's is the original's.
    pub(crate) message: MessageId,
    /// Its position; an edit's is the original's.
    pub(crate) revision: Revision,
    /// The writer of its calls.
    pub(crate) writer: &'a str,
}

/// Records a call, or finds the call that a result answers by the rule of `policy::calls`. The answer is permanent,
/// whatever views show later: a result whose call is covered or rewound must not be moved to another call with the same
/// id.
///
/// The event with the part must be the next one.
pub(crate) fn pair(
    tx: &mut Tx<'_>,
    key: i64,
    holder: &TargetMessage<'_>,
    position: i64,
    body: &PartBody,
    input: &mut PartInput,
) -> Result<()> {
    match body {
        PartBody::ToolCall(call) => {
            let call_key = (key, call.call_id.clone(), holder.writer.to_owned(), holder.revision, position);
            let state = CallState { message: holder.message.0, answered_revision: None };
            tx.calls().0.insert(call_key, state);
        }
        PartBody::ToolResult(result) => {
            let found = match input.call_message {
                Some(message) => waiting(tx, key, &result.call_id, Candidates::Message(message), holder.revision)?,
                None => nearest(tx, key, &result.call_id, holder)?,
            };
            if let Some((mut call_key, message)) = found {
                input.call_message = Some(message);
                call_key.0 = key;
                let answered_revision = Some(tx.next_revision(key)?);
                tx.calls().0.insert(call_key, CallState { message, answered_revision });
            }
        }
        _ => return Ok(()),
    }
    // The waiting calls in memory must be newer than those in the database.
    if holder.revision == tx.next_revision(key)? { Ok(()) } else { tx.write_calls() }
}

/// The message of the call that a result of this writer would answer at the end of the history, among the calls of the
/// message `named`, if there is one. An error if no such call waits.
pub(crate) fn waiting_call(
    tx: &mut Tx<'_>,
    key: i64,
    writer: &str,
    call_id: &str,
    named: Option<Uuid>,
) -> Result<Uuid> {
    let revision = tx.next_revision(key)?;
    let found = match named {
        Some(message) => waiting(tx, key, call_id, Candidates::Message(message), revision)?,
        None => nearest(tx, key, call_id, &TargetMessage { message: MessageId(Uuid::nil()), revision, writer })?,
    };
    match (found, named) {
        (Some((_, message)), _) => Ok(message),
        (None, Some(_)) => Err(Error::CallAnswered { call_id: call_id.to_owned() }),
        (None, None) => Err(Error::not_found(Kind::Call, call_id)),
    }
}

/// The call that is answered by a result which names none.
fn nearest(tx: &mut Tx<'_>, key: i64, call_id: &str, holder: &TargetMessage<'_>) -> Result<Option<(CallKey, Uuid)>> {
    let own = waiting(tx, key, call_id, Candidates::Writer(holder.writer), holder.revision)?;
    if own.is_some() || is_caller(tx, key, call_id, holder.writer)? {
        return Ok(own);
    }
    waiting(tx, key, call_id, Candidates::Anybody, holder.revision)
}

/// The newest waiting call at a position or before it; of several in one message the first.
fn waiting(
    tx: &mut Tx<'_>,
    key: i64,
    call_id: &str,
    of: Candidates<'_>,
    before: Revision,
) -> Result<Option<(CallKey, Uuid)>> {
    if !matches!(of, Candidates::Anybody)
        && let Some(found) = tx.calls().waiting(key, call_id, of, before)
    {
        return Ok(Some(found));
    }
    if tx.calls().calls_named(key, call_id).next().is_some() {
        tx.write_calls()?;
    }
    let ancestry = known_ancestry(tx, key)?;
    let (writer, message) = (of.writer(), of.message().map(|id| id.as_bytes().to_vec()));
    let mut reader = Reader::new(tx.conn);
    let query = engine::query(WAITING).bind(key).bind(call_id).bind(before).bind(writer).bind(message.clone());
    if let Some(row) = reader.one(query)? {
        return call_from_row(key, call_id, &row).map(Some);
    }
    for segment in inherited(&mut reader, &ancestry)?.into_iter().rev() {
        let query = engine::query(WAITING_INHERITED)
            .bind(segment.owner)
            .bind(call_id)
            .bind(segment.last_to(before))
            .bind(writer)
            .bind(message.clone())
            .bind(segment.first)
            .bind(segment.end.last())
            .bind(key);
        if let Some(row) = reader.one(query)? {
            return call_from_row(key, call_id, &row).map(Some);
        }
    }
    Ok(None)
}

fn call_from_row(key: i64, call_id: &str, row: &Row) -> Result<(CallKey, Uuid)> {
    let call_key = (key, call_id.to_owned(), row.get(0)?, row.get(1)?, row.get(2)?);
    Ok((call_key, codec::uuid(row.get(3)?)?))
}

/// True if a writer has made a call with this id. The calls of this transaction must be written already.
fn is_caller(tx: &mut Tx<'_>, key: i64, call_id: &str, writer: &str) -> Result<bool> {
    let ancestry = known_ancestry(tx, key)?;
    let mut reader = Reader::new(tx.conn);
    let mut ranges = vec![(key, 0, AsOf::Newest)];
    ranges.extend(inherited(&mut reader, &ancestry)?.iter().map(|from| (from.owner, from.first, from.end)));
    for (owner, first, end) in ranges {
        let query = engine::query(IS_CALLER).bind(owner).bind(call_id).bind(writer).bind(first).bind(end.last());
        if reader.always(query)?.get(0)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn known_ancestry(tx: &mut Tx<'_>, key: i64) -> Result<Ancestry> {
    let head = tx.loaded(key)?;
    Ok(Ancestry { key, fork_revision: head.fork_revision, revision: head.revision })
}

/// The segments with messages that a fork inherits, oldest first.
fn inherited(reader: &mut Reader<'_>, ancestry: &Ancestry) -> Result<Vec<Segment>> {
    if ancestry.fork_revision.is_none() {
        return Ok(Vec::new());
    }
    let all = ancestry.all_segments(reader)?;
    let inherited = all.into_iter().filter(|(segment, has_messages)| *has_messages && segment.is_inherited());
    Ok(inherited.map(|(segment, _)| segment).collect())
}

/// Reopens the calls whose results a rewind to `after` omits.
pub(crate) fn reopen(tx: &mut Tx<'_>, ancestry: &Ancestry, after: Revision) -> Result<()> {
    tx.write_calls()?;
    for segment in inherited(&mut Reader::new(tx.conn), ancestry)? {
        engine::query(REOPEN_INHERITED)
            .bind(ancestry.key)
            .bind(segment.owner)
            .bind(segment.first)
            .bind(segment.end.last())
            .bind(after)
            .run(tx.conn)?;
    }
    engine::query(REOPEN).bind(ancestry.key).bind(after).run(tx.conn)?;
    Ok(())
}

/// Finds the calls and results of an edit. A result that the edit repeats from the original answers the same call.
pub(crate) fn assign_edit_calls(
    tx: &mut Tx<'_>,
    key: i64,
    original: &Message,
    edited: &Message,
    parts: &[NewPart],
    inputs: &mut [PartInput],
) -> Result<()> {
    let mut before: Vec<&PartBody> = original.parts.iter().chain(&edited.parts).map(|part| &*part.body).collect();
    let holder = TargetMessage { message: original.id, revision: original.revision, writer: original.writer() };
    for (position, (part, input)) in (0..).zip(parts.iter().zip(inputs)) {
        let is_same = |other: &&PartBody| match (*other, &*part.body) {
            (PartBody::ToolCall(other), PartBody::ToolCall(call)) => other.call_id == call.call_id,
            (PartBody::ToolResult(other), PartBody::ToolResult(result)) => {
                other.call_id == result.call_id && result.answers == Answers::Nearest
            }
            _ => false,
        };
        let Some(same) = before.iter().position(is_same).map(|index| before.remove(index)) else {
            pair(tx, key, &holder, position, &part.body, input)?;
            continue;
        };
        if let PartBody::ToolResult(ToolResult { answers: Answers::In(message), .. }) = same {
            input.call_message = message.parse::<MessageId>().ok().map(|id| id.0);
        }
    }
    Ok(())
}
