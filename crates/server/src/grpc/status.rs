//! Conversion of errors to gRPC statuses. No other file builds a status.

use crate::app::{Error, Reason};
use crate::pb::codec::Refusal;
use crate::reason::DOMAIN;
use crate::telemetry::span;
use crate::transport::CutOff;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use std::collections::HashMap;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

/// The header with the encodings that the transport knows, in its refusal of another one.
const ACCEPT_ENCODING: &str = "grpc-accept-encoding";

/// Maximum bytes of a message, or of one fact in it. Statuses are sent in headers, whose size clients limit, and a
/// message may quote a request.
const TEXT_BYTES_MAX: usize = 512;

/// True for a request of gRPC-Web.
pub(super) fn is_web(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc-web"))
}

/// The text, truncated if it is too long for a header.
fn short(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push('…');
    }
    text
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        let Error { reason, message, metadata } = error;
        span::record("reason", reason.as_str());
        let field = metadata.get("field").cloned();
        let facts: HashMap<String, String> = metadata.into_iter().map(|(key, value)| (key, short(value))).collect();
        let mut details = ErrorDetails::new();
        details.set_error_info(reason.as_str(), DOMAIN, facts);
        if let Some(field) = field {
            let description = message.strip_prefix(&format!("{field}: ")).unwrap_or(&message).to_owned();
            details.add_bad_request_violation(short(field), short(description));
        }
        if let Some(delay) = reason.retry_after() {
            details.set_retry_info(Some(delay));
        }
        Self::with_error_details(Code::from_i32(reason.code().number()), short(message), details)
    }
}

/// The answer to a request with these headers that is refused before any service sees it.
pub fn refuse(headers: &HeaderMap, error: Error) -> http::Response<axum::body::Body> {
    let mut answer: http::Response<axum::body::Body> = Status::from(error).into_http();
    if let Some(kind) = headers.get(CONTENT_TYPE).filter(|_| is_web(headers)) {
        answer.headers_mut().insert(CONTENT_TYPE, kind.clone());
    }
    answer
}

/// The trailers of an answer that is cut off, with the cursor at which its reader resumes.
pub(super) fn cut_off(why: CutOff, cursor: Option<&str>) -> http::HeaderMap {
    let reason = match why {
        CutOff::Stalled(_) | CutOff::Crowded => Reason::ReaderStalled,
        CutOff::Stopping => Reason::ShuttingDown,
    };
    let error = Error::new(reason, why.to_string());
    let error = cursor.into_iter().fold(error, |error, cursor| error.with("cursor", cursor));
    let mut trailers = http::HeaderMap::new();
    if let Err(error) = Status::from(error).add_header(&mut trailers) {
        tracing::debug!(%error, "an answer ends without saying why");
    }
    trailers
}

/// The answer to a caller whose own deadline has passed.
pub(super) fn too_late() -> http::Response<tonic::body::Body> {
    Status::deadline_exceeded("the caller's deadline has passed").into_http()
}

