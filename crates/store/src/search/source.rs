//! What is to be indexed, from the log.

use crate::engine::{self, Reader, Row};
use crate::error::{Error, Kind, Result};
use crate::ledger::head::SessionKey;
use crate::ledger::message_sizes::message_bytes;
use crate::ledger::{codec, messages, read_ahead};
use crate::limits;
use crate::model::compaction::RevisionRange;
use crate::model::event::{ErasedMessage, ErasedTarget, EventBody, EventKind};
use crate::model::ids::MessageId;
use crate::model::message::{Message, MessageKind};
use crate::model::part::{Answers, PartBody, ToolResult};
use crate::model::time::Timestamp;
use crate::model::{Revision, Seq};
use longhand_search::{EntryKind, ErasedRows, ForgottenRows, Part};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

const EVENTS: &str =
    "select seq, session_id, revision, kind, time, body, hash from event where seq > ?1 order by seq limit +?2";
const PLACE: &str = "select session_id, revision from message where public_id = ?1";
const SESSION: &str = "select tenant, coalesce(fork_id, parent_id) from session where id = ?1";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[EVENTS, PLACE, SESSION];

/// The next page of the log.
#[derive(Debug)]
pub(super) struct Page {
    /// The parts that came in it, in their order.
    pub(super) parts: Vec<Part>,
    /// What was erased in it.
    pub(super) erased: Vec<ErasedRows>,
    /// The number of its last event.
    pub(super) last: Seq,
    /// The hash of that event.
    pub(super) hash: Vec<u8>,
}

/// What is known of sessions.
pub(super) type Sessions = HashMap<i64, (Arc<str>, Arc<[SessionKey]>)>;

/// What closed parts, of a page of the log.
struct ClosingEvent {
    owner: i64,
    revision: Revision,
    time: Timestamp,
}

/// What an event means to the index.
enum Change {
    /// Parts of a message closed.
    Closed(MessageId),
    /// A session lost all messages of its own at these revisions: with the session, or with the one that it was forked
    /// from.
    ErasedMessages(Vec<RevisionRange>),
    /// Messages lost parts.
    ErasedParts(Vec<ErasedMessage>),
}

/// The next page of the log after an event; none at its end.
pub(super) fn next_page(reader: &mut Reader<'_>, sessions: &mut Sessions, after: Seq) -> Result<Option<Page>> {
    let rows = reader.all(engine::query(EVENTS).bind(after).bind(limits::SEARCH_BATCH_EVENTS))?;
    let changes = rows.iter().map(change).collect::<Result<Vec<_>>>()?;
    let mut page = Page { parts: Vec::new(), erased: Vec::new(), last: after, hash: Vec::new() };
    let mut read = ReadMessages::default();
    for (at, row) in rows.iter().enumerate() {
        let owner = row.get(1)?;
        match &changes[at] {
            Some(Change::Closed(message)) => {
                let closing = ClosingEvent { owner, revision: row.get(2)?, time: Timestamp(row.get(4)?) };
                if let Some(found) = read.message(reader, *message, &changes[at..])? {
                    parts(reader, sessions, &read, &closing, &found, &mut page.parts)?;
                }
            }
            Some(Change::ErasedMessages(ranges)) => {
                let (tenant, _) = session(reader, sessions, owner)?;
                let owner = SessionKey(owner);
                let whole = |range: &_| ErasedRows {
                    tenant: Arc::clone(&tenant),
                    owner,
                    what: ForgottenRows::Messages(*range),
                };
                page.erased.extend(ranges.iter().map(whole));
            }
            Some(Change::ErasedParts(messages)) => {
                for message in messages {
                    erased(reader, sessions, message, &mut page.erased)?;
                }
            }
            None => {}
        }
        (page.last, page.hash) = (row.get(0)?, row.get(6)?);
        if read.bytes >= limits::SEARCH_BATCH_BYTES {
            break;
        }
    }
    Ok((!rows.is_empty()).then_some(page))
}

/// Messages that are read together.
const READ_TOGETHER: usize = 64;

/// The messages of a page, some of which are read ahead.
#[derive(Default)]
struct ReadMessages {
    /// None for one that was erased, or cannot be read.
    read: HashMap<MessageId, Option<Arc<Message>>>,
    /// Those that were asked for.
    asked: HashSet<MessageId>,
    /// Their bytes.
    bytes: usize,
}

