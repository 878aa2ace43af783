//! The compact JSON of the messages as one array.
//!
//! A message is `{"role":R,"content":[…]}`, with parts `{"type":"text","text":T}`, `{"type":"reasoning","text":T}`,
//! `{"type":"tool-call","toolCallId":C,"toolName":N,"input":J}` and
//! `{"type":"tool-result","toolCallId":C,"toolName":N,"output":{"type":"text","value":T}}`, with `error-text` if the
//! tool failed. Results are in messages of the tool, wherever they are stored. A result does not have the name of its
//! tool, so the call counts it twice.
//!
//! All media items have the same number of units, whatever their size, and the input of a call counts as its JSON
//! without blanks between tokens.

use super::units::{ShownPart, length, role_name};
use crate::model::message::Role;
use crate::model::part::ResultStatus;
use crate::policy::{Counting, LengthUnit};

/// The units of one message, which has parts; the caller adds the comma after it.
pub(super) fn units(counting: &Counting, role: Role, parts: &[ShownPart<'_>]) -> i64 {
    let is_result = |part: &ShownPart<'_>| matches!(part, ShownPart::Result { .. });
    let runs = parts.chunk_by(|before, after| is_result(before) == is_result(after));
    let envelopes = runs.map(|run| {
        let role = match role {
            _ if run.iter().any(is_result) => Role::Tool,
            // Text beside results has the role `user`.
            Role::Tool => Role::User,
            other => other,
        };
        // The comma before the next message.
        (envelope(role, run.len()) + 1) as i64
    });
    let units = parts.iter().map(|part| part_units(counting, part)).chain(envelopes);
    units.fold(0, i64::saturating_add).saturating_sub(1)
}

/// The length of the JSON around this number of parts, with the commas between them.
fn envelope(role: Role, parts: usize) -> usize {
    r#"{"role":"","content":[]}"#.len() + role_name(role).len() + parts.saturating_sub(1)
}

fn part_units(counting: &Counting, part: &ShownPart<'_>) -> i64 {
    match part {
        ShownPart::Text(text) => texts(counting, r#"{"type":"text","text":}"#, &[text]),
        ShownPart::Reasoning(text) => texts(counting, r#"{"type":"reasoning","text":}"#, &[text]),
        ShownPart::Call { call, input_json } => {
            let skeleton = r#"{"type":"tool-call","toolCallId":,"toolName":,"input":}"toolName":,"#;
            texts(counting, skeleton, &[&call.call_id, &call.tool, &call.tool])
                .saturating_add(compact_json_units(counting.unit, input_json))
        }
        ShownPart::Result { result, output, attachments } => {
            let skeleton = match result.status {
                ResultStatus::Completed => r#"{"type":"tool-result","toolCallId":,"output":{"type":"text","value":}}"#,
                ResultStatus::Error | ResultStatus::Interrupted => {
                    r#"{"type":"tool-result","toolCallId":,"output":{"type":"error-text","value":}}"#
                }
            };
            let words = texts(counting, skeleton, &[&result.call_id, output]);
            words.saturating_add(counting.media.of_attachments(attachments))
        }
        ShownPart::Media(media) => counting.media.units_of(media),
        ShownPart::Opaque(opaque) => opaque.data.len() as i64,
    }
}

/// The units of texts as JSON strings in a skeleton.
fn texts(counting: &Counting, skeleton: &str, texts: &[&str]) -> i64 {
    let strings: usize = texts.iter().map(|text| json_string_units(counting.unit, text)).sum();
    (skeleton.len() + strings) as i64
}

/// The length of a text as a JSON string, quotes included.
pub(super) fn json_string_units(unit: LengthUnit, text: &str) -> usize {
    // Without branches and in bytes, because every byte of a history is counted here: five more for a control
    // character, four less for one with a short name, one more for an escaped quote or backslash.
    let escapes = |byte: &u8| {
        let is_control = u8::from(*byte < 0x20);
        let has_name = u8::from(matches!(byte, 0x08..=0x0a | 0x0c | 0x0d));
        is_control * 5 - has_name * 4 + u8::from(*byte == b'"') + u8::from(*byte == b'\\')
    };
    // The sum of this many bytes fits in a byte.
    let pieces = text.as_bytes().chunks(usize::from(u8::MAX / 5));
    let escapes: usize = pieces.map(|piece| usize::from(piece.iter().map(escapes).sum::<u8>())).sum();
    length(unit, text) + escapes + 2
}

/// The length of a JSON text without the blanks between its tokens; an empty text is an empty object.
pub(super) fn compact_json_units(unit: LengthUnit, json: &str) -> i64 {
    let mut blanks = 0;
    let mut in_string = false;
    let mut escaped = false;
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b' ' | b'\n' | b'\r' | b'\t' if !in_string => blanks += 1,
            _ => {}
        }
    }
    let units = length(unit, json) - blanks;
    if units == 0 { "{}".len() as i64 } else { units as i64 }
}
