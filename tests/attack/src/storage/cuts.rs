//! Power cuts: a run of the workload is recorded, the power is cut at many of its moments, and each time the remaining
//! files are opened and compared with the client's knowledge at that moment.

use super::check::{Findings, Promise, check};
use super::client::Client;
use super::running::Running;
use super::script::{Ending, LONG, Script};
use crate::seed;
use crate::vfs::recording::{Damage, Luck, Recording};
use crate::vfs::{Disk, scratch};
use anyhow::{Result, bail};
use longhand::app::Durability;
use rand::Rng as _;
use rand::rngs::StdRng;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use tokio::task::JoinSet;

/// Maximum number of cuts in one recorded run.
const CUTS_OF_ONE_LIFE: usize = 25;
/// One of this number of runs is long enough for the store to checkpoint its log by itself.
const LONG_LIVES: u64 = 4;
/// Number of concurrent checks: they wait for each other's threads more than for the processor.
const AT_ONCE: usize = 4;
/// One of this number of cuts is followed by a second one, while the store starts again or shortly after.
const TWICE: usize = 4;

/// A fault in the experiment itself, to verify that the checks find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Sabotage {
    /// Every sync returns success without being done.
    ForgetSyncs,
    /// The store syncs only at checkpoints, and is checked against the promise of a sync at every commit.
    SyncSeldom,
}

/// Options of the attack.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The seed of all random choices.
    pub seed: u64,
    /// Number of power cuts.
    pub cuts: usize,
    /// Durability setting of the store.
    pub durability: Durability,
    /// A fault in the experiment itself.
    pub sabotage: Option<Sabotage>,
}

/// Results of the attack.
#[derive(Debug, Default)]
pub struct Report {
    /// Number of recorded runs.
    pub lives: usize,
    /// Number of changes to the disk in all runs.
    pub changes: usize,
    /// Number of cuts, by the treatment of unsynced changes.
    pub cuts: BTreeMap<Luck, usize>,
    /// Number of cuts with unsynced changes.
    pub unsynced: usize,
    /// Number of cuts that left a torn sector.
    pub torn: usize,
    /// Number of second cuts, of a store that was starting after another cut.
    pub twice: usize,
    /// Number of requests answered before the cuts.
    pub acknowledged: usize,
    /// All findings.
    pub findings: Findings,
}

impl Report {
    fn add(&mut self, cut: Cut) {
        *self.cuts.entry(cut.damage.luck).or_default() += 1;
        self.unsynced += usize::from(cut.damage.unsynced > 0);
        self.torn += usize::from(cut.damage.torn > 0);
        self.twice += usize::from(cut.twice);
        self.acknowledged += cut.acknowledged;
        self.findings.extend(cut.findings);
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all: usize = self.cuts.values().sum();
        writeln!(f, "{all} power cuts in {} lives of {} changes to the disk", self.lives, self.changes)?;
        for (luck, count) in &self.cuts {
            let what = match luck {
                Luck::Nothing => "nothing of what was not synced was written",
                Luck::Everything => "everything was written",
                Luck::InOrder => "it was written in order up to some point",
                Luck::Scattered => "some sectors were written, in any order",
            };
            writeln!(f, "{count:>7}  {what}")?;
        }
        writeln!(f, "{:>7}  with something that was not synced", self.unsynced)?;
        writeln!(f, "{:>7}  with torn sectors", self.torn)?;
        writeln!(f, "{:>7}  of a store that was coming up after another cut", self.twice)?;
        writeln!(f, "{:>7}  acknowledged requests held against what was left", self.acknowledged)?;
        write!(f, "{:>7}  findings", self.findings.len())
    }
}

/// A recorded run of the workload.
struct Life {
    recording: Recording,
    client: Client,
    /// The moment of the first request: the store is created before it.
    begun: usize,
}

/// Result of one cut.
struct Cut {
    damage: Damage,
    twice: bool,
    acknowledged: usize,
    findings: Findings,
}

/// Cuts the power.
pub async fn run(options: Options) -> Result<Report> {
    let mut report = Report::default();
    let mut left = options.cuts;
    let mut number = 0;
    while left > 0 {
        let life = Arc::new(life(&options, number).await?);
        report.lives += 1;
        report.changes += life.recording.moment();
        let cuts = left.min(CUTS_OF_ONE_LIFE);
        left -= cuts;
        let mut running = JoinSet::new();
        for cut in 0..cuts {
            if running.len() >= AT_ONCE
                && let Some(done) = running.join_next().await
            {
                report.add(done??);
            }
            let (here, life) = (tokio::runtime::Handle::current(), life.clone());
            running.spawn_blocking(move || here.block_on(one(options, life, number, cut)));
        }
        while let Some(done) = running.join_next().await {
            report.add(done??);
        }
        number += 1;
    }
    Ok(report)
}