impl ReadMessages {
    /// A message. If it was not read, it is read with the next ones that these changes name.
    fn message(
        &mut self,
        reader: &mut Reader<'_>,
        id: MessageId,
        changes: &[Option<Change>],
    ) -> Result<Option<Arc<Message>>> {
        if !self.read.contains_key(&id) {
            self.read_ahead(reader, changes)?;
        }
        let found = match self.read.entry(id) {
            Entry::Occupied(found) => found.get().clone(),
            Entry::Vacant(vacant) => vacant.insert(read_message(reader, id)?).clone(),
        };
        if self.asked.insert(id) {
            self.bytes += found.as_deref().map_or(0, message_bytes);
        }
        Ok(found)
    }

    /// Reads the first messages that these changes name. If one of them cannot be read, none is.
    fn read_ahead(&mut self, reader: &mut Reader<'_>, changes: &[Option<Change>]) -> Result<()> {
        let closed = changes.iter().filter_map(|change| match change {
            Some(Change::Closed(message)) => Some(*message),
            _ => None,
        });
        let mut ids: Vec<MessageId> = closed.filter(|id| !self.read.contains_key(id)).take(READ_TOGETHER).collect();
        ids.sort_unstable();
        ids.dedup();
        match read_ahead::those_of(reader, &ids, limits::SEARCH_BATCH_BYTES) {
            Ok((found, others)) => {
                let gone = ids.into_iter().filter(|id| !others.contains(id)).map(|id| (id, None));
                self.read.extend(gone);
                self.read.extend(found.into_iter().map(|found| (found.id, Some(Arc::new(found)))));
                Ok(())
            }
            Err(Error::Corrupt { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// What an event changes; none for most, and for one that is damaged.
fn change(row: &Row) -> Result<Option<Change>> {
    let kind: i32 = row.get(3)?;
    if !EventKind::from_number(kind).is_some_and(changes_parts) {
        return Ok(None);
    }
    match codec::decode_event(kind, row.get(5)?) {
        Ok(EventBody::MessageAppended { message, .. } | EventBody::PartsClosed { message, .. }) => {
            Ok(Some(Change::Closed(message)))
        }
        // The event of a session's erasure names no messages. Content that a fork shares has the event of its owner too.
        Ok(EventBody::Erased { target: ErasedTarget::Session, ranges, .. }) => Ok(Some(Change::ErasedMessages(ranges))),
        Ok(EventBody::Erased { messages, .. }) => Ok(Some(Change::ErasedParts(messages))),
        Ok(_) => Ok(None),
        Err(error @ Error::Corrupt { .. }) => {
            tracing::warn!(%error, seq = row.get::<Seq>(0)?, "what a damaged event names is not in the search index");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// What a message lost, by its place in the rows of its owner.
fn erased(
    reader: &mut Reader<'_>,
    sessions: &mut Sessions,
    message: &ErasedMessage,
    found: &mut Vec<ErasedRows>,
) -> Result<()> {
    let id = message.message.0.as_bytes().to_vec();
    let Some(row) = reader.one(engine::query(PLACE).bind(id))? else { return Ok(()) };
    let (owner, revision) = (row.get(0)?, row.get(1)?);
    let (tenant, _) = session(reader, sessions, owner)?;
    let of_message = |what| ErasedRows { tenant: Arc::clone(&tenant), owner: SessionKey(owner), what };
    if message.parts.is_empty() {
        found.push(of_message(ForgottenRows::Messages(RevisionRange { first: revision, last: revision })));
    }
    found.extend(message.parts.iter().map(|part| of_message(ForgottenRows::Part(revision, part.number()))));
    Ok(())
}

/// True for an event that closes parts of messages, or takes their content away.
fn changes_parts(kind: EventKind) -> bool {
    match kind {
        EventKind::MessageAppended | EventKind::PartsClosed | EventKind::Erased => true,
        EventKind::SessionCreated
        | EventKind::SessionUpdated
        | EventKind::SessionArchived
        | EventKind::SessionRestored
        | EventKind::SessionForked
        | EventKind::LabelAdded
        | EventKind::LabelRemoved
        | EventKind::PolicyChanged
        | EventKind::MessageFinished
        | EventKind::UsageRecorded
        | EventKind::SessionRewound
        | EventKind::MessageEdited
        | EventKind::MessagePinned
        | EventKind::MessageUnpinned
        | EventKind::WordsMarked
        | EventKind::CompactionStarted
        | EventKind::CompactionRetried
        | EventKind::PartsPruned
        | EventKind::Compacted
        | EventKind::CompactionFailed
        | EventKind::CompactionCancelled
        | EventKind::CompactionUndone
        | EventKind::CompactionProposed
        | EventKind::CompactionRedone
        | EventKind::RewriteUndone
        | EventKind::RewriteRedone
        | EventKind::RunStarted
        | EventKind::RunCancelRequested
        | EventKind::RunEnded
        | EventKind::PromptSubmitted
        | EventKind::PromptMoved
        | EventKind::PromptTaken
        | EventKind::PromptWithdrawn
        | EventKind::ApprovalRequested
        | EventKind::ApprovalEnded => false,
    }
}

/// A message with its parts; none if it was erased.
fn read_message(reader: &mut Reader<'_>, message: MessageId) -> Result<Option<Arc<Message>>> {
    match messages::with_row(reader, message) {
        Ok((_, found)) => Ok(Some(Arc::new(found))),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error @ Error::Corrupt { .. }) => {
            tracing::warn!(%error, %message, "a message that cannot be read is not in the search index");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The parts of a message that an event closed.
fn parts(
    reader: &mut Reader<'_>,
    sessions: &mut Sessions,
    read: &ReadMessages,
    closing: &ClosingEvent,
    message: &Message,
    found: &mut Vec<Part>,
) -> Result<()> {
    for part in message.parts.iter().filter(|part| part.revision == closing.revision && !part.body.is_erased()) {
        let Some(kind) = EntryKind::from_body(&part.body) else { continue };
        let (tenant, above) = session(reader, sessions, closing.owner)?;
        let tool = match &*part.body {
            PartBody::ToolCall(call) => Some(call.tool.clone()),
            // The call came just before, as a rule.
            PartBody::ToolResult(result) => match answered(result).and_then(|id| read.read.get(&id)?.as_ref()) {
                Some(before) => tool_in(before, result),
                None => tool_of(reader, message, result)?,
            },
            _ => None,
        };
        found.push(Part {
            owner: SessionKey(closing.owner),
            tenant,
            above,
            message: message.revision,
            number: part.id.number(),
            role: message.role,
            is_derived: message.kind.is_derived() && message.kind != MessageKind::Branch,
            time: message.origin_time.unwrap_or(closing.time),
            kind,
            body: Arc::clone(&part.body),
            tool,
        });
    }
    Ok(())
}

/// The tool of a result, by the call that it answers.
pub(super) fn tool_of(reader: &mut Reader<'_>, own: &Message, result: &ToolResult) -> Result<Option<String>> {
    let Some(id) = answered(result) else { return Ok(None) };
    if id == own.id {
        return Ok(tool_in(own, result));
    }
    match messages::with_row(reader, id) {
        Ok((_, message)) => Ok(tool_in(&message, result)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The message with the call that a result answers.
fn answered(result: &ToolResult) -> Option<MessageId> {
    match &result.answers {
        Answers::In(id) => id.parse().ok(),
        _ => None,
    }
}

/// The tool of a result, whose call is in a message.
fn tool_in(message: &Message, result: &ToolResult) -> Option<String> {
    message.parts.iter().find_map(|part| match &*part.body {
        PartBody::ToolCall(call) if call.call_id == result.call_id => Some(call.tool.clone()),
        _ => None,
    })
}

/// The tenant of a session, and the sessions above it with itself. Neither ever changes.
fn session(reader: &mut Reader<'_>, sessions: &mut Sessions, key: i64) -> Result<(Arc<str>, Arc<[SessionKey]>)> {
    if let Some(known) = sessions.get(&key) {
        return Ok(known.clone());
    }
    let (mut above, mut tenant) = (Vec::new(), None);
    let mut next = Some(key);
    // Behind itself, one more than the index takes shows that there are more.
    while let Some(at) = next.filter(|_| above.len() <= limits::SEARCH_ABOVE_MAX + 1) {
        let row = reader.one(engine::query(SESSION).bind(at))?;
        let row = row.ok_or_else(|| Error::not_found(Kind::Session, at))?;
        above.push(SessionKey(at));
        tenant = tenant.or(Some(row.get::<String>(0)?));
        next = row.get(1)?;
    }
    if sessions.len() >= limits::HEADS_MAX {
        sessions.clear();
    }
    let known: (Arc<str>, Arc<[SessionKey]>) = (tenant.unwrap_or_default().into(), above.into());
    sessions.insert(key, known.clone());
    Ok(known)
}
