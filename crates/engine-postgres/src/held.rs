//! A shard as the store has it: while its lease is held by this process, and for its writer and its readers.

use super::client::Client;
use super::keeper::Keeper;
use super::lease::Trust;
use super::owner::{TakenShard, Taker};
use super::registry;
use super::shard::{Role, Shard};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::limits;
use crate::model::Seq;
use crate::telemetry::failpoint;
use crate::write_state::WriteState;
use longhand_engine::database::{
    BeginAnew, CleaningProgress, Database, Engine, HeldStore, LeasedPlace, Look, ServedStore, VerifiedBy, note_failure,
};
use longhand_engine::health::Health;
use longhand_engine::readers::Readers;
use longhand_engine::{Connection, Durability, connect, scalar};
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

/// Where a server may still have erased bytes. No client can clean it.
const KEEPS_ERASED: [&str; 2] = ["PostgreSQL: dead rows until they are vacuumed", "PostgreSQL: write-ahead log"];
const CLUSTER: &str = "select (select system_identifier::text from pg_control_system()) || ' ' || current_database()";
const IS_DURABLE: &str = "select current_setting('fsync') = 'on' and current_setting('synchronous_commit') <> 'off'";

#[derive(Clone)]
struct Ownership {
    shard: Shard,
    /// This process, with a name for this opening of the shard by it.
    owner: String,
    /// Time after which the lease ends if nobody renews it.
    ttl: Duration,
    /// Until when the owner trusts the lease.
    trust: Arc<Trust>,
}

fn connection(client: Client) -> Connection {
    Connection::Server(Box::new(client))
}

/// Notes on which server the newest event is, in one transaction with what `change` writes.
fn note_server(conn: &Connection, change: impl FnOnce(&Connection) -> Result<()>) -> Result<()> {
    let transaction = conn.transaction()?;
    change(&transaction)?;
    conn.server::<Client>()?.note_server()?;
    transaction.commit()
}

impl Ownership {
    /// Makes what the shard needs, and takes the lease, once; none while another daemon has it. From then on the lease is
    /// renewed, until the trust in it ends.
    fn set_up_and_take(&self) -> Result<Option<(Connection, TakenShard)>> {
        let client = self.shard.connect_alone(Role::Writer, None)?;
        client.set_up(self.shard.name(), &self.shard.schema())?;
        client.close()?;
        let taken = self.take_lease(false)?;
        if taken.is_some() {
            let Self { shard, owner, ttl, trust } = self.clone();
            Keeper { shard, owner, ttl, trust }.start()?;
        }
        Ok(taken)
    }

    /// Connects and takes the lease, once; none while another daemon has it, or had it since. The thread must have no runtime.
    fn take_lease(&self, again: bool) -> Result<Option<(Connection, TakenShard)>> {
        let client = self.shard.connect_alone(Role::Writer, Some(Arc::clone(&self.trust)))?;
        let (shard, owner) = (self.shard.name(), self.owner.as_str());
        let taken = client.take_shard(&Taker { shard, owner, ttl: self.ttl, trust: &self.trust, again })?;
        Ok(taken.map(|taken| (connection(client), taken)))
    }

    /// Gives the lease back, which was taken for a store that could not be opened.
    fn give_back(&self) -> Result<()> {
        self.trust.lose();
        let client = self.shard.connect_alone(Role::Writer, None)?;
        client.release_failed(self.shard.name(), &self.owner)?;
        client.close()
    }

