//! Failures of a provider, and their meaning for the next attempt.

use super::retry_after;
use crate::model::time::Timestamp;
use crate::policy::provider_errors::{self, Kind, ProviderError};
use reqwest::header::HeaderMap;
use serde_json::Value;

/// Meaning of a failure for the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The same request may succeed later.
    Transient,
    /// A shorter request may succeed.
    Overflow,
    /// The reply is no summary. Another request may bring one.
    Refused,
    /// The same request will fail again, and a shorter one too.
    Permanent,
    /// The request was cancelled at the provider, or the summarizer is shutting down.
    Cancelled,
}

/// A failure of a provider.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// Meaning for the next attempt.
    pub class: Class,
    /// Message text, a sentence fragment; if the reply is no summary, it begins with the reason's name, if known.
    pub message: String,
    /// Name of the reason why a reply is no summary, as in failures; empty if nothing more is known.
    pub reason: String,
    /// Delay that the provider asked for, in milliseconds.
    pub retry_after_ms: Option<i64>,
}

/// Maximum length of a provider's message, in characters; the rest is dropped.
const MESSAGE_MAX: usize = 400;

impl Fault {
    /// A failure without a requested delay.
    pub(crate) fn new(class: Class, message: impl Into<String>) -> Self {
        Self { class, message: shortened(&message.into()), reason: String::new(), retry_after_ms: None }
    }

    /// A reply that is no summary, for a reason with a name.
    pub(crate) fn refused(reason: &str, message: &str) -> Self {
        let message = shortened(&format!("{reason}: {message}"));
        Self { class: Class::Refused, message, reason: reason.to_owned(), retry_after_ms: None }
    }

    /// The failure in a response with a status other than 200.
    pub(super) fn of_response(status: u16, headers: &HeaderMap, body: &str, now: Timestamp) -> Self {
        let error_body = ErrorBody::parse(body);
        let class = class_of(Some(status), &error_body.code, &error_body.message);
        let retry_after_ms = retry_after::of_headers(headers, now).or(error_body.retry_after_ms);
        let detail = if error_body.message.is_empty() { String::new() } else { format!(": {}", error_body.message) };
        Self { retry_after_ms, ..Self::new(class, shortened(&format!("the provider answered {status}{detail}"))) }
    }

    /// The error in a reply with status 200; none if it contains none.
    pub(super) fn of_value(value: &Value) -> Option<Self> {
        let error_body = ErrorBody::of_value(value)?;
        // Some gateways use the status that they received as the code.
        let status = error_body.code.parse().ok();
        let class = class_of(status, &error_body.code, &error_body.message);
        let detail = if error_body.message.is_empty() { &error_body.code } else { &error_body.message };
        let message = shortened(&format!("the provider broke off with an error: {detail}"));
        Some(Self { retry_after_ms: error_body.retry_after_ms, ..Self::new(class, message) })
    }

    /// The failure for an error with a code and a message.
    pub(super) fn of_code(code: &str, message: &str) -> Self {
        let detail = if message.is_empty() { code } else { message };
        Self::new(
            class_of(code.parse().ok(), code, message),
            shortened(&format!("the provider broke off with an error: {detail}")),
        )
    }
}

#[derive(Debug, Default)]
struct ErrorBody {
    /// The first known code or type of the error, else the first one that is not empty.
    code: String,
    message: String,
    retry_after_ms: Option<i64>,
}

impl ErrorBody {
    fn parse(body: &str) -> Self {
        let parsed = serde_json::from_str::<Value>(body).ok();
        parsed.as_ref().and_then(Self::of_value).unwrap_or_else(|| {
            // A page, a sentence, or JSON of no known shape: its text may still be recognised.
            Self { message: body.split_whitespace().collect::<Vec<_>>().join(" "), ..Self::default() }
        })
    }

    /// The error in a JSON value, in any of the shapes that providers and gateways use.
    fn of_value(value: &Value) -> Option<Self> {
        let value = value.as_array().and_then(|values| values.first()).unwrap_or(value);
        let error = match value.get("error") {
            Some(Value::Object(_)) => value.get("error")?,
            Some(Value::String(message)) => {
                return Some(Self { message: message.clone(), ..Self::default() });
            }
            Some(_) | None => {
                let kind = [value.get("object"), value.get("type")];
                if !kind.iter().any(|kind| *kind == Some(&Value::from("error"))) {
                    return None;
                }
                value
            }
        };
        let text = |name: &str| match error.get(name) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        };
        let codes = ["code", "status", "type"].map(text);
        let code = codes
            .iter()
            .find(|code| provider_errors::kind_of_code(code).is_some())
            .or(codes.iter().find(|code| !code.is_empty()));
        let mut message = text("message");
        // OpenRouter includes the model provider's message beside its own.
        if let Some(raw) = error.pointer("/metadata/raw").and_then(Value::as_str) {
            message = format!("{message} ({raw})");
        }
        Some(Self { code: code.cloned().unwrap_or_default(), message, retry_after_ms: retry_after::of_body(error) })
    }
}

