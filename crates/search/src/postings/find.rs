//! Finds the best entries, by the lists of each clue of a query.
//!
//! Each clue's list is read by itself, and the lists are merged by the numbers of entries, the newest first. So a part's
//! score needs nothing but the statistics that were counted with the lists, which may be those of several indexes.

use super::entries::role_number;
use super::lists::{List, TenantWords};
use crate::engine::{self, Reader};
use crate::error::Result;
use crate::limits;
use crate::part::EntryKind;
use crate::wanted::{Census, Entry, FoundEntries, IndexSearch, Phrase, RankedEntry};
use crate::words::{Rank, Scores, Statistics};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

const TENANT: &str = "select id, parts, words from tenant where name = ?1";
const LAST_ENTRY: &str = "select coalesce(max(last), 0) from segment";

/// The clues of a search, with the lists of those that are rare enough to be read.
struct Clues<'w> {
    phrases: &'w [Phrase],
    lists: Vec<Option<List>>,
    /// About how many entries have each.
    having: Vec<u64>,
    /// Those without a list, the rarest first.
    common: Vec<usize>,
}

impl<'w> Clues<'w> {
    /// Reads the lists of the rarest clues, of about so many pages together, and of all that few of the tenant's parts have.
    fn read(words: &TenantWords<'_>, phrases: &'w [Phrase], pages: i64, parts: u64) -> Result<Self> {
        let priced = phrases.iter().enumerate().map(|(clue, phrase)| Ok((words.pages(phrase)?, clue)));
        let mut priced: Vec<(i64, usize)> = priced.collect::<Result<_>>()?;
        priced.sort_unstable();
        let mut clues =
            Self { phrases, lists: vec![None; phrases.len()], having: vec![0; phrases.len()], common: Vec::new() };
        let mut left = pages;
        for (price, clue) in priced {
            left -= price;
            let list = if left < 0 { words.having_few(&phrases[clue])? } else { Some(words.having(&phrases[clue])?) };
            match list {
                Some(list) => {
                    clues.having[clue] = list.len() as u64;
                    clues.lists[clue] = Some(list);
                }
                None => {
                    clues.common.push(clue);
                    clues.having[clue] = words.count(&phrases[clue])?.min(parts);
                }
            }
        }
        Ok(clues)
    }

    /// Calls `each` with the entries of all lists and the clues that they have, the newest first, until it returns false.
    fn merged(&self, mut each: impl FnMut(i64, &[(usize, u32)]) -> Result<bool>) -> Result<()> {
        let mut left: Vec<&[(i64, u32)]> = self.lists.iter().map(|list| list.as_deref().unwrap_or_default()).collect();
        let newest = |list: &[(i64, u32)]| list.last().map(|(id, _)| *id);
        let heads = left.iter().enumerate();
        let mut next: BinaryHeap<_> = heads.filter_map(|(clue, list)| Some((newest(list)?, Reverse(clue)))).collect();
        let mut has = Vec::new();
        while let Some((id, _)) = next.peek().copied() {
            has.clear();
            while let Some((_, Reverse(clue))) = next.peek().filter(|(other, _)| *other == id).copied() {
                next.pop();
                let list = left[clue];
                if let Some(((_, often), before)) = list.split_last() {
                    has.push((clue, *often));
                    left[clue] = before;
                    next.extend(newest(before).map(|id| (id, Reverse(clue))));
                }
            }
            if !each(id, &has)? {
                break;
            }
        }
        Ok(())
    }
}

/// The best entries so far.
struct Best<'s> {
    words: &'s TenantWords<'s>,
    wanted: &'s IndexSearch,
    clues: &'s Clues<'s>,
    scores: &'s Scores,
    within: Option<Vec<i64>>,
    upto: i64,
    most: usize,
    /// The worst of them first.
    top: BinaryHeap<Reverse<(Rank, i64)>>,
    entries: HashMap<i64, RankedEntry>,
    rows: u64,
}

