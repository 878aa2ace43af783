//! The bytes of a request as they come in. Its memory is reserved before the client sends it, by the length that it
//! announces, and not a byte more is accepted. A request without progress is dropped for others.

use super::incoming::RequestBytes;
use crate::app::{Error, Reason};
use crate::limits;
use crate::traffic::{MemoryBudget, RequestMemory, Reservation, Traffic};
use bytes::{Buf as _, Bytes, BytesMut};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http_body::{Body as _, Frame};
use http_body_util::BodyExt as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Bytes that gRPC puts before each message: a flag for compression, and the length.
pub(super) const PREFIX_BYTES: usize = 5;
/// Maximum ratio of decompressed to compressed bytes.
const COMPRESSION_MAX: usize = 1_032;
/// The header with the compression of a message of gRPC-Web.
const ENCODING: &str = "grpc-encoding";
/// The content types of gRPC, which announces the length of a message at its beginning.
const GRPC: [&str; 2] = ["application/grpc", "application/grpc+proto"];

/// Size of a request, as far as its path shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestClass {
    /// One message that stays in memory until it is answered.
    Kept,
    /// One message of which little stays in memory once it was read: the answer may take minutes.
    Short,
    /// Small messages, any number of them and over any time.
    Open,
    /// Frames, any number of them and over any time, that are kept as long as a write of theirs takes.
    Frames,
    /// A short message of a client that has proven nothing.
    Strangers,
}

/// The content of a request with reserved memory.
pub struct MessageBody {
    /// Bytes that were read to learn the length.
    first: Bytes,
    stream: RequestBytes,
    memory: Arc<RequestMemory>,
    size: Size,
    /// Bytes since its last progress.
    unreported_bytes: usize,
    deadline: Option<Deadline>,
    closing: Arc<CancellationToken>,
    /// Resolves when the request ends before it is complete. Most requests are there when they are read, and make none.
    broken: Option<BoxFuture<'static, Error>>,
    is_complete: bool,
}

/// The bytes of a request.
struct Size {
    /// Bytes that may still come; none if only the limit of each message applies.
    left: Option<usize>,
    /// Bytes that count as progress: with fewer in `IDLE_HOLDER_MS` the request would not be complete in
    /// `REQUEST_MS_MAX`.
    step: usize,
    /// True if nothing but what was decoded is kept once it is complete.
    is_short: bool,
}

/// The end of the time for a request.
#[derive(Debug, Clone, Copy)]
struct Deadline {
    end: Instant,
    limit_ms: u64,
}

impl Deadline {
    fn after(limit_ms: u64) -> Self {
        Self { end: Instant::now() + Duration::from_millis(limit_ms), limit_ms }
    }
}

