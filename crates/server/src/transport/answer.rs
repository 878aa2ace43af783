//! The body of an answer on its way to its client.
//!
//! The protocol takes one piece of a body at a time, and asks for the next one only when the client's window and the socket
//! let the last one go. So a body is handed over in small pieces of their own memory, each counted until it is written. A
//! client that takes nothing is noticed from outside (`Server::watch`): the answer then lets go of everything that
//! was not handed over, and says why as soon as it is asked for the next piece.

use super::connections::{Connection, UnwrittenBytes, WatchedAnswer};
use super::delivery::{CutOff, Delivery, Trailers};
use crate::limits;
use crate::telemetry::span;
use crate::traffic::{Reservation, Traffic};
use bytes::{Buf, Bytes};
use futures::task::AtomicWaker;
use http::HeaderMap;
use http_body::{Body as _, Frame, SizeHint};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use tracing::Span;

/// Status in the span of a request whose client left before its answer was complete.
const GONE: &str = "gone";
/// The trailer with the status of a gRPC answer.
const STATUS: &str = "grpc-status";

/// An answer that is not sent whole.
pub(super) struct Answer {
    number: u64,
    /// True if its length was known from the begin.
    is_whole: bool,
    connection: Arc<Connection>,
    traffic: Arc<Traffic>,
    delivery: Delivery,
    trailers: Option<Trailers>,
    held: Arc<Reservation>,
    unwritten: UnwrittenBytes,
    /// Time at which it was cut off, in milliseconds of its connection; zero if it was not.
    cut_off_ms: AtomicU64,
    rest: Mutex<Rest>,
    waker: AtomicWaker,
}

/// The part of an answer that was not handed over.
struct Rest {
    /// None once it has ended, or was cut off.
    body: Option<axum::body::Body>,
    /// Bytes of the body that came and were not handed over.
    data: Bytes,
    /// The cursor after these bytes.
    cursor_ahead: Option<String>,
    /// The cursor after everything that was handed over.
    cursor: Option<String>,
    /// Waits while memory for answers is used up.
    full: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    cut_off: Option<CutOff>,
}

/// The body of an answer, for the protocol.
pub(super) struct AnswerBody {
    answer: Arc<Answer>,
    span: Span,
    begun: Instant,
    is_over: bool,
}

/// A piece of an answer, counted until it is written.
pub(super) struct Piece {
    data: Bytes,
    answer: Arc<Answer>,
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.data.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.data.chunk()
    }

    fn advance(&mut self, bytes: usize) {
        self.data.advance(bytes);
        self.answer.record_written(bytes);
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.answer.record_dropped(self.data.len());
    }
}

impl Answer {
    fn rest(&self) -> MutexGuard<'_, Rest> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the client took bytes.
    fn record_written(&self, bytes: usize) {
        let now = self.connection.now_ms();
        self.unwritten.record_written(bytes, now);
        self.connection.unwritten().record_written(bytes, now);
        self.held.touch();
        self.held.shrink(bytes);
        self.delivery.record_taken(bytes);
    }

    /// Records that bytes are gone without being taken.
    fn record_dropped(&self, bytes: usize) {
        if bytes > 0 {
            self.unwritten.record_dropped(bytes);
            self.connection.unwritten().record_dropped(bytes);
            self.held.shrink(bytes);
        }
    }

    fn piece(self: &Arc<Self>, data: Bytes) -> Piece {
        let now = self.connection.now_ms();
        self.unwritten.add(data.len(), now);
        self.connection.unwritten().add(data.len(), now);
        Piece { data, answer: self.clone() }
    }
}

impl WatchedAnswer for Answer {
    fn check(&self, stall: Duration, now_ms: u64) -> bool {
        let is_revoked = self.held.is_revoked() || self.delivery.is_revoked();
        if !is_revoked && !self.unwritten.stands_still(stall, now_ms) {
            return false;
        }
        let cut_off = self.cut_off_ms.load(Ordering::Relaxed);
        if cut_off == 0 {
            self.cut_off(if is_revoked { CutOff::Crowded } else { CutOff::Stalled(stall) });
            return false;
        }
        let waited = now_ms.saturating_sub(cut_off);
        is_revoked && self.unwritten.is_pending() && waited >= limits::IDLE_HOLDER_MS
    }

    fn cut_off(&self, why: CutOff) {
        self.cut_off_ms.store(self.connection.now_ms().max(1), Ordering::Relaxed);
        let (body, data) = {
            let mut rest = self.rest();
            let Some(body) = rest.body.take() else { return };
            rest.cut_off = Some(why);
            rest.full = None;
            (body, std::mem::take(&mut rest.data))
        };
        drop(body);
        self.held.shrink(data.len());
        if why != CutOff::Stopping {
            self.traffic.stalled_answers.add(1);
            tracing::debug!(?why, "an answer was cut off: its client did not take it");
        }
        self.waker.wake();
    }
}

/// Forgets the answer once every piece of it is gone.
impl Drop for Answer {
    fn drop(&mut self) {
        self.connection.remove(self.number, self.is_whole);
    }
}

