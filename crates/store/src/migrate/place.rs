//! The two places between which a store moves, and what is done with each: it is held against daemons, looked into,
//! filled, and set aside.

use super::note::{self, Content, Note};
use crate::clock::{Clock, fresh_id};
use crate::engine::connect::{self, Access, BUSY_TIMEOUT};
use crate::engine::files::{self, DATABASE, DatabaseState};
use crate::engine::home::Ownership;
use crate::engine::postgres::lease::Trust;
use crate::engine::postgres::owner::Taken;
use crate::engine::postgres::registry;
use crate::engine::postgres::shard::{Role, Shard};
use crate::engine::readers::Readers;
use crate::engine::{self, Connection, Durability, checkpoint, copy};
use crate::error::{Error, Result};
use crate::integrity::copies::{self, OnProgress};
use crate::limits;
use crate::model::Seq;
use crate::open::{alone, bring_up_to_date, complete, prepare_shard};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A place of a store.
#[derive(Debug, Clone)]
pub enum Place {
    /// Files of SQLite in a data directory.
    Directory(PathBuf),
    /// A shard of a PostgreSQL database.
    Shard(Box<Shard>),
}

/// What keeps daemons out of a place.
pub(super) enum Hold {
    /// The lock on a data directory.
    Files { directory: PathBuf, _lock: File },
    /// The lease of a shard.
    Shard { ownership: Box<Ownership>, taken: Taken },
    /// Nothing: no daemon serves what is set aside.
    Aside,
}

impl Drop for Hold {
    fn drop(&mut self) {
        // The lease is renewed no more.
        if let Self::Shard { ownership, .. } = self {
            ownership.trust.lose();
        }
    }
}

/// A store that is held.
pub(super) struct Held {
    pub(super) conn: Connection,
    hold: Hold,
    /// The place, by a name that does not depend on how it was given.
    pub(super) name: String,
    /// Where the store is once it is set aside.
    pub(super) aside: String,
}

/// A place that a copy goes to.
pub(super) struct Destination {
    place: Place,
    /// The lock on a data directory.
    lock: Option<File>,
    pub(super) content: Content,
}

fn no_store(place: impl std::fmt::Display) -> Error {
    Error::Open(format!("there is no store in {place}"))
}

/// Waits for the lease of a shard as long as that of an owner lasts that is gone.
async fn take(shard: &Shard) -> Result<(Connection, Hold)> {
    let trust = Arc::new(Trust::new(Arc::default()));
    let ttl = Duration::from_secs(limits::LEASE_SECONDS_DEFAULT);
    let ownership = Ownership { shard: shard.clone(), owner: format!(".{}", fresh_id().simple()), ttl, trust };
    for _ in 0..limits::MIGRATION_LEASE_WAIT_MS / limits::LEASE_RETRY_MS {
        let taking = ownership.clone();
        match alone(move || taking.set_up_and_take()).await {
            Ok(Some((conn, taken))) => return Ok((conn, Hold::Shard { ownership: Box::new(ownership), taken })),
            Ok(None) | Err(Error::Busy(_)) => {}
            Err(Error::ReadOnly) => {
                return Err(Error::Open("the database takes no writes: it is a standby, or read-only".to_owned()));
            }
            Err(error) => return Err(error),
        }
        tokio::time::sleep(Duration::from_millis(limits::LEASE_RETRY_MS)).await;
    }
    let name = shard.name();
    Err(Error::Open(format!("a daemon has the shard {name}: stop it, or wait until its lease has run out")))
}

/// What a shard has.
struct Look {
    content: Content,
    has_aside: bool,
    name: String,
}

const CLUSTER: &str = "select (select system_identifier::text from pg_control_system()) || ' ' || current_database()";

/// Looks into a shard, whoever has it, and makes nothing.
async fn look(shard: &Shard) -> Result<Look> {
    let shard = shard.clone();
    alone(move || {
        let conn = Connection::Postgres(Box::new(shard.connect_alone(Role::Reader, None)?));
        let has_aside = connect::has_table(&conn, &format!("{}.store", Shard::aside(shard.name())))?;
        let cluster: String = engine::scalar(CLUSTER).one(&conn)?;
        let (cluster, database) = cluster.split_once(' ').unwrap_or((&cluster, ""));
        let name = format!("the shard {} of the database {database} of the cluster {cluster}", shard.name());
        let look = Look { content: Content::of(&conn)?, has_aside, name };
        conn.close()?;
        Ok(look)
    })
    .await
}

/// The name of a directory that exists.
fn directory_name(directory: &Path) -> Result<String> {
    let found = directory.canonicalize();
    let found = found.map_err(|error| Error::Open(format!("cannot look at {}: {error}", directory.display())))?;
    Ok(found.display().to_string())
}

