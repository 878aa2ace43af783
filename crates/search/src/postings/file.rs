//! The index in SQLite's FTS5: what is in it and how that changes.
//!
//! Each tenant has a table of words of its own, so that nothing of one tenant is counted in the ranking of another. The
//! tables keep neither texts nor columns, only words that were cut before, in four columns: whole words, pieces of
//! names, stems, and words for what a search is restricted by. A table beside it, which takes no space, has the places of
//! each word.

use super::find::role_number;
use super::lists::{places, table};
use crate::engine::{self, Connection};
use crate::error::{Error, Result};
use crate::forgotten::Forgotten;
use crate::limits;
use crate::model::compaction::RevisionRange;
use crate::model::session::SessionKey;
use crate::part::Part;
use crate::progress::Progress;
use crate::words::{self, Words};
use std::fmt::Write as _;
use uuid::Uuid;

/// The version of the index's form and of the words in it: an index of another version is made anew.
const VERSION: i64 = 2;

const SCHEMA: &str = "
-- How far the index is: one row.
create table progress (
    id integer primary key check (id = 1),
    store blob not null,                            -- public id of the store
    seq integer not null,                           -- the newest event that is in the index
    hash blob not null                              -- of that event; empty before the first
) strict;
-- The tenants; the words of one are in the table `words_` with its id.
create table tenant (
    id integer primary key,
    name text not null unique,
    parts integer not null default 0,               -- its entries
    words integer not null default 0                -- of all of them
) strict;
-- The entries: closed parts, numbered in the order in which they came.
create table entry (
    id integer primary key,                         -- the row of its words
    tenant integer not null,
    session integer not null,                       -- key of the session in the store
    message integer not null,                       -- revision of the message
    number integer not null,                        -- of the part in the message
    time integer not null,                          -- when it was written, elsewhere or here: microseconds since 1970
    role integer not null,                          -- of the message
    kind integer not null,                          -- of the part
    derived integer not null,                       -- 1 if Longhand derived the message
    words integer not null                          -- whole words
) strict;
create index entry_part on entry (session, message, number);
";

const IS_VERSION: &str = "pragma user_version";
const PROGRESS: &str = "select store, seq, hash from progress";
const SET_PROGRESS: &str = "insert into progress (id, store, seq, hash) values (1, ?1, ?2, ?3) \
     on conflict (id) do update set store = excluded.store, seq = excluded.seq, hash = excluded.hash";
const TENANT: &str = "select id from tenant where name = ?1";
const ADD_TENANT: &str = "insert into tenant (name) values (?1) returning id";
const ADD_ENTRY: &str = "insert into entry (tenant, session, message, number, time, role, kind, derived, words) \
     values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) returning id";
const COUNT: &str = "update tenant set parts = parts + ?2, words = words + ?3 where id = ?1";
const HAS_ENTRY: &str = "select 1 from entry where session = ?1 and message = ?2 and number = ?3";
const OF_MESSAGES: &str = "select id, tenant from entry where session = ?1 and message between ?2 and ?3 limit +?4";
const OF_PART: &str = "select id, tenant from entry where session = ?1 and message = ?2 and number = ?3";
const REMOVE_ENTRY: &str = "delete from entry where id = ?1 returning words";

/// Entries that are removed in one commit.
const REMOVED_TOGETHER: i64 = 256;
/// Pages of the index that are merged in one commit.
const MERGED_PAGES: i64 = 512;

/// All of a change or nothing.
fn transaction<T>(conn: &Connection, change: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
    let transaction = conn.transaction()?;
    let changed = change(&transaction)?;
    transaction.commit()?;
    Ok(changed)
}

/// Makes the tables of a new index. False for an index of another version.
pub(super) fn prepare(conn: &Connection) -> Result<bool> {
    let version: i64 = engine::scalar(IS_VERSION).one(conn)?;
    if version == VERSION {
        return Ok(true);
    }
    let has_tables: i64 = engine::scalar("select count(*) from sqlite_master").one(conn)?;
    if version != 0 || has_tables > 0 {
        return Ok(false);
    }
    transaction(conn, |conn| {
        conn.execute_batch(SCHEMA)?;
        conn.execute_batch(&format!("pragma user_version = {VERSION}"))
    })?;
    Ok(true)
}

/// How far the index is; none for a new one.
pub(super) fn progress(conn: &Connection) -> Result<Option<Progress>> {
    let Some(row) = engine::query(PROGRESS).optional(conn)? else { return Ok(None) };
    let store = Uuid::from_slice(row.get(0)?).map_err(|error| Error::corrupt("progress", error))?;
    Ok(Some(Progress { store, seq: row.get(1)?, hash: row.get(2)? }))
}

