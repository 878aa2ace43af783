//! What each thing becomes, case by case.

use super::super::{Format, LeftOutKind, read, write};
use super::{json, list, translated, view};
use Format::{AiSdk, Anthropic, Gemini, OpenAiChat, OpenAiResponses};
use longhand_model::message::{FinishReason, NewMessage, Role};
use longhand_model::part::{Media, MediaSource, NewPart, PartBody, ToolCall};
use longhand_model::usage::Usage;
use longhand_model::view::{PartShortening, ViewKind};

/// Streamed replies, which the SDKs' own check reads too.
pub(super) const STREAMS: [(Format, &str); 4] = [
    (OpenAiChat, include_str!("../../../../../tests/providers/replies/openai_chat.sse")),
    (OpenAiResponses, include_str!("../../../../../tests/providers/replies/openai_responses.sse")),
    (Anthropic, include_str!("../../../../../tests/providers/replies/anthropic.sse")),
    (Gemini, include_str!("../../../../../tests/providers/replies/gemini.sse")),
];

/// A conversation with a call, its failed result and another speaker, in the words of Anthropic.
const TURN: &str = r#"{"system":"Be brief.","messages":[
  {"role":"user","content":"How high?"},
  {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s=="},
    {"type":"text","text":"I look."},{"type":"tool_use","id":"toolu_1","name":"gauge","input":{"at": "Brest"}}]},
  {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"no such gauge","is_error":true},
    {"type":"text","text":"Try Nantes."}]}]}"#;

#[test]
fn a_turn_in_every_format() {
    for (format, system, expected) in [
        (
            OpenAiChat,
            None,
            r#"[{"role":"system","content":"Be brief."},{"role":"user","content":"How high?"},
              {"role":"assistant","content":"I look.","tool_calls":[{"id":"toolu_1","type":"function","function":{"name":"gauge","arguments":"{\"at\": \"Brest\"}"}}]},
              {"role":"tool","tool_call_id":"toolu_1","content":"no such gauge"},{"role":"user","content":"Try Nantes."}]"#,
        ),
        (
            OpenAiResponses,
            None,
            r#"[{"type":"message","role":"system","content":"Be brief."},{"type":"message","role":"user","content":"How high?"},
              {"type":"message","role":"assistant","content":"I look."},
              {"type":"function_call","call_id":"toolu_1","name":"gauge","arguments":"{\"at\": \"Brest\"}"},
              {"type":"function_call_output","call_id":"toolu_1","output":"no such gauge"},
              {"type":"message","role":"user","content":"Try Nantes."}]"#,
        ),
        (
            Anthropic,
            Some(r#"[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}]"#),
            r#"[{"role":"user","content":[{"type":"text","text":"How high?"}]},
              {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s=="},
                {"type":"text","text":"I look."},{"type":"tool_use","id":"toolu_1","name":"gauge","input":{"at":"Brest"}}]},
              {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"no such gauge","is_error":true},
                {"type":"text","text":"Try Nantes."}]}]"#,
        ),
        (
            Gemini,
            Some(r#"{"parts":[{"text":"Be brief."}]}"#),
            r#"[{"role":"user","parts":[{"text":"How high?"}]},
              {"role":"model","parts":[{"text":"hm","thought":true},{"text":"I look."},
                {"functionCall":{"id":"toolu_1","name":"gauge","args":{"at":"Brest"}}}]},
              {"role":"user","parts":[{"functionResponse":{"id":"toolu_1","name":"gauge","response":{"error":"no such gauge"}}},
                {"text":"Try Nantes."}]}]"#,
        ),
        (
            AiSdk,
            None,
            r#"[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"How high?"}]},
              {"role":"assistant","content":[{"type":"reasoning","text":"hm","providerOptions":{"anthropic":{"signature":"s=="}}},{"type":"text","text":"I look."},
                {"type":"tool-call","toolCallId":"toolu_1","toolName":"gauge","input":{"at":"Brest"}}]},
              {"role":"tool","content":[{"type":"tool-result","toolCallId":"toolu_1","toolName":"gauge","output":{"type":"error-text","value":"no such gauge"}}]},
              {"role":"user","content":[{"type":"text","text":"Try Nantes."}]}]"#,
        ),
    ] {
        let written = translated(Anthropic, &[TURN], format).unwrap();
        assert_eq!(list(&written), json(expected), "{format:?}");
        assert_eq!(written.system_json.as_deref(), system, "{format:?}");
        let left: Vec<_> = written.left_out.iter().map(|left| left.kind).collect();
        let expected: &[LeftOutKind] = match format {
            OpenAiChat | OpenAiResponses => &[LeftOutKind::Reasoning],
            // The reasoning is there, without what another provider signed.
            Gemini => &[LeftOutKind::Members],
            AiSdk | Anthropic => &[],
        };
        assert_eq!(left, expected, "{format:?}");
    }
}