impl Held {
    /// Holds the store in a place, or what is set aside there.
    pub(super) async fn source(place: &Place) -> Result<Self> {
        match place {
            Place::Directory(directory) => Self::source_in_files(&files::plain(directory)?).await,
            Place::Shard(shard) => Self::source_in_shard(shard).await,
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
                let conn = connect::connect_existing(directory, Access::Write)?;
                let hold = Hold::Files { directory: directory.to_owned(), _lock: lock };
                Ok(Self { conn, hold, name, aside: aside_name })
            }
            (DatabaseState::Ours, true) => Err(Error::Open(format!(
                "{aside_name} was set aside by an earlier migration, and is not replaced: move or remove it"
            ))),
            (DatabaseState::Empty, true) => {
                Ok(Self { conn: copies::connect(&aside)?, hold: Hold::Aside, name, aside: aside_name })
            }
            (DatabaseState::Empty, false) => Err(no_store(directory.display())),
        }
    }

    async fn source_in_shard(shard: &Shard) -> Result<Self> {
        let Look { content, has_aside, name } = look(shard).await?;
        let schema = Shard::aside(shard.name());
        let aside = format!("the schema {schema}");
        match (content, has_aside) {
            (Content::Nothing, false) => Err(no_store(name)),
            (Content::Nothing, true) => {
                let shard = shard.clone();
                let connect = move || {
                    let conn = Connection::Postgres(Box::new(shard.connect_alone(Role::Reader, None)?));
                    conn.execute_batch(&format!("set search_path = {schema}"))?;
                    Ok(conn)
                };
                Ok(Self { conn: alone(connect).await?, hold: Hold::Aside, name, aside })
            }
            (Content::Store(_) | Content::Unfinished { .. }, true) => Err(Error::Open(format!(
                "{aside} was set aside by an earlier migration, and is not replaced: rename or drop it"
            ))),
            (Content::Store(_) | Content::Unfinished { .. }, false) => {
                let (conn, hold) = take(shard).await?;
                Ok(Self { conn, hold, name, aside })
            }
        }
    }

    /// True for a store that is set aside already.
    pub(super) fn is_aside(&self) -> bool {
        matches!(self.hold, Hold::Aside)
    }

    /// Brings the store up to date, as a daemon does at its start. Refuses one that is not whole.
    pub(super) fn prepare(&self, clock: &Clock) -> Result<()> {
        match &self.hold {
            Hold::Files { directory, .. } => {
                connect::prepare(&self.conn, directory, DatabaseState::Ours, clock)?;
                bring_up_to_date(&self.conn, clock).map(drop)
            }
            Hold::Shard { ownership, taken } => {
                prepare_shard(&self.conn, *taken, ownership.shard.name(), clock)?;
                complete(&self.conn, clock)
            }
            Hold::Aside => Ok(()),
        }
    }

    /// Bytes of its files or tables.
    pub(super) fn bytes(&self) -> Result<i64> {
        match &self.hold {
            Hold::Files { directory, .. } => {
                let found = std::fs::metadata(directory.join(DATABASE));
                Ok(found.map_or(0, |found| i64::try_from(found.len()).unwrap_or(i64::MAX)))
            }
            Hold::Shard { .. } | Hold::Aside => engine::scalar(connect::SCHEMA_BYTES).one(&self.conn),
        }
    }

    /// Begins a copy in an empty place, or anew.
    pub(super) fn begin(&self, note: &Note) -> Result<()> {
        let transaction = self.conn.transaction()?;
        if let Hold::Shard { ownership, .. } = &self.hold {
            let schema = ownership.shard.schema();
            transaction.execute_batch(&format!("drop schema {schema} cascade; create schema {schema}"))?;
        }
        copy::make(&transaction)?;
        note.write(&transaction)?;
        transaction.commit()
    }

    /// Verifies the chains of a copy that is complete; of files also pages and references.
    pub(super) async fn verify(&self, head: Seq, progress: OnProgress<'_>) -> Result<()> {
        match &self.hold {
            Hold::Files { directory, .. } => copies::check(&directory.join(DATABASE), progress).await.map(drop),
            Hold::Shard { ownership, .. } => {
                let (shard, trust) = (ownership.shard.clone(), Arc::clone(&ownership.trust));
                let reading = Arc::clone(&trust);
                let connect = move || shard.connect_shared(Role::Reader, Some(Arc::clone(&reading)));
                let open = Box::new(move || Ok(Connection::Postgres(Box::new(connect()?))));
                let readers = Readers::of_shard(1, Clock::default(), open, trust);
                copies::verify(&readers, head, progress).await.map(drop)
            }
            Hold::Aside => Err(Error::Bug("a store that is set aside is no copy")),
        }
    }

    /// Has the file of the database have all that its log has.
    pub(super) fn empty_log(&self) -> Result<()> {
        match checkpoint::empty_log(&self.conn, BUSY_TIMEOUT, BUSY_TIMEOUT)? {
            true => Ok(()),
            false => Err(Error::Open(format!("another program reads the database in {}: stop it", self.name))),
        }
    }

    /// Sets the store aside in one step, behind which no daemon serves it. It says which copy takes its place. Returns what
    /// keeps daemons out of its directory.
    pub(super) fn set_aside(self, head: Seq, copy_id: &[u8]) -> Result<Hold> {
        match &self.hold {
            Hold::Files { directory, .. } => {
                let transaction = self.conn.transaction()?;
                note::set_successor(&transaction, copy_id)?;
                transaction.commit()?;
                self.empty_log()?;
                self.conn.close()?;
                files::set_aside(directory)?;
            }
            Hold::Shard { ownership, .. } => {
                let (schema, aside) = (ownership.shard.schema(), Shard::aside(ownership.shard.name()));
                self.conn.begin_batch()?;
                note::set_successor(&self.conn, copy_id)?;
                if registry::is_shared(ownership.shard.name()) {
                    self.conn.execute_batch(&registry::leave_directory(ownership.shard.name(), &schema))?;
                }
                self.conn.execute_batch(&format!("alter schema {schema} rename to {aside}"))?;
                self.conn.commit_batch(head)?;
                self.conn.close()?;
            }
            Hold::Aside => return Err(Error::Bug("a store is set aside twice")),
        }
        Ok(self.hold)
    }

    /// Makes the copy the store, in one step.
    pub(super) fn complete(self, head: Seq) -> Result<()> {
        self.conn.begin_batch()?;
        note::remove(&self.conn)?;
        if let Connection::Postgres(client) = &self.conn {
            client.note_server()?;
        }
        self.conn.commit_batch(head)?;
        self.conn.close()
    }
}

