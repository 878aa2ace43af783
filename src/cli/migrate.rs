//! `longhand migrate`: moves the store of a stopped daemon between a data directory and a shard of a database.

use super::failure::Usage;
use super::output::{Output, count};
use super::progress::Progress;
use super::{Globals, backup};
use crate::daemon::offline::{self, MigratedStore, MigrationProgress, Shard, StorePlace};
use anyhow::Context as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

/// The shard, unless another one is named.
const SHARD: &str = "s1";

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Store to move: a data directory, or a PostgreSQL database as postgres://…; no daemon may have it
    #[arg(value_name = "FROM")]
    from: String,
    /// Place for it, which has no store: a data directory, or a database
    #[arg(value_name = "TO")]
    to: String,
    /// Shard of the database; default: s1
    #[arg(long, value_name = "NAME")]
    shard: Option<String>,
    /// Shard of TO, between two shards; default: that of --shard
    #[arg(long, value_name = "NAME")]
    to_shard: Option<String>,
}

/// A place by its argument.
fn place(text: &str, shard: &str) -> anyhow::Result<StorePlace> {
    if !["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme)) {
        return Ok(StorePlace::Directory(PathBuf::from(text)));
    }
    let shard = Shard::new(text, shard).map_err(|error| Usage(error.to_string()))?;
    Ok(StorePlace::Shard(Arc::new(shard)))
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let Arguments { from, to, shard, to_shard } = arguments;
    let shard = shard.as_deref().unwrap_or(SHARD);
    let (from, to) = (place(&from, shard)?, place(&to, to_shard.as_deref().unwrap_or(shard))?);
    let mut output = globals.output();
    let progress = Mutex::new(Progress::new());
    let show = |now| {
        if let Ok(mut progress) = progress.lock() {
            progress.show(|| line(now));
        }
    };
    let migrated = offline::migrate(&from, &to, &show).await.context("cannot migrate")?;
    drop(progress);
    report(&mut output, &migrated, &to)?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn line(now: MigrationProgress) -> String {
    match now {
        MigrationProgress::Rows { copied, total } => {
            let percent = copied.saturating_mul(100).checked_div(total).unwrap_or(0).min(100);
            format!("copies rows, {percent} % of {total}")
        }
        MigrationProgress::Check(now) => backup::line(now),
    }
}

fn report(output: &mut Output, migrated: &MigratedStore, to: &StorePlace) -> anyhow::Result<()> {
    let MigratedStore { store_id, sessions, head_seq, set_aside } = migrated;
    if output.json() {
        return output.value(&serde_json::json!({
            "storeId": store_id.to_string(),
            "sessionCount": sessions.to_string(),
            "headSeq": head_seq.to_string(),
            "setAside": set_aside,
        }));
    }
    let (sessions, events) = (count(*sessions, "session"), count(*head_seq, "event"));
    let place = match to {
        StorePlace::Directory(directory) => {
            format!("{} is the store now: serve it with --data-dir", directory.display())
        }
        StorePlace::Shard(shard) => {
            format!("the shard {0} is the store now: serve it with --database and --shard {0}", shard.name())
        }
    };
    output.line(&format!("{sessions} and {events}, verified; store id {store_id} as before"))?;
    output.line(&place)?;
    Ok(output.line(&format!(
        "the original is set aside and not served any more: {set_aside}; remove it when you need it no more"
    ))?)
}
