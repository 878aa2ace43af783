//! `longhand events`: lists committed changes in order, and follows new ones.

use super::detail::Detail;
use super::event_text::{sentence, style};
use super::failure::Usage;
use super::ids::short;
use super::output::{Output, clock_time, time_of_day};
use super::times::{self, is_since};
use super::{Globals, ids};
use crate::clock::Clock;
use crate::model::time::Timestamp;
use crate::pb;
use crate::pb::subscribe_events_request::Start;
use crate::pb::subscribe_events_response::Frame;
use anyhow::Context;
use longhand_client::Client;
use std::collections::VecDeque;
use std::process::ExitCode;

/// Events requested per page.
const PAGE_SIZE: i32 = 500;
/// Maximum of `--limit`: so many events are held in memory.
const LIMIT_MAX: i64 = 100_000;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Only this session, by id, client id, or the last or first digits of its id
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Only events after this cursor
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// Continue with new events
    #[arg(long)]
    follow: bool,
    /// Only new events; implies --follow
    #[arg(long, conflicts_with_all = ["after", "limit", "since"])]
    new: bool,
    /// Only the newest events, at most this many, and with --follow those that come after them
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=LIMIT_MAX))]
    limit: Option<u32>,
    /// Only events since this time: an age such as 2h or 3d, a date, or RFC 3339
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Include the messages of events; only in JSON
    #[arg(long)]
    content: bool,
}

pub(super) async fn run(globals: &Globals, mut arguments: Arguments) -> anyhow::Result<ExitCode> {
    if arguments.content && !globals.json {
        return Err(
            Usage("--content needs --json; `longhand replay SESSION` prints content for people".to_owned()).into()
        );
    }
    let since = arguments.since.as_deref().map(|since| times::instant(since, Clock::default().now())).transpose()?;
    let client = globals.client().await?;
    let mut output = globals.output();
    let session = ids::optional_session(&client, arguments.session.take()).await?;
    let is_listed = arguments.limit.is_some() || !(arguments.follow || arguments.new);
    if is_listed {
        let cursor = list(&client, session.clone(), &arguments, since, &mut output).await?;
        arguments.after = cursor.or(arguments.after);
    }
    if arguments.follow || arguments.new {
        return follow(client, session, arguments, since, &mut output).await;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints past events. Returns the cursor after the last of them, if there are any.
async fn list(
    client: &Client,
    session_id: Option<String>,
    arguments: &Arguments,
    since: Option<Timestamp>,
    output: &mut Output,
) -> anyhow::Result<Option<String>> {
    let mut request = pb::ListEventsRequest {
        session_id,
        after_cursor: arguments.after.clone().unwrap_or_default(),
        page_size: PAGE_SIZE,
        include_content: arguments.content,
        ..pb::ListEventsRequest::default()
    };
    let mut newest = VecDeque::new();
    let mut cursor = None;
    loop {
        let page = client.call(request.clone()).await?;
        cursor = page.events.last().map(|event| event.cursor.clone()).or(cursor);
        let chosen = page.events.into_iter().filter(|event| is_since(event.event_time.as_ref(), since));
        match arguments.limit {
            Some(limit) => {
                newest.extend(chosen);
                newest.drain(..newest.len().saturating_sub(limit as usize));
            }
            None => {
                chosen.into_iter().try_for_each(|event| print(output, &event))?;
                output.flush()?;
            }
        }
        if page.next_cursor.is_empty() {
            break;
        }
        request.after_cursor = page.next_cursor;
    }
    newest.iter().try_for_each(|event| print(output, event))?;
    output.flush()?;
    Ok(cursor)
}

async fn follow(
    client: Client,
    session: Option<String>,
    arguments: Arguments,
    since: Option<Timestamp>,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let start = match (arguments.new, arguments.after) {
        (true, _) => None,
        (false, Some(cursor)) => Some(Start::AfterCursor(cursor)),
        (false, None) => Some(Start::FromBeginning(true)),
    };
    let mut frames = client.follow(pb::SubscribeEventsRequest {
        session_ids: session.into_iter().collect(),
        start,
        include_content: arguments.content,
        ..pb::SubscribeEventsRequest::default()
    });
    frames.begin().await?;
    loop {
        let response = frames.next().await.with_context(|| resume(frames.request()))?;
        let Some(response) = response else { anyhow::bail!("{}", resume(frames.request())) };
        if let Some(Frame::Events(batch)) = response.frame {
            let mut chosen = batch.events.iter().filter(|event| is_since(event.event_time.as_ref(), since));
            chosen.try_for_each(|event| print(output, event))?;
            output.flush()?;
        }
    }
}

/// Error message for the end of a stream, which ends only with the daemon.
fn resume(request: &pb::SubscribeEventsRequest) -> String {
    match &request.start {
        Some(Start::AfterCursor(cursor)) => format!("the stream ended, `--after {cursor}` resumes it"),
        _ => "the stream did not begin".to_owned(),
    }
}

fn print(output: &mut Output, event: &pb::Event) -> anyhow::Result<()> {
    if output.json() {
        return output.message(event);
    }
    if output.columns().is_some() {
        let (time, session) = (clock_time(event.event_time.as_ref()), short(&event.session_id));
        let lead = format!("{:>6}  {time}  {session}  #{:<5} ", event.seq, event.revision);
        let actor = if event.actor.is_empty() { String::new() } else { format!(" ({})", event.actor) };
        return Ok(output.line_beside(&lead, style(event), &format!("{}{actor}", sentence(event, Detail::Brief)))?);
    }
    let time = time_of_day(event.event_time.as_ref());
    let actor = if event.actor.is_empty() { "-" } else { &event.actor };
    let line = format!(
        "{:>6}  {time}  {} #{:<5} {actor:<10} {}",
        event.seq,
        event.session_id,
        event.revision,
        sentence(event, Detail::Full)
    );
    Ok(output.line(&line)?)
}
