use super::*;
use crate::dsl;
use proptest::prelude::*;
use serde_json::{Value, json};

fn rule() -> Strip {
    Strip { object: "tool".to_owned(), field: "arguments".to_owned() }
}

/// The text without the field; none if the rule does not apply.
fn stripped(text: &str) -> Option<String> {
    let gone = range_of(&rule(), text)?;
    Some([&text[..gone.start], &text[gone.end..]].concat())
}

#[test]
fn the_field_goes_with_one_comma() {
    for (text, expected) in [
        (r#"{"tool": {"a": 1, "arguments": {"b": [1, 2]}, "c": 3}}"#, r#"{"tool": {"a": 1, "c": 3}}"#),
        (r#"{"tool": {"a": 1 , "arguments" : "x}\"" }}"#, r#"{"tool": {"a": 1 }}"#),
        (r#"{"tool": { "arguments": 1 , "c": 3}}"#, r#"{"tool": {"c": 3}}"#),
        (r#"{"tool": { "arguments": 1 }}"#, r#"{"tool": { }}"#),
        (
            r#"{"x": {"arguments": 0}, "tool":{"argum\u0065nts":1,"c":3, "arguments":2}}"#,
            r#"{"x": {"arguments": 0}, "tool":{"argum\u0065nts":1,"c":3}}"#,
        ),
        ("  {\"tool\": {\"é日😀\": \"😀\", \"arguments\": \"日\"}}\n", "  {\"tool\": {\"é日😀\": \"😀\"}}\n"),
    ] {
        assert_eq!(stripped(text).as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn everything_else_is_left_alone() {
    for text in [
        "",
        "arguments",
        r#"{"arguments": 1}"#,
        r#"{"tool": 1, "arguments": 1}"#,
        r#"{"tool": [{"arguments": 1}]}"#,
        r#"[{"tool": {"arguments": 1}}]"#,
        r#"{"tool": {"arguments": 1}"#,
        r#"{"tool": {"arguments": 1}} x"#,
        r#"{"tool": "{\"arguments\": 1}"}"#,
    ] {
        assert_eq!(stripped(text), None, "{text}");
    }
}

#[test]
fn what_is_shortened_or_still_written_is_left_alone() {
    let text = r#""{\"tool\": {\"arguments\": 1}}""#;
    let source = format!(
        "u1 {text}\na2 {text} open\na3\n  tool bash#c1 in={{}} out={text} done\n  tool bash#c2 in={{}} out={text} done pruned"
    );
    let messages = dsl::parse(&source);
    let names = dsl::part_names(&messages);
    let removals = removals(&rule(), &messages);
    let parts: Vec<Option<&str>> = removals.parts.iter().map(|(part, _)| names.get(part).map(String::as_str)).collect();
    assert_eq!(parts, [None, Some("c1:result")]);
    assert_eq!(removals.parts[0].1, Truncation { head: 10, tail: 2, ..Truncation::default() });
}

proptest! {
    #[test]
    fn what_is_left_is_the_object_without_the_field(
        before in proptest::collection::btree_map("[a-z\"\\\\é]{0,3}", "\\PC{0,8}", 0..3),
        arguments in "\\PC{0,8}",
        after in proptest::collection::btree_map("[A-Z,{}]{0,3}", any::<i32>(), 0..3),
        pretty in any::<bool>(),
    ) {
        let mut fields = serde_json::Map::new();
        fields.extend(before.into_iter().map(|(name, value)| (name, json!(value))));
        let mut whole = fields.clone();
        whole.insert("arguments".to_owned(), json!({ "a": [arguments, {}] }));
        for (name, value) in after {
            fields.insert(name.clone(), json!(value));
            whole.insert(name, json!(value));
        }
        let text = |fields| {
            let value = json!({ "first": 1, "tool": Value::Object(fields), "last": "}" });
            if pretty { format!("{value:#}") } else { value.to_string() }
        };
        let left = stripped(&text(whole)).expect("there is the field");
        let expected: Value = serde_json::from_str(&text(fields)).expect("JSON");
        prop_assert_eq!(serde_json::from_str::<Value>(&left).expect("what is left is JSON"), expected);
    }
}
