//! Reads of history: messages by id, by page, and by layout.

use super::ancestry::{self, Ancestry, AsOf, Segment};
use super::codec::{self, Number as _, StoredPart};
use super::message_sizes::message_bytes;
use super::prunes;
use crate::engine::Reader;
use crate::engine::{self, Connection, List, Query, Row};
use crate::error::{Error, Kind, Result};
use crate::limits;
use crate::model::Revision;
use crate::model::compaction::RevisionRange;
use crate::model::draft::Draft;
use crate::model::ids::{MessageId, PartId, SessionId};
use crate::model::layout::{Layout, Placement, Span};
use crate::model::message::{Finish, Message, MessageKind, Role};
use crate::model::part::{Answers, Part, PartBody};
use crate::model::time::Timestamp;
use crate::model::view::SourceMessage;
use std::collections::HashMap;

/// The columns that every read of messages needs, in the order in which `FoundMessage::from_row` reads them. `$1` is a
/// revision: parts that came later do not count.
// No part is as long as the bound, which keeps a damaged length from overflowing the sum. Few bytes of parts come with
// the message; many are read once the budget of the read allows them.
macro_rules! select_message {
    ($rest:literal) => {
        concat!(
            "select m.id, m.session_id, s.public_id, m.revision, m.public_id, m.client_id, m.role, m.kind, ",
            "m.create_time, m.head, m.sealed_revision, m.seal, coalesce(m.parts_length, ",
            "(select sum(case when p.length < 4294967296 then p.length else 4294967296 end) from part p where p.message_id = m.id and p.revision <= ?1)), ",
            "m.parts is not null, case when length(m.parts) <= 16384 then m.parts end ",
            "from message m join session s on s.id = m.session_id ",
            $rest
        )
    };
}

pub(super) use select_message;

const BY_ID: &str = select_message!("where m.public_id = ?2");
// Nothing is read of a message of another tenant.
pub(crate) const IN_TENANT: &str =
    select_message!("where m.public_id = ?2 and s.tenant = (select tenant from session where id = ?3)");
// Of the versions of a record, the newest counts.
pub(crate) const BY_CLIENT: &str = select_message!(
    "where m.session_id = ?2 and m.client_id = ?3 and m.revision between ?4 and ?5 order by m.revision desc limit 1"
);
const BY_REVISION: &str = select_message!("where m.session_id = ?2 and m.class in (0, 1, 2, 3) and m.revision = ?3");
const BY_REVISIONS: &str = select_message!(
    "where m.session_id = ?2 and m.class in (0, 1, 2, 3) and m.revision in (select value from rarray(?3))"
);
const CLASS_FORWARD: &str = select_message!(
    "where m.session_id = ?2 and m.class = ?3 and m.revision between ?4 and ?5 \
     and (m.sealed_revision <= ?6 or ?6 is null) order by m.revision limit +?7"
);
const CLASS_BACKWARD: &str = select_message!(
    "where m.session_id = ?2 and m.class = ?3 and m.revision between ?4 and ?5 \
     and (m.sealed_revision <= ?6 or ?6 is null) order by m.revision desc limit +?7"
);
const PARTS: &str = "select p.number, p.revision, p.client_id, p.kind, p.codec, p.length, p.salt, p.body, p.blob_hash, \
     p.call_message, p.message_id from rarray(?1) wanted join part p on p.message_id = wanted.value \
     order by p.message_id, p.position";
const WHOLE: &str = "select parts from message where id = ?1";
pub(super) const OF_MESSAGE: &str = "select number, revision, client_id, kind, codec, length, salt, body, blob_hash, call_message \
     from part where message_id = ?1";
pub(crate) const BLOB_LENGTH: &str =
    "select length from blob where hash = ?1 and tenant = (select tenant from session where id = ?2)";
pub(crate) const BLOB: &str =
    "select codec, length, data from blob where hash = ?1 and tenant = (select tenant from session where id = ?2)";
const DRAFTS: &str = "select d.number, d.client_id, d.body, d.kind, d.call_id, d.tool, d.call_message \
     from message m join draft d on d.message_id = m.id where m.public_id = ?1 and d.refused is null order by d.number";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[
    BY_ID,
    IN_TENANT,
    BY_CLIENT,
    BY_REVISION,
    BY_REVISIONS,
    CLASS_FORWARD,
    CLASS_BACKWARD,
    PARTS,
    WHOLE,
    OF_MESSAGE,
    BLOB_LENGTH,
    BLOB,
    DRAFTS,
];

