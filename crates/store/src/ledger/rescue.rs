//! Single rows of a damaged store, by every path that leads to them.
//!
//! A damaged page of a tree hides rows from one kind of look-up and not from another: a look-up by the key descends by the
//! keys of the upper pages, and a scan of the table ignores them. No statement here is for a daemon, since some scan.

use super::ancestry::AsOf;
use super::messages::{self, FoundMessage, NumberedPart, Parts};
use crate::engine::{self, List, Query, Reader, Row};
use crate::error::{Error, Result};
use crate::limits;
use crate::model::message::Message;
use std::collections::BTreeMap;

// Neither the session's row nor those of the parts have to be readable.
macro_rules! select_alone {
    ($rest:literal) => {
        concat!(
            "select m.id, m.session_id, zeroblob(16), m.revision, m.public_id, m.client_id, m.role, m.kind, ",
            "m.create_time, m.head, m.sealed_revision, m.seal, m.parts_length, m.parts is not null, m.parts ",
            "from message m not indexed where ",
            $rest
        )
    };
}

const ALONE: &str = select_alone!("m.id = ?1");
const SCANNED: &str = select_alone!("+m.id in (select value from rarray(?1))");

// All columns are those of the table: a damaged index may name the row of another message.
macro_rules! select_part {
    ($rest:literal) => {
        concat!(
            "select p.number, p.revision, p.client_id, p.kind, p.codec, p.length, p.salt, p.body, p.blob_hash, ",
            "p.call_message, p.position from ",
            $rest
        )
    };
}

const PARTS: &str = select_part!(
    "part i cross join part p on p.rowid = i.rowid where i.message_id = ?1 and p.message_id = ?1 order by i.position"
);
const PART_AT: &str = select_part!(
    "part i cross join part p on p.rowid = i.rowid where i.message_id = ?1 and i.position = ?2 and p.message_id = ?1"
);
const SCANNED_PARTS: &str = select_part!("part p not indexed where +p.message_id = ?1");
const LAST_POSITION: &str = "select max(position) from part where message_id = ?1";
const SCANNED_BLOB: &str = "select codec, length, data from blob not indexed where +hash = ?1";

/// A message with the parts that can be read. Without its session's id, it has the nil id in its place.
pub(crate) struct RescuedMessage {
    /// The key of its session.
    pub(crate) owner: i64,
    pub(crate) message: Message,
    /// The errors of the other parts.
    pub(crate) lost: Vec<Error>,
}

impl RescuedMessage {
    /// A message from its row. `parts_of` is the number of its parts according to the log.
    fn from_row(reader: &mut Reader<'_>, row: &Row, parts_of: &dyn Fn(&Message) -> Option<usize>) -> Result<Self> {
        let FoundMessage { row, owner, parts, mut message, .. } = FoundMessage::from_row(row, AsOf::Newest)?;
        let stored = match parts {
            Parts::Read(parts) => messages::whole(parts, message.revision).into_iter().map(Ok).collect(),
            Parts::InRow | Parts::Rows => parts_by_any_path(reader, row, parts_of(&message)),
        };
        let mut lost = Vec::new();
        for numbered in stored {
            match numbered.and_then(|numbered| messages::part(reader, (owner, message.id), numbered, blob_by_any_path))
            {
                Ok(part) => message.parts.push(part),
                Err(error) => lost.push(error),
            }
        }
        Ok(Self { owner, message, lost })
    }
}

/// A message by the number of its row.
pub(crate) fn message(
    reader: &mut Reader<'_>,
    row: i64,
    parts_of: &dyn Fn(&Message) -> Option<usize>,
) -> Result<RescuedMessage> {
    let found = reader.one(engine::query(ALONE).bind(row))?;
    let found = found.ok_or_else(|| Error::corrupt("message", "the message is gone"))?;
    RescuedMessage::from_row(reader, &found, parts_of)
}

/// Messages by a scan of the table, for rows that a look-up does not find. Returns those that the scan found, by row.
pub(crate) fn scanned_messages(
    reader: &mut Reader<'_>,
    rows: &[i64],
    parts_of: &dyn Fn(&Message) -> Option<usize>,
) -> BTreeMap<i64, Result<RescuedMessage>> {
    let mut found = Vec::new();
    let query = engine::query(SCANNED).bind(List::of_integers(rows.iter().copied()));
    // Rows before one that cannot be read are found nevertheless.
    drop(query.for_each(reader.conn, |row| {
        found.push(row);
        found.len() < rows.len()
    }));
    let key = |row: &Row| row.get::<i64>(0).ok();
    found.iter().filter_map(|row| Some((key(row)?, RescuedMessage::from_row(reader, row, parts_of)))).collect()
}

/// Parts of a message by their positions.
type Positions = BTreeMap<i64, Result<NumberedPart>>;

/// Adds the rows of a query until one cannot be read.
fn add_parts(reader: &Reader<'_>, parts: &mut Positions, query: Query<'_>) -> Result<()> {
    query.for_each(reader.conn, |row| {
        // A position that cannot be read is behind all others.
        let position = row.get(10).unwrap_or(i64::MAX);
        parts.entry(position).or_insert_with(|| messages::part_row(&row));
        parts.len() <= limits::MESSAGE_PARTS_MAX
    })
}

/// The parts of a message that are rows: by the index as a range, then one by one, then by a scan of the table, until
/// there are as many as expected.
fn parts_by_any_path(reader: &mut Reader<'_>, message: i64, expected: Option<usize>) -> Vec<Result<NumberedPart>> {
    let mut parts = Positions::new();
    let is_whole = |parts: &Positions| expected.is_some_and(|expected| parts.len() >= expected);
    let range = add_parts(reader, &mut parts, engine::query(PARTS).bind(message));
    if is_whole(&parts) || (range.is_ok() && expected.is_none()) {
        return parts.into_values().collect();
    }
    let mut errors: Vec<(i64, Error)> = range.err().map(|error| (i64::MAX, error)).into_iter().collect();
    let last = engine::scalar::<Option<i64>>(LAST_POSITION).bind(message).one(reader.conn).ok().flatten();
    // A damaged position may be any number.
    let most = i64::try_from(limits::MESSAGE_PARTS_MAX.min(expected.unwrap_or(usize::MAX))).unwrap_or(i64::MAX);
    for position in 0..last.map_or(most, |last| last.saturating_add(1).min(most)) {
        match reader.one(engine::query(PART_AT).bind(message).bind(position)) {
            Ok(row) => drop(row.map(|row| parts.entry(position).or_insert_with(|| messages::part_row(&row)))),
            Err(error) => errors.push((position, error)),
        }
    }
    if !is_whole(&parts) {
        // What the scan cannot read either is named by the errors before.
        drop(add_parts(reader, &mut parts, engine::query(SCANNED_PARTS).bind(message)));
    }
    if !is_whole(&parts) {
        for (position, error) in errors {
            parts.entry(position).or_insert(Err(error));
        }
    }
    parts.into_values().collect()
}

/// The bytes of a blob by the index, else by a scan of the table.
fn blob_by_any_path(reader: &mut Reader<'_>, session: i64, hash: &[u8]) -> Result<Vec<u8>> {
    messages::blob(reader, session, hash).or_else(|error| {
        let scanned = reader.one(engine::query(SCANNED_BLOB).bind(hash.to_vec()));
        scanned.ok().flatten().and_then(|row| messages::blob_row(&row, hash).ok()).ok_or(error)
    })
}
