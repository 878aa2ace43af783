//! Parsing of policies, including stored ones of an earlier form.

use super::Policy;
use serde_json::{Map, Value, json};

/// Parses the JSON text of a policy. Texts with `render_version` 1 had one threshold, one prune rule and one tail at
/// the top level. These become the same rules in the current form with levels and maintenance, and their views keep
/// their bytes.
pub fn parse(text: &str) -> Result<Policy, serde_json::Error> {
    let value: Value = serde_json::from_str(text)?;
    let is_first = value.get("render_version") == Some(&json!(1)) && value.get("tail").is_some();
    let mut value = if is_first { upgraded(value) } else { value };
    let is_changed = name_forms(&mut value) || is_first;
    if is_changed { serde_json::from_value(value) } else { serde_json::from_str(text) }
}

/// Adds the form of the transcript if it is missing: earlier texts implied it by the heading of split turns. Returns
/// true if one was missing.
fn name_forms(policy: &mut Value) -> bool {
    let mut is_changed = false;
    for level in ["micro", "auto", "deep"] {
        let steps = policy.get_mut(level).and_then(|level| level.get_mut("steps")).and_then(Value::as_array_mut);
        for step in steps.into_iter().flatten() {
            let Some(summary) = step.pointer_mut("/summarize/summary") else { continue };
            let splits = summary.get("split_turn_heading").is_some_and(Value::is_string);
            if let Some(transcript) = summary.get_mut("transcript").and_then(Value::as_object_mut)
                && !transcript.contains_key("form")
            {
                transcript.insert("form".to_owned(), json!(if splits { "in_place" } else { "paired" }));
                is_changed = true;
            }
        }
    }
    is_changed
}

/// The text of version 1 in the current form.
fn upgraded(mut old: Value) -> Value {
    let mut take = |field: &str| old.as_object_mut().and_then(|fields| fields.remove(field)).unwrap_or(Value::Null);
    let (trigger, prune, tail, summary) = (take("trigger"), take("prune"), take("tail"), take("summary"));
    let mut policy = old;
    let strict = trigger["threshold"].get("reserve").is_some();
    policy["counting"] = counting(&policy["counting"]);
    policy["trigger"] = json!({ "auto": trigger["auto"], "cool_down_seconds": 0 });
    if let Value::Object(rule) = &policy["truncate"] {
        let ends = json!({ "max_lines": 0, "max_bytes": 0, "head_share": 1.0, "before": "", "after": "" });
        policy["truncate"] = merged(rule.clone(), ends);
    }
    policy["maintenance"] = if prune.is_null() { json!([]) } else { json!([{ "clear": clear(&prune) }]) };
    policy["micro"] = Value::Null;
    policy["deep"] = Value::Null;
    policy["auto"] = json!({
        "threshold": { "limit": trigger["threshold"], "inclusive": !strict, "minimum_tokens": 0 },
        "notice": "none",
        "steps": [{ "summarize": {
            "tail": tail,
            "summary": with_writing(summary),
            "retained_first": false,
            "fallback": [],
        }}],
        "stop_when_enough": false,
    });
    policy["retrieval"] = Value::Null;
    if let Some(view) = policy["view"].as_object_mut() {
        view.insert("acknowledgement".to_owned(), Value::Null);
        view.insert("resume_text".to_owned(), Value::Null);
    }
    policy
}

fn merged(mut fields: Map<String, Value>, more: Value) -> Value {
    if let Value::Object(more) = more {
        fields.extend(more);
    }
    Value::Object(fields)
}

fn counting(old: &Value) -> Value {
    let media = &old["media_units"];
    json!({
        "unit": old["unit"],
        "text": "length",
        "units_per_token": old["units_per_token"],
        "rounding": old["rounding"],
        "per": old["per"],
        "media": { "image": media, "document": media, "other": media, "attachment": media },
        "usage": "total",
    })
}

fn clear(old: &Value) -> Value {
    json!({
        "target": "outputs",
        "weigh": "words",
        "keep": {
            "turns": old["protect_turns"],
            "turns_with_any": 0,
            "messages": 0,
            "tokens": old["protect_tokens"],
            "items": 0,
            "failed_items": false,
        },
        "when": "always",
        "batch": null,
        "minimum_tokens": old["minimum_tokens"],
        "minimum_inclusive": false,
        "only_tools": "all",
        "protected_tools": old["protected_tools"],
        "failed_too": false,
        "empty_too": true,
        "inputs": null,
        "past_cleared": "stop",
        "part_order": "newest_first",
        "ends_at_summary": true,
        "instead": { "words": { "text": old["placeholder"], "hints": [] } },
        "only_if_shorter": false,
    })
}

/// A summary with the input of its summarizer, which version 1 left to the summarizer.
fn with_writing(summary: Value) -> Value {
    let writing = json!({
        "format": "headings",
        "carry_previous": true,
        "verify": false,
        "transcript": {
            "output_units": 2000,
            "output_marker": "\n[truncated]",
            "reasoning": true,
            "calls": true,
            "media_note": "[Attached {mime}: {name}]",
        },
        "attachments": null,
    });
    match summary {
        Value::Object(fields) => merged(fields, writing),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{presets, validate};

    /// Policies in a store of the first version, with the values of its two presets.
    const OLD: [(&str, &str); 2] = [
        ("opencode@seed", include_str!("upgrade/opencode-seed-1.json")),
        ("pi@1.5", include_str!("upgrade/pi-1.5-1.json")),
    ];

    #[test]
    fn a_policy_of_the_first_version_is_the_same_policy_in_the_form_of_today() {
        for (name, text) in OLD {
            let old = parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(validate::validate(&old), [], "{name}");
            let mut today = presets::find(name).expect("a preset").policy();
            today.render_version = 1;
            let of = |policy: &Policy| serde_json::to_value(policy).expect("a policy is JSON");
            let (old, mut today) = (of(&old), of(&today));
            // Version 1 left the transcript and the file tools to the summarizer, which listed the files of any tools.
            // These values, and the position of retained messages, have fixed defaults.
            let rule = "/auto/steps/0/summarize";
            for unset in ["summary/transcript", "summary/file_tools", "retained_first"] {
                let path = format!("{rule}/{unset}");
                if let (Some(today), Some(old)) = (today.pointer_mut(&path), old.pointer(&path)) {
                    today.clone_from(old);
                }
            }
            // A value that was stored explicitly stays.
            today["guards"]["minimum_gain_tokens"] = json!(200);
            for field in ["preset", "counting", "truncate", "maintenance", "auto", "view", "guards"] {
                assert_eq!(old[field], today[field], "{name}: {field}");
            }
        }
    }

    #[test]
    fn a_policy_without_the_newest_fields_means_what_it_meant() {
        for (preset, form) in [("pi@1.5", "in_place"), ("opencode@seed", "paired")] {
            let today = presets::find(preset).expect("a preset").policy();
            let mut stored = serde_json::to_value(&today).expect("a policy is JSON");
            let summary = stored.pointer_mut("/auto/steps/0/summarize/summary").expect("a summary");
            let fields = summary.as_object_mut().expect("an object");
            fields.remove("prompt");
            fields.remove("facts_tokens");
            let form_of = fields["transcript"].as_object_mut().expect("an object").remove("form");
            assert_eq!(form_of, Some(json!(form)), "{preset}");
            assert_eq!(parse(&stored.to_string()).expect("it loads"), today, "{preset}");
        }
    }

    #[test]
    fn what_is_no_policy_is_refused() {
        for text in ["", "{}", "[]", r#"{"render_version":1,"tail":{}}"#, r#"{"render_version":2}"#] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
