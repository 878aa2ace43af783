//! The check of the chains against every row that a view or a replay reads.

use super::log_check::{Finding, LogCheck};
use super::part_rows::part;
use super::run_rows;
use crate::engine::Reader;
use crate::engine::readers::Readers;
use crate::engine::{self, Row};
use crate::error::{Error, Result};
use crate::ledger::ancestry;
use crate::ledger::chain::{self, Digest};
use crate::ledger::codec::{self, Number as _};
use crate::ledger::head::{origin_times, usage_totals};
use crate::ledger::tombstones::{self, TombstoneCommitment};
use crate::ledger::visibility::Location;
use crate::ledger::{events, labels, messages};
use crate::limits;
use crate::model::Revision;
use crate::model::event::{ErasedTarget, EventBody};
use crate::model::ids::{MessageId, PartId, SessionId};
use crate::model::mark::MarkBody;
use crate::model::session::{OriginTimes, SessionState};
use crate::model::time::Timestamp;
use crate::model::usage::{ModelWindow, UsageTotals};
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::mpsc;

/// The extent of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckedChains {
    /// The number of sessions.
    pub sessions: i64,
    /// The number of events.
    pub events: i64,
    /// The number of findings.
    pub findings: i64,
}

const SESSIONS: &str = "select id from session where id > ?1 order by id limit +?2";
const COUNT_SESSIONS: &str = "select count(*) from session";
pub(super) const SESSION: &str = "select s.public_id, s.client_id, p.public_id, f.public_id, s.fork_revision, s.create_time, \
     s.title, s.state, s.metadata_json, s.window, s.revision, s.chain_hash, s.message_count, s.fork_id, \
     s.history_revision, s.update_time, coalesce(i.tenant, s.tenant) as tenant, s.actor, s.usage, s.project, s.directory, \
     s.origin_start_time, s.origin_end_time \
     from session s left join session p on p.id = s.parent_id left join session f on f.id = s.fork_id \
     left join import i on i.session_id = s.id where s.id = ?1";
// Columns of an index would be read from the index, and readers by another path are served those of the table. So the
// columns here are those of the table, at the row that the index names.
// An event of an archive has the number that it had where it was written.
const EVENTS: &str = "select coalesce(o.seq, e.seq) as seq, e.revision, e.kind, e.ends_mutation, e.time, e.actor, \
     e.request_id, e.body, e.digest, e.hash, e.session_id from event i join event e on e.seq = i.seq \
     left join import_event o on o.session_id = i.session_id and o.revision = i.revision \
     where i.session_id = ?1 and i.revision > ?2 order by i.revision limit +?3";
const SEGMENTS: &str = "select o.public_id, g.first_revision, g.last_revision, g.has_messages from segment g \
     join session o on o.id = g.owner_id where g.session_id = ?1 order by g.first_revision";
const POLICY: &str = "select p.hash, t.preset, t.json from policy p left join policy_text t on t.hash = p.hash \
     where p.session_id = ?1 and p.revision = ?2";
const WINDOW: &str = "select body from \"window\" where session_id = ?1 and revision = ?2";
pub(super) const LAYOUT: &str = "select body from layout where session_id = ?1 and revision = ?2";
pub(super) const MARK: &str = "select kind, body from mark where session_id = ?1 and revision = ?2";
const VOIDED: &str = "select voided_revision from mark where session_id = ?1 and revision = ?2";
pub(super) const PRUNED: &str = "select m.public_id, q.number, q.compaction_id, q.truncation from pruned q \
     left join message m on m.id = q.message_id \
     where q.session_id = ?1 and q.revision = ?2 order by q.message_id, q.number";
pub(super) const MESSAGE_AT: &str = "select m.id, m.public_id, m.client_id, m.role, m.kind, m.class, m.create_time, m.head, \
     m.sealed_revision, m.seal, m.parts, m.parts_length, m.session_id, m.revision \
     from message i join message m on m.id = i.id \
     where i.session_id = ?1 and i.class in (0, 1, 2, 3) and i.revision = ?2";
pub(super) const MESSAGE_BY_ID: &str = "select id, public_id, client_id, role, kind, class, create_time, head, sealed_revision, \
     seal from message where public_id = ?1";
