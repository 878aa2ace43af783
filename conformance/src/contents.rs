//! Conversations as the contents of a request to Gemini, the form in which Gemini CLI and Qwen Code store them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use longhand::model::layout::Placement;
use longhand::model::message::{FinishReason, MessageKind, Role};
use longhand::model::part::{Media, MediaSource, PartBody, ResultStatus, ToolResult};
use longhand::model::view::{SourceMessage, ViewMessage};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// A list of contents.
#[derive(Debug, Clone, Default)]
pub(crate) struct Contents {
    list: Vec<Content>,
    /// True if calls include their ids, as some providers' calls do.
    call_ids: bool,
    tools: HashMap<String, String>,
}

#[derive(Debug, Clone)]
struct Content {
    role: &'static str,
    parts: Vec<Value>,
    /// Index of its first message.
    message: usize,
}

impl Content {
    fn only_results(&self) -> bool {
        self.parts.iter().all(|part| part.get("functionResponse").is_some())
    }
}

impl Contents {
    /// The contents of stored messages. A message without text, calls, results or media has none, and consecutive
    /// results share one.
    pub(crate) fn of(messages: &[SourceMessage]) -> Self {
        let mut contents = Self::default();
        contents.add_all(messages);
        contents
    }

    /// The same with the ids of calls, which distinguish results.
    pub(crate) fn with_call_ids(messages: &[SourceMessage]) -> Self {
        let mut contents = Self { call_ids: true, ..Self::default() };
        contents.add_all(messages);
        contents
    }

    /// The contents of a view.
    pub(crate) fn of_view(messages: &[ViewMessage]) -> Self {
        let mut contents = Self::default();
        for (index, message) in messages.iter().enumerate() {
            contents.add(index, message.role, message.parts.iter().map(|part| &*part.body));
        }
        contents
    }

    /// The contents of some messages of a view, with the ids of calls.
    pub(crate) fn of_some<'a>(messages: impl Iterator<Item = &'a ViewMessage>) -> Self {
        let mut contents = Self { call_ids: true, ..Self::default() };
        for (index, message) in messages.enumerate() {
            contents.add(index, message.role, message.parts.iter().map(|part| &*part.body));
        }
        contents
    }

    /// Number of contents.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// The contents as JSON.
    pub(crate) fn json(&self) -> Vec<Value> {
        self.list.iter().map(|content| json!({ "role": content.role, "parts": content.parts })).collect()
    }

    /// The parts of all contents as JSON.
    pub(crate) fn parts(&self) -> Vec<Value> {
        self.list.iter().flat_map(|content| content.parts.clone()).collect()
    }

    /// The part with the result of a call; null if there is none.
    pub(crate) fn response_of(&self, call_id: &str) -> Value {
        let mut parts = self.list.iter().flat_map(|content| &content.parts);
        parts.find(|part| part["functionResponse"]["id"] == call_id).cloned().unwrap_or_default()
    }

    /// The parts of the contents that begin with this message or a later one.
    pub(crate) fn parts_since(&self, message: usize) -> Vec<Value> {
        self.list
            .iter()
            .filter(|content| content.message >= message)
            .flat_map(|content| content.parts.clone())
            .collect()
    }

    /// The message index of a boundary before the content with this index. The index after the last content means the
    /// number of messages.
    pub(crate) fn message(&self, index: usize, messages: usize) -> usize {
        self.list.get(index).map_or(messages, |content| content.message)
    }

    /// Number of contents that begin with an earlier message.
    pub(crate) fn before(&self, message: usize) -> usize {
        self.list.iter().take_while(|content| content.message < message).count()
    }

    fn add_all(&mut self, messages: &[SourceMessage]) {
        for (index, source) in messages.iter().enumerate() {
            self.add(index, source.message.role, source.message.parts.iter().map(|part| &*part.body));
        }
    }

    fn add<'a>(&mut self, message: usize, role: Role, bodies: impl Iterator<Item = &'a PartBody>) {
        let mut own: Vec<Content> = Vec::new();
        for body in bodies.filter(|body| says_something(body)) {
            if let PartBody::ToolCall(call) = body {
                self.tools.insert(call.call_id.clone(), call.tool.clone());
            }
            let is_result = matches!(body, PartBody::ToolResult(_));
            let role = if role == Role::Assistant && !is_result { "model" } else { "user" };
            let part = self.part(body);
            match own.last_mut().filter(|last| last.role == role) {
                Some(last) => last.parts.push(part),
                None => own.push(Content { role, parts: vec![part], message }),
            }
        }
        for content in own {
            match self.list.last_mut().filter(|last| last.only_results() && content.only_results()) {
                Some(last) => last.parts.extend(content.parts),
                None => self.list.push(content),
            }
        }
    }

    fn part(&self, body: &PartBody) -> Value {
        match body {
            PartBody::Text(text) => json!({ "text": text }),
            PartBody::Reasoning(text) => json!({ "text": text, "thought": true }),
            PartBody::ToolCall(call) => {
                let input: Value = serde_json::from_str(&call.input_json).unwrap_or_default();
                let mut named = json!({ "name": call.tool, "args": input });
                if self.call_ids {
                    named["id"] = json!(call.call_id);
                }
                json!({ "functionCall": named })
            }
            PartBody::ToolResult(result) => self.response(result),
            PartBody::Media(media) => media_part(media),
            PartBody::Marker(marker) => json!({ "text": marker.text }),
            PartBody::Step(_) | PartBody::Opaque(_) | PartBody::Record(_) => json!({ "text": "" }),
        }
    }

    fn response(&self, result: &ToolResult) -> Value {
        let field = match result.status {
            ResultStatus::Completed => "output",
            ResultStatus::Error | ResultStatus::Interrupted => "error",
        };
        let mut response = json!({ "id": result.call_id, "response": { field: result.output } });
        if let Some(tool) = self.tools.get(&result.call_id) {
            response["name"] = json!(tool);
        }
        if !result.attachments.is_empty() {
            response["parts"] = result.attachments.iter().map(media_part).collect();
        }
        json!({ "functionResponse": response })
    }
}

