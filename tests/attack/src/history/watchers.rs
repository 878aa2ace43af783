//! Watchers: they follow the log, lose their connection at random, and resume from their last cursor.

use super::client::Client;
use super::content;
use super::reasons;
use super::record::{Snapshot, Watched, count, lock};
use super::stores::store_of;
use longhand::pb;
use pb::event_service_client::EventServiceClient;
use pb::subscribe_events_request::Start;
use pb::subscribe_events_response::Frame;
use prost::Message as _;
use rand::Rng as _;
use rand::seq::IndexedRandom as _;
use std::time::{Duration, Instant};
use tonic::Status;

/// A stream, from a watcher's first connection on.
struct Stream {
    watched: Watched,
    /// The cursor to resume with; none before the first frame.
    at: Option<String>,
    start: Start,
    include_content: bool,
    include_deltas: bool,
    /// The snapshot of the session that is being received.
    snapshot: Option<Snapshot>,
    /// True if the snapshot is complete, or none was requested.
    is_begun: bool,
    /// True if the watcher handled only a part of a frame.
    must_reconnect: bool,
}

/// Main loop of a watcher: one stream after another, the last of them up to the end of the log.
pub(super) async fn run(mut client: Client) {
    while !client.shared.is_stopping() {
        let Some(mut stream) = begin(&mut client) else { return };
        let began = Instant::now();
        let timeout = Duration::from_millis(client.rng.random_range(2_000..15_000));
        while !is_done(&client, &stream) && (client.shared.is_stopping() || began.elapsed() < timeout) {
            connect(&mut client, &mut stream).await;
        }
        stream.watched.name.clone_from(&client.name);
        lock(&client.shared.record.watched).push(stream.watched);
        lock(&client.shared.record.snapshots).extend(stream.snapshot.filter(|_| stream.is_begun));
    }
}

/// True if the stream has reached the end of the log.
fn is_done(client: &Client, stream: &Stream) -> bool {
    let end = lock(&client.shared.end);
    let has_begun = stream.is_begun && stream.watched.after.is_some();
    has_begun && end.as_ref().is_some_and(|end| stream.watched.to.behind(end).is_none())
}

fn begin(client: &mut Client) -> Option<Stream> {
    const KINDS: [pb::EventKind; 10] = [
        pb::EventKind::MessageAppended,
        pb::EventKind::PartsClosed,
        pb::EventKind::Compacted,
        pb::EventKind::UsageRecorded,
        pb::EventKind::SessionArchived,
        pb::EventKind::CompactionStarted,
        pb::EventKind::RunEnded,
        pb::EventKind::PromptTaken,
        pb::EventKind::ApprovalEnded,
        pb::EventKind::Erased,
    ];
    let mut sessions = Vec::new();
    for _ in 0..client.rng.random_range(0..3) {
        sessions.push(client.some_session()?.id.clone());
    }
    sessions.sort();
    sessions.dedup();
    let mut kinds = Vec::new();
    if client.rng.random_bool(0.3) {
        for _ in 0..client.rng.random_range(1..4) {
            kinds.extend(KINDS.choose(&mut client.rng).map(|kind| i32::from(*kind)));
        }
    }
    let mut start = match client.rng.random_range(0..4) {
        0 if !sessions.is_empty() => Start::FromBeginning(true),
        1 | 2 if !sessions.is_empty() => Start::Snapshot(true),
        _ => Start::AfterCursor(String::new()),
    };
    if sessions.is_empty() && client.rng.random_bool(0.1) {
        start = Start::FromBeginning(true);
    }
    let mut root = String::new();
    if sessions.is_empty() && client.rng.random_bool(0.3) {
        root.clone_from(&client.some_session()?.id);
    }
    let is_begun = start != Start::Snapshot(true);
    Some(Stream {
        watched: Watched { sessions, root, kinds, ..Watched::default() },
        at: None,
        start,
        include_content: client.rng.random_bool(0.3),
        include_deltas: client.rng.random_bool(0.3),
        snapshot: None,
        is_begun,
        must_reconnect: false,
    })
}

