//! A store in files, which SQLite writes: what `database` says, of one.

use super::connect::{self, Access, BUSY_TIMEOUT, Durability};
use super::connection::Connection;
use super::database::{
    BeginAnew, CleaningProgress, Database, Engine, HeldStore, ServedStore, VerifiedBy, note_failure,
};
use super::files::{self, APPLICATION_ID, DATABASE, DatabaseState, OpenFiles};
use super::gaps::{self, Gaps};
use super::health::Health;
use super::readers::Readers;
use super::{checkpoint, shrink};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::limits;
use crate::model::Seq;
use crate::telemetry::failpoint;
use crate::write_state::WriteState;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Files that this process alone may write.
pub struct HeldFiles {
    conn: Connection,
    directory: PathBuf,
    durability: Durability,
    state: DatabaseState,
    /// Keeps other daemons out; given back behind the connection.
    lock: File,
}

impl HeldFiles {
    /// Opens the files in a directory that was claimed, and makes them where there are none.
    pub fn open(directory: &Path, durability: Durability, (lock, state): (File, DatabaseState)) -> Result<Self> {
        files::make_database(directory)?;
        let conn = connect::connect_writer(directory, durability)?;
        Ok(Self { conn, directory: directory.to_owned(), durability, state, lock })
    }

    /// Opens the files of a store in a directory that was claimed, without the settings of its writer.
    pub fn open_existing(directory: &Path, lock: File) -> Result<Self> {
        let conn = connect::connect_existing(directory, Access::Write)?;
        let (directory, durability, state) = (directory.to_owned(), Durability::Full, DatabaseState::Ours);
        Ok(Self { conn, directory, durability, state, lock })
    }

    /// Opens the files for a copy in a directory that was claimed, and makes them.
    pub fn open_copy(directory: &Path, lock: File) -> Result<Self> {
        let held = Self::open(directory, Durability::Full, (lock, DatabaseState::Empty))?;
        held.conn.pragma_update("application_id", APPLICATION_ID)?;
        // Nobody else makes checkpoints here.
        held.conn.pragma_update("wal_autocheckpoint", 1_000)?;
        files::sync_directory(&held.lock, directory)?;
        Ok(held)
    }

    /// Removes the database in a directory that was claimed.
    pub fn remove(directory: &Path) -> Result<()> {
        let conn = connect::connect_existing(directory, Access::Write)?;
        checkpoint::empty_log(&conn, BUSY_TIMEOUT, BUSY_TIMEOUT)?;
        conn.close()?;
        files::remove_database(directory)
    }
}

impl HeldStore for HeldFiles {
    fn connection(&self) -> &Connection {
        &self.conn
    }

    fn prepare(&self, clock: &Clock) -> Result<()> {
        connect::prepare(&self.conn, &self.directory, self.state, clock)
    }

    fn settle(&self, _: Seq, begin_anew: &dyn Fn(&Connection) -> Result<()>) -> Result<()> {
        files::sync_directory(&self.lock, &self.directory)?;
        connect::clear_backup_mark(&self.conn, begin_anew)
    }

    fn serve(self: Box<Self>, readers: usize, clock: &Clock, health: Arc<Health>, _: BeginAnew) -> Result<ServedStore> {
        let Self { conn, directory, durability, lock, .. } = *self;
        if !gaps::can_be_cleaned() {
            tracing::warn!(
                "this program was built without sqlite_dbpage: copies of what is erased can stay in its files, and every \
                 answer to an erasure says so. Build it with the flags of .cargo/config.toml"
            );
        }
        let of_readers = directory.clone();
        let open = move || connect::connect_reader(&of_readers, durability);
        let readers = Readers::new(readers, clock.clone(), Box::new(open))?;
        let files = OpenFiles::begin(&directory)?;
        let (checkpoints, gaps) = Default::default();
        let database = FileDatabase { conn, files, health, checkpoints, gaps, has_shrunk: false, lock };
        Ok(ServedStore {
            database: Box::new(database),
            engine: Arc::new(FileEngine { directory, durability }),
            readers,
        })
    }

    fn giving_back(&self) -> Box<dyn FnOnce() -> Result<()> + Send> {
        Box::new(|| Ok(()))
    }

    fn clear(&self) -> Result<()> {
        Ok(())
    }