/// A message's row, before its parts are read.
pub(super) struct FoundMessage {
    pub(super) row: i64,
    pub(super) owner: i64,
    /// Bytes of its parts on disk before compression, without media in blobs.
    bytes: usize,
    pub(super) parts: Parts,
    pub(super) message: Message,
}

/// The place of a message's parts.
pub(super) enum Parts {
    /// They came with the row.
    Read(Vec<StoredPart>),
    /// They are in the row, and are yet to be read.
    InRow,
    /// They are rows of their own.
    Rows,
}

impl FoundMessage {
    /// Reads a row as of `at`: a later seal is ignored.
    pub(super) fn from_row(row: &Row, at: AsOf) -> Result<Self> {
        Self::parse_row(row, at).map_err(|error| match row.get(4).ok().and_then(|id| codec::uuid(id).ok()) {
            Some(id) => error.in_row(MessageId(id)),
            None => error,
        })
    }

    fn parse_row(row: &Row, at: AsOf) -> Result<Self> {
        let head = codec::decode_message_head(row.get(9)?)?;
        let sealed: Option<Revision> = row.get(10)?;
        let sealed = sealed.filter(|sealed| at.includes(*sealed));
        let finish = match sealed {
            Some(_) => codec::decode_finish(row.get(11)?)?,
            None => Finish::default(),
        };
        let message = Message {
            id: MessageId(codec::uuid(row.get(4)?)?),
            session_id: SessionId(codec::uuid(row.get(2)?)?),
            client_id: row.get(5)?,
            revision: row.get(3)?,
            role: Role::from_number(row.get(6)?)?,
            kind: MessageKind::from_number(row.get(7)?)?,
            parts: Vec::new(),
            sealed_revision: sealed,
            finish,
            replaces: head.replaces()?,
            model: head.model,
            provider: head.provider,
            create_time: Timestamp(row.get(8)?),
            origin_time: head.origin_time.map(Timestamp),
            actor: head.actor,
            metadata_json: head.metadata_json,
        };
        let bytes: Option<i64> = row.get(12)?;
        let bytes = bytes.map_or(0, |bytes| usize::try_from(bytes).unwrap_or(0));
        let parts = match (row.get(13)?, row.get::<Option<&[u8]>>(14)?) {
            (_, Some(parts)) => Parts::Read(codec::decode_parts(parts)?),
            (true, None) => Parts::InRow,
            (false, None) => Parts::Rows,
        };
        Ok(Self { row: row.get(0)?, owner: row.get(1)?, bytes, parts, message })
    }
}

/// The bytes of a blob of a session's tenant before compression.
pub(crate) fn blob(reader: &mut Reader<'_>, session: i64, hash: &[u8]) -> Result<Vec<u8>> {
    let row = reader.one(engine::query(BLOB).bind(hash.to_vec()).bind(session))?;
    blob_row(&row.ok_or_else(|| Error::corrupt("blob", "a blob is missing"))?, hash)
}

/// The number of bytes of a blob of a session's tenant before compression; zero for one that is missing.
pub(crate) fn blob_length(reader: &mut Reader<'_>, session: i64, hash: &[u8]) -> Result<i64> {
    let row = reader.one(engine::query(BLOB_LENGTH).bind(hash.to_vec()).bind(session))?;
    row.map_or(Ok(0), |row| row.get(0))
}

/// The bytes of a blob with this hash from its row: codec, length, data.
pub(super) fn blob_row(row: &Row, hash: &[u8]) -> Result<Vec<u8>> {
    let plain = codec::decompress("blob", row.get(0)?, row.get(1)?, row.get::<Vec<u8>>(2)?)?;
    if blake3::hash(&plain).as_bytes().as_slice() == hash {
        Ok(plain)
    } else {
        Err(Error::corrupt("blob", "the bytes do not match their hash"))
    }
}

