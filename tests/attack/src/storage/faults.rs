//! I/O faults: the i-th call of a kind fails, for every i, until a life passes in which there is no i-th call.

use super::check::{Findings, Promise, check};
use super::client::{Client, Entry, Told, nothing_was_written};
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

/// Which part of a store's life is disturbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Stage {
    /// A store that is made, with its migrations.
    Making,
    /// A store that was made before: the first sessions, messages with usage, a blob.
    Talking,
    /// A reply as it is streamed.
    Streaming,
    /// Compactions: automatic ones, one by hand, a prune.
    Compacting,
    /// The log folded by another connection, and a restart.
    Restarting,
    /// Marks of every kind, a fork, an archived session.
    Rewriting,
    /// A summary of a client, and a view with retrieval.
    Searching,
    /// Many requests at once.
    Crowding,
    /// A store that was killed with a long log: it recovers that, and folds it into the database a little later.
    Folding,
}

/// Every part, in the order of a life: each begins where the one before it ended, but for the first two and the last.
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
/// Lives of one row in which the store folds its log: there are thousands of calls, and each life is long.
const FOLDING_LIVES: u64 = 24;

/// What to do.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Where chance begins.
    pub seed: u64,
    /// Only these kinds of calls; empty for all.
    pub only: Vec<Call>,
    /// Only this part of a life.
    pub stage: Option<Stage>,
    /// Only this number of a call, to see again what was found.
    pub nth: Option<u64>,
    /// Lives at the same time; zero counts as one.
    pub at_once: usize,
}

/// One row of the table.
#[derive(Debug, Clone)]
pub struct Row {
    /// What was disturbed.
    pub stage: Stage,
    /// The kind of call.
    pub call: Call,
    /// How it failed.
    pub failure: Failure,
    /// Whether it failed from then on.
    pub lasting: bool,
    /// Lives with a failed call.
    pub runs: usize,
    /// Lives in which the store did not open, or not again.
    pub closed: usize,
    /// Lives after which no write was taken until a restart.
    pub read_only: usize,
    /// Requests that were carried out.
    pub done: usize,
    /// Requests that were refused: nothing of them is there.
    pub refused: usize,
    /// Requests whose error leaves open whether they were carried out.
    pub open: usize,
    /// The number of the call from which on there was none to fail.
    pub untouched: Option<u64>,
    /// What was wrong.
    pub findings: Findings,
}

/// The heading over the rows.
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

/// One life with a fault.
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

/// For each stage the files that it begins with, and what a client knows of them. So every life is short, and a run
/// over every call of a long life costs little more than its length.
struct Templates(BTreeMap<Stage, (TempDir, Client)>);