    fn verified_by(&self) -> VerifiedBy {
        VerifiedBy::File(self.directory.join(DATABASE))
    }

    fn empty_log(&self) -> Result<()> {
        if checkpoint::empty_log(&self.conn, BUSY_TIMEOUT, BUSY_TIMEOUT)? {
            return Ok(());
        }
        let place = self.directory.canonicalize().unwrap_or_else(|_| self.directory.clone());
        Err(Error::Open(format!("another program reads the database in {}: stop it", place.display())))
    }

    fn set_aside(self: Box<Self>, _: Seq, change: &dyn Fn(&Connection) -> Result<()>) -> Result<Option<File>> {
        let transaction = self.conn.transaction()?;
        change(&transaction)?;
        transaction.commit()?;
        self.empty_log()?;
        let Self { conn, directory, lock, .. } = *self;
        conn.close()?;
        files::set_aside(&directory)?;
        Ok(Some(lock))
    }

    fn complete(self: Box<Self>, _: Seq, change: &dyn Fn(&Connection) -> Result<()>) -> Result<()> {
        let transaction = self.conn.transaction()?;
        change(&transaction)?;
        transaction.commit()?;
        self.conn.close()
    }
}

/// The engine of a store in files.
struct FileEngine {
    directory: PathBuf,
    durability: Durability,
}

impl FileEngine {
    fn bytes_of(&self, name: &str) -> i64 {
        let metadata = std::fs::metadata(self.directory.join(name));
        metadata.map_or(0, |metadata| i64::try_from(metadata.len()).unwrap_or(i64::MAX))
    }
}

fn log_name() -> String {
    format!("{DATABASE}-wal")
}

impl Engine for FileEngine {
    fn is_leased(&self) -> bool {
        false
    }

    fn check_owned(&self) -> Result<()> {
        Ok(())
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    fn cleaned_files(&self) -> Vec<String> {
        vec![DATABASE.to_owned(), log_name()]
    }

    fn keeps_erased(&self) -> &'static [&'static str] {
        &[]
    }

    fn file_bytes(&self) -> Option<i64> {
        Some(self.bytes_of(DATABASE).saturating_add(self.log_bytes()))
    }

    fn log_bytes(&self) -> i64 {
        self.bytes_of(&log_name())
    }

    fn connect_for_copy(&self) -> Result<Connection> {
        // The readers stay with the clients, and refuse to write even another file.
        connect::connect_existing(&self.directory, Access::Read)
    }
}

/// The files of a store, as its writer has them.
struct FileDatabase {
    conn: Connection,
    files: OpenFiles,
    health: Arc<Health>,
    checkpoints: checkpoint::Schedule,
    gaps: Gaps,
    /// True while the log is to be emptied because pages were given back.
    has_shrunk: bool,
    /// Keeps other daemons out until the connection is closed.
    lock: File,
}

impl FileDatabase {
    /// Copies all of the log into the database, and empties it. False if a reader still needs an earlier state.
    fn empty_log(&mut self) -> Result<bool> {
        self.gaps.note(&self.conn, self.files.log());
        let wait = Duration::from_millis(limits::ERASE_READERS_WAIT_MS);
        let is_empty = checkpoint::empty_log(&self.conn, wait, BUSY_TIMEOUT)?;
        self.files.checkpoint_was_made();
        Ok(is_empty)
    }
}

impl Database for FileDatabase {
    fn connection(&self) -> &Connection {
        &self.conn
    }

    fn check_interval(&self) -> Duration {
        Duration::from_millis(limits::FILES_CHECK_MS)
    }

    fn check(&mut self, _: Seq) {
        if let Err(what) = self.files.check() {
            tracing::error!(what, "the store is no longer where it was");
            self.health.set(WriteState::FilesReplaced);
        }
    }

    fn begin(&self) -> Result<()> {
        self.conn.begin_immediate()
    }

    fn commit(&mut self, before: Seq, _: Seq) -> Result<()> {
        self.conn.commit().map_err(|error| self.give_up(error, before, true))
    }

    fn was_doubted(&self) -> bool {
        false
    }

    fn give_up(&mut self, error: Error, _: Seq, was_committing: bool) -> Error {
        if let Err(error) = self.conn.roll_back() {
            tracing::debug!(%error, "nothing to roll back");
        }
        note_failure(&self.health, error, was_committing, || self.files.is_read_only())
    }

