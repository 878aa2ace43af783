//! What daemons and shards are as a whole.

use super::shard::{Shard, client};
use crate::app::{Error, Reason};
use crate::cluster::Cluster;
use crate::cluster::call::ShardCall;
use crate::cluster::reply;
use crate::pb;
use crate::pb::admin_service_client::AdminServiceClient;
use futures::future::try_join_all;
use http::Response;
use std::sync::Arc;
use tonic::Status;
use tonic::body::Body;

/// The state of the first shard, with the sums of all shards' counters.
pub(super) async fn info(cluster: Arc<Cluster>, call: ShardCall) -> Result<Response<Body>, Status> {
    let ask = |shard: Shard| async move {
        let request = pb::GetServerInfoRequest::default();
        Ok::<_, Status>(client!(AdminServiceClient<Shard>, shard).get_server_info(request).await?.into_inner())
    };
    let infos = try_join_all(Shard::all_of(&cluster, &call).into_iter().map(ask)).await?;
    let total = infos.into_iter().reduce(add_state).unwrap_or_default();
    Ok(reply::unary(total))
}

/// The state of two shards. What cannot be added is that of the first one, or the worse.
fn add_state(mut total: pb::GetServerInfoResponse, other: pb::GetServerInfoResponse) -> pb::GetServerInfoResponse {
    macro_rules! sum {
        ($($field:ident),*) => { $(total.$field += other.$field;)* };
    }
    sum!(
        head_seq,
        session_count,
        ready_compaction_count,
        running_compaction_count,
        subscriber_count,
        database_bytes,
        due_session_count,
        breaker_session_count,
        undo_session_count,
        cooldown_session_count,
        overhead_session_count,
        loaded_session_count,
        loaded_session_bytes
    );
    total.oldest_read_ms = total.oldest_read_ms.max(other.oldest_read_ms);
    total.subscriber_lag_count = total.subscriber_lag_count.max(other.subscriber_lag_count);
    total.durability = total.durability.max(other.durability);
    if total.write_state() == pb::WriteState::Accepted {
        total.write_state = other.write_state;
    }
    total.stopped_session_ids.extend(other.stopped_session_ids);
    total.failing_session_ids.extend(other.failing_session_ids);
    total.scheduler_failure = total.scheduler_failure.take().or(other.scheduler_failure);
    for count in other.compactions {
        let key = |of: &pb::CompactionCount| (of.kind, of.level, of.trigger, of.state);
        match total.compactions.iter_mut().find(|known| key(known) == key(&count)) {
            Some(known) => known.count += count.count,
            None => total.compactions.push(count),
        }
    }
    for count in other.contradictions {
        match total.contradictions.iter_mut().find(|known| known.kind == count.kind) {
            Some(known) => known.count += count.count,
            None => total.contradictions.push(count),
        }
    }
    for count in other.over_window_counts {
        match total.over_window_counts.iter_mut().find(|known| known.reason == count.reason) {
            Some(known) => known.session_count += count.session_count,
            None => total.over_window_counts.push(count),
        }
    }
    for spending in other.spendings {
        let is_same = |known: &&mut pb::SummarizerSpending| {
            known.summarizer == spending.summarizer && known.model == spending.model
        };
        match total.spendings.iter_mut().find(is_same) {
            Some(known) => add_spending(known, spending),
            None => total.spendings.push(spending),
        }
    }
    for used in other.quota_uses {
        match total.quota_uses.iter_mut().find(|known| known.tenant == used.tenant && known.quota == used.quota) {
            Some(known) => known.used += used.used,
            None => total.quota_uses.push(used),
        }
    }
    total
}

fn add_spending(known: &mut pb::SummarizerSpending, other: pb::SummarizerSpending) {
    known.request_count += other.request_count;
    known.failure_count += other.failure_count;
    known.cost_micro_usd += other.cost_micro_usd;
    known.unpriced_count += other.unpriced_count;
    known.duration_ms += other.duration_ms;
    let (usage, added) = (known.usage.get_or_insert_default(), other.usage.unwrap_or_default());
    usage.input_tokens += added.input_tokens;
    usage.output_tokens += added.output_tokens;
    usage.reasoning_tokens += added.reasoning_tokens;
    usage.cache_read_tokens += added.cache_read_tokens;
    usage.cache_write_tokens += added.cache_write_tokens;
}

/// The daemons and the shards, as the registry has them.
pub(super) fn cluster(cluster: &Cluster, call: &ShardCall) -> Result<Response<Body>, Status> {
    require_operator(call)?;
    let survey = cluster.survey.borrow().clone();
    let daemons = survey.daemons.into_iter().map(|daemon| pb::ClusterDaemon {
        answering: daemon.id == cluster.me.id,
        daemon_id: daemon.id,
        address: daemon.address,
        failures: daemon
            .failures
            .into_iter()
            .map(|failure| pb::ClusterShardFailure { shard: failure.shard, error: failure.error })
            .collect(),
    });
    let milliseconds = |time: std::time::Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let shards = survey.shards.into_iter().map(|shard| pb::ClusterShard {
        name: shard.name,
        owner_daemon_id: shard.owner,
        lease_left_ms: milliseconds(shard.lease_left),
        destination_daemon_id: shard.destination.filter(|_| shard.is_pinned),
        head_seq: shard.head_seq,
    });
    Ok(reply::unary(pb::GetClusterResponse { daemons: daemons.collect(), shards: shards.collect() }))
}

/// Has a daemon own a shard, or lets any daemon own it again.
pub(super) async fn move_shard(cluster: &Cluster, call: ShardCall) -> Result<Response<Body>, Status> {
    require_operator(&call)?;
    let request: pb::MoveShardRequest = call.opened.as_message();
    if !cluster.shards().contains(&request.shard) {
        let message = format!("the database has no shard {:?}", request.shard);
        return Err(Error::new(Reason::ShardNotFound, message).with("shard", &request.shard).into());
    }
    let daemons = cluster.survey.borrow().daemons.clone();
    let to = request.daemon_id.as_deref();
    if let Some(to) = to
        && !daemons.iter().any(|daemon| daemon.id == to)
    {
        let message = format!("no daemon {to:?} runs with this database");
        return Err(Error::new(Reason::DaemonNotFound, message).with("daemon_id", to).into());
    }
    cluster.registry.destine(&request.shard, to, to.is_some()).await.map_err(Error::from)?;
    Ok(reply::unary(pb::MoveShardResponse {}))
}

fn require_operator(call: &ShardCall) -> Result<(), Error> {
    if call.access.is_operator() {
        return Ok(());
    }
    Err(Error::new(Reason::ScopeMissing, "the shards concern every tenant: they are for operators alone"))
}
