//! The formats, and what several of them write alike.

use super::strings::paired;
use crate::compose::ObjectWriter;
use crate::raw::Object;
use longhand_model::provider_compaction::Compactor;
use serde_json::value::RawValue;

/// The member of an object around a call's input that is no JSON object, for formats that take nothing else.
pub(super) const INVALID_INPUT: &str = "invalid_json";
/// The member of a part that Gemini reads back, and the kind of an opaque part with one that is too large for the
/// metadata of the call behind it.
pub(super) const SIGNATURE: &str = "thoughtSignature";
/// The reason of a streamed reply whose chunks end before it does.
pub(super) const CUT_OFF: &str = "cut_off";

/// Most items of a list of a reply, far above the parts of a message: each chunk looks for its own among them.
pub(super) const BLOCKS_MAX: usize = 4_096;

/// A message format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// The `messages` of OpenAI's Chat Completions, and of everything that is compatible with them.
    OpenAiChat,
    /// The `input` of OpenAI's Responses.
    OpenAiResponses,
    /// The `messages` and the `system` of Anthropic's Messages.
    Anthropic,
    /// The `contents` and the `systemInstruction` of Gemini's `generateContent`.
    Gemini,
    /// The `ModelMessage`s of the AI SDK; its `UIMessage`s are read too.
    AiSdk,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 5] = [Self::OpenAiChat, Self::OpenAiResponses, Self::Anthropic, Self::Gemini, Self::AiSdk];

    /// Its name in metadata, in opaque parts and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAiChat => "openai_chat",
            Self::OpenAiResponses => "openai_responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::AiSdk => "ai_sdk",
        }
    }

    /// True if an opaque part of that provider is a block of this format.
    pub(super) fn owns(self, provider: &str) -> bool {
        provider == self.name()
            || match self {
                Self::OpenAiResponses => provider == "openai",
                Self::Gemini => provider == "google",
                Self::OpenAiChat | Self::Anthropic | Self::AiSdk => false,
            }
    }

    /// The provider whose own compactions the format has a place for.
    pub fn compactor(self) -> Option<Compactor> {
        match self {
            Self::OpenAiResponses => Some(Compactor::OpenAi),
            Self::Anthropic => Some(Compactor::Anthropic),
            Self::OpenAiChat | Self::Gemini | Self::AiSdk => None,
        }
    }

    /// The provider of a reply in this format, if nobody says another one.
    pub(super) fn provider(self) -> &'static str {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "google",
            Self::AiSdk => "",
        }
    }
}

pub(super) fn text_block(text: &str) -> String {
    ObjectWriter::default().text("type", "text").text("text", text).end()
}

/// The input of a call as JSON in a text. Text that is none, such as the input of a call that was interrupted, is in an
/// object.
pub(super) fn arguments(input_json: &str) -> String {
    match serde_json::from_str::<&RawValue>(input_json) {
        Ok(_) => paired(input_json.to_owned()),
        Err(_) => object_input(input_json),
    }
}

/// The input of a call as an object. Text that is none, such as the input of a call that was interrupted, is in one.
pub(super) fn object_input(input_json: &str) -> String {
    match (input_json.trim(), Object::parse(input_json, 1)) {
        ("", _) => "{}".to_owned(),
        (_, Ok(_)) => input_json.to_owned(),
        (_, Err(_)) => ObjectWriter::default().text(INVALID_INPUT, input_json).end(),
    }
}
