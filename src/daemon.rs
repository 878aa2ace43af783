//! The composition root: open, recover, spawn, serve, drain.

mod doors;
mod error;
pub mod offline;
mod owner;

use crate::access_log::{self, AccessLog};
use crate::app::access_record::AccessLogging;
use crate::app::quotas::Quota;
use crate::app::retention::{RetentionRule, RetentionTimes};
use crate::app::{self, DefaultPolicy, Longhand};
use crate::clock::Clock;
use crate::config::{self, Config, Durability, LoggedCallers, PolicyRule, UnloggedCalls};
use crate::grpc;
use crate::limits;
use crate::scheduler::{self, Scheduler};
use crate::search;
use crate::store::{self, Store, WriteState};
use crate::summarizer::{self, Levels};
use crate::transport::{self, Tls, TlsFiles, Transport};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use error::Error;
pub use owner::{secret_path, url_path};

/// The addresses on which the daemon listens.
#[derive(Debug, Clone)]
pub struct Listening {
    /// The Unix socket.
    pub socket: PathBuf,
    /// The URL on TCP, unless it is off.
    pub tcp: Option<String>,
}

/// Runs the daemon with the summarizers of its configuration until `shutdown` resolves. It calls `ready` once it
/// listens.
pub async fn run(
    config: Config,
    shutdown: impl Future<Output = ()>,
    ready: impl FnOnce(&Listening),
) -> Result<(), Error> {
    config.validate()?;
    let levels = summarizer::levels(&config, &Clock::default())?;
    run_with(config, levels, shutdown, ready).await
}

/// The policy of sessions that name no preset, from the configuration.
fn default_policy(rule: &PolicyRule) -> DefaultPolicy {
    DefaultPolicy {
        model: rule.model.clone(),
        project: rule.project.clone(),
        preset: rule.preset.clone(),
        override_json: rule.override_json(),
    }
}

/// The listener on TCP. Of the free ports the one of the last time comes first: pages that are open, and programs that
/// know a URL, go on after a restart.
async fn listen_tcp(config: &Config) -> Result<Option<TcpListener>, Error> {
    let Some(address) = config.listen.address() else { return Ok(None) };
    if address.port() == 0
        && let Some(port) = owner::last_port(&config.data_dir)
        && let Ok(listener) = transport::bind_tcp(SocketAddr::new(address.ip(), port)).await
    {
        return Ok(Some(listener));
    }
    Ok(Some(transport::bind_tcp(address).await?))
}

