//! The status of messages: what a view does with each, and by which mark.

use super::ancestry::Ancestry;
use super::codec;
use super::layouts;
use crate::engine::{self, List, Reader};
use crate::error::{Error, Result};
use crate::model::Revision;
use crate::model::accounts::{Account, Accounts};
use crate::model::ids::{CompactionId, MessageId};
use crate::model::layout::{OmitReason, OmittedHistory};
use crate::model::mark::MarkBody;
use crate::model::message::{Message, MessageKind, MessageState, MessageStatus};
use std::collections::HashMap;

const MARK: &str = "select kind, body from mark where session_id = ?1 and revision = ?2";
const ID: &str = "select public_id from message where session_id = ?1 and class in (0, 1, 2, 3) and revision = ?2";
const NEWEST_VERSIONS: &str = "select m.client_id, m.revision, m.public_id from rarray(?2) wanted \
     join message m on m.session_id = ?1 and m.client_id = wanted.value and m.revision = (select max(n.revision) \
     from message n where n.session_id = ?1 and n.client_id = wanted.value and n.revision between ?3 and ?4)";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[MARK, ID, NEWEST_VERSIONS];

/// The statuses of messages of a history as of a revision, in their order. The layout is read once; each message costs
/// at most a mark and an id.
pub(crate) fn read(
    reader: &mut Reader<'_>,
    ancestry: &Ancestry,
    at: Revision,
    messages: &[Message],
) -> Result<Vec<MessageStatus>> {
    let layout = layouts::at(reader, ancestry, at)?;
    let accounts = Accounts::from_layout(&layout);
    let versions = newest_versions(reader, ancestry, at, messages)?;
    let mut rows = Rows { reader, ancestry, causes: HashMap::new(), ids: HashMap::new() };
    let mut statuses = Vec::with_capacity(messages.len());
    for message in messages {
        let status = match accounts.account(message.revision, message.kind) {
            Account::Shown => MessageStatus::from_state(MessageState::Active),
            Account::Covered(covered) => MessageStatus {
                by_revision: Some(covered.mark),
                by_message: Some(rows.id(covered.summary)?),
                by_compaction: Some(covered.compaction),
                ..MessageStatus::from_state(MessageState::Covered)
            },
            Account::Omitted(omitted) => rows.omitted(omitted)?,
            Account::Nowhere if message.kind == MessageKind::Record => record(message, &versions),
            Account::Nowhere => MessageStatus::from_state(MessageState::Inactive),
        };
        statuses.push(MessageStatus { is_pinned: accounts.is_pinned(message.revision), ..status });
    }
    Ok(statuses)
}

/// The status of a record, by the newest versions of records.
fn record(message: &Message, versions: &HashMap<String, (Revision, MessageId)>) -> MessageStatus {
    let newest = message.client_id.as_ref().and_then(|id| versions.get(id));
    match newest.filter(|(revision, _)| *revision > message.revision) {
        Some((revision, id)) => MessageStatus {
            by_revision: Some(*revision),
            by_message: Some(*id),
            ..MessageStatus::from_state(MessageState::Superseded)
        },
        None => MessageStatus::from_state(MessageState::Record),
    }
}

/// The newest versions of the records among messages, by client id.
fn newest_versions(
    reader: &mut Reader<'_>,
    ancestry: &Ancestry,
    at: Revision,
    messages: &[Message],
) -> Result<HashMap<String, (Revision, MessageId)>> {
    let mut newest = HashMap::new();
    let records = messages.iter().filter(|message| message.kind == MessageKind::Record);
    let wanted: Vec<&str> = records.filter_map(|message| message.client_id.as_deref()).collect();
    if wanted.is_empty() {
        return Ok(newest);
    }
    let list = List::of_texts(wanted);
    for (segment, has_messages) in ancestry.all_segments(reader)? {
        let last = segment.last_to(at);
        if !has_messages || segment.first > last {
            continue;
        }
        let query = engine::query(NEWEST_VERSIONS).bind(segment.owner).bind(list.clone());
        for row in reader.all(query.bind(segment.first).bind(last))? {
            newest.insert(row.get(0)?, (row.get(1)?, MessageId(codec::uuid(row.get(2)?)?)));
        }
    }
    Ok(newest)
}

