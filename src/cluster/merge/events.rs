//! Events of all shards as one stream. Each shard's events are in their order; between shards there is none.

use super::cursor::Positions;
use super::shard::{Shard, client};
use crate::cluster::Cluster;
use crate::cluster::call::Call;
use crate::cluster::reply;
use crate::limits;
use crate::pb;
use crate::pb::event_service_client::EventServiceClient;
use crate::pb::subscribe_events_request::Start;
use crate::pb::subscribe_events_response::Frame;
use futures::StreamExt as _;
use futures::future::try_join_all;
use futures::stream::{self, BoxStream, SelectAll, select_all};
use http::Response;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::{Code, Status, Streaming};

type Client = EventServiceClient<Shard>;
/// The frames of a shard, with its name.
type Frames = BoxStream<'static, (String, Result<pb::SubscribeEventsResponse, Status>)>;

/// A page of past events: of each shard in its order, and those of several shards by their times.
pub(super) async fn list(cluster: Arc<Cluster>, call: Call) -> Result<Response<Body>, Status> {
    let request: pb::ListEventsRequest = call.opened.as_message();
    if let Some(session) = request.session_id.clone() {
        return cluster.at_session(&session, call).await;
    }
    let mut positions = match request.after_cursor.is_empty() {
        true => Positions::default(),
        false => Positions::read(&request.after_cursor)?,
    };
    let ask = |shard: Shard| {
        let after_cursor = positions.0.get(&shard.name).cloned().unwrap_or_default();
        let request = pb::ListEventsRequest { after_cursor, ..request.clone() };
        async move { Ok::<_, Status>((shard.name.clone(), client!(Client, shard).list_events(request).await?.into_inner())) }
    };
    let pages = try_join_all(Shard::all(&cluster, &call).into_iter().map(ask)).await?;
    let most = usize::try_from(limits::PAGE_SIZE_MAX).unwrap_or(usize::MAX);
    let size = match usize::try_from(request.page_size) {
        Ok(0) | Err(_) => limits::EVENTS_PAGE_DEFAULT,
        Ok(size) => size.min(most),
    };
    let mut is_over = true;
    let mut rest = Vec::new();
    for (shard, page) in pages {
        is_over &= page.next_cursor.is_empty();
        rest.push((shard, VecDeque::from(page.events), page.next_cursor));
    }
    let time = |event: &pb::Event| event.event_time.map(|time| (time.seconds, time.nanos));
    let mut answer = pb::ListEventsResponse::default();
    let mut bytes = 0;
    while answer.events.len() < size && bytes < limits::PAGE_BYTES_MAX {
        let first = rest.iter_mut().filter(|(_, events, _)| !events.is_empty());
        let Some((shard, events, _)) = first.min_by_key(|(_, events, _)| events.front().and_then(time)) else { break };
        let Some(mut event) = events.pop_front() else { break };
        event.cursor = positions.with(shard, event.cursor);
        bytes += prost::Message::encoded_len(&event);
        answer.events.push(event);
    }
    is_over &= rest.iter().all(|(_, events, _)| events.is_empty());
    // A page may have read more events than it has.
    for (shard, _, next) in rest.into_iter().filter(|(_, events, next)| events.is_empty() && !next.is_empty()) {
        positions.0.insert(shard, next);
    }
    if !is_over {
        answer.next_cursor = positions.text();
    }
    Ok(reply::one(answer))
}

