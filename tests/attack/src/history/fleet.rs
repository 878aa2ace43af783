//! Several daemons with one database, and what happens to them: kills, freezes, lost connections, a database that crashes,
//! shards that move.

use super::service::STOP_TIME_MAX;
use crate::daemon::{Daemon, connect};
use crate::postgres::Server;
use anyhow::{Context as _, Result, bail};
use longhand::pb;
use longhand::pb::admin_service_client::AdminServiceClient;
use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Number of daemons.
const DAEMONS: usize = 3;
/// Seconds for which a lease lasts: as short as can be, so that there are many takeovers.
const LEASE_SECONDS: u64 = 2;
/// Maximum time of a start.
const START_TIME_MAX: Duration = Duration::from_secs(60);
/// The database of the attack.
const DATABASE: &str = "history";

/// What happened, by its name.
pub(super) type Fault = &'static str;

/// The daemons.
pub(super) struct Fleet {
    program: PathBuf,
    directory: PathBuf,
    server: Server,
    address: String,
    daemons: Vec<Option<Daemon>>,
    /// How often each fault happened.
    pub(super) faults: BTreeMap<Fault, u64>,
}

/// The directory of a daemon.
fn home(directory: &Path, index: usize) -> PathBuf {
    directory.join(format!("d{index}"))
}

/// The sockets of all daemons.
pub(super) fn sockets(directory: &Path) -> Vec<PathBuf> {
    (0..DAEMONS).map(|index| home(directory, index).join("longhand.sock")).collect()
}

impl Fleet {
    /// A database and its daemons.
    pub(super) async fn start(program: &Path, directory: &Path) -> Result<Self> {
        let server = Server::start(None).context("this machine has no PostgreSQL")?;
        let address = server.database(DATABASE);
        let daemons = (0..DAEMONS).map(|_| None).collect();
        let (program, directory) = (program.to_owned(), directory.to_owned());
        let mut fleet = Self { program, directory, server, address, daemons, faults: BTreeMap::new() };
        for index in 0..DAEMONS {
            fleet.run(index).await?;
        }
        Ok(fleet)
    }

    async fn run(&mut self, index: usize) -> Result<()> {
        let home = home(&self.directory, index);
        std::fs::create_dir_all(&home)?;
        let config = home.join("history.toml");
        let client_wait = index % 2;
        let text = format!(
            "workers = 3\nlease_seconds = {LEASE_SECONDS}\nsummarizer = {{ client_wait_seconds = {client_wait} }}\n"
        );
        std::fs::write(&config, text)?;
        let began = Instant::now();
        loop {
            let starting = Daemon::start(&self.program, &home, |command| {
                command.arg("--config").arg(&config).args(["--listen", "off", "--database", &self.address]);
            });
            match tokio::time::timeout(START_TIME_MAX, starting).await {
                Ok(Ok(daemon)) => {
                    self.daemons[index] = Some(daemon);
                    return Ok(());
                }
                // The database may be recovering, and a killed process holds its lock for a moment.
                Ok(Err(_)) if began.elapsed() < START_TIME_MAX => tokio::time::sleep(Duration::from_millis(50)).await,
                Ok(Err(error)) => return Err(error).context("a daemon does not start"),
                Err(_) => bail!("a daemon took longer than {START_TIME_MAX:?} to start"),
            }
        }
    }

    /// The daemon that owns the shard, as far as it knows itself, else any.
    async fn owner(&self, rng: &mut StdRng) -> usize {
        for (index, socket) in sockets(&self.directory).iter().enumerate() {
            let mut admin = AdminServiceClient::new(connect(socket));
            let asked = tokio::time::timeout(Duration::from_secs(2), admin.get_cluster(pb::GetClusterRequest {}));
            let Ok(Ok(cluster)) = asked.await else { continue };
            let cluster = cluster.into_inner();
            let own = cluster.daemons.iter().find(|daemon| daemon.answering).map(|daemon| &daemon.daemon_id);
            if own.is_some() && cluster.shards.iter().any(|shard| shard.owner_daemon_id.as_ref() == own) {
                return index;
            }
        }
        rng.random_range(0..DAEMONS)
    }

