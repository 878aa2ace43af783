//! Writing an archive: which sessions it has, and their rows, page by page.

use super::lines::{ArchivedHead, Header, Lines};
use super::tables::{RowSharing, TABLES, Table};
use crate::engine::connect;
use crate::engine::{self, Cell, Reader};
use crate::erasure::steps;
use crate::error::{Error, Kind, Result};
use crate::ledger::codec::{self, StoredPart};
use crate::ledger::head::SessionKey;
use crate::ledger::{messages, tombstones};
use crate::limits;
use crate::model::Revision;
use crate::model::ids::SessionId;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

const ABOVE: &str = "select parent_id from session where id = ?1 and parent_id is not null \
     union select fork_id from session where id = ?1 and fork_id is not null \
     union select owner_id from segment where session_id = ?1";
const HEAD: &str = "select public_id, revision, chain_hash from session where id = ?1";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[ABOVE, HEAD];

/// Kinds of parts that may have media: tool results and media.
const WITH_MEDIA: [i32; 2] = [4, 5];

/// The extent of an archive: its sessions as of one moment.
#[derive(Debug)]
pub struct ArchivePlan {
    subject: SessionId,
    /// The sessions by their keys, each behind those that it hangs on, with its newest revision and its row.
    sessions: Vec<(SessionKey, ArchivedHead, Vec<Cell>)>,
}

impl ArchivePlan {
    /// The sessions: the one that was asked for, those whose history it inherits, and those that it works for.
    pub fn sessions(&self) -> impl Iterator<Item = SessionKey> {
        self.sessions.iter().map(|(key, ..)| *key)
    }
}

/// Finds the sessions of an archive, for a reader in a transaction: their rows are of the same moment.
pub(super) fn plan(reader: &mut Reader<'_>, key: SessionKey) -> Result<ArchivePlan> {
    let mut waiting = vec![key.0];
    let mut keys = BTreeSet::new();
    while let Some(key) = waiting.pop() {
        if !keys.insert(key) {
            continue;
        }
        if keys.len() > limits::ARCHIVE_SESSIONS_MAX {
            let limit = i64::try_from(limits::ARCHIVE_SESSIONS_MAX).unwrap_or(i64::MAX);
            return Err(Error::LimitExceeded { what: "sessions of an archive", limit, actual: limit + 1 });
        }
        waiting.extend(engine::scalar::<i64>(ABOVE).bind(key).all(reader.conn)?);
    }
    let table = &TABLES[0];
    let select = table.select(true);
    let mut subject = None;
    let mut sessions = Vec::with_capacity(keys.len());
    // A session is newer than those that it hangs on, and has a larger key.
    for at in keys {
        let row = reader.one(engine::query(HEAD).bind(at))?.ok_or_else(|| Error::not_found(Kind::Session, at))?;
        let id = SessionId(codec::uuid(row.get(0)?)?);
        // An archive has no session of which a part is gone.
        if steps::is_begun(reader, at)? {
            return Err(Error::ArchiveOvertaken { session: id.to_string() });
        }
        if at == key.0 {
            subject = Some(id);
        }
        let hash = blake3::Hash::from_slice(row.get(2)?).map_err(|error| Error::corrupt("session", error))?;
        let head = ArchivedHead { session_id: id.to_string(), revision: row.get(1)?, hash: hash.to_hex().to_string() };
        let row = reader.always(engine::query(&select).bind(at).bind(head.revision))?;
        sessions.push((SessionKey(at), head, cells(&row, table.columns.len())?));
    }
    let subject = subject.ok_or(Error::Bug("a session is not among those that it hangs on"))?;
    Ok(ArchivePlan { subject, sessions })
}

fn cells(row: &engine::Row, count: usize) -> Result<Vec<Cell>> {
    (0..count).map(|index| row.get(index)).collect()
}

