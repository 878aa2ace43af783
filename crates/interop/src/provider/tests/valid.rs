//! What providers say about the order and the content of a request's messages, checked without the code that writes them.

use super::super::{Format, WrittenView};
use serde_json::Value;
use std::collections::HashSet;

/// What is wrong with messages; nothing if a provider would take them.
pub(super) fn faults(format: Format, written: &WrittenView) -> Vec<String> {
    let messages: Vec<Value> =
        written.messages.iter().map(|message| serde_json::from_str(&message.json).expect("JSON")).collect();
    let mut faults = Vec::new();
    match format {
        Format::Anthropic => {
            alternates(&messages, "assistant", &mut faults);
            answered(&messages, blocks_of, &mut faults);
            let system = written.system_json.as_ref().map(|text| serde_json::from_str::<Value>(text).expect("JSON"));
            let blocks = || messages.iter().flat_map(blocks_of).chain(system.iter().flat_map(items).cloned());
            if blocks().filter(|block| block.get("cache_control").is_some()).count() > 4 {
                faults.push("more than four breakpoints".to_owned());
            }
            for block in blocks().filter(|block| block["type"] == "text") {
                if block["text"].as_str().is_none_or(|text| text.trim().is_empty()) {
                    faults.push(format!("a blank text: {block}"));
                }
            }
            for id in blocks().filter_map(|block| block["id"].as_str().map(ToOwned::to_owned)) {
                if !id.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-".contains(letter)) {
                    faults.push(format!("the id {id}"));
                }
            }
        }
        Format::Gemini => {
            alternates(&messages, "model", &mut faults);
            for (index, content) in messages.iter().enumerate() {
                let names = |content: Option<&Value>, kind: &str| -> Vec<Value> {
                    let parts: Vec<Value> =
                        content.map(|content| items(&content["parts"]).cloned().collect()).unwrap_or_default();
                    parts.into_iter().filter_map(|part| Some(part.get(kind)?["name"].clone())).collect()
                };
                let (calls, answers) =
                    (names(Some(content), "functionCall"), names(messages.get(index + 1), "functionResponse"));
                if calls != answers {
                    faults.push(format!("{calls:?} is answered by {answers:?}"));
                }
            }
        }
        Format::OpenAiChat => answered(&messages, chat_blocks, &mut faults),
        Format::AiSdk => answered(&messages, blocks_of, &mut faults),
        Format::OpenAiResponses => answered(&messages, |item| vec![item.clone()], &mut faults),
    }
    faults
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn blocks_of(message: &Value) -> Vec<Value> {
    items(&message["content"]).cloned().collect()
}

/// A message as blocks of calls and results.
fn chat_blocks(message: &Value) -> Vec<Value> {
    match message["role"].as_str() {
        Some("tool") => vec![serde_json::json!({"type": "tool_result", "tool_use_id": message["tool_call_id"]})],
        _ => items(&message["tool_calls"])
            .map(|call| serde_json::json!({"type": "tool_use", "id": call["id"]}))
            .collect(),
    }
}

fn alternates(messages: &[Value], reply: &str, faults: &mut Vec<String>) {
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap_or_default()).collect();
    if roles.iter().find(|role| **role != "system") == Some(&reply) {
        faults.push("the user does not speak first".to_owned());
    }
    for pair in roles.windows(2) {
        if pair[0] == pair[1] {
            faults.push(format!("two messages of the {}", pair[0]));
        }
    }
}

/// Every call is answered once, before anything else comes, and no two have one id.
fn answered(messages: &[Value], blocks_of: impl Fn(&Value) -> Vec<Value>, faults: &mut Vec<String>) {
    let (mut open, mut seen): (Vec<String>, HashSet<String>) = (Vec::new(), HashSet::new());
    let mut was_answering = false;
    for message in messages {
        let blocks = blocks_of(message);
        let mut is_calling = false;
        for block in &blocks {
            let kind = block["type"].as_str().unwrap_or_default();
            let id =
                |names: [&str; 3]| names.iter().find_map(|name| block[*name].as_str()).unwrap_or_default().to_owned();
            match kind {
                "tool_use" | "function_call" | "tool-call" => {
                    let id = id(["call_id", "toolCallId", "id"]);
                    if was_answering && !open.is_empty() {
                        faults.push(format!("{open:?} are not answered"));
                    }
                    if !seen.insert(id.clone()) {
                        faults.push(format!("the id {id} is there twice"));
                    }
                    (was_answering, is_calling) = (false, true);
                    open.push(id);
                }
                "tool_result" | "function_call_output" | "tool-result" => {
                    was_answering = true;
                    let id = id(["call_id", "toolCallId", "tool_use_id"]);
                    match open.iter().position(|open| *open == id) {
                        Some(position) => drop(open.remove(position)),
                        None => faults.push(format!("{id} answers nothing")),
                    }
                }
                _ if !open.is_empty() && !is_calling && was_answering => {
                    faults.push(format!("{kind} comes before {open:?} are answered"));
                }
                _ => {}
            }
        }
        if blocks.is_empty() && !open.is_empty() {
            faults.push(format!("a message comes before {open:?} are answered"));
        }
    }
    if !open.is_empty() {
        faults.push(format!("{open:?} are never answered"));
    }
}
