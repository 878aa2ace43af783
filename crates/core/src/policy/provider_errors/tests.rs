use super::*;

mod figures;
mod windows;
use Kind::{Busy, Invalid, Media, Quota, Rate, TooLarge, TooLong};

/// Answers of providers: the status, the code, the message, and what it means. Each of them means it without its status
/// and code too, if the last value is true.
const ANSWERS: &[(&str, u16, &str, &str, Kind, bool)] = &[
    (
        "Anthropic",
        400,
        "invalid_request_error",
        "messages.7.content.2.image.source.base64.data: At least one of the image dimensions exceed max allowed size: \
         8000 pixels",
        Media,
        true,
    ),
    (
        "Anthropic",
        400,
        "invalid_request_error",
        "messages.19.content.27.image.source.base64.data: At least one of the image dimensions exceed max allowed size \
         for many-image requests: 2000 pixels",
        Media,
        true,
    ),
    (
        "Anthropic",
        400,
        "invalid_request_error",
        "messages.1.content.2.image.source.base64: image exceeds 5 MB maximum: 6275800 bytes > 5242880 bytes",
        Media,
        true,
    ),
    ("Anthropic", 400, "invalid_request_error", "too many images and documents: 104 + 1 > 100", Media, true),
    ("Anthropic", 400, "invalid_request_error", "Too much media: 0 document pages + 101 images > 100", Media, true),
    (
        "Anthropic",
        400,
        "invalid_request_error",
        "messages.38.content.0.pdf.source.base64.data: A maximum of 100 PDF pages may be provided.",
        Media,
        true,
    ),
    ("Anthropic", 400, "invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum", TooLong, true),
    (
        "Anthropic",
        400,
        "invalid_request_error",
        "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length or \
         `max_tokens` and try again",
        TooLong,
        true,
    ),
    ("Anthropic", 413, "invalid_request_error", "Request size exceeds model context window", TooLong, true),
    ("Anthropic", 413, "request_too_large", "Request exceeds the maximum size", TooLarge, true),
    (
        "Anthropic",
        429,
        "rate_limit_error",
        "This request would exceed your organization's rate limit of 40,000 input tokens per minute.",
        Rate,
        true,
    ),
    ("Anthropic", 529, "overloaded_error", "Overloaded", Busy, true),
    ("Anthropic", 400, "invalid_request_error", "tool_use ids were found without tool_result blocks", Invalid, false),
    (
        "OpenAI",
        400,
        "context_length_exceeded",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        TooLong,
        true,
    ),
    (
        "OpenAI",
        400,
        "string_above_max_length",
        "Invalid 'input[2].content[1].image_url': string too long. Expected a string with maximum length 20971520, but got \
         a string with length 31457280 instead.",
        Media,
        true,
    ),
    ("OpenAI", 400, "image_too_large", "The image is refused.", Media, false),
    (
        "OpenAI",
        429,
        "rate_limit_exceeded",
        "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 342389. The input or output tokens \
         must be reduced in order to run successfully.",
        Rate,
        true,
    ),
    (
        "OpenAI",
        429,
        "insufficient_quota",
        "You exceeded your current quota, please check your plan and billing details.",
        Quota,
        true,
    ),
    ("Azure", 400, "", "Exceeded maximum number of images (50) allowed in the request.", Media, true),
    (
        "Azure",
        400,
        "context_length_exceeded",
        "This model's maximum context length is 32768 tokens. However, you requested 35969 tokens (9969 in the messages, \
         26000 in the completion). Please reduce the length of the messages or completion.",
        TooLong,
        true,
    ),
    (
        "Azure",
        429,
        "429",
        "Requests have exceeded token rate limit of your current pricing tier. Please retry after 5 seconds.",
        Rate,
        true,
    ),
    (
        "Gemini",
        400,
        "INVALID_ARGUMENT",
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        TooLong,
        true,
    ),
    ("Gemini", 400, "INVALID_ARGUMENT", "Request payload size exceeds the limit: 20971520 bytes.", TooLarge, true),
    (
        "Gemini",
        400,
        "INVALID_ARGUMENT",
        "The request's total referenced files bytes are too large to be read",
        Media,
        true,
    ),
    ("Gemini", 429, "RESOURCE_EXHAUSTED", "Resource exhausted. Please try again later.", Rate, true),
    (
        "Vertex",
        400,
        "INVALID_ARGUMENT",
        "Unable to submit request because the input token count is 1251952 but model only supports up to 1048576. Reduce \
         the input token count and try again.",
        TooLong,
        true,
    ),
    (
        "Vertex",
        400,
        "INVALID_ARGUMENT",
        "Unable to submit request because it has 20 video files but the model only supports up to 10.",
        Media,
        true,
    ),
    (
        "Vertex",
        400,
        "INVALID_ARGUMENT",
        "The file size of `gs://data/image.png` is 47688287, which exceeds max allowed file size of 31457280 for \
         `image/png` files.",
        Media,
        true,
    ),
    ("Vertex", 413, "", "Prompt is too long", TooLong, true),
    ("Bedrock", 400, "ValidationException", "Input is too long for requested model.", TooLong, true),
    (
        "Bedrock",
        400,
        "ValidationException",
        "Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input to try again.",
        TooLong,
        true,
    ),
    ("Bedrock", 400, "ValidationException", "too many images and documents: 21 + 0 > 20", Media, true),
    ("Bedrock", 400, "ValidationException", "messages: too many images: image_count > 20", Media, true),
    ("Bedrock", 400, "ValidationException", "400 Bad Request: Image exceeds max pixels allowed.", Media, true),
    ("Bedrock", 429, "ThrottlingException", "Too many tokens, please wait before trying again.", Rate, true),
    (
        "OpenRouter",
        400,
        "400",
        "This endpoint's maximum context length is 200000 tokens. However, you requested about 250000 tokens",
        TooLong,
        true,
    ),
    (
        "OpenRouter",
        400,
        "400",
        "Provider returned error ({\"error\": {\"message\": \"Exceeded maximum number of images (50) allowed in the \
         request.\", \"code\": null}})",
        Media,
        true,
    ),
    (
        "OpenRouter",
        400,
        "invalid_request_error",
        "request contains 52 images, exceeding the maximum of 50 allowed per request",
        Media,
        true,
    ),
    ("vLLM", 400, "400", "At most 5 image(s) may be provided in one request.", Media, true),
    (
        "vLLM",
        400,
        "",
        "You set image=2 (or defaulted to 1) in `--limit-mm-per-prompt`, but passed 3 image items in the same prompt.",
        Media,
        true,
    ),
    ("vLLM", 400, "400", "Input length (11680) exceeds model's maximum context length (4096).", TooLong, true),
    ("vLLM", 400, "400", "max_tokens must be at least 1, got -7584.", TooLong, true),
    (
        "vLLM",
        400,
        "400",
        "The decoder prompt (length 16476) is longer than the maximum model length of 16384.",
        TooLong,
        true,
    ),
    (
        "llama.cpp",
        400,
        "exceed_context_size_error",
        "the request exceeds the available context size. try increasing the context size or enable context shift",
        TooLong,
        true,
    ),
    ("llama.cpp", 500, "", "Requested tokens (2285) exceed context window of 2048", TooLong, true),
    ("Ollama", 400, "", "the input length exceeds the context length", TooLong, true),
    ("Ollama", 500, "", "vision model only supports a single image per message", Media, true),
    ("Copilot", 400, "", "prompt token count of 140000 exceeds the limit of 128000", TooLong, true),
    ("Copilot", 413, "", "failed to parse request", TooLarge, false),
    ("DeepInfra", 400, "", "Too many images in request: 11 > 8", Media, true),
    ("DashScope", 400, "", "Exceeded limit on max data-uri per request: 250", Media, true),
    (
        "Volcengine",
        400,
        "InvalidParameter",
        "Image 0 failed: Image exceeds the maximum allowed total pixels. Current dimensions: 4634x12324",
        Media,
        true,
    ),
    (
        "Groq",
        413,
        "rate_limit_exceeded",
        "Request too large for model `llama-3.3-70b-versatile` on tokens per minute (TPM): Limit 12000, Requested 14137, \
         please reduce your message size and try again.",
        TooLarge,
        false,
    ),
];

