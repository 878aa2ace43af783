//! The rows that an erasure changes: each keeps its place, its ids and its kind, and loses its content. A new salt goes
//! with the new content, so that the old hash stays a hash over a salt that nobody has.

use super::plan::{AT_ONCE, ReachedGroup, ReachedMessage};
use crate::engine::words;
use crate::engine::{self, Connection, List, Parameter, Reader, Row, values};
use crate::error::{Error, Result};
use crate::ledger::blob_uses::{self, Holder};
use crate::ledger::codec::{self, EncodedPart, StoredPart};
use crate::ledger::erased_content::{self, Hash, Receipts};
use crate::ledger::messages;
use crate::ledger::received;
use crate::ledger::requester::kept_salted;
use crate::ledger::tombstones;
use crate::ledger::tx::salt;
use crate::model::Revision;
use crate::model::approval::{Answer, Question};
use crate::model::compaction::RevisionRange;
use crate::model::event::EventBody;
use crate::model::ids::{CompactionId, PartId};
use crate::model::message::{Finish, MessageKind};
use crate::model::part::{ERASED_INPUT, ERASED_TEXT, PartBody};
use crate::model::truncation::Truncation;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

const MESSAGE: &str = "select id, public_id, revision, kind, head, sealed_revision, seal, parts, parts_length, \
     client_id, session_id from message where id = ?1";
/// Bodies of parts of messages that are blobs, with the sessions of the messages.
const BLOBS: &str = "select distinct m.session_id, p.blob_hash from message m join part p on p.message_id = m.id \
     where m.id in (select value from rarray(?1)) and p.blob_hash is not null";
const CLIENT_ID: &str = "select client_id from message where public_id = ?1";
// SQLite leaves a row that becomes small on its nearly empty page. One whose key is set is deleted and inserted, and joins
// those beside it on one page.
const UPDATE_MESSAGE: &str = "update message set id = id, head = ?2, seal = ?3, parts = ?4, parts_length = ?5, \
     client_id = ?6, counting = null, counts = null where id = ?1";
const PARTS: &str = "select number, revision, client_id, kind, codec, length, salt, body, blob_hash, call_message \
     from part where message_id = ?1 order by position";
const UPDATE_PART: &str = "update part set kind = ?3, codec = ?4, length = ?5, salt = ?6, body = ?7, blob_hash = null \
     where message_id = ?1 and number = ?2";
const PRUNED: &str = "select session_id, revision, number from pruned \
     where message_id = ?1 and truncation is not null";
const UPDATE_PRUNED: &str = "update pruned set truncation = ?5 \
     where message_id = ?1 and number = ?2 and session_id = ?3 and revision = ?4";
const FORGET_COUNTS: &str = "delete from message_token_count where message_id in (select value from rarray(?1))";
const FORGET_PART_IDS: &str = "update part set client_id = null where message_id in (select value from rarray(?1))";

const PROMPT: &str = "select id, submit_revision, parts, metadata_json from prompt \
     where session_id = ?1 and public_id = ?2";
const UPDATE_PROMPT: &str = "update prompt set parts = ?2, metadata_json = null where id = ?1";
const UPDATE_PROMPT_PARTS: &str = "update prompt set parts = ?2 where id = ?1";
const APPROVALS: &str = "select id, request_revision, question, end_revision, answer from approval \
     where session_id = ?1";
const APPROVALS_IN: &str = "select id, request_revision, question, end_revision, answer from approval \
     where session_id = ?1 and request_revision between ?2 and ?3";
const UPDATE_QUESTION: &str = "update approval set question = ?2, salt = ?3 where id = ?1";
const UPDATE_ANSWER: &str = "update approval set answer = ?2, answer_salt = ?3 where id = ?1";
// A hash with a first byte more is keyed.
const PLAIN_REQUESTS_AT: &str = "select r.request_id, r.payload_hash from rarray(?2) wanted \
     join event e on e.session_id = ?1 and e.revision = wanted.value \
     join request r on r.session_id = ?1 and r.request_id = e.request_id and octet_length(r.payload_hash) = 32";
const PLAIN_REQUESTS: &str = "select request_id, payload_hash from request where session_id = ?1 \
     and octet_length(payload_hash) = 32 limit 500";
