//! What the daemons of a database know of each other: who runs, who owns which shard, and which session is where.
//!
//! Nothing here decides who may write: the lease does. An answer may be outdated when it arrives.

use super::shard::{Role, Shard};
use super::{errors, lease, primary};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::limits;
use crate::model::time::Timestamp;
use longhand_engine::Connection;
use longhand_engine::readers::Readers;
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Row as _};
use std::str::FromStr as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use uuid::Uuid;

/// The shards of a database are `s1`, `s2` and so on.
pub fn shard_name(number: u32) -> String {
    format!("s{number}")
}

const BEAT: &str = "insert into lh.daemon (id, address, seen_until, failures) \
     values ($1, $2, clock_timestamp() + $3::bigint * interval '1 millisecond', $4) \
     on conflict (id) do update set address = excluded.address, seen_until = excluded.seen_until, \
        failures = excluded.failures";
const FORGET: &str = "delete from lh.daemon where id = $1 or seen_until < clock_timestamp() - interval '1 hour'";
const DAEMONS: &str = "select id, address, failures from lh.daemon where seen_until > clock_timestamp() order by id";
/// An owner is a process and its opening of the shard. A shard whose store was migrated elsewhere does not count.
const SHARDS: &str = "select l.name, split_part(l.owner, '.', 1) as daemon, l.lease_until > clock_timestamp() as is_owned, \
     case when l.lease_until > clock_timestamp() \
        then (extract(epoch from l.lease_until - clock_timestamp()) * 1000)::bigint else 0 end as left_ms, \
     l.destination, l.is_pinned, s.head_seq, s.server \
     from lh.lease l join lh.shard s on s.name = l.name where l.name ~ '^s[0-9]+$' \
     and (to_regclass('migrated_lh_' || l.name || '.migration') is null \
        or to_regclass('lh_' || l.name || '.migration') is not null) \
     order by length(l.name), l.name";
const DESTINE: &str = "update lh.lease set destination = $2, is_pinned = $3 where name = $1";
const HAND_BACK: &str = "update lh.lease set destination = '' where name = $1 and destination = $2 and not is_pinned";
const FIND: &str = "select shard from lh.directory where public_id = $1";
const FIND_BY_CLIENT_ID: &str = "select shard from lh.directory where tenant = $1 and client_id = $2";
/// Microseconds since 1970.
const NOW: &str = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint";
const SECRET: &str = "select secret from lh.cluster";
const HAS_HOME: &str = "select to_regclass('lh_s1.access_token') is not null";

/// Time to wait for an answer.
const ANSWER: Duration = Duration::from_millis(limits::DATABASE_ANSWER_MS);

/// The registry of a database.
#[derive(Clone)]
pub struct Registry {
    options: PgConnectOptions,
    /// The connections, and the number of pools before this one.
    pool: Arc<Mutex<(u64, PgPool)>>,
    clock: Clock,
    /// A connection that reads the first shard, whoever owns it.
    pub home: Arc<Readers>,
}

/// A daemon that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonEntry {
    /// Its process.
    pub id: String,
    /// The address at which other daemons reach it.
    pub address: String,
    /// The shards that it could not open, and leaves to others.
    pub failures: Vec<ShardFailure>,
}

/// A shard that a daemon could not open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardFailure {
    /// Its name.
    pub shard: String,
    /// Why.
    pub error: String,
}

/// A shard, and who has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardEntry {
    /// Its name.
    pub name: String,
    /// The daemon whose lease has not run out; none if another one may take it.
    pub owner: Option<String>,
    /// The daemon that had it last, and did not give it up in order; the owner if there is one.
    pub last_owner: Option<String>,
    /// True if the newest event was written on another server: nobody but the last owner knows whether it is the newest.
    pub is_moved: bool,
    /// Time until the lease runs out, unless it is renewed.
    pub lease_left: Duration,
    /// The daemon that is to own it; none for any.
    pub destination: Option<String>,
    /// True if an operator chose the destination.
    pub is_pinned: bool,
    /// The number of its newest event.
    pub head_seq: i64,
}

/// Who runs, and who has what.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Survey {
    /// The server, and the timeline on which it writes.
    pub server: String,
    /// The daemons that run, by their ids.
    pub daemons: Vec<DaemonEntry>,
    /// The shards, by their numbers.
    pub shards: Vec<ShardEntry>,
}

