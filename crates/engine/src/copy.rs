//! A copy of all rows of a store in another database, of any engine: table by table, in pages by their keys, each page
//! in a transaction of its own. So the memory that it takes does not grow with the store, and a copy that was interrupted
//! goes on behind its last row.
//!
//! The tables and their columns are those that the migrations make. While rows are copied, nothing looks at references,
//! and no trigger protects a row: `begin` sees to it, and `end` makes the schema whole again. SQLite has a switch of the
//! connection for both; a server has its own way.

use super::connect::{self, BUSY_TIMEOUT, MIGRATIONS};
use super::connection::Connection;
use super::insert::Insert;
use super::statement::{query, scalar};
use super::value::{Cell, IntoValue as _};
use crate::error::{Error, Result};
use crate::limits;
use rusqlite::config::DbConfig;
use std::path::Path;
use std::sync::LazyLock;

/// Tables whose rows do not change as long as the log has no new event: a copy goes on behind its last row of them. The
/// others are copied anew.
const OF_LOG: [&str; 11] = [
    "blob",
    "event",
    "import_event",
    "layout",
    "mark",
    "message",
    "part",
    "policy_text",
    "pruned",
    "segment",
    "tombstone",
];

/// The tables of a store, without the index of words, which each engine has in its own form.
static TABLES: LazyLock<Option<Vec<Table>>> = LazyLock::new(|| of_migrations().ok());

const NAMES: &str = "select name from pragma_table_list where schema = 'main' and type = 'table' \
     and name not like 'sqlite_%' order by name";
const COLUMNS: &str = "select name from pragma_table_info(?1) order by cid";
// A table without a primary key has a unique index over columns that are not null.
const KEY: &str = "select name from pragma_table_info(?1) where pk > 0 order by pk";
const UNIQUE: &str = "select c.name from pragma_index_info((select name from pragma_index_list(?1) \
     where \"unique\" = 1 and partial = 0 limit 1)) c order by c.seqno";

/// The index of words.
const WORDS: &str = "search";
const VOCABULARY: &str =
    "create virtual table if not exists temp.posting using fts5vocab('main', 'search', 'instance')";

/// A table, as rows are read from it and inserted into its copy.
struct Table {
    name: String,
    /// The first page, and the next one behind a key.
    first: String,
    next: String,
    /// The columns of the key, by their numbers from 0.
    key: Vec<usize>,
    count: String,
    insert: Insert,
    /// The key of the last row, and the number of rows, in the copy.
    copied_last: String,
    copied_count: String,
}

struct Page {
    rows: Vec<Vec<Cell>>,
    /// True if there may be more.
    has_more: bool,
    bytes: usize,
}

fn quoted(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    quoted.join(", ")
}

fn of_migrations() -> Result<Vec<Table>> {
    let conn = Connection::open(":memory:")?;
    for (_, statements) in MIGRATIONS {
        conn.execute_batch(statements)?;
    }
    let names: Vec<String> = scalar(NAMES).all(&conn)?;
    names.into_iter().map(|name| Table::describe(&conn, name)).collect()
}

impl Table {
    fn describe(conn: &Connection, name: String) -> Result<Self> {
        let columns: Vec<String> = scalar(COLUMNS).bind(&name).all(conn)?;
        let mut keys: Vec<String> = scalar(KEY).bind(&name).all(conn)?;
        if keys.is_empty() {
            keys = scalar(UNIQUE).bind(&name).all(conn)?;
        }
        let key: Option<Vec<usize>> = keys.iter().map(|key| columns.iter().position(|column| column == key)).collect();
        let key = key.filter(|key| !key.is_empty()).ok_or(Error::Bug("a table has no key"))?;
        let (all, order) = (quoted(&columns), quoted(&keys));
        let after: Vec<String> = (1..=key.len()).map(|number| format!("?{number}")).collect();
        let after = format!("where ({order}) > ({})", after.join(", "));
        let descending: Vec<String> = keys.iter().map(|key| format!("\"{key}\" desc")).collect();
        let count = format!("select count(*) from \"{name}\"");
        // Once for each table of the process.
        let into = String::leak(format!("\"{name}\" ({all})"));
        Ok(Self {
            first: format!("select {all} from \"{name}\" order by {order} limit +?1"),
            next: format!("select {all} from \"{name}\" {after} order by {order} limit +?{}", key.len() + 1),
            key,
            insert: Insert::new(into, columns.len(), ""),
            copied_last: format!("select {order} from \"{name}\" order by {} limit 1", descending.join(", ")),
            copied_count: count.clone(),
            count,
            name,
        })
    }

