//! The entries that a message becomes.

use super::super::session::{Message, speaker};
use super::Writer;
use super::kind::Kind;
use crate::compose::{ObjectWriter, base64, image, input_object, list, one_line, string_in};
use crate::raw::Object;
use longhand_model::message::{FinishReason, MessageKind, Role};
use longhand_model::part::{Media, NewPart, PartBody, ToolResult};
use longhand_model::usage::Usage;

impl Writer<'_> {
    /// Writes the entries of a message.
    pub(super) fn compose(&mut self, index: usize, message: &Message) {
        match message.kind {
            MessageKind::Summary => self.compaction_entry(message),
            MessageKind::Edit | MessageKind::Replay => self.edit(message),
            MessageKind::Branch => {
                let from = self.out.iter().rev().find_map(|line| Object::parse(&line.text, 1).ok()?.id("id"));
                let from = from.unwrap_or_else(|| "root".to_owned());
                let members = ObjectWriter::default().text("fromId", &from).text("summary", &message.text());
                self.add("branch_summary", members, message, Kind::Other);
            }
            _ => {
                if message.finish.is_none() {
                    self.report.note("open messages, which are written as far as they are");
                }
                self.segments(index, message);
            }
        }
    }

    fn add(&mut self, kind: &str, members: ObjectWriter, message: &Message, own: Kind) {
        let first = self.entries_of.get(&message.id).and_then(|entries| entries.first()).map(|(id, _)| id.clone());
        let id = match first {
            Some(first) => self.claim(&first),
            None => self.own_id(message),
        };
        self.entries_of.entry(message.id.clone()).or_default().push((id.clone(), own));
        self.entry(kind, id, members, message, message.revision);
    }

    fn compaction_entry(&mut self, summary: &Message) {
        let Some(made) = self.session.compaction_of(summary) else { return };
        let messages = &self.session.messages;
        let tail = made.tail_start.as_ref().and_then(|tail| messages.iter().find(|message| message.id == *tail));
        let kept = messages
            .iter()
            .filter(|message| tail.is_some_and(|tail| (tail.revision..summary.revision).contains(&message.revision)));
        let mut kept = kept.filter_map(|message| self.entries_of.get(&message.id)?.first());
        let first = kept.find(|(id, _)| self.path.iter().any(|entry| entry.id == *id)).map(|(id, _)| id.clone());
        let own = self.own_id(summary);
        let members = ObjectWriter::default()
            .text("summary", &summary.text())
            .text("firstKeptEntryId", first.as_ref().unwrap_or(&own))
            .value("tokensBefore", made.tokens_before)
            .value("fromHook", true);
        self.entry("compaction", own, members, summary, summary.revision);
        let before = |message: &&Message| {
            let is_shown = message.status.state == longhand_model::message::MessageState::Active;
            message.kind == MessageKind::Normal
                && is_shown
                && message.revision < tail.map_or(summary.revision, |tail| tail.revision)
        };
        let is_active = summary.status.state == longhand_model::message::MessageState::Active;
        for message in messages.iter().filter(|_| is_active).filter(before) {
            self.report.note(format!("{} messages that the view shows before a summary", speaker(message)));
        }
    }

    /// Writes the edits of the target's entries.
    fn edit(&mut self, edit: &Message) {
        let Some(target) = self.target(edit) else { return };
        for (id, kind) in self.entries_of.get(&target.id).cloned().unwrap_or_default() {
            if !self.path.iter().any(|entry| entry.id == id) {
                continue;
            }
            let content = match &kind {
                Kind::Words => self.content(edit),
                Kind::Result(call) => edit.parts.iter().find_map(|part| match &*part.body {
                    PartBody::ToolResult(result) if result.call_id == *call => Some(outputs(result)),
                    _ => None,
                }),
                Kind::Other => {
                    self.report.note(format!("edits of {} messages", speaker(target)));
                    continue;
                }
            };
            let replacement = content.map_or_else(|| "null".to_owned(), |content| format!("{{\"content\":{content}}}"));
            let members = ObjectWriter::default().text("targetId", &id).json("replacement", replacement);
            let own = self.own_id(edit);
            self.entry("context_edit", own, members, edit, edit.revision);
        }
    }

    /// The content of a replacement without results; none if nothing is left.
    fn content(&mut self, message: &Message) -> Option<String> {
        let parts: Vec<_> = message.parts.iter().collect();
        let blocks = self.blocks(message, &parts);
        (!blocks.is_empty()).then(|| list(&blocks))
    }

    /// Writes the parts of a message: each result is an entry of its own, with the parts around it in others.
    fn segments(&mut self, index: usize, message: &Message) {
        let mut words: Vec<&NewPart> = Vec::new();
        let mut wrote = false;
        for part in &message.parts {
            let PartBody::ToolResult(result) = &*part.body else {
                words.push(part);
                continue;
            };
            if !words.is_empty() {
                self.words(message, &std::mem::take(&mut words), false);
            }
            self.result(index, message, result);
            wrote = true;
        }
        if !words.is_empty() || !wrote {
            self.words(message, &words, true);
        }
    }

    fn words(&mut self, message: &Message, parts: &[&NewPart], is_last: bool) {
        let blocks = self.blocks(message, parts);
        let millis = message.time.as_millis();
        let content = match (parts, message.role) {
            ([only], Role::User | Role::System) => match &*only.body {
                PartBody::Text(text) => crate::raw::quote(text),
                _ => list(&blocks),
            },
            _ => list(&blocks),
        };
        let is_note = message.role == Role::User && (message.is_note() || message.kind == MessageKind::Continuation);
        if is_note {
            let name = if message.kind == MessageKind::Continuation { "longhand.continuation" } else { "note" };
            let members =
                ObjectWriter::default().text("customType", name).json("content", content).value("display", true);
            return self.add("custom_message", members, message, Kind::Words);
        }
        let composed = match message.role {
            Role::User | Role::Tool => ObjectWriter::default().text("role", "user").json("content", content),
            Role::System => ObjectWriter::default().text("role", "system").json("content", content),
            Role::Assistant => reply(message, parts, content, is_last),
        };
        let kind = if message.role == Role::System { Kind::Other } else { Kind::Words };
        let members = ObjectWriter::default().json("message", composed.value("timestamp", millis).end());
        self.add("message", members, message, kind);
    }

    fn result(&mut self, index: usize, message: &Message, result: &ToolResult) {
        for media in result.attachments.iter().filter(|media| image(media).is_none()) {
            self.report.note(media_kind(media));
        }
        let composed = ObjectWriter::default()
            .text("role", "toolResult")
            .text("toolCallId", &result.call_id)
            .text("toolName", tool_name(&self.session.messages[..=index], &result.call_id))
            .json("content", outputs(result))
            .value("isError", result.status != longhand_model::part::ResultStatus::Completed)
            .value("timestamp", message.time.as_millis());
        let members = ObjectWriter::default().json("message", composed.end());
        self.add("message", members, message, Kind::Result(result.call_id.clone()));
    }

    fn blocks(&mut self, message: &Message, parts: &[&NewPart]) -> Vec<String> {
        let is_pi = string_in(message.metadata_json.as_deref(), "format").as_deref() == Some("pi");
        parts.iter().filter_map(|part| self.block(message, part, is_pi)).collect()
    }

    fn block(&mut self, message: &Message, part: &NewPart, is_pi: bool) -> Option<String> {
        let metadata = part.metadata_json.as_deref();
        let members = metadata.filter(|_| is_pi);
        let block = ObjectWriter::default();
        let is_reply = message.role == Role::Assistant;
        let block = match &*part.body {
            PartBody::Text(text) => block.text("type", "text").text("text", text),
            PartBody::Marker(marker) if !marker.text.is_empty() => {
                block.text("type", "text").text("text", &marker.text)
            }
            PartBody::Reasoning(text) if is_reply => {
                let block = block.text("type", "thinking").text("thinking", text);
                match crate::compose::signature(metadata).filter(|_| !is_pi) {
                    Some(signature) => block.text("thinkingSignature", &signature),
                    None => block,
                }
            }
            PartBody::ToolCall(call) if is_reply => {
                let input = input_object(&call.input_json).unwrap_or_else(|| {
                    self.report.note("inputs that are no JSON object, which are a text in the file");
                    ObjectWriter::default().text("input", &call.input_json).end()
                });
                block
                    .text("type", "toolCall")
                    .text("id", &call.call_id)
                    .text("name", &call.tool)
                    .json("arguments", input)
            }
            PartBody::Media(media) => match image(media) {
                Some(bytes) => {
                    block.text("type", "image").json("data", base64(bytes)).text("mimeType", &media.mime_type)
                }
                None => {
                    self.report.note(media_kind(media));
                    return None;
                }
            },
            PartBody::Opaque(opaque) if is_pi => {
                let data = std::str::from_utf8(&opaque.data).ok().filter(|data| Object::parse(data, 1).is_ok());
                return data.map(one_line);
            }
            PartBody::Opaque(opaque) => {
                self.report.note(format!("blocks of {} of kind {}", opaque.provider, opaque.kind));
                return None;
            }
            PartBody::Marker(_) => return None,
            other => {
                self.report.note(format!("{} parts of {} messages", other.kind(), speaker(message)));
                return None;
            }
        };
        Some(block.members(members, &["type", "text", "thinking", "id", "name", "arguments", "data", "mimeType"]).end())
    }
}

