//! Full-text search of messages.
//!
//! The index is extended after appends and never by them: the progress in each session is stored, and a search first
//! brings it far enough. The definition of a word and the choice of messages are made elsewhere.

use super::ancestry::{Ancestry, Segment};
use super::codec;
use super::head::SessionKey;
use super::message_sizes::message_bytes;
use super::messages;
use super::tx::Tx;
use crate::engine;
use crate::engine::Reader;
use crate::engine::words as words_index;
use crate::error::Result;
use crate::limits;
use crate::model::Revision;
use crate::model::compaction::RevisionRange;
use crate::model::event::EventBody;
use crate::model::message::Message;

const PROGRESS: &str = "select revision from search_progress where session_id = ?1";
const BEHIND: &str = "select k.session_id from search_progress k join session s on s.id = k.session_id \
     where k.session_id > ?1 and s.revision > k.revision order by k.session_id limit +?2";
const EVENTS: &str = "select revision, kind, body from event where session_id = ?1 and revision > ?2 \
     order by revision limit +?3";
// Rows of a session are numbered in the order of their revisions; the message classes are searched one by one.
macro_rules! row_of_each_class {
    ($which:literal, $rest:literal) => {
        concat!(
            "select ",
            $which,
            "(id) from (",
            "select id from (select id from message where session_id = ?1 and class = 0 and revision ",
            $rest,
            ") as inline ",
            "union all select id from (select id from message where session_id = ?1 and class = 1 and revision ",
            $rest,
            ") as derived ",
            "union all select id from (select id from message where session_id = ?1 and class = 2 and revision ",
            $rest,
            ") as record ",
            "union all select id from (select id from message where session_id = ?1 and class = 3 and revision ",
            $rest,
            ") as edit) as found"
        )
    };
}

const FIRST_ROW: &str = row_of_each_class!("min", ">= ?2 order by revision limit 1");
const LAST_ROW: &str = row_of_each_class!("max", "<= ?2 order by revision desc limit 1");
const HAS_LOST: &str = "select count(*) from message m join tombstone t on t.session_id = m.session_id \
     and t.revision = m.revision where m.id = ?1";
const SET_PROGRESS: &str = "insert into search_progress (session_id, revision) values (?1, ?2) \
     on conflict (session_id) do update set revision = excluded.revision";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[PROGRESS, BEHIND, EVENTS, FIRST_ROW, LAST_ROW, HAS_LOST, SET_PROGRESS];

/// The next messages of a session that are not in the index yet.
#[derive(Debug, Clone)]
pub struct UnindexedMessages {
    /// The session.
    pub session: SessionKey,
    /// The progress after which they were sealed.
    pub after: Revision,
    /// The progress once they are indexed.
    pub upto: Revision,
    /// The messages, with their rows.
    pub messages: Vec<(i64, Message)>,
}

/// A search in a session's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lookup {
    /// Only messages that were sealed by this revision: all of them are in the index, and other indexed messages make
    /// no difference.
    pub sealed_by: Revision,
    /// Only messages of these ranges, ascending and disjoint.
    pub ranges: Vec<RevisionRange>,
    /// The words to find.
    pub words: Vec<String>,
    /// Most messages for each word.
    pub matches: usize,
    /// Most index entries that are scanned for each word in each segment of the history, to find messages in the
    /// ranges.
    pub examined: usize,
}

/// Words that are to be added to the index.
#[derive(Clone)]
pub(crate) struct AddWords {
    pub(crate) session: i64,
    pub(crate) after: Revision,
    pub(crate) upto: Revision,
    pub(crate) rows: Vec<(i64, String)>,
}

/// The indexed form of a word.
fn indexed(session: i64, word: &str) -> String {
    format!("{session}_{word}")
}

impl AddWords {
    /// Takes the words of each message of a batch, in the order of its messages.
    pub(crate) fn new(batch: &UnindexedMessages, words: Vec<Vec<String>>) -> Self {
        let session = batch.session.0;
        let line = |words: Vec<String>| words.iter().map(|word| indexed(session, word)).collect::<Vec<_>>().join(" ");
        let rows = batch.messages.iter().zip(words).map(|((row, _), words)| (*row, line(words)));
        let rows = rows.filter(|(_, words)| !words.is_empty()).collect();
        Self { session, after: batch.after, upto: batch.upto, rows }
    }

    /// The bytes of its words.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.iter().map(|(_, words)| words.len()).sum()
    }

    /// Adds the words, unless the messages were indexed meanwhile.
    pub(crate) fn apply(&self, tx: &mut Tx<'_>) -> Result<()> {
        let progress: Option<Revision> = engine::scalar(PROGRESS).bind(self.session).optional(tx.conn)?;
        if progress.unwrap_or(0) != self.after {
            return Ok(());
        }
        for (row, words) in &self.rows {
            // The words were read before: an erasure since then took some of them.
            if engine::scalar::<i64>(HAS_LOST).bind(*row).one(tx.conn)? > 0 {
                continue;
            }
            words_index::add(tx.conn, *row, words)?;
        }
        engine::query(SET_PROGRESS).bind(self.session).bind(self.upto).run(tx.conn)?;
        Ok(())
    }
}

/// The revision up to which a session's own rows are in the index.
pub(crate) fn progress(reader: &mut Reader<'_>, key: i64) -> Result<Revision> {
    let row = reader.one(engine::query(PROGRESS).bind(key))?;
    row.map_or(Ok(0), |row| row.get(0))
}

/// Sessions that were searched before and have unindexed messages, by key.
pub(crate) fn behind(reader: &mut Reader<'_>, after: i64, limit: i64) -> Result<Vec<SessionKey>> {
    let rows = reader.all(engine::query(BEHIND).bind(after).bind(limit))?;
    rows.iter().map(|row| Ok(SessionKey(row.get(0)?))).collect()
}