    /// The index of words. FTS5 has only whole rows, and gives only the postings of a word.
    fn of_words(from: &Connection, to: &Connection) -> Result<Self> {
        let count = |conn: &Connection| match conn {
            Connection::Sqlite(_) => conn.execute_batch(VOCABULARY).map(|()| "select count(*) from temp.posting"),
            Connection::Server(_) => Ok("select count(*) from search"),
        };
        let (count, copied_count) = (count(from)?.to_owned(), count(to)?.to_owned());
        let (first, next, key) = match (from, to) {
            (Connection::Server(_), Connection::Sqlite(_)) => (
                "select row_id, string_agg(word, ' ') from search group by row_id order by row_id limit +?1",
                "select row_id, string_agg(word, ' ') from search where row_id > ?1 group by row_id order by row_id limit +?2",
                vec![0],
            ),
            (Connection::Server(_), Connection::Server(_)) => (
                "select word, row_id from search order by word, row_id limit +?1",
                "select word, row_id from search where (word, row_id) > (?1, ?2) order by word, row_id limit +?3",
                vec![0, 1],
            ),
            // Postings come by word and row; a condition that FTS5 does not know would have it begin at the first word.
            (Connection::Sqlite(_), Connection::Server(_)) => (
                "select term, doc from temp.posting limit +?1",
                "select term, doc from temp.posting where term >= ?1 and (term > ?1 or doc > ?2) limit +?3",
                vec![0, 1],
            ),
            (Connection::Sqlite(_), Connection::Sqlite(_)) => {
                return Err(Error::Bug("files of SQLite are copied as they are"));
            }
        };
        let insert = match to {
            Connection::Sqlite(_) => Insert::new("search (rowid, words)", 2, ""),
            Connection::Server(_) => Insert::new("search (word, row_id)", 2, ""),
        };
        let (first, next) = (first.to_owned(), next.to_owned());
        Ok(Self { name: WORDS.to_owned(), first, next, key, count, insert, copied_last: String::new(), copied_count })
    }

    /// Removes the rows of the copy.
    fn clear(&self, copy: &Connection) -> Result<()> {
        let name = &self.name;
        let statement = match copy {
            Connection::Sqlite(_) if name == WORDS => "insert into search (search) values ('delete-all')".to_owned(),
            Connection::Sqlite(_) => format!("delete from \"{name}\""),
            Connection::Server(_) => format!("truncate \"{name}\""),
        };
        let transaction = copy.transaction()?;
        transaction.execute_batch(&statement)?;
        transaction.commit()
    }

    fn page(&self, conn: &Connection, after: Option<&[Cell]>, limit: i64) -> Result<Page> {
        let bound = match after {
            None => query(&self.first),
            Some(key) => key.iter().fold(query(&self.next), |query, value| query.bind(value)),
        };
        let mut page = Page { rows: Vec::new(), has_more: false, bytes: 0 };
        let mut failure = None;
        bound.bind(limit).for_each(conn, |row| {
            match (0..self.insert.columns()).map(|column| row.get(column)).collect::<Result<Vec<Cell>>>() {
                Ok(row) => {
                    page.bytes += row.iter().map(Cell::bytes).sum::<usize>();
                    page.rows.push(row);
                }
                Err(error) => failure = Some(error),
            }
            failure.is_none() && page.bytes < limits::COPY_PAGE_BYTES
        })?;
        page.has_more = page.bytes >= limits::COPY_PAGE_BYTES || i64::try_from(page.rows.len()) == Ok(limit);
        failure.map_or(Ok(page), Err)
    }

