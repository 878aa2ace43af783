//! A list of sessions for browsers: its frames as Server-Sent Events, whose ids are cursors.

use super::events::{end_event, heartbeat, is_lost, resync};
use super::query::Query;
use super::sse;
use crate::app::{self, Error};
use crate::http::calls::{CallFailure, GrpcRoutes, MessageStream, Origin};
use crate::http::failure::Failure;
use crate::http::json;
use crate::pb;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use http::request::Parts;
use pb::watch_sessions_response::Frame;
use prost_reflect::prost::Message as _;
use tonic::Status;

/// The call that is followed.
pub(in crate::http) const WATCH_SESSIONS: &str = "/longhand.v1.SessionService/WatchSessions";

/// Follows a list as the parameters of `WatchSessions` say. A browser that connects again goes on behind the last event.
///
/// # Errors
///
/// Those of `WatchSessions`, but for a cursor that cannot be served: that is one event, `resync`.
pub(in crate::http) async fn follow<S: GrpcRoutes>(grpc: S, head: Parts) -> Result<Response, Failure> {
    let query = Query::from_head(&head, "longhand.v1.WatchSessionsRequest")?;
    if query.is_durable() {
        return Err(Error::field("offset", "is no parameter of a list that is followed").into());
    }
    let mut request: pb::WatchSessionsRequest = query.request()?;
    if let Some(cursor) = query.after {
        request.after_cursor = cursor;
    }
    let origin = Origin { headers: head.headers, extensions: head.extensions };
    // The first frame is waited for, so that a refusal has the status of its reason.
    let begun = match origin.call(WATCH_SESSIONS, &request).streaming(grpc.clone()).await {
        Ok(frames) => frames,
        Err(CallFailure::Status(status)) if is_lost(&status) => {
            let event = resync(grpc, &origin, pb::SubscribeEventsRequest::default(), status).await?;
            return Ok(sse::response(stream::iter([event])));
        }
        Err(failed) => return Err(failed.into()),
    };
    Ok(sse::response(stream::unfold(Some(begun), async |frames| {
        let mut frames = frames?;
        match next(&mut frames).await {
            Ok(Some(text)) => Some((text, Some(frames))),
            Ok(None) => None,
            Err(failure) => Some((end_event(&failure), None)),
        }
    })))
}

/// The text of the next frame; none at the end.
async fn next(frames: &mut MessageStream) -> Result<Option<Bytes>, Failure> {
    // A later daemon may send frames that this one does not know. They are skipped.
    while let Some(message) = frames.next().await? {
        let response = pb::WatchSessionsResponse::decode(message);
        let response = response.map_err(|cause| Status::internal(format!("a frame cannot be read: {cause}")))?;
        if let Some(frame) = response.frame {
            return Ok(Some(text_of(&response.cursor, frame)?));
        }
    }
    Ok(None)
}

fn text_of(cursor: &str, frame: Frame) -> app::Result<Bytes> {
    let id = Some(cursor).filter(|cursor| !cursor.is_empty());
    Ok(match frame {
        Frame::SnapshotPage(listed) => sse::event("snapshot_page", id, &json::text_of(&listed)?),
        Frame::SnapshotEnd(end) => sse::event("snapshot_end", id, &json::text_of(&end)?),
        Frame::Change(changes) => sse::event("change", id, &json::text_of(&changes)?),
        Frame::Progress(_) => heartbeat(cursor),
    })
}
