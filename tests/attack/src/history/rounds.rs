//! Rounds: clients and kills, then an idle store, then checks.

use super::agreement::{Answer, Observation};
use super::client::{Client, Shared};
use super::fleet::{self, Fleet};
use super::log::Log;
use super::record::{Expected, Record, SentPrompt, Session, Snapshot, count, lock};
use super::rewriters::Policy;
use super::service::Service;
use super::{
    Options, agents, checks, erasers, open, people, readers, reasons, rewinds, rewriters, run_watches, summaries,
    trees, watchers, writers,
};
use crate::daemon::Daemon;
use crate::seed;
use anyhow::{Context as _, Result, bail};
use longhand::pb;
use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Maximum time in which the clients must finish.
const END_TIME_MAX: Duration = Duration::from_secs(300);
/// Maximum time in which compactions must end before they are cancelled; after twice this time, a finding.
const SETTLE_TIME_MAX: Duration = Duration::from_secs(60);
const COOLDOWN_SECONDS_MAX: i64 = 1;
/// About the time that an erasure takes, in milliseconds.
const ERASURE_TIME_MS: u64 = 60;
/// Maximum life of the daemon between two kills if nothing is answered.
const LIFE_TIME_MAX: Duration = Duration::from_secs(20);
/// Numbers of a policy from this value on are divided, so that short conversations reach the policy's thresholds.
const LARGE_NUMBER: u64 = 400;

/// Result of an attack.
#[derive(Debug, Default)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Number of times the daemon was killed.
    pub kills: u64,
    /// Number of times the daemon was asked to stop.
    pub stops: u64,
    /// Number of rounds.
    pub rounds: u64,
    /// Duration of the attack.
    pub time: Duration,
    /// Number of events in the log.
    pub events: usize,
    /// Number of sessions in the store.
    pub sessions: usize,
    /// The counters, as one line.
    pub counts: String,
    /// Broken promises, one sentence each.
    pub findings: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, kills, stops, rounds, time, events, sessions, counts, findings } = self;
        writeln!(
            to,
            "history --seed {seed}: {kills} kills, {stops} stops, {rounds} rounds in {:.0} s",
            time.as_secs_f64()
        )?;
        writeln!(to, "{events} events in {sessions} sessions; {counts}")?;
        writeln!(to, "{} findings", findings.len())?;
        findings.iter().try_for_each(|finding| writeln!(to, "  {finding}"))
    }
}

/// The attack.
pub(super) struct Attack {
    pub(super) shared: Arc<Shared>,
    pub(super) options: Options,
    pub(super) report: Report,
    pub(super) rng: StdRng,
    pub(super) log: Log,
    policies: Arc<Vec<Policy>>,
    daemon: Option<Daemon>,
    /// The daemons with one database, in place of the one.
    pub(super) fleet: Option<Fleet>,
}

/// Attacks a new daemon. `program` is the `attack` program.
pub async fn run(program: &Path, options: Options) -> Result<Report> {
    let seed = options.seed.unwrap_or_else(rand::random);
    println!("history --seed {seed}");
    let temporary = tempfile::tempdir()?;
    let directory = options.directory.clone().unwrap_or_else(|| temporary.path().join("store"));
    std::fs::create_dir_all(&directory)?;
    let shared = Shared {
        service: Service::new(program, &directory, options.fleet.then(|| fleet::sockets(&directory))),
        record: Record::default(),
        sessions: Default::default(),
        stopping: AtomicBool::new(false),
        end: Default::default(),
    };
    let mut attack = Attack {
        shared: Arc::new(shared),
        rng: seed::generator(seed, "rounds"),
        report: Report { seed, ..Report::default() },
        options,
        log: Log::default(),
        policies: Arc::default(),
        daemon: None,
        fleet: None,
    };
    let began = Instant::now();
    match attack.options.fleet {
        true => {
            reasons::expect_owners();
            attack.fleet = Some(Fleet::start(program, &directory, attack.options.shards).await?);
        }
        false => attack.start(0).await?,
    }
    attack.policies = Arc::new(attack.read_policies().await?);
    while attack.report.kills < attack.options.kills && began.elapsed().as_secs() < attack.options.seconds {
        attack.round(began).await?;
        attack.report.rounds += 1;
        println!("round {}: {} kills, {} events", attack.report.rounds, attack.report.kills, attack.log.events.len());
    }
    attack.finish().await?;
    attack.report.time = began.elapsed();
    Ok(attack.report)
}

