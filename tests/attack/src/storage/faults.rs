//! I/O faults: the i-th call of a kind fails, for every i, until a run has no i-th call.

use super::check::{Findings, Promise, check};
use super::client::{Client, Entry, Reply, nothing_was_written};
use super::running::{Running, let_go};
use super::script::{Ending, Script};
use crate::seed;
use crate::vfs::{Call, Disk, FAILURES, Failure, Fault, scratch};
use anyhow::{Context as _, Result, bail};
use longhand::app::{Durability, Reason};
use rand::Rng as _;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use tokio::task::JoinSet;

/// Parts of the workload in which calls fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Stage {
    /// Creating a store, with its migrations.
    Making,
    /// The first sessions in an existing store, messages with usage, a blob.
    Talking,
    /// A streamed reply.
    Streaming,
    /// Compactions: automatic ones, one by hand, a prune.
    Compacting,
    /// A checkpoint by another connection, and a restart.
    Restarting,
    /// Marks of every kind, a fork, an archived session.
    Rewriting,
    /// A summary of a client, and a view with retrieval.
    Searching,
    /// Concurrent requests.
    Crowding,
    /// The restart of a killed store with a long log: it recovers the log, and checkpoints it a little later.
    Folding,
}

/// Every stage, in order: each begins with the files of the one before it, except for the first two and the last.
pub const STAGES: [Stage; 9] = [
    Stage::Making,
    Stage::Talking,
    Stage::Streaming,
    Stage::Compacting,
    Stage::Restarting,
    Stage::Rewriting,
    Stage::Searching,
    Stage::Crowding,
    Stage::Folding,
];
/// Maximum number of runs of one row in stage `Folding`: there are thousands of calls, and each run is long.
const FOLDING_LIVES: u64 = 24;

/// Options of the attack.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The seed of all random choices.
    pub seed: u64,
    /// Tests only these kinds of calls; empty for all.
    pub only: Vec<Call>,
    /// Tests only this stage.
    pub stage: Option<Stage>,
    /// Fails only the call with this number, to reproduce a finding.
    pub nth: Option<u64>,
    /// Number of concurrent runs; zero counts as one.
    pub at_once: usize,
}

/// One row of the table.
#[derive(Debug, Clone)]
pub struct Row {
    /// The stage in which calls failed.
    pub stage: Stage,
    /// The kind of call.
    pub call: Call,
    /// The kind of failure.
    pub failure: Failure,
    /// True if all later calls failed, too.
    pub lasting: bool,
    /// Number of runs with a failed call.
    pub runs: usize,
    /// Number of runs in which the store did not open, or not again.
    pub closed: usize,
    /// Number of runs after which the store refused writes until a restart.
    pub read_only: usize,
    /// Number of requests that were carried out.
    pub done: usize,
    /// Number of refused requests, of which nothing was written.
    pub refused: usize,
    /// Number of requests whose error leaves open whether they were carried out.
    pub open: usize,
    /// The smallest call number that no run reached.
    pub untouched: Option<u64>,
    /// All findings.
    pub findings: Findings,
}

/// The heading of the table.
pub const HEADING: &str =
    "stage   call           error       how      lives  closed  read-only    done  refused  open  untouched  findings";

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let how = if self.lasting { "from on" } else { "once" };
        let untouched = self.untouched.map_or_else(|| "-".to_owned(), |nth| format!("at {nth}"));
        let (stage, call, failure) =
            (format!("{:?}", self.stage), format!("{:?}", self.call), format!("{:?}", self.failure));
        let Self { runs, closed, read_only, done, refused, open, .. } = self;
        let findings = self.findings.len();
        write!(
            f,
            "{stage:<7} {call:<14} {failure:<11} {how:<8} {runs:>5} {closed:>7} {read_only:>10} {done:>7} {refused:>8} \
             {open:>5} {untouched:>10} {findings:>9}"
        )
    }
}

/// Result of one run with a fault.
#[derive(Debug, Default)]
struct Life {
    touched: bool,
    closed: bool,
    read_only: bool,
    done: usize,
    refused: usize,
    open: usize,
    findings: Findings,
}

