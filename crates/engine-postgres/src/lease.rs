//! The lease of a shard: who owns it, and until when the owner may trust that it does.
//!
//! Two rows say so. The row of `lh.lease` has the time: the owner's `keeper` renews it on a connection of its own,
//! because the writer may be in a long transaction. Only the database's clock decides when another daemon may take the
//! lease. The row of `lh.shard` is the fence: the first statement of every writing transaction locks it, and fails
//! unless the row has the owner's epoch and the newest event that the owner knows. A new owner writes its epoch there
//! before anything else. So an owner that lost the lease writes nothing, whatever its clock says.
//!
//! The owner trusts its lease from the instant at which it *sent* the renewal, less a margin.

use sqlx::Arguments as _;
use sqlx::error::BoxDynError;
use sqlx::postgres::PgArguments;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What all shards of a database share, and what a new one needs. The lock keeps two daemons from making it at once.
pub(super) fn setup(shard: &str, schema: &str) -> String {
    let secret = blake3::Hash::from_bytes(rand::random()).to_hex();
    format!(
        "begin; set local synchronous_commit = on; select pg_advisory_xact_lock(5497271503);
do $do$ begin
if to_regclass('lh.lease') is null then
    create schema if not exists lh;
    create table lh.lease (
        name text collate \"C\" primary key,            -- of the shard
        epoch bigint not null,                          -- grows with each owner
        owner text not null,                            -- of the daemon's process; empty for none
        lease_until timestamptz not null,               -- by the clock of the database
        destination text not null default '',           -- the daemon that is to own it; empty for any
        is_pinned boolean not null default false        -- true if an operator chose the destination
    ) with (fillfactor = 50);
    create table lh.shard (
        name text collate \"C\" primary key,
        epoch bigint not null,                          -- of the owner that may write
        pid integer not null,                           -- backend of the owner's writer
        backend_start timestamptz,                      -- of that backend: numbers of processes are used again
        head_seq bigint not null,                       -- the newest event
        server text not null                            -- cluster and timeline on which it was written; empty at first
    ) with (fillfactor = 50);
    create table lh.daemon (
        id text collate \"C\" primary key,              -- of its process
        address text not null,                          -- at which other daemons reach it
        seen_until timestamptz not null,                -- by the clock of the database
        failures text not null default '[]'             -- shards that it could not open, as JSON
    );
    create table lh.cluster (
        id integer primary key check (id = 1),
        secret text not null                            -- by which daemons know each other
    );
    create table lh.directory (
        public_id bytea primary key,                    -- of a session
        tenant text collate \"C\" not null,
        client_id text collate \"C\",
        shard text collate \"C\" not null               -- never changes
    );
    create unique index directory_client_id on lh.directory (tenant, client_id) where client_id is not null;
    create function lh.fence(of_shard text, of_epoch bigint, of_head bigint) returns void
        language plpgsql as $f$
    begin
        perform 1 from lh.shard where name = of_shard and epoch = of_epoch and head_seq = of_head for update;
        if not found then
            raise exception 'another daemon has the shard %', of_shard using errcode = 'LH001';
        end if;
    end $f$;
    -- The bytes of a text that `encode` stored, which has two characters in place of U+0000 and U+FDD0.
    create function lh.plain(stored text) returns bytea language sql immutable strict parallel safe as $f$
        select case when strpos(stored, U&'\\FDD0') = 0 then convert_to(stored, 'UTF8')
            else decode(replace(replace(encode(convert_to(stored, 'UTF8'), 'hex'), 'efb79030', '00'), 'efb79031', 'efb790'),
                'hex')
        end
    $f$;
end if;
if not exists (select from pg_attribute where attrelid = 'lh.daemon'::regclass and attname = 'failures') then
    alter table lh.daemon add column failures text not null default '[]';
end if;
-- Part of what commits as one statement.
if to_regprocedure('lh.own(bigint, text)') is null then
    create function lh.own(owned bigint, shard text) returns void language plpgsql as $f$
    begin
        if owned <> 1 then
            raise exception 'another daemon has the shard %', shard using errcode = 'LH001';
        end if;
    end $f$;
end if;
end $do$;
insert into lh.lease (name, epoch, owner, lease_until) values ('{shard}', 0, '', '-infinity') on conflict (name) do nothing;
insert into lh.cluster (id, secret) values (1, '{secret}') on conflict (id) do nothing;
insert into lh.shard (name, epoch, pid, head_seq, server) values ('{shard}', 0, 0, 0, '') on conflict (name) do nothing;
create schema if not exists {schema};
commit"
    )
}

