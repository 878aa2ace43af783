//! OpenAI's responses protocol.

use super::fault::{Class, Fault};
use super::reply::{Reply, Stop};
use super::request::{ModelRequest, Wire, count, items, text, with_extra};
use serde_json::{Value, json};

pub(super) fn request(ask: &ModelRequest<'_>) -> Wire {
    let body = json!({
        "model": ask.model,
        "instructions": ask.prompt.system,
        "input": [{"role": "user", "content": [{"type": "input_text", "text": ask.prompt.user}]}],
        "max_output_tokens": ask.max_output,
        "stream": true,
        // The provider need not keep the conversation: the store has it.
        "store": false,
    });
    Wire { url: format!("{}/responses", ask.base_url), headers: &[], body: with_extra(body, ask.extra) }
}

pub(super) fn read_event(event: &Value, reply: &mut Reply, on_text: &mut dyn FnMut(&str)) -> Result<(), Fault> {
    match text(event, "/type") {
        "response.output_text.delta" => reply.add_text(text(event, "/delta"), on_text),
        "response.output_item.added" => reply.calls_tools |= is_call(&event["item"]),
        "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
            return read_end(&event["response"], reply, on_text);
        }
        "error" => {
            let reported = event.get("error").unwrap_or(event);
            return Err(Fault::of_code(text(reported, "/code"), text(reported, "/message")));
        }
        // A server that does not stream sends the response itself.
        "" if text(event, "/object") == "response" => return read_end(event, reply, on_text),
        "" => {
            if let Some(fault) = Fault::of_value(event) {
                return Err(fault);
            }
        }
        // Created, in progress, reasoning, starts and ends of parts, and future kinds.
        _ => {}
    }
    Ok(())
}

fn is_call(item: &Value) -> bool {
    text(item, "/type").ends_with("_call")
}

/// Reads a response that has ended, with or without success.
fn read_end(response: &Value, reply: &mut Reply, on_text: &mut dyn FnMut(&str)) -> Result<(), Fault> {
    text(response, "/model").clone_into(&mut reply.model);
    if let Some(reported) = response.get("usage").filter(|usage| usage.is_object()) {
        let usage = reply.usage_mut();
        usage.cache_read = count(reported, "/input_tokens_details/cached_tokens");
        usage.input = (count(reported, "/input_tokens") - usage.cache_read).max(0);
        usage.reasoning = count(reported, "/output_tokens_details/reasoning_tokens");
        usage.output = (count(reported, "/output_tokens") - usage.reasoning).max(0);
        usage.total = reported.get("total_tokens").and_then(Value::as_i64);
    }
    let output = items(response, "/output");
    reply.calls_tools |= output.iter().any(is_call);
    let parts = || output.iter().flat_map(|item| items(item, "/content"));
    if reply.text.is_empty() {
        for part in parts().filter(|part| text(part, "/type") == "output_text") {
            reply.add_text(text(part, "/text"), on_text);
        }
    }
    let declined = parts().any(|part| text(part, "/type") == "refusal");
    reply.stop = Some(match (text(response, "/status"), text(response, "/incomplete_details/reason")) {
        ("completed", _) if declined => Stop::Declined("refusal".to_owned()),
        ("completed", _) => Stop::Done,
        ("incomplete", "max_output_tokens") => Stop::Length,
        ("incomplete", reason) => Stop::Declined(reason.to_owned()),
        ("cancelled", _) => return Err(Fault::new(Class::Cancelled, "the response was cancelled at the provider")),
        _ => return Err(Fault::of_code(text(response, "/error/code"), text(response, "/error/message"))),
    });
    Ok(())
}
