//! One write transaction: rows are gathered in memory, in the order of their events, and written at its end.

use super::blob_uses::{self, Holder};
use super::calls::CallRows;
use super::chain::{self, Digest};
use super::claims::Claims;
use super::codec::{self, EncodedBlob, EncodedPart, Number as _, StoredPart};
use super::commits::{Changes, Newest, SessionCommit};
use super::counts::{self, MessageCounts};
use super::head::{self, Head, OpenMessage, Receipt, SessionKey};
use super::heads::Heads;
use super::open_messages;
use super::quotas::{ContentUse, Quotas, Uses};
pub use super::requester::{RequestKey, Requester};
use super::ring::EventRow;
use super::secrets::Secrets;
use super::unlinked::UnlinkedEvent;
use crate::clock::fresh_message_id;
use crate::engine::{Connection, Insert, values};
use crate::error::{Error, Result};
use crate::limits;
use crate::model::event::EventBody;
use crate::model::ids::{MessageId, PartId};
use crate::model::message::{Finish, GivenView, MessageKind, NewMessage, Role};
use crate::model::part::PartBody;
use crate::model::session::OriginTimes;
use crate::model::time::Timestamp;
use crate::model::view::SourceMessage;
use crate::model::{Revision, Seq};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// How far a transaction takes erasures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum EraseExtent {
    /// There is none.
    #[default]
    Nothing,
    /// Content was erased, and more of the same erasure follows.
    Continues,
    /// Content was erased, and is to leave the files.
    Ended,
}

/// The store's counters, in the writer's memory.
#[derive(Debug, Clone)]
pub(crate) struct Counters {
    pub(crate) next_seq: Seq,
    pub(crate) next_message: i64,
}

struct MessageRow {
    id: i64,
    session: i64,
    revision: Revision,
    public_id: Uuid,
    client_id: Option<String>,
    role: i32,
    kind: i32,
    class: i32,
    create_time: i64,
    head: Vec<u8>,
    /// Of a message that comes sealed.
    whole: Option<Whole>,
    counted: Option<MessageCounts>,
}

/// The columns of a message that comes sealed.
struct Whole {
    seal: Vec<u8>,
    parts: Vec<u8>,
    parts_length: i64,
}

struct PartRow {
    message: i64,
    position: i64,
    number: u16,
    revision: Revision,
    stored: StoredPart,
}

#[derive(Default)]
struct Rows {
    events: Vec<EventRow>,
    messages: Vec<MessageRow>,
    parts: Vec<PartRow>,
    /// Blobs of tenants.
    blobs: Vec<(Arc<str>, EncodedBlob)>,
    /// Uses of them by messages.
    blob_uses: Vec<(Arc<str>, Holder, [u8; 32])>,
    /// Of each request its session, its id, the hash to keep, and the answer.
    requests: Vec<(i64, String, Vec<u8>, Vec<u8>)>,
    calls: CallRows,
    /// Open messages that were written to, by their rows.
    open: HashMap<i64, open_messages::OpenMessageWrite>,
}

/// A part that is to be written.
#[derive(Clone)]
pub(crate) struct PartInput {
    pub(crate) client_id: Option<String>,
    pub(crate) encoded: EncodedPart,
    /// The message with the call that it answers, once `calls` has found it.
    pub(crate) call_message: Option<Uuid>,
}

/// A message that is to be written.
#[derive(Clone)]
pub(crate) struct MessageInput {
    pub(crate) id: MessageId,
    pub(crate) client_id: Option<String>,
    pub(crate) role: Role,
    pub(crate) kind: MessageKind,
    pub(crate) head: codec::MessageHead,
    pub(crate) finish: Option<Finish>,
    pub(crate) parts: Vec<PartInput>,
    /// The counts to keep of it, if it comes sealed.
    pub(crate) counted: Option<MessageCounts>,
    /// Milliseconds without a write after which the message is sealed, if it is left open.
    pub(crate) open_timeout_ms: i64,
}