/// Whether commits wait for a standby.
macro_rules! waits {
    () => {
        "current_setting('synchronous_commit') in ('on', 'remote_apply') and current_setting('synchronous_standby_names') <> ''"
    };
}

/// Takes a lease that is free. The row says whether commits wait for a standby.
pub(super) const TAKE: &str = concat!(
    "update lh.lease set epoch = epoch + 1, owner = ?2, \
     lease_until = clock_timestamp() + ?3::bigint * interval '1 millisecond' \
     where name = ?1 and lease_until < clock_timestamp() returning epoch, ",
    waits!()
);

/// Takes one's own lease again, whether or not it has run out: nobody had it in between.
pub(super) const TAKE_AGAIN: &str = concat!(
    "update lh.lease set epoch = epoch + 1, \
     lease_until = clock_timestamp() + ?3::bigint * interval '1 millisecond' \
     where name = ?1 and owner = ?2 returning epoch, ",
    waits!()
);

/// Renews a lease. The row says whether commits of this server survive its crash, and whether they wait for a standby.
pub(super) const RENEW: &str = concat!(
    "update lh.lease set lease_until = clock_timestamp() + ?4::bigint * interval '1 millisecond' \
     where name = ?1 and owner = ?2 and epoch = ?3 \
     returning current_setting('fsync') = 'on' and current_setting('synchronous_commit') <> 'off', ",
    waits!()
);

/// Lets only this owner write from now on, and returns what the last one left. It waits for a transaction of the last
/// owner. If the row is older than the epoch and the newest event that the owner remembers, its server is `lost` until
/// the store has a new identity: so the verdict outlives a failed attempt.
pub(super) const FENCE: &str = "update lh.shard s set epoch = ?2, pid = pg_backend_pid(), \
     backend_start = (select backend_start from pg_stat_activity where pid = pg_backend_pid()), \
     server = case when last.epoch < ?3 or last.head_seq < ?4 then 'lost' else s.server end \
     from (select name, epoch, head_seq from lh.shard where name = ?1 for update) last \
     where s.name = last.name and last.epoch < ?2 returning s.head_seq, s.server, last.epoch";

/// Ends the backend of the last owner: it may wait in a transaction for a client that will never continue.
pub(super) const END_BACKEND: &str = "select pg_terminate_backend(a.pid) from lh.shard s \
     join pg_stat_activity a on a.pid = s.pid and a.backend_start = s.backend_start \
     where s.name = ?1 and a.pid <> pg_backend_pid()";

/// The cluster and its timeline. Both change with a promoted standby, a recovery to an earlier time, or a restored
/// dump.
pub(super) const SERVER: &str = "select (select system_identifier::text from pg_control_system()) || '/' \
     || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)";

/// Notes on which server the newest event was written.
pub(super) const NOTE_SERVER: &str = "update lh.shard set server = ?3 where name = ?1 and epoch = ?2";

/// Makes a statement a whole transaction of an owner: it checks the fence, writes the newest event, and fails for a
/// lost lease. The parameters are those of `Lease::bind`.
pub(super) const OWNED: [&str; 2] = [
    "update lh.shard set head_seq = ?4 where name = ?1 and epoch = ?2 and head_seq = ?3 returning name",
    "lh.own((select count(*) from owned), ?1)",
];

/// Gives back the lease of a failed opening, whose epoch was never written.
pub(super) const RELEASE_FAILED: &str =
    "update lh.lease set owner = '', lease_until = clock_timestamp() where name = ?1 and owner = ?2";

/// Gives a lease back.
pub(super) const RELEASE: &str =
    "update lh.lease set owner = '', lease_until = clock_timestamp() where name = ?1 and owner = ?2 and epoch = ?3";

/// The right to write of a connection.
#[derive(Debug, Clone)]
pub(super) struct Lease {
    pub(super) shard: String,
    pub(super) owner: String,
    pub(super) epoch: i64,
    /// The newest event, as the shard's row has it.
    pub(super) head: i64,
    /// True once it is known that nothing is missing, or the store has a new identity.
    pub(super) is_whole: bool,
    /// The server, and the timeline on which it writes.
    pub(super) server: String,
}

impl Lease {
    /// The statements that begin a transaction.
    pub(super) fn begin(&self) -> String {
        let Self { shard, epoch, head, .. } = self;
        format!("begin; select lh.fence('{shard}', {epoch}, {head})")
    }

