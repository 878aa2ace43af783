//! Files that are removed, truncated, altered, full or read-only, under a running daemon and between two runs of it.

mod client;
mod exports;
mod flips;
mod mounts;

use crate::daemon::Daemon;
use crate::seed;
use anyhow::{Context as _, Result, bail, ensure};
use client::{Client, reason};
use longhand::pb::WriteState;
use longhand::telemetry::failpoint;
use rand::Rng as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;

pub use exports::{Exports, exports};
pub use flips::{flips, one_flip};
pub use mounts::{disk_full, read_only};

/// Options of the attack.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// The seed; the same one draws the same attack.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Number of random bits to flip in the database of a store, one at a time.
    #[arg(long, default_value_t = 200)]
    pub flips: u64,
    /// Number of bits and bytes to alter in the database of a store, one at a time, with an export after each.
    #[arg(long, default_value_t = 200)]
    pub exports: u64,
}

/// Runs the attack from the command line.
pub async fn main(options: Options) -> ExitCode {
    let began = Instant::now();
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    println!("damage: seed {}", options.seed);
    let mut failed = 0;
    let mut report = |what: &str, outcome: Result<String>| match outcome {
        Ok(found) => println!("ok     {what}: {found}"),
        Err(error) => {
            failed += 1;
            println!("FAILED {what}: {error:?}");
        }
    };
    for loss in Loss::ALL {
        report(&format!("{loss:?} under the daemon"), lost(&program, loss).await.map(|()| "noticed".to_owned()));
    }
    report("a failed sync", failed_sync(&program).await.map(|()| "uncertain, then asked again".to_owned()));
    report("a full disk, by fail point", full(&program).await.map(|()| "refused, then taken again".to_owned()));
    report("a failed checkpoint", failed_checkpoint(&program).await.map(|()| "reported".to_owned()));
    for damage in LogDamage::ALL {
        let what = format!("the log {damage:?} between two lives");
        report(&what, log_damage(&program, damage, options.seed).await.map(|kept| format!("{kept} messages kept")));
    }
    report("two daemons on one store", two_daemons(&program).await.map(|()| "one at a time".to_owned()));
    report("one flipped bit in each kind of row", one_flip(&program, options.seed).await.map(|()| "named".to_owned()));
    report("flipped bits", flips(&program, options.seed, options.flips).await);
    let exported = exports(&program, options.seed, options.exports).await;
    report("exports of altered databases", exported.map(|exports| exports.to_string()));
    report("a full disk", disk_full(&program).await);
    report("a read-only file system", read_only(&program).await);
    println!("{} s", began.elapsed().as_secs());
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A temporary folder for a store, which the daemon creates.
fn home() -> Result<tempfile::TempDir> {
    tempfile::tempdir().context("a temporary folder")
}

async fn start(program: &Path, store: &Path) -> Result<Daemon> {
    fs::create_dir_all(store)?;
    Daemon::start(program, store, |_| {}).await
}

async fn start_failing(program: &Path, store: &Path, point: &str) -> Result<Daemon> {
    fs::create_dir_all(store)?;
    Daemon::start(program, store, |command| {
        command.env(failpoint::VARIABLE, point);
    })
    .await
}

/// Losses of files of a running daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The database is removed.
    Database,
    /// Another file replaces it.
    Replaced,
    /// The log is removed.
    Log,
    /// The index of the log is removed.
    Index,
    /// The data directory is renamed.
    Directory,
    /// The database is truncated.
    DatabaseCut,
    /// The log is truncated.
    LogCut,
}

impl Loss {
    /// All losses.
    pub const ALL: [Self; 7] =
        [Self::Database, Self::Replaced, Self::Log, Self::Index, Self::Directory, Self::DatabaseCut, Self::LogCut];

    fn inflict(self, store: &Path) -> Result<()> {
        let file = |suffix: &str| store.join(format!("longhand.db{suffix}"));
        match self {
            Self::Database => fs::remove_file(file(""))?,
            Self::Replaced => {
                fs::copy(file(""), file("-copy"))?;
                fs::rename(file("-copy"), file(""))?;
            }
            Self::Log => fs::remove_file(file("-wal"))?,
            Self::Index => fs::remove_file(file("-shm"))?,
            Self::Directory => fs::rename(store, store.with_extension("moved"))?,
            Self::DatabaseCut => fs::File::options().write(true).open(file(""))?.set_len(0)?,
            Self::LogCut => fs::File::options().write(true).open(file("-wal"))?.set_len(0)?,
        }
        Ok(())
    }
}

