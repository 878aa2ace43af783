//! The shards that a daemon owns: it takes those that are free, evenly with the other daemons, and gives up those that
//! another one is to have.

use super::Error;
use super::failures::OpenFailures;
use super::hosted::{HostedStore, Setup};
use crate::cluster::{self, AskingDaemon, AwaitedDaemons, BalanceStep, Cluster, LocalShard};
use crate::grpc;
use crate::limits;
use crate::postgres::{self, AcknowledgedState, DaemonEntry, Registry, Shard, ShardEntry, Survey};
use crate::store::{self, ShardPlace, Store};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic_health::server::HealthReporter;

/// Parts of a lease in which a daemon says once that it runs.
const BEATS_A_LEASE: u32 = 5;

/// The shards of a daemon.
pub(super) struct Shards {
    pub(super) cluster: Arc<Cluster>,
    setup: Setup,
    directory: PathBuf,
    database: String,
    lease: Duration,
    hosted: HashMap<String, ServedShard>,
    /// Shards that are being given up, or taken.
    changing: JoinSet<ShardChange>,
    busy: HashSet<String>,
    failures: OpenFailures,
    /// What was acknowledged last of each shard that was ever owned.
    acknowledged: HashMap<String, Arc<AcknowledgedState>>,
    /// The server of the database, and since when.
    server: (String, Instant),
    /// Shards whose stores were lost.
    lost: (mpsc::UnboundedSender<String>, mpsc::UnboundedReceiver<String>),
}

struct ServedShard {
    hosted: HostedStore,
    /// Waits for the loss of its store.
    watch: JoinHandle<()>,
}

enum ShardChange {
    Taken(String, Result<Option<HostedStore>, Error>),
    Given(String),
}

impl Shards {
    /// A daemon that owns no shard yet.
    pub(super) async fn new(registry: Registry, address: String, setup: Setup) -> Result<Self, Error> {
        let config = Arc::clone(&setup.config);
        let tls = tls(&config)?;
        let id = crate::clock::fresh_id().simple().to_string();
        let me = DaemonEntry { id, address, failures: Vec::new() };
        // Until they are read.
        setup.entrance.believe_access_tokens_until(Instant::now());
        let options = cluster::Options { registry, me, tls, stopping: setup.stopping.clone() };
        let cluster = Cluster::new(options).await.map_err(Error::Cluster)?;
        let lease = Duration::from_secs(config.lease_seconds);
        // Calls are for shards that are known.
        let survey = cluster.beat(lease, Vec::new()).await.map_err(Error::Cluster)?;
        let mut shards = Self {
            cluster,
            directory: config.data_dir.join("shards"),
            database: config.database.clone().unwrap_or_default(),
            lease,
            setup,
            hosted: HashMap::new(),
            changing: JoinSet::new(),
            busy: HashSet::new(),
            failures: OpenFailures::default(),
            acknowledged: HashMap::new(),
            server: (survey.server.clone(), Instant::now()),
            lost: mpsc::unbounded_channel(),
        };
        match &survey.shards[..] {
            [] => {
                let why = "the store of the shard s1 was migrated to another place, and is set aside in the schema \
                     migrated_lh_s1";
                return Err(Error::Store(store::Error::Open(why.to_owned())));
            }
            // What keeps the only one from being opened is said at once.
            [only] if only.owner.is_none() && !(only.is_moved && only.last_owner.is_some()) => {
                shards.open_only(&only.name).await?
            }
            _ => {}
        }
        Ok(shards)
    }

