//! The handle of the search index.

use super::hits::{self, Hit, HitQuery};
use super::indexer::Indexer;
use crate::clock::Clock;
use crate::engine::{files, gaps};
use crate::error::{Error, Result};
use crate::ledger::head::SessionKey;
use crate::limits;
use crate::model::Seq;
use crate::shared::StoreParts;
use longhand_search::{Census, FoundEntries, IndexReader as _, IndexSearch, OwnRange, PostingsReader};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The search index.
#[derive(Clone)]
pub struct Search(pub(crate) Arc<StoreParts>);

impl Search {
    /// Finds entries. A caller that leaves interrupts the read.
    ///
    /// # Errors
    ///
    /// `Error::SearchOff` if the index is not open.
    pub async fn find(&self, wanted: &IndexSearch) -> Result<FoundEntries> {
        let readers = self.0.search.readers().ok_or(Error::SearchOff)?;
        let wanted = wanted.clone();
        readers.interruptible(move |reader| PostingsReader::new(reader).find(&wanted, limits::SEARCH_LIST_PAGES)).await
    }

    /// Counts how common the clues of a search are, for a caller that does not see all sessions.
    ///
    /// # Errors
    ///
    /// As `find`.
    pub async fn census(&self, wanted: &IndexSearch) -> Result<Census> {
        let readers = self.0.search.readers().ok_or(Error::SearchOff)?;
        let wanted = wanted.clone();
        readers
            .interruptible(move |reader| PostingsReader::new(reader).census(&wanted, limits::SEARCH_LIST_PAGES))
            .await
    }

    /// The messages of the first of some entries with the reasons of their states, in the order of the entries: none for
    /// one that is no longer there. Reads no more entries after this number of bytes.
    pub async fn hits(&self, entries: &[HitQuery], bytes_max: usize) -> Result<Vec<Option<Hit>>> {
        self.0.snapshot(|reader| hits::read(reader, entries, bytes_max)).await
    }

    /// The ranges of a session's history, and of its owners' rows.
    pub async fn ranges(&self, session: SessionKey) -> Result<Vec<OwnRange>> {
        self.0.reading(|reader| hits::ranges(reader, session)).await
    }

    /// Watches the number of the newest event that is in the index.
    pub fn progress(&self) -> watch::Receiver<Seq> {
        self.0.search.progress.subscribe()
    }

    /// What searches wait for, for the one that fills the index: an event of the log.
    pub fn awaited_seq(&self) -> watch::Receiver<Seq> {
        self.0.search.asked.subscribe()
    }

    /// Waits until an event is in the index, for a time at most. Returns the newest event that is. What is in the log
    /// already is indexed without pauses. Does not wait for an index that is not open.
    pub async fn wait(&self, seq: Seq, at_most: Duration) -> Seq {
        let mut progress = self.progress();
        if !self.is_open() {
            return *progress.borrow();
        }
        let asked = seq.min(*self.0.announced.newest_event.borrow());
        self.0.search.asked.send_if_modified(|newest| {
            let is_newer = asked > *newest;
            *newest = asked.max(*newest);
            is_newer
        });
        // What is there when the time is up answers as well.
        let _ = tokio::time::timeout(at_most, progress.wait_for(|indexed| *indexed >= seq)).await;
        *progress.borrow()
    }

    /// Waits until the index has forgotten what was erased up to an event, for a time at most. True if no file of the
    /// index has anything of it.
    pub async fn has_forgotten(&self, seq: Seq, at_most: Duration) -> bool {
        !files::has_search(&self.0.directory) || (self.wait(seq, at_most).await >= seq && gaps::can_be_cleaned())
    }

    /// The names of its files.
    pub fn files() -> [String; 2] {
        [files::SEARCH.to_owned(), format!("{}-wal", files::SEARCH)]
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
