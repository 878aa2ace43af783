//! `longhand show`: prints the original history.

use super::{Globals, ids, message_text};
use crate::pb;
use std::process::ExitCode;

/// Messages requested per page.
const PAGE_SIZE: i32 = 200;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Session, by id, client id, or the last or first digits of its id
    session: String,
    /// Print records in full
    #[arg(long)]
    records: bool,
    /// Include summaries and markers
    #[arg(long)]
    derived: bool,
    /// Revision of the history; default: the newest
    #[arg(long, value_name = "REVISION")]
    as_of: Option<i64>,
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut client = globals.client().await?;
    let mut output = globals.output();
    let mut request = pb::ListMessagesRequest {
        session_id: ids::session(&mut client, &arguments.session).await?,
        page_size: PAGE_SIZE,
        page_token: String::new(),
        reverse: false,
        as_of_revision: arguments.as_of,
        include_derived: arguments.derived,
        exclude_records: false,
    };
    loop {
        let page = client.messages.list_messages(request.clone()).await?.into_inner();
        for message in &page.messages {
            if output.json() {
                output.message(message)?;
            } else {
                message_text::print(&mut output, message, arguments.records)?;
            }
        }
        output.flush()?;
        if page.next_page_token.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        request.page_token = page.next_page_token;
    }
}
