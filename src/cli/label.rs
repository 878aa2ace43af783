//! `longhand label`: adds labels to a session, removes them, or prints them.

use super::Globals;
use super::failure::note;
use super::ids;
use crate::pb;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The session
    session: String,
    #[command(subcommand)]
    change: Option<Change>,
}

#[derive(Debug, clap::Subcommand)]
enum Change {
    /// Add labels
    Add {
        /// Labels, of up to 64 bytes each, without white space and commas
        #[arg(required = true)]
        labels: Vec<String>,
    },
    /// Remove labels
    Remove {
        /// Labels
        #[arg(required = true)]
        labels: Vec<String>,
    },
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut output = globals.output();
    let session_id = ids::session(&client, &arguments.session).await?;
    let mut changed = None;
    match arguments.change {
        Some(Change::Add { labels }) => {
            for label in labels {
                let request = pb::AddLabelRequest { session_id: session_id.clone(), label, request_id: String::new() };
                changed = client.call(request).await?.session;
            }
        }
        Some(Change::Remove { labels }) => {
            for label in labels {
                let session_id = session_id.clone();
                let request = pb::RemoveLabelRequest { session_id, label, request_id: String::new() };
                changed = client.call(request).await?.session;
            }
        }
        None => changed = client.call(pb::GetSessionRequest { session_id }).await?.session,
    }
    let labels = changed.map(|session| session.labels).unwrap_or_default();
    match output.json() {
        true => output.value(&labels)?,
        false if labels.is_empty() => note("it has no labels"),
        false => labels.iter().try_for_each(|label| output.line(label))?,
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}
