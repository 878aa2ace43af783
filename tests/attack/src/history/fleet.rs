//! Several daemons with one database, and what happens to them: kills, freezes, networks that lose everything, to the database
//! and to each other, lost replies, a database that crashes, restarts and moves to its standby, and shards that move. Their
//! clocks are minutes apart.

use super::service::STOP_TIME_MAX;
use super::stores::Stores;
use super::wire::{Held, Target, Wire};
use crate::daemon::{Daemon, connect};
use crate::postgres::{self, Server};
use anyhow::{Context as _, Result, bail};
use futures::future::join_all;
use longhand::pb;
use longhand::pb::admin_service_client::AdminServiceClient;
use longhand::pb::session_service_client::SessionServiceClient;
use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::block_in_place;
use tonic::Code;

/// Number of daemons.
const DAEMONS: usize = 3;
/// Seconds for which a lease lasts: as short as can be, so that there are many takeovers.
const LEASE_SECONDS: u64 = 2;
/// Maximum time of a start.
const START_TIME_MAX: Duration = Duration::from_secs(60);
/// Maximum time until a session is answered for again.
const PAUSE_TIME_MAX: Duration = Duration::from_secs(60);
/// Maximum time in which a standby has what its primary has.
const STANDBY_TIME_MAX: Duration = Duration::from_secs(60);
/// The database of the attack.
const DATABASE: &str = "history";
/// True once every shard has an owner that writes, all on one server, and none is about to move as far as the database
/// knows. What nobody owns, or what is moving, gets a new identity on another server, since nobody can say that nothing is
/// missing.
const SETTLED: &str = "select sum(shards) = (select count(*) from lh.lease) and max(shards) - min(shards) < 2 \
     and count(*) = (select count(*) from lh.daemon where seen_until > clock_timestamp()) \
     from (select count(*) as shards from lh.lease l join lh.shard s using (name, epoch) \
        where lease_until > clock_timestamp() \
        and s.server like '%/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) \
        and not exists (select from lh.daemon \
            where id = destination and seen_until > clock_timestamp() and id <> split_part(owner, '.', 1)) \
        group by split_part(owner, '.', 1)) as daemons";
/// The owners of all shards. One that was asked to give a shard up goes on for a while, although nobody can see that.
const OWNERS: &str = "select string_agg(name || epoch, ',' order by name) from lh.lease";
/// Time in which a shard is given up.
const GIVE_TIME_MAX: Duration = Duration::from_secs(3);
/// The name of the database's socket in its folder.
const DATABASE_SOCKET: &str = ".s.PGSQL.5432";
/// Maximum time for which nothing comes through between daemons, in milliseconds: longer than they wait for a sign of life.
const SILENCE_MS_MAX: u64 = 8_000;
/// Seconds after which a daemon takes a connection to the database for lost on which nothing comes.
const ANSWER_SECONDS: u64 = 10;
/// How far the clock of each daemon is from the system's, where there is a library that shifts it.
const CLOCKS: [&str; DAEMONS] = ["+0s", "+180s", "-120s"];

/// What happened, by its name.
pub(super) type Fault = &'static str;

/// The daemons.
pub(super) struct Fleet {
    program: PathBuf,
    directory: PathBuf,
    shards: u32,
    server: Server,
    target: Target,
    /// Between each daemon and the database.
    wires: Vec<Wire>,
    /// Between the other daemons and each.
    between: Vec<Wire>,
    /// The library that shifts clocks.
    clocks: Option<PathBuf>,
    daemons: Vec<Option<Daemon>>,
    /// How often each fault happened.
    faults: BTreeMap<Fault, u64>,
    /// Times from faults of daemons until every shard was answered for again.
    pauses: BTreeMap<Fault, Vec<Duration>>,
    /// For how long daemons that were asked to stop went on.
    stops: Vec<Duration>,
}

/// The library that shifts clocks: Debian's `libfaketime`.
fn clocks() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?;
    let libraries = folders.filter_map(|folder| Some(folder.ok()?.path().join("faketime/libfaketimeMT.so.1")));
    libraries.into_iter().find(|library| library.is_file())
}

