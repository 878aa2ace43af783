//! The tables of the index, and how they change.
//!
//! Each commit adds a segment: lists of the words of its entries, in blocks. Neighbouring segments of about one size become
//! one, up to a size, so that a word is looked for in few of them, and what is erased concerns one of them.
//!
//! How many there are at most follows from `next_join`. A segment is closed if it does not fit into one with the next: as
//! the next only grows, it stays so. Of all bytes each is in two such pairs at most, so there are two closed segments for
//! each largest size of bytes. The others are fewer than `SEGMENTS_JOINED` for each level that the newest segment can
//! have: when it has a level, no more are left of what is not higher, and until it has it again, only closed ones come to
//! that level. A newest segment of a level has all of `SEGMENTS_JOINED` of the level below, so levels rise with the
//! logarithm of the commits. An erasure makes segments smaller, and leaves their number as it is. An index that is behind
//! waits for `SEGMENTS_BEHIND` in place of `SEGMENTS_JOINED`, so that most of what it adds is joined once.

use super::batch::Batch;
use super::block::{Blocks, Entries, List, Record, Records};
use super::entries::{self, KnownEntry, ROW_ENTRIES};
use crate::engine::{self, Connection};
use crate::error::{Error, Result};
use crate::progress::Progress;
use std::collections::BTreeMap;
use std::ops::Range;
use uuid::Uuid;

/// The version of the index's form and of the words in it: an index of another version is made anew.
const VERSION: i64 = 3;

const SCHEMA: &str = "
-- How far the index is: one row.
create table progress (
    id integer primary key check (id = 1),
    store blob not null,                            -- public id of the store
    seq integer not null,                           -- the newest event that is in the index
    hash blob not null                              -- of that event; empty before the first
) strict;
-- The tenants: what is counted of one is nothing of another.
create table tenant (
    id integer primary key,
    name text not null unique,
    parts integer not null default 0,               -- its entries
    words integer not null default 0                -- of all of them
) strict;
-- Some entries each, closed parts, in the order in which they came.
create table entries (
    first integer primary key,
    data blob not null
) strict;
-- The words of entries that came one after the other.
create table segment (
    first integer primary key,                      -- its first entry
    last integer not null,
    number integer not null unique,                 -- by which its blocks are found
    level integer not null,                         -- how often its entries were put into a larger segment
    bytes integer not null                          -- of its blocks
) strict;
-- Lists of words, in the order of their keys.
create table block (
    id integer primary key,
    segment integer not null,
    start blob not null,                            -- the key with which it begins
    data blob not null
) strict;
create unique index block_start on block (segment, start);
";

const IS_VERSION: &str = "pragma user_version";
const PROGRESS: &str = "select store, seq, hash from progress";
const SET_PROGRESS: &str = "insert into progress (id, store, seq, hash) values (1, ?1, ?2, ?3) \
     on conflict (id) do update set store = excluded.store, seq = excluded.seq, hash = excluded.hash";
const TENANT: &str = "select id from tenant where name = ?1";
const ADD_TENANT: &str = "insert into tenant (name) values (?1) returning id";
const COUNT: &str = "update tenant set parts = parts + ?2, words = words + ?3 where id = ?1";
const ADD_ENTRIES: &str = "insert into entries (first, data) values (?1, ?2)";
const REMOVE_ENTRIES: &str = "delete from entries where first between ?1 and ?2";
const ENTRIES: &str = "select data from entries where first between ?1 and ?2 order by first";
const SEGMENTS: &str = "select first, last, number, level, bytes from segment order by first";
const NEXT_NUMBER: &str = "select coalesce(max(number), 0) + 1 from segment";
const ADD_SEGMENT: &str = "insert into segment (first, last, number, level, bytes) values (?1, ?2, ?3, ?4, ?5)";
const REMOVE_SEGMENT: &str = "delete from segment where number = ?1";
const ADD_BLOCK: &str = "insert into block (segment, start, data) values (?1, ?2, ?3)";
const REMOVE_BLOCKS: &str = "delete from block where segment = ?1";
const BLOCKS: &str = "select data from block where segment = ?1 order by start";

/// Segments of a level that become one of the next.
const SEGMENTS_JOINED: usize = 8;
/// The same while more is to come at once.
const SEGMENTS_BEHIND: usize = 64;
/// The largest segment, in bytes: they are in memory when they are joined, and written anew when something in them is
/// erased.
const SEGMENT_BYTES_MAX: i64 = 16 * 1024 * 1024;

