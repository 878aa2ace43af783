use super::*;
use crate::model::part::{Media, Opaque, ToolCall};
use crate::model::view::{ViewKind, ViewPart};
use crate::policy::bpe::{Encoding, Vocabulary};
use crate::policy::{AttachedVocabulary, MediaUnits, Rounding, UsageCount, dsl, samples};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::sync::Arc;

fn view(kind: ViewKind, role: Role, bodies: Vec<PartBody>) -> ViewMessage {
    let parts = bodies.into_iter().map(|body| ViewPart::new(None, body, None)).collect();
    ViewMessage { source: None, revision: 0, role, kind, parts, original_fields: None, provenance: None }
}

fn counting(units_per_token: u32, rounding: Rounding) -> Counting {
    Counting {
        unit: LengthUnit::Utf16,
        text: TextUnits::Length,
        units_per_token,
        rounding,
        per: CountPer::Message,
        media: MediaUnits::same(0),
        usage: UsageCount::Total,
    }
}

#[test]
fn a_json_string_is_as_long_as_serde_writes_it() {
    let every: String = (0_u8..0x80).map(char::from).chain("\u{7ff}é世😀".chars()).collect();
    for text in
        ["", "plain", "a \"quoted\" \\ word", &every, &"\u{1}".repeat(1_000), &every.repeat(9), &"\t\n".repeat(300)]
    {
        let written = serde_json::to_string(text).expect("a string is JSON");
        let of = |unit| json::json_string_units(unit, text);
        assert_eq!(of(LengthUnit::Utf16), written.encode_utf16().count(), "{text:?}");
        assert_eq!(of(LengthUnit::Bytes), written.len(), "{text:?}");
    }
}

#[test]
fn a_length_counts_what_its_unit_says() {
    for (text, utf16, code_points, bytes) in [("", 0, 0, 0), ("abc", 3, 3, 3), ("日本語😀", 5, 4, 13), ("é", 1, 1, 2)]
    {
        assert_eq!(length(LengthUnit::Utf16, text), utf16, "{text}");
        assert_eq!(length(LengthUnit::CodePoints, text), code_points, "{text}");
        assert_eq!(length(LengthUnit::Bytes, text), bytes, "{text}");
    }
}

#[test]
fn a_fraction_of_a_token_is_rounded_as_configured() {
    for (length, ceil, half_up, floor) in
        [(0, 0, 0, 0), (1, 1, 0, 0), (2, 1, 1, 0), (3, 1, 1, 0), (4, 1, 1, 1), (5, 2, 1, 1)]
    {
        let text = "x".repeat(length);
        assert_eq!(estimate_text(&counting(4, Rounding::Ceil), &text), ceil, "{length}");
        assert_eq!(estimate_text(&counting(4, Rounding::HalfUp), &text), half_up, "{length}");
        assert_eq!(estimate_text(&counting(4, Rounding::Floor), &text), floor, "{length}");
    }
    assert_eq!(estimate_text(&counting(3, Rounding::HalfUp), "xxxx"), 1);
    assert_eq!(estimate_text(&counting(3, Rounding::HalfUp), "xxxxx"), 2);
    assert_eq!(estimate_text(&counting(1, Rounding::HalfUp), "xxxxx"), 5);
    assert_eq!(estimate_text(&counting(0, Rounding::Ceil), "xxxxx"), 5);
}

