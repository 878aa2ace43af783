//! Streamed replies, joined from their chunks to what the provider would have answered at once.

use super::format::{BLOCKS_MAX, CUT_OFF, Format};
use super::kept;
use super::reading::{Result, Unreadable, object};
use super::strings::Words;
use crate::compose::{ObjectWriter, list, string_in};
use crate::raw::{self, Object, quote};
use serde_json::value::RawValue;
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

/// The chunks of a stream: server-sent events, a list, or one after the other. A last one that broke off is left out.
fn chunks(format: Format, text: &str) -> Result<Option<Vec<Box<RawValue>>>> {
    let text = text.trim_start_matches('\u{feff}').trim();
    let is_events = ["data:", "event:", "id:", "retry:", ":"].iter().any(|field| text.starts_with(field));
    if is_events {
        return events(text).map(Some);
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Box<RawValue>>();
    let first = match values.next() {
        Some(Ok(first)) => first,
        Some(Err(error)) if error.is_eof() => {
            let items = items_of_cut_list(text);
            return Ok(items.first().is_some_and(|item| is_chunk(format, item)).then_some(items));
        }
        Some(Err(_)) | None => return Ok(None),
    };
    let items = raw::list(&first);
    if let Some(items) = items {
        let is_stream = items.first().is_some_and(|item| is_chunk(format, item));
        return Ok(is_stream.then(|| items.into_iter().map(ToOwned::to_owned).collect()));
    }
    let (mut rest, mut is_cut) = (Vec::new(), false);
    for value in values {
        match value {
            Ok(value) => rest.push(value),
            Err(error) if error.is_eof() => is_cut = true,
            Err(error) => return Err(Unreadable::new("json", error)),
        }
    }
    let is_several = is_cut || !rest.is_empty();
    // A response of Gemini is what its chunks are.
    let is_stream = is_chunk(format, &first) && (format != Format::Gemini || is_several);
    if !is_stream && is_several {
        return Err(Unreadable::new("json", "has several values that are no chunks of a reply"));
    }
    Ok(is_stream.then(|| std::iter::once(first).chain(rest).collect()))
}

/// The whole items of a list that broke off.
fn items_of_cut_list(text: &str) -> Vec<Box<RawValue>> {
    let mut items = Vec::new();
    let mut rest = text.strip_prefix('[').unwrap_or_default();
    loop {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Box<RawValue>>();
        let Some(Ok(item)) = values.next() else { return items };
        items.push(item);
        let Some(more) = rest[values.byte_offset()..].trim_start().strip_prefix(',') else { return items };
        rest = more;
    }
}

/// The data of server-sent events.
fn events(text: &str) -> Result<Vec<Box<RawValue>>> {
    let mut chunks = Vec::new();
    let mut data: Option<String> = None;
    let mut lines = text.lines().chain([""]).peekable();
    while let Some(line) = lines.next() {
        if let Some(more) = line.strip_prefix("data:") {
            let more = more.strip_prefix(' ').unwrap_or(more);
            data = Some(data.map_or_else(|| more.to_owned(), |data| format!("{data}\n{more}")));
        } else if line.is_empty()
            && let Some(data) = data.take().filter(|data| data.trim() != "[DONE]")
        {
            let at = format!("json: event {}", chunks.len() + 1);
            let is_last = lines.peek().is_none();
            match RawValue::from_string(data.clone()) {
                Ok(chunk) => chunks.push(chunk),
                // It broke off.
                Err(error) if is_last && (error.is_eof() || "[DONE]".starts_with(data.trim())) => {}
                Err(error) => return Err(Unreadable::new(at, error)),
            }
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
    words: BTreeMap<String, Words>,
    input: Words,
    citations: Vec<String>,
}

impl Block {
    fn joined(self) -> String {
        let mut block = self.start;
        for (name, more) in self.words {
            let mut text = Words::default();
            text.push(Object::parse(&block, 1).ok().and_then(|block| block.get(&name)));
            text.append(&more);
            block = with(&block, &name, &text.json());
        }
        if !self.input.is_empty() {
            // The input of a call that was cut off is text.
            let input = self.input.text();
            let is_json = serde_json::from_str::<&RawValue>(&input).is_ok();
            block = with(&block, "input", &if is_json { input } else { quote(&input) });
        }
        if !self.citations.is_empty() {
            block = with(&block, "citations", &list(&self.citations));
        }
        block
    }

    /// Adds a delta, whose texts continue the members of the same name: text, thinking, a signature, a compaction, and what
    /// comes to these later.
    fn add(&mut self, delta: &Object<'_>) {
        match delta.string("type").as_str() {
            "input_json_delta" => self.input.push(delta.get("partial_json")),
            "citations_delta" => self.citations.extend(delta.get("citation").map(|value| value.get().to_owned())),
            _ => {
                for (name, value) in delta.members().filter(|(name, value)| *name != "type" && value.get() != "null") {
                    match value.get().starts_with('"') {
                        true => self.words.entry(name.to_owned()).or_default().push(Some(value)),
                        false => self.start = with(&self.start, name, value.get()),
                    }
                }
            }
        }
    }
}

/// An object with another value of a member, or with one more.
fn with(object: &str, name: &str, value: &str) -> String {
    match kept::value(object, &[name]) {
        Some(_) => kept::with_values(object, &[(&[name], value)]),
        None => kept::with_member(object, name, value),
    }
}

/// Levels of objects in usage.
const USAGE_DEPTH: usize = 4;

/// Usage with what came later. A provider can say all of it first and zeros behind it, which take nothing back.
fn with_usage(before: &str, later: &RawValue, depth: usize) -> String {
    let mut usage = before.to_owned();
    let Some(later) = raw::object(later) else { return usage };
    for (name, value) in later.members().filter(|(_, value)| value.get() != "null").take(MEMBERS_MAX) {
        let known = kept::value(&usage, &[name]).map(RawValue::get).filter(|known| *known != "null");
        let value = match known {
            Some(_) if serde_json::from_str(value.get()).is_ok_and(|number: f64| number == 0.0) => continue,
            Some(known) if depth > 0 && raw::object(value).is_some() => with_usage(known, value, depth - 1),
            Some(_) | None => value.get().to_owned(),
        };
        usage = with(&usage, name, &value);
    }
    usage
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
                block.add(&delta);
            }
            "message_delta" => {
                let delta = given.object("delta");
                stop = delta.and_then(|delta| delta.id("stop_reason")).or(stop);
                if let Some(usage) = given.get("usage") {
                    let before = kept::value(&message, &["usage"]).map_or("{}", RawValue::get);
                    message = with(&message, "usage", &with_usage(before, usage, USAGE_DEPTH));
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
    let (mut whole, mut message, mut finish) = (Members::default(), Vec::new(), None);
    for (index, chunk) in chunks.iter().enumerate() {
        let at = format!("json: chunk {}", index + 1);
        let chunk = object(&at, chunk)?;
        whole.add(&chunk, "choices", &["usage"]);
        for choice in chunk.list("choices").into_iter().flatten().filter_map(raw::object) {
            if choice.number("index").unwrap_or(0.0) != 0.0 {
                return Err(Unreadable::new(at, "is of a second choice: send the one that was taken"));
            }
            finish = choice.get("finish_reason").map(RawValue::get).or(finish);
            if let Some(Node::Object(delta)) = choice.get("delta").map(|delta| Node::from_value(delta, NODE_DEPTH)) {
                merge(&mut message, delta);
            }
        }
        if message.iter().any(|(_, value)| matches!(value, Node::List(items) if items.len() > BLOCKS_MAX)) {
            return Err(Unreadable::new(at, format_args!("makes more than {BLOCKS_MAX} items of one list")));
        }
    }
    let calls = message.iter_mut().find(|(name, _)| name == "tool_calls");
    if let Some((_, Node::List(calls))) = calls {
        for call in calls {
            if let Node::Object(members) = call {
                members.retain(|(name, _)| name != "index");
            }
        }
    }
    let mut message = Node::Object(message).json();
    if kept::value(&message, &["role"]).is_none() {
        message = with(&message, "role", &quote("assistant"));
    }
    let choice = ObjectWriter::default().value("index", 0).json("message", message);
    let choice = choice.json("finish_reason", finish.map_or_else(|| quote(CUT_OFF), ToOwned::to_owned)).end();
    Ok(with(&with(&whole.json(), "object", &quote("chat.completion")), "choices", &list(&[choice])))
}

/// What the chunks of a reply say beside its content, the later over the earlier.
#[derive(Default)]
struct Members(Vec<(String, String)>);

impl Members {
    /// Adds the members of a chunk but one. Usage of these names is put together.
    fn add(&mut self, chunk: &Object<'_>, content: &str, usage: &[&str]) {
        for (name, value) in chunk.members().filter(|(name, value)| *name != content && value.get() != "null") {
            let has_room = self.0.len() < MEMBERS_MAX;
            match self.0.iter_mut().find(|(other, _)| other == name) {
                Some((_, before)) if usage.contains(&name) => *before = with_usage(before, value, USAGE_DEPTH),
                Some((_, before)) => value.get().clone_into(before),
                None if has_room => self.0.push((name.to_owned(), value.get().to_owned())),
                None => {}
            }
        }
    }

    fn json(&self) -> String {
        self.0.iter().fold(ObjectWriter::default(), |object, (name, value)| object.json(name, value)).end()
    }
}

/// Most members of an object that is put together, far above those of a reply: each is looked for among all.
const MEMBERS_MAX: usize = 256;

/// JSON that deltas are merged into.
enum Node {
    Text(Words),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
    /// Any other value.
    Other(String),
}

/// Levels of a delta that are merged; what is deeper is taken as it is.
const NODE_DEPTH: usize = 16;

impl Node {
    fn from_value(value: &RawValue, depth: usize) -> Self {
        if value.get().starts_with('"') {
            let mut words = Words::default();
            words.push(Some(value));
            return Self::Text(words);
        }
        if let Some(object) = raw::object(value).filter(|object| depth > 0 && object.members().count() <= MEMBERS_MAX) {
            let members = object.members().map(|(name, value)| (name.to_owned(), Self::from_value(value, depth - 1)));
            return Self::Object(members.collect());
        }
        match raw::list(value).filter(|_| depth > 0) {
            Some(items) => Self::List(items.into_iter().map(|item| Self::from_value(item, depth - 1)).collect()),
            None => Self::Other(value.get().to_owned()),
        }
    }

    fn json(&self) -> String {
        match self {
            Self::Text(words) => words.json(),
            Self::List(items) => list(&items.iter().map(Self::json).collect::<Vec<_>>()),
            Self::Object(members) => {
                let members = members.iter();
                members.fold(ObjectWriter::default(), |object, (name, value)| object.json(name, value.json())).end()
            }
            Self::Other(value) => value.clone(),
        }
    }

    /// The number by which items of lists are joined.
    fn index(&self) -> Option<&str> {
        let Self::Object(members) = self else { return None };
        members.iter().find_map(|(name, value)| match value {
            Self::Other(value) if name == "index" && value != "null" => Some(value.as_str()),
            _ => None,
        })
    }
}

/// Adds a delta: texts are continued, items of lists are joined by their index, names and ids come once.
fn merge(into: &mut Vec<(String, Node)>, delta: Vec<(String, Node)>) {
    for (name, more) in delta {
        if matches!(&more, Node::Other(value) if value == "null") {
            continue;
        }
        let has_room = into.len() < MEMBERS_MAX;
        let before = into.iter_mut().find(|(other, _)| *other == name).map(|(_, before)| before);
        match (before, more) {
            (Some(Node::Text(text)), Node::Text(more)) => {
                let comes_once = matches!(name.as_str(), "id" | "role" | "type" | "name" | "format" | "signature");
                if !comes_once || text.is_empty() {
                    text.append(&more);
                }
            }
            (Some(Node::Object(before)), Node::Object(more)) => merge(before, more),
            (Some(Node::List(items)), Node::List(more)) => join(items, more),
            (Some(_), Node::Other(_)) if name == "index" => {}
            (None, _) if !has_room => {}
            (None, Node::List(more)) => {
                let mut items = Vec::new();
                join(&mut items, more);
                into.push((name, Node::List(items)));
            }
            (Some(before), more) => *before = more,
            (None, more) => into.push((name, more)),
        }
    }
}

fn join(items: &mut Vec<Node>, more: Vec<Node>) {
    for item in more {
        let same = item.index().and_then(|index| items.iter().position(|before| before.index() == Some(index)));
        match (same.and_then(|same| items.get_mut(same)), item) {
            (Some(Node::Object(before)), Node::Object(item)) => merge(before, item),
            (_, item) => items.push(item),
        }
    }
}

fn openai_responses(chunks: &[&str]) -> Result<String> {
    let mut response = "{}".to_owned();
    let mut is_ended = false;
    let mut items: BTreeMap<i64, String> = BTreeMap::new();
    let mut words: BTreeMap<i64, Words> = BTreeMap::new();
    // Calls whose input is being written.
    let mut calls: BTreeMap<i64, String> = BTreeMap::new();
    for (index, chunk) in chunks.iter().enumerate() {
        let given = object(format_args!("json: chunk {}", index + 1), chunk)?;
        let position = given.count("output_index");
        let kind = given.string("type");
        match kind.as_str() {
            "response.output_item.done" => {
                items.extend(given.get("item").map(|item| (position, item.get().to_owned())));
            }
            "response.output_item.added" => {
                let item = given.get("item").filter(|item| {
                    let kind = raw::object(item).map(|item| item.string("type")).unwrap_or_default();
                    matches!(kind.as_str(), "function_call" | "custom_tool_call")
                });
                calls.extend(item.map(|item| (position, item.get().to_owned())));
            }
            "response.output_text.delta"
            | "response.function_call_arguments.delta"
            | "response.custom_tool_call_input.delta" => {
                words.entry(position).or_default().push(given.get("delta"));
            }
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
    // A call or the text of a message that was cut off; the rest of its item never came.
    if !is_ended {
        for (position, call) in calls {
            let name = if string_in(Some(&call), "type").as_deref() == Some("custom_tool_call") {
                "input"
            } else {
                "arguments"
            };
            let text = words.remove(&position).unwrap_or_default();
            items.entry(position).or_insert_with(|| with(&call, name, &text.json()));
        }
        for (position, text) in words {
            let message = ObjectWriter::default().text("type", "message").text("role", "assistant");
            items.entry(position).or_insert_with(|| message.json("content", text.json()).end());
        }
    }
    let has_output = kept::value(&response, &["output", "0"]).is_some();
    if !is_ended || !has_output {
        response = with(&response, "output", &list(&items.into_values().collect::<Vec<_>>()));
    }
    Ok(if is_ended { response } else { with(&response, "status", &quote(CUT_OFF)) })
}

fn gemini(chunks: &[&str]) -> Result<String> {
    let mut whole = Members::default();
    let mut parts = Parts::default();
    let mut finish = None;
    for (index, chunk) in chunks.iter().enumerate() {
        let at = format!("json: chunk {}", index + 1);
        let given = object(&at, chunk)?;
        whole.add(&given, "candidates", &["usageMetadata", "usage_metadata"]);
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
    let content = ObjectWriter::default().json("parts", list(&parts.done)).text("role", "model").end();
    let reason = finish.as_deref().unwrap_or(CUT_OFF);
    let candidate = ObjectWriter::default().json("content", content).text("finishReason", reason);
    Ok(with(&whole.json(), "candidates", &list(&[candidate.end()])))
}

/// The parts of a streamed content of Gemini's.
#[derive(Default)]
struct Parts {
    done: Vec<String>,
    /// Text that goes on, and whether it is a thought.
    words: Option<(bool, Words)>,
}

impl Parts {
    /// Adds a part; text that says nothing else continues text of its kind. What is signed stays apart.
    fn add(&mut self, part: &RawValue) {
        match (plain_words(part), &mut self.words) {
            (Some((is_thought, more)), Some((was_thought, text))) if is_thought == *was_thought => {
                text.push(Some(more))
            }
            (Some((is_thought, text)), _) => {
                self.end_words();
                let mut words = Words::default();
                words.push(Some(text));
                self.words = Some((is_thought, words));
            }
            (None, _) => {
                self.end_words();
                self.done.push(part.get().to_owned());
            }
        }
    }

    fn end_words(&mut self) {
        let Some((is_thought, text)) = self.words.take() else { return };
        let part = ObjectWriter::default().json("text", text.json());
        self.done.push(if is_thought { part.value("thought", true) } else { part }.end());
    }
}

/// The text of a part that has nothing else, and whether it is a thought.
fn plain_words(part: &RawValue) -> Option<(bool, &RawValue)> {
    let object = raw::object(part)?;
    let is_plain = object.members().all(|(name, value)| matches!(name, "text" | "thought") || value.get() == "null");
    let text = object.get("text").filter(|text| text.get().starts_with('"') && is_plain)?;
    Some((object.flag("thought"), text))
}