const SALT_REQUEST: &str = "update request set payload_hash = ?3 where session_id = ?1 and request_id = ?2";
const EVENT: &str = "select kind, body from event where session_id = ?1 and revision = ?2";
const UPDATE_EVENT: &str = "update event set body = ?3 where session_id = ?1 and revision = ?2";
const JOB: &str = "select id, outcome from job where session_id = ?1 and public_id = ?2";
const UPDATE_JOB: &str = "update job set outcome = ?2, digest = null where id = ?1";
const FORGET_TEXTS: &str = "update summary_request set request_text = null, reply_text = null, request_hash = ?3, \
     reply_hash = ?3 where session_id = ?1 and (job_id is null or job_id in \
     (select j.id from job j where j.session_id = ?1 and coalesce(j.base_revision, j.requested_revision) >= ?2))";

/// The statements of this file, for the test that prepares them all.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[
    MESSAGE,
    BLOBS,
    CLIENT_ID,
    UPDATE_MESSAGE,
    PARTS,
    UPDATE_PART,
    PRUNED,
    UPDATE_PRUNED,
    FORGET_COUNTS,
    FORGET_PART_IDS,
    PROMPT,
    UPDATE_PROMPT,
    UPDATE_PROMPT_PARTS,
    APPROVALS,
    APPROVALS_IN,
    UPDATE_QUESTION,
    UPDATE_ANSWER,
    PLAIN_REQUESTS_AT,
    PLAIN_REQUESTS,
    SALT_REQUEST,
    EVENT,
    UPDATE_EVENT,
    JOB,
    UPDATE_JOB,
    FORGET_TEXTS,
];

/// The number and the bytes of what goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sizes {
    /// Messages that lose content, without derived ones.
    pub messages: i64,
    /// Parts of these messages.
    pub parts: i64,
    /// Bytes of parts and attachments, before compression, also of derived messages.
    pub bytes: i64,
    /// Derived messages that lose their texts: summaries, summaries of branches, replays.
    pub summaries: i64,
    /// Other sessions that lose content.
    pub forks: i64,
    /// Large bodies and media that nothing else uses.
    pub blobs: i64,
}

impl Sizes {
    /// With those of another session.
    #[must_use]
    pub fn with_session(self, other: Self) -> Self {
        Self { forks: self.forks + other.forks, ..self + other }
    }
}

impl std::ops::Add for Sizes {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            messages: self.messages + other.messages,
            parts: self.parts + other.parts,
            bytes: self.bytes + other.bytes,
            summaries: self.summaries + other.summaries,
            forks: self.forks + other.forks,
            blobs: self.blobs + other.blobs,
        }
    }
}

/// The parts of a message that still have content, with what stands for them.
struct PartLoss {
    number: u16,
    revision: Revision,
    old: StoredPart,
    /// Its bytes before compression.
    plain: Vec<u8>,
    body: PartBody,
    blobs: BTreeSet<Vec<u8>>,
}

pub(super) struct MessageLoss {
    /// The row, as it is before, and its session.
    row: Row,
    session: i64,
    /// The media of its parts, which count with their lengths.
    media: Vec<Vec<u8>>,
    /// The id that a client gave to it; to the original, if it is an edit.
    client_id: Option<String>,
    parts: Vec<PartLoss>,
    /// Blobs that its other parts use.
    kept_blobs: BTreeSet<Vec<u8>>,
    /// All its parts as they are stored, if they are in its row.
    in_row: Option<Vec<StoredPart>>,
    /// True if it has metadata or words about its end that go as well.
    has_more: bool,
    /// Those at which its parts closed.
    revisions: BTreeSet<Revision>,
    pub(super) bytes: i64,
    /// The number of drafts that close before, with their blobs; only for a dry run, which closes none.
    drafts: i64,
    draft_blobs: BTreeSet<Vec<u8>>,
}

impl MessageLoss {
    /// True if everything that it could lose is gone.
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty() && !self.has_more && self.drafts == 0
    }

    /// Adds a draft that would be a part by then.
    pub(super) fn add_draft(&mut self, part: &EncodedPart) {
        self.drafts += 1;
        self.bytes += part.length;
        self.draft_blobs.extend(part.blobs.iter().map(|blob| blob.hash.to_vec()));
    }

    /// The blobs of its drafts that its parts do not use.
    pub(super) fn new_blobs(&self) -> BTreeSet<Vec<u8>> {
        let used =
            |hash: &Vec<u8>| self.kept_blobs.contains(hash) || self.parts.iter().any(|part| part.blobs.contains(hash));
        self.draft_blobs.iter().filter(|hash| !used(hash)).cloned().collect()
    }

    /// Opens the revisions of all parts that are rows, those without content too.
    pub(super) fn open_parts(&self, opened: &mut OpenedRevisions<'_>, key: i64) -> Result<()> {
        self.revisions.iter().try_for_each(|revision| opened.open(key, *revision))
    }

    pub(super) fn part_count(&self) -> i64 {
        i64::try_from(self.parts.len()).unwrap_or(i64::MAX).saturating_add(self.drafts)
    }

    /// The blobs that it will not use any more.
    pub(super) fn blobs(&self) -> BTreeSet<Vec<u8>> {
        let of_parts = self.parts.iter().flat_map(|part| part.blobs.iter().cloned());
        let blobs: BTreeSet<Vec<u8>> = of_parts.chain(self.draft_blobs.iter().cloned()).collect();
        blobs.difference(&self.kept_blobs).cloned().collect()
    }
}

