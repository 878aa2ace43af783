//! History as text, in the form that the policy requires. Quoted text has a margin on every line that does not begin
//! with a label, so that no text can add an entry of its own.

use super::data::{behind_label as data, block, truncated};
use crate::model::message::{Message, MessageKind, Role};
use crate::model::part::{Media, Part, PartBody, ResultStatus, ToolCall, ToolResult};
use crate::model::view::SourceMessage;
use crate::policy::calls::Calls;
use crate::policy::{LengthUnit, Transcript, TranscriptForm, tokens};
use serde_json::Value;

/// Maximum length of tool outputs and inputs in a transcript, in UTF-16 units; none: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Detail {
    /// Maximum length of an output.
    pub(in crate::policy) output_units: Option<usize>,
    /// Maximum length of an input.
    pub(in crate::policy) input_units: Option<usize>,
}

impl Detail {
    /// The smallest useful limits.
    pub const LEAST: Self = Self { output_units: Some(120), input_units: Some(240) };

    /// The policy's limit for outputs; inputs in full.
    pub fn full(rules: &Transcript) -> Self {
        let units = usize::try_from(rules.output_units).unwrap_or(usize::MAX);
        Self { output_units: (units > 0).then_some(units), input_units: None }
    }

    /// The limits to try in turn until the transcript fits; never more than the policy's own.
    pub fn levels(rules: &Transcript) -> [Self; 3] {
        let full = Self::full(rules);
        let at_most = |units: usize| Some(full.output_units.map_or(units, |most| most.min(units)));
        [
            full,
            Self { output_units: at_most(500), input_units: Some(1_000) },
            Self { output_units: at_most(120), ..Self::LEAST },
        ]
    }
}

/// Text in place of a pruned output.
const CLEARED: &str = "[Old tool result content cleared]";

/// The entries of a transcript, oldest first. Messages without content for it have none.
pub fn entries(rules: &Transcript, detail: Detail, messages: &[&SourceMessage]) -> Vec<String> {
    let writer = TranscriptWriter { rules, detail };
    let messages = messages.iter().copied().filter(|source| source.message.kind != MessageKind::Record);
    let messages: Vec<&SourceMessage> = messages.collect();
    let texts: Vec<String> = match rules.form {
        TranscriptForm::Paired => writer.paired(&messages),
        TranscriptForm::InPlace => messages.iter().flat_map(|source| writer.in_place(&source.message)).collect(),
        TranscriptForm::Digest => writer.digest(&messages),
        TranscriptForm::Lines => messages.iter().map(|source| writer.lines(source)).collect(),
    };
    texts.into_iter().filter(|text| !text.is_empty()).collect()
}

/// The common settings of all entries.
struct TranscriptWriter<'a> {
    rules: &'a Transcript,
    detail: Detail,
}

