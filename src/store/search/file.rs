//! The index in SQLite's FTS5: all of its SQL.
//!
//! Each tenant has a table of words of its own, so that nothing of one tenant is counted in the ranking of another. The
//! tables keep neither texts nor columns, only words that were cut before, in three columns: whole words, pieces of
//! names, and words for what a search is restricted by, whose weight is nothing.

use super::forgotten::Forgotten;
use super::source::{EntryKind, Unindexed};
use super::wanted::{Entry, Found, OwnRange, Phrase, Wanted};
use crate::limits;
use crate::model::Seq;
use crate::model::compaction::RevisionRange;
use crate::model::message::Role;
use crate::store::engine::{self, Connection, Reader};
use crate::store::error::{Error, Result};
use crate::store::ledger::head::SessionKey;
use std::fmt::Write as _;
use uuid::Uuid;

/// The version of the index's form and of the words in it: an index of another version is made anew.
const VERSION: i64 = 1;

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
    name text not null unique
) strict;
-- The entries: closed parts, numbered in the order in which they came.
create table entry (
    id integer primary key,                         -- the row of its words
    tenant integer not null,
    session integer not null,                       -- key of the session in the store
    message integer not null,                       -- revision of the message
    number integer not null,                        -- of the part in the message
    time integer not null                           -- when it was written, elsewhere or here: microseconds since 1970
) strict;
create index entry_part on entry (session, message, number);
";

const IS_VERSION: &str = "pragma user_version";
const PROGRESS: &str = "select store, seq, hash from progress";
const SET_PROGRESS: &str = "insert into progress (id, store, seq, hash) values (1, ?1, ?2, ?3) \
     on conflict (id) do update set store = excluded.store, seq = excluded.seq, hash = excluded.hash";
const TENANT: &str = "select id from tenant where name = ?1";
const ADD_TENANT: &str = "insert into tenant (name) values (?1) returning id";
const ADD_ENTRY: &str =
    "insert into entry (tenant, session, message, number, time) values (?1, ?2, ?3, ?4, ?5) returning id";
const HAS_ENTRY: &str = "select 1 from entry where session = ?1 and message = ?2 and number = ?3";
const LAST_ENTRY: &str = "select coalesce(max(id), 0) from entry";
const OF_MESSAGES: &str = "select id, tenant from entry where session = ?1 and message between ?2 and ?3 limit +?4";
const OF_PART: &str = "select id, tenant from entry where session = ?1 and message = ?2 and number = ?3";
const REMOVE_ENTRY: &str = "delete from entry where id = ?1";

/// Entries that are removed in one commit.
const REMOVED_TOGETHER: i64 = 256;
/// Pages of the index that are merged in one commit.
const MERGED_PAGES: i64 = 512;
/// Weight of a whole word, and of a piece of a name, in the ranking.
const WEIGHTS: &str = "1.0, 0.5, 0.0";

/// In the numbers of FTS5's pages, bits of the page within its segment, and all below those of the segment.
const PAGE_MASK: i64 = (1 << 31) - 1;
/// See above.
const SEGMENT_BITS: u32 = 37;

/// The table of a tenant's words.
fn table(tenant: i64) -> String {
    format!("words_{tenant}")
}

/// All of a change or nothing.
fn transaction<T>(conn: &Connection, change: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
    let transaction = conn.transaction()?;
    let changed = change(&transaction)?;
    transaction.commit()?;
    Ok(changed)
}

/// How far an index is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) store: Uuid,
    pub(super) seq: Seq,
    pub(super) hash: Vec<u8>,
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
pub(super) fn add(conn: &Connection, progress: &Progress, entries: &[(Unindexed, [String; 2])]) -> Result<()> {
    transaction(conn, |conn| {
        for (entry, [whole, pieces]) in entries {
            add_one(conn, entry, whole, pieces)?;
        }
        let store = progress.store.as_bytes().to_vec();
        engine::query(SET_PROGRESS).bind(store).bind(progress.seq).bind(&progress.hash).run(conn)
    })
}

fn add_one(conn: &Connection, entry: &Unindexed, whole: &str, pieces: &str) -> Result<()> {
    let place = |sql| engine::query(sql).bind(entry.owner.0).bind(entry.message).bind(entry.number);
    if place(HAS_ENTRY).optional(conn)?.is_some() {
        return Ok(());
    }
    let tenant = match engine::scalar::<i64>(TENANT).bind(&*entry.tenant).optional(conn)? {
        Some(tenant) => tenant,
        None => add_tenant(conn, &entry.tenant)?,
    };
    let added = engine::scalar::<i64>(ADD_ENTRY).bind(tenant).bind(entry.owner.0).bind(entry.message);
    let id = added.bind(entry.number).bind(entry.time.0).one(conn)?;
    let insert = format!("insert into {} (rowid, whole, pieces, scope) values (?1, ?2, ?3, ?4)", table(tenant));
    engine::query(&insert).bind(id).bind(whole).bind(pieces).bind(scope(entry)).run(conn)
}

