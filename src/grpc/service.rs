//! All services as one, with what surrounds each call: gRPC-Web, the caller's deadline, reasons for refusals.

use super::guard::Guarded;
use super::status::{explain, too_late, trailers};
use crate::app::Error;
use crate::transport::{Delivery, RequestClass};
use axum::body::Body;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, Request, Response};
use http_body_util::BodyExt as _;
use std::convert::Infallible;
use std::time::Duration;
use tonic::Status;
use tonic_web::GrpcWebLayer;
use tower::{Layer as _, Service, ServiceExt as _};

/// The header with the caller's deadline.
const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
/// Path prefix of reflection, which takes many messages over any time.
const REFLECTION: &str = "/grpc.reflection.";
/// Methods that keep their request's content until they answer. Other methods keep little of it once it was read, and
/// some of them wait for minutes.
const KEEPING_METHODS: [&str; 6] = [
    "/longhand.v1.MessageService/AppendMessages",
    "/longhand.v1.MessageService/AppendParts",
    "/longhand.v1.MessageService/AppendDraft",
    "/longhand.v1.MessageService/EditMessage",
    "/longhand.v1.CompactionService/SupplySummary",
    "/longhand.v1.SummaryTaskService/CompleteSummaryTask",
];

/// The method that takes a message as a stream.
const FRAMES: &str = "/longhand.v1.MessageService/WriteMessage";

/// What a method's path says about the size of its requests.
pub fn class(path: &str) -> RequestClass {
    match path {
        path if path.starts_with(REFLECTION) => RequestClass::Open,
        FRAMES => RequestClass::Frames,
        path if KEEPING_METHODS.contains(&path) => RequestClass::Kept,
        _ => RequestClass::Short,
    }
}

/// True for a request of gRPC or gRPC-Web.
pub fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// The services as a tower service.
pub fn service(
    routes: Guarded,
) -> impl Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send> + Clone + Send + Sync + 'static
{
    let web = GrpcWebLayer::new().layer(routes.clone());
    tower::service_fn(move |request: Request<Body>| {
        let (routes, web) = (routes.clone(), web.clone());
        async move {
            let is_web = is_web(request.headers());
            let timeout = request.headers().get(TIMEOUT).and_then(|value| read_timeout(value.to_str().ok()?));
            let request = request.map(|body| tonic::body::Body::new(body.map_err(unreadable)));
            let answering = async {
                let Ok(answer) = if is_web { web.oneshot(request).await } else { routes.oneshot(request).await };
                answer
            };
            let mut answer = match timeout {
                Some(timeout) => tokio::time::timeout(timeout, answering).await.unwrap_or_else(|_| too_late()),
                None => answering.await,
            };
            if !is_web {
                // The trailers of gRPC-Web are part of its body, which breaks off as it is.
                let delivery = answer.extensions_mut().remove::<Delivery>().unwrap_or_default();
                answer.extensions_mut().insert(delivery.with_trailers(trailers));
            }
            Ok::<Response<Body>, Infallible>(explain(answer).map(Body::new))
        }
    })
}

fn is_web(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc-web"))
}

/// The status of a request whose content cannot be read to its end.
fn unreadable(error: axum::Error) -> Status {
    match error.into_inner().downcast::<Error>() {
        Ok(refusal) => (*refusal).into(),
        Err(error) => Status::cancelled(error.to_string()),
    }
}

/// The duration in a caller's deadline: digits and a unit.
fn read_timeout(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u32 = number.parse().ok().filter(|_| number.len() <= 8)?;
    let unit = match unit {
        "H" => Duration::from_secs(3_600),
        "M" => Duration::from_secs(60),
        "S" => Duration::from_secs(1),
        "m" => Duration::from_millis(1),
        "u" => Duration::from_micros(1),
        "n" => Duration::from_nanos(1),
        _ => return None,
    };
    Some(unit * number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_parsed_in_every_unit() {
        let cases = [
            ("2H", Some(Duration::from_secs(7_200))),
            ("1M", Some(Duration::from_secs(60))),
            ("3S", Some(Duration::from_secs(3))),
            ("99999999m", Some(Duration::from_millis(99_999_999))),
            ("5u", Some(Duration::from_micros(5))),
            ("7n", Some(Duration::from_nanos(7))),
            ("999999999m", None),
            ("m", None),
            ("", None),
            ("5", None),
            ("5ä", None),
        ];
        for (text, expected) in cases {
            assert_eq!(read_timeout(text), expected, "{text:?}");
        }
    }
}
