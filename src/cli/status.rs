//! `longhand status`: what the daemon is and how it fares.

use super::Globals;
use super::event_text::{kind, rung};
use super::output::{time, word};
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
    let (due, ready, running) = (info.due_session_count, info.ready_compaction_count, info.running_compaction_count);
    let (breaker, overhead) = (info.breaker_session_count, info.overhead_session_count);
    let (undo, cooling) = (info.undo_session_count, info.cooling_session_count);
    let mut lines = vec![
        ("version", format!("{} (SQLite {})", info.version, info.sqlite_version)),
        ("running since", time(info.start_time.as_ref())),
        ("writes", writes.to_owned()),
        ("writes survive", durability),
        ("store", info.store_id.clone()),
        ("size on disk", format!("{} KiB", info.database_bytes / 1024)),
        ("sessions", info.session_count.to_string()),
        ("events", info.head_seq.to_string()),
        ("subscribers", info.subscriber_count.to_string()),
        ("reductions", format!("{due} sessions due, {ready} waiting, {running} running")),
        (
            "guards",
            format!(
                "{breaker} breakers open, {overhead} filled by overhead, {cooling} cooling down, {undo} held by an undo"
            ),
        ),
    ];
    lines.extend(info.stopped_session_ids.iter().map(|id| ("stopped", id.clone())));
    lines.extend(info.reductions.iter().map(|tally| ("ended", ended(tally))));
    lines.iter().map(|(what, value)| format!("{what:<16}{value}")).collect()
}

/// Reductions that ended in the same way, in words.
fn ended(tally: &pb::ReductionTally) -> String {
    let state = word(tally.state().as_str_name(), "COMPACTION_STATE_");
    let (kind, rung, count) = (kind(tally.kind()), rung(tally.level()), tally.count);
    let freed = if tally.freed_tokens > 0 { format!(", {} tokens freed", tally.freed_tokens) } else { String::new() };
    format!("{count} {kind} ({rung}) {state}{freed}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_takes_no_writes_is_told_loudly() {
        let mut info = pb::GetServerInfoResponse { writable: true, ..pb::GetServerInfoResponse::default() };
        assert!(!lines(&info).concat().contains("REFUSED"));
        let (kind, level) = (pb::CompactionKind::Summary.into(), pb::CompactionLevel::Auto.into());
        let state = pb::CompactionState::Done.into();
        info.reductions = vec![pb::ReductionTally { kind, level, state, count: 2, freed_tokens: 900 }];
        assert!(lines(&info).concat().contains("2 summary (auto) done, 900 tokens freed"), "{:?}", lines(&info));
        info.writable = false;
        assert!(lines(&info).concat().contains("REFUSED"));
    }
}
