//! Streamed replies, joined from their chunks to what the provider would have answered at once.

use super::format::{BLOCKS_MAX, CUT_OFF, Format};
use super::kept;
use super::reading::{Result, Unreadable, object};
use crate::compose::{Composed, list};
use crate::raw::{self, Object, quote};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The whole reply of a stream; none if the text is no stream.
pub(super) fn joined(format: Format, text: &str) -> Result<Option<String>> {
    let Some(chunks) = chunks(format, text)? else { return Ok(None) };
    let chunks: Vec<&str> = chunks.iter().map(|chunk| chunk.get()).collect();
    Ok(Some(match format {
        Format::OpenAiChat => openai_chat(&chunks)?,
        Format::OpenAiResponses => openai_responses(&chunks)?,
        Format::Anthropic => anthropic(&chunks)?,
        Format::Gemini => gemini(&chunks)?,
        Format::AiSdk => super::ai_sdk_chunks::joined(&chunks)?,
    }))
}

/// The chunks of a stream: server-sent events, a list, or one after the other.
fn chunks(format: Format, text: &str) -> Result<Option<Vec<Box<RawValue>>>> {
    let text = text.trim_start_matches('\u{feff}').trim();
    let is_events = ["data:", "event:", "id:", "retry:", ":"].iter().any(|field| text.starts_with(field));
    if is_events {
        return events(text).map(Some);
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Box<RawValue>>();
    let Some(Ok(first)) = values.next() else { return Ok(None) };
    let items = raw::list(&first);
    if let Some(items) = items {
        let is_stream = items.first().is_some_and(|item| is_chunk(format, item));
        return Ok(is_stream.then(|| items.into_iter().map(ToOwned::to_owned).collect()));
    }
    let rest = values.collect::<std::result::Result<Vec<_>, _>>().map_err(|error| Unreadable::new("json", error))?;
    // A response of Gemini is what its chunks are.
    let is_stream = is_chunk(format, &first) && (format != Format::Gemini || !rest.is_empty());
    if !is_stream && !rest.is_empty() {
        return Err(Unreadable::new("json", "has several values that are no chunks of a reply"));
    }
    Ok(is_stream.then(|| std::iter::once(first).chain(rest).collect()))
}

/// The data of server-sent events.
fn events(text: &str) -> Result<Vec<Box<RawValue>>> {
    let mut chunks = Vec::new();
    let mut data: Option<String> = None;
    for line in text.lines().chain([""]) {
        if let Some(more) = line.strip_prefix("data:") {
            let more = more.strip_prefix(' ').unwrap_or(more);
            data = Some(data.map_or_else(|| more.to_owned(), |data| format!("{data}\n{more}")));
        } else if line.is_empty()
            && let Some(data) = data.take().filter(|data| data.trim() != "[DONE]")
        {
            let at = format!("json: event {}", chunks.len() + 1);
            chunks.push(RawValue::from_string(data).map_err(|error| Unreadable::new(at, error))?);
        }
    }
    Ok(chunks)
}

fn is_chunk(format: Format, value: &RawValue) -> bool {
    let Some(chunk) = raw::object(value) else { return false };
    let kind = chunk.string("type");
    match format {
        Format::OpenAiChat => chunk.string("object") == "chat.completion.chunk" || delta(&chunk).is_some(),
        Format::OpenAiResponses => kind.starts_with("response."),
        Format::Anthropic => kind.starts_with("message_") || kind.starts_with("content_block_") || kind == "ping",
        Format::Gemini => chunk.get("candidates").is_some(),
        Format::AiSdk => super::ai_sdk_chunks::is_chunk(&chunk, &kind),
    }
}

fn delta<'a>(chunk: &Object<'a>) -> Option<Object<'a>> {
    raw::object(chunk.list("choices")?.first()?)?.object("delta")
}

/// A block of Anthropic's that is being streamed.
#[derive(Default)]
struct Block {
    start: String,
    words: BTreeMap<&'static str, String>,
    input: String,
    citations: Vec<String>,
}

impl Block {
    fn joined(self) -> String {
        let mut block = self.start;
        for (name, more) in self.words {
            let before = Object::parse(&block, 1).ok().and_then(|block| block.text(name)).map(|text| text.text);
            block = with(&block, name, &quote(&(before.unwrap_or_default() + &more)));
        }
        if !self.input.is_empty() {
            // The input of a call that was cut off is text.
            let is_json = serde_json::from_str::<&RawValue>(&self.input).is_ok();
            block = with(&block, "input", &if is_json { self.input } else { quote(&self.input) });
        }
        if !self.citations.is_empty() {
            block = with(&block, "citations", &list(&self.citations));
        }
        block
    }
}

/// An object with another value of a member, or with one more.
fn with(object: &str, name: &str, value: &str) -> String {
    match kept::value(object, &[name]) {
        Some(_) => kept::with_values(object, &[(&[name], value)]),
        None => kept::with_member(object, name, value),
    }
}

