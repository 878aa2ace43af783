//! The lease of a shard: who owns it, and until when the owner may trust that it does.
//!
//! The first statement of every transaction that writes is the fence: it updates the row of the shard, if that still has
//! the owner's epoch and the number of the newest event that the owner knows. So a transaction of an owner that lost the
//! lease writes nothing, whatever its clock says. Only the clock of the database decides who may take a lease; the owner
//! trusts its own from the instant at which it *sent* the renewal, less a margin.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

/// What all shards of a database share, and what a new one needs. The lock keeps two daemons from making it at once.
pub(super) fn setup(shard: &str, schema: &str) -> String {
    format!(
        "begin; select pg_advisory_xact_lock(5497271503);
do $do$ begin
if to_regclass('lh.shard') is null then
    create schema if not exists lh;
    create table lh.shard (
        name text collate \"C\" primary key,
        epoch bigint not null,                          -- grows with each owner
        owner text not null,                            -- of the daemon's process; empty for none
        pid integer not null,                           -- backend of the owner's writer
        backend_start timestamptz,                      -- of that backend: numbers of processes are used again
        head_seq bigint not null,                       -- the newest event
        lease_until timestamptz not null                -- by the clock of the database
    ) with (fillfactor = 50);
    create function lh.fence(of_shard text, of_epoch bigint, of_head bigint, for_ms bigint) returns void
        language plpgsql as $f$
    begin
        update lh.shard set lease_until = clock_timestamp() + for_ms * interval '1 millisecond'
            where name = of_shard and epoch = of_epoch and head_seq = of_head;
        if not found then
            raise exception 'another daemon has the shard %', of_shard using errcode = 'LH001';
        end if;
    end $f$;
end if;
end $do$;
insert into lh.shard (name, epoch, owner, pid, head_seq, lease_until) values ('{shard}', 0, '', 0, 0, '-infinity')
    on conflict (name) do nothing;
create schema if not exists {schema};
commit"
    )
}

/// Takes a lease that is free.
pub(super) const ACQUIRE: &str = "update lh.shard set epoch = epoch + 1, owner = ?2, pid = pg_backend_pid(), \
     backend_start = (select backend_start from pg_stat_activity where pid = pg_backend_pid()), \
     lease_until = clock_timestamp() + ?3::bigint * interval '1 millisecond' \
     where name = ?1 and lease_until < clock_timestamp() returning epoch, head_seq";

/// Takes one's own lease again, whether or not it has run out: nobody had it in between.
pub(super) const ACQUIRE_AGAIN: &str = "update lh.shard set epoch = epoch + 1, pid = pg_backend_pid(), \
     backend_start = (select backend_start from pg_stat_activity where pid = pg_backend_pid()), \
     lease_until = clock_timestamp() + ?3::bigint * interval '1 millisecond' \
     where name = ?1 and owner = ?2 returning epoch, head_seq";

/// Ends the backend of an owner whose lease has run out, or one's own earlier one: it may wait in a transaction for a
/// client that will never continue.
pub(super) const END_BACKEND: &str = "select pg_terminate_backend(a.pid) from lh.shard s \
     join pg_stat_activity a on a.pid = s.pid and a.backend_start = s.backend_start \
     where s.name = ?1 and (s.lease_until < clock_timestamp() or s.owner = ?2)";

/// Gives a lease back.
pub(super) const RELEASE: &str =
    "update lh.shard set owner = '', lease_until = clock_timestamp() where name = ?1 and epoch = ?2";

/// The lease of a connection that writes.
#[derive(Debug, Clone)]
pub(super) struct Lease {
    pub(super) shard: String,
    pub(super) epoch: i64,
    /// The newest event, as the shard's row has it.
    pub(super) head: i64,
    /// When the fence of the transaction was sent.
    pub(super) sent_ms: i64,
    /// The time to live.
    pub(super) ttl: Duration,
}

impl Lease {
    /// The statements that begin a transaction.
    pub(super) fn begin(&self) -> String {
        let Self { shard, epoch, head, ttl, .. } = self;
        format!("begin; select lh.fence('{shard}', {epoch}, {head}, {})", ttl.as_millis())
    }

    /// The statements that commit a transaction behind which this is the newest event.
    pub(super) fn commit(&self, head: i64) -> String {
        let Self { shard, epoch, .. } = self;
        if head == self.head {
            return "commit".to_owned();
        }
        format!("update lh.shard set head_seq = {head} where name = '{shard}' and epoch = {epoch}; commit")
    }
}

/// The owner's trust in its lease, by a clock that goes on while the machine sleeps.
#[derive(Debug)]
pub(crate) struct Trust {
    until_ms: AtomicI64,
    is_lost: AtomicBool,
}

impl Trust {
    /// No trust yet.
    pub(crate) fn new() -> Self {
        Self { until_ms: AtomicI64::new(i64::MIN), is_lost: AtomicBool::new(false) }
    }

    /// True if nobody else can own the shard.
    pub(crate) fn holds(&self) -> bool {
        !self.is_lost.load(Ordering::Acquire) && now_ms() < self.until_ms.load(Ordering::Acquire)
    }

    /// Extends it after a renewal that was sent at this time.
    pub(super) fn extend(&self, sent_ms: i64, ttl: Duration) {
        // The margin is for the different pace of two clocks.
        let trusted = ttl - ttl / MARGIN_FRACTION;
        let until = sent_ms.saturating_add(i64::try_from(trusted.as_millis()).unwrap_or(0));
        self.until_ms.fetch_max(until, Ordering::AcqRel);
    }

    /// Ends it for good.
    pub(crate) fn lose(&self) {
        self.is_lost.store(true, Ordering::Release);
    }
}

/// The part of the time to live that is not trusted.
const MARGIN_FRACTION: u32 = 10;

/// Milliseconds of a clock that nobody sets.
#[cfg(target_os = "linux")]
pub(super) fn now_ms() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec * 1_000 + now.tv_nsec / 1_000_000
}

/// Milliseconds of a clock that nobody sets.
#[cfg(not(target_os = "linux"))]
pub(super) fn now_ms() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec * 1_000 + now.tv_nsec / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_trusted_from_the_time_at_which_its_renewal_was_sent() {
        let trust = Trust::new();
        assert!(!trust.holds(), "nothing was renewed yet");
        let ttl = Duration::from_secs(60);
        trust.extend(now_ms() - 55_000, ttl);
        assert!(!trust.holds(), "the margin is not trusted");
        trust.extend(now_ms(), ttl);
        assert!(trust.holds());
        trust.extend(now_ms() - 55_000, ttl);
        assert!(trust.holds(), "a late answer shortens nothing");
        trust.lose();
        trust.extend(now_ms(), ttl);
        assert!(!trust.holds(), "what is lost stays lost");
    }
}
