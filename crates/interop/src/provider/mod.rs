//! The message formats of providers: views written as the messages of a request, and requests and replies read as messages.
//!
//! Nothing here knows a provider's HTTP: what is written is the list of messages that goes into a request's body, and what
//! is the provider's apart from them ([`WrittenView::system_json`]).
//!
//! # What a provider gets back
//!
//! A block that becomes a part of its own kind leaves what else it had in the part's `metadata_json`, under the name of its
//! format: `{"anthropic":{"type":"thinking","thinking":null,"signature":"…"}}`. That is the block as it came, byte for byte,
//! with `null` where the part's own content stands; a block that has nothing else leaves nothing. A block of any other kind
//! is an opaque part with the name of its format as its provider. Written in the same format again, both are what they
//! were. Metadata of a shortened part are not in a view, and nor is the signature of a text that is not there.
//!
//! What a message had beside its content is in the message's `metadata_json`, under the name of the format too.

mod ai_sdk;
mod ai_sdk_chunks;
mod ai_sdk_parts;
mod ai_sdk_ui;
mod anthropic;
mod bridge;
mod chunks;
mod degraded;
mod format;
mod gemini;
mod ids;
mod kept;
mod openai_chat;
mod openai_responses;
mod prepared;
mod reading;
mod strings;
#[cfg(test)]
mod tests;
mod write;
mod written;

pub use format::Format;
pub use reading::Unreadable;
pub use write::{write, write_degraded};
pub use written::{LeftOut, LeftOutKind, Refusal, RefusalKind, WrittenMessage, WrittenView};

use longhand_model::limits;
use longhand_model::message::NewMessage;

/// Reads what a client sends to a provider or gets from it: a whole request, a list of its messages, one message, a whole
/// reply, or the chunks of a streamed one, as server-sent events, as a list or one a line.
///
/// # Errors
///
/// The text is none of these, or has something that no message can hold.
pub fn read(format: Format, text: &str) -> Result<Vec<NewMessage>, Unreadable> {
    let joined;
    let text = match chunks::joined(format, text)? {
        Some(reply) => {
            joined = reply;
            &joined
        }
        None => text,
    };
    let mut messages = match format {
        Format::OpenAiChat => openai_chat::read(text),
        Format::OpenAiResponses => openai_responses::read(text),
        Format::Anthropic => anthropic::read(text),
        Format::Gemini => gemini::read(text),
        Format::AiSdk => ai_sdk::read(text),
    }?;
    for message in &mut messages {
        message.model = limits::name_within(&message.model).into_owned();
        // What is too large to be kept beside the content is left out, and the content stays.
        message.metadata_json = reading::fitting(message.metadata_json.take());
        message.parts.iter_mut().for_each(|part| part.metadata_json = reading::fitting(part.metadata_json.take()));
    }
    Ok(messages)
}

/// The text of bytes that were received, without a letter that broke off at their end.
///
/// # Errors
///
/// The bytes are no text.
pub fn received(bytes: &[u8]) -> Result<&str, std::str::Utf8Error> {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&bytes[..error.valid_up_to()]),
        text => text,
    }
}
