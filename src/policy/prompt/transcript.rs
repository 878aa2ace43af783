//! History as text: one entry a message, in the words of the agent whose policy it is.

use super::cut;
use crate::model::message::{MessageKind, Role};
use crate::model::part::{Media, Part, PartBody, ResultStatus, ToolCall, ToolResult};
use crate::model::view::SourceMessage;
use crate::policy::{LengthUnit, Summary, tokens};
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// Whose way of writing a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// OpenCode's: a result right behind its call, reasoning and attachments named, cleared outputs by placeholder.
    OpenCode,
    /// pi's: results where they stand, calls as functions with named arguments, no reasoning, no media.
    Pi,
}

impl Style {
    /// The style that goes with the rules of a summary: only pi gives the front of a split turn a summary of its own.
    pub fn of(rules: &Summary) -> Self {
        if rules.split_turn_heading.is_some() { Self::Pi } else { Self::OpenCode }
    }
}

/// How much of what tools were given and gave back is told, in UTF-16 units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Detail {
    /// Of an output.
    pub output_units: usize,
    /// Of an input; none: all of it.
    pub input_units: Option<usize>,
}

impl Detail {
    /// What both agents tell: outputs up to 2 000 characters, inputs whole.
    pub const FULL: Self = Self { output_units: 2_000, input_units: None };
    /// As little as is still worth telling.
    pub const LEAST: Self = Self { output_units: 120, input_units: Some(240) };
    /// What is tried in turn until the transcript fits.
    pub const LADDER: [Self; 3] = [Self::FULL, Self { output_units: 500, input_units: Some(1_000) }, Self::LEAST];
}

/// What OpenCode shows of an output that was cleared.
const CLEARED: &str = "[Old tool result content cleared]";

/// The entries of a transcript, oldest first. Messages in which there is nothing to tell have none.
pub fn entries(style: Style, detail: Detail, messages: &[&SourceMessage]) -> Vec<String> {
    let texts: Vec<String> = match style {
        Style::OpenCode => open_code(detail, messages),
        Style::Pi => messages.iter().flat_map(|source| pi(detail, source)).collect(),
    };
    texts.into_iter().filter(|text| !text.is_empty()).collect()
}

/// The entries as OpenCode writes them: every result stands behind its call, wherever it came.
fn open_code(detail: Detail, messages: &[&SourceMessage]) -> Vec<String> {
    let mut results: HashMap<&str, (&ToolResult, bool)> = HashMap::new();
    let mut calls: HashSet<&str> = HashSet::new();
    for source in messages {
        for part in &source.message.parts {
            match &part.body {
                PartBody::ToolCall(call) => _ = calls.insert(call.call_id.as_str()),
                PartBody::ToolResult(result) => {
                    results.insert(result.call_id.as_str(), (result, is_cleared(source, part)));
                }
                PartBody::Text(_)
                | PartBody::Reasoning(_)
                | PartBody::Media(_)
                | PartBody::Marker(_)
                | PartBody::Step(_)
                | PartBody::Opaque(_)
                | PartBody::Record(_) => {}
            }
        }
    }
    let entry = |source: &&SourceMessage| {
        let mut lines = Vec::new();
        let mut attached = Vec::new();
        if source.message.role == Role::User {
            let texts: Vec<&str> = source.message.parts.iter().filter_map(|part| words(&part.body)).collect();
            if !texts.is_empty() {
                lines.push(format!("[User]: {}", texts.join("\n")));
            }
        }
        for part in &source.message.parts {
            match &part.body {
                PartBody::ToolCall(call) => {
                    lines.push(format!("[Assistant tool call]: {}({})", call.tool, input(detail, call)));
                    if let Some((result, cleared)) = results.get(call.call_id.as_str()) {
                        lines.push(open_code_result(detail, result, *cleared));
                    }
                }
                PartBody::ToolResult(result) if !calls.contains(result.call_id.as_str()) => {
                    lines.push(open_code_result(detail, result, is_cleared(source, part)));
                }
                PartBody::ToolResult(_) | PartBody::Step(_) | PartBody::Opaque(_) | PartBody::Record(_) => {}
                PartBody::Reasoning(text) if text.is_empty() => {}
                PartBody::Reasoning(text) => lines.push(format!("[Assistant reasoning]: {text}")),
                PartBody::Media(media) => attached.push(attachment(media)),
                PartBody::Text(_) | PartBody::Marker(_) => match (words(&part.body), source.message.role) {
                    (None, _) | (_, Role::User) => {}
                    (Some(text), Role::Assistant | Role::Tool) => lines.push(format!("[Assistant]: {text}")),
                    (Some(text), Role::System) => lines.push(format!("[System]: {text}")),
                },
            }
        }
        lines.extend(attached);
        lines.join("\n")
    };
    messages.iter().filter(|source| source.message.kind != MessageKind::Record).map(entry).collect()
}