/// A read of a blob by a session of its tenant and its hash.
pub(super) type Blobs = fn(&mut Reader<'_>, i64, &[u8]) -> Result<Vec<u8>>;

/// The bytes of a part of a session before compression, from its stored form or a blob.
pub(crate) fn plain_body(reader: &mut Reader<'_>, session: i64, part: &mut StoredPart) -> Result<Vec<u8>> {
    plain_body_by(reader, session, part, blob)
}

fn plain_body_by(reader: &mut Reader<'_>, session: i64, part: &mut StoredPart, blobs: Blobs) -> Result<Vec<u8>> {
    if let Some(hash) = &part.blob_hash {
        return blobs(reader, session, hash);
    }
    let body = part.body.take().ok_or_else(|| Error::corrupt("part", "a part has no body"))?;
    codec::decompress("part", part.codec, part.length, body)
}

/// A part of a message, with its number and its revision.
pub(crate) struct NumberedPart {
    pub(crate) number: u16,
    pub(crate) revision: Revision,
    pub(crate) stored: StoredPart,
}

/// A part from its row: number, revision, client id, kind, codec, length, salt, body, blob hash, call message.
pub(crate) fn part_row(row: &Row) -> Result<NumberedPart> {
    let body: Option<&[u8]> = row.get(7)?;
    let stored = StoredPart {
        client_id: row.get(2)?,
        kind: row.get(3)?,
        codec: row.get(4)?,
        length: row.get(5)?,
        salt: row.get(6)?,
        body: body.map(|body| codec::without_check("part", body).map(bytes::Bytes::copy_from_slice)).transpose()?,
        blob_hash: row.get(8)?,
        call_message: row.get(9)?,
    };
    Ok(NumberedPart { number: row.get(0)?, revision: row.get(1)?, stored })
}

/// The parts of a message that came sealed at a revision.
pub(crate) fn whole(parts: Vec<StoredPart>, revision: Revision) -> Vec<NumberedPart> {
    (1..).zip(parts).map(|(number, stored)| NumberedPart { number, revision, stored }).collect()
}

/// The name of the limit for a view that is too large to be read.
pub const VIEW_BYTES: &str = "bytes of a view";

/// The bytes of messages that a read may collect, so that it costs no more than it returns.
pub(super) struct Budget {
    spent: usize,
    most: usize,
}

impl Budget {
    pub(super) fn new(most: usize) -> Self {
        Self { spent: 0, most }
    }

    /// True if `bytes` more would exceed the budget. The first message of a read never does, whatever its size.
    fn refuses(&self, bytes: usize) -> bool {
        self.spent > 0 && self.spent.saturating_add(bytes) > self.most
    }
}

/// The number of these messages that one statement may read, so that its rows stay within `bytes_max`; at least one.
fn count_within(found: &[FoundMessage], bytes_max: usize) -> usize {
    let mut bytes = 0_usize;
    let fits = found.iter().take_while(|found| {
        bytes = bytes.saturating_add(found.bytes);
        bytes <= bytes_max
    });
    fits.count().max(1)
}

/// Reads the parts, closed by `at`, of messages in their order, as long as the budget lasts. Returns the number of
/// messages that have their parts.
pub(super) fn fill_parts(
    reader: &mut Reader<'_>,
    found: &mut [FoundMessage],
    at: AsOf,
    budget: &mut Budget,
) -> Result<usize> {
    let mut filled = 0;
    while filled < found.len() {
        let bytes_max = budget.most.saturating_sub(budget.spent).min(limits::PAGE_BYTES_MAX);
        let end = filled + count_within(&found[filled..], bytes_max);
        if budget.refuses(found[filled].bytes) {
            break;
        }
        let mut rows = part_rows(reader, &found[filled..end])?;
        for found in &mut found[filled..end] {
            let parts = match std::mem::replace(&mut found.parts, Parts::Rows) {
                Parts::Read(parts) => whole(parts, found.message.revision),
                Parts::InRow => whole(parts_in_row(reader, found)?, found.message.revision),
                Parts::Rows => rows.remove(&found.row).unwrap_or_default(),
            };
            for numbered in parts.into_iter().filter(|numbered| at.includes(numbered.revision)) {
                let part = part(reader, (found.owner, found.message.id), numbered, blob)?;
                found.message.parts.push(part);
            }
            let bytes = message_bytes(&found.message);
            if budget.refuses(bytes) {
                return Ok(filled);
            }
            budget.spent += bytes;
            filled += 1;
        }
    }
    Ok(filled)
}

/// The parts of those messages whose parts are rows, by the message's row.
fn part_rows(reader: &mut Reader<'_>, found: &[FoundMessage]) -> Result<HashMap<i64, Vec<NumberedPart>>> {
    let mut rows: HashMap<i64, Vec<NumberedPart>> = HashMap::new();
    let wanted: Vec<i64> =
        found.iter().filter(|found| matches!(found.parts, Parts::Rows)).map(|found| found.row).collect();
    if wanted.is_empty() {
        return Ok(rows);
    }
    for row in reader.all(engine::query(PARTS).bind(List::of_integers(wanted.iter().copied())))? {
        let message: i64 = row.get(10)?;
        let id = || found.iter().find(|found| found.row == message).map(|found| found.message.id.to_string());
        let part = part_row(&row).map_err(|error| error.in_row(id().unwrap_or_default()))?;
        rows.entry(message).or_default().push(part);
    }
    Ok(rows)
}

/// The parts in a message's row that were too many bytes to come with it.
fn parts_in_row(reader: &mut Reader<'_>, found: &FoundMessage) -> Result<Vec<StoredPart>> {
    let row = reader.one(engine::query(WHOLE).bind(found.row))?;
    let row = row.ok_or_else(|| Error::corrupt("message", "the message is gone"))?;
    let parts: Option<&[u8]> = row.get(0)?;
    let parts = parts.ok_or_else(|| Error::corrupt("message", "the parts are gone"))?;
    codec::decode_parts(parts).map_err(|error| error.in_row(found.message.id))
}

/// A part of a message of a session from its stored form, and from blobs.
pub(super) fn part(
    reader: &mut Reader<'_>,
    (session, message): (i64, MessageId),
    numbered: NumberedPart,
    blobs: Blobs,
) -> Result<Part> {
    let NumberedPart { number, revision, mut stored } = numbered;
    let id = PartId::in_message(message, number);
    let (mut body, metadata_json) = content(reader, session, &mut stored, blobs).map_err(|error| error.in_row(id))?;
    if let PartBody::ToolResult(result) = &mut body {
        let call_message = stored.call_message.as_deref().map(codec::uuid).transpose();
        let call_message = call_message.map_err(|error| error.in_row(id))?;
        result.answers = call_message.map_or(Answers::Nothing, |id| Answers::In(MessageId(id).to_string()));
    }
    Ok(Part { id, client_id: stored.client_id, revision, body: body.into(), metadata_json })
}

/// The content of a part, including blobs.
fn content(
    reader: &mut Reader<'_>,
    session: i64,
    stored: &mut StoredPart,
    blobs: Blobs,
) -> Result<(PartBody, Option<String>)> {
    let plain = plain_body_by(reader, session, stored, blobs)?;
    let mut media = HashMap::new();
    for hash in codec::media_blobs(&plain)? {
        let bytes = blobs(reader, session, &hash)?;
        media.insert(hash, bytes);
    }
    codec::decode_part(&plain, &|hash| media.get(hash).cloned())
}

/// A message of one session's own rows, with all its parts. For the writer, which reads its own writes.
pub(crate) fn by_public_id(conn: &Connection, key: i64, id: MessageId) -> Result<Message> {
    let mut reader = Reader::new(conn);
    let ancestry = ancestry::by_key(&mut reader, key)?;
    get(&mut reader, &ancestry, &id.to_string())
}

/// Finds a message of a history by its id or its client's id, without its parts.
fn locate(reader: &mut Reader<'_>, ancestry: &Ancestry, id: &str) -> Result<(FoundMessage, AsOf)> {
    let not_found = || Error::not_found(Kind::Message, id);
    let visible = |found: FoundMessage, segment: Segment| {
        let is_sealed = found.message.sealed_revision.is_some_and(|sealed| segment.end.includes(sealed));
        if segment.is_inherited() && !is_sealed { Err(not_found()) } else { Ok((found, segment.end)) }
    };
    if let Ok(id) = id.parse::<MessageId>() {
        let query = engine::query(IN_TENANT).bind(AsOf::Newest.last()).bind(id.0.as_bytes().to_vec());
        let row = reader.one(query.bind(ancestry.key))?.ok_or_else(not_found)?;
        let found = FoundMessage::from_row(&row, AsOf::Newest)?;
        let segment = ancestry.contains(reader, found.owner, found.message.revision)?.ok_or_else(not_found)?;
        return visible(found, segment);
    }
    for (segment, has_messages) in ancestry.all_segments(reader)?.into_iter().rev() {
        if !has_messages {
            continue;
        }
        let query = engine::query(BY_CLIENT).bind(AsOf::Newest.last()).bind(segment.owner).bind(id.to_owned());
        if let Some(row) = reader.one(query.bind(segment.first).bind(segment.end.last()))? {
            return visible(FoundMessage::from_row(&row, AsOf::Newest)?, segment);
        }
    }
    Err(not_found())
}

/// A message of a history by its id or its client's id, as it was written.
pub(crate) fn get(reader: &mut Reader<'_>, ancestry: &Ancestry, id: &str) -> Result<Message> {
    let (found, at) = locate(reader, ancestry, id)?;
    let mut found = [found];
    fill_parts(reader, &mut found, at, &mut Budget::new(usize::MAX))?;
    let [found] = found;
    Ok(found.message)
}

/// The messages of a history by their ids or their clients' ids, in this order, as they were written: as many of the
/// first ones as a page has, and at least one. An error if the history does not have one of them.
pub(crate) fn batch(reader: &mut Reader<'_>, ancestry: &Ancestry, ids: &[String]) -> Result<Vec<Message>> {
    let found: Vec<(FoundMessage, AsOf)> = ids.iter().map(|id| locate(reader, ancestry, id)).collect::<Result<_>>()?;
    let mut budget = Budget::new(limits::PAGE_BYTES_MAX);
    let mut messages = Vec::with_capacity(found.len());
    for (found, at) in found {
        let mut found = [found];
        if fill_parts(reader, &mut found, at, &mut budget)? == 0 {
            break;
        }
        messages.extend(found.map(|found| found.message));
    }
    Ok(messages)
}

/// A message by its id with its row, as it was written.
pub(crate) fn with_row(reader: &mut Reader<'_>, id: MessageId) -> Result<(i64, Message)> {
    let query = engine::query(BY_ID).bind(AsOf::Newest.last()).bind(id.0.as_bytes().to_vec());
    let row = reader.one(query)?.ok_or_else(|| Error::not_found(Kind::Message, id))?;
    let mut found = [FoundMessage::from_row(&row, AsOf::Newest)?];
    fill_parts(reader, &mut found, AsOf::Newest, &mut Budget::new(usize::MAX))?;
    let [found] = found;
    Ok((found.row, found.message))
}

/// The message at a revision of a segment, as of `at`.
pub(super) fn by_revision(segment: &Segment, revision: Revision, at: AsOf) -> Query<'static> {
    engine::query(BY_REVISION).bind(at.last()).bind(segment.owner).bind(revision)
}