/// Reads at once what the messages of a group lose.
pub(super) fn message_losses(reader: &mut Reader<'_>, group: &ReachedGroup<'_>) -> Result<Vec<MessageLoss>> {
    let conn = reader.conn;
    let keys: Vec<_> = group.iter().map(|(_, reached)| values![reached.row]).collect();
    if conn.reads_ahead() && group.len() > 1 {
        let rows = List::of_integers(group.iter().map(|(_, reached)| reached.row));
        let mut blobs = Vec::new();
        for row in reader.all(engine::query(BLOBS).bind(rows))? {
            blobs.push(values![row.get::<Vec<u8>>(1)?, row.get::<i64>(0)?]);
        }
        conn.read_ahead(MESSAGE, &keys)?;
        conn.read_ahead(PARTS, &keys)?;
        conn.read_ahead(messages::BLOB, &blobs)?;
    }
    let mut all: Vec<MessageLoss> =
        group.iter().map(|(_, reached)| read_loss(reader, reached)).collect::<Result<_>>()?;
    let media = all.iter().flat_map(|losing| losing.media.iter().map(|hash| (hash.clone(), losing.session)));
    let media: BTreeSet<(Vec<u8>, i64)> = media.collect();
    let mut lengths = HashMap::new();
    conn.read_ahead(
        messages::BLOB_LENGTH,
        &media.iter().map(|(hash, session)| values![hash, *session]).collect::<Vec<_>>(),
    )?;
    for (hash, session) in media {
        let length = messages::blob_length(reader, session, &hash)?;
        lengths.insert((hash, session), length);
    }
    for losing in &mut all {
        let of_media = losing.media.iter().filter_map(|hash| lengths.get(&(hash.clone(), losing.session)));
        losing.bytes += of_media.sum::<i64>();
    }
    Ok(all)
}

/// Reads at once what is read besides to take the content of a group.
pub(super) fn read_ahead(conn: &Connection, group: &ReachedGroup<'_>) -> Result<()> {
    let rows: Vec<_> = group.iter().map(|(_, reached)| values![reached.row]).collect();
    conn.read_ahead(PRUNED, &rows)?;
    let prompts = group.iter().map(|((key, _), reached)| values![*key, reached.id.0.as_bytes().as_slice()]);
    conn.read_ahead(PROMPT, &prompts.collect::<Vec<_>>())
}

pub(super) fn message_loss(reader: &mut Reader<'_>, reached: &ReachedMessage) -> Result<MessageLoss> {
    let place = (0, 0);
    let lost = message_losses(reader, &vec![(&place, reached)])?.pop();
    lost.ok_or(Error::Bug("a message is no group"))
}

fn read_loss(reader: &mut Reader<'_>, reached: &ReachedMessage) -> Result<MessageLoss> {
    let row = reader.one(engine::query(MESSAGE).bind(reached.row))?;
    let row = row.ok_or_else(|| Error::corrupt("message", "the message is gone"))?;
    let in_row = row.get::<Option<&[u8]>>(7)?.map(codec::decode_parts).transpose()?;
    let numbered = match &in_row {
        Some(parts) => messages::whole(parts.clone(), row.get(2)?),
        None => {
            let rows = reader.all(engine::query(PARTS).bind(reached.row))?;
            rows.iter().map(messages::part_row).collect::<Result<_>>()?
        }
    };
    let client_id = match reached.kind {
        MessageKind::Edit => original_client_id(reader, &row)?,
        _ => row.get(9)?,
    };
    let session = row.get(10)?;
    let mut losing = MessageLoss {
        client_id,
        parts: Vec::new(),
        kept_blobs: BTreeSet::new(),
        in_row,
        has_more: reached.parts.is_none() && has_more(&row)?,
        row,
        session,
        media: Vec::new(),
        revisions: numbered.iter().map(|part| part.revision).collect(),
        bytes: 0,
        drafts: 0,
        draft_blobs: BTreeSet::new(),
    };
    for part in numbered {
        let messages::NumberedPart { number, revision, stored: old } = part;
        let plain = messages::plain_body(reader, session, &mut old.clone())?;
        let mut blobs: BTreeSet<Vec<u8>> = old.blob_hash.iter().cloned().collect();
        blobs.extend(codec::media_blobs(&plain)?);
        if reached.parts.as_ref().is_some_and(|numbers| !numbers.contains(&number)) {
            losing.kept_blobs.extend(blobs);
            continue;
        }
        // What stands for a part does not need its media.
        let (body, metadata) = codec::decode_part(&plain, &|_| Some(Vec::new()))?;
        if body.is_erased() && metadata.is_none() && blobs.is_empty() {
            continue;
        }
        losing.bytes += old.length;
        losing.media.extend(blobs.iter().filter(|hash| Some(*hash) != old.blob_hash.as_ref()).cloned());
        losing.parts.push(PartLoss { number, revision, old, plain, body: body.erased(), blobs });
    }
    Ok(losing)
}