    /// Takes and gives up shards until the daemon stops; then, when its calls are answered, gives up all of them.
    pub(super) async fn run(mut self, health: HealthReporter, answered: CancellationToken) {
        let stopping = self.setup.stopping.clone();
        let mut beats = tokio::time::interval(self.lease / BEATS_A_LEASE);
        beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut reached, mut serves) = (Instant::now(), true);
        loop {
            tokio::select! {
                () = stopping.cancelled() => break,
                _ = beats.tick() => {
                    // An answer of the database may be long in coming.
                    let is_reached = tokio::select! {
                        () = stopping.cancelled() => break,
                        is_reached = self.beat() => is_reached,
                    };
                    // What is owned was read and written up to here, and nothing else is known.
                    if is_reached {
                        reached = Instant::now();
                    }
                    let now = is_reached || reached.elapsed() < self.lease;
                    if std::mem::replace(&mut serves, now) != now {
                        grpc::report_serving(&health, now).await;
                    }
                }
                Some(changed) = self.changing.join_next() => {
                    match changed {
                        Ok(changed) => if self.changed(changed) {
                            beats.reset_immediately();
                        },
                        Err(error) => tracing::error!(%error, "a change of a shard ended in a panic"),
                    }
                    if self.changing.is_empty() {
                        self.busy.clear();
                    }
                }
                Some(shard) = self.lost.1.recv() => {
                    tracing::warn!(shard, "another daemon may own the shard by now: it is served here no more");
                    self.give(&shard);
                }
            }
        }
        // A client that takes no answers does not keep its shards from others.
        let clients = Duration::from_millis(limits::STOP_CLIENTS_MS);
        drop(tokio::time::timeout(clients, answered.cancelled()).await);
        self.stop().await;
    }

    /// Looks at the registry, and does the next step. False if it is not reached.
    async fn beat(&mut self) -> bool {
        let asked = Instant::now();
        let survey = match self.cluster.beat(self.lease, self.failures.current()).await {
            Ok(survey) => survey,
            Err(error) => {
                tracing::warn!(%error, "the database with the shards is not reached; what is owned is served while its lease lasts");
                return false;
            }
        };
        self.remember(&survey);
        self.step(&survey).await;
        match tokio::time::timeout(self.lease, self.learn_access_tokens(&survey)).await {
            Ok(Ok(is_known)) => {
                if is_known {
                    self.setup.entrance.believe_access_tokens_until(asked + self.lease);
                }
            }
            Ok(Err(error)) => tracing::warn!(%error, "the access tokens cannot be read"),
            Err(_) => tracing::warn!("the access tokens are read later"),
        }
        self.forget_words(&survey).await;
        true
    }

    /// Takes what is its own, and does one step more.
    async fn step(&mut self, survey: &Survey) {
        self.hand_back(survey).await;
        let due = self.failures.due(self.lease / BEATS_A_LEASE);
        for shard in cluster::returning_shards(survey, &self.cluster.me().id, &due) {
            if !self.hosted.contains_key(&shard) && !self.busy.contains(&shard) {
                self.take(shard, survey.shards.len());
            }
        }
        // One at a time.
        if self.busy.is_empty()
            && let Some(step) = self.next(survey, &due)
        {
            match step {
                BalanceStep::Take(shard) => self.take(shard, survey.shards.len()),
                BalanceStep::Give(shard) => self.give(&shard),
                BalanceStep::Hand { shard, to } => {
                    if let Err(error) = self.cluster.registry().destine(&shard, Some(&to), false).await {
                        tracing::debug!(%error, "a shard is handed over later");
                    }
                }
            }
        }
    }

    /// Lets other daemons keep the shards that were handed to this one, and that it could not open.
    async fn hand_back(&self, survey: &Survey) {
        let me = Some(self.cluster.me().id.as_str());
        for failure in self.failures.current() {
            let is_handed = |shard: &&ShardEntry| {
                shard.name == failure.shard && shard.destination.as_deref() == me && !shard.is_pinned
            };
            if survey.shards.iter().any(|shard| is_handed(&shard))
                && let Err(error) = self.cluster.registry().hand_back(&failure.shard, &self.cluster.me().id).await
            {
                tracing::debug!(%error, "a shard is handed back later");
            }
        }
    }

    /// Notes a server that was not there before, and forgets what was acknowledged of shards that others had since.
    fn remember(&mut self, survey: &Survey) {
        if survey.server != self.server.0 {
            self.server = (survey.server.clone(), Instant::now());
        }
        let me = Some(self.cluster.me().id.as_str());
        for shard in
            survey.shards.iter().filter(|shard| shard.last_owner.is_some() && shard.last_owner.as_deref() != me)
        {
            // What is served here was taken since then.
            if !self.hosted.contains_key(&shard.name)
                && !self.busy.contains(&shard.name)
                && let Some(acknowledged) = self.acknowledged.get(&shard.name)
            {
                acknowledged.forget();
            }
        }
    }

    /// The next step. The last owners of shards that are on another server now have the time of a lease to come back, and
    /// then, if they run, that in which they lose what they had.
    fn next(&self, survey: &Survey, due: &BTreeSet<String>) -> Option<BalanceStep> {
        let waits = match self.server.1.elapsed() {
            age if age < self.lease => AwaitedDaemons::ForAll,
            age if age < self.lease + Duration::from_millis(limits::OWNER_RETURN_MS) => AwaitedDaemons::ForRunning,
            _ => AwaitedDaemons::ForNone,
        };
        let mine = AskingDaemon { id: &self.cluster.me().id, shards: &self.hosted.keys().cloned().collect(), due };
        cluster::next(survey, mine, waits)
    }

    /// Removes the search indexes of shards that other daemons own: they would keep what is erased there.
    async fn forget_words(&self, survey: &Survey) {
        let is_away = |name: &String| !self.hosted.contains_key(name) && !self.busy.contains(name);
        let away = survey.shards.iter().filter(|shard| shard.owner.is_some() && is_away(&shard.name));
        let directories: Vec<PathBuf> = away.map(|shard| self.directory.join(&shard.name)).collect();
        let removed = tokio::task::spawn_blocking(move || {
            directories.iter().try_for_each(|directory| store::remove_search_index(directory))
        });
        if let Ok(Err(error)) = removed.await {
            tracing::warn!(%error, "the search index of a shard that another daemon owns cannot be removed");
        }
    }

    /// Reads the access tokens, unless the shard that has them is served here: then they are in memory with each change.
    /// False while that shard is taken or given up, or has no tables.
    async fn learn_access_tokens(&self, survey: &Survey) -> Result<bool, store::Error> {
        let home = postgres::shard_name(1);
        if self.busy.contains(&home) {
            return Ok(false);
        }
        if self.hosted.contains_key(&home) || survey.shards.is_empty() {
            return Ok(true);
        }
        let registry = self.cluster.registry();
        if !registry.has_home().await? {
            return Ok(false);
        }
        self.setup.entrance.keep_access_tokens(store::access_tokens_of(&registry.home).await?);
        Ok(true)
    }

    /// Opens the only shard. What copies a store into it, or died while it did, has its lease for a while.
    async fn open_only(&mut self, shard: &str) -> Result<(), Error> {
        let end = Instant::now() + Duration::from_millis(limits::MIGRATION_LEASE_WAIT_MS);
        loop {
            let changed = self.open_shard(shard.to_owned(), 1).await;
            let left = end.saturating_duration_since(Instant::now());
            match changed {
                ShardChange::Taken(_, Err(error @ Error::Store(store::Error::Open(_)))) => return Err(error),
                ShardChange::Taken(_, Ok(None)) if !left.is_zero() && self.is_nobodys(shard).await => {
                    tokio::time::sleep(left.min(Duration::from_millis(limits::LEASE_RETRY_MS))).await;
                }
                changed => {
                    self.changed(changed);
                    return Ok(());
                }
            }
        }
    }

    /// True if no daemon has a shard.
    async fn is_nobodys(&self, shard: &str) -> bool {
        let survey = self.cluster.beat(self.lease, self.failures.current()).await;
        survey.is_ok_and(|survey| survey.shards.iter().any(|entry| entry.name == *shard && entry.owner.is_none()))
    }

    fn take(&mut self, shard: String, shards: usize) {
        self.busy.insert(shard.clone());
        let opening = self.open_shard(shard, shards);
        self.changing.spawn(opening);
    }

    /// Opens a shard, if it is free.
    fn open_shard(&mut self, shard: String, shards: usize) -> impl Future<Output = ShardChange> + Send + use<> {
        let (least, most) = limits::SHARD_READERS_RANGE.into_inner();
        let readers = (2 * most / shards.max(1)).clamp(least, most);
        let (directory, database, lease) = (self.directory.join(&shard), self.database.clone(), self.lease);
        let keys = self.setup.config.data_dir.clone();
        let mut setup = self.setup.clone();
        setup.loaded_bytes /= shards.max(1);
        let daemon = self.cluster.me().id.clone();
        let acknowledged = Arc::clone(self.acknowledged.entry(shard.clone()).or_default());
        async move {
            let opened_store = async {
                let of = Arc::new(Shard::new(&database, &shard)?.with_acknowledged(acknowledged));
                let place = ShardPlace { shard: of, directory, keys, ttl: lease, readers };
                let Some(opened) = Store::take_shard(&place, &daemon, setup.clock.clone()).await? else {
                    return Ok(None);
                };
                let hosted = HostedStore::start(opened, &setup).await?;
                if shard == postgres::shard_name(1) {
                    match hosted.app.store().access_tokens().all().await {
                        Ok(stored) => setup.entrance.keep_access_tokens(stored),
                        Err(error) => {
                            hosted.stop().await;
                            return Err(error.into());
                        }
                    }
                }
                Ok(Some(hosted))
            };
            let opened_store = opened_store.await;
            ShardChange::Taken(shard, opened_store)
        }
    }

    fn give(&mut self, shard: &str) {
        let Some(ServedShard { hosted, watch }) = self.hosted.remove(shard) else { return };
        self.cluster.give_up(shard);
        // It holds the store.
        watch.abort();
        self.busy.insert(shard.to_owned());
        let shard = shard.to_owned();
        self.changing.spawn(async move {
            hosted.stop().await;
            ShardChange::Given(shard)
        });
    }

    /// Notes the end of a change. True if the next step is done at once: one that was free is often not the only one, and
    /// others take what cannot be opened here.
    fn changed(&mut self, changed: ShardChange) -> bool {
        let (ShardChange::Given(shard) | ShardChange::Taken(shard, _)) = &changed;
        self.busy.remove(shard);
        match changed {
            ShardChange::Given(shard) => tracing::info!(shard, "given up"),
            ShardChange::Taken(shard, Ok(Some(hosted))) => {
                self.failures.clear(&shard);
                self.serve(shard, hosted);
                return true;
            }
            ShardChange::Taken(_, Ok(None)) => {}
            // What the database says of itself is no fault of this daemon.
            ShardChange::Taken(shard, Err(Error::Store(error))) if !is_of_daemon(&error) => {
                tracing::warn!(shard, %error, "a shard was not opened; it is tried again");
            }
            ShardChange::Taken(shard, Err(error)) => {
                tracing::error!(shard, %error, "a shard cannot be opened: another daemon takes it, if there is one");
                self.failures.note(&shard, &error);
                return true;
            }
        }
        false
    }

    fn serve(&mut self, shard: String, hosted: HostedStore) {
        let local = LocalShard { app: hosted.app.clone(), services: Arc::clone(&hosted.services) };
        self.cluster.serve(shard.clone(), local);
        let (lost, gone, name) = (hosted.lost(), self.lost.0.clone(), shard.clone());
        let watch = tokio::spawn(async move {
            lost.await;
            // Nobody asks once the daemon stops.
            drop(gone.send(name));
        });
        tracing::info!(shard, "taken");
        self.hosted.insert(shard, ServedShard { hosted, watch });
    }

    /// Says that the daemon runs no more, so that others take its shards as soon as they are free, and gives up all of them.
    async fn stop(mut self) {
        self.leave(Duration::from_millis(limits::STOP_OTHERS_MS)).await;
        for shard in self.hosted.keys().cloned().collect::<Vec<_>>() {
            self.give(&shard);
        }
        while let Some(changed) = self.changing.join_next().await {
            // One that was just taken.
            if let Ok(ShardChange::Taken(_, Ok(Some(hosted)))) = changed {
                hosted.stop().await;
            }
        }
        // A beat that was cut off may have come behind the first time.
        self.leave(self.lease).await;
    }

    async fn leave(&self, limit: Duration) {
        let left = self.cluster.registry().leave(&self.cluster.me().id);
        if !matches!(tokio::time::timeout(limit, left).await, Ok(Ok(()))) {
            tracing::debug!("the others learn later that the daemon runs no more");
        }
    }
}

/// True for a store's error that another daemon may not have: of its files, its version or its configuration.
fn is_of_daemon(error: &store::Error) -> bool {
    use store::Error as E;
    !matches!(error, E::Unreachable(_) | E::Stopped(_) | E::Busy(_) | E::Full | E::ReadOnly | E::Database(_))
}

/// The certificates for calls to other daemons.
fn tls(config: &crate::config::Config) -> Result<cluster::PeerTls, Error> {
    let read = |path: &PathBuf| {
        std::fs::read_to_string(path).map_err(|source| crate::config::Error::Read { path: path.clone(), source })
    };
    let identity = match &config.tls {
        Some(tls) if tls.client_authorities.is_some() => Some((read(&tls.certificate)?, read(&tls.key)?)),
        _ => None,
    };
    Ok(cluster::PeerTls { authorities: config.cluster.authorities.as_ref().map(read).transpose()?, identity })
}