impl Best<'_> {
    /// The tiers of an entry with some clues. A term that is too common to be known counts as there.
    fn tiers(&self, has: impl Fn(usize) -> bool) -> (bool, bool) {
        let mut tiers = (true, true);
        for (term, phrase) in self.clues.phrases.iter().enumerate().take(self.wanted.terms) {
            let is_there = self.clues.lists[term].is_none() || has(term);
            tiers.0 &= is_there;
            tiers.1 &= is_there || !phrase.is_quoted;
        }
        tiers
    }

    /// Takes an entry if it is one of the best. False if no other can be.
    fn consider(&mut self, id: i64, has: &[(usize, u32)]) -> Result<bool> {
        if id > self.upto {
            return Ok(true);
        }
        let (has_all, has_quotations) = self.tiers(|clue| has.iter().any(|(other, _)| *other == clue));
        if self.wanted.all && !has_all {
            return Ok(true);
        }
        let is_full = self.top.len() >= self.most;
        if self.wanted.newest && is_full {
            return Ok(false);
        }
        let most: u64 = has.iter().map(|(clue, often)| self.scores.score_max(*clue, *often)).sum();
        let at_most = Rank { has_all, has_quotations, score: most };
        // Of equals the newest is better, and was here before.
        if is_full && self.top.peek().is_some_and(|Reverse((worst, _))| at_most <= *worst) {
            return Ok(true);
        }
        if self.within.as_ref().is_some_and(|within| within.binary_search(&id).is_err()) {
            return Ok(true);
        }
        let Some((entry, words)) = self.entry(id)? else { return Ok(true) };
        let mut scores = vec![0; self.clues.phrases.len()];
        for (clue, often) in has {
            scores[*clue] = self.scores.score(*clue, *often, words);
        }
        let rank = Rank { has_all, has_quotations, score: scores.iter().sum() };
        if is_full && self.top.peek().is_some_and(|Reverse((worst, _))| rank <= *worst) {
            return Ok(true);
        }
        // Of the newest, the order is that of their numbers.
        let key = if self.wanted.newest { Rank::default() } else { rank };
        self.top.push(Reverse((key, id)));
        self.entries.insert(id, RankedEntry { entry, rank, scores });
        if self.top.len() > self.most
            && let Some(Reverse((_, worst))) = self.top.pop()
        {
            self.entries.remove(&worst);
        }
        Ok(true)
    }

    /// An entry with the number of its words; none if it is not searched.
    fn entry(&mut self, id: i64) -> Result<Option<(Entry, u32)>> {
        let Some(known) = self.words.entry(id)? else { return Ok(None) };
        self.rows += 1;
        let wanted = self.wanted;
        let is_role = wanted.roles.is_empty() || wanted.roles.iter().any(|wanted| role_number(*wanted) == known.role);
        let is_kind = wanted.kinds.is_empty() || wanted.kinds.iter().any(|wanted| *wanted as u8 == known.kind);
        let is_time = wanted.since.is_none_or(|since| known.time >= since.0)
            && wanted.until.is_none_or(|until| known.time < until.0);
        let is_left_out =
            !wanted.derived && known.is_derived || !wanted.records && known.kind == EntryKind::Record as u8;
        if !is_role || !is_kind || !is_time || is_left_out {
            return Ok(None);
        }
        let entry = Entry { id, owner: known.owner, message: known.message, number: known.number };
        Ok(Some((entry, known.words)))
    }

    /// The best, in their order.
    fn sorted(mut self) -> Vec<RankedEntry> {
        let mut best: Vec<_> = self.top.drain().map(|Reverse(key)| key).collect();
        best.sort_unstable_by(|one, other| other.cmp(one));
        best.into_iter().filter_map(|(_, id)| self.entries.remove(&id)).collect()
    }
}

/// Finds entries. Of the index's lists, about this number of pages is read at most, and what few parts have: clues that are
/// more common find nothing, unless few parts are searched, and change the order of what the others find. If all are, the hits are the newest that have the rarest one,
/// or the newest ones.
pub(super) fn find(reader: &mut Reader<'_>, wanted: &IndexSearch, pages: i64) -> Result<FoundEntries> {
    let conn = reader.conn;
    let upto: i64 = match wanted.upto {
        Some(upto) => upto,
        None => engine::scalar(LAST_ENTRY).one(conn)?,
    };
    let nothing = || Statistics { having: vec![0; wanted.phrases.len()], ..Statistics::default() };
    let Some(tenant) = engine::query(TENANT).bind(&*wanted.tenant).optional(conn)? else {
        return Ok(FoundEntries { upto, statistics: nothing(), ..FoundEntries::default() });
    };
    let words = TenantWords::new(conn, tenant.get(0)?)?;
    let count = |count: i64| u64::try_from(count).unwrap_or_default();
    let mut clues = Clues::read(&words, &wanted.phrases, pages, count(tenant.get(1)?))?;
    let statistics =
        Statistics { parts: count(tenant.get(1)?), words: count(tenant.get(2)?), having: clues.having.clone() };
    if wanted.limit == 0 {
        return Ok(FoundEntries { upto, statistics, is_cut: !clues.common.is_empty(), ..FoundEntries::default() });
    }
    let within = words.within(wanted)?;
    // Among few parts no word is too common.
    if let Some(within) = &within
        && within.len() as i64 <= limits::SEARCH_MATCHES_MAX
    {
        for clue in std::mem::take(&mut clues.common) {
            match wanted.phrases[clue].is_prefix {
                true => clues.common.push(clue),
                false => clues.lists[clue] = Some(words.having_among(&wanted.phrases[clue], within)?),
            }
        }
    }
    let is_too_common = |clue: usize| clues.lists[clue].is_none();
    let lacks_term = wanted.all && (0..wanted.terms).any(is_too_common);
    let mut found = FoundEntries {
        upto,
        statistics,
        is_cut: !clues.common.is_empty(),
        may_lack_terms: lacks_term,
        ..FoundEntries::default()
    };
    let most_read = usize::try_from(limits::SEARCH_MATCHES_MAX).unwrap_or(usize::MAX);
    let mut unranked = Vec::new();
    if clues.common.len() == clues.phrases.len() {
        let rarest = clues.common.iter().find(|clue| clues.phrases[**clue].counted().is_some()).copied();
        match rarest {
            Some(clue) => {
                let newest = words.newest_having(&clues.phrases[clue], upto, most_read)?;
                clues.lists[clue] = Some(newest);
                clues.common.retain(|common| *common != clue);
            }
            // What begins with something has no list of its own.
            None => {
                unranked = match &within {
                    Some(within) => within.iter().rev().copied().collect(),
                    None => words.newest(upto, most_read)?,
                };
                found.may_lack_terms = true;
            }
        }
    }
    let scores = Scores::from_statistics(wanted.statistics.as_ref().unwrap_or(&found.statistics));
    let (most, last) = (limits::SEARCH_MATCHES_MAX, wanted.offset + wanted.limit);
    found.is_cut |= last > most;
    // What is beyond a page changes its order, together with the page that it is on.
    let window = limits::SEARCH_REORDERED;
    let most = usize::try_from(((last + window - 1) / window * window).min(most)).unwrap_or(usize::MAX);
    let mut best = Best {
        words: &words,
        wanted,
        clues: &clues,
        scores: &scores,
        within,
        upto,
        most,
        top: BinaryHeap::new(),
        entries: HashMap::new(),
        rows: 0,
    };
    clues.merged(|id, has| best.consider(id, has))?;
    for id in unranked {
        if !best.consider(id, &[])? {
            break;
        }
    }
    reader.rows += best.rows;
    let mut ranked = best.sorted();
    if !wanted.newest {
        let first = wanted.offset / window * window;
        let size = usize::try_from(window).unwrap_or(usize::MAX);
        let skipped = usize::try_from(first).unwrap_or(usize::MAX).min(ranked.len());
        for window in ranked[skipped..].chunks_mut(size) {
            reorder(&words, &clues, (&scores, wanted), window)?;
        }
    }
    let offset = usize::try_from(wanted.offset).unwrap_or(usize::MAX);
    let limit = usize::try_from(wanted.limit).unwrap_or(usize::MAX);
    found.entries = ranked.into_iter().skip(offset).take(limit).collect();
    Ok(found)
}

