//! The composition root: open, recover, spawn, serve, drain.

mod doors;
mod error;
mod failures;
mod hosted;
pub mod offline;
mod owner;
mod shards;

use crate::access_log::{self, AccessLog};
use crate::app::access_record::AccessLogging;
use crate::app::entrance::Entrance;
use crate::clock::Clock;
use crate::config::{self, Config, Durability, LoggedCallers, UnloggedCalls};
use crate::grpc;
use crate::postgres::Registry;
use crate::store::{self, Store};
use crate::summarizer::{self, Levels};
use crate::transport::{self, Tls, TlsFiles, Transport};
use hosted::{HostedStore, Setup};
use shards::Shards;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic_health::server::HealthReporter;

pub use error::Error;
pub use owner::{secret_path, url_path};

/// The addresses on which the daemon listens.
#[derive(Debug, Clone)]
pub struct ListenAddresses {
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
    ready: impl FnOnce(&ListenAddresses),
) -> Result<(), Error> {
    config.validate()?;
    let levels = summarizer::levels(&config, &Clock::default())?;
    run_with(config, levels, shutdown, ready).await
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
    ready: impl FnOnce(&ListenAddresses),
) -> Result<(), Error> {
    config.validate()?;
    let config = Arc::new(config);
    // With a `/` at the end the system would follow a symbolic link.
    let path: PathBuf = config.socket_path().components().collect();
    // An address that cannot be used is found before anything is opened or created.
    transport::check_unix(&path, &config.data_dir).await?;
    let tls = config.tls.clone().map(tls_files).map(Tls::open).transpose()?;
    let tcp = listen_tcp(&config).await?;
    let clock = Clock::default();
    let entrance = Entrance::new(&clock);
    let stopping = CancellationToken::new();
    let setup = Setup {
        summarizers,
        vocabularies: config.read_vocabularies()?,
        models: config.read_models()?,
        secret_rules: config.read_secret_rules()?.map(Arc::new),
        entrance: entrance.clone(),
        loaded_bytes: config.loaded_mib << 20,
        config: Arc::clone(&config),
        clock: clock.clone(),
        stopping: stopping.clone(),
    };
    let address = tcp.as_ref().and_then(|listener| listener.local_addr().ok());
    let scheme = if tls.is_some() { "https" } else { "http" };
    let listening =
        ListenAddresses { socket: path.clone(), tcp: address.map(|address| format!("{scheme}://{address}")) };
    let backing = OpenStores::open(setup, &listening).await?;
    entrance.trust_owner(&owner::secret(&config.data_dir)?);
    let (listener, socket) = transport::bind_unix(&path, &config.data_dir).await?;
    let access_log = access_log(&config, &entrance, &clock)?;
    let refusals = tokio::spawn(entrance.clone().record_refusals_until(stopping.clone()));
    let (routes, health) = grpc::guard_services(backing.answers(), entrance.clone()).await;
    let (admit, service) = doors::service(routes, backing.console(), entrance.clone(), &config);
    let transport = Transport::new(transport::Options {
        service,
        admit,
        class: doors::class,
        refuse: doors::refuse,
        trailers: grpc::trailers,
        traffic: entrance.traffic().clone(),
        stall: Duration::from_secs(config.stall_seconds),
        stopping: stopping.clone(),
    });
    let answered = CancellationToken::new();
    let running = backing.run(health.clone(), stopping.clone(), answered.clone());
    transport.listen_unix(listener);
    if let Some(tcp) = tcp {
        transport.listen_tcp(tcp, tls);
    }
    if let (Some(url), Some(address)) = (&listening.tcp, address) {
        owner::write_url(&config.data_dir, url, address.port());
    }
    tracing::info!(socket = %listening.socket.display(), tcp = listening.tcp, "listening");
    ready(&listening);

    shutdown.await;
    tracing::info!("stopping");
    grpc::not_serving(&health).await;
    stopping.cancel();
    transport.close().await;
    answered.cancel();
    socket.remove();
    owner::remove_url(&config.data_dir);
    running.stop().await;
    refusals.abort();
    entrance.record_refusals().await;
    // Its thread ends when the last call is gone.
    drop(access_log);
    Ok(())
}