    /// Adds the parameters of `OWNED`, of a transaction behind which the newest event is this one.
    pub(super) fn bind(&self, head: i64, arguments: &mut PgArguments) -> std::result::Result<(), BoxDynError> {
        arguments.add(self.shard.as_str())?;
        [self.epoch, self.head, head].into_iter().try_for_each(|number| arguments.add(number))
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

/// What a daemon acknowledged last of a shard that it owned. It outlives the ownership: if the daemon takes the shard
/// again and nobody else had it, it can tell whether another server has every acknowledged event.
#[derive(Debug, Default)]
pub struct AcknowledgedState {
    newest: Mutex<Option<Newest>>,
    /// True if commits waited for a standby, by the last renewal of the lease.
    is_replicated: AtomicBool,
}

/// An event that was acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Newest {
    head: i64,
    /// The epoch of the owner, and those of its attempts to own the shard again, which may have had no answer.
    epochs: Vec<i64>,
    /// Where it is.
    server: String,
}

impl AcknowledgedState {
    fn newest(&self) -> MutexGuard<'_, Option<Newest>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what is there, of a store that lacks nothing.
    pub(super) fn note(&self, lease: &Lease) {
        if lease.is_whole {
            let Lease { epoch, head, .. } = *lease;
            match &mut *self.newest() {
                Some(newest) if newest.epochs == [epoch] => newest.head = head,
                newest => *newest = Some(Newest { head, epochs: vec![epoch], server: lease.server.clone() }),
            }
        }
    }

    /// Notes an attempt to own the shard again.
    pub(super) fn attempt(&self, epoch: i64) {
        self.newest().iter_mut().for_each(|newest| newest.epochs.push(epoch));
    }

    /// Notes whether commits wait for a standby.
    pub(super) fn note_replicated(&self, is_replicated: bool) {
        self.is_replicated.store(is_replicated, Ordering::Release);
    }

    /// Forgets it, because another daemon owned the shard since, or may from now on.
    pub fn forget(&self) {
        *self.newest() = None;
    }

    /// The epoch and the newest event; zeros if nothing is known.
    pub(super) fn newest_known(&self) -> (i64, i64) {
        self.newest().as_ref().map_or((0, 0), |newest| (newest.epochs[0], newest.head))
    }

    /// True if a shard on another server, whose last owner had this epoch there and whose newest event has this number, has
    /// all that was acknowledged.
    ///
    /// A standby may lack the end of what was committed, and with it a later owner. There was none while the lease was
    /// trusted; and what a synchronous standby lacks was not acknowledged.
    pub(super) fn is_all_of(&self, last_epoch: i64, head: i64, server: &str, is_trusted: bool) -> bool {
        let is_safe = is_trusted || self.is_replicated.load(Ordering::Acquire);
        // What is on this server was found to be all before.
        let is_all = |newest: &Newest| {
            newest.epochs.contains(&last_epoch) && newest.head <= head && (is_safe || newest.server == server)
        };
        self.newest().as_ref().is_some_and(is_all)
    }
}

/// The owner's trust in its lease, by a clock that goes on while the machine sleeps. The writer, its keeper and all that
/// read share it.
#[derive(Debug)]
pub struct Trust {
    until_ms: AtomicI64,
    is_lost: AtomicBool,
    /// The epoch of the lease. Whoever renews it or takes it again holds this meanwhile.
    epoch: Mutex<i64>,
    /// True while the keeper must not renew: the server may be another one, and the writer compares the newest event
    /// first.
    is_doubted: AtomicBool,
    /// True if commits survive a crash of the server, by its settings.
    is_durable: AtomicBool,
    acknowledged: Arc<AcknowledgedState>,
    /// What the keeper sleeps on.
    sleep: Mutex<()>,
    woken: Condvar,
}

impl Trust {
    /// No trust yet.
    pub fn new(acknowledged: Arc<AcknowledgedState>) -> Self {
        Self {
            until_ms: AtomicI64::new(i64::MIN),
            is_lost: AtomicBool::new(false),
            epoch: Mutex::new(0),
            is_doubted: AtomicBool::new(false),
            is_durable: AtomicBool::new(false),
            acknowledged,
            sleep: Mutex::new(()),
            woken: Condvar::new(),
        }
    }

    /// True if nobody else can own the shard.
    pub fn holds(&self) -> bool {
        !self.is_lost() && now_ms() < self.until_ms.load(Ordering::Acquire)
    }

