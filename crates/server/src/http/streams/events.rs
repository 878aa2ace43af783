//! Events for browsers: each is one Server-Sent Event, whose id is its cursor.

use super::query::{Query, Scope};
use super::sse;
use super::subscription::EventSubscription;
use crate::app::{self, Error, Reason};
use crate::http::calls::{CallFailure, GrpcRoutes, Origin};
use crate::http::failure::Failure;
use crate::http::json;
use crate::pb;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use pb::subscribe_events_request::Start;
use pb::subscribe_events_response::Frame;
use serde_json::json;
use std::collections::VecDeque;
use tonic_types::StatusExt as _;

/// Follows events as the parameters of `SubscribeEvents` say.
///
/// # Errors
///
/// Those of `SubscribeEvents`, but for a cursor that cannot be served: that is one event, `resync`.
pub(super) async fn follow<S: GrpcRoutes>(
    grpc: S,
    origin: Origin,
    scope: &Scope,
    query: Query,
) -> Result<Response, Failure> {
    let request = subscribe(scope, &query)?;
    match EventSubscription::open(grpc.clone(), &origin, &request).await {
        Ok(subscription) => Ok(sse::response(texts(subscription))),
        Err(CallFailure::Status(status)) if is_lost(&status) => {
            let event = resync(grpc, &origin, request, status).await?;
            Ok(sse::response(stream::iter([event])))
        }
        Err(failed) => Err(failed.into()),
    }
}

/// The request that is followed.
///
/// # Errors
///
/// `INVALID_FIELD` for sessions beside the one of the path, and for two starts.
pub(super) fn subscribe(scope: &Scope, query: &Query) -> app::Result<pb::SubscribeEventsRequest> {
    let mut request: pb::SubscribeEventsRequest = query.request()?;
    if let Scope::Session(session) = scope {
        if !request.session_ids.is_empty() {
            return Err(Error::field("session_ids", "is given by the path"));
        }
        request.session_ids.push(session.clone());
    }
    if let Some(cursor) = &query.after {
        // What a stream began with is not sent again when it is resumed.
        request.start = Some(Start::AfterCursor(cursor.clone()));
    }
    Ok(request)
}

/// True if the log has no place for the cursor that the client gave.
pub(super) fn is_lost(status: &tonic::Status) -> bool {
    let details = status.get_error_details();
    let reason = details.error_info().map_or("", |info| info.reason.as_str());
    [Reason::CursorInvalid, Reason::CursorForeign, Reason::CursorOutOfRange].iter().any(|lost| lost.as_str() == reason)
}

/// The notice to a client that its cursor cannot be served, with the end of the log. The event's id is that place, so that a
/// browser that connects again does not come with the lost cursor.
pub(super) async fn resync<S: GrpcRoutes>(
    grpc: S,
    origin: &Origin,
    request: pb::SubscribeEventsRequest,
    status: tonic::Status,
) -> Result<Bytes, Failure> {
    let head = EventSubscription::position(grpc, origin, request, None).await?;
    let data = json!({ "head": head, "error": Failure::from(status).body });
    Ok(sse::event("resync", Some(&head), &data.to_string()))
}

/// The texts of a stream's events. A failure is the last one.
fn texts(subscription: EventSubscription) -> impl futures::Stream<Item = Bytes> + Send {
    let ready = json!({ "cursor": subscription.cursor, "headSeq": subscription.head_seq.to_string() });
    let ready = sse::event("ready", Some(&subscription.cursor), &ready.to_string());
    stream::unfold((Some(subscription), VecDeque::from([ready])), async |(mut subscription, mut waiting)| {
        loop {
            if let Some(text) = waiting.pop_front() {
                return Some((text, (subscription, waiting)));
            }
            let next = match subscription.as_mut()?.next().await {
                Ok(Some(frame)) => of_frame(frame).map_err(Failure::from),
                Ok(None) => return None,
                Err(status) => Err(status.into()),
            };
            match next {
                Ok(texts) => waiting.extend(texts),
                Err(failure) => {
                    waiting.push_back(end_event(&failure));
                    subscription = None;
                }
            }
        }
    })
}

/// The event that says why a stream ends. A client resumes with the last id.
pub(super) fn end_event(failure: &Failure) -> Bytes {
    sse::event("failure", None, &failure.body.to_string())
}

/// A sign of life, with the place up to which the stream is complete.
pub(super) fn heartbeat(cursor: &str) -> Bytes {
    sse::event("heartbeat", Some(cursor), &json!({ "head": cursor }).to_string())
}

fn of_frame(frame: Frame) -> app::Result<Vec<Bytes>> {
    let one = |name: &str, id: Option<&str>, data: String| vec![sse::event(name, id, &data)];
    Ok(match frame {
        Frame::Ready(ready) => one("ready", Some(&ready.cursor), json::text_of(&ready)?),
        Frame::Events(batch) => {
            let text = |event: &pb::Event| {
                Ok(sse::event(&kind_name(event.kind()), Some(&event.cursor), &json::text_of(event)?))
            };
            batch.events.iter().map(text).collect::<app::Result<_>>()?
        }
        Frame::Progress(progress) => vec![heartbeat(&progress.cursor)],
        Frame::SnapshotItem(item) => one("snapshot_item", None, json::text_of(&item)?),
        Frame::SnapshotEnd(end) => one("snapshot_end", Some(&end.cursor), json::text_of(&end)?),
        Frame::DraftDelta(delta) => one("draft_delta", None, json::text_of(&delta)?),
        Frame::SummaryDelta(delta) => one("summary_delta", None, json::text_of(&delta)?),
        Frame::PresenceChanged(changed) => one("presence_changed", None, json::text_of(&changed)?),
    })
}

/// The name of an event: its kind's, such as `message_appended`.
fn kind_name(kind: pb::EventKind) -> String {
    kind.as_str_name().trim_start_matches("EVENT_KIND_").to_lowercase()
}