/// The part of an archive that is written next.
enum Next {
    Begin,
    /// Rows of a table of the session with this index, behind the row with these values.
    Rows {
        session: usize,
        table: usize,
        behind: Option<Vec<Cell>>,
    },
    /// Rows that several others refer to, by their hashes.
    StoreParts(&'static str),
    Done,
}

/// An archive that is being written, page by page.
pub(super) struct PageWriter {
    plan: ArchivePlan,
    store_id: Uuid,
    lines: Lines,
    next: Next,
    /// Hashes of rows that were referred to and not written yet, by their table.
    wanted: BTreeMap<&'static str, BTreeSet<Vec<u8>>>,
}

impl PageWriter {
    /// Begins with the header.
    pub(super) fn new(plan: ArchivePlan, store_id: Uuid) -> Self {
        Self { plan, store_id, lines: Lines::default(), next: Next::Begin, wanted: BTreeMap::new() }
    }

    /// The next piece; empty at the end. A piece is little longer than a page, or than its only row.
    ///
    /// Rows never change once they are complete, except by an erasure, and whatever came or ended later than the plan is
    /// left out. So the pages need no common snapshot; an erasure in between ends the archive.
    pub(super) fn page(&mut self, reader: &mut Reader<'_>) -> Result<Vec<u8>> {
        for (key, head, _) in &self.plan.sessions {
            let newest = tombstones::newest_of_session(reader, key.0)?;
            if newest.is_some_and(|erasure| erasure > head.revision) {
                return Err(Error::ArchiveOvertaken { session: head.session_id.clone() });
            }
        }
        while self.lines.bytes.len() < limits::ARCHIVE_PAGE_BYTES && !matches!(self.next, Next::Done) {
            self.next = match std::mem::replace(&mut self.next, Next::Done) {
                Next::Begin => self.begin()?,
                Next::Rows { session, table, behind } => self.rows(reader, session, table, behind)?,
                Next::StoreParts(name) => self.shared(reader, name)?,
                Next::Done => Next::Done,
            };
        }
        Ok(std::mem::take(&mut self.lines.bytes))
    }

    fn begin(&mut self) -> Result<Next> {
        let heads = self.plan.sessions.iter().map(|(_, head, _)| head.clone()).collect();
        let (store, subject) = (self.store_id.to_string(), self.plan.subject.to_string());
        self.lines.begin(&Header::new(connect::schema_version(), store, subject, heads))?;
        for (_, _, row) in &self.plan.sessions {
            self.lines.row(&TABLES[0], row)?;
        }
        Ok(Next::Rows { session: 0, table: 1, behind: None })
    }

    fn rows(
        &mut self,
        reader: &mut Reader<'_>,
        session: usize,
        table: usize,
        behind: Option<Vec<Cell>>,
    ) -> Result<Next> {
        let (Some((key, head, _)), Some(of)) = (self.plan.sessions.get(session), TABLES.get(table)) else {
            return Ok(match table {
                0.. if session < self.plan.sessions.len() => {
                    Next::Rows { session: session + 1, table: 1, behind: None }
                }
                _ => Next::StoreParts("policy_text"),
            });
        };
        let following = Next::Rows { session, table: table + 1, behind: None };
        if of.shared != RowSharing::No {
            return Ok(following);
        }
        let (key, revision) = (key.0, head.revision);
        let select = of.select(behind.is_none());
        let mut query = engine::query(&select).bind(key).bind(revision);
        for cell in behind.iter().flatten() {
            query = query.bind(cell);
        }
        let count = of.columns.len();
        let (mut rows, mut bytes, mut failure) = (Vec::new(), 0, None);
        query.for_each(reader.conn, |row| {
            match cells(&row, count + of.order_len()) {
                Ok(row) => {
                    bytes += row.iter().map(size).sum::<usize>();
                    rows.push(row);
                }
                Err(error) => failure = Some(error),
            }
            failure.is_none() && bytes < limits::ARCHIVE_PAGE_BYTES
        })?;
        if let Some(error) = failure {
            return Err(error);
        }
        let last = rows.last().map(|row| row[count..].to_vec());
        for row in &rows {
            let row = &row[..count];
            if of.name == "request" && is_later(of, row, revision)? {
                continue;
            }
            self.refer(reader, key, of, row)?;
            self.lines.row(of, row)?;
        }
        Ok(match last {
            Some(last) if bytes >= limits::ARCHIVE_PAGE_BYTES => Next::Rows { session, table, behind: Some(last) },
            _ => following,
        })
    }