pub(super) const PARTS: &str = "select number, revision, client_id, kind, codec, length, salt, body, blob_hash, call_message, position \
     from part where message_id = ?1 and revision = ?2 order by position";
const COUNTS: &str = "select (select count(*) from message where session_id = ?1), \
     (select count(*) from message m join part p on p.message_id = m.id where m.session_id = ?1), \
     (select count(*) from mark where session_id = ?1), (select count(*) from pruned where session_id = ?1), \
     (select count(*) from layout where session_id = ?1), (select count(*) from policy where session_id = ?1), \
     (select count(*) from mark where session_id = ?1 and voided_revision is not null), \
     (select count(*) from \"window\" w join session s on s.id = w.session_id \
     where w.session_id = ?1 and w.revision > coalesce(s.fork_revision, 0)), \
     (select count(*) from run where session_id = ?1), (select count(cancel_revision) from run where session_id = ?1), \
     (select count(end_revision) from run where session_id = ?1), (select count(*) from prompt where session_id = ?1), \
     (select count(end_revision) from prompt where session_id = ?1), \
     (select count(*) from approval where session_id = ?1), \
     (select count(end_revision) from approval where session_id = ?1), \
     (select count(*) from tombstone where session_id = ?1)";
pub(super) const EVENT: &str = "select coalesce(o.seq, e.seq), e.revision, e.kind, e.ends_mutation, e.time, e.actor, \
     e.request_id, e.body, e.digest, e.hash, e.session_id from event e \
     left join import_event o on o.session_id = e.session_id and o.revision = e.revision \
     where e.session_id = ?1 and e.revision = ?2";
pub(super) const HASH_BEFORE: &str = "select hash from event where session_id = ?1 and revision = ?2";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[
    SESSIONS,
    COUNT_SESSIONS,
    SESSION,
    EVENTS,
    SEGMENTS,
    POLICY,
    WINDOW,
    LAYOUT,
    MARK,
    VOIDED,
    PRUNED,
    MESSAGE_AT,
    MESSAGE_BY_ID,
    PARTS,
    COUNTS,
    EVENT,
    HASH_BEFORE,
];

pub(crate) fn session_count(reader: &mut Reader<'_>) -> Result<i64> {
    let row = reader.one(engine::query(COUNT_SESSIONS))?;
    row.map_or(Ok(0), |row| row.get(0))
}

async fn report(findings: Vec<Finding>, found: &mpsc::Sender<Finding>, checked: &mut CheckedChains) {
    for finding in findings {
        checked.findings += 1;
        drop(found.send(finding).await);
    }
}

/// The next sessions to check.
pub(crate) async fn sessions_after(readers: &Readers, after: i64) -> Result<Vec<i64>> {
    let query = engine::scalar(SESSIONS).bind(after).bind(limits::PAGE_SIZE_MAX);
    readers.reading(|reader| query.all(reader.conn)).await
}

/// Checks one session, or all sessions and the log. `progress` is called after each page of events.
///
/// Each page is read in a snapshot of its own, and the reader is returned before a finding is sent, so neither a long
/// check nor a slow caller blocks other readers or the checkpoints of the log. A caller that is gone does not stop the
/// check, which must be dropped instead.
pub(crate) async fn run(
    readers: &Readers,
    only: Option<i64>,
    found: &mpsc::Sender<Finding>,
    progress: &(dyn Fn(CheckedChains) + Send + Sync),
) -> Result<CheckedChains> {
    let mut checked = CheckedChains::default();
    let mut keys = match only {
        Some(key) => vec![key],
        None => sessions_after(readers, 0).await?,
    };
    while let Some(last) = keys.last().copied() {
        for key in keys {
            let mut check = SessionCheck::new(key);
            let mut has_more = true;
            while has_more {
                let (findings, events);
                Page { findings, events, has_more, .. } = check.page(readers).await?;
                checked.events += events;
                report(findings, found, &mut checked).await;
                progress(checked);
            }
            checked.sessions += 1;
        }
        if only.is_some() {
            return Ok(checked);
        }
        keys = sessions_after(readers, last).await?;
    }
    let mut log = LogCheck::default();
    let mut has_more = true;
    while has_more {
        let findings;
        (findings, has_more) = log.page(readers).await?;
        report(findings, found, &mut checked).await;
    }
    progress(checked);
    Ok(checked)
}

