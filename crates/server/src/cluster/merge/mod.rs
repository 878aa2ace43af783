//! Calls that concern all shards: each shard is asked, and the answers become one.

mod cursor;
mod daemons;
mod events;
mod following;
mod lists;
mod passes;
mod search;
mod sessions;
mod shard;
mod tasks;

use super::Cluster;
use super::call::ShardCall;
use crate::app::Error;
use http::Response;
use std::sync::Arc;
use tonic::Status;
use tonic::body::Body;

/// True for a method whose calls name shards or daemons, however few shards there are.
pub(super) fn names_shards(method: &str) -> bool {
    ["AdminService/GetCluster", "AdminService/MoveShard", "AdminService/CreateBackup"].contains(&method)
}

/// True for a method whose calls may concern several shards.
pub(super) fn merges(method: &str) -> bool {
    names_shards(method)
        || [
            "SessionService/ListSessions",
            "SessionService/WatchSessions",
            "EventService/SubscribeEvents",
            "EventService/ListEvents",
            "RunService/ListRuns",
            "SearchService/SearchHistory",
            "SummaryTaskService/LeaseSummaryTask",
            "EraseService/ApplyRetention",
            "AdminService/GetServerInfo",
            "AdminService/CheckIntegrity",
            "AdminService/StartScrub",
            "AdminService/ListHeads",
        ]
        .contains(&method)
}

/// The answer to a call of a method that `merges`.
pub(super) async fn answer(cluster: Arc<Cluster>, method: &str, call: ShardCall) -> Result<Response<Body>, Status> {
    match method {
        "SessionService/ListSessions" => sessions::list(cluster, call).await,
        "SessionService/WatchSessions" => sessions::watch(cluster, call).await,
        "EventService/SubscribeEvents" => events::subscribe(cluster, call).await,
        "EventService/ListEvents" => events::list(cluster, call).await,
        "RunService/ListRuns" => lists::runs(cluster, call).await,
        "SearchService/SearchHistory" => search::history(cluster, call).await,
        "SummaryTaskService/LeaseSummaryTask" => tasks::lease(cluster, call).await,
        "EraseService/ApplyRetention" => passes::retention(cluster, call).await,
        "AdminService/GetServerInfo" => daemons::info(cluster, call).await,
        "AdminService/CheckIntegrity" => passes::check(cluster, call).await,
        "AdminService/StartScrub" => passes::scrub(cluster, call).await,
        "AdminService/ListHeads" => lists::heads(cluster, call).await,
        "AdminService/CreateBackup" => passes::backup(cluster, call).await,
        "AdminService/GetCluster" => daemons::cluster(&cluster, &call),
        "AdminService/MoveShard" => daemons::move_shard(&cluster, call).await,
        _ => Err(Error::internal(format_args!("{method} merges nothing")).into()),
    }
}
