//! User interface of the demo: follows the session's events, and prints those that a user interface shows.

use crate::cli::compactions;
use crate::cli::detail::Detail;
use crate::cli::event_text::sentence;
use crate::cli::output::{Output, time_of_day};
use crate::pb;
use crate::pb::event::Body;
use crate::pb::subscribe_events_request::Start;
use crate::pb::subscribe_events_response::Frame;
use longhand_client::Client;
use std::time::Duration;
use tokio::sync::watch;

/// Maximum number of checks for the end of the last compaction.
const SETTLE_TRIES: u32 = 400;
/// Delay between two checks.
const SETTLE_INTERVAL: Duration = Duration::from_millis(25);

/// Events that the watcher received.
pub(super) struct WatchedEvents {
    /// The events, in the order of their arrival.
    pub(super) events: Vec<pb::Event>,
    /// The output that they were printed to.
    pub(super) output: Output,
}

/// Follows a session from its first event, until it has reached the revision in `last`, once that is set, and every
/// started compaction has ended.
pub(super) async fn follow(
    client: Client,
    session_id: String,
    mut last: watch::Receiver<Option<i64>>,
    mut output: Output,
) -> anyhow::Result<WatchedEvents> {
    let request = pb::SubscribeEventsRequest {
        session_ids: vec![session_id],
        start: Some(Start::FromBeginning(true)),
        ..pb::SubscribeEventsRequest::default()
    };
    let mut frames = client.follow(request);
    let mut events: Vec<pb::Event> = Vec::new();
    loop {
        let seen = events.last().map_or(0, |event| event.revision);
        if last.borrow_and_update().is_some_and(|last| seen >= last) && open_compactions(&events) == 0 {
            return Ok(WatchedEvents { events, output });
        }
        let response = tokio::select! {
            response = frames.next() => response?,
            changed = last.changed() => {
                changed?;
                continue;
            }
        };
        let Some(response) = response else { anyhow::bail!("the event stream ended") };
        let Some(Frame::Events(batch)) = response.frame else { continue };
        for event in batch.events {
            show(&mut output, &event)?;
            events.push(event);
        }
        output.flush()?;
    }
}

/// Waits until no compaction is pending. Returns the session's revision then.
pub(super) async fn wait_until_idle(client: &Client, session_id: &str) -> anyhow::Result<i64> {
    for _ in 0..SETTLE_TRIES {
        if !compactions::list_all(client, session_id).await?.iter().any(compactions::is_active) {
            let request = pb::GetSessionRequest { session_id: session_id.to_owned() };
            return Ok(client.call(request).await?.session.unwrap_or_default().revision);
        }
        tokio::time::sleep(SETTLE_INTERVAL).await;
    }
    anyhow::bail!("a compaction does not end")
}

/// Number of compactions that started and have not ended.
fn open_compactions(events: &[pb::Event]) -> i64 {
    let step = |event: &pb::Event| match &event.body {
        Some(Body::CompactionStarted(_)) => 1,
        Some(Body::Compacted(_) | Body::CompactionFailed(_) | Body::CompactionCancelled(_)) => -1,
        Some(_) | None => 0,
    };
    events.iter().map(step).sum()
}

fn show(output: &mut Output, event: &pb::Event) -> anyhow::Result<()> {
    if output.json() {
        return output.message(event);
    }
    if is_shown(event) {
        let time = time_of_day(event.event_time.as_ref());
        output.wrapped_line(
            &format!("  {time}  #{:<4} {}", event.revision, sentence(event, Detail::Brief)),
            "                      ",
        )?;
    }
    Ok(())
}

/// True for an event that a user interface shows by itself, and not only by its effect.
fn is_shown(event: &pb::Event) -> bool {
    match &event.body {
        Some(
            Body::SessionCreated(_)
            | Body::CompactionProposed(_)
            | Body::CompactionStarted(_)
            | Body::CompactionRetried(_)
            | Body::PartsPruned(_)
            | Body::Compacted(_)
            | Body::CompactionFailed(_)
            | Body::CompactionCancelled(_)
            | Body::CompactionUndone(_)
            | Body::CompactionRedone(_)
            | Body::RewriteUndone(_)
            | Body::RewriteRedone(_),
        ) => true,
        Some(_) | None => false,
    }
}