/// Records a run, from the first file to a clean stop.
async fn life(options: &Options, number: u64) -> Result<Life> {
    let root = scratch()?;
    let disk = Disk::over(root.path())?;
    if options.sabotage == Some(Sabotage::ForgetSyncs) {
        disk.forget_syncs();
    }
    disk.record()?;
    let durability = match options.sabotage {
        Some(Sabotage::SyncSeldom) => Durability::ProcessCrash,
        _ => options.durability,
    };
    let directory = data(root.path());
    let scale = if number % LONG_LIVES == LONG_LIVES - 1 { LONG } else { 1 };
    let mut script = Script::new(&disk, &directory, durability, options.seed.wrapping_add(number), scale);
    let Ending::Finished(store) = script.live().await? else { bail!("a store on a sound disk does not open") };
    let client = script.client;
    store.stop().await?;
    let Some(recording) = disk.recording() else { bail!("nothing was recorded") };
    let begun = client.entries.first().map_or(0, |entry| entry.sent);
    Ok(Life { recording, client, begun })
}

/// The data directory: the store creates it, so that a cut can lose its name, too.
fn data(root: &Path) -> PathBuf {
    root.join("data")
}

/// Cuts the power in a run at a random moment, and checks the remaining files.
async fn one(options: Options, life: Arc<Life>, number: u64, cut: usize) -> Result<Cut> {
    let mut chance = seed::generator(options.seed, &format!("cut {number} {cut}"));
    let moment = draw_moment(&life, &mut chance);
    let left = scratch()?;
    let damage = life.recording.cut(moment, &mut chance, left.path())?;
    let client = life.client.at(moment);
    let acknowledged = client.entries.iter().filter(|entry| entry.reply.is_some()).count();
    let promise = match options.durability {
        Durability::Full => Promise::All,
        Durability::ProcessCrash => Promise::Beginning,
    };
    let twice = promise == Promise::All && options.sabotage.is_none() && cut % TWICE == TWICE - 1;
    let (left, client) = if twice { cut_again(left, client, &mut chance).await? } else { (left, client) };
    let name = format!(
        "life {number}, cut {cut} behind change {moment}, {damage:?}{}",
        if twice { ", cut twice" } else { "" }
    );
    let findings = match check(&data(left.path()), &client, promise).await {
        Ok(findings) => findings,
        Err(error) => vec![format!("{error:#}")],
    };
    let findings = findings.into_iter().map(|finding| format!("{name}: {finding}")).collect();
    Ok(Cut { damage, twice, acknowledged, findings })
}

/// A moment of a run: some right after an answer, some while the store is created, the others anywhere.
fn draw_moment(life: &Life, chance: &mut StdRng) -> usize {
    let moments: Vec<usize> = life.client.entries.iter().filter_map(|entry| Some(entry.reply.as_ref()?.0)).collect();
    match chance.random_range(0..10) {
        0 => chance.random_range(0..=life.begun),
        1..=3 if !moments.is_empty() => moments[chance.random_range(0..moments.len())],
        _ => chance.random_range(life.begun..=life.recording.moment()),
    }
}

/// Opens the files that a cut left, makes new requests, and cuts the power again at a random moment.
async fn cut_again(left: TempDir, client: Client, chance: &mut StdRng) -> Result<(TempDir, Client)> {
    let disk = Disk::over(left.path())?;
    disk.record()?;
    let directory = data(left.path());
    let mut script = Script::new(&disk, &directory, Durability::Full, chance.random(), 1).behind(client.as_of_before());
    if let Ok(running) = Running::open(&directory, Durability::Full).await? {
        for session in ["work", "quiet"] {
            script.say_more(&running, session).await?;
            script.reread(&running, session).await?;
        }
        running.stop().await?;
    }
    let client = script.client;
    let Some(recording) = disk.recording() else { bail!("nothing was recorded") };
    let moment = chance.random_range(0..=recording.moment());
    let again = scratch()?;
    recording.cut(moment, chance, again.path())?;
    Ok((again, client.at(moment)))
}
