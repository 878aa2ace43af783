//! What FTS5 has of a tenant's words: the entries of a word, of a phrase, of a restriction, and what it costs to read them.

use crate::wanted::{OwnRange, Phrase, Wanted};
use crate::engine::{self, Connection};
use crate::error::{Error, Result};
use crate::limits;

/// In the numbers of FTS5's pages, bits of the page within its segment, and all below those of the segment.
const PAGE_MASK: i64 = (1 << 31) - 1;
/// See above.
const SEGMENT_BITS: u32 = 37;

/// Entries in the order of their numbers, and how often each has a clue.
pub(super) type List = Vec<(i64, u32)>;

/// The table of a tenant's words.
pub(super) fn table(tenant: i64) -> String {
    format!("words_{tenant}")
}

/// The table of the places of a tenant's words, which FTS5 makes up from the other one.
pub(super) fn places(tenant: i64) -> String {
    format!("places_{tenant}")
}

/// The words of a tenant.
pub(super) struct TenantWords<'c> {
    conn: &'c Connection,
    words: String,
    places: String,
}

impl<'c> TenantWords<'c> {
    pub(super) fn new(conn: &'c Connection, tenant: i64) -> Self {
        Self { conn, words: table(tenant), places: places(tenant) }
    }

    /// All entries that have a clue.
    pub(super) fn having(&self, clue: &Phrase) -> Result<List> {
        let expression = phrase(clue)?;
        match clue.counted() {
            Some(word) => Ok(self.counted(word, clue.stem.is_some(), usize::MAX)?.unwrap_or_default()),
            None => {
                let ids = self.ids("match ?1 order by rowid", |query| query.bind(expression))?;
                Ok(ids.into_iter().map(|id| (id, 1)).collect())
            }
        }
    }

    /// The same of a clue whose pages are many, if it is rare nevertheless: FTS5 does not say where in its pages the list of
    /// a word ends. Several words are as rare as the rarest of them. What begins so is never told to be rare.
    pub(super) fn having_few(&self, clue: &Phrase) -> Result<Option<List>> {
        let few = limits::SEARCH_COUNTED;
        if clue.is_prefix {
            return Ok(None);
        }
        if let Some(word) = clue.counted() {
            return self.counted(word, clue.stem.is_some(), few);
        }
        for words in [&clue.whole, &clue.pieces].into_iter().filter(|words| !words.is_empty()) {
            let is_rare = words.iter().map(|word| Ok(self.counted(word, false, few)?.is_some()));
            if !is_rare.collect::<Result<Vec<_>>>()?.contains(&true) {
                return Ok(None);
            }
        }
        self.having(clue).map(Some)
    }

    /// The same among few entries, in the order of their numbers.
    pub(super) fn having_among(&self, clue: &Phrase, restriction: &str) -> Result<List> {
        let expression = format!("{} AND {restriction}", phrase(clue)?);
        let ids = self.ids("match ?1 order by rowid", |query| query.bind(expression))?;
        Ok(ids.into_iter().map(|id| (id, 1)).collect())
    }

    /// The entries that have a word, and how often; none if it is there more often than `most`.
    fn counted(&self, word: &str, has_stem: bool, most: usize) -> Result<Option<List>> {
        let stems = if has_stem { ", 'stems'" } else { "" };
        let places = &self.places;
        let statement = format!("select doc from {places} where term = ?1 and col in ('whole', 'pieces'{stems})");
        let (mut list, mut count) = (List::new(), 0);
        numbers(self.conn, engine::query(&statement).bind(word), |id| {
            count += 1;
            if let Some((last, often)) = list.last_mut()
                && *last == id
            {
                *often += 1;
            } else {
                list.push((id, 1));
            }
            count <= most
        })?;
        Ok((count <= most).then_some(list))
    }

    /// The newest entries that have a word, up to one of them, in the order of their numbers.
    pub(super) fn newest_having(&self, clue: &Phrase, upto: i64, most: i64) -> Result<List> {
        let expression = phrase(clue)?;
        let ids = self.ids("match ?1 and rowid <= ?2 order by rowid desc limit ?3", |query| {
            query.bind(expression).bind(upto).bind(most)
        })?;
        Ok(ids.into_iter().rev().map(|id| (id, 1)).collect())
    }

    /// The newest entries, up to one of them, newest first.
    pub(super) fn newest(&self, upto: i64, most: i64) -> Result<Vec<i64>> {
        let statement = format!("select rowid from {} where rowid <= ?1 order by rowid desc limit ?2", self.words);
        engine::scalar::<i64>(&statement).bind(upto).bind(most).all(self.conn)
    }

    /// True if an entry has a clue.
    pub(super) fn has(&self, id: i64, clue: &Phrase) -> Result<bool> {
        let expression = phrase(clue)?;
        Ok(!self.ids("match ?1 and rowid = ?2", |query| query.bind(expression).bind(id))?.is_empty())
    }

