//! Changes of single values of a policy.

use super::Policy;
use super::validate::validate;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The reason for the refusal of a change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("policy override {field:?}: {message}")]
pub struct OverrideError {
    /// The path of the invalid field; empty if the text as a whole is invalid.
    pub field: String,
    /// The violated requirement, as a sentence fragment.
    pub message: String,
}

/// Fields that identify a policy and do not affect its decisions.
const FIXED: [&str; 2] = ["preset", "render_version"];

impl Policy {
    /// The policy with the fields of a JSON merge patch changed; null removes a field.
    ///
    /// If a field contains one of several strategies, the name of another one replaces it: `{"tail":{"recent":{…}}}`
    /// needs no null for `turns`. An item of a list is named by its number: `{"maintenance":{"0":{"prune":{…}}}}`. The
    /// result is a usable policy; the error names the first invalid field.
    pub fn with_overrides(&self, json: &str) -> Result<Self, OverrideError> {
        let patch: Value = serde_json::from_str(json).map_err(|error| refused("", &error.to_string()))?;
        let Value::Object(patch) = patch else {
            return Err(refused("", "must be a JSON object"));
        };
        self.clone().changed(&[], patch).map(|(policy, _)| policy)
    }

    /// The policy without some fields, and with those of a merge patch changed, and the paths of all these fields.
    pub(in crate::policy) fn changed(
        self,
        removed: &[String],
        patch: Map<String, Value>,
    ) -> Result<(Self, Vec<String>), OverrideError> {
        if let Some(field) = FIXED.iter().find(|field| patch.contains_key(**field)) {
            return Err(refused(field, "cannot be changed"));
        }
        let mut merged = serde_json::to_value(self).map_err(|error| refused("", &error.to_string()))?;
        let mut changed = removed.to_vec();
        for field in removed {
            merged.pointer(&format!("/{}", field.replace('.', "/"))).ok_or_else(|| refused(field, NO_ITEM))?;
            let path: Vec<String> = field.split('.').map(str::to_owned).collect();
            apply(&mut merged, &path, Value::Null)?;
        }
        for (path, value) in changes(&merged, patch) {
            apply(&mut merged, &path, value)?;
            changed.push(path.join("."));
        }
        let policy: Self = serde_json::from_value(merged).map_err(|error| refused("", &error.to_string()))?;
        match validate(&policy).into_iter().next() {
            Some(violation) => Err(OverrideError { field: violation.field, message: violation.message }),
            None => Ok((policy, changed)),
        }
    }
}

/// Message for a path that the policy does not have.
const NO_ITEM: &str = "there is no such item";

/// Changes one value. The policy is checked each time, so that an error belongs to the field that causes it.
fn apply(policy: &mut Value, path: &[String], value: Value) -> Result<(), OverrideError> {
    if !set(policy, path, value) {
        return Err(refused(&path.join("."), NO_ITEM));
    }
    Policy::deserialize(&*policy).map(drop).map_err(|error| refused(&path.join("."), &error.to_string()))
}

fn refused(field: &str, message: &str) -> OverrideError {
    OverrideError { field: field.to_owned(), message: message.to_owned() }
}

/// The single changes of a patch, as paths with their new values.
fn changes(target: &Value, patch: Map<String, Value>) -> Vec<(Vec<String>, Value)> {
    let mut changes = Vec::new();
    for (key, value) in patch {
        match (child(target, &key), value) {
            (Some(inner @ (Value::Object(_) | Value::Array(_))), Value::Object(patch)) if !replaces(inner, &patch) => {
                for (mut path, value) in self::changes(inner, patch) {
                    path.insert(0, key.clone());
                    changes.push((path, value));
                }
            }
            (_, value) => changes.push((vec![key], value)),
        }
    }
    changes
}

/// A field of an object, or an item of a list by its number.
fn child<'a>(target: &'a Value, key: &str) -> Option<&'a Value> {
    match target {
        Value::Array(items) => items.get(key.parse::<usize>().ok()?),
        other => other.get(key),
    }
}

fn child_mut<'a>(target: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    match target {
        Value::Array(items) => items.get_mut(key.parse::<usize>().ok()?),
        other => other.get_mut(key),
    }
}

/// True if the patch names another strategy than the target, which is an object with one name.
fn replaces(target: &Value, patch: &Map<String, Value>) -> bool {
    target.as_object().is_some_and(|fields| fields.len() == 1)
        && !patch.is_empty()
        && patch.keys().all(|name| target.get(name).is_none())
}

