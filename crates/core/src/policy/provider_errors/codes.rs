//! Codes and statuses that mean one kind, wherever they come from. Other codes are read by their words.

use super::kinds::Kind::{self, Busy, Invalid, Media, Quota, Rate, TooLarge, TooLong};

/// Codes and types of errors, in lower case.
const CODES: &[(Kind, &[&str])] = &[
    (
        TooLong,
        &[
            "context_length_exceeded",
            "model_context_window_exceeded",
            "exceed_context_size_error",
            "context_exceeded",
            "context_window_exceeded",
            "context_too_large",
            "prompt_too_long",
            "prompt_limit",
            "contextwindowexceedederror",
        ],
    ),
    (TooLarge, &["request_too_large", "payload_too_large"]),
    (Media, &["image_too_large", "image_file_too_large", "invalid_image", "invalid_image_url", "image_parse_error"]),
    (
        Rate,
        &["too_many_requests", "rate_limit_error", "rate_limit_exceeded", "resource_exhausted", "throttlingexception"],
    ),
    (Quota, &["insufficient_quota", "billing_hard_limit_reached", "billing_error", "payment_required"]),
    (
        Busy,
        &[
            "overloaded_error",
            "api_error",
            "timeout_error",
            "server_error",
            "internal_server_error",
            "internal",
            "unavailable",
            "deadline_exceeded",
        ],
    ),
    (
        Invalid,
        &[
            "authentication_error",
            "permission_error",
            "not_found_error",
            "invalid_request_error",
            "invalid_api_key",
            "model_not_found",
            "invalid_prompt",
            "content_filter",
            "permission_denied",
            "unauthenticated",
            "not_found",
            "invalid_argument",
            "failed_precondition",
        ],
    ),
];

/// Codes of requests that no view is sent with: there is no window whose words could be in their messages.
pub(super) const NO_VIEW: [&str; 1] = ["max_tokens_per_request"];

/// The kind that a code or type of an error means by itself; none for another one.
pub(super) fn kind(code: &str) -> Option<Kind> {
    let code = code.to_ascii_lowercase();
    CODES.iter().find(|(_, codes)| codes.contains(&&*code)).map(|(kind, _)| *kind)
}

/// The kind that an HTTP status means by itself; none for one that servers use for many reasons.
pub(super) fn kind_of_status(status: u16) -> Option<Kind> {
    match status {
        402 => Some(Quota),
        413 => Some(TooLarge),
        429 => Some(Rate),
        _ => None,
    }
}