/// All of a change or nothing.
fn transaction<T>(conn: &Connection, change: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
    let transaction = conn.transaction()?;
    let changed = change(&transaction)?;
    transaction.commit()?;
    Ok(changed)
}

/// The words of entries that came one after the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    pub(super) first: i64,
    pub(super) last: i64,
    /// By which its blocks are found.
    pub(super) number: i64,
    level: i64,
    bytes: i64,
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

/// The segments, in the order of their entries.
pub(super) fn segments(conn: &Connection) -> Result<Vec<Segment>> {
    let mut segments = Vec::new();
    for row in engine::query(SEGMENTS).all(conn)? {
        segments.push(Segment {
            first: row.get(0)?,
            last: row.get(1)?,
            number: row.get(2)?,
            level: row.get(3)?,
            bytes: row.get(4)?,
        });
    }
    Ok(segments)
}

/// The number of a tenant.
pub(super) fn tenant(conn: &Connection, name: &str) -> Result<Option<u32>> {
    engine::scalar::<u32>(TENANT).bind(name).optional(conn)
}

/// Adds the parts of a batch and sets the progress, in one commit.
pub(super) fn add(conn: &Connection, progress: &Progress, batch: &mut Batch) -> Result<()> {
    transaction(conn, |conn| {
        if !batch.entries.is_empty() {
            add_entries(conn, batch)?;
        }
        let store = progress.store.as_bytes().to_vec();
        engine::query(SET_PROGRESS).bind(store).bind(progress.seq).bind(&progress.hash).run(conn)
    })
}

fn add_entries(conn: &Connection, batch: &mut Batch) -> Result<()> {
    let mut tenants = Vec::new();
    for name in &batch.tenants {
        tenants.push(match tenant(conn, name)? {
            Some(tenant) => tenant,
            None => engine::scalar(ADD_TENANT).bind(&**name).one(conn)?,
        });
    }
    let first = segments(conn)?.last().map_or(1, |newest| newest.last + 1);
    for entry in &mut batch.entries {
        entry.id += first;
        entry.tenant = tenants[entry.tenant as usize];
    }
    count(conn, &batch.entries, 1)?;
    write_entries(conn, &batch.entries)?;
    let last = first + batch.entries.len() as i64 - 1;
    write_segment(conn, (first, last), 0, |write| batch.write(&tenants, first, write))
}

/// Counts entries and their words, or no longer.
fn count(conn: &Connection, entries: &[KnownEntry], sign: i64) -> Result<()> {
    let mut counted: BTreeMap<u32, (i64, i64)> = BTreeMap::new();
    for entry in entries {
        let of = counted.entry(entry.tenant).or_default();
        *of = (of.0 + sign, of.1 + sign * i64::from(entry.words));
    }
    for (tenant, (parts, words)) in counted {
        engine::query(COUNT).bind(tenant).bind(parts).bind(words).run(conn)?;
    }
    Ok(())
}

fn write_entries(conn: &Connection, entries: &[KnownEntry]) -> Result<()> {
    for row in entries.chunks(ROW_ENTRIES) {
        engine::query(ADD_ENTRIES).bind(row[0].id).bind(entries::encode(row)).run(conn)?;
    }
    Ok(())
}

pub(super) fn entries_of(conn: &Connection, segment: &Segment) -> Result<Vec<KnownEntry>> {
    let mut entries = Vec::new();
    for row in engine::query(ENTRIES).bind(segment.first).bind(segment.last).all(conn)? {
        entries.extend(entries::decode(row.get(0)?)?);
    }
    Ok(entries)
}

