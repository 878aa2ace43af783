//! Stored token counts of messages, so that no decision counts the same text twice.
//!
//! Counts are derived: missing ones are counted again, and no chain protects them. A sealed message never changes, so
//! its counts are valid for ever, in forks as well.

use super::ancestry::Reader;
use super::error::{Error, Result};
use super::script::Script;
use super::tx::Tx;
use super::{Command, Store};
use crate::model::ids::MessageId;
use crate::model::view::{Counts, PartCounts};
use prost::Message as _;
use sqlx::Row as _;
use std::collections::HashMap;
use std::sync::Arc;

const KEPT: &str = "select c.message_id, c.body from json_each($2) wanted join message_count c \
     on c.counting_id = (select id from counting where name = $1) and c.message_id = unhex(wanted.value)";
const NAME: &str = "insert into counting (name) values (?) on conflict (name) do nothing";
const KEEP: &str = "insert into message_count (counting_id, message_id, body) \
     select id, ?, ? from counting where name = ? on conflict do nothing";

/// The statements of this file, for the test that prepares them all.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[KEPT, NAME, KEEP];

/// The counts of a message, with the name of the counting that they are by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// The name of the counting.
    pub counting: Arc<str>,
    /// The counts.
    pub counts: Counts,
}

impl Store {
    /// The stored counts of these messages, by the name of a counting.
    pub async fn counts(&self, counting: &str, messages: Vec<MessageId>) -> Result<HashMap<MessageId, Counts>> {
        self.reading(async |reader| kept(reader, counting, &messages).await).await
    }

    /// Stores the counts of sealed messages.
    pub async fn keep_counts(&self, counts: Vec<(MessageId, Counted)>) -> Result<()> {
        self.done(Command::KeepCounts(KeepCounts(counts))).await
    }
}

/// Counts that are to be written.
#[derive(Clone)]
pub(crate) struct KeepCounts(pub(crate) Vec<(MessageId, Counted)>);

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
}

fn to_disk(counts: &Counts) -> Vec<u8> {
    let of = |value: fn(&PartCounts) -> i64| counts.parts.iter().map(value).collect();
    DiskCounts { whole: counts.whole, alone: of(|part| part.alone), words: of(|part| part.words) }.encode_to_vec()
}

fn from_disk(body: &[u8]) -> Result<Counts> {
    let DiskCounts { whole, alone, words } =
        DiskCounts::decode(body).map_err(|error| Error::corrupt("message_count", error))?;
    let parts = alone.into_iter().zip(words).map(|(alone, words)| PartCounts { alone, words }).collect();
    Ok(Counts { whole, parts })
}

/// The stored counts of these messages.
pub(crate) async fn kept(
    reader: &mut Reader<'_>,
    counting: &str,
    messages: &[MessageId],
) -> Result<HashMap<MessageId, Counts>> {
    let wanted: Vec<String> = messages.iter().map(|id| id.0.simple().to_string()).collect();
    let list = serde_json::to_string(&wanted).unwrap_or_default();
    let rows = reader.all(sqlx::query(KEPT).bind(counting.to_owned()).bind(list)).await?;
    let pair = |row: &sqlx::sqlite::SqliteRow| {
        let id = MessageId(super::codec::uuid(row.try_get(0)?)?);
        Ok((id, from_disk(row.try_get(1)?)?))
    };
    rows.iter().map(pair).collect()
}

/// Writes counts; existing ones stay.
pub(super) fn insert(script: &mut Script, counts: Vec<(MessageId, Counted)>) {
    let mut named: Option<Arc<str>> = None;
    for (message, Counted { counting, counts }) in counts {
        if named.as_ref() != Some(&counting) {
            script.statement(NAME).bind(counting.to_string());
            named = Some(counting.clone());
        }
        let id = message.0.as_bytes().to_vec();
        script.statement(KEEP).bind(id).bind(to_disk(&counts)).bind(counting.to_string());
    }
}

impl KeepCounts {
    /// Stores them.
    pub(crate) async fn apply(self, tx: &mut Tx<'_>) -> Result<()> {
        let mut script = Script::default();
        insert(&mut script, self.0);
        tx.run(script).await
    }
}
