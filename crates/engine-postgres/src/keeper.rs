//! The keeper of a lease: a thread that renews it on a connection of its own, so that the writer may be in a long
//! transaction.

use super::client::Client;
use super::lease::{self, Trust};
use super::owner::RenewedSettings;
use super::shard::Shard;
use crate::error::{Error, Result};
use crate::limits;
use std::sync::Arc;
use std::time::Duration;

/// Time until the next attempt.
const RETRY: Duration = Duration::from_millis(limits::LEASE_RETRY_MS);

/// What a keeper renews.
pub(super) struct Keeper {
    /// What is owned.
    pub(super) shard: Shard,
    /// The daemon's process, with a name for its opening of the shard.
    pub(super) owner: String,
    /// Time after which the lease ends if nobody renews it.
    pub(super) ttl: Duration,
    /// Until when the owner trusts the lease.
    pub(super) trust: Arc<Trust>,
}

impl Keeper {
    /// Renews the lease until the trust in it has ended.
    pub(super) fn start(self) -> Result<()> {
        let named = std::thread::Builder::new().name("lease".to_owned());
        named
            .spawn(move || self.run())
            .map(drop)
            .map_err(|error| Error::Open(format!("no thread for the lease: {error}")))
    }

    fn run(self) {
        let mut client = None;
        let mut is_first = true;
        while !self.trust.is_lost() {
            let pause = match self.renew(&mut client, &mut is_first) {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::debug!(%error, "the lease is renewed later");
                    client = None;
                    RETRY
                }
            };
            self.trust.sleep(pause);
        }
    }

    /// Renews once, and returns the time until the next renewal. After a lost connection the server may be another one
    /// that lacks acknowledged events: the writer compares first.
    fn renew(&self, client: &mut Option<Client>, is_first: &mut bool) -> Result<Duration> {
        let client = match client {
            Some(client) => client,
            none => {
                let is_other = !std::mem::take(is_first);
                let connected = self.shard.connect_keeper()?;
                if is_other {
                    self.trust.doubt();
                }
                none.insert(connected)
            }
        };
        if self.trust.is_doubted() {
            return Ok(RETRY);
        }
        let epoch = self.trust.epoch();
        let sent_ms = lease::now_ms();
        match client.renew(self.shard.name(), &self.owner, *epoch, self.ttl)? {
            Some(RenewedSettings { is_durable, is_replicated }) => {
                self.trust.note_durable(is_durable);
                self.trust.acknowledged().note_replicated(is_replicated);
                self.trust.extend(sent_ms, self.ttl);
            }
            None => self.trust.lose(),
        }
        Ok(self.ttl / 4)
    }
}