/// The directory of a daemon.
fn home(directory: &Path, index: usize) -> PathBuf {
    directory.join(format!("d{index}"))
}

/// The sockets of all daemons.
pub(super) fn sockets(directory: &Path) -> Vec<PathBuf> {
    (0..DAEMONS).map(|index| home(directory, index).join("longhand.sock")).collect()
}

/// Lets nothing through for a while, one way or both. What was held back comes then, or the connections end.
async fn silence(wires: &[Wire], pause: Duration, rng: &mut StdRng) -> Held {
    let held = Held { requests: rng.random_bool(0.67), replies: rng.random_bool(0.67) };
    let held = if held == Held::default() { Held { requests: true, replies: true } } else { held };
    let is_cut = rng.random_bool(0.5);
    wires.iter().for_each(|wire| wire.hold(held));
    tokio::time::sleep(pause).await;
    if is_cut {
        wires.iter().for_each(Wire::cut);
    }
    wires.iter().for_each(|wire| wire.hold(Held::default()));
    held
}

impl Fleet {
    /// A database and its daemons.
    pub(super) async fn start(program: &Path, directory: &Path, shards: u32) -> Result<Self> {
        let server = block_in_place(|| Server::start(None)).context("this machine has no PostgreSQL")?;
        block_in_place(|| server.database(DATABASE));
        let target: Target = Arc::new(Mutex::new(server.folder.join(DATABASE_SOCKET)));
        let wire = |index| Wire::start(home(directory, index).join("wire").join(DATABASE_SOCKET), &target);
        let wires = (0..DAEMONS).map(wire).collect::<Result<_>>()?;
        let wire =
            |(index, socket)| Wire::start(home(directory, index).join("between.sock"), &Arc::new(Mutex::new(socket)));
        let between = sockets(directory).into_iter().enumerate().map(wire).collect::<Result<_>>()?;
        let clocks = clocks();
        if clocks.is_none() {
            println!("the clocks of the daemons are the same: this machine has no libfaketime");
        }
        let mut fleet = Self {
            program: program.to_owned(),
            directory: directory.to_owned(),
            shards,
            server,
            target,
            wires,
            between,
            clocks,
            daemons: (0..DAEMONS).map(|_| None).collect(),
            faults: BTreeMap::new(),
            pauses: BTreeMap::new(),
            stops: Vec::new(),
        };
        for index in 0..DAEMONS {
            fleet.run(index).await?;
        }
        Ok(fleet)
    }

