//! The export of a store that may be damaged, without a daemon: every row that can be read, and the names of the others.
//!
//! Rows are read by their numbers, in ranges that are halved around a row that cannot be read, so that a damaged page
//! costs its own rows and no others. Sessions and messages need no index; parts that were streamed, and blobs, do.

use crate::limits;
use crate::model::Revision;
use crate::model::ids::SessionId;
use crate::model::message::Message;
use crate::model::session::Session;
use crate::store::engine::Reader;
use crate::store::engine::connect;
use crate::store::engine::files::{self, DATABASE};
use crate::store::engine::{self, Connection};
use crate::store::error::{Error, Result};
use crate::store::ledger::codec;
use crate::store::ledger::messages;
use crate::store::ledger::sessions;
use std::collections::HashMap;
use std::path::Path;

/// Bytes of a row of a table with row ids, at least: a bound for row ids, which are dense.
const ROW_BYTES_MIN: u64 = 16;

const SESSIONS: &str = "select id from session where id between ?1 and ?2 order by id";
const SESSION_ID: &str = "select public_id from session where id = ?1";
const SESSION_IDS: &str = "select id, public_id from session indexed by sqlite_autoindex_session_1";
const LAST_SESSION: &str = "select max(id) from session";
const MESSAGES: &str = "select id, session_id from message where id between ?1 and ?2 order by id";
const LAST_MESSAGE: &str = "select max(id) from message";
const PLACES: &str = "select id, session_id, revision from message indexed by message_class";

/// A row that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostRow {
    /// The table.
    pub table: String,
    /// The row, by the id that clients know, or else by its key.
    pub row: String,
    /// The session, by its id, or else by its key; empty if it is not known.
    pub session: String,
    /// The revision in the session, if it is known.
    pub revision: Option<Revision>,
    /// A description of the error.
    pub reason: String,
}

/// A piece of an export.
#[derive(Debug)]
pub enum Exported {
    /// A session.
    Session(Box<Session>),
    /// A message of a session, which is given by its id, or else by its key. Those of a session come in their order.
    Message(String, Box<Message>),
    /// A row that cannot be read. Parts are left out of their message, which is exported nevertheless.
    Lost(LostRow),
}

/// An export in progress.
struct Export<'a> {
    conn: &'a Connection,
    each: &'a mut (dyn FnMut(Exported) -> std::io::Result<()> + Send),
    /// The ids of the sessions, by key.
    ids: HashMap<i64, SessionId>,
    /// Session and revision of each message by the index, once they are needed.
    places: Option<HashMap<i64, (i64, Revision)>>,
    /// A bound for row ids, if the last one cannot be read.
    rows_max: i64,
}

/// Exports the store in a directory, which no daemon may have; `each` gets each piece. The store is not changed.
pub async fn export(directory: &Path, each: &mut (dyn FnMut(Exported) -> std::io::Result<()> + Send)) -> Result<()> {
    let directory = files::plain(directory)?;
    let path = directory.join(DATABASE);
    let bytes = std::fs::metadata(&path).map_err(|error| Error::Open(format!("{}: {error}", path.display())))?.len();
    let log = std::fs::metadata(directory.join(format!("{DATABASE}-wal"))).map_or(0, |log| log.len());
    let (_held, state) = connect::claim(&directory).await?;
    if state != files::DatabaseState::Ours {
        return Err(Error::Open(format!("the database in {} is empty", directory.display())));
    }
    let conn = connect::connect_existing(&directory, true)?;
    connect::check_version(&conn)?;
    match connect::applied(&conn, &directory) {
        // The table of versions may be among what is damaged.
        Ok(_) | Err(Error::Corrupt { .. }) => {}
        Err(error) => return Err(error),
    }
    let rows_max = i64::try_from((bytes + log) / ROW_BYTES_MIN).unwrap_or(i64::MAX);
    let mut export = Export { conn: &conn, each, ids: HashMap::new(), places: None, rows_max };
    export.sessions()?;
    export.messages()
}

/// The ranges in which the rows up to the last one are read.
fn ranges(last: i64) -> impl Iterator<Item = (i64, i64)> {
    let size = limits::PAGE_SIZE_MAX;
    (0..=(last - 1).div_euclid(size)).map(move |index| (index * size + 1, last.min((index + 1) * size)))
}

/// Reads a range of rows, and halves what cannot be read down to single rows. Returns the rows in their order, and the
/// number and the error of each row that cannot be read.
fn salvage<T>(
    (first, last): (i64, i64),
    read: impl Fn(i64, i64) -> Result<Vec<T>>,
) -> Vec<std::result::Result<T, (i64, Error)>> {
    let mut found = Vec::new();
    let mut ranges = vec![(first, last)];
    while let Some((from, to)) = ranges.pop() {
        match read(from, to) {
            Ok(rows) => found.extend(rows.into_iter().map(Ok)),
            Err(error) if from == to => found.push(Err((from, error))),
            Err(_) => {
                let middle = from + (to - from) / 2;
                ranges.extend([(middle + 1, to), (from, middle)]);
            }
        }
    }
    found
}

/// The row of an error, if it names one.
fn named_row(error: &Error) -> Option<(String, String)> {
    match error {
        Error::Corrupt { table, row, .. } if !row.is_empty() => Some(((*table).to_owned(), row.clone())),
        _ => None,
    }
}