/// The fields of a session according to its events, to be compared with its row.
#[derive(Default, PartialEq)]
struct EventFields {
    title: String,
    archived: bool,
    erased: bool,
    metadata_json: Option<String>,
    window: Vec<u8>,
    message_count: i64,
    actor: Option<String>,
    labels: BTreeSet<String>,
    usage: UsageTotals,
    origin: Option<OriginTimes>,
    history_revision: Revision,
    update_time: i64,
}

/// Rows that events account for.
#[derive(Default, PartialEq, Eq)]
struct RowCounts {
    messages: i64,
    parts: i64,
    marks: i64,
    pruned: i64,
    layouts: i64,
    policies: i64,
    windows: i64,
    voided: i64,
    tombstones: i64,
    of_runs: run_rows::RunRowCounts,
}

/// A checked page of a session's events.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) findings: Vec<Finding>,
    pub(crate) events: i64,
    /// Content that was verified, in bytes before compression.
    pub(crate) bytes: u64,
    /// True if there may be more pages.
    pub(crate) has_more: bool,
}

/// The check of one session, page by page.
pub(crate) struct SessionCheck {
    key: i64,
    id: Option<SessionId>,
    /// The revision of the last checked event, with the chain's hash there; none before the first page.
    position: Option<(Revision, Vec<u8>)>,
    findings: Vec<Finding>,
    events: i64,
    bytes: u64,
    event_fields: EventFields,
    accounted: RowCounts,
    /// Of the revisions of the current page that lost content.
    tombstones: BTreeMap<Revision, TombstoneCommitment>,
}

impl SessionCheck {
    /// The check of the session with this key, before its first page.
    pub(crate) fn new(key: i64) -> Self {
        Self {
            key,
            id: None,
            position: None,
            findings: Vec::new(),
            events: 0,
            bytes: 0,
            event_fields: EventFields::default(),
            accounted: RowCounts::default(),
            tombstones: BTreeMap::new(),
        }
    }

    fn add_finding(&mut self, revision: Revision, message: impl Into<String>) {
        let message = message.into();
        self.findings.push(Finding { session: self.id, revision, message });
    }

    /// The session's id; its key if the id is not known.
    pub(crate) fn name(&self) -> String {
        self.id.map_or_else(|| self.key.to_string(), |id| id.to_string())
    }

    /// Checks the next page of events in one snapshot, and after the last one the session's row and the number of rows.
    /// A page has a limited number of events and of bytes. Later events and marks of a session that is written meanwhile
    /// are in its last page. Only a database that cannot be read at all is an error.
    pub(crate) async fn page(&mut self, readers: &Readers) -> Result<Page> {
        readers.snapshot(|reader| self.page_by(reader)).await
    }

    /// Checks the next page of events with a reader of the caller.
    pub(crate) fn page_by(&mut self, reader: &mut Reader<'_>) -> Result<Page> {
        let (events, bytes) = (self.events, self.bytes);
        let has_more = self.read_page(reader)?;
        let findings = std::mem::take(&mut self.findings);
        Ok(Page { findings, events: self.events - events, bytes: self.bytes - bytes, has_more })
    }

