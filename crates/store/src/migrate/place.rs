//! The two places between which a store moves, and what is done with each: it is held against daemons, looked into,
//! filled, and set aside.

use super::note::{self, Content, CopyNote};
use crate::clock::{Clock, fresh_id};
use crate::engine::connect::{self, Access};
use crate::engine::database::{HeldStore, LeasedPlace, Look, VerifiedBy};
use crate::engine::file_store::HeldFiles;
use crate::engine::files::{self, DATABASE, DatabaseState};
use crate::engine::{Connection, copy};
use crate::error::{Error, Result};
use crate::integrity::copies::{self, OnProgress};
use crate::limits;
use crate::model::Seq;
use crate::open::{self, alone};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A place of a store.
#[derive(Debug, Clone)]
pub enum StorePlace {
    /// Files of SQLite in a data directory.
    Directory(PathBuf),
    /// A shard of a server's database.
    Shard(Arc<dyn LeasedPlace>),
}

/// A store, and what keeps daemons out of it.
enum Hold {
    /// It is this process's alone.
    Held(Box<dyn HeldStore>),
    /// Nothing: no daemon serves what is set aside.
    Aside(Connection),
}

pub(super) struct HeldPlace {
    hold: Hold,
    /// The place, by a name that does not depend on how it was given.
    pub(super) name: String,
    /// Where the store is once it is set aside.
    pub(super) aside: String,
}

/// A place that a copy goes to.
pub(super) struct Destination {
    place: StorePlace,
    /// The lock on a data directory.
    lock: Option<File>,
    pub(super) content: Content,
}

fn no_store(place: impl std::fmt::Display) -> Error {
    Error::Open(format!("there is no store in {place}"))
}

/// Waits for the lease of a shard as long as that of an owner lasts that is gone.
async fn wait_for_lease(shard: &Arc<dyn LeasedPlace>) -> Result<Box<dyn HeldStore>> {
    let owner = format!(".{}", fresh_id().simple());
    for _ in 0..limits::MIGRATION_LEASE_WAIT_MS / limits::LEASE_RETRY_MS {
        let ttl = Duration::from_secs(limits::LEASE_SECONDS_DEFAULT);
        match open::take_lease(shard, owner.clone(), ttl).await {
            Ok(Some(held)) => return Ok(held),
            Ok(None) | Err(Error::Busy(_)) => {}
            Err(error) => return Err(error),
        }
        tokio::time::sleep(Duration::from_millis(limits::LEASE_RETRY_MS)).await;
    }
    let name = shard.name();
    Err(Error::Open(format!("a daemon has the shard {name}: stop it, or wait until its lease has run out")))
}

/// Looks into a shard, whoever has it, and makes nothing.
async fn look(shard: &Arc<dyn LeasedPlace>) -> Result<(Look, Content)> {
    let shard = Arc::clone(shard);
    alone(move || {
        let look = shard.look()?;
        let content = Content::read(&look.conn)?;
        Ok((look, content))
    })
    .await
}

/// The name of a directory that exists.
fn directory_name(directory: &Path) -> Result<String> {
    let path = directory.canonicalize();
    let path = path.map_err(|error| Error::Open(format!("cannot look at {}: {error}", directory.display())))?;
    Ok(path.display().to_string())
}

impl HeldPlace {
    /// Holds the store in a place, or what is set aside there.
    pub(super) async fn source(place: &StorePlace) -> Result<Self> {
        match place {
            StorePlace::Directory(directory) => Self::source_in_files(&files::plain(directory)?).await,
            StorePlace::Shard(shard) => Self::source_in_shard(shard).await,
        }
    }

    async fn source_in_files(directory: &Path) -> Result<Self> {
        let (database, aside) = (directory.join(DATABASE), files::aside(directory));
        // To lock a directory would make it.
        if !database.exists() && !aside.exists() {
            return Err(no_store(directory.display()));
        }
        let (lock, state) = connect::claim(directory).await?;
        let (name, aside_name) = (directory_name(directory)?, aside.display().to_string());
        match (state, aside.exists()) {
            (DatabaseState::Ours, false) => {
                let hold = Hold::Held(Box::new(HeldFiles::open_existing(directory, lock)?));
                Ok(Self { hold, name, aside: aside_name })
            }
            (DatabaseState::Ours, true) => Err(Error::Open(format!(
                "{aside_name} was set aside by an earlier migration, and is not replaced: move or remove it"
            ))),
            (DatabaseState::Empty, true) => {
                Ok(Self { hold: Hold::Aside(copies::connect(&aside)?), name, aside: aside_name })
            }
            (DatabaseState::Empty, false) => Err(no_store(directory.display())),
        }
    }

    async fn source_in_shard(shard: &Arc<dyn LeasedPlace>) -> Result<Self> {
        let (Look { name, aside, has_aside, .. }, content) = look(shard).await?;
        let hold = match (content, has_aside) {
            (Content::Nothing, false) => return Err(no_store(name)),
            (Content::Nothing, true) => {
                let shard = Arc::clone(shard);
                Hold::Aside(alone(move || shard.connect_aside()).await?)
            }
            (Content::Store(_) | Content::Unfinished { .. }, true) => {
                return Err(Error::Open(format!(
                    "{aside} was set aside by an earlier migration, and is not replaced: rename or drop it"
                )));
            }
            (Content::Store(_) | Content::Unfinished { .. }, false) => Hold::Held(wait_for_lease(shard).await?),
        };
        Ok(Self { hold, name, aside })
    }

