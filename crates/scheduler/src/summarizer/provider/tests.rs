//! Requests and replies of each protocol, without a network.

use super::protocol::{ANTHROPIC, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES};
use super::reply::Stop;
use super::*;
use serde_json::json;

/// Reads events, and returns the reply with the pieces of text in the order of the callbacks.
fn read_events(protocol: Protocol, events: &[Value]) -> Result<(Reply, Vec<String>), Fault> {
    let mut reply = Reply::default();
    let mut heard = Vec::new();
    for event in events {
        (protocol.read)(event, &mut reply, &mut |words| heard.push(words.to_owned()))?;
    }
    Ok((reply, heard))
}

#[track_caller]
fn check(protocol: Protocol, events: &[Value], text: &str, stop: Option<Stop>, calls_tools: bool) -> Reply {
    let (reply, heard) = read_events(protocol, events).expect("a reply");
    assert_eq!((reply.text.as_str(), &reply.stop, reply.calls_tools), (text, &stop, calls_tools));
    assert_eq!(heard.concat(), text);
    reply
}

#[track_caller]
fn fails(protocol: Protocol, events: &[Value], class: Class) {
    assert_eq!(read_events(protocol, events).expect_err("a fault").class, class);
}

fn usage(counts: [i64; 5], total: Option<i64>) -> Option<Usage> {
    let [input, output, reasoning, cache_read, cache_write] = counts;
    Some(Usage { input, output, reasoning, cache_read, cache_write, total, cost_usd: None, cost_is_computed: false })
}

#[test]
fn chat_completions_are_understood() {
    let delta = |delta: Value, finish: Value| json!({"id": "1", "model": "m-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let null = Value::Null;
    let spent = json!({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 30, "total_tokens": 130,
        "prompt_tokens_details": {"cached_tokens": 40}, "completion_tokens_details": {"reasoning_tokens": 10}}});
    let events = [
        delta(json!({"role": "assistant", "content": ""}), null.clone()),
        delta(json!({"reasoning_content": "hm"}), null.clone()),
        delta(json!({"content": "## "}), null.clone()),
        delta(json!({"content": "Goal"}), null.clone()),
        delta(json!({}), json!("stop")),
        spent,
    ];
    let reply = check(OPENAI_CHAT, &events, "## Goal", Some(Stop::Done), false);
    assert_eq!((reply.model.as_str(), reply.usage), ("m-1", usage([60, 20, 10, 40, 0], Some(130))));

    let reply_with = |text: &str, finish: &str| [delta(json!({"content": text}), json!(finish))];
    check(OPENAI_CHAT, &reply_with("a", "length"), "a", Some(Stop::Length), false);
    check(
        OPENAI_CHAT,
        &reply_with("a", "content_filter"),
        "a",
        Some(Stop::Declined("content_filter".to_owned())),
        false,
    );
    let called = [delta(json!({"tool_calls": [{"index": 0, "function": {"name": "ls"}}]}), json!("stop"))];
    check(OPENAI_CHAT, &called, "", Some(Stop::Done), true);
    let whole = [json!({"object": "chat.completion", "model": "m", "choices": [
        {"message": {"role": "assistant", "content": "all", "tool_calls": null}, "finish_reason": "stop"}]})];
    check(OPENAI_CHAT, &whole, "all", Some(Stop::Done), false);
    let listed = [json!({"choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "al"},
        {"type": "text", "text": "l"}]}}]})];
    check(OPENAI_CHAT, &listed, "all", Some(Stop::Done), false);
    let cost = [json!({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "cost": 0.25}})];
    assert_eq!(read_events(OPENAI_CHAT, &cost).expect("read").0.usage.expect("usage").cost_usd, Some(0.25));
    fails(OPENAI_CHAT, &[json!({"error": {"message": "Overloaded", "code": 502}})], Class::Transient);
    fails(OPENAI_CHAT, &reply_with("a", "error"), Class::Transient);
    assert_eq!(check(OPENAI_CHAT, &[json!({}), json!([]), json!("x")], "", None, false).usage, None);
}