/// Runs the daemon with summarizers of the caller.
pub async fn run_with(
    config: Config,
    summarizers: Levels,
    shutdown: impl Future<Output = ()>,
    ready: impl FnOnce(&Listening),
) -> Result<(), Error> {
    config.validate()?;
    // With a `/` at the end the system would follow a symbolic link.
    let path: PathBuf = config.socket_path().components().collect();
    // An address that cannot be used is found before anything is opened or created.
    transport::check_unix(&path, &config.data_dir).await?;
    let tls = config.tls.clone().map(tls_files).map(Tls::open).transpose()?;
    let tcp = listen_tcp(&config).await?;
    let clock = Clock::default();
    let vocabularies = config.read_vocabularies()?;
    let secret_rules = config.read_secret_rules()?;
    let mut shutdown = std::pin::pin!(shutdown);
    let (store, writer) = tokio::select! {
        opened = open(&config, &clock) => opened?,
        // Another daemon may have the shard for long.
        () = &mut shutdown, if config.database.is_some() => return Ok(()),
    };
    if let Some(rules) = secret_rules {
        store.apply_secret_rules(rules)?;
    }
    let tasks = TaskTracker::new();
    let writer = tasks.spawn(writer);

    let stopping = CancellationToken::new();
    let workers = NonZeroUsize::new(config.workers).unwrap_or(NonZeroUsize::MIN);
    let scheduler = Scheduler::new(
        store.clone(),
        clock.clone(),
        summarizers,
        scheduler::Options {
            workers,
            vocabularies: vocabularies.clone(),
            client_wait: Duration::from_secs(config.summarizer.client_wait_seconds),
            hooks: config.hooks.clone(),
            loaded_bytes: config.loaded_mib << 20,
        },
    );
    let options = app::Options {
        default_preset: config.default_preset.clone(),
        defaults: config.policies.iter().map(default_policy).collect(),
        vocabularies,
        stopping: stopping.clone(),
    };
    let app = Longhand::new(store.clone(), scheduler.handle(), &clock, options);

    tasks.spawn(store.upkeep().clone().scrub(scrub(config.scrub), clock.clone(), stopping.clone()));

    tasks.spawn(app.clone().finish_erasures());
    app.set_retention(config.retention.iter().map(retention_rule).collect());
    tasks.spawn(app.clone().retain(RetentionTimes::default(), stopping.clone()));

    let (listener, socket) = transport::bind_unix(&path, &config.data_dir).await?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let address = tcp.as_ref().and_then(|listener| listener.local_addr().ok());
    let listening = Listening { socket: path, tcp: address.map(|address| format!("{scheme}://{address}")) };
    let access_log = access_log(&config, &app, &clock)?;
    app.hold_to_quotas(config.tenants.iter().map(quota).collect()).await.map_err(Error::Quotas)?;
    app.load_access_tokens(&owner::secret(&config.data_dir)?).await.map_err(Error::AccessTokens)?;
    let scheduling = tasks.spawn(scheduler.run(stopping.clone()));
    if config.search {
        let searching = search::Service::open(store.clone(), clock.clone(), search::Options::default())?;
        tasks.spawn(searching.run(stopping.clone()));
    } else {
        store.search().remove()?;
    }
    let traffic = app.traffic().clone();
    let (routes, health) = grpc::router(app.clone()).await;
    tasks.spawn(grpc::report_health(health.clone(), app.clone(), stopping.clone()));
    let transport = Transport::new(transport::Options {
        service: doors::service(routes, app, &config),
        class: doors::class,
        refuse: doors::refuse,
        trailers: grpc::trailers,
        traffic,
        stall: Duration::from_secs(config.stall_seconds),
        stopping: stopping.clone(),
    });
    transport.listen_unix(listener);
    if let Some(tcp) = tcp {
        transport.listen_tcp(tcp, tls);
    }
    tasks.close();
    if let (Some(url), Some(address)) = (&listening.tcp, address) {
        owner::write_url(&config.data_dir, url, address.port());
    }
    tracing::info!(socket = %listening.socket.display(), tcp = ?listening.tcp, "listening");
    ready(&listening);

    let is_lost = serve_until(shutdown, &store).await;
    tracing::info!("stopping");
    grpc::not_serving(&health).await;
    stopping.cancel();
    transport.close().await;
    socket.remove();
    owner::remove_url(&config.data_dir);
    drain(scheduling, writer, store).await;
    // Its thread ends when the last call is gone.
    drop(access_log);
    if is_lost { Err(Error::LeaseLost) } else { Ok(()) }
}

/// Waits until the daemon is asked to stop, or has lost its shard; true in the second case.
async fn serve_until(asked: impl Future<Output = ()>, store: &Store) -> bool {
    let lost = async {
        // Behind another reason, reads are served.
        if store.stopped().await != WriteState::LeaseLost {
            std::future::pending().await
        }
    };
    tokio::select! {
        () = asked => false,
        () = lost => true,
    }
}

/// The writer of a store.
type Writing = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Opens the store: that of the data directory, or a shard.
async fn open(config: &Config, clock: &Clock) -> store::Result<(Store, Writing)> {
    let Some(database) = &config.database else {
        let options = store::Options { directory: config.data_dir.clone(), durability: durability(config.durability) };
        let (store, writer) = Store::open(options, clock.clone()).await?;
        return Ok((store, Box::pin(writer)));
    };
    let shard = store::Shard::new(database, &config.shard)?;
    let lease = Duration::from_secs(config.lease_seconds);
    let (store, writer) = Store::open_shard(shard, config.data_dir.clone(), lease, clock.clone()).await?;
    Ok((store, Box::pin(writer)))
}