/// Messages of a history at these revisions, as of `at`, in this order. A message that exceeds the rest of `bytes` is
/// left out, unless it is the first.
pub(crate) fn at_revisions(
    reader: &mut Reader<'_>,
    ancestry: &Ancestry,
    revisions: &[Revision],
    at: Revision,
    bytes: usize,
) -> Result<Vec<Message>> {
    let mut wanted = Vec::new();
    for revision in revisions.iter().filter(|revision| **revision <= at) {
        let segment = ancestry.owner_at(reader, *revision)?;
        if let Some(row) = reader.one(by_revision(&segment, *revision, AsOf::At(at)))? {
            wanted.push(FoundMessage::from_row(&row, segment.end.min(AsOf::At(at)))?);
        }
    }
    let mut remaining = bytes;
    let mut messages = Vec::new();
    for found in wanted {
        if found.bytes > remaining && !messages.is_empty() {
            continue;
        }
        remaining = remaining.saturating_sub(found.bytes);
        let mut found = [found];
        fill_parts(reader, &mut found, AsOf::At(at), &mut Budget::new(usize::MAX))?;
        messages.extend(found.map(|found| found.message));
    }
    Ok(messages)
}

/// The bytes of the parts of a session's message that was opened first, before compression, including their media.
pub(crate) fn bytes_of(reader: &mut Reader<'_>, session: i64, message: i64) -> Result<i64> {
    let mut bytes = 0;
    for row in reader.all(engine::query(OF_MESSAGE).bind(message))? {
        let mut stored = part_row(&row)?.stored;
        bytes += stored.length;
        for hash in codec::media_blobs(&plain_body(reader, session, &mut stored)?)? {
            bytes += blob_length(reader, session, &hash)?;
        }
    }
    Ok(bytes)
}