fn add_tenant(conn: &Connection, name: &str) -> Result<i64> {
    let id = engine::scalar::<i64>(ADD_TENANT).bind(name).one(conn)?;
    // Words that were cut before are separated by blanks; phrases need their positions (`detail`).
    conn.execute_batch(&format!(
        "create virtual table {} using fts5 (whole, pieces, scope, content = '', contentless_delete = 1, \
         detail = full, tokenize = \"ascii tokenchars '_'\")",
        table(id)
    ))?;
    Ok(id)
}

/// The words by which searches are restricted. The ranking counts them for the length of a part, so that all parts have
/// as many: `x` stands for one that a part has not. Only those of sessions below others have some more.
fn scope(entry: &Unindexed) -> String {
    let tool = entry.tool.as_ref().map_or_else(|| "x".to_owned(), |tool| format!("t{tool}"));
    let left_out = match (entry.is_derived, entry.kind) {
        (true, _) => "derived",
        (false, EntryKind::Record) => "record",
        (false, _) => "x",
    };
    let mut words = format!("s{} r{} p{} {tool} {left_out}", entry.owner.0, role(entry.role), entry.kind as i32);
    let above: Vec<_> = entry.above.iter().filter(|above| **above != entry.owner).collect();
    for above in above.iter().take(limits::SEARCH_ABOVE_MAX) {
        // Writing to a string cannot fail.
        let _ = write!(words, " u{}", above.0);
    }
    if above.len() > limits::SEARCH_ABOVE_MAX {
        words.push_str(" deep");
    }
    words
}

const ROLES: [Role; 4] = [Role::User, Role::Assistant, Role::Tool, Role::System];

fn role(role: Role) -> u8 {
    match role {
        Role::User => 1,
        Role::Assistant => 2,
        Role::Tool => 3,
        Role::System => 4,
    }
}

/// Any of some words in the column of restrictions.
fn any(words: impl IntoIterator<Item = String>) -> Option<String> {
    let words: Vec<String> = words.into_iter().map(|word| format!("\"{word}\"")).collect();
    (!words.is_empty()).then(|| format!("(scope : ({}))", words.join(" OR ")))
}

/// A search in the language of FTS5. Nothing in it comes from a caller but words without any of its signs.
fn expression(wanted: &Wanted, phrases: &[&Phrase]) -> Result<String> {
    let phrases: Vec<String> = phrases.iter().map(|words| phrase(words)).collect::<Result<_>>()?;
    let owners: Vec<&OwnRange> = wanted.ranges.iter().take(limits::SEARCH_RANGES_MAX + 1).collect();
    let has_few_owners = owners.len() <= limits::SEARCH_RANGES_MAX;
    let below = wanted.below.into_iter();
    let below = below.flat_map(|above| [format!("s{}", above.0), format!("u{}", above.0), "deep".to_owned()]);
    let restrictions = [
        any(owners.into_iter().filter(|_| has_few_owners).map(|range| format!("s{}", range.owner.0))),
        any(below),
        any(wanted.roles.iter().map(|wanted| format!("r{}", role(*wanted)))),
        any(wanted.kinds.iter().map(|kind| format!("p{}", *kind as i32))),
        any(wanted.tools.iter().map(|tool| format!("t{tool}"))),
    ];
    let mut all: Vec<String> = phrases.into_iter().chain(restrictions.into_iter().flatten()).collect();
    if all.is_empty() {
        // Every entry has one of these.
        all.extend(any(ROLES.map(|wanted| format!("r{}", role(wanted)))));
    }
    let mut expression = all.join(" AND ");
    let left_out = [(wanted.derived, "derived"), (wanted.records, "record")];
    if let Some(left_out) = any(left_out.iter().filter(|(is_wanted, _)| !is_wanted).map(|(_, word)| (*word).to_owned()))
    {
        expression = format!("({expression}) NOT {left_out}");
    }
    Ok(expression)
}

fn phrase(phrase: &Phrase) -> Result<String> {
    let is_word = |word: &String| {
        let is_safe = |character: char| character == '_' || !character.is_ascii() || character.is_ascii_alphanumeric();
        !word.is_empty() && word.chars().all(is_safe)
    };
    if phrase.whole.is_empty() || !phrase.whole.iter().chain(&phrase.pieces).all(is_word) {
        return Err(Error::Bug("a search has a word that is none"));
    }
    let star = if phrase.is_prefix { " *" } else { "" };
    let columns = if phrase.whole.len() == 1 { "{whole pieces}" } else { "whole" };
    let whole = format!("{columns} : \"{}\"{star}", phrase.whole.join(" "));
    Ok(match phrase.pieces.is_empty() {
        true => format!("({whole})"),
        false => format!("(({whole}) OR (pieces : \"{}\"{star}))", phrase.pieces.join(" ")),
    })
}

