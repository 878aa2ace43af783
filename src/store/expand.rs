//! The originals of ids in a view: the message of a part, and the messages that a compaction covers, omits or shortens.

use super::ancestry::{self, Ancestry, Reader};
use super::codec;
use super::error::{Error, Kind, Result};
use super::{SessionKey, Store, messages};
use crate::model::Revision;
use crate::model::compaction::RevisionRange;
use crate::model::ids::{CompactionId, PartId};
use crate::model::mark::MarkBody;
use crate::model::message::Message;
use crate::model::ranges::disjoint;
use sqlx::Row as _;

const END: &str = "select session_id, ended_revision from job where public_id = $1";
const MARKS_BEFORE: &str = "select revision, kind, body from mark where session_id = $1 and revision <= $2 \
     order by revision desc limit +$3";
const MARK_BEHIND: &str =
    "select kind, body from mark where session_id = $1 and revision > $2 order by revision limit 1";
const MARK: &str = "select kind, body from mark where session_id = $1 and revision = $2";
const PRUNED_AT: &str = "select distinct m.revision from pruned q join message m on m.id = q.message_id where q.session_id = $1 and q.revision = $2";

/// The statements of this file, for the test that prepares them all.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[END, MARKS_BEFORE, MARK_BEHIND, MARK, PRUNED_AT];

/// Most marks of one compaction, one directly after the other: that of prunes and omissions, and that of the summary.
const MARKS_OF_ONE: i64 = 2;

impl Store {
    /// The message of a history that contains a part, with that part alone; none if no message of it has the part.
    pub async fn part(&self, session: SessionKey, id: PartId) -> Result<Option<Message>> {
        self.reading(async |reader| {
            let ancestry = ancestry::by_key(reader, session.0).await?;
            part(reader, &ancestry, id).await
        })
        .await
    }

    /// A page of the messages that a compaction of a history covers, omits or shortens, from a revision on, and the
    /// beginning of the next page. An undo of the compaction makes no difference.
    pub async fn taken_by(
        &self,
        session: SessionKey,
        id: CompactionId,
        from: Revision,
        limit: i64,
    ) -> Result<(Vec<Message>, Option<Revision>)> {
        self.reading(async |reader| {
            let ancestry = ancestry::by_key(reader, session.0).await?;
            let ranges = taken_by(reader, &ancestry, id).await?;
            messages::page_of_ranges(reader, &ancestry, &ranges, from, limit).await
        })
        .await
    }

    /// The compaction that wrote a summary or a marker, by the revision of that message.
    pub async fn compaction_of(&self, session: SessionKey, derived: Revision) -> Result<Option<CompactionId>> {
        self.reading(async |reader| {
            let ancestry = ancestry::by_key(reader, session.0).await?;
            compaction_of(reader, &ancestry, derived).await
        })
        .await
    }

    /// The message that an edit or a replay replaces; none for any other message.
    pub async fn replaced(&self, session: SessionKey, derived: Revision) -> Result<Option<Message>> {
        self.reading(async |reader| {
            let ancestry = ancestry::by_key(reader, session.0).await?;
            let owner = ancestry.owner_at(reader, derived).await?.owner;
            let row = reader.one(sqlx::query(MARK_BEHIND).bind(owner).bind(derived)).await?;
            let mark = row.map(|row| codec::decode_mark(row.try_get(0)?, row.try_get(1)?)).transpose()?;
            let Some((target, _)) = mark.and_then(|mark| mark.replaced()).filter(|(_, by)| *by == derived) else {
                return Ok(None);
            };
            let id = messages::id_at(reader, &ancestry, target).await?;
            messages::get(reader, &ancestry, &id.to_string()).await.map(Some)
        })
        .await
    }

