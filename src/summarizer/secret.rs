//! Keys of providers, kept out of all output.

use reqwest::header::HeaderValue;
use std::borrow::Cow;

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

    /// The text with the key replaced by `[key]`, in case a provider repeated it.
    pub(super) fn scrub<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let is_repeated = !self.0.is_empty() && text.contains(&self.0);
        if is_repeated { Cow::Owned(text.replace(&self.0, "[key]")) } else { Cow::Borrowed(text) }
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
        assert!(Secret::new("two\nlines").header("").is_none());
    }
}