/// The message of a history with this id, without its parts: its own id, its client's, or that of one of its parts.
pub(crate) fn named(reader: &mut Reader<'_>, ancestry: &Ancestry, id: &str) -> Result<Message> {
    let Ok(part) = id.parse::<PartId>() else { return Ok(locate(reader, ancestry, id)?.0.message) };
    let mut message = match get(reader, ancestry, &part.message().to_string()) {
        Err(Error::NotFound { .. }) => return Err(Error::not_found(Kind::Message, id)),
        message => message?,
    };
    if message.parts.iter().all(|other| other.id != part) {
        return Err(Error::not_found(Kind::Message, id));
    }
    message.parts.clear();
    Ok(message)
}

/// The message of a history with this id or client's id, without its parts.
pub(crate) fn header(reader: &mut Reader<'_>, ancestry: &Ancestry, id: &str) -> Result<Message> {
    Ok(locate(reader, ancestry, id)?.0.message)
}

/// The id of the message of a history that came at a revision.
pub(crate) fn id_at(reader: &mut Reader<'_>, ancestry: &Ancestry, revision: Revision) -> Result<MessageId> {
    let segment = ancestry.owner_at(reader, revision)?;
    let row = reader.one(by_revision(&segment, revision, AsOf::Newest))?;
    let row = row.ok_or_else(|| Error::not_found(Kind::Message, revision))?;
    Ok(FoundMessage::from_row(&row, AsOf::Newest)?.message.id)
}

