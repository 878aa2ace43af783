//! Detection of provider errors that mean a request did not fit the model's window.
//!
//! Providers report it in many ways: by status, by a code, or only by a sentence. The sentences are data here,
//! collected from those that OpenCode and pi recognise. A pattern may match anywhere in the message; case and the
//! number of blanks are ignored. In a pattern `#` represents a number and `*` anything; a leading `^` anchors it to the
//! start.

use crate::model::message::FinishReason;
use crate::model::usage::Usage;

/// The error of a provider that refused a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProviderError<'a> {
    /// The HTTP status; none if the error came in the middle of a reply, or is only known as text.
    pub status: Option<u16>,
    /// The provider's code or type of the error, or empty.
    pub code: &'a str,
    /// The message, or the whole body if it could not be parsed.
    pub message: &'a str,
}

/// Codes and types of errors that mean an overflow.
const CODES: [&str; 4] =
    ["context_length_exceeded", "exceed_context_size_error", "model_context_window_exceeded", "request_too_large"];

/// Sentences that mean an overflow.
const PATTERNS: [&str; 41] = [
    "prompt is too long",
    "prompt too long",
    "prompt exceeds max length",
    "request_too_large",
    "request entity too large",
    "input is too long for requested model",
    "exceeds the context window",
    "exceeds*maximum context length",
    "exceeds the maximum allowed input length of # token",
    "exceeds maximum allowed input length of # token",
    "exceeds the limit of #",
    "exceeds the available context size",
    "exceeded model token limit",
    "context window exceeded",
    "context window exceeds limit",
    "context length exceeded",
    "context_length_exceeded",
    "context length is only # tokens",
    "maximum context length is # tokens",
    "maximum prompt length is #",
    "greater than the context length",
    "input token count*exceeds the maximum",
    "input length*exceeds*context length",
    "input (# tokens) is longer than the model's context length",
    "input (# tokens) is longer than the models context length",
    "range of input length should be",
    "tokens in request more than max tokens allowed",
    "reduce the length of the messages",
    "too large for model with #",
    "prompt has # token, but the configured context size is #",
    "prompt has # tokens, but the configured context size is #",
    "model_context_window_exceeded",
    "too many tokens",
    "token limit exceeded",
    "^413 ",
    "^413:",
    "api error (413):",
    // Cerebras answers without a body.
    "^400 (no body)",
    "^400 status code (no body)",
    "^413 (no body)",
    "^413 status code (no body)",
];

/// Sentences that mean something else, whatever else the message contains: the account is throttled, the window is not
/// full.
const EXCLUSIONS: [&str; 4] = ["^throttling error:", "^service unavailable:", "rate limit", "too many requests"];

/// The status of a body that is too large.
const TOO_LARGE: u16 = 413;
/// The status of too many requests: tokens in its message are tokens per minute.
const TOO_MANY: u16 = 429;

/// True if the error means that the request was too long for the model.
pub fn is_overflow(error: &ProviderError<'_>) -> bool {
    if error.status == Some(TOO_LARGE) || CODES.iter().any(|code| error.code.eq_ignore_ascii_case(code)) {
        return true;
    }
    error.status != Some(TOO_MANY) && is_overflow_text(error.message)
}

/// True if an error text without status and code means it.
pub fn is_overflow_text(message: &str) -> bool {
    let message = plain(message);
    let says = |patterns: &[&str]| patterns.iter().any(|pattern| matches(pattern, &message));
    (says(&PATTERNS) || message == "413") && !says(&EXCLUSIONS)
}

/// True if a reply indicates that its request did not fit although the provider reported no error: the input was larger
/// than the window, or left no room for an answer. These are pi's two rules.
pub fn is_silent(reason: FinishReason, usage: &Usage, window_tokens: i64) -> bool {
    let read = usage.input.saturating_add(usage.cache_read);
    if window_tokens <= 0 {
        return false;
    }
    match reason {
        FinishReason::Stop => read > window_tokens,
        FinishReason::Length => usage.output == 0 && read.saturating_mul(100) >= window_tokens.saturating_mul(99),
        FinishReason::ToolCalls | FinishReason::ContentFilter | FinishReason::Error | FinishReason::Aborted => false,
    }
}

/// Characters of a message that are searched. A matching sentence comes early, and a body may have any size.
const EXAMINED_CHARS: usize = 8_192;

/// The beginning of the message in lower case, with single blanks.
fn plain(message: &str) -> String {
    let end = message.char_indices().nth(EXAMINED_CHARS).map_or(message.len(), |(at, _)| at);
    let words: Vec<&str> = message[..end].split_whitespace().collect();
    words.join(" ").to_lowercase().replace('\u{2019}', "'")
}

/// True if a normalized message contains a pattern.
fn matches(pattern: &str, message: &str) -> bool {
    match pattern.strip_prefix('^') {
        Some(rest) => matches_at(rest, message),
        None => message.char_indices().any(|(at, _)| matches_at(pattern, &message[at..])),
    }
}

