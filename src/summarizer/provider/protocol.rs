//! What the four protocols have in common, and the table of them.

use super::fault::Fault;
use super::reply::Reply;
use super::{anthropic, gemini, openai_chat, openai_responses};
use crate::policy::prompt::Prompt;
use serde_json::{Map, Value};

/// What is asked of a model.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask<'a> {
    /// The provider's address, without a slash at its end.
    pub(super) base_url: &'a str,
    /// The model's name.
    pub(super) model: &'a str,
    /// The words.
    pub(super) prompt: &'a Prompt,
    /// The most the model may write, in tokens.
    pub(super) max_output: i64,
    /// Fields that the operator adds to the request.
    pub(super) extra: &'a Map<String, Value>,
}

/// One request, as the protocol wants it.
#[derive(Debug)]
pub(super) struct Wire {
    /// Where it goes.
    pub(super) url: String,
    /// Headers besides the key.
    pub(super) headers: &'static [(&'static str, &'static str)],
    /// The body.
    pub(super) body: Value,
}

/// A way of talking to a model.
#[derive(Debug, Clone, Copy)]
pub(super) struct Protocol {
    /// Where it is spoken when nobody says otherwise.
    pub(super) base_url: &'static str,
    /// The header that holds the key, and what stands before the key in it.
    pub(super) key_header: (&'static str, &'static str),
    /// Makes a request.
    pub(super) request: fn(&Ask<'_>) -> Wire,
    /// Reads one event of a streamed reply, or a reply that came in one piece.
    pub(super) read: Read,
}

/// Reads an event into a reply, and passes on the words in it.
pub(super) type Read = fn(&Value, &mut Reply, &mut dyn FnMut(&str)) -> Result<(), Fault>;

/// OpenAI's chat completions, which most other servers speak too.
pub(super) const OPENAI_CHAT: Protocol = Protocol {
    base_url: "https://api.openai.com/v1",
    key_header: ("authorization", "Bearer "),
    request: openai_chat::request,
    read: openai_chat::read,
};

/// OpenAI's responses.
pub(super) const OPENAI_RESPONSES: Protocol = Protocol {
    base_url: "https://api.openai.com/v1",
    key_header: ("authorization", "Bearer "),
    request: openai_responses::request,
    read: openai_responses::read,
};

/// Anthropic's messages.
pub(super) const ANTHROPIC: Protocol = Protocol {
    base_url: "https://api.anthropic.com/v1",
    key_header: ("x-api-key", ""),
    request: anthropic::request,
    read: anthropic::read,
};

/// Gemini's generateContent.
pub(super) const GEMINI: Protocol = Protocol {
    base_url: "https://generativelanguage.googleapis.com/v1beta",
    key_header: ("x-goog-api-key", ""),
    request: gemini::request,
    read: gemini::read,
};

/// A count of tokens; what is absent or no count is zero.
pub(super) fn count(value: &Value, pointer: &str) -> i64 {
    value.pointer(pointer).and_then(Value::as_i64).unwrap_or(0).max(0)
}

/// A text; what is absent or no text is empty.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

/// The items of a list; what is absent or no list has none.
pub(super) fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Adds the operator's fields to a body; they win.
pub(super) fn with_extra(mut body: Value, extra: &Map<String, Value>) -> Value {
    if let Some(fields) = body.as_object_mut() {
        fields.extend(extra.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    body
}
