//! `longhand sessions`: lists sessions.

use super::Globals;
use super::output::{Align, Table, shorten, time};
use crate::pb;
use std::process::ExitCode;

/// Sessions requested per page.
const PAGE_SIZE: i32 = 200;
/// Maximum width of a title in the table, in characters.
const TITLE_WIDTH: usize = 48;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Only the children of this session
    #[arg(long, value_name = "SESSION")]
    children: Option<String>,
    /// Include archived sessions
    #[arg(long)]
    archived: bool,
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut client = globals.client().await?;
    let mut output = globals.output();
    let mut request = pb::ListSessionsRequest {
        page_size: PAGE_SIZE,
        page_token: String::new(),
        parent_session_id: arguments.children,
        include_archived: arguments.archived,
    };
    let mut sessions = Vec::new();
    loop {
        let page = client.sessions.list_sessions(request.clone()).await?.into_inner();
        if output.json() {
            page.sessions.iter().try_for_each(|session| output.message(session))?;
        } else {
            sessions.extend(page.sessions);
        }
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    if !output.json() {
        table(&sessions).print(&mut output)?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn table(sessions: &[pb::Session]) -> Table {
    let mut table = Table::new(&[
        ("SESSION", Align::Left),
        ("MESSAGES", Align::Right),
        ("TOKENS", Align::Right),
        ("WINDOW", Align::Right),
        ("REVISION", Align::Right),
        ("PRESET", Align::Left),
        ("CHANGED", Align::Left),
        ("TITLE", Align::Left),
    ]);
    for session in sessions {
        let window = session.window.as_ref().map_or(0, |window| window.context_tokens);
        table.row(vec![
            session.session_id.clone(),
            session.message_count.to_string(),
            session.context_tokens.map_or_else(|| "-".to_owned(), |tokens| tokens.to_string()),
            if window > 0 { window.to_string() } else { "-".to_owned() },
            session.revision.to_string(),
            session.preset.clone(),
            time(session.update_time.as_ref()),
            format!("{}{}", shorten(&session.title, TITLE_WIDTH), relation(session)),
        ]);
    }
    table
}

/// Suffix of a title: archived state, and the parent or the origin of the fork.
fn relation(session: &pb::Session) -> String {
    let archived = if session.state() == pb::SessionState::Archived { " (archived)" } else { "" };
    match (&session.parent_session_id, &session.fork_session_id) {
        (_, Some(original)) => format!("{archived} (fork of {original})"),
        (Some(parent), None) => format!("{archived} (child of {parent})"),
        (None, None) => archived.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_what_the_session_is_to_others() {
        let session = pb::Session {
            session_id: "ses_1".into(),
            title: "t".into(),
            fork_session_id: Some("ses_0".into()),
            state: pb::SessionState::Archived.into(),
            ..pb::Session::default()
        };
        let lines = table(&[session]).lines();
        assert!(lines[1].starts_with("ses_1") && lines[1].ends_with("t (archived) (fork of ses_0)"), "{lines:?}");
    }
}
