//! Events of all shards as one stream. Each shard's events are in their order; events of different shards have no order.

use super::cursor::Positions;
use super::following::{FollowedShard, Frames, Resumable};
use super::shard::{Shard, client};
use crate::app::{Error, Reason};
use crate::cluster::Cluster;
use crate::cluster::call::ShardCall;
use crate::cluster::reply;
use crate::limits;
use crate::pb;
use crate::pb::event_service_client::EventServiceClient;
use crate::pb::subscribe_events_request::Start;
use crate::pb::subscribe_events_response::Frame;
use futures::StreamExt as _;
use futures::future::try_join_all;
use futures::stream;
use http::Response;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use tonic::body::Body;
use tonic::{Status, Streaming};

type Client = EventServiceClient<Shard>;
type ShardEvents = FollowedShard<pb::SubscribeEventsRequest>;

/// A page of past events: of each shard in its order, and those of several shards by their times.
pub(super) async fn list(cluster: Arc<Cluster>, call: ShardCall) -> Result<Response<Body>, Status> {
    let request: pb::ListEventsRequest = call.opened.as_message();
    if let Some(session) = request.session_id.clone() {
        return cluster.at_session(&session, call).await;
    }
    let mut positions = match request.after_cursor.is_empty() {
        true => Positions::default(),
        false => Positions::parse(&request.after_cursor)?,
    };
    let ask = |shard: Shard| {
        let after_cursor = positions.0.get(&shard.name).cloned().unwrap_or_default();
        let request = pb::ListEventsRequest { after_cursor, ..request.clone() };
        async move { Ok::<_, Status>((shard.name.clone(), client!(Client, shard).list_events(request).await?.into_inner())) }
    };
    let pages = try_join_all(Shard::all_of(&cluster, &call).into_iter().map(ask)).await?;
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
        event.cursor = positions.advance(shard, event.cursor);
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
    Ok(reply::unary(answer))
}

/// Follows the events of all shards, or of the sessions of several.
pub(super) async fn subscribe(cluster: Arc<Cluster>, call: ShardCall) -> Result<Response<Body>, Status> {
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
        Some(Start::AfterCursor(cursor)) => Some(Positions::parse(cursor)?),
        _ => None,
    };
    let shards: Vec<Shard> = Shard::all_of(&cluster, &call)
        .into_iter()
        .filter(|shard| sessions.is_empty() || sessions.contains_key(&shard.name))
        .collect();
    // A cursor of other shards says nothing of these.
    if let Some(after) = positions.as_ref().filter(|after| !after.0.is_empty())
        && !shards.iter().any(|shard| after.0.contains_key(&shard.name))
    {
        let message = "the cursor is of the sessions of other shards; start from the beginning or with a snapshot";
        return Err(Error::new(Reason::CursorForeign, message).into());
    }
    let follow = |shard: &Shard| {
        let session_ids = sessions.get(&shard.name).cloned().unwrap_or_default();
        let start = match &positions {
            // All of a shard that is new since is new.
            Some(after) => Some(match after.0.get(&shard.name) {
                Some(cursor) => Start::AfterCursor(cursor.clone()),
                None => Start::FromBeginning(true),
            }),
            None => request.start.clone(),
        };
        let request = pb::SubscribeEventsRequest { session_ids, start, ..request.clone() };
        let is_snapshot = matches!(request.start, Some(Start::Snapshot(_)));
        let shard = shard.clone();
        async move {
            let (ready, mut following) = FollowedShard::begin(shard, request).await?;
            // A snapshot is not continued, but made anew.
            following.cursor = Some(ready.cursor.clone()).filter(|_| !is_snapshot);
            Ok::<_, Status>((ready, following))
        }
    };
    let begun = try_join_all(shards.iter().map(follow)).await?;
    let mut positions = Positions::default();
    let mut head_seq = 0;
    for (ready, following) in &begun {
        head_seq += ready.head_seq;
        positions.0.insert(following.shard.name.clone(), ready.cursor.clone());
    }
    let ready = pb::Ready { cursor: positions.text(), head_seq };
    let followed: VecDeque<ShardEvents> = begun.into_iter().map(|(_, following)| following).collect();
    let (snapshots, live) = match request.start {
        Some(Start::Snapshot(_)) => (followed, Vec::new()),
        _ => (VecDeque::new(), followed.into_iter().map(live).collect()),
    };
    let first = shards.first().map(|shard| shard.name.clone()).unwrap_or_default();
    let merged = MergedEvents { first, positions, snapshots, live, unfinished: None, turn: 0 };
    let ready = pb::SubscribeEventsResponse { frame: Some(Frame::Ready(ready)) };
    let frames = stream::try_unfold(merged, |mut merged| async move {
        let next = merged.next().await;
        let cursor = merged.snapshots.is_empty().then(|| merged.positions.text());
        Ok(next.map_err(|status| reply::ended_at(status, cursor))?.map(|frame| (frame, merged)))
    });
    Ok(reply::stream(stream::iter([Ok(ready)]).chain(frames)))
}

impl Resumable for pb::SubscribeEventsRequest {
    type Frame = pb::SubscribeEventsResponse;
    type Begin = pb::Ready;