impl TranscriptWriter<'_> {
    /// Entries with every result after its call, wherever it was stored.
    fn paired(&self, messages: &[&SourceMessage]) -> Vec<String> {
        let calls = Calls::from_messages(messages.iter().copied());
        let (results, called) = (calls.by_call(), calls.by_result());
        let entry = |source: &&SourceMessage| {
            let mut lines = Vec::new();
            let mut attached = Vec::new();
            if source.message.role == Role::User {
                let texts: Vec<&str> = source.message.parts.iter().filter_map(|part| body_text(&part.body)).collect();
                if !texts.is_empty() {
                    lines.push(format!("[User]: {}", data(&texts.join("\n"))));
                }
            }
            for part in &source.message.parts {
                match &*part.body {
                    PartBody::ToolCall(call) => {
                        lines.push(format!("[Assistant tool call]: {}", self.call(call)));
                        if let Some(answer) = results.get(&part.id) {
                            lines.push(self.paired_result(answer.result, is_pruned(answer.source, answer.part)));
                        }
                    }
                    PartBody::ToolResult(result) if !called.contains_key(&part.id) => {
                        lines.push(self.paired_result(result, is_pruned(source, part)));
                    }
                    PartBody::Reasoning(text) if self.rules.reasoning && !text.is_empty() => {
                        lines.push(format!("[Assistant reasoning]: {}", data(text)));
                    }
                    PartBody::Media(media) => attached.extend(self.note(media)),
                    PartBody::Text(_) | PartBody::Marker(_) => match (body_text(&part.body), source.message.role) {
                        (None, _) | (_, Role::User) => {}
                        (Some(text), Role::Assistant | Role::Tool) => {
                            lines.push(format!("[Assistant]: {}", data(text)));
                        }
                        (Some(text), Role::System) => lines.push(format!("[System]: {}", data(text))),
                    },
                    PartBody::ToolResult(_)
                    | PartBody::Reasoning(_)
                    | PartBody::Step(_)
                    | PartBody::Opaque(_)
                    | PartBody::Record(_) => {}
                }
            }
            lines.extend(attached);
            lines.join("\n")
        };
        messages.iter().map(entry).collect()
    }

    fn paired_result(&self, result: &ToolResult, is_pruned: bool) -> String {
        let label = match result.status {
            ResultStatus::Completed => "[Tool result]",
            ResultStatus::Error | ResultStatus::Interrupted => "[Tool error]",
        };
        if is_pruned {
            return format!("{label}: {CLEARED}");
        }
        let output = self.output_with_notes(result);
        // Outputs are truncated, but not error messages.
        let is_truncated = result.status == ResultStatus::Completed || self.detail != Detail::full(self.rules);
        if is_truncated { format!("{label}: {}", self.output(&output)) } else { format!("{label}: {}", data(&output)) }
    }

    /// The entries of one message: reasoning, texts, calls as functions with named arguments, results in their own
    /// positions.
    fn in_place(&self, message: &Message) -> Vec<String> {
        let mut entries = Vec::new();
        if self.rules.reasoning && message.role == Role::Assistant {
            let thoughts: Vec<&str> = message.parts.iter().filter_map(|part| thought(&part.body)).collect();
            if !thoughts.is_empty() {
                entries.push(format!("[Assistant thinking]: {}", data(&thoughts.join("\n"))));
            }
        }
        let texts: Vec<&str> = message.parts.iter().filter_map(|part| any_words(&part.body)).collect();
        match message.role {
            Role::User if texts.iter().all(|text| text.is_empty()) => {}
            Role::User => entries.push(format!("[User]: {}", data(&texts.concat()))),
            Role::Assistant if texts.is_empty() => {}
            Role::Assistant => entries.push(format!("[Assistant]: {}", data(&texts.join("\n")))),
            // Results contain their texts themselves, and system messages are not in this form.
            Role::Tool | Role::System => {}
        }
        let calls = message.parts.iter().filter_map(|part| match &*part.body {
            PartBody::ToolCall(call) => Some(self.function(call)),
            _ => None,
        });
        let calls: Vec<String> = calls.collect();
        if !calls.is_empty() {
            entries.push(format!("[Assistant tool calls]: {}", calls.join("; ")));
        }
        for part in &message.parts {
            match &*part.body {
                PartBody::ToolResult(result) if !result.output.is_empty() => {
                    entries.push(format!("[Tool result]: {}", self.output(&result.output)));
                }
                PartBody::Media(media) => entries.extend(self.note(media)),
                _ => {}
            }
        }
        entries
    }

    /// Entries with the texts, and one sentence for each tool result.
    fn digest(&self, messages: &[&SourceMessage]) -> Vec<String> {
        let calls = Calls::from_messages(messages.iter().copied());
        let called = calls.by_result();
        let entry = |source: &&SourceMessage| {
            let mut said: Vec<&str> = Vec::new();
            let mut tools = Vec::new();
            let mut attached = Vec::new();
            let mut performed = false;
            for part in &source.message.parts {
                match &*part.body {
                    PartBody::Reasoning(text) if self.rules.reasoning => said.push(text),
                    PartBody::Media(media) => attached.extend(self.note(media)),
                    PartBody::ToolCall(_) => performed = true,
                    PartBody::ToolResult(result) => {
                        let tool = called.get(&part.id).map_or("unknown", |called| called.call.tool.as_str());
                        tools.push(if result.output.is_empty() || is_pruned(source, part) {
                            format!("Tool {} executed successfully", data(tool))
                        } else {
                            format!("Tool {} executed: {}", data(tool), self.output(&result.output))
                        });
                    }
                    other => said.extend(body_text(other)),
                }
            }
            said.retain(|text| !text.trim().is_empty());
            let mut lines = Vec::new();
            match source.message.role {
                Role::Assistant if said.is_empty() && performed => {
                    lines.push("[Assistant performed tool operations]".to_owned());
                }
                _ if said.is_empty() => {}
                Role::Assistant | Role::Tool => lines.push(format!("[Assistant]: {}", data(&said.join("\n")))),
                Role::User => lines.push(format!("[User]: {}", data(&said.join("\n")))),
                Role::System => lines.push(format!("[System]: {}", data(&said.join("\n")))),
            }
            // One line for each tool: on a common line an output could continue with the sentence of another tool.
            if !tools.is_empty() {
                lines.push(format!("[Tool Results Summary: {}]", tools.join(";\n")));
            }
            lines.extend(attached);
            lines.join("\n")
        };
        messages.iter().map(entry).collect()
    }

    /// One message: the role, and a line for each part. Every line of text has a margin: nothing
    /// else distinguishes it from calls and results.
    fn lines(&self, source: &SourceMessage) -> String {
        let mut lines = Vec::new();
        for part in &source.message.parts {
            match &*part.body {
                PartBody::ToolCall(call) => {
                    lines.push(format!("tool_request({}): {}", data(&call.tool), data(&self.input(call))));
                }
                PartBody::ToolResult(_) if is_pruned(source, part) => {
                    lines.push(format!("tool_response: {CLEARED}"));
                }
                PartBody::ToolResult(result) => {
                    lines.push(format!("tool_response: {}", self.output(&self.output_with_notes(result))));
                }
                PartBody::Reasoning(text) if self.rules.reasoning && !text.is_empty() => lines.push(block(text)),
                PartBody::Media(media) => lines.extend(self.note(media)),
                other => lines.extend(body_text(other).map(block)),
            }
        }
        let role = match source.message.role {
            // A result belongs to the user's side.
            Role::User | Role::Tool => "user",
            Role::Assistant => "assistant",
            Role::System => "system",
        };
        if lines.is_empty() { String::new() } else { format!("[{role}]:\n{}", lines.join("\n")) }
    }

    /// The text in place of a media item; none if the policy has no such text.
    fn note(&self, media: &Media) -> Option<String> {
        let name = if media.name.is_empty() { "file" } else { &media.name };
        let note = self.rules.media_note.replace("{mime}", &data(&media.mime_type)).replace("{name}", &data(name));
        (!note.is_empty()).then_some(note)
    }

    /// A call with its input.
    fn call(&self, call: &ToolCall) -> String {
        format!("{}({})", data(&call.tool), data(&self.input(call)))
    }

    /// An output with notes for its media.
    fn output_with_notes(&self, result: &ToolResult) -> String {
        let mut lines = vec![result.output.clone()];
        lines.extend(result.attachments.iter().filter_map(|media| self.note(media)));
        lines.join("\n")
    }

    /// An output, truncated. The omitted length is counted from the limit on, even if the limit splits a character.
    fn output(&self, output: &str) -> String {
        let Some(units) = self.detail.output_units else { return data(output).into_owned() };
        match truncated(output, units) {
            (_, false) => data(output).into_owned(),
            (kept, true) => {
                let left_out = tokens::length(LengthUnit::Utf16, output).saturating_sub(units);
                let marker = self.rules.output_marker.replace("{omitted}", &left_out.to_string());
                format!("{}{marker}", data(kept))
            }
        }
    }

    /// A call's input as compact JSON, truncated if needed.
    fn input(&self, call: &ToolCall) -> String {
        let json = match serde_json::from_str::<Value>(&call.input_json) {
            Ok(value) => script_json(&value),
            Err(_) if call.input_json.trim().is_empty() => "{}".to_owned(),
            Err(_) => call.input_json.clone(),
        };
        self.shortened(json)
    }

    /// A call as a function with named arguments.
    fn function(&self, call: &ToolCall) -> String {
        let arguments = match serde_json::from_str::<Value>(&call.input_json) {
            Ok(Value::Object(fields)) => {
                let argument = |(name, value): (&String, &Value)| format!("{name}={}", script_json(value));
                fields.iter().map(argument).collect::<Vec<_>>().join(", ")
            }
            Ok(Value::Null) => String::new(),
            Ok(_) | Err(_) => call.input_json.clone(),
        };
        format!("{}({})", data(&call.tool), data(&self.shortened(arguments)))
    }

    fn shortened(&self, text: String) -> String {
        match self.detail.input_units.map(|units| truncated(&text, units)) {
            Some((kept, true)) => format!("{kept} [truncated]"),
            Some((_, false)) | None => text,
        }
    }
}

