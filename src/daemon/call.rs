//! A call: reading its request, sending its answer.
//!
//! An answer's bytes are given to the transport only as the client's window accepts them, so that an answer can be
//! ended even for a client that grants no window. The bytes are counted until the transport has written them: a client
//! may grant windows and not read its socket.

use super::request;
use super::server::Server;
use crate::app::memory::Reservation;
use crate::grpc::{self, CutOff, Delivery};
use crate::limits;
use crate::telemetry::span;
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderName, Request, Response};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Code;
use tonic::body::Body;
use tower::ServiceExt as _;
use tracing::Instrument as _;

/// The header with the caller's deadline.
const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
/// The header or trailer with the status of an answer.
const STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// Status in the span of a request whose client left before its answer was complete.
const GONE: &str = "gone";

/// End of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// All of it was sent or dropped.
    Done,
    /// The client does not read its socket: part of the answer stays in memory until the connection ends.
    Stuck,
}

/// Answers a request. Returns when the client has the answer, is gone, or was sent the reason why it gets none.
pub(super) async fn run(request: Request<RecvStream>, respond: SendResponse<Bytes>, server: Arc<Server>) -> End {
    let span = span::call(request.uri().path());
    let begun = Instant::now();
    let call = async {
        let end = serve(request, respond, server).await;
        tracing::debug!(target: span::CALL, duration_us = begun.elapsed().as_micros(), "call ended");
        end
    };
    call.instrument(span).await
}

async fn serve(request: Request<RecvStream>, mut respond: SendResponse<Bytes>, server: Arc<Server>) -> End {
    let timeout = request.headers().get(TIMEOUT).and_then(|value| read_timeout(value.to_str().ok()?));
    let answer = tokio::select! {
        _ = poll_fn(|context| respond.poll_reset(context)) => {
            span::record("status", GONE);
            return End::Done;
        }
        answer = answer(request, &server) => answer,
        () = passed(timeout) => grpc::too_late(),
    };
    let (mut head, body) = answer.into_parts();
    let delivery = head.extensions.remove::<Delivery>().unwrap_or_default();
    let is_whole = body.is_end_stream();
    record_status(&head.headers);
    match respond.send_response(Response::from_parts(head, ()), is_whole) {
        Ok(_) if is_whole => End::Done,
        Ok(stream) => send(stream, body, &delivery, &server).await,
        Err(error) => {
            tracing::debug!(%error, "an answer could not be sent");
            End::Done
        }
    }
}

/// The answer to a request, or its refusal.
async fn answer(request: Request<RecvStream>, server: &Server) -> Response<Body> {
    let (head, stream) = request.into_parts();
    let body = match request::admit(head.uri.path(), stream, server).await {
        Ok(body) => body,
        Err(error) => return grpc::refuse(error),
    };
    // The request's content stays in memory until it is answered, in one form or another.
    let held = body.held();
    let Ok(answer) = server.routes.clone().oneshot(Request::from_parts(head, body)).await;
    drop(held);
    grpc::explain(answer)
}

/// Records the status of an answer in the span of its request, if it is among these headers or trailers.
fn record_status(headers: &HeaderMap) {
    if let Some(status) = headers.get(STATUS) {
        span::record("status", format_args!("{:?}", Code::from_bytes(status.as_bytes())));
    }
}

/// The duration in a caller's deadline: digits and a unit.
fn read_timeout(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u32 = number.parse().ok().filter(|_| number.len() <= 8)?;
    let unit = match unit {
        "H" => Duration::from_secs(3_600),
        "M" => Duration::from_secs(60),
        "S" => Duration::from_secs(1),
        "m" => Duration::from_millis(1),
        "u" => Duration::from_micros(1),
        "n" => Duration::from_nanos(1),
        _ => return None,
    };
    Some(unit * number)
}

async fn passed(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}

/// Reason why the sending of an answer stops.
enum StopReason {
    /// The client is gone.
    Gone,
    /// The answer is cut off.
    CutOff(CutOff),
}

/// The bytes of an answer until the transport has written them.
struct Unwritten {
    held: Arc<Reservation>,
    /// Shared with every frame that is not written; dropped with the last of them.
    left: Arc<DropGuard>,
    written: CancellationToken,
}

/// A frame of an answer. Any unwritten piece of it keeps the whole frame in memory.
struct UnwrittenFrame {
    data: Bytes,
    held: Arc<Reservation>,
    _left: Arc<DropGuard>,
}

impl AsRef<[u8]> for UnwrittenFrame {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Drop for UnwrittenFrame {
    fn drop(&mut self) {
        self.held.shrink(self.data.len());
    }
}

impl Unwritten {
    fn new(server: &Server) -> Self {
        let written = CancellationToken::new();
        let left = Arc::new(written.clone().drop_guard());
        Self { held: Arc::new(server.traffic.answers.hold(0)), left, written }
    }

    /// The same bytes, counted until the last of them is dropped.
    fn count(&self, data: Bytes) -> Bytes {
        self.held.grow(data.len());
        Bytes::from_owner(UnwrittenFrame { data, held: self.held.clone(), _left: self.left.clone() })
    }

