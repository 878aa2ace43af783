//! Full disks and read-only file systems, with real mounts. They need the permission to mount.

use super::client::{Client, reason};
use super::home;
use crate::daemon::Daemon;
use crate::seed;
use anyhow::{Context as _, Result, bail, ensure};
use longhand::pb::WriteState;
use rand::Rng as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tonic::Code;

/// Result where mounting is not permitted.
const SKIP: &str = "SKIP: nothing can be mounted here";
/// Maximum number of appends, many times more than fill the disk.
const APPENDS_MAX: usize = 1_000;

/// A file system in memory, unmounted when it is dropped.
struct Mount {
    path: PathBuf,
}

impl Mount {
    /// Mounts a file system of the given size; none where that is not permitted.
    fn new(path: &Path, size: &str) -> Result<Option<Self>> {
        fs::create_dir_all(path)?;
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={size},mode=0700"), "tmpfs"]).arg(path);
        let mounted = command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        Ok(mounted.then(|| Self { path: path.to_owned() }))
    }

    fn make_read_only(&self) -> Result<()> {
        let status = Command::new("mount").args(["-o", "remount,ro"]).arg(&self.path).status()?;
        ensure!(status.success(), "it cannot be mounted read-only");
        Ok(())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // A lazy unmount: files still open go with their process.
        drop(Command::new("umount").arg("-l").arg(&self.path).status());
    }
}

/// A full disk refuses writes with its reason, serves reads, and accepts writes again once there is space.
pub async fn disk_full(program: &Path) -> Result<String> {
    let home = home()?;
    let Some(mount) = Mount::new(&home.path().join("disk"), "6m")? else { return Ok(SKIP.to_owned()) };
    let ballast = mount.path.join("ballast");
    let store = mount.path.join("store");
    fs::write(&ballast, vec![7; 1 << 20])?;
    fs::create_dir(&store)?;
    let daemon = Daemon::start(program, &store, |_| {}).await?;
    let client = Client::of(&daemon);
    let session = client.create().await?;
    let mut random = seed::generator(1, "disk-full");
    let mut acknowledged = Vec::new();
    let refused = loop {
        let text: String = (0..40_000).map(|_| char::from(random.random_range(b'!'..=b'~'))).collect();
        match client.append(&session, &text, &format!("r{}", acknowledged.len())).await {
            Ok(appended) => acknowledged.push(appended),
            Err(status) => break (status, text),
        }
        ensure!(acknowledged.len() < APPENDS_MAX, "the disk is never full");
    };
    let (status, text) = refused;
    let (code, why, _) = reason(&status);
    ensure!((code, why.as_str()) == (Code::ResourceExhausted, "STORAGE_FULL"), "{status:?}");
    ensure!(client.info().await?.write_state() == WriteState::StorageFull, "status knows");
    client.check(&acknowledged).await?;
    let count = acknowledged.len();
    ensure!(client.count(&session).await? == count, "nothing of it is there");
    fs::remove_file(&ballast)?;
    acknowledged.push(client.append(&session, &text, &format!("r{count}")).await.context("there is space again")?);
    ensure!(client.info().await?.write_state() == WriteState::Accepted, "status knows");
    client.check(&acknowledged).await?;
    ensure!(client.findings().await?.is_empty(), "the chain is whole");
    daemon.kill().await?;
    let daemon = Daemon::start(program, &store, |_| {}).await?;
    Client::of(&daemon).check(&acknowledged).await?;
    daemon.stop().await?;
    Ok(format!("full after {count} messages, all kept, and taken again"))
}

/// A daemon on a read-only file system reports that and ends.
pub async fn read_only(program: &Path) -> Result<String> {
    let home = home()?;
    let Some(mount) = Mount::new(&home.path().join("disk"), "6m")? else { return Ok(SKIP.to_owned()) };
    let store = mount.path.join("store");
    fs::create_dir(&store)?;
    let daemon = Daemon::start(program, &store, |_| {}).await?;
    let client = Client::of(&daemon);
    let session = client.create().await?;
    let acknowledged = client.append(&session, "one", "r1").await?;
    daemon.stop().await?;
    mount.make_read_only()?;
    let output = tokio::process::Command::new(program)
        .args([crate::daemon::AS_LONGHAND, "serve", "--data-dir"])
        .arg(&store)
        .arg("--socket")
        .arg(home.path().join("s"))
        .output()
        .await?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success() && words.contains("Read-only file system"), "{words}");
    let names = fs::read_dir(&store)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let names = names.collect::<Result<Vec<String>>>()?;
    ensure!(!names.iter().any(|name| name.starts_with("longhand.db-")), "no log stays: {names:?}");
    let status = Command::new("mount").args(["-o", "remount,rw"]).arg(&mount.path).status()?;
    if !status.success() {
        bail!("it cannot be mounted for writing again");
    }
    let daemon = Daemon::start(program, &store, |_| {}).await?;
    Client::of(&daemon).check(&[acknowledged]).await?;
    daemon.stop().await?;
    Ok("refused with a sentence, nothing changed".to_owned())
}
