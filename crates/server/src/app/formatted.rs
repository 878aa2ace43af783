//! Views in the message formats of providers.

use super::error::{Error, Reason, Result};
use crate::interop::provider::{self, Refusal, Unreadable, WrittenView};
pub use crate::interop::provider::{Format, LeftOut, LeftOutKind, WrittenMessage};
use crate::limits;
use crate::model::message::{NewMessage, Role};
use crate::model::view::ViewMessage;

/// A view in a format.
#[derive(Debug, Clone)]
pub struct FormattedView {
    /// The format.
    pub format: Format,
    /// What a request has apart from its messages, as JSON.
    pub system_json: Option<String>,
    /// The messages.
    pub messages: Vec<WrittenMessage>,
    /// What the format does not show.
    pub left_out: Vec<LeftOut>,
    /// The running hash: before the first message, and after each.
    pub(super) hashes: Vec<[u8; 32]>,
}

impl FormattedView {
    /// The hash of the whole view.
    pub(super) fn hash(&self) -> [u8; 32] {
        self.hashes.last().copied().unwrap_or_default()
    }

    /// The bytes of the messages.
    pub(super) fn bytes(&self) -> usize {
        self.system_json.iter().map(String::len).chain(self.messages.iter().map(|message| message.json.len())).sum()
    }

    /// Number of messages that are the first ones of both.
    pub(super) fn common_count(&self, other: &Self) -> usize {
        let equal = self.hashes.iter().zip(&other.hashes).take_while(|(one, another)| one == another).count();
        equal.saturating_sub(1)
    }
}

/// The messages of a whole view in a format; degraded, with a line of text for what the format cannot carry.
pub(super) fn write(format: Format, degrade: bool, messages: &[ViewMessage]) -> Result<FormattedView> {
    let written = if degrade { provider::write_degraded } else { provider::write };
    let WrittenView { system_json, messages, left_out } = written(format, messages).map_err(refusal_error)?;
    let largest = messages.iter().map(|message| message.json.len()).max().unwrap_or_default();
    if largest > limits::FORMATTED_MESSAGE_BYTES_MAX {
        let limit = limits::FORMATTED_MESSAGE_BYTES_MAX;
        let message = format!("neighbours of one role are one message in this format, of {largest} bytes");
        return Err(Error::new(Reason::ViewTooLarge, message).with("limit", limit).with("actual", largest));
    }
    let mut first = blake3::Hasher::new();
    for text in [format.name(), system_json.as_deref().unwrap_or_default()] {
        first.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    }
    let mut hashes = Vec::with_capacity(messages.len() + 1);
    let mut before = *first.finalize().as_bytes();
    hashes.push(before);
    for message in &messages {
        // A message with the same words that shows another stored one is another: its ids lead to what it stands for.
        let mut hasher = blake3::Hasher::new();
        hasher.update(&before).update(message.json.as_bytes());
        for source in &message.sources {
            hasher.update(source.0.as_bytes());
        }
        before = *hasher.finalize().as_bytes();
        hashes.push(before);
    }
    Ok(FormattedView { format, system_json, messages, left_out, hashes })
}

fn refusal_error(refusal: Refusal) -> Error {
    let mut error = Error::new(Reason::ContentNotInFormat, refusal.to_string())
        .with("format", refusal.format.name())
        .with("content", refusal.kind.name());
    if let Some(message) = refusal.message {
        error = error.with("message_id", message);
    }
    if let Some(part) = refusal.part {
        error = error.with("part_id", part);
    }
    error
}

/// Messages as a provider's interface has them.
#[derive(Debug, Clone)]
pub struct ProviderContent {
    /// Their format.
    pub format: Format,
    /// A request, a reply, or some of one.
    pub json: String,
    /// The token of the view that the last of them answers.
    pub view_token: Option<String>,
    /// The provider of the replies; none for the format's.
    pub provider: Option<String>,
}

/// Reads messages that a provider's interface has.
pub(super) fn read_messages(given: ProviderContent) -> Result<Vec<NewMessage>> {
    let ProviderContent { format, json, view_token, provider } = given;
    let unreadable =
        |Unreadable { at, problem }: Unreadable| Error::field(format_args!("provider_content.{at}"), problem);
    let mut messages = provider::read(format, &json).map_err(unreadable)?;
    if let Some(provider) = provider {
        let replies = messages.iter_mut().filter(|message| message.role == Role::Assistant);
        replies.for_each(|message| message.provider.clone_from(&provider));
    }
    if let Some(token) = view_token {
        let last = messages.last_mut().filter(|message| message.role == Role::Assistant);
        let last = last.and_then(|message| message.finish.as_mut());
        let last =
            last.ok_or_else(|| Error::field("provider_content.view_token", "needs a reply as the last message"))?;
        last.view = Some(token);
    }
    Ok(messages)
}
