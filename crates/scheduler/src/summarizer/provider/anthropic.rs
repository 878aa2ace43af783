//! Anthropic's messages protocol.

use super::fault::Fault;
use super::reply::{Reply, Stop};
use super::request::{ModelRequest, Wire, items, text, with_extra};
use crate::model::usage::Usage;
use serde_json::{Value, json};

pub(super) fn request(ask: &ModelRequest<'_>) -> Wire {
    let body = json!({
        "model": ask.model,
        "max_tokens": ask.max_output,
        "system": ask.prompt.system,
        "messages": [{"role": "user", "content": ask.prompt.user}],
        "stream": true,
    });
    Wire {
        url: format!("{}/messages", ask.base_url),
        headers: &[("anthropic-version", "2023-06-01")],
        body: with_extra(body, ask.extra),
    }
}

pub(super) fn read_event(event: &Value, reply: &mut Reply, on_text: &mut dyn FnMut(&str)) -> Result<(), Fault> {
    match text(event, "/type") {
        "message_start" => {
            text(event, "/message/model").clone_into(&mut reply.model);
            read_usage(&event["message"]["usage"], reply);
        }
        "content_block_start" => block(&event["content_block"], reply, on_text),
        "content_block_delta" if text(event, "/delta/type") == "text_delta" => {
            reply.add_text(text(event, "/delta/text"), on_text);
        }
        "message_delta" => {
            read_stop(text(event, "/delta/stop_reason"), reply);
            read_usage(&event["usage"], reply);
        }
        // A server that does not stream sends the message itself.
        "message" => {
            text(event, "/model").clone_into(&mut reply.model);
            for content in items(event, "/content") {
                block(content, reply, on_text);
            }
            read_usage(&event["usage"], reply);
            read_stop(text(event, "/stop_reason"), reply);
        }
        // Pings, ends of blocks, reasoning, and future kinds.
        _ => {
            if let Some(fault) = Fault::of_value(event) {
                return Err(fault);
            }
        }
    }
    Ok(())
}

fn block(content: &Value, reply: &mut Reply, on_text: &mut dyn FnMut(&str)) {
    match text(content, "/type") {
        "text" => reply.add_text(text(content, "/text"), on_text),
        kind => reply.calls_tools |= kind.ends_with("tool_use"),
    }
}

fn read_stop(reason: &str, reply: &mut Reply) {
    reply.stop = match reason {
        "" => return,
        "end_turn" | "stop_sequence" => Some(Stop::Done),
        "max_tokens" => Some(Stop::Length),
        "tool_use" => Some(Stop::ToolCalls),
        "model_context_window_exceeded" => Some(Stop::WindowFull),
        other => Some(Stop::Declined(other.to_owned())),
    };
}

/// Copies the reported counts. They come twice, the second time with the output; both are totals.
fn read_usage(reported: &Value, reply: &mut Reply) {
    let reported_count = |name: &str| reported.get(name).and_then(Value::as_i64);
    let usage: &mut Usage = reply.usage_mut();
    for (name, count) in [
        ("input_tokens", &mut usage.input),
        ("output_tokens", &mut usage.output),
        ("cache_read_input_tokens", &mut usage.cache_read),
        ("cache_creation_input_tokens", &mut usage.cache_write),
    ] {
        *count = reported_count(name).map_or(*count, |reported| reported.max(0));
    }
}