/// Adds a reason to a refusal by the transport, before any service sees the request: an unknown method, a request that
/// is too large or malformed. Answers that have details already stay as they are.
pub(super) fn explain<B>(mut response: http::Response<B>) -> http::Response<B> {
    let Some(refusal) = Status::from_header_map(response.headers()) else { return response };
    if refusal.code() == Code::Ok || !refusal.details().is_empty() {
        return response;
    }
    let undecoded = Refusal::from_message(refusal.message()).filter(|_| refusal.code() == Code::ResourceExhausted);
    let error = match refusal.code() {
        Code::Unimplemented if refusal.metadata().contains_key(ACCEPT_ENCODING) => {
            Error::new(Reason::EncodingUnknown, refusal.message()).with("known", "gzip, identity")
        }
        Code::Unimplemented => Error::new(Reason::MethodUnknown, "no service has this method"),
        Code::ResourceExhausted if let Some(undecoded) = undecoded => match undecoded {
            Refusal::Elements(field, limit) => {
                let message = format!("{field}: the list has more than {limit} elements");
                Error::new(Reason::LimitExceeded, message).with("what", field).with("limit", limit)
            }
            Refusal::Values(limit) => {
                let message = format!("{}: more than {limit}", refusal.message());
                Error::new(Reason::RequestTooLarge, message).with("limit", limit)
            }
            Refusal::Memory => Error::new(Reason::TooManyRequests, refusal.message()),
        },
        Code::OutOfRange | Code::ResourceExhausted => {
            let limit = crate::limits::REQUEST_BYTES_MAX;
            Error::new(Reason::RequestTooLarge, refusal.message()).with("limit", limit)
        }
        Code::Internal | Code::InvalidArgument => Error::new(Reason::RequestMalformed, refusal.message()),
        // Deadlines and cancellations are the caller's own.
        _ => return response,
    };
    let explained = Status::from(error);
    if let Err(error) = explained.add_header(response.headers_mut()) {
        tracing::debug!(%error, "a refusal could not be explained");
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_reason_is_a_proper_name_with_its_code() {
        let form = regex::Regex::new("^[A-Z][A-Z0-9_]+[A-Z0-9]$").expect("a pattern");
        let mut seen = HashSet::new();
        for reason in Reason::ALL {
            let name = reason.as_str();
            assert!(form.is_match(name) && name.len() <= 63, "{name}");
            assert!(seen.insert(name), "{name} is there twice");
            let status = Status::from(Error::new(reason, "why"));
            assert!(!matches!(status.code(), Code::Ok | Code::Unknown), "{name}");
            assert_eq!(status.message(), "why");
            let details = status.get_error_details();
            let info = details.error_info().expect("an error info");
            assert_eq!((info.reason.as_str(), info.domain.as_str()), (name, "longhand"));
            assert_eq!(details.retry_info().is_some(), reason.retry_after().is_some(), "{name}");
        }
    }

    #[test]
    fn codes_follow_the_names() {
        for reason in Reason::ALL {
            let name = reason.as_str();
            let expected = match name.rsplit('_').next().expect("a word") {
                "FOUND" => Code::NotFound,
                "RANGE" => Code::OutOfRange,
                "MISMATCH" => Code::Aborted,
                "CORRUPT" => Code::DataLoss,
                "INTERNAL" => Code::Internal,
                "UNKNOWN" => Code::Unimplemented,
                "OUT" => Code::DeadlineExceeded,
                _ => continue,
            };
            assert_eq!(Code::from_i32(reason.code().number()), expected, "{name}");
        }
    }

    #[test]
    fn a_field_is_named_where_clients_expect_it() {
        let status = Status::from(Error::field("messages[3].role", "is not given"));
        assert_eq!(status.code(), Code::InvalidArgument);
        let details = status.get_error_details();
        let violation = &details.bad_request().expect("a violation").field_violations[0];
        assert_eq!((violation.field.as_str(), violation.description.as_str()), ("messages[3].role", "is not given"),);
        let info = details.error_info().expect("an error info");
        assert_eq!(info.metadata["field"], "messages[3].role");
    }

    #[test]
    fn refusals_of_the_transport_get_a_reason() {
        let cases = [
            (Status::unimplemented(""), Some("METHOD_UNKNOWN")),
            (Status::out_of_range("too large"), Some("REQUEST_TOO_LARGE")),
            (Status::internal("failed to decode"), Some("REQUEST_MALFORMED")),
            (Status::cancelled("gone"), None),
            (Error::new(Reason::Internal, "ours").into(), Some("INTERNAL")),
        ];
        for (status, reason) in cases {
            let explained = explain(status.into_http::<()>());
            let explained = Status::from_header_map(explained.headers()).expect("a status");
            let details = explained.get_error_details();
            assert_eq!(details.error_info().map(|info| info.reason.as_str()), reason);
        }
    }

    #[test]
    fn facts_have_snake_case_names() {
        let form = regex::Regex::new("^[a-z][a-z0-9]*(_[a-z0-9]+)*$").expect("a pattern");
        let errors = [
            Error::field("title", "is too long"),
            Error::limit("bytes of title", 512, 513),
            crate::store::Error::RevisionMismatch { expected: 1, current: 2 }.into(),
            crate::store::Error::RevisionOutOfRange { revision: 9, newest: 2 }.into(),
            crate::store::Error::OffsetMismatch { offset: 3, length: 2 }.into(),
            crate::store::Error::RequestIdReused { request_id: "r".into() }.into(),
            crate::store::Error::ClientIdReused { client_id: "c".into() }.into(),
            crate::store::Error::not_found(crate::store::Kind::Session, "s").into(),
            crate::store::Error::not_found(crate::store::Kind::Message, "m").into(),
            crate::store::Error::not_found(crate::store::Kind::Draft, "d").into(),
            crate::store::Error::not_found(crate::store::Kind::Compaction, "c").into(),
        ];
        for error in errors {
            let details = Status::from(error).get_error_details();
            let info = details.error_info().expect("an error info").clone();
            assert!(!info.metadata.is_empty(), "{}", info.reason);
            for key in info.metadata.keys() {
                assert!(form.is_match(key), "{}: {key}", info.reason);
            }
        }
    }

    #[test]
    fn a_clients_text_never_makes_a_status_too_long_for_its_header() {
        let id = "ä".repeat(1_000_000);
        let error = Error::field(&id, &id).with("session_id", &id);
        let status = Status::from(error);
        assert!(status.message().len() < 600 && status.details().len() < 4_096, "{}", status.details().len());
        assert!(status.message().ends_with('…'));
    }
}
