//! `longhand show`: prints the original history.

use super::output::Output;
use super::{Globals, ids, message_text};
use crate::limits;
use crate::pb;
use longhand_client::Client;
use std::process::ExitCode;

/// Messages requested per page.
const PAGE_SIZE: i32 = 200;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Session, by id, client id, or the last or first digits of its id
    session: String,
    /// Only these messages, in this order, by id, client id or revision
    #[arg(conflicts_with_all = ["derived", "as_of"])]
    messages: Vec<String>,
    /// Print records in full
    #[arg(long)]
    records: bool,
    /// Include summaries and markers
    #[arg(long)]
    derived: bool,
    /// Only messages whose client id begins with this, in the order of their client ids
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true, conflicts_with = "messages")]
    client_id_prefix: String,
    /// Revision of the history; default: the newest
    #[arg(long, value_name = "REVISION")]
    as_of: Option<i64>,
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut output = globals.output();
    let session_id = ids::session(&client, &arguments.session).await?;
    if !arguments.messages.is_empty() {
        return print_named(&client, &mut output, session_id, arguments).await;
    }
    let request = pb::ListMessagesRequest {
        session_id,
        page_size: PAGE_SIZE,
        page_token: String::new(),
        reverse: false,
        as_of_revision: arguments.as_of,
        include_derived: arguments.derived,
        exclude_records: false,
        client_id_prefix: arguments.client_id_prefix.clone(),
    };
    let mut pages = client.pages(request);
    while let Some(page) = pages.next().await? {
        print(&mut output, &page.messages, arguments.records)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints messages by their ids, as many of them with each request as an answer has.
async fn print_named(
    client: &Client,
    output: &mut Output,
    session_id: String,
    arguments: Arguments,
) -> anyhow::Result<ExitCode> {
    let mut ids = Vec::with_capacity(arguments.messages.len());
    for message in &arguments.messages {
        ids.push(ids::message(client, &session_id, message).await?);
    }
    while !ids.is_empty() {
        let later = ids.split_off(ids.len().min(limits::BATCH_GET_MESSAGES_MAX));
        let request = pb::BatchGetMessagesRequest { session_id: session_id.clone(), message_ids: ids };
        let batch = client.call(request).await?;
        print(output, &batch.messages, arguments.records)?;
        ids = batch.remaining_message_ids.into_iter().chain(later).collect();
    }
    Ok(ExitCode::SUCCESS)
}

fn print(output: &mut Output, messages: &[pb::Message], whole_records: bool) -> anyhow::Result<()> {
    for message in messages {
        match output.json() {
            true => output.message(message)?,
            false => message_text::print(output, message, whole_records)?,
        }
    }
    Ok(output.flush()?)
}
