//! Failures as HTTP: the status of each code, and `google.rpc.Status` in protobuf's JSON mapping as the body.

use super::protocol;
use crate::app::{Error, Reason};
use crate::reason::DOMAIN;
use axum::body::Body;
use axum::response::Response;
use http::{HeaderName, HeaderValue, StatusCode, header};
use prost_reflect::{DynamicMessage, Value};
use serde_json::{Map, Value as Json, json};
use std::time::Duration;
use tonic::Status;
use tonic_types::StatusExt as _;

/// A failure: its HTTP status, the delay before a retry if that can help, and the text of its body.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) status: StatusCode,
    retry_after: Option<Duration>,
    /// `google.rpc.Status` as JSON.
    pub(super) body: Json,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Failure {
    /// The refusal of a method that a path does not have, with those that it has.
    pub(super) fn other_method(allowed: &str) -> Self {
        let error = Error::new(Reason::MethodUnknown, format!("the path has the methods {allowed}"));
        let failure = Self::from(error.with("allowed", allowed)).with_status(StatusCode::METHOD_NOT_ALLOWED);
        match HeaderValue::from_str(allowed) {
            Ok(allowed) => failure.with_header(header::ALLOW, allowed),
            Err(_) => failure,
        }
    }

    /// The same failure with one more header.
    #[must_use]
    fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The same failure with a status that says more than the code's.
    #[must_use]
    pub(super) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// The response.
    pub(super) fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body.to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.extend(self.headers);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(delay) = self.retry_after {
            // The header has whole seconds, and zero would mean at once.
            let seconds = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
            headers.insert(header::RETRY_AFTER, seconds.max(1).into());
        }
        response
    }
}

/// A refusal by HTTP's own door.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let Error { reason, message, metadata } = error;
        let code = reason.code().number();
        let retry_after = reason.retry_after();
        // The order and the omissions of a status that a service made.
        let mut details = Vec::new();
        if let Some(delay) = retry_after {
            let delay = format!("{}.{:03}s", delay.as_secs(), delay.subsec_millis());
            details.push(json!({ "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay }));
        }
        let mut info = json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": reason.as_str(),
            "domain": DOMAIN,
        });
        if !metadata.is_empty() {
            info["metadata"] = json!(metadata);
        }
        details.push(info);
        if let Some(field) = metadata.get("field") {
            let description = message.strip_prefix(&format!("{field}: ")).unwrap_or(&message);
            details.push(json!({
                "@type": "type.googleapis.com/google.rpc.BadRequest",
                "fieldViolations": [{ "field": field, "description": description }],
            }));
        }
        let body = json!({ "code": code, "message": message, "details": details });
        Self { status: http_status(code, reason.as_str()), retry_after, body, headers: Vec::new() }
    }
}

/// A failure of a service.
impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        let details = status.get_error_details();
        let reason = details.error_info().map_or("", |info| info.reason.as_str());
        let retry_after = details.retry_info().and_then(|info| info.retry_delay);
        let code = i32::from(status.code());
        Self { status: http_status(code, reason), retry_after, body: body(&status), headers: Vec::new() }
    }
}

/// The JSON of a status, with its details as far as they can be read.
fn body(status: &Status) -> Json {
    let decoded = DynamicMessage::decode(protocol::STATUS.clone(), status.details());
    let mut message = decoded.unwrap_or_else(|_| DynamicMessage::new(protocol::STATUS.clone()));
    message.set_field_by_name("code", Value::I32(status.code().into()));
    message.set_field_by_name("message", Value::String(status.message().to_owned()));
    serde_json::to_value(&message).unwrap_or_else(|_| {
        let code = i32::from(status.code());
        Json::Object(Map::from_iter([
            ("code".to_owned(), code.into()),
            ("message".to_owned(), status.message().into()),
        ]))
    })
}

/// The HTTP status of a code, by the table in `google.rpc.Code`, but for two reasons: a request that is too large is not
/// to be sent again, and a path without a call is a path that does not exist.
fn http_status(code: i32, reason: &str) -> StatusCode {
    if reason == Reason::RequestTooLarge.as_str() {
        return StatusCode::PAYLOAD_TOO_LARGE;
    }
    if reason == Reason::MethodUnknown.as_str() {
        return StatusCode::NOT_FOUND;
    }
    match tonic::Code::from_i32(code) {
        tonic::Code::Ok => StatusCode::OK,
        tonic::Code::InvalidArgument | tonic::Code::FailedPrecondition | tonic::Code::OutOfRange => {
            StatusCode::BAD_REQUEST
        }
        tonic::Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        tonic::Code::PermissionDenied => StatusCode::FORBIDDEN,
        tonic::Code::NotFound => StatusCode::NOT_FOUND,
        tonic::Code::AlreadyExists | tonic::Code::Aborted => StatusCode::CONFLICT,
        tonic::Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        // The caller left, so nobody reads this.
        tonic::Code::Cancelled => StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST),
        tonic::Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        tonic::Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        tonic::Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        tonic::Code::Internal | tonic::Code::Unknown | tonic::Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic_types::ErrorDetails;

    #[test]
    fn a_refusal_and_a_status_have_one_form() {
        let refusal = Failure::from(Error::field("messages[1].role", "is not given"));
        let mut details = ErrorDetails::new();
        details.set_error_info("INVALID_FIELD", DOMAIN, [("field".to_owned(), "messages[1].role".to_owned())]);
        details.add_bad_request_violation("messages[1].role", "is not given");
        let message = "messages[1].role: is not given";
        let status = Status::with_error_details(tonic::Code::InvalidArgument, message, details);
        let failure = Failure::from(status);
        assert_eq!((refusal.status, &refusal.body), (failure.status, &failure.body));
        assert_eq!(failure.status, StatusCode::BAD_REQUEST);

        let refusal = Failure::from(Error::new(Reason::StoreBusy, "busy"));
        let mut details = ErrorDetails::new();
        details.set_error_info("STORE_BUSY", DOMAIN, std::collections::HashMap::new());
        details.set_retry_info(Some(Duration::from_millis(100)));
        let failure = Failure::from(Status::with_error_details(tonic::Code::Unavailable, "busy", details));
        assert_eq!(failure.body, refusal.body);
        let response = failure.into_response();
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    }

    #[test]
    fn a_status_without_details_has_code_and_message() {
        let failure = Failure::from(Status::unauthenticated("who?"));
        assert_eq!(failure.status, StatusCode::UNAUTHORIZED);
        assert_eq!(failure.body, json!({ "code": 16, "message": "who?" }));
    }

    #[test]
    fn every_code_has_a_status_of_failures() {
        for code in 1..=16 {
            let status = http_status(code, "");
            assert!(status.is_client_error() || status.is_server_error(), "{code}");
        }
        for reason in Reason::ALL {
            let failure = Failure::from(Error::new(reason, "why"));
            let internal = matches!(reason, Reason::Internal | Reason::AnswerLost | Reason::RowCorrupt)
                || reason == Reason::BackupDamaged;
            assert_eq!(failure.status == StatusCode::INTERNAL_SERVER_ERROR, internal, "{reason:?}");
        }
    }
}
