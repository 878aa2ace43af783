//! The number of values in a JSON text, counted before anything is made of them: an object in memory takes hundreds of
//! times the bytes of its two braces.

use crate::app::{Error, Reason, Result};
use crate::limits::{BATCH_MESSAGES_MAX, MESSAGE_PARTS_MAX};
use crate::pb::measure::REQUEST_VALUES_MAX;
use crate::traffic::RequestMemory;

/// Levels of nesting up to which the parser reads.
const DEPTH_MAX: usize = 128;

// They are enough for a full batch of full messages.
const _: () = assert!(REQUEST_VALUES_MAX == BATCH_MESSAGES_MAX * (2 * MESSAGE_PARTS_MAX + 8));

/// Bytes of memory that an object or an element of a list takes at most, while the request is made of it.
const VALUE_BYTES: usize = 1_024;

/// Refuses a text with more objects and elements of lists than any request may have. What is no JSON is left to the
/// parser, which reads up to its first error as this does.
///
/// # Errors
///
/// `REQUEST_TOO_LARGE`; `TOO_MANY_REQUESTS` if there is no memory for those that it has.
pub(super) fn check(text: &[u8]) -> Result<()> {
    let limit = REQUEST_VALUES_MAX;
    let Some(values) = count(limit, text) else {
        let message = format!("the body has more than {limit} objects and elements of lists");
        return Err(Error::new(Reason::RequestTooLarge, message).with("limit", limit));
    };
    match RequestMemory::grow(text.len() + values * VALUE_BYTES) {
        true => Ok(()),
        false => Err(Error::new(Reason::TooManyRequests, "the memory for what the body grows to is taken by others")),
    }
}

/// The number of values; none if there are more than this.
fn count(limit: usize, text: &[u8]) -> Option<usize> {
    // True for each open list, false for each open object.
    let mut open: Vec<bool> = Vec::new();
    let mut is_element_next = false;
    let mut values = 0;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        let is_element = std::mem::take(&mut is_element_next);
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' => {
                is_element_next = is_element;
                continue;
            }
            b'{' => values += 1,
            b']' => {}
            _ if is_element => values += 1,
            _ => {}
        }
        match byte {
            b'"' => skip_string(&mut bytes),
            b'{' | b'[' => {
                if open.len() == DEPTH_MAX {
                    return Some(values);
                }
                is_element_next = *byte == b'[';
                open.push(is_element_next);
            }
            b'}' | b']' => drop(open.pop()),
            b',' => is_element_next = open.last() == Some(&true),
            _ => {}
        }
        if values > limit {
            return None;
        }
    }
    Some(values)
}

/// Passes the rest of a string.
fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(at) = memchr::memchr2(b'"', b'\\', bytes.as_slice()) {
        if bytes.nth(at) == Some(&b'"') {
            return;
        }
        bytes.next();
    }
    *bytes = [].iter();
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    /// The same number from the parsed text.
    fn values_of(value: &Value) -> usize {
        match value {
            Value::Object(fields) => 1 + fields.values().map(values_of).sum::<usize>(),
            Value::Array(elements) => {
                let inner = |element: &Value| values_of(element) + usize::from(!element.is_object());
                elements.iter().map(inner).sum()
            }
            _ => 0,
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            r#"[\[\]{},:"\\ a\n]{0,9}"#.prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 60, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((r#"[\[{,"\\]{0,3}"#, inner), 0..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_count_is_that_of_the_parsed_text(value in value(), is_pretty: bool) {
            let text = if is_pretty { format!("{value:#}") } else { value.to_string() };
            let values = values_of(&value);
            prop_assert_eq!(count(values, text.as_bytes()), Some(values), "{}", text);
            if values > 0 {
                prop_assert_eq!(count(values - 1, text.as_bytes()), None, "{}", text);
            }
        }
    }

    #[test]
    fn a_text_with_too_many_values_is_refused_wherever_they_are() {
        let most = REQUEST_VALUES_MAX;
        let numbers = |count: usize| json!({ "kinds": vec![1; count] }).to_string();
        assert!(check(numbers(most - 1).as_bytes()).is_ok());
        let nested = format!(r#"{{"messages":[{{"parts":[{}{{"te"#, r#"{"text":{}},"#.repeat(most / 2));
        for text in [numbers(most), nested, "[".to_owned() + &"[{}],".repeat(most)] {
            let refusal = check(text.as_bytes()).expect_err("too many");
            assert_eq!(refusal.reason, Reason::RequestTooLarge);
            assert_eq!(refusal.metadata.get("limit"), Some(&most.to_string()));
        }
    }
}
