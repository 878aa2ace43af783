//! `longhand sessions`: lists sessions, or follows the list.

use super::Globals;
use super::failure::note;
use super::ids::{self, Ids};
use super::output::{Output, dollars, one_line};
use super::table::{Column, Table};
use super::times::{self, Times};
use crate::clock::Clock;
use crate::grpc::wire;
use crate::model::time::Timestamp;
use crate::pb;
use longhand_client::Client;
use pb::watch_sessions_response::Frame;
use std::process::ExitCode;

/// Sessions requested per page.
const PAGE_SIZE: i32 = 200;
/// Number of sessions that a terminal shows without a limit.
const SHOWN_DEFAULT: usize = 50;

/// The order of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Order {
    /// By creation, the newest first
    Newest,
    /// By creation, the oldest first
    Oldest,
    /// By last change, the newest change first
    Changed,
    /// By last change, the oldest change first
    Unchanged,
}

/// A state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum State {
    /// Takes writes
    Active,
    /// Is archived
    Archived,
    /// Is erased
    Erased,
}

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    conditions: Conditions,
    /// Order of the list
    #[arg(long, value_enum, default_value_t = Order::Newest)]
    order: Order,
    /// Only the first sessions, at most this many
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// With --json, each session with its policy
    #[arg(long)]
    policies: bool,
    /// Go on with each session that comes, changes or leaves the list, until interrupted
    #[arg(long, conflicts_with_all = ["limit", "order", "policies"])]
    watch: bool,
}

/// Which sessions are listed. TIME is an age such as 2h or 3d, a date, or RFC 3339.
#[derive(Debug, clap::Args)]
struct Conditions {
    /// Only the children of this session
    #[arg(long, value_name = "SESSION")]
    children: Option<String>,
    /// Only this session and those that work for it or were forked from it, at any depth
    #[arg(long, value_name = "SESSION")]
    tree: Option<String>,
    /// Include archived sessions
    #[arg(long)]
    archived: bool,
    /// Only sessions in this state
    #[arg(long, value_enum)]
    state: Option<State>,
    /// Only sessions of this project, by their metadata
    #[arg(long)]
    project: Option<String>,
    /// Only sessions in this directory or below it, by `cwd` in their metadata
    #[arg(long)]
    directory: Option<String>,
    /// Only sessions with this label; several must all be there
    #[arg(long, value_name = "LABEL")]
    label: Vec<String>,
    /// Only sessions whose metadata have this member, or this value of it
    #[arg(long, value_name = "KEY[=VALUE]")]
    metadata: Vec<String>,
    /// Only sessions that this actor made
    #[arg(long, value_name = "ACTOR")]
    made_by: Option<String>,
    /// Only sessions whose title begins like this
    #[arg(long, value_name = "PREFIX")]
    title: Option<String>,
    /// Only sessions whose client id begins like this
    #[arg(long, value_name = "PREFIX")]
    client_id: Option<String>,
    /// Only sessions that changed since this time: an age such as 2h or 3d, a date, or RFC 3339
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only sessions that did not change since this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only sessions with messages that were written since this time, elsewhere or here
    #[arg(long, value_name = "TIME")]
    written_since: Option<String>,
    /// Only sessions with messages that were written before this time, elsewhere or here
    #[arg(long, value_name = "TIME")]
    written_before: Option<String>,
    /// Only sessions that were made since this time
    #[arg(long, value_name = "TIME")]
    made_since: Option<String>,
    /// Only sessions that were made before this time
    #[arg(long, value_name = "TIME")]
    made_before: Option<String>,
}

