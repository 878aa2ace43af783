use super::*;
use crate::model::part::{Media, Opaque, ToolCall};
use crate::model::view::ViewPart;
use crate::policy::{dsl, presets};
use serde_json::{Value, json};

fn view(standing: Standing, role: Role, bodies: Vec<PartBody>) -> ViewMessage {
    let parts = bodies.into_iter().map(|body| ViewPart { source: None, body, shortened: None }).collect();
    ViewMessage { source: None, revision: 0, role, standing, parts }
}

fn counting(units_per_token: u32, rounding: Rounding) -> Counting {
    Counting { unit: LengthUnit::Utf16, units_per_token, rounding, per: CountPer::Message, media_units: 0 }
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
fn a_fraction_of_a_token_is_rounded_as_told() {
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
fn a_json_range_weighs_what_its_json_weighs() {
    let policy = presets::opencode::seed();
    let words = "quote \" slash \\ tab \t line \n bell \u{7} page \u{c} 日本語😀";
    let call = ToolCall {
        call_id: "c\"1".into(),
        tool: "read".into(),
        input_json: "{ \"path\" : \"a b\\\" c\",\n \"list\": [1, 2] }".into(),
        ..ToolCall::default()
    };
    let text = "u1\nt2\n  result c1 out=\"words \\n\" done";
    let PartBody::ToolResult(result) = dsl::parse(text)[1].message.parts[0].body.clone() else {
        panic!("a result");
    };
    let messages = [
        view(Standing::Shown, Role::User, vec![PartBody::Text(words.into())]),
        view(Standing::Shown, Role::User, vec![]),
        view(
            Standing::Shown,
            Role::Assistant,
            vec![PartBody::Reasoning("hm".into()), PartBody::Text("ok".into()), PartBody::ToolCall(call)],
        ),
        view(Standing::Shown, Role::Tool, vec![PartBody::ToolResult(result)]),
    ];
    let json = json!([
        {"role": "user", "content": [{"type": "text", "text": words}]},
        {"role": "assistant", "content": [
            {"type": "reasoning", "text": "hm"},
            {"type": "text", "text": "ok"},
            {"type": "tool-call", "toolCallId": "c\"1", "toolName": "read",
                "input": {"path": "a b\" c", "list": [1, 2]}}
        ]},
        {"role": "tool", "content": [
            {"type": "tool-result", "toolCallId": "c1", "output": {"type": "text", "value": "words \n"}},
        ]},
    ]);
    let Value::Array(items) = &json else { panic!("an array") };
    let exact = Policy { counting: Counting { units_per_token: 1, ..policy.counting.clone() }, ..policy.clone() };
    assert_eq!(estimate_messages(&exact, &messages), length(LengthUnit::Utf16, &json.to_string()) as i64);
    let single = length(LengthUnit::Utf16, &items[1].to_string()) as i64;
    assert_eq!(estimate_message(&exact, &messages[2]), single);
    assert_eq!(estimate_messages(&policy, &messages), estimate_text(&policy.counting, &json.to_string()));
    assert_eq!(estimate_messages(&policy, &[]), 0);
}

#[test]
fn media_weigh_the_same_whatever_their_size() {
    for (policy, around) in [(presets::opencode::seed(), 28), (presets::pi::v1_5(), 0)] {
        let message = view(Standing::Shown, Role::User, vec![PartBody::Media(Media::default())]);
        assert_eq!(estimate_message(&policy, &message), 1200 + around / 4, "{}", policy.preset);
    }
}

#[test]
fn provider_blocks_weigh_their_bytes_in_json_and_nothing_in_words() {
    let block = || vec![PartBody::Opaque(Opaque { data: vec![0; 400], ..Opaque::default() })];
    let message = view(Standing::Shown, Role::Assistant, block());
    assert_eq!(estimate_message(&presets::pi::v1_5(), &message), 0);
    assert_eq!(estimate_message(&presets::opencode::seed(), &message), (400 + 33 + 2) / 4);
}

#[test]
fn pi_weighs_a_summary_without_its_wrapper() {
    let policy = presets::pi::v1_5();
    let text = format!("{}12345{}", policy.view.summary_prefix, policy.view.summary_suffix);
    let summary = view(Standing::Summary, Role::User, vec![PartBody::Text(text.clone())]);
    assert_eq!(estimate_message(&policy, &summary), 2);
    let words = view(Standing::Shown, Role::User, vec![PartBody::Text(text)]);
    assert!(estimate_message(&policy, &words) > 20);
}

#[test]
fn stored_outputs_weigh_what_a_view_shows_of_them() {
    let policy = presets::opencode::seed();
    let weigh = |text: &str| estimate_source(&policy, &dsl::parse(text)[0]);
    let shown = weigh("t1\n  result c1 out=2000c done");
    let marker = "\n[Tool output truncated: omitted 7000 chars]".len() as i64;
    let cut = weigh("t1\n  result c1 out=9000c done");
    // The line break of the marker is two characters in JSON.
    assert!((cut - shown - (marker + 1) / 4).abs() <= 1, "{cut} {shown}");
    let cleared = weigh("t1\n  result c1 out=9000c media=image/png done pruned");
    let placeholder = weigh("t1\n  result c1 out=\"[Old tool result content cleared]\" done");
    assert_eq!(cleared, placeholder);
}

#[test]
fn new_parts_weigh_as_much_as_they_will_in_a_view() {
    let text =
        "a1 \"words\"\n  reasoning \"more\"\n  tool bash#c1 in=40c out=9000c media=image/png done\n  marker note \"m\"";
    for preset in presets::all() {
        let policy = preset.policy();
        let source = &dsl::parse(text)[0];
        let bodies: Vec<&PartBody> = source.message.parts.iter().map(|part| &part.body).collect();
        assert_eq!(
            estimate_new(&policy, Role::Assistant, &bodies),
            estimate_source(&policy, source),
            "{}",
            preset.name
        );
    }
}

#[test]
fn a_range_weighs_the_same_however_it_is_asked_for() {
    let messages =
        dsl::parse("u1 \"a\"\na2 7c\nu3\na4 11c\n  call bash#c1 in={\"a\": 1}\nt5\n  result c1 out=33c done");
    for preset in presets::all() {
        let policy = preset.policy();
        let weights = Weights::of(&policy, &messages);
        for start in 0..=messages.len() {
            for end in start..=messages.len() {
                let alone = Weights::of(&policy, &messages[start..end]);
                assert_eq!(weights.tokens(start..end), alone.tokens(0..end - start), "{} {start}..{end}", preset.name);
            }
        }
    }
}