    /// Takes the lease again after a lost connection. The newest event then tells whether the last commit happened.
    /// Gives up once another daemon has the shard, or after enough time for the lease to run out.
    fn take_again(&self) -> Result<(Connection, TakenShard)> {
        let attempts = limits::LEASE_RETAKE_MS / limits::LEASE_RETRY_MS;
        // A renewal could succeed on a server that lacks acknowledged events.
        self.trust.doubt();
        for attempt in 0.. {
            if attempt >= attempts && !self.trust.holds() {
                break;
            }
            match self.take_lease(true) {
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

    /// Readers that read while the lease is trusted.
    fn readers(&self, count: usize, clock: Clock) -> Readers {
        let engine = self.engine();
        let owned = Arc::clone(&engine);
        let open = Box::new(move || engine.connect_for_copy());
        Readers::of_owned(count, clock, open, Arc::new(move || owned.check_owned()))
    }

    fn engine(&self) -> Arc<ShardEngine> {
        Arc::new(ShardEngine { shard: self.shard.clone(), trust: Arc::clone(&self.trust) })
    }
}

/// Ends the renewals when it is dropped: otherwise the shard stays owned and nobody serves it.
struct KeptOwnership(Ownership);

impl Drop for KeptOwnership {
    fn drop(&mut self) {
        self.0.trust.lose();
    }
}

impl LeasedPlace for Shard {
    fn name(&self) -> &str {
        self.name()
    }

    fn take_lease(&self, owner: String, ttl: Duration) -> Result<Option<Box<dyn HeldStore>>> {
        let trust = Arc::new(Trust::new(self.acknowledged()));
        let ownership = Ownership { shard: self.clone(), owner, ttl, trust };
        match ownership.set_up_and_take()? {
            Some((conn, taken)) => Ok(Some(Box::new(HeldShard { conn, taken, ownership: KeptOwnership(ownership) }))),
            None => Ok(None),
        }
    }

    fn look(&self) -> Result<Look> {
        let conn = connection(self.connect_alone(Role::Reader, None)?);
        let aside = Self::aside(self.name());
        let has_aside = connect::has_table(&conn, &format!("{aside}.store"))?;
        let cluster: String = scalar(CLUSTER).one(&conn)?;
        let (cluster, database) = cluster.split_once(' ').unwrap_or((&cluster, ""));
        let name = format!("the shard {} of the database {database} of the cluster {cluster}", self.name());
        Ok(Look { conn, name, aside: format!("the schema {aside}"), has_aside })
    }

    fn connect_aside(&self) -> Result<Connection> {
        let client = self.connect_alone(Role::Reader, None)?;
        client.execute_batch(&format!("set search_path = {}", Self::aside(self.name())))?;
        Ok(connection(client))
    }
}

/// A shard whose lease this process has.
struct HeldShard {
    conn: Connection,
    taken: TakenShard,
    ownership: KeptOwnership,
}

impl HeldShard {
    fn shard(&self) -> &Shard {
        &self.ownership.0.shard
    }

    /// Commits a last change in one transaction, behind which the newest event has this number, and gives the lease back.
    fn end(self, newest: Seq, change: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        let client = self.conn.server::<Client>()?;
        client.begin()?;
        change(&self)?;
        client.commit(Some(newest))?;
        self.conn.close()
    }
}

impl HeldStore for HeldShard {
    fn connection(&self) -> &Connection {
        &self.conn
    }

    fn prepare(&self, clock: &Clock) -> Result<()> {
        let (shard, schema) = (self.shard().name(), self.shard().schema());
        let aside = Shard::aside(shard);
        let applied = match connect::known_migrations(&self.conn, format_args!("the shard {shard}"))? {
            None if connect::has_table(&self.conn, &format!("{aside}.migration"))? => {
                return Err(Error::Open(format!(
                    "the store of the shard {shard} was migrated to another place, and is set aside in the schema {aside}"
                )));
            }
            applied => applied.unwrap_or_default(),
        };
        connect::migrate(&self.conn, &applied, clock)?;
        if registry::is_shared(shard) {
            self.conn.execute_batch(&registry::directory(shard, &schema))?;
        }
        Ok(())
    }

    /// Compares the newest event with the row of the shard. The statement that took the lease may have waited for a
    /// commit that its snapshot does not show.
    fn settle(&self, newest: Seq, begin_anew: &dyn Fn(&Connection) -> Result<()>) -> Result<()> {
        match self.conn.server::<Client>()?.leased_head() {
            Some(head) if head != newest => {
                return Err(Error::Open(format!("the shard has events up to {newest}, and its lease says {head}")));
            }
            _ => {}
        }
        note_server(&self.conn, |conn| match self.taken {
            TakenShard { may_lack: true, .. } => {
                tracing::warn!(
                    "the database was promoted, recovered or restored since its newest event: it may lack what was \
                     acknowledged, and the store gets a new identity"
                );
                begin_anew(conn)
            }
            TakenShard { is_moved: true, .. } => {
                tracing::info!("the database is another server, and has what was acknowledged");
                Ok(())
            }
            TakenShard { .. } => Ok(()),
        })
    }

    fn serve(
        self: Box<Self>,
        readers: usize,
        clock: &Clock,
        health: Arc<Health>,
        begin_anew: BeginAnew,
    ) -> Result<ServedStore> {
        let Self { conn, ownership, .. } = *self;
        ownership.0.trust.note_durable(scalar(IS_DURABLE).one(&conn)?);
        let readers = ownership.0.readers(readers, clock.clone());
        let engine = ownership.0.engine();
        Ok(ServedStore { database: Box::new(ShardDatabase { conn, ownership, health, begin_anew }), engine, readers })
    }

    fn giving_back(&self) -> Box<dyn FnOnce() -> Result<()> + Send> {
        let ownership = self.ownership.0.clone();
        Box::new(move || ownership.give_back())
    }

    fn clear(&self) -> Result<()> {
        let schema = self.shard().schema();
        self.conn.execute_batch(&format!("drop schema {schema} cascade; create schema {schema}"))
    }

    fn empty_log(&self) -> Result<()> {
        Ok(())
    }

    fn verified_by(&self) -> VerifiedBy {
        VerifiedBy::Readers(self.ownership.0.readers(1, Clock::default()))
    }

    fn set_aside(self: Box<Self>, newest: Seq, change: &dyn Fn(&Connection) -> Result<()>) -> Result<Option<File>> {
        self.end(newest, |held| {
            change(&held.conn)?;
            let (shard, schema) = (held.shard().name(), held.shard().schema());
            if registry::is_shared(shard) {
                held.conn.execute_batch(&registry::leave_directory(shard, &schema))?;
            }
            held.conn.execute_batch(&format!("alter schema {schema} rename to {}", Shard::aside(shard)))
        })?;
        Ok(None)
    }

    fn complete(self: Box<Self>, newest: Seq, change: &dyn Fn(&Connection) -> Result<()>) -> Result<()> {
        self.end(newest, |held| {
            change(&held.conn)?;
            held.conn.server::<Client>()?.note_server()
        })
    }
}

struct ShardEngine {
    shard: Shard,
    trust: Arc<Trust>,
}

impl Engine for ShardEngine {
    fn is_leased(&self) -> bool {
        true
    }

    fn check_owned(&self) -> Result<()> {
        if self.trust.holds() { Ok(()) } else { Err(Error::Stopped(WriteState::LeaseLost)) }
    }

    fn durability(&self) -> Durability {
        if self.trust.is_durable() { Durability::Full } else { Durability::ProcessCrash }
    }

    fn cleaned_files(&self) -> Vec<String> {
        Vec::new()
    }

    fn keeps_erased(&self) -> &'static [&'static str] {
        &KEEPS_ERASED
    }

    fn file_bytes(&self) -> Option<i64> {
        None
    }

    fn log_bytes(&self) -> i64 {
        0
    }

    fn connect_for_copy(&self) -> Result<Connection> {
        Ok(connection(self.shard.connect_shared(Role::Reader, Some(Arc::clone(&self.trust)))?))
    }
}

/// The database of a shard, as its writer has it.
struct ShardDatabase {
    conn: Connection,
    ownership: KeptOwnership,
    health: Arc<Health>,
    begin_anew: BeginAnew,
}

impl ShardDatabase {
    /// Connects and takes the lease again. The newest event then tells the outcome of a commit without an answer. A
    /// number that is not expected means that the server lost acknowledged events; another server than before may have
    /// lost some.
    fn connect_again(&mut self, expected: &[Seq]) -> Result<Seq> {
        tracing::warn!("the connection to the database is lost");
        let ownership = &self.ownership.0;
        let (conn, taken) = ownership.take_again().inspect_err(|_| self.health.set(WriteState::LeaseLost))?;
        self.conn = conn;
        let client = self.conn.server::<Client>()?;
        let head = client.leased_head().unwrap_or_default();
        if expected.contains(&head) && !taken.may_lack {
            if taken.is_moved {
                tracing::warn!(head, "the database is another server, and has what was acknowledged");
                note_server(&self.conn, |_| Ok(()))?;
            }
            tracing::info!("connected to the database again");
            ownership.trust.believe();
            return Ok(head);
        }
        tracing::error!(
            head,
            ?expected,
            "the database lacks what was acknowledged, or may lack it: the store gets a new identity"
        );
        let noted = note_server(&self.conn, &self.begin_anew);
        if let Err(error) = noted.and_then(|()| client.release()) {
            tracing::error!(%error, "the new identity is written at the next start");
        }
        ownership.trust.lose();
        self.health.set(WriteState::LeaseLost);
        Err(Error::Stopped(WriteState::LeaseLost))
    }
}

impl Database for ShardDatabase {
    fn connection(&self) -> &Connection {
        &self.conn
    }

    fn check_interval(&self) -> Duration {
        Duration::from_millis(limits::FILES_CHECK_MS).min(self.ownership.0.ttl / 8)
    }

    fn check(&mut self, newest: Seq) {
        let trust = &self.ownership.0.trust;
        if trust.is_lost() {
            tracing::error!(what = "another daemon has taken the shard", "the store is no longer where it was");
            self.health.set(WriteState::LeaseLost);
        } else if trust.is_doubted() || self.conn.server().is_ok_and(Client::is_lost) {
            // The state of writes has the outcome.
            drop(self.connect_again(&[newest]));
        }
    }

    fn begin(&self) -> Result<()> {
        let client = self.conn.server::<Client>()?;
        // Clears a doubt about an earlier commit: this one must not report it.
        client.was_doubted();
        client.begin()
    }

    /// After a commit without an answer, the newest event tells whether it happened. A transaction without an event
    /// leaves no trace, and its outcome stays uncertain.
    fn commit(&mut self, before: Seq, newest: Seq) -> Result<()> {
        let client = self.conn.server::<Client>()?;
        if let Err(error) = client.before_commit(newest) {
            return Err(self.give_up(error, before, false));
        }
        let Err(error) = client.commit(Some(newest)) else { return Ok(()) };
        if !matches!(error, Error::Unreachable(_)) {
            return Err(self.give_up(error, before, true));
        }
        let is_doubted = client.was_doubted();
        match self.connect_again(&[before, newest]) {
            Ok(head) if newest > before => {
                if is_doubted {
                    // The warning came before the connection ended.
                    self.conn.server::<Client>()?.doubt();
                }
                if head == newest { Ok(()) } else { Err(self.give_up(error, before, true)) }
            }
            _ => Err(Error::Uncertain),
        }
    }

    fn was_doubted(&self) -> bool {
        self.conn.server().is_ok_and(Client::was_doubted)
    }

    fn give_up(&mut self, error: Error, before: Seq, was_committing: bool) -> Error {
        if matches!(error, Error::Unreachable(_)) && !was_committing {
            return self.connect_again(&[before]).err().unwrap_or(error);
        }
        if let Err(error) = self.conn.roll_back() {
            tracing::debug!(%error, "nothing to roll back");
        }
        note_failure(&self.health, error, was_committing, || false)
    }

    fn batch_ended(&mut self, _: usize) {}

    fn clean(&mut self) -> Result<CleaningProgress> {
        Ok(CleaningProgress::Fully)
    }

    fn shrink(&mut self, _: &dyn Fn() -> bool) {}

    /// Gives the lease back, unless it is lost.
    fn close(self: Box<Self>) {
        let Self { conn, health, ownership: _kept, .. } = *self;
        if health.writes().is_final() {
            return;
        }
        failpoint::reach("checkpoint");
        if let Err(error) = conn.close() {
            tracing::warn!(%error, "closing the database");
        }
    }
}