/// Counts how common the clues of a search are.
pub(super) fn census(reader: &mut Reader<'_>, wanted: &IndexSearch, pages: i64) -> Result<Census> {
    let conn = reader.conn;
    let sessions = vec![HashMap::new(); wanted.phrases.len()];
    let having = vec![0; wanted.phrases.len()];
    let mut census = Census { rounded: Statistics { having, ..Statistics::default() }, sessions };
    let Some(tenant) = engine::query(TENANT).bind(&*wanted.tenant).optional(conn)? else { return Ok(census) };
    let rounded = |count: i64| u64::try_from(count).unwrap_or_default().next_power_of_two();
    (census.rounded.parts, census.rounded.words) = (rounded(tenant.get(1)?), rounded(tenant.get(2)?));
    let parts = u64::try_from(tenant.get::<i64>(1)?).unwrap_or_default();
    let words = TenantWords::new(conn, tenant.get(0)?)?;
    let clues = Clues::read(&words, &wanted.phrases, pages, parts)?;
    for (clue, list) in clues.lists.iter().enumerate() {
        let Some(list) = list.as_ref().filter(|list| list.len() <= limits::SEARCH_COUNTED) else {
            census.rounded.having[clue] = clues.having[clue].next_power_of_two();
            continue;
        };
        for (id, _) in list {
            if let Some(known) = words.entry(*id)? {
                reader.rows += 1;
                *census.sessions[clue].entry(known.owner).or_default() += 1;
            }
        }
    }
    Ok(census)
}

/// Changes the order of entries by the clues that are too common to be read.
fn reorder(
    words: &TenantWords<'_>,
    clues: &Clues<'_>,
    (scores, wanted): (&Scores, &IndexSearch),
    ranked: &mut [RankedEntry],
) -> Result<()> {
    let common = clues.common.iter().copied().filter(|clue| !clues.phrases[*clue].is_prefix);
    let common: Vec<usize> = common.take(limits::SEARCH_REORDERING).collect();
    if common.is_empty() {
        return Ok(());
    }
    for RankedEntry { entry, rank, scores: says } in ranked.iter_mut() {
        for clue in &common {
            if words.has(entry.id, &clues.phrases[*clue])? {
                says[*clue] = scores.score_max(*clue, 1);
            }
        }
        let terms = clues.phrases.iter().zip(says.iter()).take(wanted.terms);
        rank.has_all = terms.clone().all(|(_, score)| *score > 0);
        rank.has_quotations = terms.clone().all(|(phrase, score)| !phrase.is_quoted || *score > 0);
        rank.score = says.iter().sum();
    }
    ranked.sort_by_key(|ranked| Reverse((ranked.rank, ranked.entry.id)));
    Ok(())
}