/// Writes a segment with these first and last entries; `fill` is given what takes its blocks.
fn write_segment(
    conn: &Connection,
    (first, last): (i64, i64),
    level: i64,
    fill: impl FnOnce(&mut dyn FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()>,
) -> Result<()> {
    let number: i64 = engine::scalar(NEXT_NUMBER).one(conn)?;
    let mut bytes = 0;
    fill(&mut |start, data| {
        bytes += data.len() as i64;
        engine::query(ADD_BLOCK).bind(number).bind(start).bind(data).run(conn)
    })?;
    engine::query(ADD_SEGMENT).bind(first).bind(last).bind(number).bind(level).bind(bytes).run(conn)
}

/// Puts the newest segments together until few of them have one level, with a commit for each.
pub(super) fn join(conn: &Connection, is_behind: bool) -> Result<()> {
    loop {
        let segments = segments(conn)?;
        let Some((joined, level)) = next_join(&segments, is_behind) else { return Ok(()) };
        transaction(conn, |conn| rewrite(conn, &segments[joined], level, &[]))?;
    }
}

/// The segments that are to become one, and its level; none if there are few enough.
fn next_join(segments: &[Segment], is_behind: bool) -> Option<(Range<usize>, i64)> {
    let level = segments.last()?.level;
    // Lower ones stand before it where they did not fit: what is before them would be left alone otherwise.
    let upto_level = segments.iter().rev().take_while(|segment| segment.level <= level).count();
    let mut begin = segments.len() - upto_level;
    // What does not fit together with its next one never will.
    while let [one, next, ..] = &segments[begin..]
        && one.bytes + next.bytes > SEGMENT_BYTES_MAX
    {
        begin += 1;
    }
    if segments.len() - begin < if is_behind { SEGMENTS_BEHIND } else { SEGMENTS_JOINED } {
        return None;
    }
    let mut bytes = 0;
    let fitting = segments[begin..].iter().take_while(|segment| {
        bytes += segment.bytes;
        bytes <= SEGMENT_BYTES_MAX
    });
    Some((begin..begin + fitting.count(), level + 1))
}

/// Removes entries from a segment, in one commit.
pub(super) fn remove(conn: &Connection, segment: &Segment, removed: &[i64]) -> Result<()> {
    transaction(conn, |conn| rewrite(conn, &[*segment], segment.level, removed))
}

/// Makes one segment of neighbours, without some entries, which are given in the order of their numbers.
fn rewrite(conn: &Connection, segments: &[Segment], level: i64, removed: &[i64]) -> Result<()> {
    let (Some(oldest), Some(newest)) = (segments.first(), segments.last()) else { return Ok(()) };
    let (mut known, mut blocks) = (Vec::new(), Vec::new());
    for segment in segments {
        known.extend(entries_of(conn, segment)?);
        let rows = engine::query(BLOCKS).bind(segment.number).all(conn)?;
        blocks.push(rows.iter().map(|row| row.get::<Vec<u8>>(0)).collect::<Result<Vec<_>>>()?);
    }
    // What is written first goes to the pages that become free.
    for segment in segments {
        engine::query(REMOVE_BLOCKS).bind(segment.number).run(conn)?;
        engine::query(REMOVE_SEGMENT).bind(segment.number).run(conn)?;
    }
    let is_removed = |entry: &KnownEntry| removed.binary_search(&entry.id).is_ok();
    let (gone, kept): (Vec<KnownEntry>, Vec<KnownEntry>) = known.into_iter().partition(is_removed);
    engine::query(REMOVE_ENTRIES).bind(oldest.first).bind(newest.last).run(conn)?;
    write_entries(conn, &kept)?;
    count(conn, &gone, -1)?;
    write_segment(conn, (oldest.first, newest.last), level, |write| {
        let mut sources = Vec::new();
        for (segment, blocks) in segments.iter().zip(&blocks) {
            sources.push(Source::begin(segment.first, blocks)?);
        }
        let mut out = Blocks::new(oldest.first, write);
        let (mut list, mut key) = (List::default(), Vec::new());
        // By their next keys, of equals the oldest first.
        let mut order: Vec<usize> = Vec::new();
        for source in (0..sources.len()).rev() {
            put_in_order(&mut order, &sources, source);
        }
        while let Some(first) = order.first().copied() {
            key.clear();
            key.extend_from_slice(sources[first].records.key());
            let having = order.iter().take_while(|source| sources[**source].records.key() == key).count();
            list.begin(oldest.first);
            let taken: Vec<usize> = order.drain(..having).collect();
            for source in &taken {
                sources[*source].take(&key, &mut list, removed, having == 1)?;
            }
            for source in taken.into_iter().rev() {
                put_in_order(&mut order, &sources, source);
            }
            if list.count > 0 {
                out.add(&key, &list)?;
            }
        }
        out.flush()
    })
}

/// Puts a source among others by its next key, unless it is at its end.
fn put_in_order(order: &mut Vec<usize>, sources: &[Source<'_>], source: usize) {
    if sources[source].record.is_some() {
        let key = sources[source].records.key();
        let before = |other: &usize| (sources[*other].records.key(), *other) < (key, source);
        order.insert(order.partition_point(before), source);
    }
}

/// A segment whose records are put into another one.
struct Source<'b> {
    first: i64,
    blocks: std::slice::Iter<'b, Vec<u8>>,
    records: Records<'b>,
    record: Option<Record<'b>>,
}

impl<'b> Source<'b> {
    fn begin(first: i64, blocks: &'b [Vec<u8>]) -> Result<Self> {
        let mut begun = Self { first, blocks: blocks.iter(), records: Records::new(&[]), record: None };
        begun.advance()?;
        Ok(begun)
    }

    /// Adds all that it has of its next key, which is this one, to a list, and goes on behind it. What it has alone is
    /// moved as it is.
    fn take(&mut self, key: &[u8], list: &mut List, removed: &[i64], is_alone: bool) -> Result<()> {
        while let Some(record) = self.record.filter(|_| self.records.key() == key) {
            let mut entries = Entries::new(key, self.first, record.list);
            if is_alone && removed.is_empty() && !self.records.is_last() {
                if let Some(first) = entries.next()? {
                    list.push_all(&first, entries.left(), record.remaining);
                }
                return self.advance();
            }
            while let Some(listed) = entries.next()? {
                if removed.binary_search(&listed.id).is_err() {
                    list.push_listed(&listed);
                }
            }
            self.advance()?;
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<()> {
        loop {
            self.record = self.records.next()?;
            if self.record.is_some() {
                return Ok(());
            }
            match self.blocks.next() {
                Some(block) => self.records = Records::new(block),
                None => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Adds a commit of this size to segments, and joins them.
    fn commit(segments: &mut Vec<Segment>, bytes: i64, is_behind: bool) {
        let at = segments.last().map_or(1, |newest| newest.last + 1);
        segments.push(Segment { first: at, last: at, number: at, level: 0, bytes });
        while let Some((joined, level)) = next_join(segments, is_behind) {
            let (oldest, newest) = (segments[joined.start], segments[joined.end - 1]);
            let bytes = segments[joined.clone()].iter().map(|segment| segment.bytes).sum();
            assert!(joined.len() >= 2 && bytes <= SEGMENT_BYTES_MAX, "{joined:?} of {bytes} bytes");
            segments.splice(joined, [Segment { last: newest.last, level, bytes, ..oldest }]);
        }
    }

    /// The segments that there may be.
    fn segments_max(commits: usize, bytes: i64) -> i64 {
        let levels = 1 + i64::from(commits.max(1).ilog(SEGMENTS_JOINED));
        2 * bytes / SEGMENT_BYTES_MAX + (SEGMENTS_JOINED as i64 - 1) * levels
    }

    /// Commits of one kind, behind or not: small ones, those of an import, and some that are larger than a segment may be.
    fn commits() -> impl Strategy<Value = Vec<(i64, bool)>> {
        let sizes = prop::sample::select(vec![100_i64, 10_000, 1 << 20, 3 << 20, 8 << 20, 9 << 20, 15 << 20, 17 << 20]);
        let run = (sizes, 1..60_usize, any::<bool>()).prop_flat_map(|(size, count, is_behind)| {
            prop::collection::vec((size / 2..=size, Just(is_behind)), 1..=count)
        });
        prop::collection::vec(run, 1..20).prop_map(|runs| runs.concat())
    }

    proptest! {
        #[test]
        fn segments_stay_few_whatever_sizes_come(commits in commits()) {
            let (mut segments, mut bytes) = (Vec::new(), 0);
            for (before, (size, is_behind)) in commits.into_iter().enumerate() {
                commit(&mut segments, size, is_behind);
                bytes += size;
                let more = if is_behind { (SEGMENTS_BEHIND - SEGMENTS_JOINED) as i64 } else { 0 };
                let (count, most) = (segments.len() as i64, segments_max(before + 1, bytes) + more);
                prop_assert!(count <= most, "{count} of {most} after {before} and one: {segments:?}");
                prop_assert_eq!(segments.iter().map(|segment| segment.bytes).sum::<i64>(), bytes);
            }
        }
    }

    #[test]
    fn small_commits_are_joined_behind_full_segments() {
        // Two full segments of the level of the small ones, and between them some that were not joined yet.
        let full = [SEGMENT_BYTES_MAX - 1; 2];
        let few = [1_000; 7];
        let commits = full.into_iter().chain(few).chain(full).chain(std::iter::repeat_n(1_000, 20_000));
        let mut segments = Vec::new();
        commits.for_each(|bytes| commit(&mut segments, bytes, false));
        assert!(segments.len() < 50, "{}", segments.len());
    }

    #[test]
    fn small_commits_between_full_segments_are_joined() {
        let (mut segments, mut bytes) = (Vec::new(), 0);
        for at in 0..60 * 40 {
            let size = if at % 60 == 59 { SEGMENT_BYTES_MAX - 1 } else { 1_000 };
            commit(&mut segments, size, false);
            bytes += size;
            assert!(segments.len() as i64 <= segments_max(at + 1, bytes), "{} after {at}", segments.len());
        }
    }
}