    /// Copies the rows behind a key. `each` is called with the number of rows behind each page.
    fn copy(
        &self,
        (from, to): (&Connection, &Connection),
        mut after: Option<Vec<Cell>>,
        each: &mut dyn FnMut(i64) -> Result<()>,
    ) -> Result<()> {
        // A server sends all rows of a page: the number follows the size of those before it.
        let mut limit = limits::COPY_PAGE_ROWS_MIN;
        loop {
            let page = self.page(from, after.as_deref(), limit)?;
            let Some(last) = page.rows.last() else { return Ok(()) };
            after = Some(self.key.iter().filter_map(|column| last.get(*column)).cloned().collect());
            let transaction = to.transaction()?;
            let rows = page.rows.iter().map(|row| row.iter().map(|value| value.into_value()).collect());
            self.insert.rows(&transaction, rows)?;
            transaction.commit()?;
            let count = i64::try_from(page.rows.len()).unwrap_or(i64::MAX);
            each(count)?;
            if !page.has_more {
                return Ok(());
            }
            let row_bytes = page.bytes / page.rows.len() + 1;
            let fitting = i64::try_from(limits::COPY_PAGE_BYTES / row_bytes).unwrap_or(i64::MAX);
            limit = fitting.min(limit * 2).clamp(1, limits::COPY_PAGE_ROWS_MAX);
        }
    }
}

impl Cell {
    fn bytes(&self) -> usize {
        match self {
            Self::Null | Self::Integer(_) => 8,
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }
}

/// Makes the tables of a store in an empty database, within a transaction of the caller.
pub fn make(conn: &Connection) -> Result<()> {
    for (_, statements) in MIGRATIONS {
        conn.make_schema(statements)?;
    }
    Ok(())
}

/// Prepares a database for a copy, which may be one that was interrupted.
pub fn begin(conn: &Connection) -> Result<()> {
    match conn {
        Connection::Sqlite(sqlite) => {
            sqlite.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
            conn.pragma_update("foreign_keys", false)?;
            conn.busy_timeout(BUSY_TIMEOUT)
        }
        Connection::Server(server) => server.begin_copy(),
    }
}

/// Ends a copy: from now on the database protects its rows again. References of a file of SQLite are left to a check of the
/// whole file.
pub fn end(conn: &Connection) -> Result<()> {
    match conn {
        Connection::Sqlite(sqlite) => {
            sqlite.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, true)?;
            conn.pragma_update("foreign_keys", true)
        }
        Connection::Server(server) => server.end_copy(),
    }
}

/// Copies a whole store into a new file, in one snapshot, until `is_ended` is true. SQLite has a statement for it, which leaves
/// free pages out.
pub fn into_file(from: Connection, path: &Path, is_ended: impl Fn() -> bool + Send + 'static) -> Result<()> {
    if let Connection::Sqlite(_) = &from {
        from.interrupt_when(is_ended)?;
        query(VACUUM_INTO).bind(path.to_string_lossy().into_owned()).run(&from)?;
        return from.close();
    }
    let made = connect::connect_copy(path)?;
    make(&made)?;
    begin(&made)?;
    // All pages are of this snapshot; nobody waits for it.
    let snapshot = from.transaction()?;
    rows(&snapshot, &made, &mut |_| if is_ended() { Err(Error::Closed) } else { Ok(()) })?;
    snapshot.roll_back()?;
    from.close()?;
    made.close()
}

const VACUUM_INTO: &str = "vacuum into ?1";

/// The number of rows of a store.
pub fn row_count(from: &Connection, to: &Connection) -> Result<i64> {
    let words = Table::of_words(from, to)?;
    let counts = tables()?.iter().chain([&words]).map(|table| scalar::<i64>(&table.count).one(from));
    counts.sum()
}

