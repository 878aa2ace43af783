//! The chat completions protocol: of OpenAI, Ollama, vLLM, llama.cpp, LM Studio, OpenRouter and many others.

use super::fault::Fault;
use super::reply::{Reply, Stop};
use super::request::{ModelRequest, Wire, count, items, text, with_extra};
use serde_json::{Value, json};

/// Field of the output limit for newer models of OpenAI; other servers know only the older one.
const NEW_LIMIT: &str = "max_completion_tokens";

pub(super) fn request(ask: &ModelRequest<'_>) -> Wire {
    let mut body = json!({
        "model": ask.model,
        "messages": [
            {"role": "system", "content": ask.prompt.system},
            {"role": "user", "content": ask.prompt.user},
        ],
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    if !ask.extra.contains_key(NEW_LIMIT) {
        let limit = if ask.base_url.contains("://api.openai.com") { NEW_LIMIT } else { "max_tokens" };
        body[limit] = Value::from(ask.max_output);
    }
    Wire { url: format!("{}/chat/completions", ask.base_url), headers: &[], body: with_extra(body, ask.extra) }
}

pub(super) fn read_event(event: &Value, reply: &mut Reply, on_text: &mut dyn FnMut(&str)) -> Result<(), Fault> {
    if let Some(fault) = Fault::of_value(event) {
        return Err(fault);
    }
    if reply.model.is_empty() {
        text(event, "/model").clone_into(&mut reply.model);
    }
    // One choice was requested; others are ignored.
    if let Some(choice) = items(event, "/choices").first() {
        // A server that does not stream sends a message instead of deltas.
        for content in ["/delta", "/message"].into_iter().filter_map(|name| choice.pointer(name)) {
            reply.add_text(text(content, "/content"), on_text);
            // Some servers have a list of parts.
            for part in items(content, "/content").iter().filter(|part| text(part, "/type") == "text") {
                reply.add_text(text(part, "/text"), on_text);
            }
            reply.calls_tools |= !items(content, "/tool_calls").is_empty();
            reply.calls_tools |= content.get("function_call").is_some_and(Value::is_object);
        }
        match text(choice, "/finish_reason") {
            "" => {}
            "stop" | "eos" | "end_turn" => reply.stop = Some(Stop::Done),
            "length" => reply.stop = Some(Stop::Length),
            "tool_calls" | "function_call" => reply.stop = Some(Stop::ToolCalls),
            "model_context_window_exceeded" => reply.stop = Some(Stop::WindowFull),
            "error" => return Err(Fault::of_code("server_error", "")),
            other => reply.stop = Some(Stop::Declined(other.to_owned())),
        }
        if reply.stop == Some(Stop::Done) && !text(choice, "/delta/refusal").is_empty() {
            reply.stop = Some(Stop::Declined("refusal".to_owned()));
        }
    }
    if let Some(reported) = event.get("usage").filter(|usage| usage.is_object()) {
        let usage = reply.usage_mut();
        usage.cache_read = count(reported, "/prompt_tokens_details/cached_tokens");
        usage.input = (count(reported, "/prompt_tokens") - usage.cache_read).max(0);
        usage.reasoning = count(reported, "/completion_tokens_details/reasoning_tokens");
        usage.output = (count(reported, "/completion_tokens") - usage.reasoning).max(0);
        usage.total = reported.get("total_tokens").and_then(Value::as_i64);
        // OpenRouter reports the price that it charges.
        usage.cost_usd = reported.get("cost").and_then(Value::as_f64);
    }
    Ok(())
}