/// The id that a client gave to the message that an edit replaces.
fn original_client_id(reader: &mut Reader<'_>, edit: &Row) -> Result<Option<String>> {
    let original = codec::decode_message_head(edit.get(4)?)?.replaces()?;
    let original = original.ok_or_else(|| Error::corrupt("message", "an edit names no original"))?;
    let row = reader.one(engine::query(CLIENT_ID).bind(original.message.0.as_bytes().as_slice()))?;
    row.ok_or_else(|| Error::corrupt("message", "the original of an edit is gone"))?.get(0)
}

/// The bytes for which a part of a session counts: its own, and those of its media.
fn counted(reader: &mut Reader<'_>, session: i64, part: &StoredPart, blobs: &BTreeSet<Vec<u8>>) -> Result<i64> {
    let mut bytes = part.length;
    for hash in blobs.iter().filter(|hash| Some(*hash) != part.blob_hash.as_ref()) {
        bytes += messages::blob_length(reader, session, hash)?;
    }
    Ok(bytes)
}

/// True if a message's row has metadata or words about its end.
fn has_more(row: &Row) -> Result<bool> {
    let head = codec::decode_message_head(row.get(4)?)?;
    let detail = match row.get::<Option<&[u8]>>(6)? {
        Some(seal) => !codec::decode_finish(seal)?.detail.is_empty(),
        None => false,
    };
    Ok(head.metadata_json.is_some() || detail)
}

/// The revisions of a session that lose content, which are open to changes, by session.
pub(super) struct OpenedRevisions<'c> {
    conn: &'c Connection,
    pub(super) receipts: Receipts<'c>,
    /// The revision that the erasure has in each session that it reaches.
    erasures: HashMap<i64, Revision>,
    pub(super) revisions: BTreeMap<i64, BTreeSet<Revision>>,
    /// True if the index of words had some of a message.
    has_words: bool,
    /// The questions of sessions, by their keys, as they were before, and those that lost their content with a call.
    approvals: HashMap<i64, Rc<[Row]>>,
    erased_approvals: BTreeSet<i64>,
    changes: Changes,
}

/// What is to be written, many rows in a statement.
#[derive(Default)]
struct Changes {
    tombstones: Vec<(i64, Revision, Revision)>,
    receipts: Vec<Hash>,
    messages: Vec<Vec<Parameter<'static>>>,
    parts: Vec<Vec<Parameter<'static>>>,
    pruned: Vec<Vec<Parameter<'static>>>,
    prompts: Vec<Vec<Parameter<'static>>>,
    prompt_parts: Vec<Vec<Parameter<'static>>>,
    questions: Vec<Vec<Parameter<'static>>>,
    answers: Vec<Vec<Parameter<'static>>>,
    /// The rows and ids of messages that lose their counts and words.
    rows: Vec<i64>,
    ids: Vec<Vec<u8>>,
    /// The rows of messages whose parts are rows, and of those whose parts lose the ids of clients.
    with_parts: Vec<i64>,
    unnamed: Vec<i64>,
    unused: Vec<(i64, Holder, Vec<u8>)>,
}

impl<'c> OpenedRevisions<'c> {
    /// Nothing is open yet.
    pub(super) fn new(conn: &'c Connection, receipts: Receipts<'c>, erasures: HashMap<i64, Revision>) -> Self {
        Self {
            conn,
            receipts,
            erasures,
            revisions: BTreeMap::new(),
            has_words: false,
            approvals: HashMap::new(),
            erased_approvals: BTreeSet::new(),
            changes: Changes::default(),
        }
    }