    /// Notes what a row of a session refers to by hashes.
    fn refer(&mut self, reader: &mut Reader<'_>, session: i64, table: &Table, row: &[Cell]) -> Result<()> {
        let value = |name: &str| table.column(name).and_then(|index| row.get(index));
        match table.name {
            "policy" => {
                if let Some(Cell::Bytes(hash)) = value("hash") {
                    self.wanted.entry("policy_text").or_default().insert(hash.clone());
                }
            }
            "message" | "prompt" => {
                if let Some(Cell::Bytes(parts)) = value("parts") {
                    for part in codec::decode_parts(parts)? {
                        self.refer_of(reader, session, part)?;
                    }
                }
            }
            "part" => {
                let (Some(Cell::Integer(kind)), Some(Cell::Integer(codec)), Some(Cell::Integer(length))) =
                    (value("kind"), value("codec"), value("length"))
                else {
                    return Err(Error::corrupt("part", "its kind is no number"));
                };
                let body = match value("body") {
                    Some(Cell::Bytes(body)) => Some(codec::without_check("part", body)?.to_vec().into()),
                    _ => None,
                };
                let blob_hash = match value("blob_hash") {
                    Some(Cell::Bytes(hash)) => Some(hash.clone()),
                    _ => None,
                };
                let narrow = |number: i64| i32::try_from(number).map_err(|error| Error::corrupt("part", error));
                let (kind, codec, length) = (narrow(*kind)?, narrow(*codec)?, *length);
                let part = StoredPart { kind, codec, length, body, blob_hash, ..StoredPart::default() };
                self.refer_of(reader, session, part)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Notes the blobs of a part: its body, and its media.
    fn refer_of(&mut self, reader: &mut Reader<'_>, session: i64, mut part: StoredPart) -> Result<()> {
        let mut hashes: Vec<Vec<u8>> = part.blob_hash.iter().cloned().collect();
        if WITH_MEDIA.contains(&part.kind) {
            hashes.extend(codec::media_blobs(&messages::plain_body(reader, session, &mut part)?)?);
        }
        self.wanted.entry("blob").or_default().extend(hashes);
        Ok(())
    }

    /// Writes the next row of those that were referred to by their hashes.
    fn shared(&mut self, reader: &mut Reader<'_>, name: &'static str) -> Result<Next> {
        let Some(hash) = self.wanted.get_mut(name).and_then(BTreeSet::pop_first) else {
            if name != "blob" {
                return Ok(Next::StoreParts("blob"));
            }
            self.lines.end()?;
            return Ok(Next::Done);
        };
        let table = Table::index(name).map(|index| &TABLES[index]).ok_or(Error::Bug("a table is not in the list"))?;
        let select = table.select(true);
        // All sessions of an archive are of one tenant.
        let any = self.plan.sessions.first().map_or(0, |(key, ..)| key.0);
        let row = reader.one(engine::query(&select).bind(&hash).bind(any))?;
        let row = row.ok_or_else(|| Error::corrupt(table.name, "a row that others refer to is missing"))?;
        self.lines.row(table, &cells(&row, table.columns.len())?)?;
        Ok(Next::StoreParts(name))
    }
}

/// Bytes of a value in memory.
fn size(cell: &Cell) -> usize {
    size_of::<Cell>()
        + match cell {
            Cell::Null | Cell::Integer(_) => 0,
            Cell::Text(text) => text.len(),
            Cell::Bytes(bytes) => bytes.len(),
        }
}

/// True for the answer to a request that came after a revision.
fn is_later(table: &Table, row: &[Cell], revision: Revision) -> Result<bool> {
    match table.column("receipt").and_then(|index| row.get(index)) {
        Some(Cell::Bytes(receipt)) => Ok(codec::decode::<codec::DiskReceipt>("request", receipt)?.revision > revision),
        _ => Err(Error::corrupt("request", "its receipt is no bytes")),
    }
}