impl Row {
    fn add(&mut self, life: Life) {
        self.runs += usize::from(life.touched);
        self.closed += usize::from(life.closed);
        self.read_only += usize::from(life.read_only);
        self.done += life.done;
        self.refused += life.refused;
        self.open += life.open;
        self.findings.extend(life.findings);
    }
}

/// The files with which each stage begins, and the client's knowledge of them. They keep each run short, so that the
/// cost of failing every call of a long workload is little more than proportional to its length.
struct Templates(BTreeMap<Stage, (TempDir, Client)>);

impl Templates {
    async fn new(seed: u64, stages: &[Stage]) -> Result<Self> {
        let mut templates = BTreeMap::new();
        // No files.
        let mut last = (scratch()?, Client::default());
        for stage in STAGES {
            let after = match stage {
                Stage::Folding => break,
                // The other stages begin with an empty store.
                Stage::Making => made().await?,
                _ => stage_after(seed, stage, &last).await?,
            };
            templates.insert(stage, std::mem::replace(&mut last, after));
        }
        if stages.contains(&Stage::Folding) {
            templates.insert(Stage::Folding, swollen(seed).await?);
        }
        Ok(Self(templates))
    }

    /// The files with which a run of a stage begins, and the client's knowledge of them.
    fn begin(&self, stage: Stage) -> Result<(TempDir, Client)> {
        let (files, known) = self.0.get(&stage).with_context(|| format!("nothing to begin {stage:?} with"))?;
        copied(files, known)
    }
}

fn copied(files: &TempDir, known: &Client) -> Result<(TempDir, Client)> {
    let root = scratch()?;
    if data(files.path()).exists() {
        copy_files(&data(files.path()), &data(root.path()))?;
    }
    Ok((root, known.clone()))
}

/// The files of a store that was created and stopped.
async fn made() -> Result<(TempDir, Client)> {
    let root = scratch()?;
    let Ok(store) = Running::open(&data(root.path()), Durability::Full).await? else {
        bail!("a store on a sound disk does not open");
    };
    store.stop().await?;
    let_go(root.path()).await?;
    Ok((root, Client::default()))
}

/// The files of a stopped store after a stage without faults.
async fn stage_after(seed: u64, stage: Stage, (files, known): &(TempDir, Client)) -> Result<(TempDir, Client)> {
    let (root, before) = copied(files, known)?;
    let disk = Disk::over(root.path())?;
    let mut script = Script::new(&disk, &data(root.path()), Durability::Full, seed, 1).behind(before);
    let Ending::Finished(store) = script.of(stage).await? else { bail!("a store on a sound disk does not open") };
    store.stop().await?;
    let client = script.client.as_of_before();
    drop(disk);
    let_go(root.path()).await?;
    Ok((root, client))
}

/// The files of a store that was killed with a long log.
async fn swollen(seed: u64) -> Result<(TempDir, Client)> {
    let (root, swollen) = (scratch()?, scratch()?);
    let disk = Disk::over(root.path())?;
    let directory = data(root.path());
    let mut script = Script::new(&disk, &directory, Durability::Full, seed, 1);
    let Ending::Finished(store) = script.swell().await? else { bail!("a store on a sound disk does not open") };
    let client = script.client;
    copy_files(&directory, &data(swollen.path()))?;
    store.stop().await?;
    Ok((swollen, client.as_of_before()))
}