    /// Writes what was changed since the last time.
    pub(super) fn write(&mut self) -> Result<()> {
        let conn = self.conn;
        let changes = std::mem::take(&mut self.changes);
        // What is open may be changed: triggers look.
        tombstones::open(conn, &changes.tombstones)?;
        erased_content::add(conn, &changes.receipts)?;
        engine::run_for_each(conn, UPDATE_MESSAGE, changes.messages)?;
        engine::run_for_each(conn, UPDATE_PART, changes.parts)?;
        engine::run_for_each(conn, UPDATE_PRUNED, changes.pruned)?;
        engine::run_for_each(conn, UPDATE_PROMPT, changes.prompts)?;
        engine::run_for_each(conn, UPDATE_PROMPT_PARTS, changes.prompt_parts)?;
        engine::run_for_each(conn, UPDATE_QUESTION, changes.questions)?;
        engine::run_for_each(conn, UPDATE_ANSWER, changes.answers)?;
        if !changes.unnamed.is_empty() {
            let unnamed = List::of_integers(changes.unnamed);
            engine::query(FORGET_PART_IDS).bind(unnamed).run(conn)?;
        }
        changes.with_parts.iter().try_for_each(|row| engine::pack::parts(conn, *row))?;
        if !changes.rows.is_empty() {
            let ids = List::of_bytes(changes.ids.iter().map(Vec::as_slice));
            engine::query(FORGET_COUNTS).bind(ids).run(conn)?;
            self.has_words |= words::forget(conn, &changes.rows)?;
        }
        blob_uses::remove(conn, &changes.unused)
    }

    /// Takes the words of messages out of the file of the index as well, with those that earlier steps removed. It rewrites
    /// all of the index, so it is done once for an erasure.
    pub(super) fn merge_words(&self, follows_steps: bool) -> Result<()> {
        if self.has_words || follows_steps { words::merge(self.conn) } else { Ok(()) }
    }

    /// The sessions that the erasure reaches.
    pub(super) fn sessions(&self) -> BTreeSet<i64> {
        self.erasures.keys().copied().collect()
    }

    pub(super) fn open(&mut self, key: i64, revision: Revision) -> Result<()> {
        let erasure = self.erasures.get(&key);
        let erasure = erasure.ok_or(Error::Bug("an erasure does not know a session that it reaches"))?;
        if self.revisions.entry(key).or_default().insert(revision) {
            self.changes.tombstones.push((key, revision, *erasure));
        }
        Ok(())
    }
}

/// Takes the content of a message. With its whole session it loses the ids that a client gave to it and to its parts, which
/// are free, since nothing can be appended any more; and questions are left to `erase_approvals`. Returns the counted bytes of its prompt and of questions.
pub(super) fn erase_message(
    opened: &mut OpenedRevisions<'_>,
    (key, revision): (i64, Revision),
    reached: &ReachedMessage,
    (losing, is_of_session): (&MessageLoss, bool),
) -> Result<i64> {
    keep_receipts(opened, reached, losing, is_of_session)?;
    opened.open(key, revision)?;
    let row = &losing.row;
    let sealed: Option<Revision> = row.get(5)?;
    let mut head = codec::decode_message_head(row.get(4)?)?;
    let mut seal: Option<Vec<u8>> = row.get(6)?;
    if reached.parts.is_none() {
        if losing.client_id.is_some() && reached.kind != MessageKind::Edit && !is_of_session {
            keep_rest(opened, reached, &head, seal.as_deref())?;
        }
        head.metadata_json = None;
        head.received = None;
        if let (Some(bytes), Some(sealed)) = (&mut seal, sealed) {
            opened.open(key, sealed)?;
            let finish = Finish { detail: String::new(), ..codec::decode_finish(bytes)? };
            *bytes = codec::encode_finish(&finish);
        }
    }
    let mut stored = losing.in_row.clone();
    for part in &losing.parts {
        opened.open(key, part.revision)?;
        let new = erased(part);
        match stored.as_mut().and_then(|parts| parts.get_mut(usize::from(part.number) - 1)) {
            Some(old) => *old = new,
            None => opened.changes.parts.push(part_values(reached.row, part.number, new)),
        }
    }
    let client_id: Option<String> = if is_of_session { None } else { row.get(9)? };
    if is_of_session {
        stored.iter_mut().flatten().for_each(|part| part.client_id = None);
    }
    if stored.is_none() {
        opened.changes.with_parts.push(reached.row);
        opened.changes.unnamed.extend(is_of_session.then_some(reached.row));
    }
    let length = stored.as_ref().map(|parts| parts.iter().map(|part| part.length).sum::<i64>());
    let changed = values![reached.row, head.encode_packed(), seal, stored.map(codec::encode_parts), length, client_id];
    opened.changes.messages.push(changed);
    let unused = losing.blobs().into_iter().map(|hash| (key, Holder::Message(reached.row), hash));
    opened.changes.unused.extend(unused);
    shown_texts(opened, reached.row, losing)?;
    opened.changes.rows.push(reached.row);
    // The words of its other parts go with those of an erased one.
    opened.changes.ids.push(reached.id.0.as_bytes().to_vec());
    let of_prompt = prompt(opened, key, reached)?;
    Ok(of_prompt + if is_of_session { 0 } else { approvals(opened, key, &calls(losing))? })
}

