//! I/O faults: the i-th call of a kind fails, for every i, until a life passes in which there is no i-th call.

use super::check::{Findings, Promise, check};
use super::client::{Client, Told, nothing_was_written};
use super::running::Running;
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// A store that is made, with its migrations.
    Making,
    /// A store that was made before: the scripted workload, with a restart in the middle.
    Living,
}

/// Every part.
const STAGES: [Stage; 2] = [Stage::Making, Stage::Living];

/// What to do.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Where chance begins.
    pub seed: u64,
    /// Only these kinds of calls; empty for all.
    pub only: Vec<Call>,
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

/// Fails calls, and tells each row when it is complete.
pub async fn run(options: &Options, mut told: impl FnMut(&Row)) -> Result<Vec<Row>> {
    let template = Arc::new(template().await?);
    let mut rows = Vec::new();
    for stage in STAGES {
        for (call, failure) in FAILURES {
            if !options.only.is_empty() && !options.only.contains(call) {
                continue;
            }
            for lasting in [false, true] {
                let fault = Fault { call: *call, nth: 1, lasting, failure: *failure };
                let row = row(options, stage, fault, &template).await?;
                told(&row);
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

/// A store that was made and closed.
async fn template() -> Result<TempDir> {
    let root = scratch()?;
    let Ok(store) = Running::open(&data(root.path()), Durability::Full).await? else {
        bail!("a store on a sound disk does not open");
    };
    store.stop().await?;
    Ok(root)
}

fn data(root: &Path) -> PathBuf {
    root.join("data")
}

/// Fails calls that are drawn, each in a life of its own, once or from then on.
pub async fn drawn(seed: u64, lives: usize, failures: &[(Call, Failure)]) -> Result<Findings> {
    let template = template().await?;
    let mut calls = Vec::new();
    for stage in STAGES {
        calls.push((stage, calm(seed, stage, template.path()).await?));
    }
    let mut chance = seed::generator(seed, "faults");
    let mut findings = Findings::new();
    for number in 0..lives {
        // In turn, so that each has its share.
        let (call, failure) = failures[number % failures.len()];
        let (stage, counts) = &calls[usize::from(chance.random_ratio(3, 4))];
        let nth = chance.random_range(1..=counts.get(&call).copied().unwrap_or(1));
        let fault = Fault { call, nth, lasting: chance.random(), failure };
        findings.extend(live(template.path(), *stage, fault, seed).await.findings);
    }
    Ok(findings)
}

/// A life in which nothing fails: how often each kind of call is made. It is an error if anything is refused then.
async fn calm(seed: u64, stage: Stage, template: &Path) -> Result<BTreeMap<Call, u64>> {
    let root = prepare(stage, template)?;
    let disk = Disk::over(root.path())?;
    let directory = data(root.path());
    let mut script = Script::new(&disk, &directory, Durability::Full, seed, 1);
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

fn prepare(stage: Stage, template: &Path) -> Result<TempDir> {
    let root = scratch()?;
    if stage == Stage::Living {
        copy_files(&data(template), &data(root.path()))?;
    }
    Ok(root)
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

async fn row(options: &Options, stage: Stage, fault: Fault, template: &Arc<TempDir>) -> Result<Row> {
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
    let numbers = options.nth.unwrap_or(1)..=options.nth.unwrap_or(u64::MAX);
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
        if row.untouched.is_some() {
            break;
        }
        let (template, seed) = (template.clone(), options.seed);
        let here = tokio::runtime::Handle::current();
        let life = move || here.block_on(live(template.path(), stage, Fault { nth, ..fault }, seed));
        lives.spawn_blocking(move || (nth, life()));
    }
    while let Some(life) = lives.join_next().await {
        end(&mut row, life?);
    }
    Ok(row)
}

/// One life; a hang is among its findings.
async fn live(template: &Path, stage: Stage, fault: Fault, seed: u64) -> Life {
    let mut life = Life::default();
    if let Err(error) = disturbed(template, stage, fault, seed, &mut life).await {
        life.findings.push(format!("{error:#}"));
    }
    let Fault { call, nth, lasting, failure } = fault;
    let how = if lasting { "from on" } else { "once" };
    let named = |finding: String| format!("{stage:?}, {call:?} {nth} {failure:?} {how}: {finding}");
    life.findings = std::mem::take(&mut life.findings).into_iter().map(named).collect();
    life
}

async fn disturbed(template: &Path, stage: Stage, fault: Fault, seed: u64, life: &mut Life) -> Result<()> {
    let root = prepare(stage, template)?;
    let disk = Disk::over(root.path())?;
    let directory = data(root.path());
    let mut script = Script::new(&disk, &directory, Durability::Full, seed, 1);
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
            // Every other life ends as by a kill: what the process had in its hands is lost, what it wrote is not.
            let killed = (fault.nth + u64::from(fault.lasting)).is_multiple_of(2);
            let copy = if killed { Some(scratch()?) } else { None };
            if let Some(copy) = &copy {
                copy_files(&directory, &data(copy.path()))?;
            }
            store.stop().await?;
            copy
        }
    };
    count(&script.client, life);
    let client = script.client;
    drop(disk);
    let directory = left.as_ref().map_or(directory, |copy| data(copy.path()));
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
fn count(client: &Client, life: &mut Life) {
    for entry in &client.entries {
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
