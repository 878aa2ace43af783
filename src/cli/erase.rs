//! `longhand erase`: content that goes for good.

use super::failure::Usage;
use super::output::count;
use super::{Globals, consent, ids};
use crate::pb;
use crate::pb::erase_content_request::Target;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Session, by id, client id, or the last or first digits of its id
    session: String,
    /// Message, with everything that replaced it; default: the whole session
    message: Option<String>,
    /// Part of the message
    #[arg(requires = "message")]
    part: Option<String>,
    /// Another message that goes in the same erasure; can be repeated
    #[arg(long, value_name = "MESSAGE", requires = "message", conflicts_with = "part")]
    also: Vec<String>,
    /// Erase the sessions of sub-agents with the session, at any depth
    #[arg(long, conflicts_with = "message")]
    tree: bool,
    /// Reason, which stays in the log: write nothing in it of what is to be erased
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Say what would be erased, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Refuse if history, marks, policy or window changed after this revision
    #[arg(long, value_name = "REVISION")]
    expected_revision: Option<i64>,
    /// Do not ask before
    #[arg(long, short)]
    yes: bool,
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut output = globals.output();
    let Arguments { session, message, part, also, tree, reason, dry_run, expected_revision, yes } = arguments;
    let session_id = ids::session(&client, &session).await?;
    let target = match (message, part) {
        (None, _) => Target::WholeSession(true),
        (Some(_), Some(part)) => Target::PartId(part),
        (Some(message), None) => {
            let mut message_ids = Vec::new();
            for message in std::iter::once(&message).chain(&also) {
                message_ids.push(ids::message(&client, &session_id, message).await?);
            }
            Target::MessageSet(pb::MessageSet { message_ids })
        }
    };
    let request = |dry_run| pb::EraseContentRequest {
        session_id: session_id.clone(),
        target: Some(target.clone()),
        reason: reason.clone(),
        dry_run,
        request_id: String::new(),
        expected_revision,
        tree,
    };
    if dry_run {
        let would = client.call(request(true)).await?;
        let again = if would.existed { "was erased before: " } else { "would erase " };
        output.answer(&would, &format!("{again}{}{}", describe_erased(&would), describe_staying(&would, tree)))?;
        output.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    if !yes {
        let would = client.call(request(true)).await?;
        confirm(&format!("erase {} for good{}?", describe_erased(&would), describe_staying(&would, tree)))?;
    }
    let erased = client.call(request(false)).await?;
    let again = if erased.existed { " before" } else { "" };
    let mut line = format!("erased{again} {}, at revision {}", describe_erased(&erased), erased.revision);
    if !erased.pending_files.is_empty() {
        let files = erased.pending_files.join(", ");
        line.push_str(&format!("; until a reader of earlier states has ended, bytes of it may be in {files}"));
    }
    line.push_str(&describe_staying(&erased, tree));
    output.answer(&erased, &line)?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The sessions of sub-agents that stay, as the end of a line.
fn describe_staying(erased: &pb::EraseContentResponse, tree: bool) -> String {
    let ids = &erased.sub_agent_session_ids;
    if tree || ids.is_empty() {
        return String::new();
    }
    let many = count(i64::try_from(ids.len()).unwrap_or(i64::MAX), "session");
    format!("; {many} of sub-agents stay, unless --tree erases them as well: {}", ids.join(", "))
}

/// What is erased, in one line.
fn describe_erased(erased: &pb::EraseContentResponse) -> String {
    let mut what = vec![
        format!("{} with {}", count(erased.message_count, "message"), count(erased.part_count, "part")),
        count(erased.content_bytes, "byte"),
    ];
    for (number, name) in [(erased.derived_count, "derived message"), (erased.blob_count, "attachment")] {
        if number > 0 {
            what.push(count(number, name));
        }
    }
    if erased.fork_count > 0 {
        what.push(format!("shared by {}", count(erased.fork_count, "fork")));
    }
    what.join(", ")
}

/// Asks a person; an error without a terminal, or if the answer is not yes.
pub(super) fn confirm(question: &str) -> anyhow::Result<()> {
    if !consent::can_be_asked() {
        return Err(Usage("nobody can be asked here: --yes erases without a question".to_owned()).into());
    }
    match consent::is_given(question)? {
        true => Ok(()),
        false => Err(Usage("nothing was erased".to_owned()).into()),
    }
}