/// Other sentences with their kinds, mostly those that OpenCode and pi recognise.
const SENTENCES: &[(Kind, &[&str])] = &[
    (
        TooLong,
        &[
            "Your prompt exceeds max length",
            "This request exceeds the model's maximum context length of 131072 tokens",
            "The input (131073) exceeds maximum context length(131072).",
            "tokens in request more than max tokens allowed",
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
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
            "413 {\"error\": {\"message\": \"Prompt is too long\"}}",
        ],
    ),
    (
        TooLarge,
        &[
            "request_too_large: the request exceeds the size limit",
            "413",
            "413 Payload Too Large",
            "Error code: 413 - {'error': {'message': 'no'}}",
            "Failed to buffer the request body: length limit exceeded",
        ],
    ),
    (
        Media,
        &[
            "An image in the conversation exceeds the dimension limit for many-image requests (2000px).",
            "{\"error\": {\"code\": \"image_file_too_large\", \"message\": \"no\"}}",
            "101 images > 100",
            "Could not process image",
            "No endpoints found that support image input",
            "Unsupported image format: image/tiff",
        ],
    ),
    (
        Rate,
        &[
            "Throttling error: Too many tokens, please wait before trying again.",
            "Service unavailable: too many tokens are being processed",
            "Rate limit reached: token limit exceeded for this minute",
            "Too many requests, too many tokens",
            "429 {\"error\": {\"message\": \"too many tokens\"}}",
            "Rate limit exceeded: too many images per minute",
        ],
    ),
];

/// Messages that say nothing about the size of a request, although some of their words do elsewhere.
const OTHERS: [&str; 12] = [
    "",
    "Internal server error",
    "Invalid API key",
    "The prompt is too short",
    "the limit of what is possible exceeds the limit of reason",
    "maximum context length is many tokens",
    "4130 files",
    "Unknown parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
    "the image has 8000 pixels",
    "the log file exceeds 5 MB",
    "5 images and 100 pages",
    "too many open files",
];

