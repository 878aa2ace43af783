//! Summary tasks of all shards.

use super::shard::{Shard, client};
use crate::app::Error;
use crate::cluster::Cluster;
use crate::cluster::call::ShardCall;
use crate::cluster::reply;
use crate::limits;
use crate::pb;
use crate::pb::summary_task_service_client::SummaryTaskServiceClient;
use http::Response;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tonic::Status;
use tonic::body::Body;

/// Leases the first task of any shard. One shard is asked after the other, without waiting there: a task that two of them
/// gave at once could not be given back.
pub(super) async fn lease(cluster: Arc<Cluster>, call: ShardCall) -> Result<Response<Body>, Status> {
    let request: pb::LeaseSummaryTaskRequest = call.opened.as_message();
    let mut shards = Shard::all_of(&cluster, &call);
    if !request.session_ids.is_empty() {
        let mut wanted = Vec::new();
        for id in &request.session_ids {
            wanted.push(cluster.shard_of(&call.tenant, id).await?);
        }
        if wanted.iter().all(|shard| *shard == wanted[0]) {
            return cluster.at_session(&request.session_ids[0].clone(), call).await;
        }
        let message = "are in several shards; ask for those of one shard, or for all";
        return Err(Error::field("session_ids", message).into());
    }
    let wait = request.wait_timeout.map_or(Ok(Duration::from_millis(limits::WAIT_MS_DEFAULT)), Duration::try_from);
    let most = Duration::from_millis(limits::WAIT_MS_MAX);
    let wait = wait.ok().filter(|wait| *wait <= most).ok_or_else(|| Error::field("wait_timeout", "is out of range"))?;
    let end = Instant::now() + wait;
    let first = usize::from(rand::random::<u8>()) % shards.len().max(1);
    shards.rotate_left(first);
    let request = pb::LeaseSummaryTaskRequest { wait_timeout: Some(prost_types::Duration::default()), ..request };
    loop {
        for shard in &shards {
            let asked = client!(SummaryTaskServiceClient<Shard>, shard).lease_summary_task(request.clone()).await?;
            if asked.get_ref().task.is_some() {
                return Ok(reply::unary(asked.into_inner()));
            }
        }
        let now = Instant::now();
        if now >= end || cluster.stopping.is_cancelled() {
            return Ok(reply::unary(pb::LeaseSummaryTaskResponse::default()));
        }
        tokio::time::sleep_until(end.min(now + Duration::from_millis(limits::SHARDS_ASK_MS))).await;
    }
}