#[test]
fn responses_are_understood() {
    let ended = |kind: &str, response: Value| json!({"type": kind, "response": response});
    let spent = json!({"input_tokens": 100, "input_tokens_details": {"cached_tokens": 40}, "output_tokens": 30,
        "output_tokens_details": {"reasoning_tokens": 10}, "total_tokens": 130});
    let done = json!({"object": "response", "status": "completed", "model": "m-2", "usage": spent, "output": [
        {"type": "reasoning", "summary": []},
        {"type": "message", "content": [{"type": "output_text", "text": "## Goal"}]}]});
    let events = [
        json!({"type": "response.created", "response": {"status": "in_progress"}}),
        json!({"type": "response.output_item.added", "item": {"type": "message"}}),
        json!({"type": "response.reasoning_summary_text.delta", "delta": "hm"}),
        json!({"type": "response.output_text.delta", "delta": "## "}),
        json!({"type": "response.output_text.delta", "delta": "Goal"}),
        ended("response.completed", done.clone()),
    ];
    let reply = check(OPENAI_RESPONSES, &events, "## Goal", Some(Stop::Done), false);
    assert_eq!((reply.model.as_str(), reply.usage), ("m-2", usage([60, 20, 10, 40, 0], Some(130))));
    check(OPENAI_RESPONSES, &[done], "## Goal", Some(Stop::Done), false);

    let cut = json!({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}});
    check(OPENAI_RESPONSES, &[ended("response.incomplete", cut)], "", Some(Stop::Length), false);
    let refused = json!({"status": "completed", "output": [{"content": [{"type": "refusal", "refusal": "no"}]}]});
    let declined = Some(Stop::Declined("refusal".to_owned()));
    check(OPENAI_RESPONSES, &[ended("response.completed", refused)], "", declined, false);
    let called = json!({"type": "response.output_item.added", "item": {"type": "function_call"}});
    let end = ended("response.completed", json!({"status": "completed"}));
    check(OPENAI_RESPONSES, &[called, end], "", Some(Stop::Done), true);

    let failed =
        |code: &str| [ended("response.failed", json!({"status": "failed", "error": {"code": code, "message": "m"}}))];
    fails(OPENAI_RESPONSES, &failed("server_error"), Class::Transient);
    fails(OPENAI_RESPONSES, &failed("context_length_exceeded"), Class::Overflow);
    fails(OPENAI_RESPONSES, &failed("invalid_prompt"), Class::Permanent);
    fails(OPENAI_RESPONSES, &[ended("response.cancelled", json!({"status": "cancelled"}))], Class::Cancelled);
    let error = json!({"type": "error", "code": "rate_limit_exceeded", "message": "slow down"});
    fails(OPENAI_RESPONSES, &[error], Class::Transient);
    fails(OPENAI_RESPONSES, &[json!({"error": {"type": "invalid_request_error", "message": "m"}})], Class::Permanent);
}

#[test]
fn anthropics_messages_are_understood() {
    let delta = |delta: Value| json!({"type": "content_block_delta", "index": 0, "delta": delta});
    let start = json!({"type": "message_start", "message": {"model": "m-3", "content": [], "usage": {
        "input_tokens": 60, "cache_read_input_tokens": 40, "cache_creation_input_tokens": 5, "output_tokens": 1}}});
    let stop = |reason: &str| {
        json!({"type": "message_delta", "delta": {"stop_reason": reason},
        "usage": {"output_tokens": 30}})
    };
    let events = [
        start.clone(),
        json!({"type": "content_block_start", "content_block": {"type": "thinking", "thinking": ""}}),
        delta(json!({"type": "thinking_delta", "thinking": "hm"})),
        json!({"type": "content_block_start", "content_block": {"type": "text", "text": ""}}),
        json!({"type": "ping"}),
        delta(json!({"type": "text_delta", "text": "## "})),
        delta(json!({"type": "text_delta", "text": "Goal"})),
        json!({"type": "content_block_stop", "index": 0}),
        stop("end_turn"),
        json!({"type": "message_stop"}),
    ];
    let reply = check(ANTHROPIC, &events, "## Goal", Some(Stop::Done), false);
    assert_eq!((reply.model.as_str(), reply.usage), ("m-3", usage([60, 30, 0, 40, 5], None)));

    check(ANTHROPIC, &[stop("max_tokens")], "", Some(Stop::Length), false);
    check(ANTHROPIC, &[stop("model_context_window_exceeded")], "", Some(Stop::WindowFull), false);
    check(ANTHROPIC, &[stop("refusal")], "", Some(Stop::Declined("refusal".to_owned())), false);
    let called = json!({"type": "content_block_start", "content_block": {"type": "tool_use", "name": "ls"}});
    check(ANTHROPIC, &[called, stop("tool_use")], "", Some(Stop::ToolCalls), true);
    let whole = json!({"type": "message", "model": "m", "content": [{"type": "text", "text": "all"}],
        "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 2}});
    check(ANTHROPIC, &[whole], "all", Some(Stop::Done), false);
    let error = |kind: &str| [start.clone(), json!({"type": "error", "error": {"type": kind, "message": "m"}})];
    fails(ANTHROPIC, &error("overloaded_error"), Class::Transient);
    fails(ANTHROPIC, &error("request_too_large"), Class::Overflow);
    fails(ANTHROPIC, &error("authentication_error"), Class::Permanent);
}

#[test]
fn gemini_is_understood() {
    let reply_with = |parts: Value, finish: Value| {
        json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish}],
               "modelVersion": "m-4", "usageMetadata": {"promptTokenCount": 100, "cachedContentTokenCount": 40,
               "candidatesTokenCount": 20, "thoughtsTokenCount": 10, "totalTokenCount": 130}})
    };
    let events = [
        reply_with(json!([{"text": "hm", "thought": true}]), Value::Null),
        reply_with(json!([{"text": "## "}, {"text": "Go"}]), Value::Null),
        reply_with(json!([{"text": "al"}]), json!("STOP")),
    ];
    let reply = check(GEMINI, &events, "## Goal", Some(Stop::Done), false);
    assert_eq!((reply.model.as_str(), reply.usage), ("m-4", usage([60, 20, 10, 40, 0], Some(130))));
    check(GEMINI, &[Value::Array(events.to_vec())], "## Goal", Some(Stop::Done), false);

    check(GEMINI, &[reply_with(json!([{"text": "a"}]), json!("MAX_TOKENS"))], "a", Some(Stop::Length), false);
    check(GEMINI, &[reply_with(json!([]), json!("SAFETY"))], "", Some(Stop::Declined("SAFETY".to_owned())), false);
    check(GEMINI, &[reply_with(json!([]), json!("MALFORMED_FUNCTION_CALL"))], "", Some(Stop::ToolCalls), false);
    check(GEMINI, &[reply_with(json!([{"functionCall": {"name": "ls"}}]), json!("STOP"))], "", Some(Stop::Done), true);
    let blocked = json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}});
    check(GEMINI, &[blocked], "", Some(Stop::Declined("PROHIBITED_CONTENT".to_owned())), false);
    let error = |code: i64, status: &str| [json!({"error": {"code": code, "status": status, "message": "m"}})];
    fails(GEMINI, &error(503, "UNAVAILABLE"), Class::Transient);
    fails(GEMINI, &error(429, "RESOURCE_EXHAUSTED"), Class::Transient);
    fails(GEMINI, &error(400, "INVALID_ARGUMENT"), Class::Permanent);
}