    fn read_page(&mut self, reader: &mut Reader<'_>) -> Result<bool> {
        let Some(row) = reader.one(engine::query(SESSION).bind(self.key))? else { return Ok(false) };
        let (mut revision, mut before) = match self.position.take() {
            Some(position) => position,
            None => self.start(reader, &row)?,
        };
        let query = engine::query(EVENTS).bind(self.key).bind(revision).bind(limits::SUBSCRIPTION_PAGE_EVENTS);
        let events = reader.all(query)?;
        if let (Some(first), Some(last)) = (events.first(), events.last()) {
            self.tombstones = self.tombstones(reader, first.get(1)?, last.get(1)?)?;
        }
        let full = self.bytes.saturating_add(limits::CHECK_PAGE_BYTES);
        for event in &events {
            if self.bytes >= full {
                self.position = Some((revision, before));
                return Ok(true);
            }
            let at: Revision = event.get(1)?;
            if at != revision + 1 {
                self.add_finding(revision + 1, format!("revisions {} to {} are missing", revision + 1, at - 1));
            }
            revision = at;
            self.events += 1;
            before = self.event(reader, &row, event, &before)?;
        }
        if i64::try_from(events.len()).is_ok_and(|count| count == limits::SUBSCRIPTION_PAGE_EVENTS) {
            self.position = Some((revision, before));
            return Ok(true);
        }
        self.head(&row, revision, &before)?;
        self.counts(reader, revision)?;
        Ok(false)
    }

    /// The revision before the session's first event, with the chain's hash there.
    pub(super) fn start(&mut self, reader: &mut Reader<'_>, row: &Row) -> Result<(Revision, Vec<u8>)> {
        match codec::uuid(row.get(0)?) {
            Ok(id) => self.id = Some(SessionId(id)),
            Err(error) => self.add_finding(0, error.to_string()),
        }
        let Some(fork) = row.get::<Option<Revision>>(4)? else { return Ok((0, chain::GENESIS.to_vec())) };
        match self.parent_hash(reader, row.get(13)?, fork) {
            Ok(hash) => Ok((fork, hash)),
            Err(error) => {
                self.add_finding(fork, format!("what the fork starts from cannot be read: {error}"));
                Ok((fork, chain::GENESIS.to_vec()))
            }
        }
    }

    fn tombstones(
        &mut self,
        reader: &mut Reader<'_>,
        first: Revision,
        last: Revision,
    ) -> Result<BTreeMap<Revision, TombstoneCommitment>> {
        match tombstones::of_page(reader, self.key, first, last) {
            Err(error @ Error::Corrupt { .. }) => {
                self.add_finding(first, format!("the tombstones from here on cannot be read: {error}"));
                Ok(BTreeMap::new())
            }
            found => found,
        }
    }

    fn parent_hash(&self, reader: &mut Reader<'_>, parent: Option<i64>, at: Revision) -> Result<Vec<u8>> {
        let parent = parent.ok_or_else(|| Error::corrupt("session", "a fork has no parent"))?;
        let ancestry = ancestry::by_key(reader, parent)?;
        let hash = events::hash_at(reader, &ancestry, at)?;
        hash.ok_or_else(|| Error::corrupt("event", "the parent has no such revision"))
    }

    /// Checks one event: its hash against its columns, its digest against the rows. The chain continues with the stored
    /// hash, so that one alteration is one finding.
    fn event(&mut self, reader: &mut Reader<'_>, session: &Row, row: &Row, before: &[u8]) -> Result<Vec<u8>> {
        let revision: Revision = row.get(1)?;
        let stored: Vec<u8> = row.get(9)?;
        let digest: Vec<u8> = row.get(8)?;
        let body: Vec<u8> = row.get(7)?;
        let kind: i32 = row.get(2)?;
        self.bytes += body.len() as u64;
        // What was erased is not there to be compared: its tombstone has what must be there instead.
        let tombstone = self.tombstones.remove(&revision);
        let (digest, link) = match &tombstone {
            Some(TombstoneCommitment { digest, hash }) => (digest, hash),
            None => (&digest, &stored),
        };
        if hash(row, before)?.as_slice() != link || row.get::<i64>(10)? != self.key {
            self.add_finding(revision, "the event was altered, or the one before it");
        }
        self.event_fields.update_time = row.get(4)?;
        if self.event_fields.actor.is_none() {
            self.event_fields.actor = Some(row.get(5)?);
        }
        let rows = match codec::decode_event(kind, &body) {
            Ok(body) => {
                if body.changes_history() {
                    self.event_fields.history_revision = revision;
                }
                self.rows(reader, session, (revision, row.get(5)?, row.get(4)?), &body)
            }
            Err(error) => Err(error),
        };
        match rows {
            Ok(found) if found.finish().as_slice() == digest.as_slice() => {}
            Ok(_) => self.add_finding(revision, "the rows of this revision were altered, dropped or inserted"),
            Err(error) => self.add_finding(revision, format!("the rows of this revision cannot be read: {error}")),
        }
        Ok(stored)
    }

