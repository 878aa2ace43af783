//! Where a store is kept, as its writer sees it: files, which others can replace, or a shard, which others can take.

use super::connection::Connection;
use super::files::OpenFiles;
use super::postgres::lease::Trust;
use super::postgres::shard::{Role, Shard};
use crate::limits;
use crate::store::error::{Error, Result};
use crate::store::write_state::WriteState;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// Where a store is kept.
pub(crate) enum Home {
    /// Files of SQLite.
    Files(OpenFiles),
    /// A shard of a PostgreSQL database.
    Shard(Box<Ownership>),
}

/// The ownership of a shard.
#[derive(Clone)]
pub(crate) struct Ownership {
    pub(crate) shard: Shard,
    /// This process.
    pub(crate) owner: Uuid,
    pub(crate) ttl: Duration,
    pub(crate) trust: Arc<Trust>,
}

impl Ownership {
    /// Makes what the shard needs, and takes the lease, once; none while another daemon has it.
    pub(crate) fn set_up_and_take(&self) -> Result<Option<Connection>> {
        let client = self.shard.connect_alone(Role::Writer)?;
        client.set_up(self.shard.name(), &self.shard.schema())?;
        client.close()?;
        self.take(false)
    }

    /// Connects and takes the lease, once; none while another daemon has it, or had it since. The thread must have no runtime.
    fn take(&self, again: bool) -> Result<Option<Connection>> {
        let client = self.shard.connect_alone(Role::Writer)?;
        let is_taken = client.acquire((self.shard.name(), &self.owner.to_string()), self.ttl, &self.trust, again)?;
        Ok(is_taken.then(|| Connection::Postgres(Box::new(client))))
    }

    /// Takes the lease again after the connection was lost. Only then it is known whether what was committed last is
    /// there: by the number of the newest event. Gives up when another daemon has the shard, or after a time.
    pub(crate) fn take_again(&self) -> Result<Connection> {
        let attempts = limits::LEASE_RETAKE_MS / limits::LEASE_RETRY_MS;
        for _ in 0..attempts {
            match self.take(true) {
                Ok(Some(conn)) => return Ok(conn),
                // Another daemon has it.
                Ok(None) => break,
                Err(Error::Unreachable(error)) => tracing::debug!(error, "the database is not there yet"),
                Err(Error::Busy) => {}
                Err(error) => return Err(error),
            }
            std::thread::park_timeout(Duration::from_millis(limits::LEASE_RETRY_MS));
        }
        self.trust.lose();
        Err(Error::Stopped(WriteState::LeaseLost))
    }
}

impl Home {
    /// Checks that the store is still where a restart would find it, and renews a lease. The error says what is wrong.
    pub(crate) fn check(&mut self, conn: &Connection) -> std::result::Result<(), Lost> {
        match (self, conn) {
            (Self::Files(files), _) => files.check().map_err(|what| Lost::Home(WriteState::FilesReplaced, what)),
            (Self::Shard(_), Connection::Postgres(client)) => match client.renew_if_due() {
                Ok(()) => Ok(()),
                Err(Error::Stopped(state)) => Err(Lost::Home(state, "another daemon has taken the shard".to_owned())),
                Err(Error::Unreachable(_)) => Err(Lost::Connection),
                Err(error) => {
                    tracing::warn!(%error, "the lease is renewed later");
                    Ok(())
                }
            },
            (Self::Shard(_), Connection::Sqlite(_)) => Ok(()),
        }
    }

    /// The time between two checks.
    pub(crate) fn check_interval(&self) -> Duration {
        let usual = Duration::from_millis(limits::FILES_CHECK_MS);
        match self {
            Self::Files(_) => usual,
            Self::Shard(ownership) => usual.min(ownership.ttl / 8),
        }
    }

    /// True if the file system takes no writes now.
    pub(crate) fn is_read_only(&self) -> bool {
        match self {
            Self::Files(files) => files.is_read_only(),
            Self::Shard(_) => false,
        }
    }

    /// Accepts that files are shorter from now on: the store itself has emptied its log.
    pub(crate) fn log_was_emptied(&mut self) {
        if let Self::Files(files) = self {
            files.log_was_emptied();
        }
    }
}

/// What is no longer there.
pub(crate) enum Lost {
    /// The store, for this daemon, with the reason.
    Home(WriteState, String),
    /// The connection.
    Connection,
}
