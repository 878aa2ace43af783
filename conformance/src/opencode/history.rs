//! Histories on both sides: Longhand keeps messages and a boundary, OpenCode keeps messages alone.

use super::policy;
use crate::generate::Conversation;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use longhand::model::layout::{Layout, Placement};
use longhand::model::message::{FinishReason, Role};
use longhand::model::part::{Answers, Media, MediaSource, Part, PartBody, ResultStatus, ToolResult};
use longhand::model::view::SourceMessage;
use longhand::policy::plan::{self, Boundary};
use rand::Rng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};
use std::collections::HashSet;

/// A history on both sides: plain messages, and the compactions made in it.
#[derive(Debug, Clone)]
pub(super) struct History {
    pub(super) messages: Vec<SourceMessage>,
    pub(super) compactions: Vec<Compaction>,
}

/// A compaction made before `messages[at]` that kept the messages from `tail` on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compaction {
    pub(super) at: usize,
    /// None if everything was summarized.
    pub(super) tail: Option<usize>,
}

impl Compaction {
    pub(super) fn tail_start(self) -> usize {
        self.tail.unwrap_or(self.at)
    }
}

impl History {
    /// The conversation with up to `compactions_max` compactions. A tail never begins between a reply and its results,
    /// and never before the previous compaction's tail.
    pub(super) fn draw(conversation: &Conversation, compactions_max: usize) -> Self {
        let mut messages = conversation.messages.clone();
        // Leaves space in the order of revisions for the messages of a compaction.
        for source in &mut messages {
            source.message.revision *= 10;
            source.message.sealed_revision = Some(source.message.revision);
        }
        let mut history = Self { messages, compactions: Vec::new() };
        let mut dice = conversation.dice("compactions");
        let count = if dice.random_range(0..100) < 60 { 0 } else { compactions_max };
        let mut from = 1;
        let mut tail_from = 0;
        for _ in 0..count {
            let positions: Vec<usize> =
                (from..history.messages.len()).filter(|&at| history.messages[at].message.role == Role::User).collect();
            let Some(&at) = positions.choose(&mut dice) else { break };
            let tails: Vec<usize> =
                (tail_from.max(1)..at).filter(|&tail| history.messages[tail].message.role != Role::Tool).collect();
            let tail = tails.choose(&mut dice).copied().filter(|_| dice.random_bool(0.8));
            let compaction = Compaction { at, tail };
            tail_from = compaction.tail_start() + 1;
            from = at + 1;
            history.compactions.push(compaction);
        }
        history
    }

    /// The messages of a view.
    pub(super) fn sources(&self) -> Vec<SourceMessage> {
        let Some(last) = self.compactions.last() else { return self.messages.clone() };
        let tail_start = self.messages[last.tail_start()].message.revision;
        let boundary = Boundary { tail_start, retained: &[], retained_first: false };
        let text = summary_text(self.compactions.len() - 1);
        let layout = Layout::everything();
        let mut sources = plan::with_summary(&policy(), &layout, &self.messages, &boundary, &text, &[]);
        // The marker and the summary are positioned where the compaction was made.
        let at = self.messages[last.at].message.revision;
        for source in &mut sources {
            match source.placement {
                Some(Placement::Marker) => source.message.revision = at - 2,
                Some(Placement::Summary) => source.message.revision = at - 1,
                Some(
                    Placement::Pinned
                    | Placement::Retained
                    | Placement::Edit(_)
                    | Placement::Continuation
                    | Placement::Block,
                )
                | None => {}
            }
        }
        sources
    }

    /// The messages in OpenCode's form, and the position of each of ours among them.
    pub(super) fn in_opencode(&self) -> (Vec<Value>, Vec<usize>) {
        let mut written: Vec<Value> = Vec::new();
        let mut positions: Vec<usize> = Vec::new();
        for (index, source) in self.messages.iter().enumerate() {
            for (number, compaction) in self.compactions.iter().enumerate().filter(|(_, it)| it.at == index) {
                let marker = compaction.tail.map_or(
                    json!({"type": "compaction"}),
                    |tail| json!({"type": "compaction", "tail": positions[tail]}),
                );
                written.push(json!({"role": "user", "parts": [marker]}));
                written.push(json!({"role": "assistant", "finish": "stop", "summary": true,
                    "parts": [{"type": "text", "text": summary_text(number)}]}));
            }
            if source.message.role == Role::Tool {
                // The results were written with their calls.
                positions.push(written.len() - 1);
                continue;
            }
            positions.push(written.len());
            written.push(message(source, self.messages.get(index + 1)));
        }
        (written, positions)
    }
}

pub(super) fn summary_text(number: usize) -> String {
    format!("Summary number {number}.")
}

