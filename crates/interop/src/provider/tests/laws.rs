//! Laws of all formats, over conversations that no table would think of.

use super::super::{Format, LeftOutKind, RefusalKind, read, write, write_degraded};
use super::valid::faults;
use super::{json, list, view};
use longhand_model::message::{NewMessage, Role};
use longhand_model::part::{
    Answers, Marker, Media, MediaSource, NewPart, Opaque, PartBody, ResultStatus, ToolCall, ToolResult,
};
use longhand_model::view::ViewMessage;
use proptest::prelude::*;
use serde_json::{Value, json};

fn part() -> impl Strategy<Value = NewPart> {
    let id = || prop_oneof![4 => "[abc]", 1 => "call\\|[ab.]", 1 => "x{70}"];
    let media = prop_oneof![
        Just(("image/png", false)),
        Just(("image/png", true)),
        Just(("application/pdf", false)),
        Just(("audio/mpeg", false)),
        Just(("video/mp4", false)),
    ];
    let media = || {
        media.clone().prop_map(|(mime_type, is_address)| Media {
            mime_type: mime_type.to_owned(),
            name: String::new(),
            source: if is_address {
                MediaSource::Uri("https://example.org/x".to_owned())
            } else {
                MediaSource::Bytes(vec![1, 2])
            },
        })
    };
    let input = prop_oneof![Just(""), Just("{}"), Just(r#"{"a":1.0}"#), Just(r#"{"a":"#), Just("[1]")];
    let call = (id(), input, prop_oneof![9 => Just("tool"), 1 => Just("a tool")]).prop_map(|(call_id, input, tool)| {
        PartBody::ToolCall(ToolCall {
            call_id,
            tool: tool.to_owned(),
            input_json: input.to_owned(),
            ..ToolCall::default()
        })
    });
    let result = (id(), "[a-z]{0,3}", proptest::collection::vec(media(), 0..2), any::<bool>()).prop_map(
        |(call_id, output, attachments, is_error)| {
            PartBody::ToolResult(ToolResult {
                call_id,
                answers: Answers::Nearest,
                status: if is_error { ResultStatus::Error } else { ResultStatus::Completed },
                output,
                attachments,
                start_time: None,
                end_time: None,
            })
        },
    );
    let opaque = prop_oneof![Just("anthropic"), Just("openai"), Just("gemini"), Just("openai_chat"), Just("ai_sdk")];
    let opaque = (opaque, prop_oneof![Just("reasoning"), Just("server_tool")]).prop_map(|(provider, kind)| {
        let data = format!(r#"{{"type":"{kind}","of":"{provider}"}}"#).into_bytes();
        PartBody::Opaque(Opaque { provider: provider.to_owned(), kind: kind.to_owned(), data })
    });
    let body = prop_oneof![
        30 => "[ a-z]{1,3}".prop_map(PartBody::Text),
        10 => "[a-z]{1,3}".prop_map(PartBody::Reasoning),
        20 => call,
        30 => result,
        1 => media().prop_map(PartBody::Media),
        1 => Just(PartBody::Marker(Marker { name: "note".to_owned(), text: "note".to_owned() })),
        1 => opaque,
    ];
    let metadata = prop_oneof![
        6 => Just(None),
        1 => Just(Some(r#"{"signature":"free JSON of a client"}"#)),
    ];
    (body, metadata).prop_map(|(body, metadata): (_, Option<&str>)| NewPart {
        metadata_json: metadata.map(ToOwned::to_owned),
        ..NewPart::new(body)
    })
}

fn conversation() -> impl Strategy<Value = Vec<NewMessage>> {
    let role = prop_oneof![
        6 => Just(Role::Assistant), 6 => Just(Role::Tool), 3 => Just(Role::User), 1 => Just(Role::System),
    ];
    let message =
        (role, proptest::collection::vec(part(), 1..5)).prop_map(|(role, parts)| NewMessage::sealed(role, parts));
    proptest::collection::vec(message, 1..10)
}

/// The texts of a view that its model must read, in their order.
fn texts(view: &[ViewMessage]) -> Vec<String> {
    let bodies = view.iter().flat_map(|message| &message.parts).map(|part| &*part.body);
    let texts = bodies.filter_map(|body| match body {
        PartBody::Text(text) if !text.trim().is_empty() => Some(text.clone()),
        PartBody::Marker(marker) => Some(marker.text.clone()),
        PartBody::ToolResult(result) if !result.output.trim().is_empty() => Some(result.output.clone()),
        _ => None,
    });
    texts.collect()
}

/// Every string that is a value somewhere in JSON.
fn strings(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::String(text) => into.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| strings(item, into)),
        Value::Object(members) => members.values().for_each(|member| strings(member, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Why a view may be refused: it has that.
fn has(view: &[ViewMessage], format: Format, kind: &RefusalKind) -> bool {
    let bodies = || view.iter().flat_map(|message| message.parts.iter().map(move |part| (message.role, &*part.body)));
    match kind {
        RefusalKind::ForeignBlock { provider, kind } => bodies().any(|(_, body)| {
            matches!(body, PartBody::Opaque(opaque) if opaque.provider == *provider && opaque.kind == *kind && !format.owns(provider))
        }),
        RefusalKind::Media { mime_type, .. } => bodies().any(|(_, body)| match body {
            PartBody::Media(media) => media.mime_type == *mime_type,
            PartBody::ToolResult(result) => result.attachments.iter().any(|media| media.mime_type == *mime_type),
            _ => false,
        }),
        RefusalKind::MediaOfRole { role } => bodies().any(|(of, body)| {
            let is_of_role = [(Role::Assistant, "assistant"), (Role::System, "system")].contains(&(of, role));
            is_of_role && matches!(body, PartBody::Media(_))
        }),
        RefusalKind::PartOfRole { role } => bodies().any(|(of, body)| {
            let is_other = !matches!(body, PartBody::Text(_) | PartBody::Marker(_) | PartBody::Media(_));
            (of, *role) == (Role::System, "system") && is_other
        }),
        RefusalKind::ToolName { name } => {
            bodies().any(|(_, body)| matches!(body, PartBody::ToolCall(call) if call.tool == *name))
        }
        RefusalKind::LateSystem => format == Format::Gemini && view.iter().skip(1).any(|message| message.role == Role::System),
        // Nothing but instructions, and what is left out, comes before the reply.
        RefusalKind::NoUserFirst => {
            let is_shown = |message: &&ViewMessage| message.parts.iter().any(|part| is_shown(format, &part.body));
            let first = view.iter().filter(|message| message.role != Role::System).find(is_shown);
            first.is_some_and(|message| message.role == Role::Assistant)
        }
        RefusalKind::DamagedBlock { .. } => false,
    }
}

/// True for content that a format with the user at the beginning shows, of a part that was no block of it.
fn is_shown(format: Format, body: &PartBody) -> bool {
    match body {
        PartBody::Text(text) => format == Format::Gemini || !text.trim().is_empty(),
        PartBody::Reasoning(_) => format == Format::Gemini,
        PartBody::Opaque(opaque) => format.owns(&opaque.provider),
        _ => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_view_is_valid_and_whole_in_every_format_or_refused_by_name(messages in conversation()) {
        let shown = view(messages);
        for format in Format::ALL {
            let written = match write(format, &shown) {
                Ok(written) => written,
                Err(refusal) => {
                    prop_assert!(has(&shown, format, &refusal.kind), "{refusal} {shown:#?}");
                    continue;
                }
            };
            prop_assert_eq!(faults(format, &written), Vec::<String>::new(), "{:?} {:#?}", format, written);
            let mut found = Vec::new();
            written.system_json.iter().for_each(|system| strings(&json(system), &mut found));
            strings(&list(&written), &mut found);
            // Instructions can be one text.
            let mut behind = found.iter().flat_map(|string| string.split("\n\n"));
            for text in texts(&shown) {
                let is_next = behind.any(|string| string == text);
                prop_assert!(is_next, "{format:?} lost or moved {text:?}: {written:#?}");
            }
            for left in &written.left_out {
                let part = shown.iter().flat_map(|message| &message.parts).find(|part| part.source == left.part);
                let is_so = match (&*part.expect("a part of the view").body, left.kind) {
                    (PartBody::Reasoning(_) | PartBody::Opaque(_), LeftOutKind::Reasoning) => true,
                    (PartBody::Text(text), LeftOutKind::Blank) => text.trim().is_empty(),
                    _ => false,
                };
                prop_assert!(is_so, "{left:?}");
            }
        }
    }

    #[test]
    fn what_a_format_cannot_carry_is_named_in_its_place(messages in conversation()) {
        let shown = view(messages);
        for format in Format::ALL {
            let degraded = write_degraded(format, &shown);
            prop_assert!(degraded.is_ok(), "{:?} {shown:#?}", degraded.err());
            let degraded = degraded.unwrap_or_default();
            match write(format, &shown) {
                Ok(written) => prop_assert_eq!(&degraded, &written),
                Err(refusal) => {
                    use LeftOutKind::{Block, Media, Role, ToolName};
                    let is_named = degraded.left_out.iter().any(|left| [Block, Media, ToolName, Role].contains(&left.kind));
                    prop_assert!(is_named, "{refusal}: {degraded:#?}");
                }
            }
            prop_assert_eq!(faults(format, &degraded), Vec::<String>::new(), "{:?} {:#?}", format, degraded);
            let mut found = Vec::new();
            degraded.system_json.iter().for_each(|system| strings(&json(system), &mut found));
            strings(&list(&degraded), &mut found);
            let mut behind = found.iter().flat_map(|string| string.split("\n\n"));
            for text in texts(&shown) {
                let is_next = behind.any(|string| string == text || string.starts_with(&format!("{text}\n[left out: ")));
                prop_assert!(is_next, "{format:?} lost or moved {text:?}: {degraded:#?}");
            }
        }
    }

    #[test]
    fn a_view_that_goes_on_keeps_its_messages(messages in conversation(), more in conversation()) {
        let before = view(messages.clone());
        let after = view(messages.into_iter().chain(more).collect());
        // A late result moves up to its call, and may take the place of an interrupted one.
        let common = before.iter().zip(&after).take_while(|(one, other)| one == other).count();
        for format in Format::ALL {
            let (Ok(whole), Ok(part)) = (write(format, &after), write(format, &after[..common])) else { continue };
            // The last message may grow by its neighbour.
            let same = part.messages.iter().zip(&whole.messages).take_while(|(one, other)| one == other).count();
            let leaves_out = part.messages.len().saturating_sub(same);
            prop_assert!(leaves_out <= 1, "{format:?}: {part:#?} {whole:#?}");
        }
    }

    #[test]
    fn nothing_is_read_but_what_can_be(text in "[\\[\\]{}\",:a-z0-9 ]{0,60}", cut in 0_usize..4000) {
        for format in Format::ALL {
            let _ = read(format, &text);
            for (_, sse) in super::cases::STREAMS {
                let cut = sse.floor_char_boundary(cut.min(sse.len()));
                if let Ok(messages) = read(format, &sse[..cut]) {
                    let ends = |message: &NewMessage| message.finish.as_ref().is_some_and(|end| !end.detail.is_empty());
                    prop_assert!(messages.iter().all(|message| !message.parts.is_empty() || ends(message)));
                }
            }
        }
    }

    #[test]
    fn replies_of_anthropic_come_back(blocks in proptest::collection::vec(anthropic_block(), 1..6)) {
        comes_back(Format::Anthropic, &json!({"role": "assistant", "content": blocks}).to_string())?;
    }

    #[test]
    fn replies_of_gemini_come_back(parts in proptest::collection::vec(gemini_part(), 1..6)) {
        comes_back(Format::Gemini, &json!({"role": "model", "parts": parts}).to_string())?;
    }

    #[test]
    fn replies_of_responses_come_back(items in proptest::collection::vec(responses_item(), 1..6)) {
        comes_back(Format::OpenAiResponses, &Value::Array(items).to_string())?;
    }

    #[test]
    fn replies_of_the_ai_sdk_come_back(parts in proptest::collection::vec(ai_sdk_part(), 1..6)) {
        comes_back(Format::AiSdk, &json!({"role": "assistant", "content": parts}).to_string())?;
    }

    #[test]
    fn streamed_blocks_are_the_same_in_pieces(blocks in proptest::collection::vec(anthropic_block(), 1..5), size in 1_usize..7) {
        let whole = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": blocks,
            "stop_reason": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 4}}).to_string();
        let chunks = Value::Array(anthropic_chunks(&whole, size)).to_string();
        prop_assert_eq!(read(Format::Anthropic, &chunks).expect("chunks"), read(Format::Anthropic, &whole).expect("a reply"));
    }
}

/// A reply is byte for byte what a view in its format has of it.
fn comes_back(format: Format, reply: &str) -> Result<(), TestCaseError> {
    let request = match format {
        Format::Gemini => r#"{"role":"user","parts":[{"text":"go"}]}"#,
        _ => r#"{"role":"user","content":"go"}"#,
    };
    let messages = [request, reply].into_iter().flat_map(|text| read(format, text).expect("a text of the format"));
    let written = write(format, &view(messages.collect())).expect("the format's own");
    let given: Vec<Value> = match json(reply) {
        Value::Array(items) => items,
        message => vec![message],
    };
    let replies = &written.messages[1..=given.len()];
    for (written, given) in replies.iter().zip(&given) {
        prop_assert_eq!(&written.json, &given.to_string());
    }
    Ok(())
}

fn words() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{1,9}", "\\PC{1,9}x", Just("\"\\\n\t\u{2028}é😀".to_owned())]
}

fn id() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9_]{12}"
}

