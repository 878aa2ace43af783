//! Replies of model providers, and output of hooks.

use super::mutate::Shape;
use super::{Decoder, Input, Outcome};
use anyhow::{Context as _, Result};
use longhand::config::SummarizerKind;
use longhand::interop::provider::{self, Format};
use longhand::limits;
use longhand::model::compaction::Level;
use longhand::policy::Summary;
use longhand::policy::prompt::{AnswerRequirements, Scope};
use longhand::presets;
use longhand::scheduler::read_hook_output;
use longhand::summarizer::ReplyReader;
use tokio::runtime::Runtime;
use tonic::codegen::http;

/// The readers of replies. The head is `hook`, `append` with a message format for what a client appends, or a protocol with the status and the content type of the response:
/// `anthropic 200 text/event-stream`.
pub(super) struct Replies {
    runtime: Runtime,
    readers: Vec<(&'static str, ReplyReader)>,
    /// The required form of a summary.
    rules: Summary,
}

impl Replies {
    pub(super) fn open() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let _inside = runtime.enter();
        let mut readers = Vec::new();
        for (name, kind) in [
            ("openai-chat", SummarizerKind::OpenaiChat),
            ("openai-responses", SummarizerKind::OpenaiResponses),
            ("anthropic", SummarizerKind::Anthropic),
            ("gemini", SummarizerKind::Gemini),
        ] {
            readers.push((name, ReplyReader::new(kind).context("a provider")?));
        }
        let step = presets::policy("opencode@seed").summarize(Level::Auto).context("a step that summarizes")?.clone();
        Ok(Self { runtime, readers, rules: step.summary })
    }
}

const CHAT: &str = r###"data: {"id":"x","model":"gpt","choices":[{"index":0,"delta":{"role":"assistant","content":"## Goal\n- fix"},"finish_reason":null}]}

