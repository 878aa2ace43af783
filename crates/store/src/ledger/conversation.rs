//! The conversation: the messages that clients wrote, as far as neither a rewind nor an edit left them out. What a
//! compaction does to the view does not change it.

use super::ancestry::Ancestry;
use super::codec::Number as _;
use super::messages;
use crate::engine::{self, Reader};
use crate::error::{Error, Result};
use crate::model::Revision;
use crate::model::ids::MessageId;
use crate::model::layout::OmitReason;
use crate::model::layouts::Marks;
use crate::model::mark::MarkBody;
use crate::model::message::MessageKind;

const NEWEST_RECORD: &str = "select max(revision) from message where session_id = ?1 and class = 2";
const NEWEST: &str = "select revision from message where session_id = ?1 and class = 0 and kind = ?5 \
     and revision between ?2 and ?3 and (sealed_revision <= ?4 or ?4 is null) order by revision desc limit 1";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[NEWEST_RECORD, NEWEST];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConversationMessage {
    /// The message that stands at the position: the original, or its newest edit.
    pub(crate) id: MessageId,
    pub(crate) revision: Revision,
    /// The position, which is the revision of the original.
    pub(crate) position: Revision,
    /// True if a replay stands there in the message's place; the message itself is the original then.
    is_replayed: bool,
}

/// The newest messages of the conversation after a position, newest first, at most `limit`. A rewound branch is skipped
/// as a whole; a message that an edit removed costs a look-up.
pub(crate) fn newest(
    reader: &mut Reader<'_>,
    ancestry: &Ancestry,
    marks: &Marks,
    after: Revision,
    limit: usize,
) -> Result<Vec<ConversationMessage>> {
    let omitted = &marks.layout().omitted;
    let mut spoken = Vec::new();
    let mut to = ancestry.revision;
    while to > after && spoken.len() < limit {
        let Some(segment) = ancestry.segment_to(reader, to)? else { break };
        let (first, last) = (segment.first.max(after + 1), segment.last_to(to));
        let sealed_by = segment.is_inherited().then(|| segment.end.last());
        let query = engine::query(NEWEST).bind(segment.owner).bind(first).bind(last).bind(sealed_by);
        let row = reader.one(query.bind(MessageKind::Normal.number()))?;
        let Some(position) = row.map(|row| row.get::<Revision>(0)).transpose()? else {
            to = segment.first - 1;
            continue;
        };
        to = position - 1;
        let omission = &omitted[omitted.partition_point(|omitted| omitted.range.last < position)..];
        let omission = omission.first().filter(|omitted| omitted.range.contains(position));
        let (revision, is_replayed) = match omission {
            Some(rewound) if rewound.reason == OmitReason::Rewound => {
                to = rewound.range.first - 1;
                continue;
            }
            Some(edited) if edited.reason == OmitReason::Edited => {
                match marks.get(edited.mark).map(|mark| &mark.body) {
                    Some(MarkBody::Edited { replacement: Some(replacement), .. }) => (*replacement, false),
                    _ => continue,
                }
            }
            Some(other) => (position, other.reason == OmitReason::Replayed),
            None => (position, false),
        };
        let id = messages::id_at(reader, ancestry, revision)?;
        spoken.push(ConversationMessage { id, revision, position, is_replayed });
    }
    Ok(spoken)
}

/// True if a message of the conversation is the one that an id names: its own id or its client's. A message that was
/// edited is named by its newest edit; one that a replay repeats, by the original and by every edit.
pub(crate) fn is_named(
    reader: &mut Reader<'_>,
    ancestry: &Ancestry,
    marks: &Marks,
    spoken: &ConversationMessage,
    id: &str,
) -> Result<bool> {
    let named = match messages::named(reader, ancestry, id) {
        Ok(named) => named,
        Err(Error::NotFound { .. }) => return Ok(false),
        Err(error) => return Err(error),
    };
    let is_record = named.kind == MessageKind::Record;
    let stands_there = spoken.is_replayed && marks.position(named.revision).first == spoken.position;
    Ok(!is_record && (named.revision == spoken.revision || stands_there))
}

/// The revision of the newest record among a session's own rows.
pub(crate) fn newest_record(reader: &mut Reader<'_>, key: i64) -> Result<Option<Revision>> {
    let row = reader.one(engine::query(NEWEST_RECORD).bind(key))?;
    row.map_or(Ok(None), |row| row.get(0))
}
