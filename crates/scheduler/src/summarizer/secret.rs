//! Keys of providers, kept out of all output.

use reqwest::header::HeaderValue;
use std::borrow::Cow;

/// Bytes of a part of a key from which on it is kept out of all output as well. Shorter ones tell little, and may be
/// words.
const PART_BYTES_MIN: usize = 8;

/// A key for a provider. It appears in no log, no error and no debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Creates a secret from a key; white space around it, such as the newline at the end of a file, is removed.
    pub fn new(key: &str) -> Self {
        Self(key.trim().to_owned())
    }

    /// True if the key is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A header value of the prefix followed by the key; none if the key has characters that no header can have.
    pub(super) fn header(&self, prefix: &str) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&format!("{prefix}{}", self.0)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// The text with `[key]` in place of the key and of parts of it from `PART_BYTES_MIN` bytes on, in case a provider
    /// repeated it, whole or shortened.
    pub(super) fn scrub<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let key = self.0.as_bytes();
        // A part of a key that is not ASCII might end within a character.
        let least = if self.0.is_ascii() { PART_BYTES_MIN.min(key.len()) } else { key.len() };
        if least == 0 {
            return Cow::Borrowed(text);
        }
        let mut scrubbed = String::new();
        let mut copied = 0;
        let mut at = 0;
        while at + least <= text.len() {
            let rest = &text.as_bytes()[at..];
            let parts = key.windows(least).enumerate().filter(|(_, part)| rest.starts_with(part));
            let length = parts.map(|(from, _)| rest.iter().zip(&key[from..]).take_while(|(a, b)| a == b).count()).max();
            match length {
                Some(length) => {
                    scrubbed.push_str(&text[copied..at]);
                    scrubbed.push_str("[key]");
                    at += length;
                    copied = at;
                }
                None => at += 1,
            }
        }
        if copied == 0 {
            return Cow::Borrowed(text);
        }
        scrubbed.push_str(&text[copied..]);
        Cow::Owned(scrubbed)
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_nowhere_to_be_read() {
        let secret = Secret::new(" sk-123\n");
        let header = secret.header("Bearer ").expect("a header");
        assert!(!format!("{secret:?} {header:?}").contains("123"));
        assert_eq!(header.to_str().expect("text"), "Bearer sk-123");
        assert_eq!(secret.scrub("bad key: sk-123!"), "bad key: [key]!");
        assert_eq!(Secret::new("").scrub("as it is"), "as it is");
        let secret = Secret::new("sk-very-secret-0123456789");
        for (text, scrubbed) in [
            ("Incorrect API key provided: sk-very-secret-01234.", "Incorrect API key provided: [key]."),
            ("é sk-very-secret-0123456789 é, ret-0123 and 56789", "é [key] é, [key] and 56789"),
            ("sk-very-secret-0123456789sk-very-", "[key][key]"),
            ("sk-very is short", "sk-very is short"),
            ("ret-0123", "[key]"),
        ] {
            assert_eq!(secret.scrub(text), scrubbed);
        }
        assert_eq!(Secret::new("schlüssel-wort").scrub("schlüssel-wort, schlüssel-"), "[key], schlüssel-");
        assert!(Secret::new("two\nlines").header("").is_none());
    }
}