/// Makes one connection, reads some frames, and drops it.
async fn connect(client: &mut Client, stream: &mut Stream) {
    client.shared.service.wait_until_up().await;
    count(&client.shared.record.counts.connections);
    stream.watched.connections += 1;
    let start = match (&stream.at, &stream.start) {
        (Some(cursor), _) => Some(Start::AfterCursor(cursor.clone())),
        (None, Start::AfterCursor(_)) => None,
        (None, start) => Some(start.clone()),
    };
    let is_snapshot = start == Some(Start::Snapshot(true));
    let request = pb::SubscribeEventsRequest {
        session_ids: stream.watched.sessions.clone(),
        root_session_id: Some(stream.watched.root.clone()).filter(|root| !root.is_empty()),
        kinds: stream.watched.kinds.clone(),
        start,
        progress_interval: Some(prost_types::Duration { seconds: 1, nanos: 0 }),
        include_content: stream.include_content,
        include_deltas: stream.include_deltas,
        ..pb::SubscribeEventsRequest::default()
    };
    if is_snapshot {
        stream.snapshot = None;
    }
    let deaths = client.shared.service.deaths();
    // An interrupted snapshot begins anew, and at the end of a round every stream must reach its end.
    let least = if client.shared.is_stopping() || !stream.is_begun { 4_000 } else { 20 };
    let timeout = Duration::from_millis(least + client.rng.random_range(0..2_000));
    let read = tokio::time::timeout(timeout, read(client, stream, request));
    match read.await {
        Err(_) | Ok(Ok(())) => {}
        Ok(Err(status)) => ended(client, stream, deaths, &status),
    }
}

/// Checks the end of a stream: the daemon stops or died, or there is a fault.
fn ended(client: &mut Client, stream: &mut Stream, deaths: u64, status: &Status) {
    let Some((refusal, wrong)) = reasons::refusal("SubscribeEvents", status) else {
        let is_local = std::error::Error::source(status).is_some();
        if !is_local && client.shared.service.deaths() == deaths {
            client.finding(format!("P14: a stream ended without a reason: {status:?}"));
        }
        return;
    };
    if !reasons::is_passing(&refusal.reason) {
        client.finding(format!("P6: a stream ended with {refusal:?}"));
    } else if let Some(cursor) = refusal.metadata.get("cursor")
        && stream.at.is_some()
        && stream.is_begun
        && client.rng.random_bool(0.5)
    {
        stream.at = Some(cursor.clone());
    }
    wrong.into_iter().for_each(|text| client.finding(text));
}

async fn read(client: &mut Client, stream: &mut Stream, request: pb::SubscribeEventsRequest) -> Result<(), Status> {
    let mut server =
        EventServiceClient::new(client.connection()).max_decoding_message_size(super::rpc::ANSWER_BYTES_MAX);
    let asked = client.shared.record.now();
    let mut frames = server.subscribe_events(request).await?.into_inner();
    let many = client.rng.random_range(1..60);
    let mut index = 0;
    while index < many || !stream.is_begun {
        let Some(response) = frames.message().await? else {
            return Err(Status::unknown("a stream ended without a word"));
        };
        client.shared.record.check_erased("SubscribeEvents", &response.encode_to_vec(), asked);
        match response.frame {
            Some(Frame::Ready(ready)) if index == 0 => ready_at(client, stream, &ready),
            Some(_) if index == 0 => client.finding("P6: a stream does not begin with Ready"),
            Some(Frame::Ready(_)) => client.finding("P6: a stream has two Ready frames"),
            Some(Frame::Events(batch)) => take(client, stream, batch),
            Some(Frame::Progress(progress)) => {
                let heads = client.shared.record.stores.heads(&progress.cursor);
                if let Some(store) = heads.behind(&stream.watched.to) {
                    client.finding(format!("P6: progress of store {store} goes back to {}", progress.cursor));
                }
                stream.watched.to.join(&heads);
                stream.at = Some(progress.cursor);
            }
            Some(Frame::SnapshotItem(item)) => snapshot_item(client, stream, item),
            Some(Frame::SnapshotEnd(end)) => {
                stream.is_begun = true;
                stream.at = Some(end.cursor);
            }
            Some(Frame::DraftDelta(_) | Frame::SummaryDelta(_) | Frame::PresenceChanged(_)) | None => {}
        }
        index += 1;
        if is_done(client, stream) || std::mem::take(&mut stream.must_reconnect) {
            return Ok(());
        }
    }
    Ok(())
}