data: {"choices":[{"delta":{"content":" it"},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,"prompt_tokens_details":{"cached_tokens":5},"completion_tokens_details":{"reasoning_tokens":3}}}

data: [DONE]

"###;
const CHAT_WHOLE: &str = r###"{"model":"gpt","choices":[{"message":{"role":"assistant","content":"## Goal\n- fix it","tool_calls":[]},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":20,"cost":0.5}}"###;
const RESPONSES: &str = r###"event: response.output_text.delta
data: {"type":"response.output_text.delta","delta":"## Goal\n- fix it"}

event: response.completed
data: {"type":"response.completed","response":{"model":"gpt","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"## Goal\n- fix it"}]}],"usage":{"input_tokens":100,"output_tokens":20,"input_tokens_details":{"cached_tokens":5},"output_tokens_details":{"reasoning_tokens":3}}}}

"###;
const ANTHROPIC: &str = r###"event: message_start
data: {"type":"message_start","message":{"model":"claude","usage":{"input_tokens":100,"output_tokens":1,"cache_read_input_tokens":7}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"## Goal\n- fix it"}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":20}}

event: message_stop
data: {"type":"message_stop"}

"###;
const GEMINI: &str = r###"data: {"candidates":[{"content":{"parts":[{"text":"## Goal\n- fix it"}],"role":"model"},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":100,"candidatesTokenCount":20,"thoughtsTokenCount":3,"cachedContentTokenCount":5,"totalTokenCount":123},"modelVersion":"gemini"}

"###;
const ERRORS: [(&str, &str); 5] = [
    (
        "anthropic 529 application/json",
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
    ),
    (
        "openai-chat 429 application/json",
        r#"{"error":{"message":"Rate limit reached, try again in 20ms","type":"tokens","code":"rate_limit_exceeded"}}"#,
    ),
    (
        "gemini 429 application/json",
        r#"[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"3.5s"}]}}]"#,
    ),
    (
        "openai-responses 400 application/json",
        r#"{"error":{"message":"Your input exceeds the context window","code":"context_length_exceeded"}}"#,
    ),
    ("openai-chat 502 text/html", "<!doctype html><html>502 Bad Gateway</html>"),
];

/// What a client appends as it got it or sent it.
const APPENDED: [(&str, &str); 7] = [
    ("append openai_chat", include_str!("../../../providers/replies/openai_chat.sse")),
    ("append openai_responses", include_str!("../../../providers/replies/openai_responses.sse")),
    ("append anthropic", include_str!("../../../providers/replies/anthropic.sse")),
    ("append gemini", include_str!("../../../providers/replies/gemini.sse")),
    (
        "append anthropic",
        r#"{"system":"x","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]}]}]}"#,
    ),
    (
        "append ai_sdk",
        r#"[{"type":"start"},{"type":"text-start","id":"0"},{"type":"text-delta","id":"0","delta":"x"},{"type":"tool-input-available","toolCallId":"c","toolName":"t","input":{}},{"type":"finish"}]"#,
    ),
    (
        "append ai_sdk",
        r#"[{"role":"user","content":[{"type":"file","data":{"type":"url","url":"https://x"},"mediaType":"image/png"}]},{"role":"tool","content":[{"type":"tool-result","toolCallId":"c","toolName":"t","output":{"type":"json","value":{"a":1.0}}}]}]"#,
    ),
];

/// Reads what a client appends; whatever can be read is within the bounds that no later check has.
fn append(format: Format, body: &[u8]) -> Result<Outcome, String> {
    let Ok(text) = std::str::from_utf8(body) else { return Ok(Outcome::Refused) };
    let Ok(messages) = provider::read(format, text) else { return Ok(Outcome::Refused) };
    if messages.is_empty() {
        return Err("nothing was read, and that was no error".to_owned());
    }
    if let Some(message) = messages.iter().find(|message| message.model.len() > limits::NAME_BYTES_MAX) {
        return Err(format!("a model of {} bytes", message.model.len()));
    }
    Ok(Outcome::Taken)
}

impl Decoder for Replies {
    fn seeds(&mut self) -> Result<Vec<Input>> {
        let mut seeds = vec![
            Input::new("openai-chat 200 text/event-stream", CHAT),
            Input::new("openai-chat 200 application/json", CHAT),
            Input::new("openai-chat 200 application/json", CHAT_WHOLE),
            Input::new("openai-responses 200 text/event-stream", RESPONSES),
            Input::new("anthropic 200 text/event-stream", ANTHROPIC),
            Input::new("gemini 200 text/event-stream", GEMINI),
            Input::new("hook", r#"{"instructions":"be brief","refuse":null,"auto_continue":false}"#),
            Input::new("hook", ""),
            Input::new(
                "hook",
                r#"{"messages":[{"message_id":"msg_0"},{"role":"user","parts":[{"text":"x"}]}],"split_turn":[]}"#,
            ),
        ];
        seeds.extend(ERRORS.map(|(head, body)| Input::new(head, body)));
        seeds.extend(APPENDED.map(|(head, body)| Input::new(head, body)));
        Ok(seeds)
    }

    fn shape(&self, head: &str) -> Shape {
        if head == "hook" || head.contains("json") { Shape::Json } else { Shape::Bytes }
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "data: ",
            "event: ",
            "\n\n",
            "[DONE]",
            "choices",
            "delta",
            "content",
            "finish_reason",
            "usage",
            "error",
            "message",
            "retry_after",
            "try again in 99999999999999999999s",
            "-5s",
            "1e400s",
            "type",
            "text",
            "length",
            "tool_calls",
            "<think>",
            "</think>",
            "```",
            "instructions",
            "refuse",
            "auto_continue",
            "output",
            "parts",
        ]
    }

    fn attempt(&mut self, input: &Input) -> Result<Outcome, String> {
        if input.head == "hook" {
            return Ok(if read_hook_output(&input.body).is_ok() { Outcome::Taken } else { Outcome::Refused });
        }
        let format = input
            .head
            .strip_prefix("append ")
            .and_then(|name| Format::ALL.into_iter().find(|format| format.name() == name));
        if let Some(format) = format {
            return append(format, &input.body);
        }
        let mut words = input.head.split(' ');
        let name = words.next().unwrap_or_default();
        let Some((_, reader)) = self.readers.iter().find(|(known, _)| *known == name) else {
            return Ok(Outcome::Refused);
        };
        let status: u16 = words.next().and_then(|status| status.parse().ok()).unwrap_or(200);
        let response = http::Response::builder()
            .status(status)
            .header("content-type", words.next().unwrap_or_default())
            .body(input.body.clone());
        let Ok(response) = response else { return Ok(Outcome::Refused) };
        let expected = AnswerRequirements { rules: &self.rules, scope: Scope::History, covered_tokens: 0, words: 0 };
        match self.runtime.block_on(reader.read(response, &expected)) {
            Ok(text) if text.trim().is_empty() => Err("an empty summary was accepted".to_owned()),
            Ok(_) => Ok(Outcome::Taken),
            Err(fault) if fault.message.len() > 4_096 => Err(format!("a fault of {} bytes", fault.message.len())),
            Err(_) => Ok(Outcome::Refused),
        }
    }
}