    /// The compactions that made these marks, in their order; none for a mark of another kind.
    pub async fn compactions_at(&self, session: SessionKey, marks: &[Revision]) -> Result<Vec<Option<CompactionId>>> {
        self.reading(async |reader| {
            let ancestry = ancestry::by_key(reader, session.0).await?;
            let mut compactions = Vec::with_capacity(marks.len());
            for mark in marks {
                compactions.push(compaction_at(reader, &ancestry, *mark).await?);
            }
            Ok(compactions)
        })
        .await
    }
}

/// The message of a history that contains a part, with that part alone; none if no message has it.
async fn part(reader: &mut Reader<'_>, ancestry: &Ancestry, id: PartId) -> Result<Option<Message>> {
    let message = match messages::named(reader, ancestry, &id.to_string()).await {
        Ok(message) => message.id,
        Err(Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut message = messages::get(reader, ancestry, &message.to_string()).await?;
    message.parts.retain(|part| part.id == id);
    Ok((!message.parts.is_empty()).then_some(message))
}

/// The messages that a compaction of this history covers, omits or shortens, undone or not; ascending and disjoint.
/// Empty for a compaction that has ended without effect, or has not ended.
async fn taken_by(reader: &mut Reader<'_>, ancestry: &Ancestry, id: CompactionId) -> Result<Vec<RevisionRange>> {
    let not_found = || Error::not_found(Kind::Compaction, id);
    let row = reader.one(sqlx::query(END).bind(id.0.as_bytes().to_vec())).await?.ok_or_else(not_found)?;
    let (owner, ended): (i64, Option<Revision>) = (row.try_get(0)?, row.try_get(1)?);
    let Some(ended) = ended else {
        return if owner == ancestry.key { Ok(Vec::new()) } else { Err(not_found()) };
    };
    ancestry.contains(reader, owner, ended).await?.ok_or_else(not_found)?;
    let mut ranges = Vec::new();
    for row in reader.all(sqlx::query(MARKS_BEFORE).bind(owner).bind(ended).bind(MARKS_OF_ONE)).await? {
        match codec::decode_mark(row.try_get(1)?, row.try_get(2)?)? {
            MarkBody::Compacted(mark) if mark.compaction == id => ranges.extend(mark.covered),
            MarkBody::Pruned { compaction, omitted, replay, .. } if compaction == id => {
                ranges.extend(omitted);
                ranges.extend(replay.map(|replay| RevisionRange { first: replay.target, last: replay.target }));
                let at: Revision = row.try_get(0)?;
                for row in reader.all(sqlx::query(PRUNED_AT).bind(owner).bind(at)).await? {
                    let revision = row.try_get(0)?;
                    ranges.push(RevisionRange { first: revision, last: revision });
                }
            }
            _ => {}
        }
    }
    Ok(disjoint(ranges))
}

/// The compaction that wrote a summary or a marker of this history.
async fn compaction_of(
    reader: &mut Reader<'_>,
    ancestry: &Ancestry,
    derived: Revision,
) -> Result<Option<CompactionId>> {
    let owner = ancestry.owner_at(reader, derived).await?.owner;
    let row = reader.one(sqlx::query(MARK_BEHIND).bind(owner).bind(derived)).await?;
    Ok(match row.map(|row| codec::decode_mark(row.try_get(0)?, row.try_get(1)?)).transpose()? {
        Some(MarkBody::Compacted(mark)) if mark.summary == derived || mark.marker == Some(derived) => {
            Some(mark.compaction)
        }
        _ => None,
    })
}

/// The compaction that made a mark of this history, if one did.
async fn compaction_at(reader: &mut Reader<'_>, ancestry: &Ancestry, mark: Revision) -> Result<Option<CompactionId>> {
    let owner = ancestry.owner_at(reader, mark).await?.owner;
    let row = reader.one(sqlx::query(MARK).bind(owner).bind(mark)).await?;
    Ok(match row.map(|row| codec::decode_mark(row.try_get(0)?, row.try_get(1)?)).transpose()? {
        Some(MarkBody::Compacted(mark)) => Some(mark.compaction),
        Some(MarkBody::Pruned { compaction, .. }) => Some(compaction),
        _ => None,
    })
}
