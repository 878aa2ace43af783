//! Event streams and pages of events, from the gRPC services.

use crate::app::events::BecomesText;
use crate::http::calls::{CallFailure, GrpcRoutes, MessageStream, Origin};
use crate::pb;
use pb::subscribe_events_request::Start;
use pb::subscribe_events_response::Frame;
use prost_reflect::prost::Message as _;
use tonic::Status;

const SUBSCRIBE_EVENTS: &str = "/longhand.v1.EventService/SubscribeEvents";
const LIST_EVENTS: &str = "/longhand.v1.EventService/ListEvents";

/// An event stream after its first frame.
pub(super) struct EventSubscription {
    /// The cursor at which it begins.
    pub(super) cursor: String,
    /// The number of the newest event of the store.
    pub(super) head_seq: i64,
    frames: MessageStream,
}

impl EventSubscription {
    /// Opens a stream.
    ///
    /// # Errors
    ///
    /// Those of `SubscribeEvents`.
    pub(super) async fn open(
        grpc: impl GrpcRoutes,
        origin: &Origin,
        request: &pb::SubscribeEventsRequest,
    ) -> Result<Self, CallFailure> {
        let mut origin = origin.clone();
        origin.extensions.insert(BecomesText);
        let mut frames = origin.call(SUBSCRIBE_EVENTS, request).streaming(grpc).await?;
        match next(&mut frames).await? {
            Some(Frame::Ready(pb::Ready { cursor, head_seq })) => Ok(Self { cursor, head_seq, frames }),
            _ => Err(Status::internal("an event stream does not begin with its position").into()),
        }
    }

    /// The cursor of the store's newest event, or of its beginning.
    ///
    /// # Errors
    ///
    /// Those of `SubscribeEvents`.
    pub(super) async fn position(
        grpc: impl GrpcRoutes,
        origin: &Origin,
        mut request: pb::SubscribeEventsRequest,
        start: Option<Start>,
    ) -> Result<String, CallFailure> {
        request.start = start;
        Ok(Self::open(grpc, origin, &request).await?.cursor)
    }

    /// The next frame; none at the end.
    ///
    /// # Errors
    ///
    /// The status that ends the stream.
    pub(super) async fn next(&mut self) -> Result<Option<Frame>, Status> {
        next(&mut self.frames).await
    }
}

async fn next(frames: &mut MessageStream) -> Result<Option<Frame>, Status> {
    // A later daemon may send frames that this one does not know. They are skipped.
    while let Some(message) = frames.next().await? {
        let response = pb::SubscribeEventsResponse::decode(message);
        let response = response.map_err(|cause| Status::internal(format!("a frame cannot be read: {cause}")))?;
        if let Some(frame) = response.frame {
            return Ok(Some(frame));
        }
    }
    Ok(None)
}

/// A page of past events.
///
/// # Errors
///
/// Those of `ListEvents`.
pub(super) async fn list(
    grpc: impl GrpcRoutes,
    origin: &Origin,
    request: &pb::ListEventsRequest,
) -> Result<pb::ListEventsResponse, CallFailure> {
    let message = origin.call(LIST_EVENTS, request).unary(grpc).await?.into_body();
    let page = pb::ListEventsResponse::decode(message);
    Ok(page.map_err(|cause| Status::internal(format!("a page cannot be read: {cause}")))?)
}
