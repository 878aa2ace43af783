//! Stored token counts of messages, so that no decision counts the same text twice.
//!
//! Counts are derived: missing ones are counted again, and no chain protects them. A sealed message changes by erasures
//! alone, so its counts are valid until then, in forks as well. Counts of content that was erased meanwhile may be stored
//! after the erasure, so that they say how many parts were erased when they were made.

use crate::engine::Reader;
use crate::engine::{self, Connection, List};
use crate::error::{Error, Result};
use crate::model::ids::MessageId;
use crate::model::view::{Counts, PartCounts};
use prost::Message as _;
use std::collections::HashMap;
use std::sync::Arc;

const OF_APPEND: &str = "select m.public_id, m.counts from rarray(?2) wanted join message m \
     on m.public_id = wanted.value where m.counting = ?1";
const KEPT: &str = "select c.message_id, c.body from rarray(?2) wanted join message_token_count c \
     on c.counting = ?1 and c.message_id = wanted.value";
const KEEP: &str = "insert into message_token_count (counting, message_id, body) values (?1, ?2, ?3) \
     on conflict (counting, message_id) do update set body = excluded.body";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[OF_APPEND, KEPT, KEEP];

/// The counts of a message, with the name of the counting that they are by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageCounts {
    /// The name of the counting.
    pub counting: Arc<str>,
    /// The counts.
    pub counts: Counts,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskCounts {
    #[prost(int64, tag = "1")]
    whole: i64,
    /// One value for each part.
    #[prost(int64, repeated, tag = "2")]
    alone: Vec<i64>,
    /// One value for each part.
    #[prost(int64, repeated, tag = "3")]
    words: Vec<i64>,
    #[prost(uint64, tag = "4")]
    erased: u64,
}

fn to_disk(counts: &Counts) -> Vec<u8> {
    let of = |value: fn(&PartCounts) -> i64| counts.parts.iter().map(value).collect();
    let (alone, words) = (of(|part| part.alone), of(|part| part.words));
    DiskCounts { whole: counts.whole, alone, words, erased: counts.erased as u64 }.encode_to_vec()
}

fn from_disk(body: &[u8]) -> Result<Counts> {
    let DiskCounts { whole, alone, words, erased } =
        DiskCounts::decode(body).map_err(|error| Error::corrupt("message_token_count", error))?;
    let parts = alone.into_iter().zip(words).map(|(alone, words)| PartCounts { alone, words }).collect();
    Ok(Counts { whole, parts, erased: usize::try_from(erased).unwrap_or(usize::MAX) })
}

/// The number of a counting on disk: the beginning of its name's hash, as only equality matters.
fn number(counting: &str) -> i64 {
    let hash = *blake3::hash(counting.as_bytes()).as_bytes();
    i64::from_le_bytes(*hash.first_chunk().expect("a hash has more than 8 bytes"))
}

/// The counting and the counts, as the columns of a message keep them.
pub(crate) fn columns(counted: &MessageCounts) -> (i64, Vec<u8>) {
    (number(&counted.counting), to_disk(&counted.counts))
}

/// The stored counts of these messages. Those of an append are in the message's row, and later ones in a table. They may
/// be those of content that is erased by now, or was not then.
pub(crate) fn stored_counts(
    reader: &mut Reader<'_>,
    counting: &str,
    messages: &[MessageId],
) -> Result<HashMap<MessageId, Counts>> {
    let number = number(counting);
    let mut counts = HashMap::with_capacity(messages.len());
    for query in [OF_APPEND, KEPT] {
        let missing = messages.iter().filter(|id| !counts.contains_key(*id));
        let wanted: Vec<&[u8]> = missing.map(|id| id.0.as_bytes().as_slice()).collect();
        if wanted.is_empty() {
            break;
        }
        let list = List::of_bytes(wanted);
        for row in reader.all(engine::query(query).bind(number).bind(list))? {
            counts.insert(MessageId(super::codec::uuid(row.get(0)?)?), from_disk(row.get(1)?)?);
        }
    }
    Ok(counts)
}

/// Stores the counts of sealed messages, in place of earlier ones.
pub(crate) fn keep(conn: &Connection, counts: &[(MessageId, MessageCounts)]) -> Result<()> {
    for (message, counted) in counts {
        let (counting, body) = columns(counted);
        engine::query(KEEP).bind(counting).bind(message.0.as_bytes()).bind(body).run(conn)?;
    }
    Ok(())
}
