//! Calls that concern all shards: each shard is asked, and the answers become one.

mod cursor;
mod daemons;
mod events;
mod lists;
mod passes;
mod search;
mod sessions;
mod tasks;

use super::opened::Opened;
use super::route::Call;
use super::{Cluster, Head};
use crate::pb;
use http::{HeaderName, Request, Response};
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::BoxFuture;

/// Headers of a call that every shard gets.
const PASSED: [HeaderName; 3] = [
    HeaderName::from_static(pb::ACTOR_HEADER),
    HeaderName::from_static(pb::TENANT_HEADER),
    HeaderName::from_static(pb::RUN_EPOCH_HEADER),
];

/// True for a method that is about the daemons themselves, however few shards there are.
pub(super) fn concerns_daemons(method: &str) -> bool {
    ["AdminService/GetCluster", "AdminService/MoveShard"].contains(&method)
}

/// True for a method whose calls may concern several shards.
pub(super) fn merges(method: &str) -> bool {
    concerns_daemons(method)
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
            "AdminService/CreateBackup",
        ]
        .contains(&method)
}

/// The answer to a call of a method that `merges`.
pub(super) async fn answer(cluster: Arc<Cluster>, method: &str, call: Call) -> Result<Response<Body>, Status> {
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
        _ => daemons::move_shard(&cluster, call).await,
    }
}

/// The services of a shard, for the caller of another call.
#[derive(Clone)]
pub(super) struct Shard {
    cluster: Arc<Cluster>,
    name: String,
    head: Arc<Head>,
}

impl Shard {
    /// All shards, in the order of their numbers.
    fn all(cluster: &Arc<Cluster>, call: &Call) -> Vec<Self> {
        let head = Arc::new(call.head.clone());
        let shard = |name| Self { cluster: Arc::clone(cluster), name, head: Arc::clone(&head) };
        cluster.shards().into_iter().map(shard).collect()
    }

    async fn answer(self, request: Request<Body>) -> Response<Body> {
        let (mut parts, body) = request.into_parts();
        let of_caller = &self.head.parts;
        for name in PASSED {
            if let Some(value) = of_caller.headers.get(&name) {
                parts.headers.insert(name, value.clone());
            }
        }
        parts.extensions = of_caller.extensions.clone();
        let head = Head { parts, is_repeatable: self.head.is_repeatable };
        match Opened::read(body, false).await {
            Ok(mut opened) => self.cluster.answer_at(&self.name, &head, &mut opened).await,
            Err(status) => status.into_http(),
        }
    }
}

impl tower::Service<Request<Body>> for Shard {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let shard = self.clone();
        Box::pin(async move { Ok(shard.answer(request).await) })
    }
}

/// A client of a service of a shard, with the limits of answers.
macro_rules! client {
    ($client:ty, $shard:expr) => {
        <$client>::new($shard.clone()).max_decoding_message_size(crate::limits::RESPONSE_BYTES_MAX)
    };
}
use client;