/// True if a prune mark is on the part.
fn is_pruned(source: &SourceMessage, part: &Part) -> bool {
    source.pruned_part(part.id).is_some()
}

/// The text of a text part or a marker; none if it is empty.
fn body_text(body: &PartBody) -> Option<&str> {
    match body {
        PartBody::Text(text) if !text.is_empty() => Some(text),
        PartBody::Marker(marker) if !marker.text.is_empty() => Some(&marker.text),
        PartBody::Text(_)
        | PartBody::Marker(_)
        | PartBody::Reasoning(_)
        | PartBody::ToolCall(_)
        | PartBody::ToolResult(_)
        | PartBody::Media(_)
        | PartBody::Step(_)
        | PartBody::Opaque(_)
        | PartBody::Record(_) => None,
    }
}

/// The same, but with empty text parts.
fn any_words(body: &PartBody) -> Option<&str> {
    match body {
        PartBody::Text(text) => Some(text),
        PartBody::Marker(marker) if !marker.text.is_empty() => Some(&marker.text),
        PartBody::Marker(_)
        | PartBody::Reasoning(_)
        | PartBody::ToolCall(_)
        | PartBody::ToolResult(_)
        | PartBody::Media(_)
        | PartBody::Step(_)
        | PartBody::Opaque(_)
        | PartBody::Record(_) => None,
    }
}

/// The text of a reasoning part.
fn thought(body: &PartBody) -> Option<&str> {
    match body {
        PartBody::Reasoning(text) => Some(text),
        _ => None,
    }
}

/// A value as JavaScript's `JSON.stringify` writes it, except for numbers too large or too small for plain digits.
fn script_json(value: &Value) -> String {
    match value {
        Value::Number(number) => match number.as_f64() {
            // A whole number has no fraction there, in whatever form it was written.
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e21 => {
                format!("{}", float + 0.0)
            }
            Some(_) | None => number.to_string(),
        },
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(script_json).collect();
            format!("[{}]", values.join(","))
        }
        Value::Object(fields) => {
            let field =
                |(name, value): (&String, &Value)| format!("{}:{}", Value::String(name.clone()), script_json(value));
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(","))
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value.to_string(),
    }
}
