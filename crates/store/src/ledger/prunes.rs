//! The prune marks on parts, for views.

use super::ancestry::Ancestry;
use super::codec;
use crate::engine::{self, List, Reader};
use crate::error::Result;
use crate::limits;
use crate::model::Revision;
use crate::model::ids::{CompactionId, MessageId, PartId};
use crate::model::layout::Layout;
use crate::model::view::PrunedPart;
use std::collections::HashMap;

const PRUNED: &str = "select q.message_id, q.number, q.session_id, q.revision, q.compaction_id, q.truncation \
     from rarray(?1) wanted join pruned q on q.message_id = wanted.value";

const SINCE: &str = "select m.public_id, q.number, q.revision, q.compaction_id, q.truncation \
     from pruned q join message m on m.id = q.message_id where q.session_id = ?1 and q.revision > ?2 order by q.revision";

/// The statements of this file, for the test that prepares them all.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[PRUNED, SINCE];

/// The prune marks on the parts of messages, each with its revision; a mark counts if it is part of this history, existed
/// at `at` and was not undone.
pub(crate) fn at(
    reader: &mut Reader<'_>,
    ancestry: &Ancestry,
    layout: &Layout,
    messages: &[(i64, MessageId)],
    at: Revision,
) -> Result<HashMap<PartId, (Revision, PrunedPart)>> {
    let mut pruned: HashMap<PartId, (Revision, PrunedPart)> = HashMap::new();
    let most = usize::try_from(limits::VIEW_READ_MESSAGES).unwrap_or(usize::MAX);
    for messages in messages.chunks(most) {
        let ids: HashMap<i64, MessageId> = messages.iter().copied().collect();
        for row in reader.all(engine::query(PRUNED).bind(List::of_integers(messages.iter().map(|(row, _)| *row))))? {
            let (owner, revision): (i64, Revision) = (row.get(2)?, row.get(3)?);
            if revision > at || layout.undone_prunes.contains(&revision) {
                continue;
            }
            if owner != ancestry.key || ancestry.fork_revision.is_some_and(|fork| revision <= fork) {
                let inherited = ancestry.contains(reader, owner, revision)?;
                if inherited.is_none() {
                    continue;
                }
            }
            let Some(&message) = ids.get(&row.get::<i64>(0)?) else { continue };
            let part = PartId::in_message(message, row.get(1)?);
            // Of several marks on a part, the newest counts.
            if pruned.get(&part).is_none_or(|(before, _)| *before < revision) {
                pruned.insert(part, (revision, mark(part, row.get(4)?, row.get(5)?)?));
            }
        }
    }
    Ok(pruned)
}

/// The prune marks of a session since a revision; of several on a part, the newest.
pub(super) fn since(
    reader: &mut Reader<'_>,
    session: i64,
    layout: &Layout,
    after: Revision,
) -> Result<HashMap<PartId, PrunedPart>> {
    let mut pruned = HashMap::new();
    for row in reader.all(engine::query(SINCE).bind(session).bind(after))? {
        if !layout.undone_prunes.contains(&row.get(2)?) {
            let part = PartId::in_message(MessageId(codec::uuid(row.get(0)?)?), row.get(1)?);
            pruned.insert(part, mark(part, row.get(3)?, row.get(4)?)?);
        }
    }
    Ok(pruned)
}

fn mark(part: PartId, compaction: &[u8], truncation: Option<&[u8]>) -> Result<PrunedPart> {
    let truncation = truncation.map(codec::decode_truncation).transpose()?;
    Ok(PrunedPart { part, compaction: CompactionId(codec::uuid(compaction)?), truncation })
}
