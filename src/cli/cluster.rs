//! `longhand cluster`: the daemons and shards of a database; `longhand move`: has a daemon own a shard.

use super::Globals;
use super::failure::Usage;
use super::output::one_line;
use super::table::{Column, Table};
use crate::pb;
use std::process::ExitCode;

/// In the place of what is not set.
const ABSENT: &str = "-";
/// Characters of a daemon's id that are printed: enough to tell daemons apart, and to name one.
const ID_CHARS: usize = 12;

#[derive(Debug, clap::Args)]
pub(super) struct ClusterArguments {}

#[derive(Debug, clap::Args)]
pub(super) struct MoveArguments {
    /// The shard, such as s2
    shard: String,
    /// The daemon: the begin of its id, or its address; `any` for any daemon again
    daemon: String,
}

pub(super) async fn cluster(globals: &Globals, _: ClusterArguments) -> anyhow::Result<ExitCode> {
    let cluster = globals.client().await?.call(pb::GetClusterRequest {}).await?;
    let mut output = globals.output();
    if output.json() {
        output.message(&cluster)?;
        output.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    if cluster.daemons.is_empty() {
        output.line("The daemon has a store of its own, in files.")?;
        output.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let short = |id: &str| id.chars().take(ID_CHARS).collect::<String>();
    let mut daemons = Table::new(&[Column::word("DAEMON"), Column::number("SHARDS"), Column::text("ADDRESS")]);
    for daemon in &cluster.daemons {
        let owns = |shard: &&pb::ClusterShard| shard.owner_daemon_id.as_ref() == Some(&daemon.daemon_id);
        let mark = if daemon.answering { " (this one)" } else { "" };
        let shards = cluster.shards.iter().filter(owns).count().to_string();
        daemons.row(vec![short(&daemon.daemon_id), shards, format!("{}{mark}", one_line(&daemon.address))]);
    }
    daemons.print(&mut output)?;
    output.line("")?;
    let mut shards = Table::new(&[
        Column::word("SHARD"),
        Column::word("OWNER"),
        Column::number("LEASE MS"),
        Column::number("EVENTS"),
        Column::word("PINNED TO").optional(1),
    ]);
    for shard in &cluster.shards {
        let or_absent = |id: &Option<String>| id.as_deref().map_or_else(|| ABSENT.to_owned(), short);
        shards.row(vec![
            shard.name.clone(),
            or_absent(&shard.owner_daemon_id),
            shard.lease_left_ms.to_string(),
            shard.head_seq.to_string(),
            or_absent(&shard.destination_daemon_id),
        ]);
    }
    shards.print(&mut output)?;
    for daemon in &cluster.daemons {
        for pb::ClusterShardFailure { shard, error } in &daemon.failures {
            let (daemon, error) = (short(&daemon.daemon_id), one_line(error));
            output.line(&format!("\n{daemon} cannot open {shard}: {error}"))?;
        }
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn move_shard(globals: &Globals, arguments: MoveArguments) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let MoveArguments { shard, daemon } = arguments;
    let daemon_id = match daemon.as_str() {
        "any" => None,
        named => {
            let cluster = client.call(pb::GetClusterRequest {}).await?;
            let is_named = |daemon: &&pb::ClusterDaemon| daemon.daemon_id.starts_with(named) || daemon.address == named;
            let mut daemons = cluster.daemons.iter().filter(is_named);
            match (daemons.next(), daemons.next()) {
                (Some(daemon), None) => Some(daemon.daemon_id.clone()),
                (None, _) => {
                    return Err(Usage(format!("no daemon {named:?} runs; `longhand cluster` lists them")).into());
                }
                (Some(_), Some(_)) => {
                    return Err(Usage(format!("{named:?} is the begin of several daemons' ids")).into());
                }
            }
        }
    };
    client.call(pb::MoveShardRequest { shard, daemon_id }).await?;
    Ok(ExitCode::SUCCESS)
}
