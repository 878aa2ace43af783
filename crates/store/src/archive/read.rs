//! Reading an archive into a store: in one transaction, checked against the chains before it is committed.

use super::derived;
use super::lines::{Archive, ArchivedHead};
use super::tables::{Column, RowSharing, TABLES, Table};
use crate::engine::{self, Cell, Reader};
use crate::error::{Error, Kind, Result};
use crate::integrity::verify::SessionCheck;
use crate::ledger::codec::{self, DiskReceipt, Number as _};
use crate::ledger::head::SessionKey;
use crate::ledger::quotas::ContentUse;
use crate::ledger::ring::EventRow;
use crate::ledger::tx::Tx;
use crate::ledger::{ancestry, approvals, blob_uses, events, labels, open_messages};
use crate::limits;
use crate::model::Revision;
use crate::model::event::EventKind;
use crate::model::ids::SessionId;
use crate::model::session::SessionState;
use crate::model::time::Timestamp;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

const TENANT: &str = "select tenant from session where id = ?1";
const BY_CLIENT: &str = "select count(*) from session where tenant = ?1 and client_id = ?2";
const MESSAGE: &str = "select id, session_id from message where public_id = ?1";
const STATE: &str = "select state from session where id = ?1";
const IMPORT: &str = "insert into import (session_id, store_id, tenant, revision, time) values (?1, ?2, ?3, ?4, ?5)";
const IMPORT_EVENT: &str = "insert into import_event (session_id, revision, seq) values (?1, ?2, ?3)";
const OPEN: &str = "insert into open_message (message_id, session_id, timeout_ms, expire_time) \
     select m.id, m.session_id, ?2, null from message m where m.session_id = ?1 and m.sealed_revision is null \
     on conflict (message_id) do nothing";
const LEASES: &str =
    "update run set lease_until = ?2 + lease_ms * 1000 where session_id = ?1 and lease_until is not null";
const PARTS: &str = "select cast(coalesce((select sum(parts_length) from message where session_id = ?1), 0) \
     + coalesce((select sum(p.length) from message m join part p on p.message_id = m.id where m.session_id = ?1), 0) \
     as bigint)";
const CONTENT: &str = "update session set content_bytes = ?2 where id = ?1 and content_bytes < ?2";
const NEWEST_PROMPT: &str = "select coalesce(max(id), 0) from prompt";
const UNUSED: &str = "delete from blob where tenant = ?1 and hash = ?2 \
     and not exists (select 1 from blob_use u where u.tenant = ?1 and u.hash = ?2) \
     and not exists (select 1 from blob_use_missing where id = 1)";
const CONTENT_BYTES: &str = "select content_bytes from session where id = ?1";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[
    TENANT,
    BY_CLIENT,
    MESSAGE,
    STATE,
    IMPORT,
    IMPORT_EVENT,
    OPEN,
    LEASES,
    PARTS,
    CONTENT,
    NEWEST_PROMPT,
    UNUSED,
    CONTENT_BYTES,
];

/// What an import did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveImport {
    /// The session that the archive is of.
    pub session: SessionKey,
    /// The sessions that were written; the others were there.
    pub written: Vec<SessionId>,
}

fn invalid(message: impl std::fmt::Display) -> Error {
    Error::ArchiveInvalid(message.to_string())
}

/// The rows of a table of the archive.
fn rows_of<'a>(archive: &'a Archive, name: &str) -> Result<(&'static Table, &'a [Vec<Cell>])> {
    let index = Table::index(name).ok_or(Error::Bug("a table is not in the list"))?;
    Ok((&TABLES[index], &archive.rows[index]))
}

fn cell<'a>(table: &Table, row: &'a [Cell], name: &str) -> &'a Cell {
    table.column(name).and_then(|index| row.get(index)).unwrap_or(&Cell::Null)
}

