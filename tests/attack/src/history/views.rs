//! P8 and P9 for one view: it accounts for every message, and it is valid input for a model.

use super::rpc::View;
use longhand::pb;
use pb::part::Body;
use pb::{MessageKind, Role, ViewMessageKind};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The body of a part in a view.
fn body(part: &pb::ViewPart) -> Option<&Body> {
    part.part.as_ref().and_then(|part| part.body.as_ref())
}

/// P9: faults of a view as a model's input.
pub(super) fn pairing(view: &View) -> Vec<String> {
    let mut found = Vec::new();
    let mut calls: Vec<&str> = Vec::new();
    for (index, message) in view.messages.iter().enumerate() {
        let is_tool = message.role() == Role::Tool;
        if message.parts.is_empty() {
            found.push(format!("P9: message {index} says nothing"));
        }
        if !is_tool {
            for call in calls.drain(..) {
                found.push(format!("P9: call {call} has no result behind it, before message {index}"));
            }
        }
        for part in &message.parts {
            match body(part) {
                Some(Body::ToolCall(call)) => {
                    if message.role() != Role::Assistant {
                        found.push(format!("P9: message {index} is no assistant's and calls {}", call.call_id));
                    }
                    if calls.contains(&call.call_id.as_str()) {
                        found.push(format!("P9: message {index} calls {} twice", call.call_id));
                    }
                    calls.push(&call.call_id);
                }
                Some(Body::ToolResult(result)) => match calls.iter().position(|call| *call == result.call_id) {
                    Some(index) if is_tool => drop(calls.remove(index)),
                    _ => found
                        .push(format!("P9: message {index} answers {}, which nothing before it calls", result.call_id)),
                },
                Some(Body::Step(_) | Body::Record(_)) | None => {
                    found.push(format!("P9: message {index} shows a part that no model reads"));
                }
                Some(_) if is_tool => found.push(format!("P9: message {index} is a tool's and has words")),
                Some(_) => {}
            }
        }
    }
    found.extend(calls.iter().map(|call| format!("P9: call {call} at the end has no result")));
    found
}

/// P9: a result follows the call it was made for, whoever else uses its id. Writers put the call's token into both.
pub(super) fn answers(view: &View) -> Vec<String> {
    let mut found = Vec::new();
    let mut calls: HashMap<&str, String> = HashMap::new();
    for message in &view.messages {
        if message.role() != Role::Tool {
            calls.clear();
        }
        for part in message.parts.iter().filter(|part| part.shortening == 0) {
            match body(part) {
                Some(Body::ToolCall(call)) => {
                    let input: serde_json::Value = serde_json::from_str(&call.input_json).unwrap_or_default();
                    calls.extend(input["call"].as_str().map(|token| (call.call_id.as_str(), token.to_owned())));
                }
                Some(Body::ToolResult(result)) => {
                    let answered_id = result.output.lines().next().and_then(|line| line.strip_prefix("result of "));
                    if let (Some(answered_id), Some(token)) = (answered_id, calls.get(result.call_id.as_str()))
                        && answered_id != token
                    {
                        found.push(format!(
                            "P9: call {token}, named {}, got the result of {answered_id}",
                            result.call_id
                        ));
                    }
                }
                _ => {}
            }
        }
    }
    found
}

fn holds(ranges: &[pb::RevisionRange], revision: i64) -> bool {
    ranges.iter().any(|range| (range.first_revision..=range.last_revision).contains(&revision))
}

/// P8: faults of the view, such as content shown twice, and the messages of its history that the view does not
/// account for.
pub(super) fn accounting(view: &View, history: &[pb::Message]) -> (Vec<String>, Vec<pb::Message>) {
    let mut found = Vec::new();
    let own = || view.messages.iter().filter(|message| message.kind() != ViewMessageKind::Retrieved);
    let shown: HashSet<&str> = own().map(|message| message.message_id.as_str()).collect();
    let mut parts: HashMap<&str, usize> = HashMap::new();
    for message in own().filter(|message| message.kind() == ViewMessageKind::Shown) {
        for part in message.parts.iter().filter_map(|part| part.part.as_ref()) {
            *parts.entry(&part.part_id).or_default() += 1;
        }
    }
    // A result without a call is rendered as text, and its media as parts beside it, all with the result's one id.
    let is_text_result = |id: &str| {
        own().flat_map(|message| &message.parts).any(|part| {
            let is_said =
                |text: &str| ["[Tool result for", "[Another tool result"].iter().any(|start| text.starts_with(start));
            matches!(body(part), Some(Body::Text(text)) if is_said(&text.text))
                && part.part.as_ref().is_some_and(|part| part.part_id == id)
        })
    };
    for (id, times) in parts.into_iter().filter(|(id, times)| *times > 1 && !id.is_empty()) {
        if !is_text_result(id) {
            found.push(format!("P8: part {id} is shown {times} times"));
        }
    }
    let covered = view.end.covered.clone().unwrap_or_default();
    if view.end.covered.is_some() && !own().any(|message| message.message_id == covered.summary_message_id) {
        found.push(format!("P8: summary {} stands for history and is not in the view", covered.summary_message_id));
    }
    let omitted: Vec<pb::RevisionRange> = view.end.omitted.iter().filter_map(|omitted| omitted.range).collect();
    let mut missing = Vec::new();
    for message in history {
        let is_shown = shown.contains(message.message_id.as_str());
        if message.kind() == MessageKind::Record {
            if is_shown {
                found.push(format!("P8: record {} is in a view", message.message_id));
            }
            continue;
        }
        let accounted =
            is_shown || holds(&covered.covered_ranges, message.revision) || holds(&omitted, message.revision);
        if !accounted {
            missing.push(message.clone());
        }
    }
    (found, missing)
}

/// P8: differences between a view and the history in parts that the view does not shorten.
pub(super) fn originals(view: &View, history: &[pb::Message]) -> Vec<String> {
    let parts: BTreeMap<&str, &pb::Part> =
        history.iter().flat_map(|message| &message.parts).map(|part| (part.part_id.as_str(), part)).collect();
    let mut found = Vec::new();
    for part in view.messages.iter().filter(|message| message.kind() == ViewMessageKind::Shown).flat_map(|m| &m.parts) {
        let Some(shown) = part.part.as_ref().filter(|_| part.shortening == 0) else { continue };
        let Some(original) = parts.get(shown.part_id.as_str()) else { continue };
        let is_shown_as_text =
            matches!(original.body, Some(Body::ToolResult(_))) && !matches!(shown.body, Some(Body::ToolResult(_)));
        if !is_shown_as_text && original.body != shown.body {
            found.push(format!("P8: part {} is shown as {:?}", shown.part_id, shown.body));
        }
    }
    found
}