    /// The digest of the rows of a revision, in the order in which the writer gathers them.
    pub(super) fn rows(
        &mut self,
        reader: &mut Reader<'_>,
        session: &Row,
        (revision, actor, time): (Revision, &str, i64),
        body: &EventBody,
    ) -> Result<Digest> {
        let mut digest = Digest::default();
        match body {
            EventBody::SessionCreated { title, .. } => {
                self.set_start(title);
                session_row(&mut digest, session)?;
                self.policy(reader, &mut digest, revision)?;
                self.window(reader, &mut digest, revision)?;
            }
            EventBody::SessionForked { title, .. } => {
                self.set_start(title);
                session_row(&mut digest, session)?;
                for row in reader.all(engine::query(SEGMENTS).bind(self.key))? {
                    let owner: &[u8] = row.get(0)?;
                    // Reads compare it with 1, so another number is not the same as true.
                    let has_messages: i64 = row.get(3)?;
                    if !(0..=1).contains(&has_messages) {
                        return Err(Error::corrupt("segment", "has_messages is neither 0 nor 1"));
                    }
                    chain::segment(&mut digest, owner, row.get(1)?, row.get(2)?, has_messages == 1);
                }
                if !self.mark(reader, &mut digest, revision)? {
                    self.layout(reader, &mut digest, revision)?;
                }
                self.policy(reader, &mut digest, revision)?;
                self.window(reader, &mut digest, revision)?;
            }
            EventBody::SessionUpdated { title, metadata_json, window } => {
                if let Some(title) = title {
                    self.event_fields.title.clone_from(title);
                }
                if metadata_json.is_some() {
                    self.event_fields.metadata_json.clone_from(metadata_json);
                }
                if let Some(window) = window {
                    self.event_fields.window = codec::encode_window(window);
                    self.window(reader, &mut digest, revision)?;
                }
            }
            EventBody::LabelAdded { label } => drop(self.event_fields.labels.insert(label.clone())),
            EventBody::LabelRemoved { label } => drop(self.event_fields.labels.remove(label)),
            EventBody::SessionArchived => self.event_fields.archived = true,
            EventBody::SessionRestored => self.event_fields.archived = false,
            EventBody::PolicyChanged { .. } => self.policy(reader, &mut digest, revision)?,
            EventBody::MessageAppended { .. } => self.message(reader, &mut digest, revision)?,
            EventBody::PartsClosed { message, .. } => self.closed(reader, &mut digest, *message, revision)?,
            EventBody::MessageFinished { message, .. } => {
                finished(reader, &mut digest, *message, revision)?;
            }
            EventBody::SessionRewound { .. }
            | EventBody::MessageEdited { .. }
            | EventBody::MessagePinned { .. }
            | EventBody::MessageUnpinned { .. }
            | EventBody::WordsMarked { .. }
            | EventBody::PartsPruned { .. }
            | EventBody::Compacted { .. }
            | EventBody::CompactionUndone { .. }
            | EventBody::CompactionRedone { .. }
            | EventBody::RewriteUndone(_)
            | EventBody::RewriteRedone(_) => drop(self.mark(reader, &mut digest, revision)?),
            EventBody::Erased { target, from, .. } => {
                self.event_fields.erased |= *target == ErasedTarget::Session && from.is_none();
                self.mark(reader, &mut digest, revision)?;
                self.accounted.tombstones += tombstones::of_erasure(reader, &mut digest, self.key, revision)?;
            }
            EventBody::UsageRecorded { usage, .. } => self.event_fields.usage.add(usage),
            EventBody::CompactionProposed { .. }
            | EventBody::CompactionStarted { .. }
            | EventBody::CompactionRetried { .. }
            | EventBody::CompactionFailed { .. }
            | EventBody::CompactionCancelled { .. } => {}
            EventBody::RunStarted { .. }
            | EventBody::RunCancelRequested { .. }
            | EventBody::RunEnded { .. }
            | EventBody::PromptSubmitted { .. }
            | EventBody::PromptMoved { .. }
            | EventBody::PromptTaken { .. }
            | EventBody::PromptWithdrawn { .. }
            | EventBody::ApprovalRequested { .. }
            | EventBody::ApprovalEnded { .. } => {
                let mut check = run_rows::Check { reader, key: self.key, revision, actor, time };
                check.event(body, &mut digest, &mut self.accounted.of_runs)?;
            }
        }
        Ok(digest)
    }