/// A daemon that loses its files stops acknowledging, reports it everywhere, and continues to serve reads if it can.
pub async fn lost(program: &Path, loss: Loss) -> Result<()> {
    let home = home()?;
    let store = home.path().join("store");
    let daemon = start(program, &store).await?;
    let client = Client::of(&daemon);
    let session = client.create().await?;
    let acknowledged = client.append(&session, "before", "r1").await?;
    client.health(ServingStatus::Serving).await?;
    loss.inflict(&store)?;
    // The failure is certain, because nothing was written since.
    match client.append(&session, "after", "r2").await {
        Ok(_) => bail!("a write was acknowledged"),
        Err(status) => {
            let (code, reason, _) = reason(&status);
            ensure!(
                code == Code::Unavailable && ["OUTCOME_UNCERTAIN", "STORE_STOPPED"].contains(&reason.as_str())
                    || code == Code::DataLoss,
                "{status:?}"
            );
        }
    }
    client.health(ServingStatus::NotServing).await?;
    if !matches!(loss, Loss::DatabaseCut | Loss::LogCut) {
        client.until(WriteState::FilesReplaced).await?;
        client.check(&[acknowledged]).await?;
    }
    let refused = client.append(&session, "later", "r3").await.err().context("a write was acknowledged")?;
    let (code, why, _) = reason(&refused);
    // A write reads the session's settings, unless they are in memory: of files that were cut off, that fails first.
    let is_cut = matches!(loss, Loss::DatabaseCut | Loss::LogCut) && code == Code::DataLoss;
    ensure!(why == "STORE_STOPPED" || is_cut, "{refused:?}");
    daemon.stop().await?;
    if loss == Loss::Replaced {
        ensure!(store.join("longhand.db-wal").exists(), "the log of the file that took the place was removed");
    }
    Ok(())
}

/// A write with a failed sync is neither acknowledged nor denied, and is present once after it is sent again.
pub async fn failed_sync(program: &Path) -> Result<()> {
    let home = home()?;
    let store = home.path().join("store");
    let daemon = start_failing(program, &store, "append.unsynced:2").await?;
    let client = Client::of(&daemon);
    let session = client.create().await?;
    let mut acknowledged = vec![client.append(&session, "one", "r1").await?];
    let refused = client.append(&session, "two", "r2").await.err().context("a write was acknowledged")?;
    ensure!(reason(&refused).1 == "OUTCOME_UNCERTAIN", "{refused:?}");
    let refused = client.append(&session, "three", "r3").await.err().context("a write was acknowledged")?;
    ensure!(reason(&refused).1 == "STORE_STOPPED", "{refused:?}");
    client.until(WriteState::DiskFailed).await?;
    client.health(ServingStatus::NotServing).await?;
    client.check(&acknowledged).await?;
    ensure!(daemon.stop().await?.success(), "it stops cleanly");

    let daemon = start(program, &store).await?;
    let client = Client::of(&daemon);
    client.health(ServingStatus::Serving).await?;
    ensure!(client.count(&session).await? == 2, "the write that was uncertain is there");
    for (text, request_id) in [("two", "r2"), ("three", "r3")] {
        acknowledged.push(client.append(&session, text, request_id).await?);
    }
    ensure!(client.count(&session).await? == 3, "each is there once");
    client.check(&acknowledged).await?;
    ensure!(client.findings().await?.is_empty(), "the chain is whole");
    daemon.stop().await?;
    Ok(())
}

/// A full disk has its own reason, and writes are accepted again as soon as there is space.
pub async fn full(program: &Path) -> Result<()> {
    let home = home()?;
    let daemon = start_failing(program, &home.path().join("store"), "append.full:2").await?;
    let client = Client::of(&daemon);
    let session = client.create().await?;
    let mut acknowledged = vec![client.append(&session, "one", "r1").await?];
    // A decision in the same transaction would fail with the write, which is then tried alone, and succeeds.
    client.until_info(|info| info.due_session_count == 0).await?;
    let refused = client.append(&session, "two", "r2").await.err().context("a write was acknowledged")?;
    let (code, reason, _) = reason(&refused);
    ensure!((code, reason.as_str()) == (Code::ResourceExhausted, "STORAGE_FULL"), "{refused:?}");
    let state = client.info().await?.write_state();
    ensure!(state == WriteState::StorageFull, "status says {}", state.as_str_name());
    client.health(ServingStatus::Serving).await?;
    client.check(&acknowledged).await?;
    ensure!(client.count(&session).await? == 1, "nothing of it is there");
    acknowledged.push(client.append(&session, "two", "r2").await?);
    ensure!(client.info().await?.write_state() == WriteState::Accepted, "status knows");
    client.check(&acknowledged).await?;
    daemon.stop().await?;
    Ok(())
}

