//! `longhand said`: what people said, as it follows a session's summary, and what becomes of it.

use super::failure::Usage;
use super::output::Output;
use super::{Globals, ids};
use crate::pb;
use longhand_client::Client;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Arguments {
    /// Session, by id, client id, or the last or first digits of its id
    session: String,
    /// Strike out a line, by its number here, or what a message says, by id, client id or revision
    #[arg(long, value_name = "LINE|MESSAGE", conflicts_with_all = ["add", "reset"])]
    strike: Option<String>,
    /// Add a line with what a message says, by id, client id or revision
    #[arg(long, value_name = "MESSAGE", conflicts_with = "reset")]
    add: Option<String>,
    /// Leave a line or a message to the summarizer again
    #[arg(long, value_name = "LINE|MESSAGE")]
    reset: Option<String>,
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut output = globals.output();
    let Arguments { session, strike, add, reset } = arguments;
    let session_id = ids::session(&client, &session).await?;
    let change = [
        (strike, pb::WordsStance::Struck, "struck out"),
        (add, pb::WordsStance::Kept, "added"),
        (reset, pb::WordsStance::Open, "left to the summarizer"),
    ];
    match change.into_iter().find_map(|(which, stance, done)| Some((which?, stance, done))) {
        None => list(&client, &mut output, session_id).await?,
        Some((which, stance, done)) => {
            let message_id = match which.parse::<usize>() {
                Ok(number) if stance != pb::WordsStance::Kept => {
                    let found = get(&client, &session_id).await?;
                    match number.checked_sub(1).and_then(|index| found.said_lines.get(index)) {
                        Some(line) => line.message_id.clone().ok_or_else(|| {
                            Usage(format!("the message of line {number} is not known: give the message itself"))
                        })?,
                        // It is not taken for a revision: the list may have become shorter since it was read.
                        None => {
                            let count = found.said_lines.len();
                            let said = format!("there is no line {number} of {count}; #{number} is a revision");
                            return Err(Usage(said).into());
                        }
                    }
                }
                _ => ids::message(&client, &session_id, &which).await?,
            };
            let request = pb::MarkWordsRequest {
                session_id,
                message_id,
                stance: stance.into(),
                ..pb::MarkWordsRequest::default()
            };
            let marked = client.call(request).await?;
            match output.json() {
                true => output.message(&marked)?,
                false => {
                    output.line(&format!("{done} from the next compaction on, at revision {}", marked.revision))?
                }
            }
        }
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

async fn get(client: &Client, session_id: &str) -> Result<pb::GetSessionResponse, longhand_client::Error> {
    let request = pb::GetSessionRequest { session_id: session_id.to_owned() };
    client.call(request).await
}

async fn list(client: &Client, output: &mut Output, session_id: String) -> anyhow::Result<()> {
    let found = get(client, &session_id).await?;
    if output.json() {
        let words = pb::GetSessionResponse { session: None, over_window: None, ..found };
        output.message(&words)?;
        return Ok(());
    }
    lines(&found).iter().try_for_each(|line| output.line(line))?;
    Ok(())
}

/// The lines by their numbers, and the messages whose words are struck or kept.
pub(super) fn lines(found: &pb::GetSessionResponse) -> Vec<String> {
    let stance = |message: &str| {
        let mark = found.marked_words.iter().find(|mark| mark.message_id == message)?;
        match mark.stance() {
            pb::WordsStance::Struck => Some("struck out"),
            pb::WordsStance::Kept => Some("added"),
            pb::WordsStance::Open | pb::WordsStance::Unspecified => None,
        }
    };
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(&found.said_lines) {
        let mark = line.message_id.as_deref().and_then(stance);
        lines.push(format!("{number:>3}  {}{}", line.text, mark.map(|mark| format!("  [{mark}]")).unwrap_or_default()));
    }
    let is_shown = |message: &str| found.said_lines.iter().any(|line| line.message_id.as_deref() == Some(message));
    for mark in found.marked_words.iter().filter(|mark| !is_shown(&mark.message_id)) {
        lines.extend(stance(&mark.message_id).map(|what| format!("     {} [{what}]", mark.message_id)));
    }
    lines
}