    pub(super) fn conn(&self) -> &Connection {
        match &self.hold {
            Hold::Held(held) => held.connection(),
            Hold::Aside(conn) => conn,
        }
    }

    fn store(&self) -> Result<&dyn HeldStore> {
        match &self.hold {
            Hold::Held(held) => Ok(&**held),
            Hold::Aside(_) => Err(IS_ASIDE),
        }
    }

    fn into_held(self) -> Result<Box<dyn HeldStore>> {
        match self.hold {
            Hold::Held(held) => Ok(held),
            Hold::Aside(_) => Err(IS_ASIDE),
        }
    }

    /// True for a store that is set aside already.
    pub(super) fn is_aside(&self) -> bool {
        matches!(self.hold, Hold::Aside(_))
    }

    /// Brings the store up to date, as a daemon does at its start. Refuses one that is not whole.
    pub(super) fn prepare(&self, clock: &Clock) -> Result<()> {
        match &self.hold {
            Hold::Held(held) => open::prepare(&**held, clock).map(drop),
            Hold::Aside(_) => Ok(()),
        }
    }

    /// Begins a copy in an empty place, or anew.
    pub(super) fn begin(&self, note: &CopyNote) -> Result<()> {
        let held = self.store()?;
        let transaction = held.connection().transaction()?;
        held.clear()?;
        copy::make(&transaction)?;
        note.write(&transaction)?;
        transaction.commit()
    }

    /// Verifies the chains of a copy that is complete; of files also pages and references.
    pub(super) async fn verify(&self, head: Seq, progress: OnProgress<'_>) -> Result<()> {
        let verified_by = self.store()?.verified_by();
        match verified_by {
            VerifiedBy::File(file) => copies::check(&file, progress).await.map(drop),
            VerifiedBy::Readers(readers) => copies::verify(&readers, head, progress).await.map(drop),
        }
    }

    /// Has the file of the database have all that its log has.
    pub(super) fn empty_log(&self) -> Result<()> {
        self.store()?.empty_log()
    }

    /// Sets the store aside in one step, behind which no daemon serves it. It says which copy takes its place. Returns what
    /// keeps daemons out of its directory.
    pub(super) fn set_aside(self, head: Seq, copy_id: &[u8]) -> Result<Option<File>> {
        self.into_held()?.set_aside(head, &|conn| note::set_successor(conn, copy_id))
    }

    /// Makes the copy the store, in one step.
    pub(super) fn complete(self, head: Seq) -> Result<()> {
        self.into_held()?.complete(head, &note::remove)
    }
}

const IS_ASIDE: Error = Error::Bug("a store that is set aside is held by nobody");

impl Destination {
    /// Looks into a place, which is made if it is a directory that does not exist. `source` is the name of the other place.
    pub(super) async fn examine(place: &StorePlace, source: &str) -> Result<Self> {
        match place {
            StorePlace::Directory(directory) => {
                let directory = files::plain(directory)?;
                let (lock, state) = connect::claim(&directory).await?;
                let content = match state {
                    DatabaseState::Empty => Content::Nothing,
                    DatabaseState::Ours => {
                        let conn = connect::connect_existing(&directory, Access::Read)?;
                        let content = Content::read(&conn)?;
                        conn.close()?;
                        content
                    }
                };
                Ok(Self { place: StorePlace::Directory(directory), lock: Some(lock), content })
            }
            StorePlace::Shard(shard) => {
                let (Look { name, .. }, content) = look(shard).await?;
                if name == source {
                    return Err(Error::Open("a store cannot be migrated to where it is".to_owned()));
                }
                Ok(Self { place: place.clone(), lock: None, content })
            }
        }
    }

    /// Holds the place to fill it; `goes_on` with the copy that is there, else anew.
    pub(super) async fn hold(self, goes_on: bool) -> Result<HeldPlace> {
        let Self { place, lock, content } = self;
        match (place, lock) {
            (StorePlace::Directory(directory), Some(lock)) => {
                let (name, aside) = (directory_name(&directory)?, files::aside(&directory).display().to_string());
                if !goes_on && content != Content::Nothing {
                    HeldFiles::remove(&directory)?;
                }
                let hold = Hold::Held(Box::new(HeldFiles::open_copy(&directory, lock)?));
                Ok(HeldPlace { hold, name, aside })
            }
            (StorePlace::Shard(shard), _) => {
                let hold = Hold::Held(wait_for_lease(&shard).await?);
                let held = HeldPlace { hold, name: String::new(), aside: String::new() };
                alone(move || match Content::read(held.conn())? == content {
                    true => Ok(held),
                    false => Err(Error::Open("somebody else has just written to the shard".to_owned())),
                })
                .await
            }
            (StorePlace::Directory(_), None) => Err(Error::Bug("a directory is not locked")),
        }
    }
}
