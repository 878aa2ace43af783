//! The API over HTTP with JSON: every RPC under its `google.api.http` rule, transcoded from the protocol's descriptor.
//!
//! A request becomes the RPC's request message and is called through the gRPC services in this process, so that the
//! same callers, limits and errors hold. An answer is the RPC's response in protobuf's JSON mapping: one object, or for a
//! stream an array that is written as its elements come (one object a line with `Accept: application/x-ndjson`). A
//! failure is a `google.rpc.Status` with its reason. `streams` has what is no RPC: events for browsers and for clients
//! of Durable Streams.

mod answers;
mod calls;
pub mod console;
mod failure;
mod json;
mod openapi;
mod operations;
mod protocol;
mod request;
mod routes;
mod schema;
mod streams;
mod template;
mod transcoding;
#[cfg(test)]
mod tests;
mod values;
mod views;

pub use calls::GrpcRoutes;

use crate::app::{self, Error, Reason};
use crate::limits;
use answers::{StreamForm, StreamedMessages};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::get;
use axum::{BoxError, Router};
use bytes::{Buf as _, Bytes};
use calls::{Call, Origin};
use failure::Failure;
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use routes::{Route, RouteMatch, RouteTable};
use std::sync::Arc;
use streams::{lists, sse};

/// The header that makes a request idempotent.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The way of requests over HTTP to the services.
struct HttpDoor<S> {
    routes: RouteTable,
    grpc: S,
    admit: Admit,
}

/// Refuses a request for the method with a path over gRPC by its head alone.
type Admit = Box<dyn Fn(&str, &Parts) -> app::Result<()> + Send + Sync>;

/// The routes of HTTP over the gRPC services, with the streams, `/openapi.json`, `/healthz`, `/readyz` and `/metrics`.
/// Extensions of a request are passed to the service, and those of its response to the response. Everything that is not a route is answered with a failure in JSON.
///
/// `admit` refuses a caller that may not call the method with a path over gRPC, before anything of a body is read.
///
/// # Panics
///
/// If the descriptors that were compiled into the program have an RPC without a usable HTTP rule, which no input can
/// cause.
pub fn router(
    grpc: impl GrpcRoutes,
    admit: impl Fn(&str, &Parts) -> app::Result<()> + Send + Sync + 'static,
) -> Router {
    let routes = RouteTable::from_pool(&protocol::DESCRIPTORS).expect("the tests of the protocol read these rules");
    let description = Bytes::from(openapi::description(&routes).to_string());
    let describe = async move || ([(header::CONTENT_TYPE, answers::JSON)], description);
    let others = streams::router(grpc.clone()).merge(operations::router(grpc.clone()));
    let other = async || Failure::other_method("GET, HEAD").into_response();
    let calls = Router::new().route("/openapi.json", get(describe).fallback(other)).fallback(serve);
    calls.with_state(Arc::new(HttpDoor { routes, grpc, admit: Box::new(admit) })).merge(others)
}

/// The answer to a request that is refused before any service sees it.
pub fn refuse(error: Error) -> Response {
    Failure::from(error).into_response()
}

async fn serve<S: GrpcRoutes>(State(door): State<Arc<HttpDoor<S>>>, request: Request) -> Response {
    door.answer(request).await.unwrap_or_else(Failure::into_response)
}

impl<S: GrpcRoutes> HttpDoor<S> {
    async fn answer(&self, request: Request) -> Result<Response, Failure> {
        let (head, body) = request.into_parts();
        let (route, variables) = match self.routes.find(&head.method, head.uri.path())? {
            RouteMatch::Route(route, variables) => (route, variables),
            RouteMatch::OtherMethods(methods) => {
                let allowed = methods.iter().map(|method| method.as_str()).collect::<Vec<_>>().join(", ");
                return Err(Failure::other_method(&allowed));
            }
            RouteMatch::Nothing => return Err(Error::new(Reason::MethodUnknown, "no call has this path").into()),
        };
        (self.admit)(route.grpc_path.path(), &head)?;
        if route.grpc_path.path() == lists::WATCH_SESSIONS && answers::accepts(&head.headers, sse::MEDIA_TYPE) {
            return lists::follow(self.grpc.clone(), head).await;
        }
        let body = read_body(&head, body).await?;
        let parts = request::Parts {
            variables: &variables,
            query: head.uri.query().unwrap_or_default(),
            body: &body,
            idempotency_key: idempotency_key(&head)?,
        };
        let message = Bytes::from(request::encoded(route, parts)?);
        drop(body);
        self.call(route, head, message).await
    }

