//! What makes a connection that of a shard's owner: the lease, and the fence of its transactions.

use super::client::Client;
use super::lease::{self, Lease, Trust};
use super::warnings::with_warning;
use crate::error::{Error, Result};
use crate::limits;
use longhand_engine::value::{Parameter, Row};
use std::sync::Arc;
use std::time::Duration;

/// Who takes a shard.
pub struct Taker<'t> {
    /// The name of the shard.
    pub shard: &'t str,
    /// The daemon's process.
    pub owner: &'t str,
    /// Time after which the lease ends if nobody renews it.
    pub ttl: Duration,
    /// Until when the owner trusts the lease.
    pub trust: &'t Arc<Trust>,
    /// True for a lease that the owner had already.
    pub again: bool,
}

/// A shard that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakenShard {
    /// True on another server than that of the newest event, or behind a recovery to an earlier time.
    pub is_moved: bool,
    /// True if later events may have been acknowledged.
    pub may_lack: bool,
}

/// What a renewal says of the server's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RenewedSettings {
    /// True if commits survive a crash of the server.
    pub(super) is_durable: bool,
    /// True if commits wait for a standby.
    pub(super) is_replicated: bool,
}

impl Client {
    /// Makes what a shard needs, unless it is there.
    pub fn set_up(&self, shard: &str, schema: &str) -> Result<()> {
        self.execute_batch(&lease::setup(shard, schema))
    }

    /// Takes the lease of a shard, and the right to write for this connection. None if another owner has it, or had it since.
    pub fn take_shard(&self, taker: &Taker<'_>) -> Result<Option<TakenShard>> {
        let Taker { shard, owner, ttl, trust, again } = *taker;
        let (name, me) = (|| Parameter::Text(shard.into()), || Parameter::Text(owner.into()));
        let mut epoch = trust.epoch();
        let was_trusted = trust.holds();
        let sent_ms = lease::now_ms();
        let take = if again { lease::TAKE_AGAIN } else { lease::TAKE };
        let lease_row = self.row(take, &[name(), me(), Parameter::Integer(milliseconds(ttl))])?;
        let Some(lease_row) = lease_row else { return Ok(None) };
        *epoch = lease_row.get(0)?;
        trust.acknowledged().attempt(*epoch);
        // A standby that has this row has every earlier commit.
        let (fenced, warning) = with_warning(|| self.fence(shard, *epoch, trust.acknowledged().newest_known()));
        self.heed(warning);
        let Some(fenced) = fenced? else { return Ok(None) };
        let (head, written_on, last_epoch): (i64, String, i64) = (fenced.get(0)?, fenced.get(1)?, fenced.get(2)?);
        let server = self.server()?;
        let is_moved = !written_on.is_empty() && written_on != server;
        let may_lack = is_moved && !trust.acknowledged().is_all_of(last_epoch, head, &server, was_trusted);
        let lease = Lease {
            shard: shard.to_owned(),
            owner: owner.to_owned(),
            epoch: *epoch,
            head,
            is_whole: !may_lack,
            server,
        };
        trust.acknowledged().note(&lease);
        trust.acknowledged().note_replicated(lease_row.get(1)?);
        // A store that may lack events answers no read.
        if !may_lack {
            trust.extend(sent_ms, ttl);
        }
        *self.lease.borrow_mut() = Some(lease);
        Ok(Some(TakenShard { is_moved, may_lack }))
    }

    /// Writes the epoch into the row of the shard. A transaction of the last owner locks that row; if it lasts too
    /// long, its backend is ended. The row then tells whether that transaction was committed.
    fn fence(&self, shard: &str, epoch: i64, known: (i64, i64)) -> Result<Option<Row>> {
        let values = || {
            let numbers = [epoch, known.0, known.1].map(Parameter::Integer);
            [Parameter::Text(shard.into())].into_iter().chain(numbers).collect::<Vec<_>>()
        };
        let name = || Parameter::Text(shard.into());
        self.execute_batch(&format!("set lock_timeout = {}", limits::FENCE_WAIT_MS))?;
        let mut attempts = 0;
        let fenced = loop {
            attempts += 1;
            match self.row(lease::FENCE, &values()) {
                Err(Error::Busy(_)) if attempts < limits::FENCE_ATTEMPTS => {
                    self.for_each(lease::END_BACKEND, &[name()], |_| true)?;
                }
                fenced => break fenced?,
            }
        };
        self.execute_batch("set lock_timeout = 0")?;
        Ok(fenced)
    }

    fn row(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Option<Row>> {
        let mut first_row = None;
        self.for_each(sql, parameters, |row| {
            first_row = Some(row);
            false
        })?;
        Ok(first_row)
    }

    /// The server, and the timeline on which it writes.
    fn server(&self) -> Result<String> {
        self.row(lease::SERVER, &[])?.ok_or(Error::Bug("a server has no name"))?.get(0)
    }

    /// Notes in the transaction that this server has the newest event. From its commit on the store is complete, or has
    /// a new identity.
    pub fn note_server(&self) -> Result<()> {
        let Some(Lease { shard, epoch, .. }) = self.lease.borrow().clone() else { return Ok(()) };
        let server = self.server()?;
        let values = [Parameter::Text(shard.into()), Parameter::Integer(epoch), Parameter::Text(server.into())];
        self.changed(lease::NOTE_SERVER, &values)?;
        self.lease.borrow_mut().iter_mut().for_each(|lease| lease.is_whole = true);
        Ok(())
    }

    /// Renews a lease with an epoch. None if it is not the owner's any more.
    pub(super) fn renew(&self, shard: &str, owner: &str, epoch: i64, ttl: Duration) -> Result<Option<RenewedSettings>> {
        let values = [
            Parameter::Text(shard.into()),
            Parameter::Text(owner.into()),
            Parameter::Integer(epoch),
            Parameter::Integer(milliseconds(ttl)),
        ];
        let Some(row) = self.row(lease::RENEW, &values)? else { return Ok(None) };
        Ok(Some(RenewedSettings { is_durable: row.get(0)?, is_replicated: row.get(1)? }))
    }

    /// The number of the newest event by the row of the shard.
    pub fn leased_head(&self) -> Option<i64> {
        self.lease.borrow().as_ref().map(|lease| lease.head)
    }

    /// Gives the lease back, so that another daemon need not wait.
    pub fn release(&self) -> Result<()> {
        let Some(Lease { shard, owner, epoch, .. }) = self.lease.borrow_mut().take() else { return Ok(()) };
        if let Some(trust) = &self.trust {
            trust.lose();
            trust.acknowledged().forget();
        }
        let values = [Parameter::Text(shard.into()), Parameter::Text(owner.into()), Parameter::Integer(epoch)];
        self.changed(lease::RELEASE, &values).map(drop)
    }

    /// Gives back the lease that an owner took on another connection, and that no writer has.
    pub fn release_failed(&self, shard: &str, owner: &str) -> Result<()> {
        let values = [Parameter::Text(shard.into()), Parameter::Text(owner.into())];
        self.changed(lease::RELEASE_FAILED, &values).map(drop)
    }
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