    async fn open(&self, shard: &Shard, after: Option<&str>) -> Result<(pb::Ready, Streaming<Self::Frame>), Status> {
        let start = after.map(|cursor| Start::AfterCursor(cursor.to_owned())).or_else(|| self.start.clone());
        let request = Self { start, ..self.clone() };
        let mut frames = client!(Client, shard).subscribe_events(request).await?.into_inner();
        match frames.message().await?.and_then(|first| first.frame) {
            Some(Frame::Ready(ready)) => Ok((ready, frames)),
            _ => Err(Status::unavailable("a stream of events ended before its begin")),
        }
    }

    fn cursor(frame: &Self::Frame) -> Option<&str> {
        match frame.frame.as_ref()? {
            Frame::Events(batch) => Some(&batch.cursor),
            Frame::Progress(progress) => Some(&progress.cursor),
            Frame::SnapshotEnd(end) => Some(&end.cursor),
            _ => None,
        }
    }
}

struct MergedEvents {
    /// The shard whose progress is that of all.
    first: String,
    positions: Positions,
    /// The shards whose snapshots are to come, and then those behind theirs.
    snapshots: VecDeque<ShardEvents>,
    /// The shards behind their snapshots.
    live: Vec<LiveShard>,
    /// The shard of which the rest of a mutation comes next.
    unfinished: Option<String>,
    /// The one of `live` that is asked first, so that each has its turn.
    turn: usize,
}

/// A shard with its frames.
type LiveShard = (String, Frames<pb::SubscribeEventsResponse>);

fn live(following: ShardEvents) -> LiveShard {
    (following.shard.name.clone(), following.frames())
}

impl MergedEvents {
    async fn next(&mut self) -> Result<Option<pb::SubscribeEventsResponse>, Status> {
        while let Some(following) = self.snapshots.front_mut() {
            let Some(frame) = following.next_of_this().await? else { return Ok(None) };
            if !matches!(frame.frame, Some(Frame::SnapshotEnd(_))) {
                return Ok(Some(frame));
            }
            if let Some(following) = self.snapshots.pop_front() {
                self.positions.0.insert(following.shard.name.clone(), following.cursor.clone().unwrap_or_default());
                self.live.push(live(following));
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

    /// The next frame of any shard. The frames of a mutation stay together: until all of them came, other shards are not asked.
    async fn next_of_any(&mut self) -> Result<Option<(String, pb::SubscribeEventsResponse)>, Status> {
        let Self { live, unfinished, turn, .. } = self;
        let many = live.len();
        if many == 0 {
            return Ok(None);
        }
        let next = poll_fn(|context| {
            for at in (*turn..*turn + many).map(|at| at % many) {
                let (shard, frames) = &mut live[at];
                if unfinished.as_ref().is_none_or(|only| only == shard)
                    && let Poll::Ready(next) = frames.poll_next_unpin(context)
                {
                    *turn = at + 1;
                    return Poll::Ready(next);
                }
            }
            Poll::Pending
        });
        next.await.map(|(shard, frame)| Ok((shard, frame?))).transpose()
    }

    /// A frame of a shard as one of the merged stream; none for one that says nothing of all shards.
    fn merge(&mut self, shard: &str, frame: pb::SubscribeEventsResponse) -> Option<pb::SubscribeEventsResponse> {
        let frame = match frame.frame? {
            Frame::Events(mut batch) => {
                for event in &mut batch.events {
                    event.cursor = self.positions.advance(shard, std::mem::take(&mut event.cursor));
                }
                batch.cursor = self.positions.advance(shard, batch.cursor);
                self.unfinished = batch.more.then(|| shard.to_owned());
                Frame::Events(batch)
            }
            Frame::Progress(mut progress) => {
                progress.cursor = self.positions.advance(shard, progress.cursor);
                if shard != self.first {
                    return None;
                }
                progress.seq = self.positions.sum();
                Frame::Progress(progress)
            }
            other => other,
        };
        Some(pb::SubscribeEventsResponse { frame: Some(frame) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the shards send, each of them has its frames in order, and those of a mutation stay together.
    #[tokio::test]
    async fn frames_of_a_mutation_stay_together_and_those_of_a_shard_in_order() {
        let shard = |name: &str, pieces: &[bool]| {
            let frames = pieces.iter().zip(1..).map(|(&more, seq)| {
                let event = pb::Event { seq, ..pb::Event::default() };
                let batch = pb::EventBatch { events: vec![event], more, ..pb::EventBatch::default() };
                (name.to_owned(), Ok(pb::SubscribeEventsResponse { frame: Some(Frame::Events(batch)) }))
            });
            let frames: Frames<_> = Box::pin(stream::iter(frames.collect::<Vec<_>>()));
            (name.to_owned(), frames)
        };
        let mut merged = MergedEvents {
            first: "s1".to_owned(),
            positions: Positions::default(),
            snapshots: VecDeque::new(),
            live: vec![shard("s1", &[true, false, false]), shard("s2", &[true, true, false])],
            unfinished: None,
            turn: 0,
        };
        let expected = [("s1", 1), ("s1", 2), ("s2", 1), ("s2", 2), ("s2", 3), ("s1", 3)];
        for (name, seq) in expected {
            let (shard, frame) = merged.next_of_any().await.expect("no error").expect("a frame");
            let Some(Frame::Events(batch)) = merged.merge(&shard, frame).and_then(|frame| frame.frame) else {
                panic!("no events")
            };
            assert_eq!((shard.as_str(), batch.events[0].seq), (name, seq));
        }
    }
}