impl Attack {
    pub(super) fn client(&self, name: &str) -> Client {
        Client::new(self.shared.clone(), &format!("{name}-{}", self.report.rounds), self.report.seed)
    }

    async fn start(&mut self, client_wait_seconds: u64) -> Result<()> {
        let daemon = self.shared.service.start(&mut self.rng, client_wait_seconds, &mut self.report.kills).await?;
        self.daemon = Some(daemon);
        Ok(())
    }

    /// Kills the daemon, or asks it to stop, and starts it again.
    async fn restart(&mut self, client_wait_seconds: u64) -> Result<()> {
        if let Some(fleet) = &mut self.fleet {
            self.report.kills += 1;
            self.shared.service.expect_failures();
            if let Some(finding) = fleet.disturb(&mut self.rng, &self.shared.record.stores).await? {
                self.shared.record.finding(finding);
            }
            // Calls that began before it was mended may fail yet.
            self.shared.service.expect_failures();
            return Ok(());
        }
        let mut daemon = self.daemon.take().context("no daemon runs")?;
        if let Some(status) = daemon.try_wait()? {
            bail!("the daemon ended by itself with {status}");
        }
        if self.rng.random_bool(0.05) {
            self.report.stops += 1;
            if let Some(finding) = self.shared.service.stop(daemon).await? {
                self.shared.record.finding(finding);
            }
        } else {
            self.report.kills += 1;
            if self.shared.record.erasing.load(Ordering::SeqCst) > 0 {
                count(&self.shared.record.counts.erasures_killed);
            }
            self.shared.service.kill(daemon).await?;
        }
        self.start(client_wait_seconds).await
    }

    /// The presets, and the presets with their large numbers divided; cooldowns are short in both.
    async fn read_policies(&mut self) -> Result<Vec<Policy>> {
        let mut client = self.client("presets");
        let Ok(answer) = client.ask(&pb::ListPresetsRequest::default()).await else { bail!("no presets") };
        let mut policies = Vec::new();
        for preset in answer.presets {
            let mut policy: serde_json::Value = serde_json::from_str(&preset.policy_json)?;
            divide(&mut policy);
            // Cooldowns end before the store is checked.
            let cooldown = policy.pointer_mut("/guards/cooldown_seconds").context("a policy without a cooldown")?;
            let is_long = cooldown.as_i64().is_some_and(|seconds| seconds > COOLDOWN_SECONDS_MAX);
            if is_long {
                *cooldown = COOLDOWN_SECONDS_MAX.into();
            }
            let override_json = serde_json::json!({ "guards": { "cooldown_seconds": COOLDOWN_SECONDS_MAX } });
            let override_json = if is_long { override_json.to_string() } else { String::new() };
            let small = Policy {
                name: format!("{} divided", preset.name),
                policy_json: policy.to_string(),
                ..Policy::default()
            };
            policies.push(small);
            policies.push(Policy {
                name: preset.name.clone(),
                preset: preset.name,
                override_json,
                ..Policy::default()
            });
        }
        Ok(policies)
    }