    async fn run(&mut self, index: usize) -> Result<()> {
        let home = home(&self.directory, index);
        let folder = self.wires[index].socket.parent().context("a folder")?;
        let address = postgres::url(folder).replace("/postgres?", &format!("/{DATABASE}?"));
        let advertise = format!("unix:{}", self.between[index].socket.display());
        let config = home.join("history.toml");
        let client_wait = index % 2;
        let text = format!(
            "workers = 3\nlease_seconds = {LEASE_SECONDS}\nsummarizer = {{ client_wait_seconds = {client_wait} }}\n\
             cluster = {{ advertise = {advertise:?} }}\n"
        );
        std::fs::write(&config, text)?;
        // What it says is kept for whoever looks into a finding.
        let log = std::fs::File::options().create(true).append(true).open(home.join("daemon.log"))?;
        let began = Instant::now();
        loop {
            let log = log.try_clone()?;
            let starting = Daemon::start(&self.program, &home, |command| {
                command.stderr(log);
                command.arg("--config").arg(&config).args(["--listen", "off", "--database", &address]);
                command.args(["--shards", &self.shards.to_string()]);
                if let Some(library) = &self.clocks {
                    command.env("LD_PRELOAD", library).env("FAKETIME", CLOCKS[index]);
                    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
                }
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

    /// What a daemon knows of all, if it answers.
    async fn cluster(&self, index: usize) -> Option<pb::GetClusterResponse> {
        let mut admin = AdminServiceClient::new(connect(&sockets(&self.directory)[index]));
        let asked = tokio::time::timeout(Duration::from_secs(2), admin.get_cluster(pb::GetClusterRequest {}));
        Some(asked.await.ok()?.ok()?.into_inner())
    }

    /// A daemon that owns a shard as far as it knows itself, else any.
    async fn owner(&self, rng: &mut StdRng) -> usize {
        let mut indexes: Vec<usize> = (0..DAEMONS).collect();
        indexes.shuffle(rng);
        for index in &indexes {
            let Some(cluster) = self.cluster(*index).await else { continue };
            let own = cluster.daemons.iter().find(|daemon| daemon.answering).map(|daemon| &daemon.daemon_id);
            if own.is_some() && cluster.shards.iter().any(|shard| shard.owner_daemon_id.as_ref() == own) {
                return *index;
            }
        }
        indexes[0]
    }

    /// The time until the daemons beside one answer for sessions of all shards.
    fn pause(&self, index: usize, stores: &Stores) -> impl Future<Output = Duration> + use<> {
        let sockets = sockets(&self.directory);
        let others = sockets.into_iter().enumerate().filter(|(other, _)| *other != index).map(|(_, socket)| socket);
        let channels: Vec<_> = others.map(|socket| connect(&socket)).collect();
        let began = Instant::now();
        let probes = stores.one_session_of_each().into_iter().enumerate().map(|(number, session_id)| {
            let mut sessions = SessionServiceClient::new(channels[number % channels.len()].clone());
            async move {
                loop {
                    let asked = sessions.get_session(pb::GetSessionRequest { session_id: session_id.clone() });
                    match tokio::time::timeout(PAUSE_TIME_MAX, asked).await {
                        Ok(Err(status)) if status.code() == Code::Unavailable && began.elapsed() < PAUSE_TIME_MAX => {
                            tokio::time::sleep(Duration::from_millis(5)).await;
                        }
                        _ => return,
                    }
                }
            }
        });
        let probes = join_all(probes.collect::<Vec<_>>());
        async move {
            probes.await;
            began.elapsed()
        }
    }

    /// Notes a pause. Returns a finding if a session of some shard was not answered for at all.
    fn note_pause(&mut self, fault: Fault, answered: Duration) -> Option<String> {
        self.pauses.entry(fault).or_default().push(answered);
        (answered >= PAUSE_TIME_MAX).then(|| format!("{fault}: a shard was not answered for within {answered:?}"))
    }

    /// Has one thing go wrong, and mends it. Returns a finding if a daemon ended by itself, or badly.
    pub(super) async fn disturb(&mut self, rng: &mut StdRng, stores: &Stores) -> Result<Option<String>> {
        for daemon in self.daemons.iter_mut().flatten() {
            if let Some(status) = daemon.try_wait()? {
                bail!("a daemon ended by itself with {status}");
            }
        }
        let owner = self.owner(rng).await;
        let index = if rng.random_bool(0.75) { owner } else { rng.random_range(0..DAEMONS) };
        // Half of what lasts a while ends before the lease does.
        let while_ms = rng.random_range(0..LEASE_SECONDS * 2_000);
        let pause = Duration::from_millis(while_ms);
        let is_beyond = while_ms > LEASE_SECONDS * 1_000;
        let (mut finding, began) = (None, Instant::now());
        let fault = match rng.random_range(0..100) {
            0..30 => {
                let daemon = self.daemons[index].take().context("a daemon that runs")?;
                let answered = self.pause(index, stores);
                daemon.kill().await?;
                let again = async {
                    tokio::time::sleep(pause).await;
                    self.run(index).await
                };
                let (answered, again) = tokio::join!(answered, again);
                again?;
                finding = self.note_pause("kills", answered);
                "kills"
            }
            30..42 => {
                let id = self.daemons[index].as_ref().context("a daemon that runs")?.id()?;
                let answered = self.pause(index, stores);
                kill_process(id, Signal::STOP)?;
                let again = async {
                    tokio::time::sleep(pause).await;
                    kill_process(id, Signal::CONT)
                };
                let (answered, again) = tokio::join!(answered, again);
                again?;
                let fault = if is_beyond { "freezes beyond the lease" } else { "freezes within the lease" };
                finding = self.note_pause(fault, answered);
                fault
            }
            42..48 => {
                let daemon = self.daemons[index].take().context("a daemon that runs")?;
                let began = Instant::now();
                let answered = self.pause(index, stores);
                let stopped = async {
                    let status = daemon.stop().await;
                    (status, began.elapsed())
                };
                let (answered, (status, took)) = tokio::join!(answered, stopped);
                let status = status?;
                self.stops.push(took);
                if !status.success() {
                    finding = Some(format!("a daemon that was asked to stop ended with {status}"));
                } else if took > STOP_TIME_MAX {
                    finding = Some(format!("a daemon that was asked to stop took {took:?}"));
                }
                finding = self.note_pause("stops", answered).or(finding);
                self.run(index).await?;
                "stops"
            }
            48..60 => {
                let chance = [0.1, 0.5, 1.0].choose(rng).copied().unwrap_or(1.0);
                self.sql(&format!(
                    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'longhand' and random() < {chance}"
                ));
                "backends ended"
            }
            60..66 => {
                // A backend that dies takes all others with it, and the database recovers.
                let one = self.sql("select pid from pg_stat_activity where application_name = 'longhand' limit 1");
                if let Some(backend) = one.and_then(|text| Pid::from_raw(text.trim().parse().ok()?)) {
                    kill_process(backend, Signal::KILL)?;
                }
                "crashes of the database"
            }
            66..70 => {
                block_in_place(|| self.server.restart());
                "restarts of the database"
            }
            70..74 => {
                self.fail_over(pause).await?;
                "failovers of the database"
            }
            74..84 => {
                let is_long = rng.random_bool(0.2);
                let pause =
                    if is_long { pause + Duration::from_secs(rng.random_range(0..ANSWER_SECONDS)) } else { pause };
                let is_of_all = rng.random_bool(0.2);
                let wires = if is_of_all { &self.wires[..] } else { &self.wires[index..=index] };
                match silence(wires, pause, rng).await {
                    _ if is_of_all => "databases that did not answer",
                    Held { requests: true, replies: true } => "networks that lost everything",
                    Held { requests: true, .. } => "networks that lost requests",
                    Held { .. } => "networks that lost replies",
                }
            }
            84..90 => {
                let pause = Duration::from_millis(rng.random_range(0..SILENCE_MS_MAX));
                silence(&self.between[index..=index], pause, rng).await;
                "networks between daemons that lost something"
            }
            90..95 => {
                // What was committed is not known to have been.
                self.wires[index].hold(Held { requests: false, replies: true });
                tokio::time::sleep(pause / 20).await;
                self.wires[index].cut();
                self.wires[index].hold(Held::default());
                "replies lost"
            }
            _ => {
                let shard = format!("s{}", rng.random_range(1..=self.shards));
                self.move_shard(index, shard).await;
                "moves"
            }
        };
        *self.faults.entry(fault).or_default() += 1;
        println!(
            "fault {}: {fault}, daemon {index}, {} ms",
            self.faults.values().sum::<u64>(),
            began.elapsed().as_millis()
        );
        Ok(finding)
    }

    /// The rows of a statement; none while the database is not there.
    fn sql(&self, sql: &str) -> Option<String> {
        block_in_place(|| self.server.sql(DATABASE, sql)).ok()
    }

    /// Has the database get a standby that has every acknowledged commit, and loses the primary.
    async fn fail_over(&mut self, pause: Duration) -> Result<()> {
        let standby = block_in_place(|| Server::start(Some(&self.server))).context("a standby")?;
        self.sql("alter system set synchronous_standby_names = '*'");
        self.sql("select pg_reload_conf()");
        self.until("select count(*) > 0 from pg_stat_replication where sync_state = 'sync'").await?;
        // The process that makes checkpoints is the one that has commits wait from then on.
        self.sql("checkpoint");
        let head = self.sql("select pg_current_wal_lsn()").context("a position")?;
        let has = format!("select count(*) > 0 from pg_stat_replication where flush_lsn >= '{}'", head.trim());
        self.until(&has).await?;
        // Every owner learns of the standby when it renews its lease.
        let now = self.sql("select clock_timestamp()").context("a time")?;
        let renewed = format!(
            "select min(lease_until) > '{}'::timestamptz + interval '{LEASE_SECONDS} s' from lh.lease",
            now.trim()
        );
        self.until(&renewed).await?;
        tokio::time::sleep(pause / 4).await;
        loop {
            self.until(SETTLED).await?;
            let owners = self.sql(OWNERS);
            tokio::time::sleep(GIVE_TIME_MAX).await;
            self.until(SETTLED).await?;
            if owners.is_some() && owners == self.sql(OWNERS) {
                break;
            }
        }
        self.promote(standby).await
    }

    /// Makes a standby that gets what was committed up to now, and nothing more.
    pub(super) async fn leave_behind(&self) -> Result<Server> {
        self.until(SETTLED).await?;
        let standby = block_in_place(|| Server::start(Some(&self.server))).context("a standby")?;
        self.until("select count(*) > 0 from pg_stat_replication where state = 'streaming'").await?;
        for setting in ["alter system set primary_conninfo = ''", "select pg_reload_conf()"] {
            block_in_place(|| standby.sql("postgres", setting)).map_err(anyhow::Error::msg)?;
        }
        self.until("select count(*) = 0 from pg_stat_replication").await?;
        Ok(standby)
    }

    /// Loses the server, and has a standby take its place.
    pub(super) async fn promote(&mut self, standby: Server) -> Result<()> {
        *super::record::lock(&self.target) = standby.folder.join(DATABASE_SOCKET);
        block_in_place(|| self.server = standby);
        self.sql("alter system reset synchronous_standby_names");
        self.sql("select pg_reload_conf()");
        self.sql("select pg_promote()").context("a promotion")?;
        // A daemon that was killed before it is back would cost its shards their identity.
        self.until(SETTLED).await?;
        Ok(())
    }

    /// Waits until a query says that it is so.
    async fn until(&self, query: &str) -> Result<()> {
        let began = Instant::now();
        while self.sql(query).is_none_or(|answer| answer.trim() != "t") {
            if began.elapsed() > STANDBY_TIME_MAX {
                bail!("this did not come true: {query}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    async fn move_shard(&self, index: usize, shard: String) {
        let Some(cluster) = self.cluster(index).await else { return };
        let own = cluster.daemons.into_iter().find(|daemon| daemon.answering);
        let daemon_id = own.map(|daemon| daemon.daemon_id);
        let mut admin = AdminServiceClient::new(connect(&sockets(&self.directory)[index]));
        // It may be refused by a daemon that loses the database meanwhile.
        drop(admin.move_shard(pb::MoveShardRequest { shard: shard.clone(), daemon_id }).await);
        drop(admin.move_shard(pb::MoveShardRequest { shard, daemon_id: None }).await);
    }

    /// What happened, and for how long sessions waited: the median and the longest time.
    pub(super) fn report(&mut self) -> String {
        let faults: Vec<String> = self.faults.iter().map(|(fault, many)| format!("{many} {fault}")).collect();
        let mut text = format!("faults: {}", faults.join(", "));
        let mut note = |of: &str, times: &mut Vec<Duration>| {
            times.sort_unstable();
            let Some(longest) = times.last() else { return };
            let (median, longest) = (times[times.len() / 2].as_secs_f64(), longest.as_secs_f64());
            text.push_str(&format!("; until {of}: p50 {median:.2} s, at most {longest:.2} s"));
        };
        for (fault, times) in &mut self.pauses {
            note(&format!("all shards answered, {fault}"), times);
        }
        note("the processes ended, stops", &mut self.stops);
        text
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
