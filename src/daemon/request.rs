//! The bytes of a request as they come in. Its memory is reserved before the client sends it, by the length at
//! the start of its message, and not a byte more is accepted. A request without progress is dropped for others.

use super::server::Server;
use crate::app::memory::Reservation;
use crate::app::{Error, Reason};
use crate::limits;
use bytes::{Buf as _, Bytes, BytesMut};
use h2::RecvStream;
use http_body::{Body, Frame};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Status;

/// Bytes that gRPC puts before each message: a flag for compression, and the length.
const PREFIX_BYTES: usize = 5;
/// Maximum ratio of decompressed to compressed bytes.
const COMPRESSION_MAX: usize = 1_032;
/// Path prefix of Longhand's own methods, which take one message each. Those of health and reflection may take many,
/// over any time.
const OWN_METHODS: &str = "/longhand.v1.";
/// Methods that keep their request's content until they answer. Other methods keep little of it once it was read, and
/// some of them wait for minutes.
const KEEPING_METHODS: [&str; 6] = [
    "/longhand.v1.MessageService/AppendMessages",
    "/longhand.v1.MessageService/AppendParts",
    "/longhand.v1.MessageService/AppendDraft",
    "/longhand.v1.MessageService/EditMessage",
    "/longhand.v1.CompactionService/SupplySummary",
    "/longhand.v1.SummaryTaskService/CompleteSummaryTask",
];

/// The content of a request with reserved memory.
pub(super) struct RequestBody {
    /// Bytes that were read to learn the length.
    first: Bytes,
    stream: RecvStream,
    held: Arc<Reservation>,
    size: Size,
    /// Bytes since its last progress.
    unreported_bytes: usize,
    /// Resolves when the request ends before it is complete.
    broken: Pin<Box<dyn Future<Output = Error> + Send>>,
    is_complete: bool,
}

/// The bytes of a request.
struct Size {
    /// Bytes that may still come; none if only the limit of each message applies.
    left: Option<usize>,
    /// Bytes that count as progress: with fewer in `IDLE_HOLDER_MS` the request would not be complete in
    /// `REQUEST_MS_MAX`.
    step: usize,
    /// Bytes that it holds once it is complete; none for no change.
    kept: Option<usize>,
}