impl Registry {
    /// Connects to a database, and makes its shards up to this number, unless they are there. From now on the clock follows
    /// the database's: a shard that has another owner goes on with the same time, however wrong the machines' clocks are.
    ///
    /// # Errors
    ///
    /// `Error::Open` for an address that is none, `Error::Unreachable` if the database does not answer.
    pub async fn open(url: &str, shards: u32, clock: Clock) -> Result<Self> {
        // The error of the parser may have the password.
        let options = PgConnectOptions::from_str(url)
            .map_err(|_| Error::Open("the address of the database is not a valid postgres:// URL".to_owned()))?;
        let options = options
            .application_name("longhand")
            // No commit waits for a standby, which may be gone. The server ends statements that nobody waits for any
            // more.
            .options([
                ("client_min_messages", "warning".to_owned()),
                ("synchronous_commit", "local".to_owned()),
                ("statement_timeout", ANSWER.as_millis().to_string()),
            ])
            .disable_statement_logging();
        let pool = pool_options().connect_with(options.clone()).await.map_err(errors::engine_error)?;
        for number in 1..=shards {
            let shard = Shard::new(url, &shard_name(number))?;
            let setup = lease::setup(shard.name(), &shard.schema());
            sqlx::raw_sql(AssertSqlSafe(setup)).execute(&pool).await.map_err(errors::engine_error)?;
        }
        // The clock may still leap: no row has a time of it yet.
        follow(&clock, &pool, Duration::MAX).await.map_err(errors::engine_error)?;
        let home = Shard::new(url, &shard_name(1))?;
        let open = move || Ok(Connection::Server(Box::new(home.connect_shared(Role::Reader, None)?)));
        let home = Arc::new(Readers::lazy(1, clock.clone(), Box::new(open)));
        Ok(Self { options, pool: Arc::new(Mutex::new((0, pool))), home, clock })
    }

    fn pool(&self) -> MutexGuard<'_, (u64, PgPool)> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the database. A network that drops everything reports no error for a quarter of an hour: without an answer
    /// in time the pool is abandoned for a new one.
    async fn ask<T, F: Future<Output = sqlx::Result<T>>>(&self, question: impl FnOnce(PgPool) -> F) -> Result<T> {
        let (number, pool) = self.pool().clone();
        if let Ok(answer) = tokio::time::timeout(ANSWER, question(pool)).await {
            return answer.map_err(errors::engine_error);
        }
        let mut now = self.pool();
        if now.0 == number {
            *now = (number + 1, pool_options().connect_lazy_with(self.options.clone()));
        }
        Err(Error::Unreachable("the database does not answer".to_owned()))
    }

    /// The secret by which the daemons of the database know each other.
    pub async fn secret(&self) -> Result<String> {
        self.ask(|pool| async move { sqlx::query_scalar(SECRET).fetch_one(&pool).await }).await
    }

    /// Says that a daemon runs, for a time, and who else does.
    pub async fn beat(&self, me: &DaemonEntry, lasts: Duration) -> Result<Survey> {
        let lasts = i64::try_from(lasts.as_millis()).unwrap_or(i64::MAX);
        let failures =
            serde_json::to_string(&me.failures).map_err(|_| Error::Bug("the failures of a daemon are no JSON"))?;
        self.ask(|pool| async move {
            sqlx::query(BEAT).bind(&me.id).bind(&me.address).bind(lasts).bind(failures).execute(&pool).await?;
            follow(&self.clock, &pool, Duration::from_millis(limits::DATABASE_CLOCK_MS)).await?;
            let daemons = sqlx::query(DAEMONS).fetch_all(&pool).await?;
            let shards = sqlx::query(SHARDS).fetch_all(&pool).await?;
            let server: String = sqlx::query_scalar(lease::SERVER).fetch_one(&pool).await?;
            Ok(Survey {
                daemons: daemons.iter().map(daemon).collect::<sqlx::Result<_>>()?,
                shards: shards.iter().map(|row| shard(row, &server)).collect::<sqlx::Result<_>>()?,
                server,
            })
        })
        .await
    }

    /// Says that a daemon does not run any more.
    pub async fn leave(&self, daemon: &str) -> Result<()> {
        self.ask(|pool| async move { sqlx::query(FORGET).bind(daemon).execute(&pool).await.map(drop) }).await
    }

    /// Has a daemon own a shard from now on: its owner gives it up, and no other one takes it while that daemon runs. False
    /// if there is no such shard.
    pub async fn destine(&self, shard: &str, daemon: Option<&str>, is_pinned: bool) -> Result<bool> {
        let changed = sqlx::query(DESTINE).bind(shard).bind(daemon.unwrap_or_default()).bind(is_pinned);
        self.ask(|pool| async move { Ok(changed.execute(&pool).await?.rows_affected() > 0) }).await
    }

