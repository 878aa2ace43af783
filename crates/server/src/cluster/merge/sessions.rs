//! Lists of sessions over all shards.

use super::cursor::{self, Positions};
use super::following::{FollowedShard, Frames, Resumable};
use super::shard::{Shard, client};
use crate::app::Error;
use crate::cluster::Cluster;
use crate::cluster::call::ShardCall;
use crate::cluster::reply;
use crate::limits;
use crate::pb::session_service_client::SessionServiceClient;
use crate::pb::watch_sessions_response::Frame;
use crate::pb::{self, SessionOrder};
use futures::future::try_join_all;
use futures::stream::{SelectAll, select_all};
use futures::{StreamExt as _, stream};
use http::Response;
use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tonic::body::Body;
use tonic::{Status, Streaming};

type Client = SessionServiceClient<Shard>;

/// Where the list of a shard goes on: behind this token; none at its end.
type SessionListPlace = BTreeMap<String, Option<String>>;

/// The session that all sessions of a list hang on, by a condition.
fn anchor<'a>(parent: &'a Option<String>, filter: &'a Option<pb::SessionFilter>) -> Option<&'a str> {
    let root = filter.as_ref().and_then(|filter| filter.root_session_id.as_deref());
    parent.as_deref().or(root)
}

/// The list of one shard, as far as it was read.
struct ShardSessions {
    shard: Shard,
    /// The token behind what was given out.
    token: String,
    /// What was read and not given out, each with the token behind it.
    ahead: VecDeque<(pb::Session, String)>,
    /// The token behind what was read; empty at the end.
    next: String,
    is_over: bool,
}

impl ShardSessions {
    /// Reads on until there is something, the end, or an empty page that says that the list goes on.
    async fn read_on(&mut self, request: &pb::ListSessionsRequest) -> Result<(), Status> {
        if !self.ahead.is_empty() || self.is_over {
            return Ok(());
        }
        let request =
            pb::ListSessionsRequest { page_token: self.next.clone(), include_page_tokens: true, ..request.clone() };
        let page = client!(Client, self.shard).list_sessions(request).await?.into_inner();
        self.ahead = page.sessions.into_iter().zip(page.page_tokens).collect();
        self.is_over = page.next_page_token.is_empty();
        self.next = page.next_page_token;
        if self.ahead.is_empty() {
            self.token.clone_from(&self.next);
        }
        Ok(())
    }
}

fn order(left: &pb::Session, right: &pb::Session, order: SessionOrder) -> Ordering {
    let time = |time: &Option<prost_types::Timestamp>| time.map(|time| (time.seconds, time.nanos));
    match order {
        SessionOrder::OldestFirst => time(&left.create_time).cmp(&time(&right.create_time)),
        SessionOrder::LastChangedFirst => time(&right.update_time).cmp(&time(&left.update_time)),
        SessionOrder::LastChangedLast => time(&left.update_time).cmp(&time(&right.update_time)),
        SessionOrder::Unspecified | SessionOrder::NewestFirst => time(&right.create_time).cmp(&time(&left.create_time)),
    }
}

/// A page of the lists of all shards, in the order of the request.
pub(super) async fn list(cluster: Arc<Cluster>, call: ShardCall) -> Result<Response<Body>, Status> {
    let request: pb::ListSessionsRequest = call.opened.as_message();
    if let Some(anchor) = anchor(&request.parent_session_id, &request.filter).map(str::to_owned) {
        return cluster.at_session(&anchor, call).await;
    }
    let place: Option<SessionListPlace> = cursor::place(&request.page_token)?;
    let start = |shard: Shard| {
        // The list of a shard that the token does not name begins; one that has ended has none.
        let at = place.as_ref().and_then(|place| place.get(&shard.name)).cloned().unwrap_or(Some(String::new()));
        let is_over = at.is_none();
        let token = at.unwrap_or_default();
        ShardSessions { shard, token: token.clone(), ahead: VecDeque::new(), next: token, is_over }
    };
    let mut lists: Vec<ShardSessions> = Shard::all_of(&cluster, &call).into_iter().map(start).collect();
    let size = match usize::try_from(request.page_size) {
        Ok(0) => usize::try_from(limits::PAGE_SIZE_DEFAULT).unwrap_or(usize::MAX),
        Ok(size) => size.min(usize::try_from(limits::PAGE_SIZE_MAX).unwrap_or(usize::MAX)),
        // The shards refuse it.
        Err(_) => 0,
    };
    let by = request.order();
    let mut page = pb::ListSessionsResponse::default();
    let mut bytes = 0;
    loop {
        try_join_all(lists.iter_mut().map(|listed| listed.read_on(&request))).await?;
        let is_known = lists.iter().all(|listed| !listed.ahead.is_empty() || listed.is_over);
        let heads = lists.iter().enumerate().filter_map(|(index, listed)| Some((index, listed.ahead.front()?)));
        let first = heads.min_by(|(_, left), (_, right)| order(&left.0, &right.0, by)).map(|(index, _)| index);
        // A shard that has looked at many sessions and found none may have the next one.
        let Some(index) = first.filter(|_| is_known && page.sessions.len() < size && bytes < limits::PAGE_BYTES_MAX)
        else {
            break;
        };
        let listed = &mut lists[index];
        if let Some((session, token)) = listed.ahead.pop_front() {
            bytes += prost::Message::encoded_len(&session);
            listed.token = token;
            page.sessions.push(session);
        }
        if request.include_page_tokens {
            page.page_tokens.push(token(&lists)?);
        }
    }
    if lists.iter().any(|listed| !listed.is_over || !listed.ahead.is_empty()) {
        page.next_page_token = token(&lists)?;
    }
    Ok(reply::unary(page))
}

