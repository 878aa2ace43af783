//! `longhand expand`: prints the originals behind an id of a view.

use super::{Globals, ids, message_text};
use crate::pb;
use std::process::ExitCode;

/// Messages requested per page.
const PAGE_SIZE: i32 = 200;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Session, by id, client id, or the last or first digits of its id
    session: String,
    /// Id in the view: of a message (or its client id), a part, a compaction or its summary
    id: String,
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut output = globals.output();
    let request = pb::ExpandMessageRequest {
        session_id: ids::session(&client, &arguments.session).await?,
        id: arguments.id,
        page_size: PAGE_SIZE,
        page_token: String::new(),
    };
    let mut pages = client.pages(request);
    while let Some(page) = pages.next().await? {
        for message in &page.messages {
            if output.json() {
                output.message(message)?;
            } else {
                message_text::print(&mut output, message, true)?;
            }
        }
        output.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}
