//! Events of all shards as one stream. Each shard's events are in their order; between shards there is none.

use super::cursor::Positions;
use super::{Shard, client};
use crate::cluster::Cluster;
use crate::cluster::reply;
use crate::cluster::route::Call;
use crate::limits;
use crate::pb::event_service_client::EventServiceClient;
use crate::pb::subscribe_events_request::Start;
use crate::pb::subscribe_events_response::Frame;
use crate::pb;
use futures::future::try_join_all;
use futures::stream::{self, SelectAll, select_all};
use std::pin::Pin;
use futures::StreamExt as _;
use http::Response;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::{Code, Status, Streaming};

type Client = EventServiceClient<Shard>;
/// The frames of a shard, with its name, and none behind the last one.
type Frames = Pin<Box<dyn stream::Stream<Item = (String, Option<Result<pb::SubscribeEventsResponse, Status>>)> + Send + Sync>>;

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
    let shards: Vec<Shard> =
        Shard::all(&cluster, &call).into_iter().filter(|shard| sessions.is_empty() || sessions.contains_key(&shard.name)).collect();
    let mut merged = Merged {
        cluster,
        first: shards.first().map(|shard| shard.name.clone()).unwrap_or_default(),
        shards: shards.into_iter().map(|shard| (shard.name.clone(), shard)).collect(),
        sessions,
        request,
        positions: Positions::default(),
        opened: BTreeMap::new(),
        snapshots: VecDeque::new(),
        live: SelectAll::new(),
        unfinished: None,
        waiting: VecDeque::new(),
        is_live: false,
    };
    let ready = merged.begin(positions).await?;
    let frames = stream::try_unfold((merged, Some(ready)), |(mut merged, ready)| async move {
        let frame = match ready {
            Some(ready) => Some(ready),
            None => merged.next().await?,
        };
        Ok(frame.map(|frame| (frame, (merged, None))))
    });
    Ok(reply::many(frames))
}

/// A merged stream of events.
struct Merged {
    cluster: Arc<Cluster>,
    shards: BTreeMap<String, Shard>,
    /// The shard whose progress is that of all.
    first: String,
    /// The sessions of each shard; none for all.
    sessions: BTreeMap<String, Vec<String>>,
    request: pb::SubscribeEventsRequest,
    positions: Positions,
    opened: BTreeMap<String, Streaming<pb::SubscribeEventsResponse>>,
    /// The shards whose snapshots are to come.
    snapshots: VecDeque<String>,
    live: SelectAll<Frames>,
    /// The shard of which the rest of a mutation comes next.
    unfinished: Option<String>,
    /// Frames of other shards that came meanwhile.
    waiting: VecDeque<(String, pb::SubscribeEventsResponse)>,
    is_live: bool,
}

impl Merged {
    /// Opens the streams of all shards, and says where they begin.
    async fn begin(&mut self, after: Option<Positions>) -> Result<pb::SubscribeEventsResponse, Status> {
        let names: Vec<String> = self.shards.keys().cloned().collect();
        let open = names.iter().map(|name| {
            let start = match &after {
                // A shard that is new since has nothing before it.
                Some(after) => Some(after.0.get(name).map_or(Start::FromBeginning(true), |cursor| Start::AfterCursor(cursor.clone()))),
                None => self.request.start.clone(),
            };
            self.open(name, start)
        });
        let mut head_seq = 0;
        for (name, (ready, frames)) in names.iter().zip(try_join_all(open).await?) {
            head_seq += ready.head_seq;
            self.positions.0.insert(name.clone(), ready.cursor);
            self.opened.insert(name.clone(), frames);
        }
        if matches!(self.request.start, Some(Start::Snapshot(_))) {
            self.snapshots = names.into();
        }
        let ready = pb::Ready { cursor: self.positions.text(), head_seq };
        Ok(pb::SubscribeEventsResponse { frame: Some(Frame::Ready(ready)) })
    }

