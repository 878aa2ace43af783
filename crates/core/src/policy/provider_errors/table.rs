//! The kinds of refusals, what helps against each, and what each provider says for it. The sources are documentation,
//! error bodies in public bug reports, and the sentences that OpenCode and pi recognise.

use Kind::{Busy, Invalid, Media, Quota, Rate, TooLarge, TooLong};
use Said::{Codes, Statuses, Texts};

/// Reason of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// More tokens than the model's window has.
    TooLong,
    /// More bytes than a request may have. Media are most of them, if there are any.
    TooLarge,
    /// Media that are too many or too large, in bytes, pixels or pages.
    Media,
    /// Too many requests or tokens in a time: the same request may succeed later.
    Rate,
    /// The provider has no capacity, or fails: the same request may succeed later.
    Busy,
    /// The account is used up; waiting does not help.
    Quota,
    /// The request is invalid or forbidden, whatever its size.
    Invalid,
}

/// What makes a view acceptable again for a provider that refused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// A compaction by the policy's steps, which removes media too.
    Compaction,
    /// The removal of media, or a compaction of a view without media.
    MediaFirst,
    /// The removal of media alone: no other content was refused.
    Media,
}

impl Kind {
    /// What helps against a refusal of this kind; none if no smaller view does.
    pub fn recovery(self) -> Option<Recovery> {
        match self {
            Self::TooLong => Some(Recovery::Compaction),
            Self::TooLarge => Some(Recovery::MediaFirst),
            Self::Media => Some(Recovery::Media),
            Self::Rate | Self::Busy | Self::Quota | Self::Invalid => None,
        }
    }
}

/// Signals of a refusal.
pub(super) enum Said {
    /// HTTP statuses.
    Statuses(&'static [u16]),
    /// Codes and types of errors, in lower case.
    Codes(&'static [&'static str]),
    /// Patterns of sentences, in lower case.
    Texts(&'static [&'static str]),
}