fn of(status: Option<u16>, code: &str, message: &str) -> Option<Kind> {
    kind(&ProviderError { status, code, message })
}

#[test]
fn answers_of_providers_have_their_kind() {
    for &(provider, status, code, message, expected, is_said) in ANSWERS {
        assert_eq!(of(Some(status), code, message), Some(expected), "{provider}: {status} {code} {message}");
        let alone = kind_of_text(message);
        assert_eq!(alone == Some(expected), is_said, "{provider}, the text alone: {message}: {alone:?}");
        let body = format!("{{\"type\": \"error\", \"error\": {{\"message\": \"{message}\"}}}}");
        assert_eq!(kind_of_text(&body), alone, "{provider}: {body}");
    }
}

#[test]
fn sentences_have_their_kind() {
    for &(expected, messages) in SENTENCES {
        for message in messages {
            assert_eq!(kind_of_text(message), Some(expected), "{message}");
            assert_eq!(of(Some(400), "", message), Some(expected), "{message}");
        }
    }
    for message in OTHERS {
        assert_eq!(kind_of_text(message).and_then(Kind::recovery), None, "{message}");
        assert_eq!(of(Some(400), "", message).and_then(Kind::recovery), None, "{message}");
    }
}

#[test]
fn a_size_is_believed_before_a_rate_and_tokens_of_a_rate_are_no_size() {
    assert_eq!(of(Some(400), "", ""), None);
    assert_eq!(of(Some(429), "rate_limit_exceeded", "too many tokens"), Some(Rate));
    assert_eq!(of(Some(429), "context_length_exceeded", ""), Some(TooLong));
    assert_eq!(of(Some(429), "", "prompt is too long: 219898 tokens > 200000 maximum"), Some(TooLong));
    let used_up = "You exceeded your current quota, please check your plan and billing details.";
    assert_eq!(of(Some(429), "RESOURCE_EXHAUSTED", used_up), Some(Rate));
    assert_eq!(
        of(Some(429), "", &format!("{used_up} * Quota exceeded for metric: x, limit: 250. Retry in 59s.")),
        Some(Rate)
    );
    assert_eq!(of(Some(429), "insufficient_quota", used_up), Some(Quota));
    assert_eq!(of(Some(413), "", "rate limit"), Some(TooLarge));
    assert_eq!(of(Some(413), "", "too many images"), Some(Media));
    assert_eq!(of(Some(500), "", "too many tokens"), Some(TooLong));
    assert_eq!(of(Some(400), "invalid_request_error", "too many tokens"), Some(TooLong));
    assert_eq!(of(Some(400), "invalid_request_error", "no"), Some(Invalid));
}

#[test]
fn only_a_size_has_a_recovery() {
    let recoveries = [TooLong, TooLarge, Media, Rate, Busy, Quota, Invalid].map(Kind::recovery);
    let size = [Some(Recovery::Compaction), Some(Recovery::MediaFirst), Some(Recovery::Media)];
    assert_eq!((&recoveries[..3], &recoveries[3..]), (&size[..], &[None; 4][..]));
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

#[test]
fn the_window_that_a_refusal_names_is_read() {
    for (expected, message) in [
        (Some(200_000), "prompt is too long: 219898 tokens > 200000 maximum"),
        (Some(1_048_576), "This model's maximum context length is 1048576 tokens"),
        (Some(128_000), "Too many input tokens. Max input tokens: 128000, request input token count: 140000"),
        (Some(32_768), "Request contains 35000 tokens, which exceeds the limit of 32768."),
        (Some(8_192), "request (13392 tokens) exceeds the available context size (8192 tokens), try increasing it"),
        (Some(4_096), "ValueError: Prompt length of 5016 is longer than the maximum model length of 4096."),
        (
            Some(131_072),
            "This model's maximum context length is 131072 tokens. However, you requested 140000 tokens (120000 in the \
             messages, 20000 in the completion). Please reduce the length of the messages or completion.",
        ),
        (Some(32_768), "Input length (33000) must be smaller than the model context length (32768)."),
        (
            Some(200_000),
            "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or \
             `max_tokens` and try again",
        ),
        (Some(4_096), "Token sequence length exceeds limit (5000 > 4096)"),
        (
            Some(32_768),
            "'max_tokens' is too large: 4096. This model's maximum context length is 32768 tokens and your request has \
             29000 input tokens (4096 > 32768 - 29000).",
        ),
        (Some(30_720), "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]"),
        (None, "Context window exceeded: requested 12000 tokens"),
        (None, "invalid params, context window exceeds limit (2013)"),
        (None, "402 Prompt tokens limit exceeded: 329159 > 168823"),
        (None, "the input length exceeds the context length"),
        (None, "Input length is too long"),
        (None, "String value length (20054016) exceeds the maximum allowed (20000000)"),
        (None, "Request payload size exceeds the limit: 20971520 bytes."),
        (None, "Rate limit reached: 40000 tokens per minute. Limit 30000."),
    ] {
        let error = ProviderError { message, ..ProviderError::default() };
        assert_eq!(window_tokens(&error), expected, "{message}");
    }
}
