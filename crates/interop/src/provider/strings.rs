//! JSON strings as writers in UTF-16 leave them: a pair of surrogates can be split between two strings, and half of one can
//! be left at the end of a text that was cut off. No provider reads a half.

use serde_json::value::RawValue;

/// Strings that follow each other, joined before their escapes are read, so that a letter which was split between two of
/// them is one.
#[derive(Debug, Clone, Default)]
pub(super) struct Words(String);

impl Words {
    /// Continues the text with a string; other values say nothing.
    pub(super) fn push(&mut self, value: Option<&RawValue>) {
        let inner = value.and_then(|value| value.get().strip_prefix('"')?.strip_suffix('"'));
        self.0.push_str(inner.unwrap_or_default());
    }

    /// Continues the text with another one.
    pub(super) fn append(&mut self, more: &Self) {
        self.0.push_str(&more.0);
    }

    /// True for no text.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text as a JSON string.
    pub(super) fn json(&self) -> String {
        paired(format!("\"{}\"", self.0))
    }

    pub(super) fn text(&self) -> String {
        serde_json::from_str(&self.json()).unwrap_or_default()
    }
}

/// JSON without halves of surrogate pairs: U+FFFD stands for each.
pub(super) fn paired(json: String) -> String {
    if !json.contains("\\u") {
        return json;
    }
    let mut whole = String::with_capacity(json.len());
    let mut rest = json.as_str();
    while let Some(at) = rest.find('\\') {
        whole.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = match (unit(rest), rest.get(6..).and_then(unit)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                whole.push_str("\\ufffd");
                rest = &rest[6..];
                continue;
            }
            (Some(_), _) => 6,
            // An escape of one letter, which can be a backslash.
            (None, _) => rest.char_indices().nth(2).map_or(rest.len(), |(at, _)| at),
        };
        whole.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    whole + rest
}

/// The unit of UTF-16 that an escape at the beginning of a text stands for.
fn unit(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_replaced_and_everything_else_stays() {
        for (json, expected) in [
            (r#""a\ud83d""#, r#""a\ufffd""#),
            (r#""\ude00\ud83d\ud83d\ude00""#, r#""\ufffd\ufffd\ud83d\ude00""#),
            (r#"{"\uDC00":"\\ud83d","x":"\\\ud83d\n"}"#, r#"{"\ufffd":"\\ud83d","x":"\\\ufffd\n"}"#),
            (r#""\u00e9 \ud83dé""#, r#""\u00e9 \ufffdé""#),
            ("1", "1"),
        ] {
            assert_eq!(paired(json.to_owned()), expected);
        }
    }

    #[test]
    fn a_letter_that_was_split_is_one() {
        let mut words = Words::default();
        for half in [r#""a\ud83d""#, "null", r#""\ude00\"""#] {
            words.push(serde_json::from_str(half).ok());
        }
        assert_eq!((words.text().as_str(), words.json().as_str()), ("a😀\"", r#""a\ud83d\ude00\"""#));
    }
}
