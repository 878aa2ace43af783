//! How much text weighs, where no provider has said so.
//!
//! Two measures, by [`CountPer`]:
//!
//! - `Message`: the words of each message, as pi counts them: texts, reasoning, a call's tool name and input, a
//!   result's output. Each message is rounded by itself. Blocks of other kinds weigh nothing, and neither does the
//!   wrapper that a view puts around a summary.
//! - `JsonRange`: the compact JSON of the messages as one array, rounded once. This is our own rendering:
//!   `{"role":R,"content":[…]}` with parts `{"type":"text","text":T}`, `{"type":"reasoning","text":T}`,
//!   `{"type":"tool-call","toolCallId":C,"toolName":N,"input":J}`,
//!   `{"type":"tool-result","toolCallId":C,"output":{"type":"text","value":T}}`.
//!
//! In both, a media item weighs `media_units` however many bytes it has, the input of a call weighs its JSON without
//! blanks between tokens, and a message in which a model would see nothing weighs nothing. Records, steps and empty
//! texts are never seen. All of it is additive, so that a running total can be kept beside a history.

use super::truncate;
use super::{CountPer, Counting, LengthUnit, Policy, Rounding};
use crate::model::message::Role;
use crate::model::part::{PartBody, ToolResult};
use crate::model::view::{SourceMessage, Standing, ViewMessage};
use std::borrow::Cow;
use std::ops::Range;

/// The length of a text in the given unit.
pub fn length(unit: LengthUnit, text: &str) -> usize {
    match unit {
        LengthUnit::Utf16 => text.chars().map(char::len_utf16).sum(),
        LengthUnit::CodePoints => text.chars().count(),
        LengthUnit::Bytes => text.len(),
    }
}

/// The tokens of a text.
pub fn estimate_text(counting: &Counting, text: &str) -> i64 {
    tokens_of(counting, length(counting.unit, text) as i64)
}

/// The tokens of a message as a view shows it.
pub fn estimate_message(policy: &Policy, message: &ViewMessage) -> i64 {
    tokens_of(&policy.counting, view_units(policy, message))
}

/// The tokens of several messages as a view shows them.
pub fn estimate_messages(policy: &Policy, messages: &[ViewMessage]) -> i64 {
    Weights::new(policy, messages.iter().map(|message| view_units(policy, message))).tokens(0..messages.len())
}

/// The tokens of a stored message as a view will show it: pruned and cut, but not paired.
pub fn estimate_source(policy: &Policy, message: &SourceMessage) -> i64 {
    tokens_of(&policy.counting, source_units(policy, message))
}

/// The tokens that new parts will weigh in a view, once cut. For running totals.
pub fn estimate_new(policy: &Policy, role: Role, parts: &[&PartBody]) -> i64 {
    tokens_of(&policy.counting, units(policy, role, parts.iter().map(|body| (*body, Output::Cut))))
}

/// The weights of a list of messages, such that any range can be asked for at once.
#[derive(Debug, Clone)]
pub struct Weights<'a> {
    counting: &'a Counting,
    /// Weight of everything before each index: tokens or units, by what is measured as one text.
    before: Vec<i64>,
}

impl<'a> Weights<'a> {
    /// Weighs stored messages as a view will show them.
    pub fn of(policy: &'a Policy, messages: &[SourceMessage]) -> Self {
        Self::new(policy, messages.iter().map(|message| source_units(policy, message)))
    }

    fn new(policy: &'a Policy, units: impl Iterator<Item = i64>) -> Self {
        let counting = &policy.counting;
        let mut before = vec![0];
        let mut sum = 0_i64;
        for units in units {
            sum = sum.saturating_add(match counting.per {
                CountPer::Message => tokens_of(counting, units),
                // The comma behind it, or the bracket.
                CountPer::JsonRange if units > 0 => units.saturating_add(1),
                CountPer::JsonRange => 0,
            });
            before.push(sum);
        }
        Self { counting, before }
    }

    /// The tokens of a range of messages.
    pub fn tokens(&self, range: Range<usize>) -> i64 {
        let weight = self.before[range.end] - self.before[range.start];
        match self.counting.per {
            CountPer::Message => weight,
            CountPer::JsonRange if weight > 0 => tokens_of(self.counting, weight.saturating_add(1)),
            CountPer::JsonRange => 0,
        }
    }
}

/// Turns units into tokens.
fn tokens_of(counting: &Counting, units: i64) -> i64 {
    let per = i64::from(counting.units_per_token.max(1));
    let rest = units % per;
    let up = match counting.rounding {
        Rounding::Ceil => rest > 0,
        Rounding::HalfUp => rest * 2 >= per && rest > 0,
        Rounding::Floor => false,
    };
    units / per + i64::from(up)
}

/// What a view does to the output of a tool.
#[derive(Debug, Clone, Copy)]
enum Output {
    /// It is already as the view shows it.
    Shown,
    /// It is cut if it is long.
    Cut,
    /// It is replaced by the placeholder, and its attachments go too.
    Cleared,
}

fn view_units(policy: &Policy, message: &ViewMessage) -> i64 {
    let units = units(policy, message.role, message.parts.iter().map(|part| (&part.body, Output::Shown)));
    match (policy.counting.per, message.standing) {
        (CountPer::Message, Standing::Summary) => (units - wrapper_units(policy)).max(0),
        (CountPer::Message, Standing::Shown | Standing::Marker | Standing::Paired) | (CountPer::JsonRange, _) => units,
    }
}

