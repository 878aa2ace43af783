//! The doors of the daemon: which service a request belongs to.

use crate::app::Error;
use crate::transport::RequestClass;
use crate::{grpc, http as json};
use axum::body::Body;
use http::{HeaderMap, Request, Response};
use tonic::service::Routes;
use tower::ServiceExt as _;

/// Every door as one service: gRPC and gRPC-Web by their content types, HTTP with JSON for everything else.
pub(super) fn service(routes: Routes) -> axum::Router {
    let json = json::router(routes.clone());
    let grpc = grpc::service(routes);
    axum::Router::new().fallback_service(tower::service_fn(move |request: Request<Body>| {
        let door = if grpc::is_grpc(request.headers()) { &grpc } else { &json };
        door.clone().oneshot(request)
    }))
}

/// What a path says about the size of its requests.
pub(super) fn class(path: &str) -> RequestClass {
    // The paths of gRPC name a package; a body of JSON is read whole, and parsed into what is kept.
    if path.split('/').nth(1).is_some_and(|package| package.contains('.')) {
        grpc::class(path)
    } else {
        RequestClass::Kept
    }
}

/// The answer to a request that is refused before any service sees it.
pub(super) fn refuse(headers: &HeaderMap, error: Error) -> Response<Body> {
    if grpc::is_grpc(headers) { grpc::refuse(error) } else { json::refuse(error) }
}