pub(crate) fn drafts(reader: &mut Reader<'_>, message: MessageId) -> Result<Vec<Draft>> {
    let rows = reader.all(engine::query(DRAFTS).bind(message.0.as_bytes().to_vec()))?;
    let draft = |row: Row| {
        let (id, kind) = (PartId::in_message(message, row.get(0)?), codec::decode_draft_kind(&row, 3)?);
        Ok(Draft { id, client_id: row.get(1)?, kind, text: row.get(2)? })
    };
    rows.into_iter().map(draft).collect()
}

/// The order of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// By ascending revisions.
    OldestFirst,
    /// By descending revisions.
    NewestFirst,
}

/// The selection of a page of history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageOf {
    /// The revision where the page begins; none for the first page.
    pub from: Option<Revision>,
    /// The revision as of which the history is read; none for the newest.
    pub at: Option<Revision>,
    /// The order.
    pub order: Order,
    /// The maximum number of messages.
    pub limit: i64,
    /// Includes summaries and markers.
    pub derived: bool,
    /// Includes records.
    pub records: bool,
}

/// The message classes that a page reads. Each is an index range of its own, so that no row is read in vain.
pub(super) fn classes(page: &PageOf) -> Vec<i32> {
    let mut classes = vec![codec::message_class(MessageKind::Normal), codec::message_class(MessageKind::Edit)];
    if page.derived {
        classes.push(codec::message_class(MessageKind::Summary));
    }
    if page.records {
        classes.push(codec::message_class(MessageKind::Record));
    }
    classes
}

/// Rows of some message classes of one segment, in order, at most `limit`.
fn segment_rows(
    reader: &mut Reader<'_>,
    segment: &Segment,
    (first, last): (Revision, Revision),
    classes: &[i32],
    order: Order,
    limit: i64,
    at: Revision,
) -> Result<Vec<FoundMessage>> {
    let (first, last) = (first.max(segment.first), segment.last_to(last.min(at)));
    let seen = segment.end.min(AsOf::At(at));
    let mut found = Vec::new();
    for class in classes {
        let statement = match order {
            Order::OldestFirst => CLASS_FORWARD,
            Order::NewestFirst => CLASS_BACKWARD,
        };
        let query = engine::query(statement)
            .bind(seen.last())
            .bind(segment.owner)
            .bind(*class)
            .bind(first)
            .bind(last)
            .bind(segment.is_inherited().then(|| segment.end.last()))
            .bind(limit);
        for row in reader.all(query)? {
            found.push(FoundMessage::from_row(&row, seen)?);
        }
    }
    found.sort_by_key(|found| found.message.revision);
    if order == Order::NewestFirst {
        found.reverse();
    }
    found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(found)
}

