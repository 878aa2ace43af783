//! The words of people beside a session's summary: the lines that follow it, and the messages whose words clients struck or
//! kept.

use super::ancestry::Ancestry;
use super::codec;
use super::layouts;
use super::marks;
use super::messages;
use crate::engine::{self, List, Reader};
use crate::error::{Error, Result};
use crate::model::Revision;
use crate::model::ids::MessageId;
use crate::model::layouts::Marks;
use crate::model::mark::{MarkBody, Words, WordsStance};
use crate::model::message::Message;
use std::collections::HashMap;

const HAS_WORDS: &str = "select exists (select 1 from mark where session_id = ?1 and revision between ?2 and ?3 \
     and kind = 8)";
const MARK: &str = "select kind, body from mark where session_id = ?1 and revision = ?2";
const IDS: &str = "select m.revision, m.public_id from message m where m.session_id = ?1 and m.class in (0, 1, 2, 3) \
     and m.revision in (select value from rarray(?2))";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[HAS_WORDS, MARK, IDS];

/// The words of people beside a session's summary.
#[derive(Debug, Clone, Default)]
pub struct SessionWords {
    /// The active summary; none if there is none.
    pub summary: Option<Message>,
    /// The message of each line that follows it, as far as it is known.
    pub said_in: Vec<Option<MessageId>>,
    /// The messages whose words clients struck or kept, oldest first.
    pub marked: Vec<(MessageId, WordsStance)>,
}

/// What becomes of the words of a history's messages, as clients decided.
pub(crate) fn decided(reader: &mut Reader<'_>, ancestry: &Ancestry) -> Result<Words> {
    for (segment, _) in ancestry.all_segments(reader)? {
        let (owner, first, last) = (segment.owner, segment.first, segment.end.last());
        let row = reader.one(engine::query(HAS_WORDS).bind(owner).bind(first).bind(last))?;
        if row.map_or(Ok(false), |row| row.get(0))? {
            return Ok(Marks::new(marks::read_all(reader, ancestry)?).words());
        }
    }
    Ok(Words::new())
}

/// The words beside the summary of a history.
pub(crate) fn read(reader: &mut Reader<'_>, ancestry: &Ancestry) -> Result<SessionWords> {
    let marked = decided(reader, ancestry)?;
    let covered = layouts::at(reader, ancestry, ancestry.revision)?.covered;
    let mut session_words = SessionWords::default();
    let mut said_in = Vec::new();
    if let Some(covered) = covered {
        let summary = messages::id_at(reader, ancestry, covered.summary)?;
        session_words.summary = Some(messages::get(reader, ancestry, &summary.to_string())?);
        let owner = ancestry.owner_at(reader, covered.mark)?.owner;
        let row = reader.one(engine::query(MARK).bind(owner).bind(covered.mark))?;
        let row = row.ok_or_else(|| Error::corrupt("mark", "a mark is missing").in_row(covered.mark))?;
        if let MarkBody::Compacted(compacted) = codec::decode_mark(row.get(0)?, row.get(1)?)? {
            said_in = compacted.said_in;
        }
    }
    let ids = ids(reader, ancestry, said_in.iter().chain(marked.keys()).copied())?;
    session_words.said_in = said_in.iter().map(|revision| ids.get(revision).copied()).collect();
    session_words.marked =
        marked.into_iter().filter_map(|(revision, stance)| Some((*ids.get(&revision)?, stance))).collect();
    Ok(session_words)
}

/// The ids of messages by their revisions.
fn ids(
    reader: &mut Reader<'_>,
    ancestry: &Ancestry,
    revisions: impl Iterator<Item = Revision>,
) -> Result<HashMap<Revision, MessageId>> {
    let wanted: Vec<Revision> = revisions.collect();
    let mut ids_by_revision = HashMap::new();
    if wanted.is_empty() {
        return Ok(ids_by_revision);
    }
    for (segment, _) in ancestry.all_segments(reader)? {
        let inside = wanted.iter().copied().filter(|at| segment.first <= *at && segment.end.includes(*at));
        let list = List::of_integers(inside);
        for row in reader.all(engine::query(IDS).bind(segment.owner).bind(list))? {
            ids_by_revision.insert(row.get(0)?, MessageId(codec::uuid(row.get(1)?)?));
        }
    }
    Ok(ids_by_revision)
}
