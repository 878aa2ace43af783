//! A history in the form in which the models get it, and what ours shows of it.

use longhand::model::Revision;
use longhand::model::ids::PartId;
use longhand::model::layout::Placement;
use longhand::model::message::{FinishReason, MessageKind, Role};
use longhand::model::part::{PartBody, ResultStatus, ToolCall, ToolResult};
use longhand::model::view::{SourceMessage, View, ViewKind};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The index in its life of each written message.
pub(super) type Numbers = BTreeMap<Revision, usize>;

/// Gives a request or a reply without words some, because nobody sends one without.
pub(super) fn say_something(source: &mut SourceMessage) {
    if source.message.role == Role::Tool {
        return;
    }
    for part in &mut source.message.parts {
        if let PartBody::Text(text) | PartBody::Reasoning(text) = &*part.body
            && text.trim().is_empty()
        {
            let words = if matches!(&*part.body, PartBody::Text(_)) {
                PartBody::Text("go on".to_owned())
            } else {
                PartBody::Reasoning("so".to_owned())
            };
            part.body = words.into();
        }
    }
}

/// The messages of the view as a model gets them: written ones have their number, others the name of their kind.
pub(super) fn messages(sources: &[SourceMessage], numbers: &Numbers) -> Vec<Value> {
    let tools = tools(sources);
    let one = |source: &SourceMessage| {
        let parts = source.message.parts.iter().filter_map(|part| match &*part.body {
            PartBody::Text(text) => Some(json!({ "type": "text", "text": text })),
            PartBody::Reasoning(text) => Some(json!({
                "type": "thinking", "id": thought(part.id), "text": text, "cleared": is_pruned(source, part.id),
            })),
            PartBody::ToolCall(call) => {
                let input: Value = serde_json::from_str(&call.input_json).unwrap_or_default();
                Some(json!({ "type": "call", "id": call.call_id, "tool": call.tool, "input": input }))
            }
            PartBody::ToolResult(result) => Some(json!({
                "type": "result", "id": result.call_id, "text": result.output,
                "tool": tools.get(result.call_id.as_str()).map(|call| &call.tool),
                "ok": result.status == ResultStatus::Completed, "cleared": is_pruned(source, part.id),
            })),
            PartBody::Media(media) => Some(json!({ "type": "media", "mime": media.mime_type, "name": media.name })),
            _ => None,
        });
        json!({
            "id": id(source, numbers), "role": role(source.message.role), "parts": parts.collect::<Vec<_>>(),
            "failed": source.message.finish.reason == Some(FinishReason::Error),
            "retained": source.placement == Some(Placement::Retained),
        })
    };
    sources.iter().map(one).collect()
}

fn is_pruned(source: &SourceMessage, part: PartId) -> bool {
    source.pruned.iter().any(|pruned| pruned.part == part)
}

fn role(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
        Role::System => "system",
    }
}

/// The number of a written message, or the name of another one's kind.
fn id(source: &SourceMessage, numbers: &Numbers) -> Value {
    match source.message.kind {
        MessageKind::Marker => json!("marker"),
        MessageKind::Summary => json!("summary"),
        MessageKind::Continuation => json!("continuation"),
        MessageKind::Replay => json!("replay"),
        _ => json!(numbers.get(&source.message.revision)),
    }
}

/// The messages of the view, by number or kind.
pub(super) fn effect(sources: &[SourceMessage], numbers: &Numbers) -> Vec<Value> {
    sources.iter().map(|source| id(source, numbers)).collect()
}

/// The name of a thought: several may have the same words.
pub(super) fn thought(id: PartId) -> String {
    format!("thought {}", id.0)
}

/// What was cleared: the ids of the calls, and the names of thoughts.
pub(super) fn pruned(sources: &[SourceMessage]) -> BTreeSet<String> {
    let parts = sources.iter().flat_map(|source| source.message.parts.iter().map(move |part| (source, part)));
    let ids = parts.filter(|(source, part)| is_pruned(source, part.id)).filter_map(|(_, part)| match &*part.body {
        PartBody::ToolResult(result) => Some(result.call_id.clone()),
        PartBody::Reasoning(_) => Some(thought(part.id)),
        _ => None,
    });
    ids.collect()
}

/// An output, as it was written and as the view has it.
pub(super) struct Output {
    pub(super) written: Value,
    pub(super) shown: Value,
}