/// Follows the events of all shards, or of the sessions of several.
pub(super) async fn subscribe(cluster: Arc<Cluster>, call: Call) -> Result<Response<Body>, Status> {
    let request: pb::SubscribeEventsRequest = call.opened.as_message();
    if let Some(root) = request.root_session_id.clone() {
        return cluster.at_session(&root, call).await;
    }
    let mut sessions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for id in &request.session_ids {
        sessions.entry(cluster.shard_of(&call.tenant, id).await?).or_default().push(id.clone());
    }
    if sessions.len() == 1
        && let Some(id) = request.session_ids.first()
    {
        return cluster.at_session(&id.clone(), call).await;
    }
    let positions = match &request.start {
        Some(Start::AfterCursor(cursor)) => Some(Positions::read(cursor)?),
        _ => None,
    };
    let shards: Vec<Shard> = Shard::all(&cluster, &call)
        .into_iter()
        .filter(|shard| sessions.is_empty() || sessions.contains_key(&shard.name))
        .collect();
    let follow = |shard: &Shard| {
        let session_ids = sessions.get(&shard.name).cloned().unwrap_or_default();
        let start = match &positions {
            // A shard that is new since has nothing before it.
            Some(after) => Some(match after.0.get(&shard.name) {
                Some(cursor) => Start::AfterCursor(cursor.clone()),
                None => Start::FromBeginning(true),
            }),
            None => request.start.clone(),
        };
        let request = pb::SubscribeEventsRequest { session_ids, start, ..request.clone() };
        Following::begin(shard.clone(), request)
    };
    let begun = try_join_all(shards.iter().map(follow)).await?;
    let mut positions = Positions::default();
    let mut head_seq = 0;
    for (ready, following) in &begun {
        head_seq += ready.head_seq;
        positions.0.insert(following.shard.name.clone(), ready.cursor.clone());
    }
    let ready = pb::Ready { cursor: positions.text(), head_seq };
    let followed: VecDeque<Following> = begun.into_iter().map(|(_, following)| following).collect();
    let (snapshots, live) = match request.start {
        Some(Start::Snapshot(_)) => (followed, SelectAll::new()),
        _ => (VecDeque::new(), select_all(followed.into_iter().map(Following::frames))),
    };
    let first = shards.first().map(|shard| shard.name.clone()).unwrap_or_default();
    let merged = Merged { first, positions, snapshots, live, unfinished: None, waiting: VecDeque::new() };
    let ready = pb::SubscribeEventsResponse { frame: Some(Frame::Ready(ready)) };
    let frames =
        stream::try_unfold(merged, |mut merged| async move { Ok(merged.next().await?.map(|frame| (frame, merged))) });
    Ok(reply::many(stream::iter([Ok(ready)]).chain(frames)))
}

/// The stream of one shard, which goes on when the shard has another owner.
struct Following {
    shard: Shard,
    request: pb::SubscribeEventsRequest,
    /// Behind what came.
    cursor: String,
    /// None while there is no owner.
    frames: Option<Streaming<pb::SubscribeEventsResponse>>,
}

impl Following {
    /// Opens the stream, and reads where it begins.
    async fn begin(shard: Shard, request: pb::SubscribeEventsRequest) -> Result<(pb::Ready, Self), Status> {
        let mut frames = client!(Client, shard).subscribe_events(request.clone()).await?.into_inner();
        match frames.message().await?.and_then(|first| first.frame) {
            Some(Frame::Ready(ready)) => {
                let cursor = ready.cursor.clone();
                Ok((ready, Self { shard, request, cursor, frames: Some(frames) }))
            }
            _ => Err(Status::unavailable("a stream of events ended before its begin")),
        }
    }

    /// The next frame. A stream that its owner ended, or that was lost with it, is opened again behind what came.
    async fn next(&mut self) -> Result<pb::SubscribeEventsResponse, Status> {
        let mut end = None;
        loop {
            let lost = match &mut self.frames {
                Some(frames) => match frames.message().await {
                    Ok(Some(frame)) => {
                        self.note(&frame);
                        return Ok(frame);
                    }
                    Ok(None) => Status::unavailable("a stream of events ended"),
                    Err(status) => status,
                },
                None => match self.again().await {
                    Ok(()) => continue,
                    Err(status) => status,
                },
            };
            // What holds a store that is given up is dropped.
            self.frames = None;
            let cluster = &self.shard.cluster;
            let end = *end.get_or_insert_with(|| Instant::now() + Duration::from_millis(limits::OWNER_WAIT_MS));
            if lost.code() != Code::Unavailable || Instant::now() >= end || cluster.stopping.is_cancelled() {
                return Err(lost);
            }
            let mut survey = cluster.survey.subscribe();
            drop(tokio::time::timeout_at(end, survey.changed()).await);
        }
    }

