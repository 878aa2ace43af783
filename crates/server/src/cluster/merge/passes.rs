//! Passes over all shards: one after the other, with one report.

use super::shard::{Shard, client};
use crate::app::{Error, Reason};
use crate::cluster::Cluster;
use crate::cluster::call::ShardCall;
use crate::cluster::reply;
use crate::pb;
use crate::pb::admin_service_client::AdminServiceClient;
use crate::pb::apply_retention_response::Item as Retained;
use crate::pb::check_integrity_response::Item as Checked;
use crate::pb::erase_service_client::EraseServiceClient;
use crate::pb::start_scrub_response::Item as Scrubbed;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Response;
use std::sync::Arc;
use tonic::body::Body;
use tonic::{Status, Streaming};

/// The reports of all shards, one after the other. `sum` adds what ends the report of a shard to a total, and keeps what
/// does not; behind the last shard comes the total.
fn one_by_one<M, T, Asked, Sum>(
    shards: Vec<Shard>,
    ask: impl Fn(Shard) -> Asked + Send + 'static,
    sum: Sum,
    end: impl FnOnce(T) -> M + Send + 'static,
) -> Response<Body>
where
    M: prost::Message + 'static,
    T: Default + Send + 'static,
    Asked: Future<Output = Result<Streaming<M>, Status>> + Send + 'static,
    Sum: Fn(&mut T, M) -> Option<M> + Clone + Send + 'static,
{
    let total = Arc::new(std::sync::Mutex::new(T::default()));
    let summed = Arc::clone(&total);
    let reports = stream::iter(shards).then(ask).try_flatten().try_filter_map(move |message| {
        let kept = sum(&mut summed.lock().unwrap_or_else(std::sync::PoisonError::into_inner), message);
        futures::future::ready(Ok(kept))
    });
    let last = stream::once(async move {
        let total = std::mem::take(&mut *total.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        Ok(end(total))
    });
    reply::stream(reports.chain(last))
}

/// Checks the chains of one session, or of all.
pub(super) async fn check(cluster: Arc<Cluster>, call: ShardCall) -> Result<Response<Body>, Status> {
    let request: pb::CheckIntegrityRequest = call.opened.as_message();
    if let Some(session) = request.session_id.clone() {
        return cluster.at_session(&session, call).await;
    }
    let ask = move |shard: Shard| {
        let request = request.clone();
        async move { Ok(client!(AdminServiceClient<Shard>, shard).check_integrity(request).await?.into_inner()) }
    };
    let sum = |total: &mut pb::IntegrityEnd, message: pb::CheckIntegrityResponse| match message.item {
        Some(Checked::End(end)) => {
            add(total, &end);
            None
        }
        _ => Some(message),
    };
    let end = |total| pb::CheckIntegrityResponse { item: Some(Checked::End(total)) };
    Ok(one_by_one(Shard::all_of(&cluster, &call), ask, sum, end))
}

/// Scrubs one shard after the other.
pub(super) async fn scrub(cluster: Arc<Cluster>, call: ShardCall) -> Result<Response<Body>, Status> {
    let ask = |shard: Shard| async move {
        let request = pb::StartScrubRequest::default();
        Ok(client!(AdminServiceClient<Shard>, shard).start_scrub(request).await?.into_inner())
    };
    let sum = |total: &mut pb::IntegrityEnd, message: pb::StartScrubResponse| match message.item {
        Some(Scrubbed::End(end)) => {
            add(total, &end);
            None
        }
        _ => Some(message),
    };
    let end = |total| pb::StartScrubResponse { item: Some(Scrubbed::End(total)) };
    Ok(one_by_one(Shard::all_of(&cluster, &call), ask, sum, end))
}

fn add(total: &mut pb::IntegrityEnd, end: &pb::IntegrityEnd) {
    total.session_count += end.session_count;
    total.event_count += end.event_count;
    total.finding_count += end.finding_count;
}

/// Applies the rules of retention in one shard after the other. A bound of bytes is one of each shard.
pub(super) async fn retention(cluster: Arc<Cluster>, call: ShardCall) -> Result<Response<Body>, Status> {
    let request: pb::ApplyRetentionRequest = call.opened.as_message();
    let ask = move |shard: Shard| {
        let request = request;
        async move { Ok(client!(EraseServiceClient<Shard>, shard).apply_retention(request).await?.into_inner()) }
    };
    let sum = |total: &mut (pb::RetentionSummary, i32), message: pb::ApplyRetentionResponse| match message.item {
        Some(Retained::Summary(summary)) => {
            total.0.examined_count += summary.examined_count;
            total.0.erased_count += summary.erased_count;
            total.0.content_bytes += summary.content_bytes;
            total.0.protected_count += summary.protected_count;
            total.0.changed_count += summary.changed_count;
            // All shards are of one server.
            total.1 = message.durability;
            None
        }
        _ => Some(message),
    };
    let end = |(summary, durability)| pb::ApplyRetentionResponse { item: Some(Retained::Summary(summary)), durability };
    Ok(one_by_one(Shard::all_of(&cluster, &call), ask, sum, end))
}

/// Copies one shard into a file, which its owner writes: for those who have the rights of that daemon's user.
pub(super) async fn backup(cluster: Arc<Cluster>, call: ShardCall) -> Result<Response<Body>, Status> {
    let request: pb::CreateBackupRequest = call.opened.as_message();
    let shards = cluster.shards();
    let shard = match request.shard.as_deref() {
        Some(shard) if shards.iter().any(|known| known == shard) => shard.to_owned(),
        Some(shard) => return Err(Error::field("shard", format!("the database has no shard {shard}")).into()),
        None if shards.len() > 1 => return Err(Error::field("shard", "must be set where there are several").into()),
        None => cluster.home(),
    };
    if cluster.local(&shard).is_none() {
        let message = format!("another daemon owns the shard {shard}: ask for its backup on the socket of that one");
        return Err(Error::new(Reason::SocketRequired, message).with("shard", &shard).into());
    }
    cluster.at_shard(&shard, call).await
}
