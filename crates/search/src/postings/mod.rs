//! The index in SQLite: lists of the entries that have a word, made by the commit and joined into larger ones.
//!
//! FTS5 keeps the same lists. It cuts words again, keeps columns apart and puts its lists together more often than these
//! need, and what is erased leaves it only with all others of a tenant: see docs/performance.md.

mod batch;
mod block;
mod entries;
mod file;
mod find;
mod lists;
#[cfg(test)]
mod tests;

use crate::engine::connect::{self, BUSY_TIMEOUT};
use crate::engine::gaps::{self, Gaps};
use crate::engine::{Connection, Reader, checkpoint};
use crate::error::{Error, Result};
use crate::forgotten::{ErasedRows, ForgottenRows};
use crate::model::Seq;
use crate::model::session::SessionKey;
use crate::part::Part;
use crate::progress::Progress;
use crate::telemetry::failpoint;
use crate::wanted::{Census, FoundEntries, IndexSearch};
use crate::{IndexReader, IndexWriter};
pub use batch::Batch;
use file::Segment;
use lists::TenantWords;
use std::collections::BTreeMap;
use std::path::Path;

/// The index in a file of SQLite, for the one that fills it.
pub struct Postings {
    file: Connection,
    /// Joins in a row that failed.
    failed_joins: u32,
}

impl Postings {
    /// Opens the index of a store, whose file is there. None for one of another version.
    ///
    /// # Errors
    ///
    /// `Error::Corrupt` for a file that is damaged.
    pub fn open(directory: &Path) -> Result<Option<Self>> {
        let file = connect::connect_search_writer(directory)?;
        Ok(file::prepare(&file)?.then(|| Self::new(file)))
    }

    fn new(file: Connection) -> Self {
        Self { file, failed_joins: 0 }
    }
}

impl IndexWriter for Postings {
    type Batch = Batch;

    fn cut(batch: &mut Batch, parts: &[Part]) {
        batch.begin();
        for part in parts {
            batch.add(part);
        }
    }

    fn progress(&self) -> Result<Option<Progress>> {
        file::progress(&self.file)
    }

    fn add(&mut self, after: Seq, progress: &Progress, batch: &mut Batch) -> Result<Progress> {
        let before = self.progress()?.filter(|before| before.store == progress.store && before.seq > after);
        let added = match before {
            Some(before) => Ok(before),
            None => file::add(&self.file, progress, batch).map(|()| progress.clone()),
        };
        batch.end();
        added
    }

    fn join(&mut self, is_behind: bool) -> Result<()> {
        match file::join(&self.file, is_behind) {
            Ok(()) => self.failed_joins = 0,
            Err(error @ Error::Corrupt { .. }) => return Err(error),
            Err(error) => {
                self.failed_joins = self.failed_joins.saturating_add(1);
                // Ever less often.
                if self.failed_joins.is_power_of_two() {
                    tracing::warn!(%error, failures = self.failed_joins, "the search index is joined later");
                }
            }
        }
        Ok(())
    }

    fn forget(&mut self, erased: &[ErasedRows]) -> Result<bool> {
        let mut sessions: BTreeMap<(&str, SessionKey), Vec<ForgottenRows>> = BTreeMap::new();
        for ErasedRows { tenant, owner, what } in erased {
            sessions.entry((tenant, *owner)).or_default().push(*what);
        }
        // A segment is written anew once, for all sessions.
        let mut removed: BTreeMap<i64, (Segment, Vec<i64>)> = BTreeMap::new();
        for ((tenant, owner), what) in sessions {
            let Some(tenant) = file::tenant(&self.file, tenant)? else { continue };
            let words = TenantWords::new(&self.file, tenant)?;
            for segment in words.segments() {
                for id in words.of_session(segment, owner.0)? {
                    let known = words.entry(id)?;
                    let known = known.filter(|known| what.iter().any(|what| what.has(known.message, known.number)));
                    if let Some(known) = known {
                        removed.entry(segment.first).or_insert((*segment, Vec::new())).1.push(known.id);
                    }
                }
            }
        }
        let is_removed = !removed.is_empty();
        for (segment, mut ids) in removed.into_values() {
            ids.sort_unstable();
            file::remove(&self.file, &segment, &ids)?;
        }
        Ok(is_removed)
    }

    fn wipe(&mut self) -> Result<()> {
        if gaps::can_be_cleaned() {
            // Nobody else writes to the file.
            let mut gaps = Gaps::default();
            while !gaps.clean(&self.file, None)? {}
            failpoint::reach("search.cleaned");
        }
        if !checkpoint::empty_log(&self.file, BUSY_TIMEOUT, BUSY_TIMEOUT)? {
            return Err(Error::Busy("a search needs the log of the index"));
        }
        failpoint::reach("search.emptied");
        Ok(())
    }
}

/// A look at the index in SQLite.
pub struct PostingsReader<'r, 'c> {
    reader: &'r mut Reader<'c>,
}

impl<'r, 'c> PostingsReader<'r, 'c> {
    /// Looks at the index on a connection.
    pub fn new(reader: &'r mut Reader<'c>) -> Self {
        Self { reader }
    }

    /// Reads what is there at one moment: lists are moved from segment to segment meanwhile.
    fn at_once<T>(&mut self, read: impl FnOnce(&mut Reader<'_>) -> Result<T>) -> Result<T> {
        let transaction = self.reader.conn.transaction()?;
        let answer = read(self.reader);
        // A failed transaction may have ended by itself.
        let ended = transaction.roll_back();
        let answer = answer?;
        ended?;
        Ok(answer)
    }
}

impl IndexReader for PostingsReader<'_, '_> {
    fn find(&mut self, wanted: &IndexSearch, pages: i64) -> Result<FoundEntries> {
        self.at_once(|reader| find::find(reader, wanted, pages))
    }

    fn census(&mut self, wanted: &IndexSearch, pages: i64) -> Result<Census> {
        self.at_once(|reader| find::census(reader, wanted, pages))
    }
}
