//! Changing single values of a policy.

use super::Policy;
use super::validate::validate;
use serde_json::{Map, Value};

/// Why a change was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("policy override {field:?}: {message}")]
pub struct OverrideError {
    /// The path of the field that is wrong; empty when the text as a whole is.
    pub field: String,
    /// What is wrong with it, as a sentence fragment.
    pub message: String,
}

/// Fields that say what a policy is, not how it acts.
const FIXED: [&str; 2] = ["preset", "render_version"];

impl Policy {
    /// The policy with the fields changed that the JSON merge patch names; null takes a field out.
    ///
    /// Where a field holds one of several strategies, naming another one replaces it: `{"tail":{"recent":{…}}}` needs
    /// no null for `turns`. The outcome is a usable policy; the error names the first field that is not.
    pub fn with_overrides(&self, json: &str) -> Result<Self, OverrideError> {
        let patch: Value = serde_json::from_str(json).map_err(|error| refused("", &error.to_string()))?;
        let Value::Object(patch) = patch else {
            return Err(refused("", "must be a JSON object"));
        };
        if let Some(field) = FIXED.iter().find(|field| patch.contains_key(**field)) {
            return Err(refused(field, "cannot be changed"));
        }
        let policy = serde_json::to_value(self).map_err(|error| refused("", &error.to_string()))?;
        let mut merged = policy.clone();
        for (path, value) in changes(&policy, patch) {
            set(&mut merged, &path, value);
            // One change at a time, so that an error belongs to the field that causes it.
            serde_json::from_value::<Self>(merged.clone())
                .map_err(|error| refused(&path.join("."), &error.to_string()))?;
        }
        let policy: Self = serde_json::from_value(merged).map_err(|error| refused("", &error.to_string()))?;
        match validate(&policy).into_iter().next() {
            Some(violation) => Err(OverrideError { field: violation.field, message: violation.message }),
            None => Ok(policy),
        }
    }
}

fn refused(field: &str, message: &str) -> OverrideError {
    OverrideError { field: field.to_owned(), message: message.to_owned() }
}

/// The single changes that a patch consists of, as paths with their new values.
fn changes(target: &Value, patch: Map<String, Value>) -> Vec<(Vec<String>, Value)> {
    let mut changes = Vec::new();
    for (key, value) in patch {
        match (target.get(&key), value) {
            (Some(inner @ Value::Object(_)), Value::Object(patch)) if !replaces(inner, &patch) => {
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

/// Whether the patch names another strategy than the target, which has one name and its values in an object.
fn replaces(target: &Value, patch: &Map<String, Value>) -> bool {
    let is_strategy =
        target.as_object().is_some_and(|fields| fields.len() == 1 && fields.values().all(Value::is_object));
    is_strategy && patch.keys().all(|name| target.get(name).is_none())
}

fn set(target: &mut Value, path: &[String], value: Value) {
    let Some((field, outer)) = path.split_last() else {
        return;
    };
    let parent = outer.iter().try_fold(target, |parent, field| parent.get_mut(field)).and_then(Value::as_object_mut);
    if let Some(parent) = parent {
        if value.is_null() {
            parent.remove(field);
        } else {
            parent.insert(field.clone(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::{Tail, presets};

    fn check_error(json: &str, field: &str, message_part: &str) {
        let error = presets::opencode::seed().with_overrides(json).expect_err(json);
        assert_eq!(error.field, field, "{json}: {error}");
        assert!(error.message.contains(message_part), "{json}: {error}");
    }

    #[test]
    fn named_fields_change_and_the_others_stay() {
        let seed = presets::opencode::seed();
        let policy = seed.with_overrides(r#"{"prune":{"protect_turns":3},"trigger":{"auto":false}}"#).expect("valid");
        let mut expected = seed.clone();
        expected.prune.as_mut().expect("a prune rule").protect_turns = 3;
        expected.trigger.auto = false;
        assert_eq!(policy, expected);
        assert_eq!(seed.with_overrides("{}"), Ok(seed));
    }

    #[test]
    fn null_takes_a_field_out() {
        let policy = presets::opencode::seed().with_overrides(r#"{"prune":null,"truncate":null}"#).expect("valid");
        assert_eq!((policy.prune, policy.truncate), (None, None));
    }

    #[test]
    fn a_field_that_was_absent_can_be_set_whole() {
        let json = r#"{"truncate":{"max_units":10,"marker":"…"}}"#;
        let policy = presets::pi::v1_5().with_overrides(json).expect("valid");
        assert_eq!(policy.truncate.map(|truncate| truncate.max_units), Some(10));
    }

    #[test]
    fn another_strategy_replaces_the_one_in_force() {
        let policy =
            presets::opencode::seed().with_overrides(r#"{"tail":{"recent":{"keep_tokens":5}}}"#).expect("valid");
        assert_eq!(policy.tail, Tail::Recent { keep_tokens: 5 });
    }

    #[test]
    fn an_error_names_the_field() {
        check_error("{", "", "EOF");
        check_error("[]", "", "object");
        check_error(r#"{"prnue":{}}"#, "prnue", "unknown field");
        check_error(r#"{"prune":{"protect_turns":1,"protct":2}}"#, "prune.protct", "unknown field");
        check_error(r#"{"prune":{"protect_turns":"two"}}"#, "prune.protect_turns", "invalid type");
        check_error(r#"{"prune":{"protect_turns":-1}}"#, "prune.protect_turns", "invalid value");
        check_error(r#"{"tail":{"turns":{"budget_ratio":null}}}"#, "tail.turns.budget_ratio", "missing field");
        check_error(r#"{"tail":{"recent":{}}}"#, "tail", "missing field");
        check_error(r#"{"preset":"mine"}"#, "preset", "cannot be changed");
        check_error(r#"{"counting":{"units_per_token":0}}"#, "counting.units_per_token", "at least 1");
    }
}
