//! What a match has to be to be a secret.

use aho_corasick::AhoCorasick;
use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use std::sync::Arc;

/// Words of which a secret has none, in letters of any case.
#[derive(Debug)]
pub(super) struct Words(Option<AhoCorasick>);

impl Words {
    pub(super) fn new<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        let words = words.into_iter().filter(|word| !word.is_empty());
        Self(AhoCorasick::builder().ascii_case_insensitive(true).build(words).ok())
    }
}

/// Conditions on a match.
#[derive(Debug)]
pub(super) struct Check {
    /// Bits of a character of the secret: it has more.
    entropy: f32,
    has_digit: bool,
    /// Patterns of what is no secret.
    allow: Option<Regex>,
    without: Arc<Words>,
}

impl Check {
    /// The conditions of a built-in rule.
    pub(super) fn new<'a>(
        entropy: f32,
        has_digit: bool,
        allow: impl IntoIterator<Item = &'a str>,
        without: &Arc<Words>,
    ) -> Self {
        let patterns: Vec<&str> = allow.into_iter().collect();
        let ascii = syntax::Config::new().unicode(false).utf8(false);
        let allow = Regex::builder().syntax(ascii).build_many(&patterns).ok();
        Self { entropy, has_digit, allow, without: Arc::clone(without) }
    }

    /// True if its patterns and words can be used.
    #[cfg(test)]
    pub(super) fn is_whole(&self) -> bool {
        self.allow.is_some() && self.without.0.is_some()
    }

    /// True if it is a secret.
    pub(super) fn accepts(&self, secret: &str) -> bool {
        (self.entropy == 0.0 || entropy(secret) > self.entropy)
            && (!self.has_digit || secret.bytes().any(|byte| byte.is_ascii_digit()))
            && !self.allow.as_ref().is_some_and(|allow| allow.is_match(secret))
            && !self.without.0.as_ref().is_some_and(|words| words.is_match(secret))
    }
}

/// Bits of a byte of a text, by how often each is in it.
fn entropy(text: &str) -> f32 {
    let mut counts = [0_u32; 256];
    text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let share = |count: &u32| *count as f32 / text.len() as f32;
    counts.iter().filter(|count| **count > 0).map(share).map(|share| -share * share.log2()).sum()
}
