//! The export of a store that may be damaged, without a daemon: every row that can be read, and the names of the others.
//!
//! SQLite can return fewer rows of a damaged page without an error, and a damaged value can be a valid one. So every table
//! is read by more than one path (`survey`), what was found is compared with the log (`expected`), and what was exported
//! is verified against the chains (`verify`). An export without a line about lost rows, gaps and doubts is whole.

use super::expected::{self, ExpectedRows, RevisionKey, Run};
use super::survey::{self, Paths, Survey};
use super::verify::SessionCheck;
use crate::engine::Reader;
use crate::engine::connect;
use crate::engine::files::{self, DATABASE};
use crate::engine::{self, Connection};
use crate::error::{Error, Result};
use crate::ledger::codec;
use crate::ledger::rescue::{self, RescuedMessage};
use crate::ledger::sessions;
use crate::model::Revision;
use crate::model::ids::{MessageId, SessionId};
use crate::model::message::Message;
use crate::model::session::Session;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

/// Bytes of a row of a table with row ids, at least: a bound for row ids, which are dense.
const ROW_BYTES_MIN: u64 = 16;
/// Messages that one scan of the table looks for.
const SCANNED_MESSAGES: usize = 100;

const SESSIONS: Paths = Paths {
    forward: "select id from session not indexed order by id",
    backward: "select id from session not indexed order by id desc",
    range: "select id from session not indexed where id between ?1 and ?2 order by id",
    last: "select max(id) from session not indexed",
    index: "select id, public_id from session indexed by sqlite_autoindex_session_1",
};
const SESSION_ID: &str = "select public_id from session where id = ?1";
const MESSAGES: Paths = Paths {
    forward: "select id from message not indexed order by id",
    backward: "select id from message not indexed order by id desc",
    range: "select id from message not indexed where id between ?1 and ?2 order by id",
    last: "select max(id) from message not indexed",
    index: "select id, session_id, revision from message indexed by message_class",
};
const EVENTS: Paths = Paths {
    forward: "select seq, session_id, revision, kind, body from event not indexed order by seq",
    backward: "select seq, session_id, revision, kind, body from event not indexed order by seq desc",
    range: "select seq, session_id, revision, kind, body from event not indexed where seq between ?1 and ?2 order by seq",
    last: "select max(seq) from event not indexed",
    index: "select seq, session_id, revision from event indexed by event_revision",
};

/// A row, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedRow {
    /// The table.
    pub table: String,
    /// The row, by the id that clients know, or else by its key; empty if it is none in particular.
    pub row: String,
    /// The session, by its id, or else by its key; empty if it is not known.
    pub session: String,
    /// The revision in the session, if it is known.
    pub revision: Option<Revision>,
    /// A description.
    pub reason: String,
}

/// Rows that must be in the store and were not found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The table.
    pub table: String,
    /// The first and the last row by their numbers in the table; empty if they are not known.
    pub rows: String,
    /// The session, by its id, or else by its key; empty if it is not known.
    pub session: String,
    /// The first and the last revision in the session; none if they are not known.
    pub revisions: Option<(Revision, Revision)>,
    /// The number of missing rows; none if it is not known.
    pub count: Option<i64>,
    /// The reason why they must be there.
    pub reason: String,
}

/// A piece of an export.
#[derive(Debug)]
pub enum ExportItem {
    /// A session.
    Session(Box<Session>),
    /// A message of a session, which is given by its id, or else by its key. Those of a session come in their order,
    /// except for those that only a scan of the table found.
    Message(String, Box<Message>),
    /// A row that cannot be read. Parts are left out of their message, which is exported nevertheless.
    Lost(NamedRow),
    /// Rows that were not found.
    Gap(Gap),
    /// A revision whose rows are not those that the chain commits to, or cannot be compared with it.
    Doubt(NamedRow),
}

struct EmittedMessage {
    place: RevisionKey,
    /// The number of its parts, with those that cannot be read.
    parts: usize,
}