/// The next messages that were sealed after a session's progress; none if there is nothing after it.
///
/// The order follows the log's events of sealing, so a message that stays open for long does not delay later ones.
pub(crate) fn unindexed(reader: &mut Reader<'_>, key: i64) -> Result<Option<UnindexedMessages>> {
    let after = progress(reader, key)?;
    let query = engine::query(EVENTS).bind(key).bind(after).bind(limits::INDEX_BATCH_EVENTS);
    let rows = reader.all(query)?;
    let mut batch = UnindexedMessages { session: SessionKey(key), after, upto: after, messages: Vec::new() };
    let mut bytes = 0_usize;
    for row in rows {
        let sealed = match codec::decode_event(row.get(1)?, row.get(2)?)? {
            EventBody::MessageAppended { message, kind, sealed: true, .. } if !kind.is_derived() => Some(message),
            EventBody::MessageFinished { message, .. } => Some(message),
            _ => None,
        };
        if let Some(message) = sealed {
            let (row, message) = messages::with_row(reader, message)?;
            bytes = bytes.saturating_add(message_bytes(&message));
            batch.messages.push((row, message));
        }
        batch.upto = row.get(0)?;
        if bytes >= limits::INDEX_BATCH_BYTES {
            break;
        }
    }
    Ok((batch.upto > after).then_some(batch))
}

/// The owners whose rows must be indexed, each with the revision up to which, before messages sealed by `sealed_by` can
/// be searched in these ranges of a history.
pub(crate) fn owners(
    reader: &mut Reader<'_>,
    ancestry: &Ancestry,
    ranges: &[RevisionRange],
    sealed_by: Revision,
) -> Result<Vec<(SessionKey, Revision)>> {
    let mut owners = Vec::new();
    for segment in segments(reader, ancestry, ranges)? {
        let through = segment.last_to(sealed_by);
        if progress(reader, segment.owner)? < through {
            owners.push((SessionKey(segment.owner), through));
        }
    }
    Ok(owners)
}

/// The segments of a history that overlap some ranges, newest first; of a very deep fork only the nearest.
fn segments(reader: &mut Reader<'_>, ancestry: &Ancestry, ranges: &[RevisionRange]) -> Result<Vec<Segment>> {
    let mut segments = Vec::new();
    let touches = |segment: &Segment| ranges.iter().any(|range| clip(range, segment).is_some());
    let mut next = ranges.last().map(|range| range.last);
    while let Some(from) = next
        && segments.len() < limits::SEARCH_SEGMENTS_MAX
        && ranges.first().is_some_and(|range| range.first <= from)
    {
        let Some(segment) = ancestry.segment_to(reader, from)? else { break };
        if touches(&segment) {
            segments.push(segment);
        }
        next = (segment.first > 0).then(|| segment.first - 1);
    }
    Ok(segments)
}

/// The part of a range in a segment.
fn clip(range: &RevisionRange, segment: &Segment) -> Option<RevisionRange> {
    let (first, last) = (range.first.max(segment.first), segment.last_to(range.last));
    (first <= last).then_some(RevisionRange { first, last })
}

/// For each word of a look-up, the revisions of the messages that contain it, newest first.
pub(crate) fn matches(reader: &mut Reader<'_>, ancestry: &Ancestry, lookup: &Lookup) -> Result<Vec<Vec<Revision>>> {
    let mut revisions = vec![Vec::new(); lookup.words.len()];
    for segment in segments(reader, ancestry, &lookup.ranges)? {
        let ranges: Vec<RevisionRange> = lookup.ranges.iter().filter_map(|range| clip(range, &segment)).collect();
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { continue };
        let Some(first) = row_at(reader, FIRST_ROW, segment.owner, first.first)? else { continue };
        let Some(last) = row_at(reader, LAST_ROW, segment.owner, last.last)? else { continue };
        let sealed_by = segment.last_to(lookup.sealed_by);
        for (word, revisions) in lookup.words.iter().zip(&mut revisions) {
            let rows = (first, last);
            of_word(reader, lookup, &indexed(segment.owner, word), rows, sealed_by, &ranges, revisions)?;
        }
    }
    Ok(revisions)
}

fn row_at(reader: &mut Reader<'_>, statement: &'static str, owner: i64, at: Revision) -> Result<Option<i64>> {
    let row = reader.one(engine::query(statement).bind(owner).bind(at))?;
    row.map_or(Ok(None), |row| row.get(0))
}

/// Adds the messages of one owner's rows that contain a word, up to the maximum.
fn of_word(
    reader: &mut Reader<'_>,
    lookup: &Lookup,
    word: &str,
    (first, mut last): (i64, i64),
    sealed_by: Revision,
    ranges: &[RevisionRange],
    found: &mut Vec<Revision>,
) -> Result<()> {
    let mut examined = 0;
    while found.len() < lookup.matches && examined < lookup.examined && first <= last {
        let limit = i64::try_from(lookup.matches).unwrap_or(i64::MAX);
        let query = words_index::matching(reader.conn, word).bind(first).bind(last).bind(sealed_by).bind(limit);
        let rows = reader.all(query)?;
        for row in &rows {
            let revision: Revision = row.get(0)?;
            last = row.get::<i64>(1)? - 1;
            let at = ranges.partition_point(|range| range.last < revision);
            if ranges.get(at).is_some_and(|range| range.contains(revision)) && found.len() < lookup.matches {
                found.push(revision);
            }
        }
        examined += rows.len();
        if rows.len() < lookup.matches {
            break;
        }
    }
    Ok(())
}