fn scrub(scrub: config::Scrub) -> store::ScrubOptions {
    let interval = Duration::from_secs(scrub.interval_hours * 3_600);
    store::ScrubOptions {
        bytes_per_second: scrub.mib_per_second << 20,
        interval: (!interval.is_zero()).then_some(interval),
    }
}

fn retention_rule(rule: &config::RetentionRule) -> RetentionRule {
    let days = |days: Option<u32>| days.map(|days| Duration::from_secs(u64::from(days) * 86_400));
    let config::RetentionRule { name, tenant, label, max_age_days, max_idle_days, max_bytes } = rule.clone();
    RetentionRule {
        name,
        tenant: tenant.map(|tenant| if tenant == config::DEFAULT_TENANT { String::new() } else { tenant }),
        label,
        age: days(max_age_days),
        idle: days(max_idle_days),
        bytes: max_bytes,
    }
}

fn quota((name, quota): (&String, &config::TenantQuota)) -> (String, Quota) {
    let bound = |limit: Option<u64>| limit.map(|limit| i64::try_from(limit).unwrap_or(i64::MAX));
    let content = store::ContentQuota {
        bytes: bound(quota.bytes),
        summary_tokens: bound(quota.summary_tokens_per_day),
        summary_cost_micros: bound(quota.summary_micro_usd_per_day),
    };
    let config::TenantQuota { sessions, appends_per_second, streams, .. } = *quota;
    let tenant = if name == config::DEFAULT_TENANT { "" } else { name };
    (tenant.to_owned(), Quota { sessions, appends_per_second, streams, content })
}

/// The thread of the access log, if there is one.
fn access_log(config: &Config, app: &Longhand, clock: &Clock) -> Result<Option<std::thread::JoinHandle<()>>, Error> {
    let config::AccessLog { callers, retention_days, unlogged_calls } = config.access_log;
    if callers == LoggedCallers::Nobody {
        return Ok(None);
    }
    let directory = access_log_path(&config.data_dir);
    let opened = AccessLog::open(access_log::Options { directory, retention_days }, clock.clone());
    let (log, thread) = opened.map_err(Error::AccessLog)?;
    app.log_access(AccessLogging {
        log,
        owner_too: callers == LoggedCallers::All,
        refuses: unlogged_calls == UnloggedCalls::Refuse,
    });
    Ok(Some(thread))
}

/// The folder of the access log.
pub fn access_log_path(data_dir: &std::path::Path) -> PathBuf {
    data_dir.join("access-log")
}

fn tls_files(tls: config::Tls) -> TlsFiles {
    let config::Tls { certificate, key, client_authorities } = tls;
    TlsFiles { certificate, key, client_authorities }
}

fn durability(durability: Durability) -> store::Durability {
    match durability {
        Durability::Full => store::Durability::Full,
        Durability::ProcessCrash => store::Durability::ProcessCrash,
    }
}

/// Waits, for a bounded time, until the scheduler has stopped and the writer has written everything in its queue.
async fn drain(scheduling: tokio::task::JoinHandle<()>, writer: tokio::task::JoinHandle<()>, store: Store) {
    let limit = Duration::from_millis(limits::DRAIN_MS_MAX);
    if tokio::time::timeout(limit, scheduling).await.is_err() {
        tracing::warn!("a compaction did not stop in time; it is taken up again at the next start");
    }
    // The writer ends when all senders are gone; as the last connection it copies the log into the database.
    store.close().await;
    if tokio::time::timeout(limit, writer).await.is_err() {
        tracing::warn!("somebody still holds the store");
    }
}
