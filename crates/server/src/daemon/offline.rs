//! Work on a data directory or a backup without a daemon, for the command line.

pub use crate::postgres::Shard;
pub use crate::store::{
    CopyProgress, Diagnosis, DoctorTotals, ExaminationMode, Gap, MigratedStore, MigrationProgress, NamedRow,
    RestoredStore, StorePlace, examine, restore,
};

use crate::clock::{Clock, fresh_id};
use crate::grpc;
use crate::pb;
use crate::store::{self, Durability, Store, Visibility};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A piece of an export, in the form of the protocol.
#[derive(Debug)]
pub enum ExportItem {
    /// A session, without its policy.
    Session(Box<pb::Session>),
    /// A message of a session, which is given by its id, or by its key if its row cannot be read.
    Message(String, Box<pb::Message>),
    /// A row that cannot be read.
    Lost(NamedRow),
    /// Rows that must be there and were not found.
    Gap(Gap),
    /// A revision whose rows are not those that the chain commits to, or cannot be compared with it.
    Doubt(NamedRow),
}

/// Exports what can be read from a store that may be damaged; `each` gets each piece.
pub async fn export(
    directory: &Path,
    each: &mut (dyn FnMut(ExportItem) -> std::io::Result<()> + Send),
) -> Result<(), store::Error> {
    let mut convert = |piece| {
        each(match piece {
            store::ExportItem::Session(session) => ExportItem::Session(Box::new(grpc::stored_session(*session))),
            store::ExportItem::Message(session, message) => {
                ExportItem::Message(session, Box::new(grpc::stored_message(*message)))
            }
            store::ExportItem::Lost(lost) => ExportItem::Lost(lost),
            store::ExportItem::Gap(gap) => ExportItem::Gap(gap),
            store::ExportItem::Doubt(doubt) => ExportItem::Doubt(doubt),
        })
    };
    store::export(directory, &mut convert).await
}

/// Moves a store to another place, as `store::migrate`.
///
/// # Errors
///
/// As those of `store::migrate`.
pub async fn migrate(
    from: &StorePlace,
    to: &StorePlace,
    progress: &(dyn Fn(MigrationProgress) + Send + Sync),
) -> Result<MigratedStore, store::Error> {
    store::migrate(from, to, &Clock::default(), progress).await
}

/// An archive whose chains commit to what it says.
#[derive(Debug)]
pub struct CheckedArchive {
    /// Its sessions, each with its newest revision in the archive.
    pub sessions: Vec<(String, i64)>,
    /// The hashes of the chains at the points that were given; none where the archive has no such point.
    pub hashes: Vec<Option<Vec<u8>>>,
}

/// A failure of the check of an archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The archive is not as it was written, or its chains do not commit to what it says.
    #[error("{0}")]
    Refused(String),
    /// It could not be checked.
    #[error("cannot check the archive: {0}")]
    Failed(String),
}

impl From<store::Error> for ArchiveError {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::ArchiveInvalid(_) | store::Error::ClientIdReused { .. } => Self::Refused(error.to_string()),
            error => Self::Failed(error.to_string()),
        }
    }
}

/// A folder that is removed at the end.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("longhand-check-{}", fresh_id().simple()));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, path = %self.0.display(), "a temporary folder stays");
        }
    }
}

/// Checks an archive as a daemon does that imports it, in a store of its own that is removed. Also reads the hashes at
/// points of its chains, each a session and a revision.
///
/// # Errors
///
/// `Refused` for an archive that no daemon would import.
pub async fn check_archive(lines: &[u8], points: &[(String, i64)]) -> Result<CheckedArchive, ArchiveError> {
    let folder = Temporary::new().map_err(|error| ArchiveError::Failed(error.to_string()))?;
    let options = store::Options { directory: folder.0.clone(), durability: Durability::ProcessCrash };
    let (store, writer) = Store::open(options, Clock::default()).await?;
    let writer = tokio::spawn(writer);
    let checked = check_in(&store, lines, points).await;
    drop(store);
    writer.await.map_err(|error| ArchiveError::Failed(error.to_string()))?;
    checked
}

async fn check_in(store: &Store, lines: &[u8], points: &[(String, i64)]) -> Result<CheckedArchive, ArchiveError> {
    let archive = Arc::new(store.archives().read(lines)?);
    store.archives().import(Arc::clone(&archive), Arc::default(), 0).await?;
    let visibility = Visibility::default();
    let mut hashes = Vec::with_capacity(points.len());
    for (session, revision) in points {
        hashes.push(match store.sessions().find(&visibility, session).await {
            Ok(key) => store.log().chain_hash(key, Some(*revision)).await?.1,
            Err(store::Error::NotFound { .. }) => None,
            Err(error) => return Err(error.into()),
        });
    }
    let sessions = archive.heads().map(|(session, revision)| (session.to_owned(), revision)).collect();
    Ok(CheckedArchive { sessions, hashes })
}