impl MessageInput {
    /// Encodes an appended message. This runs in the caller's task, before the mutation is sent to the writer.
    pub(crate) fn from_client(message: &NewMessage<Option<GivenView>>, caller: &Requester) -> Self {
        Self {
            id: fresh_message_id(),
            client_id: message.client_id.clone(),
            role: message.role,
            kind: message.kind,
            head: codec::MessageHead {
                actor: caller.actor.clone(),
                epoch: caller.epoch,
                model: message.model.clone(),
                provider: message.provider.clone(),
                origin_time: message.origin_time.map(|time| time.0),
                metadata_json: message.metadata_json.clone(),
                ..codec::MessageHead::default()
            },
            finish: message.finish.clone(),
            parts: message.parts.iter().map(PartInput::from_client).collect(),
            counted: None,
            open_timeout_ms: message.open_timeout_ms.unwrap_or(limits::OPEN_TIMEOUT_MS_DEFAULT),
        }
    }

    /// A sealed message that Longhand makes.
    pub(crate) fn derived(role: Role, kind: MessageKind, bodies: &[PartBody]) -> Self {
        let part = |body| {
            let encoded = codec::encode_part(body, None, salt());
            PartInput { client_id: None, encoded, call_message: None }
        };
        Self {
            id: fresh_message_id(),
            client_id: None,
            role,
            kind,
            head: codec::MessageHead::default(),
            finish: Some(Finish::default()),
            parts: bodies.iter().map(part).collect(),
            counted: None,
            open_timeout_ms: limits::OPEN_TIMEOUT_MS_DEFAULT,
        }
    }
}

impl PartInput {
    /// Bytes of its content before compression.
    pub(crate) fn bytes(&self) -> usize {
        usize::try_from(self.encoded.length).unwrap_or(usize::MAX)
    }

    /// Encodes an appended part.
    pub(crate) fn from_client(part: &crate::model::part::NewPart) -> Self {
        Self {
            client_id: part.client_id.clone(),
            encoded: codec::encode_received_part(
                &part.body,
                part.metadata_json.as_deref(),
                &part.received.map_or(codec::ReceivedPart::AsStored, codec::ReceivedPart::Whole),
                salt(),
            ),
            call_message: None,
        }
    }
}

/// A salt for one body.
pub(crate) fn salt() -> [u8; 16] {
    rand::random()
}

/// The rules of the configuration that writes are held to.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub(crate) quotas: &'a Quotas,
    pub(crate) secrets: &'a Secrets,
}

/// One write transaction.
pub(crate) struct Tx<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) heads: &'a mut Heads,
    pub(crate) counters: Counters,
    /// The claims that workers hold, as they will be after the commit.
    pub(crate) claims: Claims,
    /// The holders of jobs that end here, to be notified after the commit.
    pub(crate) interrupted: Vec<CancellationToken>,
    pub(crate) now: Timestamp,
    /// True once an erasure has taken content.
    pub(crate) erased: EraseExtent,
    rows: Rows,
    written_events: Vec<EventRow>,
    /// The events of the current mutation, which have no place in the chain before it ends.
    unlinked: Vec<UnlinkedEvent>,
    dirty: BTreeSet<i64>,
    /// The changes of each session, for readers that have its earlier state.
    changes: HashMap<i64, Changes>,
    /// Messages of this transaction by client id, which reads of the database cannot see yet.
    fresh_clients: HashMap<(i64, String), Uuid>,
    fresh_requests: HashMap<(i64, String), ([u8; 32], Receipt)>,
    quotas: &'a Quotas,
    pub(crate) secrets: &'a Secrets,
    /// What this transaction takes of them.
    uses: Uses,
}

