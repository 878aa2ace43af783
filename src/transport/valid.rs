//! The body of an answer that is only valid for a time.

use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A body that fails with the error of a check, in place of a piece that was produced when the check already failed.
pub fn while_valid(body: Body, check: impl Fn() -> Result<(), BoxError> + Send + Unpin + 'static) -> Body {
    Body::new(Valid { body, check })
}

struct Valid<C> {
    body: Body,
    check: C,
}

impl<C: Fn() -> Result<(), BoxError> + Unpin> HttpBody for Valid<C> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        Poll::Ready(match (self.check)() {
            Ok(()) => frame,
            Err(error) => Some(Err(axum::Error::new(error))),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
