//! The index of words within a store, for retrieval: FTS5 on SQLite, and a table of postings on a server.

use super::connection::Connection;
use super::statement::{Query, query};
use super::value::List;
use crate::error::Result;

const MATCHES: &str = "select m.revision, m.id from search cross join message m on m.id = search.rowid \
     where search match ?1 and search.rowid between ?2 and ?3 and m.sealed_revision <= ?4 \
     order by search.rowid desc limit +?5";
const INSERT: &str = "insert or replace into search (rowid, words) values (?1, ?2)";
const FORGET: &str = "delete from search where rowid in (select value from rarray(?1))";
// A deleted row's words stay in the index until its segments are merged.
const MERGE: &str = "insert into search (search) values ('optimize')";

const MATCHES_POSTINGS: &str = "select m.revision, m.id from search w join message m on m.id = w.row_id \
     where w.word = ?1 and w.row_id between ?2 and ?3 and m.sealed_revision <= ?4 order by w.row_id desc limit ?5";
const INSERT_POSTINGS: &str = "insert into search (word, row_id) select distinct word, ?1::bigint \
     from unnest(string_to_array(?2, ' ')) as listed (word) where word <> '' on conflict (word, row_id) do nothing";
const FORGET_POSTINGS: &str = "delete from search where row_id in (select value from rarray(?1))";

/// The statements on the table of postings, for the test that prepares them all.
#[doc(hidden)]
pub const POSTINGS: &[&str] = &[MATCHES_POSTINGS, INSERT_POSTINGS, FORGET_POSTINGS];
/// The statements of this file for SQLite, for the test that prepares them all.
#[doc(hidden)]
pub const STATEMENTS: &[&str] = &[MATCHES, INSERT, FORGET, MERGE];

/// The messages with a word, newest first: their revisions and rows. Its other values are the first and the last row, the
/// revision by which they were sealed, and the largest number of them.
pub fn matching<'q>(conn: &Connection, word: &'q str) -> Query<'q> {
    match conn {
        Connection::Sqlite(_) => query(MATCHES).bind(format!("\"{word}\"")),
        Connection::Server(_) => query(MATCHES_POSTINGS).bind(word),
    }
}

/// Adds the words of a message, which are separated by blanks, in place of those that it has.
pub fn add(conn: &Connection, row: i64, words: &str) -> Result<()> {
    match conn {
        Connection::Sqlite(_) => query(INSERT).bind(row).bind(words).run(conn),
        Connection::Server(_) => {
            forget(conn, &[row])?;
            query(INSERT_POSTINGS).bind(row).bind(words).run(conn)
        }
    }
}

/// Removes the words of messages. True if any had some.
pub fn forget(conn: &Connection, rows: &[i64]) -> Result<bool> {
    let statement = match conn {
        Connection::Sqlite(_) => FORGET,
        Connection::Server(_) => FORGET_POSTINGS,
    };
    Ok(query(statement).bind(List::of_integers(rows.iter().copied())).changed(conn)? > 0)
}

/// Takes removed words out of the file of the index.
pub fn merge(conn: &Connection) -> Result<()> {
    match conn {
        Connection::Sqlite(_) => query(MERGE).run(conn),
        Connection::Server(_) => Ok(()),
    }
}