/// A provider, or several that say the same; a kind; its signals.
pub(super) type Rows = (&'static str, Kind, Said);

pub(super) const TABLE: &[Rows] = &[
    // Too long.
    ("Anthropic", TooLong, Codes(&["model_context_window_exceeded"])),
    (
        "Anthropic",
        TooLong,
        Texts(&[
            "prompt is too long",
            "input length and `max_tokens` exceed context limit",
            "exceeds model context window",
            "context length exceeded",
        ]),
    ),
    ("OpenAI, Azure", TooLong, Codes(&["context_length_exceeded"])),
    (
        "OpenAI, Azure",
        TooLong,
        Texts(&[
            "exceeds the context window",
            "^this model's maximum context length",
            "maximum context length is # tokens",
            "reduce the length of the messages",
            "string too long. expected a string with maximum length",
            "token limit exceeded",
        ]),
    ),
    ("Gemini", TooLong, Texts(&["input token count*exceeds the maximum"])),
    ("Vertex", TooLong, Texts(&["input token count is # but model only supports up to #"])),
    (
        "Bedrock",
        TooLong,
        Texts(&[
            "input is too long for requested model",
            "number of input tokens exceeds maximum length",
            "expected maxlength: #, actual: #",
            "too many tokens",
        ]),
    ),
    // "This endpoint's maximum context length is # tokens" has the words of OpenAI.
    ("OpenRouter", TooLong, Texts(&["context window exceeded"])),
    (
        "vLLM, SGLang, TGI",
        TooLong,
        Texts(&[
            "exceeds*maximum context length",
            "context length is only # tokens",
            "is longer than the maximum model length of #",
            "max_tokens must be at least 1, got -#",
            "exceeds the maximum allowed input length of # token",
            "exceeds maximum allowed input length of # token",
            "input (# tokens) is longer than the model's context length",
            "input (# tokens) is longer than the models context length",
            "must have less than # tokens. given",
            "must be <= #. given: # `inputs` tokens",
        ]),
    ),
    ("llama.cpp", TooLong, Codes(&["exceed_context_size_error"])),
    (
        "llama.cpp, LM Studio",
        TooLong,
        Texts(&[
            "exceeds the available context size",
            "requested tokens (#) exceed context window of #",
            "greater than the context length",
        ]),
    ),
    ("Ollama", TooLong, Texts(&["prompt too long", "input length*exceeds*context length"])),
    ("xAI", TooLong, Texts(&["maximum prompt length is #"])),
    ("Copilot", TooLong, Texts(&["exceeds the limit of #"])),
    ("Mistral", TooLong, Texts(&["too large for model with #"])),
    (
        "MiniMax, Kimi, z.ai",
        TooLong,
        Texts(&["context window exceeds limit", "exceeded model token limit", "prompt exceeds max length"]),
    ),
    ("DashScope", TooLong, Texts(&["range of input length should be"])),
    (
        "others",
        TooLong,
        Texts(&[
            "tokens in request more than max tokens allowed",
            "prompt has # token, but the configured context size is #",
            "prompt has # tokens, but the configured context size is #",
        ]),
    ),
    // It answers without a body.
    (
        "Cerebras",
        TooLong,
        Texts(&["^400 (no body)", "^400 status code (no body)", "^413 (no body)", "^413 status code (no body)"]),
    ),
    // Too large.
    ("HTTP", TooLarge, Statuses(&[413])),
    (
        "HTTP",
        TooLarge,
        Texts(&[
            "^413 ",
            "^413:",
            "^error code: 413",
            "api error (413):",
            "api error: 413",
            "request entity too large",
            "payload too large",
            "content too large",
            "request body too large",
            "request body is too large",
            "length limit exceeded",
        ]),
    ),
    ("Anthropic", TooLarge, Codes(&["request_too_large"])),
    ("Anthropic", TooLarge, Texts(&["request exceeds the maximum size"])),
    ("Gemini", TooLarge, Texts(&["request payload size exceeds the limit"])),
    ("Vertex", TooLarge, Texts(&["received message larger than max"])),
    ("Kimi", TooLarge, Texts(&["total message size # exceeds limit #"])),
    // Media.
    (
        "Anthropic, and on Bedrock and Vertex",
        Media,
        Texts(&[
            "image*exceed max allowed size",
            "max allowed size: # pixels",
            "max allowed size for many-image requests",
            "dimension limit for many-image requests",
            "image*exceeds # mb",
            "exceeds # mb maximum: # bytes > # bytes",
            "too many images",
            "too much media",
            "# images > #",
            "maximum of # pdf pages",
        ]),
    ),
    ("OpenAI, Azure", Media, Codes(&["image_too_large", "image_file_too_large"])),
    (
        "OpenAI, Azure",
        Media,
        Texts(&[
            "exceeded maximum number of images",
            "image_url*string too long",
            "total image size is",
            "image size exceeds the limit",
        ]),
    ),
    (
        "Gemini, Vertex",
        Media,
        Texts(&[
            "exceeds max allowed file size",
            "files but the model only supports up to #",
            "images but the model only supports up to #",
            "total referenced files bytes are too large",
            "exceeds the supported page limit",
        ]),
    ),
    ("Bedrock", Media, Texts(&["image exceeds max pixels allowed"])),
    ("OpenRouter", Media, Texts(&["# images, exceeding the maximum"])),
    (
        "vLLM, SGLang, TGI",
        Media,
        Texts(&[
            "at most # image(s) may be provided",
            "at most # video(s) may be provided",
            "at most # audio(s) may be provided",
            "in `--limit-mm-per-prompt`, but passed #",
            "image count # exceeds limit",
        ]),
    ),
    ("Ollama", Media, Texts(&["only supports a single image", "only supports one image"])),
    (
        "DashScope, Volcengine",
        Media,
        Texts(&[
            "exceeded limit on max data-uri",
            "exceeded limit on max bytes per data-uri",
            "image exceeds the maximum allowed total pixels",
        ]),
    ),
    // Rate.
    ("HTTP", Rate, Statuses(&[429])),
    (
        "HTTP",
        Rate,
        Texts(&[
            "^429 ",
            "^429:",
            "^error code: 429",
            "api error (429):",
            "api error: 429",
            "too many requests",
            "rate limit",
        ]),
    ),
    ("HTTP", Rate, Codes(&["too_many_requests"])),
    ("Anthropic", Rate, Codes(&["rate_limit_error"])),
    ("Anthropic", Rate, Texts(&["rate_limit_error"])),
    ("OpenAI, Azure", Rate, Codes(&["rate_limit_exceeded"])),
    ("Gemini, Vertex", Rate, Codes(&["resource_exhausted"])),
    ("Gemini, Vertex", Rate, Texts(&["resource exhausted", "resource_exhausted", "quota exceeded for"])),
    ("Bedrock", Rate, Codes(&["throttlingexception"])),
    (
        "Bedrock",
        Rate,
        // The second one names tokens that are too many for all callers together.
        Texts(&[
            "^throttling error:",
            "^service unavailable:",
            "throttlingexception",
            "please wait before trying again",
        ]),
    ),
    // Quota.
    ("OpenAI, Azure", Quota, Codes(&["insufficient_quota", "billing_hard_limit_reached"])),
    ("OpenAI, Azure", Quota, Texts(&["exceeded your current quota"])),
    ("Anthropic", Quota, Codes(&["billing_error"])),
    // Busy.
    (
        "HTTP",
        Busy,
        Texts(&[
            "overloaded",
            "service unavailable",
            "temporarily unavailable",
            "try again later",
            "bad gateway",
            "gateway timeout",
        ]),
    ),
    ("Anthropic", Busy, Codes(&["overloaded_error", "api_error", "timeout_error"])),
    ("OpenAI, Azure", Busy, Codes(&["server_error", "internal_server_error"])),
    ("Gemini, Vertex", Busy, Codes(&["internal", "unavailable", "deadline_exceeded"])),
    // Invalid.
    (
        "Anthropic",
        Invalid,
        Codes(&["authentication_error", "permission_error", "not_found_error", "invalid_request_error"]),
    ),
    ("OpenAI, Azure", Invalid, Codes(&["invalid_api_key", "model_not_found", "invalid_prompt", "content_filter"])),
    (
        "Gemini, Vertex",
        Invalid,
        Codes(&["permission_denied", "unauthenticated", "not_found", "invalid_argument", "failed_precondition"]),
    ),
];