impl Destination {
    /// Looks into a place, which is made if it is a directory that does not exist. `source` is the name of the other place.
    pub(super) async fn of(place: &Place, source: &str) -> Result<Self> {
        match place {
            Place::Directory(directory) => {
                let directory = files::plain(directory)?;
                let (lock, state) = connect::claim(&directory).await?;
                let content = match state {
                    DatabaseState::Empty => Content::Nothing,
                    DatabaseState::Ours => {
                        let conn = connect::connect_existing(&directory, Access::Read)?;
                        let content = Content::of(&conn)?;
                        conn.close()?;
                        content
                    }
                };
                Ok(Self { place: Place::Directory(directory), lock: Some(lock), content })
            }
            Place::Shard(shard) => {
                let Look { content, name, .. } = look(shard).await?;
                if name == source {
                    return Err(Error::Open("a store cannot be migrated to where it is".to_owned()));
                }
                Ok(Self { place: place.clone(), lock: None, content })
            }
        }
    }

    /// Holds the place to fill it; `goes_on` with the copy that is there, else anew.
    pub(super) async fn hold(self, goes_on: bool) -> Result<Held> {
        let Self { place, lock, content } = self;
        match (place, lock) {
            (Place::Directory(directory), Some(lock)) => {
                let (name, aside) = (directory_name(&directory)?, files::aside(&directory).display().to_string());
                if !goes_on && content != Content::Nothing {
                    let conn = connect::connect_existing(&directory, Access::Write)?;
                    checkpoint::empty_log(&conn, BUSY_TIMEOUT, BUSY_TIMEOUT)?;
                    conn.close()?;
                    files::remove_database(&directory)?;
                }
                files::make_database(&directory)?;
                let conn = connect::connect_writer(&directory, Durability::Full)?;
                conn.pragma_update("application_id", files::APPLICATION_ID)?;
                // Nobody else makes checkpoints here.
                conn.pragma_update("wal_autocheckpoint", 1_000)?;
                files::sync_directory(&lock, &directory)?;
                Ok(Held { conn, hold: Hold::Files { directory, _lock: lock }, name, aside })
            }
            (Place::Shard(shard), _) => {
                let (conn, hold) = take(&shard).await?;
                let held = Held { conn, hold, name: String::new(), aside: String::new() };
                alone(move || match Content::of(&held.conn)? == content {
                    true => Ok(held),
                    false => Err(Error::Open("somebody else has just written to the shard".to_owned())),
                })
                .await
            }
            (Place::Directory(_), None) => Err(Error::Bug("a directory is not locked")),
        }
    }
}