fn integer(table: &Table, row: &[Cell], name: &str) -> Result<i64> {
    match cell(table, row, name) {
        Cell::Integer(value) => Ok(*value),
        _ => Err(invalid(format_args!("{}.{name} is no number", table.name))),
    }
}

fn text<'a>(table: &Table, row: &'a [Cell], name: &str) -> Result<&'a str> {
    match cell(table, row, name) {
        Cell::Text(value) => Ok(value),
        _ => Err(invalid(format_args!("{}.{name} is no text", table.name))),
    }
}

fn bytes<'a>(table: &Table, row: &'a [Cell], name: &str) -> Result<&'a [u8]> {
    match cell(table, row, name) {
        Cell::Bytes(value) => Ok(value),
        _ => Err(invalid(format_args!("{}.{name} is no bytes", table.name))),
    }
}

/// Checks a row that others refer to by its hash. It would be theirs too if they came later.
fn check_shared(table: &Table, row: &[Cell]) -> Result<()> {
    let hash = bytes(table, row, "hash")?;
    let is_same = match table.name {
        "blob" => {
            let codec = i32::try_from(integer(table, row, "codec")?).map_err(invalid)?;
            let plain = codec::decompress("blob", codec, integer(table, row, "length")?, bytes(table, row, "data")?)?;
            blake3::hash(&plain).as_bytes() == hash
        }
        _ => {
            let json = text(table, row, "json")?;
            let policy: serde_json::Value = serde_json::from_str(json).map_err(invalid)?;
            blake3::hash(json.as_bytes()).as_bytes() == hash && policy["preset"] == text(table, row, "preset")?
        }
    };
    if is_same { Ok(()) } else { Err(invalid(format_args!("a row of {} is not what its hash says", table.name))) }
}

/// A session of an archive in this store.
struct PlacedSession {
    key: i64,
    is_new: bool,
}

/// The keys and numbers of an archive in this store.
#[derive(Default)]
struct Places {
    sessions: HashMap<i64, PlacedSession>,
    /// New messages.
    messages: HashMap<i64, i64>,
    /// Messages of sessions that were there, by their public ids.
    others: HashMap<i64, Vec<u8>>,
    seqs: HashMap<i64, i64>,
    /// The new numbers of events, by the key of the session here and the revision.
    numbers: HashMap<(i64, Revision), i64>,
}

impl Places {
    fn session(&self, key: i64) -> Result<&PlacedSession> {
        self.sessions.get(&key).ok_or_else(|| invalid("a row names a session that the archive does not have"))
    }

    /// True for the rows of a session or a message that is new.
    fn is_new(&self, table: &Table, row: &[Cell]) -> Result<bool> {
        if table.shared != RowSharing::No {
            return Ok(true);
        }
        match table.column("session_id") {
            Some(_) => Ok(self.session(integer(table, row, "session_id")?)?.is_new),
            None => Ok(self.messages.contains_key(&integer(table, row, "message_id")?)),
        }
    }
}

/// An archive on its way into a tenant.
pub(super) struct Import<'a, 't> {
    pub(super) archive: &'a Archive,
    pub(super) tenant: &'a Arc<str>,
    pub(super) tx: &'a mut Tx<'t>,
}

impl Import<'_, '_> {
    /// Writes the sessions that are not there, and checks them. Nothing of a refused archive remains.
    pub(super) fn apply(mut self) -> Result<ArchiveImport> {
        self.tx.flush()?;
        self.tx.conn.execute_batch("savepoint archive")?;
        let written = self.write().map_err(|error| match error {
            // The values of the archive are what the database refuses, or what cannot be read.
            Error::Database(message) => invalid(message),
            error @ (Error::Corrupt { .. } | Error::NotFound { .. }) => invalid(error),
            error => error,
        });
        if written.is_err() {
            self.tx.conn.execute_batch("rollback to archive")?;
        }
        self.tx.conn.execute_batch("release archive")?;
        let WrittenArchive { imported, places, events, next_message } = written?;
        self.tx.counters.next_message = next_message;
        self.tx.wrote_events(events);
        for placed in places.sessions.values().filter(|placed| placed.is_new) {
            let head = self.tx.head(placed.key)?;
            head.mark_due();
            let (sessions, bytes) = (i64::from(head.state != SessionState::Erased), head.content_bytes);
            self.tx.use_more(placed.key, ContentUse { sessions, bytes, ..ContentUse::default() })?;
        }
        Ok(imported)
    }

