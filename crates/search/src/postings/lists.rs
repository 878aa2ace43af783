//! What the index has of a tenant's words: the entries of a word, of a phrase, of a restriction, and what it costs to read
//! them.

use super::block::{self, Column, Entries, ListedEntry, Records};
use super::entries::{self, KnownEntry};
use super::file::{self, Segment};
use crate::engine::{self, Connection};
use crate::error::{Error, Result};
use crate::limits;
use crate::wanted::{IndexSearch, OwnRange, Phrase};
use std::cell::RefCell;
use std::collections::BTreeMap;

const BLOCK_OF: &str = "select start, data from block where segment = ?1 and start <= ?2 order by start desc limit 1";
const BLOCKS_BEHIND: &str = "select data from block where segment = ?1 and start > ?2 and start < ?3 order by start";
const COUNT_BLOCKS: &str = "select count(*) from block where segment = ?1 and start > ?2 and start < ?3";
const ENTRIES_OF: &str = "select first, data from entries where first <= ?1 order by first desc limit 1";

/// Entries of which each block has about as many, of a word that is common.
const ENTRIES_OF_BLOCK: u64 = 1_000;

/// Entries in the order of their numbers, and how often each has a clue.
pub(super) type List = Vec<(i64, u32)>;

/// The entries that are looked at.
#[derive(Clone, Copy)]
struct Ids<'a> {
    first: i64,
    last: i64,
    /// If only some of them are: these, in the order of their numbers.
    among: Option<&'a [i64]>,
}

impl<'a> Ids<'a> {
    const ALL: Self = Self { first: 0, last: i64::MAX, among: None };

    /// Some entries in a segment; none if none of them is in it.
    fn among(ids: &'a [i64], segment: &Segment) -> Option<Self> {
        let begin = ids.partition_point(|id| *id < segment.first);
        let end = ids.partition_point(|id| *id <= segment.last);
        let here = ids.get(begin..end)?;
        Some(Self { first: *here.first()?, last: *here.last()?, among: Some(here) })
    }

    fn has(&self, id: i64) -> bool {
        (self.first..=self.last).contains(&id) && self.among.is_none_or(|among| among.binary_search(&id).is_ok())
    }
}

/// Where a word is: entries and places in them, ascending.
type Places = Vec<(i64, u32)>;

/// The columns in which a single word is found.
const OF_WORD: [Column; 2] = [Column::Whole, Column::Piece];
/// The columns in which a stem is found.
const OF_STEM: [Column; 3] = [Column::Whole, Column::Piece, Column::Stem];

/// Words in a column, one directly after the other.
struct Sequence<'p> {
    column: Column,
    words: &'p [String],
    /// The last one may go on.
    is_prefix: bool,
}

pub(super) struct TenantWords<'c> {
    conn: &'c Connection,
    tenant: u32,
    segments: Vec<Segment>,
    /// Rows of entries that were read, by their first entry.
    rows: RefCell<BTreeMap<i64, Vec<KnownEntry>>>,
}

impl<'c> TenantWords<'c> {
    pub(super) fn new(conn: &'c Connection, tenant: u32) -> Result<Self> {
        Ok(Self { conn, tenant, segments: file::segments(conn)?, rows: RefCell::default() })
    }

    /// All entries that have a clue.
    pub(super) fn having(&self, clue: &Phrase) -> Result<List> {
        check(clue)?;
        let mut list = List::new();
        for segment in &self.segments {
            list.extend(self.having_in(segment, clue, Ids::ALL)?);
        }
        Ok(list)
    }

    fn having_in(&self, segment: &Segment, clue: &Phrase, ids: Ids<'_>) -> Result<List> {
        if let Some(word) = clue.counted() {
            return self.counted(segment, columns_of(clue), word, ids);
        }
        let mut list = List::new();
        for sequence in sequences(clue) {
            let places = self.places_of(segment, &sequence, ids)?;
            list.extend(places.chunk_by(|one, other| one.0 == other.0).map(|of_entry| (of_entry[0].0, 1)));
        }
        list.sort_unstable();
        list.dedup();
        Ok(list)
    }

    /// The same of a clue whose blocks are many, if it is rare nevertheless: several words are as rare as the rarest of
    /// them. What begins so is never told to be rare.
    pub(super) fn having_few(&self, clue: &Phrase) -> Result<Option<List>> {
        check(clue)?;
        if clue.is_prefix || clue.counted().is_some() {
            return Ok(None);
        }
        for sequence in sequences(clue) {
            if self.rarest(&sequence)? > limits::SEARCH_COUNTED as u64 {
                return Ok(None);
            }
        }
        self.having(clue).map(Some)
    }

