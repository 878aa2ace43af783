//! `longhand retain`: erases what the rules of retention say.

use super::Globals;
use super::output::count;
use crate::pb;
use crate::pb::apply_retention_response::Item;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Say which sessions would be erased, and change nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut output = globals.output();
    let dry_run = arguments.dry_run;
    let would = if dry_run { "would erase" } else { "erased" };
    let mut items = client.stream(pb::ApplyRetentionRequest { dry_run }).await?;
    while let Some(item) = items.next().await? {
        let line = match &item.item {
            Some(Item::Session(session)) => {
                let pb::ExpiredSession { session_id, title, rule, content_bytes, .. } = session;
                let why = match session.bound() {
                    pb::RetentionBound::Age => "its age",
                    pb::RetentionBound::Idle => "the time since its last change",
                    pb::RetentionBound::Bytes => "the room that newer ones need",
                    pb::RetentionBound::Unspecified => "a bound",
                };
                format!(
                    "{would} {session_id} {title:?} ({}), by rule {rule:?} for {why}",
                    count(*content_bytes, "byte")
                )
            }
            Some(Item::Summary(summary)) => {
                let sessions = |number| count(number, "session");
                format!(
                    "{would} {} of {} with {}; {} protected, {} changed meanwhile{}",
                    sessions(summary.erased_count),
                    summary.examined_count,
                    count(summary.content_bytes, "byte"),
                    summary.protected_count,
                    summary.changed_count,
                    if summary.clock_unconfirmed { "; the clock is not confirmed yet: more may be due" } else { "" }
                )
            }
            None => continue,
        };
        output.answer(&item, &line)?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}