/// Error of a request that ends before it is complete.
async fn broken(memory: Arc<RequestMemory>, deadline: Option<Deadline>, closing: Arc<CancellationToken>) -> Error {
    let late = async {
        match deadline {
            Some(Deadline { end, limit_ms }) => {
                tokio::time::sleep_until(end).await;
                limit_ms
            }
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        limit_ms = late => {
            let message = format!("the request was not complete after {limit_ms} ms");
            Error::new(Reason::RequestTimedOut, message).with("limit_ms", limit_ms)
        }
        () = memory.reservation().revoked() => {
            Error::new(Reason::TooManyRequests, "the request stood still while others needed its memory")
        }
        () = closing.cancelled() => Error::stopping(),
    }
}

/// Waits until memory for a request is reserved.
pub(super) async fn admit(
    head: &Parts,
    mut stream: RequestBytes,
    class: RequestClass,
    traffic: &Traffic,
    closing: &Arc<CancellationToken>,
) -> Result<MessageBody, Error> {
    let memory = |held: Arc<Reservation>| RequestMemory::new(held, &traffic.requests);
    if class == RequestClass::Open {
        let reservation = Arc::new(traffic.small_requests.hold(limits::SIDE_REQUEST_BYTES_MAX));
        let size = Size { left: None, step: 1, is_short: false };
        return Ok(MessageBody::new(Bytes::new(), stream, memory(reservation), size, None, closing));
    }
    if class == RequestClass::Strangers {
        let reservation = Arc::new(traffic.strangers.hold(limits::REQUEST_BYTES_MIN));
        let deadline = Deadline::after(limits::STRANGER_REQUEST_MS_MAX);
        let size = Size::new(class, limits::STRANGER_REQUEST_BYTES_MAX);
        return Ok(MessageBody::new(Bytes::new(), stream, memory(reservation), size, Some(deadline), closing));
    }
    let deadline = Deadline::after(limits::REQUEST_MS_MAX);
    let mut reservation = Arc::new(traffic.small_requests.hold(limits::REQUEST_BYTES_MIN));
    let mut first = Bytes::new();
    let (length, sent) = match announced_length(head, &stream) {
        Some(length) => (length, length),
        None => {
            first = tokio::select! {
                biased;
                first = read_prefix(&mut stream, &reservation) => first,
                error = broken(memory(reservation.clone()), Some(deadline), closing.clone()) => return Err(error),
            };
            (length(&first), PREFIX_BYTES.saturating_add(sent_length(&first)))
        }
    };
    if length <= limits::SMALL_REQUEST_BYTES {
        reservation.touch();
        reservation.resize(length.max(limits::REQUEST_BYTES_MIN));
    } else if length <= limits::REQUEST_BYTES_MAX {
        reservation = Arc::new(large(length, traffic.requests.clone(), closing.clone()).await?);
    } else if first.is_empty() {
        let message = format!("a request of {length} bytes is longer than any can be");
        return Err(Error::new(Reason::RequestTooLarge, message).with("limit", limits::REQUEST_BYTES_MAX));
    }
    // A message that is longer than any may be reserves nothing: its service refuses it by its length.
    Ok(MessageBody::new(first, stream, memory(reservation), Size::new(class, sent), Some(deadline), closing))
}

/// Waits for memory for a large request.
pub(super) async fn large(
    length: usize,
    requests: Arc<MemoryBudget>,
    closing: Arc<CancellationToken>,
) -> Result<Reservation, Error> {
    let wait = Duration::from_millis(limits::REQUEST_WAIT_MS_MAX);
    let large = tokio::select! {
        large = requests.wait_for(length, wait) => large,
        () = closing.cancelled() => return Err(Error::stopping()),
    };
    large.ok_or_else(|| {
        Error::new(Reason::TooManyRequests, "the memory for requests is taken by others that are not complete")
            .with("limit", limits::REQUESTS_BYTES_MAX)
    })
}

/// The length of a request in its headers; none if its message announces it. Of a request that announces no length at
/// all, the longest that any can have.
fn announced_length(head: &Parts, stream: &RequestBytes) -> Option<usize> {
    if head.headers.get(CONTENT_TYPE).is_some_and(|kind| GRPC.iter().any(|grpc| kind.as_bytes() == grpc.as_bytes())) {
        return None;
    }
    if stream.is_end_stream() {
        return Some(0);
    }
    let length = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    // What a compressed message becomes is not known before it is read.
    let is_plain = head.headers.get(ENCODING).is_none_or(|encoding| encoding == "identity");
    Some(length.filter(|length| is_plain || *length > limits::REQUEST_BYTES_MAX).unwrap_or(limits::REQUEST_BYTES_MAX))
}

impl Size {
    /// The size of a request of this many bytes.
    fn new(class: RequestClass, bytes: usize) -> Self {
        let steps = usize::try_from(limits::REQUEST_MS_MAX / limits::IDLE_HOLDER_MS).unwrap_or(1);
        Self { left: Some(bytes), step: (bytes / steps).max(1), is_short: class == RequestClass::Short }
    }
}

/// The first bytes of a request, including its length; fewer if the request is shorter.
async fn read_prefix(stream: &mut RequestBytes, held: &Reservation) -> Bytes {
    let mut first = BytesMut::new();
    while first.len() < PREFIX_BYTES {
        // The next reader of the stream gets the same error.
        let Some(Ok(frame)) = stream.frame().await else { break };
        let Ok(data) = frame.into_data() else { break };
        if first.is_empty() && data.len() >= PREFIX_BYTES {
            return data;
        }
        if !data.is_empty() {
            held.touch();
        }
        first.extend_from_slice(&data);
    }
    first.freeze()
}

/// Length of a request's message as it is sent, in bytes.
pub(super) fn sent_length(first: &[u8]) -> usize {
    let Some(mut length) = first.get(1..PREFIX_BYTES) else { return 0 };
    usize::try_from(length.get_u32()).unwrap_or(usize::MAX)
}

/// Maximum length of a request's message once decompressed, in bytes.
pub(super) fn length(first: &[u8]) -> usize {
    let is_compressed = first.first() == Some(&1);
    let length = sent_length(first);
    if is_compressed && length <= limits::REQUEST_BYTES_MAX {
        length.saturating_mul(COMPRESSION_MAX).min(limits::REQUEST_BYTES_MAX)
    } else {
        length
    }
}

impl MessageBody {
    fn new(
        first: Bytes,
        stream: RequestBytes,
        memory: Arc<RequestMemory>,
        size: Size,
        deadline: Option<Deadline>,
        closing: &Arc<CancellationToken>,
    ) -> Self {
        let closing = closing.clone();
        Self { first, stream, memory, size, unreported_bytes: 0, deadline, closing, broken: None, is_complete: false }
    }

    /// The error of a request that its client has not completed, once there is one.
    fn poll_broken(&mut self, context: &mut Context<'_>) -> Poll<Error> {
        let (memory, deadline, closing) = (&self.memory, self.deadline, &self.closing);
        let broken = self.broken.get_or_insert_with(|| broken(memory.clone(), deadline, closing.clone()).boxed());
        broken.as_mut().poll(context)
    }

    /// The memory reserved for the request, until it is answered.
    pub(super) fn memory(&self) -> Arc<RequestMemory> {
        self.memory.clone()
    }

    /// Accepts bytes that came: refuses more than the announced length, and records progress if they are enough.
    fn pass(&mut self, data: Bytes) -> Result<Frame<Bytes>, Error> {
        if let Some(left) = self.size.left {
            let Some(left) = left.checked_sub(data.len()) else {
                self.is_complete = true;
                let message = "something follows the message, and the method takes one";
                return Err(Error::new(Reason::RequestMalformed, message));
            };
            self.size.left = Some(left);
        }
        self.unreported_bytes += data.len();
        if self.unreported_bytes >= self.size.step {
            self.unreported_bytes = 0;
            self.memory.reservation().touch();
        }
        Ok(Frame::data(data))
    }

    fn complete(&mut self) {
        self.is_complete = true;
        if self.size.is_short {
            self.memory.release_sent();
        }
        self.memory.reservation().exempt();
    }
}

impl http_body::Body for MessageBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if !self.first.is_empty() {
            let first = std::mem::take(&mut self.first);
            return Poll::Ready(Some(self.pass(first)));
        }
        if self.is_complete {
            return Poll::Ready(None);
        }
        // More is accepted from the client as it is read here: memory for the whole request is reserved.
        let Poll::Ready(frame) = Pin::new(&mut self.stream).poll_frame(context) else {
            let error = ready!(self.poll_broken(context));
            self.is_complete = true;
            return Poll::Ready(Some(Err(error)));
        };
        Poll::Ready(match frame {
            Some(Ok(frame)) => Some(match frame.into_data() {
                Ok(data) => self.pass(data),
                Err(trailers) => Ok(trailers),
            }),
            Some(Err(error)) => {
                self.is_complete = true;
                // Nobody reads the answer to a request that its client broke off.
                Some(Err(Error::new(Reason::RequestMalformed, error.to_string())))
            }
            None => {
                self.complete();
                None
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_request_is_known_from_its_beginning() {
        assert_eq!(length(&[0, 0, 0, 1, 4, 9, 9]), 260);
        assert_eq!(length(&[1, 0, 0, 0, 2]), 2 * COMPRESSION_MAX, "what it may become");
        assert_eq!(length(&[1, 0, 255, 255, 255]), limits::REQUEST_BYTES_MAX, "and it may not become more");
        assert_eq!(length(&[0, 255, 255, 255, 255]), u32::MAX as usize, "this one is refused");
        assert_eq!(length(&[0, 0]), 0, "it has no message");
        assert_eq!(sent_length(&[1, 0, 0, 0, 2]), 2, "as it is sent");
    }
}
