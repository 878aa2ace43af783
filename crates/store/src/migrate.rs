//! Migration of a store to another place: from files into a shard, back, or from one shard into another, without a daemon.
//!
//! The migrated store is the same store, with its identity and its secret, so that cursors and tokens go on. Therefore at
//! most one of the two is served, whenever the program dies:
//!
//! 1. Both places are held, as a daemon holds them: by the lock of the directory, by the lease of the shard.
//! 2. The rows are copied. The copy says what it is a copy of (`note`); nothing serves a store that says so.
//! 3. The copy is verified, and says so.
//! 4. The source is set aside by a new name, in one step, and says which copy it is for. From now on nothing serves either.
//! 5. The copy is made the store, in one step: it says no more that it is a copy.
//!
//! The same call again goes on wherever the last one ended. A source that was served in between has another newest event,
//! and is copied anew.

mod note;
mod place;

use self::note::{Content, CopyNote};
use self::place::{Destination, HeldPlace};
use super::engine::{self, connect, copy};
use super::error::{Error, Result};
use super::integrity::copies::{self, CopyProgress, OnProgress};
use super::open::alone;
use crate::clock::Clock;
use crate::model::Seq;
use crate::telemetry::failpoint;
use tokio::sync::watch;
use uuid::Uuid;

pub use self::place::StorePlace;

/// The progress of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrationProgress {
    /// Rows that are in the copy, and all rows of the store.
    Rows {
        /// Rows so far.
        copied: i64,
        /// All rows.
        total: i64,
    },
    /// The check of the copy.
    Check(CopyProgress),
}

/// A store that was migrated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigratedStore {
    /// Its id, which stays.
    pub store_id: Uuid,
    /// The number of its sessions.
    pub sessions: i64,
    /// The number of its newest event.
    pub head_seq: Seq,
    /// Where the original is set aside.
    pub set_aside: String,
}

/// Moves a store to another place, which must have none. `progress` is called with the progress. The same call again goes
/// on if the process ended in between.
///
/// # Errors
///
/// `Error::Open` for a source that is served or no store, and for a destination that has another store; nothing is written
/// then. `Error::Open` for a copy with findings, too: then the source stays what it is.
pub async fn migrate(
    from: &StorePlace,
    to: &StorePlace,
    clock: &Clock,
    progress: &(dyn Fn(MigrationProgress) + Send + Sync),
) -> Result<MigratedStore> {
    if let (StorePlace::Directory(_), StorePlace::Directory(_)) = (from, to) {
        return Err(Error::Open("files need no migration: move the data directory of the stopped daemon".to_owned()));
    }
    let source = HeldPlace::source(from).await?;
    let destination = Destination::examine(to, &source.name).await?;
    if source.is_aside() {
        return go_on_behind_aside(source, destination).await;
    }
    match &destination.content {
        Content::Nothing => {}
        Content::Unfinished { note, .. } if note.source == source.name => {}
        Content::Unfinished { note, .. } => {
            return Err(Error::Open(format!(
                "the destination has an unfinished copy of another store: of {}",
                note.source
            )));
        }
        Content::Store(_) => return Err(Error::Open("the destination has a store".to_owned())),
    }
    let clock = clock.clone();
    let preparing = move || {
        source.prepare(&clock)?;
        let (note, bytes) = (CopyNote::read(source.conn(), &source.name)?, connect::used_bytes(source.conn())?);
        Ok((source, note, bytes))
    };
    let (source, note, bytes) = alone(preparing).await?;
    let goes_on = matches!(&destination.content, Content::Unfinished { note: found, .. } if *found == note);
    if let (StorePlace::Directory(directory), false) = (to, goes_on) {
        copies::check_free_space(directory, bytes)?;
    }
    let copy = destination.hold(goes_on).await?;
    let (sender, receiver) = watch::channel(MigrationProgress::Rows { copied: 0, total: 0 });
    let begun = note.clone();
    let copying = alone(move || {
        if !goes_on {
            copy.begin(&begun)?;
            failpoint::reach("migrate.begun");
        }
        copy_rows(&source, &copy, &|now| sender.send_modify(|shown| *shown = now))?;
        Ok((source, copy))
    });
    let (source, copy) = follow(copying, receiver, progress).await?;
    let check: OnProgress<'_> = &|now| progress(MigrationProgress::Check(now));
    copy.verify(note.seq, check).await.map_err(|error| match error {
        Error::CopyDamaged { findings, first } => Error::Open(format!(
            "the copy has {findings} findings, as the store itself probably has, which stays where it is; the first: {first}"
        )),
        error => error,
    })?;
    alone(move || conclude(source, copy, &note)).await
}

