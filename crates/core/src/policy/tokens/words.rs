//! Counts the texts of each message: texts, reasoning, a call's tool name and input, a result's output.
//!
//! Blocks of other kinds count nothing, and neither does the wrapper that a view puts around a summary, unless whole parts
//! are counted.

use super::json;
use super::units::{Shown, text_units};
use crate::policy::{Counting, TextUnits};

/// The units of one message.
pub(super) fn units(counting: &Counting, parts: &[Shown<'_>]) -> i64 {
    units_by(counting, parts, |text| text_units(counting, text))
}

/// The same with a number of units for what a request has around each part, and the bytes of provider blocks.
pub(super) fn units_in_parts(counting: &Counting, parts: &[Shown<'_>], part_units: u32) -> i64 {
    let block = |part: &Shown<'_>| match part {
        Shown::Opaque(opaque) => opaque.data.len() as i64 * i64::from(counting.units_per_token) / BLOCK_BYTES,
        Shown::Text(_) | Shown::Reasoning(_) | Shown::Call { .. } | Shown::Result { .. } | Shown::Media(_) => 0,
    };
    let around = i64::from(part_units).saturating_mul(parts.len() as i64);
    parts.iter().map(block).fold(units(counting, parts).saturating_add(around), i64::saturating_add)
}

/// Bytes of a provider block for a token.
const BLOCK_BYTES: i64 = 4;

/// The same with another size of texts.
pub(super) fn units_by(counting: &Counting, parts: &[Shown<'_>], units: impl Fn(&str) -> i64) -> i64 {
    let of = |part: &Shown<'_>| match part {
        Shown::Text(text) | Shown::Reasoning(text) => units(text),
        Shown::Call { call, input_json } => {
            // If only the length counts, it is that of the JSON without the blanks between tokens.
            let input = match counting.text {
                TextUnits::Length => json::compact_json_units(counting.unit, input_json),
                TextUnits::Mixed { .. } | TextUnits::Classes | TextUnits::Bpe { .. } | TextUnits::Vocabulary { .. } => {
                    units(input_json)
                }
            };
            units(&call.tool).saturating_add(input)
        }
        Shown::Result { output, attachments, .. } => {
            units(output).saturating_add(counting.media.of_attachments(attachments))
        }
        Shown::Media(media) => counting.media.of(media),
        Shown::Opaque(_) => 0,
    };
    parts.iter().map(of).fold(0, i64::saturating_add)
}