fn media_kind(media: &Media) -> String {
    let kind = if matches!(media.source, longhand_model::part::MediaSource::Uri(_)) { "addresses of " } else { "" };
    format!("{kind}media of type {}", media.mime_type)
}

/// The content of a result.
fn outputs(result: &ToolResult) -> String {
    let mut blocks = Vec::new();
    if !result.output.is_empty() || result.attachments.iter().all(|media| image(media).is_none()) {
        blocks.push(ObjectWriter::default().text("type", "text").text("text", &result.output).end());
    }
    for media in &result.attachments {
        if let Some(bytes) = image(media) {
            let block = ObjectWriter::default().text("type", "image").json("data", base64(bytes));
            blocks.push(block.text("mimeType", &media.mime_type).end());
        }
    }
    list(&blocks)
}

/// The tool of the newest call with an id.
fn tool_name<'a>(messages: &'a [Message], call_id: &str) -> &'a str {
    let parts = messages.iter().rev().flat_map(|message| message.parts.iter().rev());
    let calls = parts.filter_map(|part| match &*part.body {
        PartBody::ToolCall(call) if call.call_id == call_id => Some(call.tool.as_str()),
        _ => None,
    });
    calls.into_iter().next().unwrap_or("unknown")
}

/// The members of a reply without its time.
fn reply(message: &Message, parts: &[&NewPart], content: String, is_last: bool) -> ObjectWriter {
    let finish = message.finish.as_ref();
    let has_calls = parts.iter().any(|part| matches!(&*part.body, PartBody::ToolCall(_)));
    let reason = finish.map(|finish| finish.reason).filter(|_| is_last);
    let stop_reason = match reason {
        _ if !is_last => "toolUse",
        None => "aborted",
        Some(Some(FinishReason::Stop)) => "stop",
        Some(Some(FinishReason::ToolCalls)) => "toolUse",
        Some(Some(FinishReason::Length)) => "length",
        Some(Some(FinishReason::ContentFilter | FinishReason::Error)) => "error",
        Some(Some(FinishReason::Aborted)) => "aborted",
        Some(None) if has_calls => "toolUse",
        Some(None) => "stop",
    };
    let usage = finish.and_then(|finish| finish.usage).filter(|_| is_last).unwrap_or_default();
    let provider = if message.provider.is_empty() { "unknown" } else { &message.provider };
    let reply = ObjectWriter::default()
        .text("role", "assistant")
        .json("content", content)
        .text("api", interface(provider))
        .text("provider", provider)
        .text("model", if message.model.is_empty() { "unknown" } else { &message.model })
        .json("usage", usage_json(usage))
        .text("stopReason", stop_reason);
    let detail = finish.map(|finish| finish.detail.as_str()).unwrap_or_default();
    if is_last && !detail.is_empty() { reply.text("errorMessage", detail) } else { reply }
}

/// pi's name of the interface of a provider.
fn interface(provider: &str) -> &'static str {
    match provider {
        "anthropic" => "anthropic-messages",
        "openai" => "openai-responses",
        "google" => "google-generative-ai",
        _ => "openai-completions",
    }
}

fn usage_json(usage: Usage) -> String {
    // What nobody reported is no figure of the agent's.
    let usage = usage.as_reported();
    let total = usage.total.unwrap_or_else(|| usage.prompt_tokens().saturating_add(usage.output));
    let cost = ObjectWriter::default()
        .value("input", 0)
        .value("output", 0)
        .value("cacheRead", 0)
        .value("cacheWrite", 0)
        .value("total", usage.cost_usd.unwrap_or_default());
    ObjectWriter::default()
        .value("input", usage.input)
        .value("output", usage.output.saturating_add(usage.reasoning))
        .value("cacheRead", usage.cache_read)
        .value("cacheWrite", usage.cache_write)
        .value("totalTokens", total)
        .json("cost", cost.end())
        .end()
}