    /// The stream of a shard, behind its first frame.
    async fn open(
        &self,
        name: &str,
        start: Option<Start>,
    ) -> Result<(pb::Ready, Streaming<pb::SubscribeEventsResponse>), Status> {
        let shard = self.shards.get(name).ok_or_else(|| Status::internal("an unknown shard"))?;
        let session_ids = self.sessions.get(name).cloned().unwrap_or_default();
        let request = pb::SubscribeEventsRequest { session_ids, start, ..self.request.clone() };
        let mut frames = client!(Client, shard).subscribe_events(request).await?.into_inner();
        match frames.message().await?.and_then(|first| first.frame) {
            Some(Frame::Ready(ready)) => Ok((ready, frames)),
            _ => Err(Status::unavailable("a stream of events ended before its begin")),
        }
    }

    async fn next(&mut self) -> Result<Option<pb::SubscribeEventsResponse>, Status> {
        while let Some(shard) = self.snapshots.front().cloned() {
            let Some(frames) = self.opened.get_mut(&shard) else { return Ok(None) };
            let Some(frame) = frames.message().await? else { return Ok(None) };
            let Some(Frame::SnapshotEnd(end)) = frame.frame else { return Ok(Some(frame)) };
            self.positions.0.insert(shard, end.cursor);
            self.snapshots.pop_front();
            if self.snapshots.is_empty() {
                let end = pb::SnapshotEnd { cursor: self.positions.text() };
                return Ok(Some(pb::SubscribeEventsResponse { frame: Some(Frame::SnapshotEnd(end)) }));
            }
        }
        if !std::mem::replace(&mut self.is_live, true) {
            let opened = std::mem::take(&mut self.opened).into_iter();
            self.live = select_all(opened.map(|(name, frames)| named(name, frames)));
        }
        loop {
            let (shard, frame) = match self.next_of_any().await? {
                Some(next) => next,
                None => return Ok(None),
            };
            if let Some(frame) = self.merge(&shard, frame) {
                return Ok(Some(frame));
            }
        }
    }

    /// The next frame of any shard. The frames of a mutation stay together.
    async fn next_of_any(&mut self) -> Result<Option<(String, pb::SubscribeEventsResponse)>, Status> {
        if self.unfinished.is_none()
            && let Some(waiting) = self.waiting.pop_front()
        {
            return Ok(Some(waiting));
        }
        while let Some((shard, frame)) = self.live.next().await {
            match frame {
                Some(Ok(frame)) if self.unfinished.as_ref().is_none_or(|only| *only == shard) => {
                    return Ok(Some((shard, frame)));
                }
                Some(Ok(frame)) => self.waiting.push_back((shard, frame)),
                // The shard has another owner now, or will have one.
                Some(Err(status)) if status.code() == Code::Unavailable => self.resume(shard, status).await?,
                Some(Err(status)) => return Err(status),
                None => self.resume(shard, Status::unavailable("a stream of events ended")).await?,
            }
        }
        Ok(None)
    }

    /// Opens the stream of a shard again, behind what came of it.
    async fn resume(&mut self, shard: String, mut why: Status) -> Result<(), Status> {
        let end = Instant::now() + Duration::from_millis(limits::OWNER_WAIT_MS);
        // What waits is behind the position: it comes again.
        self.waiting.retain(|(waiting, _)| *waiting != shard);
        while Instant::now() < end && !self.cluster.stopping.is_cancelled() {
            let cursor = self.positions.0.get(&shard).cloned().unwrap_or_default();
            match self.open(&shard, Some(Start::AfterCursor(cursor))).await {
                Ok((_, frames)) => {
                    self.live.push(named(shard, frames));
                    return Ok(());
                }
                Err(status) if status.code() == Code::Unavailable => {
                    why = status;
                    let mut survey = self.cluster.survey.subscribe();
                    drop(tokio::time::timeout_at(end, survey.changed()).await);
                }
                Err(status) => return Err(status),
            }
        }
        Err(why)
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

/// The frames of a shard with its name, and none behind the last.
fn named(shard: String, frames: Streaming<pb::SubscribeEventsResponse>) -> Frames {
    let last = shard.clone();
    Box::pin(frames.map(move |frame| (shard.clone(), Some(frame))).chain(stream::iter([(last, None)])))
}