#[test]
fn requests_are_what_each_protocol_wants() {
    let prompt = Prompt { system: "SYS".to_owned(), user: "USER".to_owned() };
    let extra = json!({"temperature": 0.5}).as_object().expect("an object").clone();
    let ask = |base_url| ModelRequest { base_url, model: "m", prompt: &prompt, max_output: 9, extra: &extra };
    let cases = [
        (
            OPENAI_CHAT,
            "http://h/v1",
            "http://h/v1/chat/completions",
            ["/messages/0/content", "/messages/1/content", "/max_tokens"],
        ),
        (
            OPENAI_CHAT,
            "https://api.openai.com/v1",
            "https://api.openai.com/v1/chat/completions",
            ["/messages/0/content", "/messages/1/content", "/max_completion_tokens"],
        ),
        (
            OPENAI_RESPONSES,
            "http://h",
            "http://h/responses",
            ["/instructions", "/input/0/content/0/text", "/max_output_tokens"],
        ),
        (ANTHROPIC, "http://h", "http://h/messages", ["/system", "/messages/0/content", "/max_tokens"]),
        (
            GEMINI,
            "http://h",
            "http://h/models/m:streamGenerateContent?alt=sse",
            ["/systemInstruction/parts/0/text", "/contents/0/parts/0/text", "/generationConfig/maxOutputTokens"],
        ),
    ];
    for (protocol, base_url, url, [system, user, limit]) in cases {
        let wire = (protocol.request)(&ask(base_url));
        assert_eq!(wire.url, url);
        let found = [system, user, limit, "/temperature"].map(|pointer| wire.body.pointer(pointer).cloned());
        let expected = [json!("SYS"), json!("USER"), json!(9), json!(0.5)].map(Some);
        assert_eq!(found, expected, "{}", wire.body);
    }
    let extra = json!({"max_completion_tokens": 5}).as_object().expect("an object").clone();
    let body = (OPENAI_CHAT.request)(&ModelRequest { extra: &extra, ..ask("http://h") }).body;
    assert_eq!((body.get("max_tokens"), &body["max_completion_tokens"]), (None, &json!(5)));
}

/// The table knows what a model's maker takes, and not what a server at another address does.
#[test]
fn a_cost_that_nobody_reports_is_by_the_table_at_the_makers_address_alone() {
    let usage = Usage { input: 1_000_000, output: 1_000_000, ..Usage::default() };
    let cost = |more: &str, usage: Usage| {
        let settings = format!("kind = \"anthropic\"\nmodel = \"claude-sonnet-4-5\"\nwindow = 200000\n{more}");
        let settings = toml::from_str(&settings).expect("settings");
        let provider = Provider::new("it", &settings, None, &Models::built_in(), Clock::default());
        let priced = provider.expect("valid").expect("a provider").with_cost(usage);
        (priced.cost_usd, priced.cost_is_computed)
    };
    assert_eq!(cost("", usage), (Some(3.0 + 15.0), true));
    assert_eq!(cost("base_url = \"http://127.0.0.1:9\"", usage), (None, false));
    assert_eq!(cost("prices = { input = 1.0, output = 2.0 }", usage), (Some(3.0), false));
    assert_eq!(cost("", Usage { cost_usd: Some(0.5), ..usage }), (Some(0.5), false));
}