fn anthropic_block() -> impl Strategy<Value = Value> {
    prop_oneof![
        words().prop_map(|text| json!({"type": "text", "text": text})),
        words().prop_map(|text| json!({"type": "text", "text": text, "citations": [{"cited_text": "x", "n": 1.0}]})),
        (words(), id())
            .prop_map(|(text, signature)| json!({"type": "thinking", "thinking": text, "signature": signature})),
        id().prop_map(|signature| json!({"type": "thinking", "thinking": "", "signature": signature})),
        id().prop_map(|data| json!({"type": "redacted_thinking", "data": data})),
        id().prop_map(|id| json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "x"}})),
        (id(), words())
            .prop_map(|(id, text)| json!({"type": "tool_use", "id": id, "name": "read", "input": {"x": text}})),
        id().prop_map(
            |id| json!({"type": "tool_use", "id": id, "name": "read", "input": {}, "caller": {"type": "direct"}})
        ),
    ]
}

fn gemini_part() -> impl Strategy<Value = Value> {
    prop_oneof![
        (words(), id()).prop_map(|(text, signature)| json!({"text": text, "thoughtSignature": signature})),
        words().prop_map(|text| json!({"text": text, "thought": true})),
        id().prop_map(|signature| json!({"text": "", "thoughtSignature": signature})),
        (id(), words()).prop_map(|(id, text)| json!({"functionCall": {"id": id, "name": "read", "args": {"x": text}}})),
        id().prop_map(|signature| json!({"functionCall": {"name": "read", "args": {}}, "thoughtSignature": signature})),
        words().prop_map(|code| json!({"executableCode": {"language": "PYTHON", "code": code}})),
    ]
}

