//! Calls from outside of this process, with what surrounds each: gRPC-Web, the caller's deadline, reasons for refusals.

use super::guard::{GuardedServices, REFLECTION};
use super::status::{cut_off, explain, is_web, too_late};
use crate::app::Error;
use crate::transport::{RequestClass, Trailers};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, Request, Response};
use http_body_util::BodyExt as _;
use std::time::Duration;
use tonic::Status;
use tonic::body::Body;
use tonic_web::GrpcWebLayer;
use tower::{Layer as _, ServiceExt as _};

/// The header with the caller's deadline.
const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
/// Methods that keep their request's content until they answer. Other methods keep little of it once it was read, and
/// some of them wait for minutes.
const KEEPING_METHODS: [&str; 7] = [
    "/longhand.v1.MessageService/AppendMessages",
    "/longhand.v1.MessageService/AppendParts",
    "/longhand.v1.MessageService/AppendDraft",
    "/longhand.v1.MessageService/EditMessage",
    "/longhand.v1.CompactionService/SupplySummary",
    "/longhand.v1.SummaryTaskService/CompleteSummaryTask",
    "/longhand.v1.ArchiveService/ImportSession",
];

/// The method that takes a message as a stream.
const FRAMES: &str = "/longhand.v1.MessageService/WriteMessage";

/// What a method's path says about the size of its requests.
pub fn class(path: &str) -> RequestClass {
    match path {
        // It takes many messages over any time.
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

/// The answer to a request of gRPC or gRPC-Web, within its caller's deadline.
pub async fn answer<B>(services: &GuardedServices, request: Request<B>) -> Response<axum::body::Body>
where
    B: http_body::Body<Data = Bytes, Error: Into<axum::BoxError>> + Send + 'static,
{
    let is_web = is_web(request.headers());
    let timeout = request.headers().get(TIMEOUT).and_then(|value| read_timeout(value.to_str().ok()?));
    let request = request.map(|body| Body::new(body.map_err(|error| unreadable(error.into()))));
    let answering = async {
        if is_web {
            let Ok(answer) = GrpcWebLayer::new().layer(services.clone()).oneshot(request).await;
            answer
        } else {
            services.answer(request).await
        }
    };
    let answer = match timeout {
        Some(timeout) => tokio::time::timeout(timeout, answering).await.unwrap_or_else(|_| too_late()),
        None => answering.await,
    };
    explain(answer).map(axum::body::Body::new)
}

/// What makes the trailers of an answer that is cut off, if it has any. Those of gRPC-Web are part of its body, which
/// breaks off as it is.
pub fn trailers(headers: &HeaderMap) -> Option<Trailers> {
    (is_grpc(headers) && !is_web(headers)).then_some(cut_off)
}

/// The status of a request whose content cannot be read to its end.
fn unreadable(error: axum::BoxError) -> Status {
    match error.downcast::<Error>() {
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