fn ready_at(client: &Client, stream: &mut Stream, ready: &pb::Ready) {
    let snapshot = stream.start == Start::Snapshot(true);
    if stream.at.is_some() {
        return;
    }
    let heads = client.shared.record.stores.heads(&ready.cursor);
    stream.watched.to = if stream.start == Start::FromBeginning(true) { heads.begins() } else { heads };
    stream.watched.after = Some(stream.watched.to.clone());
    if !snapshot {
        // An interrupted snapshot begins anew.
        stream.at = Some(ready.cursor.clone());
    }
}

fn snapshot_item(client: &Client, stream: &mut Stream, item: pb::SnapshotItem) {
    use pb::snapshot_item::Item;
    if stream.is_begun {
        client.finding("P6: a piece of a snapshot comes behind its end");
    }
    match item.item {
        Some(Item::Session(state)) => {
            let whole = stream.snapshot.take();
            lock(&client.shared.record.snapshots).extend(whole);
            let session = state.session_id;
            let head_seq = stream.watched.to.of(client.shared.record.stores.of(&session));
            stream.snapshot = Some(Snapshot { session, head_seq, ..Snapshot::default() });
        }
        Some(Item::Run(run)) => stream.snapshot.iter_mut().for_each(|snapshot| snapshot.run = Some(run.run_id.clone())),
        Some(Item::Prompt(prompt)) => {
            stream.snapshot.iter_mut().for_each(|snapshot| snapshot.prompts.push(prompt.prompt_id.clone()));
        }
        Some(Item::Approval(approval)) => {
            stream.snapshot.iter_mut().for_each(|snapshot| snapshot.approvals.push(approval.approval_id.clone()));
        }
        Some(Item::Message(message)) => match &mut stream.snapshot {
            Some(snapshot) => snapshot.messages.push(message),
            None => client.finding("P6: a message of a snapshot comes before its session"),
        },
        _ => {}
    }
}

fn take(client: &mut Client, stream: &mut Stream, batch: pb::EventBatch) {
    if !stream.is_begun {
        client.finding("P6: events come before the end of the snapshot");
    }
    let pb::EventBatch { mut events, cursor, more } = batch;
    let record = &client.shared.record;
    let mut before = stream.at.as_ref().map(|at| record.stores.heads(at)).unwrap_or_default();
    record.number_events(&mut before, &mut events);
    // A client that stops in the middle of a frame resumes after the event that it handled last.
    let whole = events.len() < 2 || client.rng.random_bool(0.8);
    let handled = if whole { events.len() } else { client.rng.random_range(1..events.len()) };
    let watched = &mut stream.watched;
    for event in &events[..handled] {
        if event.seq <= watched.to.of(store_of(event.seq)) {
            client.finding(format!("P6: event {} comes again or late, behind {:?}", event.seq, watched.to));
        }
        if !watched.sessions.is_empty() && !watched.sessions.contains(&event.session_id) {
            client.finding(format!("P6: event {} of a session that nobody asked for", event.seq));
        }
        if let (Some(message), Some(pb::event::Body::MessageAppended(appended))) = (&event.message, &event.body)
            && message.message_id != appended.message_id
        {
            client.finding(format!("P6: event {} comes with another event's message", event.seq));
        }
        watched.to.note(event.seq);
        watched.events.push((event.seq, content::event(event)));
    }
    if whole && !more {
        watched.frame_ends.extend(events.last().map(|event| event.seq));
    }
    stream.at = Some(if whole { cursor } else { events[handled - 1].cursor.clone() });
    if !whole {
        stream.must_reconnect = true;
    }
}
