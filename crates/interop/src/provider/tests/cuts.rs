//! Streams that break off anywhere, and texts that break off within a character.

use super::super::{Format, read, received, write};
use super::cases::STREAMS;
use super::{json, list, view};
use Format::{AiSdk, Anthropic, Gemini, OpenAiChat, OpenAiResponses};
use longhand_model::limits;
use longhand_model::message::{FinishReason, NewMessage, Role};
use longhand_model::part::{NewPart, Opaque, PartBody, ToolCall};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A stream of the AI SDK's.
const AI_SDK: &str = "data: {\"type\":\"start\",\"messageId\":\"m\"}\n\ndata: {\"type\":\"start-step\"}\n\n\
    data: {\"type\":\"reasoning-start\",\"id\":\"r\"}\n\ndata: {\"type\":\"reasoning-delta\",\"id\":\"r\",\"delta\":\"hm 😀\"}\n\n\
    data: {\"type\":\"text-start\",\"id\":\"1\"}\n\ndata: {\"type\":\"text-delta\",\"id\":\"1\",\"delta\":\"Zwei Pegel, é\"}\n\n\
    data: {\"type\":\"text-delta\",\"id\":\"1\",\"delta\":\" und 一个\"}\n\ndata: {\"type\":\"text-end\",\"id\":\"1\"}\n\n\
    data: {\"type\":\"tool-input-start\",\"toolCallId\":\"c\",\"toolName\":\"read\"}\n\n\
    data: {\"type\":\"tool-input-delta\",\"toolCallId\":\"c\",\"inputTextDelta\":\"{\\\"at\\\": \"}\n\n\
    data: {\"type\":\"tool-input-available\",\"toolCallId\":\"c\",\"toolName\":\"read\",\"input\":{\"at\":\"x\"}}\n\n\
    data: {\"type\":\"finish-step\"}\n\ndata: {\"type\":\"finish\",\"finishReason\":\"tool-calls\"}\n\ndata: [DONE]\n\n";

/// The streams as server-sent events, as a list, and one chunk a line, with letters of several bytes.
fn streams() -> Vec<(Format, String)> {
    let events = STREAMS.into_iter().chain([(AiSdk, AI_SDK)]);
    let mut all = Vec::new();
    for (format, events) in events {
        let events = events.replace("High at", "Hôch 😀 at");
        let data = events.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
        let chunks: Vec<&str> = data.collect();
        all.push((format, format!("[{}]", chunks.join(",\n"))));
        all.push((format, chunks.join("\n")));
        all.push((format, events));
    }
    all
}

/// Everything that a message says, in order.
fn said(messages: &[NewMessage]) -> String {
    let parts = messages.iter().flat_map(|message| &message.parts);
    let words = parts.map(|part| match &*part.body {
        PartBody::Text(text) | PartBody::Reasoning(text) => text.clone(),
        PartBody::ToolCall(call) => call.tool.clone(),
        _ => String::new(),
    });
    words.collect()
}

#[test]
fn a_stream_that_is_cut_anywhere_is_kept_as_far_as_it_came() {
    for (format, stream) in streams() {
        let whole = said(&read(format, &stream).expect("a whole stream"));
        let mut before = String::new();
        // The first chunk has to say what the text is.
        let first = stream.find("\n").expect("several lines");
        let is_events = stream.starts_with("event:") || stream.starts_with("data:");
        let first = if is_events { stream.find("\n\n").expect("events") } else { first };
        // The other forms share what reads each chunk.
        for cut in (first..stream.len()).step_by(if is_events { 1 } else { 7 }) {
            let text = received(&stream.as_bytes()[..cut]).expect("the beginning of a text");
            let messages = read(format, text).unwrap_or_else(|error| panic!("{format:?} at {cut}: {error}: {text}"));
            let now = said(&messages);
            assert!(
                whole.starts_with(&now) && now.starts_with(&before),
                "{format:?} at {cut}: {now:?} after {before:?}"
            );
            for message in messages.iter().filter(|message| message.role == Role::Assistant) {
                let reason = message.finish.as_ref().and_then(|finish| finish.reason).expect("a reason");
                // A response of Gemini is what its first chunk is.
                let is_whole = format == Gemini && !is_events && text.trim_end().lines().count() == 1;
                let is_end = cut + 400 > stream.len();
                assert!(reason == FinishReason::Aborted || is_end || is_whole, "{format:?} at {cut}: {reason:?}");
            }
            before = now;
        }
        assert!(!whole.is_empty() && (before == whole || !is_events), "{format:?}");
    }
}

