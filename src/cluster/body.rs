//! The body of an answer that may lose the one who gives it.

use crate::app::{Error, Reason};
use crate::store::Store;
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tonic::Status;
use tonic::body::Body;

/// Who gives it.
enum Giver {
    /// A store, while this daemon owns it.
    Store(Store),
    /// Another daemon, with what it means if that is lost.
    Another(Reason),
}

/// A body that ends with the reason when whoever gives it is lost.
pub(super) struct Watched {
    body: Body,
    giver: Giver,
    is_over: bool,
}

impl Watched {
    /// A body that nothing of comes that is produced while another daemon may own the store.
    pub(super) fn while_owned(body: Body, store: Store) -> Self {
        Self { body, giver: Giver::Store(store), is_over: false }
    }

    /// A body that another daemon gives.
    pub(super) fn of_another(body: Body, lost: Reason) -> Self {
        Self { body, giver: Giver::Another(lost), is_over: false }
    }
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let lost = match (&self.giver, frame) {
            (Giver::Store(store), frame) => match store.check_owned() {
                Ok(()) => return Poll::Ready(frame),
                Err(error) => Error::from(error),
            },
            (Giver::Another(lost), Some(Err(why))) => {
                Error::new(*lost, format!("the daemon that answered was lost: {}", why.message()))
            }
            (Giver::Another(_), frame) => return Poll::Ready(frame),
        };
        self.is_over = true;
        let mut trailers = HeaderMap::new();
        Poll::Ready(Some(Status::from(lost).add_header(&mut trailers).map(|()| Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
