//! The files of the presets.

use crate::policy::validate::validate;
use crate::policy::{LevelPolicy, Limit, Notice, Policy, PolicyStep, Summarize, Threshold};
use crate::presets::suna::parameters::Strip;
use crate::presets::{Preset, all, find, parse, policy, text};
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Collects the paths of all fields with a value of their own, and of all fields with other fields in them.
fn paths(prefix: &str, value: &Value, leaves: &mut BTreeSet<String>, inner: &mut BTreeSet<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    let known = if children.is_empty() { &mut *leaves } else { &mut *inner };
    known.insert(prefix.to_owned());
    for (name, value) in children {
        let path = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
        paths(&path, value, leaves, inner);
    }
}

/// The value at a path; items of lists are named by their numbers.
fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    value.pointer(&format!("/{}", path.replace('.', "/")))
}

fn file_name(preset: &Preset) -> String {
    format!("{}.toml", preset.name.replace('@', "-"))
}

/// The default of the value at a path; none if it has no default.
fn neutral(path: &str) -> Option<Value> {
    let json = |value: Result<Value, serde_json::Error>| value.expect("parameters are JSON");
    let level = serde_json::json!({ "threshold": { "limit": { "tokens": 0 } }, "steps": [] });
    let level: LevelPolicy = serde_json::from_value(level).expect("a level");
    let (whole, inside) = match (path.split_once(".summarize."), path.split_once('.')) {
        (Some((_, inside)), _) => (json(serde_json::to_value(Summarize::default())), inside),
        (None, Some(("micro" | "auto" | "deep", inside @ ("notice" | "stop_when_enough" | "alternatives")))) => {
            (json(serde_json::to_value(level)), inside)
        }
        (None, _) => (json(serde_json::to_value(Policy::default())), path),
    };
    at(&whole, inside).cloned()
}

#[test]
fn every_value_of_a_preset_is_the_default_or_has_a_source() {
    for preset in all() {
        let (mut leaves, mut inner) = (BTreeSet::new(), BTreeSet::new());
        let value = serde_json::to_value(preset.policy()).expect("a policy is JSON");
        paths("", &value, &mut leaves, &mut inner);
        let differs = |path: &&String| neutral(path).as_ref() != at(&value, path);
        let without = leaves.iter().filter(|path| preset.source(path).is_none()).filter(differs);
        assert_eq!(without.collect::<Vec<_>>(), Vec::<&String>::new(), "{}: values without a source", preset.name);
        for field in preset.sources.keys() {
            let exists = leaves.contains(field) || inner.contains(field);
            assert!(exists, "{}: there is no {field}", preset.name);
        }
    }
}

#[test]
fn a_preset_is_found_by_its_name_and_version() {
    for preset in all() {
        assert_eq!(find(&preset.name), Some(preset));
        assert_eq!(preset.policy().preset, preset.name);
    }
    assert_eq!(find("opencode").map(|preset| preset.name.as_str()), Some("opencode@seed"));
    assert!(find("opencod").is_none());
    assert!(find("").is_none());
}

#[test]
fn every_file_is_a_preset_of_its_name() {
    let folder = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).expect("the folder");
    let names = folder.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
    let files: BTreeSet<String> = names.filter(|name| name.ends_with(".toml")).collect();
    assert_eq!(files, all().iter().map(file_name).collect());
    for preset in all() {
        assert_eq!(text(&preset.name).map(parse), Some(Ok(preset.clone())));
    }
}

#[test]
fn a_policy_survives_its_text_form() {
    for preset in all() {
        let text = serde_json::to_string(&preset.policy()).expect("a policy is JSON");
        assert_eq!(serde_json::from_str::<Policy>(&text).expect("its own text"), preset.policy());
    }
}

#[test]
fn a_policy_may_leave_out_defaults_and_is_written_whole() {
    let text = r#"{"preset": "x", "auto": {"threshold": {"limit": {"ratio": 0.5}}, "steps": [{"summarize": {}}]}}"#;
    let policy: Policy = serde_json::from_str(text).expect("a policy");
    let level = LevelPolicy {
        threshold: Threshold { limit: Limit::Ratio(0.5), inclusive: false, minimum_tokens: 0 },
        notice: Notice::None,
        steps: vec![PolicyStep::Summarize(Box::default())],
        stop_when_enough: false,
        alternatives: false,
    };
    assert_eq!(policy, Policy { preset: "x".to_owned(), auto: Some(level), ..Policy::default() });
    assert_eq!(validate(&policy), []);
    let whole = serde_json::to_value(&policy).expect("JSON");
    for path in ["guards.rearm_ratio", "auto.stop_when_enough", "auto.steps.0.summarize.summary.prompt.rules"] {
        assert_eq!(at(&whole, path), neutral(path).as_ref(), "{path} is written although it is the default");
        assert!(at(&whole, path).is_some(), "{path}");
    }
    for unknown in [r#"{"preset": "x", "guard": {}}"#, r#"{"preset": "x", "guards": {"attempts_max": 1}}"#] {
        assert!(serde_json::from_str::<Policy>(unknown).is_err(), "{unknown}");
    }
}

