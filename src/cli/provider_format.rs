//! The message formats of providers, and the part of a request that a view is in each of them.

use crate::pb;

/// Message format of a provider's interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ProviderFormat {
    /// OpenAI's Chat Completions
    #[value(name = "openai_chat")]
    OpenaiChat,
    /// OpenAI's Responses
    #[value(name = "openai_responses")]
    OpenaiResponses,
    /// Anthropic's Messages
    Anthropic,
    /// Gemini's generateContent
    Gemini,
    /// The AI SDK
    #[value(name = "ai_sdk")]
    AiSdk,
}

impl From<ProviderFormat> for pb::MessageFormat {
    fn from(format: ProviderFormat) -> Self {
        match format {
            ProviderFormat::OpenaiChat => Self::OpenaiChat,
            ProviderFormat::OpenaiResponses => Self::OpenaiResponses,
            ProviderFormat::Anthropic => Self::Anthropic,
            ProviderFormat::Gemini => Self::Gemini,
            ProviderFormat::AiSdk => Self::AiSdk,
        }
    }
}

impl ProviderFormat {
    /// The members of a request that a view is, as one JSON object.
    pub(super) fn request_json(self, view: &longhand_client::View) -> String {
        let (system, messages) = match self {
            Self::OpenaiChat | Self::AiSdk => ("", "messages"),
            Self::OpenaiResponses => ("", "input"),
            Self::Anthropic => ("system", "messages"),
            Self::Gemini => ("systemInstruction", "contents"),
        };
        let system = view.header.system_json.as_ref().map(|text| format!("\"{system}\":{text},")).unwrap_or_default();
        let shown: Vec<_> = view.formatted.iter().map(|message| message.json.as_str()).collect();
        format!("{{{system}\"{messages}\":[{}]}}", shown.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_the_part_of_a_request() {
        let message = |json: &str| pb::FormattedMessage { json: json.to_owned(), ..pb::FormattedMessage::default() };
        let mut view =
            longhand_client::View { formatted: vec![message("{}"), message("[]")], ..longhand_client::View::default() };
        assert_eq!(ProviderFormat::OpenaiResponses.request_json(&view), r#"{"input":[{},[]]}"#);
        view.header.system_json = Some("1".to_owned());
        assert_eq!(ProviderFormat::Gemini.request_json(&view), r#"{"systemInstruction":1,"contents":[{},[]]}"#);
    }
}