    /// Makes the sessions of a new round: most of them compact early.
    pub(super) async fn make_sessions(&mut self) {
        let mut client = self.client("sessions");
        let mut sessions: Vec<Arc<Session>> = Vec::new();
        let small: Vec<Policy> = self.policies.iter().filter(|policy| policy.preset.is_empty()).cloned().collect();
        for index in 0..self.options.sessions {
            let from = if index % 4 == 3 { self.policies.as_slice() } else { small.as_slice() };
            let Some(policy) = from.choose(&mut self.rng) else { continue };
            let parent = sessions.choose(&mut self.rng).filter(|_| index % 2 == 1).map(|parent| parent.id.clone());
            sessions.extend(rewriters::create_for(&mut client, policy, parent).await);
        }
        *lock(&self.shared.sessions) = sessions;
    }

    async fn round(&mut self, began: Instant) -> Result<()> {
        self.shared.stopping.store(false, Ordering::SeqCst);
        *lock(&self.shared.end) = None;
        self.make_sessions().await;
        let from = self.log.events.len();
        let (mut clients, mut followers) = self.send_clients();
        let last = (self.report.kills + self.options.round).min(self.options.kills);
        let mut auditor = self.client("auditor");
        while self.report.kills < last && began.elapsed().as_secs() < self.options.seconds {
            self.live(&mut auditor).await;
            let client_wait_seconds = self.rng.random_range(0..2);
            self.restart(client_wait_seconds).await?;
        }
        self.shared.stopping.store(true, Ordering::SeqCst);
        join(&self.shared.record, "clients", &mut clients).await;
        self.settle().await;
        self.log.follow(&mut auditor).await;
        *lock(&self.shared.end) = Some(self.log.heads.clone());
        join(&self.shared.record, "watchers: an idle stream does not reach the end of the log", &mut followers).await;
        self.check(from).await;
        Ok(())
    }