struct Export<'a> {
    conn: &'a Connection,
    each: &'a mut (dyn FnMut(ExportItem) -> std::io::Result<()> + Send),
    /// The ids of the sessions, by key.
    ids: HashMap<i64, SessionId>,
    /// The ids by the index, where it has others than the rows.
    indexed_ids: HashMap<i64, SessionId>,
    /// The last revision before each session's own, and its newest one, for those that were exported.
    heads: BTreeMap<i64, (Revision, Revision)>,
    /// The keys of the sessions that were exported or are named as lost.
    sessions: HashSet<i64>,
    /// Session and revision of each message by the index.
    places: HashMap<i64, RevisionKey>,
    expected: ExpectedRows,
    messages: HashMap<MessageId, EmittedMessage>,
    /// Session and revision of rows that are named as lost or in doubt.
    named: HashSet<RevisionKey>,
    /// Revisions without an event.
    gaps: Vec<Run>,
    /// A bound for row ids, if the last one cannot be read.
    rows_max: i64,
}

/// Exports the store in a directory, which no daemon may have; `each` gets each piece. The store is not changed.
pub async fn export(directory: &Path, each: &mut (dyn FnMut(ExportItem) -> std::io::Result<()> + Send)) -> Result<()> {
    let directory = files::plain(directory)?;
    let path = directory.join(DATABASE);
    let bytes = std::fs::metadata(&path).map_err(|error| Error::Open(format!("{}: {error}", path.display())))?.len();
    let log = std::fs::metadata(directory.join(format!("{DATABASE}-wal"))).map_or(0, |log| log.len());
    let (_held, state) = connect::claim(&directory).await?;
    if state != files::DatabaseState::Ours {
        return Err(Error::Open(format!("the database in {} is empty", directory.display())));
    }
    let conn = connect::connect_damaged(&directory)?;
    connect::check_version(&conn)?;
    match connect::applied(&conn, &directory) {
        // The table of versions may be among what is damaged.
        Ok(_) | Err(Error::Corrupt { .. }) => {}
        Err(error) => return Err(error),
    }
    let mut export = Export {
        conn: &conn,
        each,
        ids: HashMap::new(),
        indexed_ids: HashMap::new(),
        heads: BTreeMap::new(),
        sessions: HashSet::new(),
        places: HashMap::new(),
        expected: ExpectedRows::default(),
        messages: HashMap::new(),
        named: HashSet::new(),
        gaps: Vec::new(),
        rows_max: i64::try_from((bytes + log) / ROW_BYTES_MIN).unwrap_or(i64::MAX),
    };
    export.run()
}

fn named_row(error: &Error) -> Option<(String, String)> {
    match error {
        Error::Corrupt { table, row, .. } if !row.is_empty() => Some(((*table).to_owned(), row.clone())),
        _ => None,
    }
}

