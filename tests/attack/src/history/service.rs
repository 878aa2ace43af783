//! The daemon from its clients' side: running, or about to run again.

use crate::daemon::Daemon;
use anyhow::{Context as _, Result, bail};
use longhand::pb;
use rand::Rng as _;
use rand::rngs::StdRng;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Maximum time of a start, with the recovery of everything that the kill interrupted.
const START_TIME_MAX: Duration = Duration::from_secs(60);

/// Maximum time for which a killed process may hold its lock.
const LOCK_TIME_MAX: Duration = Duration::from_secs(10);
/// Maximum time of a stop: the daemon's own limits for calls and for work, one after the other.
pub(super) const STOP_TIME_MAX: Duration = Duration::from_secs(30);

/// The daemon's location and state.
#[derive(Debug)]
pub(super) struct Service {
    program: PathBuf,
    directory: PathBuf,
    /// The sockets of all daemons, any of which answers.
    sockets: Vec<PathBuf>,
    up: watch::Sender<bool>,
    deaths: AtomicU64,
}

impl Service {
    /// A daemon that has not been started, or several that run always, as a whole.
    pub(super) fn new(program: &Path, directory: &Path, sockets: Option<Vec<PathBuf>>) -> Self {
        Self {
            up: watch::Sender::new(sockets.is_some()),
            sockets: sockets.unwrap_or_else(|| vec![directory.join("longhand.sock")]),
            program: program.to_owned(),
            directory: directory.to_owned(),
            deaths: AtomicU64::new(0),
        }
    }

    /// The daemon's directory.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Path of the socket of a daemon.
    pub(super) fn socket(&self, rng: &mut StdRng) -> &Path {
        &self.sockets[rng.random_range(0..self.sockets.len())]
    }

    /// True for several daemons with one database.
    pub(super) fn has_several(&self) -> bool {
        self.sockets.len() > 1
    }

    /// What acknowledged writes survive: the database of several daemons does not sync here.
    pub(super) fn durability(&self) -> pb::Durability {
        if self.has_several() { pb::Durability::ProcessCrash } else { pb::Durability::Full }
    }

    /// Says that something goes wrong from now on, for which calls may fail.
    pub(super) fn expect_failures(&self) {
        self.deaths.fetch_add(1, Ordering::SeqCst);
    }

    /// Number of times the daemon was made to end. Incremented before the daemon ends.
    pub(super) fn deaths(&self) -> u64 {
        self.deaths.load(Ordering::SeqCst)
    }

    /// Waits until the daemon listens.
    pub(super) async fn wait_until_up(&self) {
        // The sender lives as long as `self`.
        drop(self.up.subscribe().wait_for(|up| *up).await);
    }

    async fn spawn(&self, client_wait_seconds: u64) -> Result<Daemon> {
        let config = self.directory.join(format!("history-{client_wait_seconds}.toml"));
        let text = format!("workers = 3\nsummarizer = {{ client_wait_seconds = {client_wait_seconds} }}\n");
        std::fs::write(&config, text)?;
        Daemon::start(&self.program, &self.directory, |command| {
            command.arg("--config").arg(&config);
        })
        .await
    }

    /// Starts the daemon. In some cases, drawn by `rng`, kills it once during recovery.
    pub(super) async fn start(&self, rng: &mut StdRng, client_wait_seconds: u64, kills: &mut u64) -> Result<Daemon> {
        if rng.random_bool(0.12) {
            let timeout = Duration::from_millis(rng.random_range(1..250));
            if let Ok(Ok(daemon)) = tokio::time::timeout(timeout, self.spawn(client_wait_seconds)).await {
                self.up.send_replace(true);
                return Ok(daemon);
            }
            *kills += 1;
        }
        let began = Instant::now();
        loop {
            let Ok(started) = tokio::time::timeout(START_TIME_MAX, self.spawn(client_wait_seconds)).await else {
                bail!("the daemon took longer than {START_TIME_MAX:?} to start");
            };
            match started {
                Ok(daemon) => {
                    self.up.send_replace(true);
                    return Ok(daemon);
                }
                // The killed process holds its lock for a moment longer.
                Err(_) if began.elapsed() < LOCK_TIME_MAX => tokio::time::sleep(Duration::from_millis(10)).await,
                Err(error) => return Err(error).context("the daemon does not start"),
            }
        }
    }

    /// Kills the daemon.
    pub(super) async fn kill(&self, daemon: Daemon) -> Result<()> {
        self.deaths.fetch_add(1, Ordering::SeqCst);
        self.up.send_replace(false);
        daemon.kill().await?;
        Ok(())
    }

    /// Asks the daemon to stop; returns a finding if the stop fails or takes too long.
    pub(super) async fn stop(&self, daemon: Daemon) -> Result<Option<String>> {
        self.deaths.fetch_add(1, Ordering::SeqCst);
        self.up.send_replace(false);
        let began = Instant::now();
        let status = daemon.stop().await?;
        let took = began.elapsed();
        if !status.success() {
            return Ok(Some(format!("a daemon that was asked to stop ended with {status}")));
        }
        Ok((took > STOP_TIME_MAX).then(|| format!("a daemon that was asked to stop took {took:?}")))
    }
}
