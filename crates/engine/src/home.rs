//! Where a store is kept, as its writer sees it: files, which others can replace, or a shard, which others can take.

use super::connection::Connection;
use super::files::OpenFiles;
use super::postgres::keeper::Keeper;
use super::postgres::lease::Trust;
use super::postgres::owner::{Taken, Taker};
use super::postgres::shard::{Role, Shard};
use crate::error::{Error, Result};
use crate::limits;
use crate::write_state::WriteState;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

/// Where a store is kept.
pub enum Home {
    /// Files of SQLite.
    Files(OpenFiles),
    /// A shard of a PostgreSQL database.
    Shard(Box<Ownership>),
}

/// The ownership of a shard.
#[derive(Clone)]
pub struct Ownership {
    /// What is owned.
    pub shard: Shard,
    /// This process, with a name for this opening of the shard by it.
    pub owner: String,
    /// Time after which the lease ends if nobody renews it.
    pub ttl: Duration,
    /// Until when the lease is believed.
    pub trust: Arc<Trust>,
}

impl Ownership {
    /// Makes what the shard needs, and takes the lease, once; none while another daemon has it. From then on the lease is
    /// renewed, until the trust in it ends.
    pub fn set_up_and_take(&self) -> Result<Option<(Connection, Taken)>> {
        let client = self.shard.connect_alone(Role::Writer, None)?;
        client.set_up(self.shard.name(), &self.shard.schema())?;
        client.close()?;
        let taken = self.take(false)?;
        if taken.is_some() {
            let Self { shard, owner, ttl, trust } = self.clone();
            Keeper { shard, owner, ttl, trust }.start()?;
        }
        Ok(taken)
    }

    /// Connects and takes the lease, once; none while another daemon has it, or had it since. The thread must have no runtime.
    fn take(&self, again: bool) -> Result<Option<(Connection, Taken)>> {
        let client = self.shard.connect_alone(Role::Writer, Some(Arc::clone(&self.trust)))?;
        let (shard, owner) = (self.shard.name(), self.owner.as_str());
        let taken = client.take(&Taker { shard, owner, ttl: self.ttl, trust: &self.trust, again })?;
        Ok(taken.map(|taken| (Connection::Postgres(Box::new(client)), taken)))
    }

    /// Gives the lease back, which was taken for a store that could not be opened.
    pub fn give_back(&self) -> Result<()> {
        self.trust.lose();
        let client = self.shard.connect_alone(Role::Writer, None)?;
        client.release_failed(self.shard.name(), &self.owner)?;
        client.close()
    }

    /// Takes the lease again after the connection was lost. Only then it is known whether what was committed last is
    /// there: by the number of the newest event. Gives up when another daemon has the shard, or after a time in which the
    /// lease has run out.
    pub fn take_again(&self) -> Result<(Connection, Taken)> {
        let attempts = limits::LEASE_RETAKE_MS / limits::LEASE_RETRY_MS;
        // Until it is taken again, it is not renewed either.
        self.trust.doubt();
        for attempt in 0.. {
            if attempt >= attempts && !self.trust.holds() {
                break;
            }
            match self.take(true) {
                Ok(Some(taken)) => return Ok(taken),
                // Another daemon has it.
                Ok(None) => break,
                // A standby that is not promoted yet takes no writes.
                Err(error @ (Error::Unreachable(_) | Error::ReadOnly)) => {
                    tracing::debug!(%error, "the database is not there yet");
                }
                Err(Error::Busy(_)) => {}
                Err(error) => {
                    self.trust.lose();
                    return Err(error);
                }
            }
            std::thread::park_timeout(Duration::from_millis(limits::LEASE_RETRY_MS));
        }
        self.trust.lose();
        Err(Error::Stopped(WriteState::LeaseLost))
    }
}

/// Without a writer the lease is renewed no more: nobody would serve the shard.
impl Drop for Home {
    fn drop(&mut self) {
        if let Self::Shard(ownership) = self {
            ownership.trust.lose();
        }
    }
}

impl Home {
    /// Checks that the store is still where a restart would find it, and that its lease is not lost. The error says what is wrong.
    pub fn check(&mut self, conn: &Connection) -> std::result::Result<(), Lost> {
        match (self, conn) {
            (Self::Files(files), _) => files.check().map_err(|what| Lost::Home(WriteState::FilesReplaced, what)),
            (Self::Shard(ownership), Connection::Postgres(client)) => {
                if ownership.trust.is_lost() {
                    Err(Lost::Home(WriteState::LeaseLost, "another daemon has taken the shard".to_owned()))
                } else if client.is_lost() || ownership.trust.is_doubted() {
                    Err(Lost::Connection)
                } else {
                    Ok(())
                }
            }
            (Self::Shard(_), Connection::Sqlite(_)) => Ok(()),
        }
    }

    /// The time between two checks.
    pub fn check_interval(&self) -> Duration {
        let usual = Duration::from_millis(limits::FILES_CHECK_MS);
        match self {
            Self::Files(_) => usual,
            Self::Shard(ownership) => usual.min(ownership.ttl / 8),
        }
    }

    /// True if the file system takes no writes now.
    pub fn is_read_only(&self) -> bool {
        match self {
            Self::Files(files) => files.is_read_only(),
            Self::Shard(_) => false,
        }
    }

    /// The log of files.
    pub fn log(&self) -> Option<&File> {
        match self {
            Self::Files(files) => Some(files.log()),
            Self::Shard(_) => None,
        }
    }

    /// Accepts that files are shorter from now on: the store itself has emptied its log.
    pub fn log_was_emptied(&mut self) {
        if let Self::Files(files) = self {
            files.log_was_emptied();
        }
    }
}

/// What is no longer there.
pub enum Lost {
    /// The store, for this daemon, with the reason.
    Home(WriteState, String),
    /// The connection.
    Connection,
}