fn anthropic(chunks: &[&str]) -> Result<String> {
    let mut message = "{}".to_owned();
    let mut blocks: BTreeMap<i64, Block> = BTreeMap::new();
    let mut stop = None;
    for (index, chunk) in chunks.iter().enumerate() {
        let at = format!("json: chunk {}", index + 1);
        let given = object(&at, chunk)?;
        let block = given.count("index");
        match given.string("type").as_str() {
            "message_start" => {
                let start = given.get("message").ok_or_else(|| Unreadable::new(&at, "has no message"))?;
                start.get().clone_into(&mut message);
            }
            "content_block_start" => {
                let start = given.get("content_block").ok_or_else(|| Unreadable::new(&at, "has no content_block"))?;
                blocks.insert(block, Block { start: start.get().to_owned(), ..Block::default() });
            }
            "content_block_delta" => {
                let delta = given.object("delta").ok_or_else(|| Unreadable::new(&at, "has no delta"))?;
                let block = blocks.get_mut(&block).ok_or_else(|| Unreadable::new(&at, "continues no block"))?;
                match delta.string("type").as_str() {
                    "input_json_delta" => block.input.push_str(&delta.string("partial_json")),
                    "citations_delta" => {
                        block.citations.extend(delta.get("citation").map(|value| value.get().to_owned()))
                    }
                    "text_delta" => block.words.entry("text").or_default().push_str(&delta.string("text")),
                    "thinking_delta" => block.words.entry("thinking").or_default().push_str(&delta.string("thinking")),
                    "signature_delta" => {
                        block.words.entry("signature").or_default().push_str(&delta.string("signature"))
                    }
                    other => return Err(Unreadable::new(&at, format_args!("{other} is no delta of a block"))),
                }
            }
            "message_delta" => {
                let delta = given.object("delta");
                stop = delta.and_then(|delta| delta.id("stop_reason")).or(stop);
                let usage = given.object("usage");
                for (name, value) in usage.iter().flat_map(Object::members).filter(|(_, value)| value.get() != "null") {
                    let before = kept::value(&message, &["usage"]).map_or("{}", RawValue::get);
                    let usage = with(before, name, value.get());
                    message = with(&message, "usage", &usage);
                }
            }
            _ => {}
        }
    }
    let blocks: Vec<_> = blocks.into_values().map(Block::joined).collect();
    let message = with(&message, "stop_reason", &quote(stop.as_deref().unwrap_or(CUT_OFF)));
    Ok(with(&with(&message, "role", &quote("assistant")), "content", &list(&blocks)))
}

fn openai_chat(chunks: &[&str]) -> Result<String> {
    let (mut whole, mut message, mut finish) = (Map::new(), Map::new(), None);
    for (index, chunk) in chunks.iter().enumerate() {
        let at = format!("json: chunk {}", index + 1);
        let Ok(Value::Object(mut chunk)) = serde_json::from_str::<Value>(chunk) else {
            return Err(Unreadable::new(at, "is no object"));
        };
        let choices = chunk.remove("choices");
        for (name, value) in chunk.into_iter().filter(|(_, value)| !value.is_null()) {
            whole.insert(name, value);
        }
        let Some(Value::Array(choices)) = choices else { continue };
        for choice in choices {
            if choice.get("index").and_then(Value::as_i64).unwrap_or(0) != 0 {
                return Err(Unreadable::new(at, "is of a second choice: send the one that was taken"));
            }
            if let Some(reason) = choice.get("finish_reason").filter(|reason| !reason.is_null()) {
                finish = Some(reason.clone());
            }
            if let Some(Value::Object(delta)) = choice.get("delta") {
                merge(&mut message, delta);
            }
        }
        if message.values().any(|value| value.as_array().is_some_and(|items| items.len() > BLOCKS_MAX)) {
            return Err(Unreadable::new(at, format_args!("makes more than {BLOCKS_MAX} items of one list")));
        }
    }
    if let Some(Value::Array(calls)) = message.get_mut("tool_calls") {
        calls.iter_mut().filter_map(Value::as_object_mut).for_each(|call| drop(call.shift_remove("index")));
    }
    message.entry("role").or_insert_with(|| "assistant".into());
    whole.insert("object".to_owned(), "chat.completion".into());
    let choice = Map::from_iter([
        ("index".to_owned(), 0.into()),
        ("message".to_owned(), Value::Object(message)),
        ("finish_reason".to_owned(), finish.unwrap_or_else(|| CUT_OFF.into())),
    ]);
    whole.insert("choices".to_owned(), Value::Array(vec![Value::Object(choice)]));
    Ok(Value::Object(whole).to_string())
}

/// Adds a delta: texts are continued, items of lists are joined by their index, names and ids come once.
fn merge(into: &mut Map<String, Value>, delta: &Map<String, Value>) {
    for (name, more) in delta.iter().filter(|(_, more)| !more.is_null()) {
        match (into.get_mut(name), more) {
            (Some(Value::String(text)), Value::String(more)) => {
                let comes_once = matches!(name.as_str(), "id" | "role" | "type" | "name" | "format" | "signature");
                if !comes_once || text.is_empty() {
                    text.push_str(more);
                }
            }
            (Some(Value::Object(before)), Value::Object(more)) => merge(before, more),
            (Some(Value::Array(items)), Value::Array(more)) => join(items, more),
            (Some(_), Value::Number(_)) if name == "index" => {}
            (None, Value::Array(more)) => {
                let mut items = Vec::new();
                join(&mut items, more);
                into.insert(name.clone(), Value::Array(items));
            }
            (before, more) => match before {
                Some(before) => *before = more.clone(),
                None => drop(into.insert(name.clone(), more.clone())),
            },
        }
    }
}