#[test]
fn a_json_range_counts_as_its_json() {
    let policy = samples::policy("opencode@seed");
    let words = "quote \" slash \\ tab \t line \n bell \u{7} page \u{c} 日本語😀";
    let call = ToolCall {
        call_id: "c1".into(),
        tool: "re\"ad".into(),
        input_json: "{ \"path\" : \"a b\\\" c\",\n \"list\": [1, 2] }".into(),
        ..ToolCall::default()
    };
    let results = |status: &str| {
        let text = format!("t1\n  result c1 out=\"words \\n\" {status}");
        (*dsl::parse(&text)[0].message.parts[0].body).clone()
    };
    let messages = [
        view(ViewKind::Shown, Role::User, vec![PartBody::Text(words.into())]),
        view(ViewKind::Shown, Role::User, vec![]),
        view(
            ViewKind::Shown,
            Role::Assistant,
            vec![PartBody::Reasoning("hm".into()), PartBody::Text("ok".into()), PartBody::ToolCall(call.clone())],
        ),
        view(ViewKind::Shown, Role::Tool, vec![results("done")]),
        // The same in one message, and with a tool that failed.
        view(
            ViewKind::Shown,
            Role::Assistant,
            vec![PartBody::ToolCall(call), results("error"), PartBody::Text("so".into())],
        ),
    ];
    let call = json!({"type": "tool-call", "toolCallId": "c1", "toolName": "re\"ad",
        "input": {"path": "a b\" c", "list": [1, 2]}});
    let result = |kind: &str| {
        json!({"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c1", "toolName": "re\"ad",
            "output": {"type": kind, "value": "words \n"}}]})
    };
    let json = json!([
        {"role": "user", "content": [{"type": "text", "text": words}]},
        {"role": "assistant", "content": [
            {"type": "reasoning", "text": "hm"},
            {"type": "text", "text": "ok"},
            call.clone(),
        ]},
        result("text"),
        {"role": "assistant", "content": [call]},
        result("error-text"),
        {"role": "assistant", "content": [{"type": "text", "text": "so"}]},
    ]);
    let Value::Array(items) = &json else { panic!("an array") };
    let exact = Policy { counting: Counting { units_per_token: 1, ..policy.counting.clone() }, ..policy.clone() };
    assert_eq!(estimate_messages(&exact, &messages), length(LengthUnit::Utf16, &json.to_string()) as i64);
    // The call counts the name that its result repeats.
    let single = length(LengthUnit::Utf16, &items[1].to_string()) + r#""toolName":"re\"ad","#.len();
    assert_eq!(estimate_message(&exact, &messages[2]), single as i64);
    assert_eq!(estimate_messages(&policy, &messages), estimate_text(&policy.counting, &json.to_string()));
    assert_eq!(estimate_messages(&policy, &[]), 0);
}

#[test]
fn media_count_the_same_whatever_their_size() {
    for (policy, around) in [(samples::policy("opencode@seed"), 28), (samples::policy("pi@1.5"), 0)] {
        let message = view(ViewKind::Shown, Role::User, vec![PartBody::Media(Media::default())]);
        assert_eq!(estimate_message(&policy, &message), 1200 + around / 4, "{}", policy.preset);
    }
}

#[test]
fn provider_blocks_count_their_bytes_in_json_and_nothing_in_text() {
    let block = || vec![PartBody::Opaque(Opaque { data: vec![0; 400], ..Opaque::default() })];
    let message = view(ViewKind::Shown, Role::Assistant, block());
    assert_eq!(estimate_message(&samples::policy("pi@1.5"), &message), 0);
    assert_eq!(estimate_message(&samples::policy("opencode@seed"), &message), (400 + 33 + 2) / 4);
}

#[test]
fn pi_counts_a_summary_without_its_wrapper() {
    let policy = samples::policy("pi@1.5");
    let text = format!("{}12345{}", policy.view.summary_prefix, policy.view.summary_suffix);
    let summary = view(ViewKind::Summary, Role::User, vec![PartBody::Text(text.clone())]);
    assert_eq!(estimate_message(&policy, &summary), 2);
    let words = view(ViewKind::Shown, Role::User, vec![PartBody::Text(text)]);
    assert!(estimate_message(&policy, &words) > 20);
}

#[test]
fn an_additional_message_of_a_summary_counts_in_full() {
    let policy = samples::policy("qwen-code@0.24");
    let carried = || vec![PartBody::Text("x".repeat(400)), PartBody::Media(Media::default())];
    let [behind, words] = [ViewKind::Summary, ViewKind::Shown].map(|kind| view(kind, Role::User, carried()));
    assert_eq!(estimate_message(&policy, &behind), estimate_message(&policy, &words));
    let text = format!("12345{}", policy.view.summary_suffix);
    let summary = view(ViewKind::Summary, Role::User, vec![PartBody::Text(text)]);
    assert_eq!(estimate_message(&policy, &summary), 2);
}