    /// Makes a checkpoint if the log has grown enough.
    fn batch_ended(&mut self, bytes: usize) {
        let Self { conn, files, health, checkpoints, gaps, .. } = self;
        checkpoints.note(bytes);
        // What an erasure leaves in the files is for the checks, of which one is made at once if somebody waits for it: to take
        // it out after each of many erasures would keep all writes waiting.
        if checkpoints.run(conn, health, || gaps.note(conn, files.log())) {
            files.checkpoint_was_made();
        }
    }

    /// A step looks at some pages, and the last one empties the log, if no reader needs it.
    fn clean(&mut self) -> Result<CleaningProgress> {
        let can_be_cleaned = gaps::can_be_cleaned();
        if can_be_cleaned && !self.gaps.clean(&self.conn, Some(self.files.log()))? {
            return Ok(CleaningProgress::Partly);
        }
        if !self.empty_log()? {
            return Ok(CleaningProgress::Blocked);
        }
        self.has_shrunk = false;
        Ok(if can_be_cleaned { CleaningProgress::Fully } else { CleaningProgress::Unable })
    }

    /// The file ends where the log says behind a checkpoint; that of the next check empties the log as well.
    fn shrink(&mut self, goes_on: &dyn Fn() -> bool) {
        if self.has_shrunk {
            match self.empty_log() {
                Ok(is_empty) => self.has_shrunk = !is_empty,
                Err(error) => tracing::debug!(%error, "the file does not become shorter now"),
            }
            return;
        }
        match shrink::run(&self.conn, limits::SHRINK_IDLE_STEPS, goes_on) {
            Ok(given) => self.has_shrunk = given > 0,
            Err(error) => tracing::debug!(%error, "pages are not given back now"),
        }
    }

    /// To close the last connection makes a checkpoint and removes the log. After a failure of the disk, or if the log's name
    /// belongs to another file, that could lose the content of the log.
    fn close(self: Box<Self>) {
        let Self { conn, health, lock: _lock, .. } = *self;
        if health.writes().is_final() {
            tracing::error!("the log is left as it is: the next start reads what it holds");
            std::mem::forget(conn);
            return;
        }
        if let Err(error) = conn.execute_batch("pragma optimize") {
            tracing::debug!(%error, "optimize on close");
        }
        failpoint::reach("checkpoint");
        if let Err(error) = conn.close() {
            tracing::warn!(%error, "closing the database");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement;

    #[tokio::test]
    async fn a_checkpoint_that_takes_pages_off_the_file_is_the_store_s_own() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path().join("store");
        // It is made with the rights that it needs.
        let claimed = connect::claim(&folder).await.expect("claimed");
        let held = Box::new(HeldFiles::open(&folder, Durability::Full, claimed).expect("opened"));
        let (clock, health) = (Clock::default(), Arc::new(Health::default()));
        let serving = held.serve(1, &clock, Arc::clone(&health), Box::new(|_| Ok(()))).expect("it serves");
        let mut database = serving.database;
        let size = || folder.join(DATABASE).metadata().expect("the file").len();
        let run = |database: &dyn Database, sql: &str| database.connection().execute_batch(sql).expect("done");
        run(&*database, "create table a (b blob); create table c (b blob)");
        run(&*database, "insert into c values (zeroblob(2000000))");
        let rows = "with recursive n (i) as (select 1 union all select i + 1 from n where i < 6000) select i from n";
        run(&*database, &format!("insert into a select zeroblob(4000) from ({rows})"));
        database.batch_ended(limits::CHECKPOINT_INTERVAL_BYTES);
        database.check(0);
        let before = size();
        run(&*database, "delete from a");
        while statement::scalar::<i64>("pragma freelist_count").one(database.connection()).expect("a count")
            > limits::SHRINK_KEPT_PAGES
        {
            shrink::run(database.connection(), 1, || true).expect("a step");
        }
        for _ in 0..10 {
            run(&*database, "update c set b = randomblob(2000000)");
            database.check(0);
        }
        database.batch_ended(limits::CHECKPOINT_INTERVAL_BYTES);
        assert!(size() < before, "it is shorter");
        database.check(0);
        assert_eq!(health.writes(), WriteState::Accepted);
    }
}