/// Fails calls, and passes each completed row to `report`.
pub async fn run(options: &Options, mut report: impl FnMut(&Row)) -> Result<Vec<Row>> {
    let stages: Vec<Stage> =
        STAGES.into_iter().filter(|stage| options.stage.is_none_or(|only| only == *stage)).collect();
    let templates = Arc::new(Templates::new(options.seed, &stages).await?);
    let mut rows = Vec::new();
    for stage in stages {
        let calls = calm(options.seed, stage, &templates).await?;
        for (call, failure) in FAILURES {
            if !options.only.is_empty() && !options.only.contains(call) {
                continue;
            }
            let numbers = match (options.nth, stage) {
                (Some(nth), _) => vec![nth],
                (None, Stage::Folding) => spread(calls.get(call).copied().unwrap_or_default()),
                (None, _) => Vec::new(),
            };
            for lasting in [false, true] {
                let fault = Fault { call: *call, nth: 1, lasting, failure: *failure };
                let row = row(options, stage, fault, &numbers, &templates).await?;
                report(&row);
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

/// Call numbers spread evenly from the first to the last, at most as many as one row has runs.
fn spread(calls: u64) -> Vec<u64> {
    let step = calls.div_ceil(FOLDING_LIVES).max(1);
    (1..=calls).step_by(usize::try_from(step).unwrap_or(usize::MAX)).collect()
}

/// Fails random calls, each in a run of its own, once or from then on.
pub async fn drawn(seed: u64, lives: usize, failures: &[(Call, Failure)], stages: &[Stage]) -> Result<Findings> {
    let templates = Templates::new(seed, stages).await?;
    let mut calls = Vec::new();
    for stage in stages {
        calls.push((*stage, calm(seed, *stage, &templates).await?));
    }
    let mut chance = seed::generator(seed, "faults");
    let mut findings = Findings::new();
    for number in 0..lives {
        // The failures in turn, so that each has its share.
        let (call, failure) = failures[number % failures.len()];
        let (stage, counts) = &calls[chance.random_range(0..calls.len())];
        let nth = chance.random_range(1..=counts.get(&call).copied().unwrap_or(1));
        let fault = Fault { call, nth, lasting: chance.random(), failure };
        findings.extend(live(&templates, *stage, fault, seed).await.findings);
    }
    Ok(findings)
}

/// A run without faults; returns the number of calls of each kind. An error if a request is refused.
async fn calm(seed: u64, stage: Stage, templates: &Templates) -> Result<BTreeMap<Call, u64>> {
    let (root, before) = templates.begin(stage)?;
    let disk = Disk::over(root.path())?;
    let directory = data(root.path());
    let mut script = Script::new(&disk, &directory, Durability::Full, seed, 1).behind(before);
    let Ending::Finished(store) = script.of(stage).await? else { bail!("a store on a sound disk does not open") };
    store.stop().await?;
    for entry in &script.client.entries {
        if let Some((_, Reply::Refused(error))) = &entry.reply
            && error.reason != Reason::SessionArchived
        {
            bail!("{:?} is refused on a sound disk: {error:?}", entry.request);
        }
    }
    let counts = disk.counts();
    let client = script.client;
    drop(disk);
    let findings = check(&directory, &client, Promise::All).await?;
    if !findings.is_empty() {
        bail!("a sound disk: {findings:?}");
    }
    Ok(counts)
}

fn data(root: &Path) -> PathBuf {
    root.join("data")
}

/// Copies a store's files, in the state in which a killed process leaves them.
pub(super) fn copy_files(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o700))?;
    for name in ["longhand.db", "longhand.db-wal"] {
        if from.join(name).exists() {
            std::fs::copy(from.join(name), to.join(name)).context("the files are copied")?;
        }
    }
    Ok(())
}

/// The runs of one row: with the given numbers, or with every number until a run does not reach it.
async fn row(
    options: &Options,
    stage: Stage,
    fault: Fault,
    numbers: &[u64],
    templates: &Arc<Templates>,
) -> Result<Row> {
    let Fault { call, failure, lasting, .. } = fault;
    let mut row = Row {
        stage,
        call,
        failure,
        lasting,
        runs: 0,
        closed: 0,
        read_only: 0,
        done: 0,
        refused: 0,
        open: 0,
        untouched: None,
        findings: Findings::new(),
    };
    let endless = numbers.is_empty();
    let numbers = numbers.iter().copied().chain((1..).take_while(|_| endless));
    let mut lives = JoinSet::new();
    let end = |row: &mut Row, (nth, life): (u64, Life)| {
        if !life.touched {
            row.untouched = Some(row.untouched.map_or(nth, |before: u64| before.min(nth)));
        }
        row.add(life);
    };
    for nth in numbers {
        if lives.len() >= options.at_once.max(1)
            && let Some(life) = lives.join_next().await
        {
            end(&mut row, life?);
        }
        if row.untouched.is_some() && endless {
            break;
        }
        let (templates, seed) = (templates.clone(), options.seed);
        let here = tokio::runtime::Handle::current();
        let life = move || here.block_on(live(&templates, stage, Fault { nth, ..fault }, seed));
        lives.spawn_blocking(move || (nth, life()));
    }
    while let Some(life) = lives.join_next().await {
        end(&mut row, life?);
    }
    Ok(row)
}

/// One run; a hang is one of its findings.
async fn live(templates: &Templates, stage: Stage, fault: Fault, seed: u64) -> Life {
    let mut life = Life::default();
    if let Err(error) = disturbed(templates, stage, fault, seed, &mut life).await {
        life.findings.push(format!("{error:#}"));
    }
    let Fault { call, nth, lasting, failure } = fault;
    let how = if lasting { "from on" } else { "once" };
    let named = |finding: String| format!("{stage:?}, {call:?} {nth} {failure:?} {how}: {finding}");
    life.findings = std::mem::take(&mut life.findings).into_iter().map(named).collect();
    life
}

async fn disturbed(templates: &Templates, stage: Stage, fault: Fault, seed: u64, life: &mut Life) -> Result<()> {
    let (root, before) = templates.begin(stage)?;
    let disk = Disk::over(root.path())?;
    let directory = data(root.path());
    let known = before.entries.len();
    let mut script = Script::new(&disk, &directory, Durability::Full, seed, 1).behind(before).with_short_timeout();
    disk.arm(fault);
    let ending = script.of(stage).await?;
    let struck = disk.struck();
    life.touched = !struck.is_empty();
    let left = match ending {
        Ending::Closed(_) => {
            life.closed = true;
            disk.repair();
            None
        }
        Ending::Finished(store) => {
            still_there(&disk, &store, fault, &mut script, life).await?;
            // Every other run ends as by a kill: state in memory is lost, written files are not. A store that has
            // stopped writing always ends this way, because it keeps its files open.
            let killed = (fault.nth + u64::from(fault.lasting)).is_multiple_of(2)
                || store.longhand.store().write_state().is_final();
            let copy = if killed { Some(scratch()?) } else { None };
            if let Some(copy) = &copy {
                copy_files(script.directory(), &data(copy.path()))?;
            }
            store.stop().await?;
            copy
        }
    };
    count(&script.client.entries[known..], life);
    let directory = left.as_ref().map_or_else(|| script.directory().to_owned(), |copy| data(copy.path()));
    let client = script.client;
    drop(disk);
    life.findings.extend(check(&directory, &client, Promise::All).await?);
    Ok(())
}

/// Checks that reads work while the disk is broken, and that writes work again once it is repaired.
async fn still_there(
    disk: &Disk,
    store: &Running,
    fault: Fault,
    script: &mut Script<'_>,
    life: &mut Life,
) -> Result<()> {
    let made = |name: &str, client: &Client| {
        client.entries.iter().any(|entry| {
            entry.request.session == name
                && matches!(entry.request.act, super::client::Act::Create(_))
                && matches!(entry.reply, Some((_, Reply::Done(_))))
        })
    };
    if !made("work", &script.client) {
        return Ok(());
    }
    let reads_are_spared =
        matches!(fault.call, Call::Write | Call::Sync | Call::SyncDirectory | Call::Truncate | Call::Delete);
    if reads_are_spared && !script.reread(store, "work").await? {
        life.findings.push("a view cannot be read while writes fail".to_owned());
    }
    disk.repair();
    let takes_writes = script.say_more(store, "work").await?;
    life.read_only = !takes_writes;
    let only_full = matches!(fault.failure, Failure::Enospc | Failure::ShortWrite) && fault.call == Call::Write;
    if !takes_writes && (only_full || !store.longhand.store().write_state().is_final()) {
        let reply = script.client.entries.last().map(|entry| &entry.reply);
        life.findings.push(format!("no write is taken although the disk is well again: {reply:?}"));
    }
    Ok(())
}

/// Counts the outcomes, and reports acknowledgements after a failed sync.
fn count(entries: &[Entry], life: &mut Life) {
    for entry in entries {
        match &entry.reply {
            Some((_, Reply::Done(_))) => {
                life.done += 1;
                if entry.after_failed_sync {
                    life.findings.push(format!("{} was acknowledged behind a failed sync", entry.request.key));
                }
            }
            Some((_, Reply::Refused(error))) if nothing_was_written(error) => life.refused += 1,
            Some((_, Reply::Refused(_))) => life.open += 1,
            None => {}
        }
    }
}
