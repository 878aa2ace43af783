//! What is searched for and what is found, by the rows of the store.

use super::source::EntryKind;
use crate::model::Revision;
use crate::model::message::Role;
use crate::model::time::Timestamp;
use crate::store::ledger::head::SessionKey;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Words that are found one directly after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phrase {
    /// The words, one at least; of letters, digits, accents and `_` only.
    pub whole: Vec<String>,
    /// The same as pieces of a name; empty for none.
    pub pieces: Vec<String>,
    /// The last word may go on.
    pub is_prefix: bool,
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
pub struct Wanted {
    /// The tenant, whose index is searched: others have their own.
    pub tenant: Arc<str>,
    /// What every hit has, all of it.
    pub phrases: Vec<Phrase>,
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

impl Wanted {
    /// True if an entry is in the ranges that are searched.
    pub fn admits(&self, entry: &Entry) -> bool {
        let is_in = |range: &OwnRange| range.owner == entry.owner && range.revisions.contains(&entry.message);
        self.ranges.is_empty() || self.ranges.iter().any(is_in)
    }
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// The entries, best first, of equals the newest first.
    pub entries: Vec<Entry>,
    /// The entry up to which the index was searched.
    pub upto: i64,
    /// True if so many entries match that only the newest of them were ranked, or terms are too common to be ranked by.
    pub is_cut: bool,
    /// True if entries may lack terms, which are to be looked for in their texts.
    pub may_lack_terms: bool,
}
