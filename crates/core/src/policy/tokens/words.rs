//! Counts the texts of each message: texts, reasoning, a call's tool name and input, a result's output.
//!
//! Blocks of other kinds count nothing, and neither does the wrapper that a view puts around a summary, unless whole parts
//! are counted.

use super::json;
use super::units::{ShownPart, text_units};
use crate::policy::{Counting, TextUnits};

/// The units of one message.
pub(super) fn units(counting: &Counting, parts: &[ShownPart<'_>]) -> i64 {
    units_by(counting, parts, |text| text_units(counting, text))
}

/// The same with a number of units for what a request has around each part, and the bytes of provider blocks.
pub(super) fn units_in_parts(counting: &Counting, parts: &[ShownPart<'_>], part_units: u32) -> i64 {
    let block = |part: &ShownPart<'_>| match part {
        ShownPart::Opaque(opaque) => opaque.data.len() as i64 * i64::from(counting.units_per_token) / BLOCK_BYTES,
        ShownPart::Text(_)
        | ShownPart::Reasoning(_)
        | ShownPart::Call { .. }
        | ShownPart::Result { .. }
        | ShownPart::Media(_) => 0,
    };
    let around = i64::from(part_units).saturating_mul(parts.len() as i64);
    parts.iter().map(block).fold(units(counting, parts).saturating_add(around), i64::saturating_add)
}

/// Bytes of a provider block for a token.
const BLOCK_BYTES: i64 = 4;

/// The same with another size of texts.
pub(super) fn units_by(counting: &Counting, parts: &[ShownPart<'_>], units: impl Fn(&str) -> i64) -> i64 {
    let of = |part: &ShownPart<'_>| match part {
        ShownPart::Text(text) | ShownPart::Reasoning(text) => units(text),
        ShownPart::Call { call, input_json } => {
            // If only the length counts, it is that of the JSON without the blanks between tokens.
            let input = match counting.text {
                TextUnits::Length => json::compact_json_units(counting.unit, input_json),
                TextUnits::Mixed { .. } | TextUnits::Classes | TextUnits::Bpe { .. } | TextUnits::Vocabulary { .. } => {
                    units(input_json)
                }
            };
            units(&call.tool).saturating_add(input)
        }
        ShownPart::Result { output, attachments, .. } => {
            units(output).saturating_add(counting.media.of_attachments(attachments))
        }
        ShownPart::Media(media) => counting.media.units_of(media),
        ShownPart::Opaque(_) => 0,
    };
    parts.iter().map(of).fold(0, i64::saturating_add)
}