    /// Waits until the transport has written everything. Bytes without progress are discarded.
    async fn written(self, stream: &mut SendStream<Bytes>, server: &Server) -> End {
        let Self { held, left, written } = self;
        drop(left);
        tokio::select! {
            () = written.cancelled() => return End::Done,
            () = server.closing.cancelled() => return End::Done,
            () = tokio::time::sleep(server.stall) => {}
            () = held.revoked() => {}
        }
        stream.send_reset(Reason::CANCEL);
        // A frame that is partly written cannot be taken back.
        let timeout = Duration::from_millis(limits::IDLE_HOLDER_MS);
        let written = tokio::time::timeout(timeout, written.cancelled()).await;
        if written.is_ok() { End::Done } else { End::Stuck }
    }
}

/// Sends an answer as its client accepts it.
async fn send(mut stream: SendStream<Bytes>, body: Body, delivery: &Delivery, server: &Server) -> End {
    let unwritten = Unwritten::new(server);
    match send_frames(&mut stream, body, delivery, &unwritten, server).await {
        Ok(()) => {}
        Err(StopReason::Gone) => span::record("status", GONE),
        Err(StopReason::CutOff(why)) => cut_off(&mut stream, delivery, why, server),
    }
    unwritten.written(&mut stream, server).await
}

async fn send_frames(
    stream: &mut SendStream<Bytes>,
    mut body: Body,
    delivery: &Delivery,
    unwritten: &Unwritten,
    server: &Server,
) -> Result<(), StopReason> {
    loop {
        let next = async {
            unwritten.held.wait_while_full().await;
            body.frame().await
        };
        let frame = tokio::select! {
            _ = poll_fn(|context| stream.poll_reset(context)) => return Err(StopReason::Gone),
            frame = next => frame,
            () = unwritten.held.revoked() => return Err(StopReason::CutOff(CutOff::Crowded)),
            () = server.closing.cancelled() => return Err(StopReason::CutOff(CutOff::Stopping)),
        };
        let sent = match frame {
            None => stream.send_data(Bytes::new(), true),
            Some(Err(error)) => {
                tracing::debug!(%error, "an answer broke off");
                stream.send_reset(Reason::INTERNAL_ERROR);
                return Ok(());
            }
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => {
                    give(stream, unwritten.count(data), delivery, &unwritten.held, server).await?;
                    continue;
                }
                Err(frame) => {
                    let trailers = frame.into_trailers().unwrap_or_default();
                    record_status(&trailers);
                    stream.send_trailers(trailers)
                }
            },
        };
        if let Err(error) = sent {
            tracing::debug!(%error, "an answer could not be ended");
        }
        return Ok(());
    }
}

/// Sends some bytes as the client's window accepts them.
async fn give(
    stream: &mut SendStream<Bytes>,
    mut data: Bytes,
    delivery: &Delivery,
    held: &Reservation,
    server: &Server,
) -> Result<(), StopReason> {
    let mut stalled = pin!(tokio::time::sleep(server.stall));
    while !data.is_empty() {
        stream.reserve_capacity(data.len().min(limits::SEND_BUFFER_BYTES));
        let writable_bytes = stream.capacity().min(data.len());
        if writable_bytes == 0 {
            let waiting = tokio::select! {
                capacity = poll_fn(|context| stream.poll_capacity(context)) => match capacity {
                    Some(Ok(_)) => continue,
                    Some(Err(_)) | None => StopReason::Gone,
                },
                () = &mut stalled => StopReason::CutOff(CutOff::Stalled(server.stall)),
                () = held.revoked() => StopReason::CutOff(CutOff::Crowded),
                () = delivery.revoked() => StopReason::CutOff(CutOff::Crowded),
                () = server.closing.cancelled() => StopReason::CutOff(CutOff::Stopping),
            };
            return Err(waiting);
        }
        stream.send_data(data.split_to(writable_bytes), false).map_err(|_| StopReason::Gone)?;
        delivery.taken(writable_bytes);
        held.touch();
        stalled.as_mut().reset(Instant::now() + server.stall);
    }
    Ok(())
}

/// Ends an answer that its client does not take. Trailers need no window, so that they reach the client.
fn cut_off(stream: &mut SendStream<Bytes>, delivery: &Delivery, why: CutOff, server: &Server) {
    if why != CutOff::Stopping {
        server.traffic.stalled_answers.add(1);
        tracing::info!(?why, "an answer was cut off: its client did not take it");
    }
    stream.reserve_capacity(0);
    let trailers = delivery.cut_off(why);
    record_status(&trailers);
    if let Err(error) = stream.send_trailers(trailers) {
        tracing::debug!(%error, "an answer could not be ended");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_parsed_in_every_unit() {
        let cases = [
            ("2H", Some(Duration::from_secs(7_200))),
            ("1M", Some(Duration::from_secs(60))),
            ("3S", Some(Duration::from_secs(3))),
            ("99999999m", Some(Duration::from_millis(99_999_999))),
            ("5u", Some(Duration::from_micros(5))),
            ("7n", Some(Duration::from_nanos(7))),
            ("999999999m", None),
            ("m", None),
            ("", None),
            ("5", None),
            ("5ä", None),
        ];
        for (text, expected) in cases {
            assert_eq!(read_timeout(text), expected, "{text:?}");
        }
    }
}
