//! Full-text search over parts of messages: what an index is given, what it is asked, and what it answers.
//!
//! An index only follows from the log of a store: it can be thrown away and filled again. [`IndexWriter`] is the one that
//! fills it, [`IndexReader`] a look at what is in it, and everything else here is what they are told and say. What a word
//! is, and what it says for a part, is decided in `longhand_words`, the same for each index. [`Postings`] is the one
//! that there is: lists of words in a file of SQLite. Another one implements the two traits, and is opened where this one
//! is, which no trait says: by `Postings::open` in `longhand_store`'s `search::indexer`, and by `PostingsReader::new` in
//! its `search::handle`.

use longhand_engine::{self as engine, error};
use longhand_model as model;
use longhand_runtime::{limits, telemetry};
use longhand_words as words;

mod forgotten;
mod part;
mod postings;
mod progress;
mod texts;
mod wanted;

pub use forgotten::{ErasedRows, ForgottenRows};
pub use part::{EntryKind, Part};
pub use postings::{Batch, Postings, PostingsReader};
pub use progress::Progress;
pub use texts::text_of;
pub use wanted::{Census, Entry, FoundEntries, IndexSearch, OwnRange, Phrase, RankedEntry, phrases};

/// The one that fills an index.
pub trait IndexWriter {
    /// Parts whose words are cut. It keeps memory for the next ones, and is as good as new without it.
    type Batch: Default + Send;

    /// Cuts the words of parts, in the order in which they came. What has no word is left out. That needs nothing of the
    /// index, so that another thread can do it while the ones before are added.
    fn cut(batch: &mut Self::Batch, parts: &[Part]);

    /// How far the index is; none for a new one.
    ///
    /// # Errors
    ///
    /// `Error::Corrupt` for an index that is damaged: it has to be made anew.
    fn progress(&self) -> error::Result<Option<Progress>>;

    /// Adds the parts of the events after one, which were cut, and notes how far the index is: both or neither. An index
    /// that is beyond that event already stays as it is, so that an attempt whose answer was lost can be repeated with more
    /// events. Returns how far the index is.
    ///
    /// # Errors
    ///
    /// As for `progress`, and what a full or failing disk says.
    fn add(&mut self, after: model::Seq, progress: &Progress, batch: &mut Self::Batch) -> error::Result<Progress>;

    /// Joins what was added, so that a search looks into few places. While more is to come at once that is put off, as long
    /// as they are not too many. What cannot be joined now is tried again the next time.
    ///
    /// # Errors
    ///
    /// `Error::Corrupt`, as for `progress`.
    fn join(&mut self, is_behind: bool) -> error::Result<()>;

    /// Removes what was erased, so that no search finds it. True if something was there.
    ///
    /// # Errors
    ///
    /// As for `add`. A part of it may be removed.
    fn forget(&mut self, erased: &[ErasedRows]) -> error::Result<bool>;

    /// Overwrites what is left in the index's files of what was forgotten.
    ///
    /// # Errors
    ///
    /// `Error::Busy` if a search still needs some of it; it can be repeated.
    fn wipe(&mut self) -> error::Result<()>;
}

/// A look at an index, as it is at one moment.
pub trait IndexReader {
    /// Finds the best entries. Of what each word has in the index, about so many pages of 4 KiB are read at most: words
    /// that are more common find nothing, unless few parts are searched, and change the order of what the others find. If
    /// all are, the hits are the newest that have the rarest one, or the newest ones.
    ///
    /// # Errors
    ///
    /// As for `IndexWriter::progress`.
    fn find(&mut self, wanted: &IndexSearch, pages: i64) -> error::Result<FoundEntries>;

    /// Counts how common the clues of a search are, for a caller that does not see all sessions.
    ///
    /// # Errors
    ///
    /// As for `find`.
    fn census(&mut self, wanted: &IndexSearch, pages: i64) -> error::Result<Census>;
}