impl<'a> Tx<'a> {
    /// Starts gathering, within a transaction that the caller has begun and will commit.
    pub(crate) fn new(
        conn: &'a Connection,
        heads: &'a mut Heads,
        counters: Counters,
        claims: Claims,
        (now, rules): (Timestamp, Rules<'a>),
    ) -> Self {
        Self {
            conn,
            heads,
            counters,
            claims,
            interrupted: Vec::new(),
            now,
            erased: EraseExtent::default(),
            rows: Rows::default(),
            written_events: Vec::new(),
            unlinked: Vec::new(),
            dirty: BTreeSet::new(),
            changes: HashMap::new(),
            fresh_clients: HashMap::new(),
            fresh_requests: HashMap::new(),
            quotas: rules.quotas,
            secrets: rules.secrets,
            uses: Uses::new(),
        }
    }

    /// Refuses content of this many bytes for which the tenant's quota has no room.
    pub(crate) fn admit(&self, tenant: &str, bytes: i64) -> Result<()> {
        let used = self.uses.get(tenant).map_or(0, |used| used.bytes);
        if bytes > 0 { self.quotas.admit(tenant, used.saturating_add(bytes), self.now) } else { Ok(()) }
    }

    /// Refuses this many more sessions for which the tenant's quota has no room.
    pub(crate) fn admit_sessions(&self, tenant: &str, count: i64) -> Result<()> {
        let used = self.uses.get(tenant).map_or(0, |used| used.sessions);
        self.quotas.admit_sessions(tenant, used.saturating_add(count), self.now)
    }

    /// Refuses content of this many bytes for a session, whose head is loaded.
    pub(crate) fn admit_in(&mut self, key: i64, bytes: i64) -> Result<()> {
        let tenant = self.loaded(key)?.tenant.clone();
        self.admit(&tenant, bytes)
    }

    /// Counts content of a session.
    pub(crate) fn count(&mut self, key: i64, bytes: i64) -> Result<()> {
        self.loaded(key)?.content_bytes += bytes;
        self.use_more(key, ContentUse { bytes, ..ContentUse::default() })
    }

    /// Counts what is used for a session.
    pub(crate) fn use_more(&mut self, key: i64, more: ContentUse) -> Result<()> {
        if !self.quotas.is_empty() {
            let tenant = self.read_head(key)?.tenant.clone();
            *self.uses.entry(tenant).or_default() += more;
        }
        Ok(())
    }

    /// The head of a session, loaded if it is not in memory; it is written when the transaction ends.
    pub(crate) fn head(&mut self, key: i64) -> Result<&mut Head> {
        self.read_head(key)?;
        self.dirty.insert(key);
        self.loaded(key)
    }

    /// The head of a session, for callers that may change nothing in it.
    pub(crate) fn read_head(&mut self, key: i64) -> Result<&Head> {
        if self.heads.get(key).is_none() {
            let head = Head::load(self.conn, key)?;
            self.heads.insert(key, head);
        }
        self.loaded(key).map(|head| &*head)
    }

    /// The head of a session that this transaction has loaded.
    pub(crate) fn loaded(&mut self, key: i64) -> Result<&mut Head> {
        self.heads.get_mut(key).ok_or(Error::Bug("the head of a session was not loaded"))
    }

    /// The message of this transaction with this client id.
    pub(crate) fn fresh_client(&self, key: i64, client_id: &str) -> Option<Uuid> {
        self.fresh_clients.get(&(key, client_id.to_owned())).copied()
    }

    /// The answer to an earlier request of this transaction with the same id.
    pub(crate) fn fresh_request(&self, key: i64, request: &RequestKey) -> Option<Result<Receipt>> {
        let (hash, receipt) = self.fresh_requests.get(&(key, request.id.clone()))?;
        Some(if *hash == request.payload_hash {
            Ok(receipt.clone())
        } else {
            Err(Error::RequestIdReused { request_id: request.id.clone() })
        })
    }

    /// Adds an event, and with it a revision. Its hash is computed at the end of the mutation.
    pub(crate) fn event(
        &mut self,
        key: i64,
        caller: &Requester,
        body: &EventBody,
        digest: &Digest,
    ) -> Result<Revision> {
        let now = self.now;
        let seq = self.counters.next_seq;
        // An event changes the head, even where it was loaded to be read.
        self.dirty.insert(key);
        let head = self.loaded(key)?;
        head.revision += 1;
        head.update_time = now;
        if body.changes_history() {
            head.history_revision = head.revision;
        }
        if let EventBody::UsageRecorded { usage, .. } = body {
            head.usage.add(usage);
        }
        let (session_id, revision) = (head.id, head.revision);
        self.counters.next_seq += 1;
        self.changes.entry(key).or_insert_with(|| Changes::from(revision)).note(body);
        self.unlinked.push(UnlinkedEvent {
            seq,
            session: key,
            session_id,
            revision,
            kind: body.kind(),
            time: now,
            actor: caller.actor.clone(),
            request_id: caller.request.as_ref().map(|request| request.id.clone()).unwrap_or_default(),
            body: codec::encode_event(body),
            digest: digest.finish(),
        });
        Ok(revision)
    }

    /// The revision that the next event of a session will have.
    pub(crate) fn next_revision(&mut self, key: i64) -> Result<Revision> {
        Ok(self.loaded(key)?.revision + 1)
    }

    /// Adds a message with its event, at the session's next revision.
    pub(crate) fn message(&mut self, key: i64, caller: &Requester, input: MessageInput) -> Result<(Uuid, Revision)> {
        let MessageInput { id, client_id, role, kind, head: head_columns, finish, parts, counted, open_timeout_ms } =
            input;
        let public_id = id.0;
        let revision = self.next_revision(key)?;
        let row = self.counters.next_message;
        self.counters.next_message += 1;
        let (writer, epoch) = (head_columns.actor.clone(), head_columns.epoch);
        let origin_time = head_columns.origin_time;
        let head_bytes = head_columns.encode_packed();
        let seal = finish.as_ref().map(codec::encode_finish);
        let mut digest = Digest::default();
        chain::message(
            &mut digest,
            &chain::MessageColumns {
                public_id: public_id.as_bytes(),
                client_id: client_id.as_deref(),
                role: role.number(),
                kind: kind.number(),
                class: codec::message_class(kind),
                create_time: self.now.0,
                head: &head_bytes,
                seal: seal.as_deref(),
            },
        );
        let part_count = u16::try_from(parts.len()).unwrap_or(u16::MAX);
        let bytes = parts.iter().map(|part| part.encoded.bytes()).sum();
        let mut stored = Vec::with_capacity(parts.len());
        let tenant = self.loaded(key)?.tenant.clone();
        for (position, part) in (0..).zip(parts) {
            let number = position + 1;
            self.use_blobs(&tenant, Holder::Message(row), &part);
            let part = self.part(&tenant, &mut digest, PartId::in_message(id, number), position.into(), part);
            if seal.is_some() {
                stored.push(part);
            } else {
                let position = position.into();
                self.rows.parts.push(PartRow { message: row, position, number, revision, stored: part });
            }
        }
        let whole = seal.map(|seal| Whole {
            seal,
            parts_length: stored.iter().map(|part| part.length).sum(),
            parts: codec::encode_parts(stored),
        });
        let body = EventBody::MessageAppended {
            message: id,
            client_id: client_id.clone(),
            role,
            kind,
            part_count: part_count.into(),
            sealed: whole.is_some(),
        };
        self.event(key, caller, &body, &digest)?;
        self.count(key, bytes)?;
        if let Some(client_id) = &client_id {
            self.fresh_clients.insert((key, client_id.clone()), public_id);
        }
        let create_time = self.now.0;
        let head = self.loaded(key)?;
        if whole.is_none() {
            let (timeout_ms, next_position) = (open_timeout_ms, part_count.into());
            let next_number = part_count + 1;
            let open = OpenMessage { row, revision, writer, epoch, next_position, next_number, bytes, timeout_ms };
            head.open.insert(public_id, open);
            self.restart_open_timeout(key, public_id);
        }
        let head = self.loaded(key)?;
        if matches!(kind, MessageKind::Normal) {
            head.message_count += 1;
            // In a session with origin times, a message that is written here extends them.
            let written = origin_time.or(head.origin.is_some().then_some(create_time));
            head.origin = written.map(|time| OriginTimes::extended(head.origin, Timestamp(time))).or(head.origin);
        }
        self.rows.messages.push(MessageRow {
            id: row,
            session: key,
            revision,
            public_id,
            client_id,
            role: role.number(),
            kind: kind.number(),
            class: codec::message_class(kind),
            create_time,
            head: head_bytes,
            whole,
            counted,
        });
        Ok((public_id, revision))
    }

    /// Adds a part of an open message of a tenant, given by its row, at a position and a revision; the caller adds its
    /// event.
    pub(crate) fn part_row(
        &mut self,
        tenant: &Arc<str>,
        digest: &mut Digest,
        id: PartId,
        (message, position, revision): (i64, i64, Revision),
        part: PartInput,
    ) {
        self.use_blobs(tenant, Holder::Message(message), &part);
        let stored = self.part(tenant, digest, id, position, part);
        self.rows.parts.push(PartRow { message, position, number: id.number(), revision, stored });
    }

    /// Adds the parts of what comes whole to a digest, and their blobs to the rows of a tenant; returns their stored form.
    pub(crate) fn whole_parts(
        &mut self,
        tenant: &Arc<str>,
        digest: &mut Digest,
        id: MessageId,
        parts: Vec<PartInput>,
    ) -> Vec<StoredPart> {
        let part =
            |(number, part)| self.part(tenant, digest, PartId::in_message(id, number), i64::from(number) - 1, part);
        (1..).zip(parts).map(part).collect()
    }

    /// Records that a row uses the blobs of a part.
    fn use_blobs(&mut self, tenant: &Arc<str>, holder: Holder, part: &PartInput) {
        self.rows.blob_uses.extend(part.encoded.blobs.iter().map(|blob| (tenant.clone(), holder, blob.hash)));
    }

    /// Writes the blobs so far, so that reads on this connection see them.
    pub(crate) fn write_blobs(&mut self) -> Result<()> {
        insert_blobs(self.conn, &std::mem::take(&mut self.rows.blobs))
    }

    /// Adds a part to a digest, and its blobs to the rows of a tenant; returns its stored form.
    fn part(
        &mut self,
        tenant: &Arc<str>,
        digest: &mut Digest,
        id: PartId,
        position: i64,
        mut part: PartInput,
    ) -> StoredPart {
        chain::part(
            digest,
            &chain::PartColumns {
                public_id: id.0.as_bytes(),
                client_id: part.client_id.as_deref(),
                position,
                kind: part.encoded.kind,
                commitment: &part.encoded.commitment,
                call_message: part.call_message.as_ref().map(Uuid::as_bytes).map(<[u8; 16]>::as_slice),
            },
        );
        self.rows.blobs.extend(part.encoded.blobs.drain(..).map(|blob| (tenant.clone(), blob)));
        part.encoded.into_stored(part.client_id, part.call_message)
    }

    /// The calls of this transaction that are not written yet.
    pub(crate) fn calls(&mut self) -> &mut CallRows {
        &mut self.rows.calls
    }

    /// Writes the calls so far. All other rows wait for the end of the mutation.
    pub(crate) fn write_calls(&mut self) -> Result<()> {
        std::mem::take(&mut self.rows.calls).write(self.conn)
    }

    /// Restarts the timeout of an open message after a write to it.
    pub(crate) fn restart_open_timeout(&mut self, key: i64, message: Uuid) {
        let now = self.now;
        let Some(open) = self.heads.get_mut(key).and_then(|head| head.open.get(&message)) else { return };
        let (row, timeout_ms) = (open.row, open.timeout_ms);
        let written =
            open_messages::OpenMessageWrite { session: key, timeout_ms, expire_time: now.plus_millis(timeout_ms) };
        self.rows.open.insert(row, written);
    }

    /// Hands a new message to observers of the commit. Its event must have been added.
    pub(crate) fn publish_message(&mut self, key: i64, message: SourceMessage) {
        if let Some(changes) = self.changes.get_mut(&key) {
            changes.message(message);
        }
    }

    /// Ends a mutation: marks its last event, links its events into the chain and keeps the answer to its request.
    pub(crate) fn end_mutation(&mut self, key: i64, caller: &Requester, mut receipt: Receipt) -> Result<Receipt> {
        if self.unlinked.iter().any(|event| event.session != key) {
            return Err(Error::Bug("a mutation has an event of another session"));
        }
        let head = self.heads.get_mut(key).ok_or(Error::Bug("the head of a session was not loaded"))?;
        let last = self.unlinked.last().map_or(self.counters.next_seq - 1, |event| event.seq);
        for event in self.unlinked.drain(..) {
            let ends_mutation = event.seq == last;
            let row = event.link(&head.chain_hash, ends_mutation);
            head.chain_hash = row.hash;
            self.rows.events.push(row);
        }
        receipt.revision = head.revision;
        receipt.seq = last;
        if let Some(request) = &caller.request {
            self.fresh_requests.insert((key, request.id.clone()), (request.payload_hash, receipt.clone()));
            let kept = caller.kept_hash(receipt.existed_count > 0).unwrap_or_default();
            self.rows.requests.push((key, request.id.clone(), kept, codec::encode(&receipt.to_disk())));
        }
        Ok(receipt)
    }

    /// Refuses events that no end of a mutation has linked: those of a mutation that was refused behind them would join the
    /// chain of the next one.
    pub(crate) fn check_ended(&self) -> Result<()> {
        if self.unlinked.is_empty() { Ok(()) } else { Err(Error::Bug("a mutation has not ended")) }
    }

    /// Writes the rows so far, so that reads on this connection see them; of the events those of mutations that have
    /// ended.
    pub(crate) fn flush(&mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.rows);
        insert_blobs(self.conn, &rows.blobs)?;
        let uses = rows.blob_uses.iter().map(|(tenant, holder, hash)| (&**tenant, *holder, hash.as_slice()));
        blob_uses::add(self.conn, uses)?;
        insert_messages(self.conn, &rows.messages)?;
        insert_parts(self.conn, rows.parts)?;
        insert_events(self.conn, &rows.events)?;
        self.written_events.extend(rows.events);
        insert_requests(self.conn, &rows.requests)?;
        rows.calls.write(self.conn)?;
        open_messages::write(self.conn, rows.open)
    }