impl AnswerBody {
    /// A piece without bytes, for an end.
    pub(super) fn nothing(&self) -> Piece {
        Piece { data: Bytes::new(), answer: self.answer.clone() }
    }

    /// The body of an answer on a connection.
    pub(super) fn new(
        body: axum::body::Body,
        (delivery, trailers): (Delivery, Option<Trailers>),
        connection: &Arc<Connection>,
        traffic: &Arc<Traffic>,
        (span, begun): (Span, Instant),
    ) -> Self {
        let reservation = Arc::new(traffic.answers.hold(0));
        let rest =
            Rest { body: Some(body), data: Bytes::new(), cursor_ahead: None, cursor: None, full: None, cut_off: None };
        let is_whole = rest.body.as_ref().is_some_and(|body| body.size_hint().exact().is_some());
        let answer = connection.add(is_whole, |number| {
            Arc::new(Answer {
                number,
                is_whole,
                connection: connection.clone(),
                traffic: traffic.clone(),
                delivery,
                trailers,
                held: reservation,
                unwritten: UnwrittenBytes::default(),
                cut_off_ms: AtomicU64::new(0),
                rest: Mutex::new(rest),
                waker: AtomicWaker::new(),
            })
        });
        Self { answer, span, begun, is_over: false }
    }

    /// The next piece; the waker is registered for a cut-off meanwhile.
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Piece>, axum::BoxError>>> {
        let Self { answer, span, is_over, .. } = self;
        answer.waker.register(context.waker());
        let mut rest = answer.rest();
        loop {
            if let Some(why) = rest.cut_off.take() {
                *is_over = true;
                let end = answer.trailers.map(|trailers| trailers(why, rest.cursor.as_deref()));
                return Poll::Ready(Some(match end {
                    Some(trailers) => {
                        span.in_scope(|| record_status(&trailers));
                        Ok(Frame::trailers(trailers))
                    }
                    None => Err(why.into()),
                }));
            }
            if !rest.data.is_empty() {
                let data = next_piece(&mut rest.data);
                if rest.data.is_empty() {
                    rest.cursor = rest.cursor_ahead.take();
                }
                drop(rest);
                return Poll::Ready(Some(Ok(Frame::data(answer.piece(data)))));
            }
            if let Some(full) = &mut rest.full {
                std::task::ready!(full.as_mut().poll(context));
                rest.full = None;
            } else if answer.held.has_to_wait() {
                let reservation = answer.held.clone();
                rest.full = Some(Box::pin(async move { reservation.wait_while_full().await }));
                continue;
            }
            let Some(body) = &mut rest.body else { return Poll::Ready(None) };
            let frame = {
                let _in_span = span.enter();
                std::task::ready!(Pin::new(body).poll_frame(context))
            };
            match frame {
                None => {
                    *is_over = true;
                    rest.body = None;
                    return Poll::Ready(None);
                }
                Some(Err(error)) => {
                    *is_over = true;
                    rest.body = None;
                    tracing::debug!(%error, "an answer broke off");
                    return Poll::Ready(Some(Err(error.into())));
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        answer.held.grow(data.len());
                        rest.data = data;
                        rest.cursor_ahead = answer.delivery.cursor();
                    }
                    Err(frame) => {
                        *is_over = true;
                        let trailers = frame.into_trailers().unwrap_or_default();
                        span.in_scope(|| record_status(&trailers));
                        return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                    }
                },
            }
        }
    }
}

/// The next bytes to hand over. A piece of a larger body is a copy, so that it does not keep the rest in memory.
fn next_piece(data: &mut Bytes) -> Bytes {
    if data.len() <= limits::PIECE_BYTES {
        return std::mem::take(data);
    }
    let piece = Bytes::copy_from_slice(&data[..limits::PIECE_BYTES]);
    data.advance(limits::PIECE_BYTES);
    piece
}

/// Records the status of a gRPC answer in the span of its request, if it is among these headers or trailers.
pub(super) fn record_status(headers: &HeaderMap) {
    if let Some(status) = headers.get(STATUS) {
        span::record("status", format_args!("{:?}", tonic::Code::from_bytes(status.as_bytes())));
    }
}

impl http_body::Body for AnswerBody {
    type Data = Piece;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, axum::BoxError>>> {
        self.poll_piece(context)
    }

    fn is_end_stream(&self) -> bool {
        let rest = self.answer.rest();
        rest.cut_off.is_none() && rest.data.is_empty() && rest.body.as_ref().is_none_or(|body| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        // Only asked before the first piece.
        self.answer.rest().body.as_ref().map_or_else(SizeHint::new, |body| body.size_hint())
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        let is_whole = self.is_over || http_body::Body::is_end_stream(self);
        let _in_span = self.span.enter();
        if !is_whole {
            span::record("status", GONE);
        }
        tracing::debug!(target: span::CALL, duration_us = self.begun.elapsed().as_micros(), "call ended");
    }
}
