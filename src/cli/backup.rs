//! `longhand backup` and `longhand restore`: a verified copy of the running daemon's store, and a new store from one.

use super::Globals;
use super::output::{Output, count};
use super::progress::Progress;
use crate::daemon::offline::{self, CopyProgress};
use crate::pb;
use crate::pb::create_backup_response::Item;
use anyhow::Context as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;

#[derive(Debug, clap::Args)]
pub(super) struct BackupArguments {
    /// New file for the backup; an existing one is never replaced
    file: PathBuf,
    /// The shard of a PostgreSQL database to copy, which the daemon owns, such as s2; may be left out where there is one
    #[arg(long, value_name = "SHARD")]
    shard: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct RestoreArguments {
    /// Backup to restore
    backup: PathBuf,
    /// New or empty directory for the store
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
}

/// Lets the daemon make a backup.
pub(super) async fn backup(globals: &Globals, arguments: BackupArguments) -> anyhow::Result<ExitCode> {
    // The daemon runs in another directory.
    let path = std::path::absolute(&arguments.file).context("cannot find the current directory")?;
    let path = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?.to_owned();
    let mut output = globals.output();
    let client = globals.client().await?;
    let mut pieces = client.stream(pb::CreateBackupRequest { path, shard: arguments.shard }).await?;
    let mut progress = Progress::new();
    while let Some(piece) = progress.waiting("checks the copy", pieces.next()).await? {
        match piece.item {
            Some(Item::Progress(now)) => progress.show(|| remote_line(&now)),
            Some(Item::Backup(backup)) => {
                progress.clear();
                print(&mut output, &backup)?;
                output.flush()?;
                return Ok(ExitCode::SUCCESS);
            }
            None => {}
        }
    }
    anyhow::bail!("the backup ended before it was complete")
}

fn print(output: &mut Output, backup: &pb::Backup) -> anyhow::Result<()> {
    if output.json() {
        return output.message(backup);
    }
    let (sessions, events) = (count(backup.session_count, "session"), count(backup.event_count, "event"));
    Ok(output.line(&format!("{}: {} bytes, {sessions} and {events}, verified", backup.path, backup.size_bytes))?)
}

fn remote_line(now: &pb::BackupProgress) -> String {
    match now.phase() {
        pb::BackupPhase::Verify => {
            line(CopyProgress::Verifying { events: now.verified_event_count, total: now.total_event_count })
        }
        pb::BackupPhase::Check => line(CopyProgress::Checking),
        pb::BackupPhase::Copy | pb::BackupPhase::Unspecified => {
            line(CopyProgress::Copying { bytes: now.copied_bytes, total: now.total_bytes })
        }
    }
}

/// The progress of a copy or of an examination, as text.
pub(super) fn line(now: CopyProgress) -> String {
    let percent = |done: i64, total: i64| done.saturating_mul(100).checked_div(total).unwrap_or(0).min(100);
    match now {
        CopyProgress::Copying { bytes, total } => {
            format!("copies, {} % of {} MiB", percent(bytes, total), total >> 20)
        }
        CopyProgress::Checking => "checks pages and indexes".to_owned(),
        CopyProgress::Verifying { events, total } => {
            format!("verifies hash chains, {} % of {}", percent(events, total), count(total, "event"))
        }
    }
}

/// Makes a store from a backup.
pub(super) async fn restore(globals: &Globals, arguments: RestoreArguments) -> anyhow::Result<ExitCode> {
    let RestoreArguments { backup, data_dir } = arguments;
    let mut output = globals.output();
    let progress = Mutex::new(Progress::new());
    let show = |now| {
        if let Ok(mut progress) = progress.lock() {
            progress.show(|| line(now));
        }
    };
    let restored = offline::restore(&backup, &data_dir, &show).await.context("cannot restore")?;
    drop(progress);
    report(&mut output, &restored, &data_dir)?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn report(output: &mut Output, restored: &offline::RestoredStore, directory: &Path) -> anyhow::Result<()> {
    let (id, checked) = (restored.store_id.to_string(), restored.copy.checked);
    if output.json() {
        return output.value(&serde_json::json!({
            "dataDir": directory.display().to_string(),
            "storeId": id,
            "sessionCount": checked.sessions.to_string(),
            "eventCount": checked.events.to_string(),
            "headSeq": restored.copy.head_seq.to_string(),
        }));
    }
    let (sessions, events) = (count(checked.sessions, "session"), count(checked.events, "event"));
    output.line(&format!("{}: {sessions} and {events}, verified", directory.display()))?;
    Ok(output.line(&format!("new store id {id}: cursors of the original are refused, so its readers begin anew"))?)
}
