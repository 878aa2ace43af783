//! Search over all shards. Each ranks its own hits by how rare the words are there: the best of each shard come first, then
//! the second best, and of equal places the newest.

use super::cursor;
use super::shard::{Shard, client};
use crate::app::Error;
use crate::cluster::Cluster;
use crate::cluster::call::Call;
use crate::cluster::reply;
use crate::limits;
use crate::pb;
use crate::pb::search_service_client::SearchServiceClient;
use futures::future::try_join_all;
use http::Response;
use std::cmp::Reverse;
use std::sync::Arc;
use tonic::Status;
use tonic::body::Body;

/// The shards that may have more hits, with the tokens at which each goes on; those that come next first.
type Place = Vec<(String, String)>;

/// A page of hits. A page of few hits is of some of the shards, and the next one of others.
pub(super) async fn history(cluster: Arc<Cluster>, call: Call) -> Result<Response<Body>, Status> {
    let request: pb::SearchHistoryRequest = call.opened.as_message();
    if let Some(session) = request.session_id.as_ref().or(request.tree_session_id.as_ref()) {
        return cluster.at_session(&session.clone(), call).await;
    }
    if request.min_seq > 0 {
        let message = "events of several shards have no common numbers: it goes with session_id or tree_session_id";
        return Err(Error::field("min_seq", message).into());
    }
    let shards = Shard::all(&cluster, &call);
    let begin = || shards.iter().map(|shard| (shard.name.clone(), String::new())).collect();
    let place: Place = cursor::place(&request.page_token)?.unwrap_or_else(begin);
    let size = match i64::from(request.page_size) {
        0 => limits::SEARCH_PAGE_DEFAULT,
        size => size.min(limits::SEARCH_PAGE_MAX),
    };
    // One that is no size is refused by the shards.
    let size = usize::try_from(size).ok().filter(|size| *size > 0).unwrap_or(place.len().max(1));
    let (now, later) = place.split_at(place.len().min(size));
    let of_each =
        if request.page_size < 0 { request.page_size } else { i32::try_from(size / now.len().max(1)).unwrap_or(1) };
    let ask = |(name, page_token): &(String, String)| {
        let shard = shards.iter().find(|shard| shard.name == *name).cloned();
        let request =
            pb::SearchHistoryRequest { page_token: page_token.clone(), page_size: of_each, ..request.clone() };
        let name = name.clone();
        async move {
            let unknown =
                || Status::from(Error::new(crate::app::Reason::PageTokenInvalid, "the page token names another shard"));
            let shard = shard.ok_or_else(unknown)?;
            Ok::<_, Status>((
                name,
                client!(SearchServiceClient<Shard>, shard).search_history(request).await?.into_inner(),
            ))
        }
    };
    let mut rest: Place = later.to_vec();
    let mut answer = pb::SearchHistoryResponse { indexed_seq: i64::MAX, ..Default::default() };
    let mut hits = Vec::new();
    for (name, page) in try_join_all(now.iter().map(ask)).await? {
        answer.cut_off |= page.cut_off;
        answer.indexed_seq = answer.indexed_seq.min(page.indexed_seq);
        hits.extend(page.hits.into_iter().enumerate());
        if !page.next_page_token.is_empty() {
            rest.push((name, page.next_page_token));
        }
    }
    if now.is_empty() {
        answer.indexed_seq = 0;
    }
    hits.sort_by_key(|(rank, hit)| (*rank, Reverse(hit.create_time.map(|time| (time.seconds, time.nanos)))));
    answer.hits = hits.into_iter().map(|(_, hit)| hit).collect();
    if !rest.is_empty() {
        answer.next_page_token = cursor::token(&rest)?;
    }
    Ok(reply::one(answer))
}
