//! For those who operate the daemon: whether it lives, whether it takes work, and its metrics.

use super::calls::{Call, GrpcRoutes, Origin};
use super::failure::Failure;
use crate::app::{Error, Reason};
use crate::{metrics, pb};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::get;
use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderValue, header};
use prost_reflect::prost::Message as _;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// The method with the daemon's state.
const SERVER_INFO: PathAndQuery = PathAndQuery::from_static("/longhand.v1.AdminService/GetServerInfo");

/// `/healthz` answers whoever asks as long as the daemon lives, `/readyz` as long as its services also take work, and
/// `/metrics` has its metrics for callers who may see its state.
pub(super) fn router<S: GrpcRoutes>(grpc: S) -> Router {
    let health = grpc.clone();
    let ready = async move || readiness(health).await.unwrap_or_else(Failure::into_response);
    let measure =
        async move |request: Request| measurements(grpc, request).await.unwrap_or_else(Failure::into_response);
    Router::new()
        .route("/healthz", get(async || text("ok\n".to_owned(), "text/plain")))
        .route("/readyz", get(ready))
        .route("/metrics", get(measure))
}

fn text(text: String, media_type: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn readiness<S: GrpcRoutes>(grpc: S) -> Result<Response, Failure> {
    let answer = HealthClient::new(grpc).check(HealthCheckRequest { service: String::new() }).await?;
    if answer.into_inner().status() == ServingStatus::Serving {
        return Ok(text("ok\n".to_owned(), "text/plain"));
    }
    Err(Error::new(Reason::StoreStopped, "the store takes no writes until the daemon is started again").into())
}

async fn measurements<S: GrpcRoutes>(grpc: S, request: Request) -> Result<Response, Failure> {
    let (head, _) = request.into_parts();
    let origin = Origin { headers: head.headers, extensions: head.extensions };
    let answer = Call { path: SERVER_INFO, origin, message: Bytes::new() }.unary(grpc).await?;
    let info = pb::GetServerInfoResponse::decode(answer.into_body());
    let info = info.map_err(|error| Error::internal(format_args!("the state cannot be read: {error}")))?;
    if info.writer.is_none() {
        // Without the state, every figure of it would be a zero.
        let message = "the metrics are those of the whole daemon, which only an operator may see";
        return Err(Error::new(Reason::ScopeMissing, message).with("scope", "admin").into());
    }
    Ok(text(metrics::text(&info), metrics::MEDIA_TYPE))
}