#[test]
fn every_format_reads_its_own_turn_alike() {
    let bodies = |format, text: &str| {
        let messages = read(format, text).unwrap();
        let parts =
            messages.iter().flat_map(|message| message.parts.iter().map(|part| (message.role, part.body.clone())));
        parts.filter(|(_, body)| !matches!(**body, PartBody::Reasoning(_))).collect::<Vec<_>>()
    };
    let expected = bodies(Anthropic, TURN);
    for format in Format::ALL {
        let written = translated(Anthropic, &[TURN], format).unwrap();
        let messages: Vec<_> = written.messages.iter().map(|message| message.json.as_str()).collect();
        let (system, name) = match format {
            Anthropic => ("system", "messages"),
            Gemini => ("systemInstruction", "contents"),
            OpenAiResponses => ("instructions", "input"),
            OpenAiChat | AiSdk => ("system", "messages"),
        };
        let system = written.system_json.as_ref().map_or(String::new(), |text| format!(r#""{system}":{text},"#));
        let request = format!(r#"{{{system}"{name}":[{}]}}"#, messages.join(","));
        let mut found = bodies(format, &request);
        // Only these two say that a tool failed.
        if matches!(format, OpenAiChat | OpenAiResponses) {
            for (_, body) in &mut found {
                if let PartBody::ToolResult(result) = std::sync::Arc::make_mut(body) {
                    result.status = longhand_model::part::ResultStatus::Error;
                }
            }
        }
        assert_eq!(found, expected, "{format:?}");
    }
}

#[test]
fn a_streamed_reply_has_its_model_its_end_and_its_usage() {
    let usage = |input, output, reasoning, cache_read, cache_write, total| Usage {
        input,
        output,
        reasoning,
        cache_read,
        cache_write,
        total,
        cost_usd: None,
        cost_is_computed: false,
    };
    for ((format, stream), (model, provider, detail, expected)) in STREAMS.into_iter().zip([
        ("gpt-6", "openai", "tool_calls", usage(20, 30, 20, 100, 0, Some(170))),
        ("gpt-6", "openai", "completed", usage(20, 30, 20, 100, 0, Some(170))),
        ("claude-opus-5", "anthropic", "tool_use", usage(12, 90, 0, 4000, 300, None)),
        ("gemini-4-pro", "google", "STOP", usage(20, 30, 20, 100, 0, Some(170))),
    ]) {
        let messages = read(format, stream).unwrap();
        let [message] = messages.as_slice() else { panic!("{messages:?}") };
        let finish = message.finish.as_ref().unwrap();
        assert_eq!(
            (message.role, message.model.as_str(), message.provider.as_str()),
            (Role::Assistant, model, provider)
        );
        assert_eq!((finish.reason, finish.detail.as_str()), (Some(FinishReason::ToolCalls), detail), "{format:?}");
        assert_eq!(finish.usage, Some(expected), "{format:?}");
    }
}

#[test]
fn the_reasons_of_providers_are_ours() {
    use FinishReason::{Aborted, ContentFilter, Error, Length, Stop, ToolCalls};
    let anthropic = |reason| format!(r#"{{"role":"assistant","content":"x","stop_reason":"{reason}"}}"#);
    let chat = |reason| {
        format!(r#"{{"choices":[{{"message":{{"role":"assistant","content":"x"}},"finish_reason":"{reason}"}}]}}"#)
    };
    let gemini =
        |reason| format!(r#"{{"candidates":[{{"content":{{"parts":[{{"text":"x"}}]}},"finishReason":"{reason}"}}]}}"#);
    let responses = |status: &str, more: &str| {
        format!(
            r#"{{"object":"response","status":"{status}"{more},"output":[{{"type":"message","role":"assistant","content":"x"}}]}}"#
        )
    };
    for (format, reply, expected) in [
        (Anthropic, anthropic("end_turn"), Stop),
        (Anthropic, anthropic("stop_sequence"), Stop),
        (Anthropic, anthropic("max_tokens"), Length),
        (Anthropic, anthropic("refusal"), ContentFilter),
        (Anthropic, anthropic("pause_turn"), ToolCalls),
        (OpenAiChat, chat("stop"), Stop),
        (OpenAiChat, chat("length"), Length),
        (OpenAiChat, chat("content_filter"), ContentFilter),
        (Gemini, gemini("STOP"), Stop),
        (Gemini, gemini("MAX_TOKENS"), Length),
        (Gemini, gemini("SAFETY"), ContentFilter),
        (Gemini, gemini("MALFORMED_FUNCTION_CALL"), Error),
        (OpenAiResponses, responses("completed", ""), Stop),
        (OpenAiResponses, responses("incomplete", r#","incomplete_details":{"reason":"max_output_tokens"}"#), Length),
        (
            OpenAiResponses,
            responses("incomplete", r#","incomplete_details":{"reason":"content_filter"}"#),
            ContentFilter,
        ),
        (OpenAiResponses, responses("failed", r#","error":{"code":"x","message":"broken"}"#), Error),
        (OpenAiResponses, responses("cancelled", ""), Aborted),
        (AiSdk, r#"{"messages":[{"role":"assistant","content":"x"}],"finishReason":"length"}"#.to_owned(), Length),
    ] {
        let message = read(format, &reply).unwrap().pop().unwrap();
        assert_eq!(message.finish.unwrap().reason, Some(expected), "{reply}");
    }
}

#[test]
fn a_reply_without_content_says_how_it_ended() {
    let reply = r#"{"candidates":[{"finishReason":"SAFETY"}],"usageMetadata":{"promptTokenCount":7}}"#;
    let message = read(Gemini, reply).unwrap().pop().unwrap();
    let finish = message.finish.unwrap();
    assert!(message.parts.is_empty());
    assert_eq!((finish.reason, finish.usage.unwrap().input), (Some(FinishReason::ContentFilter), 7));
}

#[test]
fn a_stream_that_breaks_off_is_kept_as_far_as_it_came() {
    for (format, events, expected) in [
        (OpenAiChat, 5, "Two gauges."),
        (Anthropic, 17, "High at "),
        (Gemini, 4, "High at noon."),
        (OpenAiResponses, 8, "High at "),
    ] {
        let stream = STREAMS.into_iter().find(|(of, _)| *of == format).unwrap().1;
        let part: Vec<_> = stream.split_inclusive("\n\n").take(events).collect();
        let message = read(format, &part.concat()).unwrap().pop().unwrap();
        let text = message.parts.iter().rev().find_map(|part| match &*part.body {
            PartBody::Text(text) => Some(text.as_str()),
            _ => None,
        });
        assert_eq!(text, Some(expected), "{format:?}");
        assert_eq!(message.finish.unwrap().reason, Some(FinishReason::Aborted), "{format:?}");
    }
}

#[test]
fn a_call_that_was_cut_off_is_kept_and_shown_in_an_object() {
    let stream = STREAMS[2].1;
    let broken: Vec<_> = stream.split_inclusive("\n\n").take_while(|event| !event.contains("1.50")).collect();
    let messages = read(Anthropic, &broken.concat()).unwrap();
    let PartBody::ToolCall(call) = &*messages[0].parts.last().unwrap().body else { panic!("no call") };
    assert_eq!(call.input_json, r#"{"station": "Ouistreham", "#);
    let asked = read(Anthropic, r#"{"role":"user","content":"go"}"#).unwrap();
    let written = write(Anthropic, &view(asked.into_iter().chain(messages).collect())).unwrap();
    let blocks = &list(&written)[1]["content"];
    let input = &blocks[blocks.as_array().unwrap().len() - 1]["input"];
    assert_eq!(input["invalid_json"], r#"{"station": "Ouistreham", "#);
    // The call has a result of its own, as every call.
    assert_eq!(list(&written)[2]["content"][0]["type"], "tool_result");
}

#[test]
fn media_go_where_each_format_has_them() {
    let media = |mime_type: &str, source| Media { mime_type: mime_type.to_owned(), name: String::new(), source };
    let bytes = || MediaSource::Bytes(vec![1, 2, 3]);
    let address = || MediaSource::Uri("https://example.org/x".to_owned());
    let (png, pdf) = (media("image/png", bytes()), media("application/pdf", bytes()));
    for (format, media, expected) in [
        (Anthropic, &png, Ok(r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AQID"}}"#)),
        (
            Anthropic,
            &pdf,
            Ok(r#"{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"AQID"}}"#),
        ),
        (
            Anthropic,
            &media("image/*", address()),
            Ok(r#"{"type":"image","source":{"type":"url","url":"https://example.org/x"}}"#),
        ),
        (Anthropic, &media("audio/mpeg", bytes()), Err("media")),
        (OpenAiChat, &png, Ok(r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,AQID"}}"#)),
        (
            OpenAiChat,
            &media("audio/mpeg", bytes()),
            Ok(r#"{"type":"input_audio","input_audio":{"data":"AQID","format":"mp3"}}"#),
        ),
        (OpenAiChat, &media("application/pdf", address()), Err("media")),
        (
            OpenAiResponses,
            &png,
            Ok(r#"{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,AQID"}"#),
        ),
        (
            OpenAiResponses,
            &media("application/pdf", address()),
            Ok(r#"{"type":"input_file","file_url":"https://example.org/x"}"#),
        ),
        (OpenAiResponses, &media("audio/mpeg", bytes()), Err("media")),
        (Gemini, &media("video/mp4", bytes()), Ok(r#"{"inlineData":{"mimeType":"video/mp4","data":"AQID"}}"#)),
        (
            Gemini,
            &media("video/mp4", address()),
            Ok(r#"{"fileData":{"mimeType":"video/mp4","fileUri":"https://example.org/x"}}"#),
        ),
        (AiSdk, &media("video/mp4", bytes()), Ok(r#"{"type":"file","data":"AQID","mediaType":"video/mp4"}"#)),
    ] {
        let part = NewPart::new(PartBody::Media(media.clone()));
        let written = write(format, &view(vec![NewMessage::sealed(Role::User, vec![part])]));
        let name = if format == Gemini { "parts" } else { "content" };
        let found = written.as_ref().map(|written| list(written)[0][name][0].clone());
        match expected {
            Ok(block) => assert_eq!(found, Ok(json(block)), "{format:?}"),
            Err(kind) => assert_eq!(found.map_err(|refusal| refusal.kind.name()), Err(kind), "{format:?}"),
        }
    }
}

#[test]
fn media_of_a_result_follow_as_the_users_where_results_have_none() {
    let result = r#"[{"role":"user","content":[
      {"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"seen"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AQID"}}]}]}]"#;
    let turn = TURN.split("\n  {\"role\":\"user\",\"content\":[{\"type\":\"tool_result\"").next().unwrap();
    let turn = format!("{}]}}", turn.trim_end().trim_end_matches(','));
    let written = translated(Anthropic, &[&turn, result], OpenAiChat).unwrap();
    let expected = json(
        r#"[{"role":"tool","tool_call_id":"toolu_1","content":"seen"},
          {"role":"user","content":[{"type":"text","text":"[Media of the result of call toolu_1]"},
            {"type":"image_url","image_url":{"url":"data:image/png;base64,AQID"}}]}]"#,
    );
    assert_eq!(list(&written).as_array().unwrap()[3..], expected.as_array().unwrap()[..]);
}

#[test]
fn a_summary_ends_in_a_breakpoint_and_is_one_turn_with_its_neighbours() {
    let text = |role, text: &str| NewMessage::sealed(role, vec![NewPart::new(PartBody::Text(text.to_owned()))]);
    let mut shown =
        view(vec![text(Role::User, "summary"), text(Role::User, "and now?"), text(Role::Assistant, "then")]);
    shown[0].kind = ViewKind::Summary;
    let written = write(Anthropic, &shown).unwrap();
    let expected = json(
        r#"[{"role":"user","content":[{"type":"text","text":"summary","cache_control":{"type":"ephemeral"}},{"type":"text","text":"and now?"}]},
          {"role":"assistant","content":[{"type":"text","text":"then"}]}]"#,
    );
    assert_eq!(list(&written), expected);
    assert_eq!(written.messages[0].sources, shown[..2].iter().filter_map(|message| message.source).collect::<Vec<_>>());
}

#[test]
fn a_shortened_result_is_what_the_view_shows_of_it() {
    let turn = r#"[{"role":"user","parts":[{"text":"go"}]},
      {"role":"model","parts":[{"functionCall":{"name":"read","args":{}},"thoughtSignature":"s=="}]},
      {"role":"user","parts":[{"functionResponse":{"name":"read","response":{"rows":[1,2,3]}}}]}]"#;
    let mut shown = view(read(Gemini, turn).unwrap());
    let result = |written: &super::WrittenView| list(written)[2]["parts"][0]["functionResponse"].clone();
    assert_eq!(result(&write(Gemini, &shown).unwrap())["response"], json(r#"{"rows":[1,2,3]}"#));
    let part = &mut shown[2].parts[0];
    part.shortened = Some(PartShortening::Pruned { original_length: 9 });
    if let PartBody::ToolResult(result) = std::sync::Arc::make_mut(&mut part.body) {
        result.output = "[pruned]".to_owned();
    }
    // The call came without an id, and so is its answer.
    assert_eq!(result(&write(Gemini, &shown).unwrap()), json(r#"{"name":"read","response":{"output":"[pruned]"}}"#));
}

#[test]
fn a_signature_that_an_import_kept_goes_to_its_provider() {
    let mut message = read(Anthropic, r#"{"role":"assistant","content":"x"}"#).unwrap().remove(0);
    let reasoning = NewPart {
        metadata_json: Some(r#"{"signature":"s=="}"#.to_owned()),
        ..NewPart::new(PartBody::Reasoning("hm".to_owned()))
    };
    message.parts.insert(0, reasoning);
    let asked = || read(Anthropic, r#"{"role":"user","content":"go"}"#).unwrap().remove(0);
    let block = |message: &NewMessage| {
        let written = write(Anthropic, &view(vec![asked(), message.clone()])).unwrap();
        list(&written)[1]["content"][0].clone()
    };
    // Free JSON of a client is no signature.
    assert_eq!(block(&message)["type"], "text");
    message.metadata_json = Some(r#"{"format":"claude-code","lines":[]}"#.to_owned());
    assert_eq!(block(&message), json(r#"{"type":"thinking","thinking":"hm","signature":"s=="}"#));
}

#[test]
fn signatures_go_through_the_ai_sdk_and_back() {
    let of_gemini = r#"[{"role":"user","parts":[{"text":"go"}]},{"role":"model","parts":[
      {"text":"hm","thought":true,"thoughtSignature":"a=="},{"text":"look","thoughtSignature":"b=="},
      {"functionCall":{"id":"c","name":"read","args":{"x":1}},"thoughtSignature":"d=="}]}]"#;
    let of_responses = r#"[{"role":"user","content":"go"},{"type":"reasoning","id":"rs_1",
      "summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"e=="},{"type":"message","role":"assistant","content":"look"}]"#;
    for (format, turn, options) in [
        (Anthropic, TURN, r#"{"anthropic":{"signature":"s=="}}"#),
        (Gemini, of_gemini, r#"{"google":{"thoughtSignature":"a=="}}"#),
        (OpenAiResponses, of_responses, r#"{"openai":{"itemId":"rs_1","reasoningEncryptedContent":"e=="}}"#),
    ] {
        let there = translated(format, &[turn], AiSdk).unwrap();
        let messages = list(&there);
        let reply = messages.as_array().unwrap().iter().find(|message| message["role"] == "assistant").unwrap();
        assert_eq!(reply["content"][0]["providerOptions"], json(options), "{format:?}");
        if format == OpenAiResponses {
            continue;
        }
        let back = translated(AiSdk, &[&messages.to_string()], format).unwrap();
        assert_eq!(list(&back), list(&translated(format, &[turn], format).unwrap()), "{format:?}");
    }
}

#[test]
fn what_is_too_large_beside_its_content_is_kept_elsewhere() {
    let long = "s".repeat(300_000);
    // A block goes as a whole.
    let reply =
        format!(r#"{{"role":"assistant","content":[{{"type":"thinking","thinking":"hm","signature":"{long}"}}]}}"#);
    let message = read(Anthropic, &reply).unwrap().remove(0);
    assert!(matches!(&*message.parts[0].body, PartBody::Opaque(_)) && message.parts[0].metadata_json.is_none());
    // A result has its texts.
    let block = format!(r#"{{"type":"text","text":"{long}"}}"#);
    let result = format!(
        r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"a","content":[{block},{block}]}}]}}"#
    );
    let message = read(Anthropic, &result).unwrap().remove(0);
    let PartBody::ToolResult(result) = &*message.parts[0].body else { panic!("{message:?}") };
    assert_eq!((result.output.len(), &message.parts[0].metadata_json), (600_001, &None));
}

#[test]
fn a_part_that_the_role_cannot_have_is_shown_named_or_refused() {
    let call = ToolCall {
        call_id: "c".to_owned(),
        tool: "gauge".to_owned(),
        input_json: r#"{"at":"strange words"}"#.to_owned(),
        ..ToolCall::default()
    };
    for role in [Role::User, Role::System] {
        for odd in [PartBody::Reasoning("strange words".to_owned()), PartBody::ToolCall(call.clone())] {
            let parts = vec![NewPart::new(PartBody::Text("hello".to_owned())), NewPart::new(odd)];
            let message = NewMessage::sealed(role, parts);
            let asked = read(Anthropic, r#"{"role":"user","content":"go"}"#).unwrap().remove(0);
            for format in [OpenAiChat, OpenAiResponses, Anthropic, Gemini, AiSdk] {
                // Reasoning of another provider is left out by name before.
                let own = NewMessage { provider: format.provider().to_owned(), ..message.clone() };
                let mut messages = vec![asked.clone(), own];
                if role == Role::System {
                    messages.reverse();
                }
                // Refused by name, or there, or named among what is left out.
                let Ok(written) = write(format, &view(messages)) else { continue };
                let system = written.system_json.as_deref().unwrap_or_default();
                let is_shown = list(&written).to_string().contains("strange words") || system.contains("strange words");
                assert!(is_shown || !written.left_out.is_empty(), "{format:?} of {role:?} drops a part: {written:?}");
            }
        }
    }
}

#[test]
fn what_is_no_message_is_refused_with_its_place() {
    for (format, text, at) in [
        (Anthropic, "{", "json"),
        (Anthropic, "[]", "json"),
        (Anthropic, r#"{"role":"user"}"#, "json.content"),
        (
            Anthropic,
            r#"{"messages":[{"role":"user","content":"x"},{"role":"tool","content":"y"}]}"#,
            "json.messages[1].role",
        ),
        (Anthropic, r#"[{"role":"user","content":[{"text":"x"}]}]"#, "json[0].content[0].type"),
        (OpenAiChat, r#"{"choices":[{},{}]}"#, "json.choices"),
        (
            OpenAiChat,
            r#"[{"role":"assistant","content":null,"function_call":{"name":"x","arguments":""}}]"#,
            "json[0].function_call",
        ),
        (OpenAiChat, r#"[{"role":"tool","content":"x"}]"#, "json[0].tool_call_id"),
        (OpenAiResponses, r#"{"input":[{"type":"function_call","name":"x"}]}"#, "json.input[0].call_id"),
        (Gemini, r#"{"candidates":[]}"#, "json.candidates"),
        (
            Gemini,
            r#"{"contents":[{"role":"user","parts":[{"functionCall":{}}]}]}"#,
            "json.contents[0].parts[0].functionCall.name",
        ),
        (
            AiSdk,
            r#"[{"role":"tool","content":[{"type":"tool-result","toolCallId":"a","toolName":"b"}]}]"#,
            "json[0].content[0].output",
        ),
    ] {
        assert_eq!(read(format, text).unwrap_err().at, at, "{text}");
    }
}