/// About the pages of an index's lists that a search for words reads: FTS5 reads the lists of all words with a beginning
/// whole, whatever they are found with, and once more to rank. FTS5 has the first word of each page.
fn list_pages(conn: &Connection, words: &str, phrase: &Phrase) -> Result<i64> {
    let segment = format!("select min(segid) from {words}_idx where segid > ?1");
    let before =
        format!("select pgno >> 1 from {words}_idx where segid = ?1 and term <= ?2 order by term desc limit 1");
    let behind = format!("select pgno >> 1 from {words}_idx where segid = ?1 and term >= ?2 order by term limit 1");
    let last = format!("select coalesce(max(id), 0) & {PAGE_MASK} from {words}_data where id between ?1 and ?2");
    let mut terms: Vec<(&String, bool)> = phrase.whole.iter().map(|word| (word, false)).collect();
    terms.last_mut().into_iter().for_each(|(_, may_go_on)| *may_go_on = phrase.is_prefix);
    terms.extend(phrase.pieces.iter().map(|word| (word, false)));
    let (mut pages, mut of) = (0, -1);
    while let Some(next) = engine::scalar::<Option<i64>>(&segment).bind(of).one(conn)? {
        of = next;
        for (word, may_go_on) in &terms {
            let from: Vec<u8> = [b"0", word.as_bytes()].concat();
            let to = [&from[..], if *may_go_on { &[u8::MAX] } else { &[0] }].concat();
            let first = engine::scalar::<i64>(&before).bind(of).bind(from).optional(conn)?.unwrap_or(1);
            let end = match engine::scalar::<i64>(&behind).bind(of).bind(to).optional(conn)? {
                Some(end) => end,
                None => {
                    let ids = of << SEGMENT_BITS;
                    engine::scalar::<i64>(&last).bind(ids).bind(ids | PAGE_MASK).one(conn)?
                }
            };
            pages += (end - first).max(0) + 1;
        }
    }
    Ok(pages)
}

/// The terms by which the index is searched: the rarest, as many as its bound allows.
fn affordable<'w>(conn: &Connection, words: &str, phrases: &'w [Phrase], pages: i64) -> Result<Vec<&'w Phrase>> {
    let priced = phrases.iter().map(|phrase| Ok((list_pages(conn, words, phrase)?, phrase)));
    let mut rarest: Vec<(i64, &Phrase)> = priced.collect::<Result<_>>()?;
    rarest.sort_by_key(|(pages, _)| *pages);
    let mut left = pages;
    let affordable = rarest.into_iter().take_while(|(pages, _)| {
        left -= pages;
        left >= 0
    });
    Ok(affordable.map(|(_, phrase)| phrase).collect())
}

/// Finds entries: the newest that match, up to a maximum, are ranked. Of the index's lists, about this number of pages is
/// read at most. If no term is rare enough for that, the entries are the newest ones.
pub(super) fn find(reader: &mut Reader<'_>, wanted: &Wanted, pages: i64) -> Result<Found> {
    let conn = reader.conn;
    let last: i64 = match wanted.upto {
        Some(upto) => upto,
        None => engine::scalar(LAST_ENTRY).one(conn)?,
    };
    let Some(tenant) = engine::scalar::<i64>(TENANT).bind(&*wanted.tenant).optional(conn)? else {
        return Ok(Found { upto: last, ..Found::default() });
    };
    let words = table(tenant);
    let has_times = wanted.since.is_some() || wanted.until.is_some();
    // Times do not rise with the numbers: an import has old ones.
    let at_times = match has_times {
        true => {
            format!("and exists (select 1 from entry t where t.id = {words}.rowid and t.time >= ?6 and t.time < ?7)")
        }
        false => String::new(),
    };
    let phrases = affordable(conn, &words, &wanted.phrases, pages)?;
    let may_lack_terms = phrases.len() < wanted.phrases.len();
    let score = if phrases.is_empty() { "0.0".to_owned() } else { format!("bm25({words}, {WEIGHTS})") };
    let statement = format!(
        "select f.id, f.found, e.session, e.message, e.number from \
         (select id, score, count(*) over () as found from \
         (select rowid as id, {score} as score from {words} \
         where {words} match ?1 and rowid <= ?2 {at_times} order by rowid desc limit ?3) \
         order by score, id desc limit ?4 offset ?5) f join entry e on e.id = f.id order by f.score, f.id desc"
    );
    let most = limits::SEARCH_MATCHES_MAX;
    let query = engine::query(&statement).bind(expression(wanted, &phrases)?).bind(last).bind(most);
    let mut query = query.bind(wanted.limit).bind(wanted.offset);
    if has_times {
        let first = wanted.since.map_or(i64::MIN, |since| since.0);
        query = query.bind(first).bind(wanted.until.map_or(i64::MAX, |until| until.0));
    }
    let mut found = Found { upto: last, is_cut: may_lack_terms, may_lack_terms, ..Found::default() };
    for row in reader.all(query)? {
        found.is_cut |= row.get::<i64>(1)? >= most;
        let owner = SessionKey(row.get(2)?);
        found.entries.push(Entry { id: row.get(0)?, owner, message: row.get(3)?, number: row.get(4)? });
    }
    Ok(found)
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
                engine::query(REMOVE_ENTRY).bind(id).run(conn)?;
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

#[cfg(test)]
mod tests;
