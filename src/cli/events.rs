//! `longhand events`: lists committed changes in order, and follows new ones.

use super::event_text::sentence;
use super::failure::Usage;
use super::output::{Output, time_of_day};
use super::{Client, Globals};
use crate::pb;
use crate::pb::subscribe_events_request::Start;
use crate::pb::subscribe_events_response::Frame;
use anyhow::Context;
use std::process::ExitCode;

/// Events requested per page.
const PAGE_SIZE: i32 = 500;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Only this session, by id or client id
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Only events after this cursor
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// Continue with new events
    #[arg(long)]
    follow: bool,
    /// Only new events; implies --follow
    #[arg(long, conflicts_with = "after")]
    new: bool,
    /// Include the messages of events; only in JSON
    #[arg(long)]
    content: bool,
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    if arguments.content && !globals.json {
        return Err(
            Usage("--content needs --json; `longhand replay SESSION` prints content for people".to_owned()).into()
        );
    }
    let client = globals.client().await?;
    let mut output = globals.output();
    if arguments.follow || arguments.new {
        follow(client, arguments, &mut output).await
    } else {
        list(client, arguments, &mut output).await
    }
}

async fn list(mut client: Client, arguments: Arguments, output: &mut Output) -> anyhow::Result<ExitCode> {
    let mut request = pb::ListEventsRequest {
        session_id: arguments.session,
        after_cursor: arguments.after.unwrap_or_default(),
        page_size: PAGE_SIZE,
        include_content: arguments.content,
        ..pb::ListEventsRequest::default()
    };
    loop {
        let page = client.events.list_events(request.clone()).await?.into_inner();
        page.events.iter().try_for_each(|event| print(output, event))?;
        output.flush()?;
        if page.next_cursor.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        request.after_cursor = page.next_cursor;
    }
}

async fn follow(mut client: Client, arguments: Arguments, output: &mut Output) -> anyhow::Result<ExitCode> {
    let start = match (arguments.new, arguments.after) {
        (true, _) => None,
        (false, Some(cursor)) => Some(Start::AfterCursor(cursor)),
        (false, None) => Some(Start::FromBeginning(true)),
    };
    let request = pb::SubscribeEventsRequest {
        session_ids: arguments.session.into_iter().collect(),
        start,
        include_content: arguments.content,
        ..pb::SubscribeEventsRequest::default()
    };
    let mut frames = client.events.subscribe_events(request).await?.into_inner();
    let mut cursor = String::new();
    loop {
        let response = frames.message().await.with_context(|| resume(&cursor))?;
        let Some(response) = response else { anyhow::bail!("{}", resume(&cursor)) };
        match response.frame {
            Some(Frame::Ready(ready)) => cursor = ready.cursor,
            Some(Frame::Progress(progress)) => cursor = progress.cursor,
            Some(Frame::Events(batch)) => {
                batch.events.iter().try_for_each(|event| print(output, event))?;
                output.flush()?;
                cursor = batch.cursor;
            }
            Some(Frame::SnapshotItem(_) | Frame::SnapshotEnd(_) | Frame::Live(_) | Frame::Summary(_)) | None => {}
        }
    }
}

/// Error message for the end of a stream, which ends only with the daemon.
fn resume(cursor: &str) -> String {
    if cursor.is_empty() {
        return "the stream did not begin".to_owned();
    }
    format!("the stream ended, `--after {cursor}` resumes it")
}

fn print(output: &mut Output, event: &pb::Event) -> anyhow::Result<()> {
    if output.json() {
        return output.message(event);
    }
    let time = time_of_day(event.event_time.as_ref());
    let actor = if event.actor.is_empty() { "-" } else { &event.actor };
    let line = format!(
        "{:>6}  {time}  {} #{:<5} {actor:<10} {}",
        event.seq,
        event.session_id,
        event.revision,
        sentence(event)
    );
    Ok(output.line(&line)?)
}
