//! The index in SQLite.

mod file;
mod find;
mod lists;
#[cfg(test)]
mod tests;

use crate::engine::connect::{self, BUSY_TIMEOUT};
use crate::engine::gaps::{self, Gaps};
use crate::engine::{Connection, Reader, checkpoint};
use crate::error::{Error, Result};
use crate::forgotten::Erased;
use crate::part::Part;
use crate::progress::Progress;
use crate::telemetry::failpoint;
use crate::texts::words_of;
use crate::wanted::{Census, Found, Wanted};
use crate::{IndexReader, IndexWriter};
use std::collections::BTreeSet;
use std::path::Path;

/// The index in a file of SQLite, for the one that fills it.
pub struct Postings {
    file: Connection,
}

impl Postings {
    /// Opens the index of a store, whose file is there. None for one of another version.
    ///
    /// # Errors
    ///
    /// `Error::Corrupt` for a file that is damaged.
    pub fn open(directory: &Path) -> Result<Option<Self>> {
        let file = connect::connect_search_writer(directory)?;
        Ok(file::prepare(&file)?.then_some(Self { file }))
    }
}

impl IndexWriter for Postings {
    fn progress(&self) -> Result<Option<Progress>> {
        file::progress(&self.file)
    }

    fn add(&mut self, progress: &Progress, parts: &[Part]) -> Result<()> {
        let cut = parts.iter().map(|part| (part.clone(), words_of(&part.body)));
        let entries: Vec<_> = cut.filter(|(_, words)| !words.is_empty()).collect();
        file::add(&self.file, progress, &entries)
    }

    fn forget(&mut self, erased: &[Erased]) -> Result<bool> {
        let mut tenants = BTreeSet::new();
        for Erased { tenant, owner, what } in erased {
            if file::forget(&self.file, *owner, *what)? > 0 {
                tenants.insert(&**tenant);
            }
        }
        for tenant in &tenants {
            file::merge(&self.file, tenant)?;
        }
        Ok(!tenants.is_empty())
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
}

impl IndexReader for PostingsReader<'_, '_> {
    fn find(&mut self, wanted: &Wanted, pages: i64) -> Result<Found> {
        find::find(self.reader, wanted, pages)
    }

    fn census(&mut self, wanted: &Wanted, pages: i64) -> Result<Census> {
        find::census(self.reader, wanted, pages)
    }
}