    /// Sets the initial fields of a session; the event right after has the others.
    fn set_start(&mut self, title: &str) {
        title.clone_into(&mut self.event_fields.title);
        self.event_fields.window = codec::encode_window(&ModelWindow::default());
    }

    fn policy(&mut self, reader: &mut Reader<'_>, digest: &mut Digest, revision: Revision) -> Result<()> {
        let Some(row) = reader.one(engine::query(POLICY).bind(self.key).bind(revision))? else { return Ok(()) };
        let (hash, preset, json): (Vec<u8>, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if blake3::hash(json.as_bytes()).as_bytes().as_slice() != hash {
            return Err(Error::corrupt("policy_text", "the text does not match its hash"));
        }
        chain::policy(digest, &hash, &preset);
        self.accounted.policies += 1;
        Ok(())
    }

    /// Adds the window of a revision. The event after a session's first one repeats its initial window, and has no row
    /// of its own.
    fn window(&mut self, reader: &mut Reader<'_>, digest: &mut Digest, revision: Revision) -> Result<()> {
        if let Some(row) = reader.one(engine::query(WINDOW).bind(self.key).bind(revision))? {
            let body: Vec<u8> = row.get(0)?;
            chain::window(digest, &body);
            self.event_fields.window = body;
            self.accounted.windows += 1;
        }
        Ok(())
    }

    fn layout(&mut self, reader: &mut Reader<'_>, digest: &mut Digest, revision: Revision) -> Result<()> {
        if let Some(row) = reader.one(engine::query(LAYOUT).bind(self.key).bind(revision))? {
            chain::layout(digest, row.get(0)?);
            self.accounted.layouts += 1;
        }
        Ok(())
    }

    /// Adds the mark of a revision with its rows; returns true if there is one.
    fn mark(&mut self, reader: &mut Reader<'_>, digest: &mut Digest, revision: Revision) -> Result<bool> {
        for row in reader.all(engine::query(PRUNED).bind(self.key).bind(revision))? {
            let message = MessageId(codec::uuid(row.get(0)?)?);
            let part = PartId::in_message(message, row.get(1)?);
            chain::pruned(digest, part.0.as_bytes(), row.get(2)?, row.get(3)?);
            self.accounted.pruned += 1;
        }
        let Some(row) = reader.one(engine::query(MARK).bind(self.key).bind(revision))? else { return Ok(false) };
        let (kind, body): (i32, Vec<u8>) = (row.get(0)?, row.get(1)?);
        chain::mark(digest, kind, &body);
        self.accounted.marks += 1;
        self.layout(reader, digest, revision)?;
        if let MarkBody::Undone { mark } = codec::decode_mark(kind, &body)?
            && let Some(row) = reader.one(engine::query(VOIDED).bind(self.key).bind(mark))?
        {
            self.accounted.voided += 1;
            if row.get::<Option<Revision>>(0)? != Some(revision) {
                return Err(Error::corrupt("mark", format_args!("mark {mark} does not state that it was undone here")));
            }
        }
        Ok(true)
    }

    fn message(&mut self, reader: &mut Reader<'_>, digest: &mut Digest, revision: Revision) -> Result<()> {
        let row = reader
            .one(engine::query(MESSAGE_AT).bind(self.key).bind(revision))?
            .ok_or_else(|| Error::corrupt("message", "the message is gone"))?;
        if (row.get::<i64>(12)?, row.get::<Revision>(13)?) != (self.key, revision) {
            return Err(Error::corrupt("message", "its row has another session or revision than the index"));
        }
        let sealed: Option<Revision> = row.get(8)?;
        let seal: Option<&[u8]> = row.get(9)?;
        let client_id: Option<String> = row.get(2)?;
        let kind: i32 = row.get(4)?;
        chain::message(
            digest,
            &chain::MessageColumns {
                public_id: row.get(1)?,
                client_id: client_id.as_deref(),
                role: row.get(3)?,
                kind,
                class: row.get(5)?,
                create_time: row.get(6)?,
                head: row.get(7)?,
                seal: seal.filter(|_| sealed == Some(revision)),
            },
        );
        self.accounted.messages += 1;
        if kind == 1 {
            self.event_fields.message_count += 1;
            let origin = self.event_fields.origin;
            let written = codec::decode_message_head(row.get(7)?)?.origin_time;
            let written = written.or(if origin.is_some() { Some(row.get(6)?) } else { None });
            self.event_fields.origin = written.map(|time| OriginTimes::extended(origin, Timestamp(time))).or(origin);
        }
        let id = MessageId(codec::uuid(row.get(1)?)?);
        let Some(parts) = row.get::<Option<&[u8]>>(10)? else {
            return self.parts(reader, digest, (row.get(0)?, id), revision);
        };
        let parts = codec::decode_parts(parts)?;
        let length: Option<i64> = row.get(11)?;
        if length != Some(parts.iter().map(|part| part.length).sum()) {
            return Err(Error::corrupt("message", "its parts have another length"));
        }
        for (position, numbered) in (0..).zip(messages::whole(parts, revision)) {
            self.bytes += part(reader, digest, (self.key, id, position), numbered)?;
        }
        Ok(())
    }

    fn closed(
        &mut self,
        reader: &mut Reader<'_>,
        digest: &mut Digest,
        message: MessageId,
        revision: Revision,
    ) -> Result<()> {
        let row = reader
            .one(engine::query(MESSAGE_BY_ID).bind(message.0.as_bytes().to_vec()))?
            .ok_or_else(|| Error::corrupt("message", "the message is gone"))?;
        self.parts(reader, digest, (row.get(0)?, message), revision)
    }

    /// Adds the parts of a message, given by its row and its id, that are rows.
    fn parts(
        &mut self,
        reader: &mut Reader<'_>,
        digest: &mut Digest,
        (message, id): (i64, MessageId),
        revision: Revision,
    ) -> Result<()> {
        let rows = reader.all(engine::query(PARTS).bind(message).bind(revision))?;
        // A part that cannot be read counts nevertheless: that is one finding, not two.
        self.accounted.parts += i64::try_from(rows.len()).unwrap_or(i64::MAX);
        for row in rows {
            self.bytes += part(reader, digest, (self.key, id, row.get(10)?), messages::part_row(&row)?)?;
        }
        Ok(())
    }

    /// Compares the session's row with the fields according to its events.
    fn head(&mut self, row: &Row, revision: Revision, hash: &[u8]) -> Result<()> {
        let state = match (self.event_fields.erased, self.event_fields.archived) {
            (true, _) => SessionState::Erased,
            (false, true) => SessionState::Archived,
            (false, false) => SessionState::Active,
        };
        let same = row.get::<String>(6)? == self.event_fields.title
            && row.get::<i32>(7)? == state.number()
            && row.get::<Option<String>>(8)? == self.event_fields.metadata_json
            && row.get::<Vec<u8>>(9)? == self.event_fields.window
            && row.get::<i64>(12)? == self.event_fields.message_count
            && row.get::<Revision>(14)? == self.event_fields.history_revision
            && row.get::<i64>(15)? == self.event_fields.update_time
            && row.get::<String>(17)? == self.event_fields.actor.as_deref().unwrap_or_default()
            && usage_totals(row)? == self.event_fields.usage
            && origin_times(row)? == self.event_fields.origin
            && Location { project: row.get(19)?, directory: row.get(20)? }
                == Location::from_metadata(self.event_fields.metadata_json.as_deref());
        if !same {
            self.add_finding(revision, "the session's row does not match its events");
        }
        if row.get::<Revision>(10)? != revision || row.get::<Vec<u8>>(11)? != hash {
            self.add_finding(revision, "the session's head is not where its events end");
        }
        Ok(())
    }

    /// Reports rows that no event accounts for.
    fn counts(&mut self, reader: &mut Reader<'_>, revision: Revision) -> Result<()> {
        if !labels::of_session(reader, self.key)?.iter().eq(&self.event_fields.labels) {
            self.add_finding(revision, "the session's labels are not those of its events");
        }
        let Some(row) = reader.one(engine::query(COUNTS).bind(self.key))? else { return Ok(()) };
        let there = RowCounts {
            messages: row.get(0)?,
            parts: row.get(1)?,
            marks: row.get(2)?,
            pruned: row.get(3)?,
            layouts: row.get(4)?,
            policies: row.get(5)?,
            voided: row.get(6)?,
            windows: row.get(7)?,
            of_runs: run_rows::RunRowCounts::from_row(&row, 8)?,
            tombstones: row.get(15)?,
        };
        if there != self.accounted {
            self.add_finding(revision, "there are rows that no event accounts for, or fewer than events account for");
        }
        Ok(())
    }
}

/// The hash of an event, by its columns and the hash before it.
pub(super) fn hash(row: &Row, before: &[u8]) -> Result<[u8; 32]> {
    let actor: String = row.get(5)?;
    let request_id: String = row.get(6)?;
    let link = chain::Link {
        seq: row.get(0)?,
        revision: row.get(1)?,
        kind: row.get(2)?,
        ends_mutation: row.get(3)?,
        time: Timestamp(row.get(4)?),
        actor: &actor,
        request_id: &request_id,
        body: row.get(7)?,
        digest: row.get(8)?,
    };
    Ok(chain::link(before, &link))
}

/// The first revision at which the events of a session do not follow from the one before; none if all do.
pub(crate) fn broken_link(reader: &mut Reader<'_>, key: i64) -> Result<Option<Revision>> {
    let row = reader.one(engine::query(SESSION).bind(key))?.ok_or_else(|| Error::corrupt("session", "it is gone"))?;
    let mut check = SessionCheck::new(key);
    let (mut revision, mut before) = check.start(reader, &row)?;
    if !check.findings.is_empty() {
        return Ok(Some(revision));
    }
    loop {
        let query = engine::query(EVENTS).bind(key).bind(revision).bind(limits::SUBSCRIPTION_PAGE_EVENTS);
        let events = reader.all(query)?;
        let ends = events.first().zip(events.last());
        let erased = match ends {
            Some((first, last)) => tombstones::of_page(reader, key, first.get(1)?, last.get(1)?)?,
            None => BTreeMap::new(),
        };
        for event in &events {
            let stored: Vec<u8> = event.get(9)?;
            let link = erased.get(&event.get(1)?).map_or(&stored, |committed| &committed.hash);
            if event.get::<Revision>(1)? != revision + 1 || hash(event, &before)?.as_slice() != link {
                return Ok(Some(revision + 1));
            }
            (revision, before) = (revision + 1, stored);
        }
        if events.is_empty() {
            return Ok(None);
        }
    }
}

fn session_row(digest: &mut Digest, row: &Row) -> Result<()> {
    let tenant: String = row.get(16)?;
    let client_id: Option<String> = row.get(1)?;
    chain::session(
        digest,
        &chain::SessionColumns {
            public_id: row.get(0)?,
            tenant: &tenant,
            client_id: client_id.as_deref(),
            parent_id: row.get(2)?,
            fork_id: row.get(3)?,
            fork_revision: row.get(4)?,
            create_time: row.get(5)?,
        },
    );
    Ok(())
}

fn finished(reader: &mut Reader<'_>, digest: &mut Digest, message: MessageId, revision: Revision) -> Result<()> {
    let row = reader
        .one(engine::query(MESSAGE_BY_ID).bind(message.0.as_bytes().to_vec()))?
        .ok_or_else(|| Error::corrupt("message", "the message is gone"))?;
    if row.get::<Option<Revision>>(8)? != Some(revision) {
        return Err(Error::corrupt("message", "the message does not state that it was sealed here"));
    }
    let seal: Option<&[u8]> = row.get(9)?;
    chain::seal(digest, message.0.as_bytes(), seal.unwrap_or_default());
    Ok(())
}
