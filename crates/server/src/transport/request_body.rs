//! The content of a request, with the memory that is reserved for it.

use super::frames::FrameBody;
use super::incoming::RequestBytes;
use super::request::{self, MessageBody, RequestClass};
use crate::app::{Error, Reason};
use crate::traffic::{RequestMemory, Traffic};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio_util::sync::CancellationToken;

/// The content of a request.
pub enum RequestBody {
    /// One message, or small ones over any time.
    Message(MessageBody),
    /// Frames over any time.
    Frames(FrameBody),
    /// Nothing: the request is refused by its head.
    Refused,
}

impl RequestBody {
    /// Waits until memory for a request is reserved, which holds it until it is answered.
    pub(super) async fn admit(
        head: &Parts,
        stream: RequestBytes,
        class: RequestClass,
        traffic: &Traffic,
        closing: &Arc<CancellationToken>,
    ) -> Result<(Arc<RequestMemory>, Self), Error> {
        match class {
            // A browser sends nothing while it receives, and this form would have to be decoded before a frame is known.
            RequestClass::Frames if is_text(head) => {
                let message = "a request of frames is not accepted as application/grpc-web-text; use the unary calls";
                Err(Error::new(Reason::RequestMalformed, message))
            }
            RequestClass::Frames => {
                let body = FrameBody::new(stream, traffic, closing);
                Ok((RequestMemory::new(body.reservation(), &traffic.requests), Self::Frames(body)))
            }
            class => {
                let body = request::admit(head, stream, class, traffic, closing).await?;
                Ok((body.memory(), Self::Message(body)))
            }
        }
    }
}

/// True for the form of gRPC-Web that is encoded as text.
fn is_text(head: &Parts) -> bool {
    let kind = head.headers.get(CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
    kind.starts_with(b"application/grpc-web-text")
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        match self.get_mut() {
            Self::Message(body) => Pin::new(body).poll_frame(context),
            Self::Frames(body) => Pin::new(body).poll_frame(context),
            Self::Refused => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Message(body) => body.is_end_stream(),
            Self::Frames(body) => body.is_end_stream(),
            Self::Refused => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Message(body) => body.size_hint(),
            Self::Frames(body) => body.size_hint(),
            Self::Refused => SizeHint::with_exact(0),
        }
    }
}