/// The stores of a daemon, before they run.
enum OpenStores {
    /// The one in its data directory.
    Files(Box<HostedStore>),
    /// The shards of a database, with the lock of the data directory.
    Shards(Box<Shards>, std::fs::File),
}

/// The stores of a daemon, while they run.
enum RunningStores {
    Files(Box<HostedStore>),
    Shards(JoinHandle<()>, std::fs::File),
}

impl OpenStores {
    async fn open(setup: Setup, listening: &ListenAddresses) -> Result<Self, Error> {
        let config = Arc::clone(&setup.config);
        let Some(database) = &config.database else {
            let options =
                store::Options { directory: config.data_dir.clone(), durability: durability(config.durability) };
            let opened = Store::open(options, setup.clock.clone()).await?;
            let hosted = HostedStore::start(opened, &setup).await?;
            let stored = hosted.app.store().access_tokens().all().await?;
            setup.entrance.keep_access_tokens(stored);
            return Ok(Self::Files(Box::new(hosted)));
        };
        let registry = Registry::open(database, config.cluster.shards, setup.clock.clone()).await?;
        let directory_claim = store::claim_directory(&config.data_dir).await?;
        let own = || {
            let socket = std::path::absolute(&listening.socket).unwrap_or_else(|_| listening.socket.clone());
            listening.tcp.clone().unwrap_or_else(|| format!("unix:{}", socket.display()))
        };
        let address = config.cluster.advertise.clone().unwrap_or_else(own);
        Ok(Self::Shards(Box::new(Shards::new(registry, address, setup).await?), directory_claim))
    }

    /// What answers calls.
    fn answers(&self) -> Arc<dyn grpc::Backend> {
        match self {
            Self::Files(hosted) => hosted.services.clone(),
            Self::Shards(shards, _) => shards.cluster.clone(),
        }
    }

    /// What opens and ends the sessions of the console.
    fn console(&self) -> doors::ConsoleStore {
        match self {
            Self::Files(hosted) => doors::ConsoleStore::Here(hosted.app.clone()),
            Self::Shards(shards, _) => doors::ConsoleStore::AtHome(shards.cluster.clone()),
        }
    }

    /// Runs them until `stopping`, and then until calls are `answered`.
    fn run(self, health: HealthReporter, stopping: CancellationToken, answered: CancellationToken) -> RunningStores {
        match self {
            Self::Files(hosted) => {
                tokio::spawn(grpc::report_health(health, hosted.app.clone(), stopping));
                RunningStores::Files(hosted)
            }
            Self::Shards(shards, held) => RunningStores::Shards(tokio::spawn(shards.run(health, answered)), held),
        }
    }
}

impl RunningStores {
    async fn stop(self) {
        match self {
            Self::Files(hosted) => hosted.stop().await,
            Self::Shards(running, held) => {
                if let Err(error) = running.await {
                    tracing::error!(%error, "the shards ended in a panic");
                }
                drop(held);
            }
        }
    }
}

/// The thread of the access log, if there is one.
fn access_log(
    config: &Config,
    entrance: &Entrance,
    clock: &Clock,
) -> Result<Option<std::thread::JoinHandle<()>>, Error> {
    let config::AccessLog { callers, retention_days, unlogged_calls } = config.access_log;
    if callers == LoggedCallers::Nobody {
        return Ok(None);
    }
    let directory = access_log_path(&config.data_dir);
    let opened = AccessLog::open(access_log::Options { directory, retention_days }, clock.clone());
    let (log, thread) = opened.map_err(Error::AccessLog)?;
    entrance.log_access(AccessLogging {
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