/// What a mark does to the messages that it leaves out.
#[derive(Debug, Clone, Copy)]
enum Cause {
    /// An edit puts another message in their place, or none.
    Edit(Option<Revision>),
    /// An undo took back the edit that showed them.
    Undo,
    /// A compaction omits them, or puts a replay in their place.
    Compaction(CompactionId, Option<Revision>),
}

/// Rows that statuses name, each read once.
struct Rows<'a, 'r> {
    reader: &'a mut Reader<'r>,
    ancestry: &'a Ancestry,
    causes: HashMap<Revision, Cause>,
    ids: HashMap<Revision, MessageId>,
}

impl Rows<'_, '_> {
    /// The status of a message that a mark leaves out.
    fn omitted(&mut self, omitted: &OmittedHistory) -> Result<MessageStatus> {
        let by = |state| MessageStatus { by_revision: Some(omitted.mark), ..MessageStatus::from_state(state) };
        if omitted.reason == OmitReason::Rewound {
            return Ok(by(MessageState::Rewound));
        }
        Ok(match (omitted.reason, self.cause(omitted.mark)?) {
            (_, Cause::Edit(Some(replacement))) => {
                MessageStatus { by_message: Some(self.id(replacement)?), ..by(MessageState::Edited) }
            }
            (_, Cause::Edit(None)) => by(MessageState::Removed),
            (_, Cause::Undo) => by(MessageState::Undone),
            (OmitReason::Replayed, Cause::Compaction(compaction, Some(replay))) => MessageStatus {
                by_message: Some(self.id(replay)?),
                by_compaction: Some(compaction),
                ..by(MessageState::Replayed)
            },
            (_, Cause::Compaction(compaction, _)) => {
                MessageStatus { by_compaction: Some(compaction), ..by(MessageState::Omitted) }
            }
        })
    }

    /// What a mark does to the messages that it leaves out.
    fn cause(&mut self, mark: Revision) -> Result<Cause> {
        if let Some(known) = self.causes.get(&mark) {
            return Ok(*known);
        }
        let owner = self.ancestry.owner_at(self.reader, mark)?.owner;
        let row = self.reader.one(engine::query(MARK).bind(owner).bind(mark))?;
        let row = row.ok_or_else(|| Error::corrupt("mark", "a mark is missing").in_row(mark))?;
        let cause = match codec::decode_mark(row.get(0)?, row.get(1)?)? {
            MarkBody::Edited { replacement, .. } => Cause::Edit(replacement),
            MarkBody::Undone { .. } => Cause::Undo,
            MarkBody::Pruned { compaction, replay, .. } => {
                Cause::Compaction(compaction, replay.map(|replay| replay.replacement))
            }
            MarkBody::Compacted(_)
            | MarkBody::Rewound { .. }
            | MarkBody::Pinned { .. }
            | MarkBody::Words { .. }
            | MarkBody::Erased { .. } => {
                return Err(Error::corrupt("layout", "a layout names a mark that leaves no message out").in_row(mark));
            }
        };
        self.causes.insert(mark, cause);
        Ok(cause)
    }

    fn id(&mut self, revision: Revision) -> Result<MessageId> {
        if let Some(known) = self.ids.get(&revision) {
            return Ok(*known);
        }
        let owner = self.ancestry.owner_at(self.reader, revision)?.owner;
        let row = self.reader.one(engine::query(ID).bind(owner).bind(revision))?;
        let row = row.ok_or_else(|| Error::corrupt("message", "a message is missing").in_row(revision))?;
        let id = MessageId(codec::uuid(row.get(0)?)?);
        self.ids.insert(revision, id);
        Ok(id)
    }
}