/// The outputs of some calls.
pub(super) fn outputs(sources: &[SourceMessage], view: &View, ids: &[String]) -> Vec<Output> {
    let calls = tools(sources);
    let results: HashMap<&str, &ToolResult> =
        results(sources.iter().flat_map(|source| &source.message.parts).map(|it| &*it.body));
    let shown = results_of_view(view);
    let one = |id: &String| {
        let result = results.get(id.as_str())?;
        let call = calls.get(id.as_str());
        let input: Value =
            call.map(|call| serde_json::from_str(&call.input_json).unwrap_or_default()).unwrap_or_default();
        Some(Output {
            written: json!({ "id": id, "tool": call.map(|call| &call.tool), "input": input, "text": result.output }),
            shown: json!(shown.get(id.as_str()).map(|result| &result.output)),
        })
    };
    ids.iter().filter_map(one).collect()
}

fn results_of_view(view: &View) -> HashMap<&str, &ToolResult> {
    results(view.messages.iter().flat_map(|message| &message.parts).map(|part| &*part.body))
}

fn results<'a>(bodies: impl Iterator<Item = &'a PartBody>) -> HashMap<&'a str, &'a ToolResult> {
    let found = bodies.filter_map(|body| match body {
        PartBody::ToolResult(result) => Some((result.call_id.as_str(), result)),
        _ => None,
    });
    found.collect()
}

fn tools(sources: &[SourceMessage]) -> HashMap<&str, &ToolCall> {
    let parts = sources.iter().flat_map(|source| &source.message.parts);
    let calls = parts.filter_map(|part| match &*part.body {
        PartBody::ToolCall(call) => Some((call.call_id.as_str(), call)),
        _ => None,
    });
    calls.collect()
}

/// The messages that stand for the summary in the view, with their roles, and its text; none without one.
pub(super) fn frame(sources: &[SourceMessage], view: &View, life: u64) -> Option<(Value, String)> {
    let summary = sources.iter().find(|source| source.message.kind == MessageKind::Summary)?;
    let text: String = summary.message.parts.iter().filter_map(|part| text_of(&part.body)).collect();
    let text = text.contains(&format!("life {life}")).then_some(text)?;
    // A text in the user's name is only there so that the view begins with a request.
    let made = view.messages.iter().filter(|message| match message.kind {
        ViewKind::Marker | ViewKind::Summary => true,
        ViewKind::Filler => message.role == Role::Assistant,
        _ => false,
    });
    let lines = made.map(|message| {
        let words: String = message.parts.iter().filter_map(|part| text_of(&part.body)).collect();
        json!([role(message.role), words])
    });
    Some((lines.collect(), text))
}

fn text_of(body: &PartBody) -> Option<&str> {
    match body {
        PartBody::Text(text) => Some(text),
        PartBody::Marker(marker) => Some(&marker.text),
        _ => None,
    }
}

/// True if theirs is ours with half a character more, or with the half of one in place of a whole one that ours leaves
/// out; ours counts it with what it omits.
pub(super) fn has_half(ours: &Value, theirs: &Value) -> bool {
    let (Some(ours), Some(theirs)) = (ours.as_str(), theirs.as_str()) else { return false };
    let Some((front, marker)) = theirs.split_once('\u{fffd}') else { return false };
    let Some(ours) = ours.strip_prefix(front) else { return false };
    let number =
        |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>().parse::<i64>().unwrap_or(-1);
    let words = |text: &str| text.chars().filter(|letter| !letter.is_ascii_digit()).collect::<String>();
    words(ours) == words(marker) && number(ours) == number(marker) + i64::from(!marker.is_empty())
}

/// What a report shows of a question: a word for each message, and the figures.
pub(super) fn brief(question: &Value, answer: &Value, context_tokens: i64) -> Value {
    let one = |message: &Value| {
        let parts = message["parts"].as_array().into_iter().flatten().map(|part| {
            let kind = part["type"].as_str().unwrap_or_default();
            let is_call = |id: &&str| !id.starts_with("thought");
            let of = part["id"].as_str().filter(is_call).unwrap_or_default().trim_start_matches("call_");
            let length =
                part["text"].as_str().map_or(String::new(), |text| format!("={}", text.encode_utf16().count()));
            let state = if part["cleared"] == true { "!" } else { "" };
            format!("{kind}{of}{length}{state}")
        });
        let role = message["role"].as_str().unwrap_or_default();
        format!("{} {role} {}", message["id"], parts.collect::<Vec<_>>().join(" "))
    };
    let messages = question["messages"].as_array().into_iter().flatten().map(one);
    let mut brief = question.clone();
    brief["messages"] = messages.collect();
    brief["answer"] = answer.clone();
    brief["tokens"] = json!(context_tokens);
    brief
}
