//! A connection: its requests, its answers, and its end.

use super::answer::{AnswerBody, record_status};
use super::connections::Connection;
use super::delivery::{CutOff, Delivery};
use super::io::Io;
use super::peer::Peer;
use super::request_body::RequestBody;
use super::server::Server;
use crate::limits;
use crate::telemetry::span;
use futures::FutureExt as _;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

/// Starts the tasks of a connection's streams among those that the daemon waits for.
#[derive(Clone)]
struct Executor(TaskTracker);

impl<F: Future<Output: Send> + Send + 'static> hyper::rt::Executor<F> for Executor {
    fn execute(&self, future: F) {
        self.0.spawn(future);
    }
}

fn builder(server: &Server) -> Builder<Executor> {
    let mut builder = Builder::new(Executor(server.tasks.clone()));
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(millis(limits::HEADERS_MS_MAX))
        .max_buf_size(limits::SEND_BUFFER_BYTES)
        // Without copies, what was not written is counted.
        .writev(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(limits::STREAM_WINDOW_BYTES)
        .initial_connection_window_size(limits::CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(limits::CONNECTION_STREAMS_MAX)
        .max_header_list_size(limits::HEADERS_BYTES_MAX)
        .max_send_buf_size(limits::SEND_BUFFER_BYTES)
        .keep_alive_interval(millis(limits::KEEPALIVE_INTERVAL_MS))
        .keep_alive_timeout(millis(limits::KEEPALIVE_TIMEOUT_MS));
    builder
}

/// What a connection hears from outside.
enum Signal {
    /// The daemon stops.
    Stop,
    /// The daemon stops waiting for clients.
    Close,
    /// It makes way for another connection.
    Leave,
    /// Its answers have begun since the daemon stopped waiting: a client that ignores its end is not waited for.
    Worked,
    /// Its client takes nothing, or the daemon waits for nothing any more.
    End,
}

/// Serves a connection to its end. All its calls end with it.
pub(super) async fn serve(io: impl Io, peer: Peer, connection: Arc<Connection>, server: Arc<Server>) {
    let service = service_fn(|request| {
        let (peer, connection, server) = (peer.clone(), connection.clone(), server.clone());
        async move { Ok::<_, Infallible>(call(request, peer, &connection, &server).await) }
    });
    let io = TokioIo::new(io);
    let builder = builder(&server);
    let mut serving = pin!(builder.serve_connection(io, service));
    // The connection's task wakes at every frame, and looks only at signals that came.
    let signals: [BoxFuture<'_, Signal>; 5] = [
        server.options.stopping.cancelled().map(|()| Signal::Stop).boxed(),
        server.closing.cancelled().map(|()| Signal::Close).boxed(),
        connection.has_to_close().map(|()| Signal::Leave).boxed(),
        connection.aborted().map(|()| Signal::End).boxed(),
        server.aborting.cancelled().map(|()| Signal::End).boxed(),
    ];
    let mut signals: FuturesUnordered<_> = signals.into_iter().collect();
    loop {
        let signal = tokio::select! {
            biased;
            ended = serving.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ends");
                }
                return;
            }
            Some(signal) = signals.next() => signal,
        };
        match signal {
            Signal::Stop => serving.as_mut().graceful_shutdown(),
            Signal::Close => {
                connection.cut_off(CutOff::Stopping);
                signals.push(connection.worked().map(|()| Signal::Worked).boxed());
            }
            Signal::Leave => {
                serving.as_mut().graceful_shutdown();
                // A call that began meanwhile is answered.
                if connection.is_idle() {
                    break;
                }
            }
            Signal::Worked => break,
            Signal::End => return,
        }
    }
    // Time to send what says that it ends.
    drop(tokio::time::timeout(millis(limits::ACCEPT_RETRY_MS), serving).await);
}

/// A request without an answer. If the daemon stops before there is one, the log names it.
struct Unanswered<'a> {
    /// None once it is answered.
    uri: Option<Uri>,
    server: &'a Server,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if let Some(uri) = self.uri.take().filter(|_| self.server.aborting.is_cancelled()) {
            tracing::warn!(method = span::method(uri.path()), "a call did not end in time and is cut off");
        }
    }
}

/// Answers a request.
async fn call(
    request: Request<Incoming>,
    peer: Peer,
    connection: &Arc<Connection>,
    server: &Arc<Server>,
) -> Response<AnswerBody> {
    let working = connection.begin();
    let (span, begun) = (span::call(request.uri().path()), Instant::now());
    let mut unanswered = Unanswered { uri: Some(request.uri().clone()), server };
    let answer = answer(request, peer, server).instrument(span.clone()).await;
    unanswered.uri = None;
    let (mut head, body) = answer.into_parts();
    span.in_scope(|| record_status(&head.headers));
    let delivery = head.extensions.remove::<Delivery>().unwrap_or_default();
    let trailers = (server.options.trailers)(&head.headers);
    let body = AnswerBody::new(body, (delivery, trailers), connection, &server.options.traffic, (span, begun));
    drop(working);
    Response::from_parts(head, body)
}

/// The answer to a request, or its refusal.
async fn answer(request: Request<Incoming>, peer: Peer, server: &Arc<Server>) -> Response<axum::body::Body> {
    let (mut head, body) = request.into_parts();
    let class = (server.options.class)(head.uri.path());
    let body = match RequestBody::admit(&head, body, class, &server.options.traffic, &server.closing).await {
        Ok(body) => body,
        Err(error) => return (server.options.refuse)(&head.headers, error),
    };
    // The request's content stays in memory until it is answered, in one form or another.
    let held = body.held();
    head.extensions.insert(peer);
    let answer = (server.options.service)(Request::from_parts(head, body)).await;
    drop(held);
    answer
}

fn millis(number: u64) -> Duration {
    Duration::from_millis(number)
}
