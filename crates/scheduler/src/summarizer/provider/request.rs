//! A request to a model, and readers of the JSON of requests and replies.

use crate::policy::prompt::Prompt;
use serde_json::{Map, Value};

/// Input of a request to a model.
#[derive(Debug, Clone, Copy)]
pub(super) struct ModelRequest<'a> {
    /// The provider's address, without a slash at its end.
    pub(super) base_url: &'a str,
    /// The model's name.
    pub(super) model: &'a str,
    /// The text of the request.
    pub(super) prompt: &'a Prompt,
    /// Maximum output of the model, in tokens.
    pub(super) max_output: i64,
    /// Fields that the operator adds to the request.
    pub(super) extra: &'a Map<String, Value>,
}

/// One request in the protocol's format.
#[derive(Debug)]
pub(super) struct Wire {
    /// The address.
    pub(super) url: String,
    /// Headers besides the key.
    pub(super) headers: &'static [(&'static str, &'static str)],
    /// The body.
    pub(super) body: Value,
}

/// A token count; zero if it is absent or not a number.
pub(super) fn count(value: &Value, pointer: &str) -> i64 {
    value.pointer(pointer).and_then(Value::as_i64).unwrap_or(0).max(0)
}

/// A string; empty if it is absent or of another type.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

/// The items of a list; none if it is absent or of another type.
pub(super) fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Adds the operator's fields to a body; they take precedence.
pub(super) fn with_extra(mut body: Value, extra: &Map<String, Value>) -> Value {
    if let Some(fields) = body.as_object_mut() {
        fields.extend(extra.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    body
}