/// Keeps the receipts of what a client wrote under an id of its own, of edits of that, and of summaries. That of a part
/// of one message tells what is sent again from what is not; with its session a message loses its client id.
fn keep_receipts(
    opened: &mut OpenedRevisions<'_>,
    reached: &ReachedMessage,
    losing: &MessageLoss,
    is_of_session: bool,
) -> Result<()> {
    let (receipts, kept) = (&opened.receipts, &mut opened.changes.receipts);
    for part in &losing.parts {
        let digest = || erased_content::digest_of_stored(receipts.salt(), &part.plain);
        let hash = match (&losing.client_id, reached.kind) {
            (Some(client_id), MessageKind::Edit) => receipts.of_edit(client_id, &digest()?),
            (Some(client_id), _) => receipts.of_part(client_id, &digest()?),
            (None, MessageKind::Summary) => receipts.of_summary(&digest()?),
            (None, _) => continue,
        };
        kept.push(hash);
        if losing.client_id.is_some() && reached.kind != MessageKind::Edit && !is_of_session {
            kept.push(receipts.of_part_of(PartId::in_message(reached.id, part.number), &digest()?));
        }
    }
    Ok(())
}

/// Keeps the receipts of what a message has beside its parts, as it was sent: with the details of its end, or without any,
/// if it was left open.
fn keep_rest(
    opened: &mut OpenedRevisions<'_>,
    reached: &ReachedMessage,
    head: &codec::MessageHead,
    seal: Option<&[u8]>,
) -> Result<()> {
    let receipts = &opened.receipts;
    let detail = seal.map(codec::decode_finish).transpose()?.map(|finish| finish.detail).unwrap_or_default();
    let digest = |detail: &str| received::digest_of_rest(receipts.salt(), head.metadata_json.as_deref(), detail);
    let received = head.received.as_deref().and_then(|digest| digest.try_into().ok());
    for digest in [received.unwrap_or_else(|| digest(&detail)), digest("")] {
        opened.changes.receipts.push(receipts.of_rest(reached.id, &digest));
    }
    Ok(())
}

/// What stands for a part, as it is stored.
fn erased(part: &PartLoss) -> StoredPart {
    let encoded = codec::encode_part(&part.body, None, salt());
    let StoredPart { client_id, call_message, .. } = part.old.clone();
    StoredPart { client_id, call_message, ..encoded.into_stored(None, None) }
}

fn part_values(message: i64, number: u16, part: StoredPart) -> Vec<Parameter<'static>> {
    let body = part.body.map(|body| codec::with_check(body.into()));
    values![message, number, part.kind, part.codec, part.length, part.salt, body]
}

/// Texts that views show in place of parts, as prune marks have them.
fn shown_texts(opened: &mut OpenedRevisions<'_>, message: i64, losing: &MessageLoss) -> Result<()> {
    for row in engine::query(PRUNED).bind(message).all(opened.conn)? {
        let (key, revision, number): (i64, Revision, u16) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let Some(part) = losing.parts.iter().find(|part| part.number == number) else { continue };
        opened.open(key, revision)?;
        let shown = if matches!(part.body, PartBody::ToolCall(_)) { ERASED_INPUT } else { ERASED_TEXT };
        let truncation = codec::encode_truncation(&Truncation::placeholder(shown));
        opened.changes.pruned.push(values![message, number, key, revision, truncation]);
    }
    Ok(())
}

/// The prompt that a message was made of.
fn prompt(opened: &mut OpenedRevisions<'_>, key: i64, reached: &ReachedMessage) -> Result<i64> {
    let id = reached.id.0.as_bytes().as_slice();
    let Some(row) = engine::query(PROMPT).bind(key).bind(id).optional(opened.conn)? else { return Ok(0) };
    erase_prompt(opened, key, &row, reached.parts.as_ref())
}