#[test]
fn a_call_counts_as_its_agents_json() {
    let without_id = r#"{"functionCall":{"name":"glob","args":{"a":12}}}"#;
    let with_id = r#"{"functionCall":{"id":"call_1","name":"glob","args":{"a":12}}}"#;
    // Gemini's calls have no ids, and include the name that their results repeat.
    for (policy, json, beside) in [
        (samples::policy("qwen-code@0.24"), with_id, ""),
        (samples::policy("qwen-code@0.15"), with_id, ""),
        (samples::policy("gemini-cli@0.26"), without_id, "glob"),
    ] {
        let call = ToolCall {
            call_id: "call_1".to_owned(),
            tool: "glob".to_owned(),
            input_json: r#"{"a": 12}"#.to_owned(),
            ..ToolCall::default()
        };
        let shown = view(ViewKind::Shown, Role::Assistant, vec![PartBody::ToolCall(call)]);
        let tokens = (json.len() + beside.len()).div_ceil(4) as i64;
        assert_eq!(estimate_message(&policy, &shown), tokens, "{}", policy.preset);
    }
}

#[test]
fn stored_outputs_count_as_a_view_shows_them() {
    let policy = samples::policy("opencode@seed");
    let estimate = |text: &str| estimate_source(&policy, &dsl::parse(text)[0]);
    let shown = estimate("t1\n  result c1 out=2000c done");
    let marker = "\n[Tool output truncated: omitted 7000 chars]".len() as i64;
    let truncated = estimate("t1\n  result c1 out=9000c done");
    // The line break of the marker is two characters in JSON.
    assert!((truncated - shown - (marker + 1) / 4).abs() <= 1, "{truncated} {shown}");
    let cleared = estimate("t1\n  result c1 out=9000c media=image/png done pruned");
    let placeholder = estimate("t1\n  result c1 out=\"[Old tool result content cleared]\" done");
    assert_eq!(cleared, placeholder);
}

fn exact(text: TextUnits, per: CountPer) -> Policy {
    let counting = Counting { text, per, ..counting(1, Rounding::Ceil) };
    Policy { counting, ..samples::policy("pi@1.5") }
}

#[test]
fn an_encoding_counts_its_tokens() {
    let policy = exact(TextUnits::Bpe { encoding: Encoding::Cl100kBase }, CountPer::Message);
    assert_eq!(estimate_text(&policy.counting, "你好世界"), 5);
    assert_eq!(tokenize(&policy.counting, "你好世界").map(|text| text.count()), Some(5));
    assert_eq!(tokenize(&samples::policy("pi@1.5").counting, "你好世界"), None);
}

#[test]
fn a_vocabulary_counts_once_it_is_attached() {
    let bytes = (0..=u8::MAX).map(|byte| format!("{} {byte}\n", BASE64_STANDARD.encode([byte]))).collect::<String>();
    let bytes = Arc::new(Vocabulary::parse("bytes", bytes.as_bytes()).expect("a vocabulary"));
    let named = |name: &str| TextUnits::Vocabulary { name: name.to_owned(), attached: AttachedVocabulary::default() };
    let without = exact(named("bytes"), CountPer::Message);
    assert_eq!(estimate_text(&without.counting, "hello world"), 2);
    let with = without.clone().with_vocabularies(std::slice::from_ref(&bytes));
    assert_eq!(estimate_text(&with.counting, "hello world"), 11);
    assert_eq!(tokenize(&with.counting, "hello world").map(|text| text.count()), Some(11));
    assert_eq!(with, without, "what is attached is no part of a policy");
    let text = serde_json::to_string(&with).expect("a policy is JSON");
    assert!(text.contains(r#""text":{"vocabulary":{"name":"bytes"}}"#), "{text}");
    assert_eq!(serde_json::from_str::<Policy>(&text).expect("its own text"), with);
    let other = exact(named("other"), CountPer::Message).with_vocabularies(&[bytes]);
    assert_eq!(estimate_text(&other.counting, "hello world"), 2);
}