    async fn again(&mut self) -> Result<(), Status> {
        let start = Some(Start::AfterCursor(self.cursor.clone()));
        let request = pb::SubscribeEventsRequest { start, ..self.request.clone() };
        let (_, begun) = Self::begin(self.shard.clone(), request).await?;
        self.frames = begun.frames;
        Ok(())
    }

    fn note(&mut self, frame: &pb::SubscribeEventsResponse) {
        let cursor = match &frame.frame {
            Some(Frame::Events(batch)) => &batch.cursor,
            Some(Frame::Progress(progress)) => &progress.cursor,
            Some(Frame::SnapshotEnd(end)) => &end.cursor,
            _ => return,
        };
        self.cursor.clone_from(cursor);
    }

    /// Its frames with the name of the shard, up to an error.
    fn frames(self) -> Frames {
        Box::pin(stream::unfold(Some(self), |following| async move {
            let mut following = following?;
            let name = following.shard.name.clone();
            let next = following.next().await;
            let rest = next.is_ok().then_some(following);
            Some(((name, next), rest))
        }))
    }
}

/// A merged stream of events.
struct Merged {
    /// The shard whose progress is that of all.
    first: String,
    positions: Positions,
    /// The shards whose snapshots are to come, and then those behind theirs.
    snapshots: VecDeque<Following>,
    live: SelectAll<Frames>,
    /// The shard of which the rest of a mutation comes next.
    unfinished: Option<String>,
    /// Frames of other shards that came meanwhile.
    waiting: VecDeque<(String, pb::SubscribeEventsResponse)>,
}

impl Merged {
    async fn next(&mut self) -> Result<Option<pb::SubscribeEventsResponse>, Status> {
        while let Some(following) = self.snapshots.front_mut() {
            // A snapshot is not continued, but made anew.
            let Some(frames) = &mut following.frames else { return Ok(None) };
            let Some(frame) = frames.message().await? else { return Ok(None) };
            following.note(&frame);
            if !matches!(frame.frame, Some(Frame::SnapshotEnd(_))) {
                return Ok(Some(frame));
            }
            if let Some(following) = self.snapshots.pop_front() {
                self.positions.0.insert(following.shard.name.clone(), following.cursor.clone());
                self.live.push(following.frames());
            }
            if self.snapshots.is_empty() {
                let end = pb::SnapshotEnd { cursor: self.positions.text() };
                return Ok(Some(pb::SubscribeEventsResponse { frame: Some(Frame::SnapshotEnd(end)) }));
            }
        }
        while let Some((shard, frame)) = self.next_of_any().await? {
            if let Some(frame) = self.merge(&shard, frame) {
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }

    /// The next frame of any shard. The frames of a mutation stay together.
    async fn next_of_any(&mut self) -> Result<Option<(String, pb::SubscribeEventsResponse)>, Status> {
        if self.unfinished.is_none()
            && let Some(waiting) = self.waiting.pop_front()
        {
            return Ok(Some(waiting));
        }
        while let Some((shard, frame)) = self.live.next().await {
            let frame = frame?;
            if self.unfinished.as_ref().is_none_or(|only| *only == shard) {
                return Ok(Some((shard, frame)));
            }
            self.waiting.push_back((shard, frame));
        }
        Ok(None)
    }

    /// A frame of a shard as one of the merged stream; none for one that says nothing of all shards.
    fn merge(&mut self, shard: &str, frame: pb::SubscribeEventsResponse) -> Option<pb::SubscribeEventsResponse> {
        let frame = match frame.frame? {
            Frame::Events(mut batch) => {
                for event in &mut batch.events {
                    event.cursor = self.positions.with(shard, std::mem::take(&mut event.cursor));
                }
                batch.cursor = self.positions.with(shard, batch.cursor);
                self.unfinished = batch.more.then(|| shard.to_owned());
                Frame::Events(batch)
            }
            Frame::Progress(mut progress) => {
                progress.cursor = self.positions.with(shard, progress.cursor);
                if shard != self.first {
                    return None;
                }
                Frame::Progress(progress)
            }
            other => other,
        };
        Some(pb::SubscribeEventsResponse { frame: Some(frame) })
    }
}