    /// Extends it after a renewal that was sent at this time.
    pub(super) fn extend(&self, sent_ms: i64, ttl: Duration) {
        // Two clocks run at different speeds: the margin covers the difference.
        let trusted = ttl - ttl / MARGIN_FRACTION;
        let until = sent_ms.saturating_add(i64::try_from(trusted.as_millis()).unwrap_or(0));
        self.until_ms.fetch_max(until, Ordering::AcqRel);
    }

    /// True once it has ended for good.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Ends it for good.
    pub fn lose(&self) {
        self.is_lost.store(true, Ordering::Release);
        let _awake = self.sleep.lock().unwrap_or_else(PoisonError::into_inner);
        self.woken.notify_all();
    }

    /// Sleeps for a time, or until the trust has ended.
    pub(super) fn sleep(&self, time: Duration) {
        let asleep = self.sleep.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.woken.wait_timeout_while(asleep, time, |()| !self.is_lost()));
    }

    /// The epoch, which nobody else changes or uses meanwhile.
    pub fn epoch(&self) -> MutexGuard<'_, i64> {
        self.epoch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was acknowledged last.
    pub(super) fn acknowledged(&self) -> &AcknowledgedState {
        &self.acknowledged
    }

    /// Stops renewals until the writer has compared the newest event.
    pub fn doubt(&self) {
        self.is_doubted.store(true, Ordering::Release);
    }

    /// The writer has compared it.
    pub fn believe(&self) {
        self.is_doubted.store(false, Ordering::Release);
    }

    /// True while the writer is to compare the newest event.
    pub fn is_doubted(&self) -> bool {
        self.is_doubted.load(Ordering::Acquire)
    }

    /// Notes whether commits survive a crash of the server.
    pub fn note_durable(&self, is_durable: bool) {
        if self.is_durable.swap(is_durable, Ordering::AcqRel) && !is_durable {
            tracing::warn!("by its settings, a crash of the server loses acknowledged writes from now on");
        }
    }

    /// True if acknowledged writes survive a crash of the server, by its newest settings.
    pub fn is_durable(&self) -> bool {
        self.is_durable.load(Ordering::Acquire)
    }
}

/// The part of the time to live that is not trusted.
const MARGIN_FRACTION: u32 = 10;

/// Milliseconds of a monotonic clock.
#[cfg(target_os = "linux")]
pub(super) fn now_ms() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec * 1_000 + now.tv_nsec / 1_000_000
}

/// Milliseconds of a monotonic clock.
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
        let trust = Trust::new(Arc::default());
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

    #[test]
    fn another_server_has_all_if_its_last_owner_knows() {
        let lease = Lease {
            shard: String::new(),
            owner: String::new(),
            epoch: 7,
            head: 50,
            is_whole: true,
            server: "a".to_owned(),
        };
        let nobody = AcknowledgedState::default();
        let [local, replicated, doubting, forgetful] = [false, true, true, true].map(|is_replicated| {
            AcknowledgedState { is_replicated: AtomicBool::new(is_replicated), ..AcknowledgedState::default() }
        });
        local.note(&lease);
        replicated.note(&lease);
        doubting.note(&Lease { is_whole: false, ..lease.clone() });
        forgetful.note(&lease);
        forgetful.forget();
        let unanswered = AcknowledgedState::default();
        unanswered.note(&lease);
        unanswered.attempt(8);
        unanswered.attempt(10);
        assert_eq!(unanswered.newest_known(), (7, 50));
        assert!(local.is_all_of(7, 50, "a", false), "it is the server of before");
        for (name, acknowledged, (epoch, head, is_trusted), expected) in [
            ("no memory", &nobody, (7, 50, true), false),
            ("within the lease", &local, (7, 50, true), true),
            ("behind the lease", &local, (7, 50, false), false),
            ("behind the lease, with standbys", &replicated, (7, 50, false), true),
            ("and what had no answer", &replicated, (7, 52, false), true),
            ("one is missing", &replicated, (7, 49, true), false),
            ("somebody else was the last", &replicated, (8, 60, true), false),
            ("its own lease is missing", &replicated, (6, 50, true), false),
            ("a store that was not known to be whole", &doubting, (7, 50, true), false),
            ("another daemon owned it since", &forgetful, (7, 50, true), false),
            ("an attempt had no answer", &unanswered, (8, 50, true), true),
            ("none of the attempts was the last", &unanswered, (9, 50, true), false),
        ] {
            assert_eq!(acknowledged.is_all_of(epoch, head, "b", is_trusted), expected, "{name}");
        }
    }
}
