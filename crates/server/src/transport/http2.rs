//! A connection of HTTP/2: its requests, each in a task of its own, their answers, and the pings by which a lost client
//! is found.
//!
//! The library frames, and counts the client's windows. Here is what decides when a window opens again: a request's bytes
//! are taken at once and given back only when they are read (`incoming`).

use super::answer::{AnswerBody, Piece};
use super::connections::Connection;
use super::incoming::{self, RequestBytes};
use super::io::Io;
use crate::limits;
use h2::server::{Builder, SendResponse};
use h2::{Ping, PingPong, Reason, SendStream};
use http::{HeaderValue, Request, Response, header};
use http_body::Body as _;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// A connection that has greeted.
pub(super) type Http2<T> = h2::server::Connection<T, Piece>;

/// Waits until both sides have greeted.
pub(super) async fn greet<T: Io>(io: T) -> Result<Http2<T>, h2::Error> {
    Builder::new()
        .initial_window_size(limits::STREAM_WINDOW_BYTES)
        .initial_connection_window_size(limits::CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(limits::CONNECTION_STREAMS_MAX)
        .max_header_list_size(limits::HEADERS_BYTES_MAX)
        .max_send_buffer_size(limits::SEND_BUFFER_BYTES)
        // No frame lies unread, and those of a refused request would be counted for ever.
        .data_frame_budget(usize::MAX / 2)
        .handshake(io)
        .await
}

/// Resolves when the client does not answer a ping.
pub(super) async fn lost(mut pings: PingPong, connection: &Connection) {
    let interval = Duration::from_millis(limits::KEEPALIVE_INTERVAL_MS);
    let timeout = Duration::from_millis(limits::KEEPALIVE_TIMEOUT_MS);
    loop {
        let silent = connection.silent_for();
        if silent < interval {
            tokio::time::sleep(interval - silent).await;
            continue;
        }
        match tokio::time::timeout(timeout, pings.ping(Ping::opaque())).await {
            Ok(Ok(_)) => tokio::time::sleep(interval).await,
            // The connection has ended.
            Ok(Err(_)) => std::future::pending().await,
            Err(_) => return,
        }
    }
}

/// Answers a request: carries its call out while its bytes are taken, and then sends the answer.
pub(super) async fn answer<F>(
    request: Request<h2::RecvStream>,
    mut respond: SendResponse<Piece>,
    call: impl FnOnce(Request<RequestBytes>) -> F,
) where
    F: Future<Output = Response<AnswerBody>>,
{
    let (head, stream) = request.into_parts();
    let (mut pump, reader) = incoming::http2(stream);
    let mut calling = pin!(call(Request::from_parts(head, RequestBytes::Http2(reader))));
    let answered = std::future::poll_fn(|context| {
        pump.poll(context);
        if let Poll::Ready(answer) = calling.as_mut().poll(context) {
            return Poll::Ready(Some(answer));
        }
        // A client that leaves ends its call.
        respond.poll_reset(context).map(|_| None)
    });
    let Some(answer) = answered.await else { return };
    let (mut head, body) = answer.into_parts();
    let is_whole = body.is_end_stream();
    if let (false, Some(length)) = (is_whole, body.size_hint().exact()) {
        head.headers.entry(header::CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(length));
    }
    let stream = match respond.send_response(Response::from_parts(head, ()), is_whole) {
        Ok(stream) => stream,
        Err(error) => {
            tracing::debug!(%error, "an answer could not begin");
            return respond.send_reset(Reason::INTERNAL_ERROR);
        }
    };
    if is_whole {
        return;
    }
    let mut sending = AnswerSender { stream, body, piece: None };
    let sent = std::future::poll_fn(|context| {
        pump.poll(context);
        sending.poll(context)
    });
    if let Err(error) = sent.await {
        tracing::debug!(%error, "an answer was not sent whole");
    }
}

/// An answer on its way.
struct AnswerSender {
    stream: SendStream<Piece>,
    body: AnswerBody,
    /// A piece that waits for the client's window, and whether it is the last.
    piece: Option<(Piece, bool)>,
}

impl AnswerSender {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        loop {
            if let Poll::Ready(reason) = self.stream.poll_reset(context)? {
                return Poll::Ready(Err(reason.into()));
            }
            if self.piece.is_some() {
                while self.stream.capacity() == 0 {
                    match ready!(self.stream.poll_capacity(context)) {
                        Some(granted) => drop(granted?),
                        None => return Poll::Ready(Err(Reason::CANCEL.into())),
                    }
                }
            }
            if let Some((piece, is_last)) = self.piece.take() {
                self.stream.send_data(piece, is_last)?;
                if is_last {
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                None => return Poll::Ready(self.stream.send_data(self.body.nothing(), true)),
                Some(Err(_)) => {
                    self.stream.send_reset(Reason::INTERNAL_ERROR);
                    return Poll::Ready(Err(Reason::INTERNAL_ERROR.into()));
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(piece) => {
                        // More of the connection's window than a byte is asked for with the piece itself: what an answer
                        // has without a piece in hand, others lack.
                        self.stream.reserve_capacity(1);
                        self.piece = Some((piece, self.body.is_end_stream()));
                    }
                    Err(frame) => {
                        self.stream.reserve_capacity(0);
                        let trailers = frame.into_trailers().unwrap_or_default();
                        return Poll::Ready(self.stream.send_trailers(trailers));
                    }
                },
            }
        }
    }
}