/// A message in OpenCode's form; the results of its calls are its own, or those of the tool message after it.
pub(super) fn message(source: &SourceMessage, next: Option<&SourceMessage>) -> Value {
    let behind = next.filter(|next| next.message.role == Role::Tool);
    let results: Vec<(&ToolResult, bool)> = [Some(source), behind]
        .into_iter()
        .flatten()
        .flat_map(|source| source.message.parts.iter().map(move |part| (source, part)))
        .filter_map(|(source, part)| match &*part.body {
            PartBody::ToolResult(result) => Some((result, source.pruned_part(part.id).is_some())),
            _ => None,
        })
        .collect();
    let is_model = source.message.role == Role::Assistant;
    let mut parts: Vec<Value> = if is_model { vec![json!({"type": "step-start"})] } else { Vec::new() };
    for part in &source.message.parts {
        match &*part.body {
            PartBody::Text(text) if !text.is_empty() => parts.push(json!({"type": "text", "text": text})),
            PartBody::Reasoning(text) if !text.is_empty() => parts.push(json!({"type": "reasoning", "text": text})),
            PartBody::Media(media) => parts.push(file(media)),
            PartBody::ToolCall(call) => {
                let input: Value = serde_json::from_str(&call.input_json).unwrap_or(Value::Null);
                let mut tool = json!({"type": "tool", "tool": call.tool, "call": call.call_id, "input": input});
                match results.iter().find(|(result, _)| result.call_id == call.call_id) {
                    Some((result, pruned)) => {
                        let is_done = result.status == ResultStatus::Completed;
                        tool["status"] = json!(if is_done { "completed" } else { "error" });
                        tool["output"] = text_or_size(&result.output);
                        tool["compacted"] = json!(pruned);
                        tool["attachments"] = result.attachments.iter().map(file).collect();
                    }
                    None => tool["status"] = json!("running"),
                }
                parts.push(tool);
            }
            _ => {}
        }
    }
    if !is_model {
        return json!({"role": "user", "parts": parts});
    }
    let mut written = json!({"role": "assistant", "parts": parts});
    match source.message.finish.reason {
        Some(FinishReason::Error) => {
            written["finish"] = json!("error");
            written["error"] = json!({"name": "UnknownError", "data": {"message": "It failed."}});
        }
        Some(FinishReason::Aborted) => {
            written["error"] = json!({"name": "MessageAbortedError", "data": {"message": "It was stopped."}});
        }
        Some(FinishReason::ToolCalls) => written["finish"] = json!("tool-calls"),
        _ => written["finish"] = json!("stop"),
    }
    written
}

/// A media item. One that is a URI has no bytes here.
pub(super) fn file(media: &Media) -> Value {
    let bytes = match &media.source {
        MediaSource::Bytes(bytes) => STANDARD.encode(bytes),
        MediaSource::Uri(_) => String::new(),
    };
    let url = format!("data:{};base64,{bytes}", media.mime_type);
    let mut file = json!({"type": "file", "mime": media.mime_type, "url": url});
    if !media.name.is_empty() {
        file["filename"] = json!(media.name);
    }
    file
}

/// A long output of one repeated letter is sent as its length.
fn text_or_size(text: &str) -> Value {
    let is_fill = text.len() > 1_000 && text.bytes().all(|byte| byte == b'x');
    if is_fill { json!({"repeat": "x", "chars": text.len()}) } else { json!(text) }
}

/// True if OpenCode leaves out a reply: it failed, or was stopped with nothing but reasoning.
pub(super) fn is_failed(source: &SourceMessage) -> bool {
    let has_content = |part: &Part| match &*part.body {
        PartBody::Text(text) => !text.is_empty(),
        body => matches!(body, PartBody::ToolCall(_)),
    };
    match source.message.finish.reason {
        Some(FinishReason::Error) => true,
        Some(FinishReason::Aborted) => !source.message.parts.iter().any(has_content),
        _ => false,
    }
}

/// Gives calls without a result the result that a view shows, except in the last message. It is added to the other
/// results of the reply: OpenCode keeps them all in one message, and estimates one list of results.
pub(super) fn close_calls(messages: &mut [SourceMessage], with_last: bool) {
    let answered: HashSet<String> = messages
        .iter()
        .flat_map(|source| &source.message.parts)
        .filter_map(|part| match &*part.body {
            PartBody::ToolResult(result) => Some(result.call_id.clone()),
            _ => None,
        })
        .collect();
    let end = if with_last { messages.len() } else { messages.len().saturating_sub(1) };
    for at in 0..end {
        let open: Vec<_> = messages[at]
            .message
            .parts
            .iter()
            .filter_map(|part| match &*part.body {
                PartBody::ToolCall(call) if !answered.contains(&call.call_id) => {
                    Some((part.clone(), call.call_id.clone()))
                }
                _ => None,
            })
            .collect();
        for (mut part, call_id) in open {
            part.id.0 = uuid::Uuid::from_u128(part.id.0.as_u128() + (1 << 100));
            part.body = PartBody::ToolResult(ToolResult {
                call_id,
                answers: Answers::Nearest,
                status: ResultStatus::Interrupted,
                output: policy().view.interrupted_text,
                attachments: Vec::new(),
                start_time: None,
                end_time: None,
            })
            .into();
            let behind = messages.get(at + 1).is_some_and(|next| next.message.role == Role::Tool);
            messages[at + usize::from(behind)].message.parts.push(part);
        }
    }
}