    /// About how many entries have a clue.
    pub(super) fn count(&self, clue: &Phrase) -> Result<u64> {
        if let Some(word) = clue.counted() {
            let counts = columns_of(clue).iter().map(|column| self.count_word(*column, word));
            return counts.sum();
        }
        let blocks = || Ok(u64::try_from(self.pages(clue)?).unwrap_or_default().saturating_mul(ENTRIES_OF_BLOCK));
        if clue.is_prefix {
            return blocks();
        }
        sequences(clue).map(|sequence| self.rarest(&sequence)).sum()
    }

    /// How many entries have the rarest word of a sequence.
    fn rarest(&self, sequence: &Sequence<'_>) -> Result<u64> {
        let counts = sequence.words.iter().map(|word| self.count_word(sequence.column, word));
        Ok(counts.collect::<Result<Vec<_>>>()?.into_iter().min().unwrap_or_default())
    }

    fn count_word(&self, column: Column, word: &str) -> Result<u64> {
        let key = block::key(self.tenant, column, word.as_bytes());
        let mut count = 0;
        for segment in &self.segments {
            self.records(segment, &key, None, false, |_, remaining, _| {
                count += remaining;
                Ok(false)
            })?;
        }
        Ok(count)
    }

    /// The entries that have a clue among few entries, in the order of their numbers.
    pub(super) fn having_among(&self, clue: &Phrase, among: &[i64]) -> Result<List> {
        check(clue)?;
        let mut list = List::new();
        for segment in &self.segments {
            if let Some(here) = Ids::among(among, segment) {
                list.extend(self.having_in(segment, clue, here)?);
            }
        }
        Ok(list)
    }

    /// The newest entries that have a word, up to one of them, in the order of their numbers.
    pub(super) fn newest_having(&self, clue: &Phrase, upto: i64, most: usize) -> Result<List> {
        check(clue)?;
        self.newest_of(upto, most, |segment, ids| self.having_in(segment, clue, ids))
    }

    /// The newest entries, up to one of them, newest first.
    pub(super) fn newest(&self, upto: i64, most: usize) -> Result<Vec<i64>> {
        let all = |segment: &Segment, ids: Ids<'_>| self.counted(segment, &[Column::All], "", ids);
        Ok(self.newest_of(upto, most, all)?.into_iter().rev().map(|(id, _)| id).collect())
    }