    /// Writes the rows so far, and the heads of the sessions that changed: a session's row names its newest revision, and
    /// reads by it leave out whatever the same transaction wrote behind it.
    pub(crate) fn flush_with_heads(&mut self) -> Result<()> {
        self.flush()?;
        self.save_heads()
    }

    fn save_heads(&mut self) -> Result<()> {
        for key in &self.dirty {
            if let Some(head) = self.heads.get_mut(*key) {
                head.settle(self.conn, self.now)?;
            }
        }
        head::save(self.conn, self.dirty.iter().filter_map(|key| self.heads.get(*key)))
    }

    /// Notes events whose rows the caller has written, numbered from the counter on, behind all rows so far.
    pub(crate) fn wrote_events(&mut self, events: Vec<EventRow>) {
        for event in &events {
            self.changes.entry(event.session).or_insert_with(|| Changes::from(event.revision)).note_rows();
        }
        self.counters.next_seq = events.last().map_or(self.counters.next_seq, |last| last.seq + 1);
        self.written_events.extend(events);
    }

    /// Writes all remaining rows, including heads. Returns the new state for the writer's memory.
    pub(crate) fn finish(mut self) -> Result<FinishedTx> {
        self.flush_with_heads()?;
        let mut commits = Vec::with_capacity(self.dirty.len());
        for key in &self.dirty {
            if let Some(head) = self.heads.get_mut(*key) {
                let change = self.changes.remove(key).map(Changes::together);
                commits.push(SessionCommit { session: SessionKey(*key), newest: Newest::of(head), change });
            }
        }
        Ok(FinishedTx {
            counters: self.counters,
            claims: self.claims,
            interrupted: self.interrupted,
            commits,
            events: self.written_events,
            uses: self.uses,
            erased: self.erased,
        })
    }
}

