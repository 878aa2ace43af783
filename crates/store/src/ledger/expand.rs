//! The originals of ids in a view: the message of a part, and the messages that a compaction covers, omits or shortens.

use super::ancestry::Ancestry;
use super::codec;
use super::messages;
use crate::engine;
use crate::engine::Reader;
use crate::error::{Error, Kind, Result};
use crate::model::Revision;
use crate::model::compaction::RevisionRange;
use crate::model::ids::{CompactionId, PartId};
use crate::model::mark::MarkBody;
use crate::model::message::Message;
use crate::model::ranges::disjoint;

const END: &str = "select session_id, ended_revision from job where public_id = ?1";
const MARKS_BEFORE: &str = "select revision, kind, body from mark where session_id = ?1 and revision <= ?2 \
     order by revision desc limit +?3";
const MARK_BEHIND: &str =
    "select kind, body from mark where session_id = ?1 and revision > ?2 order by revision limit 1";
const MARK: &str = "select kind, body from mark where session_id = ?1 and revision = ?2";
const PRUNED_AT: &str = "select distinct m.revision from pruned q join message m on m.id = q.message_id where q.session_id = ?1 and q.revision = ?2";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[END, MARKS_BEFORE, MARK_BEHIND, MARK, PRUNED_AT];

/// Most marks of one compaction, one directly after the other: that of prunes and omissions, and that of the summary.
const MARKS_OF_ONE: i64 = 2;

/// The message of a history that contains a part, with that part alone; none if no message has it.
pub(crate) fn part(reader: &mut Reader<'_>, ancestry: &Ancestry, id: PartId) -> Result<Option<Message>> {
    let message = match messages::named(reader, ancestry, &id.to_string()) {
        Ok(message) => message.id,
        Err(Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut message = messages::get(reader, ancestry, &message.to_string())?;
    message.parts.retain(|part| part.id == id);
    Ok((!message.parts.is_empty()).then_some(message))
}

/// The messages that a compaction of this history covers, omits or shortens, undone or not; ascending and disjoint.
/// Empty for a compaction that has ended without effect, or has not ended.
pub(crate) fn taken_by(reader: &mut Reader<'_>, ancestry: &Ancestry, id: CompactionId) -> Result<Vec<RevisionRange>> {
    let not_found = || Error::not_found(Kind::Compaction, id);
    let row = reader.one(engine::query(END).bind(id.0.as_bytes().to_vec()))?.ok_or_else(not_found)?;
    let (owner, ended): (i64, Option<Revision>) = (row.get(0)?, row.get(1)?);
    let Some(ended) = ended else {
        return if owner == ancestry.key { Ok(Vec::new()) } else { Err(not_found()) };
    };
    ancestry.contains(reader, owner, ended)?.ok_or_else(not_found)?;
    let mut ranges = Vec::new();
    for row in reader.all(engine::query(MARKS_BEFORE).bind(owner).bind(ended).bind(MARKS_OF_ONE))? {
        match codec::decode_mark(row.get(1)?, row.get(2)?)? {
            MarkBody::Compacted(mark) if mark.compaction == id => ranges.extend(mark.covered),
            MarkBody::Pruned { compaction, omitted, replay, .. } if compaction == id => {
                ranges.extend(omitted);
                ranges.extend(replay.map(|replay| RevisionRange { first: replay.target, last: replay.target }));
                let at: Revision = row.get(0)?;
                for row in reader.all(engine::query(PRUNED_AT).bind(owner).bind(at))? {
                    let revision = row.get(0)?;
                    ranges.push(RevisionRange { first: revision, last: revision });
                }
            }
            _ => {}
        }
    }
    Ok(disjoint(ranges))
}

/// The compaction that wrote a summary or a marker of this history.
pub(crate) fn compaction_of(
    reader: &mut Reader<'_>,
    ancestry: &Ancestry,
    derived: Revision,
) -> Result<Option<CompactionId>> {
    let owner = ancestry.owner_at(reader, derived)?.owner;
    let row = reader.one(engine::query(MARK_BEHIND).bind(owner).bind(derived))?;
    Ok(match row.map(|row| codec::decode_mark(row.get(0)?, row.get(1)?)).transpose()? {
        Some(MarkBody::Compacted(mark)) if mark.summary == derived || mark.marker == Some(derived) => {
            Some(mark.compaction)
        }
        _ => None,
    })
}

/// The compaction that made a mark of this history, if one did.
pub(crate) fn compaction_at(
    reader: &mut Reader<'_>,
    ancestry: &Ancestry,
    mark: Revision,
) -> Result<Option<CompactionId>> {
    let owner = ancestry.owner_at(reader, mark)?.owner;
    let row = reader.one(engine::query(MARK).bind(owner).bind(mark))?;
    Ok(match row.map(|row| codec::decode_mark(row.get(0)?, row.get(1)?)).transpose()? {
        Some(MarkBody::Compacted(mark)) => Some(mark.compaction),
        Some(MarkBody::Pruned { compaction, .. }) => Some(compaction),
        _ => None,
    })
}

/// The message that an edit or a replay replaces; none for any other message.
pub(crate) fn replaced(reader: &mut Reader<'_>, ancestry: &Ancestry, derived: Revision) -> Result<Option<Message>> {
    let owner = ancestry.owner_at(reader, derived)?.owner;
    let row = reader.one(engine::query(MARK_BEHIND).bind(owner).bind(derived))?;
    let mark = row.map(|row| codec::decode_mark(row.get(0)?, row.get(1)?)).transpose()?;
    let Some((target, _)) = mark.and_then(|mark| mark.replaced()).filter(|(_, by)| *by == derived) else {
        return Ok(None);
    };
    let id = messages::id_at(reader, ancestry, target)?;
    messages::get(reader, ancestry, &id.to_string()).map(Some)
}
