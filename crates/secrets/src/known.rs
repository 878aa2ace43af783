//! The built-in rules.

use super::check::{self, Check, Words as CheckWords};
use regex_automata::meta::Regex;
use serde::Deserialize;
use std::sync::{Arc, LazyLock};

/// Between a key and its secret: the rest of a name, an operator, and what quotes, escapes or colours the secret.
const OPERATOR: &str = concat!(
    r#"[ \t\w.-]{0,20}(?:[\s'"\\]|%22|(?:\x1b|\\+(?:x1[Bb]|u001[Bb]|033|e))\[[0-9;]{0,9}m){0,5}"#,
    r"(?:=|>|:{1,3}=|\|\||:|=>|\?=|,|%3[AaDd]|[ \t]is[ \t])",
    r#"(?:[\x60'"\s=\\]|%2[0-9]|(?:\x1b|\\+(?:x1[Bb]|u001[Bb]|033|e))\[[0-9;]{0,9}m){0,6}"#,
);

/// What is before and between the lines of a key: white space, quotes, marks of comments, lists and changes, numbers and
/// names of files, escapes, colours and arrows.
const GAP: &str = concat!(
    r#"(?:[\s"'+,;:|>\#*/(){}\[\]!.$&\x60~=<-]|\\+[nrtu"'/]|%[0-9A-F][0-9A-F]|(?u:[→│┃▏»…\u{a0}\u{2028}])"#,
    r"|\x1b\[[0-9;]*[A-Za-z]|\\+(?:x1[Bb]|u001[Bb]|033|e)\[[0-9;]*m|<br\x20?/?>|&\#?[a-zA-Z0-9]{1,6};|[0-9]{1,7}",
    r"|[\w./~-]+[:-][0-9]{1,7}[:-])",
);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BuiltInRule {
    /// The name: part of what is stored, so it never changes its meaning.
    pub(super) name: String,
    /// What the secret is called, if only that makes it one.
    keys: Option<String>,
    /// The pattern of the secret, or of what has it as the group `secret`.
    secret: String,
    /// What is behind a secret with a name; nothing that could go on with it if there is no such pattern.
    end: Option<String>,
    /// No letter or digit is before a match.
    #[serde(default)]
    pub(super) word: bool,
    #[serde(default)]
    entropy: f32,
    #[serde(default)]
    pub(super) allow: Vec<String>,
    /// The same for the whole match.
    #[serde(default)]
    pub(super) allow_match: Vec<String>,
    /// The secret has a digit.
    #[serde(default)]
    digit: bool,
    /// The secret has none of the stopwords.
    #[serde(default)]
    stopwords: bool,
}

#[derive(Debug, Deserialize, Default)]
struct File {
    allow: Vec<String>,
    allow_words: Vec<String>,
    stopwords: String,
    rule: Vec<BuiltInRule>,
}

/// The built-in rules with what they share.
pub(super) struct AllKnown {
    pub(super) rules: Vec<BuiltInRule>,
    allow: Option<Regex>,
    allow_words: Arc<CheckWords>,
    stopwords: Arc<CheckWords>,
}

/// A test reads the file too: it can always be read.
pub(super) static KNOWN: LazyLock<AllKnown> = LazyLock::new(|| {
    let file: File = toml::from_str(include_str!("known.toml")).unwrap_or_default();
    let words = file.allow_words.iter().map(String::as_str);
    let stopwords = file.stopwords.split(' ').chain(words.clone());
    AllKnown {
        allow_words: Arc::new(CheckWords::new(words)),
        stopwords: Arc::new(CheckWords::new(stopwords)),
        allow: check::patterns(&file.allow),
        rules: file.rule,
    }
});

impl AllKnown {
    pub(super) fn get(&self, name: &str) -> Option<&BuiltInRule> {
        self.rules.iter().find(|known| known.name == name)
    }

    /// What a match of a rule has to be.
    pub(super) fn check(&self, known: &BuiltInRule) -> Check {
        let allow = self.allow.iter().cloned().chain(check::patterns(&known.allow)).collect();
        let without = Arc::clone(if known.stopwords { &self.stopwords } else { &self.allow_words });
        let allow_match = check::patterns(&known.allow_match);
        Check { entropy: known.entropy, has_digit: known.digit, allow, allow_match, without }
    }
}

impl BuiltInRule {
    /// The whole pattern. Classes are those of ASCII, where it does not say otherwise.
    pub(super) fn pattern(&self) -> String {
        let end = self.end.as_deref().unwrap_or(r"\b{end-half}");
        match &self.keys {
            Some(keys) => format!("(?i:{keys}){OPERATOR}(?P<secret>(?:{})){end}", self.secret),
            None => self.secret.replace("GAP", GAP),
        }
    }
}