/// The new state for the writer's memory, valid once the transaction is committed.
pub(crate) struct FinishedTx {
    pub(crate) counters: Counters,
    pub(crate) claims: Claims,
    pub(crate) interrupted: Vec<CancellationToken>,
    /// What it did to each session with a new state.
    pub(crate) commits: Vec<SessionCommit>,
    /// The new events, in order.
    pub(crate) events: Vec<EventRow>,
    /// What it took of quotas.
    pub(crate) uses: Uses,
    /// How far it takes an erasure.
    pub(crate) erased: EraseExtent,
}

static BLOBS: Insert =
    Insert::new("blob (tenant, hash, codec, length, data)", 5, "on conflict (tenant, hash) do nothing");
static MESSAGES: Insert = Insert::new(
    "message (id, session_id, revision, public_id, client_id, role, kind, class, create_time, head, sealed_revision, \
     seal, parts, parts_length, counting, counts)",
    16,
    "",
);
static PARTS: Insert = Insert::new(
    "part (message_id, position, number, revision, client_id, kind, codec, length, salt, body, blob_hash, call_message)",
    12,
    "",
);
static EVENTS: Insert = Insert::new(
    "event (seq, session_id, revision, kind, ends_mutation, time, actor, request_id, body, digest, hash)",
    11,
    "",
);
static REQUESTS: Insert = Insert::new("request (session_id, request_id, payload_hash, receipt)", 4, "");

