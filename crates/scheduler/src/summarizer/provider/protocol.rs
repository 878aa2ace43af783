//! The interface of the four protocols, and their table.

use super::fault::Fault;
use super::reply::Reply;
use super::request::{ModelRequest, Wire};
use super::{anthropic, gemini, openai_chat, openai_responses};
use serde_json::Value;

/// A provider protocol.
#[derive(Debug, Clone, Copy)]
pub(super) struct Protocol {
    /// Default address.
    pub(super) base_url: &'static str,
    /// The header that holds the key, and the prefix of the key in it.
    pub(super) key_header: (&'static str, &'static str),
    /// Builds a request.
    pub(super) request: fn(&ModelRequest<'_>) -> Wire,
    /// Reads one event of a streamed reply, or a reply that came as a whole.
    pub(super) read: EventReader,
}

/// Reads an event into a reply, and passes its text to the callback.
pub(super) type EventReader = fn(&Value, &mut Reply, &mut dyn FnMut(&str)) -> Result<(), Fault>;

/// OpenAI's chat completions, which most other servers support too.
pub(super) const OPENAI_CHAT: Protocol = Protocol {
    base_url: "https://api.openai.com/v1",
    key_header: ("authorization", "Bearer "),
    request: openai_chat::request,
    read: openai_chat::read_event,
};

/// OpenAI's responses.
pub(super) const OPENAI_RESPONSES: Protocol = Protocol {
    base_url: "https://api.openai.com/v1",
    key_header: ("authorization", "Bearer "),
    request: openai_responses::request,
    read: openai_responses::read_event,
};

/// Anthropic's messages.
pub(super) const ANTHROPIC: Protocol = Protocol {
    base_url: "https://api.anthropic.com/v1",
    key_header: ("x-api-key", ""),
    request: anthropic::request,
    read: anthropic::read_event,
};

/// Gemini's generateContent.
pub(super) const GEMINI: Protocol = Protocol {
    base_url: "https://generativelanguage.googleapis.com/v1beta",
    key_header: ("x-goog-api-key", ""),
    request: gemini::request,
    read: gemini::read_event,
};
