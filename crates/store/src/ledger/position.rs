//! The positions of messages by id. Every call that takes an id of a view uses this module, so that an id means the
//! same position in all of them.

use super::ancestry::Ancestry;
use super::{marks, messages, policies, windows};
use crate::engine;
use crate::engine::Reader;
use crate::error::{Error, Result};
use crate::model::Revision;
use crate::model::ids::MessageId;
use crate::model::layout::Layout;
use crate::model::layouts::{self, Marks};
use crate::model::mark::{Mark, MarkBody};
use crate::model::message::Message;

const SEALED_LATE: &str = "select max(sealed_revision) from message where session_id = ?1 \
     and sealed_revision > revision and sealed_revision between ?2 and ?3 and revision <= ?4";
const HAS_MESSAGES: &str = "select exists (select 1 from message where session_id = ?1 and class in (0, 1, 2, 3) \
     and revision between ?2 and ?3)";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[SEALED_LATE, HAS_MESSAGES];

/// A message by one of its ids, and its position.
#[derive(Debug, Clone)]
pub(crate) struct LocatedMessage {
    /// The message, without its parts.
    pub(crate) message: Message,
    /// Its position in the current conversation.
    pub(crate) position: layouts::Position,
}

impl LocatedMessage {
    /// The message, if it is sealed.
    pub(crate) fn sealed(self) -> Result<Self> {
        if self.message.sealed_revision.is_some() { Ok(self) } else { Err(Error::MessageOpen) }
    }

    /// The message, if it has a position in the current conversation; an error if a rewind removed it.
    pub(crate) fn in_conversation(self) -> Result<Self> {
        match self.position.left_by {
            None => Ok(self),
            Some(_) => Err(Error::BoundaryInvalid("a rewind left the message out of the conversation")),
        }
    }
}

/// Finds a message of a history by an id: its own, its client's, or that of one of its parts.
pub(crate) fn locate(reader: &mut Reader<'_>, ancestry: &Ancestry, marks: &Marks, id: &str) -> Result<LocatedMessage> {
    let message = messages::named(reader, ancestry, id)?;
    let position = marks.position(message.revision);
    Ok(LocatedMessage { message, position })
}

/// The starting point of a fork.
pub(crate) struct ForkPoint {
    /// The last revision that the fork shares.
    pub(crate) at: Revision,
    /// The last position that the fork shows; set if messages came after it by the revision `at`.
    pub(crate) after: Option<Revision>,
}

/// The starting point of a fork after a message: the first revision at which the view shows everything up to that
/// message as it shows it now, including later edits, compactions and so on. For a message that a rewind removed, the
/// state right before the rewind counts.
pub(crate) fn fork_behind(reader: &mut Reader<'_>, ancestry: &Ancestry, marks: &[Mark], id: &str) -> Result<ForkPoint> {
    let located = locate(reader, ancestry, &Marks::new(marks.to_vec()), id)?.sealed()?;
    let LocatedMessage { message, mut position } = located;
    let sealed = message.sealed_revision.unwrap_or(message.revision);
    let mut now = ancestry.revision;
    while let Some(rewind) = position.left_by {
        now = rewind - 1;
        position = Marks::at(marks, now).position(message.revision);
    }
    if sealed > now {
        return Err(Error::BoundaryInvalid("the message was sealed only after a rewind had left it out"));
    }
    let last = position.last;
    let newest_mark = marks[..marks.partition_point(|mark| mark.revision <= now)].last();
    let mut at = newest_mark.map_or(sealed, |mark| mark.revision.max(sealed));
    for (segment, _) in ancestry.all_segments(reader)? {
        let (from, to) = (segment.first.max(at + 1), segment.last_to(now));
        let query = engine::query(SEALED_LATE).bind(segment.owner).bind(from).bind(to).bind(last);
        let row = reader.always(query)?;
        at = at.max(row.get::<Option<Revision>>(0)?.unwrap_or(at));
    }
    if policies::policy_in(reader, ancestry, at)? != policies::policy_in(reader, ancestry, now)?
        || windows::window_in(reader, ancestry, at)? != windows::window_in(reader, ancestry, now)?
    {
        at = now;
    }
    let after = has_messages(reader, ancestry, last + 1, at)?.then_some(last);
    Ok(ForkPoint { at, after })
}

/// True if messages of a history came in a range of revisions.
fn has_messages(reader: &mut Reader<'_>, ancestry: &Ancestry, first: Revision, last: Revision) -> Result<bool> {
    for (segment, _) in ancestry.all_segments(reader)? {
        let (first, last) = (segment.first.max(first), segment.last_to(last));
        if first > last {
            continue;
        }
        if reader.always(engine::query(HAS_MESSAGES).bind(segment.owner).bind(first).bind(last))?.get(0)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The position of a message, for callers without marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessagePosition {
    /// The message that is shown at the position: the newest edit or replay of the named message, or itself.
    pub message: MessageId,
    /// The first position that it covers: a tail that begins with it begins here.
    pub first: Revision,
    /// The last position that it covers: a conversation that ends with it ends here.
    pub last: Revision,
}

/// The position in the current conversation of a message by an id; an error if a rewind removed it.
pub(crate) fn of_message(reader: &mut Reader<'_>, ancestry: &Ancestry, id: &str) -> Result<MessagePosition> {
    let marks = Marks::new(marks::read_all(reader, ancestry)?);
    let located = locate(reader, ancestry, &marks, id)?.in_conversation()?;
    let layouts::Position { first, last, shown, .. } = located.position;
    let is_itself = shown == located.message.revision;
    let message = if is_itself { located.message.id } else { messages::id_at(reader, ancestry, shown)? };
    Ok(MessagePosition { message, first, last })
}

/// The layout of a history after a rewind to a position.
pub(crate) fn layout_after(reader: &mut Reader<'_>, ancestry: &Ancestry, after: Revision) -> Result<Layout> {
    let mut marks = marks::read_all(reader, ancestry)?;
    let revision = ancestry.revision + 1;
    marks.push(Mark { revision, body: MarkBody::Rewound { after, has_summary: false, of_fork: false } });
    Ok(layouts::layout_at(&marks, revision))
}