/// A page of history, the beginning of the next one, and the revision that was read.
pub(crate) fn page(
    reader: &mut Reader<'_>,
    ancestry: &Ancestry,
    page: &PageOf,
) -> Result<(Vec<Message>, Option<Revision>, Revision)> {
    let at = page.at.unwrap_or(ancestry.revision);
    ancestry.check(at)?;
    let range = match page.order {
        Order::OldestFirst => (page.from.unwrap_or(0), at),
        Order::NewestFirst => (0, page.from.map_or(at, |from| from.min(at))),
    };
    let (messages, next) = page_of(reader, ancestry, page, range, at, &mut Budget::new(limits::PAGE_BYTES_MAX))?;
    Ok((messages, next, at))
}

/// A page of the messages of some ranges, ascending and disjoint, from a revision on, and the beginning of the next
/// page.
pub(crate) fn page_of_ranges(
    reader: &mut Reader<'_>,
    ancestry: &Ancestry,
    ranges: &[RevisionRange],
    from: Revision,
    (limit, derived): (i64, bool),
) -> Result<(Vec<Message>, Option<Revision>)> {
    let mut budget = Budget::new(limits::PAGE_BYTES_MAX);
    let mut messages = Vec::new();
    for range in ranges.iter().filter(|range| range.last >= from) {
        let remaining = limit.saturating_sub(i64::try_from(messages.len()).unwrap_or(i64::MAX));
        let order = Order::OldestFirst;
        let page = PageOf { from: None, at: None, order, limit: remaining, derived, records: false };
        let range = (from.max(range.first), range.last);
        let (found, next) = page_of(reader, ancestry, &page, range, ancestry.revision, &mut budget)?;
        messages.extend(found);
        if next.is_some() {
            return Ok((messages, next));
        }
    }
    Ok((messages, None))
}

/// A page of the messages in a range of revisions, as of `at`.
fn page_of(
    reader: &mut Reader<'_>,
    ancestry: &Ancestry,
    page: &PageOf,
    mut range: (Revision, Revision),
    at: Revision,
    budget: &mut Budget,
) -> Result<(Vec<Message>, Option<Revision>)> {
    let classes = classes(page);
    let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
    let mut messages: Vec<Message> = Vec::new();
    while range.0 <= range.1.min(at) {
        let segment = match page.order {
            Order::OldestFirst => Some(ancestry.segment_from(reader, range.0)?),
            Order::NewestFirst => ancestry.segment_to(reader, range.1)?,
        };
        let Some(segment) = segment else { break };
        // One more than requested shows if another page follows; its parts are not read.
        let remaining = limit - messages.len();
        let most = i64::try_from(remaining).unwrap_or(i64::MAX).saturating_add(1).min(limits::PAGE_READ_MESSAGES);
        let mut found = segment_rows(reader, &segment, range, &classes, page.order, most, at)?;
        let full = i64::try_from(found.len()).unwrap_or(i64::MAX) == most;
        let seen = segment.end.min(AsOf::At(at));
        let wanted = found.len().min(remaining);
        let filled = fill_parts(reader, &mut found[..wanted], seen, budget)?;
        let next = found.get(filled).map(|found| found.message.revision);
        let last = found.last().map(|found| found.message.revision);
        messages.extend(found.into_iter().take(filled).map(|found| found.message));
        if next.is_some() {
            return Ok((messages, next));
        }
        match (page.order, last, segment.end) {
            (Order::OldestFirst, Some(last), _) if full => range.0 = last + 1,
            (Order::OldestFirst, _, AsOf::At(end)) => range.0 = end + 1,
            (Order::OldestFirst, _, AsOf::Newest) => break,
            (Order::NewestFirst, Some(last), _) if full => range.1 = last - 1,
            (Order::NewestFirst, ..) => range.1 = segment.first - 1,
        }
    }
    Ok((messages, None))
}