    /// Waits for the end of the daemon's life between two kills, and meanwhile reads on in the log. The life ends
    /// after a number of answers and not after a time, so that a busy machine makes the attack no weaker.
    async fn live(&mut self, auditor: &mut Client) {
        let most = self.options.answers.max(20);
        let many = match self.rng.random_range(0..20) {
            0 => self.rng.random_range(most..most * 6),
            1..5 => self.rng.random_range(0..most / 10),
            5..14 => self.rng.random_range(most / 10..most / 2),
            _ => self.rng.random_range(most / 2..most),
        };
        // In some lives leases and time limits run out.
        let least = match self.rng.random_bool(0.08) {
            true => Duration::from_millis(self.rng.random_range(1_500..4_000)),
            false => Duration::ZERO,
        };
        // Many lives end while content is erased.
        let begun = || self.shared.record.erasures_begun.load(Ordering::SeqCst);
        let erasure = (self.options.erasers > 0 && self.rng.random_bool(0.4)).then(|| begun() + 1);
        let within = Duration::from_millis(self.rng.random_range(0..ERASURE_TIME_MS));
        let audits = self.rng.random_bool(0.2);
        let answered = || self.shared.record.counts.answered.load(Ordering::Relaxed);
        let (began, last) = (Instant::now(), answered() + many);
        let lived = async {
            while began.elapsed() < least || (answered() < last && began.elapsed() < LIFE_TIME_MAX) {
                if erasure.is_some_and(|erasure| begun() >= erasure) {
                    tokio::time::sleep(within).await;
                    return;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let audit = async {
            if audits {
                self.log.follow(auditor).await;
                let from = self.rng.random_range(0..self.log.events.len().max(1));
                self.log.read_again(auditor, from, 300).await;
                readers::again(auditor).await;
            }
            std::future::pending::<()>().await;
        };
        // Work of the auditor that is cut short here is done in the next life.
        tokio::select! {
            () = lived => {}
            () = audit => {}
        }
    }

    fn send_clients(&self) -> (JoinSet<()>, JoinSet<()>) {
        let (mut clients, mut followers) = (JoinSet::new(), JoinSet::new());
        let pause_ms = self.options.pause_ms;
        for index in 0..self.options.writers {
            clients.spawn(writers::run(self.client(&format!("writer{index}")), pause_ms));
        }
        for index in 0..self.options.rewriters {
            let client = self.client(&format!("rewriter{index}"));
            clients.spawn(rewriters::run(client, self.policies.clone(), pause_ms * 4));
        }
        for index in 0..self.options.readers {
            clients.spawn(readers::run(self.client(&format!("reader{index}")), pause_ms));
        }
        for index in 0..self.options.agents {
            clients.spawn(agents::run(self.client(&format!("agent{index}")), pause_ms));
        }
        for index in 0..self.options.people {
            let rival = self.client(&format!("rival{index}"));
            clients.spawn(people::run(self.client(&format!("person{index}")), rival, pause_ms));
        }
        for index in 0..self.options.erasers {
            let client = self.client(&format!("eraser{index}"));
            clients.spawn(erasers::run(client, self.policies.clone(), pause_ms * 4));
        }
        for index in 0..self.options.summarizers {
            clients.spawn(summaries::run(self.client(&format!("summarizer{index}"))));
        }
        for index in 0..self.options.watchers {
            followers.spawn(watchers::run(self.client(&format!("watcher{index}"))));
        }
        (clients, followers)
    }

    /// Ends what can be ended, and waits until the store is idle.
    pub(super) async fn settle(&mut self) {
        let mut client = self.client("settler");
        let sessions = lock(&self.shared.sessions).clone();
        for session in &sessions {
            rewriters::restore(&mut client, session).await;
            people::settle(&mut client, session).await;
            let abandoned = std::mem::take(&mut *lock(&session.abandoned));
            for message in abandoned {
                if client.rng.random_bool(0.8) {
                    open::finish(&mut client, session, &message).await;
                }
            }
        }
        let began = Instant::now();
        let (mut idle_rounds, mut head) = (0, -1);
        while idle_rounds < 4 {
            let current = current(&mut client, &sessions).await;
            let limits = people::limits(&mut client, &sessions).await;
            let Ok(info) = client.ask(&pb::GetServerInfoRequest {}).await else { return };
            let jobs = info.ready_compaction_count + info.running_compaction_count + info.due_session_count
                // A session may become due when its cooldown ends.
                + info.cooldown_session_count;
            let is_idle = current.is_empty() && limits == 0 && jobs == 0 && info.head_seq == head;
            head = info.head_seq;
            idle_rounds = if is_idle { idle_rounds + 1 } else { 0 };
            if began.elapsed() > SETTLE_TIME_MAX * 2 {
                client.finding(format!(
                    "P12: the store does not come to rest: {jobs} jobs wait or run, {limits} leases and time limits run: {current:?}"
                ));
                return;
            }
            for compaction in current {
                let pb::Compaction { compaction_id, .. } = compaction.clone();
                if compaction.confirmation_end_time.is_some() {
                    drop(client.ask(&pb::ConfirmCompactionRequest { compaction_id }).await);
                } else if began.elapsed() > SETTLE_TIME_MAX {
                    drop(client.ask(&pb::CancelCompactionRequest { compaction_id }).await);
                }
            }
            tokio::time::sleep(Duration::from_millis(60)).await;
        }
    }

    /// Compares the idle store with everything recorded.
    async fn check(&mut self, from: usize) {
        let mut client = self.client("checker");
        let before = head_seq(&mut client).await;
        let shared = self.shared.clone();
        let record = &shared.record;
        self.log.check_ends(record);
        self.log.check_archived(record);
        for snapshot in lock(&record.snapshots).iter() {
            let Snapshot { session, head_seq, run, prompts, approvals, .. } = snapshot.clone();
            let (answer, seq) = (Answer::Snapshot(run, prompts, approvals), head_seq);
            let observation = Observation { session, after_seq: seq, to_seq: seq, answer };
            lock(&record.observations).push((u64::MAX, observation));
        }
        self.log.check_runs(record);
        for taken in self.log.taken_prompts(from) {
            let prompt = lock(&record.written).prompts.get(&taken.prompt_id).cloned();
            if let Some(prompt) = prompt {
                record.expect(&taken.message_id, Expected::Prompt(SentPrompt::of(prompt)));
            }
        }
        self.log.check_requests(record);
        checks::erased(&mut client, &self.log, from).await;
        let streams = std::mem::take(&mut *lock(&record.watched));
        streams.iter().for_each(|stream| checks::watched(&client, &self.log, stream));
        let mut snapshots = std::mem::take(&mut *lock(&record.snapshots));
        snapshots.shuffle(&mut self.rng);
        for snapshot in snapshots.iter().take(80) {
            checks::snapshot(&mut client, &self.log, snapshot).await;
        }
        let sessions = lock(&self.shared.sessions).clone();
        for session in &sessions {
            checks::session(&mut client, &self.log, &session.id).await;
            checks::active_runs(&mut client, &self.log, Some(&session.id)).await;
        }
        self.check_streams_of_runs();
        checks::active_runs(&mut client, &self.log, None).await;
        checks::client_summaries(&mut client, &self.log, from).await;
        rewinds::check_views(&mut client, &self.log, from).await;
        checks::heads(&mut client, &self.log).await;
        for _ in 0..60 {
            readers::again(&mut client).await;
        }
        let after = head_seq(&mut client).await;
        if before != after {
            self.log.follow(&mut client).await;
            let index = usize::try_from(before).unwrap_or_default();
            let kinds: Vec<_> = self.log.events.get(index..).unwrap_or_default().iter().map(pb::Event::kind).collect();
            client.finding(format!("P16: a store at rest that is only read went from {before} to {after}: {kinds:?}"));
        }
    }

    /// What agents learnt of their runs, and what came of requests to stop the runs of trees.
    fn check_streams_of_runs(&self) {
        let record = &self.shared.record;
        for followed in std::mem::take(&mut *lock(&record.followed)) {
            let expected = run_watches::expected(self.log.own_events(&followed.session), followed.epoch);
            let run = self.log.state(&followed.session).and_then(|state| state.run(followed.epoch));
            let has_ended = run.is_some_and(|run| run.end.is_some());
            run_watches::fault(&followed, &expected, has_ended).into_iter().for_each(|fault| record.finding(fault));
        }
        for cancel in std::mem::take(&mut *lock(&record.tree_cancels)) {
            trees::cancel_fault(&self.log.events, &cancel).into_iter().for_each(|fault| record.finding(fault));
        }
    }

    /// The last checks, over the whole store, after a last kill.
    async fn finish(&mut self) -> Result<()> {
        self.restart(0).await?;
        let mut client = self.client("last");
        self.log.read_again(&mut client, 0, usize::MAX / 2).await;
        checks::chain(&mut client, None).await;
        let views = lock(&self.shared.record.views).clone();
        for seen in views.choose_multiple(&mut self.rng, 400) {
            readers::ask_again(&mut client, seen).await;
        }
        let ids: Vec<String> = self.log.sessions.keys().cloned().collect();
        for id in ids.choose_multiple(&mut self.rng, 40) {
            checks::session(&mut client, &self.log, id).await;
        }
        if let Err(error) = self.lose_commits().await {
            self.shared.record.finding(format!("the loss of a server could not be tried: {error:?}"));
        }
        let stopped = match (&mut self.fleet, self.daemon.take()) {
            (Some(fleet), _) => fleet.stop().await?,
            (None, Some(daemon)) => self.shared.service.stop(daemon).await?,
            (None, None) => bail!("no daemon runs"),
        };
        stopped.into_iter().for_each(|finding| self.shared.record.finding(finding));
        let record = &self.shared.record;
        self.report.events = self.log.events.len();
        self.report.sessions = self.log.sessions.len();
        let (erased_sessions, erased_messages, reduced) = self.log.erasures.counts();
        self.report.counts = format!(
            "{}, {erased_sessions} sessions, {erased_messages} messages and parts of {reduced} erased; {}",
            self.log.runs_text(&lock(&record.written)),
            counts(record)
        );
        let seen = record.counts.seen_in_files.load(Ordering::Relaxed);
        if erased_messages > 50 && seen == 0 && self.fleet.is_none() {
            record.finding("the checker itself failed: it found nothing in the files before it was erased");
        }
        if let Some(fleet) = &mut self.fleet {
            self.report.counts.push_str(&format!("; {}", fleet.report()));
        }
        self.report.findings = std::mem::take(&mut *lock(&record.findings));
        let more = record.more_findings.load(Ordering::Relaxed);
        if more > 0 {
            self.report.findings.push(format!("and {more} more"));
        }
        Ok(())
    }
}

fn counts(record: &Record) -> String {
    let counts = &record.counts;
    let mut text = String::new();
    for (name, counter) in [
        ("answered", &counts.answered),
        ("refused", &counts.refused),
        ("lost", &counts.lost),
        ("repeated", &counts.repeated),
        ("views", &counts.views),
        ("views again", &counts.views_again),
        ("summaries of clients", &counts.client_summaries),
        ("answers about runs", &counts.observations),
        ("streams", &counts.connections),
        ("streams of runs", &counts.run_connections),
        ("searches", &counts.searches),
        ("erasures", &counts.erasures),
        ("erasures asked for again", &counts.erasures_again),
        ("kills within erasures", &counts.erasures_killed),
        ("readings of all files", &counts.file_scans),
        ("markers in files before their erasure", &counts.seen_in_files),
    ] {
        text.push_str(&format!("{} {name}, ", counter.load(Ordering::Relaxed)));
    }
    let mut reasons: Vec<_> =
        lock(&counts.reasons).iter().map(|((rpc, reason), many)| (*many, *rpc, reason.clone())).collect();
    reasons.sort();
    text.push_str("refusals: ");
    for (many, rpc, reason) in reasons.iter().rev() {
        text.push_str(&format!("{rpc} {reason} {many}, "));
    }
    text.trim_end_matches(", ").to_owned()
}

/// Waits until all have come to an end.
pub(super) async fn join(record: &Record, what: &str, tasks: &mut JoinSet<()>) {
    let ended = tokio::time::timeout(END_TIME_MAX, async {
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                record.finding(format!("the checker itself failed: {error}"));
            }
        }
    });
    if ended.await.is_err() {
        record.finding(format!("P6: {} of the {what} did not come to an end", tasks.len()));
        tasks.shutdown().await;
    }
}

/// The compactions that are ready or running.
async fn current(client: &mut Client, sessions: &[Arc<Session>]) -> Vec<pb::Compaction> {
    let mut current = Vec::new();
    for session in sessions {
        let request =
            pb::ListCompactionsRequest { session_id: session.id.clone(), page_size: 50, ..Default::default() };
        let Ok(page) = client.ask(&request).await else { continue };
        let running =
            page.compactions.iter().filter(|compaction| compaction.state() == pb::CompactionState::Running).count();
        if running > 1 {
            client.finding(format!("P12: {running} compactions of {} run", session.id));
        }
        let states = [pb::CompactionState::Ready, pb::CompactionState::Running];
        current.extend(page.compactions.into_iter().filter(|compaction| states.contains(&compaction.state())));
    }
    current
}

async fn head_seq(client: &mut Client) -> i64 {
    client.ask(&pb::GetServerInfoRequest {}).await.map(|info| info.head_seq).unwrap_or(-1)
}

/// Divides the large numbers of a policy.
fn divide(value: &mut serde_json::Value) {
    use serde_json::Value;
    match value {
        Value::Object(fields) => fields.values_mut().for_each(divide),
        Value::Array(items) => items.iter_mut().for_each(divide),
        Value::Number(number) => {
            if let Some(large) = number.as_u64().filter(|large| *large >= LARGE_NUMBER) {
                *value = Value::from((large / 40).max(16));
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}
