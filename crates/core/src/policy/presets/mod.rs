//! Presets: the agents whose behaviour Longhand can reproduce, one file each.
//!
//! A preset is a policy with a name and a version. If an agent has a defect that breaks one of Longhand's promises, the
//! preset keeps the promise, and names this in its deviations.

pub mod anthropic;
pub mod claude_code;
pub mod codex;
pub mod gemini_cli;
pub mod goose;
pub mod joyagent;
pub mod neovate;
pub mod opencode;
pub mod pi;
mod preset;
pub mod qwen_agent;
pub mod qwen_code;
pub mod smolagents;
pub mod suna;

#[cfg(test)]
mod seeds;

pub use preset::Preset;

/// All presets, in alphabetical order.
pub fn all() -> Vec<Preset> {
    vec![
        anthropic::CONTEXT_EDITING,
        claude_code::OBSERVED,
        claude_code::SEED,
        codex::V2026_08,
        gemini_cli::AUGUST_2025,
        gemini_cli::V0_26,
        gemini_cli::QWEN_AUGUST_2025,
        goose::V0_8,
        joyagent::PRESET,
        neovate::V2026,
        neovate::V2026_FIXED,
        opencode::V1_18,
        opencode::SEED,
        pi::V0_73,
        pi::V1_5,
        qwen_agent::OLD,
        qwen_agent::V0_0_34,
        qwen_code::V0_15,
        qwen_code::V0_24,
        smolagents::PRESET,
        suna::V2025_04,
        suna::V2025_07,
        suna::V2026,
    ]
}

/// The preset with this name. Without a version it is the newest one: the last of its name in the list.
pub fn find(name: &str) -> Option<Preset> {
    let matches = |preset: &Preset| match name.contains('@') {
        true => preset.name == name,
        false => preset.name.split('@').next() == Some(name),
    };
    all().into_iter().rev().find(matches)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{LevelPolicy, Limit, Policy, Summarize, Threshold};
    use serde_json::Value;
    use std::collections::BTreeSet;

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

    /// The default of the value at a path; none if it has no default.
    fn neutral(path: &str) -> Option<Value> {
        let level = LevelPolicy::new(Threshold::above(Limit::Tokens(0)), Vec::new());
        let json = |value: Result<Value, serde_json::Error>| value.expect("parameters are JSON");
        let (whole, inside) = match (path.split_once(".summarize."), path.split_once('.')) {
            (Some((_, inside)), _) => (json(serde_json::to_value(Summarize::default())), inside),
            (None, Some(("micro" | "auto" | "deep", inside @ ("notice" | "stop_when_enough")))) => {
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
            let mut named = BTreeSet::new();
            for (field, _) in preset.sources {
                let exists = leaves.contains(*field) || inner.contains(*field);
                assert!(exists, "{}: there is no {field}", preset.name);
                assert!(named.insert(field), "{}: {field} is named twice", preset.name);
            }
        }
    }

    #[test]
    fn a_preset_is_found_by_its_name_and_version() {
        for preset in all() {
            assert_eq!(find(preset.name).map(|found| found.policy()), Some(preset.policy()));
            assert_eq!(preset.policy().preset, preset.name);
        }
        assert_eq!(find("opencode").map(|preset| preset.name), Some("opencode@seed"));
        assert!(find("opencod").is_none());
        assert!(find("").is_none());
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
        let level =
            LevelPolicy::new(Threshold::above(Limit::Ratio(0.5)), vec![crate::policy::Step::Summarize(Box::default())]);
        assert_eq!(policy, Policy { preset: "x".to_owned(), auto: Some(level), ..Policy::default() });
        assert_eq!(crate::policy::validate::validate(&policy), []);
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
        let opencode = opencode::seed();
        assert_eq!(
            opencode.truncate.as_ref().expect("a truncation").marker,
            "\n[Tool output truncated: omitted {omitted} chars]"
        );
        assert_eq!(opencode.placeholder(), "[Old tool result content cleared]");
        assert_eq!(opencode.view.marker_text.as_deref(), Some("What did we do so far?"));
        let pi = pi::v1_5();
        assert_eq!(
            format!("{}SUM{}", pi.view.summary_prefix, pi.view.summary_suffix),
            "The conversation history before this point was compacted into the following summary:\n\n\
             <summary>\nSUM\n</summary>"
        );
    }
}