/// Takes the content of a prompt, or of some of its parts. Returns the bytes for which that counted.
pub(super) fn erase_prompt(
    opened: &mut OpenedRevisions<'_>,
    key: i64,
    row: &Row,
    numbers: Option<&BTreeSet<u16>>,
) -> Result<i64> {
    let id: i64 = row.get(0)?;
    opened.open(key, row.get(1)?)?;
    let mut parts = codec::decode_parts(row.get(2)?)?;
    let (mut kept, mut gone, mut bytes) = (BTreeSet::new(), BTreeSet::new(), 0);
    for (number, part) in (1..).zip(&mut parts) {
        let mut reader = Reader::new(opened.conn);
        let blobs = blob_uses::of_part(&mut reader, key, part)?;
        if numbers.is_some_and(|numbers| !numbers.contains(&number)) {
            kept.extend(blobs);
            continue;
        }
        let plain = messages::plain_body(&mut reader, key, &mut part.clone())?;
        let (body, metadata) = codec::decode_part(&plain, &|_| Some(Vec::new()))?;
        if !body.is_erased() || metadata.is_some() || !blobs.is_empty() {
            bytes += counted(&mut reader, key, part, &blobs)?;
        }
        gone.extend(blobs);
        let (old, body, blobs) = (part.clone(), body.erased(), BTreeSet::new());
        let going = PartLoss { number, revision: 0, old, plain, body, blobs };
        *part = erased(&going);
    }
    let changes = &mut opened.changes;
    let prompts = if numbers.is_none() { &mut changes.prompts } else { &mut changes.prompt_parts };
    prompts.push(values![id, codec::encode_parts(parts)]);
    let unused = gone.difference(&kept).map(|hash| (key, Holder::Prompt(id), hash.clone()));
    changes.unused.extend(unused);
    Ok(bytes)
}

/// The ids of the calls among the parts that go.
fn calls(losing: &MessageLoss) -> BTreeSet<String> {
    let call = |part: &PartLoss| match &part.body {
        PartBody::ToolCall(call) => Some(call.call_id.clone()),
        _ => None,
    };
    losing.parts.iter().filter_map(call).collect()
}

/// The questions about calls, with their answers. The choices stay: they are what the log says of the answer. Returns the
/// bytes for which they counted.
fn approvals(opened: &mut OpenedRevisions<'_>, key: i64, calls: &BTreeSet<String>) -> Result<i64> {
    let mut bytes = 0;
    if calls.is_empty() {
        return Ok(bytes);
    }
    let approvals = match opened.approvals.get(&key) {
        Some(approvals) => Rc::clone(approvals),
        None => {
            let approvals: Rc<[Row]> = engine::query(APPROVALS).bind(key).all(opened.conn)?.into();
            opened.approvals.insert(key, Rc::clone(&approvals));
            approvals
        }
    };
    for row in &*approvals {
        let question = codec::decode_question(codec::without_check("approval", row.get(2)?)?)?;
        if calls.contains(&question.call_id) && opened.erased_approvals.insert(row.get(0)?) {
            bytes += erase_approval(opened, key, row, question)?;
        }
    }
    Ok(bytes)
}

/// All questions that a session asked in a range of revisions, with their choices. Returns the bytes for which they
/// counted.
pub(super) fn erase_approvals(opened: &mut OpenedRevisions<'_>, key: i64, range: RevisionRange) -> Result<i64> {
    let mut bytes = 0;
    for row in engine::query(APPROVALS_IN).bind(key).bind(range.first).bind(range.last).all(opened.conn)? {
        bytes += erase_approval(opened, key, &row, Question { text: ERASED_TEXT.to_owned(), ..Question::default() })?;
    }
    Ok(bytes)
}

/// The bytes for which a question counts; none for one that was erased before.
fn question_bytes(stored: &[u8]) -> Result<i64> {
    let plain = codec::without_check("approval", stored)?;
    let is_erased = codec::decode_question(plain)?.text == ERASED_TEXT;
    Ok(if is_erased { 0 } else { i64::try_from(plain.len()).unwrap_or(i64::MAX) })
}

