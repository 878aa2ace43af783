//! What all connections share, and the watch over them.

use super::connections::Connections;
use super::delivery::Trailers;
use super::request::RequestClass;
use super::request_body::RequestBody;
use crate::app::Error;
use crate::limits;
use crate::traffic::Traffic;
use futures::future::BoxFuture;
use http::request::Parts;
use http::{HeaderMap, Request, Response};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The service of all requests.
pub type Service = Box<dyn Fn(Request<RequestBody>) -> BoxFuture<'static, Response<axum::body::Body>> + Send + Sync>;

/// Looks at the head of a request before anything of its body is waited for.
pub type Admission = Box<dyn Fn(&mut Parts) -> Result<ClientStanding, Error> + Send + Sync>;

/// What a request's head says of its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientStanding {
    /// The client has proven who it is, and may call what it calls.
    Proven,
    /// Nothing is known of the client, and the call is anybody's.
    Stranger,
}

/// Why a request is refused by its head, in its extensions: the service answers it, and there is no body.
#[derive(Debug, Clone)]
pub struct HeadRefusal(pub Error);

/// What the transport needs of the services behind it.
pub struct Options {
    /// The service of all requests.
    pub service: Service,
    /// Who may call what.
    pub admit: Admission,
    /// What a request's path says about its size.
    pub class: fn(&str) -> RequestClass,
    /// The answer to a request with these headers that is refused before any service sees it.
    pub refuse: fn(&HeaderMap, Error) -> Response<axum::body::Body>,
    /// What makes the trailers of an answer with these headers if it is cut off; without it the answer just breaks off.
    pub trailers: fn(&HeaderMap) -> Option<Trailers>,
    /// Counters of memory and connections.
    pub traffic: Arc<Traffic>,
    /// Time for which a client may take nothing of an answer.
    pub stall: Duration,
    /// Cancelled when new connections are refused and streams end.
    pub stopping: CancellationToken,
}

/// State shared by all connections.
pub(super) struct Server {
    pub(super) options: Options,
    /// Cancelled when the daemon stops waiting for clients. Each request has it, and a clone of a token takes a lock.
    pub(super) closing: Arc<CancellationToken>,
    /// Cancelled when the daemon stops waiting for anything.
    pub(super) aborting: CancellationToken,
    pub(super) connections: Connections,
    pub(super) tasks: TaskTracker,
}

impl Server {
    /// The state of a transport with at most this many connections.
    pub(super) fn new(options: Options, connections_max: usize) -> Self {
        Self {
            options,
            closing: Arc::default(),
            aborting: CancellationToken::new(),
            connections: Connections::new(connections_max),
            tasks: TaskTracker::new(),
        }
    }

    /// Looks at all connections again and again until the daemon stops waiting for clients.
    pub(super) async fn watch(self: Arc<Self>) {
        let longest = Duration::from_millis(limits::IDLE_HOLDER_MS) / 8;
        let mut ticks = tokio::time::interval((self.options.stall / 8).min(longest));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                // Afterwards each connection ends by itself.
                () = self.closing.cancelled() => return,
                _ = ticks.tick() => {}
            }
            let open = self.connections.open_connections();
            if open.is_empty() && self.options.stopping.is_cancelled() {
                return;
            }
            for connection in open {
                connection.check(self.options.stall);
            }
        }
    }
}
