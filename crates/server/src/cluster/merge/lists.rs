//! Lists whose order is within each shard: one shard after the other.

use super::cursor;
use super::shard::{Shard, client};
use crate::app::Error;
use crate::cluster::Cluster;
use crate::cluster::call::ShardCall;
use crate::cluster::reply;
use crate::pb;
use crate::pb::admin_service_client::AdminServiceClient;
use crate::pb::run_service_client::RunServiceClient;
use http::Response;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tonic::Status;
use tonic::body::Body;

/// Where a list goes on: the shard, and the token there.
type ListPlace = (String, String);

/// The shards from a place on, each with the token at which its list goes on.
fn from(place: Option<ListPlace>, shards: Vec<Shard>) -> impl Iterator<Item = (Shard, String)> {
    let (first, token) = place.unwrap_or_default();
    let mut token = Some(token);
    shards
        .into_iter()
        .skip_while(move |shard| !first.is_empty() && shard.name != first)
        .map(move |shard| (shard, token.take().unwrap_or_default()))
}

/// The token of the next page, behind one of a shard; empty at the end of the last shard.
fn next(shards: &[Shard], shard: &Shard, token: String) -> Result<String, Error> {
    if !token.is_empty() {
        return cursor::token(&(shard.name.as_str(), token));
    }
    let behind = shards.iter().skip_while(|other| other.name != shard.name).nth(1);
    behind.map_or(Ok(String::new()), |shard| cursor::token(&(shard.name.as_str(), "")))
}

/// The active runs of all shards.
pub(super) async fn runs(cluster: Arc<Cluster>, call: ShardCall) -> Result<Response<Body>, Status> {
    let request: pb::ListRunsRequest = call.opened.as_message();
    if let Some(session) = request.session_id.clone() {
        return cluster.at_session(&session, call).await;
    }
    let shards = Shard::all_of(&cluster, &call);
    for (shard, page_token) in from(cursor::place(&request.page_token)?, shards.clone()) {
        let request = pb::ListRunsRequest { page_token, ..request.clone() };
        let mut page = client!(RunServiceClient<Shard>, shard).list_runs(request).await?.into_inner();
        page.next_page_token = next(&shards, &shard, page.next_page_token)?;
        if !page.runs.is_empty() || page.next_page_token.is_empty() {
            return Ok(reply::unary(page));
        }
    }
    Ok(reply::unary(pb::ListRunsResponse::default()))
}

/// The heads of the chains of all shards, or what they were at points of several sessions.
pub(super) async fn heads(cluster: Arc<Cluster>, call: ShardCall) -> Result<Response<Body>, Status> {
    let request: pb::ListHeadsRequest = call.opened.as_message();
    if let Some(session) = request.session_id.clone() {
        return cluster.at_session(&session, call).await;
    }
    if !request.at.is_empty() {
        return Ok(reply::unary(pb::ListHeadsResponse {
            heads: heads_at(&cluster, Shard::all_of(&cluster, &call), &call.tenant, &request).await?,
            ..Default::default()
        }));
    }
    let shards = Shard::all_of(&cluster, &call);
    for (shard, page_token) in from(cursor::place(&request.page_token)?, shards.clone()) {
        let request = pb::ListHeadsRequest { page_token, ..request.clone() };
        let mut page = client!(AdminServiceClient<Shard>, shard).list_heads(request).await?.into_inner();
        page.next_page_token = next(&shards, &shard, page.next_page_token)?;
        if !page.heads.is_empty() || page.next_page_token.is_empty() {
            return Ok(reply::unary(page));
        }
    }
    Ok(reply::unary(pb::ListHeadsResponse::default()))
}

/// The hashes at points of sessions, in the order of the request.
async fn heads_at(
    cluster: &Cluster,
    shards: Vec<Shard>,
    tenant: &str,
    request: &pb::ListHeadsRequest,
) -> Result<Vec<pb::Head>, Status> {
    let mut places: BTreeMap<String, Vec<pb::Head>> = BTreeMap::new();
    for head in &request.at {
        places.entry(cluster.shard_of(tenant, &head.session_id).await?).or_default().push(head.clone());
    }
    let mut heads_found: HashMap<(String, i64), pb::Head> = HashMap::new();
    for shard in shards {
        let Some(at) = places.remove(&shard.name) else { continue };
        let asked: Vec<(String, i64)> = at.iter().map(|head| (head.session_id.clone(), head.revision)).collect();
        let request = pb::ListHeadsRequest { at, ..request.clone() };
        let heads = client!(AdminServiceClient<Shard>, shard).list_heads(request).await?.into_inner().heads;
        heads_found.extend(asked.into_iter().zip(heads));
    }
    Ok(request
        .at
        .iter()
        .filter_map(|head| heads_found.get(&(head.session_id.clone(), head.revision)).cloned())
        .collect())
}
