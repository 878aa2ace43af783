//! `longhand who`: who is at work in a session.

use super::failure::note;
use super::output::{one_line, word};
use super::{Globals, ids};
use crate::pb;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Session, by id, client id, or the last or first digits of its id
    session: String,
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut output = globals.output();
    let session_id = ids::session(&client, &arguments.session).await?;
    let who = client.call(pb::GetPresenceRequest { session_id }).await?;
    if output.json() {
        output.message(&who)?;
    } else {
        if who.presences.is_empty() && who.run.is_none() {
            note("nobody is at work there");
        }
        for present in &who.presences {
            output.line(&line(present))?;
        }
        if let Some(run) = &who.run {
            output.line(&format!("{} runs, as run {}", name(&run.actor), run.epoch))?;
        }
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn name(actor: &str) -> String {
    if actor.is_empty() { "somebody".to_owned() } else { one_line(actor) }
}

fn line(present: &pb::Presence) -> String {
    let does = match present.kind() {
        pb::PresenceKind::Watching => "watches".to_owned(),
        pb::PresenceKind::Typing => "types".to_owned(),
        other => word(other.as_str_name(), "PRESENCE_KIND_"),
    };
    format!("{} {does}", name(&present.actor))
}

/// Everybody, on one line.
pub(super) fn names(present: &[pb::Presence]) -> String {
    if present.is_empty() {
        return "nobody".to_owned();
    }
    present.iter().map(line).collect::<Vec<_>>().join(", ")
}