fn wrapper_units(policy: &Policy) -> i64 {
    let unit = policy.counting.unit;
    (length(unit, &policy.view.summary_prefix) + length(unit, &policy.view.summary_suffix)) as i64
}

fn source_units(policy: &Policy, source: &SourceMessage) -> i64 {
    let parts = source.message.parts.iter().map(|part| {
        let pruned = source.pruned.iter().any(|(id, _)| *id == part.id);
        (&part.body, if pruned { Output::Cleared } else { Output::Cut })
    });
    units(policy, source.message.role, parts)
}

/// The units of one message.
fn units<'a>(policy: &Policy, role: Role, parts: impl Iterator<Item = (&'a PartBody, Output)>) -> i64 {
    let weights: Vec<i64> = parts.filter_map(|(body, output)| part_units(policy, body, output)).collect();
    let sum = weights.iter().fold(0_i64, |sum, units| sum.saturating_add(*units));
    match policy.counting.per {
        CountPer::Message => sum,
        CountPer::JsonRange if weights.is_empty() => 0,
        CountPer::JsonRange => {
            let envelope = r#"{"role":"","content":[]}"#.len() + role_name(role).len();
            let commas = weights.len() - 1;
            sum.saturating_add((envelope + commas) as i64)
        }
    }
}

/// The units of one part; none when a model does not see it.
fn part_units(policy: &Policy, body: &PartBody, output: Output) -> Option<i64> {
    let counting = &policy.counting;
    let media = i64::from(counting.media_units);
    match body {
        PartBody::Text(text) | PartBody::Reasoning(text) if text.is_empty() => None,
        PartBody::Text(text) => Some(text_units(counting, r#"{"type":"text","text":}"#, &[text])),
        PartBody::Reasoning(text) => Some(text_units(counting, r#"{"type":"reasoning","text":}"#, &[text])),
        PartBody::ToolCall(call) => {
            let (skeleton, texts): (_, &[&str]) = match counting.per {
                CountPer::Message => ("", &[&call.tool]),
                CountPer::JsonRange => {
                    (r#"{"type":"tool-call","toolCallId":,"toolName":,"input":}"#, &[&call.call_id, &call.tool])
                }
            };
            Some(text_units(counting, skeleton, texts) + compact_json_units(counting.unit, &call.input_json))
        }
        PartBody::ToolResult(result) => Some(result_units(policy, result, output)),
        PartBody::Media(_) => Some(media),
        PartBody::Marker(marker) if marker.text.is_empty() => None,
        PartBody::Marker(marker) => Some(text_units(counting, r#"{"type":"text","text":}"#, &[&marker.text])),
        PartBody::Opaque(opaque) => match counting.per {
            CountPer::Message => None,
            CountPer::JsonRange => Some(opaque.data.len() as i64),
        },
        PartBody::Step(_) | PartBody::Record(_) => None,
    }
}

fn result_units(policy: &Policy, result: &ToolResult, output: Output) -> i64 {
    let counting = &policy.counting;
    let (text, attachments) = match output {
        Output::Shown => (Cow::Borrowed(result.output.as_str()), result.attachments.len()),
        Output::Cut => (cut_output(policy, &result.output), result.attachments.len()),
        Output::Cleared => (Cow::Borrowed(placeholder(policy)), 0),
    };
    let skeleton = r#"{"type":"tool-result","toolCallId":,"output":{"type":"text","value":}}"#;
    let words = match counting.per {
        CountPer::Message => text_units(counting, skeleton, &[&text]),
        CountPer::JsonRange => text_units(counting, skeleton, &[&result.call_id, &text]),
    };
    words.saturating_add(i64::from(counting.media_units).saturating_mul(attachments as i64))
}

fn cut_output<'a>(policy: &Policy, output: &'a str) -> Cow<'a, str> {
    let cut = policy.truncate.as_ref().and_then(|truncate| truncate::cut(truncate, policy.counting.unit, output));
    cut.map_or(Cow::Borrowed(output), |(text, _)| Cow::Owned(text))
}

/// What stands in place of a cleared output. A mark made under an earlier policy may outlive its prune rule.
fn placeholder(policy: &Policy) -> &str {
    policy.prune.as_ref().map_or("", |prune| prune.placeholder.as_str())
}

/// The units of texts: their words alone, or as JSON strings in a skeleton.
fn text_units(counting: &Counting, skeleton: &str, texts: &[&str]) -> i64 {
    let units: usize = match counting.per {
        CountPer::Message => texts.iter().map(|text| length(counting.unit, text)).sum(),
        CountPer::JsonRange => {
            skeleton.len() + texts.iter().map(|text| json_string_units(counting.unit, text)).sum::<usize>()
        }
    };
    units as i64
}

/// The length of a text as a JSON string, quotes included.
fn json_string_units(unit: LengthUnit, text: &str) -> usize {
    let escapes: usize = text
        .bytes()
        .map(|byte| match byte {
            b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 1,
            0x00..0x20 => 5,
            _ => 0,
        })
        .sum();
    length(unit, text) + escapes + 2
}

/// The length of a JSON text without the blanks between its tokens; an empty text is an empty object.
fn compact_json_units(unit: LengthUnit, json: &str) -> i64 {
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

fn role_name(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
        Role::System => "system",
    }
}

#[cfg(test)]
mod tests;
