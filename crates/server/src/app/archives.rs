//! Archives of sessions: exported whole, and imported into another store.

use super::error::{Error, Reason, Result};
use super::nouns::Archives;
use super::sessions::SessionInfo;
use crate::limits;
use crate::model::access::Scope;
use crate::model::ids::SessionId;
use crate::store::{self, Archive, ArchiveImport};
use crate::turns;
use std::io::{BufRead as _, BufReader, Read as _};
use std::sync::Arc;
use tokio::sync::mpsc;

/// The sessions of an archive that was imported.
#[derive(Debug, Clone)]
pub struct ImportedArchive {
    /// The session that the archive is of.
    pub info: SessionInfo,
    /// The sessions that were written.
    pub written: Vec<SessionId>,
}

/// The lines of an archive that was sent compressed.
fn decompress(data: &[u8]) -> Result<Vec<u8>> {
    let broken = |error: std::io::Error| Error::new(Reason::ArchiveInvalid, format!("data is no Zstandard: {error}"));
    let mut lines = Vec::new();
    let decoder = zstd::stream::read::Decoder::with_buffer(data).map_err(broken)?;
    // A few bytes that say a lot take as much time and memory as what they say.
    let limit = data.len().saturating_mul(limits::ARCHIVE_BYTES_RATIO_MAX);
    let limit = limit.clamp(limits::ARCHIVE_BYTES_FREE, limits::ARCHIVE_BYTES_MAX);
    decoder.take(limit as u64 + 1).read_to_end(&mut lines).map_err(broken)?;
    if lines.len() > limit {
        return Err(Error::limit("data", limit, lines.len()));
    }
    Ok(lines)
}

/// The sessions of an archive that was sent compressed, by its first line; none if that cannot be read.
pub fn sessions_in(data: &[u8]) -> Vec<String> {
    let Ok(decoder) = zstd::stream::read::Decoder::with_buffer(data) else { return Vec::new() };
    let mut line = Vec::new();
    let read = BufReader::new(decoder).take(limits::ARCHIVE_PAGE_BYTES as u64).read_until(b'\n', &mut line);
    read.map(|_| Archive::sessions(&line)).unwrap_or_default()
}

impl Archives<'_> {
    /// Writes the archive of a session; the receiver gets its bytes in order. It goes no further than the receiver reads,
    /// and ends with it.
    ///
    /// # Errors
    ///
    /// `SESSION_NOT_FOUND`; `SCOPE_MISSING` if the session hangs on one that the caller does not see.
    pub async fn export(self, id: &str) -> Result<mpsc::Receiver<Result<Vec<u8>>>> {
        let key = self.caller.session_key(id).await?;
        let plan = self.caller.store().archives().plan(key).await?;
        for key in plan.sessions() {
            if !self.caller.sees(key).await? {
                let message = "the session hangs on another one, which the access token is not bound to";
                return Err(Error::new(Reason::ScopeMissing, message).with("scope", Scope::Read));
            }
        }
        let mut writing = self.caller.store().archives().begin(plan);
        let (pieces, receiver) = mpsc::channel(1);
        let stopping = self.caller.shared.stopping.clone();
        turns::spawn(async move {
            let write = async {
                while let Some(page) = writing.next_piece().await? {
                    for piece in page.chunks(limits::ARCHIVE_PIECE_BYTES) {
                        if pieces.send(Ok(piece.to_vec())).await.is_err() {
                            return Ok(());
                        }
                    }
                }
                Ok::<(), store::Error>(())
            };
            let end = tokio::select! {
                () = stopping.cancelled() => Err(Error::stopping()),
                end = write => end.map_err(Error::from),
            };
            if let Err(error) = end {
                drop(pieces.send(Err(error)).await);
            }
        });
        Ok(receiver)
    }

    /// Writes the sessions of an archive, compressed with Zstandard, into the caller's tenant. Ids are unique in the store,
    /// and an archive brings its own: whether it can be written tells which ids other tenants have, and so it is for
    /// operators, who see all of them.
    ///
    /// # Errors
    ///
    /// `ARCHIVE_INVALID`, `ARCHIVE_CONFLICT`, `CLIENT_ID_REUSED`, `QUOTA_EXCEEDED`, `LIMIT_EXCEEDED`; `SCOPE_MISSING` for
    /// a caller that is no operator.
    pub async fn import(self, data: Vec<u8>) -> Result<ImportedArchive> {
        if !self.caller.access.is_operator() {
            let message = "archives are imported by operators, who act in the tenant with the header longhand-tenant";
            return Err(Error::new(Reason::ScopeMissing, message).with("scope", Scope::Admin));
        }
        // The lines of an archive are in memory until it is written.
        let permit = self.caller.shared.unless_stopping(self.caller.shared.imports.acquire()).await?;
        let _permit = permit.map_err(Error::internal)?;
        let (archives, bytes) = (self.caller.store().archives().clone(), data.len());
        let read = move || Ok::<Archive, Error>(archives.read(&decompress(&data)?)?);
        let archive = Arc::new(tokio::task::spawn_blocking(read).await.map_err(Error::internal)??);
        let imported =
            self.caller.store().archives().import(archive, self.caller.visibility.tenant.clone(), bytes).await?;
        let ArchiveImport { session, written } = imported;
        let info = Error::answer(self.caller.sessions().info(session).await)?;
        self.caller.named.add(&info.session.id.to_string());
        Ok(ImportedArchive { info, written })
    }
}
