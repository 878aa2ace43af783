//! The bytes of a request as they come from a connection of either version.
//!
//! Over HTTP/2, bytes are taken from the protocol as soon as they are there, whoever reads them and when: what lies unread
//! in the library counts against the connection, frame by frame. They wait in a buffer of our own instead, joined if they
//! are small, and the client's window opens again only when somebody reads them. So a reader that waits holds its client
//! back, and nobody else.

use bytes::{Bytes, BytesMut};
use h2::{FlowControl, RecvStream};
use http::HeaderMap;
use http_body::{Body, Frame};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

/// Bytes below which a piece is copied behind others. A piece of its own keeps the buffer that it was read into.
const JOINED_BYTES: usize = 4 * 1024;

/// The bytes of a request.
pub(super) enum RequestBytes {
    /// Over HTTP/1.1, with whether all of it was read.
    Http1(hyper::body::Incoming, Arc<AtomicBool>),
    /// Over HTTP/2.
    Http2(BodyReader),
}

/// The reader of a request over HTTP/2.
pub(super) struct BodyReader(Arc<Inbox>);

/// What takes the bytes of a request over HTTP/2 from the protocol.
pub(super) struct Pump {
    /// None once the request has ended, or nobody reads it any more.
    stream: Option<RecvStream>,
    inbox: Arc<Inbox>,
}

/// Bytes between both.
struct Inbox(Mutex<InboxState>);

struct InboxState {
    pieces: VecDeque<Bytes>,
    /// Small pieces behind those.
    joined: BytesMut,
    flow: FlowControl,
    end: Option<BodyEnd>,
    /// False once nobody reads any more.
    is_read: bool,
    reader: Option<Waker>,
}

enum BodyEnd {
    Whole,
    Trailers(HeaderMap),
    Broken(String),
}

/// A request over HTTP/2: what takes its bytes, and their reader.
pub(super) fn http2(mut stream: RecvStream) -> (Pump, BodyReader) {
    let flow = stream.flow_control().clone();
    let state = InboxState {
        pieces: VecDeque::new(),
        joined: BytesMut::new(),
        flow,
        end: stream.is_end_stream().then_some(BodyEnd::Whole),
        is_read: true,
        reader: None,
    };
    let stream = state.end.is_none().then_some(stream);
    let inbox = Arc::new(Inbox(Mutex::new(state)));
    (Pump { stream, inbox: inbox.clone() }, BodyReader(inbox))
}

impl Inbox {
    fn state(&self) -> MutexGuard<'_, InboxState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InboxState {
    fn push(&mut self, data: Bytes) {
        if !self.is_read {
            return self.release(data.len());
        }
        if data.is_empty() {
            return;
        }
        let is_first = self.pieces.is_empty() && self.joined.is_empty();
        if !is_first && data.len() < JOINED_BYTES {
            return self.joined.extend_from_slice(&data);
        }
        if !self.joined.is_empty() {
            let joined = self.joined.split().freeze();
            self.pieces.push_back(joined);
        }
        self.pieces.push_back(data);
    }

    /// The next bytes, for which the client may send others.
    fn take(&mut self) -> Option<Bytes> {
        let joined = &mut self.joined;
        let piece = self.pieces.pop_front().or_else(|| (!joined.is_empty()).then(|| joined.split().freeze()))?;
        self.release(piece.len());
        Some(piece)
    }

    fn release(&mut self, bytes: usize) {
        // A request that its client broke off has no window.
        drop(self.flow.release_capacity(bytes));
    }

    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

impl Pump {
    /// Takes what has come. The task is woken when more does.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) {
        let Some(stream) = &mut self.stream else { return };
        let end = loop {
            match stream.poll_data(context) {
                Poll::Pending if self.inbox.state().is_read => return,
                Poll::Pending => break BodyEnd::Whole,
                Poll::Ready(Some(Ok(data))) => {
                    let mut state = self.inbox.state();
                    state.push(data);
                    state.wake();
                }
                Poll::Ready(Some(Err(error))) => break BodyEnd::Broken(error.to_string()),
                Poll::Ready(None) => match stream.poll_trailers(context) {
                    Poll::Pending => return,
                    Poll::Ready(Ok(Some(trailers))) => break BodyEnd::Trailers(trailers),
                    Poll::Ready(Ok(None)) => break BodyEnd::Whole,
                    Poll::Ready(Err(error)) => break BodyEnd::Broken(error.to_string()),
                },
            }
        };
        self.stream = None;
        self.end(end);
    }

    fn end(&self, end: BodyEnd) {
        let mut state = self.inbox.state();
        state.end.get_or_insert(end);
        state.wake();
    }
}

/// The call is over: whoever still reads its request finds an end.
impl Drop for Pump {
    fn drop(&mut self) {
        self.end(BodyEnd::Broken("the call is over".to_owned()));
    }
}

impl Drop for BodyReader {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_read = false;
        let unread = state.pieces.iter().map(Bytes::len).sum::<usize>() + state.joined.len();
        state.pieces.clear();
        state.joined.clear();
        if unread > 0 {
            state.release(unread);
        }
    }
}

impl BodyReader {
    fn poll(&self, context: &Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let mut state = self.0.state();
        if let Some(data) = state.take() {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        let Some(end) = &mut state.end else {
            state.reader = Some(context.waker().clone());
            return Poll::Pending;
        };
        Poll::Ready(match std::mem::replace(end, BodyEnd::Whole) {
            BodyEnd::Whole => None,
            BodyEnd::Trailers(trailers) => Some(Ok(Frame::trailers(trailers))),
            BodyEnd::Broken(why) => Some(Err(why.into())),
        })
    }

    fn is_end_stream(&self) -> bool {
        let state = self.0.state();
        state.pieces.is_empty() && state.joined.is_empty() && matches!(state.end, Some(BodyEnd::Whole))
    }
}

impl RequestBytes {
    /// A request over HTTP/1.1, and whether all of it was read.
    pub(super) fn http1(body: hyper::body::Incoming) -> (Self, Arc<AtomicBool>) {
        let is_whole = Arc::new(AtomicBool::new(body.is_end_stream()));
        (Self::Http1(body, is_whole.clone()), is_whole)
    }
}

impl Body for RequestBytes {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        match &mut *self {
            Self::Http1(body, is_whole) => {
                let frame = ready!(Pin::new(&mut *body).poll_frame(context));
                if frame.is_none() || body.is_end_stream() {
                    is_whole.store(true, Ordering::Relaxed);
                }
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Self::Http2(reader) => reader.poll(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(body, _) => body.is_end_stream(),
            Self::Http2(reader) => reader.is_end_stream(),
        }
    }
}