    fn write(&mut self) -> Result<WrittenArchive> {
        let mut places = Places::default();
        let written = self.sessions(&mut places)?;
        let next_message = self.number(&mut places)?;
        let newest_prompt: i64 = engine::scalar(NEWEST_PROMPT).one(self.tx.conn)?;
        let mut rows = Vec::new();
        for (table, of_table) in TABLES.iter().zip(&self.archive.rows).skip(1) {
            let insert = table.insert();
            for row in of_table {
                if table.shared != RowSharing::No {
                    check_shared(table, row)?;
                }
                if places.is_new(table, row)? {
                    let values = self.values(&places, table, row)?;
                    let query = values.iter().fold(engine::query(&insert), engine::Query::bind);
                    query.run(self.tx.conn)?;
                    if table.name == "event" {
                        rows.push(self.event(&places, table, row)?);
                    }
                }
            }
        }
        for placed in places.sessions.values().filter(|placed| placed.is_new) {
            self.begin_anew(placed.key)?;
            labels::follow(self.tx.conn, placed.key, self.tenant)?;
        }
        blob_uses::of_rows_behind(self.tx.conn, self.tx.counters.next_message - 1, newest_prompt)?;
        self.drop_unused_blobs()?;
        self.count_content(&places)?;
        self.check(&places)?;
        rows.sort_unstable_by_key(|row| row.seq);
        let subject = self.archive.header.session_id.parse().map_err(|_| invalid("its session id is none"))?;
        let session = SessionKey(ancestry::by_id(&mut Reader::new(self.tx.conn), subject)?.key);
        Ok(WrittenArchive { imported: ArchiveImport { session, written }, places, events: rows, next_message })
    }

    /// Deletes the blobs of the archive that nothing uses: what uses them there may be erased here.
    fn drop_unused_blobs(&self) -> Result<()> {
        let (table, rows) = rows_of(self.archive, "blob")?;
        for row in rows {
            engine::query(UNUSED).bind(&**self.tenant).bind(bytes(table, row, "hash")?).run(self.tx.conn)?;
        }
        Ok(())
    }

    /// Finds the sessions that are there, and inserts the others.
    fn sessions(&mut self, places: &mut Places) -> Result<Vec<SessionId>> {
        let (table, rows) = rows_of(self.archive, "session")?;
        if rows.len() != self.archive.header.sessions.len() {
            return Err(invalid("its header does not name its sessions"));
        }
        let mut written = Vec::new();
        let (mut total, mut count) = (0_i64, 0);
        for (head, row) in self.archive.header.sessions.iter().zip(rows) {
            let id = SessionId(codec::uuid(bytes(table, row, "public_id")?)?);
            let hash = blake3::Hash::from_slice(bytes(table, row, "chain_hash")?).map_err(invalid)?;
            let is_head = head.session_id == id.to_string()
                && head.revision == integer(table, row, "revision")?
                && head.hash == hash.to_hex().as_str();
            if !is_head {
                return Err(invalid("its header does not name its sessions"));
            }
            let old = integer(table, row, "id")?;
            let placed = match self.existing(id, head)? {
                Some(key) => PlacedSession { key, is_new: false },
                None => {
                    total = total.saturating_add(integer(table, row, "content_bytes")?.max(0));
                    self.tx.admit(self.tenant, total)?;
                    if integer(table, row, "state")? != i64::from(SessionState::Erased.number()) {
                        count += 1;
                        self.tx.admit_sessions(self.tenant, count)?;
                    }
                    written.push(id);
                    PlacedSession { key: self.session(places, table, row)?, is_new: true }
                }
            };
            if places.sessions.insert(old, placed).is_some() {
                return Err(invalid("two of its sessions have the same key"));
            }
        }
        Ok(written)
    }

