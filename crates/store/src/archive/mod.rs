//! Archives: whole sessions as JSON lines, which another store reads with every revision, mark and hash.

mod derived;
mod lines;
mod read;
mod tables;
mod write;

pub use lines::Archive;
pub use read::ArchiveImport;
pub use write::ArchivePlan;

use super::engine::connect;
use super::error::Result;
use super::ledger::head::SessionKey;
use super::shared::StoreParts;
use super::writer::Mutation;
use std::sync::Arc;

/// The statements of this folder, for the test that prepares them all.
#[cfg(test)]
pub(crate) const STATEMENTS: [&[&str]; 3] = [read::STATEMENTS, write::STATEMENTS, derived::STATEMENTS];

/// Archives of sessions: written and read.
#[derive(Clone)]
pub struct Archives(pub(super) Arc<StoreParts>);

/// An archive that is being written.
pub struct ArchiveWriter {
    store: Archives,
    pages: write::PageWriter,
}

impl Archives {
    /// The extent of a session's archive, as of now.
    pub async fn plan(&self, session: SessionKey) -> Result<ArchivePlan> {
        self.0.snapshot(|reader| write::plan(reader, session)).await
    }

    /// Begins to write an archive.
    pub fn begin(&self, plan: ArchivePlan) -> ArchiveWriter {
        ArchiveWriter { store: self.clone(), pages: write::PageWriter::new(plan, self.0.identity.id) }
    }

    /// Reads an archive; nothing is written yet.
    pub fn read(&self, bytes: &[u8]) -> Result<Archive> {
        Archive::read(bytes, connect::schema_version())
    }

    /// Writes the sessions of an archive that are not there into a tenant, and checks their chains. `bytes` is the size
    /// in which it was received.
    ///
    /// # Errors
    ///
    /// `ArchiveInvalid`, `ArchiveConflict`, `ClientIdReused` or `QuotaExceeded`; then nothing of it is written.
    pub async fn import(&self, archive: Arc<Archive>, tenant: Arc<str>, bytes: usize) -> Result<ArchiveImport> {
        self.0.memberships.expect(&tenant);
        let mutation = Mutation::content_and_change("import", bytes);
        self.0.write(mutation, move |tx| read::Import { archive: &archive, tenant: &tenant, tx }.apply()).await
    }
}

impl ArchiveWriter {
    /// The next piece; none at the end. No read of the store goes on between two pieces.
    pub async fn next_piece(&mut self) -> Result<Option<Vec<u8>>> {
        let pages = &mut self.pages;
        let piece = self.store.0.snapshot(|reader| pages.page(reader)).await?;
        Ok(Some(piece).filter(|piece| !piece.is_empty()))
    }
}
