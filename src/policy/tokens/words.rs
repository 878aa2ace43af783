//! Counts the texts of each message as pi does: texts, reasoning, a call's tool name and input, a result's output.
//!
//! Blocks of other kinds count nothing, and neither does the wrapper that a view puts around a summary.

use super::{Counting, Shown, json, weight};

/// The units of one message.
pub(super) fn units(counting: &Counting, parts: &[Shown<'_>]) -> i64 {
    let of = |part: &Shown<'_>| match part {
        Shown::Text(text) | Shown::Reasoning(text) => weight(counting, text),
        Shown::Call { call, input_json } => {
            weight(counting, &call.tool).saturating_add(input_units(counting, input_json))
        }
        Shown::Result { output, attachments, .. } => {
            weight(counting, output).saturating_add(counting.media.of_attachments(attachments))
        }
        Shown::Media(media) => counting.media.of(media),
        Shown::Opaque(_) => 0,
    };
    parts.iter().map(of).fold(0, i64::saturating_add)
}

/// The units of a call's input; if only its length counts, those of its JSON without the blanks between tokens.
fn input_units(counting: &Counting, input_json: &str) -> i64 {
    match counting.text {
        super::TextWeight::Length => json::compact_json_units(counting.unit, input_json),
        super::TextWeight::Mixed { .. } | super::TextWeight::Bpe { .. } | super::TextWeight::Vocabulary { .. } => {
            weight(counting, input_json)
        }
    }
}
