//! A session's view as it changes: whole at first, then what is behind the messages that stay.

use super::events::{end_event, heartbeat, is_lost, resync};
use super::query::Query;
use super::sse;
use super::subscription::EventSubscription;
use crate::app::{self, Error};
use crate::http::calls::{CallFailure, GrpcRoutes, MessageStream, Origin};
use crate::http::failure::Failure;
use crate::http::json;
use crate::pb;
use axum::response::Response;
use bytes::Bytes;
use futures::{FutureExt as _, stream};
use pb::get_view_response::Frame as ViewFrame;
use pb::subscribe_events_request::Start;
use pb::subscribe_events_response::Frame;
use prost_reflect::prost::Message as _;
use tonic::Status;

const GET_VIEW: &str = "/longhand.v1.ViewService/GetView";

/// A stream of a view's changes.
struct ViewFeed<S> {
    grpc: S,
    origin: Origin,
    /// The request, with what the client holds.
    request: pb::GetViewRequest,
    subscription: EventSubscription,
    /// The cursor of the newest event that was read.
    cursor: String,
    state: FeedState,
}

/// What comes next.
enum FeedState {
    /// The next event of the session.
    Waiting,
    /// The view, if it is another one than the client's.
    Changed,
    /// The rest of a view; some of its messages may be written already.
    Writing { frames: Box<MessageStream>, is_first: bool },
    /// Nothing.
    Over,
}

/// Follows a session's view. A client that resumes gets the current view if anything happened in the session since.
///
/// # Errors
///
/// Those of `GetView` and `SubscribeEvents`, and `INVALID_FIELD` for parameters of past views and of held ones.
pub(super) async fn follow<S: GrpcRoutes>(
    grpc: S,
    origin: Origin,
    session: String,
    query: Query,
) -> Result<Response, Failure> {
    let mut request: pb::GetViewRequest = query.request()?;
    let unusable_fields = [
        ("session_id", !request.session_id.is_empty()),
        ("as_of_revision", request.as_of_revision.is_some()),
        ("known_view_hash", request.known_view_hash.is_some()),
        ("known_revision", request.known_revision.is_some()),
        ("offset", query.is_durable()),
    ];
    if let Some((field, _)) = unusable_fields.iter().find(|(_, is_set)| *is_set) {
        return Err(Error::field(field, "is no parameter of a view that is followed").into());
    }
    request.session_id.clone_from(&session);
    let subscribe = pb::SubscribeEventsRequest {
        session_ids: vec![session],
        start: query.after.clone().map(Start::AfterCursor),
        ..pb::SubscribeEventsRequest::default()
    };
    // Subscribed first: an event that comes while the view is read makes it be read again.
    let subscription = match EventSubscription::open(grpc.clone(), &origin, &subscribe).await {
        Ok(subscription) => subscription,
        Err(CallFailure::Status(status)) if is_lost(&status) => {
            let event = resync(grpc, &origin, subscribe, status).await?;
            return Ok(sse::response(stream::iter([event])));
        }
        Err(failed) => return Err(failed.into()),
    };
    let state = if query.after.is_some() { FeedState::Waiting } else { FeedState::Changed };
    let cursor = subscription.cursor.clone();
    let feed = ViewFeed { grpc, origin, request, subscription, cursor, state };
    Ok(sse::response(stream::unfold(feed, async |mut feed| {
        let text = feed.next().await?;
        Some((text, feed))
    })))
}

impl<S: GrpcRoutes> ViewFeed<S> {
    /// The next text; none at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let step = match std::mem::replace(&mut self.state, FeedState::Over) {
                FeedState::Waiting => self.wait().await,
                FeedState::Changed => self.begin().await,
                FeedState::Writing { frames, is_first } => match self.write(frames, is_first).await {
                    Ok(text) => return Some(text),
                    // The event has no end, so its client drops it.
                    Err(failure) => {
                        tracing::debug!(failure = %failure.body, "a view ends before it is whole");
                        return None;
                    }
                },
                FeedState::Over => return None,
            };
            match step {
                Ok(Some(text)) => return Some(text),
                Ok(None) => {}
                Err(failure) => return Some(end_event(&failure)),
            }
        }
    }

    /// Waits for the session's next event, and takes those that are there already.
    async fn wait(&mut self) -> Result<Option<Bytes>, Failure> {
        let mut is_changed = false;
        loop {
            let next = match self.subscription.next().now_or_never() {
                Some(next) => next,
                None if is_changed => break,
                None => self.subscription.next().await,
            };
            match next? {
                Some(Frame::Events(batch)) => {
                    is_changed = true;
                    self.cursor = batch.cursor;
                }
                Some(Frame::Progress(progress)) => {
                    self.cursor = progress.cursor;
                    if !is_changed {
                        self.state = FeedState::Waiting;
                        return Ok(Some(heartbeat(&self.cursor)));
                    }
                }
                Some(_) => {}
                None => return Ok(None),
            }
        }
        self.state = FeedState::Changed;
        Ok(None)
    }

    /// Reads the beginning of the view, and writes it if it is not the client's.
    async fn begin(&mut self) -> Result<Option<Bytes>, Failure> {
        let call = self.origin.call(GET_VIEW, &self.request);
        let mut frames = call.streaming(self.grpc.clone()).await?;
        let Some(ViewFrame::Header(header)) = next(&mut frames).await? else {
            return Err(Status::internal("a view does not begin with its header").into());
        };
        if self.request.known_view_hash.as_ref() == Some(&header.view_hash) {
            self.state = FeedState::Waiting;
            return Ok(None);
        }
        let text = format!("{}{{\"header\":{},\"messages\":[", sse::begin("view"), json::text_of(&header)?);
        self.request.known_revision = Some(header.revision);
        self.request.known_view_hash = Some(header.view_hash);
        self.state = FeedState::Writing { frames: Box::new(frames), is_first: true };
        Ok(Some(text.into()))
    }

    /// Writes the next piece of a view.
    async fn write(&mut self, mut frames: Box<MessageStream>, is_first: bool) -> Result<Bytes, Failure> {
        match next(&mut frames).await? {
            Some(ViewFrame::Messages(pb::ViewMessages { messages, formatted_messages })) => {
                let own = messages.iter().map(json::text_of);
                let formatted = formatted_messages.iter().map(json::text_of);
                let texts = own.chain(formatted).collect::<app::Result<Vec<_>>>()?;
                let separator = if is_first || texts.is_empty() { "" } else { "," };
                self.state = FeedState::Writing { frames, is_first: is_first && texts.is_empty() };
                Ok(format!("{separator}{}", texts.join(",")).into())
            }
            Some(ViewFrame::End(end)) => {
                self.state = FeedState::Waiting;
                Ok(format!("],\"end\":{}}}{}", json::text_of(&end)?, sse::end(Some(&self.cursor))).into())
            }
            Some(ViewFrame::Header(_)) | None => Err(Status::internal("a view has no end").into()),
        }
    }
}

async fn next(frames: &mut MessageStream) -> Result<Option<ViewFrame>, Status> {
    while let Some(message) = frames.next().await? {
        let response = pb::GetViewResponse::decode(message);
        let response = response.map_err(|cause| Status::internal(format!("a frame cannot be read: {cause}")))?;
        if let Some(frame) = response.frame {
            return Ok(Some(frame));
        }
    }
    Ok(None)
}