/// The inserts of this file, for the test that prepares them all.
#[cfg(test)]
pub(crate) static INSERTS: [&Insert; 5] = [&BLOBS, &MESSAGES, &PARTS, &EVENTS, &REQUESTS];

fn insert_blobs(conn: &Connection, blobs: &[(Arc<str>, EncodedBlob)]) -> Result<()> {
    let rows = blobs.iter().map(|(tenant, blob)| values![&**tenant, &blob.hash, blob.codec, blob.length, &blob.data]);
    BLOBS.rows(conn, rows)
}

fn insert_messages(conn: &Connection, rows: &[MessageRow]) -> Result<()> {
    let values = rows.iter().map(|row| {
        let whole = row.whole.as_ref();
        let (counting, counts) = row.counted.as_ref().map(counts::columns).unzip();
        values![
            row.id,
            row.session,
            row.revision,
            row.public_id.as_bytes(),
            row.client_id.as_deref(),
            row.role,
            row.kind,
            row.class,
            row.create_time,
            &row.head,
            whole.map(|_| row.revision),
            whole.map(|whole| &whole.seal),
            whole.map(|whole| &whole.parts),
            whole.map(|whole| whole.parts_length),
            counting,
            counts,
        ]
    });
    MESSAGES.rows(conn, values)
}

fn insert_parts(conn: &Connection, rows: Vec<PartRow>) -> Result<()> {
    let values = rows.into_iter().map(|row| {
        values![
            row.message,
            row.position,
            row.number,
            row.revision,
            row.stored.client_id,
            row.stored.kind,
            row.stored.codec,
            row.stored.length,
            row.stored.salt,
            row.stored.body.map(|body| codec::with_check(body.into())),
            row.stored.blob_hash,
            row.stored.call_message,
        ]
    });
    PARTS.rows(conn, values)
}

fn insert_events(conn: &Connection, rows: &[EventRow]) -> Result<()> {
    let values = rows.iter().map(|row| {
        values![
            row.seq,
            row.session,
            row.revision,
            row.kind as i32,
            row.ends_mutation,
            row.time.0,
            &row.actor,
            &row.request_id,
            &row.body,
            &row.digest,
            &row.hash,
        ]
    });
    EVENTS.rows(conn, values)
}

fn insert_requests(conn: &Connection, rows: &[(i64, String, Vec<u8>, Vec<u8>)]) -> Result<()> {
    let values = rows.iter().map(|(session, id, hash, receipt)| values![*session, id, hash, receipt]);
    REQUESTS.rows(conn, values)
}