/// Error of a request that ends before it is complete.
async fn broken(held: Arc<Reservation>, deadline: Option<Instant>, closing: CancellationToken) -> Error {
    let late = async {
        match deadline {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = late => {
            let message = format!("the request was not complete after {} ms", limits::REQUEST_MS_MAX);
            Error::new(Reason::RequestTimedOut, message).with("limit_ms", limits::REQUEST_MS_MAX)
        }
        () = held.revoked() => {
            Error::new(Reason::TooManyRequests, "the request stood still while others needed its memory")
        }
        () = closing.cancelled() => Error::new(Reason::ShuttingDown, "the daemon is stopping"),
    }
}

/// Waits until memory for a request is reserved.
pub(super) async fn admit(path: &str, mut stream: RecvStream, server: &Server) -> Result<RequestBody, Error> {
    let traffic = &server.traffic;
    if !path.starts_with(OWN_METHODS) {
        let held = Arc::new(traffic.small_requests.hold(limits::SIDE_REQUEST_BYTES_MAX));
        let broken = Box::pin(broken(held.clone(), None, server.closing.clone()));
        let size = Size { left: None, step: 1, kept: None };
        return Ok(RequestBody {
            first: Bytes::new(),
            stream,
            held,
            size,
            unreported_bytes: 0,
            broken,
            is_complete: false,
        });
    }
    let deadline = Instant::now() + Duration::from_millis(limits::REQUEST_MS_MAX);
    let mut held = Arc::new(traffic.small_requests.hold(limits::REQUEST_BYTES_MIN));
    let first = tokio::select! {
        first = prefix(&mut stream, &held) => first,
        error = broken(held.clone(), Some(deadline), server.closing.clone()) => return Err(error),
    };
    let length = length(&first);
    if length <= limits::SMALL_REQUEST_BYTES {
        held.touch();
        held.resize(length.max(limits::REQUEST_BYTES_MIN));
    } else if length <= limits::REQUEST_BYTES_MAX {
        let wait = Duration::from_millis(limits::REQUEST_WAIT_MS_MAX);
        let waiting = traffic.requests.wait_for(length, wait);
        let large = tokio::select! {
            large = waiting => large,
            () = server.closing.cancelled() => return Err(Error::new(Reason::ShuttingDown, "the daemon is stopping")),
        };
        let large = large.ok_or_else(|| {
            Error::new(Reason::TooManyRequests, "the memory for requests is taken by others that are not complete")
                .with("limit", limits::REQUESTS_BYTES_MAX)
        })?;
        held = Arc::new(large);
    }
    // A request that is longer than any may be reserves nothing: it is refused by its length.
    let broken = Box::pin(broken(held.clone(), Some(deadline), server.closing.clone()));
    let size = Size::of(path, sent_length(&first));
    Ok(RequestBody { first, stream, held, size, unreported_bytes: 0, broken, is_complete: false })
}

impl Size {
    /// The size of a request to one of Longhand's own methods, with a message of this length as it is sent.
    fn of(path: &str, length: usize) -> Self {
        let steps = usize::try_from(limits::REQUEST_MS_MAX / limits::IDLE_HOLDER_MS).unwrap_or(1);
        Self {
            left: Some(PREFIX_BYTES.saturating_add(length)),
            step: (length / steps).max(1),
            kept: (!KEEPING_METHODS.contains(&path)).then_some(limits::REQUEST_BYTES_MIN),
        }
    }
}

/// The first bytes of a request, including its length; fewer if the request is shorter.
async fn prefix(stream: &mut RecvStream, held: &Reservation) -> Bytes {
    let mut first = BytesMut::new();
    while first.len() < PREFIX_BYTES {
        // The next reader of the stream gets the same error.
        let Some(Ok(data)) = stream.data().await else { break };
        let _ = stream.flow_control().release_capacity(data.len());
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
fn sent_length(first: &[u8]) -> usize {
    let Some(mut length) = first.get(1..PREFIX_BYTES) else { return 0 };
    usize::try_from(length.get_u32()).unwrap_or(usize::MAX)
}

/// Maximum length of a request's message once decompressed, in bytes.
fn length(first: &[u8]) -> usize {
    let is_compressed = first.first() == Some(&1);
    let length = sent_length(first);
    if is_compressed && length <= limits::REQUEST_BYTES_MAX {
        length.saturating_mul(COMPRESSION_MAX).min(limits::REQUEST_BYTES_MAX)
    } else {
        length
    }
}

impl RequestBody {
    /// The memory reserved for the request, until it is answered.
    pub(super) fn held(&self) -> Arc<Reservation> {
        self.held.clone()
    }

    /// Accepts bytes that came: refuses more than the announced length, and records progress if they are enough.
    fn pass(&mut self, data: Bytes) -> Result<Frame<Bytes>, Status> {
        if let Some(left) = self.size.left {
            let Some(left) = left.checked_sub(data.len()) else {
                self.is_complete = true;
                let message = "something follows the message, and the method takes one";
                return Err(Error::new(Reason::RequestMalformed, message).into());
            };
            self.size.left = Some(left);
        }
        self.unreported_bytes += data.len();
        if self.unreported_bytes >= self.size.step {
            self.unreported_bytes = 0;
            self.held.touch();
        }
        Ok(Frame::data(data))
    }

    fn poll_content(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if !self.first.is_empty() {
            let first = std::mem::take(&mut self.first);
            return Poll::Ready(Some(self.pass(first)));
        }
        if self.is_complete {
            return Poll::Ready(None);
        }
        if let Poll::Ready(error) = self.broken.as_mut().poll(context) {
            self.is_complete = true;
            return Poll::Ready(Some(Err(error.into())));
        }
        match ready!(self.stream.poll_data(context)) {
            Some(Ok(data)) => {
                // Lets the client send more: memory for the whole request is reserved.
                let released = self.stream.flow_control().release_capacity(data.len());
                Poll::Ready(Some(released.map_err(gone).and_then(|()| self.pass(data))))
            }
            Some(Err(error)) => Poll::Ready(Some(Err(gone(error)))),
            None => {
                let trailers = ready!(self.stream.poll_trailers(context));
                self.is_complete = true;
                if let Some(kept) = self.size.kept {
                    self.held.resize(kept);
                }
                self.held.exempt();
                Poll::Ready(trailers.map_err(gone).transpose().map(|trailers| trailers.map(Frame::trailers)))
            }
        }
    }
}

/// Status of a request that its client broke off, which nobody reads.
fn gone(error: h2::Error) -> Status {
    Status::cancelled(error.to_string())
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.poll_content(context)
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