    /// The entries within the sessions and tools that are searched, in the order of their numbers; none if those restrict
    /// nothing.
    pub(super) fn within(&self, wanted: &Wanted) -> Result<Option<Vec<i64>>> {
        let Some(expression) = restriction(wanted) else { return Ok(None) };
        Ok(Some(self.ids("match ?1 order by rowid", |query| query.bind(expression))?))
    }

    fn ids(&self, which: &str, bind: impl FnOnce(engine::Query<'_>) -> engine::Query<'_>) -> Result<Vec<i64>> {
        let words = &self.words;
        let statement = format!("select rowid from {words} where {words} {which}");
        let mut ids = Vec::new();
        numbers(self.conn, bind(engine::query(&statement)), |id| {
            ids.push(id);
            true
        })?;
        Ok(ids)
    }

    /// About the pages of an index's lists that a search for a clue reads: FTS5 reads the lists of all words with a
    /// beginning whole, whatever they are found with. FTS5 has the first word of each page.
    pub(super) fn pages(&self, phrase: &Phrase) -> Result<i64> {
        let (conn, words) = (self.conn, &self.words);
        let segment = format!("select min(segid) from {words}_idx where segid > ?1");
        let before =
            format!("select pgno >> 1 from {words}_idx where segid = ?1 and term <= ?2 order by term desc limit 1");
        let behind = format!("select pgno >> 1 from {words}_idx where segid = ?1 and term >= ?2 order by term limit 1");
        let last = format!("select coalesce(max(id), 0) & {PAGE_MASK} from {words}_data where id between ?1 and ?2");
        let mut terms: Vec<(&str, bool)> = match phrase.counted() {
            Some(word) => vec![(word, false)],
            None => phrase.whole.iter().map(|word| (word.as_str(), false)).collect(),
        };
        terms.last_mut().into_iter().for_each(|(_, may_go_on)| *may_go_on = phrase.is_prefix);
        terms.extend(phrase.pieces.iter().map(|word| (word.as_str(), false)));
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
}

/// Calls `each` with the first column of all rows, until it returns false.
fn numbers(conn: &Connection, query: engine::Query<'_>, mut each: impl FnMut(i64) -> bool) -> Result<()> {
    let mut failure = None;
    query.for_each(conn, |row| match row.get::<i64>(0) {
        Ok(number) => each(number),
        Err(error) => {
            failure = Some(error);
            false
        }
    })?;
    failure.map_or(Ok(()), Err)
}

/// Any of some words in the column of restrictions.
fn any(words: impl IntoIterator<Item = String>) -> Option<String> {
    let words: Vec<String> = words.into_iter().map(|word| format!("\"{word}\"")).collect();
    (!words.is_empty()).then(|| format!("(scope : ({}))", words.join(" OR ")))
}

/// The sessions and tools of a search in the language of FTS5; none for all.
pub(super) fn restriction(wanted: &Wanted) -> Option<String> {
    let owners: Vec<&OwnRange> = wanted.ranges.iter().take(limits::SEARCH_RANGES_MAX + 1).collect();
    let has_few_owners = owners.len() <= limits::SEARCH_RANGES_MAX;
    let below = wanted.below.into_iter();
    let below = below.flat_map(|above| [format!("s{}", above.0), format!("u{}", above.0), "deep".to_owned()]);
    let restrictions = [
        any(owners.into_iter().filter(|_| has_few_owners).map(|range| format!("s{}", range.owner.0))),
        any(below),
        any(wanted.tools.iter().map(|tool| format!("t{tool}"))),
    ];
    let all: Vec<String> = restrictions.into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join(" AND "))
}

/// A clue in the language of FTS5. Nothing in it comes from a caller but words without any of its signs.
fn phrase(phrase: &Phrase) -> Result<String> {
    let is_word = |word: &String| {
        let is_safe = |character: char| character == '_' || !character.is_ascii() || character.is_ascii_alphanumeric();
        !word.is_empty() && word.chars().all(is_safe)
    };
    if phrase.whole.is_empty() || !phrase.whole.iter().chain(&phrase.pieces).chain(&phrase.stem).all(is_word) {
        return Err(Error::Bug("a search has a word that is none"));
    }
    if let Some(stem) = &phrase.stem {
        return Ok(format!("{{whole pieces stems}} : \"{stem}\""));
    }
    let star = if phrase.is_prefix { " *" } else { "" };
    let columns = if phrase.whole.len() == 1 { "{whole pieces}" } else { "whole" };
    let whole = format!("{columns} : \"{}\"{star}", phrase.whole.join(" "));
    Ok(match phrase.pieces.is_empty() {
        true => format!("({whole})"),
        false => format!("(({whole}) OR (pieces : \"{}\"{star}))", phrase.pieces.join(" ")),
    })
}
