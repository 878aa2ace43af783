//! What the writer does with its files between batches: it takes out what was erased, and gives free pages back.

use super::Writer;
use crate::limits;
use crate::store::engine::connect::BUSY_TIMEOUT;
use crate::store::engine::gaps::{self, Gaps};
use crate::store::engine::home::Home;
use crate::store::engine::{self, Connection, checkpoint, shrink};
use crate::store::error::{Error, Result};
use crate::telemetry::failpoint;
use std::time::Duration;
use tokio::sync::watch;

pub(super) const CLEANED: &str = "select coalesce((select min(id) - 1 from erasure where is_clean = 0), \
     (select max(id) from erasure), 0), (select count(*) from erasure where is_clean = 0)";
pub(super) const SET_CLEAN: &str = "update erasure set is_clean = 1 where is_clean = 0";

/// What is left to be done with the files.
pub(super) struct Cleaning {
    /// True while files may have bytes of erased content.
    pub(super) is_unclean: bool,
    /// True while pages are looked at for them, without waiting for the next check.
    pub(super) goes_on: bool,
    /// True while the log is to be emptied because pages were given back.
    has_shrunk: bool,
    gaps: Gaps,
    /// The number of the newest erasure of which no file has anything.
    cleaned: watch::Sender<i64>,
}

impl Cleaning {
    /// What an earlier daemon left, with the number of the newest erasure of which no file has anything.
    pub(super) fn of(conn: &Connection) -> Result<(Self, watch::Receiver<i64>)> {
        if conn.is_sqlite() && !gaps::can_be_cleaned() {
            tracing::warn!(
                "this program was built without sqlite_dbpage: copies of what is erased can stay in its files, and every \
                 answer to an erasure says so. Build it with the flags of .cargo/config.toml"
            );
        }
        let row = engine::query(CLEANED).one(conn)?;
        let (cleaned, receiver) = watch::channel(row.get::<i64>(0)?);
        let is_unclean = row.get::<i64>(1)? > 0;
        let cleaning = Self { is_unclean, goes_on: false, has_shrunk: false, gaps: Gaps::default(), cleaned };
        Ok((cleaning, receiver))
    }

    /// Notes which pages were written, before a checkpoint.
    pub(super) fn note(&mut self, home: &Home, conn: &Connection) {
        if let Some(log) = home.log() {
            self.gaps.note(conn, log);
        }
    }
}

impl Writer {
    /// Does what is left to be done with the files, at a check or while it goes on. To give pages of a large file back takes
    /// as long as many appends: it waits until erasures are over.
    pub(super) fn clean_or_shrink(&mut self, is_checked: bool, is_idle: bool) {
        if !is_checked && !self.cleaning.goes_on {
            return;
        }
        self.cleaning.goes_on = false;
        if !is_checked {
            self.check_home(self.counters.next_seq - 1);
        }
        if self.health.writes().is_final() {
            return;
        }
        if self.cleaning.is_unclean {
            self.clean();
        } else if self.cleaning.has_shrunk {
            match self.empty_log() {
                Ok(is_empty) => self.cleaning.has_shrunk = !is_empty,
                Err(error) => tracing::debug!(%error, "the file does not become shorter now"),
            }
        } else {
            self.shrink(is_idle);
        }
    }

    /// Gives free pages back to the system: many while nobody waits, else a few. The file ends where the log says once
    /// the log is emptied, which the next check does.
    fn shrink(&mut self, is_idle: bool) {
        match shrink::run(&self.conn, limits::SHRINK_IDLE_STEPS, || is_idle && self.queue.is_empty()) {
            Ok(given) => self.cleaning.has_shrunk = given > 0,
            Err(error) => tracing::debug!(%error, "pages are not given back now"),
        }
    }

    /// Makes one step to take what was erased out of the files: a step looks at some pages, and the last one empties the log,
    /// if no reader needs it. What is left is for the next check, after a restart too.
    fn clean(&mut self) {
        let step = match self.clean_pages() {
            Ok(true) => {
                self.cleaning.goes_on = true;
                Ok(())
            }
            Ok(false) => self.finish_cleaning(),
            Err(error) => Err(error),
        };
        if let Err(error) = step {
            let error = match error {
                Error::Full | Error::ReadOnly | Error::Disk(_) => self.roll_back(error, false),
                error => error,
            };
            tracing::warn!(%error, "files still have bytes of erased content");
        }
    }

    /// Overwrites copies of erased rows on some pages. True if more pages are left.
    fn clean_pages(&mut self) -> Result<bool> {
        match self.home.log() {
            Some(log) if gaps::can_be_cleaned() => Ok(!self.cleaning.gaps.clean(&self.conn, Some(log))?),
            _ => Ok(false),
        }
    }

    /// Empties the log, and notes that no file has anything of what was erased.
    fn finish_cleaning(&mut self) -> Result<()> {
        if !self.empty_log()? {
            return Ok(());
        }
        self.cleaning.has_shrunk = false;
        if self.conn.is_sqlite() && !gaps::can_be_cleaned() {
            self.cleaning.is_unclean = false;
            return Ok(());
        }
        failpoint::reach("erase.emptied");
        let transaction = self.conn.transaction()?;
        engine::query(SET_CLEAN).run(&transaction)?;
        transaction.commit()?;
        failpoint::reach("erase.clean");
        self.cleaning.is_unclean = false;
        let row = engine::query(CLEANED).one(&self.conn)?;
        self.cleaning.cleaned.send_replace(row.get(0)?);
        Ok(())
    }

    /// Copies all of the log into the database, and empties it. False if a reader still needs an earlier state.
    fn empty_log(&mut self) -> Result<bool> {
        self.cleaning.note(&self.home, &self.conn);
        let wait = Duration::from_millis(limits::ERASE_READERS_WAIT_MS);
        let is_empty = checkpoint::empty_log(&self.conn, wait, BUSY_TIMEOUT)?;
        self.home.log_was_emptied();
        Ok(is_empty)
    }
}
