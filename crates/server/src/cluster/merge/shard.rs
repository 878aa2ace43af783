//! One of the shards that are asked for the caller of a merged call.

use crate::cluster::Cluster;
use crate::cluster::call::{Head, ShardCall};
use crate::cluster::opened::OpenedRequest;
use crate::pb;
use http::{HeaderName, Request, Response};
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::codegen::BoxFuture;

/// Headers of a call that every shard gets.
const PASSED: [HeaderName; 3] = [
    HeaderName::from_static(pb::ACTOR_HEADER),
    HeaderName::from_static(pb::TENANT_HEADER),
    HeaderName::from_static(pb::RUN_EPOCH_HEADER),
];

/// The services of a shard, for the caller of another call.
#[derive(Clone)]
pub(super) struct Shard {
    pub(super) cluster: Arc<Cluster>,
    pub(super) name: String,
    head: Arc<Head>,
}

impl Shard {
    /// All shards, in the order of their numbers.
    pub(super) fn all_of(cluster: &Arc<Cluster>, call: &ShardCall) -> Vec<Self> {
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
        match OpenedRequest::read(body, false).await {
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
pub(super) use client;
