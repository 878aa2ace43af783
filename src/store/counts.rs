//! What messages weigh by a policy's counting, kept so that no decision counts the same words twice.
//!
//! Counts are derived: where they are missing whoever needs them counts again, and no chain vouches for them. A sealed
//! message never changes, so what was counted once holds for good, in forks as well.

use super::error::{Error, Result};
use super::lineage::Reader;
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

/// What a message weighs, with the name of the counting that says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// The counting.
    pub counting: Arc<str>,
    /// What it says.
    pub counts: Counts,
}

impl Store {
    /// What is kept of what these messages weigh, by the name of a counting.
    pub async fn counts(&self, counting: &str, messages: Vec<MessageId>) -> Result<HashMap<MessageId, Counts>> {
        self.reading(async |reader| kept(reader, counting, &messages).await).await
    }

    /// Keeps what sealed messages weigh.
    pub async fn keep_counts(&self, counts: Vec<(MessageId, Counted)>) -> Result<()> {
        self.done(Command::KeepCounts(KeepCounts(counts))).await
    }
}

/// Counts on their way to disk.
#[derive(Clone)]
pub(crate) struct KeepCounts(pub(crate) Vec<(MessageId, Counted)>);

#[derive(Clone, PartialEq, prost::Message)]
struct DiskCounts {
    #[prost(int64, tag = "1")]
    whole: i64,
    /// Of each part.
    #[prost(int64, repeated, tag = "2")]
    alone: Vec<i64>,
    /// Of each part.
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

/// The counts that are kept of these messages.
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

/// Writes counts; those that are there already stay.
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
    /// Keeps them.
    pub(crate) async fn apply(self, tx: &mut Tx<'_>) -> Result<()> {
        let mut script = Script::default();
        insert(&mut script, self.0);
        tx.run(script).await
    }
}
