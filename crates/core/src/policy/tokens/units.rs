//! The size of a text in units, and the parts of a message as a model sees them.

use super::classes;
use crate::model::message::Role;
use crate::model::part::{Media, Opaque, ToolCall, ToolResult};
use crate::model::usage::Usage;
use crate::policy::bpe::{self, Encoding, TokenizedText, Vocabulary};
use crate::policy::{AttachedVocabulary, Counting, LengthUnit, MediaUnits, Policy, TextUnits, UsageCount};
use std::borrow::Cow;
use std::sync::Arc;

impl Policy {
    /// The same policy with the vocabulary that it names, if it is among these.
    pub fn with_vocabularies(mut self, vocabularies: &[Arc<Vocabulary>]) -> Self {
        if let TextUnits::Vocabulary { name, attached } = &mut self.counting.text {
            *attached = AttachedVocabulary(vocabularies.iter().find(|vocabulary| vocabulary.name() == name).cloned());
        }
        self
    }
}

impl UsageCount {
    /// The context usage according to reported usage; 0 if it has none of these fields.
    pub fn tokens(self, usage: &Usage) -> i64 {
        match self {
            Self::Total => usage.context_tokens(),
            Self::Prompt => usage.prompt_tokens(),
            Self::Nothing => 0,
        }
    }
}

impl MediaUnits {
    /// The same size for every media item.
    pub const fn same(units: u32) -> Self {
        Self { image_units: units, document_units: units, other_units: units, attachment_units: units }
    }

    /// The units of a media item in a message.
    pub fn units_of(&self, media: &Media) -> i64 {
        let units = match media.mime_type.as_str() {
            mime if mime.starts_with("image/") => self.image_units,
            "application/pdf" => self.document_units,
            _ => self.other_units,
        };
        i64::from(units)
    }

    /// The units of the media items of a result.
    pub fn of_attachments(&self, attachments: &[Media]) -> i64 {
        i64::from(self.attachment_units).saturating_mul(attachments.len() as i64)
    }
}

/// The length of a text in the given unit.
pub fn length(unit: LengthUnit, text: &str) -> usize {
    match unit {
        LengthUnit::Utf16 if text.is_ascii() => text.len(),
        // Each character has one lead byte; characters of four bytes have two UTF-16 units.
        LengthUnit::Utf16 => {
            let units = |byte: &u8| usize::from(byte & 0xc0 != 0x80) + usize::from(*byte >= 0xf0);
            text.as_bytes().iter().map(units).sum()
        }
        LengthUnit::CodePoints => text.chars().count(),
        LengthUnit::Bytes => text.len(),
    }
}

/// The length of a text of one token, if nothing else is known of the text.
pub fn length_per_token(counting: &Counting) -> i64 {
    match counting.text {
        TextUnits::Length | TextUnits::Mixed { .. } => i64::from(counting.units_per_token.max(1)),
        TextUnits::Classes => 3,
        // Names and numbers split into small tokens.
        TextUnits::Bpe { .. } | TextUnits::Vocabulary { .. } => 2,
    }
}

/// The size of a text, in units.
pub fn text_units(counting: &Counting, text: &str) -> i64 {
    text_units_above(counting, text, i64::MAX)
}

/// The size of a text, or a smaller one above `enough`, in units: a long text need not be encoded as a whole.
pub(super) fn text_units_above(counting: &Counting, text: &str, enough: i64) -> i64 {
    match &counting.text {
        TextUnits::Length => length(counting.unit, text) as i64,
        TextUnits::Mixed { other_units, plain_above } => {
            let units = length(LengthUnit::Utf16, text) as i64;
            if units > i64::from(*plain_above) {
                return units;
            }
            let ascii = text.bytes().filter(u8::is_ascii).count() as i64;
            ascii.saturating_add((units - ascii).saturating_mul(i64::from(*other_units)))
        }
        TextUnits::Classes => classes::text_units(text),
        TextUnits::Bpe { encoding } => bpe::count_above(*encoding, text, enough),
        TextUnits::Vocabulary { attached: AttachedVocabulary(Some(vocabulary)), .. } => {
            vocabulary.count_above(text, enough)
        }
        TextUnits::Vocabulary { attached: AttachedVocabulary(None), .. } => {
            bpe::count_above(Encoding::Qwen, text, enough)
        }
    }
}

/// A text with the ends of its tokens; none if the policy only estimates them.
pub fn tokenize<'a>(counting: &Counting, text: &'a str) -> Option<TokenizedText<'a>> {
    match &counting.text {
        TextUnits::Length | TextUnits::Mixed { .. } | TextUnits::Classes => None,
        TextUnits::Bpe { encoding } => Some(encoding.tokenize(text)),
        TextUnits::Vocabulary { attached: AttachedVocabulary(Some(vocabulary)), .. } => Some(vocabulary.tokenize(text)),
        TextUnits::Vocabulary { attached: AttachedVocabulary(None), .. } => Some(Encoding::Qwen.tokenize(text)),
    }
}

/// A part as a model sees it.
#[derive(Debug, Clone)]
pub enum ShownPart<'a> {
    /// A text.
    Text(Cow<'a, str>),
    /// Reasoning of the model.
    Reasoning(Cow<'a, str>),
    /// A call of a tool.
    Call {
        /// The call.
        call: &'a ToolCall,
        /// Its input as it is shown.
        input_json: Cow<'a, str>,
    },
    /// A result of a tool.
    Result {
        /// The result.
        result: &'a ToolResult,
        /// Its output as it is shown.
        output: Cow<'a, str>,
        /// Its media that are shown.
        attachments: &'a [Media],
    },
    /// A media item.
    Media(&'a Media),
    /// A block of a provider.
    Opaque(&'a Opaque),
}

/// The name of a role in most formats.
pub fn role_name(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
        Role::System => "system",
    }
}

/// True if texts must be encoded to be counted.
pub(in crate::policy) fn is_encoded(counting: &Counting) -> bool {
    matches!(counting.text, TextUnits::Bpe { .. } | TextUnits::Vocabulary { .. })
}
