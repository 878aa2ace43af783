//! Full-text search over the whole history: the index, what it is filled with, and what it finds.
//!
//! The index is a database of its own beside the store, which only follows from the log: appends never wait for it, a
//! backup does not have it, and it is made anew wherever it does not fit the store. `file` has its SQL and is all that
//! another engine would have in its own way; `source` reads from the log what is to be indexed, `hits` the messages of
//! what was found. What a word is, is decided elsewhere.

pub(super) mod file;
pub(super) mod hits;
mod indexer;
pub(super) mod source;

pub use hits::{Hit, HitOf};
pub use indexer::Indexer;
pub use source::{EntryKind, Page, Unindexed};

use super::engine::files;
use super::engine::readers::Readers;
use super::error::{Error, Result};
use super::ledger::head::SessionKey;
use super::shared::Shared;
use crate::clock::Clock;
use crate::limits;
use crate::model::message::Role;
use crate::model::time::Timestamp;
use crate::model::{Revision, Seq};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{oneshot, watch};

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
    /// True if so many entries match that only the newest of them were ranked.
    pub is_cut: bool,
}

/// The part of the history that is to be forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forgotten {
    /// All of a session's own rows.
    Session,
    /// A message, by its revision.
    Message(Revision),
    /// A part, by the revision of its message and its number in it.
    Part(Revision, u16),
}

/// What the one that fills the index is asked to forget.
pub struct Forget {
    /// The session.
    pub owner: SessionKey,
    /// The part of its history.
    pub what: Forgotten,
    /// Takes the number of entries that are gone.
    pub done: oneshot::Sender<Result<u64>>,
}

/// The index, open or not, for those who search it.
pub(crate) struct SearchState {
    readers: Mutex<Option<Arc<Readers>>>,
    /// What waits to be forgotten, and the end of the queue at which it is taken.
    forget: (async_channel::Sender<Forget>, async_channel::Receiver<Forget>),
    /// The newest event that is in the index.
    progress: watch::Sender<Seq>,
}

impl SearchState {
    pub(super) fn new() -> Self {
        let forget = async_channel::bounded(limits::SEARCH_FORGET_QUEUE_MAX);
        Self { readers: Mutex::default(), forget, progress: watch::Sender::new(0) }
    }

    fn readers(&self) -> Option<Arc<Readers>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens or closes the index for searches.
    fn set(&self, readers: Option<Readers>) {
        *self.readers.lock().unwrap_or_else(PoisonError::into_inner) = readers.map(Arc::new);
    }

    /// Ends all searches.
    pub(super) fn close(&self) {
        if let Some(readers) = self.readers() {
            readers.close();
        }
        self.set(None);
    }
}

/// The search index.
#[derive(Clone)]
pub struct Search(pub(super) Arc<Shared>);

impl Search {
    /// Finds entries.
    ///
    /// # Errors
    ///
    /// `Error::SearchOff` if the index is not open.
    pub async fn find(&self, wanted: &Wanted) -> Result<Found> {
        let readers = self.0.search.readers().ok_or(Error::SearchOff)?;
        readers.reading(|reader| file::find(reader, wanted)).await
    }

    /// The messages of the first of some entries with the reasons of their states, in the order of the entries: none for
    /// one that is no longer there. Reads no more entries after this number of bytes.
    pub async fn hits(&self, entries: &[HitOf], bytes_max: usize) -> Result<Vec<Option<Hit>>> {
        self.0.reading(|reader| hits::read(reader, entries, bytes_max)).await
    }

    /// The ranges of a session's history, and of its owners' rows.
    pub async fn ranges(&self, session: SessionKey) -> Result<Vec<OwnRange>> {
        self.0.reading(|reader| hits::ranges(reader, session)).await
    }

    /// Watches the number of the newest event that is in the index.
    pub fn progress(&self) -> watch::Receiver<Seq> {
        self.0.search.progress.subscribe()
    }

    /// Waits until an event is in the index, for a time at most. Returns the newest event that is.
    pub async fn wait(&self, seq: Seq, at_most: Duration) -> Seq {
        let mut progress = self.progress();
        // What is there when the time is up answers as well.
        let _ = tokio::time::timeout(at_most, progress.wait_for(|indexed| *indexed >= seq)).await;
        *progress.borrow()
    }

    /// Forgets a part, a message, or all of a session's own rows: afterwards none of their words is in a file of the
    /// index. The rows in the store have to be gone before, or they are indexed again. Returns the number of entries.
    ///
    /// # Errors
    ///
    /// `SearchOff` if nothing fills the index, `Busy` while a search reads what is to go; both can be repeated.
    pub async fn forget(&self, owner: SessionKey, what: Forgotten) -> Result<u64> {
        if !self.is_open() {
            return Err(Error::SearchOff);
        }
        let (done, answer) = oneshot::channel();
        let sent = self.0.search.forget.0.send(Forget { owner, what, done }).await;
        sent.map_err(|_| Error::SearchOff)?;
        answer.await.map_err(|_| Error::SearchOff)?
    }

    /// What waits to be forgotten, for the one that fills the index.
    pub fn forget_queue(&self) -> async_channel::Receiver<Forget> {
        self.0.search.forget.1.clone()
    }

    /// True while the index is open.
    pub fn is_open(&self) -> bool {
        self.0.search.readers().is_some()
    }

    /// Removes the index, where none is wanted.
    pub fn remove(&self) -> Result<()> {
        files::remove_search(&self.0.directory)
    }

    /// Opens the index to fill it, and to be searched.
    pub fn open(&self, clock: Clock) -> Result<Indexer> {
        Indexer::open(self.0.clone(), clock)
    }
}