    /// The key of a session that is there in the state of the archive or a later one.
    fn existing(&self, id: SessionId, head: &ArchivedHead) -> Result<Option<i64>> {
        let mut reader = Reader::new(self.tx.conn);
        let ancestry = match ancestry::by_id(&mut reader, id) {
            Err(Error::NotFound { kind: Kind::Session, .. }) => return Ok(None),
            found => found?,
        };
        let tenant: String = engine::scalar(TENANT).bind(ancestry.key).one(self.tx.conn)?;
        let hash = events::hash_at(&mut reader, &ancestry, head.revision)?;
        let hash = hash.map(|hash| blake3::Hash::from_slice(&hash).map(|hash| hash.to_hex().to_string()));
        if tenant != **self.tenant || hash.and_then(std::result::Result::ok) != Some(head.hash.clone()) {
            return Err(Error::ArchiveConflict { session: id.to_string() });
        }
        Ok(Some(ancestry.key))
    }

    /// Inserts a session. Those that it hangs on are there: each session of an archive comes behind them.
    fn session(&mut self, places: &Places, table: &Table, row: &[Cell]) -> Result<i64> {
        if let Cell::Text(client_id) = cell(table, row, "client_id") {
            let count: i64 =
                engine::scalar(BY_CLIENT).bind(self.tenant.to_string()).bind(client_id).one(self.tx.conn)?;
            if count > 0 {
                return Err(Error::ClientIdReused { client_id: client_id.clone() });
            }
        }
        let period = integer(table, row, "update_time")?.div_euclid(limits::UPDATE_PERIOD_MICROS);
        let mut names = vec!["tenant".to_owned(), "update_period".to_owned()];
        let mut values = vec![Cell::Text(self.tenant.to_string()), Cell::Integer(period)];
        for (index, name, column) in table.inserted().filter(|(_, name, _)| *name != "id") {
            names.push(format!("\"{name}\""));
            values.push(match (&row[index], column) {
                (Cell::Integer(old), Column::Session) => Cell::Integer(places.session(*old)?.key),
                (value, _) => value.clone(),
            });
        }
        let insert = {
            let parameters: Vec<String> = (1..=names.len()).map(|number| format!("?{number}")).collect();
            let (names, parameters) = (names.join(", "), parameters.join(", "));
            format!(
                "insert into session ({names}, wake_on_reply, wake_on_request, failures, hold_turns, hold_breaker) \
                 values ({parameters}, 0, 0, 0, 0, 0) returning id"
            )
        };
        let key: i64 = values.iter().fold(engine::query(&insert), engine::Query::bind).one(self.tx.conn)?.get(0)?;
        let store = uuid::Uuid::parse_str(&self.archive.header.store_id).map_err(invalid)?;
        engine::query(IMPORT)
            .bind(key)
            .bind(store.as_bytes())
            .bind(text(table, row, "tenant")?)
            .bind(integer(table, row, "revision")?)
            .bind(self.tx.now.0)
            .run(self.tx.conn)?;
        Ok(key)
    }

