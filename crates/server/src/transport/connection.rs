//! A connection: its requests, its answers, and its end.

use super::answer::{AnswerBody, record_status};
use super::connections::Connection;
use super::delivery::{CutOff, Delivery};
use super::greeting::{self, GreetedSocket};
use super::http2::{self, Http2};
use super::incoming::RequestBytes;
use super::io::Io;
use super::peer::Peer;
use super::request::RequestClass;
use super::request_body::RequestBody;
use super::server::{ClientStanding, HeadRefusal, Server};
use crate::limits;
use crate::telemetry::span;
use futures::FutureExt as _;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use http::request::Parts;
use http::{HeaderValue, Request, Response, Uri, header};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

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
    /// Its client takes nothing, or has to go at once, or the daemon waits for nothing any more.
    End,
    /// Its client does not answer pings.
    Lost,
}

/// The signals of a connection. Its task wakes at every frame, and looks only at those that came.
type Signals<'a> = FuturesUnordered<BoxFuture<'a, Signal>>;

/// A connection of either version.
enum Protocol<T> {
    Http1(BoxFuture<'static, ()>, CancellationToken),
    Http2(Box<Http2<GreetedSocket<T>>>),
}

/// Serves a connection to its end. All its calls end with it.
pub(super) async fn serve(io: impl Io, peer: Peer, connection: Arc<Connection>, server: Arc<Server>) {
    let signals: [BoxFuture<'_, Signal>; 5] = [
        server.options.stopping.cancelled().map(|()| Signal::Stop).boxed(),
        server.closing.cancelled().map(|()| Signal::Close).boxed(),
        connection.has_to_close().map(|()| Signal::Leave).boxed(),
        connection.aborted().map(|()| Signal::End).boxed(),
        server.aborting.cancelled().map(|()| Signal::End).boxed(),
    ];
    let mut signals: Signals<'_> = signals.into_iter().collect();
    let greeted = tokio::select! {
        biased;
        greeted = Protocol::greet(io, &peer, &connection, &server) => greeted,
        // Nobody waits for a client that has not said what it wants.
        _ = signals.next() => return,
    };
    let Some(mut protocol) = greeted else { return };
    if let Protocol::Http2(http2) = &mut protocol
        && let Some(pings) = http2.ping_pong()
    {
        signals.push(http2::lost(pings, &connection).map(|()| Signal::Lost).boxed());
    }
    loop {
        let signal = tokio::select! {
            biased;
            () = protocol.run(&peer, &connection, &server) => return,
            Some(signal) = signals.next() => signal,
        };
        match signal {
            Signal::Stop => protocol.leave(),
            Signal::Close => {
                connection.cut_off(CutOff::Stopping);
                signals.push(connection.worked().map(|()| Signal::Worked).boxed());
            }
            Signal::Leave => {
                protocol.leave();
                // A call that began meanwhile is answered.
                if connection.is_idle() {
                    break;
                }
            }
            Signal::Worked => break,
            Signal::End => return,
            Signal::Lost => {
                tracing::debug!("a connection ends: its client does not answer");
                return;
            }
        }
    }
    // Time to send what says that it ends.
    drop(tokio::time::timeout(millis(limits::ACCEPT_RETRY_MS), protocol.run(&peer, &connection, &server)).await);
}

impl<T: Io> Protocol<T> {
    /// The protocol that a client speaks, once it has begun to; none for one that says nothing.
    async fn greet(io: T, peer: &Peer, connection: &Arc<Connection>, server: &Arc<Server>) -> Option<Self> {
        let (is_http2, io) = greeting::read(io).await.ok()?;
        if is_http2 {
            return http2::greet(io).await.ok().map(|http2| Self::Http2(Box::new(http2)));
        }
        let leave = CancellationToken::new();
        let serving = serve_http1(io, peer.clone(), connection.clone(), server.clone(), leave.clone());
        Some(Self::Http1(serving.boxed(), leave))
    }

    /// Resolves when the connection has ended.
    async fn run(&mut self, peer: &Peer, connection: &Arc<Connection>, server: &Arc<Server>) {
        let http2 = match self {
            Self::Http1(serving, _) => return serving.as_mut().await,
            Self::Http2(http2) => http2,
        };
        while let Some(accepted) = http2.accept().await {
            let (request, respond) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => return tracing::debug!(%error, "a connection ends"),
            };
            let (peer, connection, of_call) = (peer.clone(), connection.clone(), server.clone());
            let call = move |request| async move { call(request, peer, &connection, &of_call).await };
            server.tasks.spawn(http2::answer(request, respond, call));
        }
    }

