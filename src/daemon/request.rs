//! A request's bytes on their way in. What a client may send is counted before it sends it, and a request that does not
//! go on makes way for others.

use super::accept::Server;
use crate::app::room::Held;
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

/// What gRPC puts before a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
/// The most that a byte of compressed content can stand for.
const COMPRESSION_MAX: usize = 1_032;
/// Our own methods take one message each; those of health and reflection may take many, at their leisure.
const OWN_METHODS: &str = "/longhand.v1.";

/// The content of a request that there is room for.
pub(super) struct RequestBody {
    /// What was read to learn the length.
    first: Bytes,
    stream: RecvStream,
    held: Arc<Held>,
    /// Resolves when the request ends before it is complete.
    broken: Pin<Box<dyn Future<Output = Error> + Send>>,
    is_complete: bool,
}

/// Why a request ends that is not complete.
async fn broken(held: Arc<Held>, deadline: Option<Instant>, parting: CancellationToken) -> Error {
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
        () = held.has_to_give_up() => {
            Error::new(Reason::TooManyRequests, "the request stood still while others needed its room")
        }
        () = parting.cancelled() => Error::new(Reason::ShuttingDown, "the daemon is stopping"),
    }
}

/// Waits until there is room for a request.
pub(super) async fn admit(path: &str, mut stream: RecvStream, server: &Server) -> Result<RequestBody, Error> {
    let traffic = &server.traffic;
    if !path.starts_with(OWN_METHODS) {
        let held = Arc::new(traffic.small_requests.hold(limits::SIDE_REQUEST_BYTES_MAX));
        let broken = Box::pin(broken(held.clone(), None, server.parting.clone()));
        return Ok(RequestBody { first: Bytes::new(), stream, held, broken, is_complete: false });
    }
    let deadline = Instant::now() + Duration::from_millis(limits::REQUEST_MS_MAX);
    let mut held = Arc::new(traffic.small_requests.hold(limits::REQUEST_BYTES_MIN));
    let first = tokio::select! {
        first = prefix(&mut stream) => first,
        error = broken(held.clone(), Some(deadline), server.parting.clone()) => return Err(error),
    };
    let length = length(&first);
    if length <= limits::SMALL_REQUEST_BYTES {
        held.resize(length.max(limits::REQUEST_BYTES_MIN));
    } else if length <= limits::REQUEST_BYTES_MAX {
        let wait = Duration::from_millis(limits::REQUEST_WAIT_MS_MAX);
        let waiting = traffic.requests.wait_for(length, wait);
        let large = tokio::select! {
            large = waiting => large,
            () = server.parting.cancelled() => return Err(Error::new(Reason::ShuttingDown, "the daemon is stopping")),
        };
        let large = large.ok_or_else(|| {
            Error::new(Reason::TooManyRequests, "there is no room beside the requests that are not complete")
                .with("limit", limits::REQUESTS_BYTES_MAX)
        })?;
        held = Arc::new(large);
    }
    // What is longer than any request can be is refused by its length.
    let broken = Box::pin(broken(held.clone(), Some(deadline), server.parting.clone()));
    Ok(RequestBody { first, stream, held, broken, is_complete: false })
}

/// The beginning of a request, with its length; shorter if the request is.
async fn prefix(stream: &mut RecvStream) -> Bytes {
    let mut first = BytesMut::new();
    while first.len() < PREFIX_BYTES {
        // A stream that breaks off is noticed again by whoever reads on.
        let Some(Ok(data)) = stream.data().await else { break };
        let _ = stream.flow_control().release_capacity(data.len());
        if first.is_empty() && data.len() >= PREFIX_BYTES {
            return data;
        }
        first.extend_from_slice(&data);
    }
    first.freeze()
}

/// The most bytes that a request's message has.
fn length(mut first: &[u8]) -> usize {
    if first.len() < PREFIX_BYTES {
        return 0;
    }
    let is_compressed = first.get_u8() == 1;
    let length = usize::try_from(first.get_u32()).unwrap_or(usize::MAX);
    if is_compressed && length <= limits::REQUEST_BYTES_MAX {
        length.saturating_mul(COMPRESSION_MAX).min(limits::REQUEST_BYTES_MAX)
    } else {
        length
    }
}

impl RequestBody {
    /// The room that the request takes, for as long as it is not answered.
    pub(super) fn held(&self) -> Arc<Held> {
        self.held.clone()
    }

    fn poll_content(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if !self.first.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.first)))));
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
                // The next bytes may come: there is room for the whole.
                let released = self.stream.flow_control().release_capacity(data.len());
                Poll::Ready(Some(released.map(|()| Frame::data(data)).map_err(gone)))
            }
            Some(Err(error)) => Poll::Ready(Some(Err(gone(error)))),
            None => {
                let trailers = ready!(self.stream.poll_trailers(context));
                self.is_complete = true;
                self.held.settle();
                Poll::Ready(trailers.map_err(gone).transpose().map(|trailers| trailers.map(Frame::trailers)))
            }
        }
    }
}

/// The client broke off, so that nobody reads this.
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
    }
}
