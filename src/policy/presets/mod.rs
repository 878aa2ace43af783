//! The agents whose behaviour Longhand can take on, one file each.
//!
//! A preset is a policy with a name and a version. Where the agent has a defect that one of Longhand's promises rules
//! out, the preset keeps the promise, and says so in its deviations.

pub mod opencode;
pub mod pi;

use super::Policy;

/// A named, versioned policy.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// The agent and the version: `opencode@seed`.
    pub name: &'static str,
    /// One sentence for a list.
    pub description: &'static str,
    /// Where Longhand acts differently from the agent on purpose, a sentence each.
    pub deviations: &'static [&'static str],
    /// Where each value comes from: the path of a field in the policy's JSON, and its source.
    pub sources: &'static [(&'static str, &'static str)],
    policy: fn() -> Policy,
}

impl Preset {
    /// The policy.
    pub fn policy(&self) -> Policy {
        (self.policy)()
    }
}

/// All presets, in alphabetical order.
pub fn all() -> Vec<Preset> {
    vec![opencode::SEED, pi::V1_5]
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
    use serde_json::Value;
    use std::collections::BTreeSet;

    /// The paths of all fields that hold a value of their own; a list is one value.
    fn leaves(prefix: &str, value: &Value, paths: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                    leaves(&path, value, paths);
                }
            }
            _ => drop(paths.insert(prefix.to_owned())),
        }
    }

    #[test]
    fn every_value_of_every_preset_has_one_source() {
        for preset in all() {
            let mut expected = BTreeSet::new();
            leaves("", &serde_json::to_value(preset.policy()).expect("a policy is JSON"), &mut expected);
            let named: Vec<String> = preset.sources.iter().map(|(field, _)| (*field).to_owned()).collect();
            assert_eq!(named.len(), expected.len(), "{}: a field is named twice or not at all", preset.name);
            assert_eq!(named.into_iter().collect::<BTreeSet<_>>(), expected, "{}", preset.name);
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
    fn the_recognised_texts_are_exact() {
        let opencode = opencode::seed();
        assert_eq!(opencode.truncate.expect("a cut").marker, "\n[Tool output truncated: omitted {omitted} chars]");
        assert_eq!(opencode.prune.expect("a prune rule").placeholder, "[Old tool result content cleared]");
        assert_eq!(opencode.view.marker_text.as_deref(), Some("What did we do so far?"));
        let pi = pi::v1_5();
        assert_eq!(
            format!("{}SUM{}", pi.view.summary_prefix, pi.view.summary_suffix),
            "The conversation history before this point was compacted into the following summary:\n\n\
             <summary>\nSUM\n</summary>"
        );
    }
}