/// True if a message begins with a pattern.
fn matches_at(pattern: &str, message: &str) -> bool {
    let Some(special) = pattern.find(['#', '*']) else { return message.starts_with(pattern) };
    let Some(rest) = message.strip_prefix(&pattern[..special]) else { return false };
    let after = &pattern[special + 1..];
    if pattern[special..].starts_with('*') {
        return matches(after, rest);
    }
    let end = rest.find(|letter: char| !letter.is_ascii_digit() && !",._".contains(letter)).unwrap_or(rest.len());
    // A number may be at the end of its sentence.
    let number = rest[..end].trim_end_matches([',', '.', '_']);
    number.starts_with(|letter: char| letter.is_ascii_digit()) && matches_at(after, &rest[number.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: Option<u16>, code: &str, message: &str, expected: bool) {
        assert_eq!(is_overflow(&ProviderError { status, code, message }), expected, "{status:?} {code:?} {message:?}");
    }

    /// Original messages of providers, by meaning.
    const OVERFLOWS: [&str; 30] = [
        "prompt is too long: 213462 tokens > 200000 maximum",
        "Your prompt exceeds max length",
        "request_too_large: the request exceeds the size limit",
        "Input is too long for requested model.",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "This request exceeds the model's maximum context length of 131072 tokens",
        "The input (131073) exceeds maximum context length(131072).",
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        "tokens in request more than max tokens allowed",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "Please reduce the length of the messages or completion.",
        "This endpoint's maximum context length is 128,000 tokens. However, you requested about 200,000 tokens",
        "prompt token count of 130000 exceeds the limit of 128000",
        "the request exceeds the available context size, try increasing it",
        "The number of tokens to keep from the initial prompt is greater than the context length",
        "invalid params, context window exceeds limit (2013)",
        "Your request exceeded model token limit: 131072 (requested: 140000)",
        "Input length 4100 exceeds the maximum allowed input length of 4096 tokens",
        "Input (9000 tokens) is longer than the model\u{2019}s context length (8192 tokens).",
        "input length and `max_tokens` exceed limit: input length 5000 exceeds model context length 4096",
        "Prompt is  too\nlarge for model with 131072 maximum context length",
        "The prompt has 9001 tokens, but the configured context size is 8192 tokens",
        "Unhandled stop reason: model_context_window_exceeded",
        "prompt too long; exceeded max context length by 12 tokens",
        "InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]",
        "the context length is only 4096 tokens, resulting in a maximum input length of 0",
        "Context_length_exceeded",
        "too many tokens in the prompt",
        "token limit exceeded",
        "413 status code (no body)",
    ];

    const OTHERS: [&str; 14] = [
        "",
        "Throttling error: Too many tokens, please wait before trying again.",
        "Service unavailable: too many tokens are being processed",
        "Rate limit reached: token limit exceeded for this minute",
        "Too many requests, too many tokens",
        "Overloaded",
        "Internal server error",
        "Invalid API key",
        "The prompt is too short",
        "the limit of what is possible exceeds the limit of reason",
        "maximum context length is many tokens",
        "error 413",
        "4130 files",
        "Unknown parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
    ];

    #[test]
    fn sentences_are_classified() {
        for message in OVERFLOWS {
            check(Some(400), "", message, true);
            check(None, "", message, true);
        }
        for message in OTHERS {
            check(Some(400), "", message, false);
        }
    }

    #[test]
    fn every_pattern_is_what_a_provider_said_or_is_said_by_itself() {
        for pattern in PATTERNS {
            let said = pattern.trim_start_matches('^').replace('#', "4,096").replace('*', " of the call ");
            check(None, "", &said.to_uppercase(), true);
        }
    }

    #[test]
    fn status_and_code_say_it_without_a_sentence() {
        check(Some(413), "", "", true);
        check(Some(400), "", "", false);
        check(Some(400), "context_length_exceeded", "", true);
        check(Some(500), "exceed_context_size_error", "", true);
        check(None, "model_context_window_exceeded", "", true);
        check(None, "REQUEST_TOO_LARGE", "", true);
        check(Some(429), "rate_limit_exceeded", "too many tokens", false);
        check(Some(429), "context_length_exceeded", "", true);
        check(Some(500), "", "too many tokens", true);
    }

    #[test]
    fn a_window_that_overflowed_in_silence_is_seen_in_the_usage() {
        let usage = |input, output, cache_read| Usage { input, output, cache_read, ..Usage::default() };
        let cases = [
            (FinishReason::Stop, usage(90, 5, 11), 100, true),
            (FinishReason::Stop, usage(90, 5, 10), 100, false),
            (FinishReason::Length, usage(99, 0, 0), 100, true),
            (FinishReason::Length, usage(98, 0, 0), 100, false),
            (FinishReason::Length, usage(99, 1, 0), 100, false),
            (FinishReason::Stop, usage(99, 0, 0), 0, false),
            (FinishReason::Error, usage(200, 0, 0), 100, false),
            (FinishReason::Stop, usage(i64::MAX, 0, i64::MAX), i64::MAX - 1, true),
        ];
        for (reason, usage, window, expected) in cases {
            assert_eq!(is_silent(reason, &usage, window), expected, "{reason:?} {usage:?} {window}");
        }
    }
}