fn class_of(status: Option<u16>, code: &str, message: &str) -> Class {
    match (provider_errors::kind(&ProviderError { status, code, message }), status) {
        (Some(Kind::TooLong | Kind::TooLarge), _) => Class::Overflow,
        // A request for a summary has no media: a shorter one would have as many.
        (Some(Kind::Media | Kind::Quota), _) => Class::Permanent,
        (_, Some(408 | 409 | 425 | 429)) => Class::Transient,
        (_, Some(501 | 505)) => Class::Permanent,
        (_, Some(status)) if status >= 500 => Class::Transient,
        (_, Some(status)) if status >= 300 => Class::Permanent,
        (Some(Kind::Invalid), _) => Class::Permanent,
        // Unknown failures may be transient; the number of attempts is limited.
        (Some(Kind::Rate | Kind::Busy) | None, _) => Class::Transient,
    }
}

/// A message shortened for a line of the log and for an event.
pub(super) fn shortened(message: &str) -> String {
    match message.char_indices().nth(MESSAGE_MAX) {
        Some((at, _)) => format!("{}...", &message[..at]),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(status: u16, body: &str, class: Class, part: &str) {
        let fault = Fault::of_response(status, &HeaderMap::new(), body, Timestamp(0));
        assert_eq!(fault.class, class, "{status} {body}");
        assert!(fault.message.contains(part), "{:?} does not contain {part:?}", fault.message);
        assert!(fault.message.contains(&status.to_string()));
    }

    #[test]
    fn answers_are_classified_by_status_code_and_sentence() {
        let overflow = r#"{"error": {"message": "too long", "type": "invalid_request_error",
                           "param": "messages", "code": "context_length_exceeded"}}"#;
        check(400, overflow, Class::Overflow, "too long");
        check(400, r#"{"error": {"message": "prompt is too long: 3 > 2", "type": "x"}}"#, Class::Overflow, "3 > 2");
        check(
            400,
            r#"{"object": "error", "message": "maximum context length is 4096 tokens"}"#,
            Class::Overflow,
            "4096",
        );
        check(413, "<html>no</html>", Class::Overflow, "no");
        check(429, r#"{"error": {"message": "slow down", "code": "rate_limit_exceeded"}}"#, Class::Transient, "slow");
        check(429, r#"{"error": {"message": "pay", "type": "insufficient_quota"}}"#, Class::Permanent, "pay");
        check(
            529,
            r#"{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}"#,
            Class::Transient,
            "Overloaded",
        );
        check(500, "", Class::Transient, "500");
        check(501, "", Class::Permanent, "501");
        check(503, r#"{"error": "loading model"}"#, Class::Transient, "loading model");
        check(401, r#"{"error": {"message": "bad key"}}"#, Class::Permanent, "bad key");
        check(
            404,
            r#"[{"error": {"message": "no such model", "status": "NOT_FOUND", "code": 404}}]"#,
            Class::Permanent,
            "no such model",
        );
        check(422, r#"{"detail": [{"msg": "field required"}]}"#, Class::Permanent, "field required");
        check(302, "", Class::Permanent, "302");
    }

    #[test]
    fn errors_within_a_reply_are_classified_too() {
        let class = |value: Value| Fault::of_value(&value).map(|fault| fault.class);
        assert_eq!(class(json!({"choices": []})), None);
        assert_eq!(class(json!({"error": null, "choices": []})), None);
        assert_eq!(class(json!({"type": "error", "error": {"type": "overloaded_error"}})), Some(Class::Transient));
        assert_eq!(class(json!({"error": {"code": 502, "message": "bad gateway"}})), Some(Class::Transient));
        assert_eq!(class(json!({"error": {"code": 400, "message": "nonsense"}})), Some(Class::Permanent));
        assert_eq!(class(json!({"error": {"type": "invalid_request_error", "message": "no"}})), Some(Class::Permanent));
        assert_eq!(class(json!({"error": {"message": "prompt is too long"}})), Some(Class::Overflow));
        assert_eq!(class(json!({"error": "unheard of"})), Some(Class::Transient));
        let raw = json!({"error": {"code": 400, "message": "Provider returned error",
                         "metadata": {"raw": "prompt is too long"}}});
        assert_eq!(class(raw), Some(Class::Overflow));
    }

    #[test]
    fn a_message_is_truncated() {
        let fault = Fault::of_response(500, &HeaderMap::new(), &"é".repeat(5_000), Timestamp(0));
        assert_eq!(fault.message.chars().count(), MESSAGE_MAX + 3);
    }
}