impl Export<'_> {
    fn run(&mut self) -> Result<()> {
        self.sessions()?;
        let events = self.events()?;
        self.messages()?;
        self.unknown_sessions()?;
        self.event_gaps(&events)?;
        self.message_gaps()?;
        self.compare_messages()?;
        self.chains()
    }

    fn give(&mut self, piece: ExportItem) -> Result<()> {
        (self.each)(piece).map_err(|error| Error::CopyFailed(format!("the export cannot be written: {error}")))
    }

    fn record_lost(&mut self, table: &str, row: i64, place: Option<RevisionKey>, error: &Error) -> Result<()> {
        let (table, row) = named_row(error).unwrap_or_else(|| {
            let message = place.filter(|_| table == "message").and_then(|place| self.expected.message_at(place));
            (table.to_owned(), message.map_or_else(|| row.to_string(), |id| id.to_string()))
        });
        let session = place.map(|(session, _)| self.name(session)).unwrap_or_default();
        let revision = place.map(|(_, revision)| revision);
        self.named.extend(place);
        self.give(ExportItem::Lost(NamedRow { table, row, session, revision, reason: error.to_string() }))
    }

    fn record_doubt(
        &mut self,
        table: &str,
        row: String,
        (session, revision): RevisionKey,
        reason: String,
    ) -> Result<()> {
        self.named.insert((session, revision));
        let session = self.name(session);
        let table = table.to_owned();
        self.give(ExportItem::Doubt(NamedRow { table, row, session, revision: Some(revision), reason }))
    }

    fn record_gap(&mut self, table: &str, run: Run, reason: &str) -> Result<()> {
        let gap = Gap {
            table: table.to_owned(),
            rows: String::new(),
            session: self.name(run.session),
            revisions: Some((run.first, run.last)),
            count: Some(run.rows),
            reason: reason.to_owned(),
        };
        self.give(ExportItem::Gap(gap))
    }

    /// Names the rows of a table that cannot be read and of which no index says whether they are there.
    fn record_unread(&mut self, table: &str, survey: &Survey) -> Result<()> {
        if survey.is_index_read && !survey.indexed.is_empty() {
            return Ok(());
        }
        let unread = survey.unread.iter().map(|(row, _)| *row).filter(|row| !survey.indexed.contains(row));
        let mut ranges: Vec<(i64, i64)> = Vec::new();
        for row in unread {
            match ranges.last_mut().filter(|(_, last)| *last + 1 == row) {
                Some((_, last)) => *last = row,
                None => ranges.push((row, row)),
            }
        }
        for (first, last) in ranges {
            let reason = "the table and its index cannot be read here, so the number of rows is not known".to_owned();
            let rows = format!("{first} to {last}");
            let (table, session) = (table.to_owned(), String::new());
            self.give(ExportItem::Gap(Gap { table, rows, session, revisions: None, count: None, reason }))?;
        }
        Ok(())
    }

    /// A session's id, or its key if the id cannot be read.
    fn name(&self, key: i64) -> String {
        self.ids.get(&key).map_or_else(|| key.to_string(), ToString::to_string)
    }

    fn sessions(&mut self) -> Result<()> {
        let ids = &mut self.ids;
        let mut of_index = |row: &engine::Row| {
            let id = row.get(1).and_then(codec::uuid);
            ids.extend(row.get(0).ok().zip(id.ok().map(SessionId)));
        };
        let survey = survey::survey(self.conn, &SESSIONS, self.rows_max, &mut |_| {}, &mut of_index);
        for key in survey.all_rows() {
            self.session(key)?;
        }
        self.record_unread("session", &survey)
    }

    fn session(&mut self, key: i64) -> Result<()> {
        self.sessions.insert(key);
        let id = engine::scalar::<Vec<u8>>(SESSION_ID).bind(key).one(self.conn).and_then(|id| codec::uuid(&id));
        if let Ok(id) = id.map(SessionId) {
            let indexed = self.ids.insert(key, id).filter(|indexed| *indexed != id);
            self.indexed_ids.extend(indexed.map(|indexed| (key, indexed)));
        }
        let mut reader = Reader::new(self.conn);
        let session = match sessions::get(&mut reader, key) {
            Err(error) => match sessions::scanned(&mut reader, key) {
                Some(session) => {
                    let reason = "only a scan finds its row, so nothing of it is verified".to_owned();
                    self.record_doubt("session", session.id.to_string(), (key, session.revision), reason)?;
                    session
                }
                None => return self.record_lost("session", key, Some((key, 0)), &error),
            },
            Ok(session) => session,
        };
        self.heads.insert(key, (session.fork.map_or(0, |(_, at)| at), session.revision));
        self.give(ExportItem::Session(Box::new(session)))
    }

    /// Reads the log. Returns the numbers of its events.
    fn events(&mut self) -> Result<BTreeSet<i64>> {
        let mut places: HashMap<i64, RevisionKey> = HashMap::new();
        let mut unread: Vec<(i64, Option<RevisionKey>, Error)> = Vec::new();
        let expected = &mut self.expected;
        let place = |row: &engine::Row| -> Option<RevisionKey> { Some((row.get(1).ok()?, row.get(2).ok()?)) };
        let mut each = |row: &engine::Row| {
            if let Err(error) = expected.add(row) {
                unread.push((row.get(0).unwrap_or_default(), place(row), error));
            }
        };
        let mut of_index = |row: &engine::Row| places.extend(row.get(0).ok().zip(place(row)));
        let survey = survey::survey(self.conn, &EVENTS, self.rows_max, &mut each, &mut of_index);
        for seq in survey.indexed.difference(&survey.found) {
            let place = places.get(seq).copied();
            if let Some((session, revision)) = place {
                self.expected.add_place(session, revision);
            }
            unread.push((*seq, place, Error::corrupt("event", "the event is gone")));
        }
        for (seq, place, error) in unread {
            self.record_lost("event", seq, place, &error)?;
        }
        self.record_unread("event", &survey)?;
        Ok(survey.all_rows())
    }

    fn messages(&mut self) -> Result<()> {
        let places = &mut self.places;
        let mut of_index = |row: &engine::Row| {
            let place = || -> Result<_> { Ok((row.get(0)?, (row.get(1)?, row.get(2)?))) };
            places.extend(place().ok());
        };
        let survey = survey::survey(self.conn, &MESSAGES, self.rows_max, &mut |_| {}, &mut of_index);
        let mut failed = Vec::new();
        for row in survey.all_rows() {
            let expected = &self.expected;
            let parts_of = |message: &Message| expected.parts_of(message.id);
            match rescue::message(&mut Reader::new(self.conn), row, &parts_of) {
                Ok(rescued) => self.message(row, rescued)?,
                Err(error) => failed.push((row, error)),
            }
        }
        let (seen, gone): (Vec<_>, Vec<_>) = failed.into_iter().partition(|(row, _)| survey.found.contains(row));
        for (row, error) in &gone {
            self.record_lost("message", *row, self.places.get(row).copied(), error)?;
        }
        for chunk in seen.chunks(SCANNED_MESSAGES) {
            self.scanned_messages(chunk)?;
        }
        self.record_unread("message", &survey)
    }

    /// Messages that a look-up does not find, by a scan.
    fn scanned_messages(&mut self, failed: &[(i64, Error)]) -> Result<()> {
        let rows: Vec<i64> = failed.iter().map(|(row, _)| *row).collect();
        let expected = &self.expected;
        let parts_of = |message: &Message| expected.parts_of(message.id);
        let mut messages = rescue::scanned_messages(&mut Reader::new(self.conn), &rows, &parts_of);
        for (row, error) in failed {
            match messages.remove(row) {
                Some(Ok(rescued)) => self.message(*row, rescued)?,
                Some(Err(_)) | None => self.record_lost("message", *row, self.places.get(row).copied(), error)?,
            }
        }
        Ok(())
    }

    fn message(&mut self, row: i64, rescued: RescuedMessage) -> Result<()> {
        let RescuedMessage { owner, mut message, lost } = rescued;
        if let Some(id) = self.ids.get(&owner) {
            message.session_id = *id;
        }
        let place = (owner, message.revision);
        let emitted = EmittedMessage { place, parts: message.parts.len() + lost.len() };
        if let Some(first) = self.messages.insert(message.id, emitted) {
            let reason = format!("the message is also in row {row}, at revision {}", message.revision);
            self.record_doubt("message", message.id.to_string(), first.place, reason)?;
        }
        self.give(ExportItem::Message(self.name(owner), Box::new(message)))?;
        lost.iter().try_for_each(|error| self.record_lost("part", row, Some(place), error))
    }

    /// Sessions that events or messages have, and of which there is no row.
    fn unknown_sessions(&mut self) -> Result<()> {
        let of_messages = self.messages.values().map(|emitted| emitted.place.0);
        let sessions = self.expected.sessions().into_iter().chain(of_messages).collect::<BTreeSet<i64>>();
        for key in sessions.into_iter().filter(|key| !self.sessions.contains(key)).collect::<Vec<_>>() {
            let gap = Gap {
                table: "session".to_owned(),
                rows: key.to_string(),
                session: self.name(key),
                revisions: None,
                count: Some(1),
                reason: "events or messages belong to a session that is not there".to_owned(),
            };
            self.give(ExportItem::Gap(gap))?;
        }
        Ok(())
    }

    /// Revisions of sessions, and numbers of the log, without an event.
    fn event_gaps(&mut self, events: &BTreeSet<i64>) -> Result<()> {
        let mut missing = 0_i64;
        for key in self.expected.sessions().into_iter().chain(self.heads.keys().copied()).collect::<BTreeSet<_>>() {
            // Without its row, the end of a session is not known.
            let last = self.expected.last_revision(key).unwrap_or(0);
            let (start, head) = self.heads.get(&key).copied().unwrap_or((0, last));
            for run in self.expected.missing_events(key, start.saturating_add(1)..=head) {
                missing = missing.saturating_add(run.rows);
                self.gaps.push(run);
                self.record_gap(
                    "event",
                    run,
                    "revisions of a session are dense up to its head, and these have no event",
                )?;
            }
        }
        let gaps = expected::missing(events.iter().copied(), 1..=events.last().copied().unwrap_or(0));
        let of_log: i64 = gaps.iter().map(|(first, last)| last - first + 1).sum();
        if of_log <= missing {
            return Ok(());
        }
        for (first, last) in gaps {
            let gap = Gap {
                table: "event".to_owned(),
                rows: format!("{first} to {last}"),
                session: String::new(),
                revisions: None,
                count: Some(last - first + 1),
                reason: "numbers of the log are dense, and these have no event".to_owned(),
            };
            self.give(ExportItem::Gap(gap))?;
        }
        Ok(())
    }

    /// Messages that the log has, and that were neither exported nor named.
    fn message_gaps(&mut self) -> Result<()> {
        let runs = self
            .expected
            .missing_messages(|message, place| self.messages.contains_key(&message) || self.named.contains(&place));
        for run in runs {
            self.record_gap("message", run, "the log has messages at these revisions")?;
            self.gaps.push(run);
        }
        Ok(())
    }

    /// Exported messages that are not where the log has them, or have another number of parts.
    fn compare_messages(&mut self) -> Result<()> {
        let mut messages: Vec<_> = std::mem::take(&mut self.messages).into_iter().collect();
        messages.sort_unstable_by_key(|(_, emitted)| emitted.place);
        for (id, EmittedMessage { place, parts }) in messages {
            let Some(wanted) = self.expected.revision_key(id) else {
                if !self.is_named(place) {
                    self.record_doubt("message", id.to_string(), place, "the log does not have it".to_owned())?;
                }
                continue;
            };
            if wanted != place {
                let reason = format!("its row says session {} and revision {}", self.name(place.0), place.1);
                self.record_doubt("message", id.to_string(), wanted, reason)?;
            }
            let expected = self.expected.parts_of(id).unwrap_or(parts);
            if expected > parts {
                let rows = i64::try_from(expected - parts).unwrap_or(i64::MAX);
                let run = Run { session: place.0, first: place.1, last: place.1, rows };
                self.record_gap("part", run, &format!("the log has {expected} parts of message {id}"))?;
                self.named.insert(place);
            }
        }
        Ok(())
    }

    fn is_named(&self, (session, revision): RevisionKey) -> bool {
        self.named.contains(&(session, revision))
            || self.gaps.iter().any(|run| run.session == session && (run.first..=run.last).contains(&revision))
    }

    /// Compares the rows of all sessions with what the chains commit to. What is named already is not named again.
    fn chains(&mut self) -> Result<()> {
        for (key, (_, head)) in self.heads.clone() {
            let mut check = SessionCheck::new(key);
            let mut has_more = true;
            while has_more {
                let page = check.page_by(&mut Reader::new(self.conn));
                let page = match page {
                    Ok(page) => page,
                    Err(error) => {
                        let reason = format!("the rest of its history cannot be verified: {error}");
                        self.record_doubt("session", self.name(key), (key, head), reason)?;
                        break;
                    }
                };
                has_more = page.has_more;
                for finding in page.findings {
                    // Everything of the session was given under the id that its row has.
                    if let Some(indexed) = self.indexed_ids.remove(&key) {
                        let reason = "its row has another id than its index, which has this one".to_owned();
                        self.record_doubt("session", indexed.to_string(), (key, 0), reason)?;
                    }
                    let place = (key, finding.revision);
                    if !self.is_named(place) {
                        self.record_doubt("event", String::new(), place, finding.message)?;
                    }
                }
            }
        }
        Ok(())
    }
}