    /// Gives the new messages and events their numbers here, in the order that they had. Returns the next message's.
    fn number(&self, places: &mut Places) -> Result<i64> {
        let (table, rows) = rows_of(self.archive, "message")?;
        let mut old = Vec::new();
        for row in rows {
            let id = integer(table, row, "id")?;
            if places.session(integer(table, row, "session_id")?)?.is_new {
                old.push(id);
            } else {
                places.others.insert(id, bytes(table, row, "public_id")?.to_vec());
            }
        }
        old.sort_unstable();
        let first = self.tx.counters.next_message;
        places.messages = old.iter().copied().zip(first..).collect();
        if places.messages.len() != old.len() {
            return Err(invalid("two of its messages have the same key"));
        }
        let next = first + i64::try_from(old.len()).unwrap_or(i64::MAX);
        let (table, rows) = rows_of(self.archive, "event")?;
        let mut events = BTreeMap::new();
        for row in rows {
            let placed = places.session(integer(table, row, "session_id")?)?;
            let at = (placed.key, integer(table, row, "revision")?);
            if placed.is_new && events.insert(integer(table, row, "seq")?, at).is_some() {
                return Err(invalid("two of its events have the same number"));
            }
        }
        let mut newest: HashMap<i64, Revision> = HashMap::new();
        for ((old, (key, revision)), seq) in events.into_iter().zip(self.tx.counters.next_seq..) {
            if newest.insert(key, revision).is_some_and(|before| before >= revision) {
                return Err(invalid("its events are not in the order of their revisions"));
            }
            places.seqs.insert(old, seq);
            places.numbers.insert((key, revision), seq);
        }
        Ok(next)
    }

    fn values(&self, places: &Places, table: &Table, row: &[Cell]) -> Result<Vec<Cell>> {
        let of = |(index, _, column): (usize, &str, &Column)| match (column, &row[index]) {
            (Column::Session, Cell::Integer(old)) => Ok(Cell::Integer(places.session(*old)?.key)),
            (Column::Message, Cell::Integer(old)) => self.message(places, *old).map(Cell::Integer),
            (Column::Seq, Cell::Integer(old)) => {
                places.seqs.get(old).copied().map(Cell::Integer).ok_or_else(|| invalid("an event has no number"))
            }
            (Column::Receipt, Cell::Bytes(receipt)) => self.receipt(places, table, row, receipt),
            (Column::Session | Column::Message | Column::Seq | Column::Receipt, Cell::Null) => Ok(Cell::Null),
            (Column::Session | Column::Message | Column::Seq | Column::Receipt, _) => {
                Err(invalid(format_args!("a key in {} is none", table.name)))
            }
            (Column::Same | Column::Until(_) | Column::As(_) | Column::Origin(_), value) => Ok(value.clone()),
        };
        let tenant = (table.shared == RowSharing::InTenant).then(|| Ok(Cell::Text(self.tenant.to_string())));
        table.inserted().map(of).chain(tenant).collect()
    }

    /// The key of a message here.
    fn message(&self, places: &Places, old: i64) -> Result<i64> {
        if let Some(new) = places.messages.get(&old) {
            return Ok(*new);
        }
        let missing = || invalid("a row names a message that the archive does not have");
        let public_id = places.others.get(&old).ok_or_else(missing)?;
        let row = engine::query(MESSAGE).bind(public_id).optional(self.tx.conn)?.ok_or_else(missing)?;
        let session: i64 = row.get(1)?;
        let is_of_archive = places.sessions.values().any(|placed| placed.key == session);
        if is_of_archive { row.get(0) } else { Err(missing()) }
    }

    /// An answer with the number that its event has here.
    fn receipt(&self, places: &Places, table: &Table, row: &[Cell], receipt: &[u8]) -> Result<Cell> {
        let key = places.session(integer(table, row, "session_id")?)?.key;
        let receipt: DiskReceipt = codec::decode("request", receipt)?;
        // A request that changed nothing was answered with the newest event of its store.
        let of_revision = places.numbers.get(&(key, receipt.revision));
        let seq = places.seqs.get(&receipt.seq).or(of_revision).copied();
        let seq = seq.unwrap_or(self.tx.counters.next_seq - 1);
        Ok(Cell::Bytes(codec::encode(&DiskReceipt { seq, ..receipt })))
    }

