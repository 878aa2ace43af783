//! Gemini's generateContent protocol.

use super::fault::Fault;
use super::reply::{Reply, Stop};
use super::request::{ModelRequest, Wire, count, items, text, with_extra};
use serde_json::{Value, json};

pub(super) fn request(ask: &ModelRequest<'_>) -> Wire {
    let body = json!({
        "systemInstruction": {"parts": [{"text": ask.prompt.system}]},
        "contents": [{"role": "user", "parts": [{"text": ask.prompt.user}]}],
        "generationConfig": {"maxOutputTokens": ask.max_output},
    });
    let model = ask.model.strip_prefix("models/").unwrap_or(ask.model);
    Wire {
        url: format!("{}/models/{model}:streamGenerateContent?alt=sse", ask.base_url),
        headers: &[],
        body: with_extra(body, ask.extra),
    }
}

pub(super) fn read_event(event: &Value, reply: &mut Reply, on_text: &mut dyn FnMut(&str)) -> Result<(), Fault> {
    // A server that does not know `alt=sse` sends all events as one list.
    if let Some(events) = event.as_array() {
        return events.iter().try_for_each(|event| read_event(event, reply, on_text));
    }
    if let Some(fault) = Fault::of_value(event) {
        return Err(fault);
    }
    if reply.model.is_empty() {
        text(event, "/modelVersion").clone_into(&mut reply.model);
    }
    if let Some(reported) = event.get("usageMetadata") {
        let usage = reply.usage_mut();
        usage.cache_read = count(reported, "/cachedContentTokenCount");
        usage.input = (count(reported, "/promptTokenCount") - usage.cache_read).max(0);
        usage.output = count(reported, "/candidatesTokenCount");
        usage.reasoning = count(reported, "/thoughtsTokenCount");
        usage.total = reported.get("totalTokenCount").and_then(Value::as_i64);
    }
    let blocked = text(event, "/promptFeedback/blockReason");
    if !blocked.is_empty() {
        reply.stop = Some(Stop::Declined(blocked.to_owned()));
    }
    let Some(candidate) = items(event, "/candidates").first() else { return Ok(()) };
    for part in items(candidate, "/content/parts") {
        let is_thought = part.get("thought").and_then(Value::as_bool).unwrap_or(false);
        if !is_thought {
            reply.add_text(text(part, "/text"), on_text);
        }
        reply.calls_tools |= part.get("functionCall").is_some();
    }
    match text(candidate, "/finishReason") {
        "" => {}
        "STOP" => reply.stop = Some(Stop::Done),
        "MAX_TOKENS" => reply.stop = Some(Stop::Length),
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" => reply.stop = Some(Stop::ToolCalls),
        other => reply.stop = Some(Stop::Declined(other.to_owned())),
    }
    Ok(())
}