/// Changes one value. Returns false if its path does not exist.
fn set(target: &mut Value, path: &[String], value: Value) -> bool {
    let Some((field, outer)) = path.split_last() else {
        return false;
    };
    match outer.iter().try_fold(target, |parent, field| child_mut(parent, field)) {
        Some(Value::Object(parent)) if value.is_null() => {
            parent.remove(field);
        }
        Some(Value::Object(parent)) => {
            parent.insert(field.clone(), value);
        }
        Some(Value::Array(items)) => {
            let Some(item) = field.parse::<usize>().ok().and_then(|index| items.get_mut(index)) else { return false };
            *item = value;
        }
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use crate::policy::LargeResults;
    use crate::policy::{Limit, PolicyStep, Recent, Tail, Truncate, samples};

    fn check_error(json: &str, field: &str, message_part: &str) {
        let error = samples::policy("opencode@seed").with_overrides(json).expect_err(json);
        assert_eq!(error.field, field, "{json}: {error}");
        assert!(error.message.contains(message_part), "{json}: {error}");
    }

    #[test]
    fn named_fields_change_and_the_others_stay() {
        let seed = samples::policy("opencode@seed");
        let policy = seed
            .with_overrides(r#"{"maintenance":{"0":{"prune":{"keep":{"turns":3}}}},"trigger":{"auto":false}}"#)
            .expect("valid");
        let mut expected = seed.clone();
        let Some(PolicyStep::Prune(prune)) = expected.maintenance.first_mut() else { panic!("a prune") };
        prune.keep.turns = 3;
        expected.trigger.auto = false;
        assert_eq!(policy, expected);
        assert_eq!(seed.with_overrides("{}"), Ok(seed));
    }

    #[test]
    fn null_takes_a_field_out() {
        let policy =
            samples::policy("opencode@seed").with_overrides(r#"{"maintenance":[],"truncate":null}"#).expect("valid");
        assert_eq!((policy.maintenance, policy.truncate), (Vec::new(), None));
    }

    #[test]
    fn a_field_that_was_absent_can_be_set_with_what_differs_from_the_default() {
        let policy = samples::policy("pi@1.5").with_overrides(r#"{"truncate":{"max_units":10}}"#).expect("valid");
        assert_eq!(policy.truncate, Some(Truncate { max_units: 10, ..Truncate::default() }));
    }

    #[test]
    fn another_strategy_replaces_the_one_in_force() {
        let json = r#"{"auto":{"steps":{"0":{"summarize":{"tail":{"recent":{"keep_tokens":5}}}}}}}"#;
        let policy = samples::policy("opencode@seed").with_overrides(json).expect("valid");
        let Some(PolicyStep::Summarize(rule)) =
            policy.auto.as_ref().and_then(|level_policy| level_policy.steps.first())
        else {
            panic!("a summary")
        };
        assert_eq!(rule.tail, Tail::Recent(Recent { keep_tokens: 5, large_results: LargeResults::WithCall }));
        for (limit, expected) in [
            (r#"{"ratio":0.5}"#, Limit::Ratio(0.5)),
            (r#"{"reserve_tokens":5}"#, Limit::Reserve(5)),
            (
                r#"{"usable":{"buffer_tokens":5}}"#,
                Limit::Usable { buffer_tokens: 5, output_cap_tokens: 32_000, reserved_tokens: None },
            ),
        ] {
            let json = format!(r#"{{"auto":{{"threshold":{{"limit":{limit}}}}}}}"#);
            let policy = samples::policy("opencode@seed").with_overrides(&json).expect("valid");
            assert_eq!(policy.auto.map(|level_policy| level_policy.threshold.limit), Some(expected));
        }
    }

    #[test]
    fn an_item_of_another_preset_can_be_added() {
        let seed = samples::policy("opencode@seed");
        let patch = serde_json::json!({ "maintenance": seed.maintenance }).to_string();
        let policy = samples::policy("opencode@1.18").with_overrides(&patch).expect("valid");
        assert_eq!(policy.maintenance, seed.maintenance);
    }

    #[test]
    fn an_error_names_the_field() {
        check_error("{", "", "EOF");
        check_error("[]", "", "object");
        check_error(r#"{"routnie":{}}"#, "routnie", "unknown field");
        let prune = |patch: &str| format!(r#"{{"maintenance":{{"0":{{"prune":{{"keep":{patch}}}}}}}}}"#);
        check_error(&prune(r#"{"turns":1,"trns":2}"#), "maintenance.0.prune.keep.trns", "unknown field");
        check_error(&prune(r#"{"turns":"two"}"#), "maintenance.0.prune.keep.turns", "invalid type");
        check_error(&prune(r#"{"turns":-1}"#), "maintenance.0.prune.keep.turns", "invalid value");
        check_error(&prune(r#"{"tokens":-1}"#), "maintenance.0.prune.keep.tokens", "negative");
        let tail = |patch: &str| format!(r#"{{"auto":{{"steps":{{"0":{{"summarize":{{"tail":{patch}}}}}}}}}}}"#);
        let path = "auto.steps.0.summarize.tail";
        check_error(
            &tail(r#"{"turns":{"budget_ratio":null}}"#),
            &format!("{path}.turns.budget_ratio"),
            "missing field",
        );
        check_error(&tail(r#"{"recent":{}}"#), path, "missing field");
        check_error(r#"{"maintenance":{"1":{}}}"#, "maintenance.1", "no such item");
        check_error(r#"{"maintenance":{"first":{}}}"#, "maintenance.first", "no such item");
        check_error(r#"{"preset":"mine"}"#, "preset", "cannot be changed");
        check_error(r#"{"counting":{"units_per_token":0}}"#, "counting.units_per_token", "at least 1");
    }
}