/// The messages of a layout as of a revision, with the prune marks that are active then.
pub(crate) fn sources(
    reader: &mut Reader<'_>,
    ancestry: &Ancestry,
    layout: &Layout,
    at: Revision,
    bytes_max: usize,
) -> Result<Vec<SourceMessage>> {
    let mut found = Vec::new();
    let mut budget = Budget::new(bytes_max);
    let mut spans = layout.spans.as_slice();
    while let Some((span, rest)) = spans.split_first() {
        match *span {
            Span::Placed { revision, .. } => {
                let segment = ancestry.owner_at(reader, revision)?;
                let placed = placed_in(&segment, spans);
                if placed.is_empty() {
                    return Err(Error::corrupt("layout", "a message is placed in no segment"));
                }
                spans = &spans[placed.len()..];
                found.extend(placed_rows(reader, &segment, &placed, at, &mut budget)?);
            }
            Span::Inline { first, last } => {
                spans = rest;
                let last = last.map_or(at, |last| last.min(at));
                let mut from = first;
                while from <= last {
                    let segment = ancestry.segment_from(reader, from)?;
                    let class = [codec::message_class(MessageKind::Normal)];
                    let limit = limits::VIEW_READ_MESSAGES;
                    let rows = segment_rows(reader, &segment, (from, last), &class, Order::OldestFirst, limit, at)?;
                    let full = i64::try_from(rows.len()).unwrap_or(i64::MAX) == limit;
                    let newest = rows.last().map(|found| found.message.revision);
                    let seen = segment.end.min(AsOf::At(at));
                    found.extend(filled(reader, rows, seen, &mut budget)?.into_iter().map(|row| (row, None)));
                    from = match (newest, segment.end) {
                        (Some(newest), _) if full => newest + 1,
                        (_, AsOf::At(end)) => end + 1,
                        (_, AsOf::Newest) => break,
                    };
                }
            }
        }
    }
    let wanted: Vec<(i64, MessageId)> = found.iter().map(|(found, _)| (found.row, found.message.id)).collect();
    let pruned = prunes::at(reader, ancestry, layout, &wanted, at)?;
    Ok(found
        .into_iter()
        .map(|(FoundMessage { message, .. }, placement)| {
            let of = |part: &Part| pruned.get(&part.id).map(|(_, pruned)| pruned.clone());
            let pruned = message.parts.iter().filter_map(of).collect();
            SourceMessage { message: message.into(), placement, pruned, counts: None }
        })
        .collect())
}

/// The placed messages of a layout up to one that is inline, or in another segment.
fn placed_in(segment: &Segment, spans: &[Span]) -> Vec<(Revision, Placement)> {
    let placed = spans.iter().map_while(|span| match *span {
        Span::Placed { revision, placement } => {
            (segment.first <= revision && segment.end.includes(revision)).then_some((revision, placement))
        }
        Span::Inline { .. } => None,
    });
    placed.take(usize::try_from(limits::VIEW_READ_MESSAGES).unwrap_or(usize::MAX)).collect()
}

/// Placed messages of a segment, in this order.
fn placed_rows(
    reader: &mut Reader<'_>,
    segment: &Segment,
    placed: &[(Revision, Placement)],
    at: Revision,
    budget: &mut Budget,
) -> Result<Vec<(FoundMessage, Option<Placement>)>> {
    let seen = segment.end.min(AsOf::At(at));
    let wanted = List::of_integers(placed.iter().map(|(revision, _)| *revision));
    let rows = reader.all(engine::query(BY_REVISIONS).bind(seen.last()).bind(segment.owner).bind(wanted))?;
    let found = rows.iter().map(|row| FoundMessage::from_row(row, seen)).collect::<Result<Vec<_>>>()?;
    let mut found: HashMap<Revision, FoundMessage> =
        found.into_iter().map(|found| (found.message.revision, found)).collect();
    let (placements, found): (Vec<_>, Vec<_>) =
        placed.iter().filter_map(|(at, placement)| Some((Some(*placement), found.remove(at)?))).unzip();
    Ok(filled(reader, found, seen, budget)?.into_iter().zip(placements).collect())
}

/// Messages of a view with their parts; an error if they exceed the budget of the view.
fn filled(
    reader: &mut Reader<'_>,
    mut found: Vec<FoundMessage>,
    seen: AsOf,
    budget: &mut Budget,
) -> Result<Vec<FoundMessage>> {
    let filled = fill_parts(reader, &mut found, seen, budget)?;
    let Some(refused) = found.get(filled) else { return Ok(found) };
    let bytes = budget.spent.saturating_add(message_bytes(&refused.message)).max(budget.most.saturating_add(1));
    Err(Error::LimitExceeded {
        what: VIEW_BYTES,
        limit: i64::try_from(budget.most).unwrap_or(i64::MAX),
        actual: i64::try_from(bytes).unwrap_or(i64::MAX),
    })
}