/// Takes the content of a question and of its answer; the answer's choice stays if it is one of the question's. Returns
/// the bytes for which the question counted; answers count for none.
fn erase_approval(opened: &mut OpenedRevisions<'_>, key: i64, row: &Row, question: Question) -> Result<i64> {
    let id: i64 = row.get(0)?;
    let bytes = question_bytes(row.get(2)?)?;
    opened.open(key, row.get(1)?)?;
    let mut choices = question.choices.clone();
    choices.iter_mut().for_each(|choice| choice.label.clear());
    let input_json = question.input_json.as_ref().map(|_| ERASED_INPUT.to_owned());
    let question = Question { text: ERASED_TEXT.to_owned(), input_json, choices, ..question };
    let plain = codec::with_check(codec::encode_question(&question));
    opened.changes.questions.push(values![id, plain, salt().to_vec()]);
    let (Some(revision), Some(answer)) = (row.get::<Option<Revision>>(3)?, row.get::<Option<&[u8]>>(4)?) else {
        return Ok(bytes);
    };
    opened.open(key, revision)?;
    let Answer { choice, .. } = codec::decode_answer(codec::without_check("approval", answer)?)?;
    let choice = choice.filter(|choice| question.choices.iter().any(|known| known.id == *choice));
    let plain = codec::with_check(codec::encode_answer(&Answer { choice, text: String::new() }));
    opened.changes.answers.push(values![id, plain, salt().to_vec()]);
    Ok(bytes)
}

/// Keys the hashes of the requests that brought the erased content: a guess at the content could be tested against a plain
/// hash. The store recognises a repeated request by a keyed hash as well.
pub(super) fn salt_requests_of(opened: &OpenedRevisions<'_>, key: i64) -> Result<()> {
    let revisions: Vec<Revision> = opened.revisions.get(&key).into_iter().flatten().copied().collect();
    for revisions in revisions.chunks(AT_ONCE) {
        let revisions = List::of_integers(revisions.iter().copied());
        salt_all(opened, key, &engine::query(PLAIN_REQUESTS_AT).bind(key).bind(revisions).all(opened.conn)?)?;
    }
    Ok(())
}

/// The same for all requests of a session.
pub(super) fn salt_requests(opened: &OpenedRevisions<'_>, key: i64) -> Result<()> {
    loop {
        let rows = engine::query(PLAIN_REQUESTS).bind(key).all(opened.conn)?;
        if rows.is_empty() {
            return Ok(());
        }
        salt_all(opened, key, &rows)?;
    }
}

fn salt_all(opened: &OpenedRevisions<'_>, key: i64, rows: &[Row]) -> Result<()> {
    let mut salted = BTreeMap::new();
    for row in rows {
        salted.insert(row.get::<String>(0)?, kept_salted(&opened.receipts.salt().digest(row.get(1)?)));
    }
    let salted = salted.into_iter().map(|(request, salted)| values![key, request, salted]);
    engine::run_for_each(opened.conn, SALT_REQUEST, salted.collect())
}

/// Takes the texts of requests to models that can have contained a message at a revision or later ones of a session.
pub(super) fn forget_texts(conn: &Connection, key: i64, from: Revision) -> Result<()> {
    engine::query(FORGET_TEXTS).bind(key).bind(from).bind(&[0_u8; 32]).run(conn)
}

/// Takes what the events and the jobs of compactions have of what their summaries cover, by their marks.
pub(super) fn erase_compactions(opened: &mut OpenedRevisions<'_>, key: i64, marks: &[Revision]) -> Result<()> {
    let conn = opened.conn;
    conn.read_ahead(EVENT, &marks.iter().map(|mark| values![key, *mark]).collect::<Vec<_>>())?;
    let (mut events, mut ids, mut jobs) = (Vec::new(), Vec::new(), Vec::new());
    for mark in marks {
        let row = engine::query(EVENT).bind(key).bind(*mark).one(conn)?;
        let mut body = codec::decode_event(row.get(0)?, row.get(1)?)?;
        let EventBody::Compacted { compaction, outcome, .. } = &mut body else { continue };
        let CompactionId(id) = *compaction;
        ids.push(id.as_bytes().to_vec());
        if !outcome.contradictions.is_empty() {
            outcome.contradictions.clear();
            opened.open(key, *mark)?;
            events.push(values![key, *mark, codec::encode_event(&body)]);
        }
    }
    conn.read_ahead(JOB, &ids.iter().map(|id| values![key, id]).collect::<Vec<_>>())?;
    for id in &ids {
        let job = engine::query(JOB).bind(key).bind(id).optional(conn)?;
        let outcome =
            job.map(|row| Ok::<_, Error>((row.get::<i64>(0)?, row.get::<Option<Vec<u8>>>(1)?))).transpose()?;
        if let Some((job, Some(outcome))) = outcome {
            let mut outcome = codec::decode_outcome(&outcome)?;
            outcome.contradictions.clear();
            jobs.push(values![job, codec::encode_outcome(&outcome)]);
        }
    }
    opened.write()?;
    engine::run_for_each(conn, UPDATE_EVENT, events)?;
    engine::run_for_each(conn, UPDATE_JOB, jobs)
}
