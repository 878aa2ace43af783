//! `longhand status`: what the daemon is and how it fares.

use super::Globals;
use super::output::time;
use crate::pb;
use std::process::ExitCode;

pub(super) async fn run(globals: &Globals) -> anyhow::Result<ExitCode> {
    let mut client = globals.client().await?;
    let mut output = globals.output();
    let info = client.admin.get_server_info(pb::GetServerInfoRequest {}).await?.into_inner();
    if output.json() {
        output.message(&info)?;
    } else {
        lines(&info).iter().try_for_each(|line| output.line(line))?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn lines(info: &pb::GetServerInfoResponse) -> Vec<String> {
    let durability = match info.durability() {
        pb::Durability::Unspecified => "unknown".to_owned(),
        pb::Durability::Full => "a crash of the machine".to_owned(),
        pb::Durability::ProcessCrash => "a crash of the daemon only".to_owned(),
    };
    let writes = if info.writable { "taken" } else { "REFUSED: the disk failed, reads only" };
    let (ready, running) = (info.ready_compaction_count, info.running_compaction_count);
    [
        ("version", format!("{} (SQLite {})", info.version, info.sqlite_version)),
        ("running since", time(info.start_time.as_ref())),
        ("writes", writes.to_owned()),
        ("writes survive", durability),
        ("store", info.store_id.clone()),
        ("size on disk", format!("{} KiB", info.database_bytes / 1024)),
        ("sessions", info.session_count.to_string()),
        ("events", info.head_seq.to_string()),
        ("reductions", format!("{ready} waiting, {running} running")),
        ("subscribers", info.subscriber_count.to_string()),
    ]
    .map(|(what, value)| format!("{what:<16}{value}"))
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_takes_no_writes_is_told_loudly() {
        let mut info = pb::GetServerInfoResponse { writable: true, ..pb::GetServerInfoResponse::default() };
        assert!(!lines(&info).concat().contains("REFUSED"));
        info.writable = false;
        assert!(lines(&info).concat().contains("REFUSED"));
    }
}