/// True for a reply that the agent's history keeps.
pub(crate) fn is_reply(source: &SourceMessage) -> bool {
    source.message.role == Role::Assistant && source.message.finish.reason != Some(FinishReason::Error)
}

/// Number of messages in the history when the agent made its decision: those up to the last reply. Agents add
/// unanswered messages only when they send them.
pub(crate) fn read(messages: &[SourceMessage]) -> usize {
    let spoken = messages.iter().any(|source| source.message.role == Role::Assistant);
    let last = messages.iter().rposition(is_reply);
    last.map_or(if spoken { 0 } else { messages.len() }, |reply| reply + 1)
}

fn says_something(body: &PartBody) -> bool {
    match body {
        PartBody::Text(text) | PartBody::Reasoning(text) => !text.is_empty(),
        PartBody::Marker(marker) => !marker.text.is_empty(),
        PartBody::ToolCall(_) | PartBody::ToolResult(_) | PartBody::Media(_) => true,
        PartBody::Step(_) | PartBody::Opaque(_) | PartBody::Record(_) => false,
    }
}

fn media_part(media: &Media) -> Value {
    match &media.source {
        MediaSource::Bytes(bytes) => {
            json!({ "inlineData": { "mimeType": media.mime_type, "data": STANDARD.encode(bytes) } })
        }
        MediaSource::Uri(uri) => json!({ "fileData": { "mimeType": media.mime_type, "fileUri": uri } }),
    }
}

/// Contents without the error results, with this text, that Longhand adds to calls without a result.
pub(crate) fn without_made_up(contents: &[Value], words: &str) -> Vec<Value> {
    let made_up = json!(words);
    let is_made_up = |part: &Value| part["functionResponse"]["response"]["error"] == made_up;
    let bare = contents.iter().filter_map(|content| {
        let parts = content["parts"].as_array().into_iter().flatten();
        let parts: Vec<&Value> = parts.filter(|part| !is_made_up(part)).collect();
        (!parts.is_empty()).then(|| json!({ "role": content["role"], "parts": parts }))
    });
    bare.collect()
}

/// Shortens the outputs of failed results, because agents that truncate JSON in the middle would truncate these.
pub(crate) fn with_short_failures(mut messages: Vec<SourceMessage>) -> Vec<SourceMessage> {
    for part in messages.iter_mut().flat_map(|source| &mut source.message.parts) {
        if let PartBody::ToolResult(result) = Arc::make_mut(&mut part.body)
            && result.status != ResultStatus::Completed
        {
            result.output = result.output.chars().take(FAILURE_CHARACTERS).collect();
        }
    }
    messages
}

/// Maximum number of characters in a failed result.
const FAILURE_CHARACTERS: usize = 40;

/// An active summary, to be placed before a conversation.
pub(crate) fn summary(messages: &[SourceMessage], text: String) -> Option<SourceMessage> {
    let mut source = messages.iter().find(|source| source.message.role == Role::Assistant)?.clone();
    source.message.revision = messages.len() as i64 + 1;
    source.message.kind = MessageKind::Summary;
    source.message.parts.truncate(1);
    source.message.parts.first_mut()?.body = PartBody::Text(text).into();
    source.placement = Some(Placement::Summary);
    Some(source)
}