    /// Notes the number that an event's hash commits to; returns the event for those that follow the log.
    fn event(&self, places: &Places, table: &Table, row: &[Cell]) -> Result<EventRow> {
        let session = places.session(integer(table, row, "session_id")?)?.key;
        let revision = integer(table, row, "revision")?;
        engine::query(IMPORT_EVENT)
            .bind(session)
            .bind(revision)
            .bind(integer(table, row, "chain_seq")?)
            .run(self.tx.conn)?;
        let kind = i32::try_from(integer(table, row, "kind")?).ok().and_then(EventKind::from_number);
        let hash = |name: &str| -> Result<[u8; 32]> {
            bytes(table, row, name)?.try_into().map_err(|_| invalid("a hash is not 32 bytes"))
        };
        Ok(EventRow {
            seq: places.numbers.get(&(session, revision)).copied().ok_or_else(|| invalid("an event has no number"))?,
            session,
            session_id: ancestry::public_id(self.tx.conn, session)?,
            revision,
            kind: kind.ok_or_else(|| invalid("an event has an unknown kind"))?,
            ends_mutation: match integer(table, row, "ends_mutation")? {
                0 => false,
                1 => true,
                _ => return Err(invalid("ends_mutation is neither 0 nor 1")),
            },
            time: Timestamp(integer(table, row, "time")?),
            actor: text(table, row, "actor")?.to_owned(),
            request_id: text(table, row, "request_id")?.to_owned(),
            body: bytes(table, row, "body")?.to_vec(),
            digest: hash("digest")?,
            hash: hash("hash")?,
        })
    }

    /// Starts what must be done in time, as after a restart of the daemon.
    fn begin_anew(&self, key: i64) -> Result<()> {
        let (conn, now) = (self.tx.conn, self.tx.now);
        engine::query(OPEN).bind(key).bind(limits::OPEN_TIMEOUT_MS_DEFAULT).run(conn)?;
        engine::query(LEASES).bind(key).bind(now.0).run(conn)?;
        let state: i32 = engine::scalar(STATE).bind(key).one(conn)?;
        if SessionState::from_number(state)? == SessionState::Active {
            open_messages::restored(conn, key, now)?;
            approvals::restored(conn, key, now)?;
        }
        Ok(())
    }

    /// Refuses more content than the tenant's quota has room for: at least that of the parts, whatever the archive says,
    /// because no chain has what it says.
    fn count_content(&self, places: &Places) -> Result<()> {
        let mut total = 0_i64;
        for placed in places.sessions.values().filter(|placed| placed.is_new) {
            let of_parts: i64 = engine::scalar(PARTS).bind(placed.key).one(self.tx.conn)?;
            engine::query(CONTENT).bind(placed.key).bind(of_parts).run(self.tx.conn)?;
            total = total.saturating_add(engine::scalar::<i64>(CONTENT_BYTES).bind(placed.key).one(self.tx.conn)?);
        }
        self.tx.admit(self.tenant, total)
    }

    /// Checks the new sessions against their chains.
    fn check(&self, places: &Places) -> Result<()> {
        let mut keys: Vec<i64> = places.sessions.values().filter(|placed| placed.is_new).map(|new| new.key).collect();
        keys.sort_unstable();
        let mut seen = HashSet::new();
        for key in keys {
            if !seen.insert(key) {
                return Err(invalid("a session is in it twice"));
            }
            let mut check = SessionCheck::new(key);
            loop {
                let page = check.page_by(&mut Reader::new(self.tx.conn))?;
                if let Some(finding) = page.findings.first() {
                    let message = &finding.message;
                    return Err(invalid(format_args!("{} #{}: {message}", check.name(), finding.revision)));
                }
                if !page.has_more {
                    break;
                }
            }
            derived::check(&mut Reader::new(self.tx.conn), key)?;
        }
        Ok(())
    }
}

/// What was written, before the memory of the writer has it.
struct WrittenArchive {
    imported: ArchiveImport,
    places: Places,
    events: Vec<EventRow>,
    next_message: i64,
}