impl Templates {
    async fn new(seed: u64, stages: &[Stage]) -> Result<Self> {
        let mut templates = BTreeMap::new();
        // No files at all.
        let mut last = (scratch()?, Client::default());
        for stage in STAGES {
            let after = match stage {
                Stage::Folding => break,
                // The others begin with a store that has nothing in it.
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

    /// The files that a life of a stage begins with, and what the client knows of them.
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

/// The files of a store that was made and stopped.
async fn made() -> Result<(TempDir, Client)> {
    let root = scratch()?;
    let Ok(store) = Running::open(&data(root.path()), Durability::Full).await? else {
        bail!("a store on a sound disk does not open");
    };
    store.stop().await?;
    let_go(root.path()).await?;
    Ok((root, Client::default()))
}

/// The files that an undisturbed stage leaves, with a store that was stopped.
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

/// Fails calls, and tells each row when it is complete.
pub async fn run(options: &Options, mut told: impl FnMut(&Row)) -> Result<Vec<Row>> {
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
                told(&row);
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

/// Numbers of calls from the first to the last, as many as one row has lives for.
fn spread(calls: u64) -> Vec<u64> {
    let step = calls.div_ceil(FOLDING_LIVES).max(1);
    (1..=calls).step_by(usize::try_from(step).unwrap_or(usize::MAX)).collect()
}

/// Fails calls that are drawn, each in a life of its own, once or from then on.
pub async fn drawn(seed: u64, lives: usize, failures: &[(Call, Failure)], stages: &[Stage]) -> Result<Findings> {
    let templates = Templates::new(seed, stages).await?;
    let mut calls = Vec::new();
    for stage in stages {
        calls.push((*stage, calm(seed, *stage, &templates).await?));
    }
    let mut chance = seed::generator(seed, "faults");
    let mut findings = Findings::new();
    for number in 0..lives {
        // In turn, so that each has its share.
        let (call, failure) = failures[number % failures.len()];
        let (stage, counts) = &calls[chance.random_range(0..calls.len())];
        let nth = chance.random_range(1..=counts.get(&call).copied().unwrap_or(1));
        let fault = Fault { call, nth, lasting: chance.random(), failure };
        findings.extend(live(&templates, *stage, fault, seed).await.findings);
    }
    Ok(findings)
}

/// A life in which nothing fails: how often each kind of call is made. It is an error if anything is refused then.
async fn calm(seed: u64, stage: Stage, templates: &Templates) -> Result<BTreeMap<Call, u64>> {
    let (root, before) = templates.begin(stage)?;
    let disk = Disk::over(root.path())?;
    let directory = data(root.path());
    let mut script = Script::new(&disk, &directory, Durability::Full, seed, 1).behind(before);
    let Ending::Finished(store) = script.of(stage).await? else { bail!("a store on a sound disk does not open") };
    store.stop().await?;
    for entry in &script.client.entries {
        if let Some((_, Told::Refused(error))) = &entry.told
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

/// Copies a store's files as a killed process leaves them.
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

/// The lives of one row: of these numbers, or of every number until a life passes untouched.
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

/// One life; a hang is among its findings.
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
    let mut script = Script::new(&disk, &directory, Durability::Full, seed, 1).behind(before).impatient();
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
            // Every other life ends as by a kill: what the process had in its hands is lost, what it wrote is not. One
            // whose store serves reads only ends so anyway, and keeps its files open.
            let killed =
                (fault.nth + u64::from(fault.lasting)).is_multiple_of(2) || store.app.store().write_state().is_final();
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

/// What still works while the disk is broken, and once it is repaired.
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
                && matches!(entry.told, Some((_, Told::Done(_))))
        })
    };
    if !made("work", &script.client) {
        return Ok(());
    }
    let reads_are_spared =
        matches!(fault.call, Call::Write | Call::Sync | Call::SyncDirectory | Call::Truncate | Call::Delete);
    if reads_are_spared && !script.look_again(store, "work").await? {
        life.findings.push("a view cannot be read while writes fail".to_owned());
    }
    disk.repair();
    let takes_writes = script.say_more(store, "work").await?;
    life.read_only = !takes_writes;
    let only_full = matches!(fault.failure, Failure::Enospc | Failure::ShortWrite) && fault.call == Call::Write;
    if !takes_writes && (only_full || !store.app.store().write_state().is_final()) {
        let told = script.client.entries.last().map(|entry| &entry.told);
        life.findings.push(format!("no write is taken although the disk is well again: {told:?}"));
    }
    Ok(())
}

/// Counts what the client was told, and finds acknowledgements behind a failed sync.
fn count(entries: &[Entry], life: &mut Life) {
    for entry in entries {
        match &entry.told {
            Some((_, Told::Done(_))) => {
                life.done += 1;
                if entry.after_failed_sync {
                    life.findings.push(format!("{} was acknowledged behind a failed sync", entry.request.key));
                }
            }
            Some((_, Told::Refused(error))) if nothing_was_written(error) => life.refused += 1,
            Some((_, Told::Refused(_))) => life.open += 1,
            None => {}
        }
    }
}