/// Adds entries with their words and sets the progress, in one commit.
pub(super) fn add(conn: &Connection, progress: &Progress, entries: &[(Part, Words)]) -> Result<()> {
    transaction(conn, |conn| {
        for (entry, words) in entries {
            add_one(conn, entry, words)?;
        }
        let store = progress.store.as_bytes().to_vec();
        engine::query(SET_PROGRESS).bind(store).bind(progress.seq).bind(&progress.hash).run(conn)
    })
}

fn add_one(conn: &Connection, entry: &Part, words: &Words) -> Result<()> {
    let place = |sql| engine::query(sql).bind(entry.owner.0).bind(entry.message).bind(entry.number);
    if place(HAS_ENTRY).optional(conn)?.is_some() {
        return Ok(());
    }
    let tenant = match engine::scalar::<i64>(TENANT).bind(&*entry.tenant).optional(conn)? {
        Some(tenant) => tenant,
        None => add_tenant(conn, &entry.tenant)?,
    };
    let added = engine::scalar::<i64>(ADD_ENTRY).bind(tenant).bind(entry.owner.0).bind(entry.message);
    let added = added.bind(entry.number).bind(entry.time.0).bind(role_number(entry.role)).bind(entry.kind as i64);
    let id = added.bind(i64::from(entry.is_derived)).bind(i64::from(words.count)).one(conn)?;
    engine::query(COUNT).bind(tenant).bind(1_i64).bind(i64::from(words.count)).run(conn)?;
    let table = table(tenant);
    let insert = format!("insert into {table} (rowid, whole, pieces, stems, scope) values (?1, ?2, ?3, ?4, ?5)");
    let added = engine::query(&insert).bind(id).bind(words.whole.as_str()).bind(words.pieces.as_str());
    added.bind(words.stems.as_str()).bind(scope(entry)).run(conn)
}

fn add_tenant(conn: &Connection, name: &str) -> Result<i64> {
    let id = engine::scalar::<i64>(ADD_TENANT).bind(name).one(conn)?;
    // Words that were cut before are separated by blanks; phrases need their positions (`detail`).
    conn.execute_batch(&format!(
        "create virtual table {words} using fts5 (whole, pieces, stems, scope, content = '', contentless_delete = 1, \
         detail = full, tokenize = \"ascii tokenchars '_'\"); \
         create virtual table {places} using fts5vocab ({words}, 'instance')",
        words = table(id),
        places = places(id)
    ))?;
    Ok(id)
}

/// The words by which searches are restricted: those of its session, of the sessions above it and of its tool.
fn scope(entry: &Part) -> String {
    let mut scope = format!("s{}", entry.owner.0);
    // Writing to a string cannot fail.
    if let Some(tool) = &entry.tool {
        let _ = write!(scope, " t{}", words::tool(tool));
    }
    let above: Vec<_> = entry.above.iter().filter(|above| **above != entry.owner).collect();
    for above in above.iter().take(limits::SEARCH_ABOVE_MAX) {
        let _ = write!(scope, " u{}", above.0);
    }
    if above.len() > limits::SEARCH_ABOVE_MAX {
        scope.push_str(" deep");
    }
    scope
}

/// Removes entries. Returns their number. Their words are in the file until the tenant's are merged.
pub(super) fn forget(conn: &Connection, owner: SessionKey, what: Forgotten) -> Result<u64> {
    let mut removed = 0;
    loop {
        let query = match what {
            Forgotten::Messages(RevisionRange { first, last }) => {
                engine::query(OF_MESSAGES).bind(owner.0).bind(first).bind(last).bind(REMOVED_TOGETHER)
            }
            Forgotten::Part(message, number) => engine::query(OF_PART).bind(owner.0).bind(message).bind(number),
        };
        let rows = query.all(conn)?;
        if rows.is_empty() {
            break;
        }
        transaction(conn, |conn| {
            for row in &rows {
                let (id, tenant): (i64, i64) = (row.get(0)?, row.get(1)?);
                let words = engine::scalar::<i64>(REMOVE_ENTRY).bind(id).one(conn)?;
                engine::query(COUNT).bind(tenant).bind(-1_i64).bind(-words).run(conn)?;
                engine::query(&format!("delete from {} where rowid = ?1", table(tenant))).bind(id).run(conn)?;
            }
            Ok(())
        })?;
        removed += rows.len() as u64;
    }
    Ok(removed)
}

/// Merges all of a tenant's words into one list, without those of entries that were removed: FTS5 itself only notes that
/// they are gone. Freed pages are zeroed.
pub(super) fn merge(conn: &Connection, tenant: &str) -> Result<()> {
    let Some(tenant) = engine::scalar::<i64>(TENANT).bind(tenant).optional(conn)? else { return Ok(()) };
    let words = table(tenant);
    let statement = format!("insert into {words} ({words}, rank) values ('merge', -{MERGED_PAGES})");
    loop {
        let before = conn.total_changes()?;
        engine::query(&statement).run(conn)?;
        if conn.total_changes()? - before < 2 {
            return Ok(());
        }
    }
}