    /// Lets any daemon own a shard that was handed to this one, unless an operator has pinned it.
    pub async fn hand_back(&self, shard: &str, from: &str) -> Result<()> {
        let changed = sqlx::query(HAND_BACK).bind(shard).bind(from);
        self.ask(|pool| async move { changed.execute(&pool).await.map(drop) }).await
    }

    /// True once the first shard has its tables.
    pub async fn has_home(&self) -> Result<bool> {
        self.ask(|pool| async move { sqlx::query_scalar(HAS_HOME).fetch_one(&pool).await }).await
    }

    /// The shard of a session, by its id; none if there is no such session.
    pub async fn shard_of(&self, session: Uuid) -> Result<Option<String>> {
        let find = sqlx::query_scalar(FIND).bind(session.as_bytes().as_slice());
        self.ask(|pool| async move { find.fetch_optional(&pool).await }).await
    }

    /// The shard of a session, by its client's id in a tenant; none if there is no such session.
    pub async fn shard_of_client_id(&self, tenant: &str, client_id: &str) -> Result<Option<String>> {
        let find = sqlx::query_scalar(FIND_BY_CLIENT_ID).bind(tenant).bind(client_id);
        self.ask(|pool| async move { find.fetch_optional(&pool).await }).await
    }
}

fn pool_options() -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(limits::REGISTRY_CONNECTIONS)
        .acquire_timeout(ANSWER)
        .after_connect(|conn, _| Box::pin(primary::check(conn)))
}

/// Has a clock follow the database's, unless the answer takes longer.
async fn follow(clock: &Clock, pool: &PgPool, longest: Duration) -> sqlx::Result<()> {
    let now = async { Ok::<_, sqlx::Error>(Timestamp(sqlx::query_scalar(NOW).fetch_one(pool).await?)) };
    clock.ask(now, longest).await
}

fn daemon(row: &PgRow) -> sqlx::Result<DaemonEntry> {
    let failures: String = row.try_get(2)?;
    // Another version may write what this one cannot read: it is skipped.
    let failures = serde_json::from_str(&failures).unwrap_or_default();
    Ok(DaemonEntry { id: row.try_get(0)?, address: row.try_get(1)?, failures })
}

fn shard(row: &PgRow, server: &str) -> sqlx::Result<ShardEntry> {
    let text = |text: String| (!text.is_empty()).then_some(text);
    let is_owned: bool = row.try_get("is_owned")?;
    let last_owner = text(row.try_get("daemon")?);
    let written_on: String = row.try_get("server")?;
    Ok(ShardEntry {
        name: row.try_get("name")?,
        owner: last_owner.clone().filter(|_| is_owned),
        last_owner,
        is_moved: !written_on.is_empty() && written_on != server,
        lease_left: Duration::from_millis(row.try_get::<i64, _>("left_ms")?.unsigned_abs()),
        destination: text(row.try_get("destination")?),
        is_pinned: row.try_get("is_pinned")?,
        head_seq: row.try_get("head_seq")?,
    })
}

/// True for a shard that the daemons of a database have together.
pub fn is_shared(shard: &str) -> bool {
    shard.strip_prefix('s').is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Removes the sessions of a shard from the directory until the trigger is back.
pub fn leave_directory(shard: &str, schema: &str) -> String {
    format!("drop trigger if exists note_session on {schema}.session; delete from lh.directory where shard = '{shard}'")
}

/// Makes the trigger that maintains the directory, and adds the sessions from before it, such as those of a migration.
pub fn directory(shard: &str, schema: &str) -> String {
    format!(
        "create or replace function {schema}.note_session() returns trigger language plpgsql as $$ begin
    insert into lh.directory as known (public_id, tenant, client_id, shard)
        values (new.public_id, new.tenant, new.client_id, '{shard}')
        on conflict (public_id) do update set client_id = excluded.client_id where known.shard = excluded.shard;
    if not found then
        raise exception 'another shard has the session' using errcode = 'unique_violation';
    end if;
    return null;
end $$;
do $do$ begin
if not exists (select from pg_trigger where tgname = 'note_session' and tgrelid = '{schema}.session'::regclass) then
    create trigger note_session after insert or update of client_id on {schema}.session
        for each row execute function {schema}.note_session();
    insert into lh.directory (public_id, tenant, client_id, shard)
        select public_id, tenant, client_id, '{shard}' from {schema}.session on conflict (public_id) do nothing;
end if;
end $do$"
    )
}