/// Copies all rows that the copy does not have, and compares the numbers of rows. Nobody else may write meanwhile, or what is
/// read is in one snapshot. `each` is called with the number of rows as they come; its error ends the copy.
pub fn rows(from: &Connection, to: &Connection, each: &mut dyn FnMut(i64) -> Result<()>) -> Result<()> {
    let words = Table::of_words(from, to)?;
    for table in tables()?.iter().chain([&words]) {
        let mut after = None;
        if OF_LOG.contains(&table.name.as_str()) {
            let last = query(&table.copied_last).optional(to)?;
            after = last.map(|row| (0..table.key.len()).map(|column| row.get(column)).collect()).transpose()?;
            each(scalar(&table.copied_count).one(to)?)?;
        } else {
            table.clear(to)?;
        }
        table.copy((from, to), after, each)?;
        let (count, copied): (i64, i64) = (scalar(&table.count).one(from)?, scalar(&table.copied_count).one(to)?);
        if count != copied {
            let name = &table.name;
            return Err(Error::CopyFailed(format!("the table {name} has {count} rows, and {copied} in the copy")));
        }
    }
    Ok(())
}

fn tables() -> Result<&'static [Table]> {
    TABLES.as_deref().ok_or(Error::Bug("the tables of the migrations cannot be read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn migrated() -> Connection {
        let conn = Connection::open_in_memory().expect("a database");
        make(&conn).expect("migrated");
        conn
    }

    #[test]
    fn every_table_has_a_key_and_those_of_the_log_exist() {
        let tables = tables().expect("tables");
        let key = |name: &str| {
            let table = tables.iter().find(|table| table.name == name).expect(name);
            table.copied_last.clone()
        };
        assert!(key("part").starts_with("select \"message_id\", \"position\" from"), "{}", key("part"));
        assert!(key("window").starts_with("select \"session_id\", \"revision\" from"));
        assert!(tables.iter().all(|table| !table.name.starts_with("search") || table.name == "search_progress"));
        for name in OF_LOG {
            key(name);
        }
    }

    /// Postings come in the order of words and rows, in pages of any size, and without those of removed rows.
    #[test]
    fn the_postings_of_words_are_read_in_pages() {
        let conn = migrated();
        for row in 1..=40 {
            let words = format!("1_all 1_w{} 1_w{}", row % 7, row % 3);
            query("insert into search (rowid, words) values (?1, ?2)").bind(row).bind(words).run(&conn).expect("added");
        }
        conn.execute_batch("delete from search where rowid in (3, 21)").expect("removed");
        query("insert or replace into search (rowid, words) values (6, ?1)")
            .bind("1_other")
            .run(&conn)
            .expect("replaced");
        conn.execute_batch(VOCABULARY).expect("a table");
        let all = |sql: &str| -> Vec<(String, i64)> {
            let rows = query(sql).all(&conn).expect("rows");
            rows.iter().map(|row| (row.get(0).expect("a word"), row.get(1).expect("a row"))).collect()
        };
        let mut expected: Vec<(String, i64)> = Vec::new();
        for row in (1..=40).filter(|row| ![3, 6, 21].contains(row)) {
            let mut words = vec!["1_all".to_owned(), format!("1_w{}", row % 7), format!("1_w{}", row % 3)];
            words.dedup();
            expected.extend(words.into_iter().map(|word| (word, row)));
        }
        expected.push(("1_other".to_owned(), 6));
        expected.sort();
        expected.dedup();
        assert_eq!(all("select term, doc from temp.posting"), expected);
        let mut found: Vec<(String, i64)> = Vec::new();
        let next = "select term, doc from temp.posting where term >= ?1 and (term > ?1 or doc > ?2) limit +?3";
        loop {
            let (term, doc) = found.last().cloned().unwrap_or_default();
            let rows = query(next).bind(term).bind(doc).bind(4_i64).all(&conn).expect("rows");
            if rows.is_empty() {
                break;
            }
            found.extend(rows.iter().map(|row| (row.get(0).expect("a word"), row.get(1).expect("a row"))));
        }
        assert_eq!(found, expected);
    }
}