/// Whether a prune mark took the part out of views.
fn is_cleared(source: &SourceMessage, part: &Part) -> bool {
    source.pruned_part(part.id).is_some()
}

/// What a text or a marker says, if anything.
fn words(body: &PartBody) -> Option<&str> {
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

fn attachment(media: &Media) -> String {
    let name = if media.name.is_empty() { "file" } else { &media.name };
    format!("[Attached {}: {name}]", media.mime_type)
}

fn open_code_result(detail: Detail, result: &ToolResult, cleared: bool) -> String {
    let label = match result.status {
        ResultStatus::Completed => "[Tool result]",
        ResultStatus::Error | ResultStatus::Interrupted => "[Tool error]",
    };
    if cleared {
        return format!("{label}: {CLEARED}");
    }
    let mut lines = vec![result.output.clone()];
    lines.extend(result.attachments.iter().map(attachment));
    let told = lines.join("\n");
    // OpenCode cuts what a tool gave back, and not why it failed.
    let is_cut = result.status == ResultStatus::Completed || detail != Detail::FULL;
    match cut(&told, detail.output_units) {
        (kept, true) if is_cut => format!("{label}: {kept}\n[truncated]"),
        _ => format!("{label}: {told}"),
    }
}

/// A call's input as compact JSON, cut if need be.
fn input(detail: Detail, call: &ToolCall) -> String {
    let json = match serde_json::from_str::<Value>(&call.input_json) {
        Ok(value) => script_json(&value),
        Err(_) if call.input_json.trim().is_empty() => "{}".to_owned(),
        Err(_) => call.input_json.clone(),
    };
    shortened(detail, json)
}

fn shortened(detail: Detail, text: String) -> String {
    match detail.input_units.map(|units| cut(&text, units)) {
        Some((kept, true)) => format!("{kept} [truncated]"),
        Some((_, false)) | None => text,
    }
}

/// The entries of one message as pi writes them.
fn pi(detail: Detail, source: &SourceMessage) -> Vec<String> {
    let message = &source.message;
    if message.kind == MessageKind::Record {
        return Vec::new();
    }
    let mut entries = Vec::new();
    let texts: Vec<&str> = message.parts.iter().filter_map(|part| pi_text(&part.body)).collect();
    match message.role {
        Role::User if texts.iter().all(|text| text.is_empty()) => {}
        Role::User => entries.push(format!("[User]: {}", texts.concat())),
        Role::Assistant if texts.is_empty() => {}
        Role::Assistant => entries.push(format!("[Assistant]: {}", texts.join("\n"))),
        // pi's results hold their texts themselves, and its system messages are no part of a transcript.
        Role::Tool | Role::System => {}
    }
    let calls: Vec<String> = message
        .parts
        .iter()
        .filter_map(|part| if let PartBody::ToolCall(call) = &part.body { Some(pi_call(detail, call)) } else { None })
        .collect();
    if !calls.is_empty() {
        entries.push(format!("[Assistant tool calls]: {}", calls.join("; ")));
    }
    for part in &message.parts {
        if let PartBody::ToolResult(result) = &part.body
            && !result.output.is_empty()
        {
            entries.push(format!("[Tool result]: {}", pi_output(detail, &result.output)));
        }
    }
    entries
}

fn pi_text(body: &PartBody) -> Option<&str> {
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

fn pi_call(detail: Detail, call: &ToolCall) -> String {
    let told = match serde_json::from_str::<Value>(&call.input_json) {
        Ok(Value::Object(fields)) => {
            let argument = |(name, value): (&String, &Value)| format!("{name}={}", script_json(value));
            fields.iter().map(argument).collect::<Vec<_>>().join(", ")
        }
        Ok(Value::Null) => String::new(),
        Ok(_) | Err(_) => call.input_json.clone(),
    };
    format!("{}({})", call.tool, shortened(detail, told))
}

/// An output as pi cuts it. What is left out is counted from the limit on, even where a character stood across it.
fn pi_output(detail: Detail, output: &str) -> String {
    match cut(output, detail.output_units) {
        (_, false) => output.to_owned(),
        (kept, true) => {
            let left_out = tokens::length(LengthUnit::Utf16, output).saturating_sub(detail.output_units);
            format!("{kept}\n\n[... {left_out} more characters truncated]")
        }
    }
}

/// A value as JavaScript's `JSON.stringify` writes it, but for numbers too large or too small for plain digits.
fn script_json(value: &Value) -> String {
    match value {
        Value::Number(number) => match number.as_f64() {
            // A whole number has no fraction there, however it was written.
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