fn responses_item() -> impl Strategy<Value = Value> {
    let block = |text: String| json!({"type": "output_text", "text": text, "annotations": []});
    let message = move |(id, texts): (String, Vec<String>)| {
        let content: Vec<_> = texts.into_iter().map(block).collect();
        json!({"id": id, "type": "message", "role": "assistant", "status": "completed", "content": content})
    };
    prop_oneof![
        (id(), proptest::collection::vec(words(), 1..3)).prop_map(message),
        (id(), words()).prop_map(|(id, text)| {
            json!({"id": id, "type": "reasoning", "summary": [{"type": "summary_text", "text": text}], "encrypted_content": "g"})
        }),
        id().prop_map(|id| json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": "gAAAA=="})),
        (id(), words()).prop_map(|(id, text)| {
            let arguments = json!({"x": text}).to_string();
            json!({"type": "function_call", "id": "fc", "call_id": id, "name": "read", "arguments": arguments, "status": "completed"})
        }),
        (id(), words()).prop_map(|(id, text)| json!({"type": "custom_tool_call", "call_id": id, "name": "patch", "input": text})),
        id().prop_map(|id| json!({"type": "web_search_call", "id": id, "status": "completed"})),
    ]
}

fn ai_sdk_part() -> impl Strategy<Value = Value> {
    let options = || json!({"anthropic": {"signature": "s=="}});
    prop_oneof![
        words().prop_map(|text| json!({"type": "text", "text": text})),
        words().prop_map(|text| json!({"type": "reasoning", "text": text})),
        words().prop_map(move |text| json!({"type": "reasoning", "text": text, "providerOptions": options()})),
        (id(), words()).prop_map(
            |(id, text)| json!({"type": "tool-call", "toolCallId": id, "toolName": "a.b", "input": {"x": text}})
        ),
        id().prop_map(
            |id| json!({"type": "tool-call", "toolCallId": id, "toolName": "s", "input": {}, "providerExecuted": true})
        ),
    ]
}

/// The chunks of a reply, with deltas of so many letters.
fn anthropic_chunks(whole: &str, size: usize) -> Vec<Value> {
    let mut message = json(whole);
    let blocks = std::mem::replace(&mut message["content"], json!([]));
    let stop = std::mem::replace(&mut message["stop_reason"], Value::Null);
    let mut chunks = vec![json!({"type": "message_start", "message": message})];
    for (index, mut block) in blocks.as_array().cloned().unwrap_or_default().into_iter().enumerate() {
        let mut deltas = Vec::new();
        for (name, kind) in [("text", "text_delta"), ("thinking", "thinking_delta"), ("signature", "signature_delta")] {
            let Some(text) = block.get(name).and_then(Value::as_str).map(ToOwned::to_owned) else { continue };
            block[name] = "".into();
            deltas.extend(pieces(&text, size).map(|piece| json!({"type": kind, name: piece})));
        }
        if block.get("input").is_some() {
            let input = std::mem::replace(&mut block["input"], json!({})).to_string();
            deltas.extend(pieces(&input, size).map(|piece| json!({"type": "input_json_delta", "partial_json": piece})));
        }
        chunks.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        chunks.extend(
            deltas.into_iter().map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})),
        );
        chunks.push(json!({"type": "content_block_stop", "index": index}));
    }
    chunks.push(json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 4}}));
    chunks.push(json!({"type": "message_stop"}));
    chunks
}

fn pieces(text: &str, size: usize) -> impl Iterator<Item = String> {
    let letters: Vec<char> = text.chars().collect();
    letters.chunks(size).map(|piece| piece.iter().collect()).collect::<Vec<String>>().into_iter()
}