fn join(items: &mut Vec<Value>, more: &[Value]) {
    for item in more {
        let index = item.get("index").filter(|index| index.is_number());
        let same = items.iter_mut().find(|before| index.is_some() && before.get("index") == index);
        match (same.and_then(Value::as_object_mut), item.as_object()) {
            (Some(before), Some(item)) => merge(before, item),
            _ => items.push(item.clone()),
        }
    }
}

fn openai_responses(chunks: &[&str]) -> Result<String> {
    let mut response = "{}".to_owned();
    let mut is_ended = false;
    let mut items: BTreeMap<i64, String> = BTreeMap::new();
    let mut words: BTreeMap<i64, String> = BTreeMap::new();
    for (index, chunk) in chunks.iter().enumerate() {
        let given = object(format_args!("json: chunk {}", index + 1), chunk)?;
        let position = given.count("output_index");
        let kind = given.string("type");
        match kind.as_str() {
            "response.output_item.done" => {
                items.extend(given.get("item").map(|item| (position, item.get().to_owned())));
            }
            "response.output_text.delta" => words.entry(position).or_default().push_str(&given.string("delta")),
            _ => {
                if let Some(given) = given.get("response") {
                    given.get().clone_into(&mut response);
                    is_ended |= matches!(
                        kind.as_str(),
                        "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled"
                    );
                }
            }
        }
    }
    // The text of a message that was cut off; the rest of its item never came.
    for (position, text) in words.into_iter().filter(|_| !is_ended) {
        let message = Composed::default().text("type", "message").text("role", "assistant").text("content", &text);
        items.entry(position).or_insert_with(|| message.end());
    }
    let has_output = kept::value(&response, &["output", "0"]).is_some();
    if !is_ended || !has_output {
        response = with(&response, "output", &list(&items.into_values().collect::<Vec<_>>()));
    }
    Ok(if is_ended { response } else { with(&response, "status", &quote(CUT_OFF)) })
}

fn gemini(chunks: &[&str]) -> Result<String> {
    let mut whole = "{}".to_owned();
    let mut parts = Parts::default();
    let mut finish = None;
    for (index, chunk) in chunks.iter().enumerate() {
        let at = format!("json: chunk {}", index + 1);
        let given = object(&at, chunk)?;
        for (name, value) in given.members().filter(|(name, value)| *name != "candidates" && value.get() != "null") {
            whole = with(&whole, name, value.get());
        }
        let candidates = given.list("candidates").unwrap_or_default();
        if candidates.len() > 1 {
            return Err(Unreadable::new(at, "has a second candidate: send the one that was taken"));
        }
        let Some(candidate) = candidates.first().and_then(|candidate| raw::object(candidate)) else { continue };
        finish = candidate.id("finishReason").or_else(|| candidate.id("finish_reason")).or(finish);
        let content = candidate.object("content");
        content.and_then(|content| content.list("parts")).into_iter().flatten().for_each(|part| parts.add(part));
    }
    parts.end_words();
    let content = Composed::default().json("parts", list(&parts.done)).text("role", "model").end();
    let reason = finish.as_deref().unwrap_or(CUT_OFF);
    let candidate = Composed::default().json("content", content).text("finishReason", reason);
    Ok(with(&whole, "candidates", &list(&[candidate.end()])))
}

/// The parts of a streamed content of Gemini's.
#[derive(Default)]
struct Parts {
    done: Vec<String>,
    /// Text that goes on, and whether it is a thought.
    words: Option<(bool, String)>,
}

impl Parts {
    /// Adds a part; text that says nothing else continues text of its kind. What is signed stays apart.
    fn add(&mut self, part: &RawValue) {
        match (plain_words(part), &mut self.words) {
            (Some((is_thought, more)), Some((was_thought, text))) if is_thought == *was_thought => text.push_str(&more),
            (Some(words), _) => {
                self.end_words();
                self.words = Some(words);
            }
            (None, _) => {
                self.end_words();
                self.done.push(part.get().to_owned());
            }
        }
    }

    fn end_words(&mut self) {
        let Some((is_thought, text)) = self.words.take() else { return };
        let part = Composed::default().text("text", &text);
        self.done.push(if is_thought { part.value("thought", true) } else { part }.end());
    }
}

/// The text of a part that has nothing else, and whether it is a thought.
fn plain_words(part: &RawValue) -> Option<(bool, String)> {
    let object = raw::object(part)?;
    let is_plain = object.members().all(|(name, value)| matches!(name, "text" | "thought") || value.get() == "null");
    Some((object.flag("thought"), object.text("text").filter(|text| text.exact && is_plain)?.text))
}