    fn newest_of(&self, upto: i64, most: usize, of: impl Fn(&Segment, Ids<'_>) -> Result<List>) -> Result<List> {
        let mut newest = List::new();
        for segment in self.segments.iter().rev().filter(|segment| segment.first <= upto) {
            newest.extend(of(segment, Ids { last: upto, ..Ids::ALL })?.into_iter().rev().map(|(id, _)| (id, 1)));
            if newest.len() >= most {
                break;
            }
        }
        newest.truncate(most);
        newest.reverse();
        Ok(newest)
    }

    /// True if an entry has a clue.
    pub(super) fn has(&self, id: i64, clue: &Phrase) -> Result<bool> {
        Ok(!self.having_among(clue, &[id])?.is_empty())
    }

    /// The entries within the sessions and tools that are searched, in the order of their numbers; none if those restrict
    /// nothing.
    pub(super) fn within(&self, wanted: &IndexSearch) -> Result<Option<Vec<i64>>> {
        let groups = restrictions(wanted);
        if groups.is_empty() {
            return Ok(None);
        }
        let mut within: Option<Vec<i64>> = None;
        for group in groups {
            let mut of_group = Vec::new();
            for word in &group {
                of_group.extend(self.scoped(word)?);
            }
            of_group.sort_unstable();
            of_group.dedup();
            if let Some(before) = &within {
                of_group.retain(|id| before.binary_search(id).is_ok());
            }
            within = Some(of_group);
        }
        Ok(within)
    }

    fn scoped(&self, word: &str) -> Result<Vec<i64>> {
        let mut ids = Vec::new();
        for segment in &self.segments {
            let list = self.counted(segment, &[Column::Scope], word, Ids::ALL)?;
            ids.extend(list.into_iter().map(|(id, _)| id));
        }
        Ok(ids)
    }

    /// The entries of a session in a segment, in the order of their numbers.
    pub(super) fn of_session(&self, segment: &Segment, session: i64) -> Result<Vec<i64>> {
        let list = self.counted(segment, &[Column::Scope], &format!("s{session}"), Ids::ALL)?;
        Ok(list.into_iter().map(|(id, _)| id).collect())
    }

    /// The segments, in the order of their entries.
    pub(super) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// About the pages of an index's lists that a search for a clue reads, beside one for each word in each segment.
    pub(super) fn pages(&self, clue: &Phrase) -> Result<i64> {
        let mut pages = 0;
        let mut count = |column, word: &str, is_prefix| -> Result<()> {
            let key = block::key(self.tenant, column, word.as_bytes());
            let (from, to) = range(&key, is_prefix);
            for segment in &self.segments {
                let blocks = engine::scalar::<i64>(COUNT_BLOCKS).bind(segment.number).bind(&from).bind(&to);
                pages += blocks.one(self.conn)?;
            }
            Ok(())
        };
        match clue.counted() {
            Some(word) => columns_of(clue).iter().try_for_each(|column| count(*column, word, false))?,
            None => {
                for Sequence { column, words, is_prefix } in sequences(clue) {
                    for (at, word) in words.iter().enumerate() {
                        count(column, word, is_prefix && at + 1 == words.len())?;
                    }
                }
            }
        }
        Ok(pages)
    }

    /// What is known of an entry; none if it is gone.
    pub(super) fn entry(&self, id: i64) -> Result<Option<KnownEntry>> {
        let in_row = |row: &Vec<KnownEntry>| row.binary_search_by_key(&id, |known| known.id).ok().map(|at| row[at]);
        let mut rows = self.rows.borrow_mut();
        if let Some(known) = rows.range(..=id).next_back().and_then(|(_, row)| in_row(row)) {
            return Ok(Some(known));
        }
        let Some(row) = engine::query(ENTRIES_OF).bind(id).optional(self.conn)? else { return Ok(None) };
        let known = entries::decode(row.get(1)?)?;
        let found = in_row(&known);
        rows.insert(row.get(0)?, known);
        Ok(found)
    }

    /// The entries of a segment that have a word in one of some columns, and how often.
    fn counted(&self, segment: &Segment, columns: &[Column], word: &str, ids: Ids<'_>) -> Result<List> {
        let mut list = List::new();
        for column in columns {
            let key = block::key(self.tenant, *column, word.as_bytes());
            self.entries(segment, &key, ids, false, |listed| {
                list.push((listed.id, listed.often));
                Ok(())
            })?;
        }
        if columns.len() > 1 {
            list.sort_unstable_by_key(|(id, _)| *id);
            list.dedup_by(|other, one| {
                let is_same = one.0 == other.0;
                if is_same {
                    one.1 = one.1.saturating_add(other.1);
                }
                is_same
            });
        }
        Ok(list)
    }

    /// Where a sequence is in a segment: the places of its first words.
    fn places_of(&self, segment: &Segment, sequence: &Sequence<'_>, ids: Ids<'_>) -> Result<Places> {
        let Sequence { column, words, is_prefix } = sequence;
        let mut found: Option<Places> = None;
        for (at, word) in words.iter().enumerate() {
            let may_go_on = *is_prefix && at + 1 == words.len();
            let key = block::key(self.tenant, *column, word.as_bytes());
            let (mut places, before) = (Places::new(), at as u32);
            self.entries(segment, &key, ids, may_go_on, |listed| {
                listed.places(|place| places.extend(place.checked_sub(before).map(|first| (listed.id, first))))
            })?;
            if may_go_on {
                places.sort_unstable();
            }
            found = Some(match found {
                Some(found) => common(&found, &places),
                None => places,
            });
            if found.as_ref().is_some_and(Vec::is_empty) {
                break;
            }
        }
        Ok(found.unwrap_or_default())
    }

    /// Calls `each` with those of some entries that have a key, or a key that begins with it.
    fn entries(
        &self,
        segment: &Segment,
        key: &[u8],
        ids: Ids<'_>,
        is_prefix: bool,
        mut each: impl FnMut(&ListedEntry<'_>) -> Result<()>,
    ) -> Result<()> {
        let from = (ids.first > segment.first).then_some(ids.first);
        self.records(segment, key, from, is_prefix, |key, _, list| {
            let mut entries = Entries::new(key, segment.first, list);
            while let Some(listed) = entries.next()? {
                if listed.id > ids.last {
                    return Ok(is_prefix);
                }
                if ids.has(listed.id) {
                    each(&listed)?;
                }
            }
            Ok(true)
        })
    }

    /// Calls `each` with the records of a key, or of all keys that begin with it, until it returns false: the key, the
    /// number of entries from there on, and those that are there. Leaves out what is before an entry, as far as it is in
    /// blocks of its own.
    fn records(
        &self,
        segment: &Segment,
        key: &[u8],
        from: Option<i64>,
        is_prefix: bool,
        mut each: impl FnMut(&[u8], u64, &[u8]) -> Result<bool>,
    ) -> Result<()> {
        let is_wanted = |found: &[u8]| if is_prefix { found.starts_with(key) } else { found == key };
        // Calls it with those of one block. False behind the last one.
        let mut of_block = |block: &[u8]| -> Result<bool> {
            let mut records = Records::new(block);
            while let Some(record) = records.next()? {
                if is_wanted(records.key()) {
                    if !each(records.key(), record.remaining, record.list)? {
                        return Ok(false);
                    }
                } else if records.key() > key {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        let begin = block::start(key, from.filter(|_| !is_prefix));
        let first = engine::query(BLOCK_OF).bind(segment.number).bind(&begin).optional(self.conn)?;
        let behind = match first {
            Some(row) => {
                if !of_block(row.get(1)?)? {
                    return Ok(());
                }
                row.get::<Vec<u8>>(0)?
            }
            None => Vec::new(),
        };
        let (_, to) = range(key, is_prefix);
        let (mut failure, conn) = (None, self.conn);
        let rest = engine::query(BLOCKS_BEHIND).bind(segment.number).bind(&behind).bind(&to);
        rest.for_each(conn, |row| match row.get::<&[u8]>(0).and_then(&mut of_block) {
            Ok(goes_on) => goes_on,
            Err(error) => {
                failure = Some(error);
                false
            }
        })?;
        failure.map_or(Ok(()), Err)
    }
}

/// The starts of blocks that have nothing but a key, or keys that begin with it: behind the first one, before the second.
fn range(key: &[u8], is_prefix: bool) -> (Vec<u8>, Vec<u8>) {
    let to = if is_prefix { [key, &[u8::MAX]].concat() } else { block::start_behind(key) };
    (block::start(key, None), to)
}

/// What both have.
fn common(one: &Places, other: &Places) -> Places {
    let (mut at, mut common) = (0, Places::new());
    for place in one {
        while other.get(at).is_some_and(|other| other < place) {
            at += 1;
        }
        if other.get(at) == Some(place) {
            common.push(*place);
        }
    }
    common
}

/// The columns in which the word of a clue is counted.
fn columns_of(clue: &Phrase) -> &'static [Column] {
    if clue.stem.is_some() { &OF_STEM } else { &OF_WORD }
}

/// What a clue that is not counted is found by: a single word as a word or as a piece, others as words, and as pieces.
fn sequences(clue: &Phrase) -> impl Iterator<Item = Sequence<'_>> {
    let whole = (Column::Whole, &clue.whole[..]);
    let alone = (clue.whole.len() == 1).then_some((Column::Piece, &clue.whole[..]));
    let pieces = (!clue.pieces.is_empty()).then_some((Column::Piece, &clue.pieces[..]));
    let is_prefix = clue.is_prefix;
    let all = [Some(whole), alone, pieces].into_iter().flatten();
    all.map(move |(column, words)| Sequence { column, words, is_prefix })
}

/// The sessions and tools of a search: one word of each group.
fn restrictions(wanted: &IndexSearch) -> Vec<Vec<String>> {
    let owners: Vec<&OwnRange> = wanted.ranges.iter().take(limits::SEARCH_RANGES_MAX + 1).collect();
    let has_few_owners = owners.len() <= limits::SEARCH_RANGES_MAX;
    let owners = owners.into_iter().filter(|_| has_few_owners).map(|range| format!("s{}", range.owner.0));
    let below = wanted.below.into_iter();
    let below = below.flat_map(|above| [format!("s{}", above.0), format!("u{}", above.0), "deep".to_owned()]);
    let groups = [owners.collect(), below.collect(), wanted.tools.iter().map(|tool| format!("t{tool}")).collect()];
    groups.into_iter().filter(|group: &Vec<String>| !group.is_empty()).collect()
}

/// Refuses a clue whose words are none: it would find nothing.
fn check(clue: &Phrase) -> Result<()> {
    let is_word = |word: &String| {
        let is_safe = |character: char| character == '_' || !character.is_ascii() || character.is_ascii_alphanumeric();
        !word.is_empty() && word.chars().all(is_safe)
    };
    match !clue.whole.is_empty() && clue.whole.iter().chain(&clue.pieces).chain(&clue.stem).all(is_word) {
        true => Ok(()),
        false => Err(Error::Bug("a search has a word that is none")),
    }
}
