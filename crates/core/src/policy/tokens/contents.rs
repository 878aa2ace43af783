//! Gemini's contents: the units of their parts in a request, and their length as JSON.
//!
//! A message becomes contents of two kinds: its texts and calls, and, with the role `user`, its results. This is our
//! own rendering of the wire format: `{"role":R,"parts":[…]}` with parts `{"text":T}`, `{"text":T,"thought":true}`,
//! `{"functionCall":{"name":N,"args":J}}`, `{"functionResponse":{"id":C,"name":N,"response":{"output":T}}}` with
//! `error` for `output` after a failure, `{"inlineData":{"mimeType":M,"data":D}}` and
//! `{"fileData":{"mimeType":M,"fileUri":U}}`.

use super::json;
use super::shown::shown_one_by_one;
use super::units::{ShownPart, length, text_units};
use crate::model::message::Role;
use crate::model::part::{Media, MediaSource, Opaque, PartBody, ResultStatus, ToolResult};
use crate::model::view::SourceMessage;
use crate::policy::{Counting, LengthUnit, Policy};
use foldhash::HashMap;

/// The units of one message: the JSON of its contents.
///
/// The name of a result's tool counts with the call, because a result alone does not have it.
pub(super) fn units(counting: &Counting, parts: &[ShownPart<'_>]) -> i64 {
    parts.iter().map(|part| part_units(counting, part)).fold(0, i64::saturating_add)
}

/// Units of a result beside its text, if characters are counted.
const RESULT_UNITS: i64 = 64;

/// The units of one message by characters: the texts and outputs, and the JSON of calls with their
/// ids.
pub(super) fn characters(counting: &Counting, parts: &[ShownPart<'_>]) -> i64 {
    let of = |part: &ShownPart<'_>| match part {
        ShownPart::Text(text) | ShownPart::Reasoning(text) => text_units(counting, text),
        ShownPart::Call { call, input_json } => {
            // Every call has an id, made up if a provider gave none.
            let id = r#""id":,"#.len() as i64 + string(&call.call_id);
            call_json(&call.tool, input_json).saturating_add(id)
        }
        ShownPart::Result { output, attachments, .. } => {
            let media = attachments.iter().map(|media| counting.media.units_of(media)).fold(0, i64::saturating_add);
            text_units(counting, output).saturating_add(media).saturating_add(RESULT_UNITS)
        }
        ShownPart::Media(media) => counting.media.units_of(media),
        ShownPart::Opaque(opaque) => opaque_units(opaque),
    };
    parts.iter().map(of).fold(0, i64::saturating_add)
}

fn part_units(counting: &Counting, part: &ShownPart<'_>) -> i64 {
    match part {
        ShownPart::Text(text) | ShownPart::Reasoning(text) => text_units(counting, text),
        ShownPart::Call { call, input_json } => {
            let results_name = length(LengthUnit::Utf16, &call.tool) as i64;
            call_json(&call.tool, input_json).saturating_add(results_name)
        }
        ShownPart::Result { result, output, attachments } => {
            let media = attachments.iter().map(|media| counting.media.units_of(media)).fold(0, i64::saturating_add);
            response_json(result, output).saturating_add(media)
        }
        ShownPart::Media(media) => counting.media.units_of(media),
        ShownPart::Opaque(opaque) => opaque_units(opaque),
    }
}

fn opaque_units(opaque: &Opaque) -> i64 {
    length(LengthUnit::Utf16, &String::from_utf8_lossy(&opaque.data)) as i64
}

/// One content, as far as its length and its kind of parts matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::policy) struct Content {
    /// True if the role is the model; otherwise it is the user, also for results.
    pub(in crate::policy) is_model: bool,
    /// Number of parts.
    pub(in crate::policy) parts: i64,
    /// Number of parts that are results.
    pub(in crate::policy) results: i64,
    /// True if it has a tool call.
    pub(in crate::policy) calls: bool,
    /// Length of its parts as JSON, without the commas between them and the JSON around them.
    pub(in crate::policy) part_units: i64,
}

impl Content {
    fn new(is_model: bool) -> Self {
        Self { is_model, parts: 0, results: 0, calls: false, part_units: 0 }
    }

    /// A content with one text.
    pub(in crate::policy) fn of_text(is_model: bool, text: &str) -> Self {
        Self { parts: 1, part_units: text_json(text), ..Self::new(is_model) }
    }