/// A failed checkpoint is reported, until one succeeds.
pub async fn failed_checkpoint(program: &Path) -> Result<()> {
    let home = home()?;
    let daemon = start_failing(program, &home.path().join("store"), "checkpoint.refused").await?;
    let client = Client::of(&daemon);
    let session = client.create().await?;
    let mut random = seed::generator(1, "checkpoint");
    let mut much = |mebibytes: usize| -> String {
        (0..mebibytes << 20).map(|_| char::from(random.random_range(b'!'..=b'~'))).collect()
    };
    for _ in 0..4 {
        client.append(&session, &much(6), "").await?;
    }
    client.until_checkpoint(|checkpoint| checkpoint.failure_count == 1 && !checkpoint.failure.is_empty()).await?;
    client.append(&session, &much(6), "").await?;
    client.until_checkpoint(|checkpoint| checkpoint.failure_count == 0 && checkpoint.failure.is_empty()).await?;
    ensure!(client.info().await?.write_state() == WriteState::Accepted, "writes go on");
    daemon.stop().await?;
    Ok(())
}

/// Damages to the log of a killed daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogDamage {
    /// It is removed.
    Removed,
    /// It is truncated at a random position.
    Cut,
    /// One of its bits is flipped.
    Flipped,
}

impl LogDamage {
    /// All damages.
    pub const ALL: [Self; 3] = [Self::Removed, Self::Cut, Self::Flipped];
}

/// A damaged log leaves a prefix of the writes: nothing in between is missing or altered.
pub async fn log_damage(program: &Path, damage: LogDamage, seed: u64) -> Result<usize> {
    let mut random = seed::generator(seed, &format!("log-{damage:?}"));
    let home = home()?;
    let store = home.path().join("store");
    // The session is in the database, the messages are in the log.
    let daemon = start(program, &store).await?;
    let session = Client::of(&daemon).create().await?;
    daemon.stop().await?;
    let daemon = start(program, &store).await?;
    let client = Client::of(&daemon);
    let mut acknowledged = Vec::new();
    for number in 0..30 {
        acknowledged.push(client.append(&session, &format!("message {number}"), &format!("r{number}")).await?);
    }
    daemon.kill().await?;
    let log = store.join("longhand.db-wal");
    let mut bytes = fs::read(&log)?;
    match damage {
        LogDamage::Removed => fs::remove_file(&log)?,
        LogDamage::Cut => {
            fs::File::options().write(true).open(&log)?.set_len(random.random_range(0..bytes.len() as u64))?
        }
        LogDamage::Flipped => {
            let at = random.random_range(0..bytes.len());
            bytes[at] ^= 1 << random.random_range(0..8);
            fs::write(&log, &bytes)?;
        }
    }
    let daemon = start(program, &store).await?;
    let client = Client::of(&daemon);
    let kept = client.count(&session).await?;
    client.check(&acknowledged[..kept]).await?;
    ensure!(client.findings().await?.is_empty(), "the chain is whole");
    client.append(&session, "on it goes", "on").await?;
    daemon.stop().await?;
    Ok(kept)
}

/// However many daemons start at once, exactly one gets the store, and it works.
pub async fn two_daemons(program: &Path) -> Result<()> {
    let home = home()?;
    let store = home.path().join("store");
    fs::create_dir_all(&store)?;
    let socket = |number: usize| home.path().join(format!("{number}.sock"));
    let starts = (0..4).map(|number| {
        let (program, store, socket): (PathBuf, PathBuf, PathBuf) = (program.to_owned(), store.clone(), socket(number));
        tokio::spawn(async move {
            Daemon::start(&program, &store, |command| {
                command.arg("--socket").arg(&socket);
            })
            .await
            .map(|it| (it, socket))
        })
    });
    let mut running = Vec::new();
    for start in starts.collect::<Vec<_>>() {
        running.extend(start.await?.ok());
    }
    ensure!(running.len() == 1, "{} daemons run", running.len());
    let (daemon, socket) = running.remove(0);
    let client = Client::at(&socket);
    let session = client.create().await?;
    let acknowledged = client.append(&session, "one", "r1").await?;
    ensure!(start(program, &store).await.is_err(), "a second daemon starts");
    client.append(&session, "two", "r2").await?;
    client.check(&[acknowledged]).await?;
    daemon.stop().await?;
    Ok(())
}
