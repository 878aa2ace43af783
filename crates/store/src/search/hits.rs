//! The messages of what was found, with what a view does with them.

use super::source;
use crate::engine::{self, Reader};
use crate::error::{Error, Result};
use crate::ledger::ancestry::{self, Ancestry};
use crate::ledger::head::SessionKey;
use crate::ledger::message_sizes::message_bytes;
use crate::ledger::{codec, layouts, messages, statuses};
use crate::model::Revision;
use crate::model::ids::CompactionId;
use crate::model::layout::Layout;
use crate::model::message::{Message, MessageState, MessageStatus};
use crate::model::part::PartBody;
use longhand_search::{Entry, OwnRange};
use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;

const PRUNED: &str = "select q.session_id, q.revision, q.compaction_id from message m \
     join pruned q on q.message_id = m.id where m.public_id = ?1 and q.number = ?2 order by q.revision desc";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[PRUNED];

/// An entry, and the session whose view is asked about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HitQuery {
    /// The entry.
    pub entry: Entry,
    /// The session: the entry's owner, or a fork that inherits from it.
    pub view: SessionKey,
}

/// A part that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// Its message, with this part alone.
    pub message: Message,
    /// The tool of a call or a result, if it is known.
    pub tool: Option<String>,
    /// What the view of the session does with the message.
    pub status: MessageStatus,
    /// The compaction that shortened the part in the view.
    pub shortened_by: Option<CompactionId>,
}

/// A session whose view is asked.
struct HitSession {
    ancestry: Ancestry,
    layout: Layout,
    /// Messages that were found in it, with the number of their hit.
    found: Vec<(usize, Message)>,
}

/// The hits of the first entries, in their order.
pub(super) fn read(reader: &mut Reader<'_>, entries: &[HitQuery], bytes_max: usize) -> Result<Vec<Option<Hit>>> {
    let mut asked: HashMap<i64, Option<HitSession>> = HashMap::new();
    let (mut hits, mut bytes) = (Vec::new(), 0);
    for HitQuery { entry, view } in entries {
        if bytes >= bytes_max {
            break;
        }
        let asked = match asked.entry(view.0) {
            MapEntry::Vacant(vacant) => vacant.insert(open(reader, view.0)?),
            MapEntry::Occupied(opened) => opened.into_mut(),
        };
        hits.push(None);
        let Some(asked) = asked else { continue };
        if let Some(message) = message(reader, &asked.ancestry, entry, &mut bytes)? {
            asked.found.push((hits.len() - 1, message));
        }
    }
    for asked in asked.into_values().flatten() {
        let HitSession { ancestry, layout, found } = asked;
        let (numbers, messages): (Vec<usize>, Vec<Message>) = found.into_iter().unzip();
        let statuses = statuses::read(reader, &ancestry, ancestry.revision, &messages)?;
        for ((number, message), status) in numbers.into_iter().zip(messages).zip(statuses) {
            let shortened_by = match status.state {
                MessageState::Active => shortened_by(reader, &ancestry, &layout, &message)?,
                _ => None,
            };
            let tool = tool(reader, &message)?;
            hits[number] = Some(Hit { message, tool, status, shortened_by });
        }
    }
    Ok(hits)
}

fn open(reader: &mut Reader<'_>, key: i64) -> Result<Option<HitSession>> {
    let ancestry = match ancestry::by_key(reader, key) {
        Err(Error::NotFound { .. }) => return Ok(None),
        ancestry => ancestry?,
    };
    let layout = layouts::at(reader, &ancestry, ancestry.revision)?;
    Ok(Some(HitSession { ancestry, layout, found: Vec::new() }))
}

/// The message of an entry in a history, with the part alone; none if the history does not have it.
fn message(reader: &mut Reader<'_>, ancestry: &Ancestry, entry: &Entry, bytes: &mut usize) -> Result<Option<Message>> {
    if ancestry.contains(reader, entry.owner.0, entry.message)?.is_none() {
        return Ok(None);
    }
    let messages = messages::at_revisions(reader, ancestry, &[entry.message], ancestry.revision, usize::MAX)?;
    let Some(mut message) = messages.into_iter().next() else { return Ok(None) };
    *bytes += message_bytes(&message);
    // A fork inherits only what was sealed.
    if entry.owner.0 != ancestry.key && message.sealed_revision.is_none() {
        return Ok(None);
    }
    // The index may not have forgotten yet what is erased.
    message.parts.retain(|part| part.id.number() == entry.number && !part.body.is_erased());
    Ok((!message.parts.is_empty()).then_some(message))
}

/// The compaction whose mark shortens the part of a message in the view.
fn shortened_by(
    reader: &mut Reader<'_>,
    ancestry: &Ancestry,
    layout: &Layout,
    message: &Message,
) -> Result<Option<CompactionId>> {
    let Some(part) = message.parts.first() else { return Ok(None) };
    let query = engine::query(PRUNED).bind(message.id.0.as_bytes().to_vec()).bind(part.id.number());
    for row in reader.all(query)? {
        let (owner, revision): (i64, Revision) = (row.get(0)?, row.get(1)?);
        let is_undone = layout.undone_prunes.contains(&revision);
        if !is_undone && revision <= ancestry.revision && ancestry.contains(reader, owner, revision)?.is_some() {
            return Ok(Some(CompactionId(codec::uuid(row.get(2)?)?)));
        }
    }
    Ok(None)
}

fn tool(reader: &mut Reader<'_>, message: &Message) -> Result<Option<String>> {
    match message.parts.first().map(|part| &*part.body) {
        Some(PartBody::ToolCall(call)) => Ok(Some(call.tool.clone())),
        Some(PartBody::ToolResult(result)) => source::tool_of(reader, message, result),
        _ => Ok(None),
    }
}

/// The ranges of a history, in its owners' rows.
pub(super) fn ranges(reader: &mut Reader<'_>, session: SessionKey) -> Result<Vec<OwnRange>> {
    let ancestry = ancestry::by_key(reader, session.0)?;
    let segments = ancestry.all_segments(reader)?.into_iter().filter(|(_, has_messages)| *has_messages);
    let range = |(segment, _): (ancestry::Segment, bool)| OwnRange {
        owner: SessionKey(segment.owner),
        revisions: segment.first..=segment.end.last(),
    };
    Ok(segments.map(range).collect())
}
