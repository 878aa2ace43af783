//! Parameters of token counts.

use super::named::{NamedStrategy, can_be_named};
use crate::policy::bpe::{Encoding, Vocabulary};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The conversion of text to tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Counting {
    /// The unit of lengths, also for truncation.
    pub unit: LengthUnit,
    /// The size of a text, in units.
    pub text: TextUnits,
    /// Units per token. At least 1.
    pub units_per_token: u32,
    /// The rounding of a fraction of a token.
    pub rounding: Rounding,
    /// The texts of a message that count, and the place of the rounding.
    pub per: CountPer,
    /// The size of media.
    pub media: MediaUnits,
    /// The fields of reported usage that make up the context usage.
    pub usage: UsageCount,
}

impl Default for Counting {
    /// Four UTF-16 units for a token, and the provider's total of the last reply.
    fn default() -> Self {
        Self {
            unit: LengthUnit::Utf16,
            text: TextUnits::Length,
            units_per_token: 4,
            rounding: Rounding::Ceil,
            per: CountPer::Message,
            media: MediaUnits::default(),
            usage: UsageCount::Total,
        }
    }
}

/// The unit of a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LengthUnit {
    /// UTF-16 code units, as JavaScript's `length`.
    Utf16,
    /// Unicode scalar values, as Python's `len`.
    CodePoints,
    /// UTF-8 bytes.
    Bytes,
}

/// The size of a text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TextUnits {
    /// The length of the text.
    Length,
    /// One unit for each ASCII character and more for every other UTF-16 unit, up to a length.
    Mixed {
        /// Units for each UTF-16 unit that is not ASCII.
        other_units: u32,
        /// Length above which the size of a text is its length.
        plain_above: u32,
    },
    /// By the classes of its characters, in hundredths of a token: an upper estimate of the tokens of OpenAI's encodings
    /// in natural languages, code and encoded bytes, without a tokenizer.
    Classes,
    /// One unit for each token of a built-in encoding: exact.
    Bpe {
        /// The encoding.
        encoding: Encoding,
    },
    /// One unit for each token of a vocabulary supplied by the user. If the process does not have it, a built-in
    /// encoding is used.
    Vocabulary {
        /// The name of the vocabulary.
        name: String,
        /// The vocabulary, once `Policy::with_vocabularies` has found it. It is not part of the policy's text.
        #[serde(skip)]
        attached: AttachedVocabulary,
    },
}

/// The loaded vocabulary for a name. It is ignored when policies are compared.
#[derive(Clone, Default)]
pub struct AttachedVocabulary(pub(in crate::policy) Option<Arc<Vocabulary>>);

impl PartialEq for AttachedVocabulary {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl fmt::Debug for AttachedVocabulary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.0.is_some() { "attached" } else { "missing" })
    }
}

/// The rounding of a fraction of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rounding {
    /// Up.
    Ceil,
    /// To the nearest, halves up.
    HalfUp,
    /// Down.
    Floor,
}

/// The texts of a message that count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", rename_all = "snake_case")]
pub enum CountPer {
    /// Its own text, rounded message by message.
    Message,
    /// Everything in a message, rounded once for a range: its own text as with `Message`, provider blocks by a token for
    /// four bytes, and what a request has around each part.
    Parts {
        /// Units for what a request has around a part.
        part_units: u32,
    },
    /// The JSON text of the provider messages, rounded once for a range, as it is sent.
    JsonRange,
    /// Texts and the JSON of calls and results, rounded once for a range.
    Contents,
    /// Texts, outputs and the JSON of calls, rounded once for a range.
    Characters,
    /// A count of a single agent, rounded once for a range.
    #[serde(skip)]
    Named(NamedStrategy),
}

can_be_named!(CountPer, counts);

/// The size of media, in units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MediaUnits {
    /// An image in a message.
    pub image_units: u32,
    /// A document, such as a PDF, in a message.
    pub document_units: u32,
    /// Any other media item in a message.
    pub other_units: u32,
    /// A media item in the result of a tool.
    pub attachment_units: u32,
}

impl Default for MediaUnits {
    /// 4 800 units for each item.
    fn default() -> Self {
        Self::same(4_800)
    }
}

/// The fields of reported usage that make up the context usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageCount {
    /// The provider's total, or else input, output and both cache counts.
    Total,
    /// The tokens of the request: input and both cache counts.
    Prompt,
    /// None: the policy's own count decides, as in agents that count every request themselves.
    Nothing,
}
