//! The AI SDK's stream of a `UIMessage`.

use super::format::{BLOCKS_MAX, CUT_OFF};
use super::reading::{Result, Unreadable, object};
use super::strings::Words;
use crate::compose::{ObjectWriter, list};
use crate::raw::{Object, quote};
use serde_json::value::RawValue;

/// True for a chunk of the stream. Parts of messages are none.
pub(super) fn is_chunk(chunk: &Object<'_>, kind: &str) -> bool {
    let is_of_stream = ["-start", "-delta", "-end", "-available", "-step"].iter().any(|end| kind.ends_with(end));
    chunk.get("role").is_none() && (is_of_stream || matches!(kind, "start" | "finish" | "abort" | "error"))
}

/// A part that is being streamed.
struct Part {
    kind: String,
    /// The id of a text, or of a tool's call.
    id: String,
    text: Words,
    /// Members, as JSON.
    members: Vec<(&'static str, String)>,
    /// A part that came whole.
    whole: Option<String>,
}

impl Part {
    fn new(kind: &str, id: String) -> Self {
        Self { kind: kind.to_owned(), id, text: Words::default(), members: Vec::new(), whole: None }
    }

    fn set(&mut self, name: &'static str, value: Option<&RawValue>) {
        let Some(value) = value else { return };
        self.members.retain(|(other, _)| *other != name);
        self.members.push((name, value.get().to_owned()));
    }

    fn state(&mut self, state: &str) {
        self.members.retain(|(name, _)| *name != "state");
        self.members.push(("state", quote(state)));
    }

    fn joined(self) -> String {
        if let Some(whole) = self.whole {
            return whole;
        }
        let part = ObjectWriter::default().text("type", &self.kind);
        let part = if is_words(&self.kind) {
            part.json("text", self.text.json())
        } else {
            let part = part.text("toolCallId", &self.id);
            let has_input = self.members.iter().any(|(name, _)| *name == "input");
            // The input of a call that was cut off is text.
            if has_input || self.text.is_empty() { part } else { part.json("input", self.text.json()) }
        };
        self.members.into_iter().fold(part, |part, (name, value)| part.json(name, value)).end()
    }
}

fn is_words(kind: &str) -> bool {
    matches!(kind, "text" | "reasoning")
}

/// The message of a stream.
pub(super) fn joined(chunks: &[&str]) -> Result<String> {
    let mut parts: Vec<Part> = Vec::new();
    let (mut id, mut metadata, mut finish) = (None, None, CUT_OFF.to_owned());
    for (index, chunk) in chunks.iter().enumerate() {
        let given = object(format_args!("json: chunk {}", index + 1), chunk)?;
        let kind = given.string("type");
        let provider_metadata = given.get("providerMetadata");
        match kind.as_str() {
            "start" => id = given.id("messageId").or(id),
            "finish" => finish = given.id("finishReason").unwrap_or_else(|| "stop".to_owned()),
            "error" => finish = "error".to_owned(),
            "text-start" | "reasoning-start" | "text-delta" | "reasoning-delta" | "text-end" | "reasoning-end" => {
                let (kind, event) = kind.split_once('-').unwrap_or_default();
                let id = given.string("id");
                // An id may come again in a later step.
                let open = parts.iter_mut().rev().find(|part| part.kind == kind && part.id == id);
                match open.filter(|_| event != "start") {
                    Some(part) => {
                        part.text.push(given.get("delta"));
                        part.set("providerMetadata", provider_metadata);
                    }
                    None => {
                        let mut part = Part::new(kind, id);
                        part.text.push(given.get("delta"));
                        part.set("providerMetadata", provider_metadata);
                        parts.push(part);
                    }
                }
            }
            tool if tool.starts_with("tool-") && given.get("toolCallId").is_some() => {
                tool_chunk(&mut parts, &given, tool)
            }
            "start-step" => {
                let whole = Some(r#"{"type":"step-start"}"#.to_owned());
                parts.push(Part { whole, ..Part::new(&kind, String::new()) });
            }
            "file" | "reasoning-file" | "source-url" | "source-document" => {
                parts.push(Part { whole: Some((*chunk).to_owned()), ..Part::new(&kind, String::new()) });
            }
            data if data.starts_with("data-") && !given.flag("transient") => {
                parts.push(Part { whole: Some((*chunk).to_owned()), ..Part::new(&kind, String::new()) });
            }
            _ => {}
        }
        if parts.len() > BLOCKS_MAX {
            let problem = format_args!("makes more than {BLOCKS_MAX} parts");
            return Err(Unreadable::new(format_args!("json: chunk {}", index + 1), problem));
        }
        metadata = given.get("messageMetadata").or(metadata);
    }
    let message = id.map_or_else(ObjectWriter::default, |id| ObjectWriter::default().text("id", &id));
    let message = message.text("role", "assistant");
    let message = metadata.map_or(message.clone(), |metadata| message.json("metadata", metadata.get()));
    let parts: Vec<_> = parts.into_iter().map(Part::joined).collect();
    Ok(message.json("parts", list(&parts)).text("finishReason", &finish).end())
}

fn tool_chunk(parts: &mut Vec<Part>, given: &Object<'_>, chunk: &str) {
    let id = given.string("toolCallId");
    let position = parts.iter().rposition(|part| part.id == id && !is_words(&part.kind)).unwrap_or_else(|| {
        let name = given.string("toolName");
        let is_dynamic = given.flag("dynamic");
        let mut part = Part::new(&if is_dynamic { "dynamic-tool".to_owned() } else { format!("tool-{name}") }, id);
        part.set("toolName", given.get("toolName").filter(|_| is_dynamic));
        part.state("input-streaming");
        parts.push(part);
        parts.len() - 1
    });
    let part = &mut parts[position];
    match chunk {
        "tool-input-delta" => part.text.push(given.get("inputTextDelta")),
        "tool-input-available" => {
            part.set("input", given.get("input"));
            part.set("callProviderMetadata", given.get("providerMetadata"));
            part.state("input-available");
        }
        "tool-input-error" => {
            part.set("input", given.get("input"));
            part.set("errorText", given.get("errorText"));
            part.state("output-error");
        }
        "tool-output-available" => {
            part.set("output", given.get("output"));
            part.state("output-available");
        }
        "tool-output-error" => {
            part.set("errorText", given.get("errorText"));
            part.state("output-error");
        }
        "tool-output-denied" => part.state("output-denied"),
        _ => {}
    }
}