/// Copies all rows that the copy does not have.
fn copy_rows(source: &HeldPlace, copy: &HeldPlace, report: &dyn Fn(MigrationProgress)) -> Result<()> {
    note::set_verified(copy.conn(), false)?;
    copy::begin(copy.conn())?;
    let total = copy::row_count(source.conn(), copy.conn())?;
    let mut copied = 0;
    copy::rows(source.conn(), copy.conn(), &mut |rows| {
        copied += rows;
        report(MigrationProgress::Rows { copied, total });
        failpoint::reach("migrate.page");
        Ok(())
    })?;
    failpoint::reach("migrate.copied");
    copy::end(copy.conn())?;
    copy.empty_log()?;
    failpoint::reach("migrate.ended");
    Ok(())
}

/// Waits for a copy, and reports its progress.
async fn follow<T>(
    copying: impl Future<Output = Result<T>>,
    mut receiver: watch::Receiver<MigrationProgress>,
    progress: &(dyn Fn(MigrationProgress) + Send + Sync),
) -> Result<T> {
    let mut copying = std::pin::pin!(copying);
    loop {
        tokio::select! {
            // The last report comes before the end.
            biased;
            Ok(()) = receiver.changed() => progress(*receiver.borrow_and_update()),
            done = &mut copying => return done,
        }
    }
}

/// Puts a verified copy in the place of its source.
fn conclude(source: HeldPlace, copy: HeldPlace, note: &CopyNote) -> Result<MigratedStore> {
    note::set_verified(copy.conn(), true)?;
    failpoint::reach("migrate.verified");
    let (sessions, copy_id) = (session_count(&source)?, note::copy_id(copy.conn())?);
    let set_aside = source.aside.clone();
    let _hold = source.set_aside(note.seq, &copy_id)?;
    failpoint::reach("migrate.aside");
    copy.complete(note.seq)?;
    failpoint::reach("migrate.complete");
    migrated(note, sessions, set_aside)
}

/// Goes on with a migration whose source is set aside: the copy is made the store, if it is not already.
async fn go_on_behind_aside(source: HeldPlace, destination: Destination) -> Result<MigratedStore> {
    let reading = move || {
        let (note, successor) = (CopyNote::read(source.conn(), &source.name)?, note::successor(source.conn())?);
        let sessions = session_count(&source)?;
        Ok((source, note, successor, sessions))
    };
    let (source, note, successor, sessions) = alone(reading).await?;
    let is_copied = match &destination.content {
        // Another copy may have been faster.
        Content::Unfinished { note: found, copy_id, is_verified: true } => {
            *found == note && successor.as_ref() == Some(copy_id)
        }
        Content::Store(ids) if ids.contains(&note.store_id) => {
            return migrated(&note, sessions, source.aside);
        }
        _ => false,
    };
    if !is_copied {
        return Err(Error::Open(format!(
            "the store of {} was migrated before, and not to this destination",
            source.name
        )));
    }
    let copy = destination.hold(true).await?;
    alone(move || {
        copy.complete(note.seq)?;
        migrated(&note, sessions, source.aside)
    })
    .await
}

const SESSIONS: &str = "select count(*) from session";

fn session_count(source: &HeldPlace) -> Result<i64> {
    engine::scalar(SESSIONS).one(source.conn())
}

fn migrated(note: &CopyNote, sessions: i64, set_aside: String) -> Result<MigratedStore> {
    let store_id = Uuid::from_slice(&note.store_id).map_err(|error| Error::corrupt("store", error))?;
    Ok(MigratedStore { store_id, sessions, head_seq: note.seq, set_aside })
}