    /// Has one thing go wrong, and mends it. Returns a finding if a daemon ended by itself, or badly.
    pub(super) async fn disturb(&mut self, rng: &mut StdRng) -> Result<Option<String>> {
        for daemon in self.daemons.iter_mut().flatten() {
            if let Some(status) = daemon.try_wait()? {
                bail!("a daemon ended by itself with {status}");
            }
        }
        let owner = self.owner(rng).await;
        let index = if rng.random_bool(0.75) { owner } else { rng.random_range(0..DAEMONS) };
        let pause = Duration::from_millis(rng.random_range(0..LEASE_SECONDS * 2_000));
        let mut finding = None;
        let fault = match rng.random_range(0..100) {
            0..40 => {
                let daemon = self.daemons[index].take().context("a daemon that runs")?;
                daemon.kill().await?;
                tokio::time::sleep(pause).await;
                self.run(index).await?;
                "kills"
            }
            40..55 => {
                let id = self.daemons[index].as_ref().context("a daemon that runs")?.id()?;
                kill_process(id, Signal::STOP)?;
                // Some freezes end before the lease does.
                tokio::time::sleep(pause).await;
                kill_process(id, Signal::CONT)?;
                "freezes"
            }
            55..63 => {
                let daemon = self.daemons[index].take().context("a daemon that runs")?;
                let began = Instant::now();
                let status = daemon.stop().await?;
                if !status.success() {
                    finding = Some(format!("a daemon that was asked to stop ended with {status}"));
                } else if began.elapsed() > STOP_TIME_MAX {
                    finding = Some(format!("a daemon that was asked to stop took {:?}", began.elapsed()));
                }
                self.run(index).await?;
                "stops"
            }
            63..83 => {
                let chance = [0.1, 0.5, 1.0].choose(rng).copied().unwrap_or(1.0);
                let ended = format!(
                    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'longhand' and random() < {chance}"
                );
                drop(self.server.sql(DATABASE, &ended));
                "backends ended"
            }
            83..91 => {
                // A backend that dies takes all others with it, and the database recovers.
                let one = "select pid from pg_stat_activity where application_name = 'longhand' limit 1";
                let found =
                    self.server.sql(DATABASE, one).ok().and_then(|text| Pid::from_raw(text.trim().parse().ok()?));
                if let Some(backend) = found {
                    kill_process(backend, Signal::KILL)?;
                }
                "crashes of the database"
            }
            _ => {
                self.move_shard(index).await;
                "moves"
            }
        };
        *self.faults.entry(fault).or_default() += 1;
        Ok(finding)
    }

    async fn move_shard(&self, index: usize) {
        let mut admin = AdminServiceClient::new(connect(&sockets(&self.directory)[index]));
        let Ok(cluster) = admin.get_cluster(pb::GetClusterRequest {}).await else { return };
        let own = cluster.into_inner().daemons.into_iter().find(|daemon| daemon.answering);
        let daemon_id = own.map(|daemon| daemon.daemon_id);
        // It may be refused by a daemon that loses the database meanwhile.
        drop(admin.move_shard(pb::MoveShardRequest { shard: "s1".to_owned(), daemon_id }).await);
        drop(admin.move_shard(pb::MoveShardRequest { shard: "s1".to_owned(), daemon_id: None }).await);
    }

    /// Stops all daemons. Returns a finding if one ends badly.
    pub(super) async fn stop(&mut self) -> Result<Option<String>> {
        let mut finding = None;
        for daemon in self.daemons.iter_mut() {
            let Some(daemon) = daemon.take() else { continue };
            let status = daemon.stop().await?;
            if !status.success() {
                finding = Some(format!("a daemon that was asked to stop ended with {status}"));
            }
        }
        Ok(finding)
    }
}