/// Deltas of a text whose surrogate pair is split between two of them, as JavaScript splits it.
#[test]
fn a_pair_that_is_split_over_two_deltas_is_one_letter() {
    let halves = [r#""a\ud83d""#, r#""\ude00b""#];
    let delta = |before: &str, after: &str| halves.map(|half| format!("{before}{half}{after}")).join("\n");
    for (format, stream) in [
        (OpenAiChat, delta(r#"{"choices":[{"index":0,"delta":{"content":"#, "}}]}")),
        (OpenAiResponses, delta(r#"{"type":"response.output_text.delta","output_index":0,"delta":"#, "}")),
        (
            Anthropic,
            format!(
                "{}\n{}",
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
                delta(r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"#, "}}")
            ),
        ),
        (Gemini, delta(r#"{"candidates":[{"content":{"parts":[{"text":"#, "}]}}]}")),
        (
            AiSdk,
            format!(
                "{}\n{}",
                r#"{"type":"text-start","id":"1"}"#,
                delta(r#"{"type":"text-delta","id":"1","delta":"#, "}")
            ),
        ),
    ] {
        assert_eq!(said(&read(format, &stream).expect("a stream")), "a😀b", "{format:?}");
        // Without the other half, one letter stands for it.
        let cut = stream.trim_end().rsplit_once('\n').expect("two deltas").0;
        let events: String = cut.lines().map(|line| format!("data: {line}\n\n")).collect();
        assert_eq!(said(&read(format, &events).expect("a stream")), "a\u{fffd}", "{format:?}");
    }
}

#[test]
fn a_pair_that_is_split_within_an_input_is_one_letter() {
    let stream = [
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"b","input":{}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"x\":\"\ud83d"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"\ude00\"}"}}"#,
    ];
    let message = read(Anthropic, &stream.join("\n")).expect("a stream").remove(0);
    let PartBody::ToolCall(call) = &*message.parts[0].body else { panic!("{message:?}") };
    assert_eq!(call.input_json, "{\"x\":\"😀\"}");
}

fn cut_input() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(r#"{"a":"\ud83d"}"#.to_owned()),
        Just(r#"{"a":"\ude00\ud83d\ud83d\ude00"}"#.to_owned()),
        Just(r#"{"\udc00":1,"b":"\\ud83d"}"#.to_owned()),
        Just(r#"{"a":"\ud8"#.to_owned()),
        Just(r#"{"a": [1, {"b"#.to_owned()),
        Just(r#"["\ud83d"]"#.to_owned()),
        Just("\"\\ud83d".to_owned()),
        "\\PC{0,12}",
    ]
}

/// A block of a format with half a pair somewhere.
fn cut_block(format: Format) -> impl Strategy<Value = NewPart> {
    prop_oneof![Just(r"\ud83d"), Just(r"\ude00"), Just(r"\ud83d\ude00"), Just(r"\\ud83d")].prop_map(move |half| {
        let name = if format == Gemini { "executableCode" } else { "type" };
        let data = format!(r#"{{"{name}":"server_block","{half}":{{"deep":["x{half}"]}}}}"#).into_bytes();
        NewPart::new(PartBody::Opaque(Opaque {
            provider: format.name().to_owned(),
            kind: "server_block".to_owned(),
            data,
        }))
    })
}

fn cut_call(format: Format) -> impl Strategy<Value = NewPart> {
    let kept = match format {
        OpenAiChat => Some(r#"{"id":"a","type":"function","function":{"name":"tool","arguments":null},"x":"\udc00"}"#),
        OpenAiResponses => {
            Some(r#"{"type":"function_call","call_id":"a","name":"tool","arguments":null,"x":"\ud83d"}"#)
        }
        Anthropic => Some(r#"{"type":"tool_use","id":"a","name":"tool","input":null,"x":"\ud83d"}"#),
        Gemini => Some(r#"{"functionCall":{"id":"a","name":"tool","args":null},"thoughtSignature":"\ud83d"}"#),
        AiSdk => None,
    };
    (cut_input(), any::<bool>()).prop_map(move |(input_json, is_kept)| NewPart {
        metadata_json: kept.filter(|_| is_kept).map(|kept| format!(r#"{{"{}":{kept}}}"#, format.name())),
        ..NewPart::new(PartBody::ToolCall(ToolCall {
            call_id: "a".to_owned(),
            tool: "tool".to_owned(),
            input_json,
            ..ToolCall::default()
        }))
    })
}

/// The arguments of calls that are JSON in a string.
fn arguments(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            into.extend(members.get("arguments").and_then(Value::as_str).map(ToOwned::to_owned));
            members.values().for_each(|member| arguments(member, into));
        }
        Value::Array(items) => items.iter().for_each(|item| arguments(item, into)),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_view_is_json_that_providers_read(
        (format, parts) in proptest::sample::select(Format::ALL.to_vec()).prop_flat_map(|format| {
            let part = prop_oneof![cut_call(format), cut_block(format)];
            (Just(format), proptest::collection::vec(part, 1..5))
        }),
    ) {
        let asked = NewMessage::sealed(Role::User, vec![NewPart::new(PartBody::Text("go".to_owned()))]);
        let shown = view(vec![asked, NewMessage::sealed(Role::Assistant, parts)]);
        for to in Format::ALL {
            let Ok(written) = write(to, &shown) else {
                prop_assert_ne!(to, format);
                continue;
            };
            let mut found = Vec::new();
            for message in &written.messages {
                // A strict reader refuses half a pair.
                let value = serde_json::from_str::<Value>(&message.json);
                prop_assert!(value.is_ok(), "{to:?}: {value:?} {}", message.json);
                arguments(&value.unwrap_or_default(), &mut found);
            }
            for arguments in found {
                let value = serde_json::from_str::<Value>(&arguments);
                prop_assert!(value.is_ok(), "{to:?}: {value:?} {arguments}");
            }
        }
    }
}

/// A stream of Anthropic's with one block.
fn of_block(start: &str, deltas: &[&str]) -> String {
    let delta = |delta: &&str| format!(r#"{{"type":"content_block_delta","index":0,"delta":{delta}}}"#);
    let start = format!(r#"{{"type":"content_block_start","index":0,"content_block":{start}}}"#);
    [start].into_iter().chain(deltas.iter().map(delta)).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_delta_of_a_new_kind_continues_its_block() {
    let stream = of_block(
        r#"{"type":"compaction","content":""}"#,
        &[r#"{"type":"compaction_delta","content":"The story "}"#, r#"{"type":"compaction_delta","content":"so far"}"#],
    );
    let message = read(Anthropic, &stream).expect("a stream").remove(0);
    let PartBody::Opaque(block) = &*message.parts[0].body else { panic!("{message:?}") };
    let block = json(std::str::from_utf8(&block.data).expect("text"));
    assert_eq!(block, json!({"type": "compaction", "content": "The story so far"}));
}

#[test]
fn a_signature_of_any_size_stays_with_its_call() {
    let long = "s".repeat(300_000);
    let turn = format!(
        r#"[{{"role":"user","parts":[{{"text":"go"}}]}},{{"role":"model","parts":[{{"functionCall":{{"name":"read","args":{{"x":1}}}},"thoughtSignature":"{long}"}}]}}]"#
    );
    let messages = read(Gemini, &turn).expect("a turn");
    let metadata = messages.iter().flat_map(|message| &message.parts).filter_map(|part| part.metadata_json.as_ref());
    assert!(metadata.into_iter().all(|metadata| metadata.len() <= limits::METADATA_BYTES_MAX));
    let shown = view(messages);
    let part = list(&write(Gemini, &shown).expect("its own"))[1]["parts"][0].clone();
    assert_eq!(
        (&part["functionCall"]["name"], part["thoughtSignature"].as_str()),
        (&json!("read"), Some(long.as_str()))
    );
    for format in [OpenAiChat, OpenAiResponses, Anthropic, AiSdk] {
        let written = write(format, &shown).unwrap_or_else(|refusal| panic!("{format:?}: {refusal}"));
        assert!(list(&written).to_string().contains("read"), "{format:?}");
    }
    // Others lose what does not fit, and keep the reply.
    let call = format!(
        r#"[{{"role":"assistant","content":null,"tool_calls":[{{"id":"a","type":"function","function":{{"name":"read","arguments":"{{}}"}},"more":"{long}"}}]}}]"#
    );
    let message = read(OpenAiChat, &call).expect("a turn").remove(0);
    assert!(message.parts[0].metadata_json.is_none() && said(&[message]) == "read");
}

#[test]
fn usage_of_any_size_loses_no_reply() {
    let replies = [
        (Anthropic, r#"{"role":"assistant","content":"x","usage":{"input_tokens":1e19,"output_tokens":3}}"#),
        (
            OpenAiChat,
            r#"{"choices":[{"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10000000000000000000,"completion_tokens":3,"total_tokens":1e30}}"#,
        ),
        (
            OpenAiResponses,
            r#"{"status":"completed","output":[{"type":"message","role":"assistant","content":"x"}],"usage":{"input_tokens":1e19,"output_tokens":3}}"#,
        ),
        (
            Gemini,
            r#"{"candidates":[{"content":{"parts":[{"text":"x"}]}}],"usageMetadata":{"promptTokenCount":1e19,"toolUsePromptTokenCount":1e19,"candidatesTokenCount":3}}"#,
        ),
        (AiSdk, r#"{"messages":[{"role":"assistant","content":"x"}],"usage":{"inputTokens":1e19,"outputTokens":3}}"#),
    ];
    for (format, reply) in replies {
        let message = read(format, reply).expect("a reply").remove(0);
        let usage = message.finish.expect("an end").usage.expect("usage");
        assert_eq!((usage.defect(), usage.input, usage.output), (None, 0, 3), "{format:?}");
    }
}

#[test]
fn zeros_behind_usage_take_nothing_back() {
    let text = r#""delta":{"content":"x"}"#;
    for (format, stream) in [
        (
            Anthropic,
            [
                r#"{"type":"message_start","message":{"role":"assistant","usage":{"input_tokens":70,"cache_read_input_tokens":5,"output_tokens":1}}}"#.to_owned(),
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"x"}}"#.to_owned(),
                r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":0,"cache_read_input_tokens":0,"output_tokens":9}}"#.to_owned(),
            ],
        ),
        (
            OpenAiChat,
            [
                format!(r#"{{"choices":[{{"index":0,{text}}}]}}"#),
                r#"{"choices":[],"usage":{"prompt_tokens":75,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":5}}}"#.to_owned(),
                r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":0,"completion_tokens":0,"prompt_tokens_details":{"cached_tokens":0}}}"#.to_owned(),
            ],
        ),
        (
            Gemini,
            [
                r#"{"candidates":[{"content":{"parts":[{"text":"x"}]}}]}"#.to_owned(),
                r#"{"candidates":[],"usageMetadata":{"promptTokenCount":75,"cachedContentTokenCount":5,"candidatesTokenCount":9}}"#.to_owned(),
                r#"{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":0,"candidatesTokenCount":0}}"#.to_owned(),
            ],
        ),
    ] {
        let message = read(format, &stream.join("\n")).expect("a stream").remove(0);
        let usage = message.finish.expect("an end").usage.expect("usage");
        assert_eq!((usage.input, usage.cache_read, usage.output), (70, 5, 9), "{format:?}");
    }
}

/// What a turn becomes in its own format.
fn comes_back(format: Format, turn: &str) {
    let given = json(turn);
    let messages = read(format, turn).expect("a turn");
    let written = write(format, &view(messages)).expect("its own");
    let shown = list(&written);
    let count = given.as_array().map_or(0, Vec::len);
    assert_eq!(Value::Array(shown.as_array().expect("a list")[..count].to_vec()), given, "{format:?}");
}

#[test]
fn small_members_come_back() {
    for (format, turn) in [
        (
            OpenAiResponses,
            r#"[{"type":"message","role":"user","content":"go"},{"type":"message","role":"assistant","phase":"commentary","content":"I look."}]"#,
        ),
        (
            OpenAiResponses,
            r#"[{"type":"message","role":"user","content":[{"type":"input_image","detail":"high","image_url":"https://example.org/x"}]},
              {"type":"function_call","call_id":"a","name":"see","arguments":"{}"},
              {"type":"function_call_output","call_id":"a","output":[{"type":"input_image","detail":"high","image_url":"data:image/png;base64,AQID"}]}]"#,
        ),
        (
            OpenAiChat,
            r#"[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AQID","detail":"high"}}]},
              {"role":"assistant","content":"x","reasoning_content":""}]"#,
        ),
    ] {
        comes_back(format, turn);
    }
    // Other formats have no use for an empty thought.
    let turn = r#"[{"role":"user","content":"go"},{"role":"assistant","content":"x","reasoning_content":""}]"#;
    let shown = view(read(OpenAiChat, turn).expect("a turn"));
    assert!(write(Anthropic, &shown).is_ok());
}

#[test]
fn a_result_that_is_an_image_alone_has_no_text() {
    let turn = r#"[{"role":"user","content":"go"},
      {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"see","input":{}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AQID"}}]}]}]"#;
    let shown = view(read(Anthropic, turn).expect("a turn"));
    let written = list(&write(OpenAiResponses, &shown).expect("a view"));
    let output = written[2]["output"].as_array().expect("a list").clone();
    assert_eq!(output.iter().map(|block| &block["type"]).collect::<Vec<_>>(), ["input_image"]);
    let back = view(read(OpenAiResponses, &written.to_string()).expect("a turn"));
    assert_eq!(list(&write(OpenAiResponses, &back).expect("a view"))[2], written[2]);
}