    async fn call(&self, route: &Route, head: Parts, message: Bytes) -> Result<Response, Failure> {
        let output = route.rpc.output();
        let path = route.grpc_path.clone();
        if !route.rpc.is_server_streaming() {
            let origin = Origin { headers: head.headers, extensions: head.extensions };
            let (answer, message) = Call { path, origin, message }.unary(self.grpc.clone()).await?.into_parts();
            let mut response = answers::whole(&output, message)?;
            *response.extensions_mut() = answer.extensions;
            return Ok(response);
        }
        let origin = Origin { headers: head.headers.clone(), extensions: head.extensions };
        let call = Call { path, origin, message };
        let stream = call.streaming(self.grpc.clone()).await?;
        let extensions = stream.extensions().clone();
        let messages = StreamedMessages::begin(output, stream).await?;
        let form = StreamForm::from_headers(&head.headers);
        let tag = views::entity_tag(&route.rpc, form, messages.first.as_ref());
        let mut response = match &tag {
            Some(tag) if views::is_held(&head.headers, tag) => {
                let mut response = Response::new(Body::empty());
                *response.status_mut() = StatusCode::NOT_MODIFIED;
                response
            }
            _ => {
                let mut response = messages.into_response(form);
                *response.extensions_mut() = extensions;
                response
            }
        };
        let headers = response.headers_mut();
        headers.insert(header::VARY, HeaderValue::from_static("Accept"));
        if let Some(tag) = tag {
            headers.insert(header::ETAG, tag);
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        }
        Ok(response)
    }
}

async fn read_body(head: &Parts, body: Body) -> Result<Bytes, Failure> {
    let limit = limits::REQUEST_BYTES_MAX;
    let body = gather(Limited::new(body, limit)).await.map_err(|cause| {
        if cause.is::<http_body_util::LengthLimitError>() {
            return Error::new(Reason::RequestTooLarge, format!("the body has more than {limit} bytes"))
                .with("limit", limit);
        }
        // The transport's own refusals have their reasons.
        let cause = cause.downcast::<axum::Error>().map_or_else(|other| other, |error| error.into_inner());
        cause.downcast::<Error>().map_or_else(
            |cause| Error::new(Reason::RequestMalformed, format!("the body did not come whole: {cause}")),
            |refusal| *refusal,
        )
    })?;
    let media_type = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = media_type.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
    // A body without a type is what a page of another origin can send without asking.
    if !body.is_empty() && !media_type.eq_ignore_ascii_case(answers::JSON) {
        let error = Error::new(Reason::RequestMalformed, "a body's Content-Type is application/json");
        return Err(Failure::from(error).with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    Ok(body)
}

/// Reads a body. Kept as they came, its pieces would keep the buffers that they were read into; and memory for all of it
/// would be kept by the allocator for a while when its client never sends the rest.
async fn gather(mut body: Limited<Body>) -> Result<Bytes, BoxError> {
    const PIECE_BYTES: usize = 256 * 1024;
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(mut data) = frame?.into_data() else { continue };
        while data.has_remaining() {
            match pieces.last_mut() {
                Some(piece) if piece.len() < PIECE_BYTES => {
                    let fits = data.len().min(PIECE_BYTES - piece.len());
                    piece.extend_from_slice(&data.split_to(fits));
                }
                _ => pieces.push(Vec::with_capacity(if pieces.is_empty() { data.len() } else { PIECE_BYTES })),
            }
        }
    }
    Ok(match pieces.len() {
        1 => pieces.remove(0).into(),
        _ => pieces.concat().into(),
    })
}

fn idempotency_key(head: &Parts) -> Result<Option<&str>, Failure> {
    let Some(key) = head.headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let key = key.to_str().map_err(|_| Error::field("Idempotency-Key", "is not printable ASCII"))?;
    Ok(Some(key))
}
