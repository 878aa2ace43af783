//! Streams of events, of views and of lists of sessions: Server-Sent Events for browsers, and the read side of the Durable Streams protocol
//! for its clients.
//!
//! A stream is read from the gRPC services, so that callers, scopes and limits are theirs. It takes a frame only when
//! the transport asks for more, and holds one at most.

mod durable;
mod events;
pub(super) mod lists;
mod query;
pub(super) mod sse;
mod subscription;
mod views;

use super::answers;
use super::calls::{GrpcRoutes, Origin};
use super::failure::Failure;
use crate::app::{Error, Reason};
use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::any;
use http::Method;
use http::request::Parts;
use query::{Query, Scope};

/// The routes of the streams over the gRPC services.
pub(super) fn router<S: GrpcRoutes>(grpc: S) -> Router {
    Router::new()
        .route("/v1/events", any(everything::<S>))
        .route("/v1/sessions/{session_id}/events", any(session::<S>))
        .route("/v1/sessions/{session_id}/view/events", any(view::<S>))
        .with_state(grpc)
}

async fn everything<S: GrpcRoutes>(State(grpc): State<S>, request: Request) -> Response {
    let answer = events(grpc, request.into_parts().0, Scope::Everything).await;
    answer.unwrap_or_else(Failure::into_response)
}

async fn session<S: GrpcRoutes>(
    State(grpc): State<S>,
    session: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let answer = match scope(session) {
        Ok(scope) => events(grpc, request.into_parts().0, scope).await,
        Err(failure) => Err(failure),
    };
    answer.unwrap_or_else(Failure::into_response)
}

async fn view<S: GrpcRoutes>(
    State(grpc): State<S>,
    session: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let head = request.into_parts().0;
    let answer = async {
        let Scope::Session(session) = scope(session)? else { return Err(no_path()) };
        if head.method != Method::GET {
            return Err(Failure::other_method("GET"));
        }
        let query = Query::from_head(&head, "longhand.v1.GetViewRequest")?;
        views::follow(grpc, origin(head), session, query).await
    };
    answer.await.unwrap_or_else(Failure::into_response)
}

/// Events for a browser if it asks for an event stream without the parameters of Durable Streams, and else for a client
/// of those.
async fn events<S: GrpcRoutes>(grpc: S, head: Parts, scope: Scope) -> Result<Response, Failure> {
    if head.method != Method::GET && head.method != Method::HEAD {
        return Err(Failure::other_method("GET, HEAD"));
    }
    let query = Query::from_head(&head, "longhand.v1.SubscribeEventsRequest")?;
    let is_head = head.method == Method::HEAD;
    let for_browsers = !query.is_durable() && answers::accepts(&head.headers, sse::MEDIA_TYPE);
    let origin = origin(head);
    match (is_head, for_browsers) {
        (true, _) => durable::tail(grpc, origin, &scope, query).await,
        (false, true) => events::follow(grpc, origin, &scope, query).await,
        (false, false) => durable::read(grpc, origin, &scope, query).await,
    }
}

fn origin(head: Parts) -> Origin {
    Origin { headers: head.headers, extensions: head.extensions }
}

fn scope(session: Result<Path<String>, PathRejection>) -> Result<Scope, Failure> {
    match session {
        Ok(Path(session)) if !session.is_empty() => Ok(Scope::Session(session)),
        Ok(_) => Err(no_path()),
        Err(_) => Err(Error::new(Reason::RequestMalformed, "the path is not UTF-8").into()),
    }
}

fn no_path() -> Failure {
    Error::new(Reason::MethodUnknown, "no call has this path").into()
}