impl Conditions {
    /// The parent, and the other conditions.
    async fn into_filter(self, client: &Client, now: Timestamp) -> anyhow::Result<(Option<String>, pb::SessionFilter)> {
        let time = |text: Option<String>| {
            text.map(|text| times::instant(&text, now)).transpose().map(|time| time.map(wire::timestamp))
        };
        let state = match self.state {
            None => pb::SessionState::Unspecified,
            Some(State::Active) => pb::SessionState::Active,
            Some(State::Archived) => pb::SessionState::Archived,
            Some(State::Erased) => pb::SessionState::Erased,
        };
        let filter = pb::SessionFilter {
            project: self.project,
            directory: self.directory,
            metadata_terms: self.metadata,
            labels: self.label,
            actor: self.made_by,
            state: state.into(),
            title_prefix: self.title.unwrap_or_default(),
            client_id_prefix: self.client_id.unwrap_or_default(),
            min_create_time: time(self.made_since)?,
            max_create_time: time(self.made_before)?,
            min_update_time: time(self.since)?,
            max_update_time: time(self.until)?,
            min_origin_time: time(self.written_since)?,
            max_origin_time: time(self.written_before)?,
            root_session_id: ids::optional_session(client, self.tree).await?,
        };
        Ok((ids::optional_session(client, self.children).await?, filter))
    }
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let Arguments { conditions, order, limit, policies, watch } = arguments;
    let client = globals.client().await?;
    let mut output = globals.output();
    let include_archived = conditions.archived;
    let (parent_session_id, filter) = conditions.into_filter(&client, Clock::default().now()).await?;
    let filter = Some(filter);
    if watch {
        let request =
            pb::WatchSessionsRequest { parent_session_id, include_archived, filter, after_cursor: String::new() };
        return follow(&client, &mut output, request).await;
    }
    let order = match order {
        Order::Newest => pb::SessionOrder::NewestFirst,
        Order::Oldest => pb::SessionOrder::OldestFirst,
        Order::Changed => pb::SessionOrder::LastChangedFirst,
        Order::Unchanged => pb::SessionOrder::LastChangedLast,
    };
    let detail = if policies { pb::SessionDetail::Full } else { pb::SessionDetail::Basic };
    let mut request = pb::ListSessionsRequest {
        page_size: PAGE_SIZE,
        page_token: String::new(),
        parent_session_id,
        include_archived,
        filter,
        order: order.into(),
        detail: detail.into(),
        include_page_tokens: false,
    };
    // A page of a terminal; in a pipe nothing is left out.
    let most = if output.columns().is_some() && !output.json() { SHOWN_DEFAULT } else { usize::MAX };
    let most = limit.map_or(most, |limit| limit as usize);
    let (mut sessions, mut listed) = (Vec::new(), 0);
    let has_more = loop {
        let page = client.call(request.clone()).await?;
        let has_more = page.sessions.len() > most - listed || !page.next_page_token.is_empty();
        let chosen: Vec<pb::Session> = page.sessions.into_iter().take(most - listed).collect();
        listed += chosen.len();
        if output.json() {
            chosen.iter().try_for_each(|session| output.message(session))?;
        } else {
            sessions.extend(chosen);
        }
        if !has_more || listed == most {
            break has_more;
        }
        request.page_token = page.next_page_token;
    };
    if !output.json() {
        print(&mut output, &sessions)?;
        if has_more && limit.is_none() {
            note(&format!("more sessions: --limit COUNT prints more than {most}"));
        }
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn print(output: &mut Output, sessions: &[pb::Session]) -> anyhow::Result<()> {
    let ids = if output.columns().is_some() { Ids::short(related_ids(sessions)) } else { Ids::Whole };
    Ok(table(sessions, ids, Globals::times(output)).print(output)?)
}

/// Prints the list, and then a line for each change of it; as JSON the frames of the stream.
async fn follow(client: &Client, output: &mut Output, request: pb::WatchSessionsRequest) -> anyhow::Result<ExitCode> {
    let mut frames = client.follow(request);
    let mut snapshot = Vec::new();
    while let Some(response) = frames.next().await? {
        if output.json() {
            output.message(&response)?;
        } else {
            match response.frame {
                Some(Frame::SnapshotPage(listed)) => snapshot.extend(listed.sessions),
                Some(Frame::SnapshotEnd(_)) => print(output, &std::mem::take(&mut snapshot))?,
                Some(Frame::Change(changes)) => {
                    for session in &changes.changed_sessions {
                        output.line(&session_line(session))?;
                    }
                    for id in &changes.removed_session_ids {
                        output.line(&format!("- {id}"))?;
                    }
                }
                Some(Frame::Progress(_)) | None => {}
            }
        }
        output.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A line about a session of the list.
fn session_line(session: &pb::Session) -> String {
    let labels = session.labels.iter().map(|label| format!(" [{label}]")).collect::<String>();
    let messages = super::output::count(session.message_count, "message");
    let title = one_line(&session.title);
    format!("+ {} revision {}, {messages}{labels} {title}", session.session_id, session.revision).trim_end().to_owned()
}

/// Ids of the sessions, of their parents and of the origins of forks.
fn related_ids(sessions: &[pb::Session]) -> impl Iterator<Item = &str> + Clone {
    sessions.iter().flat_map(|session| {
        let others = [&session.parent_session_id, &session.source_session_id].into_iter().flatten();
        std::iter::once(&session.session_id).chain(others).map(String::as_str)
    })
}

fn table(sessions: &[pb::Session], ids: Ids, times: Times) -> Table {
    let has_origins = sessions.iter().any(|session| session.origin_end_time.is_some());
    let mut columns = vec![
        Column::word("SESSION"),
        Column::number("MESSAGES").optional(1),
        Column::number("TOKENS"),
        Column::number("WINDOW").optional(3),
        Column::number("REVISION").optional(4),
        Column::number("COST").optional(5),
        Column::word("PRESET").optional(2),
        Column::word("CHANGED"),
        Column::text("LABELS").optional(6),
        Column::text("TITLE"),
    ];
    if has_origins {
        columns.insert(8, Column::word("WRITTEN"));
    }
    let mut table = Table::new(&columns);
    for session in sessions {
        let window = session.window.as_ref().map_or(0, |window| window.max_context_tokens);
        let mut cells = vec![
            ids.text(&session.session_id).to_owned(),
            session.message_count.to_string(),
            session.context_tokens.map_or_else(|| "-".to_owned(), |tokens| tokens.to_string()),
            if window > 0 { window.to_string() } else { "-".to_owned() },
            session.revision.to_string(),
            cost(session),
            session.preset.clone(),
            times.text(session.update_time.as_ref()),
            if session.labels.is_empty() { "-".to_owned() } else { session.labels.join(",") },
            format!("{}{}", one_line(&session.title), relation(session, ids)),
        ];
        if has_origins {
            let written = session.origin_end_time.as_ref();
            cells.insert(8, written.map_or_else(|| "-".to_owned(), |time| times.text(Some(time))));
        }
        table.row(cells);
    }
    table
}

/// The cost of a session's replies, as far as it was reported.
fn cost(session: &pb::Session) -> String {
    match session.usage_total.as_ref().map_or(0, |totals| totals.cost_micro_usd) {
        0 => "-".to_owned(),
        micros => dollars(micros),
    }
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
