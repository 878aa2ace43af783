//! What is searched for and what is found, by the rows of the store.

use super::part::EntryKind;
use crate::model::Revision;
use crate::model::message::Role;
use crate::model::session::SessionKey;
use crate::model::time::Timestamp;
use crate::words::{Query, Rank, Statistics, Term};
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Words that are found one directly after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phrase {
    /// The words, one at least; of letters, digits, accents and `_` only.
    pub whole: Vec<String>,
    /// The same as pieces of a name; empty for none.
    pub pieces: Vec<String>,
    /// The word that is counted in every column; none if only `whole` and `pieces` count.
    pub stem: Option<String>,
    /// The last word may go on.
    pub is_prefix: bool,
    /// It stood in quotation marks.
    pub is_quoted: bool,
}

/// The clues of a query as the index takes them.
pub fn phrases(query: &Query) -> Vec<Phrase> {
    let phrase = |clue: &Term| Phrase {
        whole: clue.whole.clone(),
        pieces: clue.pieces.clone(),
        stem: clue.stem.clone(),
        is_prefix: clue.is_prefix,
        is_quoted: clue.is_quoted,
    };
    query.clues.iter().map(phrase).collect()
}

impl Phrase {
    /// The word that is counted, if it is a single word.
    pub(super) fn counted(&self) -> Option<&str> {
        match &self.whole[..] {
            [word] if !self.is_prefix && self.pieces.is_empty() => Some(self.stem.as_ref().unwrap_or(word)),
            _ => None,
        }
    }
}

/// Revisions of one session's own rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnRange {
    /// The session.
    pub owner: SessionKey,
    /// The revisions of messages.
    pub revisions: RangeInclusive<Revision>,
}

/// A search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IndexSearch {
    /// The tenant, whose index is searched: others have their own.
    pub tenant: Arc<str>,
    /// What a hit has at least one of.
    pub phrases: Vec<Phrase>,
    /// How many of them, from the first one, are the terms of the query.
    pub terms: usize,
    /// A hit has all terms.
    pub all: bool,
    /// The newest entries come first, whatever they have.
    pub newest: bool,
    /// The statistics to rank by; none for those of the tenant's index.
    pub statistics: Option<Statistics>,
    /// Only rows of these ranges; empty for all.
    pub ranges: Vec<OwnRange>,
    /// Only of this session and those below it.
    pub below: Option<SessionKey>,
    /// Only messages with one of these roles; empty for all.
    pub roles: Vec<Role>,
    /// Only these kinds of parts; empty for all.
    pub kinds: Vec<EntryKind>,
    /// Only calls and results of these tools, as words; empty for all.
    pub tools: Vec<String>,
    /// Includes messages that Longhand derived.
    pub derived: bool,
    /// Includes records.
    pub records: bool,
    /// Only parts that came at this time or later.
    pub since: Option<Timestamp>,
    /// Only parts that came before this time.
    pub until: Option<Timestamp>,
    /// Only entries up to this one; none for all.
    pub upto: Option<i64>,
    /// The first entries in the order of hits that are skipped.
    pub offset: i64,
    /// The largest number of entries.
    pub limit: i64,
}

/// An entry of the index: a part, by the rows of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Its number in the index.
    pub id: i64,
    /// The session that has it.
    pub owner: SessionKey,
    /// The revision of its message.
    pub message: Revision,
    /// Its number in the message.
    pub number: u16,
}

impl IndexSearch {
    /// True if an entry is in the ranges that are searched.
    pub fn admits(&self, entry: &Entry) -> bool {
        let is_in = |range: &OwnRange| range.owner == entry.owner && range.revisions.contains(&entry.message);
        self.ranges.is_empty() || self.ranges.iter().any(is_in)
    }
}

/// An entry at its place among the hits.
#[derive(Debug, Clone, PartialEq)]
pub struct RankedEntry {
    /// The entry.
    pub entry: Entry,
    /// Its rank.
    pub rank: Rank,
    /// What each clue of the query says for it; 0 for one that it has not.
    pub scores: Vec<u64>,
}

/// How common the clues of a search are, for a caller that does not see all sessions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Census {
    /// To the next power of two, so that it says little of what the caller does not see; 0 for a clue that is counted by
    /// the sessions.
    pub rounded: Statistics,
    /// Of each clue that few enough entries have, how many of them each session has.
    pub sessions: Vec<HashMap<SessionKey, u64>>,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FoundEntries {
    /// The entries, best first, of equals the newest first.
    pub entries: Vec<RankedEntry>,
    /// The entry up to which the index was searched.
    pub upto: i64,
    /// What the index has of the query.
    pub statistics: Statistics,
    /// True if clues are too common for their lists to be read, or hits too many to be ranked.
    pub is_cut: bool,
    /// True if entries may lack what they have to have, which is to be looked for in their texts.
    pub may_lack_terms: bool,
}