    /// True if all its parts are results.
    pub(in crate::policy) fn only_results(&self) -> bool {
        self.results == self.parts
    }

    /// The length of the whole content as JSON.
    pub(in crate::policy) fn units(&self) -> i64 {
        let role = if self.is_model { "model" } else { "user" };
        let around = r#"{"role":"","parts":[]}"#.len() + role.len();
        self.part_units.saturating_add(around as i64).saturating_add((self.parts - 1).max(0))
    }
}

/// The contents of stored messages as a view will show them, each with the index of its message. A message without
/// anything visible to a model has none.
pub(in crate::policy) fn contents(policy: &Policy, messages: &[SourceMessage]) -> Vec<(usize, Content)> {
    let bodies = messages.iter().flat_map(|source| &source.message.parts).map(|part| &*part.body);
    let tools: HashMap<&str, &str> = bodies
        .filter_map(|body| match body {
            PartBody::ToolCall(call) => Some((call.call_id.as_str(), call.tool.as_str())),
            _ => None,
        })
        .collect();
    let mut contents: Vec<(usize, Content)> = Vec::with_capacity(messages.len());
    for (index, source) in messages.iter().enumerate() {
        for part in shown_one_by_one(policy, source) {
            let is_result = matches!(part, ShownPart::Result { .. });
            let is_model = source.message.role == Role::Assistant && !is_result;
            // Text of a user beside results is in the same content; text of the model is not.
            let fits = contents.last().is_some_and(|(last, content)| *last == index && content.is_model == is_model);
            if !fits {
                contents.push((index, Content::new(is_model)));
            }
            let Some((_, content)) = contents.last_mut() else { continue };
            content.parts += 1;
            content.results += i64::from(is_result);
            content.calls |= matches!(part, ShownPart::Call { .. });
            content.part_units = content.part_units.saturating_add(part_json(&part, &tools));
        }
    }
    contents
}

/// The length of a part as JSON.
fn part_json(part: &ShownPart<'_>, tools: &HashMap<&str, &str>) -> i64 {
    match part {
        ShownPart::Text(text) => text_json(text),
        ShownPart::Reasoning(text) => text_json(text) + r#","thought":true"#.len() as i64,
        ShownPart::Call { call, input_json } => call_json(&call.tool, input_json),
        ShownPart::Result { result, output, attachments } => {
            let tool = tools.get(result.call_id.as_str());
            let name = tool.map_or(0, |name| r#","name":"#.len() as i64 + string(name));
            let skeleton = r#"{"functionResponse":{"id":,"response":}}"#.len() as i64;
            let parts = attachments.iter().map(media_json).fold(0, i64::saturating_add);
            let list = match attachments.len() as i64 {
                0 => 0,
                count => r#","parts":[]"#.len() as i64 + count - 1,
            };
            let words = string(&result.call_id) + name + response_json(result, output);
            words.saturating_add(skeleton).saturating_add(parts).saturating_add(list)
        }
        ShownPart::Media(media) => media_json(media),
        ShownPart::Opaque(opaque) => opaque_units(opaque),
    }
}

fn text_json(text: &str) -> i64 {
    r#"{"text":}"#.len() as i64 + string(text)
}

fn call_json(tool: &str, input_json: &str) -> i64 {
    let skeleton = r#"{"functionCall":{"name":,"args":}}"#.len() as i64;
    (skeleton + string(tool)).saturating_add(json::compact_json_units(LengthUnit::Utf16, input_json))
}

/// The length of a result, as the object that a model reads.
fn response_json(result: &ToolResult, output: &str) -> i64 {
    let field = match result.status {
        ResultStatus::Completed => "output",
        ResultStatus::Error | ResultStatus::Interrupted => "error",
    };
    r#"{"":}"#.len() as i64 + field.len() as i64 + string(output)
}

fn media_json(media: &Media) -> i64 {
    let mime_type = string(&media.mime_type);
    match &media.source {
        MediaSource::Bytes(bytes) => {
            let base64 = bytes.len().div_ceil(3).saturating_mul(4) as i64;
            mime_type.saturating_add(base64) + r#"{"inlineData":{"mimeType":,"data":""}}"#.len() as i64
        }
        MediaSource::Uri(uri) => mime_type + string(uri) + r#"{"fileData":{"mimeType":,"fileUri":}}"#.len() as i64,
    }
}

/// The length of a text as a JSON string.
fn string(text: &str) -> i64 {
    json::json_string_units(LengthUnit::Utf16, text) as i64
}