    /// Ends the connection once its calls are answered.
    fn leave(&mut self) {
        match self {
            Self::Http1(_, leave) => leave.cancel(),
            Self::Http2(http2) => http2.graceful_shutdown(),
        }
    }
}

/// Serves a connection of HTTP/1.1 to its end, or until it has to leave and its call is answered.
async fn serve_http1<T: Io>(
    io: GreetedSocket<T>,
    peer: Peer,
    connection: Arc<Connection>,
    server: Arc<Server>,
    leave: CancellationToken,
) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(millis(limits::HEADERS_MS_MAX))
        .max_buf_size(limits::SEND_BUFFER_BYTES)
        // Without copies, what was not written is counted.
        .writev(true);
    let service = service_fn(|request: Request<hyper::body::Incoming>| {
        let (peer, connection, server) = (peer.clone(), connection.clone(), server.clone());
        // It waits for an answer from here on, and not only once its call has begun to work.
        let waiting = connection.begin();
        async move {
            let (head, body) = request.into_parts();
            let (body, is_whole) = RequestBytes::http1(body);
            let mut answer = call(Request::from_parts(head, body), peer, &connection, &server).await;
            // What is left of the request would be taken for the next one.
            if !is_whole.load(Ordering::Relaxed) {
                answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            drop(waiting);
            Ok::<_, Infallible>(answer)
        }
    });
    let io = TokioIo::new(io.half_closed(connection.clone()));
    let mut serving = std::pin::pin!(builder.serve_connection(io, service));
    let ended = tokio::select! {
        biased;
        ended = serving.as_mut() => ended,
        () = leave.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ends");
    }
}

/// A request without an answer. If the daemon stops before there is one, the log names it.
struct UnansweredRequest<'a> {
    /// None once it is answered.
    uri: Option<Uri>,
    server: &'a Server,
}

impl Drop for UnansweredRequest<'_> {
    fn drop(&mut self) {
        if let Some(uri) = self.uri.take().filter(|_| self.server.aborting.is_cancelled()) {
            tracing::warn!(method = span::method(uri.path()), "a call did not end in time and is cut off");
        }
    }
}

/// Answers a request.
async fn call(
    request: Request<RequestBytes>,
    peer: Peer,
    connection: &Arc<Connection>,
    server: &Arc<Server>,
) -> Response<AnswerBody> {
    let working = connection.begin();
    let (span, begun) = (span::call(request.uri().path()), Instant::now());
    let mut unanswered = UnansweredRequest { uri: Some(request.uri().clone()), server };
    let answer = answer(request, peer, connection, server).instrument(span.clone()).await;
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
async fn answer(
    request: Request<RequestBytes>,
    peer: Peer,
    connection: &Arc<Connection>,
    server: &Arc<Server>,
) -> Response<axum::body::Body> {
    let (mut head, body) = request.into_parts();
    head.extensions.insert(peer);
    // Credentials are looked at before anything of the body is waited for.
    let class = match (server.options.admit)(&mut head) {
        Ok(ClientStanding::Proven) => {
            connection.prove();
            (server.options.class)(head.uri.path())
        }
        Ok(ClientStanding::Stranger) => RequestClass::Strangers,
        Err(refusal) => {
            drop(body);
            head.extensions.insert(HeadRefusal(refusal));
            return serve_call(head, RequestBody::Refused, server).await;
        }
    };
    let (memory, body) = match RequestBody::admit(&head, body, class, &server.options.traffic, &server.closing).await {
        Ok(admitted) => admitted,
        Err(error) => return (server.options.refuse)(&head.headers, error),
    };
    // The request's content stays in memory until it is answered, in one form or another.
    memory.scope(serve_call(head, body, server)).await
}

fn serve_call(
    head: Parts,
    body: RequestBody,
    server: &Server,
) -> Pin<Box<dyn Future<Output = Response<axum::body::Body>> + Send>> {
    (server.options.service)(Request::from_parts(head, body))
}

fn millis(number: u64) -> Duration {
    Duration::from_millis(number)
}
