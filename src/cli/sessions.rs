//! `longhand sessions`: lists sessions.

use super::Globals;
use super::ids::{self, Ids};
use super::output::one_line;
use super::table::{Column, Table};
use super::times::{self, Times, is_since};
use crate::clock::Clock;
use crate::pb;
use std::process::ExitCode;

/// Sessions requested per page.
const PAGE_SIZE: i32 = 200;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Only the children of this session
    #[arg(long, value_name = "SESSION")]
    children: Option<String>,
    /// Include archived sessions
    #[arg(long)]
    archived: bool,
    /// Only the newest sessions, at most this many
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Only sessions that changed since this time: an age such as 2h or 3d, a date, or RFC 3339
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let now = Clock::default().now();
    let since = arguments.since.map(|since| times::instant(&since, now)).transpose()?;
    let limit = arguments.limit.map_or(usize::MAX, |limit| limit as usize);
    let mut client = globals.client().await?;
    let mut output = globals.output();
    let mut request = pb::ListSessionsRequest {
        page_size: PAGE_SIZE,
        page_token: String::new(),
        parent_session_id: ids::optional_session(&mut client, arguments.children).await?,
        include_archived: arguments.archived,
    };
    let (mut sessions, mut listed) = (Vec::new(), 0);
    loop {
        let page = client.sessions.list_sessions(request.clone()).await?.into_inner();
        let chosen = page.sessions.into_iter().filter(|session| is_since(session.update_time.as_ref(), since));
        let remaining = limit - listed;
        let chosen: Vec<pb::Session> = chosen.take(remaining).collect();
        listed += chosen.len();
        if output.json() {
            chosen.iter().try_for_each(|session| output.message(session))?;
        } else {
            sessions.extend(chosen);
        }
        if page.next_page_token.is_empty() || listed == limit {
            break;
        }
        request.page_token = page.next_page_token;
    }
    if !output.json() {
        let ids = if output.columns().is_some() { Ids::short(related(&sessions)) } else { Ids::Whole };
        table(&sessions, ids, Globals::times(&output)).print(&mut output)?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Ids of the sessions, of their parents and of the origins of forks.
fn related(sessions: &[pb::Session]) -> impl Iterator<Item = &str> + Clone {
    sessions.iter().flat_map(|session| {
        let others = [&session.parent_session_id, &session.source_session_id].into_iter().flatten();
        std::iter::once(&session.session_id).chain(others).map(String::as_str)
    })
}

fn table(sessions: &[pb::Session], ids: Ids, times: Times) -> Table {
    let mut table = Table::new(&[
        Column::word("SESSION"),
        Column::number("MESSAGES").optional(1),
        Column::number("TOKENS"),
        Column::number("WINDOW").optional(3),
        Column::number("REVISION").optional(4),
        Column::word("PRESET").optional(2),
        Column::word("CHANGED"),
        Column::text("TITLE"),
    ]);
    for session in sessions {
        let window = session.window.as_ref().map_or(0, |window| window.max_context_tokens);
        table.row(vec![
            ids.text(&session.session_id).to_owned(),
            session.message_count.to_string(),
            session.context_tokens.map_or_else(|| "-".to_owned(), |tokens| tokens.to_string()),
            if window > 0 { window.to_string() } else { "-".to_owned() },
            session.revision.to_string(),
            session.preset.clone(),
            times.text(session.update_time.as_ref()),
            format!("{}{}", one_line(&session.title), relation(session, ids)),
        ]);
    }
    table
}

/// Suffix of a title: archived state, and the parent or the origin of the fork.
fn relation(session: &pb::Session, ids: Ids) -> String {
    let archived = match session.state() {
        pb::SessionState::Archived => " (archived)",
        pb::SessionState::Erased => " (erased)",
        pb::SessionState::Active | pb::SessionState::Unspecified => "",
    };
    match (&session.parent_session_id, &session.source_session_id) {
        (_, Some(original)) => format!("{archived} (fork of {})", ids.text(original)),
        (Some(parent), None) => format!("{archived} (child of {})", ids.text(parent)),
        (None, None) => archived.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_parent_and_state_of_its_session() {
        let session = pb::Session {
            session_id: "ses_1".into(),
            title: "t".into(),
            source_session_id: Some("ses_0".into()),
            state: pb::SessionState::Archived.into(),
            ..pb::Session::default()
        };
        let lines = table(&[session], Ids::Whole, Times::Absolute).lines(None);
        assert!(lines[1].starts_with("ses_1") && lines[1].ends_with("t (archived) (fork of ses_0)"), "{lines:?}");
    }
}