impl Export<'_> {
    fn give(&mut self, piece: Exported) -> Result<()> {
        (self.each)(piece).map_err(|error| Error::CopyFailed(format!("the export cannot be written: {error}")))
    }

    fn record_lost(&mut self, table: &str, row: i64, place: Option<(i64, Revision)>, error: &Error) -> Result<()> {
        let (table, row) = named_row(error).unwrap_or_else(|| (table.to_owned(), row.to_string()));
        let session = place.map(|(session, _)| self.name(session)).unwrap_or_default();
        let revision = place.map(|(_, revision)| revision);
        self.give(Exported::Lost(LostRow { table, row, session, revision, reason: error.to_string() }))
    }

    /// A session's id, or its key if the id cannot be read.
    fn name(&self, key: i64) -> String {
        self.ids.get(&key).map_or_else(|| key.to_string(), ToString::to_string)
    }

    /// The last row id of a table, else the last one of an index, else a bound for it.
    fn last(&self, sql: &'static str, of_index: Option<i64>) -> i64 {
        let last = engine::scalar::<Option<i64>>(sql).one(self.conn);
        let last = last.map_or(of_index.unwrap_or(self.rows_max), |last| last.unwrap_or(0));
        last.min(self.rows_max)
    }

    fn sessions(&mut self) -> Result<()> {
        let conn = self.conn;
        let id =
            |row: &engine::Row| -> Result<(i64, SessionId)> { Ok((row.get(0)?, SessionId(codec::uuid(row.get(1)?)?))) };
        let rows = engine::query(SESSION_IDS).all(conn).unwrap_or_default();
        self.ids.extend(rows.iter().filter_map(|row| id(row).ok()));
        for range in ranges(self.last(LAST_SESSION, self.ids.keys().max().copied())) {
            for key in salvage(range, |from, to| engine::scalar::<i64>(SESSIONS).bind(from).bind(to).all(conn)) {
                match key {
                    Ok(key) => self.session(key)?,
                    // The index may show that there is no such row.
                    Err((key, _)) if !self.ids.is_empty() && !self.ids.contains_key(&key) => {}
                    Err((key, error)) => self.record_lost("session", key, Some((key, 0)), &error)?,
                }
            }
        }
        Ok(())
    }

    fn session(&mut self, key: i64) -> Result<()> {
        let id = engine::scalar::<Vec<u8>>(SESSION_ID).bind(key).one(self.conn).and_then(|id| codec::uuid(&id));
        self.ids.extend(id.ok().map(|id| (key, SessionId(id))));
        match sessions::get(&mut Reader::new(self.conn), key) {
            Ok(session) => self.give(Exported::Session(Box::new(session))),
            Err(error) => self.record_lost("session", key, Some((key, 0)), &error),
        }
    }

    fn messages(&mut self) -> Result<()> {
        let conn = self.conn;
        let read = |from, to| {
            let rows = engine::query(MESSAGES).bind(from).bind(to).all(conn)?;
            rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect::<Result<Vec<(i64, i64)>>>()
        };
        let of_index = self.places().keys().max().copied();
        for range in ranges(self.last(LAST_MESSAGE, of_index)) {
            for row in salvage(range, read) {
                match row {
                    Ok((row, session)) => self.message(row, session)?,
                    Err((row, error)) => {
                        let place = self.place(row);
                        let is_known = place.is_some() || self.places.as_ref().is_none_or(HashMap::is_empty);
                        if is_known {
                            self.record_lost("message", row, place, &error)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn message(&mut self, row: i64, session: i64) -> Result<()> {
        let mut reader = Reader::new(self.conn);
        let id = self.ids.get(&session).copied();
        match messages::salvage(&mut reader, row, id) {
            Ok((message, lost)) => {
                let place = Some((session, message.revision));
                let name = self.name(session);
                self.give(Exported::Message(name, Box::new(message)))?;
                lost.iter().try_for_each(|error| self.record_lost("part", row, place, error))
            }
            Err(error) => {
                let place = self.place(row).or(Some((session, 0)));
                self.record_lost("message", row, place, &error)
            }
        }
    }

    /// Session and revision of a message by the index alone.
    fn place(&mut self, row: i64) -> Option<(i64, Revision)> {
        self.places().get(&row).copied()
    }

    fn places(&mut self) -> &HashMap<i64, (i64, Revision)> {
        let conn = self.conn;
        self.places.get_or_insert_with(|| {
            let rows = engine::query(PLACES).all(conn).unwrap_or_default();
            let place = |row: &engine::Row| -> Result<_> { Ok((row.get(0)?, (row.get(1)?, row.get(2)?))) };
            rows.iter().filter_map(|row| place(row).ok()).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_cannot_be_read_cost_no_others() {
        let all = 2_500;
        for bad in [vec![], vec![1], vec![2_500], vec![7, 8, 1_000, 1_001], (1_200..1_300).collect()] {
            let read = |from: i64, to: i64| match bad.iter().find(|row| (from..=to).contains(*row)) {
                Some(row) => Err(Error::corrupt("message", row)),
                // Some numbers have no row.
                None => Ok((from..=to).filter(|row| row % 5 != 0).collect()),
            };
            let found: Vec<_> = ranges(all).flat_map(|range| salvage(range, read)).collect();
            let numbers: Vec<i64> = found.iter().map(|row| *row.as_ref().unwrap_or_else(|(row, _)| row)).collect();
            let expected: Vec<i64> = (1..=all).filter(|row| row % 5 != 0 || bad.contains(row)).collect();
            assert_eq!(numbers, expected, "in their order");
            let lost: Vec<i64> = found.iter().filter_map(|row| Some(row.as_ref().err()?.0)).collect();
            assert_eq!(lost, bad);
        }
        assert_eq!(ranges(0).count(), 0);
    }
}
