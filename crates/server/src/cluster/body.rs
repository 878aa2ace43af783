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
    /// All shards that there are, while no other one is added.
    AllShards(Pin<Box<dyn Future<Output = ()> + Send>>),
}

/// A body that ends with the reason when whoever gives it is lost.
pub(super) struct WatchedBody {
    body: Body,
    giver: Giver,
    is_over: bool,
}

impl WatchedBody {
    /// A body that nothing of comes that is produced while another daemon may own the store.
    pub(super) fn while_owned(body: Body, store: Store) -> Self {
        Self { body, giver: Giver::Store(store), is_over: false }
    }

    /// A body that another daemon gives.
    pub(super) fn of_another(body: Body, lost: Reason) -> Self {
        Self { body, giver: Giver::Another(lost), is_over: false }
    }

    /// A body that all shards give, until one is added.
    pub(super) fn of_all_shards(body: Body, added: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { body, giver: Giver::AllShards(Box::pin(added)), is_over: false }
    }
}

impl WatchedBody {
    fn end(&mut self, error: Error) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.is_over = true;
        let mut trailers = HeaderMap::new();
        Poll::Ready(Some(Status::from(error).add_header(&mut trailers).map(|()| Frame::trailers(trailers))))
    }
}

impl http_body::Body for WatchedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let this = &mut *self;
        if let Giver::AllShards(added) = &mut this.giver
            && added.as_mut().poll(context).is_ready()
        {
            let message = "a shard was added to the database: go on behind the last cursor to have its sessions too";
            return this.end(Error::new(Reason::NoOwner, message));
        }
        let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
        let lost = match (&this.giver, frame) {
            (Giver::Store(store), frame) => match store.check_owned() {
                Ok(()) => return Poll::Ready(frame),
                Err(error) => Error::from(error),
            },
            (Giver::Another(lost), Some(Err(why))) => {
                Error::new(*lost, format!("the daemon that answered was lost: {}", why.message()))
            }
            (Giver::Another(_) | Giver::AllShards(_), frame) => return Poll::Ready(frame),
        };
        this.end(lost)
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