#[test]
fn the_recognised_texts_are_exact() {
    let opencode = policy("opencode@seed");
    assert_eq!(
        opencode.truncate.as_ref().expect("a truncation").marker,
        "\n[Tool output truncated: omitted {omitted} chars]"
    );
    assert_eq!(opencode.placeholder(), "[Old tool result content cleared]");
    assert_eq!(opencode.view.marker_text.as_deref(), Some("What did we do so far?"));
    let pi = policy("pi@1.5");
    assert_eq!(
        format!("{}SUM{}", pi.view.summary_prefix, pi.view.summary_suffix),
        "The conversation history before this point was compacted into the following summary:\n\n\
         <summary>\nSUM\n</summary>"
    );
}

#[test]
fn every_preset_is_usable() {
    for preset in all() {
        assert_eq!(validate(&preset.policy()), [], "{}", preset.name);
    }
}

/// The product's lines of the general crate, by file: without those of tests.
fn general_lines(folder: &Path, lines: &mut Vec<(String, String)>) {
    for path in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        if path.is_dir() && name != "tests" {
            general_lines(&path, lines);
        } else if name.ends_with(".rs") && !["tests.rs", "dsl.rs", "samples.rs"].contains(&name.as_str()) {
            let source = fs::read_to_string(&path).expect("a source");
            let product = source.split("#[cfg(test)]\nmod tests {").next().expect("a text");
            lines.extend(product.lines().map(|line| (name.clone(), line.to_owned())));
        }
    }
}

/// Names of agents that are also something else: an example of a name, a model, a provider, and a value of an option.
const ELSEWHERE: [(&str, &str); 6] = [
    ("mod.rs", "`opencode@seed`"),
    ("preset.rs", "`opencode@seed`"),
    ("form.rs", r#""codex""#),
    ("models.rs", r#""openai-codex""#),
    ("summary.rs", "Pi,"),
    ("", "FileTools::Pi"),
];

#[test]
fn no_general_file_names_an_agent() {
    let agents = all().iter().filter_map(|preset| preset.name.split('@').next()).filter(|agent| *agent != "longhand");
    let names: BTreeSet<String> = agents.map(|agent| agent.replace('-', "[-_ ]?")).collect();
    assert!(names.len() > 10 && names.contains("qwen[-_ ]?agent"), "{names:?}");
    let names = Regex::new(&format!(r"(?i)\b({})\b", Vec::from_iter(names).join("|"))).expect("a pattern");
    let mut lines = Vec::new();
    general_lines(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/src"), &mut lines);
    assert!(lines.len() > 10_000, "{} lines", lines.len());
    let is_elsewhere =
        |file: &str, line: &str| ELSEWHERE.iter().any(|(of, words)| file.ends_with(of) && line.contains(words));
    lines.retain(|(file, line)| names.is_match(line) && !is_elsewhere(file, line));
    assert_eq!(lines, []);
}

#[test]
fn a_strategy_is_read_by_its_name_or_refused() {
    let omit = |omission: &str| {
        let patch = format!(r#"{{"auto": {{"steps": {{"0": {{"omit": {omission}}}}}}}}}"#);
        policy("pi@1.5").with_overrides(&patch)
    };
    let changed = omit(r#"{"strip": {"object": "a", "field": "b"}}"#).expect("a policy").auto.expect("a level");
    let strip = Strip { object: "a".to_owned(), field: "b".to_owned() };
    assert_eq!(changed.steps, [PolicyStep::Omit(strip.clone().into())]);
    assert!(matches!(&changed.steps[..], [PolicyStep::Omit(omission)] if omission.parameters() == Some(&strip)));
    assert_eq!(serde_json::to_value(&changed.steps[0]).expect("JSON")["omit"]["strip"]["field"], "b");
    for text in [r#""suffix""#, r#"{"last": {"messages": 4}}"#] {
        let level = omit(text).expect("a policy").auto.expect("a level");
        let written = serde_json::to_value(&level.steps[0]).expect("JSON");
        assert_eq!(written["omit"], serde_json::from_str::<Value>(text).expect("JSON"));
    }
    for (text, required) in [
        (r#""suffx""#, "expected `last`, `output_budget`"),
        (r#"{"strip": {"object": "a", "feld": "b"}}"#, "unknown field `feld`"),
        (r#"{"strip": {"object": "a", "field": ""}}"#, "must name a field"),
        (r#"{"suffix": {}}"#, "invalid type: map"),
        (r#"{"strip": {"object": "a", "field": "b"}, "suffix": null}"#, "expected"),
        ("7", "expected"),
    ] {
        let error = omit(text).expect_err(text).to_string();
        assert!(error.contains(required), "{text}: {error}");
    }
}