/// The token behind what was given out of all lists.
fn token(lists: &[ShardSessions]) -> Result<String, Error> {
    let rest = |listed: &ShardSessions| (!listed.is_over || !listed.ahead.is_empty()).then(|| listed.token.clone());
    let place: SessionListPlace = lists.iter().map(|listed| (listed.shard.name.clone(), rest(listed))).collect();
    cursor::token(&place)
}

/// Follows the lists of all shards: their snapshots, one after the other, and then their changes.
pub(super) async fn watch(cluster: Arc<Cluster>, call: ShardCall) -> Result<Response<Body>, Status> {
    let request: pb::WatchSessionsRequest = call.opened.as_message();
    if let Some(anchor) = anchor(&request.parent_session_id, &request.filter).map(str::to_owned) {
        return cluster.at_session(&anchor, call).await;
    }
    let after = match request.after_cursor.is_empty() {
        true => Positions::default(),
        false => Positions::parse(&request.after_cursor)?,
    };
    let open = |shard: Shard| {
        let after_cursor = after.0.get(&shard.name).cloned().unwrap_or_default();
        let request = pb::WatchSessionsRequest { after_cursor, ..request.clone() };
        async move {
            let ((), mut following) = FollowedShard::begin(shard, request.clone()).await?;
            following.cursor = Some(request.after_cursor).filter(|cursor| !cursor.is_empty());
            Ok::<_, Status>(following)
        }
    };
    let lists = try_join_all(Shard::all_of(&cluster, &call).into_iter().map(open)).await?;
    let first = lists.first().map(|list| list.shard.name.clone()).unwrap_or_default();
    // Those that are not resumed begin with a snapshot.
    let (live, snapshots): (Vec<_>, Vec<_>) = lists.into_iter().partition(|list| list.cursor.is_some());
    let live = select_all(live.into_iter().map(FollowedShard::frames));
    let watching = MergedWatch { snapshots: snapshots.into(), first, positions: after, live };
    Ok(reply::stream(stream::try_unfold(watching, |mut watching| async move {
        let next = watching.next().await;
        let cursor = watching.snapshots.is_empty().then(|| watching.positions.text());
        Ok(next.map_err(|status| reply::ended_at(status, cursor))?.map(|frame| (frame, watching)))
    })))
}

impl Resumable for pb::WatchSessionsRequest {
    type Frame = pb::WatchSessionsResponse;
    type Begin = ();

    async fn open(&self, shard: &Shard, after: Option<&str>) -> Result<((), Streaming<Self::Frame>), Status> {
        let after_cursor = after.map_or_else(|| self.after_cursor.clone(), str::to_owned);
        let request = Self { after_cursor, ..self.clone() };
        Ok(((), client!(Client, shard).watch_sessions(request).await?.into_inner()))
    }

    fn cursor(frame: &Self::Frame) -> Option<&str> {
        Some(frame.cursor.as_str()).filter(|cursor| !cursor.is_empty())
    }
}

/// A merged stream of lists.
struct MergedWatch {
    /// The shards whose snapshots are to come.
    snapshots: VecDeque<FollowedShard<pb::WatchSessionsRequest>>,
    /// The shard whose progress is that of all.
    first: String,
    positions: Positions,
    live: SelectAll<Frames<pb::WatchSessionsResponse>>,
}

impl MergedWatch {
    async fn next(&mut self) -> Result<Option<pb::WatchSessionsResponse>, Status> {
        while let Some(list) = self.snapshots.front_mut() {
            let Some(mut frame) = list.next_of_this().await? else { return Ok(None) };
            if !matches!(frame.frame, Some(Frame::SnapshotEnd(_))) {
                return Ok(Some(frame));
            }
            if let Some(list) = self.snapshots.pop_front() {
                self.positions.0.insert(list.shard.name.clone(), std::mem::take(&mut frame.cursor));
                self.live.push(list.frames());
            }
            if self.snapshots.is_empty() {
                frame.cursor = self.positions.text();
                return Ok(Some(frame));
            }
        }
        while let Some((shard, frame)) = self.live.next().await {
            let mut frame = frame?;
            frame.cursor = self.positions.advance(&shard, frame.cursor);
            if !matches!(frame.frame, Some(Frame::Progress(_))) || shard == self.first {
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }
}
